"""Strings of HLO text."""

from __future__ import annotations

_SPECIAL = {10: "\\n", 13: "\\r", 9: "\\t", 34: '\\"', 39: "\\'", 92: "\\\\"}


def quoted(value: str | bytes) -> str:
    """A string with C escapes; bytes that are not ASCII in octal."""
    data = value.encode() if isinstance(value, str) else value
    return '"' + "".join(_SPECIAL.get(b) or (chr(b) if 32 <= b < 127 else f"\\{b:03o}") for b in data) + '"'
