"""The values that a reduction by one operation carries from element to element."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ...dataclass import dataclass
from ...hlo.types import TYPES
from ...loop.builder import Builder
from ...loop.ir import Val
from .lower_walk import Walk
from .neutral import neutral

_LEAST = 4
"""Elements from which on a greatest number is worth a state of several values."""


def neutral_value(b: Builder, opcode: str, dtype: str) -> Val:
    """Returns the neutral element of a monoid as a value."""
    number = neutral(opcode, dtype)
    assert isinstance(number, (int, float))
    return b.const(dtype, number)


@dataclass(frozen=True, slots=True)
class Running:
    """A monoid on values with some lanes: its state is its result so far."""

    b: Builder
    opcode: str
    dtype: str
    combine: Callable[[Val, Val], Val]

    def start(self, lanes: int) -> list[Val]:
        """The state before the first element."""
        return [self.b.splat(neutral_value(self.b, self.opcode, self.dtype), lanes)]

    def step(self, state: list[Val], value: Val) -> list[Val]:
        """The state with one more element in each lane."""
        return [self.combine(state[0], value)]

    def merge(self, p: list[Val], q: list[Val]) -> list[Val]:
        """The state of the elements of both."""
        return [self.combine(p[0], q[0])]

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
        b = self.b
        bits = b.const(self._word, -1 if self._greatest else 0)
        return [b.splat(v, lanes) for v in (neutral_value(b, self.opcode, self.dtype), b.const("pred", False), bits)]

    def step(self, state: list[Val], value: Val) -> list[Val]:
        b = self.b
        return self.merge(state, [value, b.ne(value, value), b.bitcast(value, self._word)])

    def merge(self, p: list[Val], q: list[Val]) -> list[Val]:
        b = self.b
        extreme = b.pmax(p[0], q[0]) if self._greatest else b.pmin(p[0], q[0])
        return [extreme, b.or_(p[1], q[1]), b.and_(p[2], q[2]) if self._greatest else b.or_(p[2], q[2])]

    def result(self, state: list[Val]) -> Val:
        b, (extreme, none, bits) = self.b, state
        sign = b.bitcast(b.and_(bits, b.bits(self._word, 1 << (TYPES[self.dtype].bits - 1))), self.dtype)
        number = b.select(b.eq(extreme, b.const(self.dtype, 0)), sign, extreme)
        return b.select(none, b.const(self.dtype, float("nan")), number)

    @property
    def _greatest(self) -> bool:
        return self.opcode == "maximum"

    @property
    def _word(self) -> str:
        return f"u{TYPES[self.dtype].bits}"


def running(w: Walk, lanes: int) -> Running:
    """Returns the steps of a reduction by a monoid, in so many lanes."""
    opcode, dtype = w.opcode, w.dtype
    assert opcode is not None
    extreme = opcode in ("maximum", "minimum") and dtype in ("f32", "f64") and lanes > 1 and prod(w.sizes) >= _LEAST
    return (_Extreme if extreme else Running)(w.e.b, opcode, dtype, w.combine)
