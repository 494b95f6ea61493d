"""Gives each Fourier transform the plans and the tables that it works with."""

from __future__ import annotations

from ...hlo.ir import Instruction
from ...hlo.shape import Shape
from ...hlo.types import REAL_OF
from ...writing.writer import Rule, Writer
from .plan import TABLE, plans


def _fft(e: Writer, x: Instruction) -> Instruction:
    """The operand, then a plan and a table for every different length. Tables depend on constants alone: `init` makes
    them."""
    if len(x.operands) > 1 or x.shape.size == 0:
        return x
    (operand,) = x.operands
    dtype = REAL_OF.get(operand.shape.element_type, operand.shape.element_type)
    operands = [operand]
    for plan in dict.fromkeys(plans(x)):
        words = e.constant("s32", plan.words)
        operands += [
            words,
            e.op("custom-call", words, shape=Shape(dtype, (plan.table_size,)), custom_call_target=TABLE),
        ]
    return e.op("fft", *operands, shape=x.shape, fft_type=x.attrs["fft_type"], fft_length=x.attrs["fft_length"])


EXPAND: dict[str, Rule] = {"fft": _fft}
