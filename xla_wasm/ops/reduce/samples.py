"""Samples of reduce and map."""

from __future__ import annotations

import numpy as np

from ..sample import Sample, array, case, f32, f64, function, inf, nan, pred, program, reducer, s8, s32, s64, shape, u8, u32

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

SAMPLES: tuple[Sample, ...] = (
    case("reduce", (_TABLE, f32(0)), f32([6, 15]), name="rows", called=(reducer("add", "f32"),), dimensions=(1,)),
    case("reduce", (_TABLE, f32(10)), f32([15, 17, 19]), name="columns", called=(reducer("add", "f32"),), dimensions=(0,)),
    case("reduce", (_TABLE, f32(0)), f32(21), name="all", called=(reducer("add", "f32"),), dimensions=(0, 1)),
    case("reduce", (_TABLE, f32(5)), _TABLE, name="no dimension", called=(function("f32, f32", lambda b, x, y: y),), dimensions=()),
    case("reduce", (_CUBE, f32(0)), f32([60, 92, 124]), name="outer and inner", called=(reducer("add", "f32"),), dimensions=(0, 2)),
    case("reduce", (_CUBE, f32(0)), _CUBE.sum(1), name="middle", called=(reducer("add", "f32"),), dimensions=(1,)),
    case("reduce", (_CUBE, f32(0)), _CUBE.sum((1, 2)), name="two inner", called=(reducer("add", "f32"),), dimensions=(1, 2)),
    case("reduce", (f32(np.ones(1003)), f32(0)), f32(1003), name="odd length", called=(reducer("add", "f32"),), dimensions=(0,)),
    case("reduce", (f32(np.zeros((2, 0))), f32(7)), f32([7, 7]), name="empty dimension", called=(reducer("add", "f32"),), dimensions=(1,)),
    case("reduce", (f32(np.zeros((0, 2))), f32(7)), f32([]), name="empty result", called=(reducer("add", "f32"),), dimensions=(1,)),
    case(
        "reduce",
        (f32([[1, nan, 3], [-inf, -5, -7]]), f32(-inf)),
        f32([nan, -5]),
        name="maximum",
        called=(reducer("maximum", "f32"),),
        dimensions=(1,),
    ),
    case(
        "reduce",
        (f32([[1, nan, 3], [inf, -5, -7]]), f32(inf)),
        f32([nan, -7]),
        name="minimum",
        called=(reducer("minimum", "f32"),),
        dimensions=(1,),
    ),
    case("reduce", (f32([1, 2, 3, 4, 5]), f32(2)), f32(240), name="multiply", called=(reducer("multiply", "f32"),), dimensions=(0,)),
    case("reduce", (f64(_COUNT), f64(0.5)), f64(28.5), name="add", called=(reducer("add", "f64"),), dimensions=(0,)),
    case("reduce", (s32([2**31 - 1, 1, 5]), s32(0)), s32(-(2**31) + 5), name="wraps", called=(reducer("add", "s32"),), dimensions=(0,)),
    case("reduce", (s8([100, 100, 5]), s8(0)), s8(-51), name="wraps", called=(reducer("add", "s8"),), dimensions=(0,)),
    case("reduce", (u8([200, 100, 5]), u8(0)), u8(49), name="wraps", called=(reducer("add", "u8"),), dimensions=(0,)),
    *(
        case("reduce", (array(t, _COUNT), array(t, 0)), array(t, 7), name="maximum", called=(reducer("maximum", t),), dimensions=(0,))
        for t in ("s32", "u32", "s8", "u8", "s64", "f64")
    ),
    case("reduce", (u32([2**31, 1]), u32(2**32 - 1)), u32(1), name="minimum", called=(reducer("minimum", "u32"),), dimensions=(0,)),
    case("reduce", (s64([2**40, 5]), s64(0)), s64(2**40 + 5), name="add", called=(reducer("add", "s64"),), dimensions=(0,)),
    case("reduce", (s32([12, 10]), s32(-1)), s32(8), name="and", called=(reducer("and", "s32"),), dimensions=(0,)),
    case("reduce", (s32([12, 10]), s32(0)), s32(6), name="xor", called=(reducer("xor", "s32"),), dimensions=(0,)),
    case("reduce", (pred([[1, 1], [1, 0]]), pred(1)), pred([1, 0]), name="and", called=(reducer("and", "pred"),), dimensions=(1,)),
    case("reduce", (pred([[0, 0], [1, 0]]), pred(0)), pred([0, 1]), name="or", called=(reducer("or", "pred"),), dimensions=(1,)),
    case("reduce", (s32([[1, 2, 3], [4, 5, 6]]), s32(0)), s32([123, 456]), name="in index order", called=(_DIGITS,), dimensions=(1,)),
    case(
        "reduce",
        (s32([[1, 2, 3], [4, 5, 6]]), s32(7)),
        s32([714, 725, 736]),
        name="columns in index order",
        called=(_DIGITS,),
        dimensions=(0,),
    ),
    case(
        "reduce",
        (f32([[1, 5, 5, 2], [nan, 9, nan, 0]]), s32([[0, 1, 2, 3], [0, 1, 2, 3]]), f32(-inf), s32(0)),
        (f32([5, nan]), s32([1, 0])),
        name="argmax",
        called=(_ARGMAX,),
        dimensions=(1,),
    ),
    case(
        "reduce",
        (f32([[1, 5], [3, 5], [0, 7]]), s32([[0, 0], [1, 1], [2, 2]]), f32(-inf), s32(0)),
        (f32([3, 7]), s32([1, 2])),
        name="argmax of columns",
        called=(_ARGMAX,),
        dimensions=(0,),
    ),
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
                "s32", lambda b, x: b.op("subtract", b.op("add", x, x), b.op("sign", b.op("subtract", b.constant(shape("s32"), [0]), x)))
            ),
        ),
        dimensions=(0, 1),
        name="any computation",
    ),
)
