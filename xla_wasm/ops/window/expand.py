"""reduce-window and select-and-scatter as loops over elements, where a computation of theirs is more than
`lowering.apply` takes."""

from __future__ import annotations

from math import prod

from ...dataclass import replace
from ...hlo.attrs import WindowDimension
from ...hlo.ir import Instruction
from ...lowering.apply import applies
from ...writing.writer import Rule, Writer
from ..reduce.expand import call

Place = list[Instruction]


def whole(window: tuple[WindowDimension, ...], dims: tuple[int, ...]) -> tuple[int, ...]:
    """The dimensions that one window covers, if it does no more than reduce these; else none."""
    plain = all(
        replace(w, window_reversal=False) in (WindowDimension(1), WindowDimension(size))
        for w, size in zip(window, dims)
    )
    return tuple(d for d, w in enumerate(window) if w.size > 1) if plain else ()


def _inside(
    e: Writer, out: Place, inner: Place, window: tuple[WindowDimension, ...], dims: tuple[int, ...]
) -> tuple[Place, Instruction]:
    """Returns the place of an element of a window in the array, and a condition that is true if it has one."""
    place: Place = []
    valid = e.scalar("pred", 1)
    for o, i, w, size in zip(out, inner, window, dims):
        position = e.sub(e.add(e.mul(o, w.stride), e.mul(i, w.window_dilation)), w.padding_low)
        valid = e.binary("and", valid, e.compare("GE", position, 0))
        if w.base_dilation > 1:
            valid = e.binary("and", valid, e.compare("EQ", e.binary("remainder", position, w.base_dilation), 0))
            position = e.div(position, w.base_dilation)
        valid = e.binary("and", valid, e.compare("LT", position, size))
        place.append(position)
    return place, valid


def _reduce_window(e: Writer, x: Instruction) -> Instruction:
    if x.shape.is_array:
        array, init = x.operands
        if array.shape.rank == 0:
            # As XLA has it: there is nothing to combine.
            return array
        reduced = whole(x.attrs["window"].dimensions, array.shape.dimensions)
        if reduced:
            total = e.op("reduce", array, init, called=x.called, dimensions=reduced)
            return e.reshape(total, x.shape.dimensions)
    if applies(x.called[0]):
        return x
    count = len(x.operands) // 2
    arrays, inits = x.operands[:count], x.operands[count:]
    window = x.attrs["window"].dimensions
    dims = arrays[0].shape.dimensions
    shapes = x.shape.tuple_shapes if x.shape.is_tuple else (x.shape,)
    out, sizes = shapes[0].dimensions, tuple(w.size for w in window)
    totals = [e.broadcast(e.convert(init, s.element_type), out) for init, s in zip(inits, shapes)]

    def body(c: Writer, trip: Instruction, *values: Instruction) -> list[Instruction]:
        at = c.place(c.div(trip, prod(sizes)), out)
        place, valid = _inside(c, at, c.place(c.binary("remainder", trip, prod(sizes)), sizes), window, dims)
        old = [c.at(v, at) for v in values[count:]]
        new = c.results(call(c, x, [*old, *(c.at(v, place) for v in values[:count])]))
        kept = [c.select(valid, c.convert(n, o.shape.element_type), o) for n, o in zip(new, old)]
        return [*values[:count], *(c.put(v, k, at) for v, k in zip(values[count:], kept))]

    if prod(out) and prod(dims):
        totals = e.for_(prod(out) * prod(sizes), [*arrays, *totals], body)[count:]
    return e.tuple(totals) if x.shape.is_tuple else totals[0]


def _select_and_scatter(e: Writer, x: Instruction) -> Instruction:
    """First the chosen element of each window, by its number, or -1; then the source's elements go there."""
    if all(applies(c) for c in x.called):
        return x
    operand, source, init = x.operands
    window = x.attrs["window"].dimensions
    dims, out, sizes = operand.shape.dimensions, source.shape.dimensions, tuple(w.size for w in window)
    result = e.broadcast(init, dims)
    if not prod(out) or not prod(dims):
        return result

    def choose(c: Writer, trip: Instruction, *values: Instruction) -> list[Instruction]:
        array, chosen = values
        at = c.place(c.div(trip, prod(sizes)), out)
        place, valid = _inside(c, at, c.place(c.binary("remainder", trip, prod(sizes)), sizes), window, dims)
        number = c.scalar("s32", 0)
        for p, size in zip(place, dims):
            number = c.add(c.mul(number, size), p)
        old = c.at(chosen, at)
        keep = call(c, x, [c.at(array, c.place(old, dims)), c.at(array, place)])
        first = c.compare("LT", old, 0)
        take = c.binary("and", valid, c.binary("or", first, c.unary("not", keep)))
        return [array, c.put(chosen, c.select(take, number, old), at)]

    def scatter(c: Writer, trip: Instruction, *values: Instruction) -> list[Instruction]:
        chosen, given, total = values
        at = c.place(trip, out)
        number = c.at(chosen, at)
        place = c.place(number, dims)
        old = c.at(total, place)
        new = call(c, x, [old, c.at(given, at)], 1)
        return [chosen, given, c.put(total, c.select(c.compare("GE", number, 0), new, old), place)]

    _, chosen = e.for_(prod(out) * prod(sizes), [operand, e.full("s32", out, -1)], choose)
    return e.for_(prod(out), [chosen, source, result], scatter)[2]


EXPAND: dict[str, Rule] = {"reduce-window": _reduce_window, "select-and-scatter": _select_and_scatter}
