"""The distance of two arrays: in absolute value, relative to the scale of the result, and in units in the last
place."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from ..dataclass import dataclass
from ..host.arrays import Array


@dataclass(frozen=True, slots=True)
class Difference:
    """The worst differences of an array from the expected one. Two NaNs are equal, and so are equal infinities and
    zeros of either sign.

    `absolute` is infinite where only one of the two is NaN or infinite. `scale` is the largest finite magnitude
    expected. `ulp` is None for types other than floats. `at` is the index of the worst element, None if all are equal.
    """

    absolute: float
    ulp: int | None
    scale: float
    at: tuple[int, ...] | None

    @property
    def relative(self) -> float:
        """`absolute` over the scale of the result."""
        return self.absolute / self.scale if self.scale else self.absolute


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The allowed difference of two correct ways of computing. An element agrees if any of the three allows its
    difference.

    `relative` is a part of `scale`: that of the result if it is None, else a number or one for each element. `ulp`
    counts the values of the type in between. Integers must be equal.
    """

    relative: float = 0.0
    ulp: int = 0
    scale: Array | float | None = None


def difference(actual: Array, expected: Array) -> Difference:
    """The worst differences of two arrays of one shape and dtype."""
    assert actual.shape == expected.shape and actual.dtype == expected.dtype, (
        actual.shape,
        actual.dtype,
        expected.shape,
        expected.dtype,
    )
    if actual.size == 0:
        return Difference(0.0, 0 if is_float(actual.dtype) else None, 0.0, None)
    if actual.dtype.kind == "c":
        worst = difference(_parts(actual), _parts(expected))
        return Difference(worst.absolute, worst.ulp, worst.scale, worst.at[:-1] if worst.at else None)
    if not is_float(actual.dtype):
        apart = _gaps(actual, expected)
        worst_at = int(apart.argmax())
        return Difference(
            float(apart.flat[worst_at]),
            None,
            _scale(expected),
            _index(worst_at, actual) if apart.flat[worst_at] else None,
        )
    apart = _apart(actual, expected)
    steps = np.where(np.isfinite(apart) & (apart > 0), _ulps(actual, expected), 0)
    worst_at = int(apart.argmax())
    at = _index(worst_at, actual) if apart.flat[worst_at] else None
    return Difference(float(apart.flat[worst_at]), int(steps.max()), _scale(expected), at)


def differing(actual: Array, expected: Array, allowed: Tolerance) -> Array:
    """Returns a mask of the elements that differ by more than is allowed. Denormals of f32, f64 and complex numbers may
    be zeros."""
    if actual.dtype.kind == "c":
        # Either part may be off by what counts beside the whole number.
        modulus = np.abs(expected.astype(np.complex128))
        scale = _scale(modulus) if allowed.scale is None else allowed.scale
        eps = float(np.finfo(actual.dtype).eps)
        with np.errstate(all="ignore"):
            limit = np.fmax(
                np.broadcast_to(np.multiply(allowed.relative, scale), modulus.shape), allowed.ulp * eps * modulus
            )
        return np.asarray(differing(_parts(actual), _parts(expected), Tolerance(1.0, 0, limit[..., None])).any(-1))
    if not is_float(actual.dtype):
        return np.asarray(actual != expected)
    apart = _apart(actual, expected)
    scale = _scale(expected) if allowed.scale is None else allowed.scale
    floor = float(ml_dtypes.finfo(actual.dtype).smallest_normal) if actual.dtype.itemsize > 2 else 0.0
    with np.errstate(all="ignore"):
        beyond = apart > np.maximum(np.multiply(allowed.relative, scale), floor)
    number = ~(np.isnan(actual.astype(np.float64)) | np.isnan(expected.astype(np.float64)))
    return np.asarray(beyond & ~(number & (_ulps(actual, expected) <= allowed.ulp)))


def tolerance(dtype: np.dtype[Any]) -> Tolerance:
    """Returns the difference that the results of two correct ways of computing may show.

    Sums in another order differ by some hundred rounding errors; a type of 16 bits or less is rounded once, at the end.
    """
    if dtype.kind == "c":
        dtype = np.dtype(f"f{dtype.itemsize // 2}")
    if not is_float(dtype):
        return Tolerance()
    eps = float(ml_dtypes.finfo(dtype).eps)
    if dtype.itemsize == 1:
        return Tolerance(min(eps, 0.125), 1)
    return Tolerance(eps * (8 if dtype.itemsize == 2 else 1024))


def is_float(dtype: np.dtype[Any]) -> bool:
    """Returns True if this is a real type with fractions. The small types of ml_dtypes have kind "V"; its integers are
    no floats."""
    return dtype.kind == "f" or (dtype.kind == "V" and "float" in dtype.name)


def _parts(x: Array) -> Array:
    """Real and imaginary parts along a new last dimension."""
    return np.stack([x.real, x.imag], -1)


def _apart(actual: Array, expected: Array) -> Array:
    """Distances of floats; infinite where only one of the two is a number, or finite."""
    a, b = actual.astype(np.float64), expected.astype(np.float64)
    with np.errstate(all="ignore"):
        apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    return np.where(np.isfinite(apart), apart, np.inf)


def _gaps(actual: Array, expected: Array) -> Array:
    """Distances of integers or truth values, in f64."""
    if not (actual != expected).any():
        return np.zeros(actual.shape)
    wide = [x.astype(object if x.dtype.itemsize == 8 else np.int64) for x in (actual, expected)]
    return np.asarray(np.abs(wide[0] - wide[1])).astype(np.float64)


def _scale(expected: Array) -> float:
    magnitude = np.abs(expected.astype(np.float64))
    return float(magnitude[np.isfinite(magnitude)].max(initial=0.0))


def _ulps(actual: Array, expected: Array) -> Array:
    """Returns the number of values of the type that lie between."""
    a, b = _rank(actual), _rank(expected)
    return np.abs(a - b)


def _rank(x: Array) -> Array:
    """The position of each element among the values of its type; zeros of either sign share one. NaNs have no sensible
    one."""
    if x.dtype.itemsize == 1:
        return _ranks_of_bytes(x.dtype)[np.ascontiguousarray(x).view(np.uint8)].reshape(x.shape)
    bits = np.ascontiguousarray(x).view(f"i{x.dtype.itemsize}").reshape(x.shape)
    magnitude = (bits & np.iinfo(bits.dtype).max).astype(object if x.dtype.itemsize == 8 else np.int64)
    return np.where(bits < 0, -magnitude, magnitude)


@cache
def _ranks_of_bytes(dtype: np.dtype[Any]) -> Array:
    values = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float64)
    known = np.unique(values[~np.isnan(values)])
    return np.searchsorted(known, values)


def _index(flat: int, array: Array) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(flat, array.shape))
