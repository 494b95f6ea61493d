"""Samples of dot."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...hlo.attrs import DotDimensionNumbers
from ..arrays import Array
from ..sample import Sample, array, bf16, case, f32, f64, inf, nan, s8, s32, shape, u8


def _dot(
    x: Array,
    y: Array,
    expected: Array,
    name: str,
    contract: tuple[tuple[int, ...], tuple[int, ...]],
    batch: tuple[tuple[int, ...], tuple[int, ...]] = ((), ()),
    **more: Any,
) -> Sample:
    return case("dot", (x, y), expected, name=name, dot_dimension_numbers=DotDimensionNumbers(*contract, *batch), **more)


def _small(*dims: int) -> Array:
    """Small integers, so that every order of summing gives the same."""
    return f32(np.arange(np.prod(dims, dtype=int)).reshape(dims) * 7 % 11 - 5)


_A, _B = f32([[1, 2, 3], [4, 5, 6]]), f32([[1, 0], [2, -1], [3, 4]])
_PLAIN = ((1,), (0,))

SAMPLES: tuple[Sample, ...] = (
    _dot(_A, _B, f32([[14, 10], [32, 19]]), "matrix matrix", _PLAIN),
    _dot(_A.T.copy(), _B, f32([[14, 10], [32, 19]]), "transposed left", ((0,), (0,))),
    _dot(_A, _B.T.copy(), f32([[14, 10], [32, 19]]), "transposed right", ((1,), (1,))),
    _dot(_A.T.copy(), _B.T.copy(), f32([[14, 10], [32, 19]]), "transposed both", ((0,), (1,))),
    _dot(_A, f32([1, -1, 2]), f32([5, 11]), "matrix vector", _PLAIN),
    _dot(f32([1, -1]), _A, f32([-3, -3, -3]), "vector matrix", ((0,), (0,))),
    _dot(f32([1, 2, 3]), f32([4, 5, 6]), f32(32), "vector vector", ((0,), (0,))),
    _dot(f32([1, 2]), f32([3, 4, 5]), f32([[3, 4, 5], [6, 8, 10]]), "outer product", ((), ())),
    _dot(f32(3), f32([1, 2]), f32([3, 6]), "scalar", ((), ())),
    _dot(f32(np.zeros((2, 0))), f32(np.zeros((0, 3))), f32(np.zeros((2, 3))), "empty contraction", _PLAIN),
    _dot(f32(np.zeros((0, 2))), f32(np.zeros((2, 3))), f32(np.zeros((0, 3))), "empty result", _PLAIN),
    _dot(f32([[inf, 1], [nan, 1]]), f32([[1], [2]]), f32([[inf], [nan]]), "special values", _PLAIN),
    _dot(f32([[inf, 1]]), f32([[0], [2]]), f32([[nan]]), "infinity times zero", _PLAIN),
    *(
        _dot(_small(m, k), _small(k, n), _small(m, k) @ _small(k, n), f"{m}x{k}x{n}", _PLAIN)
        for m, k, n in ((1, 1, 1), (3, 5, 7), (4, 8, 16), (5, 17, 33), (6, 3, 15), (13, 70, 9), (1, 33, 21), (21, 33, 1), (70, 40, 66))
    ),
    _dot(_small(3, 4, 5), _small(3, 5, 6), _small(3, 4, 5) @ _small(3, 5, 6), "batch", ((2,), (1,)), ((0,), (0,))),
    _dot(
        _small(4, 3, 2, 5), _small(3, 7, 2, 5), np.einsum("ibhk,bjhk->bhij", _small(4, 3, 2, 5), _small(3, 7, 2, 5)),
        "batch dimensions inside, as attention has them", ((3,), (3,)), ((1, 2), (0, 2)),
    ),
    _dot(
        _small(2, 3, 4), _small(4, 3, 5), np.einsum("ijk,kjl->il", _small(2, 3, 4), _small(4, 3, 5)),
        "two contracting dimensions", ((1, 2), (1, 0)),
    ),
    _dot(_small(2, 3, 4), _small(4, 5, 6), np.tensordot(_small(2, 3, 4), _small(4, 5, 6), 1), "several free dimensions", ((2,), (0,))),
    _dot(_small(3, 4), _small(3, 4), (_small(3, 4) * _small(3, 4)).sum(1), "batch only", ((1,), (1,)), ((0,), (0,))),
    _dot(f64(_A), f64(_B), f64([[14, 10], [32, 19]]), "", _PLAIN),
    _dot(f64(_small(5, 17)), f64(_small(17, 9)), f64(_small(5, 17) @ _small(17, 9)), "5x17x9", _PLAIN),
    *(_dot(array(t, [[1, 2, 3], [4, 5, 6]]), array(t, [[1, 0], [2, 9], [3, 4]]), array(t, [[14, 30], [32, 69]]), "", _PLAIN)
      for t in ("s32", "u32", "s64", "s8", "u8")),
    _dot(s8([[100, 100]]), s8([[2], [2]]), s8([[-112]]), "wraps", _PLAIN),
    _dot(s8([[100, -128]]), s8([[2], [-128]]), s32([[16584]]), "widens", _PLAIN, shape=shape("s32[1,1]")),
    _dot(u8([[200, 200]]), u8([[200], [200]]), s32([[80000]]), "widens", _PLAIN, shape=shape("s32[1,1]")),
    _dot(s8(_small(9, 20)), s8(_small(20, 11)), s32(_small(9, 20) @ _small(20, 11)), "widens 9x20x11", _PLAIN, shape=shape("s32[9,11]")),
    _dot(s32([[2**31 - 1, 1]]), s32([[1], [1]]), s32([[-(2**31)]]), "wraps", _PLAIN),
    _dot(f32([[1, 2]]), f32([[0.5], [0.25]]), f64([[1]]), "widens", _PLAIN, shape=shape("f64[1,1]")),
    _dot(bf16(np.ones((1, 512))), bf16(np.ones((512, 1))), bf16([[512]]), "sums in f32", _PLAIN),
)  # fmt: skip
