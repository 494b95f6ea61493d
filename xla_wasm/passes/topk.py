"""Finds sorts of which only the first elements are used.

XLA:CPU makes the same of them: of f32 in falling order, with or without the places that the elements came from. The result
may differ from the sort's where it has a say in the order of zeros, NaNs and equal elements: topk goes by total order, and
of equal ones the first comes first.
"""

from __future__ import annotations

from ..hlo.ir import Computation, Instruction, Module
from ..ops.writer import Writer
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
    elements = {x for x in computation.instructions if x.opcode == "get-tuple-element" and x.operands[0] in found}
    rules = {
        "sort": sort,
        "slice": lambda w, x: best.get(x, x),
        "get-tuple-element": lambda w, x: x.operands[0] if x in elements else x,
    }
    rewrite_computation(computation, rules, suffixed=True)


def first_parts(computation: Computation) -> dict[Instruction, dict[Instruction, int]]:
    """Such sorts, each with the slices that are all the use there is of it, and the numbers of their leaves."""
    sorts = [x for x in computation.instructions if x.opcode == "sort"]
    if not sorts:
        return {}
    users: dict[Instruction, list[Instruction]] = {x: [] for x in computation.instructions}
    for x in computation.instructions:
        for o in dict.fromkeys(x.operands):
            users[o].append(x)
    found = {x: _first_parts(x, users, computation.root) for x in sorts}
    return {x: parts for x, parts in found.items() if parts}


def _first_parts(x: Instruction, users: dict[Instruction, list[Instruction]], root: Instruction) -> dict[Instruction, int]:
    """As `first_parts`, of one sort; none where topk does not do."""
    (dim,) = x.attrs["dimensions"]
    data, *others = x.operands
    if data.shape.element_type != "f32" or data.shape.rank not in (1, 2) or len(others) > 1 or not _falling(x.called[0]):
        return {}
    leaves = [(x, 0)] if not x.shape.is_tuple else [(user, user.attrs.get("index", 0)) for user in users[x]]
    parts = {part: leaf for holder, leaf in leaves for part in users[holder]}
    if x is root or any(holder is root for holder, _ in leaves) or not parts:
        return {}
    if any(leaf == 1 for _, leaf in leaves) and not (others[0].opcode == "iota" and _counts(others[0], dim)):
        return {}
    length = data.shape.dimensions[dim]
    limits = {part.attrs["slice"][dim].limit for part in parts if part.opcode == "slice"}
    for part in parts:
        if part.opcode != "slice" or any(s.start != 0 or s.stride != 1 for s in part.attrs["slice"]):
            return {}
        if any(s.limit != size for d, (s, size) in enumerate(zip(part.attrs["slice"], data.shape.dimensions)) if d != dim):
            return {}
    return parts if len(limits) == 1 and max(limits) < length else {}


def _counts(iota: Instruction, dim: int) -> bool:
    return bool(iota.shape.element_type == "s32" and iota.attrs["iota_dimension"] == dim)


def _falling(comparator: Computation) -> bool:
    """Whether the greater of the first operand's elements goes first."""
    root = comparator.root
    return bool(
        root.opcode == "compare"
        and root.attrs["direction"] == "GT"
        and [o.attrs.get("parameter_number") if o.opcode == "parameter" else None for o in root.operands] == [0, 1]
    )


def _topk(e: Writer, x: Instruction, k: int) -> list[Instruction]:
    """The first `k` elements along the dimension that is sorted, and their places."""
    operand, (dim,) = x.operands[0], x.attrs["dimensions"]
    last = operand.shape.rank - 1
    turned = (1, 0) if dim != last else tuple(range(last + 1))
    rows = e.transpose(operand, turned)
    best = e.op("topk", rows, k=k, largest=True, is_stable=True)
    return [e.transpose(part, turned) for part in e.elements(best)]
