"""Python functions that JAX programs call: where they go along, where they cannot, and where nobody ever reaches
them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import io_callback

import xla_wasm
from tests.support.wasi_commands import command, run
from tests.support.wasi_servers import serving
from xla_wasm import ArgumentError, ArtifactError, Options, RunError, UnsupportedError
from xla_wasm.artifact import Artifact
from xla_wasm.hlo.ir import Module
from xla_wasm.jax import lower
from xla_wasm.ops.custom import callback

X = np.arange(3, dtype=np.float32)


def sine(x: Any) -> Any:
    return jax.pure_callback(lambda a: np.sin(a), jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def guarded(x: Any) -> Any:
    """Calls Python where the sum is negative."""
    return lax.cond(x.sum() < 0, sine, lambda x: x * 2, x)


def loaded(f: Any, *args: Any, **options: Any) -> Any:
    return xla_wasm.load(xla_wasm.compile(lower(f, *args), Options(**options)))


def from_a_file(f: Any, *args: Any) -> Any:
    """The same program after it was a file, which holds no functions."""
    return xla_wasm.load(Artifact.open(xla_wasm.compile(lower(f, *args)).wasm))


def test_functions_go_along_with_the_module(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[float] = []

    def f(x: Any) -> Any:
        jax.debug.print("sum {n:.2f} of {x}", x=x, n=x.sum())
        jax.debug.callback(lambda a: seen.append(float(a)), x[1])
        count = io_callback(lambda a: np.int32(a.size), jax.ShapeDtypeStruct((), jnp.int32), x, ordered=True)
        return sine(x) + 1, count

    expected = [np.asarray(r) for r in jax.jit(f)(X)]
    jax.effects_barrier()
    line = capsys.readouterr().out
    assert line == "sum 3.00 of [0. 1. 2.]\n" and len(seen) == 1
    module = lower(f, X)
    for made in (xla_wasm.load(xla_wasm.compile(module)).run(X), xla_wasm.evaluate(module, X)):
        np.testing.assert_allclose(made[0], expected[0], rtol=1e-6)
        assert made[1] == 3
    assert seen == [1, 1, 1] and capsys.readouterr().out == 2 * line


def test_names_are_kept_beside_tokens() -> None:
    """An ordered callback makes JAX give the program a token, which is neither a parameter nor a result."""

    def f(weights: Any) -> Any:
        io_callback(lambda a: None, None, weights["b"], ordered=True)
        return {"y": weights["b"] + 1}

    exe = loaded(f, {"b": X})
    assert [p.name for p in exe.parameters] == ["weights.b"] and [r.name for r in exe.results] == ["y"]


def test_callbacks_run_in_the_order_of_the_program_and_as_often() -> None:
    calls: list[int] = []

    def note(i: Any) -> None:
        calls.append(int(i))

    def f(n: Any) -> Any:
        def body(i: Any, total: Any) -> Any:
            io_callback(note, None, i, ordered=True)
            lax.cond(i % 2 == 0, lambda: io_callback(note, None, i * 100, ordered=True), lambda: None)
            return total + i

        return lax.fori_loop(0, n, body, jnp.int32(0))

    exe = loaded(f, np.int32(0))
    (total,) = exe.run(np.int32(4))
    assert total == 6 and calls == [0, 0, 1, 2, 200, 3]


def test_a_branch_that_is_not_taken_calls_nobody() -> None:
    exe = from_a_file(guarded, X)
    np.testing.assert_array_equal(exe.run(X)[0], 2 * X)
    with pytest.raises(
        RunError,
        match=r"reached callback 'pure_callback.*\(jit\(guarded\)/cond/.*test_callbacks.py:\d+\).*'callback 0'",
    ):
        exe.run(-X)
    np.testing.assert_array_equal(exe.run(X)[0], 2 * X)


def test_a_function_may_be_given_for_one_that_stayed_behind() -> None:
    artifact = Artifact.open(xla_wasm.compile(lower(sine, X)).wasm)
    np.testing.assert_array_equal(
        xla_wasm.load(artifact, custom_calls={"callback 0": lambda x: x + 1}).run(X)[0], X + 1
    )
    with pytest.raises(ArgumentError, match="must return 1 array "):
        xla_wasm.load(artifact, custom_calls={"callback 0": lambda x: (x, x)}).run(X)


def test_prints_survive_in_files(capsys: pytest.CaptureFixture[str]) -> None:
    """The same lines as JAX prints, from an artifact that has no functions."""
    complex_number, half = np.array([1 + 2j], np.complex64), np.float16(0.1)

    def f(x: Any, n: Any, z: Any, h: Any) -> Any:
        jax.debug.print("plain")
        jax.debug.print("{} then {}", n, x)
        jax.debug.print("{1} before {0}", n, x)
        jax.debug.print("{x!s:>5} {{}} {name} {n:5d}", x=n, n=n, name="constant {}")
        jax.debug.print("{z} {h} {b}", z=z, h=h, b=n > 3, ordered=True)
        return x

    args = X, np.int32(7), complex_number, half
    jax.jit(f)(*args)
    jax.effects_barrier()
    expected = sorted(capsys.readouterr().out.splitlines())
    assert len(expected) == 5
    for exe in (loaded(f, *args), from_a_file(f, *args)):
        exe.run(*args)
        assert sorted(capsys.readouterr().out.splitlines()) == expected


def test_prints_of_more_than_arrays_are_no_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """They need Python's objects: where the function is not there, the run ends."""
    fields: list[tuple[str, dict[str, Any], str]] = [
        ("{tree}", {"tree": {"a": X}}, "{'a': Array([0., 1., 2.], dtype=float32)}"),
        ("{x!r}", {"x": X}, "Array([0., 1., 2.], dtype=float32)"),
        ("{x.shape}", {"x": X}, "(3,)"),
        ("{x[1]}", {"x": X}, "1.0"),
        ("{n:{width}d}", {"n": np.int32(7), "width": 5}, "    7"),
        ("{n:x}", {"n": np.int32(255)}, "ff"),
        ("{n:*>5}", {"n": np.int32(7)}, "****7"),
    ]
    for line, values, printed in fields:

        def f(x: Any, line: str = line, values: dict[str, Any] = values) -> Any:
            jax.debug.print(line, **values)
            return x

        loaded(f, X).run(X)
        assert capsys.readouterr().out == printed + "\n"
        with pytest.raises(RunError, match="not here"):
            from_a_file(f, X).run(X)


def test_modes() -> None:
    seen: list[int] = []

    def f(x: Any) -> Any:
        jax.debug.callback(lambda a: seen.append(len(a)), x)
        return sine(x)

    with pytest.raises(RunError, match=r"compiled to end \(callbacks='trap'\)"):
        loaded(f, X, callbacks="trap").run(X)
    assert not seen
    np.testing.assert_allclose(loaded(f, X, callbacks="drop").run(X)[0], np.sin(X), rtol=1e-6)
    assert not seen
    loaded(f, X).run(X)
    assert seen == [3]
    artifact = xla_wasm.compile(
        lower(lambda x: io_callback(lambda a: None, None, x, ordered=True), X), Options(callbacks="drop")
    )
    assert not artifact.manifest["requests"]
    with pytest.raises(ArgumentError, match="unknown callbacks 'keep': choose one of host, trap, drop"):
        Options(callbacks="keep")


def test_what_a_function_raises_ends_the_run() -> None:
    def f(x: Any) -> Any:
        def check(a: Any) -> Any:
            if a[0] < 0:
                raise ValueError("negative")
            return a

        return jax.pure_callback(check, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    exe = loaded(f, X)
    with pytest.raises(RunError, match="callback 'pure_callback.*failed: ValueError: negative"):
        exe.run(X - 5)
    np.testing.assert_array_equal(exe.run(X)[0], X)


def test_wide_types() -> None:
    """A function runs with the types that JAX had when the program was lowered."""
    with jax.enable_x64(True):
        x = np.array([1, 2**40], np.int64)
        module = lower(
            lambda x: jax.pure_callback(lambda a: np.asarray(a) + 1, jax.ShapeDtypeStruct((2,), jnp.int64), x), x
        )
    np.testing.assert_array_equal(xla_wasm.load(xla_wasm.compile(module)).run(x)[0], x + 1)


def test_a_program_by_itself_ends_where_it_reaches_python(tmp_path: Path) -> None:
    module = lower(guarded, X)
    done = run(command(module), tmp_path / "a", "--json", "-", stdin=b"[1, 2, 3]")
    assert done.json == {"result": [2, 4, 6]}
    done = run(command(module), tmp_path / "b", "--json", "-", stdin=b"[-1, -2, -3]")
    assert done.code == 3 and "Python function" in done.err and "test_callbacks.py:" in done.err
    with serving(
        xla_wasm.compile(module, Options(kind="server")), tmp_path, "--max-instance-reuse-count=100"
    ) as server:
        for _ in range(3):
            assert server.ask("POST", "/", b"[1, 2, 3]").json == {"result": [2, 4, 6]}
            answer = server.ask("POST", "/", b"[-1, -2, -3]")
            assert answer.status == 500 and "Python function" in answer.json["error"]["message"]
            assert "test_callbacks.py" in answer.json["error"]["field"]


ADDRESSED = """HloModule m
ENTRY e {
  d = u64[] constant(140000000)
  x = f32[3] parameter(0)
  ROOT y = (f32[3]) custom-call(d, x), custom_call_target="xla_python_cpu_callback", backend_config="140000000"
}
"""


def test_callbacks_of_other_tools_are_known_by_their_instruction() -> None:
    """JAX gave addresses of its process once."""
    artifact = xla_wasm.compile(Module.from_text(ADDRESSED))
    with pytest.raises(RunError, match="'callback y': function"):
        xla_wasm.load(artifact).run(X)
    exe = xla_wasm.load(artifact, custom_calls={"callback y": lambda d, x: x + 1})
    np.testing.assert_array_equal(exe.run(X)[0], X + 1)
    with pytest.raises(UnsupportedError, match="'callback y'"):
        xla_wasm.evaluate(Module.from_text(ADDRESSED), X)


LINES = [
    "{5}",
    "{",
    "}",
    "{}",
    "{0:zz}",
    "{0.__class__}",
    "{0.base}",
    "{0[0]}",
    "{0:{0}}",
    "{0:>3000000000}",
    "{0:.1000f}",
    "{0!x}",
]


@pytest.mark.parametrize("formats", ["{", "[]", '{"0": 3}', '"x"', *(f'{{"0": "{line}"}}' for line in LINES)])
def test_formats_of_strangers_are_harmless(formats: str) -> None:
    text = (
        'ENTRY e {\n x = f32[] parameter(0)\n c = () custom-call(x), custom_call_target="xla_ffi_python_cpu_callback",'
    )
    text += " custom_call_has_side_effect=true, backend_config={index = 0 : ui64}\n ROOT y = f32[] negate(x)\n}\n"
    module = Module.from_text("HloModule m\n" + text)
    module.frontend_attributes[callback.FORMATS] = formats
    exe = xla_wasm.load(xla_wasm.compile(module))
    with pytest.raises(RunError):
        exe.run(X[1])


def test_manifests_state_what_a_callback_is() -> None:
    artifact = xla_wasm.compile(lower(guarded, X))
    (request,) = artifact.manifest["requests"]
    assert (
        request["kind"] == "callback" and request["target"] == "callback 0" and "test_callbacks.py:" in request["place"]
    )
    for key in ("place", "format"):
        manifest = json.loads(json.dumps(artifact.manifest))
        del manifest["requests"][0][key]
        with pytest.raises(ArtifactError, match=key):
            xla_wasm.load(Artifact(artifact.wasm, manifest))


def test_lines_of_strangers_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Nor Python's objects, in a print or in what says that inputs do not fit."""

    def f(x: Any) -> Any:
        jax.debug.print("x {x}", x=x)
        return x

    module = lower(f, X)
    for line, printed in (
        ("\x1b[2J{0}", "\u241b[2J[0. 1. 2.]\n"),
        ("{0.__class__}", None),
        ("{0:99999}", None),
        ("{0!r}", "array([0., 1., 2.], dtype=float32)\n"),
    ):
        module.frontend_attributes[callback.FORMATS] = json.dumps({"0": line})
        exe = xla_wasm.load(Artifact.open(xla_wasm.compile(module).wasm))
        if printed is None:
            with pytest.raises(RunError, match="is no number of an operand"):
                exe.run(X)
        else:
            exe.run(X)
            assert capsys.readouterr().out == printed
