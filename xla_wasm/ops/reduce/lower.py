"""Reductions: an accumulator carried through loops, in vectors where the reducer's order does not matter."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ...dataclass import dataclass
from ...hlo.ir import Instruction
from ...loop.affine import ZERO, Affine, Index
from ...loop.builder import Builder, is_float
from ...loop.ir import Val
from ...loop.nest import fold
from ...lowering.elemental import Elemental
from .lower_best import NOWHERE
from .lower_best import Running as Search
from .lower_running import Running, neutral_value, running
from .monoids import monoid

_UNROLL = 4
"""Accumulators side by side, so that additions need not wait for each other."""
_SEARCHED = 2
"""Vectors that a search looks at in a turn."""
_BLOCK = 512
"""Elements of which a search remembers the best number alone."""
_LONG_SEARCH = 4 * _BLOCK
"""Elements of a row from which on it pays to look for the best number's block first."""
_CHAIN = 64
"""Additions of floats one after another: in longer sums rounding errors would add up."""


def side_by_side(
    r: Running, sizes: tuple[int, ...], lanes: int, indices: list[Index], element: Callable[[Index, Index], Val]
) -> list[Val]:
    """The elements of several results side by side, without the initial value."""
    start = r.start(lanes)
    count = len(start)

    def row(inner: Index, acc: list[Val]) -> list[Val]:
        return [v for u, i in enumerate(indices) for v in r.step(acc[u * count : (u + 1) * count], element(i, inner))]

    acc = fold(r.b, sizes, start * len(indices), lanes, row)
    return [r.result(acc[u : u + count]) for u in range(0, len(acc), count)]


def operand_index(x: Instruction, index: Index, inner: Index) -> Index:
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
        return operand_index(x, index, inner)

    b = e.b
    opcode = monoid(reducer)
    if x.marks.best is not None:
        found = _search(e, x, index, inits, x.marks.best)
        if found is not None:
            return found

    def combine(p: Val, q: Val) -> Val:
        return e.apply(reducer, [p, q])[0]

    def element(inner: Index) -> Val:
        return e.value(operands[0], at(inner))

    if opcode and b.vector is None and sizes and 0 not in sizes and sizes[-1] >= b.lanes:
        return combine(
            inits[0],
            _along_lanes(running(b, opcode, x.shape.element_type, combine, b.lanes, prod(sizes)), sizes, element),
        )
    lanes = b.lanes_at(index)
    if opcode == "add" and is_float(x.shape.element_type) and 0 not in sizes:
        parts = Parts(b, [b.splat(neutral_value(b, opcode, x.shape.element_type), lanes)], combine)
        start = [b.splat(inits[0], lanes)]
        return parts.fold(sizes, 1, start, lambda inner, acc: [b.splat(combine(acc[0], element(inner)), lanes)])[0]
    if opcode in ("maximum", "minimum") and 0 not in sizes:
        r = running(b, opcode, x.shape.element_type, combine, lanes, prod(sizes))
        return combine(inits[0], side_by_side(r, sizes, lanes, [index], lambda index, inner: element(inner))[0])
    results = fold(
        b, sizes, inits, lanes, lambda inner, acc: e.apply(reducer, acc + [e.value(o, at(inner)) for o in operands])
    )
    return results if x.shape.is_tuple else results[0]


def _search(e: Elemental, x: Instruction, index: Index, inits: list[Val], best: str) -> list[Val] | None:
    """The best number of a row and its place, in lanes; None where these would hold one number, or the row is too
    long."""
    b, (operand, places) = e.b, x.operands[:2]
    size = operand.shape.dimensions[x.attrs["dimensions"][0]]
    lanes = b.lanes_at(index)
    along = b.vector is None and size >= _SEARCHED * b.lanes
    if not along and lanes == 1 or size >= NOWHERE:
        return None
    r = Search(b, operand.shape.element_type, best)

    def number(i: Affine, lanes: int) -> Val:
        return b.splat(e.value(operand, operand_index(x, index, (i,))), lanes)

    done = size
    if along and size >= _LONG_SEARCH and operand in e.sources:
        start = _best_block(r, size, number)
        value, at = r.result(_search_along(r, _BLOCK, lambda i, lanes: number(i + Affine(0, (), ((start, 1),)), lanes)))
        at = b.add(at, start)
    elif along:
        done = size - size % (_SEARCHED * b.lanes)
        value, at = r.result(_search_along(r, done, number))
    else:
        state = r.start(lanes)
        state = fold(
            b, (size,), state, lanes, lambda inner, acc: r.step(acc, number(inner[0], lanes), b.index_value(inner[0]))
        )
        value, at = r.result(state)
    acc = e.apply(x.called[0], [*inits, value, b.convert(at, places.shape.element_type)])

    def one(inner: Index, acc: list[Val]) -> list[Val]:
        return e.apply(
            x.called[0], acc + [e.value(o, operand_index(x, index, (inner[0] + done,))) for o in (operand, places)]
        )

    return fold(b, (size - done,), acc, lanes, one) if done < size else acc


def _search_along(r: Search, size: int, number: Callable[[Affine, int], Val]) -> list[Val]:
    """The state after so many elements, a multiple of `_SEARCHED` vectors, along the lanes of vectors."""
    b = r.b

    def several(i: Affine, acc: list[Val]) -> list[Val]:
        at, made, count = b.index_value(i), list[Val](), len(acc) // _SEARCHED
        for u in range(_SEARCHED):
            made += map(b.pin, r.step(acc[u * count : (u + 1) * count], number(i + u * b.lanes, b.lanes), at))
        return made

    step = _SEARCHED * b.lanes
    acc = _loop(b, size // step, r.start(b.lanes) * _SEARCHED, several, step, True)
    count = len(acc) // _SEARCHED
    state = acc[:count]
    for u in range(1, _SEARCHED):
        state = r.merge(state, r.moved(acc[u * count : (u + 1) * count], u * b.lanes))
    return _across_lanes(b, state, r.merge)


def _best_block(r: Search, size: int, number: Callable[[Affine, int], Val]) -> Val:
    """Returns the place of the first block of `_BLOCK` elements that has what is searched for: a walk over the numbers,
    without their places.

    The last block reaches back over the end of the one before it, where nothing is better than what that has.
    """
    b = r.b
    step = _UNROLL * b.lanes

    def block(at: Affine, best: list[Val], start: Val) -> list[Val]:
        def several(i: Affine, acc: list[Val]) -> list[Val]:
            made, count = list[Val](), len(acc) // _UNROLL
            for u in range(_UNROLL):
                made += map(b.pin, r.glanced(acc[u * count : (u + 1) * count], number(at + i + u * b.lanes, b.lanes)))
            return made

        acc = _loop(b, _BLOCK // step, r.glance(b.lanes) * _UNROLL, several, step, True)
        parts = [acc[u : u + len(best)] for u in range(0, len(acc), len(best))]
        while len(parts) > 1:
            parts = [r.both(p, q) for p, q in zip(parts[::2], parts[1::2])]
        better, best = r.later(best, _across_lanes(b, parts[0], r.both))
        return [*best, b.select(better, b.index_value(at), start)]

    acc = [*r.glance(1), b.const("s32", 0)]
    acc = _loop(b, size // _BLOCK, acc, lambda at, acc: block(at, acc[:-1], acc[-1]), _BLOCK)
    last = Affine(size - _BLOCK)
    start = (block(last, acc[:-1], acc[-1]) if size % _BLOCK else acc)[-1]
    # It is one of these in any case; the verifier of loops sees it here.
    return b.max(b.min(start, b.index_value(last)), b.const("s32", 0))


def _across_lanes(b: Builder, state: list[Val], merge: Callable[[list[Val], list[Val]], list[Val]]) -> list[Val]:
    """The state of all lanes together."""
    half = b.lanes // 2
    while half:
        state = merge(state, [b.shuffle(v, v, tuple((k + half) % b.lanes for k in range(b.lanes))) for v in state])
        half //= 2
    return [b.lane(v, 0) for v in state]


def _along_lanes(r: Running, sizes: tuple[int, ...], element: Callable[[Index], Val]) -> Val:
    """Reduces along the lanes of vectors: `_UNROLL` vector accumulators and a scalar one for what is left over."""
    b, combine = r.b, r.combine
    neutral = neutral_value(b, r.opcode, r.dtype)
    lanes, last = b.lanes, sizes[-1]
    unroll = _UNROLL if last >= 2 * _UNROLL * lanes else 1
    wide = last // (lanes * unroll)
    whole = last // lanes
    rest = last - whole * lanes
    fresh = r.start(lanes)
    state = len(fresh)
    start = fresh * unroll + [neutral] * bool(rest)
    restart = r.opcode == "add" and is_float(r.dtype)

    def row(index: Index, acc: list[Val]) -> list[Val]:
        vectors, scalar = acc[: unroll * state], acc[unroll * state :]

        def several(i: Affine, acc: list[Val]) -> list[Val]:
            made: list[Val] = []
            for u in range(unroll):
                made += map(b.pin, r.step(acc[u * state : (u + 1) * state], element((*index, i + u * lanes))))
            return made

        parts = Parts(b, fresh * unroll if restart else None, combine)
        vectors = parts.turns(wide, 1, vectors, several, lanes * unroll, True)
        left = whole - wide * unroll
        if left:

            def one(i: Affine, acc: list[Val]) -> list[Val]:
                return r.step(acc, element((*index, i + wide * unroll * lanes)))

            vectors[:state] = _loop(b, left, vectors[:state], one, lanes, True)
        if rest:
            scalar = fold(b, (rest,), scalar, 1, lambda i, a: [combine(a[0], element((*index, i[0] + whole * lanes)))])
        return vectors + scalar

    acc = Parts(b, start if restart else None, combine).fold(sizes[:-1], _chain(wide, 1), start, row)
    states = [acc[u * state : (u + 1) * state] for u in range(unroll)]
    while len(states) > 1:
        states = [r.merge(p, q) for p, q in zip(states[::2], states[1::2])]
    total = r.result(states[0])
    half = lanes // 2
    while half:
        total = combine(total, b.shuffle(total, total, tuple((k + half) % lanes for k in range(lanes))))
        half //= 2
    result = b.lane(total, 0)
    return combine(acc[-1], result) if rest else result


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


def block_of(trips: int, run: int) -> int:
    """Returns the number of turns, of `run` additions each, that make one partial sum: if possible so many that no
    turns are left over."""
    most = max(1, _CHAIN // max(run, 1))
    return next((k for k in range(most, most // 2, -1) if trips % k == 0), most) if trips > most else most


def _chain(trips: int, run: int) -> int:
    """Returns the number of additions that `Parts.turns` makes one after another."""
    block = block_of(trips, run)
    return trips * run if trips <= block else _chain(trips // block, 1) + (trips % block > 0)


@dataclass(frozen=True, slots=True)
class Parts:
    """Accumulators carried through loops, which start anew from `fresh` after `_CHAIN` turns and are combined. None:
    never."""

    b: Builder
    fresh: list[Val] | None
    combine: Callable[[Val, Val], Val]

    def turns(
        self, trips: int, run: int, acc: list[Val], body: _Turn, step: int = 1, vector: bool = False
    ) -> list[Val]:
        """One loop, of whose turns each makes `run` additions."""
        block, fresh = block_of(trips, run), self.fresh
        if fresh is None or trips <= block:
            return _loop(self.b, trips, acc, body, step, vector)
        count, rest = divmod(trips, block)

        def part(start: Affine, size: int, acc: list[Val]) -> list[Val]:
            own = _loop(self.b, size, fresh, lambda i, a: body(start + i, a), step, vector)
            return [self.combine(p, q) for p, q in zip(acc, own)]

        acc = self.turns(count, 1, acc, lambda i, a: part(i * (block * step), block, a))
        return part(Affine(count * block * step), rest, acc) if rest else acc

    def fold(
        self, dims: tuple[int, ...], run: int, inits: list[Val], body: Callable[[Index, list[Val]], list[Val]]
    ) -> list[Val]:
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
