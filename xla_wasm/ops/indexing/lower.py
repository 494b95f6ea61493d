"""Slices and elements at positions known only at run time."""

from __future__ import annotations

from ...hlo.ir import Instruction
from ...loop.affine import ZERO, Affine, Index
from ...loop.builder import Builder
from ...loop.ir import Val
from ...loop.nest import nest, scalar_nest
from ..elemental import Elemental
from ..kernel import Kernel


def _start(b: Builder, start: Val, last: int) -> Affine:
    """A start index clamped to 0..last."""
    if last == 0:
        return ZERO
    if start.dtype in ("u64", "s64", "u32"):
        # Clamped in its own type: a large unsigned index is large, not negative.
        clamped = b.convert(b.min(b.max(start, b.const(start.dtype, 0)), b.const(start.dtype, last)), "s32")
    else:
        clamped = b.min(b.max(b.convert(start, "s32"), b.const("s32", 0)), b.const("s32", last))
    return Affine(0, (), ((clamped, 1),))


def dynamic_starts(e: Elemental, operands: list[Instruction], dims: tuple[int, ...], sizes: tuple[int, ...]) -> Index:
    """The clamped start indices of a dynamic-slice or dynamic-update-slice, from one scalar each."""
    return tuple(_start(e.b, e.value(o, ()), dim - size) for o, dim, size in zip(operands, dims, sizes))


def _dynamic_slice(e: Elemental, x: Instruction, index: Index) -> Val:
    operand, *starts = x.operands
    at = dynamic_starts(e, starts, operand.shape.dimensions, x.attrs["dynamic_slice_sizes"])
    return e.value(operand, tuple(i + s for i, s in zip(index, at)))


def dynamic_update_slice_kernel(k: Kernel, x: Instruction) -> None:
    """Writes the update into the result, which already holds the operand."""
    operand, update, *starts = x.operands
    if update.shape.size == 0:
        return
    at = dynamic_starts(k.e, starts, operand.shape.dimensions, update.shape.dimensions)
    nest(k.b, update.shape.dimensions, lambda index: k.store(x, tuple(i + s for i, s in zip(index, at)), k.e.value(update, index)))


def _index_vector(e: Elemental, indices: Instruction, batch: Index, vector_dim: int, component: int) -> Val:
    """One component of the index vector that belongs to a batch position."""
    if vector_dim == indices.shape.rank:
        return e.value(indices, batch)
    return e.value(indices, (*batch[:vector_dim], Affine(component), *batch[vector_dim:]))


def _gather(e: Elemental, x: Instruction, index: Index) -> Val:
    operand, indices = x.operands
    n = x.attrs["gather_dimension_numbers"]
    sizes, dims = x.attrs["slice_sizes"], operand.shape.dimensions
    batch = tuple(i for d, i in enumerate(index) if d not in n.offset_dims)
    offsets = iter(index[d] for d in n.offset_dims)
    skipped = (*n.collapsed_slice_dims, *n.operand_batching_dims)
    place: list[Affine] = [ZERO if d in skipped else next(offsets) for d in range(len(dims))]
    for operand_dim, indices_dim in zip(n.operand_batching_dims, n.start_indices_batching_dims):
        place[operand_dim] = batch[indices_dim - (indices_dim > n.index_vector_dim)]
    for component, d in enumerate(n.start_index_map):
        start = _index_vector(e, indices, batch, n.index_vector_dim, component)
        place[d] = place[d] + _start(e.b, start, dims[d] - sizes[d])
    return e.value(operand, tuple(place))


def scatter_kernel(k: Kernel, x: Instruction) -> None:
    """Combines each update into the result, which already holds the operands; what does not fit is dropped whole."""
    b, e = k.b, k.e
    count = len(x.operands) // 2
    operands, indices, updates = x.operands[:count], x.operands[count], x.operands[count + 1 :]
    n = x.attrs["scatter_dimension_numbers"]
    dims, update_dims = operands[0].shape.dimensions, updates[0].shape.dimensions
    if 0 in update_dims:
        return
    skipped = (*n.inserted_window_dims, *n.input_batching_dims)
    window_dims = [d for d in range(len(dims)) if d not in skipped]
    window = {d: update_dims[u] for d, u in zip(window_dims, n.update_window_dims)}
    batch_dims = [d for d in range(len(update_dims)) if d not in n.update_window_dims]

    def one(batch: Index) -> None:
        starts: list[Affine] = [ZERO] * len(dims)
        masks: list[Val] = []
        for operand_dim, indices_dim in zip(n.input_batching_dims, n.scatter_indices_batching_dims):
            starts[operand_dim] = batch[indices_dim - (indices_dim > n.index_vector_dim)]
        for component, d in enumerate(n.scatter_dims_to_operand_dims):
            raw = _index_vector(e, indices, batch, n.index_vector_dim, component)
            last = dims[d] - window.get(d, 1)
            if last < 0:
                masks.append(b.const("pred", False))
                continue
            if raw.dtype in ("s64", "u64"):
                inside = b.le(b.bitcast(raw, "u64"), b.const("u64", last))
                value = b.convert(raw, "s32")
            else:
                value = b.convert(raw, "s32")
                inside = b.le(b.bitcast(value, "u32"), b.const("u32", last))
            masks.append(inside)
            # Brought inside even so: what is computed from it before the test must not trap.
            clamped = b.min(b.max(value, b.const("s32", 0)), b.const("s32", last))
            starts[d] = starts[d] + Affine(0, (), ((b.pin(clamped), 1),))

        def combine(inner: Index) -> None:
            place = list(starts)
            for d, i in zip(window_dims, inner):
                place[d] = place[d] + i
            batch_iter, window_iter = iter(batch), iter(inner)
            update_index = tuple(next(batch_iter) if d in batch_dims else next(window_iter) for d in range(len(update_dims)))
            targets = k.outputs[x]
            spots = [t.position(tuple(place)) for t in targets]
            new = [e.value(u, update_index) for u in updates]
            old = [b.load(t.number, s, t.dtype) for t, s in zip(targets, spots)]
            for t, s, v in zip(targets, spots, [b.pin(v) if count > 1 else v for v in e.apply(x.called[0], old + new)]):
                b.store(t.number, s, v, t.dtype)

        def all_windows() -> None:
            nest(b, tuple(window[d] for d in window_dims), combine)

        if not masks:
            all_windows()
            return
        hit = masks[0]
        for mask in masks[1:]:
            hit = b.and_(hit, mask)
        with b.when(hit):
            all_windows()

    scalar_nest(b, tuple(update_dims[d] for d in batch_dims), one)


ELEMENTAL = {"dynamic-slice": _dynamic_slice, "gather": _gather}
KERNELS = {"dynamic-update-slice": dynamic_update_slice_kernel, "scatter": scatter_kernel}
