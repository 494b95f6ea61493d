"""Notes which logarithms are of 1 to 2: the note belongs to the instruction, so that it has one value wherever it is
computed."""

from __future__ import annotations

from ..hlo.ir import Module
from ..ops.elementwise.fraction import is_fraction


def mark_fractions(module: Module) -> None:
    """Marks each log-plus-one of f32 whose operand is a fraction."""
    for computation in module.computations:
        for x in computation.instructions:
            if x.opcode == "log-plus-one" and x.shape.element_type == "f32" and is_fraction(x.operands[0]):
                x.mark(fraction=True)
