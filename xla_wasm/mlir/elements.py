"""Element types: MLIR's names, HLO's, and how constants of them lie in bytes."""

from __future__ import annotations

from ..errors import UnsupportedError
from ..hlo.proto.wire import Buffer
from ..hlo.types import COMPLEX_OF, TYPES
from .tree import Complex, Quantized, Type

_SMALL_FLOATS = (
    # no two alike
    "f8E5M2 f8E4M3 f8E4M3FN f8E5M2FNUZ f8E4M3FNUZ f8E4M3B11FNUZ f8E3M4 f4E2M1FN f6E2M3FN f6E3M2FN f8E8M0FNU".split()
)
HLO_TYPES: dict[str, str] = {
    "i1": "pred",
    **{f"i{bits}": f"s{bits}" for bits in (2, 4, 8, 16, 32, 64)},
    **{f"si{bits}": f"s{bits}" for bits in (2, 4, 8, 16, 32, 64)},
    **{f"ui{bits}": f"u{bits}" for bits in (1, 2, 4, 8, 16, 32, 64)},
    **{name: name for name in ("bf16", "f16", "f32", "f64")},
    **{name: name.lower() for name in _SMALL_FLOATS},
    "index": "s64",
}
"""MLIR's name -> HLO's, of types that are not complex."""

_TEXTS = {
    **{name: text for text, name in HLO_TYPES.items() if text not in ("ui1", "index") and text[:2] != "si"},
    **{name: f"complex<{text}>" for text, name in COMPLEX_OF.items()},
}
"""HLO's name -> MLIR's."""


def hlo_type(element: Type) -> str | None:
    """HLO's name of an element type; None if it has none. Of a quantised type it is that of the integers which are
    stored."""
    if isinstance(element, Complex):
        return COMPLEX_OF.get(element.element)
    if isinstance(element, Quantized):
        element = element.storage
    return HLO_TYPES.get(element) if isinstance(element, str) else None


def element_bits(element: Type) -> int:
    """Bits of an element; 0 for what is no element type of HLO."""
    name = hlo_type(element)
    return 0 if name is None else 1 if name == "pred" else TYPES[name].bits


def unpacked(data: Buffer, element: Type) -> Buffer:
    """Elements of a byte each of which only some bits count, extended by their sign or by zeros; others as they are."""
    return data if element_bits(element) >= 8 else bytes(data).translate(low_bits(element))


def low_bits(element: Type) -> bytes:
    """Translates a byte to the element in its low bits: extended by its sign if it has one. Any bit of a truth value
    makes it true."""
    name, bits = hlo_type(element) or "", element_bits(element)
    if name == "pred":
        return bytes([0] + [1] * 255)
    mask, sign = (1 << bits) - 1, 1 << bits - 1
    return bytes((((code & mask) ^ sign) - sign) & 255 if name[:1] == "s" else code & mask for code in range(256))


def element_text(name: str) -> str:
    """MLIR's name of an element type of HLO."""
    if name not in _TEXTS:
        raise UnsupportedError(f"StableHLO has no type for {name}")
    return _TEXTS[name]
