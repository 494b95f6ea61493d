"""Reductions: an accumulator carried through loops, in vectors where the reducer's order does not matter."""

from __future__ import annotations

from ...hlo.ir import Instruction
from ...loop.affine import Affine, Index
from ...loop.arithmetic import in_pairs
from ...loop.builder import is_float
from ...loop.ir import Val
from ...loop.nest import along, fold
from ...lowering.elemental import Elemental, Lower
from .lower_best import search
from .lower_columns import columns
from .lower_running import running
from .lower_walk import Parts, Walk, across_lanes, chain_of, next_states, operand_index, states

_UNROLL = 4
"""Accumulators side by side, so that additions need not wait for each other."""


def _reduce(e: Elemental, x: Instruction, index: Index) -> Val | list[Val]:
    b, w, reducer, count = e.b, Walk(e, x), x.called[0], len(x.operands) // 2
    operands, sizes, lanes = x.operands[:count], w.sizes, b.lanes_at(index)
    inits = [e.value(i, ()) for i in x.operands[count:]]
    if 0 not in sizes:
        found = search(e, x, index, inits, x.marks.best) if x.marks.best is not None else None
        if found is not None:
            return found
        opcode = w.opcode if count == 1 else None
        if opcode and b.vector is None and sizes and sizes[-1] >= b.lanes:
            return _along_lanes(w, index, inits[0])
        if opcode == "add" and is_float(w.dtype):

            def added(inner: Index, acc: list[Val]) -> list[Val]:
                return [b.splat(w.combine(acc[0], w.element(index, inner)), lanes)]

            return Parts(b, [b.splat(w.neutral, lanes)], w.combine).fold(sizes, 1, [b.splat(inits[0], lanes)], added)[0]
        if opcode in ("maximum", "minimum"):
            return columns(e, x, [index])[0]

    def step(inner: Index, acc: list[Val]) -> list[Val]:
        at = operand_index(x, index, inner)
        return e.apply(reducer, acc + [e.value(o, at) for o in operands])

    results = fold(b, sizes, inits, lanes, step)
    return results if x.shape.is_tuple else results[0]


def _along_lanes(w: Walk, index: Index, init: Val) -> Val:
    """Reduces along the lanes of vectors: `_UNROLL` vector accumulators and a scalar one for what is left over."""
    b, sizes, lanes = w.b, w.sizes, w.b.lanes
    r, last = running(w, lanes), sizes[-1]
    unroll = _UNROLL if last >= 2 * _UNROLL * lanes else 1
    wide = last // (lanes * unroll)
    whole = last // lanes
    rest = last - whole * lanes
    fresh = r.start(lanes) * unroll
    start = fresh + [w.neutral] * bool(rest)

    def row(outer: Index, acc: list[Val]) -> list[Val]:
        def step(state: list[Val], i: Affine) -> list[Val]:
            return r.step(state, w.element(index, (*outer, i)))

        def several(i: Affine, acc: list[Val]) -> list[Val]:
            return [*map(b.pin, next_states(acc, unroll, lambda u, state: step(state, i + u * lanes)))]

        vectors, scalar = acc[: len(fresh)], acc[len(fresh) :]
        parts = Parts(b, fresh if w.adds_floats else None, w.combine)
        vectors = parts.turns(wide, 1, vectors, several, lanes * unroll, True)
        first, left = states(vectors, unroll)[0], whole - wide * unroll
        if left:
            vectors[: len(first)] = along(
                b, left, first, lambda i, state: step(state, i + wide * unroll * lanes), step=lanes, vector=True
            )
        if rest:
            scalar = fold(
                b, (rest,), scalar, 1, lambda i, a: [w.combine(a[0], w.element(index, (*outer, i[0] + whole * lanes)))]
            )
        return vectors + scalar

    acc = Parts(b, start if w.adds_floats else None, w.combine).fold(sizes[:-1], chain_of(wide, 1), start, row)
    total = r.result(in_pairs(states(acc[: len(fresh)], unroll), r.merge))
    (result,) = across_lanes(b, [total], lambda p, q: [w.combine(*p, *q)])
    return w.combine(init, w.combine(acc[-1], result) if rest else result)


ELEMENTAL: dict[str, Lower] = {
    "reduce": _reduce,
    "map": lambda e, x, index: e.apply(x.called[0], [e.value(o, index) for o in x.operands])[0],
    "get-tuple-element": lambda e, x, index: e.value(x.operands[0], index)[x.attrs["index"]],
}
