"""Loop values for which Python's operators write operations, so that a function reads as a formula."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...dataclass import dataclass
from ..builder import Builder
from ..ir import Val
from .formats import FORMATS, INTEGERS, Format


def _unary(operation: str) -> Callable[[Number], Number]:
    """Returns a function that writes an operation of the builder."""
    return lambda x: Number(x.b, getattr(x.b, operation)(x.x))


def _binary(operation: str) -> Callable[[Number, Number | float], Number]:
    return lambda x, y: Number(x.b, getattr(x.b, operation)(x.x, x.val(y)))


def _swapped(operation: str) -> Callable[[Number, float], Number]:
    """The operation where a Python number comes first."""
    return lambda x, y: Number(x.b, getattr(x.b, operation)(x.val(y), x.x))


def _ternary(operation: str) -> Callable[[Number, Number | float, Number | float], Number]:
    return lambda x, y, z: Number(x.b, getattr(x.b, operation)(x.x, x.val(y), x.val(z)))


@dataclass(frozen=True, slots=True)
class Number:
    """A float, the integer that its bits are, or a truth value. A Python number beside one becomes a constant of its
    type.

    What operations mean is said where the builder has them (`loop/arithmetic.py`).
    """

    b: Builder
    x: Val

    @property
    def format(self) -> Format:
        """Returns the format of this float."""
        return FORMATS[self.x.dtype]

    def const(self, number: float) -> Number:
        """A constant of this type."""
        return Number(self.b, self.b.const(self.x.dtype, number))

    def val(self, other: Number | float) -> Val:
        """An operand of this type."""
        return other.x if isinstance(other, Number) else self.b.const(self.x.dtype, other)

    __add__, __radd__ = _binary("add"), _swapped("add")
    __sub__, __rsub__ = _binary("sub"), _swapped("sub")
    __truediv__, __rtruediv__ = _binary("div"), _swapped("div")
    __mul__ = _binary("mul")
    __neg__, __abs__, __invert__ = _unary("neg"), _unary("abs"), _unary("not_")
    __and__, __or__, __xor__ = _binary("and_"), _binary("or_"), _binary("xor")
    __lt__, __gt__, __ge__ = _binary("lt"), _binary("gt"), _binary("ge")
    equals, differs = _binary("eq"), _binary("ne")
    pmin, pmax, min, max = _binary("pmin"), _binary("pmax"), _binary("min"), _binary("max")
    sqrt, floor, trunc, nearest = _unary("sqrt"), _unary("floor"), _unary("trunc"), _unary("nearest")
    copysign = _binary("copysign")
    fma, fnma = _ternary("fma"), _ternary("fnma")

    def __lshift__(self, bits: int) -> Number:
        return Number(self.b, self.b.shl(self.x, bits))

    def __rshift__(self, bits: int) -> Number:
        """The sign comes after."""
        return Number(self.b, self.b.shr_s(self.x, bits))

    def clamp(self, low: float, high: float) -> Number:
        """NaN stays."""
        return self.pmin(high).pmax(low)

    def choose(self, a: Number | float, c: Number | float) -> Number:
        """`a` where this truth value holds, else `c`; one of them is no Python number."""
        typed = a if isinstance(a, Number) else c
        assert isinstance(typed, Number)
        return Number(self.b, self.b.select(self.x, typed.val(a), typed.val(c)))

    @property
    def bits(self) -> Number:
        """Returns the bits of this float as an integer."""
        return self.bitcast(INTEGERS[self.x.dtype])

    def bitcast(self, dtype: str) -> Number:
        return Number(self.b, self.b.bitcast(self.x, dtype))

    def convert(self, dtype: str) -> Number:
        return Number(self.b, self.b.convert(self.x, dtype))

    def unless(self, slow: Number, symbol: str, *arguments: Number) -> Number:
        """This, but where `slow` holds, what the scalar C function `symbol` gives for the arguments."""
        return Number(self.b, self.b.slow_path(slow.x, self.x, symbol, *(a.x for a in arguments)))


def polynomial(x: Number, coefficients: Sequence[float]) -> Number:
    """By Horner's rule; coefficients come constant term first."""
    result = x.const(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = result.fma(x, coefficient)
    return result


def split_polynomial(x: Number, coefficients: Sequence[float]) -> Number:
    """Even and odd powers apart: half the latency of Horner's rule, which bounds long loops without branches."""
    square = x * x
    return polynomial(square, coefficients[1::2]).fma(x, polynomial(square, coefficients[::2]))
