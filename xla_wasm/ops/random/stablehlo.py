"""Random numbers, whose shape is an operand."""

from __future__ import annotations

from ...hlo.ir import Instruction
from ...mlir.tree import Op
from ...mlir.values import word
from ..stablehlo import Mapper, Rule


def _rng(e: Mapper, op: Op, operands: list[Instruction]) -> list[Instruction]:
    a, b, sizes = operands
    distribution = "rng_" + word(op.attributes["rng_distribution"]).lower()
    return [e.op("rng", a, b, shape=e.sized(op, sizes), distribution=distribution)]


STABLEHLO: dict[str, Rule] = {"stablehlo.rng": _rng}
