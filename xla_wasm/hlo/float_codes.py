"""The float types of at most 8 bits, value by value: their codes are few enough for tables."""

from __future__ import annotations

from bisect import bisect_right
from functools import cache
from math import copysign, inf, isnan, nan

from .types import TYPES

FORMATS = {name: type_.format for name, type_ in TYPES.items() if type_.format and type_.bits <= 8}


@cache
def values(name: str) -> tuple[float, ...]:
    """The value of every code of the type."""
    exponent_bits, mantissa_bits, bias, special = FORMATS[name]
    if special == "powers of two":
        return (*(2.0 ** (code - bias) for code in range(255)), nan)
    half = 1 << exponent_bits + mantissa_bits
    ones = (1 << exponent_bits) - 1
    out = []
    for code in range(2 * half):
        sign = -1.0 if code >= half else 1.0
        exponent, mantissa = code >> mantissa_bits & ones, code & (1 << mantissa_bits) - 1
        scale = 2.0 ** (max(exponent, 1) - bias - mantissa_bits)
        value = (mantissa + (1 << mantissa_bits if exponent else 0)) * scale
        if special == "ieee" and exponent == ones:
            value = nan if mantissa else inf
        elif (special == "nan" and code & half - 1 == half - 1) or (special == "no negative zero" and code == half):
            value = nan
        out.append(copysign(value, sign))
    return tuple(out)


@cache
def _finite(name: str) -> tuple[float, ...]:
    """The values of the codes from 0 on that are finite and not negative: ascending."""
    return tuple(value for value in values(name)[: 1 << sum(FORMATS[name][:2])] if value < inf)


def encode(name: str, value: float) -> int:
    """The code nearest to `value`, ties to the even code; what is too large becomes infinity, else NaN, else the
    largest."""
    exponent_bits, mantissa_bits, _, special = FORMATS[name]
    half = 1 << exponent_bits + mantissa_bits
    unsigned, uz = special == "powers of two", special == "no negative zero"
    nan_code = {"ieee": half - 1 - ((1 << mantissa_bits) - 1 >> 1), "nan": half - 1, "powers of two": 255}.get(
        special, half if uz else 0
    )
    negative = copysign(1.0, value) < 0
    if isnan(value) or (unsigned and value <= 0):
        return nan_code | (half if negative and not (unsigned or uz) and special != "finite" else 0)
    finite = _finite(name)
    size = abs(value)
    below = max(bisect_right(finite, size) - 1, 0)
    if below == len(finite) - 1:
        # One step past the largest, as if the exponent could go on: where rounding would land there, it overflows.
        step = finite[-1] if unsigned else finite[-1] - finite[-2]
        middle = finite[-1] + step / 2
        over = size > middle or (size == middle and (unsigned or below % 2 == 1))
        code = below if not over or special == "finite" else below + 1 if special == "ieee" else nan_code
    else:
        middle = (finite[below] + finite[below + 1]) / 2
        # The last bit of a power of two is its leading one, which is odd: with no mantissa every tie goes up.
        code = below + (size > middle or (size == middle and (unsigned or below % 2 == 1)))
    if unsigned or (uz and code in (0, nan_code)):
        return code
    return code | (half if negative else 0)
