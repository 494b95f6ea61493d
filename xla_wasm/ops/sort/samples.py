"""Samples of sort and topk."""

from __future__ import annotations

import numpy as np

from ...builder import Builder
from ...hlo.attrs import SliceDimension
from ...hlo.ir import Instruction
from ..sample import (
    Maker,
    Sample,
    array,
    bf16,
    case,
    f32,
    f64,
    function,
    inf,
    nan,
    pred,
    program,
    s8,
    s32,
    s64,
    shape,
    u8,
    u32,
    u64,
)


def _comparator(element_type: str, direction: str = "LT", type: str | None = None, others: str = "") -> Maker:
    """Compares the first operand's elements; `others` are the types of more operands, as in "s32, f32"."""
    parameters = ", ".join(f"{t}, {t}" for t in (element_type, *filter(None, others.split(", "))))
    attrs = {"direction": direction} | ({"type": type} if type else {})
    return function(parameters, lambda b, x, y, *_: b.op("compare", x, y, **attrs))


# by the first operand, and among equals by the second
_LEXICOGRAPHIC = function(
    "s32, s32, f32, f32",
    lambda b, x, y, u, v: b.op(
        "or",
        b.op("compare", x, y, direction="LT"),
        b.op("and", b.op("compare", x, y, direction="EQ"), b.op("compare", u, v, direction="LT")),
    ),
)
# by the distance from 3
_NEAREST = function(
    "s32, s32",
    lambda b, x, y: b.op(
        "compare",
        *(b.op("abs", b.op("subtract", v, b.constant(shape("s32"), [3]))) for v in (x, y)),
        direction="LT",
    ),
)

_BY_PARTS = function(
    "c64, c64, s32, s32",
    lambda b, x, y, *_: b.op(
        "or",
        b.op("compare", b.op("real", x), b.op("real", y), direction="LT"),
        b.op(
            "and",
            b.op("compare", b.op("real", x), b.op("real", y), direction="EQ"),
            b.op("compare", b.op("imag", x), b.op("imag", y), direction="LT"),
        ),
    ),
)


def _first_two(b: Builder, x: Instruction, other: Instruction) -> Instruction:
    """The greatest two elements and their places, which the compiler makes a topk of, and something in a narrow
    type."""
    places = b.iota(x.shape.with_element_type("s32"))
    both = b.op("sort", x, places, called=[_comparator("f32", "GT", others="s32")()], dimensions=(0,), is_stable=True)
    first = [b.op("slice", b.get_tuple_element(both, i), slice=(SliceDimension(0, 2),)) for i in range(2)]
    return b.tuple(*first, b.add(other, other))


_GRID = s32([[3, 1, 2], [1, 3, 2], [2, 2, 1]])
_LONG = (np.arange(100) * 37) % 101
_ROUND = np.arange(1000, dtype=np.int32) * 7 % 30
_ORDER = np.argsort(_ROUND, kind="stable").astype(np.int32)

SAMPLES: tuple[Sample, ...] = (
    *(
        case("sort", (array(t, _LONG),), array(t, np.sort(_LONG)), called=(_comparator(t),), dimensions=(0,))
        for t in ("f32", "f64", "s32")
    ),
    *(
        case("sort", (array(t, _LONG),), array(t, np.sort(_LONG)[::-1]), called=(_comparator(t, "GT"),),
            dimensions=(0,))
        for t in ("u8", "s64")
    ),
    case("sort", (_GRID,), np.sort(_GRID, 0), name="columns", called=(_comparator("s32"),), dimensions=(0,)),
    case("sort", (_GRID,), np.sort(_GRID, 1), name="rows", called=(_comparator("s32"),), dimensions=(1,)),
    case("sort", (f32(_LONG.reshape(2, 25, 2)),), f32(np.sort(_LONG.reshape(2, 25, 2), 1)), name="in the middle",
        called=(_comparator("f32"),), dimensions=(1,)),
    case("sort", (f32([nan, 0.0, -inf, -0.0, inf, -nan, -1.0]),), f32([-nan, -inf, -1.0, -0.0, 0.0, inf, nan]),
        name="total order", called=(_comparator("f32", type="TOTALORDER"),), dimensions=(0,)),
    case("sort", (_ROUND, np.arange(1000, dtype=np.int32)), (_ROUND[_ORDER], _ORDER), name="stable",
        called=(_comparator("s32", others="s32"),), dimensions=(0,), is_stable=True),
    case("sort", (s8([3, -1, 2, -1]), f64([0.5, 1.5, 2.5, 3.5]), pred([1, 0, 1, 1])),
        (s8([-1, -1, 2, 3]), f64([1.5, 3.5, 2.5, 0.5]), pred([0, 1, 1, 1])), name="several types",
        called=(_comparator("s8", others="f64, pred"),), dimensions=(0,), is_stable=True),
    case("sort", (s32([2, 1, 2, 1]), f32([1, 5, 0, 4])), (s32([1, 1, 2, 2]), f32([4, 5, 0, 1])), name="two keys",
        called=(_LEXICOGRAPHIC,), dimensions=(0,)),
    case("sort", (s32([9, 2, 4, 3, -1]),), s32([3, 2, 4, -1, 9]), name="any comparator", called=(_NEAREST,),
        dimensions=(0,), is_stable=True),
    case("sort", (array("c64", [2 + 1j, 1 - 3j, 2 - 1j, 1]), s32([0, 1, 2, 3])),
        (array("c64", [1 - 3j, 1, 2 - 1j, 2 + 1j]), s32([1, 3, 2, 0])), name="by real, then imaginary parts",
        called=(_BY_PARTS,), dimensions=(0,)),
    case(
        "sort",
        (array("c128", [[3j, 1], [-2, 2j]]),),
        array("c128", [[1, 3j], [-2, 2j]]),
        name="by magnitude",
        called=(
            function("c128, c128", lambda b, x, y: b.op("compare", b.op("abs", x), b.op("abs", y), direction="LT")),
        ),
        dimensions=(1,),
        is_stable=True,
    ),
    case("sort", (pred([1, 0, 1, 0, 0]),), pred([0, 0, 0, 1, 1]), called=(_comparator("pred"),), dimensions=(0,)),
    case("sort", (u32([2**31, 1, 2**32 - 1]),), u32([1, 2**31, 2**32 - 1]), called=(_comparator("u32"),),
        dimensions=(0,)),
    case("sort", (u64([2**63, 1, 2**64 - 1]),), u64([1, 2**63, 2**64 - 1]), called=(_comparator("u64"),),
        dimensions=(0,)),
    case("sort", (bf16([1, -2, 0.5]),), bf16([-2, 0.5, 1]), called=(_comparator("bf16"),), dimensions=(0,)),
    case("sort", (f32([[5], [3]]),), f32([[5], [3]]), name="rows of one", called=(_comparator("f32"),),
        dimensions=(1,)),
    case("sort", (f32(np.zeros((2, 0))),), f32(np.zeros((2, 0))), name="empty rows", called=(_comparator("f32"),),
        dimensions=(1,)),
    case("sort", (f32(np.zeros((0, 2))),), f32(np.zeros((0, 2))), name="no rows", called=(_comparator("f32"),),
        dimensions=(1,)),
    program("sort", (f32([3, 1, 4, 1, 5]), bf16([1, 2])), (f32([5, 4]), s32([4, 2]), bf16([2, 4])), _first_two,
        name="the first, beside a narrow type"),
    case("topk", (f32([3, 1, 4, 1, 5]),), (f32([5, 4, 3]), s32([4, 2, 0])), k=3, largest=True),
    case("topk", (f32([3, 1, 4, 1, 5]),), (f32([1, 1, 3]), s32([1, 3, 0])), name="smallest", k=3, largest=False),
    case("topk", (f32([[0.0, -0.0, nan, 1.0], [-inf, -nan, nan, nan]]),),
        (f32([[nan, 1.0, 0.0, -0.0], [nan, nan, -inf, -nan]]), s32([[2, 3, 0, 1], [2, 3, 0, 1]])), name="total order",
        k=4, largest=True),
    case("topk", (f32([[0.0, -0.0, nan, 1.0]]),), (f32([[-0.0, 0.0, 1.0]]), s32([[1, 0, 3]])),
        name="smallest in total order", k=3, largest=False),
    case("topk", (_ROUND,), (s32([29, 29, 29]), s32([17, 47, 77])), name="few of many", k=3, largest=True),
    case("topk", (_ROUND,), (s32([0, 0, 0]), s32([0, 30, 60])), name="smallest of many", k=3, largest=False),
    case("topk", (u8([1, 255, 3]),), (u8([255, 3]), s32([1, 2])), k=2, largest=True),
    case("topk", (s64([1, -(2**40), 3]),), (s64([-(2**40), 1]), s32([1, 0])), name="smallest", k=2, largest=False),
    case("topk", (f32([1, 2]),), (f32([]), s32([])), name="none", k=0, largest=True),
    case("topk", (f32(np.zeros((0, 3))),), (f32(np.zeros((0, 2))), s32(np.zeros((0, 2)))), name="no rows", k=2,
        largest=True),
    case(
        "sort",
        (s32([3, 1]), s32([42, 50]), f32([-3, 1.1])),
        (s32([1, 3]), s32([50, 42]), f32([1.1, -3])),
        name="three operands, by the first",
        called=(
            function("s32, s32, s32, s32, f32, f32", lambda b, x, y, *rest: b.op("compare", x, y, direction="LT")),
        ),
        dimensions=(0,),
    ),
)  # fmt: skip
