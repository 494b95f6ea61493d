"""Primitive types of HLO (xla_data.proto `PrimitiveType`): one table, keyed by the name used in HLO text."""

from __future__ import annotations

from typing import NamedTuple

from ..dataclass import dataclass


class FloatFormat(NamedTuple):
    """The use of the bits of a float.

    `special` says what its special codes are. "ieee": infinities and NaNs where the exponent is all ones. "nan": only
    all ones is a NaN, and there is no infinity. "no negative zero": the code of -0 is the only NaN. "finite": no
    specials. "powers of two": no sign, no zero, 255 is NaN.
    """

    exponent_bits: int
    mantissa_bits: int
    bias: int
    special: str


@dataclass(frozen=True, slots=True)
class PrimitiveType:
    """One element type. `bits` is the width of a value; `kind` is one of pred, signed, unsigned, float, complex or
    none.

    `code` is the format of an element in `struct`: of a part, if it is complex, and of its bits, if Python has no such
    numbers. `numpy` is the name of the dtype, behind "ml_dtypes." where NumPy has none. `format` is that of a float.
    """

    name: str
    number: int
    bits: int
    kind: str
    code: str = ""
    numpy: str = ""
    format: FloatFormat | None = None

    @property
    def bytes(self) -> int:
        """Bytes that one element takes in memory; a type narrower than a byte takes a whole one."""
        return (self.bits + 7) // 8


_ROWS = """
pred 1 1 pred ? bool
s8 2 8 signed b int8
s16 3 16 signed h int16
s32 4 32 signed i int32
s64 5 64 signed q int64
u8 6 8 unsigned B uint8
u16 7 16 unsigned H uint16
u32 8 32 unsigned I uint32
u64 9 64 unsigned Q uint64
f16 10 16 float e float16 5 10 15 ieee
f32 11 32 float f float32 8 23 127 ieee
f64 12 64 float d float64 11 52 1023 ieee
tuple 13 0 none
opaque 14 0 none
c64 15 64 complex f complex64
bf16 16 16 float H ml_dtypes.bfloat16 8 7 127 ieee
token 17 0 none
c128 18 128 complex d complex128
f8e5m2 19 8 float B ml_dtypes.float8_e5m2 5 2 15 ieee
f8e4m3fn 20 8 float B ml_dtypes.float8_e4m3fn 4 3 7 nan
s4 21 4 signed b ml_dtypes.int4
u4 22 4 unsigned B ml_dtypes.uint4
f8e4m3b11fnuz 23 8 float B ml_dtypes.float8_e4m3b11fnuz 4 3 11 no negative zero
f8e5m2fnuz 24 8 float B ml_dtypes.float8_e5m2fnuz 5 2 16 no negative zero
f8e4m3fnuz 25 8 float B ml_dtypes.float8_e4m3fnuz 4 3 8 no negative zero
s2 26 2 signed b ml_dtypes.int2
u2 27 2 unsigned B ml_dtypes.uint2
f8e4m3 28 8 float B ml_dtypes.float8_e4m3 4 3 7 ieee
f8e3m4 29 8 float B ml_dtypes.float8_e3m4 3 4 3 ieee
s1 30 1 signed b ml_dtypes.int1
u1 31 1 unsigned B ml_dtypes.uint1
f4e2m1fn 32 4 float B ml_dtypes.float4_e2m1fn 2 1 1 finite
f8e8m0fnu 33 8 float B ml_dtypes.float8_e8m0fnu 8 0 127 powers of two
buffer 34 0 none
f6e3m2fn 35 6 float B ml_dtypes.float6_e3m2fn 3 2 3 finite
f6e2m3fn 36 6 float B ml_dtypes.float6_e2m3fn 2 3 1 finite
"""


def _type(name: str, number: str, bits: str, kind: str, code: str = "", numpy: str = "", *form: str) -> PrimitiveType:
    format_ = FloatFormat(int(form[0]), int(form[1]), int(form[2]), " ".join(form[3:])) if form else None
    return PrimitiveType(name, int(number), int(bits), kind, code, numpy, format_)


TYPES: dict[str, PrimitiveType] = {row.split()[0]: _type(*row.split()) for row in _ROWS.split("\n") if row}
ARRAY_TYPES = tuple(name for name, type_ in TYPES.items() if type_.kind != "none")
"""The types of arrays' elements."""
REAL_OF = {name: f"f{type_.bits // 2}" for name, type_ in TYPES.items() if type_.kind == "complex"}
"""Complex type -> that of its parts."""
COMPLEX_OF = {part: name for name, part in REAL_OF.items()}
BY_NUMBER: dict[int, PrimitiveType] = {type_.number: type_ for type_ in TYPES.values()}


def is_integral(name: str) -> bool:
    """Returns True if `name` is a signed or unsigned integer type (pred is not)."""
    return TYPES[name].kind in ("signed", "unsigned")


def default_comparison(name: str) -> str:
    """The type by which elements are compared if nothing else is said."""
    return {"float": "FLOAT", "complex": "FLOAT", "signed": "SIGNED"}.get(TYPES[name].kind, "UNSIGNED")


THROUGH_F16 = frozenset(name for name, t in TYPES.items() if t.kind == "float" and t.bits == 8 and name != "f8e8m0fnu")
"""Types that XLA computes with in f16: what an operation makes is rounded to that, and then to the type."""

WIDE = {"f32": "f64", "s32": "s64", "u32": "u64", "c64": "c128"}
"""The type of twice the bits, in which Python and NumPy have their numbers: hosts convert it, as `jax.jit` does."""

PRODUCT_TYPES = ("f32", "f64", "s32", "u32")
"""Types of products, sums of products and convolutions that have kernels of their own."""

PAIRED = "s16"
"""The type of integers that are multiplied in pairs; they have an even length along what is summed."""

BYTES = ("s8", "u8")
"""Types of integers of which kernels make these pairs as they load them, or multiply four at once where an engine does
so exactly."""

SMALL_FLOATS = tuple(name for name, t in TYPES.items() if t.kind == "float" and t.bits <= 16)
"""Types that are stored, moved and converted, but not computed with."""


def keeps_numbers(source: str, target: str) -> bool:
    """Returns True if numbers of one type are the same in another."""
    a, b = TYPES[source], TYPES[target]
    if source == target or a.kind == "pred":
        return target != "f8e8m0fnu"
    if a.kind in ("signed", "unsigned"):
        needed = a.bits - (a.kind == "signed")
        if b.kind in ("signed", "unsigned"):
            return needed <= b.bits - (b.kind == "signed") and a.kind in ("unsigned", b.kind)
        return b.format is not None and needed <= b.format.mantissa_bits + 1 and b.format.special == "ieee"
    if a.kind == "complex":
        return b.kind == "complex" and a.bits <= b.bits
    return target in ("f32", "f64") and a.bits <= b.bits


def limits(dtype: str) -> tuple[int, int]:
    """The least and greatest value of an integer type."""
    bits = TYPES[dtype].bits
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if dtype[0] == "s" else (0, (1 << bits) - 1)


def wrap(number: int, dtype: str) -> int:
    """An integer brought into the range of an integer type by dropping high bits."""
    bits = TYPES[dtype].bits
    number &= (1 << bits) - 1
    return number - (1 << bits) if dtype[0] == "s" and number >> (bits - 1) else number
