"""The records of instructions, and the reads of their operands."""

from __future__ import annotations

from ..hlo.ir import Instruction
from ..hlo.op import Op, Read
from .table import RECORDS


def record(x: Instruction) -> Op:
    """The record of an instruction's operation."""
    return RECORDS[x.opcode]


def reads(x: Instruction) -> list[Read]:
    """Returns the `Read` of each operand: its kind and its index map."""
    return record(x).reads(x)
