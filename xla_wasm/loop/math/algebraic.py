"""Roots, remainders and rounding."""

from __future__ import annotations

from math import inf

from .logarithm import high_half
from .number import Number, polynomial


def rsqrt(x: Number) -> Number:
    """1 / sqrt x, two correctly rounded operations. Max ulp 1.49; of f64 1.5."""
    return 1.0 / x.sqrt()


def cbrt(x: Number) -> Number:
    """z ~ a^(-1/3) guessed from bits / 3, one step of order 4, one of order 2, a Newton step for a z^2. Max ulp
    1.23."""
    a = abs(x)
    small = a < x.format.smallest_normal
    a = small.choose(a * 2.0**24, a)
    # The guess's bits are 0x54a21d2a - bits / 3, in units of 2^9 so that a float addition rounds them to an integer.
    t = a.bits.convert("f32").fma(-1 / 1536, (0x54A21D2A >> 9) + (1 << 23))
    z = (t.bits << 9).bitcast("f32")
    e = 1.0 - a * z * z * z
    step = polynomial(e, [1 / 3, 2 / 9, 14 / 81])
    z = (z * e).fma(step, z)
    e = 1.0 - a * z * z * z
    z = (z * (1 / 3)).fma(e, z)
    z2 = z * z
    y = a * z2
    rest = a * 0.5 - y * y * (y * 0.5)  # y^3 may overflow, its half cannot
    y = (rest * z2).fma(2 / 3, y)
    y = small.choose(y * 2.0**-8, y)
    return (a < inf).choose(y, a).copysign(x)


def remainder(x: Number, y: Number) -> Number:
    """x - y trunc(x/y), exact: for |x/y| < 2^11 by the nearest quotient, whose products with y's 12-bit halves are
    exact."""
    a, d = abs(x), abs(y)
    quotient = a / d
    n = quotient.nearest()
    d_high = high_half(d)
    r = a - n * d_high - n * (d - d_high)
    r = (r < 0.0).choose(r + d, r)
    r = (a < d).choose(x, r.copysign(x))
    fast = (quotient < 2048.0) & (a < 2.0**127)
    return r.unless(~fast, "xw_fmod_f32", x, y)


def round_nearest_afz(x: Number) -> Number:
    """trunc(x + the largest number below 1/2 with the sign of x): exact, 0.49999997 gives 0."""
    return (x + x.const(x.format.below_half).copysign(x)).trunc()
