"""Elementwise operations that give their operand, or what is cheaper and as exact."""

from __future__ import annotations

from typing import Any

from ...hlo.ir import Instruction
from ...hlo.types import SMALL_FLOATS, TYPES
from ...writing.writer import Rule, Writer, operand_if_alike


def _without_neutral(neutral: int, of_both: bool = True) -> Rule:
    """x + 0, x - 0, x | 0, x * 1 of integers; `of_both`: and with the operands the other way around."""

    def rule(w: Writer, x: Instruction) -> Instruction:
        left, right = x.operands
        if TYPES[x.shape.element_type].kind not in ("signed", "unsigned"):
            return x
        if _number(right) == neutral:
            return left
        return right if of_both and _number(left) == neutral else x

    return rule


def _number(x: Instruction) -> Any:
    """The one number of all elements, as a constant says, perhaps one of a narrower float; None if there is none."""
    while x.opcode == "broadcast" or x.opcode == "convert" and x.operands[0].shape.element_type in SMALL_FLOATS:
        (x,) = x.operands
    return x.number


INFINITY = float("inf")
_EXACT = 1 << 24
"""Integers up to this size are numbers of f32."""


def _convert(w: Writer, x: Instruction) -> Instruction:
    """The number itself where a constant of one becomes a float, as JAX writes bounds: kernels then know it."""
    (o,) = x.operands
    if o.number is None or x.shape.element_type not in ("f32", "f64") or TYPES[o.shape.element_type].kind != "signed":
        return operand_if_alike(w, x)
    return w.scalar(x.shape.element_type, o.number) if abs(o.number) <= _EXACT else x


def _power(w: Writer, x: Instruction) -> Instruction:
    """Powers of floats by a constant that are one operation, or two of f32: no less exact than `power`, whose special
    results they have."""
    base, exponent = x.operands
    dtype = x.shape.element_type
    number = _number(exponent)
    if number is None or dtype not in ("f32", "f64"):
        return x
    if number == 1:
        return base
    if number == 2:
        return w.mul(base, base)
    if number == -1:
        return w.div(w.like(base, 1), base)
    if number == 0.5:
        return _root(w, base)
    return w.div(w.like(base, 1), _root(w, base)) if number == -0.5 and dtype == "f32" else x


def _root(w: Writer, base: Instruction) -> Instruction:
    """The power of 0.5: as the square root, but 0 of -0 and infinity of -infinity."""
    root = w.unary("sqrt", w.add(base, 0.0))
    return w.select(w.compare("EQ", base, -INFINITY), w.like(base, INFINITY), root)


SIMPLIFY: dict[str, Rule] = {
    "real": operand_if_alike,
    "convert": _convert,
    "add": _without_neutral(0),
    "subtract": _without_neutral(0, of_both=False),
    "or": _without_neutral(0),
    "multiply": _without_neutral(1),
    "power": _power,
}
