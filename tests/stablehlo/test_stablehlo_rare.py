# ruff: noqa: E501
"""Operations that JAX rarely or never writes: what they give is what the HLO gives that jaxlib makes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support import closeness
from tests.support.closeness import assert_all
from tests.support.differential import run
from tests.support.stablehlo_files import artifact_of, bytecode_of, parsed, to_hlo
from xla_wasm import HloModule, evaluate
from xla_wasm.errors import ParseError, UnsupportedError
from xla_wasm.hlo.ir import Module
from xla_wasm.hlo.verify import verify
from xla_wasm.reference import evaluate_replicated

A, B, C, V = "tensor<5x4xf32>", "tensor<3x4x6xf32>", "tensor<2x5x4xf32>", "tensor<4xf32>"
I32 = "tensor<3xi32>"
RAGGED = "#chlo.ragged_dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [{}], rhs_contracting_dimensions = [{}], lhs_ragged_dimensions = [{}], rhs_group_dimensions = [{}]>"


def one(line: str, inputs: list[str], *outputs: str) -> str:
    """A function of one operation whose operands are %0, %1 and so on."""
    arguments = ", ".join(f"%{i}: {kind}" for i, kind in enumerate(inputs))
    names = ", ".join(f"%r#{i}" for i in range(len(outputs))) if len(outputs) > 1 else "%r"
    count = f":{len(outputs)}" if len(outputs) > 1 else ""
    types = ", ".join(outputs)
    return f"func.func @main({arguments}) -> ({types}) {{ %r{count} = {line} : ({', '.join(inputs)}) -> ({types}) return {names} : {types} }}"


def einsum(config: str, *types: str) -> str:
    name = "einsum" if "," in config else "unary_einsum"
    return one(
        f'"stablehlo.{name}"({", ".join(f"%{i}" for i in range(len(types) - 1))}) {{einsum_config = "{config}"}}',
        [*types[:-1]],
        types[-1],
    )


SCAN = "({{ ^bb0(%x: {0}, %y: {0}): %s = stablehlo.add %x, %y : {0} %m = stablehlo.maximum %x, %y : {0} stablehlo.return %m, %s : {0}, {0} }})"
SIZES = "operandSegmentSizes = array<i32: 1, 1>, resultSegmentSizes = array<i32: 1, 1>"
CASES = {
    "ragged rows": one(
        f'"chlo.ragged_dot"(%0, %1, %2) {{ragged_dot_dimension_numbers = {RAGGED.format(1, 1, 0, 0)}, precision_config = [#chlo<precision DEFAULT>, #chlo<precision HIGHEST>]}}',
        [A, B, I32],
        "tensor<5x6xf32>",
    ),
    "ragged sums": one(
        f'"chlo.ragged_dot"(%0, %1, %2) {{ragged_dot_dimension_numbers = {RAGGED.format(0, 0, 0, "")}}}',
        [A, "tensor<5x2xf32>", I32],
        "tensor<3x4x2xf32>",
    ),
    "scan": one(f'"chlo.scan"(%0, %1) {SCAN.format(V)} {{dimension = 0 : i64, {SIZES}}}', [A, V], A, V),
    "scan backwards": one(
        f'"chlo.scan"(%0, %1) {SCAN.format("tensor<5xf32>")} {{dimension = 1 : i64, is_reverse = true, is_associative = false, {SIZES}}}',
        [A, "tensor<5xf32>"],
        A,
        "tensor<5xf32>",
    ),
    "einsum": einsum("ab,bc->ca", A, "tensor<4x3xf32>", "tensor<3x5xf32>"),
    "einsum of batches": einsum("gab,cbg->agc", C, "tensor<3x4x2xf32>", "tensor<5x2x3xf32>"),
    "einsum of an outer product": einsum("a,b->ba", "tensor<2xf32>", "tensor<3xf32>", "tensor<3x2xf32>"),
    "torch_index_select": one(
        '"stablehlo.torch_index_select"(%0, %1) {dim = 2 : i64, batch_dims = 1 : i64}',
        [C, "tensor<2x3xi32>"],
        "tensor<2x5x3xf32>",
    ),
    "torch_index_select of a scalar": one(
        '"stablehlo.torch_index_select"(%0, %1) {dim = 0 : i64, batch_dims = 0 : i64}',
        [C, "tensor<i32>"],
        "tensor<5x4xf32>",
    ),
    **{
        name: one(
            f'"stablehlo.custom_call"(%0) {{call_target_name = "mhlo.{name}", mhlo.attributes = {{}}, mhlo.version = 1 : i64}}',
            [V],
            V,
        )
        for name in "acos acosh asin asinh atanh cosh erf sinh tan".split()
    },
}


def arguments(module: Module) -> list[Any]:
    rng = np.random.default_rng(0)
    found: list[Any] = []
    for parameter in module.entry.parameters:
        dims = parameter.shape.dimensions
        if parameter.shape.element_type == "s32":
            found.append(rng.integers(0, 3, dims).astype(np.int32))
        else:
            found.append((rng.integers(-8, 8, dims) / 8).astype(np.float32))
    return found


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    tree = parsed(CASES[name])
    forms: list[Any] = [str(tree), bytecode_of(tree)]
    if "scan" not in name:  # which jaxlib cannot write
        forms.append(artifact_of(tree))
    expected = HloModule.from_proto(to_hlo(bytecode_of(tree)))
    given = arguments(expected)
    for form in forms:
        module = HloModule.from_stablehlo(form)
        verify(module)
        for actual, wanted in zip(evaluate(module, *given), evaluate(expected, *given), strict=True):
            closeness.assert_same(
                actual, wanted, 8 if name in "acos acosh asin asinh atanh cosh erf sinh tan".split() else 0
            )


def test_einsum_sums_what_the_result_lacks() -> None:
    x, y = (np.arange(n, dtype=np.float32).reshape(s) for n, s in ((20, (5, 4)), (12, (4, 3))))
    for config, operands, wanted in (
        ("ab,bc->c", (x, y), np.einsum("ab,bc->c", x, y)),
        ("ab,bc->", (x, y), np.einsum("ab,bc->", x, y)),
        ("ab->b", (x,), np.einsum("ab->b", x)),
        ("ab->ba", (x,), x.T),
    ):
        kinds = [f"tensor<{''.join(f'{n}x' for n in a.shape)}f32>" for a in (*operands, wanted)]
        (actual,) = evaluate(HloModule.from_stablehlo(einsum(config, *kinds)), *operands)
        np.testing.assert_array_equal(actual, wanted)


ASYNC = f"""func.func @main(%a: {V}, %b: {V}) -> ({V}, {V}) {{
      %0 = "stablehlo.async_start"(%a) ({{ ^bb0(%x: {V}): %c = stablehlo.slice %x [2:4] : ({V}) -> tensor<2xf32> stablehlo.return %c : tensor<2xf32> }}) : ({V}) -> !stablehlo.future<tensor<2xf32>>
      %1 = stablehlo.multiply %a, %b : {V}
      %2 = "stablehlo.async_done"(%0) : (!stablehlo.future<tensor<2xf32>>) -> tensor<2xf32>
      %3 = stablehlo.concatenate %2, %2, dim = 0 : (tensor<2xf32>, tensor<2xf32>) -> {V}
      return %1, %3 : {V}, {V}
    }}"""


def test_asynchronous_operations() -> None:
    """jaxlib makes HLO of a few of them only."""
    x, y = np.arange(4, dtype=np.float32), np.ones(4, np.float32) * 3
    tree = parsed(ASYNC)
    for form in (ASYNC, bytecode_of(tree), artifact_of(tree)):
        product, joined = evaluate(HloModule.from_stablehlo(form), x, y)
        assert product.tolist() == [0, 3, 6, 9] and joined.tolist() == [2, 3, 2, 3]


@pytest.mark.parametrize("largest", [True, False])
def test_top_k_as_older_versions_call_it(largest: bool) -> None:
    call = f'"stablehlo.custom_call"(%0) {{call_target_name = "mhlo.topk", mhlo.attributes = {{k = 3 : i64, largest = {str(largest).lower()}}}}}'
    x = np.array([[3, 1, 2, 0, 1], [np.nan, -0.0, 0, -np.inf, 7]], np.float32)
    values, places = evaluate(
        HloModule.from_stablehlo(one(call, ["tensor<2x5xf32>"], "tensor<2x3xf32>", "tensor<2x3xi32>")), x
    )
    assert places.tolist() == ([[0, 2, 1], [0, 4, 2]] if largest else [[3, 1, 4], [3, 1, 2]])
    np.testing.assert_array_equal(values, np.take_along_axis(x, places, 1))


@pytest.mark.parametrize("config", ["ab,bc", "ab,bc->d", "abc,bc->a", "ab,bc,cd->ad"])
def test_einsum_that_says_nothing(config: str) -> None:
    with pytest.raises(ParseError, match="stablehlo.einsum"):
        HloModule.from_stablehlo(einsum(config, A, "tensor<4x3xf32>", "tensor<5xf32>"))
    with pytest.raises(UnsupportedError, match="a letter twice"):
        HloModule.from_stablehlo(einsum("aa,ab->b", "tensor<4x4xf32>", "tensor<4x3xf32>", "tensor<3xf32>"))


GROUPS = "replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>"


def replicated(text: str, *given: Any) -> list[list[Any]]:
    module = HloModule.from_stablehlo(f"module attributes {{mhlo.num_replicas = 4 : i32}} {{\n{text}\n}}")
    verify(module)
    return evaluate_replicated(module, [list(arguments) for arguments in zip(*given)], 4, 1)


def test_sums_across_replicas() -> None:
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    found = replicated(one(f'"stablehlo.cross-replica-sum"(%0) {{{GROUPS}}}', [V], V), x)
    np.testing.assert_array_equal(np.array(found)[:, 0], x.reshape(2, 2, 4).sum(1).repeat(2, 0))


def test_several_arrays_are_exchanged_one_by_one() -> None:
    """As StableHLO defines it; jaxlib makes an exchange of whole arrays of it."""
    x, y = np.arange(64, dtype=np.float32).reshape(4, 4, 4), np.arange(16, dtype=np.int32).reshape(4, 4)
    how = f"{{split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 2 : i64, {GROUPS}}}"
    kinds = ["tensor<4x4xf32>", "tensor<4xi32>"]
    both = replicated(one(f'"stablehlo.all_to_all"(%0, %1) {how}', kinds, *kinds), x, y)
    for i, array in enumerate((x, y)):
        single = replicated(one(f'"stablehlo.all_to_all"(%0) {how}', [kinds[i]], kinds[i]), array)
        for a, b in zip(both, single, strict=True):
            np.testing.assert_array_equal(a[i], b[0])


def written(body: str, *given: Any) -> tuple[str, list[list[Any]], list[list[Any]]]:
    """A module as StableHLO text, its results on four devices, and those of what jaxlib makes of the text."""
    module = Module.from_text(f"HloModule m, replica_count=4\n{body}")
    text = module.to_stablehlo()
    parsed(text)
    values = [list(arguments) for arguments in zip(*given)]
    again = HloModule.from_proto(to_hlo(bytecode_of(parsed(text))))
    return text, evaluate_replicated(module, values, 4, 1), evaluate_replicated(again, values, 4, 1)


WRITTEN = {
    "arrays to other devices": "ENTRY e { x = f32[4] parameter(0) y = f32[4] parameter(1) ROOT r = (f32[4], f32[4]) all-to-all(x, y), replica_groups={{0,1},{2,3}} }",
    "scalars to other devices": "ENTRY e { x = f32[4] parameter(0) y = f32[4] parameter(1) a = f32[1] slice(x), slice={[0:1]} b = f32[] reshape(a) c = f32[] add(b, b) ROOT r = (f32[], f32[]) all-to-all(b, c), replica_groups={{0,2},{1,3}} }",
    "several sums in parts": "add { p = f32[] parameter(0) q = f32[] parameter(1) ROOT s = f32[] add(p, q) }\nENTRY e { x = f32[4] parameter(0) y = f32[4] parameter(1) "
    "ROOT r = (f32[2], f32[2]) reduce-scatter(x, y), replica_groups={{0,1},{2,3}}, dimensions={0}, to_apply=add }",
    "the smallest": "ENTRY e { x = f32[4] parameter(0) y = f32[4] parameter(1) ROOT r = (f32[3], s32[3]) topk(x), k=3, largest=false }",
    "the smallest truth values": "ENTRY e { x = f32[4] parameter(0) y = f32[4] parameter(1) p = pred[4] compare(x, y), direction=LT ROOT r = (pred[4], s32[4]) topk(p), k=4, largest=false }",
}


@pytest.mark.parametrize("name", WRITTEN)
def test_what_takes_several_operations_is_written(name: str) -> None:
    x = np.array([[0.0, -0.0, np.nan, 1], [np.inf, -np.inf, -np.nan, 1], [2, 2, 1, 1], [1, 2, 3, 4]], np.float32)
    text, expected, results = written(WRITTEN[name], x, np.arange(16, dtype=np.float32).reshape(4, 4)[::-1])
    assert "topk" not in text
    for a, b in zip(results, expected, strict=True):
        assert_all(a, b)


COMPLEX = np.array([1 + 2j, -3, -1j, 1 + 1j, 0, 8, -8], np.complex64)
OTHER = np.array([1 + 1j, -3 - 1j, 0, 2, 0, -9, -8 + 1j], np.complex64)


def test_complex_numbers_have_an_order_and_cubic_roots() -> None:
    """The order is lexicographic, as the specification has it; the root is the principal one."""
    kind = "tensor<7xcomplex<f32>>"
    text = (
        f"func.func @main(%a: {kind}, %b: {kind}) -> ({kind}, {kind}, {kind}) {{\n"
        f"%0 = stablehlo.maximum %a, %b : {kind}\n%1 = stablehlo.minimum %a, %b : {kind}\n"
        f"%2 = stablehlo.cbrt %a : {kind}\nreturn %0, %1, %2 : {kind}, {kind}, {kind} }}"
    )
    module = HloModule.from_stablehlo(text)
    ordered = np.sort(np.stack([COMPLEX, OTHER]), 0)  # NumPy's order of complex numbers is this one
    for greatest, least, root in (run(module, COMPLEX, OTHER), evaluate(module, COMPLEX, OTHER)):
        np.testing.assert_array_equal(greatest, ordered[1])
        np.testing.assert_array_equal(least, ordered[0])
        np.testing.assert_allclose(root, COMPLEX.astype(np.complex128) ** (1 / 3), rtol=1e-6)


def test_a_boolean_is_one_bit() -> None:
    text = (
        "func.func @main(%a: tensor<2x64xi1>, %b: tensor<2xi8>, %c: tensor<3xi1>) -> (tensor<2xi64>, tensor<2x8xi1>, "
        "tensor<3xi1>) {\n"
        "%0 = stablehlo.bitcast_convert %a : (tensor<2x64xi1>) -> tensor<2xi64>\n"
        "%1 = stablehlo.bitcast_convert %b : (tensor<2xi8>) -> tensor<2x8xi1>\n"
        "%2 = stablehlo.bitcast_convert %c : (tensor<3xi1>) -> tensor<3xi1>\n"
        "return %0, %1, %2 : tensor<2xi64>, tensor<2x8xi1>, tensor<3xi1> }"
    )
    module = HloModule.from_stablehlo(text)
    bits = np.random.default_rng(0).integers(0, 2, (2, 64)).astype(bool)
    words, few = np.packbits(bits, axis=1, bitorder="little").view(np.int64)[:, 0], np.array([-3, 77], np.int8)
    for results in (run(module, bits, few, bits[0, :3]), evaluate(module, bits, few, bits[0, :3])):
        np.testing.assert_array_equal(results[0], words)
        np.testing.assert_array_equal(results[1], np.unpackbits(few.view(np.uint8)[:, None], 1, bitorder="little"))
        np.testing.assert_array_equal(results[2], bits[0, :3])


def test_a_complex_number_is_as_true_as_its_real_part() -> None:
    values = np.array([-1, 1j, 1, complex(np.nan, 0), complex(0, np.nan)], np.complex128)
    (result,) = evaluate(
        HloModule.from_stablehlo(one("stablehlo.convert %0", ["tensor<5xcomplex<f64>>"], "tensor<5xi1>")), values
    )
    assert result.tolist() == [True, False, True, True, False]
