"""The search for the greatest or least of a row and its place in lanes (see `passes/searches.py`)."""

from __future__ import annotations

from collections.abc import Callable

from ...dataclass import dataclass
from ...hlo.ir import Instruction
from ...loop.affine import Affine, Index
from ...loop.arithmetic import in_pairs
from ...loop.builder import WIDE, Builder, is_float
from ...loop.ir import Val
from ...loop.nest import along, fold
from ...lowering.elemental import Elemental
from .lower_walk import across_lanes, neutral_value, next_states, operand_index, states

NOWHERE = 1 << 30
"""A place behind all elements."""
_SEARCHED = 2
"""Vectors that a search looks at in a turn."""
_UNROLL = 4
"""Vectors that it looks at in a turn if it looks at numbers alone."""
_BLOCK = 512
"""Elements of which a search remembers the best number alone."""
_LONG_SEARCH = 4 * _BLOCK
"""Elements of a row from which on it pays to look for the best number's block first."""


@dataclass(frozen=True, slots=True)
class Search:
    """The search in lanes: its state is the best number of each, its place, and the place of the first that is none.

    Numbers that are as good as none at all leave the place 0, which then is theirs.
    """

    b: Builder
    dtype: str
    opcode: str
    """The operation that gives the better of two numbers: maximum or minimum."""

    def start(self, lanes: int) -> list[Val]:
        """The state before the first element."""
        b = self.b
        worst = neutral_value(b, self.opcode, self.dtype)
        state = [worst, b.const("s32", 0), b.const("s32", NOWHERE)]
        return [b.splat(v, lanes) for v in (state if is_float(self.dtype) else state[:2])]

    def step(self, state: list[Val], value: Val, at: Val) -> list[Val]:
        """The state with one more element in each lane, whose place is greater than those before it."""
        b, (extreme, found) = self.b, state[:2]
        better = self._better(value, extreme)
        wide = value.lanes == 4
        # One operation instead of the three that a choice takes.
        made = [
            self._of(better, extreme, value),
            b.max(found, b.and_(at, b.word(better))) if wide else b.select(better, at, found),
        ]
        if is_float(self.dtype):
            number = b.eq(value, value)
            first = b.min(b.bitcast(state[2], "u32"), b.bitcast(b.or_(at, b.word(number)), "u32")) if wide else None
            made.append(
                b.bitcast(first, "s32") if first is not None else b.select(number, state[2], b.min(state[2], at))
            )
        return made

    def glance(self, lanes: int) -> list[Val]:
        """The state before the first element of a walk that looks for the best number only."""
        worst = neutral_value(self.b, self.opcode, self.dtype)
        state = [worst, self.b.const("pred", True)]
        return [self.b.splat(v, lanes) for v in (state if is_float(self.dtype) else state[:1])]

    def glanced(self, state: list[Val], value: Val) -> list[Val]:
        """Returns a glance's state with one more element in each lane: the best, and of floats if all are numbers."""
        return self.both(state, [value, self.b.eq(value, value)])

    def both(self, p: list[Val], q: list[Val]) -> list[Val]:
        """The state of the elements of both, of such a walk."""
        b = self.b
        better = self._better(q[0], p[0]) if self.dtype in WIDE else None
        return [self._of(better, p[0], q[0]), *(b.and_(u, v) for u, v in zip(p[1:], q[1:]))]

    def _better(self, value: Val, extreme: Val) -> Val:
        return self.b.gt(value, extreme) if self.opcode == "maximum" else self.b.lt(value, extreme)

    def later(self, best: list[Val], others: list[Val]) -> tuple[Val, list[Val]]:
        """Returns a condition that is true if the best of later elements, each state one lane, is better than that so
        far, and the state of both."""
        b = self.b
        better = self._better(others[0], best[0])
        made = [b.select(better, others[0], best[0])]
        if len(best) > 1:
            better = b.and_(best[1], b.or_(better, b.not_(others[1])))
            made.append(b.and_(best[1], others[1]))
        return better, made

    def moved(self, state: list[Val], by: int) -> list[Val]:
        """The state with all places so much later."""
        return [state[0], *(self.b.add(v, self.b.const("s32", by)) for v in state[1:])]

    def merge(self, p: list[Val], q: list[Val]) -> list[Val]:
        """The state of the elements of both."""
        b = self.b
        better = self._better(q[0], p[0])
        better = b.or_(better, b.and_(b.eq(q[0], p[0]), b.lt(q[1], p[1])))
        made = [b.select(better, v, u) for u, v in zip(p[:2], q[:2])]
        return made + [b.min(u, v) for u, v in zip(p[2:], q[2:])]

    def result(self, state: list[Val]) -> list[Val]:
        """The value and its place."""
        if len(state) == 2:
            return state
        b, (extreme, found, first) = self.b, state
        none = b.lt(first, b.const("s32", NOWHERE))
        return [b.select(none, b.const(self.dtype, float("nan")), extreme), b.select(none, first, found)]

    def _of(self, better: Val | None, extreme: Val, value: Val) -> Val:
        b = self.b
        if is_float(self.dtype):
            return b.pmax(extreme, value) if self.opcode == "maximum" else b.pmin(extreme, value)
        if better is not None and self.dtype in WIDE:
            return b.select(better, value, extreme)
        return b.max(extreme, value) if self.opcode == "maximum" else b.min(extreme, value)


def search(e: Elemental, x: Instruction, index: Index, inits: list[Val], best: str) -> list[Val] | None:
    """The best number of a row and its place, in lanes; None where these would hold one number, or the row is too
    long."""
    b, (operand, places) = e.b, x.operands[:2]
    size = operand.shape.dimensions[x.attrs["dimensions"][0]]
    lanes = b.lanes_at(index)
    along = b.vector is None and size >= _SEARCHED * b.lanes
    if not along and lanes == 1 or size >= NOWHERE:
        return None
    s = Search(b, operand.shape.element_type, best)

    def number(i: Affine, lanes: int) -> Val:
        return b.splat(e.value(operand, operand_index(x, index, (i,))), lanes)

    done = size
    if along and size >= _LONG_SEARCH and operand in e.sources:
        start = _best_block(s, size, number)
        value, at = s.result(_search_along(s, _BLOCK, lambda i, lanes: number(i + Affine.of(start), lanes)))
        at = b.add(at, start)
    elif along:
        done = size - size % (_SEARCHED * b.lanes)
        value, at = s.result(_search_along(s, done, number))
    else:

        def step(inner: Index, state: list[Val]) -> list[Val]:
            return s.step(state, number(inner[0], lanes), b.index_value(inner[0]))

        value, at = s.result(fold(b, (size,), s.start(lanes), lanes, step))
    acc = e.apply(x.called[0], [*inits, value, b.convert(at, places.shape.element_type)])

    def one(inner: Index, acc: list[Val]) -> list[Val]:
        place = operand_index(x, index, (inner[0] + done,))
        return e.apply(x.called[0], acc + [e.value(o, place) for o in (operand, places)])

    return fold(b, (size - done,), acc, lanes, one) if done < size else acc


_Number = Callable[[Affine, int], Val]
"""The number at a place, in so many lanes."""


def _search_along(s: Search, size: int, number: _Number) -> list[Val]:
    """The state after so many elements, a multiple of `_SEARCHED` vectors, along the lanes of vectors."""
    b = s.b
    step = _SEARCHED * b.lanes

    def several(i: Affine, acc: list[Val]) -> list[Val]:
        at = b.index_value(i)
        made = next_states(acc, _SEARCHED, lambda u, state: s.step(state, number(i + u * b.lanes, b.lanes), at))
        return [*map(b.pin, made)]

    acc = along(b, size // step, s.start(b.lanes) * _SEARCHED, several, step=step, vector=True)
    state, *others = states(acc, _SEARCHED)
    for u, other in enumerate(others, 1):
        state = s.merge(state, s.moved(other, u * b.lanes))
    return across_lanes(b, state, s.merge)


def _best_block(s: Search, size: int, number: _Number) -> Val:
    """Returns the place of the first block of `_BLOCK` elements that has what is searched for: a walk over the numbers,
    without their places.

    The last block reaches back over the end of the one before it, where nothing is better than what that has.
    """
    b = s.b
    step = _UNROLL * b.lanes

    def block(at: Affine, best: list[Val], start: Val) -> list[Val]:
        def several(i: Affine, acc: list[Val]) -> list[Val]:
            made = next_states(acc, _UNROLL, lambda u, state: s.glanced(state, number(at + i + u * b.lanes, b.lanes)))
            return [*map(b.pin, made)]

        acc = along(b, _BLOCK // step, s.glance(b.lanes) * _UNROLL, several, step=step, vector=True)
        better, best = s.later(best, across_lanes(b, in_pairs(states(acc, _UNROLL), s.both), s.both))
        return [*best, b.select(better, b.index_value(at), start)]

    acc = [*s.glance(1), b.const("s32", 0)]
    acc = along(b, size // _BLOCK, acc, lambda at, acc: block(at, acc[:-1], acc[-1]), step=_BLOCK)
    last = Affine(size - _BLOCK)
    start = (block(last, acc[:-1], acc[-1]) if size % _BLOCK else acc)[-1]
    # It is one of these in any case; the verifier of loops sees it here.
    return b.max(b.min(start, b.index_value(last)), b.const("s32", 0))
