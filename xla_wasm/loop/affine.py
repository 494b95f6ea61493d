"""Affine indices: a constant plus multiples of loop variables plus multiples of values known only at run time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..hlo.index_map import row_major_strides

if TYPE_CHECKING:
    from .ir import Loop, Val


class Affine:
    """`const + sum(coefficient * loop variable) + sum(coefficient * value)`; immutable and hashable.

    Loop variables count elements (a vector loop's variable is that of its first lane).
    """

    __slots__ = ("const", "loops", "values", "_hash")

    def __init__(
        self, const: int = 0, loops: tuple[tuple[Loop, int], ...] = (), values: tuple[tuple[Val, int], ...] = ()
    ):
        self.const = const
        self.loops = loops
        self.values = values
        self._hash = hash((const, loops, values))

    @staticmethod
    def along(loop: Loop) -> Affine:
        """The variable of a loop."""
        return Affine(0, ((loop, 1),))

    @staticmethod
    def of(value: Val) -> Affine:
        """An index that is known at run time."""
        return Affine(0, (), ((value, 1),))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Affine)
            and self.const == other.const
            and self.loops == other.loops
            and self.values == other.values
        )

    def __repr__(self) -> str:
        parts = [f"{c}*i{loop.level}" for loop, c in self.loops] + [f"{c}*{v!r}" for v, c in self.values]
        return " + ".join([*parts, str(self.const)]) if parts else str(self.const)

    def __add__(self, other: Affine | int) -> Affine:
        if isinstance(other, int):
            return Affine(self.const + other, self.loops, self.values) if other else self
        if not other.loops and not other.values:
            return Affine(self.const + other.const, self.loops, self.values) if other.const else self
        return Affine(self.const + other.const, _merge(self.loops, other.loops), _merge(self.values, other.values))

    def __sub__(self, other: Affine | int) -> Affine:
        return self + (-other if isinstance(other, int) else other * -1)

    def __mul__(self, factor: int) -> Affine:
        if factor == 1:
            return self
        if factor == 0:
            return ZERO
        return Affine(
            self.const * factor,
            tuple([(x, c * factor) for x, c in self.loops]),
            tuple([(x, c * factor) for x, c in self.values]) if self.values else (),
        )

    def coefficient(self, loop: Loop | None) -> int:
        """The coefficient of `loop`'s variable."""
        for candidate, c in self.loops:
            if candidate is loop:
                return c
        return 0

    def range(self) -> tuple[int, int] | None:
        """The least and greatest value over all loop trips, or None if run-time values take part."""
        if self.values:
            return None
        low = high = self.const
        for loop, c in self.loops:
            last = c * ((loop.trips - 1) * loop.step + loop.lanes - 1)
            low, high = (low, high + last) if last > 0 else (low + last, high)
        return low, high


def _merge(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    if not b:
        return a
    if not a:
        return b
    total = dict(a)
    for key, c in b:
        total[key] = total.get(key, 0) + c
    # By depth, so that equal sums are equal however they were added up.
    return tuple(sorted([term for term in total.items() if term[1]], key=_depth))


def _depth(term: tuple[Loop | Val, int]) -> int:
    return term[0].level


ZERO = Affine()

Index = tuple[Affine, ...]
"""One position along each dimension of an array."""


def is_dense(dims: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Returns True if elements with these strides lie in row-major order without gaps."""
    return all(size == 1 or stride == dense for size, stride, dense in zip(dims, strides, row_major_strides(dims)))


def linearize(index: tuple[Affine, ...], dims: tuple[int, ...]) -> Affine:
    """The row-major position of `index` in an array of `dims`."""
    position, stride = ZERO, 1
    for i, size in zip(reversed(index), reversed(dims)):
        if size != 1:
            position = position + i * stride
        stride *= size
    return position


def digit(value: Affine, divisor: int, size: int) -> Affine | None:
    """`value // divisor % size`, or None if it would need a division at run time."""
    if value.values:
        return None
    period = divisor * size
    high = Affine(
        value.const % period // divisor,
        tuple((x, c // divisor) for x, c in value.loops if c % divisor == 0 and c % period),
    )
    low = Affine(value.const % divisor, tuple((x, c) for x, c in value.loops if c % divisor))
    for part, bound in ((low, divisor), (high, size)):
        bounds = part.range()
        if bounds is None or bounds[0] < 0 or bounds[1] >= bound:
            return None
    return high


def delinearize(position: Affine, dims: tuple[int, ...]) -> tuple[Affine, ...] | None:
    """The index in `dims` of a row-major position, or None if it would need a division at run time.

    Each term goes to the dimension whose stride divides its coefficient; that is right where the terms that go to the
    dimensions below never add up to a whole stride, which the ranges of the loop variables tell.
    """
    if 0 in dims:
        return (ZERO,) * len(dims)
    if sum(size != 1 for size in dims) <= 1:
        return tuple(position if size != 1 else ZERO for size in dims)
    strides, stride = [], 1
    for size in reversed(dims):
        strides.append(stride)
        stride *= size
    strides.reverse()
    index = []
    rest = position
    for size, stride in zip(dims, strides):
        if size == 1:
            index.append(ZERO)
            continue
        high = Affine(
            rest.const // stride,
            tuple((x, c // stride) for x, c in rest.loops if c % stride == 0),
            tuple((x, c // stride) for x, c in rest.values if c % stride == 0),
        )
        rest = rest - high * stride
        bounds = rest.range()
        if bounds is None or bounds[0] < 0 or bounds[1] >= stride:
            return None
        index.append(high)
    return tuple(index)
