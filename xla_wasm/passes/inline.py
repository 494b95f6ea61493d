"""Puts the bodies of calls, fusions and async wrappers in place of the instructions that call them, and whatever has
started in the place where it starts."""

from __future__ import annotations

from collections.abc import Callable

from ..hlo.ir import Instruction, Module
from ..hlo.literal import Literal
from ..hlo.shape import Shape
from .clone import copy_instruction
from .sweep import Emit, sweep

INLINED = ("call", "fusion", "async-start")
IDENTITIES = ("opt-barrier", "copy", "domain", "async-update")


def inline(module: Module) -> None:
    """Callees stand before callers, so one sweep in order leaves no nested call behind."""
    for computation in module.computations:
        sweep(computation, _inlined)


def _inlined(x: Instruction, emit: Emit) -> Instruction:
    if x.opcode in IDENTITIES:
        return x.operands[0]
    if x.opcode in _STARTED:
        return _STARTED[x.opcode](x, emit)
    if x.opcode not in INLINED:
        return x
    made: dict[Instruction, Instruction] = {}
    for y in x.called[0].instructions:
        if y.opcode == "parameter":
            made[y] = x.operands[y.attrs["parameter_number"]]
            continue
        copy = copy_instruction(y, [made[o] for o in y.operands])
        copy.name = f"{x.name}.{y.name}"
        made[y] = emit(copy)
    value = made[x.called[0].root]
    return _started(x, value, emit) if x.opcode == "async-start" else value


def _tuple(x: Instruction, elements: list[Instruction], emit: Emit) -> Instruction:
    shape = Shape.tuple([o.shape.without_layout() for o in elements])
    return emit(Instruction(x.name, "tuple", shape, elements, {}, [], x.metadata))


def context(x: Instruction, shape: Shape, emit: Emit) -> Instruction:
    """What a backend would keep between start and done: of the declared shape, and zero."""
    if shape.is_tuple:
        return _tuple(x, [context(x, s, emit) for s in shape.tuple_shapes], emit)
    scalar = Shape(shape.element_type)
    zero = emit(Instruction(f"{x.name}.context", "constant", scalar, [], {"literal": Literal.from_values(scalar, [0])}))
    if not shape.rank:
        return zero
    return emit(Instruction(f"{x.name}.context", "broadcast", shape.without_layout(), [zero], {"dimensions": ()}))


def _started(x: Instruction, value: Instruction, emit: Emit) -> Instruction:
    """((operands), result, context ...)"""
    contexts = [context(x, shape, emit) for shape in x.shape.tuple_shapes[2:]]
    return _tuple(x, [_tuple(x, list(x.operands), emit), value, *contexts], emit)


def _copy_start(x: Instruction, emit: Emit) -> Instruction:
    """(destination, source, context)"""
    (source,) = x.operands
    return _tuple(x, [source, source, context(x, x.shape.tuple_shapes[2], emit)], emit)


def _element(index: int) -> Callable[[Instruction, Emit], Instruction]:
    def rule(x: Instruction, emit: Emit) -> Instruction:
        shape = x.shape.without_layout()
        return emit(Instruction(x.name, "get-tuple-element", shape, list(x.operands), {"index": index}, [], x.metadata))

    return rule


_STARTED: dict[str, Callable[[Instruction, Emit], Instruction]] = {
    "copy-start": _copy_start,
    "copy-done": _element(0),
    "async-done": _element(1),
}

STRUCTURE = (*INLINED, *IDENTITIES, *_STARTED, "after-all", "add-dependency")
"""The opcodes that this pass and `forget_tokens` leave none of."""
