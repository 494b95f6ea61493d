"""Calls, tokens and barriers. Loops and branches, which have regions that see the values around them, are in
`stablehlo/control.py`."""

from __future__ import annotations

from ...hlo.ir import Instruction
from ...mlir.tree import Op
from ...mlir.values import symbol
from ..stablehlo import Mapper, Rule


def _call(e: Mapper, op: Op, operands: list[Instruction]) -> list[Instruction]:
    return e.split(op, e.call(symbol(op.attributes["callee"]), operands))


def _barrier(e: Mapper, op: Op, operands: list[Instruction]) -> list[Instruction]:
    if len(operands) == 1:
        return [e.op("opt-barrier", operands[0])]
    return e.elements(e.op("opt-barrier", e.tuple(operands)))


def _token(e: Mapper, _: Op, __: list[Instruction]) -> list[Instruction]:
    return [e.op("after-all")]


STABLEHLO: dict[str, Rule] = {
    "func.call": _call,
    "stablehlo.optimization_barrier": _barrier,
    "stablehlo.create_token": _token,
}
