"""Samples of reduce, map and scan."""

from __future__ import annotations

import numpy as np

from ...builder import Builder
from ...hlo.ir import Instruction
from ..sample import (
    Sample,
    array,
    case,
    f32,
    f64,
    function,
    inf,
    nan,
    pred,
    program,
    reducer,
    s8,
    s32,
    s64,
    shape,
    u8,
    u32,
)

_TABLE = f32([[1, 2, 3], [4, 5, 6]])
_CUBE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)

# the greatest value and its index, the first of equals, as JAX writes argmax
_ARGMAX = function(
    "f32, s32, f32, s32",
    lambda b, x, i, y, j: b.op(
        "tuple",
        b.op("select", b.op("or", b.op("compare", x, y, direction="GT"), b.op("compare", x, x, direction="NE")), x, y),
        b.op(
            "select",
            b.op(
                "or",
                b.op("or", b.op("compare", x, y, direction="GT"), b.op("compare", x, x, direction="NE")),
                b.op("and", b.op("compare", x, y, direction="EQ"), b.op("compare", i, j, direction="LT")),
            ),
            i,
            j,
        ),
    ),
)
# not associative, so the order of the fold shows
_DIGITS = function("s32, s32", lambda b, x, y: b.op("add", b.op("multiply", x, b.constant(shape("s32"), [10])), y))
_COUNT = np.arange(1, 8)
_GREATEST = function(
    "f32, s32, f32, s32",
    lambda b, x, i, y, j: (lambda later: b.op("tuple", b.op("select", later, y, x), b.op("select", later, j, i)))(
        b.op("compare", y, x, direction="GE")
    ),
)
_SUM_AND_GREATEST = function(
    "f64, s8, f64, s8", lambda b, x, i, y, j: b.op("tuple", b.op("add", x, y), b.op("maximum", i, j))
)
_ONE_TUPLE = function("f32, f32", lambda b, x, y: b.op("tuple", b.op("add", x, y)))
_RUNNING = function("f32[2], f32[2]", lambda b, x, total: (lambda new: b.op("tuple", new, new))(b.op("add", x, total)))


def _several(b: Builder, x: Instruction, i: Instruction, last: Instruction, count: Instruction) -> Instruction:
    """Differences of neighbours, and the sums of slices and what was before; a count of trips."""
    spread = b.op("broadcast", count, shape=shape("s32[2]"), dimensions=())
    more = b.op("add", count, b.constant(shape("s32"), [1]))
    return b.op("tuple", b.op("subtract", x, last), b.op("add", i, spread), x, more)


_SEVERAL = function("f32[2], s32[2], f32[2], s32", _several)

_COUNTED = s32(np.tile(np.arange(1, 7).reshape(1, 2, 3), (4, 1, 1)))


def _greater_or_equal(b: Builder, v: Instruction, i: Instruction, w: Instruction, j: Instruction) -> Instruction:
    later = b.op("compare", w, v, direction="GE")
    return b.op("tuple", b.op("select", later, w, v), b.op("select", later, j, i))


_LAST_GREATEST = function("f32, s32, f32, s32", _greater_or_equal)

_COMPLEX = np.array([[1 + 2j, 3 - 1j], [2 + 1j, 1 - 1j]])
_FARTHEST = function(
    "c64, s32, c64, s32",
    lambda b, x, i, y, j: (lambda later: b.op("tuple", b.op("select", later, y, x), b.op("select", later, j, i)))(
        b.op("compare", b.op("abs", y), b.op("abs", x), direction="GT")
    ),
)
_SCALED = function("c64, f32", lambda b, z, x: b.op("multiply", z, b.op("complex", x, b.op("imag", x))))

SAMPLES: tuple[Sample, ...] = (
    case("reduce", (_TABLE, f32(0)), f32([6, 15]), name="rows", called=(reducer("add", "f32"),), dimensions=(1,)),
    case("reduce", (_TABLE, f32(10)), f32([15, 17, 19]), name="columns", called=(reducer("add", "f32"),),
        dimensions=(0,)),
    *(
        case("reduce", (array(t, _COMPLEX), array(t, init)), array(t, expected), name=name,
            called=(reducer(opcode, t),), dimensions=dims)
        for t in ("c64", "c128")
        for name, opcode, init, expected, dims in (
            ("sum of rows", "add", 1j, [4 + 2j, 3 + 1j], (1,)),
            ("sum of columns", "add", 0, [3 + 3j, 4 - 2j], (0,)),
            ("product", "multiply", 1, 20 + 10j, (0, 1)),
        )
    ),
    case("reduce", (array("c64", [1 + 2j, -3j, 2]), s32([0, 1, 2]), array("c64", 0), s32(-1)),
        (array("c64", -3j), s32(1)), name="the greatest magnitude and its place", called=(_FARTHEST,), dimensions=(0,)),
    case("map", (array("c64", [1 + 2j, 3]), f32([2, 3])), array("c64", [2 + 4j, 9]), called=(_SCALED,), dimensions=(0,),
        name="complex"),
    case("map", (array("c64", [3 + 4j, 0]),), f32([5, 0]), called=(function("c64", lambda b, z: b.op("abs", z)),),
        dimensions=(0,), name="of complex"),
    case(
        "scan",
        (array("c64", [[1, 1j], [2, 2]]), array("c64", [1, 1])),
        (array("c64", [[1, 1j], [2, 2j]]), array("c64", [2, 2j])),
        name="complex",
        called=(
            function("c64[2], c64[2]", lambda b, x, t: (lambda new: b.op("tuple", new, new))(b.op("multiply", x, t))),
        ),
        dimensions=(0,),
        num_carries=1,
    ),
    case("reduce", (_TABLE, f32(0)), f32(21), name="all", called=(reducer("add", "f32"),), dimensions=(0, 1)),
    case("reduce", (_TABLE, f32(5)), _TABLE, name="no dimension", called=(function("f32, f32", lambda b, x, y: y),),
        dimensions=()),
    case("reduce", (_CUBE, f32(0)), f32([60, 92, 124]), name="outer and inner", called=(reducer("add", "f32"),),
        dimensions=(0, 2)),
    case("reduce", (_CUBE, f32(0)), _CUBE.sum(1), name="middle", called=(reducer("add", "f32"),), dimensions=(1,)),
    case("reduce", (_CUBE, f32(0)), _CUBE.sum((1, 2)), name="two inner", called=(reducer("add", "f32"),),
        dimensions=(1, 2)),
    case("reduce", (f32(np.ones(1003)), f32(0)), f32(1003), name="odd length", called=(reducer("add", "f32"),),
        dimensions=(0,)),
    case("reduce", (f32(np.zeros((2, 0))), f32(7)), f32([7, 7]), name="empty dimension",
        called=(reducer("add", "f32"),), dimensions=(1,)),
    case("reduce", (f32(np.zeros((0, 2))), f32(7)), f32([]), name="empty result", called=(reducer("add", "f32"),),
        dimensions=(1,)),
    case("reduce", (f32([[1, nan, 3], [-inf, -5, -7]]), f32(-inf)), f32([nan, -5]), name="maximum",
        called=(reducer("maximum", "f32"),), dimensions=(1,)),
    case("reduce", (f32([[1, nan, 3], [inf, -5, -7]]), f32(inf)), f32([nan, -7]), name="minimum",
        called=(reducer("minimum", "f32"),), dimensions=(1,)),
    case("reduce", (f32([1, 2, 3, 4, 5]), f32(2)), f32(240), name="multiply", called=(reducer("multiply", "f32"),),
        dimensions=(0,)),
    case("reduce", (f64(_COUNT), f64(0.5)), f64(28.5), name="add", called=(reducer("add", "f64"),), dimensions=(0,)),
    case("reduce", (s32([2**31 - 1, 1, 5]), s32(0)), s32(-(2**31) + 5), name="wraps", called=(reducer("add", "s32"),),
        dimensions=(0,)),
    case("reduce", (s8([100, 100, 5]), s8(0)), s8(-51), name="wraps", called=(reducer("add", "s8"),), dimensions=(0,)),
    case("reduce", (u8([200, 100, 5]), u8(0)), u8(49), name="wraps", called=(reducer("add", "u8"),), dimensions=(0,)),
    *(
        case("reduce", (array(t, _COUNT), array(t, 0)), array(t, 7), name="maximum", called=(reducer("maximum", t),),
            dimensions=(0,))
        for t in ("s32", "u32", "s8", "u8", "s64", "f64")
    ),
    case("reduce", (u32([2**31, 1]), u32(2**32 - 1)), u32(1), name="minimum", called=(reducer("minimum", "u32"),),
        dimensions=(0,)),
    case("reduce", (s64([2**40, 5]), s64(0)), s64(2**40 + 5), name="add", called=(reducer("add", "s64"),),
        dimensions=(0,)),
    case("reduce", (s32([12, 10]), s32(-1)), s32(8), name="and", called=(reducer("and", "s32"),), dimensions=(0,)),
    case("reduce", (s32([12, 10]), s32(0)), s32(6), name="xor", called=(reducer("xor", "s32"),), dimensions=(0,)),
    case("reduce", (pred([[1, 1], [1, 0]]), pred(1)), pred([1, 0]), name="and", called=(reducer("and", "pred"),),
        dimensions=(1,)),
    case("reduce", (pred([[0, 0], [1, 0]]), pred(0)), pred([0, 1]), name="or", called=(reducer("or", "pred"),),
        dimensions=(1,)),
    case("reduce", (s32([[1, 2, 3], [4, 5, 6]]), s32(0)), s32([123, 456]), name="in index order", called=(_DIGITS,),
        dimensions=(1,)),
    case("reduce", (s32([[1, 2, 3], [4, 5, 6]]), s32(7)), s32([714, 725, 736]), name="columns in index order",
        called=(_DIGITS,), dimensions=(0,)),
    case("reduce", (f32([[1, 5, 5, 2], [nan, 9, nan, 0]]), s32([[0, 1, 2, 3], [0, 1, 2, 3]]), f32(-inf), s32(0)),
        (f32([5, nan]), s32([1, 0])), name="argmax", called=(_ARGMAX,), dimensions=(1,)),
    case("reduce", (f32([[1, 5], [3, 5], [0, 7]]), s32([[0, 0], [1, 1], [2, 2]]), f32(-inf), s32(0)),
        (f32([3, 7]), s32([1, 2])), name="argmax of columns", called=(_ARGMAX,), dimensions=(0,)),
    case("reduce", (f32([1, 5, 5, 2]), s32([0, 1, 2, 3]), f32(-inf), s32(-1)), (f32(5), s32(2)),
        name="last of the greatest", called=(_GREATEST,), dimensions=(0,)),
    case("reduce", (f64([[1, 2], [3, 4]]), s8([[-1, -2], [-3, -4]]), f64(0.5), s8(-100)),
        (f64([4.5, 6.5]), s8([-1, -2])), name="two types", called=(_SUM_AND_GREATEST,), dimensions=(0,)),
    case("reduce", (_TABLE, f32(1)), (f32([7, 16]),), name="a tuple of one", called=(_ONE_TUPLE,), dimensions=(1,)),
    case("reduce", (np.ones((8, 33), np.float32), f32(1)), (f32([36] * 8),), name="a tuple of one, in windows",
         called=(_ONE_TUPLE,), dimensions=(1,)),
    case("reduce", (np.ones((8, 1000), np.float32), f32(1)), (f32([1001] * 8),), name="a tuple of one, of many",
         called=(_ONE_TUPLE,), dimensions=(1,)),
    program(
        "reduce",
        (f32([[1, 3], [10, 6]]),),
        f32([[0.25, 0.75], [0.625, 0.375]]),
        lambda b, x: b.op(
            "divide",
            x,
            b.op(
                "broadcast",
                b.op("reduce", x, b.constant(shape("f32"), [0]), called=[reducer("add", "f32")()], dimensions=(1,)),
                shape=shape("f32[2,2]"),
                dimensions=(0,),
            ),
        ),
        name="rows of one sum",
    ),
    case("map", (f32([1, 2, 3]), f32([4, 5, 6])), f32([5, 7, 9]), called=(reducer("add", "f32"),), dimensions=(0,)),
    case(
        "map",
        (s32([[1, -2], [3, -4]]),),
        s32([[3, -5], [7, -9]]),
        called=(
            function(
                "s32",
                lambda b, x: b.op(
                    "subtract", b.op("add", x, x), b.op("sign", b.op("subtract", b.constant(shape("s32"), [0]), x))
                ),
            ),
        ),
        dimensions=(0, 1),
        name="any computation",
    ),
    *(
        case("scan", (f32([[1, 2], [3, 4], [5, 6]]), f32([10, 20])), (f32(stacked), f32([19, 32])), name=name,
            called=(_RUNNING,), dimensions=(0,), num_carries=1, is_reverse=reverse)
        for name, reverse, stacked in (
            ("", False, [[11, 22], [14, 26], [19, 32]]),
            ("reverse", True, [[19, 32], [18, 30], [15, 26]]),
        )
    ),
    case("scan", (f32([[1, 4, 9], [0, 2, 8]]), s32([[7, 7, 7], [1, 2, 3]]), f32([0, 0]), s32(5)),
        (f32([[1, 3, 5], [0, 2, 6]]), s32([[12, 13, 14], [6, 8, 10]]), f32([9, 8]), s32(8)),
        name="several along the last dimension", called=(_SEVERAL,), dimensions=(1,), num_carries=2),
    case("scan", (f32(np.zeros((0, 2))), f32([10, 20])), (f32(np.zeros((0, 2))), f32([10, 20])), name="empty",
        xla="XLA:CPU takes a slice of size 1 of what is empty, and refuses it", called=(_RUNNING,), dimensions=(0,),
        num_carries=1),
    case("reduce", (s32([10, 11, 12, 13]), s32(0)), s32(46), name="four", called=(reducer("add", "s32"),),
        dimensions=(0,)),
    *(
        case("reduce", (_COUNTED, s32(0)), s32(_COUNTED.sum(axes)), name=f"over {axes}",
            called=(reducer("add", "s32"),), dimensions=axes)
        for axes in ((0,), (2,), (0, 1), (0, 1, 2))
    ),
    program(
        "reduce",
        (f32([3, 9, 2, 7, 8, 1]),),
        (f32(9), s32(1)),
        lambda b, x: b.op(
            "reduce",
            *(
                x,
                b.op("iota", shape=shape("s32[6]"), iota_dimension=0),
                b.constant(shape("f32"), [-inf]),
                b.constant(shape("s32"), [-1]),
            ),
            called=[_LAST_GREATEST()],
            dimensions=(0,),
        ),
        name="greatest and its place",
    ),
)  # fmt: skip
