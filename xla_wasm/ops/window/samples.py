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
    x: Any, source: Any, expected: Any, name: str, *dims: tuple[int, ...], init: float = 0, select: Maker = _GREATER_EQUAL
) -> Sample:
    return case(
        "select-and-scatter",
        (f32(x), f32(source), f32(init)),
        f32(expected),
        name=name,
        called=(select, reducer("add", "f32")),
        window=_window(*dims),
    )


SAMPLES: tuple[Sample, ...] = (
    _sum(_LINE, 0, [3, 5, 7, 9], "", (2,)),
    _sum(_LINE, 0, [3, 7], "stride", (2, 2)),
    _sum(_LINE, 100, [101, 103, 105, 107, 109, 105], "the initial value enters once, padding never", (2, 1, 1, 1)),
    _sum(_LINE, 0, [4, 6, 8], "window dilation", (2, 1, 0, 0, 2)),
    _sum(_LINE, 0, [1, 2, 2, 3, 3, 4, 4, 5], "base dilation", (2, 1, 0, 0, 1, 2)),
    _sum(_LINE, 0, [1, 3, 6, 10, 15], "prefix sums", (5, 1, 4, 0)),
    _sum(_LINE, 0, [15, 14, 12, 9, 5], "suffix sums", (5, 1, 0, 4)),
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
    case(
        "reduce-window",
        (f32([1, nan, 3]), f32(-inf)),
        f32([nan, nan]),
        name="NaN",
        called=(reducer("maximum", "f32"),),
        window=_window((2,)),
    ),
    case(
        "reduce-window",
        (s32(_LINE), s32(0)),
        s32([1, 3, 6, 10, 15]),
        name="prefix sums",
        called=(reducer("add", "s32"),),
        window=_window((5, 1, 4, 0)),
    ),
    *(
        case("reduce-window", (array(t, _LINE), array(t, 0)), array(t, [2, 3, 4, 5]), called=(reducer("maximum", t),), window=_window((2,)))
        for t in ("f64", "s32", "u32", "s8", "u8", "s64")
    ),
    case(
        "reduce-window",
        (f32([3, 1, 4, 1, 5]), s32([0, 1, 2, 3, 4]), f32(-inf), s32(-1)),
        (f32([3, 4, 4, 5]), s32([0, 2, 2, 4])),
        name="two operands",
        called=(_ARGMAX,),
        window=_window((2,)),
    ),
    _pooled([1, 5, 2, 0], [10, 20], [0, 10, 20, 0], "", (2, 2)),
    _pooled([1, 5, 2, 0], [10, 20, 30], [0, 30, 30, 0], "overlapping windows add up", (2,)),
    _pooled([4, 4, 4], [10], [10, 0, 0], "greater-equal keeps the first of equals", (3,)),
    _pooled([4, 4, 4], [10], [0, 0, 10], "greater moves to the last of equals", (3,), select=_GREATER),
    _pooled([1, 5, 2, 0], [10, 20], [1, 11, 21, 1], "initial value", (2, 2), init=1),
    _pooled([1, 5, 2], [10, 20], [10, 20, 0], "padding is never selected", (2, 2, 1, 0)),
    _pooled([-3, -5], [10, 20, 40], [30, 40], "negative values in padded windows", (2, 1, 1, 1)),
    _pooled([1, 2], [10, 20, 40], [0, 20], "window wholly in padding", (1, 3, 2, 4)),
    _pooled(_GRID, [[10, 20], [30, 40]], [[0, 10, 0, 0], [0, 0, 20, 0], [30, 0, 40, 0], [0, 0, 0, 0]], "pooling", (2, 2), (2, 2)),
    _pooled([[[1], [5]], [[7], [2]]], [[[3]], [[4]]], [[[0], [3]], [[4], [0]]], "batch and channel", (1,), (2, 2), (1,)),
)
