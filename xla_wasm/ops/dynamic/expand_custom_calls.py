"""The custom calls between static and dynamic arrays, where no dimension is dynamic after all."""

from __future__ import annotations

from ...errors import UnsupportedError
from ...hlo.ir import Instruction
from ...writing.writer import Rule, Writer


def _pad_to_static(e: Writer, x: Instruction) -> Instruction:
    return e.tuple([x.operands[0], *(e.scalar("s32", size) for size in x.operands[0].shape.dimensions)])


def _slice_to_dynamic(e: Writer, x: Instruction) -> Instruction:
    raise UnsupportedError(f"{x.where}: SliceToDynamic of a result without dynamic dimensions")


CUSTOM_CALLS: dict[str, Rule] = {"PadToStatic": _pad_to_static, "SliceToDynamic": _slice_to_dynamic}
