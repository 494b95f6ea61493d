"""Inputs of `lower` and `compile` from JAX and equinox: stages, exported functions, modules; and paths and contents of
files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import xla_wasm
from tests.support.processes import output
from tests.support.sharded_programs import devices
from xla_wasm import ArgumentError, Artifact, HloModule
from xla_wasm.jax import lower

X = np.arange(6, dtype=np.float32).reshape(2, 3)
KEY = jax.random.key(3)
ARGS = ({"w": X, "unused": X}, np.arange(3, dtype=np.float32), np.int32(4), KEY)


def program(params: Any, x: Any, unused: Any, key: Any) -> Any:
    return {"y": params["w"] @ x, "noise": jax.random.normal(key, (2,))}, x


def unused_between(a: Any, b: Any, c: Any, *, d: Any, e: Any) -> Any:
    return a + c + e


STAGES: dict[str, Callable[[Any], Any]] = {
    "jitted": lambda f: f,
    "traced": lambda f: f.trace(*ARGS),
    "lowered": lambda f: f.lower(*ARGS),
    "compiled": lambda f: f.lower(*ARGS).compile(),
    "exported": lambda f: export.export(f)(*ARGS),
}


def words(key: Any) -> Any:
    return np.asarray(jax.random.key_data(key))


@pytest.mark.parametrize("stage", STAGES)
def test_stages_keep_all_arguments_their_names_and_structure(stage: str) -> None:
    made = STAGES[stage](jax.jit(program))
    module = lower(made, *ARGS) if stage == "jitted" else lower(made)
    artifact = xla_wasm.compile(module)
    exe = xla_wasm.load(artifact)
    assert [r.name for r in exe.results] == ["0.noise", "0.y", "1"]
    names = [p.name for p in exe.parameters]
    assert names[:3] == ["params.unused", "params.w", "x"] and len(names) == 5
    assert artifact.manifest["structure"]["arguments"] == [["dict", ["unused", "w"], 0, 1], 2, 3, 4]
    assert artifact.manifest["structure"]["results"] == ["tuple", ["dict", ["noise", "y"], 0, 1], 2]
    expected, _ = jax.jit(program)(*ARGS)
    noise, y, x = exe.run(X, X, ARGS[1], np.int32(4), words(KEY))
    np.testing.assert_allclose(y, expected["y"], rtol=1e-6)
    np.testing.assert_allclose(noise, expected["noise"], rtol=1e-6)
    np.testing.assert_array_equal(x, ARGS[1])
    if stage != "jitted":
        assert xla_wasm.compile(made).manifest["parameters"] == artifact.manifest["parameters"]


@pytest.mark.parametrize("stage", ["trace", "lower", "compile"])
@pytest.mark.parametrize("x64", [False, True])
def test_arguments_that_a_stage_left_out_are_in_their_places(stage: str, x64: bool) -> None:
    """Of every type, also one that JAX has changed."""
    left_out = [
        np.int64(1),
        np.float16(2),
        np.arange(3, dtype=np.uint8),
        jnp.bfloat16(1),
        np.complex64(1),
        np.bool_(True),
        KEY,
    ]
    with jax.enable_x64(x64):
        for b in left_out:
            args, named = (np.float32(1), b, np.float32(10)), {"e": np.float32(100), "d": b}
            f = jax.jit(unused_between)
            made = f.trace(*args, **named) if stage == "trace" else f.lower(*args, **named)
            module = lower(made.compile() if stage == "compile" else made)
            leaves = [words(v) if v is KEY else v for v in (*args, b, np.float32(100))]
            exe = xla_wasm.load(xla_wasm.compile(module))
            canonical = [np.asarray(v).astype(jax.dtypes.canonicalize_dtype(np.asarray(v).dtype)) for v in leaves]
            assert exe.run(*canonical)[0] == 111
            names = [p.name for p in exe.parameters]
            assert (names[0], names[2:]) == ("a", ["c", "d", "e"])


def test_donated_arguments_of_a_stage_are_the_right_ones() -> None:
    lowered = jax.jit(unused_between, donate_argnums=2).lower(X, 1.0, X, d=1.0, e=X)
    assert [alias[1] for alias in lower(lowered).input_output_alias] == [2]


def test_stages_have_their_arguments() -> None:
    with pytest.raises(ArgumentError, match=r"a jax.stages.Lowered has its arguments already"):
        lower(jax.jit(jnp.sin).lower(X), X)


def test_exported_functions_with_symbolic_sizes() -> None:
    b, more, three = export.symbolic_shape("b, 2*b + 1, 3")
    sizes = jax.ShapeDtypeStruct((b, three), np.float32), jax.ShapeDtypeStruct((more,), np.float32)
    exported = export.export(jax.jit(lambda x, y: (jnp.tanh(x), y.sum())))(*sizes)
    y = np.ones(5, np.float32)
    got = xla_wasm.load(xla_wasm.compile(exported, args=(X, y))).run(X, y)
    np.testing.assert_allclose(got[0], np.tanh(X), rtol=1e-6)
    assert got[1] == 5
    for wrong in ((X, X[0]), (X.T, y)):
        with pytest.raises(ArgumentError, match=r"was exported for float32\[.*\], and an argument has the sizes \["):
            lower(exported, *wrong)
    with pytest.raises(ArgumentError, match="was exported for arguments"):
        lower(exported, X)
    with pytest.raises(ArgumentError, match="the program has symbolic sizes: give b"):
        xla_wasm.compile(exported)


# --- equinox ----------------------------------------------------------------------------------------------------------


class Net(eqx.Module):
    """Leaves of all kinds: arrays, an activation, a number and a switch that Python looks at."""

    linear: eqx.nn.Linear
    activation: Callable[[Any], Any]
    scale: float
    is_on: bool
    name: str

    def __call__(self, x: Any) -> Any:
        y = self.activation(self.linear(x)) * self.scale
        return y if self.is_on and self.name == "net" else -y


def net(scale: float = 2.0, is_on: bool = True) -> Net:
    return Net(eqx.nn.Linear(3, 2, key=jax.random.key(0)), jax.nn.gelu, scale, is_on, "net")


@pytest.mark.parametrize("is_on", [True, False])
def test_modules_are_functions_and_arguments(is_on: bool) -> None:
    model, x = net(is_on=is_on), X[0]
    expected = model(x)
    for fn, args, names in (
        (model, (x,), ["x"]),
        (eqx.filter_jit(model), (x,), ["x"]),
        (jax.vmap(model), (X,), None),
        (lambda model, x: model(x), (model, x), ["model.linear.weight", "model.linear.bias", "x"]),
        (eqx.filter_jit(lambda model, x: model(x)), (model, x), ["model.linear.weight", "model.linear.bias", "x"]),
        (jax.jit(lambda model, x: model(x)), (model, x), ["model.linear.weight", "model.linear.bias", "x"]),
    ):
        exe = xla_wasm.load(xla_wasm.compile(lower(fn, *args)))
        assert names is None or [p.name for p in exe.parameters] == names
        arrays = [
            np.asarray(leaf) for leaf in jax.tree.leaves(args) if eqx.is_array(leaf) or isinstance(leaf, np.ndarray)
        ]
        result = exe.run(*arrays)[0]
        np.testing.assert_allclose(result[0] if result.ndim == 2 else result, expected, rtol=1e-5)


def test_numbers_of_a_filtered_function_are_static() -> None:
    module = lower(eqx.filter_jit(lambda x, n, flag: x * n if flag else x), X, 3, True)
    assert [p.shape.dimensions for p in module.entry.parameters] == [X.shape]


def test_modules_as_results() -> None:
    artifact = xla_wasm.compile(lower(eqx.filter_jit(lambda model, x: (model, x + 1)), net(), X))
    assert [r["name"] for r in artifact.manifest["results"]] == ["0.linear.weight", "0.linear.bias", "1"]


# --- what compile takes
# -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["hlo", "pb", "mlir", "jax_export"])
@pytest.mark.parametrize("kind", [str, Path])
def test_paths(suffix: str, kind: Any, tmp_path: Path) -> None:
    lowered, path = jax.jit(jnp.sin).lower(X), tmp_path / f"with space.{suffix}"
    content = {
        "hlo": lambda: lowered.as_text("hlo").encode(),
        "pb": lambda: lowered.compiler_ir("hlo").as_serialized_hlo_module_proto(),
        "mlir": lambda: lowered.as_text().encode(),
        "jax_export": lambda: bytes(export.export(jax.jit(jnp.sin))(X).serialize()),
    }[suffix]()
    path.write_bytes(content)
    for source in (kind(path), content):
        np.testing.assert_allclose(xla_wasm.load(xla_wasm.compile(source)).run(X)[0], np.sin(X), rtol=1e-6)
    text = "HloModule m ENTRY e { ROOT x = f32[2] parameter(0) }"
    assert xla_wasm.compile(text).manifest["name"] == "m", "a text of one line with a computation is no path"


def test_functions_with_arguments() -> None:
    artifact = xla_wasm.compile(jax.jit(lambda x, n: x * n, static_argnums=1), args=(X, 3))
    np.testing.assert_array_equal(xla_wasm.load(artifact).run(X)[0], X * 3)


CASES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a function": (
        lambda _: xla_wasm.compile(program),
        r"'program' is a function, which is traced on arguments: compile\(f, args=\(x,\)\)",
    ),
    "a number": (
        lambda _: xla_wasm.compile(3),
        "compile takes a module, the path or the content of its file.*; not int",
    ),
    "no file": (
        lambda _: xla_wasm.compile("nothing.hlo"),
        "cannot read 'nothing.hlo', a path of a file with HLO .*: No such file",
    ),
    "a folder": (lambda folder: xla_wasm.compile(folder), "cannot read '.*', a path of a file .*: Is a directory"),
    "an artifact": (lambda _: xla_wasm.compile(artifact()), "<Artifact .*> is compiled already: load it"),
    "its path": (
        lambda folder: xla_wasm.compile(artifact().save(folder / "a.wasm")),
        "a.wasm' is compiled already: xla_wasm.load reads it",
    ),
    "arguments for none": (lambda _: xla_wasm.compile(b"", args=(X,)), "args are for a JAX function; bytes is none"),
    "one argument": (
        lambda _: xla_wasm.compile(jnp.sin, args=X),
        r"args is a tuple of arguments, as in compile\(f, args=\(x,\)\); got ndarray",
    ),
}


def artifact() -> Artifact:
    return xla_wasm.compile(lower(jnp.sin, X))


@pytest.mark.parametrize("case", CASES)
def test_what_compile_does_not_take(case: str, tmp_path: Path) -> None:
    call, message = CASES[case]
    with pytest.raises(ArgumentError, match=message):
        call(tmp_path)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text("HloModule m\nENTRY e { ROOT x = f32[2] nothing() }")
    with pytest.raises(xla_wasm.XlaWasmError, match=r"m\.hlo: "):
        xla_wasm.compile(tmp_path / "m.hlo")


def test_compiling_without_jax_never_imports_it(tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text("HloModule m\nENTRY e { ROOT x = f32[2] parameter(0) }")
    work = (
        f"import sys, xla_wasm; xla_wasm.compile({str(tmp_path / 'm.hlo')!r}); print('jax' in sys.modules, 'numpy' "
        f"in sys.modules)"
    )
    assert output([sys.executable, "-c", work]).split() == ["False", "False"]
    work = (
        "import sys, xla_wasm\ntry: xla_wasm.compile(object())\nexcept xla_wasm.XlaWasmError as e: print('jax' in "
        "sys.modules, e)"
    )
    assert output([sys.executable, "-c", work]).startswith("False compile takes a module")


@pytest.mark.parametrize("keeps", [True, False])
def test_arguments_that_nobody_reads_on_several_devices(keeps: bool) -> None:
    """JAX leaves them out of what it has compiled; callers give them whole, as the others."""
    mesh = devices(x=2, y=2)
    rows, blocks, whole = (NamedSharding(mesh, P(*axes)) for axes in (("x",), ("y", "x"), ()))

    def f(params: Any, x: Any, unused: Any) -> Any:
        return {"a": x * 2, "b": params["w"] @ params["w"]}

    x, w = np.arange(8, dtype=np.float32), np.arange(16, dtype=np.float32).reshape(4, 4)
    args = {"u": np.ones((3, 5), np.int32), "w": w, "z": np.float32(3)}, x, x
    shardings = {"u": whole, "w": blocks, "z": whole}, rows, rows
    compiled = jax.jit(f, in_shardings=shardings, keep_unused=keeps).lower(*args).compile()
    exe = xla_wasm.load(xla_wasm.compile(compiled))
    expected, results = compiled(*args), exe.call(*args)
    for name in ("a", "b"):
        np.testing.assert_array_equal(results[name], expected[name])
    again = HloModule.from_proto(xla_wasm.jax.lower(compiled).to_proto())
    flat = xla_wasm.load(xla_wasm.compile(again)).run_global([args[0]["u"], w, args[0]["z"], x, x])
    np.testing.assert_array_equal(flat[1], expected["b"])
