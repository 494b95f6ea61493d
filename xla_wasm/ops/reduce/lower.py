"""Reductions: an accumulator carried through loops, in vectors where the reducer's order does not matter."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ...dataclass import dataclass
from ...hlo.ir import Instruction
from ...hlo.types import limits
from ...loop.affine import ZERO, Affine, Index
from ...loop.builder import Builder, is_float
from ...loop.ir import Val
from ...loop.nest import fold
from ..elemental import Elemental
from .monoids import monoid

_UNROLL = 4
"""Accumulators side by side, so that additions need not wait for each other."""
_LEAST_COLUMN = 16
"""Elements in a column from which on neighbouring ones are summed side by side."""
_CHAIN = 64
"""Additions of floats one after another: in longer sums rounding errors would add up."""


def identity(b: Builder, opcode: str, dtype: str) -> Val:
    """The value that leaves every other as it is under a monoid."""
    if dtype == "pred":
        return b.const(dtype, opcode in ("multiply", "minimum", "and"))
    if opcode == "add" and is_float(dtype):
        return b.const(dtype, -0.0)
    if opcode in ("add", "or", "xor"):
        return b.const(dtype, 0)
    if opcode == "multiply":
        return b.const(dtype, 1)
    if opcode == "and":
        return b.const(dtype, -1)
    if is_float(dtype):
        return b.const(dtype, float("-inf") if opcode == "maximum" else float("inf"))
    low, high = limits(dtype)
    return b.const(dtype, low if opcode == "maximum" else high)


def columns_together(x: Instruction, work: int) -> int:
    """How many vectors of neighbouring results of a reduction are best computed side by side, where each needs so much work an element:
    more than one where it goes down columns, of which a vector takes a part of a cache line only."""
    if x.opcode != "reduce" or x.shape.is_tuple or not x.shape.rank:
        return 1
    shape, dims = x.operands[0].shape.dimensions, x.attrs["dimensions"]
    if not dims or len(shape) - 1 in dims or prod([shape[d] for d in dims]) < _LEAST_COLUMN:
        return 1
    return 8 if work <= 2 else 4


def columns(e: Elemental, x: Instruction, indices: list[Index]) -> list[Val]:
    """The results of a reduction of one array at several indices, in one walk."""
    operand, start = x.operands
    reducer, sizes = x.called[0], tuple(operand.shape.dimensions[d] for d in x.attrs["dimensions"])
    b, dtype = e.b, x.shape.element_type
    init = e.value(start, ())

    def combine(p: Val, q: Val) -> Val:
        return e.apply(reducer, [p, q])[0]

    def row(inner: Index, acc: list[Val]) -> list[Val]:
        return [b.splat(combine(a, e.value(operand, _at(x, i, inner))), b.lanes_at(i)) for a, i in zip(acc, indices)]

    inits = [b.splat(init, b.lanes_at(i)) for i in indices]
    if monoid(reducer) == "add" and is_float(dtype):
        neutral = identity(b, "add", dtype)
        return _Parts(b, [b.splat(neutral, b.lanes_at(i)) for i in indices], combine).fold(sizes, 1, inits, row)
    return fold(b, sizes, inits, b.lanes_at(indices[0]), row)


def _at(x: Instruction, index: Index, inner: Index) -> Index:
    """The index of an operand's element: of the result's element, and of the one among those that are reduced to it."""
    kept = iter(index)
    reduced = dict(zip(x.attrs["dimensions"], inner))
    return tuple(reduced[d] if d in reduced else next(kept) for d in range(x.operands[0].shape.rank))


def _reduce(e: Elemental, x: Instruction, index: Index) -> Val | list[Val]:
    count = len(x.operands) // 2
    operands, reducer = x.operands[:count], x.called[0]
    shape = operands[0].shape.dimensions
    inits = [e.value(i, ()) for i in x.operands[count:]]
    sizes = tuple(shape[d] for d in x.attrs["dimensions"])

    def at(inner: Index) -> Index:
        return _at(x, index, inner)

    b = e.b
    opcode = monoid(reducer) if count == 1 else None

    def combine(p: Val, q: Val) -> Val:
        return e.apply(reducer, [p, q])[0]

    def element(inner: Index) -> Val:
        return e.value(operands[0], at(inner))

    if opcode and b.vector is None and b.lanes > 1 and sizes and 0 not in sizes and sizes[-1] >= b.lanes:
        return combine(inits[0], _along_lanes(b, opcode, x.shape.element_type, sizes, element, combine))
    lanes = b.lanes_at(index)
    if opcode == "add" and is_float(x.shape.element_type) and 0 not in sizes:
        parts = _Parts(b, [b.splat(identity(b, opcode, x.shape.element_type), lanes)], combine)
        start = [b.splat(inits[0], lanes)]
        return parts.fold(sizes, 1, start, lambda inner, acc: [b.splat(combine(acc[0], element(inner)), lanes)])[0]
    results = fold(b, sizes, inits, lanes, lambda inner, acc: e.apply(reducer, acc + [e.value(o, at(inner)) for o in operands]))
    return results if x.shape.is_tuple else results[0]


def _along_lanes(
    b: Builder, opcode: str, dtype: str, sizes: tuple[int, ...], element: Callable[[Index], Val], combine: Callable[[Val, Val], Val]
) -> Val:
    """Reduces along the lanes of vectors: `_UNROLL` vector accumulators and a scalar one for what is left over."""
    neutral = identity(b, opcode, dtype)
    lanes, last = b.lanes, sizes[-1]
    unroll = _UNROLL if last >= 2 * _UNROLL * lanes else 1
    wide = last // (lanes * unroll)
    whole = last // lanes
    rest = last - whole * lanes
    start = [b.splat(neutral, lanes)] * unroll + [neutral] * bool(rest)
    restart = opcode == "add" and is_float(dtype)

    def row(index: Index, acc: list[Val]) -> list[Val]:
        vectors, scalar = acc[:unroll], acc[unroll:]
        if wide:

            def several(i: Affine, acc: list[Val]) -> list[Val]:
                return [b.pin(combine(v, element((*index, i + u * lanes)))) for u, v in enumerate(acc)]

            vectors = _Parts(b, start[:unroll] if restart else None, combine).turns(wide, 1, vectors, several, lanes * unroll, True)
        left = whole - wide * unroll
        if left:

            def one(i: Affine, acc: list[Val]) -> list[Val]:
                return [combine(acc[0], element((*index, i + wide * unroll * lanes)))]

            vectors[:1] = _loop(b, left, vectors[:1], one, lanes, True)
        if rest:
            scalar = fold(b, (rest,), scalar, 1, lambda i, a: [combine(a[0], element((*index, i[0] + whole * lanes)))])
        return vectors + scalar

    acc = _Parts(b, start if restart else None, combine).fold(sizes[:-1], _chain(wide, 1), start, row)
    vectors, scalar = acc[:unroll], acc[unroll:]
    while len(vectors) > 1:
        vectors = [combine(p, q) for p, q in zip(vectors[::2], vectors[1::2])]
    total = vectors[0]
    half = lanes // 2
    while half:
        total = combine(total, b.shuffle(total, total, tuple((k + half) % lanes for k in range(lanes))))
        half //= 2
    result = b.lane(total, 0)
    return combine(scalar[0], result) if rest else result


_Turn = Callable[[Affine, list[Val]], list[Val]]


def _loop(b: Builder, trips: int, inits: list[Val], body: _Turn, step: int = 1, vector: bool = False) -> list[Val]:
    """Carries values through one loop, each keeping its own lanes."""
    if trips == 1 and not vector:
        return body(ZERO, inits)
    loop = b.open_loop(trips, step, vector)
    carries = [b.carry(loop, v, v.lanes) for v in inits]
    for carry, new in zip(carries, body(Affine(0, ((loop, 1),)), [c.value for c in carries])):
        carry.next = b.splat(new, carry.value.lanes)
    b.close_loop(loop)
    return [c.result for c in carries if c.result is not None]


def _block(trips: int, run: int) -> int:
    """How many turns of `run` additions each make one partial sum: if possible so many that no turns are left over."""
    most = max(1, _CHAIN // max(run, 1))
    return next((k for k in range(most, most // 2, -1) if trips % k == 0), most) if trips > most else most


def _chain(trips: int, run: int) -> int:
    """How many additions `_Parts.turns` makes one after another."""
    block = _block(trips, run)
    return trips * run if trips <= block else _chain(trips // block, 1) + (trips % block > 0)


@dataclass(frozen=True, slots=True)
class _Parts:
    """Accumulators carried through loops, which start anew from `fresh` after `_CHAIN` turns and are combined. None: never."""

    b: Builder
    fresh: list[Val] | None
    combine: Callable[[Val, Val], Val]

    def turns(self, trips: int, run: int, acc: list[Val], body: _Turn, step: int = 1, vector: bool = False) -> list[Val]:
        """One loop, of whose turns each makes `run` additions."""
        block, fresh = _block(trips, run), self.fresh
        if fresh is None or trips <= block:
            return _loop(self.b, trips, acc, body, step, vector)
        count, rest = divmod(trips, block)

        def part(start: Affine, size: int, acc: list[Val]) -> list[Val]:
            own = _loop(self.b, size, fresh, lambda i, a: body(start + i, a), step, vector)
            return [self.combine(p, q) for p, q in zip(acc, own)]

        acc = self.turns(count, 1, acc, lambda i, a: part(i * (block * step), block, a))
        return part(Affine(count * block * step), rest, acc) if rest else acc

    def fold(self, dims: tuple[int, ...], run: int, inits: list[Val], body: Callable[[Index, list[Val]], list[Val]]) -> list[Val]:
        """As `nest.fold`; `run` is the number of additions in one `body`."""
        runs = []
        for size in reversed(dims):
            runs.append(run)
            run = _chain(size, run)

        def level(d: int, index: Index, acc: list[Val]) -> list[Val]:
            if d == len(dims):
                return body(index, acc)
            return self.turns(dims[d], runs[-1 - d], acc, lambda i, a: level(d + 1, (*index, i), a))

        return level(0, (), inits)


def _map(e: Elemental, x: Instruction, index: Index) -> Val:
    return e.apply(x.called[0], [e.value(o, index) for o in x.operands])[0]


def _get_tuple_element(e: Elemental, x: Instruction, index: Index) -> Val:
    values = e.value(x.operands[0], index)
    return values[x.attrs["index"]]


ELEMENTAL = {"reduce": _reduce, "map": _map, "get-tuple-element": _get_tuple_element}
