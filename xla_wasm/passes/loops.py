"""Values that a `while` does not change: users take them from before the loop, and a loop that changes nothing, or only
counts, goes.

A loop is taken to end, as XLA takes it: one whose state stays what it was is gone with its condition, whatever that
says.
"""

from __future__ import annotations

from ..hlo.ir import Computation, Instruction, Module
from ..ops.control.simplify import element as element_of_tuple
from ..ops.control.simplify_counting import counted, unchanged
from ..writing.writer import Writer
from .clean import has_effect
from .rewrite import rewrite_computation
from .simplify import simplify_computation


def simplify_loops(module: Module) -> None:
    """Replaces the unchanged elements of every loop's state. A loop inside another may leave more of that one
    unchanged."""
    callers: dict[Computation, int] = {}
    for x in module.instructions():
        for c in x.called:
            callers[c] = callers.get(c, 0) + 1
    for computation in module.computations:
        loops = [x for x in computation.instructions if x.opcode == "while"]
        for loop in loops:
            _carry_constants(loop, callers)
        if loops:
            _bypass_loops(computation)


def _carry_constants(loop: Instruction, callers: dict[Computation, int]) -> None:
    """Puts scalar constants that the loop carries along into its body and condition. More of the state may be unchanged
    then."""
    initial = loop.operands[0].elements
    if any(callers[c] > 1 for c in loop.called):
        return
    constants = {i: x for i, x in enumerate(initial) if x.literal is not None and not x.shape.rank}
    while found := {i: constants.pop(i) for i in unchanged(loop) if i in constants}:
        for computation in loop.called:
            _put_constants(computation, found)
        simplify_computation(loop.called[0])


def _put_constants(computation: Computation, values: dict[int, Instruction]) -> None:
    """Constants in place of elements of the one parameter, except where the root only hands these on."""
    (parameter,) = computation.parameters
    root, handed = computation.root, dict[Instruction, Instruction]()

    def element(w: Writer, x: Instruction) -> Instruction:
        if x.operands[0] is not parameter or x.attrs["index"] not in values:
            return x
        handed[x] = w.keep(x)
        constant = values[x.attrs["index"]]
        return w.again(constant, shape=constant.shape)

    before = list(root.elements)
    rewrite_computation(computation, {"get-tuple-element": element})
    root.elements[:] = [handed.get(o, new) for o, new in zip(before, root.elements)]


def _bypass_loops(computation: Computation) -> None:
    kept: dict[Instruction, list[int]] = {}

    def loop(w: Writer, x: Instruction) -> Instruction:
        kept[x] = unchanged(x)
        return _state_after(w, x, len(kept[x]))

    def element(w: Writer, x: Instruction) -> Instruction:
        (state,) = x.operands
        if x.attrs["index"] in kept.get(state, ()):
            x.operands = [*state.operands]  # as it is before the loop
        return element_of_tuple(w, x)

    rewrite_computation(computation, {"while": loop, "get-tuple-element": element})


def _state_after(w: Writer, loop: Instruction, kept: int) -> Instruction:
    """Returns the state after a loop that keeps `kept` elements of it; the loop itself if only running it tells."""
    if has_effect(loop):
        return loop
    body = loop.called[0]
    if body.root in body.parameters or (loop.shape.is_tuple and kept == len(loop.shape.tuple_shapes)):
        return loop.operands[0]
    left = counted(w, loop)
    if left is None:
        return loop
    return w.tuple(left) if loop.shape.is_tuple else left[0]
