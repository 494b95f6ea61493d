"""Comparisons of arrays: element by element in units in the last place, or against the scale of a result.

This is a judge of its own, on purpose: `xla_wasm.check.compare`, which users have, forgives denormal numbers and signs
of zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import ml_dtypes
import numpy as np

from xla_wasm.check.compare import is_float

Array = np.ndarray[Any, Any]
Near = Callable[[Any, Any], None]
"""Compares an array with the expected one; raises AssertionError if that is too far."""


def ulp_of(x: Array, dtype: Any) -> Array:
    """The distance of neighbouring numbers of `dtype` at the magnitude of each (finite f64) `x`."""
    info = ml_dtypes.finfo(dtype)
    magnitude = np.maximum(np.abs(x), float(info.smallest_normal))
    return np.ldexp(float(info.eps), np.frexp(magnitude)[1] - 1)


def assert_same(actual: Array, expected: Array, ulp: float = 0, what: str = "") -> None:
    """Equal shape and dtype; integers equal; floats within `ulp` each, zeros of one sign, NaN and infinity in the same
    places."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.dtype == expected.dtype, f"{what}: dtype {actual.dtype}, expected {expected.dtype}"
    assert actual.shape == expected.shape, f"{what}: shape {actual.shape}, expected {expected.shape}"
    if expected.dtype.kind == "c":
        _assert_complex(actual, expected, ulp, what)
        return
    if not is_float(expected.dtype):
        np.testing.assert_array_equal(actual, expected, what)
        return
    x, y = actual.astype(np.float64), expected.astype(np.float64)
    special = ~np.isfinite(x) | ~np.isfinite(y)
    np.testing.assert_array_equal(x[special], y[special], f"{what}: NaN or infinity")
    zero = (x == 0) & (y == 0)
    np.testing.assert_array_equal(np.signbit(x[zero]), np.signbit(y[zero]), f"{what}: signs of zeros")
    x, y = x[~special], y[~special]
    off = np.abs(x - y) / ulp_of(y, expected.dtype)
    if np.any(off > ulp):
        worst = int(np.argmax(off))
        raise AssertionError(
            f"{what}: {x[worst]!r}, expected {y[worst]!r}: {off[worst]:.3g} ulp, allowed {ulp:g}; all: {actual!r}, "
            f"{expected!r}"
        )


def assert_all(actual: Iterable[Any], expected: Iterable[Any], near: Near = assert_same) -> None:
    """As many arrays as expected, each of which `near` finds near enough; without it, the same."""
    actual, expected = list(actual), list(expected)
    assert len(actual) == len(expected), f"{len(actual)} results, expected {len(expected)}"
    for i, (x, y) in enumerate(zip(actual, expected)):
        try:
            near(x, y)
        except AssertionError as error:
            raise AssertionError(f"result {i}: {error}") from error


def same_bits(actual: Any, expected: Any) -> None:
    """The same type, shape and bytes, those of NaNs included."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    assert actual.tobytes() == expected.tobytes(), f"{actual!r}, expected the bits of {expected!r}"


def equal(actual: Any, expected: Any) -> None:
    """Equal numbers, whatever their type and the signs of zeros; NaN in the same places."""
    # NumPy itself knows no NaN in the types that ml_dtypes adds.
    actual, expected = (a.astype(np.float64) if a.dtype.kind == "V" else a for a in map(np.asarray, (actual, expected)))
    np.testing.assert_array_equal(actual, expected)


def within_ulp(ulp: float) -> Near:
    """As `assert_same`, with so many units in the last place for each float."""
    return lambda actual, expected: assert_same(actual, expected, ulp)


def allclose(rtol: float, atol: float = 0.0) -> Near:
    """As `numpy.testing.assert_allclose`."""
    return lambda actual, expected: np.testing.assert_allclose(actual, expected, rtol=rtol, atol=atol)


def _assert_complex(actual: Array, expected: Array, ulp: float, what: str) -> None:
    """The parts as floats, but `ulp` counts units of the magnitude of the number."""
    off = []
    for name in ("real", "imag"):
        x, y = getattr(actual, name), getattr(expected, name)
        special = ~np.isfinite(x) | ~np.isfinite(y)
        np.testing.assert_array_equal(
            x[special], y[special], f"{what}: NaN or infinity in {name} parts: {actual!r}, {expected!r}"
        )
        zero = (x == 0) & (y == 0)
        np.testing.assert_array_equal(
            np.signbit(x[zero]), np.signbit(y[zero]), f"{what}: signs of zeros in {name} parts: {actual!r}"
        )
        off.append(np.where(special, 0, x).astype(np.float64) - np.where(special, 0, y))
    size = np.hypot(*(np.where(np.isfinite(p), p, 0).astype(np.float64) for p in (expected.real, expected.imag)))
    worst = np.max(np.maximum(*np.abs(off)) / ulp_of(size, expected.real.dtype), initial=0)
    assert worst <= ulp, f"{what}: {worst:.3g} ulp off, allowed {ulp:g}: {actual!r}, {expected!r}"


def error(actual: Array, true: Array, what: str = "") -> float:
    """The greatest distance from the true values; NaN and infinity must stand in the same places."""
    x, y = np.asarray(actual, np.float64), np.asarray(true, np.float64)
    assert x.shape == y.shape, f"{what}: shape {x.shape}, expected {y.shape}"
    special = ~np.isfinite(y)
    np.testing.assert_array_equal(x[special], y[special], f"{what}: NaN or infinity")
    return float(np.max(np.abs(x[~special] - y[~special]), initial=0.0))


def scale_ulp(true: Array, dtype: Any) -> float:
    """One unit in the last place of `dtype` at the greatest finite magnitude of a result."""
    finite = np.abs(true[np.isfinite(true)])
    return float(ulp_of(np.max(finite, initial=0.0), dtype))


def within(distance: float, true: Array, dtype: Any) -> float:
    """Returns the distance from the true values that a result may have, given that of another that is as good: three
    times that and 8 ulp of the scale.

    That distance has luck in it: XLA:CPU's own is up to three times as long with one instruction set as with another,
    for where it fuses and in which order it sums depends on it.
    """
    return 3 * distance + 8 * scale_ulp(true, dtype)


def assert_near_true(actual: Array, true: Array, other: Array, what: str) -> None:
    """Integers as `other`, XLA:CPU's result, has them; floats `within` a multiple of its distance from the true
    values."""
    assert actual.dtype == other.dtype and actual.shape == other.shape, what
    if is_float(other.dtype):
        allowed = within(error(other, true, f"{what} of XLA:CPU"), true, other.dtype)
        off = error(actual, true, what)
        assert off <= allowed, f"{what}: error {off:.3g}, allowed {allowed:.3g}"
    else:
        np.testing.assert_array_equal(actual, other, what)
