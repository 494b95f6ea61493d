"""A copy of a module whose instructions can be changed without touching the original. Literals are shared."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy

from ..hlo.ir import Computation, Instruction, Module


def clone(module: Module) -> Module:
    """A deep copy of the graph."""
    copies: dict[Computation, Computation] = {}
    for computation in module.computations:
        copies[computation] = copy_computation(computation, copies.__getitem__)
    result = Module(module.name, list(copies.values()), copies[module.entry])
    for name, value in vars(module).items():
        if name not in ("computations", "entry"):
            setattr(result, name, copy(value) if isinstance(value, list | dict) else value)
    return result


def copy_computation(computation: Computation, callee: Callable[[Computation], Computation]) -> Computation:
    """A copy that calls `callee(c)` in the place of each computation c."""
    made: dict[Instruction, Instruction] = {}
    for x in computation.instructions:
        copied = made[x] = x.on([made[o] for o in x.operands])
        if x.called:
            copied.called = [callee(c) for c in x.called]
        if x.control_predecessors:
            copied.control_predecessors = [made[p] for p in x.control_predecessors]
    result = copy(computation)
    result.instructions, result.root = list(made.values()), made[computation.root]
    return result
