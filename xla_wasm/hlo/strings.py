"""Strings of HLO text, and lines that programs print."""

from __future__ import annotations

import re
from collections.abc import Sequence
from string import Formatter
from typing import Any

_SPECIAL = {10: "\\n", 13: "\\r", 9: "\\t", 34: '\\"', 39: "\\'", 92: "\\\\"}


def quoted(value: str | bytes) -> str:
    """A string with C escapes; bytes that are not ASCII in octal."""
    data = value.encode() if isinstance(value, str) else value
    return '"' + "".join(_SPECIAL.get(b) or (chr(b) if 32 <= b < 127 else f"\\{b:03o}") for b in data) + '"'


def filled(line: str, values: Sequence[Any]) -> str:
    """A line with values in the place of its fields, which are their numbers. ValueError for a field that names
    attributes of Python's objects, or a width that fills the memory: the line may come with a stranger's file."""
    for _, name, spec, _ in Formatter().parse(line):
        if name is not None and not (name.isdecimal() and re.fullmatch(r"(?!.*\d{4})[^{}]{0,20}", spec or "")):
            raise ValueError(
                f"the field {{{name}{':' + spec if spec else ''}}} is no number of an operand with a width of at most "
                f"999"
            )
    return line.format(*values)
