"""Operands of products that are stored as smaller numbers than they are multiplied as."""

from __future__ import annotations

from math import prod

from ...hlo.ir import Instruction
from ...hlo.types import BYTES, PAIRED, TYPES

WIDENED = {PAIRED: BYTES, "f32": ("bf16", "f16", "s8", "u8")}
"""Types of operands, and those that the kernels of products widen to them when they load; f16 without infinities and
NaN, or of weights that are `AS_IT_IS`."""
AS_IT_IS = "as it is"
"""The format of weights that the program has in bf16 or f16: of f16 there may be infinities and NaN among them."""

NIBBLE = "s4"
"""The type of numbers that a kernel reads eight in a word, a scale with each block of them (see
`kernels/packing.py`)."""

BLOCK = 32
"""Numbers of `NIBBLE` along what is summed that have one scale."""

FEW_ROWS = 16
"""Rows of a product up to which memory is the limit, so that its right side is not widened before."""

LONG_ROW = 32
"""Integers along what is summed from which they are read as bytes, and all that reading them takes beside products
pays."""

_LANES = 4
"""Sums in a vector."""

_BITS = 16
"""Of the widest numbers that are small."""


def is_widening(x: Instruction) -> bool:
    """Returns True if an instruction makes f32, or wider integers, of small numbers: exactly, so that it may be done
    anywhere."""
    if x.opcode != "convert":
        return False
    source, target = (TYPES[shape.element_type] for shape in (x.operands[0].shape, x.shape))
    if x.shape.element_type != "f32" and not source.kind == target.kind == "signed":
        return False
    return source.bits <= _BITS and source.bits < target.bits and source.kind in ("signed", "unsigned", "float")


def stored_type(x: Instruction) -> str:
    """The type that a kernel reads an operand of a product in, if that is made as its instruction says: that which it
    is converted from.

    Of f16 these are only weights that have no infinities and no NaN: see `WIDENED`.
    """
    dtype = x.shape.element_type
    source = x.operands[0].shape.element_type if x.opcode == "convert" else ""
    return source if source in WIDENED.get(dtype, ()) and (source != "f16" or x.marks.weight_format == "f16") else dtype


def is_as_f16(x: Instruction) -> bool:
    """Returns True if this is an f16 weight as f32, which may have infinities and NaN."""
    return x.opcode == "convert" and x.operands[0].shape.element_type == "f16" and x.marks.weight_format == AS_IT_IS


def reads_converted(x: Instruction) -> bool:
    """Returns True if a canonical product had better convert its left side than read it converted: a matrix read once,
    for one vector, or long rows of bytes, which a load of a vector makes pairs of."""
    if x.opcode not in ("dot", "convolution") or stored_type(x.operands[0]) == x.operands[0].shape.element_type:
        return False
    *rows, columns = x.shape.dimensions
    if x.operands[0].shape.element_type == PAIRED and columns > _LANES:
        return prod(rows) > 1 and _row(x) >= LONG_ROW
    return x.opcode == "dot" and columns == 1 and rows[-1] > 1


def _row(x: Instruction) -> int:
    """Numbers of the left side that lie side by side and are summed in one result."""
    lhs, rhs = (o.shape.dimensions for o in x.operands[:2])
    return lhs[-1] if x.opcode == "dot" else prod(rhs[-3:-1])
