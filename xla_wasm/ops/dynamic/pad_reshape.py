"""Reshapes of arrays of which a part counts: what counts keeps its row-major order, so it may have to move."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...errors import counted
from ...hlo.ir import Instruction
from ...writing.writer import Index
from .pad_arrays import Extent, Padded, Rule, Size, SizeWriter, is_known

Groups = list[tuple[list[int], list[int]]]


def _reshape(w: SizeWriter, x: Instruction, extents: list[Extent]) -> Padded:
    """Dimensions fall into groups of equal products; in each, one dimension of the result takes up what the others
    leave."""
    (own,), before, after = extents, x.operands[0].shape.dimensions, x.shape.dimensions
    sizes: list[Size] = list(after)
    for sources, targets in groups_of(before, after):
        changed = [d for d in sources if not is_known(own[d], before[d])]
        takers = [d for d in targets if x.shape.dynamic and x.shape.dynamic[d]]
        if not changed or not takers and all(before[d] == 1 for d in changed):
            continue
        inferred = x.attrs.get("inferred_dimension")
        if len(takers) != 1 and inferred in targets:
            takers = [inferred]
        if len(takers) != 1:
            raise w.refuse(f"{counted(len(takers), 'dimension')} of the result could take up the dynamic sizes")
        others = prod(after[d] for d in targets if d != takers[0])
        sizes[takers[0]] = w.over(w.product(own[d] for d in sources), others)
    return Padded(_rearranged(w, x.operands[0], own, after, sizes, True), tuple(sizes))


def _dynamic_reshape(w: SizeWriter, x: Instruction, extents: list[Extent]) -> Padded:
    dims, flags = x.shape.dimensions, x.shape.dynamic or (False,) * x.shape.rank
    sizes = [w.clamped(w.size_of(o), bound) if flag else bound for o, bound, flag in zip(x.operands[1:], dims, flags)]
    return Padded(_rearranged(w, x.operands[0], extents[0], dims, sizes, False), tuple(sizes))


def groups_of(before: Index, after: Index) -> Groups:
    """The shortest runs of dimensions of both sides with equal products."""
    groups: Groups = []
    i = j = 0
    while i < len(before) or j < len(after):
        sources: list[int] = []
        targets: list[int] = []
        left = right = 1
        while not sources or not targets or left != right:
            if i < len(before) and (left <= right or j == len(after)):
                left *= before[i]
                sources.append(i)
                i += 1
            elif j < len(after):
                right *= after[j]
                targets.append(j)
                j += 1
            else:
                break
        if groups and not (sources and targets):
            # dimensions of one element are left over on one side
            groups[-1] = (groups[-1][0] + sources, groups[-1][1] + targets)
        else:
            groups.append((sources, targets))
    return groups


def _rearranged(
    w: SizeWriter, a: Instruction, own: Sequence[Size], dims: Index, sizes: Sequence[Size], fitting: bool
) -> Instruction:
    """The elements that count, in row-major order, as those of an array of other bounds and sizes."""
    before = a.shape.dimensions
    if 0 in before or 0 in dims or _in_place(w, before, own, dims, sizes, fitting):
        return w.reshape(a, dims)
    # the number of each element of the result among those that count, and where that one lies
    number = w.full("s32", dims, 0)
    for d, size in enumerate(sizes):
        number = w.add(w.mul(number, w.scalar_of(size)), w.iota("s32", dims, d))
    address = w.full("s32", dims, 0)
    stride = 1
    for d in reversed(range(len(before))):
        size = w.scalar_of(w.most(own[d], 1))
        address = w.add(address, w.mul(w.binary("remainder", number, size), stride))
        number = w.div(number, size)
        stride *= before[d]
    return w.take(w.reshape(a, (prod(before),)), address)


def _in_place(
    w: SizeWriter, before: Index, own: Sequence[Size], dims: Index, sizes: Sequence[Size], fitting: bool
) -> bool:
    """Returns True if the elements lie right already: no size but that of a group's first dimension is a stride of
    others.

    `fitting` says that both sides of each group hold equally many elements; otherwise only their totals agree.
    """
    unequal = 0
    for sources, targets in groups_of(before, dims):
        for group, bounds, actual in ((sources, before, own), (targets, dims, sizes)):
            inner = [d for d in group if bounds[d] > 1][1:]
            if not all(is_known(actual[d], bounds[d]) for d in inner):
                return False
        if not fitting:
            held, given = w.product(own[d] for d in sources), w.product(sizes[d] for d in targets)
            unequal += held is not given and held != given
    return unequal <= 1


RULES: dict[str, Rule] = {"reshape": _reshape, "dynamic-reshape": _dynamic_reshape}
