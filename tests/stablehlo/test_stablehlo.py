"""StableHLO as HLO modules: the values of what jaxlib writes are those of the HLO that it makes of the same program."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import xla_wasm.jax
from tests.programs.hunt_stablehlo import check
from tests.support import closeness
from tests.support.closeness import assert_all, equal
from tests.support.samples import check_host
from tests.support.stablehlo_files import CAPTURES, artifact_of, bytecode_of, parsed, to_hlo
from tests.support.stablehlo_samples import sample_modules
from tests.support.whole_programs import PROGRAMS
from xla_wasm import HloModule, evaluate
from xla_wasm.errors import ArgumentError, ParseError, UnsupportedError, VerifyError, XlaWasmError
from xla_wasm.hlo.signature import parameter_leaves, result_leaves
from xla_wasm.hlo.verify import verify
from xla_wasm.mlir.bytecode_tables import _properties
from xla_wasm.ops.sample import Sample
from xla_wasm.reference import evaluate_replicated
from xla_wasm.stablehlo.rules import RULES, plan_of


def test_samples_of_all_operations() -> None:
    for sample, module in sample_modules():
        read = HloModule.from_stablehlo(bytecode_of(module))
        verify(read)
        if isinstance(sample, Sample):
            given = sample.host.arguments()
            results, expected, ulp = [evaluate(read, *sample.args, **given)], [sample.expected], min(sample.ulp, 1)
            check_host(sample, given)
        else:
            results = evaluate_replicated(read, sample.args, sample.replicas, sample.partitions)
            expected, ulp = list(sample.expected), 0
        for actual, wanted in zip(results, expected, strict=True):
            for i, (a, b) in enumerate(zip(actual, wanted, strict=True)):
                closeness.assert_same(a, b, ulp, f"{sample.name} {i}")


def test_every_operation_with_properties_is_mapped_or_refused_by_name() -> None:
    """The operations that are listed here are refused with their names, and no others."""
    control = {"while", "if", "case", "composite", "async_start", "async_done"}
    names = {name.removeprefix("stablehlo.") for name in _properties() if name.startswith("stablehlo.")}
    lacking = {n for n in names - control if plan_of(f"stablehlo.{n}") is None and f"stablehlo.{n}" not in RULES}
    assert lacking == {"collective_reduce"}


SOME = (
    "digits_train_sgd",
    "transformer_gradient",
    "lstm_gradient",
    "k_means",
    "sorts",
    "embedding",
    "solving",
    "branches",
    "unused_argument",
    "gpt_generates",
    "threefry_exact",
    "rbg_exact",
    "fft_gradient",
    "ode_adaptive",
)


@pytest.mark.parametrize("name", SOME)
def test_programs_that_jax_exports(name: str) -> None:
    """Values are those of the HLO that jaxlib makes, names those of `lower`."""
    program = PROGRAMS[name]()
    with jax.enable_x64(program.x64):
        data = export.export(jax.jit(program.fn), platforms=["cpu"])(*program.args).serialize()
        lowered = xla_wasm.jax.lower(program.fn, *program.args)
        hlo = jax.jit(program.fn, keep_unused=True).lower(*program.args).compiler_ir("hlo")
    module = HloModule.from_exported(data)
    verify(module)
    assert leaves(module) == leaves(lowered)
    arguments = jax.tree.leaves(program.args)
    expected = evaluate(HloModule.from_proto(hlo.as_serialized_hlo_module_proto()), *arguments)
    for form in (module, lowered):
        assert_all(evaluate(form, *arguments), expected)


def leaves(module: HloModule) -> Any:
    return [[(name, shape.without_layout()) for name, shape in of(module)] for of in (parameter_leaves, result_leaves)]


def exported(fn: Any, *args: Any, **options: Any) -> bytes:
    return export.export(jax.jit(fn), **{"platforms": ["cpu"], **options})(*args).serialize()


ONES = np.ones(4, np.float32)


def test_names_of_inputs_and_outputs() -> None:
    def f(x: Any, p: Any, unused: Any, *, scale: Any) -> Any:
        return {"sum": x + p["w"][1], "pair": (x * scale, p["w"][0] * 2)}

    args = (ONES, {"w": [ONES, ONES * 2], "b": ONES}, ONES)
    module = HloModule.from_exported(export.export(jax.jit(f), platforms=["cpu"])(*args, scale=ONES).serialize())
    names = [[name for name, _ in of(module)] for of in (parameter_leaves, result_leaves)]
    assert names == [["x", "p.b", "p.w.0", "p.w.1", "arg2", "scale"], ["pair.0", "pair.1", "sum"]]
    np.testing.assert_array_equal(evaluate(module, ONES, ONES, ONES, ONES * 3, ONES, ONES)[2], ONES * 4)


def test_donated_arguments_are_aliases() -> None:
    jitted = jax.jit(lambda x, y: (x + 1, y * 2), donate_argnums=(1,), keep_unused=True)
    module = HloModule.from_exported(export.export(jitted, platforms=["cpu"])(ONES, ONES).serialize())
    assert module.input_output_alias == [((0,), 1, (), "may-alias")] or module.buffer_donor == [(1, ())]


def test_platforms_other_than_the_cpu_are_left_out() -> None:
    def f(x: Any) -> Any:
        return jax.lax.platform_dependent(x, cpu=lambda x: x + 1, tpu=lambda x: x * 5)

    module = HloModule.from_exported(exported(f, ONES, platforms=["tpu", "cpu"]))
    np.testing.assert_array_equal(evaluate(module, ONES)[0], ONES + 1)
    assert not any(x.opcode == "conditional" for x in module.instructions())


@pytest.mark.parametrize("write", [bytecode_of, artifact_of])
@pytest.mark.parametrize("n", [-1, 0, 1, 2, 3])
def test_regions_see_what_is_around_them(write: Any, n: int) -> None:
    module = HloModule.from_stablehlo(write(parsed(CAPTURES)))
    verify(module)
    expected = HloModule.from_proto(to_hlo(bytecode_of(parsed(CAPTURES))))
    x = np.array([1, -2, 4], np.float32)
    assert_all(evaluate(module, np.int32(n), x), evaluate(expected, np.int32(n), x), equal)


def test_text_of_the_module_is_read_again() -> None:
    """Names of instructions and computations differ, so that HLO text says the same."""
    module = HloModule.from_stablehlo(bytecode_of(parsed(CAPTURES)))
    again = HloModule.from_text(module.to_text())
    assert again.to_text() == module.to_text()
    x = np.array([1, -2, 4], np.float32)
    assert_all(evaluate(module, np.int32(2), x), evaluate(again, np.int32(2), x), equal)


def stablehlo(body: str, results: str = "tensor<3xf32>", arguments: str = "%x: tensor<3xf32>") -> bytes:
    return bytecode_of(parsed(f"func.func @main({arguments}) -> ({results}) {{\n{body}\n}}"))


def test_a_function_that_calls_itself() -> None:
    data = stablehlo("%0 = call @main(%x) : (tensor<3xf32>) -> tensor<3xf32>\nreturn %0 : tensor<3xf32>")
    with pytest.raises(VerifyError, match="'main' calls itself"):
        HloModule.from_stablehlo(data)


def test_open_sizes_need_the_users() -> None:
    data = stablehlo("return %x : tensor<?x3xf32>", "tensor<?x3xf32>", "%x: tensor<?x3xf32>, %y: tensor<2xf32>")
    advice = r"argument (\w+) of 'main' has sizes that are left open: .* shapes=(\{.*\})\), .* --dim \1=8,3$"
    with pytest.raises(UnsupportedError, match=advice) as caught:
        HloModule.from_stablehlo(data)
    found = re.search(advice, str(caught.value))
    assert found is not None
    name, advised = found[1], ast.literal_eval(found[2])
    assert HloModule.from_stablehlo(data, shapes=advised).entry.root.shape.dimensions == (8, 3)
    for shapes in ([(5, 3), None], [(np.int64(5), 3), (2,)], [[5, 3], None], {name: (5, 3)}):
        assert HloModule.from_stablehlo(data, shapes=shapes).entry.root.shape.dimensions == (5, 3)
    for wrong in ((5, 4), (5,), (True, 3), (-1, 3), (2**31, 3), (5.0, 3), 5, "53"):
        with pytest.raises(ArgumentError, match=r"is tensor<\?x3xf32>, and cannot have the sizes"):
            HloModule.from_stablehlo(data, shapes=[wrong, None])
    with pytest.raises(ArgumentError, match="shapes are given for 1"):
        HloModule.from_stablehlo(data, shapes=[(5, 3)])
    with pytest.raises(ArgumentError, match=r"tensor<\?x3xf32>, are left open: give them in shapes"):
        HloModule.from_stablehlo(data, shapes=[None, None])


def test_what_is_no_stablehlo() -> None:
    with pytest.raises(ParseError, match="from_exported"):
        HloModule.from_stablehlo(exported(lambda x: x, ONES))
    with pytest.raises(ParseError, match="not UTF-8"):
        HloModule.from_stablehlo(b"\xff\xfe")
    with pytest.raises(ParseError, match="jax.export"):
        HloModule.from_exported(b"\x04\x00\x00\x00" * 8)


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        ("return %a, %a : tensor<3xf32>, tensor<3xf32>", "'main' declares 1 result, and has 2"),
        ("return", "'main' declares 1 result, and has 0"),
        (
            "return %i : tensor<i32>",
            "result 0 of 'main' is of another type than declared: it is tensor<i32>, not tensor<3xf32>",
        ),
        ("", "a block must end in a return; this one is empty"),
        (
            "%0 = call @f(%a) : (tensor<3xf32>) -> tensor<3xf32> return %0 : tensor<3xf32>",
            "result 0 of 'f' is of another type",
        ),
    ],
)
def test_functions_return_what_they_declare(lines: str, error: str) -> None:
    main = f"func.func @main(%a: tensor<3xf32>, %i: tensor<i32>) -> tensor<3xf32> {{ {lines} }}"
    other = "func.func private @f(%a: tensor<3xf32>) -> tensor<4xf32> { return %a : tensor<3xf32> }"
    with pytest.raises(XlaWasmError, match=re.escape(error)):
        HloModule.from_stablehlo(f"module {{ {main} {other} }}")


def test_formats_are_told_apart() -> None:
    program = PROGRAMS["branches"]()
    jitted = jax.jit(program.fn)
    lowered = jitted.lower(*program.args)
    proto = lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()
    tree = lowered.compiler_ir("stablehlo")
    files = [
        proto,
        HloModule.from_proto(proto).to_text(),
        HloModule.from_proto(proto).to_text().encode(),
        bytecode_of(tree),
        artifact_of(tree),
        exported(program.fn, *program.args),
    ]
    arguments = jax.tree.leaves(program.args)
    expected = evaluate(HloModule.from_proto(proto), *arguments)
    for data in (*files, bytearray(files[3]), memoryview(files[5])):
        assert_all(evaluate(HloModule.from_bytes(data), *arguments), expected)
    assert xla_wasm.compile(files[5]).wasm == xla_wasm.compile(HloModule.from_exported(files[5])).wasm


def test_a_reader_names_the_other() -> None:
    data = exported(lambda x: x + 1, ONES)
    with pytest.raises(UnsupportedError, match="from_exported"):
        HloModule.from_proto(data)
    with pytest.raises(UnsupportedError, match="from_stablehlo"):
        HloModule.from_proto(stablehlo("return %x : tensor<3xf32>"))


@pytest.mark.parametrize("kind", ["jax", "family"])
def test_random_programs(kind: str) -> None:
    """A few of those that `hunt_stablehlo.py` goes through by thousands."""
    with np.errstate(all="ignore"):
        outcomes = [check(kind, seed) for seed in range(20)]
    assert outcomes.count("equal") > 12, outcomes


def test_inputs_of_every_kind() -> None:
    def f(key: Any, flag: Any, *rest: Any, **named: Any) -> Any:
        return jax.random.uniform(key, (3,)), ~flag, [r + 1 for r in rest], None, named["last"]["b"]

    key = jax.random.key(3)
    rest = (
        jnp.ones(2, jnp.bfloat16),
        jnp.ones(2, jnp.int4),
        jnp.ones((0, 2), jnp.complex64),
        jnp.ones((), jnp.float8_e4m3fn),
    )
    named = {"last": {"a": ONES, "b": jnp.ones(1, jnp.uint8)}}
    flag = np.array([True, False])
    data = export.export(jax.jit(f), platforms=["cpu"])(key, flag, *rest, **named).serialize()
    module = HloModule.from_exported(data)
    lowered = xla_wasm.jax.lower(f, key, flag, *rest, **named)
    assert [str(shape.without_layout()) for _, shape in leaves(module)[0]] == [
        str(s.without_layout()) for _, s in leaves(lowered)[0]
    ]
    assert [name for name, _ in leaves(module)[0]] == [
        "key",
        "flag",
        "rest.0",
        "rest.1",
        "rest.2",
        "rest.3",
        "last.a",
        "last.b",
    ]
    assert leaves(module)[1] == leaves(lowered)[1]
    arrays = [
        np.asarray(jax.random.key_data(key)),
        flag,
        *map(np.asarray, (*rest, named["last"]["a"], named["last"]["b"])),
    ]
    assert_all(evaluate(module, *arrays), evaluate(lowered, *arrays))


def test_nothing_in_and_nothing_out() -> None:
    assert evaluate(HloModule.from_exported(exported(lambda: None))) == []
    (array,) = evaluate(HloModule.from_exported(exported(lambda: jnp.arange(3))))
    assert array.tolist() == [0, 1, 2]


@jax.tree_util.register_dataclass
@dataclass
class Point:
    x: Any
    y: Any


export.register_pytree_node_serialization(
    Point, serialized_name="tests.Point", serialize_auxdata=lambda _: b"", deserialize_auxdata=lambda _: ()
)


def test_names_of_fields() -> None:
    def f(p: Point) -> Point:
        return Point(p.y, p.x * 2)

    module = HloModule.from_exported(exported(f, Point(ONES, ONES)))
    assert [[name for name, _ in side] for side in leaves(module)] == [["p.x", "p.y"], ["x", "y"]]


def test_ordered_effects_make_tokens() -> None:
    def f(x: Any) -> Any:
        jax.debug.print("x is {x}", x=x, ordered=True)
        return x + 1

    lowered = jax.jit(f).lower(ONES).compiler_ir("stablehlo")
    with_tokens = HloModule.from_stablehlo(bytecode_of(lowered))
    verify(with_tokens)
    assert [shape.is_token for _, shape in with_tokens.entry.root.shape.leaves()].count(False) == 1
