"""Samples of operations over sliding windows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...hlo.attrs import Window, WindowDimension
from ..sample import Maker, Sample, array, case, f32, function, inf, nan, reducer, s32

_GREATER_EQUAL = function("f32, f32", lambda b, x, y: b.op("compare", x, y, direction="GE"))
_GREATER = function("f32, f32", lambda b, x, y: b.op("compare", x, y, direction="GT"))
_ARGMAX = function(
    "f32, s32, f32, s32",
    lambda b, x, i, y, j: b.op(
        "tuple",
        b.op("maximum", x, y),
        b.op("select", b.op("compare", x, y, direction="GE"), i, j),
    ),
)
_ONE_TUPLE = function("f32, f32", lambda b, x, y: b.op("tuple", b.op("add", x, y)))


def _window(*dims: Any) -> Window:
    """Dimensions as (size, stride, low, high, window dilation, base dilation), shortened from the right."""
    return Window(tuple(WindowDimension(*d) for d in dims))


def _sum(x: Any, init: float, expected: Any, name: str, *dims: tuple[int, ...], opcode: str = "add") -> Sample:
    return case(
        "reduce-window",
        (f32(x), f32(init)),
        f32(expected),
        name=f"{opcode} {name}",
        called=(reducer(opcode, "f32"),),
        window=_window(*dims),
    )


_LINE = np.array([1, 2, 3, 4, 5])
_GRID = np.array([[1, 5, 2, 0], [3, 4, 8, 1], [9, 2, 7, 6], [0, 1, 3, 2]])


def _pooled(
    x: Any,
    source: Any,
    expected: Any,
    name: str,
    *dims: tuple[int, ...],
    init: float = 0,
    select: Maker = _GREATER_EQUAL,
) -> Sample:
    return case(
        "select-and-scatter",
        (f32(x), f32(source), f32(init)),
        f32(expected),
        name=name,
        called=(select, reducer("add", "f32")),
        window=_window(*dims),
    )


_NO_SHORTER = function("c64, c64", lambda b, x, y: b.op("compare", b.op("abs", x), b.op("abs", y), direction="GE"))
_POWERS = f32([10000, 1000, 100, 10, 1])

SAMPLES: tuple[Sample, ...] = (
    _sum(_LINE, 0, [3, 5, 7, 9], "", (2,)),
    _sum(_LINE, 0, [3, 7], "stride", (2, 2)),
    _sum(_LINE, 100, [101, 103, 105, 107, 109, 105], "the initial value enters once, padding never", (2, 1, 1, 1)),
    _sum(_LINE, 0, [4, 6, 8], "window dilation", (2, 1, 0, 0, 2)),
    _sum(_LINE, 0, [1, 2, 2, 3, 3, 4, 4, 5], "base dilation", (2, 1, 0, 0, 1, 2)),
    _sum(_LINE, 0, [1, 3, 6, 10, 15], "prefix sums", (5, 1, 4, 0)),
    _sum(_LINE, 0, [15, 14, 12, 9, 5], "suffix sums", (5, 1, 0, 4)),
    _sum(_LINE, 0, [1, 3, 6, 10, 15], "prefix sums, window too long", (7, 1, 6, 0)),
    _sum(_LINE, 2, [2, 4, 12, 48, 240], "prefix products", (5, 1, 4, 0), opcode="multiply"),
    _sum([3, 1, nan, 5], -inf, [3, 3, nan, nan], "prefix", (4, 1, 3, 0), opcode="maximum"),
    _sum([3, 1, nan, 5], inf, [nan, nan, nan, 5], "suffix", (4, 1, 0, 3), opcode="minimum"),
    _sum([1, inf, 2, -inf, 3], 0, [1, inf, inf, nan, nan], "prefix sums of infinities", (5, 1, 4, 0)),
    _sum(_GRID, 1, np.cumsum(_GRID, 0) + 1, "prefix sums of columns", (4, 1, 3, 0), (1,)),
    _sum(_GRID, 0, np.cumsum(_GRID[::-1], 0)[::-1], "suffix sums of columns", (4, 1, 0, 3), (1,)),
    _sum(_GRID, 0, np.cumsum(_GRID[:, ::-1], 1)[:, ::-1], "suffix sums of rows", (1,), (4, 1, 0, 3)),
    _sum(
        _GRID[:, :, None],
        0,
        np.cumsum(_GRID, 1)[:, :, None],
        "prefix sums before a dimension of 1",
        (1,),
        (4, 1, 3, 0),
        (1,),
    ),
    _sum(_GRID[:3, :2], 0, [[0, 0], [3, 4]], "both dilations", (2, 4, 2, 1, 3, 2), (1,)),
    _sum(_LINE, 0, [5, 7], "negative padding", (2, 1, -1, -1)),
    _sum(_LINE, 0, [], "window too large", (7,)),
    _sum(_LINE, 3, [3, 4, 5, 6, 7, 8, 3], "window wholly in padding", (1, 1, 1, 1)),
    _sum(_GRID, -inf, [[5, 8], [9, 7]], "pooling", (2, 2), (2, 2), opcode="maximum"),
    _sum(_GRID, -inf, [[5, 8, 8], [9, 8, 8], [9, 7, 7]], "overlapping", (2,), (2,), opcode="maximum"),
    _sum(_GRID, inf, [[1, 0], [0, 2]], "pooling", (2, 2), (2, 2), opcode="minimum"),
    _sum(_GRID, -inf, [[1, 5, 0], [9, 8, 6], [0, 3, 2]], "padded", (2, 2, 1, 1), (2, 2, 1, 1), opcode="maximum"),
    _sum(_GRID[None, :, :, None], 0, [[[[13], [11]], [[12], [18]]]], "batch and channel", (1,), (2, 2), (2, 2), (1,)),
    _sum(np.zeros((0, 3)), 0, np.zeros((0, 2)), "empty", (1,), (2,)),
    _sum(_LINE, 1, [2, 6, 12, 20], "product", (2,), opcode="multiply"),
    case("reduce-window", (f32([1, nan, 3]), f32(-inf)), f32([nan, nan]), name="NaN",
        called=(reducer("maximum", "f32"),), window=_window((2,))),
    case("reduce-window", (s32(_LINE), s32(0)), s32([1, 3, 6, 10, 15]), name="prefix sums",
        called=(reducer("add", "s32"),), window=_window((5, 1, 4, 0))),
    *(
        case("reduce-window", (array(t, _LINE), array(t, 0)), array(t, [2, 3, 4, 5]), called=(reducer("maximum", t),),
            window=_window((2,)))
        for t in ("f64", "s32", "u32", "s8", "u8", "s64")
    ),
    case("reduce-window", (f32([3, 1, 4, 1, 5]), s32([0, 1, 2, 3, 4]), f32(-inf), s32(-1)),
        (f32([3, 4, 4, 5]), s32([0, 2, 2, 4])), name="two operands", called=(_ARGMAX,), window=_window((2,))),
    case("reduce-window", (f32([3, 1, 4, 1, 5]), s32([0, 1, 2, 3, 4]), f32(-inf), s32(-1)),
        (f32([3, 3, 4, 4, 5]), s32([0, 0, 2, 2, 4])), name="prefixes of two operands", called=(_ARGMAX,),
        window=_window((5, 1, 4, 0))),
    case("reduce-window", (f32([3, 1, 4]), s32([0, 1, 2]), f32(-inf), s32(-1)),
        (f32([3, 3, 1, 4, 4]), s32([0, 0, 1, 2, 2])), name="two operands, padding and base dilation", called=(_ARGMAX,),
        window=_window((3, 1, 1, 1, 1, 2))),
    case("reduce-window", (f32(_LINE), f32(0)), (f32([3, 5, 7, 9]),), name="a tuple of one", called=(_ONE_TUPLE,),
        window=_window((2,))),
    *(
        case("reduce-window", (array(t, [1, 1j, 2, 3 - 1j]), array(t, init)), array(t, expected), name=opcode,
            called=(reducer(opcode, t),), window=_window((2, 1, 1, 0)))
        for t in ("c64", "c128")
        for opcode, init, expected in (("add", 0, [1, 1 + 1j, 2 + 1j, 5 - 1j]), ("multiply", 1, [1, 1j, 2j, 6 - 2j]))
    ),
    case("select-and-scatter", (array("c64", [1, -3j, 2, 2j]), array("c64", [10 + 1j, 20 - 1j]), array("c64", 1j)),
        array("c64", [1j, 10 + 2j, 20, 1j]), called=(_NO_SHORTER, reducer("add", "c64")), window=_window((2, 2))),
    case(
        "select-and-scatter",
        (array("c128", [1, -3j, 2, 2j]), array("c128", [10 + 1j, 20 - 1j, 2]), array("c128", 1j)),
        array("c128", [1j, (10 + 1j) * (20 - 1j) * 1j, 2j, 1j]),
        name="product",
        called=(
            function("c128, c128", lambda b, x, y: b.op("compare", b.op("abs", x), b.op("abs", y), direction="GE")),
            reducer("multiply", "c128"),
        ),
        window=_window((2,)),
    ),
    _pooled([1, 5, 2, 0], [10, 20], [0, 10, 20, 0], "", (2, 2)),
    _pooled([nan, 1, 2, nan], [10, 20], [0, 10, 0, 20], "NaN is passed by", (2, 2)),
    _pooled([1, 5, 2, 0], [10, 20, 30], [0, 30, 30, 0], "overlapping windows add up", (2,)),
    _pooled([4, 4, 4], [10], [10, 0, 0], "greater-equal keeps the first of equals", (3,)),
    _pooled([4, 4, 4], [10], [0, 0, 10], "greater moves to the last of equals", (3,), select=_GREATER),
    _pooled([1, 5, 2, 0], [10, 20], [1, 11, 21, 1], "initial value", (2, 2), init=1),
    _pooled([1, 5, 2], [10, 20], [10, 20, 0], "padding is never selected", (2, 2, 1, 0)),
    _pooled([-3, -5], [10, 20, 40], [30, 40], "negative values in padded windows", (2, 1, 1, 1)),
    _pooled([1, 2], [10, 20, 40], [0, 20], "window wholly in padding", (1, 3, 2, 4)),
    _pooled(
        _GRID,
        [[10, 20], [30, 40]],
        [[0, 10, 0, 0], [0, 0, 20, 0], [30, 0, 40, 0], [0, 0, 0, 0]],
        "pooling",
        (2, 2),
        (2, 2),
    ),
    _pooled(
        [[[1], [5]], [[7], [2]]], [[[3]], [[4]]], [[[0], [3]], [[4], [0]]], "batch and channel", (1,), (2, 2), (1,)
    ),
    case("reduce-window", (f32(np.arange(24).reshape(4, 6)), f32(-inf)), f32([[8, 11], [20, 23]]),
        name="tiles of 2 by 3", called=(reducer("maximum", "f32"),),
        window=Window((WindowDimension(2, 2), WindowDimension(3, 3)))),
    case("reduce-window", (_POWERS, f32(inf)), f32([100, 1]), name="least, valid", called=(reducer("minimum", "f32"),),
        window=Window((WindowDimension(3, 2),))),
    case("reduce-window", (_POWERS, f32(inf)), f32([1000, 10, 1]), name="least, same",
        called=(reducer("minimum", "f32"),), window=Window((WindowDimension(3, 2, 1, 1),))),
    case(
        "reduce-window",
        (s32([[1, 2], [3, 4], [5, 6]]), s32(0)),
        s32([[0, 0], [3, 4]]),
        name="every dilation and padding",
        called=(reducer("add", "s32"),),
        window=Window(
            (
                WindowDimension(size=2, stride=4, padding_low=2, padding_high=1, window_dilation=3, base_dilation=2),
                WindowDimension(size=1),
            )
        ),
    ),
    case("select-and-scatter",
        (f32([[7, 2, 5, 3, 8], [3, 8, 9, 3, 4], [1, 5, 7, 5, 6], [0, 6, 2, 10, 2]]), f32([[2, 6], [3, 1]]), f32(0)),
        f32([[0, 0, 0, 0, 0], [0, 0, 8, 0, 0], [0, 0, 3, 0, 0], [0, 0, 0, 1, 0]]), name="overlapping columns",
        called=(function("f32, f32", lambda b, x, y: b.op("compare", x, y, direction="GE")), reducer("add", "f32")),
        window=Window((WindowDimension(2, 2), WindowDimension(3, 2)))),
    *(_pooled(np.ones((1, width)), np.zeros((0, width)), np.full((1, width), 2), f"no window, {width} wide", (3,),
        (1,), init=2) for width in (3, 8)),
)  # fmt: skip
