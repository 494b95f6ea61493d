"""Logarithms, the inverses of hyperbolic functions, and power."""

from __future__ import annotations

from math import inf, nan

from .exponential import power_of_two
from .formats import F32, hex_floats
from .number import Number, polynomial, split_polynomial

# In f32 (log(1+f) - f) / f^2 on [sqrt(1/2) - 1, sqrt(2) - 1], relative error of log(1+f) 2^-27.8.
_LOG1P = hex_floats(
    "-0x1.fffff8p-2 0x1.55555p-2 -0x1.000438p-2 0x1.99a41cp-3 -0x1.5423e8p-3 0x1.226c7ep-3 -0x1.0f51f6p-3 "
    "0x1.087556p-3 -0x1.381574p-4"
)
# In f64 (2 atanh(s) - 2s) / s^3 in s^2 on |s| <= (sqrt 2 - 1)/(sqrt 2 + 1), relative error of 2 atanh(s) 2^-59.5.
_ATANH = hex_floats(
    "0x1.5555555555592p-1 0x1.999999997ff3bp-2 0x1.24924941def48p-2 0x1.c71c52163899cp-3 0x1.74663c957c7b3p-3 "
    "0x1.39a1efe397695p-3 0x1.2f0387319647ap-3"
)
# (log(1+x) - x) / x^2 on [0, 1], relative error of log(1+x) 2^-30.2.
_LOG1P_FRACTION = hex_floats(
    "-0x1.fffff8p-2 0x1.5553a6p-2 -0x1.ffc41ep-3 0x1.978274p-3 -0x1.4a541cp-3 0x1.fea6fap-4 -0x1.544516p-4 "
    "0x1.57e8a4p-5 -0x1.beabe8p-7 0x1.0fb394p-9"
)
# 2^r on [0, 1] with constant 1, relative error 2^-28.8.
_EXP2 = hex_floats("0x1p+0 0x1.62e42cp-1 0x1.ebfd3ap-3 0x1.c68af0p-5 0x1.3cfdf0p-7 0x1.473232p-10 0x1.c45862p-13")
# (3 atanh(s)/s - 3 - s^2) / s^4 in s^2 on |s| <= (sqrt 2 - 1)/(sqrt 2 + 1), error 2^-36 of 3.
_POW_LOG = hex_floats("0x1.33338p-1 0x1.b67baep-2 0x1.67bbbcp-2")


def _log_sum(k: Number, m: Number, low: Number | None = None) -> Number:
    """k ln 2 + log(1 + m) for 1 + m in [sqrt(1/2), sqrt(2)), plus low in f32.

    In f64 log(1 + m) = 2 atanh(s) with s = m / (2 + m), and 2s = m - m^2/2 + s m^2/2 keeps the exact m as the leading
    term.
    """
    f = m.format
    if f is F32:
        square = m * m
        p = split_polynomial(m, _LOG1P)
        log = square.fma(p, m) if low is None else square.fma(p, low) + m
        return k.fma(f.short_ln2[0], log)
    s = m / (m + 2.0)
    square = s * s
    half_square = m * 0.5 * m
    rest = square.fma(polynomial(square, _ATANH), half_square)
    ln2_high, ln2_low = f.ln2
    small = s.fma(rest, k * ln2_low)
    return k.fma(ln2_high, m - (half_square - small))


def _log_edges(x: Number, pole: float, y: Number) -> Number:
    """y where pole < x < inf, x where it is +inf, -inf at the pole, NaN below it and for NaN."""
    y = (x < inf).choose(y, x)
    at_pole = x.equals(pole).choose(x.const(-inf), nan)
    return (x > pole).choose(y, at_pole)


def _from_sqrt_half(x: Number) -> Number:
    """The bits of x > 0 from those of sqrt(1/2) on: k and a mantissa, where x = 2^k m; in f64 the bias is added to
    k."""
    f = x.format
    return x.bits - f.sqrt_half_bits if f is F32 else x.bits + (f.one_bits - f.sqrt_half_bits)


def _exponent(moved: Number, dtype: str) -> Number:
    """k as a float, of what `_from_sqrt_half` gives. In f64 from the bits, since no conversion of integers exists for
    two lanes."""
    if dtype == "f32":
        return (moved >> 23).convert(dtype)
    field = Number(moved.b, moved.b.shr_u(moved.x, 52)) | ((0x3FF + 52) << 52)
    return field.bitcast(dtype) - (2.0**52 + 1023)


def _split(x: Number) -> tuple[Number, Number]:
    """(k, m) with x = 2^k m and m in [sqrt(1/2), sqrt(2)), for finite positive x. Subnormals are first scaled by
    2^mantissa."""
    f = x.format
    small = x < f.smallest_normal
    scaled = small.choose(x * 2.0**f.mantissa, x)
    if f is F32:
        # The extra 23 exponents leave k but not the masked mantissa.
        bits = scaled.bits
        moved = bits - small.choose(bits.const(f.sqrt_half_bits + (23 << 23)), f.sqrt_half_bits)
        k = _exponent(moved, f.dtype)
    else:
        moved = _from_sqrt_half(scaled)
        k = _exponent(moved, f.dtype) - small.choose(x.const(52.0), 0.0)
    return k, ((moved & f.mantissa_mask) + f.sqrt_half_bits).bitcast(f.dtype)


def log(x: Number) -> Number:
    """k ln 2 + log m, m in [sqrt(1/2), sqrt(2)); subnormal x are exact too. Max ulp 1.09 / 0.96; of f64 0.79 / 0.78."""
    k, m = _split(x)
    return _log_edges(x, 0.0, _log_sum(k, m - 1.0))


def _log1p(x: Number, extra: Number | None = None, low: Number | None = None) -> Number:
    """log(1 + x + low) + extra ln 2 for x > -1.

    m = (1 + x) 2^-k - 1 comes from x, not from the rounded 1 + x; 4 * 2^-k is normal for all k.
    """
    f = x.format
    moved = _from_sqrt_half(1.0 + x)
    exponent = moved & ~f.mantissa_mask
    one = f.one_bits if f is F32 else 2 * f.one_bits
    scale = (moved.const(one + (2 << f.mantissa)) - exponent).bitcast(f.dtype)
    base = scale.fma(0.25, -1.0)
    scaled = x * scale
    m = scaled.fma(0.25, base)
    k = _exponent(moved, f.dtype)
    if extra is not None:
        k = k + extra
    if low is not None:
        # With what m lost, times 2^-k / (1 + m), for which 2^-k (1 - m) will do.
        lost = scaled.fma(0.25, base - m)
        low = (low * scale).fma(0.25, lost) * (1.0 - m)
    return _log_sum(k, m, low)


def log1p(x: Number) -> Number:
    """As log, on m = (1 + x) 2^-k - 1. Max ulp 1.58 / 1.50; of f64 1.20 / 1.20."""
    return _log_edges(x, -1.0, _log1p(x)).copysign(x)


def log1p_of_fraction(x: Number) -> Number:
    """log1p for 0 <= x <= 1, and NaN: x + x^2 times a polynomial, degree 11. Max ulp 1.68 / 1.25."""
    return (x * x).fma(polynomial(x, _LOG1P_FRACTION), x)


def _big_log1p(a: Number, larger: Number, smaller: Number) -> Number:
    """log(2a) where a > 2^13, else log(1 + larger + smaller)."""
    big = a > 8192.0
    small = larger + smaller
    z = big.choose(a - 1.0, small)
    low = big.choose(0.0, smaller - (small - larger))
    return _log1p(z, big.choose(a.const(1.0), 0.0), low)


def asinh(x: Number) -> Number:
    """log1p(a + a^2 / (1 + sqrt(a^2 + 1))). Max ulp 1.31 / 1.28"""
    a = abs(x)
    square = a * a
    y = _big_log1p(a, a, square / (1.0 + (square + 1.0).sqrt()))
    return (a < inf).choose(y, a).copysign(x)


def acosh(x: Number) -> Number:
    """log1p(t + sqrt(t (t + 2))) with t = x - 1. Max ulp 1.82 / 1.83"""
    t = x - 1.0
    y = _big_log1p(x, t.fma(t, t + t).sqrt(), t)
    y = (x < inf).choose(y, x)
    return (x >= 1.0).choose(y, nan)


def atanh(x: Number) -> Number:
    """log1p(2a + 2a a / (1 - a)) / 2. Max ulp 1.85 / 1.90"""
    a = abs(x)
    twice = a + a
    y = _log1p(twice + twice * a / (1.0 - a)) * 0.5
    outside = a.equals(1.0).choose(a.const(inf), nan)
    return (a < 1.0).choose(y, outside).copysign(x)


def high_half(x: Number) -> Number:
    """x cut to 12 significant bits, so that products of two are exact."""
    return (x.bits & ~0xFFF).bitcast("f32")


def _log2_pair(a: Number) -> tuple[Number, Number]:
    """log2 a of positive finite a as a 12-bit head and a tail, relative error about 2^-34.

    With s = (m - 1) / (m + 1) as head and tail, log2 m = 2/(3 ln 2) s (3 + s^2 + r): the bracket and the product carry
    tails as well.
    """
    k, m = _split(a)
    n, w = m - 1.0, m + 1.0
    inverse = 1.0 / w
    s = n * inverse
    s_high, w_high = high_half(s), high_half(w)
    w_low = m - (w_high - 1.0)
    s_low = (n - s_high * w_high - s_high * w_low) * inverse
    s2 = s * s
    r = (s2 * s2).fma(polynomial(s2, _POW_LOG), s_low * (s_high + s))
    square = s_high * s_high
    t_high = high_half(3.0 + square + r)
    t_low = r - (t_high - 3.0 - square)
    product = s_high * t_high
    rest = s_low.fma(t_high, t_low * s)
    p_high = high_half(product + rest)
    p_low = rest - (p_high - product)
    # 2 / (3 ln 2) = 0x1.ec709dc3a03fdp-1 in 12 bits and the rest.
    whole, first, second = map(a.const, hex_floats("0x1.ec709ep-1 0x1.ec6p-1 0x1.09dc3ap-13"))
    z_high = first * p_high
    z_low = second.fma(p_high, p_low * whole)
    head = high_half(z_high + z_low + k)
    return head, z_low - (head - k - z_high)


def power(x: Number, y: Number) -> Number:
    """2^(y log2 |x|) with log2 and the product as pairs, degree 6 for 2^r, then the edge cases of C99. Max ulp 1.93 /
    1.54 on samples."""
    f = x.format
    a = abs(x)
    log_high, log_low = _log2_pair(a)
    # A finite y keeps 1^inf at 1 and changes no other result.
    limit = x.const(3e38)
    yc = y.pmin(limit).pmax(-limit)
    y_high = high_half(yc)
    high = y_high * log_high
    low = (yc - y_high).fma(log_high, yc * log_low)
    # |x| 0, inf or NaN: y times -inf, inf or NaN.
    is_zero = a.equals(0.0)
    regular = (a > 0.0) & (a < inf)
    high = regular.choose(high, yc * is_zero.choose(-inf, a))
    # |low| < 1/8 where the result is finite; beyond, r > 1 with k = 127, or k = -127, gives infinity or 0.
    high = high.clamp(-126.5, 128.5)
    low = regular.choose(low.clamp(-0.125, 0.125), 0.0)
    # The floor as in exp; k at most 127 because high + low may round up to 128.
    k = (high + low).floor().pmin(127.0)
    r = high - k + low
    result = power_of_two(k + (f.magic + f.bias)) * polynomial(r, _EXP2)
    # The sign: y is an integer, and odd.
    half_y = y * 0.5
    odd = y.floor().equals(y) & half_y.floor().differs(half_y)
    result = odd.choose(result.copysign(x), result)
    # Negative finite x with a y that is no integer.
    invalid = (x < 0.0) & a.differs(inf) & y.floor().differs(y)
    result = invalid.choose(nan, result)
    return (y.equals(0.0) | x.equals(1.0)).choose(1.0, result)
