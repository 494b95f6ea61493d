"""Sizes of dimensions: of most they are known."""

from __future__ import annotations

from ...hlo.infer import flags
from ...hlo.ir import Instruction
from ...mlir.tree import Op
from ...mlir.values import integer
from ..stablehlo import Mapper, Rule


def _get_dimension_size(e: Mapper, op: Op, operands: list[Instruction]) -> list[Instruction]:
    shape = operands[0].shape
    d = shape.dimension_number(integer(op.attributes["dimension"]))
    if flags(shape)[d]:
        return [e.op("get-dimension-size", operands[0], dimensions=(d,))]
    return [e.scalar("s32", shape.dimensions[d])]


STABLEHLO: dict[str, Rule] = {"stablehlo.get_dimension_size": _get_dimension_size}
