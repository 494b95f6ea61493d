"""Random numbers, whose shape is an operand."""

from __future__ import annotations

from ...hlo.ir import Instruction
from ...mlir.tree import Op
from ...mlir.values import word
from ..stablehlo import Mapper, Rule


def _rng(e: Mapper, op: Op, operands: list[Instruction]) -> list[Instruction]:
    a, b, sizes = operands
    distribution = "rng_" + word(op.attributes["rng_distribution"]).lower()
    shape = e.sized(op, sizes)
    made = e.op("rng", a, b, shape=shape.with_dimensions(shape.dimensions), distribution=distribution)
    return [e.with_sizes(made, shape, sizes)]


STABLEHLO: dict[str, Rule] = {"stablehlo.rng": _rng}
