"""Finds sorts of which only the first elements are used.

XLA:CPU makes the same of them: of f32 in falling order, with or without the places that the elements came from. The
result may differ from the sort's where it has a say in the order of zeros, NaNs and equal elements: topk goes by total
order, and of equal ones the first comes first.
"""

from __future__ import annotations

from ..hlo.ir import Computation, Instruction, Module
from ..ops.sort.first import first_parts
from ..writing.writer import Writer
from .rewrite import rewrite_computation


def find_topk(module: Module) -> None:
    """Makes a topk of every such sort."""
    for computation in module.computations:
        found = first_parts(computation)
        if found:
            _replace(computation, found)


def _replace(computation: Computation, found: dict[Instruction, dict[Instruction, int]]) -> None:
    best: dict[Instruction, Instruction] = {}

    def sort(w: Writer, x: Instruction) -> Instruction:
        if x not in found:
            return x
        (dim,) = x.attrs["dimensions"]
        leaves = _topk(w, x, next(iter(found[x])).attrs["slice"][dim].limit)
        best.update((part, leaves[leaf]) for part, leaf in found[x].items())
        return leaves[0]

    # Only the slices of a leaf are used, and these have something else.
    leaves = {x for x in computation.instructions if x.operands and x.operands[0] in found}
    rules = {
        "sort": sort,
        "slice": lambda w, x: best.get(x, x),
        "get-tuple-element": lambda w, x: x.operands[0] if x in leaves else x,
    }
    rewrite_computation(computation, rules, suffixed=True)


def _topk(e: Writer, x: Instruction, k: int) -> list[Instruction]:
    """The first `k` elements along the dimension that is sorted, and their places."""
    operand, (dim,) = x.operands[0], x.attrs["dimensions"]
    last = operand.shape.rank - 1
    turned = (1, 0) if dim != last else tuple(range(last + 1))
    rows = e.transpose(operand, turned)
    best = e.op("topk", rows, k=k, largest=True, is_stable=True)
    return [e.transpose(part, turned) for part in e.elements(best)]
