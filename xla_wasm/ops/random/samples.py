"""Samples of random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...hlo.shape import Shape
from ...hlo.types import TYPES
from ..dtypes import DTYPES, Array
from ..sample import (
    Sample,
    array,
    bf16,
    case,
    f16,
    f32,
    f64,
    inf,
    nan,
    pred,
    program,
    s8,
    s16,
    s32,
    s64,
    shape,
    u8,
    u16,
    u32,
    u64,
)

_UNSIGNED = "the importer makes all random bits unsigned"
_SMALL = "XLA:CPU stops at integers of 8 and 16 bits"


def _bits(
    algorithm: str, state: list[int], after: list[int], element_type: str, dims: tuple[int, ...], bits: list[int]
) -> Sample:
    """One draw; `bits` are the bit patterns of the elements in row-major order."""
    drawn = np.array(bits, f"u{TYPES[element_type].bytes}").reshape(dims)
    kind = TYPES[element_type].kind
    result = (
        drawn.view(DTYPES[element_type])
        if kind == "float"
        else drawn.astype(f"{'i' if kind == 'signed' else 'u'}{drawn.itemsize}")
    )
    declared = Shape.tuple([Shape("u64", (len(state),)), Shape(element_type, dims)])
    return case(
        "rng-bit-generator",
        (u64(state),),
        (u64(after), result),
        shape=declared,
        algorithm=algorithm,
        name=f"{algorithm} {dims}",
        xla="" if kind == "unsigned" else _UNSIGNED,
    )


def _drawn(
    low: Array, high: Array, element_type: str, expected: Array, distribution: str = "rng_uniform", xla: str = ""
) -> Sample:
    """A distribution of which only one value can come."""
    name = f"{distribution} {element_type}"
    return case("rng", (low, high), expected, shape=shape(element_type), distribution=distribution, name=name, xla=xla)


def _rounded(x: Array, random: Array, expected: Array) -> Sample:
    kind = "s" + str(TYPES[_type(expected)].bits)
    declared = Shape(kind, x.shape)
    return case("stochastic-convert", (x, random), expected, shape=declared, xla="XLA:CPU has no stochastic-convert")


def _type(x: Array) -> str:
    return next(name for name, dtype in DTYPES.items() if dtype == x.dtype)


def _states(count: int, delta: int) -> Any:
    def body(b: Any) -> Any:
        return b.op("tuple", *(b.op("rng-get-and-update-state", delta=delta) for _ in range(count)))

    return body


_FIRST = u64([0x7012395, 0])

SAMPLES: tuple[Sample, ...] = (
    # The first of each are the known answers of the generators for a key and a counter of zeros.
    _bits("rng_three_fry", [0, 0], [0, 1], "u32", (2,), [0x6B200159, 0x99BA4EFE]),
    _bits("rng_three_fry", [0, 0], [0, 1], "u64", (1,), [0x99BA4EFE6B200159]),
    _bits("rng_philox", [0, 0, 0], [0, 1, 0], "u32", (4,), [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    _bits(
        "rng_three_fry", [0x123456789ABCDEF0, 2**64 - 1], [0x123456789ABCDEF0, 2], "u32", (3, 2),
        [2754706343, 569486026, 1593802813, 1289978105, 961273596, 1692389550],
    ),
    _bits("rng_three_fry", [1, 2], [1, 5], "s16", (5,), [59732, 54587, 37587, 20483, 3027]),
    _bits("rng_three_fry", [1, 2**32 - 1], [1, 2**32], "u32", (), [1079361140]),
    _bits("rng_three_fry", [5, 6], [5, 6], "u32", (0, 2), []),
    _bits(
        "rng_philox", [0x123456789ABCDEF0, 2**64 - 1, 2**64 - 1], [0x123456789ABCDEF0, 1, 0], "u32", (2, 3),
        [1198592988, 3655944420, 1854337557, 2970365545, 153918276, 2016955328],
    ),
    _bits("rng_default", [7, 2**64 - 1], [7, 1], "u64", (3,),
          [12582623120030231089, 3721964000698584067, 2113786144769580494]),
    _bits("rng_default", [7, 9], [7, 10], "u8", (3,), [26, 164, 123]),
    _bits("rng_philox", [7, 9, 1], [7, 10, 1], "f32", (2,), [1838853873, 2078106209]),
    _bits("rng_philox", [7, 9, 1], [7, 10, 1], "s64", (1,), [8925398207108394737]),
    _bits("rng_default", [7, 9, 1], [7, 10, 1], "f64", (2,), [8925398207108394737, 15694065561629419158]),
    _drawn(f32(2), f32(2), "f32[3]", f32([2, 2, 2])),
    _drawn(f64(-1), f64(-1), "f64[2,2]", f64(np.full((2, 2), -1))),
    _drawn(bf16(3), bf16(3), "bf16[2]", bf16([3, 3])),
    _drawn(f32(5), f32(0), "f32[5]", f32([5] * 5), "rng_normal"),
    _drawn(f64(5), f64(0), "f64[2]", f64([5] * 2), "rng_normal"),
    _drawn(f16(1), f16(0), "f16[3]", f16([1] * 3), "rng_normal"),
    _drawn(s32(-7), s32(-6), "s32[3]", s32([-7] * 3)),
    _drawn(s8(-128), s8(-127), "s8[2]", s8([-128] * 2), xla=_SMALL),
    _drawn(u16(65534), u16(65535), "u16[2]", u16([65534] * 2), xla=_SMALL),
    _drawn(u64(2**64 - 2), u64(2**64 - 1), "u64[]", u64(2**64 - 2)),
    _drawn(s64(4), s64(5), "s64[0]", s64([])),
    _drawn(pred(True), pred(True), "pred[4]", pred([True] * 4), xla="XLA:CPU refuses it"),
    program("rng-get-and-update-state", (), (_FIRST,), _states(1, 3), name="first state"),
    program("rng-get-and-update-state", (), (_FIRST, _FIRST), _states(2, 1), name="each instruction has its own",
            xla="names one process"),
    _rounded(
        f32([1.5, 1.5, -1.5, -1.5, 0.25, 0.25]), u32([2**31 - 1, 2**31, 2**31 - 1, 2**31, 2**30 - 1, 2**30]),
        s32([2, 1, -2, -1, 1, 0])
    ),
    _rounded(f32([nan, inf, -inf, 3e9, -3e9, -0.0]), u32([0] * 6),
             s32([0, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 0])),
    _rounded(f16([126.5, 127.5, -127.5, -128.5, 1000, 6e-8]), u16([0] * 6), s8([127, 127, -128, -128, 127, 0])),
    _rounded(bf16([0.5, 3, -2.5]), u16([0x7FFF, 0, 0x8000]), s16([1, 3, -2])),
    _rounded(f64([2**52 - 0.5, -0.75, 1e300]), u64([0, 2**63, 0]), s64([2**52, -1, 2**63 - 1])),
    _rounded(f64([2.0**63, -(2.0**63), 0.5, 0.5]), u64([0, 5, 2**63 - 1, 2**63]), s64([2**63 - 1, -(2**63), 1, 0])),
    _rounded(f32([1.75, -1.75]), u32([0xBFFFFFFF, 0xC0000000]), s8([2, -1])),
    _rounded(array("f8e4m3fn", [1.5, 1.5, -448, 0.125]), u8([127, 128, 0, 31]), s8([2, 1, -128, 1])),
    _rounded(f32(np.zeros((0, 3))), u32(np.zeros((0, 3))), s32(np.zeros((0, 3)))),
)  # fmt: skip
