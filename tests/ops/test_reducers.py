"""Computations on single elements that hold more than elementwise operations: branches, loops, arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.support import xla_cpu
from tests.support.closeness import assert_same
from tests.support.differential import differential, run
from xla_wasm.builder import Builder
from xla_wasm.hlo.attrs import ScatterDimensionNumbers, Window, WindowDimension
from xla_wasm.hlo.ir import Computation, Instruction
from xla_wasm.hlo.shape import Shape
from xla_wasm.ops.dtypes import Array
from xla_wasm.ops.sample import Maker, array, case, f32, function, reducer, s32, shape
from xla_wasm.ops.window.prefixes import Cumulative, cumulative
from xla_wasm.reference import evaluate

RNG = np.random.default_rng(3)
GRID = f32(RNG.integers(-9, 9, (4, 6)))
ZERO = f32(0)
PAIR = Shape.tuple([Shape("s32"), Shape("f32")])


def computation(parameter: Shape, body: Callable[[Builder, Instruction], Instruction]) -> Computation:
    b = Builder("part")
    return b.build(body(b, b.parameter(0, parameter)))


def _loop(b: Builder, x: Instruction, y: Instruction) -> Instruction:
    """x + y + 2, by a loop."""

    def field(b: Builder, state: Instruction, index: int) -> Instruction:
        return b.op("get-tuple-element", state, index=index)

    def one(b: Builder, element_type: str) -> Instruction:
        return b.constant(shape(element_type), [1])

    test = computation(
        PAIR, lambda b, s: b.op("compare", field(b, s, 0), b.constant(shape("s32"), [2]), direction="LT")
    )
    step = computation(
        PAIR,
        lambda b, s: b.op(
            "tuple", b.op("add", field(b, s, 0), one(b, "s32")), b.op("add", field(b, s, 1), one(b, "f32"))
        ),
    )
    start = b.op("tuple", b.constant(shape("s32"), [0]), b.op("add", x, y))
    return field(b, b.op("while", start, called=[step, test]), 1)


def _array(b: Builder, x: Instruction, y: Instruction) -> Instruction:
    """x + y, by a reduction of both side by side."""
    parts = [b.op("reshape", v, shape=shape("f32[1]")) for v in (x, y)]
    both = b.op("concatenate", *parts, dimensions=(0,))
    return b.op("reduce", both, b.constant(shape("f32"), [0]), called=[reducer("add", "f32")()], dimensions=(0,))


def _one_element(b: Builder, x: Instruction, y: Instruction) -> Instruction:
    """x + y, in arrays of one element."""
    p, q = (b.op("reshape", v, shape=shape("f32[1]")) for v in (x, y))
    total = b.op("reduce", b.op("reverse", q, dimensions=(0,)), x, called=[reducer("add", "f32")()], dimensions=(0,))
    return b.op("select", b.op("compare", p, p, direction="EQ"), b.op("reshape", total, shape=shape("f32[1]")), p)


def _branch(opcode: str, element_type: str) -> Computation:
    pair = Shape.tuple([Shape(element_type)] * 2)
    return computation(pair, lambda b, s: b.op(opcode, *(b.op("get-tuple-element", s, index=i) for i in range(2))))


def _by_pred(b: Builder, x: Instruction, y: Instruction) -> Instruction:
    both = b.op("tuple", x, y)
    branches = [_branch("add", "f32"), _branch("subtract", "f32")]
    return b.op("conditional", b.op("compare", x, y, direction="LT"), both, both, called=branches)


def _by_index(b: Builder, x: Instruction, y: Instruction) -> Instruction:
    both = b.op("tuple", x, y)
    return b.op("conditional", y, both, both, both, called=[_branch(o, "s32") for o in ("add", "multiply", "subtract")])


LOOP, ARRAY, BY_PRED = (function("f32, f32", body) for body in (_loop, _array, _by_pred))
ONE_ELEMENT = function("f32, f32", lambda b, x, y: b.op("reshape", _one_element(b, x, y), shape=shape("f32")))
GREATER_EQUAL = function("f32, f32", lambda b, x, y: b.op("compare", x, y, direction="GE"))
each = pytest.mark.parametrize(
    "combine", [LOOP, ARRAY, ONE_ELEMENT, BY_PRED], ids=["loop", "array", "one element", "branches"]
)


def check(opcode: str, *arguments: Array, called: tuple[Maker, ...], **attrs: Any) -> None:
    differential(case(opcode, arguments, (), called=called, **attrs).module(), *arguments)


def window(*dims: Any) -> Window:
    return Window(tuple(WindowDimension(*d) for d in dims))


@each
@pytest.mark.parametrize("dimensions", [(0,), (1,), (0, 1), ()])
def test_reduce(combine: Maker, dimensions: tuple[int, ...]) -> None:
    check("reduce", GRID, ZERO, called=(combine,), dimensions=dimensions)


@each
def test_map(combine: Maker) -> None:
    check("map", GRID, GRID[::-1].copy(), called=(combine,), dimensions=(0, 1))


def test_map_by_index() -> None:
    x, y = (s32(RNG.integers(-2, 5, (4, 6))) for _ in range(2))
    check("map", x, y, called=(function("s32, s32", _by_index),), dimensions=(0, 1))


@each
@pytest.mark.parametrize(
    "places",
    [
        ((2, 1, 1, 1), (3, 2, 1, 0)),
        ((2, 1, 1, 1, 1, 2), (2, 1, 1, 1, 3)),
        ((2, 1, -1, 0), (2, 1, 0, -2)),
        ((4, 1, 3, 0), (1,)),
        ((9,), (1,)),
    ],
    ids=["strides", "dilations", "negative padding", "prefixes", "too large"],
)
def test_reduce_window(combine: Maker, places: tuple[tuple[int, ...], ...]) -> None:
    check("reduce-window", GRID, ZERO, called=(combine,), window=window(*places))


@each
def test_select_and_scatter(combine: Maker) -> None:
    source = f32(RNG.integers(-9, 9, (2, 3)))
    check("select-and-scatter", GRID, source, ZERO, called=(GREATER_EQUAL, combine), window=window((2, 2), (2, 2)))


@each
def test_scatter(combine: Maker) -> None:
    rows = ScatterDimensionNumbers((1,), (0,), (0,), 1)
    indices = s32([[1], [3], [-1], [1], [4]])
    updates = f32(RNG.integers(-9, 9, (5, 6)))
    check("scatter", GRID, indices, updates, called=(combine,), scatter_dimension_numbers=rows)
    windows = ScatterDimensionNumbers((1, 2), (), (0,), 1)
    updates = f32(RNG.integers(-9, 9, (5, 2, 6)))
    check("scatter", GRID, indices, updates, called=(combine,), scatter_dimension_numbers=windows)


def test_a_reducer_that_is_no_function_of_sets_is_applied_in_order() -> None:
    digits = function("s32, s32", lambda b, x, y: b.op("add", b.op("multiply", x, b.constant(shape("s32"), [10])), y))
    for places in ((4, 1, 3, 0), (4, 1, 0, 3)):
        check("reduce-window", s32([1, 2, 3, 4]), s32(5), called=(digits,), window=window(places))


@pytest.mark.parametrize("dims, dimension", [((70_000,), 0), ((3000, 6), 0), ((7, 3000), 1)])
@pytest.mark.parametrize("reverse", [False, True])
def test_long_prefix_sums_stay_near_the_true_ones(dims: tuple[int, ...], dimension: int, reverse: bool) -> None:
    length = dims[dimension]
    along = (length, 1, 0, length - 1) if reverse else (length, 1, length - 1, 0)
    places = [along if d == dimension else (1,) for d in range(len(dims))]
    x = RNG.random(dims).astype(np.float32)
    module = case("reduce-window", (x, ZERO), (), called=(reducer("add", "f32"),), window=window(*places)).module()
    (actual,) = run(module, x, ZERO)
    wide = np.flip(x, dimension) if reverse else x
    expected = np.cumsum(wide, dimension, np.float64)
    expected = np.flip(expected, dimension) if reverse else expected
    assert np.all(np.abs(actual - expected) <= np.spacing(expected.astype(np.float32)))


@pytest.mark.parametrize(
    "opcode, element_type",
    [("add", "s32"), ("maximum", "f32"), ("minimum", "s64"), ("multiply", "u8"), ("and", "pred"), ("xor", "s8")],
)
@pytest.mark.parametrize(
    "dims, places",
    [
        ((300,), ((64,),)),
        ((100,), ((100,),)),
        ((301,), ((37, 2, 5, 40),)),
        ((3, 90), ((1,), (31, 1, -3, 12))),
        ((90, 7), ((31, 1, 0, 12), (1,))),
        ((2, 90, 2), ((1,), (44,), (1,))),
        ((60,), ((13, 1, 0, 0, 2),)),
        ((40, 44, 3), ((15, 1, 7, 7), (14, 2, 3, 0), (1,))),
        ((40, 44), ((6, 1, 3, 3, 1, 2), (7, 1, 3, 3, 2))),
        ((9, 10, 11), ((5, 1, 2, 2), (5, 2, 2, 2), (5, 3))),
    ],
)
def test_long_windows(
    opcode: str, element_type: str, dims: tuple[int, ...], places: tuple[tuple[int, ...], ...]
) -> None:
    x = array(element_type, RNG.integers(0, 100, dims) % (2 if element_type == "pred" else 128))
    check("reduce-window", x, array(element_type, 1), called=(reducer(opcode, element_type),), window=window(*places))


@pytest.mark.parametrize(
    "places", [((64, 1, 63, 0), (1,)), ((64,), (1,)), ((1,), (50, 1, 20, 20)), ((12, 1, 5, 6), (13, 1, 6, 6))]
)
def test_sums_of_long_windows_stay_near_the_true_ones(places: tuple[tuple[int, ...], ...]) -> None:
    x = RNG.random((200, 90)).astype(np.float32)
    module = case("reduce-window", (x, f32(0)), (), called=(reducer("add", "f32"),), window=window(*places)).module()
    (actual,) = run(module, x, f32(0))
    (expected,) = evaluate(module, x, f32(0), precision="f64")
    assert np.all(np.abs(actual - expected) <= 8 * np.spacing(expected.astype(np.float32)))


def _add_of_exponents(b: Builder, x: Instruction, y: Instruction) -> Instruction:
    """log(exp(x) + exp(y)), as JAX writes it."""
    difference = b.op("subtract", x, y)
    small = b.op("log-plus-one", b.op("exponential", b.op("negate", b.op("abs", difference))))
    undefined = b.op("compare", difference, difference, direction="NE")
    return b.op("select", undefined, b.op("add", x, y), b.op("add", b.op("maximum", x, y), small))


@pytest.mark.parametrize("dims, along", [((3, 500), 1), ((500, 6), 0), ((500,), 0)])
@pytest.mark.parametrize("reverse", [False, True])
def test_cumulative_sums_of_exponents(dims: tuple[int, ...], along: int, reverse: bool) -> None:
    size = dims[along]
    places = [
        ((size, 1, 0, size - 1) if reverse else (size, 1, size - 1, 0)) if d == along else (1,)
        for d in range(len(dims))
    ]
    x, start = RNG.normal(size=dims).astype(np.float32), f32(-np.inf)
    module = case(
        "reduce-window", (x, start), (), called=(function("f32, f32", _add_of_exponents),), window=window(*places)
    ).module()
    assert cumulative(module.entry.root) == Cumulative(along, reverse)
    (actual,) = run(module, x, start)
    wide = np.flip(x, along) if reverse else x
    expected = np.logaddexp.accumulate(wide.astype(np.float64), along)
    np.testing.assert_allclose(actual, np.flip(expected, along) if reverse else expected, rtol=3e-6, atol=3e-6)


# --- initial values that change something ---------------------------------------------------------------------------


def as_on_xla(opcode: str, *arguments: Array, called: tuple[Maker, ...], **attrs: Any) -> Array:
    """The compiled result, which XLA:CPU has too, and the reference."""
    module = case(opcode, arguments, (), called=called, **attrs).module()
    return differential(module, *arguments, judges=(evaluate, xla_cpu.run))[0]


@pytest.mark.parametrize("dims", [(1,), (5, 1), (5,), (32,), (33,), (1000,), (1025,), (5000,), (40, 50), (6, 40, 2)])
@pytest.mark.parametrize(
    "element_type, opcode", [("s32", "add"), ("s8", "xor"), ("u8", "multiply"), ("c64", "add"), ("s16", "maximum")]
)
def test_an_initial_value_counts_as_often_as_on_xla(element_type: str, opcode: str, dims: tuple[int, ...]) -> None:
    """XLA:CPU reduces 32 elements of a dimension at a time, each time from the initial value; one element it takes as
    it is."""
    x, first = array(element_type, RNG.integers(0, 4, dims)), array(element_type, 3)
    for reduced in {tuple(range(len(dims))), (len(dims) - 1,)}:
        as_on_xla("reduce", x, first, called=(reducer(opcode, element_type),), dimensions=reduced)


@pytest.mark.parametrize("size, times", [(4095, 133), (4096, 1), (5000, 1)])
@pytest.mark.parametrize("element_type", ["f32", "f64"])
def test_an_initial_value_counts_once_in_what_xla_leaves_to_a_library(element_type: str, size: int, times: int) -> None:
    x, first = array(element_type, np.zeros(size)), array(element_type, 2)
    assert as_on_xla("reduce", x, first, called=(reducer("add", element_type),), dimensions=(0,)) == 2 * times


@pytest.mark.parametrize("length", [1, 32, 33, 100, 1500])
def test_a_reducer_that_is_not_associative_combines_in_xlas_order(length: int) -> None:
    twice = function("f32, f32", lambda b, x, y: b.op("add", x, b.op("add", b.op("abs", y), b.op("abs", y))))
    as_on_xla("reduce", f32(RNG.integers(-4, 4, length)), f32(-1), called=(twice,), dimensions=(0,))


@pytest.mark.parametrize("length", [31, 33, 100, 1500])
def test_the_room_around_windows_is_where_it_is_on_xla(length: int) -> None:
    """Under a reducer to which places matter, since initial values fill that room."""
    shifted = function("s32, s32", lambda b, x, y: b.op("add", b.op("multiply", x, b.constant(shape("s32"), [3])), y))
    as_on_xla("reduce", s32(RNG.integers(-4, 4, length)), s32(5), called=(shifted,), dimensions=(0,))


@pytest.mark.parametrize("dims", [(3,), (70,), (5, 70)])
def test_a_sum_of_negative_zeros_is_one(dims: tuple[int, ...]) -> None:
    zero = np.float32(-0.0)
    for reduced in {tuple(range(len(dims))), (len(dims) - 1,), (0,)}:
        result = as_on_xla(
            "reduce", np.full(dims, zero), f32(zero), called=(reducer("add", "f32"),), dimensions=reduced
        )
        assert np.signbit(result).all()


@pytest.mark.parametrize(
    "dims, places",
    [
        ((), ()),
        ((5,), ((5,),)),
        ((64,), ((64,),)),
        ((3, 64), ((1,), (64,))),
        ((2, 40, 8), ((1,), (40,), (8,))),
        ((64,), ((64, 5),)),
    ],
)
def test_a_window_that_covers_all_is_a_reduction_as_on_xla(
    dims: tuple[int, ...], places: tuple[tuple[int, ...], ...]
) -> None:
    as_on_xla(
        "reduce-window", s32(RNG.integers(0, 4, dims)), s32(3), called=(reducer("add", "s32"),), window=window(*places)
    )


INNER = """
add { p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT s = f32[] add(p, q) }
both { p = f32[] parameter(0)  q = s32[] parameter(1)  u = f32[] parameter(2)  v = s32[] parameter(3)
  s = f32[] subtract(p, u)  w = s32[] add(q, v)  ROOT t = (f32[], s32[]) tuple(s, w) }
few { s = (s32[], f32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)  ROOT c = pred[] compare(i, n), direction=LT }
half { s = (s32[], f32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0  v = f32[] get-tuple-element(s), index=1
  o = s32[] constant(1)  j = s32[] add(i, o)  h = f32[] constant(0.5)  w = f32[] multiply(v, h)
  ROOT t = (s32[], f32[]) tuple(j, w) }
eighth { p = f32[] parameter(0)  zero = s32[] constant(0)  s = (s32[], f32[]) tuple(zero, p)
  l = (s32[], f32[]) while(s), condition=few, body=half  ROOT r = f32[] get-tuple-element(l), index=1 }
minus { p = f32[] parameter(0)  ROOT n = f32[] negate(p) }
combine { a = f32[] parameter(0)  b = f32[] parameter(1)  a1 = f32[1] reshape(a)  b1 = f32[1] reshape(b)
  sum = f32[] add(a, b)  BODY }
"""
BODIES = {
    "iota": "i = f32[1] iota(), iota_dimension=0  c = f32[1] cosine(i)  d = f32[] reshape(c)  "
    "ROOT r = f32[] add(sum, d)",
    "a size": "n = s32[] get-dimension-size(a1), dimensions={0}  c = f32[] convert(n)  ROOT r = f32[] add(sum, c)",
    "call": "ROOT r = f32[] call(a, b), to_apply=add",
    "fusion": "ROOT r = f32[] fusion(a, b), kind=kLoop, calls=add",
    "map": "m = f32[1] map(a1, b1), dimensions={0}, to_apply=add  ROOT r = f32[] reshape(m)",
    "reduce": "ROOT r = f32[] reduce(a1, b), dimensions={0}, to_apply=add",
    "reduce of two": "i = s32[1] iota(), iota_dimension=0  n = s32[] constant(3)  "
    "t = (f32[], s32[]) reduce(a1, i, b, n), dimensions={0}, to_apply=both  x = f32[] get-tuple-element(t), index=0  "
    "y = s32[] get-tuple-element(t), index=1  z = f32[] convert(y)  ROOT r = f32[] add(x, z)",
    "dynamic-update-slice": "k = s32[] convert(a)  d = f32[1] dynamic-update-slice(a1, b1, k)  e = f32[] reshape(d)  "
    "ROOT r = f32[] subtract(e, a)",
    "pad that keeps": "d = f32[1] pad(a1, b), padding=0_0_2  e = f32[] reshape(d)  ROOT r = f32[] subtract(e, b)",
    "pad before": "d = f32[1] pad(a1, b), padding=1_-1  e = f32[] reshape(d)  ROOT r = f32[] subtract(e, a)",
    "pad behind": "d = f32[1] pad(a1, b), padding=-1_1  e = f32[] reshape(d)  ROOT r = f32[] subtract(e, a)",
    "pad along one of two": "c = f32[1,1] reshape(a)  d = f32[1,1] pad(c, b), padding=0_0x1_-1  e = f32[] reshape(d)  "
    "ROOT r = f32[] subtract(e, a)",
    "a loop called": "ROOT r = f32[] call(sum), to_apply=eighth",
    "a loop mapped": "ROOT r = f32[] map(sum), dimensions={}, to_apply=eighth",
    "a loop in a branch": "g = pred[] compare(a, b), direction=GT  "
    "ROOT r = f32[] conditional(g, sum, sum), true_computation=eighth, false_computation=minus",
    "constants beyond f16": "n = f32[] constant(-1e6)  h = f16[] convert(n)  l = f32[] convert(h)  "
    "p = f32[] constant(1e6)  g = f16[] convert(p)  u = f32[] convert(g)  m = f32[] maximum(a, l)  "
    "o = f32[] minimum(m, u)  ROOT r = f32[] add(o, b)",
}


@pytest.mark.parametrize("name", BODIES)
def test_operations_on_single_elements(name: str) -> None:
    combine = INNER.replace("BODY", BODIES[name])
    reduced = "ROOT r = f32[4] reduce(x, z), dimensions={1}, to_apply=combine"
    main = f"ENTRY main {{ x = f32[4,6] parameter(0)  z = f32[] constant(0)  {reduced} }}"
    differential(f"HloModule m\n{combine}\n{main}", GRID)


PRECISIONS = {
    "reduce": ("bf16[6,11]", "f32[]", "f32[6]", "reduce(x, y), dimensions={1}"),
    "reduce, less precise": ("f32[6,11]", "f32[]", "bf16[6]", "reduce(x, y), dimensions={1}"),
    "reduce-window": ("bf16[6,11]", "f32[]", "f32[5,11]", "reduce-window(x, y), window={size=2x1}"),
    "scatter of rows": (
        "bf16[6,11]", "f32[9,11]", "bf16[6,11]",
        "scatter(x, i, y), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
        "index_vector_dim=1",
    ),
    "scatter of elements": (
        "f16[11]", "f32[9]", "f16[11]",
        "scatter(x, i, y), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
        "index_vector_dim=1",
    ),
    "scatter of less precise elements": (
        "f32[11]", "bf16[9]", "f32[11]",
        "scatter(x, i, y), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
        "index_vector_dim=1",
    ),
    "scatter of batches": (
        "bf16[9,11]", "f32[9]", "bf16[9,11]",
        "scatter(x, i, y), update_window_dims={}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, "
        "index_vector_dim=1, input_batching_dims={0}, scatter_indices_batching_dims={0}",
    ),
}  # fmt: skip


@pytest.mark.parametrize("computed", ["f32", "bf16"])
@pytest.mark.parametrize("name", PRECISIONS)
def test_floats_of_another_precision(name: str, computed: str) -> None:
    """A computation may take and give floats that are more or less precise than those of the arrays."""
    first, second, result, operation = PRECISIONS[name]
    if operation.startswith("reduce("):
        result = computed + result[result.index("[") :]
    text = f"""HloModule m
less {{ p = {computed}[] parameter(0)  q = {computed}[] parameter(1)  c = {computed}[] constant(0.3)
  h = {computed}[] multiply(p, c)  ROOT s = {computed}[] subtract(h, q) }}
ENTRY main {{ x = {first} parameter(0)  y = {second} parameter(1)
  i = s32[9,1] constant({{{{1}},{{3}},{{-1}},{{1}},{{4}},{{12}},{{0}},{{5}},{{4}}}})
  ROOT r = {result} {operation}, to_apply=less }}"""
    rng = np.random.default_rng(4)
    arguments = []
    for element_type, dims in (text_.rstrip("]").split("[") for text_ in (first, second)):
        values = rng.standard_normal([int(d) for d in dims.split(",") if d])
        arguments.append(array(element_type, values))
    differential(text, *arguments, targets=["simd128", "relaxed-simd"])


BY_PRED_OF_TWO = function(
    "f32, s32, f32, s32",
    lambda b, x, i, y, j: (
        lambda both: b.op(
            "conditional", b.op("compare", x, y, direction="LT"), both, both, called=[_pair("add"), _pair("maximum")]
        )
    )(b.op("tuple", x, i, y, j)),
)
LOOP_OF_TWO = function("f32, s32, f32, s32", lambda b, x, i, y, j: b.op("tuple", _loop(b, x, y), b.op("add", i, j)))


def _pair(opcode: str) -> Computation:
    """The results of an operation on the first and the third, and on the second and the fourth of four."""
    four = Shape.tuple([Shape(t) for t in ("f32", "s32", "f32", "s32")])

    def body(b: Builder, s: Instruction) -> Instruction:
        x, i, y, j = (b.op("get-tuple-element", s, index=k) for k in range(4))
        return b.op("tuple", b.op(opcode, x, y), b.op(opcode, i, j))

    return computation(four, body)


@pytest.mark.parametrize("combine", [BY_PRED_OF_TWO, LOOP_OF_TWO], ids=["branches", "loop"])
@pytest.mark.parametrize("dims", [(4, 6), (3, 40), (0, 5), (5, 0), (1, 7)])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_reduce_of_two_arrays(combine: Maker, dims: tuple[int, ...], dtype: str) -> None:
    """Branches and loops, over nothing and for nothing, too; floats in another precision than the reducer's."""
    x, i = array(dtype, RNG.integers(-9, 9, dims)), s32(RNG.integers(-9, 9, dims))
    for dimensions in ((0,), (1,), (0, 1), ()):
        check("reduce", x, i, array(dtype, 2), s32(3), called=(combine,), dimensions=dimensions)
    if dtype == "f32":
        check("reduce-window", x, i, f32(2), s32(3), called=(combine,), window=window((2, 1, 1, 1), (3, 1, 1, 1)))


@pytest.mark.parametrize("size", [0, 1, 33])
def test_map_by_a_loop(size: int) -> None:
    x, y = (f32(RNG.integers(-9, 9, (size, 3))) for _ in range(2))
    check("map", x, y, called=(LOOP,), dimensions=(0, 1))


@pytest.mark.parametrize("dims, dimensions", [((3, 20), ()), ((20, 1), (1,)), ((1, 20), (0,)), ((5, 1, 9, 1), (1, 3))])
def test_where_nothing_is_reduced_the_initial_value_changes_nothing(
    dims: tuple[int, ...], dimensions: tuple[int, ...]
) -> None:
    """As in XLA, also where floats get another precision."""
    x = RNG.integers(-9, 9, dims)
    kept = tuple(size for d, size in enumerate(dims) if d not in dimensions)
    for dtype, result in (("f32", "f32"), ("bf16", "f32"), ("f32", "bf16"), ("f16", "f32")):
        module = case(
            "reduce",
            (array(dtype, x), array(result, 2)),
            (),
            called=(reducer("add", result),),
            dimensions=dimensions,
        ).module()
        expected = array(result, x.reshape(kept))
        np.testing.assert_array_equal(evaluate(module, array(dtype, x), array(result, 2))[0], expected)
        differential(module, array(dtype, x), array(result, 2), targets=("simd128", "threads"), expected=[expected])


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("dims", [(40, 3, 300), (40, 2, 508), (40, 2, 516), (40, 516), (17, 600)])
def test_sums_of_long_columns(dims: tuple[int, ...], dtype: str) -> None:
    """Their rows are so long that sums are in memory, of so many columns at least."""
    x = array(dtype, RNG.integers(-3, 4, dims))
    for opcode in ("add", "maximum"):
        module = case("reduce", (x, array(dtype, 0)), (), called=(reducer(opcode, dtype),), dimensions=(0,)).module()
        differential(module, x, array(dtype, 0), targets=("relaxed-simd for v8", "threads"))


def test_scans_of_one_result() -> None:
    """It is no tuple: a carry, or an output."""
    x, start = f32(RNG.integers(-9, 9, (5, 3))), f32(RNG.integers(-9, 9, 3))
    add, negate = (
        function("f32[3], f32[3]", lambda b, x, t: b.op("add", x, t)),
        function("f32[3]", lambda b, x: b.op("negate", x)),
    )
    for reverse in (False, True):
        module = case(
            "scan", (x, start), (), called=(add,), dimensions=(0,), num_carries=1, is_reverse=reverse
        ).module()
        differential(module, x, start, expected=[x.sum(0) + start])
        assert_same(evaluate(module, x, start)[0], x.sum(0) + start)
        module = case("scan", (x,), (), called=(negate,), dimensions=(0,), num_carries=0, is_reverse=reverse).module()
        differential(module, x, expected=[-x])
        assert_same(evaluate(module, x)[0], -x)
