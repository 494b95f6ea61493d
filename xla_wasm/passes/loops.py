"""What a `while` does not change: its users take it from before the loop, and a loop that changes nothing, or only counts, goes.

A loop is taken to end, as XLA takes it: one whose state stays what it was is gone with its condition, whatever that says.
"""

from __future__ import annotations

from ..hlo.ir import Computation, Instruction, Module
from ..ops.writer import Writer
from .clean import has_effect
from .counting import counted, is_element
from .rewrite import rewrite_computation
from .simplify import simplify_computation


def settle_loops(module: Module) -> None:
    """Replaces the unchanged elements of every loop's state. A loop inside another may leave more of that one unchanged."""
    callers: dict[Computation, int] = {}
    for x in module.instructions():
        for c in x.called:
            callers[c] = callers.get(c, 0) + 1
    for computation in module.computations:
        loops = [x for x in computation.instructions if x.opcode == "while"]
        for loop in loops:
            _carry_constants(loop, callers)
        if loops:
            _settle(computation)


def _carry_constants(loop: Instruction, callers: dict[Computation, int]) -> None:
    """A scalar constant that the loop carries along stands in its body and condition instead. That may settle more."""
    initial, body = loop.operands[0], loop.called[0]
    if initial.opcode != "tuple" or any(callers[c] > 1 for c in loop.called):
        return
    known: set[int] = set()
    while True:
        found = {
            i: initial.operands[i]
            for i in _unchanged(loop)
            if i not in known and initial.operands[i].opcode == "constant" and initial.operands[i].shape.rank == 0
        }
        if not found:
            return
        known.update(found)
        for computation in loop.called:
            _put_constants(computation, found)
        simplify_computation(body)


def _put_constants(computation: Computation, values: dict[int, Instruction]) -> None:
    """Constants in place of elements of the one parameter, except where the root only hands these on."""

    def element(w: Writer, x: Instruction) -> Instruction:
        if x.operands[0].opcode != "parameter" or x.attrs["index"] not in values:
            return x
        handed[x] = w.keep(x)
        constant = values[x.attrs["index"]]
        return w.op("constant", shape=constant.shape, **constant.attrs)

    root, handed = computation.root, dict[Instruction, Instruction]()
    before = list(root.operands)
    rewrite_computation(computation, {"get-tuple-element": element})
    if root.opcode == "tuple":
        root.operands = [handed.get(o, new) for o, new in zip(before, root.operands)]


def _unchanged(loop: Instruction) -> list[int]:
    """The elements of the state that the body gives back as it got them, or as the constant that they were."""
    initial, root = loop.operands[0], loop.called[0].root
    if root.opcode != "tuple":
        return []
    before = initial.operands if initial.opcode == "tuple" else [None] * len(root.operands)
    return [i for i, (x, y) in enumerate(zip(root.operands, before)) if is_element(x, i) or (y is not None and _same_constant(x, y))]


def _same_constant(x: Instruction, y: Instruction) -> bool:
    if x.opcode != "constant" or y.opcode != "constant" or not x.shape.is_array:
        return False
    return bytes(x.attrs["literal"].data) == bytes(y.attrs["literal"].data)


def _settle(computation: Computation) -> None:
    unchanged: dict[Instruction, list[int]] = {}

    def loop(w: Writer, x: Instruction) -> Instruction:
        unchanged[x] = _unchanged(x)
        return _settled(w, x, len(unchanged[x]))

    def element(w: Writer, x: Instruction) -> Instruction:
        (state,), i = x.operands, x.attrs["index"]
        if i in unchanged.get(state, ()):
            (state,) = state.operands  # as it is before the loop
            x.operands = [state]
        return state.operands[i] if state.opcode == "tuple" else x

    rewrite_computation(computation, {"while": loop, "get-tuple-element": element})


def _settled(w: Writer, loop: Instruction, unchanged: int) -> Instruction:
    """What a loop leaves behind whose state has so many unchanged elements; itself where only running it tells."""
    if has_effect(loop):
        return loop
    if loop.called[0].root.opcode == "parameter" or (loop.shape.is_tuple and unchanged == len(loop.shape.tuple_shapes)):
        return loop.operands[0]
    left = counted(w, loop)
    if left is None:
        return loop
    return w.tuple(left) if loop.shape.is_tuple else left[0]
