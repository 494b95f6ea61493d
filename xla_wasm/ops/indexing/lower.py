"""Slices and elements at positions known only at run time."""

from __future__ import annotations

from functools import reduce

from ...hlo.ir import Instruction
from ...loop.affine import ZERO, Affine, Index
from ...loop.builder import Builder
from ...loop.ir import Val
from ...loop.nest import nest, scalar_nest
from ...lowering.elemental import Elemental
from ...lowering.kernel_writer import KernelWriter


def _start(b: Builder, start: Val, last: int) -> Affine:
    """A start index clamped to 0..last."""
    if last == 0:
        return ZERO
    if start.dtype not in ("u64", "s64", "u32"):  # those in their own type: a large unsigned index is not negative
        start = b.convert(start, "s32")
    return Affine.of(b.convert(b.clamped(start, last), "s32"))


def dynamic_starts(e: Elemental, operands: list[Instruction], dims: tuple[int, ...], sizes: tuple[int, ...]) -> Index:
    """The clamped start indices of a dynamic-slice or dynamic-update-slice, from one scalar each."""
    return tuple(_start(e.b, e.value(o, ()), dim - size) for o, dim, size in zip(operands, dims, sizes))


def _dynamic_slice(e: Elemental, x: Instruction, index: Index) -> Val:
    operand, *starts = x.operands
    at = dynamic_starts(e, starts, operand.shape.dimensions, x.attrs["dynamic_slice_sizes"])
    return e.value(operand, tuple(i + s for i, s in zip(index, at)))


def dynamic_update_slice_kernel(k: KernelWriter, x: Instruction) -> None:
    """Writes the update into the result, which already holds the operand."""
    operand, update, *starts = x.operands
    if update.shape.size == 0:
        return
    at = dynamic_starts(k.e, starts, operand.shape.dimensions, update.shape.dimensions)
    nest(
        k.b,
        update.shape.dimensions,
        lambda index: k.store(x, tuple(i + s for i, s in zip(index, at)), k.e.value(update, index)),
    )


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


def scatter_kernel(k: KernelWriter, x: Instruction) -> None:
    """Combines each update into the result, which already holds the operands; what does not fit is dropped whole."""
    scatter = _Scatter(k, x)
    dims = scatter.batch
    if 0 in scatter.update_dims:
        return
    if scatter.goes_in_lanes():
        scalar_nest(k.b, dims[:-1], lambda index: scatter.along(index, dims[-1]))
    else:
        scalar_nest(k.b, dims, scatter.one)


_FEW = 4
"""Reducers of more operations are not written out for each lane."""
_AHEAD = 2
"""Vectors of places that are computed before the first of their updates is combined."""


class _Scatter:
    """The kernel of a scatter, for the updates of one index vector."""

    def __init__(self, k: KernelWriter, x: Instruction):
        self.k, self.b, self.e, self.x = k, k.b, k.e, x
        self.count = count = len(x.operands) // 2
        self.indices, self.updates = x.operands[count], x.operands[count + 1 :]
        self.n = n = x.attrs["scatter_dimension_numbers"]
        self.dims, self.update_dims = x.operands[0].shape.dimensions, self.updates[0].shape.dimensions
        skipped = (*n.inserted_window_dims, *n.input_batching_dims)
        self.window_dims = [d for d in range(len(self.dims)) if d not in skipped]
        self.window = {d: self.update_dims[u] for d, u in zip(self.window_dims, n.update_window_dims)}
        self.batch_dims = [d for d in range(len(self.update_dims)) if d not in n.update_window_dims]
        self.batch = tuple(self.update_dims[d] for d in self.batch_dims)
        self.last = {d: self.dims[d] - self.window.get(d, 1) for d in n.scatter_dims_to_operand_dims}
        """The last places where a window fits, by dimension: there are some, as no kernel is of arrays without
        elements."""

    def goes_in_lanes(self) -> bool:
        """Returns True if the places of several updates are computed at once: of single elements, which are combined
        one after the other."""
        if self.b.lanes != 4 or self.count > 1 or len(self.x.called[0].instructions) > 2 + _FEW:
            return False
        single = all(size == 1 for size in self.window.values())
        return single and bool(self.last) and bool(self.batch) and self.batch[-1] >= _AHEAD * self.b.lanes

    # --- updates one by one -------------------------------------------------------------------------------------

    def one(self, batch: Index) -> None:
        """The updates at one index of the batch."""
        b = self.b
        starts, inside = self.place(batch)

        def windows() -> None:
            nest(
                b,
                tuple(self.window[d] for d in self.window_dims),
                lambda inner: self.combine(starts, inner, self.new(batch, inner)),
            )

        if not inside:
            windows()
            return
        with b.when(reduce(b.and_, inside)):
            windows()

    def place(self, batch: Index) -> tuple[list[Affine], list[Val]]:
        """Returns the place where the window of an index vector starts, brought inside, and what holds if it lies there
        by itself."""
        b, n = self.b, self.n
        starts: list[Affine] = [ZERO] * len(self.dims)
        inside: list[Val] = []
        for operand_dim, indices_dim in zip(n.input_batching_dims, n.scatter_indices_batching_dims):
            starts[operand_dim] = batch[indices_dim - (indices_dim > n.index_vector_dim)]
        for component, d in enumerate(n.scatter_dims_to_operand_dims):
            raw = _index_vector(self.e, self.indices, batch, n.index_vector_dim, component)
            last = self.last[d]
            value = b.convert(raw, "s32")
            # Brought inside even where it is not: what is computed from it before the test must not trap.
            clamped = b.pin(b.clamped(value, last))
            if raw.dtype in ("s64", "u64"):
                inside.append(b.le(b.bitcast(raw, "u64"), b.const("u64", last)))
            elif value.lanes > 1:
                inside.append(b.eq(value, clamped))
            else:
                inside.append(b.le(b.bitcast(value, "u32"), b.const("u32", last)))
            starts[d] = starts[d] + Affine.of(clamped)
        return starts, inside

    def new(self, batch: Index, inner: Index) -> list[Val]:
        """An element of each update."""
        batch_iter, window_iter = iter(batch), iter(inner)
        index = tuple(
            next(batch_iter) if d in self.batch_dims else next(window_iter) for d in range(len(self.update_dims))
        )
        return [self.e.value(u, index) for u in self.updates]

    def combine(self, starts: list[Affine], inner: Index, new: list[Val]) -> None:
        """Combines one element of each update with what lies at a place of the window."""
        b = self.b
        place = list(starts)
        for d, i in zip(self.window_dims, inner):
            place[d] = place[d] + i
        spots = [(t, t.position(tuple(place))) for t in self.k.outputs[self.x]]
        old = [b.load(t.number, s, t.dtype) for t, s in spots]
        made = self.e.apply(self.x.called[0], old + new)
        for (t, s), v in zip(spots, [b.pin(v) for v in made] if self.count > 1 else made):
            # Floats may come in another precision.
            b.store(t.number, s, b.convert(v, t.dtype), t.dtype)

    # --- updates of single elements, with their places in lanes -------------------------------------------------

    def along(self, index: Index, size: int) -> None:
        """The updates along the last dimension of the batch: some places at once, and one by one where any of them is
        outside."""
        b = self.b
        step = _AHEAD * b.lanes
        with b.open_loop(size // step, step, vector=True) as loop:
            first = Affine.along(loop)
            inner = (ZERO,) * len(self.window_dims)
            vectors = []
            outside: list[Val] = []
            for ahead in range(_AHEAD):
                batch = (*index, first + ahead * b.lanes)
                starts, inside = self.place(batch)
                outside += [b.not_(mask) for mask in inside]
                vectors.append((starts, self.new(batch, inner)))
            missed = reduce(b.or_, outside)
            b.vector = None
            missed = b.any_true(missed)
            with b.when(b.not_(missed)):
                for starts, new in vectors:
                    for lane in range(b.lanes):
                        self.combine([b.at_lane(s, loop, lane) for s in starts], inner, [b.lane(v, lane) for v in new])
            with b.when(missed), b.loop(step) as i:
                self.one((*index, first + i))
        if size % step:
            with b.loop(size % step) as i:
                self.one((*index, i + size // step * step))


ELEMENTAL = {"dynamic-slice": _dynamic_slice, "gather": _gather}
KERNELS = {"dynamic-update-slice": dynamic_update_slice_kernel, "scatter": scatter_kernel}
