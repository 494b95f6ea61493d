"""How instructions read their operands, as their records say, on the indices of a kernel."""

from __future__ import annotations

from ..hlo.index_map import IndexMap
from ..hlo.ir import Instruction
from ..hlo.op import Op, Read
from ..loop.affine import ZERO, Affine, Index, delinearize, linearize
from .table import RECORDS


def record(x: Instruction) -> Op:
    """The record of an instruction's operation."""
    return RECORDS[x.opcode]


def reads(x: Instruction) -> list[Read]:
    """How each operand is read."""
    return record(x).reads(x)


def place(m: IndexMap, index: Index) -> Index | None:
    """Where a map leads from an index, or None if that would need a division at run time."""
    if m.is_split:
        return delinearize(linearize(index, m.domain), m.dims) if m.keeps_order else None
    made = []
    for coordinate in m.coordinates:
        total = Affine(coordinate.offset) if coordinate and coordinate.offset else ZERO
        for c, d, _, _ in coordinate.terms if coordinate else ():
            total = total + index[d] * c
        made.append(total)
    return tuple(made)
