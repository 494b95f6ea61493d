"""Operations that a device can carry out on its own shards: along some dimensions each element is computed by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from ..hlo.attrs import DotDimensionNumbers, PaddingDimension, SliceDimension
from ..hlo.ir import Instruction
from ..hlo.shape import Index
from ..ops.elementwise.record import OPS as ELEMENTWISE

Map = tuple[int | None, ...]
"""For each dimension of an operand, the dimension of the result that it becomes, index for index; None: it is mixed or cut."""


def dimension_maps(x: Instruction) -> list[Map] | None:
    """A map for each operand; None if the operation has to see its operands whole."""
    rule = _RULES.get(x.opcode)
    return rule(x) if rule else None


def fit(local: Instruction, x: Instruction, sizes: Sequence[int]) -> None:
    """Gives `local`, which does to shards what `x` does to whole arrays, the attributes for a result of these sizes."""
    if x.opcode == "dynamic-slice":
        local.attrs["dynamic_slice_sizes"] = tuple(sizes)
    elif x.opcode == "slice":
        limits = zip(x.attrs["slice"], x.operands[0].shape.dimensions, sizes)
        local.attrs["slice"] = tuple(SliceDimension(0, size) if _is_full(d, full) else d for d, full, size in limits)


def _pointwise(x: Instruction) -> list[Map]:
    rank = max((s.rank for _, s in x.shape.leaves()), default=0)
    # clamp and select take scalars beside arrays
    return [tuple(range(rank)) if o.shape.rank == rank else () for o in x.operands]


def _along(kept: Callable[[Instruction, int], bool]) -> Callable[[Instruction], list[Map]]:
    """Operands of the result's rank, whose kept dimensions are the result's."""

    def rule(x: Instruction) -> list[Map]:
        return [tuple(d if kept(x, d) else None for d in range(o.shape.rank)) for o in x.operands]

    return rule


def _broadcast(x: Instruction) -> list[Map]:
    return [x.attrs["dimensions"]]


def _transpose(x: Instruction) -> list[Map]:
    return [tuple(x.attrs["dimensions"].index(d) for d in range(x.shape.rank))]


def _reshape(x: Instruction) -> list[Map]:
    """The dimensions that keep their size, with the same product of sizes before them."""
    before: dict[tuple[int, int], int] = {}
    for d, size in enumerate(x.shape.dimensions):
        if size > 1:
            before[prod(x.shape.dimensions[:d]), size] = d
    own = x.operands[0].shape.dimensions
    return [tuple(before.get((prod(own[:d]), size)) for d, size in enumerate(own))]


def _reduce(x: Instruction) -> list[Map]:
    half = len(x.operands) // 2
    rank = x.operands[0].shape.rank
    kept = [d for d in range(rank) if d not in x.attrs["dimensions"]]
    return [tuple(kept.index(d) if d in kept else None for d in range(rank))] * half + [()] * half


def _is_full(d: SliceDimension, size: int) -> bool:
    return (d.start, d.limit, d.stride) == (0, size, 1)


def _slice(x: Instruction, d: int) -> bool:
    return _is_full(x.attrs["slice"][d], x.operands[0].shape.dimensions[d])


def _untouched(x: Instruction, d: int) -> bool:
    """dynamic-slice and dynamic-update-slice: whether the slice spans the dimension."""
    part = x.shape if x.opcode == "dynamic-slice" else x.operands[1].shape
    return part.dimensions[d] == x.operands[0].shape.dimensions[d]


def _dynamic(x: Instruction) -> list[Map]:
    arrays = 1 if x.opcode == "dynamic-slice" else 2
    rank = x.shape.rank
    # A vector of all start indices is the older form.
    return [tuple(d if _untouched(x, d) else None for d in range(rank))] * arrays + [(None,) * o.shape.rank for o in x.operands[arrays:]]


def _pad(x: Instruction) -> list[Map]:
    return [tuple(d if p == PaddingDimension() else None for d, p in enumerate(x.attrs["padding"])), ()]


def _dot(x: Instruction) -> list[Map]:
    numbers: DotDimensionNumbers = x.attrs["dot_dimension_numbers"]
    batch = [numbers.lhs_batch_dimensions, numbers.rhs_batch_dimensions]
    contracting = [numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions]
    free: list[Index] = [
        tuple(d for d in range(o.shape.rank) if d not in b and d not in c) for o, b, c in zip(x.operands, batch, contracting)
    ]
    begins = (len(batch[0]), len(batch[0]) + len(free[0]))
    maps: list[Map] = []
    for o, own_batch, own_free, begin in zip(x.operands, batch, free, begins):
        to = {d: i for i, d in enumerate(own_batch)} | {d: begin + i for i, d in enumerate(own_free)}
        maps.append(tuple(to.get(d) for d in range(o.shape.rank)))
    return maps


_unlisted = _along(lambda x, d: d not in x.attrs["dimensions"])

_RULES: dict[str, Callable[[Instruction], list[Map]]] = {
    **dict.fromkeys((op.opcode for op in ELEMENTWISE if op.opcode not in ("iota", "constant", "bitcast-convert")), _pointwise),
    **dict.fromkeys(("copy", "map"), _pointwise),
    "broadcast": _broadcast,
    "transpose": _transpose,
    "reshape": _reshape,
    "reduce": _reduce,
    "slice": _along(_slice),
    **dict.fromkeys(("dynamic-slice", "dynamic-update-slice"), _dynamic),
    **dict.fromkeys(("concatenate", "reverse", "sort"), _unlisted),
    "pad": _pad,
    "dot": _dot,
}
