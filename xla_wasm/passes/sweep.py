"""One sweep through a computation, which is what most passes are."""

from __future__ import annotations

from collections.abc import Callable

from ..hlo.ir import Computation, Instruction

Emit = Callable[[Instruction], Instruction]
"""Puts an instruction where the sweep stands, and gives it back."""


def sweep(computation: Computation, visit: Callable[[Instruction, Emit], Instruction]) -> None:
    """Rewrites a computation from its first instruction to its root.

    `visit` gets each instruction, on the operands that stand for its own by then, and emits what is to come before or in the
    place of it. It returns what stands for it from then on: the instruction itself, which then stays, or one that is there.
    """
    made: list[Instruction] = []
    replaced: dict[Instruction, Instruction] = {}
    emit = appending(made)
    for x in computation.instructions:
        x.operands = [replaced.get(o, o) for o in x.operands]
        y = visit(x, emit)
        if y is x:
            made.append(x)
        else:
            replaced[x] = y
    computation.root = replaced.get(computation.root, computation.root)
    computation.instructions = made


def appending(made: list[Instruction]) -> Emit:
    """An `Emit` at the end of a list."""

    def emit(x: Instruction) -> Instruction:
        made.append(x)
        return x

    return emit
