"""Functions that an instruction wants as exact as can be: in f64, rounded once to f32."""

from __future__ import annotations

from ...hlo.ir import Instruction
from ...writing.writer import Rule, Writer
from .record import OPS


def _highest(e: Writer, x: Instruction) -> Instruction:
    accuracy = x.attrs.get("result_accuracy")
    if accuracy is None or accuracy.mode != "highest" or x.shape.element_type != "f32":
        return x
    return e.convert(e.unary(x.opcode, e.convert(x.operands[0], "f64")), "f32")


EXACT = ("sqrt",)
"""Functions that are exact whatever an instruction says."""

ACCURATE: dict[str, Rule] = {
    op.opcode: _highest for op in OPS if "result_accuracy" in op.defaults and op.opcode not in EXACT
}
"""opcode -> rule, for every function that may say how exact it should be and is not exact anyway."""
