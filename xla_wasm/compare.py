"""How far two arrays lie apart: in absolute value, relative to the scale of the result, and in units in the last place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from .host.arrays import Array


@dataclass(frozen=True, slots=True)
class Difference:
    """The worst differences of an array from the expected one. Two NaNs are equal, and so are equal infinities.

    `absolute` is infinite where only one of the two is NaN or infinite. `scale` is the largest finite magnitude expected.
    `ulp` is None for types other than floats. `at` is the index of the worst element, None if all are equal.
    """

    absolute: float
    ulp: int | None
    scale: float
    at: tuple[int, ...] | None

    @property
    def relative(self) -> float:
        """`absolute` over the scale of the result."""
        return self.absolute / self.scale if self.scale else self.absolute


def difference(actual: Array, expected: Array) -> Difference:
    """The worst differences of two arrays of one shape and dtype."""
    assert actual.shape == expected.shape and actual.dtype == expected.dtype, (actual.shape, actual.dtype, expected.shape, expected.dtype)
    if actual.size == 0:
        return Difference(0.0, 0 if _is_float(actual.dtype) else None, 0.0, None)
    if actual.dtype.kind == "c":
        part = np.dtype(f"f{actual.dtype.itemsize // 2}")
        worst = difference(np.ascontiguousarray(actual)[..., None].view(part), np.ascontiguousarray(expected)[..., None].view(part))
        return Difference(worst.absolute, worst.ulp, worst.scale, worst.at[:-1] if worst.at else None)
    if not _is_float(actual.dtype):
        gaps = [abs(int(a) - int(b)) for a, b in zip(actual.ravel(), expected.ravel())] if (actual != expected).any() else [0]
        worst_gap = max(gaps)
        return Difference(float(worst_gap), None, _scale(expected), _index(gaps.index(worst_gap), actual) if worst_gap else None)
    a, b = actual.astype(np.float64), expected.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        apart = np.where(same, 0.0, np.abs(a - b))
    apart[~np.isfinite(apart)] = np.inf
    steps = np.where(same | ~np.isfinite(apart), 0, _ulps(actual, expected))
    worst_at = int(apart.argmax())
    at = _index(worst_at, actual) if apart.flat[worst_at] else None
    return Difference(float(apart.flat[worst_at]), int(steps.max()), _scale(expected), at)


def tolerance(dtype: np.dtype[Any]) -> float:
    """The difference relative to the scale of the result that two correct ways of computing may show; 0 for integers.

    Sums in another order differ by some hundred rounding errors; a type of 16 bits or less is rounded once, at the end.
    """
    if dtype.kind == "c":
        dtype = np.dtype(f"f{dtype.itemsize // 2}")
    if not _is_float(dtype):
        return 0.0
    return float(ml_dtypes.finfo(dtype).eps) * {1: 2, 2: 8}.get(dtype.itemsize, 1024)


def _is_float(dtype: np.dtype[Any]) -> bool:
    # The small types of ml_dtypes have kind "V"; its integers are no floats.
    return dtype.kind == "f" or (dtype.kind == "V" and "float" in dtype.name)


def _scale(expected: Array) -> float:
    magnitude = np.abs(expected.astype(np.float64))
    return float(magnitude[np.isfinite(magnitude)].max(initial=0.0))


def _ulps(actual: Array, expected: Array) -> Array:
    """How many values of the type lie between, as floats' bit patterns are in order of magnitude."""

    def rank(x: Array) -> Array:
        bits = np.ascontiguousarray(x).view(f"i{x.dtype.itemsize}")
        magnitude = (bits & np.iinfo(bits.dtype).max).astype(object if x.dtype.itemsize == 8 else np.int64)
        return np.where(bits < 0, -magnitude, magnitude)

    return np.abs(rank(actual) - rank(expected))


def _index(flat: int, array: Array) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(flat, array.shape))
