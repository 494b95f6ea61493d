"""Attributes as MLIR text: what HLO keeps of dictionaries and shardings."""

from __future__ import annotations

import re
import struct

from .shardy import symbol_text
from .tree import UNIT, Attribute, Elements, MeshGroups, Number, Opaque, Symbol, TypeOf

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
        return "{" + ", ".join(_key_text(key) + ("" if v is UNIT else f" = {attribute_text(v)}") for key, v in sorted(value.items())) + "}"
    if isinstance(value, Symbol):
        return symbol_text(value.name)
    if isinstance(value, (Opaque, MeshGroups)):
        return value.text
    if isinstance(value, Elements):
        listed = ", ".join(str(v).lower() if isinstance(v, bool) else str(v) for v in value.values)
        return f"array<{value.element}: {listed}>" if listed else f"array<{value.element}>"
    if isinstance(value, TypeOf) and isinstance(value.type, str):
        return value.type
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return "[" + ", ".join(map(attribute_text, value)) + "]"
    return repr(value)


def string_text(text: str) -> str:
    """A string in quotes."""
    data = text.encode("utf-8", "surrogateescape")
    return '"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else "\\\\" if b == 92 else f"\\{b:02X}" for b in data) + '"'


def _key_text(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z_][\w$.]*", key) else string_text(key)


def _number_text(value: Number) -> str:
    if not isinstance(value.value, float):
        return str(value.value)
    form = _FORMATS.get(str(value.type), "<d")
    if value.value != value.value or value.value in (float("inf"), float("-inf")):
        return f"0x{struct.pack(form, value.value)[::-1].hex().upper()}"
    short = f"{value.value:.6e}"
    same = struct.pack(form, float(short)) == struct.pack(form, value.value)
    return short if same else repr(value.value) if form == "<d" else f"{value.value:.9g}"
