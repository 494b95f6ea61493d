"""Additions that may take a product of their own with one rounding, where the target has that (`passes/contract.py`
finds them)."""

from __future__ import annotations

from ...hlo.ir import Instruction


def contracted(x: Instruction) -> tuple[Instruction, Instruction] | None:
    """The product that an addition contains, and what it is added to."""
    i = x.marks.contracted
    return None if i is None else (x.operands[i], x.operands[1 - i])
