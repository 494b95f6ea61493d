"""Exponential and hyperbolic functions, and erf, which is one in disguise."""

from __future__ import annotations

from collections.abc import Sequence

from .formats import F32, alternating, hex_floats
from .number import Number, polynomial, split_polynomial

# As `Format.one_minus_exp`; the last bits of the first two are the best of a search for tanh.
_ONE_MINUS_EXP = hex_floats("-0x1.fffff4p-2 0x1.55549p-3 -0x1.555dc6p-5 0x1.123d38p-7 -0x1.6730f2p-10")
# (sinh(a) - a) / a^3 in a^2 on [0, 1], relative error of sinh(a) 2^-25.3.
_SINH = hex_floats("0x1.555598p-3 0x1.10f76p-7 0x1.ab428ap-13")
# In f64 as `Format.expm1`, on -ln(2)/2..0.516, relative error 2^-57.9.
_TANH = hex_floats(
    "0x1.fffffffffffffp-2 0x1.5555555555541p-3 0x1.5555555555a69p-5 0x1.1111111116e3fp-7 0x1.6c16c16a62018p-10 "
    "0x1.a01a018291de8p-13 0x1.a01a09421498dp-16 0x1.71de63a42b762p-19 0x1.27d5a207541c7p-22 0x1.aeafdcd3fd90dp-26 "
    "0x1.36072eb780c67p-29"
)


def power_of_two(biased: Number) -> Number:
    """2^k from `Format.magic` + bias + k; k = -bias gives 0 and k = bias + 1 infinity."""
    return (biased.bits << biased.format.mantissa).bitcast(biased.x.dtype)


def _less_multiple(x: Number, k: Number, parts: Sequence[float]) -> Number:
    """x - k times the sum of the parts."""
    for part in parts:
        x = k.fma(-part, x)
    return x


def exp(x: Number) -> Number:
    """2^k e^r, r in [0, ln 2]; results below the smallest normal number are 0. Max ulp 1.83 / 1.48; of f64 1.95 / 1.63.

    k is the floor, not the nearest: then 2^k overflows and vanishes exactly where the result does, k in 1 - bias..bias
    being the normal numbers. Of f64 it may be one more just below an integer: then 1 - bias is met, and bias + 1
    becomes bias, with r > ln 2.
    """
    f = x.format
    x = x.clamp(*f.exp_range)
    magic = f.magic + f.bias
    t = x.fma(f.log2e, f.floor) + magic
    if f is not F32:
        t = t.pmin(magic + f.bias)
    r = _less_multiple(x, t - magic, f.ln2)
    return power_of_two(t) * polynomial(r, f.exp)


def logistic(x: Number) -> Number:
    """s / (s + e^-r) with s = 2^k, x = k ln 2 + r; 0 below (1/2 - bias) ln 2. Max ulp 1.77 / 1.75; of f64 1.75 /
    1.74."""
    f = x.format
    x = x.clamp(*f.logistic_range)
    magic = f.magic + f.bias
    t = x.fma(f.log2e, magic)
    r = _less_multiple(x, t - magic, f.ln2)
    scale = power_of_two(t)
    # The denominator is (1 + s) + (e^-r - 1); what 1 + s loses where s is small joins the small part.
    head = 1.0 + scale
    lost = scale - (head - 1.0)
    p = (r * r).fma(split_polynomial(r, alternating(f.expm1)), lost - r)
    return scale / (head + p)


def _scaled_exp_parts(x: Number, log2_scale: int) -> tuple[Number, Number]:
    """(s, p) with 2^log2_scale e^x = s (1 + p), s a power of two, |x - its logarithm| <= ln(2)/2."""
    f = x.format
    magic = f.magic + f.bias + log2_scale
    t = x.fma(f.log2e, magic)
    r = _less_multiple(x, t - magic, f.ln2)
    square = r * r
    return power_of_two(t), square.fma((split_polynomial if f is F32 else polynomial)(r, f.expm1), r)


def _scaled_expm1(x: Number, log2_scale: int) -> Number:
    """2^log2_scale (e^x - 1) for x in `Format.expm1_range` as long as 2^(k + log2_scale) is finite; -0 gives +0."""
    scale, p = _scaled_exp_parts(x, log2_scale)
    return scale.fma(p, scale - 2.0**log2_scale)


def expm1(x: Number) -> Number:
    """2^k (e^r - 1) + (2^k - 1), |r| <= ln(2)/2, at half size because 2^(bias + 1) is infinite. Max ulp 1.81 / 1.70; of
    f64 1.97 / 1.84."""
    half = _scaled_expm1(x.clamp(*x.format.expm1_range), -1)
    return (half + half).copysign(x)


def _one_minus_exp_parts(w: Number, coefficients: Sequence[float]) -> tuple[Number, Number]:
    """(s, p) with e^-w = s (1 - p), s = 2^k normal, w >= 0. An error of r counts only times e^-w: see
    `Format.short_ln2`."""
    f = w.format
    magic = f.magic + f.bias
    t = w.fma(-f.log2e, magic)
    r = _less_multiple(w, t - magic, [-part for part in f.short_ln2])
    square = r * r
    return power_of_two(t), square.fma(split_polynomial(r, coefficients), r)


def erf(x: Number) -> Number:
    """1 - e^-w with w = -log(erfc |x|) = a + a Q(a): one formula for any x, no division. Max ulp 1.93 / 1.89; of f64
    1.61 / 1.42."""
    f = x.format
    a = abs(x).pmin(f.erf_limit)
    scale, p = _one_minus_exp_parts(a.fma(split_polynomial(a, f.erf), a), f.one_minus_exp)
    return scale.fma(p, 1.0 - scale).copysign(x)


def tanh_f32(x: Number) -> Number:
    """(1 - e) / (1 + e) with e = e^(-2|x|) = s (1 - p). Max ulp 1.98 / 1.95."""
    scale, p = _one_minus_exp_parts(abs(x + x).pmin(20.0), _ONE_MINUS_EXP)
    below = scale.fma(p, 1.0 - scale)
    above = scale.fnma(p, 1.0 + scale)
    return (below / above).copysign(x)


def tanh_f64(x: Number) -> Number:
    """m / (m + 2) with m = e^2a - 1 and a = |x|; below 0.258, where tanh is 1/4, a less a^2 (..) / (m + 2). Max ulp
    1.50 / 1.50"""
    f = x.format
    a = abs(x).pmin(20.0)
    small = a < 0.2578125
    magic = f.magic + f.bias
    t = small.choose(0.0, a).fma(2 * f.log2e, magic)
    k = t - magic
    r = _less_multiple(a + a, k, f.ln2)
    # m = r + r^2 q where k = 0; then a - m / (m + 2) = r^2 (1/2 - (1 - a) q) / (m + 2).
    square, q = r * r, split_polynomial(r, _TANH)
    scale = power_of_two(t)
    m = scale.fma(square.fma(q, r), scale - 1.0)
    less = square * (1.0 - a).fma(q, -0.5)
    quotient = small.choose(less, m) / (m + 2.0)
    return (small.choose(a, 0.0) + quotient).copysign(x)


def sinh(x: Number) -> Number:
    """Odd degree 7 on [0, 1], above it (m + m / (m + 1)) / 2 with m = e^|x| - 1. Max ulp 1.52 / 1.52"""
    a = abs(x).pmin(89.75)
    quarter = _scaled_expm1(a, -2)
    y = quarter + quarter / quarter.fma(4.0, 1.0)
    square = a * a
    small = (a * square).fma(polynomial(square, _SINH), a)
    return (a > 1.0).choose(y + y, small).copysign(x)


def cosh(x: Number) -> Number:
    """2 (g + 1 / 16g) with g = e^|x| / 4. Max ulp 1.50 / 1.52"""
    scale, p = _scaled_exp_parts(abs(x).pmin(89.75), -2)
    g = scale.fma(p, scale)
    y = g + 0.0625 / g
    return y + y
