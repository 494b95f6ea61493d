"""Elementwise operations in terms of others."""

from __future__ import annotations

from ...hlo.ir import Instruction
from ...hlo.types import TYPES
from ...writing.writer import Rule, Writer
from .expand_accurate import ACCURATE


def _bitcast_convert(e: Writer, x: Instruction) -> Instruction:
    """Between a width below a byte and another: elements of so few bits lie in bytes of their own, so they are shifted
    into place."""
    (operand,) = x.operands
    target = x.shape.element_type
    old, new = TYPES[operand.shape.element_type].bits, TYPES[target].bits
    if old == new or min(old, new) >= 8:
        return x
    holder = f"u{max(old, new, 8)}"
    word = e.convert(e.bitcast_convert(operand, f"u{old}"), holder)
    if old > new:
        dims = x.shape.dimensions
        word = e.broadcast(word, dims, tuple(range(len(dims) - 1)))
        parts = e.binary("shift-right-logical", word, e.mul(e.iota(holder, dims, len(dims) - 1), new))
        return e.bitcast_convert(e.convert(parts, f"u{new}"), target)
    last = operand.shape.rank - 1
    parts = e.binary("shift-left", word, e.mul(e.iota(holder, operand.shape.dimensions, last), old))
    return e.bitcast_convert(e.convert(e.reduce(parts, e.scalar(holder, 0), (last,), "or"), f"u{new}"), target)


EXPAND: dict[str, Rule] = {"bitcast-convert": _bitcast_convert, **ACCURATE}
