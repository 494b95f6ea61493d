"""Operations that a device can carry out on its own shards: along some dimensions each element is computed by
itself."""

from __future__ import annotations

from collections.abc import Sequence

from ..hlo.attrs import SliceDimension
from ..hlo.ir import Instruction
from ..hlo.op import Kind, Read
from ..ops.reading import reads

Map = tuple[int | None, ...]
"""For each dimension of an operand, the dimension of the result that it becomes, index for index; None: it is mixed or
cut."""


def dimension_maps(x: Instruction) -> list[Map] | None:
    """A map for each operand; None if the operation has to see its operands whole."""
    read = reads(x)
    # The slices of a gather have sizes that belong to the whole operand.
    if all(r.kind is Kind.WHOLE for r in read) or "slice_sizes" in x.attrs:
        return None
    rank = max(s.rank for _, s in x.shape.leaves())
    maps = [_dimensions(r, o.shape.rank, rank) for r, o in zip(read, x.operands)]
    if any(x.attrs.get(count, 1) != 1 for count in ("feature_group_count", "batch_group_count")):
        # Which group of the input an output feature takes depends on how many there are in all.
        maps[1] = (None,) * len(maps[1])
    return maps


def _dimensions(read: Read, operand: int, rank: int) -> Map:
    m = read.map
    found = [m.dimension(c, size) for c, size in zip(m.coordinates, m.dims)]
    if read.kind is Kind.PLACED:
        return tuple(found.index(d) if d in found else None for d in range(operand))
    return tuple(None if d is None or d >= rank else d for d in found)


def fit(local: Instruction, x: Instruction, sizes: Sequence[int]) -> None:
    """Gives `local`, which does to shards what `x` does to whole arrays, the attributes for a result of these sizes."""
    if "dynamic_slice_sizes" in x.attrs:
        local.attrs["dynamic_slice_sizes"] = tuple(sizes)
    if "slice" in x.attrs:
        whole = zip(x.attrs["slice"], x.operands[0].shape.dimensions, sizes)
        local.attrs["slice"] = tuple(
            SliceDimension(0, size) if b == SliceDimension(0, full) else b for b, full, size in whole
        )
