"""Polynomials of loop values: coefficients come constant term first, in the type of the argument."""

from __future__ import annotations

from collections.abc import Sequence

from .builder import Builder
from .ir import Val


def hex_floats(*texts: str) -> tuple[float, ...]:
    return tuple(float.fromhex(text) for text in texts)


def poly(b: Builder, x: Val, coefficients: Sequence[float]) -> Val:
    """Horner's rule."""
    result = b.const(x.dtype, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = b.fma(result, x, b.const(x.dtype, coefficient))
    return result


def split_poly(b: Builder, x: Val, x2: Val, coefficients: Sequence[float]) -> Val:
    """Even and odd powers apart, in x2 = x^2: half the latency of Horner's rule, which bounds long loops without branches."""
    return b.fma(poly(b, x2, coefficients[1::2]), x, poly(b, x2, coefficients[::2]))
