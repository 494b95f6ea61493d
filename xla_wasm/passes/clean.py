"""Removes instructions and computations that nothing needs. Parameters stay."""

from __future__ import annotations

from ..hlo.ir import Computation, Instruction, Module, callees
from ..ops.reading import record
from ..ops.table import RECORDS


def remove_dead(module: Module) -> None:
    """Drops what neither a root nor a side effect reaches."""
    effects: dict[Computation, bool] = {}
    for computation in module.computations:
        # Callees stand before callers.
        kept = [
            x
            for x in computation.instructions
            if (x.opcode in _EFFECTS and _has_effect(x)) or (x.called and any(effects[c] for c in x.called))
        ]
        effects[computation] = bool(kept)
        live = {computation.root, *kept, *computation.parameters}
        for x in reversed(computation.instructions):
            if x in live:
                live.update(x.operands)
        computation.instructions = [x for x in computation.instructions if x in live]
    reachable = {module.entry, *callees(module.entry.instructions)}
    module.computations = [c for c in module.computations if c in reachable]


_EFFECTS = frozenset([op.opcode for op in RECORDS.values() if op.effect]) | {"custom-call"}
"""Operations that may have effects."""


def has_effect(x: Instruction) -> bool:
    """Returns True if running an instruction does more than give its value, be it in what it calls."""
    return _has_effect(x) or any(has_effect(y) for c in x.called for y in c.instructions)


def _has_effect(x: Instruction) -> bool:
    return record(x).effect or bool(x.attrs.get("custom_call_has_side_effect"))
