"""Gather, scatter and slices at computed places, of arrays of which a part counts. Places are clamped to the bounds."""

from __future__ import annotations

from ...hlo.attrs import GatherDimensionNumbers, PaddingDimension, ScatterDimensionNumbers
from ...hlo.infer import PRED
from ...hlo.ir import Instruction
from ...hlo.types import TYPES
from ...writing.writer import Writer
from .pad_arrays import Extent, Padded, Rule, Size, SizeWriter, is_known


def _gather(w: SizeWriter, x: Instruction, extents: list[Extent]) -> Padded:
    """A slice as large as a dimension is the dimension, whatever its size; smaller ones are whole."""
    n: GatherDimensionNumbers = x.attrs["gather_dimension_numbers"]
    operand, indices = x.operands
    own, listed = extents
    windows = [
        d for d in range(operand.shape.rank) if d not in n.collapsed_slice_dims and d not in n.operand_batching_dims
    ]
    batch = _batch(w, indices, listed, n.index_vector_dim)
    for d, place in zip(n.operand_batching_dims, n.start_indices_batching_dims):
        batch[place] = w.agreed([batch[place], own[d]], operand.shape.dimensions[d])
    inner = iter(
        [
            own[d] if x.attrs["slice_sizes"][d] == operand.shape.dimensions[d] else x.attrs["slice_sizes"][d]
            for d in windows
        ]
    )
    outer = iter(batch.values())
    return Padded(w.clone(x), tuple(next(inner) if d in n.offset_dims else next(outer) for d in range(x.shape.rank)))


def _batch(w: SizeWriter, indices: Instruction, listed: Extent, vector: int) -> dict[int, Size]:
    """The sizes of the dimensions of indices, but for that of the index vectors."""
    if vector < indices.shape.rank and not is_known(listed[vector], indices.shape.dimensions[vector]):
        raise w.refuse("index vectors of dynamic length are not supported")
    return {d: size for d, size in enumerate(listed) if d != vector}


def _scatter(w: SizeWriter, x: Instruction, extents: list[Extent]) -> Padded:
    """Updates that do not count get an index outside of the operand, where they are dropped.

    Where a part of each window does not count, a flag goes with every element of the updates.
    """
    n: ScatterDimensionNumbers = x.attrs["scatter_dimension_numbers"]
    count = len(x.operands) // 2
    operands, indices, updates = x.operands[:count], x.operands[count], x.operands[count + 1 :]
    dims = operands[0].shape.dimensions
    own = [w.agreed([e[d] for e in extents[:count]], bound) for d, bound in enumerate(dims)]
    given = [
        w.agreed([e[d] for e in extents[count + 1 :]], bound) for d, bound in enumerate(updates[0].shape.dimensions)
    ]
    windows = [d for d in range(len(dims)) if d not in n.inserted_window_dims and d not in n.input_batching_dims]
    partial = [
        place
        for place, d in zip(n.update_window_dims, windows)
        if not is_known(given[place], updates[0].shape.dimensions[place])
    ]
    if any(windows[n.update_window_dims.index(place)] in n.scatter_dims_to_operand_dims for place in partial):
        raise w.refuse("updates with windows of dynamic size are supported only where no index moves them")
    outer = [given[d] for d in range(len(given)) if d not in n.update_window_dims]
    batch = _batch(w, indices, extents[count], n.index_vector_dim)
    sizes: list[Size] = list(indices.shape.dimensions)
    for (d, size), update in zip(batch.items(), outer):
        sizes[d] = w.agreed([size, update], indices.shape.dimensions[d])
    live = w.live(indices.shape.dimensions, sizes)
    if live is not None and n.scatter_dims_to_operand_dims:
        kind = TYPES[indices.shape.element_type]
        wide = w.convert(indices, "s32" if kind.bits < 32 or kind.name == "s32" else "s64")
        indices = w.select(live, wide, -1)
    elif live is not None:
        partial = [d for d in range(len(given)) if not is_known(given[d], updates[0].shape.dimensions[d])]
    flags = w.live(updates[0].shape.dimensions, given, partial)
    extent = tuple(tuple(own) for _ in operands) if x.shape.is_tuple else tuple(own)
    if flags is None:
        return Padded(w.clone(x, [*operands, indices, *updates]), extent)
    return Padded(_flagged(w, x, operands, indices, updates, flags), extent)


def _flagged(
    w: SizeWriter,
    x: Instruction,
    operands: list[Instruction],
    indices: Instruction,
    updates: list[Instruction],
    flags: Instruction,
) -> Instruction:
    """A scatter that leaves alone what an update without its flag would change."""
    count = len(operands)
    shapes = [p.shape for p in x.called[0].parameters]

    def update(e: Writer, *p: Instruction) -> Instruction:
        old, new, flag = p[:count], p[count + 1 : -1], p[-1]
        changed = e.results(e.inline(x.called[0], [*old, *new]))
        return e.tuple(
            [*(e.select(flag, c, e.convert(o, c.shape.element_type)) for c, o in zip(changed, old)), p[count]]
        )

    dims = operands[0].shape.dimensions
    called = [w.computation("flagged", [*shapes[:count], PRED, *shapes[count:], PRED], update)]
    made = w.again(x, *operands, w.full("pred", dims, 0), indices, *updates, flags, called=called)
    parts = w.elements(made)[:count]
    return w.tuple(parts) if x.shape.is_tuple else parts[0]


def _dynamic_slice(w: SizeWriter, x: Instruction, extents: list[Extent]) -> Padded:
    sliced, bounds = x.attrs["dynamic_slice_sizes"], x.operands[0].shape.dimensions
    return Padded(
        w.clone(x), tuple(own if size == bound else size for own, size, bound in zip(extents[0], sliced, bounds))
    )


def _dynamic_update_slice(w: SizeWriter, x: Instruction, extents: list[Extent]) -> Padded:
    """Of an update only what counts lands, at the nearest place where that fits."""
    array, update = x.operands[:2]
    dims, part = array.shape.dimensions, update.shape.dimensions
    live = w.live(part, extents[1])
    if live is None:
        return Padded(w.clone(x), extents[0])
    starts = x.operands[2:]
    if len(starts) != len(dims) or any(s.shape.dimensions for s in starts):
        raise w.refuse("a dynamic update at an index vector is not supported")
    places = []
    for start, bound, size in zip(starts, dims, extents[1]):
        start = w.convert(start, "s32") if TYPES[start.shape.element_type].bits < 32 else start
        most = w.convert(w.scalar_of(w.minus(bound, size)), start.shape.element_type)
        places.append(w.binary("maximum", w.binary("minimum", start, most), 0))
    longer = w.pad(array, w.scalar(array.shape.element_type, 0), [PaddingDimension(0, size) for size in part])
    chosen = w.select(live, update, w.dynamic_slice(longer, places, part))
    return Padded(w.slice(w.dynamic_update_slice(longer, chosen, places), (0,) * len(dims), dims), extents[0])


RULES: dict[str, Rule] = {
    "gather": _gather,
    "scatter": _scatter,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
}
