"""Types of floats for elementary functions: the parts of each, and the polynomials of the functions that have the same
form in each."""

from __future__ import annotations

from ...dataclass import dataclass
from ...hlo.types import TYPES, FloatFormat

INTEGERS = {"f32": "s32", "f64": "s64"}
"""Type of a float -> that of its bits as an integer."""


def hex_floats(text: str) -> tuple[float, ...]:
    """Numbers as C writes them in hexadecimal."""
    return tuple(map(float.fromhex, text.split()))


def alternating(coefficients: tuple[float, ...]) -> tuple[float, ...]:
    """Returns the coefficients of the polynomial in -x."""
    return tuple(c * (-1) ** i for i, c in enumerate(coefficients))


@dataclass(frozen=True, slots=True)
class Format:
    """A type of floats. Coefficients come constant term first."""

    dtype: str
    sqrt_half_bits: int
    log2e: float
    ln2: tuple[float, ...]
    """ln 2 in two parts, of which the first has so few bits that it is exact times any exponent."""
    short_ln2: tuple[float, ...]
    """The same where an error counts little: one constant is enough in f32."""
    below_half: float
    """The greatest number less than 1/2."""
    floor: float
    """Rounding z + this is floor(z), also for z = 0; or one more where z is just below an integer."""
    exp_range: tuple[float, float]
    """Beyond it e^x is 0 or infinite, and as `exp` computes it."""
    logistic_range: tuple[float, float]
    expm1_range: tuple[float, float]
    erf_limit: float
    """From there on erf rounds to 1."""
    sin_limit: float
    cos_limit: float
    """Up to which `pi` in parts is exact enough."""
    exp: tuple[float, ...]
    """e^r on [0, ln 2]."""
    expm1: tuple[float, ...]
    """(e^r - 1 - r) / r^2 on |r| <= ln(2)/2."""
    one_minus_exp: tuple[float, ...]
    """(1 - e^-r - r) / r^2 on |r| <= ln(2)/2, for `erf`."""
    erf: tuple[float, ...]
    """(-log(erfc(a)) - a) / a up to `erf_limit`, weighted by its effect on erf."""
    sin: tuple[float, ...]
    """(sin(r) - r) / r^3 in r^2 on |r| <= pi/2."""
    pi: tuple[float, ...]
    """pi in parts, the last in full, the others of so few bits that they are exact times a multiple of pi."""

    @property
    def width(self) -> int:
        return TYPES[self.dtype].bits

    @property
    def mantissa(self) -> int:
        """Bits behind the point."""
        return self._parts.mantissa_bits

    @property
    def bias(self) -> int:
        """The number that is added to an exponent where it is stored."""
        return self._parts.bias

    @property
    def _parts(self) -> FloatFormat:
        parts = TYPES[self.dtype].format
        assert parts is not None, f"{self.dtype} is no float"
        return parts

    @property
    def magic(self) -> float:
        """Adding it turns a float into an integer, the low bits of the sum. With bias + k as that integer, `bits <<
        mantissa` is 2^k."""
        return 1.5 * 2.0**self.mantissa

    @property
    def mantissa_mask(self) -> int:
        return (1 << self.mantissa) - 1

    @property
    def one_bits(self) -> int:
        return self.bias << self.mantissa

    @property
    def smallest_normal(self) -> float:
        return 2.0 ** (1 - self.bias)


F32 = Format(
    dtype="f32",
    sqrt_half_bits=0x3F3504F3,
    log2e=float.fromhex("0x1.715476p+0"),
    ln2=hex_floats("0x1.62e4p-1 0x1.7f7d1cp-20"),  # 15 bits
    short_ln2=hex_floats("0x1.62e43p-1"),
    below_half=float.fromhex("0x1.fffffep-2"),
    floor=float.fromhex("-0x1.fffffep-2"),
    exp_range=(-88.0, 89.0),
    logistic_range=(-88.0, 87.0),
    expm1_range=(-18.0, 89.0),
    erf_limit=3.9375,
    sin_limit=102943.0,  # 2^15 pi
    cos_limit=51470.0,  # 2^14 pi
    # Constant 1, degree 6, relative error 2^-28.8.
    exp=hex_floats("0x1p+0 0x1.fffffap-1 0x1.0000bap-1 0x1.553884p-3 0x1.5755d2p-5 0x1.fef9bcp-8 0x1.fe553ep-10"),
    # Relative error of e^r - 1 2^-26.1.
    expm1=hex_floats("0x1.fffffep-2 0x1.5554b4p-3 0x1.5556f2p-5 0x1.122560p-7 0x1.6b9ca4p-10"),
    # Weighted for 1 - s e^-r with s = 1 only at r >= 0, relative error 2^-27.1. The last bits of the first two are the
    # best of a search.
    one_minus_exp=hex_floats("-0x1.fffff6p-2 0x1.55548ep-3 -0x1.555dc6p-5 0x1.123d38p-7 -0x1.6730f2p-10"),
    # On [0, 3.95], error 2^-27.8.
    erf=hex_floats(
        "0x1.06ebaap-3 0x1.45f2fep-1 0x1.a4f8c4p-4 -0x1.39b7ccp-6 -0x1.637490p-13 0x1.b74384p-10 -0x1.4e277ap-11 "
        "0x1.f2847cp-14 -0x1.3afb92p-17"
    ),
    # Relative error 2^-27.3.
    sin=hex_floats("-0x1.55554ep-3 0x1.110ec6p-7 -0x1.9f67f6p-13 0x1.5d399ep-19"),
    # At most 9 bits (exact times a 15-bit integer): 66 bits behind the point.
    pi=hex_floats("0x1.92p+1 0x1.fbp-11 0x1.51p-21 0x1.0bp-33 0x1.184698p-43"),
)

_LN2_F64 = hex_floats("0x1.62e42feep-1 0x1.a39ef35793c76p-33")  # 31 bits
# Relative error of e^r - 1 2^-61.6.
_EXPM1_F64 = hex_floats(
    "0x1p-1 0x1.5555555555559p-3 0x1.5555555555558p-5 0x1.111111110f713p-7 0x1.6c16c16c174c0p-10 0x1.a01a01af9e832p-13 "
    "0x1.a01a0199bf882p-16 0x1.71ddf922dfaacp-19 0x1.27e502a392784p-22 0x1.af5d463b7908ep-26 0x1.1f2a2ed0f8f1ap-29"
)
F64 = Format(
    dtype="f64",
    sqrt_half_bits=0x3FE6A09E667F3BCD,
    log2e=float.fromhex("0x1.71547652b82fep+0"),
    ln2=_LN2_F64,
    short_ln2=_LN2_F64,
    below_half=float.fromhex("0x1.fffffffffffffp-2"),
    floor=-0.5 + 2.0**-40,
    exp_range=(-709.0, 710.0),
    logistic_range=(-709.0, 700.0),
    expm1_range=(-40.0, 710.0),
    erf_limit=6.0,
    sin_limit=6588397.0,  # 2^21 pi
    cos_limit=3294195.0,  # 2^20 pi
    # Degree 11, relative error 2^-57.8.
    exp=hex_floats(
        "0x1p+0 0x1p+0 0x1.ffffffffffe28p-2 0x1.55555555603b1p-3 0x1.555555523158ep-5 0x1.1111118bf939fp-7 "
        "0x1.6c16aade1cfe1p-10 0x1.a01ca43531f1dp-13 0x1.9fe6a7cdcfabbp-16 0x1.746649f0edac1p-19 0x1.1410be7d3a491p-22 "
        "0x1.2d3cc5baedacdp-25"
    ),
    expm1=_EXPM1_F64,
    one_minus_exp=tuple(-c for c in alternating(_EXPM1_F64)),
    # On [0, 6], error 2^-54.9.
    erf=hex_floats(
        "0x1.06eba8214db68p-3 0x1.45f306dc9c8dap-1 0x1.a4f4e2a1a99e2p-4 -0x1.39668590870b5p-6 -0x1.b6b6a1e9c32d2p-13 "
        "0x1.bca691f8a449bp-10 -0x1.35663cb822769p-11 0x1.b29b4c026d6d6p-16 0x1.0e32c5963d9aap-14 "
        "-0x1.f0313c4b1c289p-16 0x1.a95efdc651f0ep-19 0x1.a48ef33dc65dcp-19 -0x1.117a44e8b072bp-19 "
        "0x1.327eb748d3a70p-21 -0x1.972905aa74c1cp-27 -0x1.1a0ea8b5e6c0dp-24 0x1.28e57c1e318e5p-25 "
        "-0x1.71f75f171e638p-27 0x1.4440d8ccc864fp-29 -0x1.9d450cea0a508p-32 0x1.7a2cd99ca0a60p-35 "
        "-0x1.d9358b70602b7p-39 0x1.6b68bd6efe0e0p-43 -0x1.02ac8fde5179cp-48"
    ),
    # Relative error 2^-61.5.
    sin=hex_floats(
        "-0x1.5555555555555p-3 0x1.11111111110c8p-7 -0x1.a01a01a014d6fp-13 0x1.71de3a52a0b0dp-19 "
        "-0x1.ae6454d473a14p-26 0x1.6123cd06e8f4bp-33 -0x1.ae43844ebd209p-41 0x1.8832a369daeefp-49"
    ),
    # At most 32 bits (exact times a 21-bit integer).
    pi=hex_floats("0x1.921fb544p+1 0x1.0b4611a6p-33 0x1.3198a2e0p-68 0x1.b839a252049c1p-103"),
)

FORMATS = {"f32": F32, "f64": F64}
