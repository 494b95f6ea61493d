"""Trigonometric functions and their inverses on f32 values, under the rules of `math_f32`.

"Max ulp" is the largest error met, unfused / fused, over all inputs that stay inline.
"""

from __future__ import annotations

from .builder import Builder
from .ir import Val
from .polynomial import hex_floats, poly

_MAGIC = 1.5 * 2.0**23
_PI = float.fromhex("0x1.921fb6p+1")
_PI_2 = float.fromhex("0x1.921fb6p+0")
_PI_EXCESS = 1 - 3.141592653589793 / _PI  # of both, relative

# (sin(r) - r) / r^3 in r^2 on |r| <= pi/2, relative error 2^-27.3.
_SIN = hex_floats("-0x1.55554ep-3", "0x1.110ec6p-7", "-0x1.9f67f6p-13", "0x1.5d399ep-19")
# pi in parts of at most 9 bits (exact times a 15-bit integer), the last in full: 66 bits behind the point.
_PI_PARTS = hex_floats("0x1.92p+1", "0x1.fbp-11", "0x1.51p-21", "0x1.0bp-33", "0x1.184698p-43")
# (tan(r) - r) / r^3 in r^2 on |r| <= pi/4, relative error 2^-29.3.
_TAN = hex_floats(
    "0x1.555562p-2",
    "0x1.110d1ap-3",
    "0x1.baf0bap-5",
    "0x1.5bd58cp-6",
    "0x1.67896ep-7",
    "-0x1.6334a8p-14",
    "0x1.247802p-8",
)
# (atan(q) - q) / q^3 in q^2 on [0, 1], relative error of atan(q) 2^-28.5.
_ATAN = hex_floats(
    "-0x1.55553ep-2",
    "0x1.9991e4p-3",
    "-0x1.242086p-3",
    "0x1.c08c4ep-4",
    "-0x1.58092p-4",
    "0x1.da2a48p-5",
    "-0x1.fd7f4p-6",
    "0x1.64275ap-7",
    "-0x1.d361eap-10",
)
# (asin(z) - z) / z^3 in z^2 on [0, 1/2], relative error of asin(z) 2^-27.6.
_ASIN = hex_floats("0x1.5555c8p-3", "0x1.330204p-4", "0x1.747bbap-5", "0x1.8c3e2ap-6", "0x1.595c8cp-5")


def _c(b: Builder, number: float) -> Val:
    return b.const("f32", number)


def _less_multiples(b: Builder, x: Val, n: Val, unit: float) -> tuple[Val, Val]:
    """(r, excess) with r - excess = x - n pi unit, the excess below an ulp of r unless r is tiny.

    n is a multiple of 1/2 with at most 15 bits, unit a power of two. Exact are the products but the last, the first two
    differences and the tail, which takes what the third difference loses.
    """
    first, second, third, fourth, fifth = (_c(b, part * unit) for part in _PI_PARTS)
    near = b.fnma(n, second, b.fnma(n, first, x))
    product = b.mul(n, third)
    head = b.sub(near, product)
    tail = b.sub(b.mul(n, fourth), b.sub(b.sub(near, head), product))
    r = b.sub(head, tail)
    return r, b.fma(n, fifth, b.sub(tail, b.sub(head, r)))


def _sine_of(b: Builder, parts: tuple[Val, Val], t: Val) -> Val:
    """(-1)^t sin r for |r| <= pi/2, at most 1."""
    r = b.sub(*parts)
    a, u = b.abs(r), b.mul(r, r)
    y = b.pmin(b.fma(b.mul(a, u), poly(b, u, _SIN), a), _c(b, 1.0))
    sign = b.xor(b.bitcast(r, "s32"), b.shl(b.bitcast(t, "s32"), 31))
    return b.copysign(y, b.bitcast(sign, "f32"))


def sin(b: Builder, x: Val) -> Val:
    """x - n pi in five parts, one odd polynomial of degree 9 on [-pi/2, pi/2]; beyond 2^15 pi the C function. Max ulp 1.90 / 1.79"""
    magic = _c(b, _MAGIC)
    t = b.fma(x, _c(b, 1 / 3.141592653589793), magic)
    parts = _less_multiples(b, x, b.sub(t, magic), 1.0)
    return b.slow_path(b.gt(b.abs(x), _c(b, 102943.0)), _sine_of(b, parts, t), "xw_sin_f32", x)


def cos(b: Builder, x: Val) -> Val:
    """(-1)^t sin(x - (t - 1/2) pi), as sin; beyond 2^14 pi the C function. Max ulp 1.97 / 1.79"""
    magic = _c(b, _MAGIC)
    half = _c(b, 0.5)
    a = b.abs(x)
    t = b.add(b.fma(a, _c(b, 1 / 3.141592653589793), half), magic)
    parts = _less_multiples(b, a, b.sub(b.sub(t, magic), half), 1.0)
    return b.slow_path(b.gt(a, _c(b, 51470.0)), _sine_of(b, parts, t), "xw_cos_f32", x)


def tan(b: Builder, x: Val) -> Val:
    """x - n pi/2, odd polynomial of degree 15 on [-pi/4, pi/4], -1/t for odd n; beyond 2^14 pi the C function. Max ulp 1.71 / 1.87"""
    magic = _c(b, _MAGIC)
    t = b.fma(x, _c(b, 2 / 3.141592653589793), magic)
    # The slope is up to 2, so what r - excess would lose counts: take the excess times tan' = 1 + tan^2.
    r, excess = _less_multiples(b, x, b.sub(t, magic), 0.5)
    u = b.mul(r, r)
    cube, q = b.mul(r, u), poly(b, u, _TAN)
    y = b.fma(cube, q, r)
    y = b.copysign(b.sub(r, b.fnma(cube, q, b.fma(excess, b.mul(y, y), excess))), r)
    odd = b.lt(b.shl(b.bitcast(t, "s32"), 31), b.const("s32", 0))
    y = b.select(odd, b.div(_c(b, -1.0), y), y)
    return b.slow_path(b.gt(b.abs(x), _c(b, 51470.0)), y, "xw_tan_f32", x)


def _asin_poly(b: Builder, z: Val, z2: Val) -> Val:
    return b.fma(b.mul(z, z2), poly(b, z2, _ASIN), z)


def asin(b: Builder, x: Val) -> Val:
    """Odd degree 11 on [0, 1/2], above it pi/2 - 2 asin(sqrt((1 - a) / 2)). Max ulp 1.30"""
    a = b.abs(x)
    big = b.gt(a, _c(b, 0.5))
    half = _c(b, 0.5)
    z2 = b.select(big, b.mul(b.sub(_c(b, 1.0), a), half), b.mul(a, a))
    z = b.select(big, b.sqrt(z2), a)
    cubic = b.mul(b.mul(z, z2), poly(b, z2, _ASIN))
    # pi/2 = 1.375 + 0.19579633: 1.375 - 2z is exact where it is below 1, and the difference with the cubic is small.
    y = b.add(b.sub(_c(b, 1.375), b.add(z, z)), b.sub(_c(b, 1.5707963267948966 - 1.375), b.add(cubic, cubic)))
    return b.copysign(b.select(big, y, b.add(z, cubic)), x)


def acos(b: Builder, x: Val) -> Val:
    """pi/2 - asin x on |x| <= 1/2, else 2 asin(sqrt((1 - |x|) / 2)), from pi for negative x. Max ulp 1.26"""
    a = b.abs(x)
    half = _c(b, 0.5)
    big = b.gt(a, half)
    z2 = b.select(big, b.mul(b.sub(_c(b, 1.0), a), half), b.mul(a, a))
    y = _asin_poly(b, b.select(big, b.sqrt(z2), a), z2)
    y = b.select(big, b.add(y, y), y)
    # acos x = base + sign y: (pi/2, -sign x) inside, (0, +) or (pi, -) outside.
    negative = b.lt(x, _c(b, 0.0))
    base = b.select(big, b.select(negative, _c(b, _PI), _c(b, 0.0)), _c(b, _PI_2))
    minus = b.xor(big, negative)
    return b.add(base, b.select(minus, y, b.neg(y)))


def _atan_unit(b: Builder, q: Val) -> Val:
    """atan q for 0 <= q <= 1, odd degree 19."""
    q2 = b.mul(q, q)
    return b.fma(b.mul(q, q2), poly(b, q2, _ATAN), q)


def atan(b: Builder, x: Val) -> Val:
    """Odd degree 19 on [0, 1], above it pi/2 - atan(1/a). Max ulp 1.51 / 1.36"""
    a = b.abs(x)
    one = _c(b, 1.0)
    big = b.gt(a, one)
    y = _atan_unit(b, b.select(big, b.div(one, a), a))
    rest = b.sub(b.sub(_c(b, _PI_2), y), _c(b, _PI_2 * _PI_EXCESS))
    return b.copysign(b.select(big, rest, y), x)


def atan2(b: Builder, y: Val, x: Val) -> Val:
    """atan of the smaller over the larger magnitude, added to or taken from 0, pi/2 or pi by octant. Max ulp 1.51 / 1.50 on samples."""
    ay, ax = b.abs(y), b.abs(x)
    small, large = b.min(ay, ax), b.max(ay, ax)
    q = b.select(b.eq(small, large), _c(b, 1.0), b.div(small, large))
    q = b.select(b.eq(small, _c(b, 0.0)), _c(b, 0.0), q)
    p = _atan_unit(b, q)
    steep = b.gt(ay, ax)
    left = b.lt(b.bitcast(x, "s32"), b.const("s32", 0))
    base = b.select(steep, _c(b, _PI_2), b.select(left, _c(b, _PI), _c(b, 0.0)))
    p = b.select(b.xor(steep, left), b.neg(p), p)
    return b.copysign(b.fma(base, _c(b, -_PI_EXCESS), b.add(base, p)), y)
