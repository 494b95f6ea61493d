"""The convolution whose padding is an operand."""

from __future__ import annotations

from ...hlo.ir import Instruction
from ...mlir.tree import Dense, Op, Tensor
from ..stablehlo import Mapper, Rule


def _dynamic_conv(e: Mapper, op: Op, operands: list[Instruction]) -> list[Instruction]:
    image, kernel, padding = operands
    widths = e.need_integers(op, padding, "the widths of its padding")
    data = b"".join(width.to_bytes(8, "little", signed=True) for width in widths)
    given = {**op.attributes, "padding": Dense(Tensor((len(widths) // 2, 2), "i64"), data)}
    return e.simple("stablehlo.convolution", op, given, [image, kernel])


STABLEHLO: dict[str, Rule] = {"stablehlo.dynamic_conv": _dynamic_conv}
