"""Puts the bodies of calls, fusions and async wrappers in place of the instructions that call them, and whatever has
started in the place where it starts."""

from __future__ import annotations

from ..hlo.ir import Instruction, Module
from ..hlo.shape import Shape
from ..ops.table import OPS
from ..ops.writer import Rule, Writer, walk
from .rewrite import rewrite


def inline(module: Module) -> None:
    """Callees stand before callers, so one sweep in order leaves no nested call behind."""
    rewrite(module, _RULES)


def _called(w: Writer, x: Instruction) -> Instruction:
    """The root of the computation that `x` calls, written here."""

    def copied(y: Instruction, operands: list[Instruction]) -> Instruction:
        copy = w.again(y, operands)
        copy.name = f"{x.name}.{y.name}"
        return copy

    computation = x.called[0]
    return walk(computation.instructions, copied, dict(zip(computation.parameters, x.operands)))[computation.root]


def _operand(w: Writer, x: Instruction) -> Instruction:
    return x.operands[0]


def context(w: Writer, shape: Shape) -> Instruction:
    """What a backend would keep between start and done: of the declared shape, and zero."""
    if shape.is_tuple:
        return w.tuple([context(w, s) for s in shape.tuple_shapes])
    made = w.full(shape.element_type, shape.dimensions, 0) if shape.rank else w.scalar(shape.element_type, 0)
    made.name = f"{w.x.name}.context"
    return made


def _async_start(w: Writer, x: Instruction) -> Instruction:
    """((operands), result, context ...)"""
    value = _called(w, x)
    contexts = [context(w, shape) for shape in x.shape.tuple_shapes[2:]]
    return w.tuple([w.tuple(x.operands), value, *contexts])


def _copy_start(w: Writer, x: Instruction) -> Instruction:
    """(destination, source, context)"""
    (source,) = x.operands
    return w.tuple([source, source, context(w, x.shape.tuple_shapes[2])])


def _element(index: int) -> Rule:
    return lambda w, x: w.element(x.operands[0], index)


_RULES: dict[str, Rule] = {
    **dict.fromkeys(("call", "fusion"), _called),
    **{opcode: _operand for opcode, op in OPS.items() if op.identity},
    "copy": _operand,
    "async-start": _async_start,
    "async-done": _element(1),
    "copy-start": _copy_start,
    "copy-done": _element(0),
}

STRUCTURE = (*_RULES, "after-all")
"""The opcodes that this pass and `forget_tokens` leave none of."""
