"""Sorts of which only the first elements are used."""

from __future__ import annotations

from ...hlo.attrs import SliceDimension
from ...hlo.ir import Computation, Instruction


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


def _first_parts(
    x: Instruction, users: dict[Instruction, list[Instruction]], root: Instruction
) -> dict[Instruction, int]:
    """As `first_parts`, of one sort; none where topk does not do."""
    (dim,) = x.attrs["dimensions"]
    data, *others = x.operands
    if (
        data.shape.element_type != "f32"
        or data.shape.rank not in (1, 2)
        or len(others) > 1
        or compared(x.called[0]) != "GT"
    ):
        return {}
    # Of several operands each element of the tuple has to be taken by itself.
    leaves = {user: user.attrs.get("index") for user in users[x]} if x.shape.is_tuple else {x: 0}
    if root in (x, *leaves) or None in leaves.values():
        return {}
    if 1 in leaves.values() and not _counts(others[0], dim):
        return {}
    parts = {part: leaf for holder, leaf in leaves.items() if leaf is not None for part in users[holder]}
    bounds = {part.attrs.get("slice") for part in parts}
    kept = bounds.pop() if len(bounds) == 1 else None
    if kept is None:
        return {}
    wanted = [SliceDimension(0, size) for size in data.shape.dimensions]
    wanted[dim] = SliceDimension(0, kept[dim].limit)
    return parts if kept == tuple(wanted) and kept[dim].limit < data.shape.dimensions[dim] else {}


def _counts(x: Instruction, dim: int) -> bool:
    """Returns True if an operand holds the place of each element along the dimension."""
    return x.shape.element_type == "s32" and x.attrs.get("iota_dimension") == dim


def compared(comparator: Computation) -> str:
    """The direction in which a comparator compares its first two parameters; "" where it is more than a comparison, or
    of others."""
    root = comparator.root
    numbers = [o.attrs.get("parameter_number") for o in root.operands]
    return root.attrs["direction"] if root.opcode == "compare" and numbers == [0, 1] else ""
