"""Removes instructions and computations that nothing needs. Parameters stay."""

from __future__ import annotations

from ..hlo.ir import Computation, Instruction, Module

SIDE_EFFECTS = frozenset(("infeed", "outfeed", "send", "send-done", "recv", "recv-done", "rng", "rng-get-and-update-state", "custom-call"))


def remove_dead(module: Module) -> None:
    """Drops what neither a root nor a side effect reaches."""
    for computation in module.computations:
        live: set[Instruction] = set()
        pending = [computation.root]
        pending += [x for x in computation.instructions if x.opcode == "parameter" or x.opcode in SIDE_EFFECTS]
        while pending:
            x = pending.pop()
            if x not in live:
                live.add(x)
                pending.extend(x.operands)
        computation.instructions = [x for x in computation.instructions if x in live]
    reachable: set[Computation] = set()
    stack = [module.entry]
    while stack:
        computation = stack.pop()
        if computation not in reachable:
            reachable.add(computation)
            stack.extend(c for x in computation.instructions for c in x.called)
    module.computations = [c for c in module.computations if c in reachable]
