"""Functions that an instruction wants as exact as can be: in f64, rounded once to f32."""

from __future__ import annotations

from ...hlo.ir import Instruction
from ..writer import Rule, Writer


def _highest(e: Writer, x: Instruction) -> Instruction:
    accuracy = x.attrs.get("result_accuracy")
    if accuracy is None or accuracy.mode != "highest" or x.shape.element_type != "f32":
        return x
    return e.convert(e.unary(x.opcode, e.convert(x.operands[0], "f64")), "f32")


ACCURATE: dict[str, Rule] = dict.fromkeys(
    (
        *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "cosine", "cosh", "erf", "exponential", "exponential-minus-one"),
        *("log", "log-plus-one", "logistic", "rsqrt", "sine", "sinh", "tan", "tanh"),
    ),
    _highest,
)
"""opcode -> rule, for every function that may say how exact it should be and is not exact anyway."""
