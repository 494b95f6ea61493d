"""Trigonometric functions and their inverses."""

from __future__ import annotations

from math import pi

from .formats import hex_floats
from .number import Number, polynomial

_PI = float.fromhex("0x1.921fb6p+1")
_PI_2 = float.fromhex("0x1.921fb6p+0")
_PI_EXCESS = 1 - pi / _PI  # of both, relative
# (tan(r) - r) / r^3 in r^2 on |r| <= pi/4, relative error 2^-29.3.
_TAN = hex_floats("0x1.555562p-2 0x1.110d1ap-3 0x1.baf0bap-5 0x1.5bd58cp-6 0x1.67896ep-7 -0x1.6334a8p-14 0x1.247802p-8")
# (atan(q) - q) / q^3 in q^2 on [0, 1], relative error of atan(q) 2^-28.5.
_ATAN = hex_floats(
    "-0x1.55553ep-2 0x1.9991e4p-3 -0x1.242086p-3 0x1.c08c4ep-4 -0x1.58092p-4 0x1.da2a48p-5 -0x1.fd7f4p-6 "
    "0x1.64275ap-7 -0x1.d361eap-10"
)
# (asin(z) - z) / z^3 in z^2 on [0, 1/2], relative error of asin(z) 2^-27.6.
_ASIN = hex_floats("0x1.5555c8p-3 0x1.330204p-4 0x1.747bbap-5 0x1.8c3e2ap-6 0x1.595c8cp-5")


def _less_multiple(x: Number, n: Number, unit: float) -> tuple[Number, Number]:
    """(r, excess) with r - excess = x - n pi unit, the excess below an ulp of r unless r is tiny.

    n is a multiple of 1/2 with few enough bits (`Format.pi`), unit a power of two. Exact are the products but the last,
    the differences before the last part but two, and the tail, which takes what the difference after them loses.
    """
    *first, third, second, last = (part * unit for part in x.format.pi)
    for part in first:
        x = n.fnma(part, x)
    product = n * third
    head = x - product
    tail = n * second - (x - head - product)
    r = head - tail
    return r, n.fma(last, tail - (head - r))


def _sine_of(r: Number, t: Number) -> Number:
    """(-1)^t sin r for |r| <= pi/2, at most 1."""
    f = r.format
    a, square = abs(r), r * r
    y = (a * square).fma(polynomial(square, f.sin), a).pmin(1.0)
    sign = r.bits ^ (t.bits << (f.width - 1))
    return y.copysign(sign.bitcast(f.dtype))


def sin(x: Number) -> Number:
    """x - n pi in parts, one odd polynomial on [-pi/2, pi/2]; for huge x the C function. Max ulp 1.90 / 1.79; of f64
    1.92 / 1.71."""
    f = x.format
    t = x.fma(1 / pi, f.magic)
    r, excess = _less_multiple(x, t - f.magic, 1.0)
    huge = abs(x) > f.sin_limit
    return _sine_of(r - excess, t).unless(huge, f"xw_sin_{f.dtype}", x)


def cos(x: Number) -> Number:
    """(-1)^t sin(x - (t - 1/2) pi), as sin. Max ulp 1.97 / 1.79; of f64 1.95 / 1.71."""
    f = x.format
    a = abs(x)
    t = a.fma(1 / pi, 0.5) + f.magic
    r, excess = _less_multiple(a, t - f.magic - 0.5, 1.0)
    huge = a > f.cos_limit
    return _sine_of(r - excess, t).unless(huge, f"xw_cos_{f.dtype}", x)


def tan(x: Number) -> Number:
    """x - n pi/2, odd polynomial of degree 15 on [-pi/4, pi/4], -1/t for odd n; beyond 2^14 pi the C function. Max ulp
    1.71 / 1.87"""
    f = x.format
    t = x.fma(2 / pi, f.magic)
    # The slope is up to 2, so what r - excess would lose counts: take the excess times tan' = 1 + tan^2.
    r, excess = _less_multiple(x, t - f.magic, 0.5)
    square = r * r
    cube, q = r * square, polynomial(square, _TAN)
    y = cube.fma(q, r)
    y = (r - cube.fnma(q, excess.fma(y * y, excess))).copysign(r)
    odd = (t.bits << 31) < 0
    y = odd.choose(-1.0 / y, y)
    return y.unless(abs(x) > f.cos_limit, "xw_tan_f32", x)


def asin(x: Number) -> Number:
    """Odd degree 11 on [0, 1/2], above it pi/2 - 2 asin(sqrt((1 - a) / 2)). Max ulp 1.30"""
    big, z, square = _sine_or_cosine_of_half(abs(x))
    cubic = z * square * polynomial(square, _ASIN)
    # pi/2 = 1.375 + 0.19579633: 1.375 - 2z is exact where it is below 1, and the difference with the cubic is small.
    y = 1.375 - (z + z) + (pi / 2 - 1.375 - (cubic + cubic))
    return big.choose(y, z + cubic).copysign(x)


def _sine_or_cosine_of_half(a: Number) -> tuple[Number, Number, Number]:
    """Returns a condition that is true if a > 1/2; z = sqrt((1 - a) / 2) there, else a; and z^2."""
    big = a > 0.5
    square = big.choose((1.0 - a) * 0.5, a * a)
    return big, big.choose(square.sqrt(), a), square


def acos(x: Number) -> Number:
    """pi/2 - asin x on |x| <= 1/2, else 2 asin(sqrt((1 - |x|) / 2)), from pi for negative x. Max ulp 1.26"""
    big, z, square = _sine_or_cosine_of_half(abs(x))
    y = (z * square).fma(polynomial(square, _ASIN), z)
    y = big.choose(y + y, y)
    # acos x = base + sign y: (pi/2, -sign x) inside, (0, +) or (pi, -) outside.
    negative = x < 0.0
    base = big.choose(negative.choose(x.const(_PI), 0.0), _PI_2)
    minus = big ^ negative
    return base + minus.choose(y, -y)


def _atan_unit(q: Number) -> Number:
    """atan q for 0 <= q <= 1, odd degree 19."""
    square = q * q
    return (q * square).fma(polynomial(square, _ATAN), q)


def atan(x: Number) -> Number:
    """Odd degree 19 on [0, 1], above it pi/2 - atan(1/a). Max ulp 1.51 / 1.36"""
    a = abs(x)
    big = a > 1.0
    y = _atan_unit(big.choose(1.0 / a, a))
    rest = _PI_2 - y - _PI_2 * _PI_EXCESS
    return big.choose(rest, y).copysign(x)


def atan2(y: Number, x: Number) -> Number:
    """atan of the smaller over the larger magnitude, added to or taken from 0, pi/2 or pi by octant. Max ulp 1.51 /
    1.50 on samples."""
    ay, ax = abs(y), abs(x)
    small, large = ay.min(ax), ay.max(ax)
    q = small.equals(large).choose(1.0, small / large)
    q = small.equals(0.0).choose(0.0, q)
    p = _atan_unit(q)
    steep = ay > ax
    left = x.bits < 0
    base = steep.choose(_PI_2, left.choose(x.const(_PI), 0.0))
    p = (steep ^ left).choose(-p, p)
    return base.fma(-_PI_EXCESS, base + p).copysign(y)
