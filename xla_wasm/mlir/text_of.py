"""Attributes as MLIR text: what HLO keeps of dictionaries and shardings."""

from __future__ import annotations

import struct

from ..errors import UnsupportedError
from ..hlo.literal import Literal
from ..hlo.shape import Shape
from .elements import hlo_type
from .strings import key_text, string_text, symbol_text
from .tree import (
    DYNAMIC,
    UNIT,
    Attribute,
    Complex,
    Dense,
    Elements,
    MeshGroups,
    Number,
    Opaque,
    Symbol,
    Tensor,
    Type,
    TypeOf,
)

_LONGEST = 1 << 16
_FORMATS = {"f32": "<f", "f16": "<e", "f64": "<d"}


def attribute_text(value: Attribute) -> str:
    """The text of an attribute."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return string_text(value)
    if isinstance(value, Number):
        return f"{_number_text(value)} : {value.type}"
    if value is UNIT:
        return "unit"
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(
                key_text(key) + ("" if v is UNIT else f" = {attribute_text(v)}") for key, v in sorted(value.items())
            )
            + "}"
        )
    if isinstance(value, Symbol):
        return symbol_text(value.name)
    if isinstance(value, (Opaque, MeshGroups)):
        return value.text
    if isinstance(value, Elements):
        listed = ", ".join(str(v).lower() if isinstance(v, bool) else str(v) for v in value.values)
        return f"array<{value.element}: {listed}>" if listed else f"array<{value.element}>"
    if isinstance(value, TypeOf):
        return type_text(value.type)
    if isinstance(value, Dense):
        return _dense_text(value)
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return "[" + ", ".join(map(attribute_text, value)) + "]"
    raise UnsupportedError(f"an attribute of the kind {type(value).__name__} has no text here")


def type_text(kind: Type) -> str:
    """The text of a type."""
    if isinstance(kind, str):
        return "!stablehlo.token" if kind == "token" else kind
    if isinstance(kind, Complex):
        return f"complex<{kind.element}>"
    if isinstance(kind, Tensor) and kind.sizes is not None and not kind.bounds:
        sizes = "".join("?x" if size == DYNAMIC else f"{size}x" for size in kind.sizes)
        return f"tensor<{sizes}{type_text(kind.element)}>"
    raise UnsupportedError(f"the type {kind} has no text here")


def shown_type(kind: Type) -> str:
    """A type in a message: its text, or what is known of it where it has none here."""
    try:
        return type_text(kind)
    except UnsupportedError:
        return str(kind)


def _dense_text(value: Dense) -> str:
    """A tensor: its elements in brackets, one for each dimension."""
    name = hlo_type(value.type.element)
    sizes = () if value.is_splat else value.type.sizes or ()
    if name is None or len(value.data) > _LONGEST:
        raise UnsupportedError(f"a tensor {type_text(value.type)} has no text here")
    literal = Literal(Shape(name, tuple(sizes)), value.data)
    elements = [
        attribute_text(v) if isinstance(v, bool) else _number_text(Number(v, value.type.element))
        for v in literal.values()
    ]
    for size in sizes[::-1]:
        elements = (
            ["[" + ", ".join(elements[i : i + size]) + "]" for i in range(0, len(elements), size)] if size else []
        )
    return f"dense<{''.join(elements)}> : {type_text(value.type)}"


def _number_text(value: Number) -> str:
    if not isinstance(value.value, float):
        return str(value.value)
    form = _FORMATS.get(str(value.type), "<d")
    if value.value != value.value or value.value in (float("inf"), float("-inf")):
        return f"0x{struct.pack(form, value.value)[::-1].hex().upper()}"
    short = f"{value.value:.6e}"
    same = struct.pack(form, float(short)) == struct.pack(form, value.value)
    return short if same else repr(value.value) if form == "<d" else f"{value.value:.9g}"
