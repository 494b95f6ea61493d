"""Additions that may take a product of their own with one rounding, where the target has that (`passes/contract.py`
finds them)."""

from __future__ import annotations

from ...hlo.ir import Instruction

CONTRACTED = "contracted"
"""The attribute of an addition that says which of its operands is the product."""


def contracted(x: Instruction) -> tuple[Instruction, Instruction] | None:
    """The product that an addition contains, and what it is added to."""
    i = x.attrs.get(CONTRACTED)
    return None if i is None else (x.operands[i], x.operands[1 - i])
