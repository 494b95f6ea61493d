"""The smallest programs that once came out wrong, or not at all."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import xla_wasm
from tests.support import xla_cpu
from tests.support.closeness import equal
from tests.support.differential import differential, run
from xla_wasm.builder import Builder
from xla_wasm.hlo.attrs import DotDimensionNumbers, PaddingDimension, ScatterDimensionNumbers
from xla_wasm.hlo.ir import Computation, Instruction, Module
from xla_wasm.hlo.shape import Layout, Shape
from xla_wasm.ops.dtypes import Array

targets = pytest.mark.parametrize("target", ["simd128", "relaxed-simd"])


def numbers(*dims: int, dtype: type = np.float32) -> Array:
    return np.arange(np.prod(dims)).reshape(dims).astype(dtype)


def column_major(element_type: str, dims: tuple[int, ...]) -> Shape:
    return Shape(element_type, dims, Layout(tuple(range(len(dims)))))


@targets
def test_two_lanes_of_32_bits_are_summed_across(target: str) -> None:
    b = Builder("sum")
    x = b.parameter(0, Shape("f64", (3, 16)))
    differential(
        b.module(b.reduce(b.convert(x, "f32"), 0, "add", (1,))), numbers(3, 16, dtype=np.float64), targets=[target]
    )


@targets
@pytest.mark.parametrize(
    "dims, reduced", [((100_003,), (0,)), ((20_000, 12), (0,)), ((700, 300), (0, 1)), ((50, 60, 70), (0, 2))]
)
def test_long_sums_stay_near_the_true_ones(dims: tuple[int, ...], reduced: tuple[int, ...], target: str) -> None:
    b = Builder("sum")
    module = b.module(b.reduce(b.parameter(0, Shape("f32", dims)), 0, "add", reduced))
    x = np.random.default_rng(1).random(dims).astype(np.float32)
    (actual,) = run(module, x, target=target)
    expected = np.sum(x, reduced, np.float64)
    assert np.all(np.abs(actual - expected) <= 4 * np.spacing(expected.astype(np.float32)))


@targets
def test_a_reshape_is_a_result_and_the_left_side_of_a_product(target: str) -> None:
    b = Builder("product")
    x, y = b.parameter(0, Shape("f32", (4, 5))), b.parameter(1, Shape("f32", (5, 6)))
    first = b.reshape(b.dot(x, y), (4, 2, 3))
    second = b.dot(first, b.parameter(2, Shape("f32", (4, 2))), ((0,), (0,)))
    differential(b.module(b.tuple(first, second)), numbers(4, 5), numbers(5, 6), numbers(4, 2), targets=[target])


@targets
def test_a_product_without_elements(target: str) -> None:
    b = Builder("empty")
    x, y = b.parameter(0, Shape("f32", (2,))), b.parameter(1, Shape("f32", (2,)))
    empty = b.op(
        "pad",
        b.reshape(x, (1, 1, 2)),
        b.constant(0),
        padding=(PaddingDimension(0, -1), PaddingDimension(), PaddingDimension()),
    )
    product = b.negate(b.op("dot", empty, y, dot_dimension_numbers=DotDimensionNumbers((2,), (0,))))
    differential(b.module(product), numbers(2), numbers(2), targets=[target])


@targets
@pytest.mark.parametrize("element_type", ["u8", "u16"])
def test_arithmetic_shifts_of_narrow_unsigned_types_keep_the_highest_bit(element_type: str, target: str) -> None:
    b = Builder("shift")
    x, y = (b.parameter(i, Shape(element_type, (5,))) for i in range(2))
    dtype = np.uint8 if element_type == "u8" else np.uint16
    x_values = np.array([0, 1, 127, 128, np.iinfo(dtype).max], dtype)
    differential(
        b.module(b.shift_right_arithmetic(x, y)), x_values, np.array([1, 0, 3, 2, 40], dtype), targets=[target]
    )


@targets
def test_a_reshape_of_a_parameter_that_is_not_row_major(target: str) -> None:
    b = Builder("layout")
    x = b.parameter(0, column_major("f32", (4, 6)))
    differential(b.module(b.tuple(b.reshape(x, (3, 8)), b.reshape(x, (24,)), x)), numbers(4, 6), targets=[target])


@targets
def test_updates_and_loops_start_from_parameters_that_are_not_row_major(target: str) -> None:
    b = Builder("layout")
    shape = column_major("f32", (4, 6))
    x, zero = b.parameter(0, shape), b.constant(0, "s32")
    updated = b.dynamic_update_slice(x, b.full(7, Shape("f32", (2, 2))), zero, zero)
    state = b.tuple(x, zero)

    def on_state(name: str) -> tuple[Builder, Instruction, Instruction]:
        inner = Builder(name)
        whole = inner.parameter(0, state.shape)
        return inner, inner.get_tuple_element(whole, 0), inner.get_tuple_element(whole, 1)

    body, array, count = on_state("body")
    body.tuple(body.add(array, array), body.add(count, body.constant(1, "s32")))
    condition, _, count = on_state("condition")
    condition.compare(count, condition.constant(2, "s32"), "LT")
    loop = b.while_(state, condition.build(), body.build())
    differential(b.module(b.tuple(updated, b.get_tuple_element(loop, 0))), numbers(4, 6), targets=[target])


@targets
def test_bitcasts_follow_layouts(target: str) -> None:
    b = Builder("bitcast")
    x = b.parameter(0, column_major("f32", (4, 6)))
    turned = b.op("bitcast", b.negate(x), shape=Shape("f32", (6, 4), Layout((1, 0))))
    same = b.op("bitcast", x, shape=column_major("f32", (4, 6)))
    other = b.op("bitcast", b.op("copy", x, shape=Shape("f32", (4, 6), Layout((1, 0)))), shape=Shape("u32", (24,)))
    differential(b.module(b.tuple(turned, same, other)), numbers(4, 6), targets=[target])


@targets
def test_bitcast_convert_between_widths_of_what_has_no_buffer(target: str) -> None:
    b = Builder("bits")
    x = b.parameter(0, Shape("u32", (3, 2)))
    split = b.bitcast_convert(b.add(x, x), "u16")
    joined = b.bitcast_convert(b.reverse(split, dimensions=(2,)), "u32")
    wide = b.bitcast_convert(b.op("transpose", joined, dimensions=(0, 1)), "f64")
    differential(
        b.module(b.tuple(split, joined, b.negate(wide))), numbers(3, 2, dtype=np.uint32) * 2**27, targets=[target]
    )


def test_scatter_of_the_reference_drops_the_largest_indices() -> None:
    b = Builder("scatter")
    x, i, u = (
        b.parameter(0, Shape("f32", (4,))),
        b.parameter(1, Shape("s64", (3, 1))),
        b.parameter(2, Shape("f32", (3, 2))),
    )
    f = Builder("set")
    f.parameter(0, Shape("f32"))
    called = f.build(f.parameter(1, Shape("f32")))
    spots = ScatterDimensionNumbers((1,), (), (0,), 1)
    module = b.module(b.op("scatter", x, i, u, called=[called], scatter_dimension_numbers=spots))
    indices = np.array([[2**63 - 1], [-(2**63)], [1]])
    np.testing.assert_array_equal(differential(module, numbers(4), indices, numbers(3, 2) + 10)[0], [0, 14, 15, 3])


def test_reduce_precision_without_mantissa_rounds_halfway_to_even_exponents() -> None:
    b = Builder("round")
    module = b.module(b.op("reduce-precision", b.parameter(0, Shape("f32", (4,))), exponent_bits=8, mantissa_bits=0))
    np.testing.assert_array_equal(differential(module, np.array([3, 6, -0.75, 1.25], np.float32))[0], [2, 8, -0.5, 1])


def test_a_tiled_layout_of_a_scalar_is_read() -> None:
    b = Builder("scalar")
    root = b.negate(b.parameter(0, Shape("f32", (), Layout((), tiles=((128,),)))))
    module = Module.from_proto(b.module(root).to_proto())
    differential(module, np.array(3, np.float32))


def loop(
    initial: list[Instruction], b: Builder, body: Callable[[Builder, list[Instruction]], list[Instruction]], limit: int
) -> Instruction:
    """A while over a tuple that ends when its element 0 has reached `limit`."""
    state = b.tuple(*initial)

    def on_state(name: str) -> tuple[Builder, list[Instruction]]:
        inner = Builder(name)
        whole = inner.parameter(0, state.shape)
        return inner, [inner.get_tuple_element(whole, i) for i in range(len(initial))]

    inner, elements = on_state("body")
    inner.tuple(*body(inner, elements))
    condition, elements = on_state("condition")
    condition.compare(elements[0], condition.constant(limit, "s32"), "LT")
    return b.while_(state, condition.build(), inner.build())


@targets
def test_a_loop_that_changes_nothing_is_gone_even_if_it_would_not_end(target: str) -> None:
    b = Builder("endless")
    x, zero = b.parameter(0, Shape("f32", (3,))), b.constant(0, "s32")
    idle = loop([zero, x], b, lambda inner, s: [inner.add(s[0], inner.constant(0, "s32")), s[1]], 5)
    sums = loop([zero, zero, b.constant(2, "s32")], b, lambda inner, s: [s[0], s[1], inner.add(s[1], s[2])], 5)
    # what is used of the third loop stays as it was, what changes is used by nobody
    partly = loop([zero, x], b, lambda inner, s: [inner.subtract(s[0], inner.constant(1, "s32")), s[1]], 5)
    roots = b.tuple(idle, sums, b.negate(b.get_tuple_element(partly, 1)))
    expected = [0, numbers(3), 0, 0, 2, -numbers(3)]
    differential(b.module(roots), numbers(3), targets=[target], expected=expected, near=equal)


@targets
def test_constants_that_a_loop_carries_and_also_swaps(target: str) -> None:
    b = Builder("swap")
    x, zero, seven = b.parameter(0, Shape("s32")), b.constant(0, "s32"), b.constant(7, "s32")

    def body(inner: Builder, s: list[Instruction]) -> list[Instruction]:
        count, fixed, left, right, value = s
        return [
            inner.add(count, inner.constant(1, "s32")),
            fixed,
            right,
            left,
            inner.add(inner.multiply(value, fixed), left),
        ]

    # the one body and condition of two loops with different constants
    first = loop([zero, seven, seven, zero, x], b, body, 4)
    second = b.while_(b.tuple(zero, b.constant(3, "s32"), zero, x, seven), first.called[1], first.called[0])
    differential(b.module(b.tuple(first, second)), np.array(5, np.int32), targets=[target])


def test_adding_nothing_to_integers_and_floats() -> None:
    b = Builder("neutral")
    x, y = b.parameter(0, Shape("s32", (3,))), b.parameter(1, Shape("f32", (3,)))
    zeros, ones = b.full(0, Shape("s32", (3,))), b.full(1, Shape("s32", (3,)))
    parts = [b.add(zeros, x), b.subtract(x, zeros), b.subtract(zeros, x), b.multiply(x, ones), b.op("or", x, zeros)]
    module = b.module(b.tuple(*parts, b.add(y, b.full(0, Shape("f32", (3,))))))
    results = differential(module, np.array([-1, 0, 2**31 - 1], np.int32), np.array([-0.0, np.nan, 1], np.float32))
    assert not np.signbit(results[-1][0])


@targets
def test_what_is_computed_in_bf16_and_converted_to_f32_at_once_is_not_rounded(target: str) -> None:
    b = Builder("round")
    x = b.parameter(0, Shape("bf16", (4,)))
    y = b.op("sine", x)
    parts = [
        b.convert(y, "f32"),
        y,
        b.convert(b.reshape(y, (2, 2)), "f32"),
        b.convert(y, "f64"),
        b.op("exponential", y),
    ]
    module = b.module(b.tuple(*parts))
    values = np.array([0.3, 1.1, -2.7, 0.9], ml_dtypes.bfloat16)
    results = run(module, values, target=target)
    for actual, expected in zip(results, xla_cpu.run(module, values), strict=True):
        assert actual.dtype == expected.dtype
        np.testing.assert_allclose(actual.astype(np.float64), expected.astype(np.float64), rtol=2e-7)
    assert not np.array_equal(results[0], results[1].astype(np.float32))
    assert np.array_equal(results[2].ravel(), results[1].astype(np.float32))


@targets
@pytest.mark.parametrize(
    "moved", ["reverse(t), dimensions={0}", "reverse(t), dimensions={1}", "transpose(t), dimensions={1,0}"]
)
def test_a_row_that_is_read_in_another_order_or_from_another_row(target: str, moved: str) -> None:
    module = Module.from_text(
        f"""HloModule m
add {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }}
ENTRY e {{
  p = f32[8,8]{{1,0}} parameter(0)
  u = f32[8,8]{{1,0}} multiply(p, p)
  t = f32[8,8]{{1,0}} sqrt(u)
  f = f32[8,8]{{1,0}} {moved}
  z = f32[] constant(0)
  s = f32[8]{{0}} reduce(f, z), dimensions={{1}}, to_apply=add
  w = f32[8,8]{{1,0}} broadcast(s), dimensions={{0}}
  q = f32[8,8]{{1,0}} multiply(f, w)
  ROOT r = (f32[8,8]{{1,0}}, f32[8,8]{{1,0}}, f32[8,8]{{1,0}}) tuple(t, f, q)
}}
"""
    )
    differential(module, 1 + numbers(8, 8), targets=[target])


@targets
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 9])
@pytest.mark.parametrize("reducer", ["add", "maximum"])
def test_an_expression_that_is_reduced_along_rows_and_along_columns(reducer: str, size: int, target: str) -> None:
    module = Module.from_text(
        f"""HloModule m
combine {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] {reducer}(a, b) }}
ENTRY e {{
  z = f32[] constant(0)
  p = f32[{size},{size}] parameter(0)
  r = f32[{size},{size}] tanh(p)
  s = f32[{size},{size}] floor(r)
  columns = f32[{size}] reduce(s, z), dimensions={{0}}, to_apply=combine
  rows = f32[{size}] reduce(s, z), dimensions={{1}}, to_apply=combine
  ROOT t = f32[{size}] subtract(columns, rows)
}}
"""
    )
    differential(module, np.random.default_rng(1).normal(size=(size, size)).astype(np.float32), targets=[target])


@targets
@pytest.mark.parametrize("opcode, init", [("add", 5), ("maximum", -3), ("multiply", 2), ("divide", 3)])
def test_a_reduction_of_nothing_where_one_element_could_be(opcode: str, init: float, target: str) -> None:
    text = f"""HloModule m
f {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] {opcode}(a, b) }}
ENTRY e {{ x = f32[<=1,2] parameter(0)  z = f32[] constant({init})  ROOT r = f32[2] reduce(x, z), dimensions={{0}}, to_apply=f }}"""  # noqa: E501
    for size in (0, 1):
        (found,) = differential(Module.from_text(text), np.full((size, 2), 7, np.float32), targets=[target])
        np.testing.assert_array_equal(found, [7, 7] if size else [init, init])


ADD = """add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
"""


@targets
def test_a_dimension_of_size_0_reaches_the_boundary(target: str) -> None:
    module = Module.from_text(
        f"""HloModule m
{ADD}
ENTRY e {{
  p = f32[4,0,1,1] parameter(0)
  z = f32[] constant(0)
  ROOT r = f32[0,1,1] reduce(p, z), dimensions={{0}}, to_apply=add
}}
"""
    )
    differential(module, numbers(4, 0, 1, 1), targets=[target])


@targets
def test_sums_of_rows_that_are_transposed_before_they_spread_over_rows_again(target: str) -> None:
    module = Module.from_text(
        f"""HloModule m
{ADD}
ENTRY e {{
  p = f32[2,2,4] parameter(0)
  z = f32[] constant(0)
  s = f32[2,2] reduce(p, z), dimensions={{2}}, to_apply=add
  t = f32[2,2] transpose(s), dimensions={{1,0}}
  ROOT r = f32[2,2,4] broadcast(t), dimensions={{0,1}}
}}
"""
    )
    differential(module, numbers(2, 2, 4), targets=[target])


@targets
def test_a_product_with_a_last_panel_that_is_not_full_gains_a_dimension_of_size_1(target: str) -> None:
    b = Builder("product")
    x, y = b.parameter(0, Shape("f32", (4, 5))), b.parameter(1, Shape("f32", (5, 17, 1)))
    differential(b.module(b.dot(x, y, ((1,), (0,)))), numbers(4, 5), numbers(5, 17, 1), targets=[target])


@targets
def test_products_and_reductions_of_arrays_without_elements(target: str) -> None:
    b = Builder("empty")
    x, y = b.parameter(0, Shape("f32", (1, 1, 2, 0))), b.parameter(1, Shape("f32", (0,)))
    differential(b.module(b.dot(x, y)), numbers(1, 1, 2, 0), numbers(0), targets=[target])
    text = """HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY e { x = f32[<=4,0,1,1] parameter(0)  z = f32[] constant(0)  ROOT r = f32[0,1,1] reduce(x, z), dimensions={0}, to_apply=add }"""  # noqa: E501
    differential(Module.from_text(text), numbers(3, 0, 1, 1), targets=[target])


@targets
def test_a_complex_number_takes_the_place_of_a_part_that_is_as_wide(target: str) -> None:
    b = Builder("narrowed")
    x = b.parameter(0, Shape("f64", (5, 3)))
    largest = b.op("sort", x, called=[_less("f64")], dimensions=(0,))
    differential(
        b.module(b.convert(b.op("complex", x, largest), "c64")), numbers(5, 3, dtype=np.float64), targets=[target]
    )


def _less(element_type: str) -> Computation:
    b = Builder("less")
    return b.build(b.compare(*(b.parameter(i, Shape(element_type)) for i in range(2)), "LT"))


@targets
def test_a_single_element_repeated(target: str) -> None:
    b = Builder("single")
    x = b.parameter(0, Shape("f32", (1,)))
    differential(b.module(b.broadcast(x, (2, 1, 1, 1), (3,))), numbers(1), targets=[target])


@targets
def test_transposes_of_equal_shape_around_a_reshape_that_splits_no_dimension_alike(target: str) -> None:
    b = Builder("views")
    x = b.parameter(0, Shape("f32", (3, 2, 2, 2)))
    y = b.transpose(x, (1, 2, 0, 3))
    differential(b.module(b.transpose(b.reshape(y, (3, 2, 2, 2)), (1, 2, 0, 3))), numbers(3, 2, 2, 2), targets=[target])


@targets
def test_a_product_that_a_reshape_splits_and_whose_vectors_reach_beyond_its_columns(target: str) -> None:
    b = Builder("product")
    x, y = b.parameter(0, Shape("f64", (81, 1))), b.parameter(1, Shape("f64", (1, 9)))
    differential(
        b.module(b.reshape(b.dot(x, y), (9, 9, 9))),
        numbers(81, 1, dtype=np.float64),
        numbers(1, 9, dtype=np.float64),
        targets=[target],
    )


@targets
@pytest.mark.parametrize("n", [2, 3, 8, 9])
def test_sums_at_gathered_places(n: int, target: str) -> None:
    text = f"""HloModule m
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }}
ENTRY e {{
  x = f32[4,3,{n}] parameter(0)  y = f32[4,{n}] parameter(1)  places = s32[{n},1] parameter(2)  z = f32[] constant(0)
  sums = f32[4,{n}] reduce(x, z), dimensions={{1}}, to_apply=add
  quotients = f32[4,{n}] divide(sums, y)
  taken = f32[4,{n}] gather(quotients, places), offset_dims={{0}}, collapsed_slice_dims={{1}}, start_index_map={{1}}, index_vector_dim=1,
    slice_sizes={{4,1}}
  ROOT r = f32[4,{n}] negate(taken)
}}"""  # noqa: E501
    places = (np.arange(n)[::-1] // 2).astype(np.int32).reshape(n, 1)
    differential(Module.from_text(text), numbers(4, 3, n), np.full((4, n), 2, np.float32), places, targets=[target])


def test_loops_that_begin_with_what_the_host_computes() -> None:
    """A custom call has an attribute `literal` too, which is no constant's."""
    text = """HloModule m
body { p = (f16[], s32[]) parameter(0)  x = f16[] get-tuple-element(p), index=0  i = s32[] get-tuple-element(p), index=1
  one = s32[] constant(1)  next = s32[] add(i, one)  ROOT t = (f16[], s32[]) tuple(x, next) }
condition { p = (f16[], s32[]) parameter(0)  i = s32[] get-tuple-element(p), index=1  x = f16[] get-tuple-element(p), index=0
  y = s32[] convert(x)  ROOT c = pred[] compare(i, y), direction=LT }
ENTRY e { a = f16[] parameter(0)  x = f16[] custom-call(a), custom_call_target="half"  zero = s32[] constant(0)
  t = (f16[], s32[]) tuple(x, zero)  w = (f16[], s32[]) while(t), condition=condition, body=body
  ROOT i = s32[] get-tuple-element(w), index=1 }"""  # noqa: E501
    artifact = xla_wasm.compile(Module.from_text(text), xla_wasm.Options(host_calls=("half",)))
    (count,) = xla_wasm.load(artifact, custom_calls={"half": lambda x: x / np.float16(2)}).run(np.float16(8))
    assert count == 4


@targets
def test_an_element_of_column_sums_beside_maxima_of_rows(target: str) -> None:
    """The sums are fewer than the rows: a kernel that took one for each row read beyond their operand, and could
    trap."""
    text = """HloModule rows
most { a = s8[] parameter(0)
  b = s8[] parameter(1)
  ROOT c = s8[] maximum(a, b) }
add { a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = s32[] add(a, b) }
ENTRY main {
  x = s8[5000,8,2] parameter(0)
  y = s32[5000,8,8] parameter(1)
  low = s8[] constant(-128)
  zero = s32[] constant(0)
  m = s8[5000,8] reduce(x, low), dimensions={2}, to_apply=most
  s = s32[8,8] reduce(y, zero), dimensions={0}, to_apply=add
  n = s8[8,8] convert(s)
  flat = s8[64] reshape(n)
  e = s8[1] slice(flat), slice={[0:1]}
  f = s8[] reshape(e)
  g = s8[5000,8] broadcast(f), dimensions={}
  ROOT r = s8[5000,8] maximum(m, g)
}"""
    rng = np.random.default_rng(0)
    x, y = rng.integers(-100, 100, (5000, 8, 2)).astype(np.int8), rng.integers(-9, 9, (5000, 8, 8)).astype(np.int32)
    differential(Module.from_text(text), x, y, targets=[target])


@targets
def test_windows_over_padding_alone(target: str) -> None:
    """They loaded an element of an array that has none."""
    text = """HloModule windows
add { a = bf16[] parameter(0)
  b = bf16[] parameter(1)
  ROOT c = bf16[] add(a, b) }
ENTRY main {
  x = bf16[0] parameter(0)
  one = bf16[] constant(1)
  ROOT r = bf16[2] reduce-window(x, one), window={size=1 stride=2 pad=2_1}, to_apply=add
}"""
    differential(Module.from_text(text), np.zeros(0, ml_dtypes.bfloat16), targets=[target])


@targets
def test_weights_that_meet_padding_alone_count_if_they_are_not_finite(target: str) -> None:
    text = """HloModule convolution
ENTRY main {
  x = f32[1,2,1] parameter(0)
  w = f32[3,1,1] parameter(1)
  ROOT r = f32[1,1,1] convolution(x, w), window={size=3 pad=2_0 rhs_dilate=1 stride=9}, dim_labels=b0f_0io->b0f
}"""
    weights = np.array([np.nan, np.inf, 1], np.float32).reshape(3, 1, 1)
    assert np.isnan(
        differential(Module.from_text(text), np.ones((1, 2, 1), np.float32), weights, targets=[target])[0]
    ).all()


@targets
def test_counted_places_of_which_some_lie_outside(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's check asked for the bounds of a loop's variable that a condition compares, and then again for
    them."""
    monkeypatch.setenv("XLA_WASM_VERIFY", "1")
    text = """HloModule places
set { a = u8[] parameter(0)
  ROOT b = u8[] parameter(1) }
ENTRY main {
  x = u8[3,40] parameter(0)
  y = u8[8,40] parameter(1)
  i = s32[8,1] iota(), iota_dimension=0
  ROOT r = u8[3,40] scatter(x, i, y), update_window_dims={1}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=set
}"""
    differential(
        Module.from_text(text), numbers(3, 40, dtype=np.uint8), numbers(8, 40, dtype=np.uint8), targets=[target]
    )


@targets
def test_a_loop_updates_what_an_outer_loop_carries_and_reads_that_as_it_was(target: str) -> None:
    """The inner loop's second trip read what the first one had written: its end leads back to what reads the array."""
    text = """HloModule loops
inner {
  c = (f32[130], f32[130], s32[]) parameter(0)
  x = f32[130] get-tuple-element(c), index=0
  y = f32[130] get-tuple-element(c), index=1
  i = s32[] get-tuple-element(c), index=2
  zero = s32[] constant(0)
  one = s32[] constant(1)
  a = f32[1] dynamic-slice(y, zero), dynamic_slice_sizes={1}
  b = f32[1] add(a, a)
  u = f32[130] dynamic-update-slice(x, b, zero)
  j = s32[] add(i, one)
  ROOT t = (f32[130], f32[130], s32[]) tuple(u, y, j)
}
twice {
  c = (f32[130], f32[130], s32[]) parameter(0)
  i = s32[] get-tuple-element(c), index=2
  two = s32[] constant(2)
  ROOT r = pred[] compare(i, two), direction=LT
}
outer {
  c = (f32[130], s32[]) parameter(0)
  x = f32[130] get-tuple-element(c), index=0
  i = s32[] get-tuple-element(c), index=1
  zero = s32[] constant(0)
  one = s32[] constant(1)
  t = (f32[130], f32[130], s32[]) tuple(x, x, zero)
  w = (f32[130], f32[130], s32[]) while(t), body=inner, condition=twice
  y = f32[130] get-tuple-element(w), index=0
  j = s32[] add(i, one)
  ROOT r = (f32[130], s32[]) tuple(y, j)
}
again {
  c = (f32[130], s32[]) parameter(0)
  i = s32[] get-tuple-element(c), index=1
  two = s32[] constant(2)
  ROOT r = pred[] compare(i, two), direction=LT
}
ENTRY main {
  x = f32[130] parameter(0)
  zero = s32[] constant(0)
  t = (f32[130], s32[]) tuple(x, zero)
  w = (f32[130], s32[]) while(t), body=outer, condition=again
  ROOT r = f32[130] get-tuple-element(w), index=0
}"""
    differential(Module.from_text(text), numbers(130) + 3, targets=[target])


@pytest.mark.parametrize(
    "drawn",
    [
        "r = u64[2] rng-get-and-update-state(), delta=5",
        "zero = u64[] constant(0)\n  most = u64[] constant(99)\n  r = u64[2] rng(zero, most), distribution=rng_uniform",
    ],
    ids=["state", "numbers"],
)
@pytest.mark.parametrize("count", [1, 2, 7, 8])
@targets
def test_random_state_in_a_loop_whose_carries_change_places(drawn: str, count: int, target: str) -> None:
    """Its body may not be there twice: each would have had a state of its own, and the same numbers twice."""
    text = f"""HloModule m
more {{
  c = (u64[100], u64[100], s32[]) parameter(0)
  i = s32[] get-tuple-element(c), index=2
  count = s32[] constant({count})
  ROOT r = pred[] compare(i, count), direction=LT
}}
turn {{
  c = (u64[100], u64[100], s32[]) parameter(0)
  x = u64[100] get-tuple-element(c), index=0
  y = u64[100] get-tuple-element(c), index=1
  i = s32[] get-tuple-element(c), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  {drawn}
  u = u64[100] dynamic-update-slice(x, r, j)
  ROOT t = (u64[100], u64[100], s32[]) tuple(y, u, j)
}}
ENTRY main {{
  x = u64[100] parameter(0)
  y = u64[100] parameter(1)
  zero = s32[] constant(0)
  t = (u64[100], u64[100], s32[]) tuple(x, y, zero)
  w = (u64[100], u64[100], s32[]) while(t), body=turn, condition=more
  a = u64[100] get-tuple-element(w), index=0
  b = u64[100] get-tuple-element(w), index=1
  ROOT r = (u64[100], u64[100]) tuple(a, b)
}}"""
    x = numbers(100, dtype=np.uint64)
    differential(Module.from_text(text), x, x + np.uint64(1000), targets=[target])
