"""Primitive types of HLO (xla_data.proto `PrimitiveType`): one table, keyed by the name used in HLO text."""

from __future__ import annotations

from ..dataclass import dataclass


@dataclass(frozen=True, slots=True)
class PrimitiveType:
    """One element type. `bits` is the width of a value; `kind` is one of pred, signed, unsigned, float, complex or none."""

    name: str
    number: int
    bits: int
    kind: str

    @property
    def bytes(self) -> int:
        """Bytes that one element takes in memory; a type narrower than a byte takes a whole one."""
        return (self.bits + 7) // 8


_ROWS = """
pred 1 1 pred
s8 2 8 signed
s16 3 16 signed
s32 4 32 signed
s64 5 64 signed
u8 6 8 unsigned
u16 7 16 unsigned
u32 8 32 unsigned
u64 9 64 unsigned
f16 10 16 float
f32 11 32 float
f64 12 64 float
tuple 13 0 none
opaque 14 0 none
c64 15 64 complex
bf16 16 16 float
token 17 0 none
c128 18 128 complex
f8e5m2 19 8 float
f8e4m3fn 20 8 float
s4 21 4 signed
u4 22 4 unsigned
f8e4m3b11fnuz 23 8 float
f8e5m2fnuz 24 8 float
f8e4m3fnuz 25 8 float
s2 26 2 signed
u2 27 2 unsigned
f8e4m3 28 8 float
f8e3m4 29 8 float
s1 30 1 signed
u1 31 1 unsigned
f4e2m1fn 32 4 float
f8e8m0fnu 33 8 float
buffer 34 0 none
f6e3m2fn 35 6 float
f6e2m3fn 36 6 float
"""

TYPES: dict[str, PrimitiveType] = {
    name: PrimitiveType(name, int(number), int(bits), kind)
    for name, number, bits, kind in (row.split() for row in _ROWS.split("\n") if row)
}
ARRAY_TYPES = tuple(name for name, type_ in TYPES.items() if type_.kind != "none")
"""What the elements of arrays are."""
BY_NUMBER: dict[int, PrimitiveType] = {type_.number: type_ for type_ in TYPES.values()}


def is_integral(name: str) -> bool:
    """Whether `name` is a signed or unsigned integer type (pred is not)."""
    return TYPES[name].kind in ("signed", "unsigned")


def default_comparison(name: str) -> str:
    """The type by which elements are compared if nothing else is said."""
    return {"float": "FLOAT", "complex": "FLOAT", "signed": "SIGNED"}.get(TYPES[name].kind, "UNSIGNED")


THROUGH_F16 = frozenset(name for name, t in TYPES.items() if t.kind == "float" and t.bits == 8 and name != "f8e8m0fnu")
"""Types that XLA computes with in f16: what an operation makes is rounded to that, and then to the type."""

SMALL_FLOATS = tuple(name for name, t in TYPES.items() if t.kind == "float" and t.bits <= 16)
"""Types that are stored, moved and converted, but not computed with."""


def limits(dtype: str) -> tuple[int, int]:
    """The least and greatest value of an integer type."""
    bits = TYPES[dtype].bits
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if dtype[0] == "s" else (0, (1 << bits) - 1)


def wrap(number: int, dtype: str) -> int:
    """An integer brought into the range of an integer type by dropping high bits."""
    bits = TYPES[dtype].bits
    number &= (1 << bits) - 1
    return number - (1 << bits) if dtype[0] == "s" and number >> (bits - 1) else number
