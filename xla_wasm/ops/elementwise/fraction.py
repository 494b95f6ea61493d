"""Logarithms of 1 + x for x in 0..1, which need no exponent of their own (`passes/fractions.py` finds them)."""

from __future__ import annotations

from ...hlo.ir import Instruction


def is_fraction(x: Instruction) -> bool:
    """Returns True if a value is known to be 0 to 1, or NaN: e to the power of what is not positive, as softplus and
    logaddexp have it."""
    if x.opcode != "exponential":
        return False
    (power,) = x.operands
    return power.opcode == "negate" and power.operands[0].opcode == "abs"
