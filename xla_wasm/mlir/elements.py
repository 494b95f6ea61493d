"""Element types: MLIR's names, HLO's, and how constants of them lie in bytes."""

from __future__ import annotations

from ..hlo.types import TYPES
from ..hlo.wire import Buffer
from .tree import Complex, Type

_SMALL_FLOATS = (
    "f8E5M2 f8E4M3 f8E4M3FN f8E5M2FNUZ f8E4M3FNUZ f8E4M3B11FNUZ f8E3M4 f4E2M1FN f6E2M3FN f6E3M2FN f8E8M0FNU".split()  # no two alike
)
HLO_TYPES: dict[str, str] = {
    "i1": "pred",
    **{f"i{bits}": f"s{bits}" for bits in (2, 4, 8, 16, 32, 64)},
    **{f"ui{bits}": f"u{bits}" for bits in (1, 2, 4, 8, 16, 32, 64)},
    **{name: name for name in ("bf16", "f16", "f32", "f64")},
    **{name: name.lower() for name in _SMALL_FLOATS},
    "index": "s64",
}
"""MLIR's name -> HLO's, of types that are not complex."""

_COMPLEX = {"f32": "c64", "f64": "c128"}


def hlo_type(element: Type) -> str | None:
    """HLO's name of an element type; None if it has none."""
    if isinstance(element, Complex):
        return _COMPLEX.get(element.element)
    return HLO_TYPES.get(element) if isinstance(element, str) else None


def element_bits(element: Type) -> int:
    """Bits of an element; 0 for what is no element type of HLO."""
    name = hlo_type(element)
    return 0 if name is None else 1 if name == "pred" else TYPES[name].bits


def unpacked(data: Buffer, element: Type) -> Buffer:
    """Elements of a byte each of which only some bits count, extended by their sign or by zeros; others as they are."""
    bits = element_bits(element)
    if bits >= 8:
        return data
    mask, sign = (1 << bits) - 1, 1 << bits - 1
    signed = isinstance(element, str) and element[0] == "i" and element != "i1"
    table = bytes((((code & mask) ^ sign) - sign) & 255 if signed else code & mask for code in range(256))
    return bytes(data).translate(table)
