"""Strings of MLIR are bytes: those that are not UTF-8 stand in Python's as lone surrogates, which no name may have."""

from __future__ import annotations

import re

_IDENTIFIER = re.compile(r"[A-Za-z_][\w$.]*", re.ASCII)


def readable(text: str) -> str:
    """The text with the sign of what cannot be shown in the place of bytes that are not UTF-8."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def string_text(value: str | bytes) -> str:
    """A string in quotes."""
    data = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
    return (
        '"'
        + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else "\\\\" if b == 92 else f"\\{b:02X}" for b in data)
        + '"'
    )


def key_text(name: str) -> str:
    """The name of an attribute: in quotes if it is no identifier."""
    return name if _IDENTIFIER.fullmatch(name) else string_text(name)


def symbol_text(name: str) -> str:
    """The name of a function or a mesh, as `@name`."""
    return "@" + key_text(name)
