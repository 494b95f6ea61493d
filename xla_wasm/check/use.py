"""The use that a program makes of an array, as far as it matters for drawing one: intervals for its elements, and the
numbers that they may be at all."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any

import numpy as np

from ..dataclass import dataclass, replace
from ..hlo.shape import Shape
from ..host.arrays import Array

FAR = 1 << 61
"""Bounds that are none."""


class Range(IntEnum):
    """The numbers that an array may be drawn from."""

    ALL = 0
    FINITE = 1
    """No NaN or infinity: the order of NaNs in a sort is not specified, say."""
    ORDINARY = 2
    """Neither extreme nor special: a loop, a decomposition or what devices exchange depends on them."""


@dataclass(frozen=True, slots=True)
class Use:
    """The use of an array: each element lies between `low` and `high`, which have the array's dimensions, and
    are far away where nothing is known. If `strict`, no element may lie outside."""

    low: Array
    high: Array
    strict: bool = False
    range: Range = Range.ALL

    @property
    def bounded(self) -> Array:
        """A mask of the elements that have bounds."""
        return np.asarray((self.low > -FAR) & (self.high < FAR))

    @property
    def free(self) -> bool:
        """True if it is known at once that no element has bounds."""
        return not any(self.low.strides) and self.low.size > 0 and int(self.low.flat[0]) <= -FAR

    def map(self, fn: Callable[[Array], Any]) -> Use:
        """The use of the elements that `fn` makes of these."""
        return replace(self, low=np.asarray(fn(self.low)), high=np.asarray(fn(self.high)))

    def like(self, shape: Shape) -> Use:
        """One interval, inside all of these, for every element of another array."""
        bounded = self.bounded
        if not bounded.any():
            return unbounded(shape, self.range)
        low, high = int(self.low[bounded].max()), int(self.high[bounded].min())
        if low > high:
            low, high = int(self.low[bounded].min()), int(self.high[bounded].max())
        return replace(between(shape, low, high), strict=self.strict, range=self.range)

    def only_range(self, shape: Shape) -> Use | None:
        """The same range for another array that this one is computed from; None if that is all numbers."""
        return unbounded(shape, self.range) if self.range else None


Uses = list[Use | None]
"""One for each leaf of a value."""


def between(shape: Shape, low: int, high: int) -> Use:
    """One interval for all elements of an array."""
    dims = shape.dimensions
    return Use(np.broadcast_to(np.int64(low), dims), np.broadcast_to(np.int64(high), dims))


def unbounded(shape: Shape, least: Range) -> Use:
    """No interval for any element."""
    dims = shape.dimensions if shape.is_array else ()
    return Use(np.broadcast_to(np.int64(-2 * FAR), dims), np.broadcast_to(np.int64(2 * FAR), dims), range=least)


def both(a: Use | None, b: Use | None) -> Use | None:
    """The use of what is used for two things: for both at once where that can be, else for one or the other."""
    if a is None or b is None:
        return a or b
    if a.free or b.free:
        return replace(b if a.free else a, strict=a.strict or b.strict, range=max(a.range, b.range))
    low, high = np.maximum(a.low, b.low), np.minimum(a.high, b.high)
    apart = low > high
    if apart.any():
        one = a if a.strict else b
        mixed = a.strict or b.strict
        least, most = (one.low, one.high) if mixed else (np.minimum(a.low, b.low), np.maximum(a.high, b.high))
        low, high = np.where(apart, least, low), np.where(apart, most, high)
    return Use(low, high, a.strict or b.strict, max(a.range, b.range))


def where(good: Array, use: Use) -> Use:
    """The use where it is good, and none elsewhere."""
    return replace(use, low=np.where(good, use.low, -2 * FAR), high=np.where(good, use.high, 2 * FAR))


def moved(use: Use, by: Array) -> Use:
    """The use of other numbers: the ends of all intervals moved."""

    def move(ends: Array) -> Array:
        return np.where(np.abs(ends) < FAR, np.clip(ends + by, 1 - FAR, FAR - 1), ends)

    return use.map(move)


def integers(value: Array | None) -> Array | None:
    """Known numbers as integers; None for those that are no numbers near enough."""
    if value is None or value.dtype.kind == "c":
        return None
    wide = value.astype(np.float64)
    if not np.isfinite(wide).all() or (np.abs(wide) >= FAR).any():
        return None
    return np.asarray(np.floor(wide).astype(np.int64) if value.dtype.kind not in "iub" else value.astype(np.int64))


def leaf_count(shape: Shape) -> int:
    """The number of leaves."""
    return sum(1 for _ in shape.leaves())
