"""Elementary functions on f32 values, scalar or four lanes, as sequences of loop builder operations.

They have no branches but `slow_path` (huge arguments of sin, cos and tan, big quotients of remainder), and hold whether or
not the builder's `fma` fuses. NaN passes clamps: `pmin(x, limit)` and `pmax(x, limit)` return a first operand that is NaN.
Adding 1.5*2^23 turns a float into an integer, the low bits of the sum; with 127 + k as that integer, `bits << 23` is 2^k.

"Max ulp" is the largest error met, unfused / fused, over all 2^32 inputs (on random samples for power). Results below the
smallest normal number may be 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .builder import Builder
from .ir import Val
from .math_f32_trig import acos, asin, atan, atan2, cos, sin, tan
from .polynomial import hex_floats, poly, split_poly

INF = float("inf")
NAN = float("nan")
_MAGIC = 1.5 * 2.0**23
_FLOOR = float.fromhex("-0x1.fffffep-2")  # rounding z + this is floor(z), also for z = 0
_LOG2E = float.fromhex("0x1.715476p+0")
_LN2 = float.fromhex("0x1.62e43p-1")
_LN2_HI = float.fromhex("0x1.62e4p-1")  # 15 bits: k * _LN2_HI is exact for |k| <= 256
_LN2_LO = float.fromhex("0x1.7f7d1cp-20")
_ONE_BITS = 0x3F800000
_SQRT_HALF_BITS = 0x3F3504F3
_MANTISSA = 0x007FFFFF
_SMALLEST_NORMAL = 2.0**-126


# e^r on [0, ln 2] with constant 1, degree 6, relative error 2^-28.8.
_EXP = hex_floats("0x1p+0", "0x1.fffffap-1", "0x1.0000bap-1", "0x1.553884p-3", "0x1.5755d2p-5", "0x1.fef9bcp-8", "0x1.fe553ep-10")
# (e^r - 1 - r) / r^2 on |r| <= ln(2)/2, relative error of e^r - 1 2^-26.1.
_EXPM1 = hex_floats("0x1.fffffep-2", "0x1.5554b4p-3", "0x1.5556f2p-5", "0x1.122560p-7", "0x1.6b9ca4p-10")
_EXPM1_MINUS = tuple(c * (-1) ** i for i, c in enumerate(_EXPM1))
# (1 - e^-r - r) / r^2 on |r| <= ln(2)/2, weighted for 1 - s e^-r with s = 1 only at r >= 0, relative error 2^-27.1.
# The last bits of the first two are the best of a search, for tanh and for erf.
_ONE_MINUS_EXP = hex_floats("-0x1.fffff4p-2", "0x1.55549p-3", "-0x1.555dc6p-5", "0x1.123d38p-7", "-0x1.6730f2p-10")
_ONE_MINUS_EXP_ERF = hex_floats("-0x1.fffff6p-2", "0x1.55548ep-3", "-0x1.555dc6p-5", "0x1.123d38p-7", "-0x1.6730f2p-10")
# (log(1+f) - f) / f^2 on [sqrt(1/2) - 1, sqrt(2) - 1], relative error of log(1+f) 2^-27.8.
_LOG1P = hex_floats(
    "-0x1.fffff8p-2",
    "0x1.55555p-2",
    "-0x1.000438p-2",
    "0x1.99a41cp-3",
    "-0x1.5423e8p-3",
    "0x1.226c7ep-3",
    "-0x1.0f51f6p-3",
    "0x1.087556p-3",
    "-0x1.381574p-4",
)
# (log(1+x) - x) / x^2 on [0, 1], relative error of log(1+x) 2^-30.2.
_LOG1P_FRACTION = hex_floats(
    "-0x1.fffff8p-2",
    "0x1.5553a6p-2",
    "-0x1.ffc41ep-3",
    "0x1.978274p-3",
    "-0x1.4a541cp-3",
    "0x1.fea6fap-4",
    "-0x1.544516p-4",
    "0x1.57e8a4p-5",
    "-0x1.beabe8p-7",
    "0x1.0fb394p-9",
)
# (-log(erfc(a)) - a) / a on [0, 3.95], weighted by its effect on erf, error 2^-27.8.
_ERF = hex_floats(
    "0x1.06ebaap-3",
    "0x1.45f2fep-1",
    "0x1.a4f8c4p-4",
    "-0x1.39b7ccp-6",
    "-0x1.637490p-13",
    "0x1.b74384p-10",
    "-0x1.4e277ap-11",
    "0x1.f2847cp-14",
    "-0x1.3afb92p-17",
)
# (sinh(a) - a) / a^3 in a^2 on [0, 1], relative error of sinh(a) 2^-25.3.
_SINH = hex_floats("0x1.555598p-3", "0x1.10f76p-7", "0x1.ab428ap-13")
# 2^r on [0, 1] with constant 1, relative error 2^-28.8.
_EXP2 = hex_floats("0x1p+0", "0x1.62e42cp-1", "0x1.ebfd3ap-3", "0x1.c68af0p-5", "0x1.3cfdf0p-7", "0x1.473232p-10", "0x1.c45862p-13")
# (3 atanh(s)/s - 3 - s^2) / s^4 in s^2 on |s| <= (sqrt 2 - 1)/(sqrt 2 + 1), error 2^-36 of 3.
_POW_LOG = hex_floats("0x1.33338p-1", "0x1.b67baep-2", "0x1.67bbbcp-2")


def _c(b: Builder, number: float) -> Val:
    return b.const("f32", number)


def _power_of_two(b: Builder, biased: Val) -> Val:
    """2^k from 1.5*2^23 + 127 + k; k = -127 gives 0 and k = 128 infinity."""
    return b.bitcast(b.shl(b.bitcast(biased, "s32"), 23), "f32")


def exp(b: Builder, x: Val) -> Val:
    """2^k e^r, degree 6 on [0, ln 2]; results below 2^-126 are 0. Max ulp 1.83 / 1.48.

    k is the floor, not the nearest: then 2^k overflows and vanishes exactly where the result does, k in -126..127 being the normal numbers.
    """
    x = b.pmax(b.pmin(x, _c(b, 89.0)), _c(b, -88.0))
    magic = _c(b, _MAGIC + 127)
    t = b.add(b.fma(x, _c(b, _LOG2E), _c(b, _FLOOR)), magic)
    k = b.sub(t, magic)
    r = b.fma(k, _c(b, -_LN2_LO), b.fma(k, _c(b, -_LN2_HI), x))
    return b.mul(_power_of_two(b, t), poly(b, r, _EXP))


def logistic(b: Builder, x: Val) -> Val:
    """s / (s + e^-r) with s = 2^k, x = k ln 2 + r, degree 6 on |r| <= ln(2)/2; below -126.5 ln 2 it is 0. Max ulp 1.77 / 1.75."""
    x = b.pmax(b.pmin(x, _c(b, 87.0)), _c(b, -88.0))
    magic = _c(b, _MAGIC + 127)
    t = b.fma(x, _c(b, _LOG2E), magic)
    k = b.sub(t, magic)
    r = b.fma(k, _c(b, -_LN2_LO), b.fma(k, _c(b, -_LN2_HI), x))
    scale, one = _power_of_two(b, t), _c(b, 1.0)
    # The denominator is (1 + s) + (e^-r - 1); what 1 + s loses near s = 2^-24 joins the small part.
    head = b.add(one, scale)
    lost = b.sub(scale, b.sub(head, one))
    r2 = b.mul(r, r)
    p = b.fma(r2, split_poly(b, r, r2, _EXPM1_MINUS), b.sub(lost, r))
    return b.div(scale, b.add(head, p))


def _scaled_exp_parts(b: Builder, x: Val, log2_scale: int) -> tuple[Val, Val]:
    """(s, p) with 2^log2_scale e^x = s (1 + p), s a power of two, |x - its logarithm| <= ln(2)/2, degree 6."""
    magic = _c(b, _MAGIC + 127 + log2_scale)
    t = b.fma(x, _c(b, _LOG2E), magic)
    k = b.sub(t, magic)
    r = b.fma(k, _c(b, -_LN2_LO), b.fma(k, _c(b, -_LN2_HI), x))
    r2 = b.mul(r, r)
    return _power_of_two(b, t), b.fma(r2, split_poly(b, r, r2, _EXPM1), r)


def _scaled_expm1(b: Builder, x: Val, log2_scale: int) -> Val:
    """2^log2_scale (e^x - 1) for x >= -18 as long as 2^(k + log2_scale) < 2^128; -0 gives +0."""
    scale, p = _scaled_exp_parts(b, x, log2_scale)
    return b.fma(scale, p, b.sub(scale, _c(b, 2.0**log2_scale)))


def expm1(b: Builder, x: Val) -> Val:
    """2^k (e^r - 1) + (2^k - 1), degree 6 on |r| <= ln(2)/2, at half size because 2^128 is no f32. Max ulp 1.81 / 1.70."""
    h = _scaled_expm1(b, b.pmax(b.pmin(x, _c(b, 89.0)), _c(b, -18.0)), -1)
    return b.copysign(b.add(h, h), x)


def _one_minus_exp_parts(b: Builder, w: Val, coefficients: Sequence[float]) -> tuple[Val, Val]:
    """(s, p) with e^-w = s (1 - p), s = 2^k, for 0 <= w < 80, degree 6.

    One constant for ln 2 is enough: an error of r counts only times e^-w.
    """
    magic = _c(b, _MAGIC + 127)
    t = b.fma(w, _c(b, -_LOG2E), magic)
    r = b.fma(b.sub(t, magic), _c(b, _LN2), w)
    r2 = b.mul(r, r)
    return _power_of_two(b, t), b.fma(r2, split_poly(b, r, r2, coefficients), r)


def tanh(b: Builder, x: Val) -> Val:
    """(1 - e) / (1 + e) with e = e^(-2|x|) = s (1 - p). Max ulp 1.98 / 1.95."""
    scale, p = _one_minus_exp_parts(b, b.pmin(b.abs(b.add(x, x)), _c(b, 20.0)), _ONE_MINUS_EXP)
    one = _c(b, 1.0)
    below = b.fma(scale, p, b.sub(one, scale))
    above = b.fnma(scale, p, b.add(one, scale))
    return b.copysign(b.div(below, above), x)


def erf(b: Builder, x: Val) -> Val:
    """1 - e^-w with w = -log(erfc |x|) = a + a Q(a), Q of degree 8: one formula for small and large x, no division. Max ulp 1.93 / 1.89."""
    a = b.pmin(b.abs(x), _c(b, 3.9375))
    scale, p = _one_minus_exp_parts(b, b.fma(a, split_poly(b, a, b.mul(a, a), _ERF), a), _ONE_MINUS_EXP_ERF)
    return b.copysign(b.fma(scale, p, b.sub(_c(b, 1.0), scale)), x)


def _log_sum(b: Builder, k: Val, f: Val, low: Val | None = None) -> Val:
    """k ln 2 + log(1 + f) for 1 + f in [sqrt(1/2), sqrt(2)), plus low."""
    f2 = b.mul(f, f)
    p = split_poly(b, f, f2, _LOG1P)
    log = b.fma(f2, p, f) if low is None else b.add(b.fma(f2, p, low), f)
    return b.fma(k, _c(b, _LN2), log)


def _log_edges(b: Builder, x: Val, pole: float, y: Val) -> Val:
    """y where pole < x < inf, x where it is +inf, -inf at the pole, NaN below it and for NaN."""
    y = b.select(b.lt(x, _c(b, INF)), y, x)
    at_pole = b.select(b.eq(x, _c(b, pole)), _c(b, -INF), _c(b, NAN))
    return b.select(b.gt(x, _c(b, pole)), y, at_pole)


def _split(b: Builder, x: Val, lowest_bits: int) -> tuple[Val, Val]:
    """(k as f32, m) with x = 2^k m and bits(m) in lowest_bits + [0, 2^23), for finite positive x. Subnormals are first scaled by 2^23."""
    small = b.lt(x, _c(b, _SMALLEST_NORMAL))
    bits = b.bitcast(b.select(small, b.mul(x, _c(b, 2.0**23)), x), "s32")
    # The extra 23 exponents leave k but not the masked mantissa.
    offset = b.select(small, b.const("s32", lowest_bits + (23 << 23)), b.const("s32", lowest_bits))
    moved = b.sub(bits, offset)
    k = b.convert(b.shr_s(moved, 23), "f32")
    m = b.bitcast(b.add(b.and_(moved, b.const("s32", _MANTISSA)), b.const("s32", lowest_bits)), "f32")
    return k, m


def log(b: Builder, x: Val) -> Val:
    """k ln 2 + log m, m in [sqrt(1/2), sqrt(2)), degree 10; subnormal x are exact too. Max ulp 1.09 / 0.96."""
    k, m = _split(b, x, _SQRT_HALF_BITS)
    return _log_edges(b, x, 0.0, _log_sum(b, k, b.sub(m, _c(b, 1.0))))


def _log1p(b: Builder, x: Val, extra: Val | None = None, low: Val | None = None) -> Val:
    """log(1 + x + low) + extra ln 2 for x > -1.

    f = (1 + x) 2^-k - 1 comes from x, not from the rounded 1 + x; 4 * 2^-k is normal for all k.
    """
    bits = b.bitcast(b.add(_c(b, 1.0), x), "s32")
    moved = b.sub(bits, b.const("s32", _SQRT_HALF_BITS))
    exponent = b.and_(moved, b.const("s32", ~_MANTISSA))
    scale = b.bitcast(b.sub(b.const("s32", _ONE_BITS + (2 << 23)), exponent), "f32")
    quarter = _c(b, 0.25)
    base = b.fma(scale, quarter, _c(b, -1.0))
    scaled = b.mul(x, scale)
    f = b.fma(scaled, quarter, base)
    k = b.convert(b.shr_s(moved, 23), "f32")
    if extra is not None:
        k = b.add(k, extra)
    if low is not None:
        # With what f lost, times 2^-k / (1 + f), for which 2^-k (1 - f) will do.
        lost = b.fma(scaled, quarter, b.sub(base, f))
        low = b.mul(b.fma(b.mul(low, scale), quarter, lost), b.sub(_c(b, 1.0), f))
    return _log_sum(b, k, f, low)


def log1p(b: Builder, x: Val) -> Val:
    """As log, on f = (1 + x) 2^-k - 1, no division. Max ulp 1.58 / 1.50."""
    return b.copysign(_log_edges(b, x, -1.0, _log1p(b, x)), x)


def log1p_of_fraction(b: Builder, x: Val) -> Val:
    """log1p for 0 <= x <= 1, and NaN: x + x^2 times a polynomial, degree 11. Max ulp 1.68 / 1.25."""
    return b.fma(b.mul(x, x), poly(b, x, _LOG1P_FRACTION), x)


def rsqrt(b: Builder, x: Val) -> Val:
    """1 / sqrt x, two correctly rounded operations. Max ulp 1.49."""
    return b.div(_c(b, 1.0), b.sqrt(x))


def cbrt(b: Builder, x: Val) -> Val:
    """z ~ a^(-1/3) guessed from bits / 3, one step of order 4, one of order 2, a Newton step for a z^2. Max ulp 1.23."""
    a = b.abs(x)
    small = b.lt(a, _c(b, _SMALLEST_NORMAL))
    a = b.select(small, b.mul(a, _c(b, 2.0**24)), a)
    # The guess's bits are 0x54a21d2a - bits / 3, in units of 2^9 so that a float addition rounds them to an integer.
    bits = b.convert(b.bitcast(a, "s32"), "f32")
    t = b.fma(bits, _c(b, -1.0 / 1536.0), _c(b, float((0x54A21D2A >> 9) + (1 << 23))))
    z = b.bitcast(b.shl(b.bitcast(t, "s32"), 9), "f32")
    e = b.sub(_c(b, 1.0), b.mul(b.mul(b.mul(a, z), z), z))
    step = poly(b, e, [1 / 3, 2 / 9, 14 / 81])
    z = b.fma(b.mul(z, e), step, z)
    e = b.sub(_c(b, 1.0), b.mul(b.mul(b.mul(a, z), z), z))
    z = b.fma(b.mul(z, _c(b, 1 / 3)), e, z)
    z2 = b.mul(z, z)
    y = b.mul(a, z2)
    half = _c(b, 0.5)  # y^3 may overflow, its half cannot
    rest = b.sub(b.mul(a, half), b.mul(b.mul(y, y), b.mul(y, half)))
    y = b.fma(b.mul(rest, z2), _c(b, 2 / 3), y)
    y = b.select(small, b.mul(y, _c(b, 2.0**-8)), y)
    y = b.select(b.lt(a, _c(b, INF)), y, a)
    return b.copysign(y, x)


def sinh(b: Builder, x: Val) -> Val:
    """Odd degree 7 on [0, 1], above it (m + m / (m + 1)) / 2 with m = e^|x| - 1. Max ulp 1.52 / 1.52"""
    a = b.pmin(b.abs(x), _c(b, 89.75))
    quarter = _scaled_expm1(b, a, -2)
    y = b.add(quarter, b.div(quarter, b.fma(quarter, _c(b, 4.0), _c(b, 1.0))))
    u = b.mul(a, a)
    small = b.fma(b.mul(a, u), poly(b, u, _SINH), a)
    return b.copysign(b.select(b.gt(a, _c(b, 1.0)), b.add(y, y), small), x)


def cosh(b: Builder, x: Val) -> Val:
    """2 (g + 1 / 16g) with g = e^|x| / 4. Max ulp 1.50 / 1.52"""
    scale, p = _scaled_exp_parts(b, b.pmin(b.abs(x), _c(b, 89.75)), -2)
    g = b.fma(scale, p, scale)
    y = b.add(g, b.div(_c(b, 0.0625), g))
    return b.add(y, y)


def _big_log1p(b: Builder, a: Val, larger: Val, smaller: Val) -> Val:
    """log(2a) where a > 2^13, else log(1 + larger + smaller)."""
    zero, one = _c(b, 0.0), _c(b, 1.0)
    big = b.gt(a, _c(b, 8192.0))
    small = b.add(larger, smaller)
    z = b.select(big, b.sub(a, one), small)
    low = b.select(big, zero, b.sub(smaller, b.sub(small, larger)))
    return _log1p(b, z, b.select(big, one, zero), low)


def asinh(b: Builder, x: Val) -> Val:
    """log1p(a + a^2 / (1 + sqrt(a^2 + 1))). Max ulp 1.31 / 1.28"""
    a = b.abs(x)
    one = _c(b, 1.0)
    a2 = b.mul(a, a)
    y = _big_log1p(b, a, a, b.div(a2, b.add(one, b.sqrt(b.add(a2, one)))))
    return b.copysign(b.select(b.lt(a, _c(b, INF)), y, a), x)


def acosh(b: Builder, x: Val) -> Val:
    """log1p(t + sqrt(t (t + 2))) with t = x - 1. Max ulp 1.82 / 1.83"""
    t = b.sub(x, _c(b, 1.0))
    y = _big_log1p(b, x, b.sqrt(b.fma(t, t, b.add(t, t))), t)
    y = b.select(b.lt(x, _c(b, INF)), y, x)
    return b.select(b.ge(x, _c(b, 1.0)), y, _c(b, NAN))


def atanh(b: Builder, x: Val) -> Val:
    """log1p(2a + 2a a / (1 - a)) / 2. Max ulp 1.85 / 1.90"""
    a = b.abs(x)
    one = _c(b, 1.0)
    twice = b.add(a, a)
    z = b.add(twice, b.div(b.mul(twice, a), b.sub(one, a)))
    y = b.mul(_log1p(b, z), _c(b, 0.5))
    outside = b.select(b.eq(a, one), _c(b, INF), _c(b, NAN))
    return b.copysign(b.select(b.lt(a, one), y, outside), x)


def _high_half(b: Builder, x: Val) -> Val:
    """x cut to 12 significant bits, so that products of two are exact."""
    return b.bitcast(b.and_(b.bitcast(x, "s32"), b.const("s32", ~0xFFF)), "f32")


def _log2_pair(b: Builder, a: Val) -> tuple[Val, Val]:
    """log2 a of positive finite a as a 12-bit head and a tail, relative error about 2^-34.

    With s = (m - 1) / (m + 1) as head and tail, log2 m = 2/(3 ln 2) s (3 + s^2 + r): the bracket and the product carry tails as well.
    """
    one = _c(b, 1.0)
    k, m = _split(b, a, _SQRT_HALF_BITS)
    f, w = b.sub(m, one), b.add(m, one)
    inverse = b.div(one, w)
    s = b.mul(f, inverse)
    s_high, w_high = _high_half(b, s), _high_half(b, w)
    w_low = b.sub(m, b.sub(w_high, one))
    s_low = b.mul(b.sub(b.sub(f, b.mul(s_high, w_high)), b.mul(s_high, w_low)), inverse)
    s2 = b.mul(s, s)
    r = b.fma(b.mul(s2, s2), poly(b, s2, _POW_LOG), b.mul(s_low, b.add(s_high, s)))
    three = _c(b, 3.0)
    square = b.mul(s_high, s_high)
    t_high = _high_half(b, b.add(b.add(three, square), r))
    t_low = b.sub(r, b.sub(b.sub(t_high, three), square))
    product = b.mul(s_high, t_high)
    rest = b.fma(s_low, t_high, b.mul(t_low, s))
    p_high = _high_half(b, b.add(product, rest))
    p_low = b.sub(rest, b.sub(p_high, product))
    # 2 / (3 ln 2) = 0x1.ec709dc3a03fdp-1 in 12 bits and the rest.
    z_high = b.mul(_c(b, float.fromhex("0x1.ec6p-1")), p_high)
    z_low = b.fma(_c(b, float.fromhex("0x1.09dc3ap-13")), p_high, b.mul(p_low, _c(b, float.fromhex("0x1.ec709ep-1"))))
    head = _high_half(b, b.add(b.add(z_high, z_low), k))
    return head, b.sub(z_low, b.sub(b.sub(head, k), z_high))


def power(b: Builder, x: Val, y: Val) -> Val:
    """2^(y log2 |x|) with log2 and the product as pairs, degree 6 for 2^r, then the edge cases of C99. Max ulp 1.93 / 1.54 on samples."""
    zero, one, half = _c(b, 0.0), _c(b, 1.0), _c(b, 0.5)
    a = b.abs(x)
    log_high, log_low = _log2_pair(b, a)
    # A finite y keeps 1^inf at 1 and changes no other result.
    limit = _c(b, 3e38)
    yc = b.pmax(b.pmin(y, limit), b.neg(limit))
    y_high = _high_half(b, yc)
    high = b.mul(y_high, log_high)
    low = b.fma(b.sub(yc, y_high), log_high, b.mul(yc, log_low))
    # |x| 0, inf or NaN: y times -inf, inf or NaN.
    is_zero = b.eq(a, zero)
    regular = b.and_(b.gt(a, zero), b.lt(a, _c(b, INF)))
    high = b.select(regular, high, b.mul(yc, b.select(is_zero, _c(b, -INF), a)))
    # |low| < 1/8 where the result is finite; beyond, r > 1 with k = 127, or k = -127, gives infinity or 0.
    high = b.pmax(b.pmin(high, _c(b, 128.5)), _c(b, -126.5))
    low = b.select(regular, b.pmax(b.pmin(low, _c(b, 0.125)), _c(b, -0.125)), zero)
    magic = _c(b, _MAGIC + 127)
    # The floor as in exp; k at most 127 because high + low may round up to 128.
    k = b.pmin(b.floor(b.add(high, low)), _c(b, 127.0))
    r = b.add(b.sub(high, k), low)
    result = b.mul(_power_of_two(b, b.add(k, magic)), poly(b, r, _EXP2))
    # The sign: y is an integer, and odd.
    half_y = b.mul(y, half)
    integer = b.eq(b.floor(y), y)
    odd = b.and_(integer, b.ne(b.floor(half_y), half_y))
    result = b.select(odd, b.copysign(result, x), result)
    # Negative finite x with a y that is no integer.
    invalid = b.and_(b.and_(b.lt(x, zero), b.ne(a, _c(b, INF))), b.ne(b.floor(y), y))
    result = b.select(invalid, _c(b, NAN), result)
    return b.select(b.or_(b.eq(y, zero), b.eq(x, one)), one, result)


def remainder(b: Builder, x: Val, y: Val) -> Val:
    """x - y trunc(x/y), exact: for |x/y| < 2^11 by the nearest quotient, whose products with y's 12-bit halves are exact."""
    a, d = b.abs(x), b.abs(y)
    quotient = b.div(a, d)
    n = b.nearest(quotient)
    d_high = _high_half(b, d)
    r = b.sub(b.sub(a, b.mul(n, d_high)), b.mul(n, b.sub(d, d_high)))
    r = b.select(b.lt(r, _c(b, 0.0)), b.add(r, d), r)
    r = b.select(b.lt(a, d), x, b.copysign(r, x))
    fast = b.and_(b.lt(quotient, _c(b, 2048.0)), b.lt(a, _c(b, 2.0**127)))
    return b.slow_path(b.not_(fast), r, "xw_fmod_f32", x, y)


def round_nearest_afz(b: Builder, x: Val) -> Val:
    """trunc(x + the largest number below 1/2 with the sign of x): exact, 0.49999997 gives 0."""
    return b.trunc(b.add(x, b.copysign(_c(b, float.fromhex("0x1.fffffep-2")), x)))


FUNCTIONS: dict[str, Callable[..., Val]] = {
    "acos": acos,
    "acosh": acosh,
    "asin": asin,
    "asinh": asinh,
    "atan": atan,
    "atan2": atan2,
    "atanh": atanh,
    "cbrt": cbrt,
    "cosh": cosh,
    "cosine": cos,
    "erf": erf,
    "exponential": exp,
    "exponential-minus-one": expm1,
    "log": log,
    "log-plus-one": log1p,
    "logistic": logistic,
    "power": power,
    "remainder": remainder,
    "round-nearest-afz": round_nearest_afz,
    "rsqrt": rsqrt,
    "sine": sin,
    "sinh": sinh,
    "tan": tan,
    "tanh": tanh,
}
