"""The bodies of calls, fusions and async wrappers in the place of the instructions that call them, and whatever has
started in the place where it starts."""

from __future__ import annotations

from ...hlo.ir import Instruction
from ...hlo.shape import Shape
from ...writing.writer import Rule, Writer, walk
from ..table import OPS


def _called(w: Writer, x: Instruction) -> Instruction:
    """The root of the computation that `x` calls, written here."""

    def copied(y: Instruction, operands: list[Instruction]) -> Instruction:
        copy = w.clone(y, operands)
        copy.name = f"{x.name}.{y.name}"
        return copy

    computation = x.called[0]
    return walk(computation.instructions, copied, dict(zip(computation.parameters, x.operands)))[computation.root]


def _operand(w: Writer, x: Instruction) -> Instruction:
    return x.operands[0]


def _context(w: Writer, shape: Shape) -> Instruction:
    """Returns the context that a backend would keep between start and done: zeros of the declared shape."""
    if shape.is_tuple:
        return w.tuple([_context(w, s) for s in shape.tuple_shapes])
    made = w.full(shape.element_type, shape.dimensions, 0) if shape.rank else w.scalar(shape.element_type, 0)
    made.name = f"{w.x.name}.context"
    return made


def _async_start(w: Writer, x: Instruction) -> Instruction:
    """((operands), result, context ...)"""
    value = _called(w, x)
    contexts = [_context(w, shape) for shape in x.shape.tuple_shapes[2:]]
    return w.tuple([w.tuple(x.operands), value, *contexts])


def _copy_start(w: Writer, x: Instruction) -> Instruction:
    """(destination, source, context)"""
    (source,) = x.operands
    return w.tuple([source, source, _context(w, x.shape.tuple_shapes[2])])


def _element(index: int) -> Rule:
    return lambda w, x: w.element(x.operands[0], index)


INLINE: dict[str, Rule] = {
    **dict.fromkeys(("call", "fusion"), _called),
    **{opcode: _operand for opcode, op in OPS.items() if op.identity},
    "copy": _operand,
    "async-start": _async_start,
    "async-done": _element(1),
    "copy-start": _copy_start,
    "copy-done": _element(0),
}
