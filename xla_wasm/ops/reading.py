"""How instructions read their operands, as their records say, on the indices of a kernel."""

from __future__ import annotations

from ..hlo.index_map import IndexMap
from ..hlo.ir import Instruction
from ..hlo.op import Op, Read
from ..loop.affine import ZERO, Affine, Index, delinearize, digit, linearize
from .table import RECORDS


def record(x: Instruction) -> Op:
    """The record of an instruction's operation."""
    return RECORDS[x.opcode]


def reads(x: Instruction) -> list[Read]:
    """How each operand is read."""
    return record(x).reads(x)


def place(m: IndexMap, index: Index) -> Index | None:
    """Where a map leads from an index, or None if that would need a division at run time."""
    made = []
    for coordinate in m.coordinates:
        total: Affine | None = None if coordinate is None else Affine(coordinate.offset) if coordinate.offset else ZERO
        for c, d, divisor, size in coordinate.terms if coordinate else ():
            part = index[d] if divisor == 1 and size == m.domain[d] else digit(index[d], divisor, size)
            total = None if total is None or part is None else total + part * c
        if total is None:
            return delinearize(linearize(index, m.domain), m.dims) if m.keeps_order else None
        made.append(total)
    return tuple(made)
