"""Elementary functions on f64 values, scalar or two lanes: the methods of `math_f32` with longer polynomials.

The frequent ones are inline; the others call the scalar C function for each lane. "Max ulp" is the largest error met on
dense samples, unfused / fused.
"""

from __future__ import annotations

from collections.abc import Callable

from .builder import Builder
from .ir import Val
from .polynomial import hex_floats, poly, split_poly

INF = float("inf")
NAN = float("nan")
_MAGIC = 1.5 * 2.0**52
_HALF_DOWN = float.fromhex("0x1.fffffffffffffp-2")
_LOG2E = float.fromhex("0x1.71547652b82fep+0")
_LN2_HI = float.fromhex("0x1.62e42feep-1")  # 31 bits: k * _LN2_HI is exact
_LN2_LO = float.fromhex("0x1.a39ef35793c76p-33")
_ONE_BITS = 0x3FF << 52
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
_MANTISSA = (1 << 52) - 1
_SMALLEST_NORMAL = 2.0**-1022


# e^r on [0, ln 2], degree 11, relative error 2^-57.8.
_EXP = hex_floats(
    "0x1p+0",
    "0x1p+0",
    "0x1.ffffffffffe28p-2",
    "0x1.55555555603b1p-3",
    "0x1.555555523158ep-5",
    "0x1.1111118bf939fp-7",
    "0x1.6c16aade1cfe1p-10",
    "0x1.a01ca43531f1dp-13",
    "0x1.9fe6a7cdcfabbp-16",
    "0x1.746649f0edac1p-19",
    "0x1.1410be7d3a491p-22",
    "0x1.2d3cc5baedacdp-25",
)
# (e^r - 1 - r) / r^2 on |r| <= ln(2)/2, relative error of e^r - 1 2^-61.6.
_EXPM1 = hex_floats(
    "0x1p-1",
    "0x1.5555555555559p-3",
    "0x1.5555555555558p-5",
    "0x1.111111110f713p-7",
    "0x1.6c16c16c174c0p-10",
    "0x1.a01a01af9e832p-13",
    "0x1.a01a0199bf882p-16",
    "0x1.71ddf922dfaacp-19",
    "0x1.27e502a392784p-22",
    "0x1.af5d463b7908ep-26",
    "0x1.1f2a2ed0f8f1ap-29",
)
_EXPM1_MINUS = tuple(c * (-1) ** i for i, c in enumerate(_EXPM1))
_ONE_MINUS_EXP = tuple(-c for c in _EXPM1_MINUS)
# As _EXPM1, on -ln(2)/2..0.516, relative error 2^-57.9.
_TANH = hex_floats(
    "0x1.fffffffffffffp-2",
    "0x1.5555555555541p-3",
    "0x1.5555555555a69p-5",
    "0x1.1111111116e3fp-7",
    "0x1.6c16c16a62018p-10",
    "0x1.a01a018291de8p-13",
    "0x1.a01a09421498dp-16",
    "0x1.71de63a42b762p-19",
    "0x1.27d5a207541c7p-22",
    "0x1.aeafdcd3fd90dp-26",
    "0x1.36072eb780c67p-29",
)
# (2 atanh(s) - 2s) / s^3 in s^2 on |s| <= (sqrt 2 - 1)/(sqrt 2 + 1), relative error of 2 atanh(s) 2^-59.5.
_ATANH = hex_floats(
    "0x1.5555555555592p-1",
    "0x1.999999997ff3bp-2",
    "0x1.24924941def48p-2",
    "0x1.c71c52163899cp-3",
    "0x1.74663c957c7b3p-3",
    "0x1.39a1efe397695p-3",
    "0x1.2f0387319647ap-3",
)
# (-log(erfc(a)) - a) / a on [0, 6], weighted by its effect on erf, error 2^-54.9.
_ERF = hex_floats(
    "0x1.06eba8214db68p-3",
    "0x1.45f306dc9c8dap-1",
    "0x1.a4f4e2a1a99e2p-4",
    "-0x1.39668590870b5p-6",
    "-0x1.b6b6a1e9c32d2p-13",
    "0x1.bca691f8a449bp-10",
    "-0x1.35663cb822769p-11",
    "0x1.b29b4c026d6d6p-16",
    "0x1.0e32c5963d9aap-14",
    "-0x1.f0313c4b1c289p-16",
    "0x1.a95efdc651f0ep-19",
    "0x1.a48ef33dc65dcp-19",
    "-0x1.117a44e8b072bp-19",
    "0x1.327eb748d3a70p-21",
    "-0x1.972905aa74c1cp-27",
    "-0x1.1a0ea8b5e6c0dp-24",
    "0x1.28e57c1e318e5p-25",
    "-0x1.71f75f171e638p-27",
    "0x1.4440d8ccc864fp-29",
    "-0x1.9d450cea0a508p-32",
    "0x1.7a2cd99ca0a60p-35",
    "-0x1.d9358b70602b7p-39",
    "0x1.6b68bd6efe0e0p-43",
    "-0x1.02ac8fde5179cp-48",
)
# (sin(r) - r) / r^3 in r^2 on |r| <= pi/2, relative error 2^-61.5.
_SIN = hex_floats(
    "-0x1.5555555555555p-3",
    "0x1.11111111110c8p-7",
    "-0x1.a01a01a014d6fp-13",
    "0x1.71de3a52a0b0dp-19",
    "-0x1.ae6454d473a14p-26",
    "0x1.6123cd06e8f4bp-33",
    "-0x1.ae43844ebd209p-41",
    "0x1.8832a369daeefp-49",
)
# pi in parts of at most 32 bits (exact times a 21-bit integer), the last in full.
_PI_PARTS = hex_floats("0x1.921fb544p+1", "0x1.0b4611a6p-33", "0x1.3198a2e0p-68", "0x1.b839a252049c1p-103")


def _c(b: Builder, number: float) -> Val:
    return b.const("f64", number)


def _power_of_two(b: Builder, biased: Val) -> Val:
    """2^k from 1.5*2^52 + 1023 + k; k = -1023 gives 0 and k = 1024 infinity."""
    return b.bitcast(b.shl(b.bitcast(biased, "s64"), 52), "f64")


def exp(b: Builder, x: Val) -> Val:
    """2^k e^r with k the floor, degree 11 on [0, ln 2]; results below 2^-1022 are 0. Max ulp 1.95 / 1.63"""
    x = b.pmax(b.pmin(x, _c(b, 710.0)), _c(b, -709.0))
    magic = _c(b, _MAGIC + 1023)
    # The floor, or one more just below an integer: so -1022 is met, and 1024 becomes 1023 with r > ln 2.
    t = b.add(b.fma(x, _c(b, _LOG2E), _c(b, -0.5 + 2.0**-40)), magic)
    t = b.pmin(t, _c(b, _MAGIC + 2046))
    k = b.sub(t, magic)
    r = b.fma(k, _c(b, -_LN2_LO), b.fma(k, _c(b, -_LN2_HI), x))
    return b.mul(_power_of_two(b, t), poly(b, r, _EXP))


def logistic(b: Builder, x: Val) -> Val:
    """s / (s + e^-r) with s = 2^k, x = k ln 2 + r, degree 12; below -1022.5 ln 2 it is 0. Max ulp 1.75 / 1.74"""
    x = b.pmax(b.pmin(x, _c(b, 700.0)), _c(b, -709.0))
    magic = _c(b, _MAGIC + 1023)
    t = b.fma(x, _c(b, _LOG2E), magic)
    k = b.sub(t, magic)
    r = b.fma(k, _c(b, -_LN2_LO), b.fma(k, _c(b, -_LN2_HI), x))
    scale, one = _power_of_two(b, t), _c(b, 1.0)
    # The denominator is (1 + s) + (e^-r - 1); what 1 + s loses near s = 2^-53 joins the small part.
    head = b.add(one, scale)
    lost = b.sub(scale, b.sub(head, one))
    r2 = b.mul(r, r)
    p = b.fma(r2, split_poly(b, r, r2, _EXPM1_MINUS), b.sub(lost, r))
    return b.div(scale, b.add(head, p))


def expm1(b: Builder, x: Val) -> Val:
    """2^k (e^r - 1) + (2^k - 1), degree 12, at half size because 2^1024 is no f64. Max ulp 1.97 / 1.84"""
    clamped = b.pmax(b.pmin(x, _c(b, 710.0)), _c(b, -40.0))
    magic = _c(b, _MAGIC + 1022)
    t = b.fma(clamped, _c(b, _LOG2E), magic)
    k = b.sub(t, magic)
    r = b.fma(k, _c(b, -_LN2_LO), b.fma(k, _c(b, -_LN2_HI), clamped))
    p = b.fma(b.mul(r, r), poly(b, r, _EXPM1), r)
    half_scale = _power_of_two(b, t)
    h = b.fma(half_scale, p, b.sub(half_scale, _c(b, 0.5)))
    return b.copysign(b.add(h, h), x)


def _one_minus_exp_parts(b: Builder, w: Val) -> tuple[Val, Val]:
    """(s, p) with e^-w = s (1 - p), s = 2^k, for 0 <= w < 700, degree 12."""
    magic = _c(b, _MAGIC + 1023)
    t = b.fma(w, _c(b, -_LOG2E), magic)
    k = b.sub(t, magic)
    r = b.fma(k, _c(b, _LN2_LO), b.fma(k, _c(b, _LN2_HI), w))
    r2 = b.mul(r, r)
    return _power_of_two(b, t), b.fma(r2, split_poly(b, r, r2, _ONE_MINUS_EXP), r)


def tanh(b: Builder, x: Val) -> Val:
    """m / (m + 2) with m = e^2a - 1 and a = |x|; below 0.258, where tanh is 1/4, a less a^2 (..) / (m + 2). Max ulp 1.50 / 1.50"""
    a = b.pmin(b.abs(x), _c(b, 20.0))
    zero, one = _c(b, 0.0), _c(b, 1.0)
    small = b.lt(a, _c(b, 0.2578125))
    magic = _c(b, _MAGIC + 1023)
    t = b.fma(b.select(small, zero, a), _c(b, 2 * _LOG2E), magic)
    k = b.sub(t, magic)
    r = b.fma(k, _c(b, -_LN2_LO), b.fma(k, _c(b, -_LN2_HI), b.add(a, a)))
    r2 = b.mul(r, r)
    # m = r + r^2 q where k = 0; then a - m / (m + 2) = r^2 (1/2 - (1 - a) q) / (m + 2).
    q = split_poly(b, r, r2, _TANH)
    scale = _power_of_two(b, t)
    m = b.fma(scale, b.fma(r2, q, r), b.sub(scale, one))
    less = b.mul(r2, b.fma(b.sub(one, a), q, _c(b, -0.5)))
    quotient = b.div(b.select(small, less, m), b.add(m, _c(b, 2.0)))
    return b.copysign(b.add(b.select(small, a, zero), quotient), x)


def erf(b: Builder, x: Val) -> Val:
    """1 - e^-w with w = -log(erfc |x|) = a + a Q(a), Q of degree 23. Max ulp 1.61 / 1.42."""
    a = b.pmin(b.abs(x), _c(b, 6.0))
    scale, p = _one_minus_exp_parts(b, b.fma(a, split_poly(b, a, b.mul(a, a), _ERF), a))
    return b.copysign(b.fma(scale, p, b.sub(_c(b, 1.0), scale)), x)


def _log_sum(b: Builder, k: Val, f: Val) -> Val:
    """k ln 2 + log(1 + f) for 1 + f in [sqrt(1/2), sqrt(2)).

    log(1 + f) = 2 atanh(s) with s = f / (2 + f), and 2s = f - f^2/2 + s f^2/2 keeps the exact f as the leading term.
    """
    s = b.div(f, b.add(f, _c(b, 2.0)))
    s2 = b.mul(s, s)
    half_square = b.mul(b.mul(f, _c(b, 0.5)), f)
    rest = b.fma(s2, poly(b, s2, _ATANH), half_square)
    small = b.fma(s, rest, b.mul(k, _c(b, _LN2_LO)))
    return b.fma(k, _c(b, _LN2_HI), b.sub(f, b.sub(half_square, small)))


def _exponent_of(b: Builder, moved: Val) -> Val:
    """The exponent field of bits whose field is k + 1023, as f64 k: no integer conversion exists for two lanes."""
    field = b.bitcast(b.or_(b.shr_u(moved, 52), b.const("s64", (0x3FF + 52) << 52)), "f64")
    return b.sub(field, _c(b, 2.0**52 + 1023))


def _log_edges(b: Builder, x: Val, pole: float, y: Val) -> Val:
    """y where pole < x < inf, x where it is +inf, -inf at the pole, NaN below it and for NaN."""
    y = b.select(b.lt(x, _c(b, INF)), y, x)
    at_pole = b.select(b.eq(x, _c(b, pole)), _c(b, -INF), _c(b, NAN))
    return b.select(b.gt(x, _c(b, pole)), y, at_pole)


def log(b: Builder, x: Val) -> Val:
    """k ln 2 + log m, m in [sqrt(1/2), sqrt(2)); subnormal x are scaled by 2^52. Max ulp 0.79 / 0.78."""
    small = b.lt(x, _c(b, _SMALLEST_NORMAL))
    bits = b.bitcast(b.select(small, b.mul(x, _c(b, 2.0**52)), x), "s64")
    moved = b.add(bits, b.const("s64", _ONE_BITS - _SQRT_HALF_BITS))
    k = b.sub(_exponent_of(b, moved), b.select(small, _c(b, 52.0), _c(b, 0.0)))
    m = b.bitcast(b.add(b.and_(moved, b.const("s64", _MANTISSA)), b.const("s64", _SQRT_HALF_BITS)), "f64")
    return _log_edges(b, x, 0.0, _log_sum(b, k, b.sub(m, _c(b, 1.0))))


def log1p(b: Builder, x: Val) -> Val:
    """As log, on f = (1 + x) 2^-k - 1 taken from x, not from the rounded 1 + x; 4 * 2^-k is normal for all k. Max ulp 1.20 / 1.20."""
    bits = b.bitcast(b.add(_c(b, 1.0), x), "s64")
    moved = b.add(bits, b.const("s64", _ONE_BITS - _SQRT_HALF_BITS))
    field = b.and_(moved, b.const("s64", ~_MANTISSA))
    scale = b.bitcast(b.sub(b.const("s64", 2 * _ONE_BITS + (2 << 52)), field), "f64")
    quarter = _c(b, 0.25)
    f = b.fma(b.mul(x, scale), quarter, b.fma(scale, quarter, _c(b, -1.0)))
    return b.copysign(_log_edges(b, x, -1.0, _log_sum(b, _exponent_of(b, moved), f)), x)


def rsqrt(b: Builder, x: Val) -> Val:
    """1 / sqrt x, two correctly rounded operations. Max ulp 1.5."""
    return b.div(_c(b, 1.0), b.sqrt(x))


def _sine_of_multiple(b: Builder, x: Val, n: Val, t: Val) -> Val:
    """(-1)^t sin(x - n pi), |x - n pi| <= pi/2, at most 1; n a multiple of 1/2 with at most 21 bits.

    Every product but the last, the first difference and the tail are exact; the tail takes what the second difference loses.
    """
    first, second, third, fourth = (_c(b, part) for part in _PI_PARTS)
    near = b.fnma(n, first, x)
    product = b.mul(n, second)
    head = b.sub(near, product)
    tail = b.sub(b.mul(n, third), b.sub(b.sub(near, head), product))
    r = b.sub(head, tail)
    r = b.sub(r, b.fma(n, fourth, b.sub(tail, b.sub(head, r))))
    a, u = b.abs(r), b.mul(r, r)
    y = b.pmin(b.fma(b.mul(a, u), poly(b, u, _SIN), a), _c(b, 1.0))
    sign_bit = b.xor(b.bitcast(r, "s64"), b.shl(b.bitcast(t, "s64"), 63))
    return b.copysign(y, b.bitcast(sign_bit, "f64"))


def sin(b: Builder, x: Val) -> Val:
    """x - n pi, one odd polynomial of degree 17 on [-pi/2, pi/2]; beyond 2^21 pi the C function. Max ulp 1.92 / 1.71"""
    magic = _c(b, _MAGIC)
    t = b.fma(x, _c(b, 1 / 3.141592653589793), magic)
    y = _sine_of_multiple(b, x, b.sub(t, magic), t)
    return b.slow_path(b.gt(b.abs(x), _c(b, 6588397.0)), y, "xw_sin_f64", x)


def cos(b: Builder, x: Val) -> Val:
    """(-1)^t sin(x - (t - 1/2) pi), as sin; beyond 2^20 pi the C function. Max ulp 1.95 / 1.71"""
    magic = _c(b, _MAGIC)
    half = _c(b, 0.5)
    a = b.abs(x)
    t = b.add(b.fma(a, _c(b, 1 / 3.141592653589793), half), magic)
    y = _sine_of_multiple(b, a, b.sub(b.sub(t, magic), half), t)
    return b.slow_path(b.gt(a, _c(b, 3294195.0)), y, "xw_cos_f64", x)


def round_nearest_afz(b: Builder, x: Val) -> Val:
    """trunc(x + the largest number below 1/2 with the sign of x)."""
    return b.trunc(b.add(x, b.copysign(_c(b, _HALF_DOWN), x)))


def _called(symbol: str) -> Callable[..., Val]:
    def function(b: Builder, *operands: Val) -> Val:
        return b.call(symbol, *operands)

    return function


CALLED = {
    "acos": "xw_acos_f64",
    "acosh": "xw_acosh_f64",
    "asin": "xw_asin_f64",
    "asinh": "xw_asinh_f64",
    "atan": "xw_atan_f64",
    "atan2": "xw_atan2_f64",
    "atanh": "xw_atanh_f64",
    "cbrt": "xw_cbrt_f64",
    "cosh": "xw_cosh_f64",
    "power": "xw_pow_f64",
    "remainder": "xw_fmod_f64",
    "sinh": "xw_sinh_f64",
    "tan": "xw_tan_f64",
}
"""The functions that are C functions and nothing else."""

FUNCTIONS: dict[str, Callable[..., Val]] = {
    **{opcode: _called(symbol) for opcode, symbol in CALLED.items()},
    "cosine": cos,
    "erf": erf,
    "exponential": exp,
    "exponential-minus-one": expm1,
    "log": log,
    "log-plus-one": log1p,
    "logistic": logistic,
    "round-nearest-afz": round_nearest_afz,
    "rsqrt": rsqrt,
    "sine": sin,
    "tanh": tanh,
}
