"""Samples of dynamic dimensions. Results that have some are as large as they actually are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...builder import Builder
from ...hlo.attrs import DotDimensionNumbers
from ...hlo.ir import Instruction
from ...hlo.shape import Shape
from ..dtypes import Array
from ..sample import Body, Sample, case, f32, function, inf, nan, program, reducer, s32

_XLA = "XLA:CPU's client gives as many elements as the bounds allow"


def _number(b: Builder, value: int) -> Instruction:
    return b.constant(Shape("s32"), [value])


def _sized(b: Builder, x: Instruction, n: Instruction, dim: int = 0) -> Instruction:
    return b.op("set-dimension-size", x, n, dimensions=(dim,))


def _sum(b: Builder, x: Instruction, dims: Sequence[int], init: float = 0) -> Instruction:
    zero = b.constant(Shape(x.shape.element_type), [init])
    return b.op("reduce", x, zero, called=[reducer("add", x.shape.element_type)()], dimensions=tuple(dims))


def _of(
    x: Array, n: int, expected: Array | Sequence[Array], name: str, body: Body, dim: int = 0, xla: str = ""
) -> Sample:
    """A program on an array of which n elements along one dimension count."""
    return program(
        "set-dimension-size", (x, s32(n)), expected, lambda b, p, q: body(b, _sized(b, p, q, dim)), name=name, xla=xla
    )


_ROW = s32([1, 2, 4, 8, 16])
_TABLE = s32(np.arange(12).reshape(3, 4))
_LATER = function("f32, f32", lambda b, x, y: y)

SAMPLES: tuple[Sample, ...] = (
    case("get-dimension-size", (_TABLE,), s32(4), name="of a static dimension", dimensions=(1,)),
    program(
        "get-dimension-size", (_ROW, s32(3)), s32(3),
        lambda b, x, n: b.op("get-dimension-size", b.op("add", _sized(b, x, n), x), dimensions=(0,)), name="of a sum",
    ),
    program(
        "get-dimension-size", (_ROW, s32(3)), s32(5),
        lambda b, x, n: b.op("get-dimension-size",
                             b.op("concatenate", _sized(b, x, n), _sized(b, x, _number(b, 2)), dimensions=(0,)),
                             dimensions=(0,)), name="of parts side by side",
    ),
    *(
        _of(_ROW, n, _ROW[:n].copy(), f"{n} of 5", lambda b, x: b.op("negate", b.op("negate", x)),
            xla="" if n == 5 else _XLA)
        for n in (0, 3, 5)
    ),
    _of(_ROW, 9, _ROW, "more than there are", lambda b, x: x, xla="XLA:CPU writes beyond the array"),
    _of(_ROW, -1, s32([]), "less than none", lambda b, x: x, xla=_XLA),
    _of(_ROW, 3, s32(7), "a sum", lambda b, x: _sum(b, x, (0,))),
    _of(_ROW, 3, s32(107), "a sum that starts elsewhere", lambda b, x: _sum(b, x, (0,), 100),
        xla="XLA:CPU adds it for absent elements"),
    _of(f32(np.arange(1, 11)), 5, f32(15), "the sum of five", lambda b, x: _sum(b, x, (0,))),
    _of(f32(np.arange(1, 11)), 6, f32(21), "the sum of six", lambda b, x: _sum(b, x, (0,))),
    _of(_TABLE, 2, s32([1, 9, 17]), "rows of two", lambda b, x: _sum(b, x, (1,)), dim=1),
    _of(_TABLE, 2, s32([4, 6, 8, 10]), "two rows", lambda b, x: _sum(b, x, (0,))),
    _of(
        f32([3, nan, inf]), 1, f32(3), "the last element",
        lambda b, x: b.op("reduce", x, b.constant(Shape("f32"), [0]), called=[_LATER()], dimensions=(0,)),
        xla="XLA:CPU takes the initial value for an absent element",
    ),
    _of(
        f32([[1, 2, nan], [3, 4, inf]]), 2, f32([[5, 11], [11, 25]]), "a product of what counts",
        lambda b, x: b.op("dot", x, x, dot_dimension_numbers=DotDimensionNumbers((1,), (1,))), dim=1,
    ),
    _of(_ROW, 3, s32([4, 2, 1]), "reversed", lambda b, x: b.op("reverse", x, dimensions=(0,)), xla=_XLA),
    _of(_ROW, 3, s32([1, 2, 4, 1, 2, 4]), "twice", lambda b, x: b.op("concatenate", x, x, dimensions=(0,)), xla=_XLA),
    program(
        "set-dimension-size", (_ROW, s32(2), s32(5)), _ROW[:2].copy(),
        lambda b, x, m, n: b.op("maximum", _sized(b, x, m), _sized(b, x, n)), name="sizes that differ", xla=_XLA,
    ),
    program(
        "set-dimension-size", (_ROW, s32(1)), _ROW + 1,
        lambda b, x, n: b.op("add", _sized(b, x, b.op("add", n, _number(b, 4))), _sized(b, x, n)),
        name="one element goes with any number",
    ),
    program(
        "dynamic-reshape", (_TABLE, s32(2), s32(6)), s32([0, 1, 4, 5, 8, 9]),
        lambda b, x, n, total: b.op("dynamic-reshape", _sized(b, x, n, 1), total,
                                    shape=Shape("s32", (12,), None, (True,))),
        name="columns that count", xla=_XLA,
    ),
    program(
        "dynamic-reshape", (s32(np.arange(12)), s32(8), s32(2)), s32([[[0, 1], [2, 3]], [[4, 5], [6, 7]]]),
        lambda b, x, n, m: b.op("dynamic-reshape", _sized(b, x, n), m, m, m,
                                shape=Shape("s32", (2, 3, 2), None, (False, True, False))),
        name="to an inner dimension", xla=_XLA,
    ),
)  # fmt: skip
