"""reduce-window over whole prefixes or suffixes of one dimension (cumsum and its kin): one walk with running
accumulators."""

from __future__ import annotations

from math import prod

from ...hlo.ir import Instruction
from ...loop.affine import Affine, Index
from ...loop.builder import Builder, is_float
from ...loop.ir import Val
from ...loop.nest import along, fold, nest, scalar_nest
from ...lowering.kernel_writer import KernelWriter
from ..reduce.monoids import monoids
from .prefixes import Cumulative

_LONG = 16
"""Elements from which on a running sum along the last dimension is taken in vectors of it; shorter ones go side by
side."""


def cumulative_kernel(k: KernelWriter, x: Instruction, walk: Cumulative) -> None:
    """Along a dimension that is not the last one the accumulators of a whole row run side by side, in vectors; along
    the last one those of several rows."""
    b, e = k.b, k.e
    count = len(x.operands) // 2
    operands, inits = x.operands[:count], [e.value(o, ()) for o in x.operands[count:]]
    types = [s.element_type for _, s in x.shape.leaves()]
    dims, dim = operands[0].shape.dimensions, walk.dim
    length, outer, inner = dims[dim], dims[:dim], dims[dim + 1 :]
    compensated = {*(monoids(x.called[0]) or ())} == {"add"} and all(is_float(t) for t in types)
    start = [b.convert(i, t) for i, t in zip(inits, types)]
    if compensated:
        start = [v for total in start for v in (total, b.const(total.dtype, 0))]

    def step(index: Index, state: list[Val]) -> list[Val]:
        """The accumulators with one more element; stores what they stand for."""
        values = [e.value(o, index) for o in operands]
        if compensated:
            pairs = [_two_sum(b, total, lost, value) for total, lost, value in zip(state[::2], state[1::2], values)]
            state = [v for pair in pairs for v in pair]
            total = [b.add(*pair) for pair in pairs]
        else:
            made = e.apply(x.called[0], state + values)
            total = state = [b.convert(v, t) for v, t in zip(made, types)]
        for leaf, value in enumerate(total):
            k.store(x, index, b.pin(value), leaf)
        return state

    if compensated and {*types} == {"f32"} and prod(inner) == 1 and length >= _LONG:
        _prefixes(k, x, walk, inits)
        return
    if prod(inner) < b.lanes:

        def line(place: Index) -> None:
            lanes = b.lanes if b.vector is not None else 1
            fold(b, (length,), start, lanes, lambda i, state: step(_at(walk, dims, place, i[0]), state))

        nest(b, (*outer, *inner), line)
        return
    rows = [k.scratch(v.dtype, inner) for v in start]

    def put(index: Index, state: list[Val]) -> None:
        for row, value in zip(rows, state):
            b.store(row.number, row.position(index), value, row.dtype)

    def block(before: Index) -> None:
        nest(b, inner, lambda i: put(i, start))
        with b.loop(length) as n:

            def one(i: Index) -> None:
                state = [b.load(row.number, row.position(i), row.dtype) for row in rows]
                put(i, step(_at(walk, dims, (*before, *i), n), state))

            nest(b, inner, one)

    scalar_nest(b, outer, block)


def _at(walk: Cumulative, dims: tuple[int, ...], others: Index, i: Affine) -> Index:
    """The index of element number `i` of a walk at a place along all other dimensions."""
    place = Affine(dims[walk.dim] - 1) - i if walk.reverse else i
    return (*others[: walk.dim], place, *others[walk.dim :])


def _prefixes(k: KernelWriter, x: Instruction, walk: Cumulative, inits: list[Val]) -> None:
    """Running sums of f32 along the last dimension, in f64: the sums of four elements in vectors of two, and of all
    before them."""
    b, e = k.b, k.e
    operands = x.operands[: len(inits)]
    dims = operands[0].shape.dimensions
    length = dims[walk.dim]
    lanes, b.lanes = b.lanes, 2
    # -0 is what leaves each number as it is.
    nothing = b.splat(b.const("f64", -0.0), 2)

    def sums(line: Index) -> None:
        def at(i: Affine) -> Index:
            return _at(walk, dims, line, i)

        def put(i: Affine, total: Val, leaf: int) -> None:
            k.store(x, at(i), b.pin(b.convert(total, "f32")), leaf)

        def four(i: Affine, before: list[Val]) -> list[Val]:
            values = [[b.convert(b.splat(e.value(o, at(i + u)), 2), "f64") for u in (0, 2)] for o in operands]
            after = []
            for leaf, (total, parts) in enumerate(zip(before, values)):
                first, second = (b.pin(b.add(part, b.shuffle(nothing, part, (0, 2)))) for part in parts)
                second = b.pin(b.add(second, b.splat_lane(first, 1)))
                made = [b.pin(b.add(total, part)) for part in (first, second)]
                for u, value in zip((0, 2), made):
                    put(i + u, value, leaf)
                after.append(b.splat_lane(made[1], 1))
            return after

        starts = [b.convert(init, "f64") for init in inits]
        totals = [b.lane(v, 0) for v in along(b, length // 4, starts, four, step=4, lanes=2, vector=True)]
        done = length - length % 4

        def one(inner: Index, totals: list[Val]) -> list[Val]:
            i = inner[0] + done
            totals = [b.add(total, b.convert(e.value(o, at(i)), "f64")) for total, o in zip(totals, operands)]
            for leaf, total in enumerate(totals):
                put(i, total, leaf)
            return totals

        if done < length:
            fold(b, (length - done,), totals, 1, one)

    scalar_nest(b, (*dims[: walk.dim], *dims[walk.dim + 1 :]), sums)
    b.lanes = lanes


def _two_sum(b: Builder, total: Val, lost: Val, value: Val) -> list[Val]:
    """A sum, and the sum of all that its roundings lost: both together are as near as if only the end were rounded."""
    new = b.pin(b.add(total, value))
    part = b.sub(new, total)
    error = b.pin(b.add(b.sub(total, b.sub(new, part)), b.sub(value, part)))
    # Where the sum is not finite, the error is not a number.
    return [new, b.add(lost, b.select(b.eq(error, error), error, b.const(error.dtype, 0)))]
