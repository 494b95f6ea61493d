"""The values that a reduction by one operation carries from element to element."""

from __future__ import annotations

from math import prod

from ...dataclass import dataclass
from ...hlo.types import TYPES
from ...loop.ir import Val
from .lower_walk import Walk

_LEAST = 4
"""Elements from which on a greatest number is worth a state of several values."""


@dataclass(frozen=True, slots=True)
class Running:
    """A monoid on values with some lanes: its state is its result so far."""

    w: Walk

    def start(self, lanes: int) -> list[Val]:
        """The state before the first element."""
        return [self.w.b.splat(self.w.neutral, lanes)]

    def step(self, state: list[Val], value: Val) -> list[Val]:
        """The state with one more element in each lane."""
        return self.merge(state, [value])

    def merge(self, p: list[Val], q: list[Val]) -> list[Val]:
        """The state of the elements of both."""
        return [self.w.combine(p[0], q[0])]

    def result(self, state: list[Val]) -> Val:
        """Returns the result of each lane from its state."""
        return state[0]


@dataclass(frozen=True, slots=True)
class _Extreme(Running):
    """The greatest or least of floats in lanes, as `maximum` and `minimum` have it, in operations that are one
    instruction each.

    Those of processors take no account of NaN, nor of the sign of 0. So the state is the greatest of the numbers,
    whether anything was none, and for all bits whether every element has them (of a least one: any). If the greatest is
    a zero, the sign tells which.
    """

    def start(self, lanes: int) -> list[Val]:
        b = self.w.b
        bits = b.const(self._word, -1 if self._greatest else 0)
        return [b.splat(v, lanes) for v in (self.w.neutral, b.const("pred", False), bits)]

    def step(self, state: list[Val], value: Val) -> list[Val]:
        b = self.w.b
        return self.merge(state, [value, b.ne(value, value), b.bitcast(value, self._word)])

    def merge(self, p: list[Val], q: list[Val]) -> list[Val]:
        b = self.w.b
        extreme = b.pmax(p[0], q[0]) if self._greatest else b.pmin(p[0], q[0])
        return [extreme, b.or_(p[1], q[1]), b.and_(p[2], q[2]) if self._greatest else b.or_(p[2], q[2])]

    def result(self, state: list[Val]) -> Val:
        b, dtype, (extreme, none, bits) = self.w.b, self.w.dtype, state
        sign = b.bitcast(b.and_(bits, b.bits(self._word, 1 << (TYPES[dtype].bits - 1))), dtype)
        number = b.select(b.eq(extreme, b.const(dtype, 0)), sign, extreme)
        return b.select(none, b.const(dtype, float("nan")), number)

    @property
    def _greatest(self) -> bool:
        return self.w.opcode == "maximum"

    @property
    def _word(self) -> str:
        return f"u{TYPES[self.w.dtype].bits}"


def running(w: Walk, lanes: int) -> Running:
    """Returns the steps of a reduction by a monoid, in so many lanes."""
    extreme = w.opcode in ("maximum", "minimum") and w.dtype in ("f32", "f64")
    return (_Extreme if extreme and lanes > 1 and prod(w.sizes) >= _LEAST else Running)(w)
