"""Strings of MLIR are bytes: those that are not UTF-8 stand in Python's as lone surrogates, which no name may have."""

from __future__ import annotations


def readable(text: str) -> str:
    """The text with the sign of what cannot be shown in the place of bytes that are not UTF-8."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
