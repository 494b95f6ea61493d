"""Real arrays for which Python's operators write instructions, so that a rule of an expansion reads as a formula."""

from __future__ import annotations

from ..dataclass import dataclass
from ..hlo.ir import Instruction
from ..hlo.types import TYPES
from .writer import Writer


@dataclass(frozen=True, slots=True)
class Real:
    e: Writer
    x: Instruction

    def __add__(self, other: Real | float) -> Real:
        return self._binary("add", other)

    def __sub__(self, other: Real | float) -> Real:
        return self._binary("subtract", other)

    def __mul__(self, other: Real | float) -> Real:
        return self._binary("multiply", other)

    def __truediv__(self, other: Real | float) -> Real:
        return self._binary("divide", other)

    def __neg__(self) -> Real:
        return self.apply("negate")

    def __and__(self, other: Real) -> Real:
        return self._binary("and", other)

    def __or__(self, other: Real) -> Real:
        return self._binary("or", other)

    def __abs__(self) -> Real:
        return self.apply("abs")

    def _binary(self, opcode: str, other: Real | float) -> Real:
        return Real(self.e, self.e.binary(opcode, self.x, other.x if isinstance(other, Real) else other))

    def apply(self, opcode: str) -> Real:
        """An elementwise function."""
        return Real(self.e, self.e.unary(opcode, self.x))

    def max(self, other: Real | float) -> Real:
        return self._binary("maximum", other)

    def min(self, other: Real | float) -> Real:
        return self._binary("minimum", other)

    def compare(self, direction: str, other: Real | float) -> Real:
        return Real(self.e, self.e.compare(direction, self.x, other.x if isinstance(other, Real) else other))

    def choose(self, a: Real, c: Real | float) -> Real:
        """`a` where this pred is true, else `c`."""
        return Real(self.e, self.e.select(self.x, a.x, c.x if isinstance(c, Real) else c))

    def full(self, value: float) -> Real:
        """A number in this shape."""
        return Real(self.e, self.e.like(self.x, value))

    def convert(self, dtype: str) -> Real:
        return Real(self.e, self.e.convert(self.x, dtype))

    def sign_of(self, other: Real) -> Real:
        """This magnitude with the sign bit of another number."""
        bits = TYPES[self.dtype].bits
        unsigned = f"u{bits}"
        sign = self.e.binary("and", self.e.bitcast_convert(other.x, unsigned), 1 << (bits - 1))
        return Real(
            self.e,
            self.e.bitcast_convert(self.e.binary("or", self.e.bitcast_convert(self.x, unsigned), sign), self.dtype),
        )

    @property
    def dtype(self) -> str:
        return self.x.shape.element_type

    @property
    def is_infinite(self) -> Real:
        return abs(self).compare("EQ", float("inf"))
