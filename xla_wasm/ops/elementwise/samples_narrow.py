"""Samples of elementwise operations on floats of at most 16 bits and on integers of less than a byte."""

from __future__ import annotations

from math import pi
from typing import Any

import numpy as np

from ..dtypes import DTYPES
from ..sample import Sample, array, case, f32, inf, nan, pred, program, s32, shape, shape_of, u8, u16, u32

_NOT_ON_CPU = "XLA:CPU 0.10.2 does not run it"
_TINY = (
    "f8e5m2",
    "f8e4m3",
    "f8e4m3fn",
    "f8e3m4",
    "f8e4m3b11fnuz",
    "f8e5m2fnuz",
    "f8e4m3fnuz",
    "f6e2m3fn",
    "f6e3m2fn",
    "f4e2m1fn",
)
_NOT_IN_XLA = {
    "f6e2m3fn": "XLA of jaxlib 0.10.2 does not know it",
    "f6e3m2fn": "XLA of jaxlib 0.10.2 does not know it",
    "f4e2m1fn": "XLA:CPU reads its elements packed",
}

_EXACT_UNARY = (
    ("abs", [-1.5, 2, -0.0, -inf, nan], [1.5, 2, 0.0, inf, nan]),
    ("negate", [1.5, 0.0, -0.0, inf, nan], [-1.5, -0.0, 0.0, -inf, nan]),
    ("sign", [3, -3, 0.0, -0.0, inf, -inf, nan], [1, -1, 0.0, -0.0, 1, -1, nan]),
    ("ceil", [1.25, -1.25, -0.5, -0.0, inf, nan], [2, -1, -0.0, -0.0, inf, nan]),
    ("floor", [1.25, -1.25, 0.5, -0.0, -inf, nan], [1, -2, 0.0, -0.0, -inf, nan]),
    ("round-nearest-afz", [2.5, -2.5, 0.498046875, -0.25, 0.5, -0.0, inf, nan], [3, -3, 0, -0.0, 1, -0.0, inf, nan]),
    ("round-nearest-even", [2.5, -2.5, 0.5, -0.5, 1.5, -0.0, inf, nan], [2, -2, 0, -0.0, 2, -0.0, inf, nan]),
    ("sqrt", [4, 2, 0.0, -0.0, -1, inf, nan], [2, 2**0.5, 0.0, -0.0, nan, inf, nan]),
)
"""For f16 and bf16; results are rounded to them."""

_INEXACT_UNARY = (
    ("rsqrt", [4, 2, 0.0, -0.0, -1, inf], [0.5, 0.5**0.5, inf, -inf, nan, 0]),
    ("cbrt", [8, -8, 2, -0.0, inf], [2, -2, 2 ** (1 / 3), -0.0, inf]),
    ("exponential", [0, 1, -1, 10, -inf, inf, nan],
     [1, 2.718281828459045, 0.36787944117144233, 22026.465794806718, 0, inf, nan]),
    ("exponential-minus-one", [0, -0.0, 0.0009765625, 1, -inf],
     [0, -0.0, 0.0009770393371582031, 1.718281828459045, -1]),
    ("log", [1, 10, 0.0, -0.0, -1, inf], [0, 2.302585092994046, -inf, -inf, nan, inf]),
    ("log-plus-one", [0, -0.0, 0.0009765625, 1, -1, -2], [0, -0.0, 0.0009760859, 0.6931471805599453, -inf, nan]),
    ("sine", [0, -0.0, 1, 100, inf], [0, -0.0, 0.8414709848078965, -0.5063656411097588, nan]),
    ("cosine", [0, 1, 100, inf], [1, 0.5403023058681398, 0.8623188722876839, nan]),
    ("tan", [0, -0.0, 1, -1, inf], [0, -0.0, 1.5574077246549023, -1.5574077246549023, nan]),
    ("tanh", [0, -0.0, 0.5, 20, -inf, nan], [0, -0.0, 0.46211715726000973, 1, -1, nan]),
    ("logistic", [0, 1, -1, inf, -inf, nan], [0.5, 0.7310585786300049, 0.2689414213699951, 1, 0, nan]),
    ("erf", [0, -0.0, 0.5, -1, inf, nan], [0, -0.0, 0.5204998778130465, -0.8427007929497148, 1, nan]),
    ("acos", [1.0, 0.5, -1.0, 2.0], [0.0, 1.0471975511965979, pi, nan]),
    ("asin", [-0.0, 0.5, -1.0, 2.0], [-0.0, 0.5235987755982989, -pi / 2, nan]),
    ("atan", [-0.0, 0.5, -3.0, inf], [-0.0, 0.4636476090008061, -1.2490457723982544, pi / 2]),
    ("acosh", [1.0, 1.5, 0.5, inf], [0.0, 0.9624236501192069, nan, inf]),
    ("asinh", [-0.0, 0.5, -inf], [-0.0, 0.48121182505960347, -inf]),
    ("atanh", [-0.0, 0.5, 1.0, 2.0], [-0.0, 0.5493061443340548, inf, nan]),
    ("cosh", [0.0, 0.5, -1.0, -inf], [1.0, 1.1276259652063807, 1.5430806348152437, inf]),
    ("sinh", [-0.0, 0.5, -1.0, inf], [-0.0, 0.5210953054937474, -1.1752011936438014, inf]),
)  # fmt: skip

_EXACT_BINARY = (
    ("add", [1, -0.0, inf, 1, nan], [2, -0.0, -inf, -1, 1], [3, -0.0, nan, 0, nan]),
    ("subtract", [1, 0.0, inf, -1], [2.5, 0.0, inf, inf], [-1.5, 0.0, nan, -inf]),
    ("multiply", [2, -0.0, inf, -3], [3, 5, 0, inf], [6, -0.0, nan, -inf]),
    ("divide", [1, -1, 0, 7, 1, 1], [0, 0, 0, 2, -inf, 3], [inf, -inf, nan, 3.5, -0.0, 1 / 3]),
    ("remainder", [5.5, -5.5, 1, 3, inf, -6, 60928], [2, -2, 0, inf, 2, 3, 3], [1.5, -1.5, nan, 3, nan, -0.0, 1]),
    ("maximum", [1, nan, 1, -0.0, 0.0, -inf], [2, 1, nan, 0.0, -0.0, inf], [2, nan, nan, 0.0, 0.0, inf]),
    ("minimum", [1, nan, 1, -0.0, 0.0, -inf], [2, 1, nan, 0.0, -0.0, inf], [1, nan, nan, -0.0, -0.0, -inf]),
)

_ROUNDED = (
    ("add", "f16", [2048, 2048, 60000, 6e-8, 1e-7], [1, 3, 10000, 6e-8, -1e-7], [2048, 2052, inf, 1.2e-7, 0]),
    ("add", "bf16", [256, 256, 3e38, 1], [1, 3, 3e38, 0.0001], [256, 260, inf, 1]),
    ("multiply", "f16", [300, 2.0**-14, 2.0**-20], [300, 0.5, 2.0**-6], [inf, 2.0**-15, 0]),
    ("multiply", "bf16", [1.0078125, 1e30], [1.0078125, 1e30], [1.015625, inf]),
)

_INEXACT_BINARY = (
    ("power", [2, nan, 1, -1, -2, -0.0, 0, 2.5], [0.5, 0, nan, inf, 0.5, -3, -1, 3.5],
     [2**0.5, 1, 1, 1, nan, -inf, inf, 2.5**3.5]),
    ("atan2", [0, -0.0, -0.0, inf, 1], [0, -0.0, 1, -inf, -1], [0, -pi, -0.0, 3 * pi / 4, 3 * pi / 4]),
)  # fmt: skip

_INTEGER_BINARY = (
    ("add", "s4", [7, -8, 1, -3], [7, -1, 2, 3], [-2, 7, 3, 0]),
    ("add", "u4", [15, 9, 1], [1, 9, 2], [0, 2, 3]),
    ("add", "s2", [1, -2], [1, -1], [-2, 1]),
    ("add", "u2", [3, 1], [2, 1], [1, 2]),
    ("subtract", "s4", [-8, 5], [1, 7], [7, -2]),
    ("subtract", "u4", [0, 5], [1, 3], [15, 2]),
    ("multiply", "s4", [7, -8, 3], [7, -1, 2], [1, -8, 6]),
    ("multiply", "u4", [15, 4, 3], [15, 4, 2], [1, 0, 6]),
    ("divide", "s4", [-8, -7, 5, 7], [-1, 2, 0, -2], [-8, -3, -1, -3]),
    ("divide", "u4", [15, 5, 9], [4, 0, 15], [3, 15, 0]),
    ("remainder", "s4", [-8, -7, 5], [-1, 2, 0], [0, -1, 5]),
    ("remainder", "u4", [15, 5], [4, 0], [3, 5]),
    ("maximum", "s4", [-8, 7], [7, -1], [7, 7]),
    ("maximum", "u4", [8, 7], [7, 15], [8, 15]),
    ("minimum", "s4", [-8, 7], [7, -1], [-8, -1]),
    ("minimum", "u4", [8, 7], [7, 15], [7, 7]),
    ("power", "s4", [2, 3, -1, 2, -3], [3, 3, -3, -1, 2], [-8, -5, -1, 0, -7]),
    ("power", "u4", [2, 3, 0], [3, 3, 0], [8, 11, 1]),
    ("and", "s4", [5, -1], [3, 6], [1, 6]),
    ("and", "u4", [12, 15], [10, 7], [8, 7]),
    ("or", "s4", [5, -8], [2, 1], [7, -7]),
    ("or", "u4", [12, 8], [2, 1], [14, 9]),
    ("xor", "s4", [5, -1], [3, 6], [6, -7]),
    ("xor", "u4", [12, 15], [10, 7], [6, 8]),
    ("shift-left", "s4", [1, 1, -1, 3], [3, 4, 2, -1], [-8, 0, -4, 0]),
    ("shift-left", "u4", [1, 1, 15], [3, 4, 2], [8, 0, 12]),
    ("shift-right-logical", "s4", [-1, -8, -1], [2, 3, 4], [3, 1, 0]),
    ("shift-right-logical", "u4", [15, 8, 8], [2, 3, 15], [3, 1, 0]),
    ("shift-right-arithmetic", "s4", [-8, -8, 4, -8], [1, 7, 1, -1], [-4, -1, 2, -1]),
    ("shift-right-arithmetic", "u4", [8, 7], [1, 1], [12, 3]),
    ("mulhi", "s4", [7, -8, -1], [7, 2, 1], [3, -1, -1]),
    ("mulhi", "u4", [15, 4], [15, 4], [14, 1]),
)

_INTEGER_UNARY = (
    ("abs", "s4", [-5, 5, -8], [5, 5, -8], ""),
    ("negate", "s4", [5, -8, 0], [-5, -8, 0], ""),
    ("negate", "u4", [5, 0], [11, 0], ""),
    ("sign", "s4", [3, -3, 0], [1, -1, 0], ""),
    ("not", "s4", [0, 5], [-1, -6], ""),
    ("not", "u4", [0, 5], [15, 10], ""),
    ("popcnt", "s4", [-1, 5], [4, 2], "XLA:CPU 0.10.2 counts the bits of the byte that it keeps the number in"),
    ("popcnt", "u4", [15, 5], [4, 2], ""),
    ("popcnt", "s2", [-1, 1], [-2, 1], "as s4"),
    ("count-leading-zeros", "s4", [0, -1, 3], [4, 0, 2], ""),
    ("count-leading-zeros", "u4", [0, 15, 3], [4, 0, 2], ""),
)

_CONVERT = (
    ("f32", "f16", [1.00048828125, 1.00146484375, 65519, -65520, 6.2e-8, 2e-8, -1e-9, -inf],
     [1, 1.001953125, 65504, -inf, 6e-8, 0, -0.0, -inf]),
    ("f32", "bf16", [1.00390625, 1.01171875, -3.4e38, 1e-40, -inf], [1, 1.015625, -inf, 1e-40, -inf]),
    ("f32", "f8e5m2", [57344, 61439, 61440, 1.125, 1e-6, -inf, nan], [57344, 57344, inf, 1, 0, -inf, nan]),
    ("f32", "f8e4m3", [240, 247, 248, 1.0625, 0.0009765625, -inf, nan], [240, 240, inf, 1, 0, -inf, nan]),
    ("f32", "f8e3m4", [15.5, 15.7, 15.75, 1.03125, -0.0078125, nan], [15.5, 15.5, inf, 1, -0.0, nan]),
    ("f32", "f8e4m3fn", [464, 465, inf, -448, 1.0625, -0.001953125, nan], [448, nan, nan, -448, 1, -0.001953125, nan]),
    ("f32", "f8e4m3b11fnuz", [30, 31, 32, -0.0, 2.0**-14, -inf], [30, nan, nan, 0, 0, nan]),
    ("f32", "f8e5m2fnuz", [57344, 61440, -1e-9, 2.5, nan], [57344, nan, 0, 2.5, nan]),
    ("f32", "f8e4m3fnuz", [240, 248, -1e-9, 2.5, nan], [240, nan, 0, 2.5, nan]),
    ("f32", "f8e8m0fnu", [1.1, 448, 57344, 1.5, 0, -1, inf, nan], [1, 512, 65536, 2, nan, nan, nan, nan]),
    ("f32", "f6e2m3fn", [7.5, 100, -inf, 0.0625, 0.1875, -0.0], [7.5, 7.5, -7.5, 0, 0.25, -0.0]),
    ("f32", "f6e3m2fn", [28, 100, -inf, 0.03125, 0.09375, -0.0], [28, 28, -28, 0, 0.125, -0.0]),
    ("f32", "f4e2m1fn", [6, 1e5, -inf, 0.25, 0.75, 2.5, -0.0], [6, 6, -6, 0, 1, 2, -0.0]),
    ("f64", "f16", [1 + 2.0**-11, 1 + 2.0**-11 + 2.0**-20, 65519, 1e300], [1, 1 + 2.0**-10, 65504, inf]),
    ("f64", "bf16", [1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-8, 1e300], [1, 1, inf]),
    ("f64", "f8e4m3fn", [1.0625 + 2.0**-40, 1.0625, 464 + 1e-9], [1.125, 1, nan]),
    ("f16", "f64", [6e-8, -0.0, nan, 65504], [5.960464477539063e-08, -0.0, nan, 65504]),
    ("bf16", "f16", [1.5, 1e38, 1e-8], [1.5, inf, 0]),
    ("f16", "bf16", [1.00390625, 65504], [1, 65536]),
    ("f16", "s32", [-1.5, 65504, inf, nan], [-1, 65504, 2147483647, 0]),
    ("bf16", "u8", [-1.5, 254.5, 256, nan], [0, 254, 255, 0]),
    ("bf16", "s64", [-(2.0**40), 1e38], [-(2**40), 2**63 - 1]),
    ("f16", "pred", [0.0, -0.0, 6e-8, nan], [0, 0, 1, 1]),
    ("s32", "f16", [2049, 2051, 65519, 65520, -1], [2048, 2052, 65504, inf, -1]),
    ("s32", "bf16", [257, 259, -(2**31)], [256, 260, -2147483648.0]),
    ("u64", "bf16", [2**64 - 1, 257], [2.0**64, 256]),
    ("s64", "f16", [2049, -70000], [2048, -inf]),
    ("u8", "f8e4m3fn", [255, 17, 19], [256, 16, 20]),
    ("pred", "f16", [0, 1], [0, 1]),
    ("pred", "f8e5m2", [0, 1], [0, 1]),
    ("f8e5m2", "f32", [2.0**-16, -0.0, inf, nan, 1.75], [2.0**-16, -0.0, inf, nan, 1.75]),
    ("f8e4m3fn", "bf16", [448, 2.0**-9, nan], [448, 2.0**-9, nan]),
    ("f8e4m3fnuz", "s8", [240, -1.5, nan], [127, -1, 0]),
    ("f8e8m0fnu", "f32", [1, 2.0**127, nan, 2.0**-126], [1, 2.0**127, nan, 2.0**-126]),
    ("f4e2m1fn", "f32", [0.5, -6, 1.5, -0.0], [0.5, -6, 1.5, -0.0]),
    ("f6e2m3fn", "f32", [0.125, -7.5], [0.125, -7.5]),
    ("s4", "f32", [-8, 7], [-8, 7]),
    ("s4", "s32", [-8, 7], [-8, 7]),
    ("s4", "u8", [-1, 7], [255, 7]),
    ("s4", "u4", [-1, 7], [15, 7]),
    ("s4", "s2", [-8, 7, 1], [0, -1, 1]),
    ("s4", "s64", [-8, 7], [-8, 7]),
    ("s4", "bf16", [-8, 7], [-8, 7]),
    ("s4", "pred", [-8, 0], [1, 0]),
    ("u4", "f32", [15, 8], [15, 8]),
    ("u4", "s32", [15, 8], [15, 8]),
    ("u4", "s4", [15, 8, 7], [-1, -8, 7]),
    ("f32", "s4", [8.5, -9, 1.9, nan], [7, -8, 1, 0]),
    ("f32", "u4", [-1, 20, 15.9], [0, 15, 15]),
    ("f64", "s2", [-5, 1.5, 7], [-2, 1, 1]),
    ("s32", "s4", [17, -9, 8], [1, 7, -8]),
    ("s32", "u4", [17, -1], [1, 15]),
    ("s64", "u2", [2**40 + 3, 4], [3, 0]),
    ("pred", "u4", [0, 1], [0, 1]),
)  # fmt: skip

_BITCASTS = (
    (u8([0x21, 0xF8]), array("u4", [[1, 2], [8, 15]])),
    (array("u4", [[1, 2], [8, 15]]), u8([0x21, 0xF8])),
    (u8([0x21, 0xF8]), array("s4", [[1, 2], [-8, -1]])),
    (f32([1, -2]), array("s4", [[0, 0, 0, 0, 0, -8, -1, 3], [0, 0, 0, 0, 0, 0, 0, -4]])),
    (array("s4", [[0, 0, 0, 0, 0, -8, -1, 3]]), f32([1])),
    (array("s4", [5, -3]), array("s2", [[1, 1], [1, -1]])),
    (array("u2", [[1, 2, 3, 0]]), u8([0x39])),
    (array("u4", [15, 3]), array("s4", [-1, 3])),
    (array("s8", [-1, 5]), array("f8e5m2", np.array([255, 5], np.uint8).view(DTYPES["f8e5m2"]))),
    (array("f16", [1, -2]), u16([0x3C00, 0xC000])),
    (array("f16", [1, -2]), array("s16", [0x3C00, -0x4000])),
    (array("f16", [1, -2]), u8([[0, 0x3C], [0, 0xC0]])),
    (u32([0xC0003F80]), array("bf16", [[1, -2]])),
    (array("bf16", [[1, -2]]), u32([0xC0003F80])),
)


def _floats() -> list[Sample]:
    samples = []
    for t in ("f16", "bf16"):
        samples += [case(op, (array(t, x),), array(t, y)) for op, x, y in _EXACT_UNARY]
        samples += [case(op, (array(t, x), array(t, y)), array(t, z)) for op, x, y, z in _EXACT_BINARY]
        for op, x, y in _INEXACT_UNARY:
            not_on_cpu = op in ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "sinh")
            samples.append(case(op, (array(t, x),), array(t, y), ulp=1, xla=_NOT_ON_CPU if not_on_cpu else ""))
        samples += [case(op, (array(t, x), array(t, y)), array(t, z), ulp=1) for op, x, y, z in _INEXACT_BINARY]
        samples.append(case("is-finite", (array(t, [1, inf, -inf, nan, -0.0]),), pred([1, 0, 0, 0, 1])))
        samples.append(case("iota", (), array(t, [0, 1, 2, 3, 4]), shape=shape(f"{t}[5]"), iota_dimension=0))
        samples.append(_constant(t, [1.5, -0.0, inf]))
    samples.append(
        case("iota", (), array("bf16", range(300)), shape=shape("bf16[300]"), iota_dimension=0, name="rounds")
    )
    samples += [case(op, (array(t, x), array(t, y)), array(t, z), name="rounds") for op, t, x, y, z in _ROUNDED]
    return samples


def _of_a_byte() -> list[Sample]:
    samples = []
    for t in _TINY:
        values, absent = [0.5, -1.5, 2.0, 0.25], _NOT_IN_XLA.get(t, "")
        if t == "f4e2m1fn":
            values[3] = -0.5
        x = array(t, values)
        samples.append(case("add", (x, array(t, [0.5] * 4)), array(t, [v + 0.5 for v in values]), xla=absent))
        samples.append(case("multiply", (x, x), array(t, [v * v for v in values]), xla=absent))
        samples.append(case("abs", (x,), array(t, [abs(v) for v in values]), xla=absent))
        samples.append(
            case(
                "compare",
                (x, array(t, [0.5, 1, 0.5, 0.5])),
                pred([0, 1, 0, values[3] < 0.5]),
                direction="LT",
                xla=absent,
            )
        )
        samples.append(
            case("select", (pred([0, 1, 0, 1]), x, array(t, [1] * 4)), array(t, [1, -1.5, 1, values[3]]), xla=absent)
        )
        samples.append(_constant(t, [1.5, -0.5, 2], absent))
    return samples


def _compared() -> list[Sample]:
    samples = []
    for t in ("f16", "bf16", "f8e5m2"):
        order = array(t, [-nan, -inf, -1, -0.0, 0.0, 1, inf, nan])
        for direction, truth in (("LT", [1] * 7 + [0]), ("GE", [0] * 7 + [1])):
            attrs: dict[str, Any] = {"direction": direction, "type": "TOTALORDER"}
            samples.append(
                case("compare", (order, np.roll(order, -1)), pred(truth), name=f"{direction} total order", **attrs)
            )
        x, y = array(t, [1, 2, 3, -0.0, nan, 1]), array(t, [2, 2, 2, 0.0, 1, nan])
        for direction, truth in (("EQ", [0, 1, 0, 1, 0, 0]), ("NE", [1, 0, 1, 0, 1, 1]), ("LE", [1, 1, 0, 1, 0, 0])):
            samples.append(case("compare", (x, y), pred(truth), name=direction, direction=direction))
        bounds = array(t, [0, 0, 0, 8, nan, 0]), array(t, [-1, 0.5, 9, 5, 1, nan]), array(t, [1, 1, 1, 2, 2, 1])
        samples.append(case("clamp", bounds, array(t, [0, 0.5, 1, 2, nan, nan])))
        samples.append(case("select", (pred([1, 0]), array(t, [1, nan]), array(t, [3, -0.0])), array(t, [1, -0.0])))
    return samples


def _converted() -> list[Sample]:
    samples = []
    for s, t, x, y in _CONVERT:
        absent = _NOT_IN_XLA.get(t) or _NOT_IN_XLA.get(s, "")
        samples.append(
            case("convert", (array(s, x),), array(t, y), name=f"to {t}", shape=shape(f"{t}[{len(x)}]"), xla=absent)
        )
    x, y = [1 + 2.0**-11 + 2.0**-40, -65519.99999999999, 2.0**-25 + 2.0**-70], [1 + 2.0**-10, -65504, 2.0**-24]
    by_processor = "XLA:CPU 0.10.2 rounds once where the processor has an instruction for it, elsewhere by way of f32"
    for s in ("f64", "c128"):
        samples.append(
            case(
                "convert", (array(s, x),), array("f16", y), name="rounds once", shape=shape("f16[3]"), xla=by_processor
            )
        )
    return samples


def _constant(t: str, values: list[float], xla: str = "") -> Sample:
    return program(
        "constant", (), array(t, values), lambda b: b.constant(shape(f"{t}[{len(values)}]"), values), xla=xla
    )


def _reduced() -> list[Sample]:
    """reduce-precision, of subnormals too: the bits are rounded where those of other numbers are."""
    rows: tuple[tuple[str, list[float], list[float], int, int], ...] = (
        ("f16", [1.25, 1.0625, 6e-8, 4e-6, 65504, nan, -inf], [1.25, 1, 0, 7.62939453125e-06, inf, nan, -inf], 5, 3),
        ("f16", [6e-8, 1.0009765625, -6e-5], [0, 1, -1008 * 2.0**-24], 8, 7),
        ("f16", [6.1e-5, 240, 248, -0.0], [0, 240, inf, -0.0], 4, 3),
        ("bf16", [1.0078125, 3.3e38, 1e-39], [1, inf, 1.4693679385278594e-39], 8, 3),
        ("bf16", [65536, 6.1e-5, 1.5, nan], [inf, 6.103515625e-05, 1.5, nan], 5, 10),
        ("f8e5m2", [2.0**-16, 1.25, 57344], [0, 1, inf], 8, 0),
        ("f8e4m3fn", [1.125, 448, 2.0**-9], [1, nan, 0], 4, 2),
    )
    return [
        case("reduce-precision", (array(t, x),), array(t, y), name=f"e{e}m{m}", exponent_bits=e, mantissa_bits=m)
        for t, x, y, e, m in rows
    ]


def _integers() -> list[Sample]:
    samples = [
        case(op, (array(t, x), array(t, y)), array(t, z), xla=_NOT_ON_CPU if op == "mulhi" else "")
        for op, t, x, y, z in _INTEGER_BINARY
    ]
    samples += [case(op, (array(t, x),), array(t, y), xla=xla) for op, t, x, y, xla in _INTEGER_UNARY]
    for t, x, y in (("s4", [-8, 2, 7], [7, 2, -8]), ("u4", [8, 2, 7], [7, 2, 15])):
        for direction, truth in (("LT", np.less), ("EQ", np.equal), ("GE", np.greater_equal)):
            samples.append(
                case("compare", (array(t, x), array(t, y)), pred(truth(x, y)), name=direction, direction=direction)
            )
        samples.append(case("select", (pred([1, 0, 1]), array(t, x), array(t, y)), array(t, [x[0], y[1], x[2]])))
        samples.append(
            case("clamp", (array(t, 3), array(t, x), array(t, 5)), array(t, np.clip(x, 3, 5)), name="scalar bounds")
        )
        samples.append(
            case(
                "iota",
                (),
                array(t, np.arange(20).astype(np.int8)),
                shape=shape(f"{t}[20]"),
                iota_dimension=0,
                name="wraps",
            )
        )
        samples.append(program("constant", (), array(t, x), lambda b, t=t, x=x: b.constant(shape(f"{t}[3]"), x)))
    one = array("s1", [0, -1, -1]), array("s1", [-1, 0, -1])
    samples.append(case("add", one, array("s1", [-1, -1, 0]), xla="XLA:CPU 0.10.2 takes s1 for pred"))
    samples.append(
        case(
            "convert",
            (s32([3, 2, -1]),),
            array("u1", [1, 0, 1]),
            name="to u1",
            shape=shape("u1[3]"),
            xla="not in StableHLO",
        )
    )
    odd = np.arange(-8, 8).astype(np.int8).repeat(3)[:43]
    samples.append(case("negate", (array("s4", odd),), array("s4", np.where(odd == -8, odd, -odd)), name="odd size"))
    return samples


NARROW_SAMPLES: tuple[Sample, ...] = (
    *_floats(),
    *_of_a_byte(),
    *_compared(),
    *_reduced(),
    *_integers(),
    *_converted(),
    *(case("bitcast-convert", (x,), y, name=f"{x.dtype} to {y.dtype}", shape=shape_of(y)) for x, y in _BITCASTS),
)
