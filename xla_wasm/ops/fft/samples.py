"""Samples of the Fourier transform; long ones are in the tests, where they are measured by the size of the whole
result."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import Array
from ..sample import Sample, array, case, f32, f64, nan


def _c64(values: Any) -> Array:
    return array("c64", values)


def _fft(kind: str, name: str, operand: Array, expected: Array, *lengths: int, ulp: float = 0) -> Sample:
    return case("fft", [operand], expected, name=f"{kind} {name}", ulp=ulp, fft_type=kind, fft_length=lengths)


def _chirp(*dims: int) -> Array:
    """Numbers of magnitude 1 whose spectrum is of one magnitude as well."""
    angles = sum(j * (j + n % 2) % (2 * n) / n for n, j in zip(dims, np.indices(dims)))
    return np.asarray(np.exp(1j * np.pi * angles))


def _spectrum(x: Array, axes: int) -> Array:
    """The definition: the sum of x[j] exp(-2 pi i j k / n) along each of the last dimensions."""
    for axis in range(x.ndim - axes, x.ndim):
        n = x.shape[axis]
        turns = np.outer(np.arange(n), np.arange(n)) % n / n
        x = np.moveaxis(np.tensordot(x, np.exp(-2j * np.pi * turns), (axis, 0)), -1, axis)
    return x


def _both(*dims: int, axes: int = 1) -> list[Sample]:
    """A transform and its inverse."""
    lengths, x = dims[len(dims) - axes :], _chirp(*dims)
    name = "x".join(map(str, dims)) + (f", {axes} dimensions" if axes > 1 else "")
    y = _spectrum(x, axes)
    return [_fft("FFT", name, _c64(x), _c64(y), *lengths, ulp=8), _fft("IFFT", name, _c64(y), _c64(x), *lengths, ulp=8)]


SAMPLES: tuple[Sample, ...] = (
    _fft("FFT", "of 1", _c64([3 - 2j]), _c64([3 - 2j]), 1),
    _fft("FFT", "of 2", _c64([3 - 2j, 1 + 1j]), _c64([4 - 1j, 2 - 3j]), 2),
    _fft("FFT", "of 4", _c64([1, 2, 4, 8]), _c64([15, -3 + 6j, -5, -3 - 6j]), 4),
    _fft("IFFT", "of 4", _c64([15, -3 + 6j, -5, -3 - 6j]), _c64([1, 2, 4, 8]), 4),
    _fft("RFFT", "of 1", f32([5]), _c64([5]), 1),
    _fft("RFFT", "of 2", f64([5, 3]), array("c128", [8, 2]), 2),
    _fft("RFFT", "of 4", f32([1, 2, 4, 8]), _c64([15, -3 + 6j, -5]), 4),
    _fft("RFFT", "2x2", f32([[1, 2], [4, 8]]), _c64([[15, -5], [-9, 3]]), 2, 2),
    _fft("IRFFT", "of 1", _c64([5 + 2j]), f32([5]), 1),
    _fft("IRFFT", "of 2", _c64([8 + 1j, 2 - 1j]), f32([5, 3]), 2),
    _fft("IRFFT", "of 4", _c64([15 + 1j, -3 + 6j, -5 + 2j]), f32([1, 2, 4, 8]), 4),
    _fft("FFT", "one of two dimensions", _c64([[1, 2], [4, 8]]), _c64([[3, -1], [12, -4]]), 2),
    _fft("FFT", "of NaN", _c64([nan, 1]), _c64([nan, nan]), 2),
    _fft("FFT", "of nothing", np.zeros((2, 0), np.complex64), np.zeros((2, 0), np.complex64), 0),
    _fft("RFFT", "no sequences", np.zeros((0, 4), np.float32), np.zeros((0, 3), np.complex64), 4),
    *(sample for n in (3, 5, 6, 7, 8, 12, 16, 37) for sample in _both(n)),
    *_both(9, 20),
    *_both(3, 4, 6, axes=2),
    *_both(2, 3, 5, axes=3),
    _fft(
        "IFFT",
        "2x2x2",
        array("c128", [[[8, 4], [0, 0]], [[-4, 8j], [0, 0]]]),
        array("c128", [[[1 + 1j, 0 - 1j], [1 + 1j, 0 - 1j]], [[2 - 1j, 1 + 1j], [2 - 1j, 1 + 1j]]]),
        2,
        2,
        2,
    ),
)
