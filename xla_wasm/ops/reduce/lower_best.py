"""The search for the greatest or least of a row and its place in lanes (see `passes/searches.py`)."""

from __future__ import annotations

from ...dataclass import dataclass
from ...loop.builder import WIDE, Builder, is_float
from ...loop.ir import Val
from .lower_running import neutral_value

NOWHERE = 1 << 30
"""A place behind all elements."""


@dataclass(frozen=True, slots=True)
class Running:
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
