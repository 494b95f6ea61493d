"""The records of instructions, and the reads of their operands."""

from __future__ import annotations

from ..hlo.ir import Instruction
from ..hlo.op import Op, Read
from .table import RECORDS


def record(x: Instruction) -> Op:
    """The record of an instruction's operation."""
    return RECORDS[x.opcode]


def reads(x: Instruction) -> list[Read]:
    """Returns how each operand is read."""
    return record(x).reads(x)
