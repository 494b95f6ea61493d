"""Sorting."""

from __future__ import annotations

from ...hlo.ir import Instruction
from ...mlir.tree import Op
from ...mlir.values import flag, integer
from ..stablehlo import Mapper, Rule


def _sort(e: Mapper, op: Op, operands: list[Instruction]) -> list[Instruction]:
    """The dimension may be counted from the end, and is the last one by default."""
    dimension = operands[0].shape.dimension_number(integer(op.attributes.get("dimension", -1)))
    made = e.op(
        "sort", *operands, called=[e.region(op)], dimensions=(dimension,), is_stable=flag(op.attributes, "is_stable")
    )
    return e.split(op, made)


STABLEHLO: dict[str, Rule] = {"stablehlo.sort": _sort}
