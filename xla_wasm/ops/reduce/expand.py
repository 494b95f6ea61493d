"""scan as a loop; reduce and map as loops over elements, where their computation is more than `lowering.apply`
takes."""

from __future__ import annotations

from math import prod

from ...hlo.ir import Instruction
from ...lowering.apply import applies
from ...writing.writer import Rule, Writer
from .tree import windows


def _scan(e: Writer, x: Instruction) -> Instruction:
    """One slice of each operand a trip; outputs are stacked where their slices came from."""
    carried = x.attrs["num_carries"]
    count = len(x.operands) - carried
    inputs, carries = x.operands[:count], x.operands[count:]
    (dim,) = x.attrs["dimensions"]
    length = inputs[0].shape.dimensions[dim]
    shapes = list(x.shape.tuple_shapes) if x.shape.is_tuple else [x.shape]
    stacked = [e.full(s.element_type, s.dimensions, 0) for s in shapes[: len(shapes) - carried]]
    state = [*stacked, *carries]
    if length:

        def body(c: Writer, trip: Instruction, *values: Instruction) -> list[Instruction]:
            position = c.sub(c.scalar("s32", length - 1), trip) if x.attrs["is_reverse"] else trip
            zero = c.scalar("s32", 0)

            def starts(rank: int) -> list[Instruction]:
                return [position if d == dim else zero for d in range(rank)]

            arrays, outputs = values[: len(inputs)], values[len(inputs) : len(values) - carried]
            slices = []
            for a in arrays:
                dims = a.shape.dimensions
                taken = c.dynamic_slice(a, starts(len(dims)), (*dims[:dim], 1, *dims[dim + 1 :]))
                slices.append(c.reshape(taken, (*dims[:dim], *dims[dim + 1 :])))
            made = c.results(c.inline(x.called[0], [*slices, *values[len(values) - carried :]]))
            updated = []
            for whole, part in zip(outputs, made):
                dims = part.shape.dimensions
                part = c.reshape(part, (*dims[:dim], 1, *dims[dim:]))
                updated.append(c.dynamic_update_slice(whole, part, starts(part.shape.rank)))
            return [*arrays, *updated, *made[len(outputs) :]]

        state = e.for_(length, [*inputs, *state], body)[count:]
    return e.tuple(state) if x.shape.is_tuple else state[0]


def _reduce(e: Writer, x: Instruction) -> Instruction:
    """Nothing where there is nothing to combine, as in XLA; windows and a reduction of these; else loops."""
    count = len(x.operands) // 2
    arrays, inits = x.operands[:count], x.operands[count:]
    shapes = x.shape.tuple_shapes if x.shape.is_tuple else (x.shape,)
    if shapes[0].size == arrays[0].shape.size:
        same = [e.convert(e.reshape(a, s.dimensions), s.element_type) for s, a in zip(shapes, arrays)]
        return e.tuple(same) if x.shape.is_tuple else same[0]
    window = windows(x)
    if window is not None:
        first = e.results(e.op("reduce-window", *x.operands, called=x.called, window=window))
        return e.again(x, *first, *inits)
    return x if applies(x.called[0]) else _loops(e, x)


def _loops(e: Writer, x: Instruction) -> Instruction:
    """One loop over all elements, those of one result after one another; there are results."""
    count = len(x.operands) // 2
    arrays, inits = x.operands[:count], x.operands[count:]
    dims, reduced = arrays[0].shape.dimensions, tuple(x.attrs["dimensions"])
    kept = tuple(d for d in range(len(dims)) if d not in reduced)
    rows, length = prod(dims[d] for d in kept), prod(dims[d] for d in reduced)
    arrays = [e.reshape(e.transpose(a, (*kept, *reduced)), (rows * length,)) for a in arrays]
    shapes = x.shape.tuple_shapes if x.shape.is_tuple else (x.shape,)
    totals = [e.broadcast(e.convert(init, s.element_type), (rows,)) for init, s in zip(inits, shapes)]

    def body(c: Writer, trip: Instruction, *values: Instruction) -> list[Instruction]:
        row = [c.div(trip, length)]
        old = [c.at(v, row) for v in values[count:]]
        new = c.results(call(c, x, [*old, *(c.at(v, [trip]) for v in values[:count])]))
        return [
            *values[:count],
            *(c.put(v, c.convert(n, v.shape.element_type), row) for v, n in zip(values[count:], new)),
        ]

    if length:
        totals = e.for_(rows * length, [*arrays, *totals], body)[count:]
    results = [e.reshape(t, tuple(dims[d] for d in kept)) for t in totals]
    return e.tuple(results) if x.shape.is_tuple else results[0]


def call(e: Writer, x: Instruction, arguments: list[Instruction], number: int = 0) -> Instruction:
    """A computation of `x` on scalars; floats may come in another precision than its parameters have."""
    computation = x.called[number]
    return e.inline(
        computation, [e.convert(a, p.shape.element_type) for a, p in zip(arguments, computation.parameters)]
    )


def _map(e: Writer, x: Instruction) -> Instruction:
    if applies(x.called[0]):
        return x
    count, size = len(x.operands), x.shape.size
    arrays = [e.reshape(o, (size,)) for o in x.operands]
    result = e.full(x.shape.element_type, (size,), 0)

    def body(c: Writer, trip: Instruction, *values: Instruction) -> list[Instruction]:
        made = c.inline(x.called[0], [c.at(v, [trip]) for v in values[:count]])
        return [*values[:count], c.put(values[count], made, [trip])]

    if size:
        result = e.for_(size, [*arrays, result], body)[count]
    return e.reshape(result, x.shape.dimensions)


EXPAND: dict[str, Rule] = {"scan": _scan, "reduce": _reduce, "map": _map}
