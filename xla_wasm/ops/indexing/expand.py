"""scatter as a loop over the updates' elements, where its computation is more than `lowering.apply` takes."""

from __future__ import annotations

from math import prod

from ...hlo.ir import Instruction
from ...lowering.apply import applies
from ...writing.writer import Rule, Writer
from ..reduce.expand import call


def _scatter(e: Writer, x: Instruction) -> Instruction:
    if applies(x.called[0]):
        return x
    count = len(x.operands) // 2
    operands, indices, updates = x.operands[:count], x.operands[count], x.operands[count + 1 :]
    n = x.attrs["scatter_dimension_numbers"]
    dims, sizes = operands[0].shape.dimensions, updates[0].shape.dimensions
    batch_dims = [d for d in range(len(sizes)) if d not in n.update_window_dims]
    window_dims = [d for d in range(len(dims)) if d not in (*n.inserted_window_dims, *n.input_batching_dims)]
    window = dict(zip(window_dims, n.update_window_dims))
    if n.index_vector_dim == indices.shape.rank:
        indices = e.reshape(indices, (*indices.shape.dimensions, 1))

    def body(c: Writer, trip: Instruction, *values: Instruction) -> list[Instruction]:
        wholes, given, starts = values[:count], values[count + 1 :], values[count]
        at = c.place(trip, sizes)
        batch = [at[d] for d in batch_dims]
        zero = c.scalar("s32", 0)
        place = [zero] * len(dims)
        inside = c.scalar("pred", 1)
        for operand_dim, indices_dim in zip(n.input_batching_dims, n.scatter_indices_batching_dims):
            place[operand_dim] = batch[indices_dim - (indices_dim > n.index_vector_dim)]
        for component, d in enumerate(n.scatter_dims_to_operand_dims):
            spot = [*batch[: n.index_vector_dim], c.scalar("s32", component), *batch[n.index_vector_dim :]]
            start = c.at(starts, spot)
            last = dims[d] - (sizes[window[d]] if d in window else 1)
            wide = c.convert(start, "u64" if start.shape.element_type == "u64" else "s64")
            inside = c.binary("and", inside, c.compare("LE", wide, last) if last >= 0 else c.scalar("pred", 0))
            if start.shape.element_type[0] == "s":
                inside = c.binary("and", inside, c.compare("GE", wide, 0))
            place[d] = c.convert(start, "s32")
        for d, u in window.items():
            place[d] = c.add(place[d], at[u])
        old = [c.at(w, place) for w in wholes]
        new = c.results(call(c, x, [*old, *(c.at(g, at) for g in given)]))
        kept = [c.select(inside, c.convert(v, o.shape.element_type), o) for v, o in zip(new, old)]
        return [*(c.put(w, k, place) for w, k in zip(wholes, kept)), starts, *given]

    results = list(operands)
    if prod(sizes) and prod(dims):
        results = e.for_(prod(sizes), [*operands, indices, *updates], body)[:count]
    return e.tuple(results) if x.shape.is_tuple else results[0]


EXPAND: dict[str, Rule] = {"scatter": _scatter}
