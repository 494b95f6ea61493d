"""Notes which logarithms are of 1 to 2, and so need no exponent of their own: the note belongs to the instruction, so
that it has one value wherever it is computed."""

from __future__ import annotations

from ..hlo.ir import Instruction, Module


def mark_fractions(module: Module) -> None:
    """Marks each log-plus-one of f32 whose operand is a fraction."""
    for x in module.having("log-plus-one"):
        if x.shape.element_type == "f32" and _is_fraction(x.operands[0]):
            x.mark(fraction=True)


def _is_fraction(x: Instruction) -> bool:
    """Returns True if a value is known to be 0 to 1, or NaN: e to the power of what is not positive, as softplus and
    logaddexp have it."""
    if x.opcode != "exponential":
        return False
    (power,) = x.operands
    return power.opcode == "negate" and power.operands[0].opcode == "abs"
