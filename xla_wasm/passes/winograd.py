"""Convolutions may take Winograd's algorithms if their transformed weights leave room in the memory."""

from __future__ import annotations

from ..hlo.ir import Instruction, Module
from ..hlo.signature import leaf_of
from ..hlo.types import TYPES
from ..ops.conv.canonical import winograd_tile_before
from ..ops.dot.stored import is_widening
from ..ops.reading import record
from .weight_formats import IN_BLOCKS, INT8

ROOM = 2 << 30
"""Bytes that weights may take with those that are transformed beside them: half of what a memory holds, so that arrays
of a run have the other half."""

_BITS = {**dict.fromkeys(("bf16", "f16"), 16), INT8: 8, **dict.fromkeys(IN_BLOCKS, 5)}


def limit_winograd(module: Module) -> None:
    """Has convolutions by weights compute directly where all transformed weights would take too much, those first that
    use theirs for the fewest results: they gain the least by them."""
    taking = [(x, tile) for x in module.entry.instructions if (tile := winograd_tile_before(x))]
    if not taking:
        return
    weights = _Weights(module)
    costs: dict[Instruction, int] = {}
    for x, tile in taking:
        kernel = x.operands[1]
        if weights.decide(kernel):
            copied = kernel.shape.size if is_widening(kernel) else 0
            costs[kernel] = 4 * (kernel.shape.size * (tile + 2) ** 2 // 9 + copied)
    total = weights.stored + sum(costs.values())
    results: dict[Instruction, float] = {}
    for x, _ in taking:
        kernel = x.operands[1]
        results[kernel] = max(results.get(kernel, 0.0), x.shape.size / kernel.shape.size)
    refused: set[Instruction] = set()
    for kernel in sorted(costs, key=results.__getitem__):
        if total <= ROOM:
            break
        total -= costs[kernel]
        refused.add(kernel)
    for x, _ in taking:
        if x.operands[1] in refused:
            x.mark(winograd=0)


class _Weights:
    """The weights of a module."""

    def __init__(self, module: Module) -> None:
        formats = {(p, i): name for p in module.entry.parameters for i, name in p.marks.stored_leaves}
        leaves = {(p, i): leaf for p in module.entry.parameters for i, leaf in p.shape.leaves()}
        self.places = {(p, i) for p in module.entry.parameters for i in p.marks.weight_leaves}
        self.stored = sum(
            leaves[place].size * _BITS.get(formats.get(place, ""), TYPES[leaves[place].element_type].bits) // 8
            for place in self.places
        ) + sum(x.shape.bytes for x in module.instructions() if x.literal is not None)
        """The bytes of weights and constants, as they are stored."""

    def decide(self, x: Instruction) -> bool:
        """Returns True if an array depends on weights and constants alone, so that it is transformed once."""
        pending = [x]
        seen = set()
        while pending:
            y = pending.pop()
            if y in seen or y.literal is not None or leaf_of(y) in self.places:
                continue
            seen.add(y)
            about = record(y)
            if about.effect or about.control or (not y.operands and y.opcode != "iota"):
                return False
            pending += y.operands
        return True
