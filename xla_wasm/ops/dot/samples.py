"""Samples of dot, ragged-dot and scaled-dot."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...hlo.attrs import DotDimensionNumbers, PrecisionConfig, RaggedDotDimensionNumbers
from ..dtypes import Array
from ..sample import Sample, array, bf16, case, f32, f64, inf, nan, s8, s32, s64, shape, u8


def _dot(
    x: Array,
    y: Array,
    expected: Array,
    name: str,
    contract: tuple[tuple[int, ...], tuple[int, ...]],
    batch: tuple[tuple[int, ...], tuple[int, ...]] = ((), ()),
    **more: Any,
) -> Sample:
    return case(
        "dot", (x, y), expected, name=name, dot_dimension_numbers=DotDimensionNumbers(*contract, *batch), **more
    )


def _small(*dims: int) -> Array:
    """Small integers, so that every order of summing gives the same."""
    return f32(np.arange(np.prod(dims, dtype=int)).reshape(dims) * 7 % 11 - 5)


def _wave(*dims: int) -> Array:
    """Small complex integers."""
    return array("c128", _small(*dims) + 1j * (_small(*dims)[..., ::-1] + 1))


_A, _B = f32([[1, 2, 3], [4, 5, 6]]), f32([[1, 0], [2, -1], [3, 4]])
_PLAIN = ((1,), (0,))

_NOT_IN_XLA = "XLA:CPU has no rule for it"


def _ragged(
    x: Array, y: Array, sizes: Array, expected: Array, name: str, ragged: int, numbers: DotDimensionNumbers, **more: Any
) -> Sample:
    """A ragged-dot; its group dimension is the right operand's first, if it has one."""
    free = ragged not in numbers.lhs_contracting_dimensions and ragged not in numbers.lhs_batch_dimensions
    dims = RaggedDotDimensionNumbers(numbers, (ragged,), (0,) if free else ())
    return case(
        "ragged-dot", (x, y, sizes), expected, name=name, xla=_NOT_IN_XLA, ragged_dot_dimension_numbers=dims, **more
    )


def _groups(sizes: Any, length: int) -> list[range]:
    """The rows of each group, as a list."""
    ends = np.minimum(np.cumsum(sizes), length)
    return [range(begin, end) for begin, end in zip([0, *ends[:-1]], ends)]


def _by_rows(x: Array, y: Array, sizes: Any) -> Array:
    """[m, k] times [g, k, n], each row with the matrix of its group, rows of no group zero."""
    result = np.zeros((x.shape[0], y.shape[2]), x.dtype)
    for group, rows in enumerate(_groups(sizes, len(x))):
        result[rows] = x[rows] @ y[group]
    return result


def _by_depth(x: Array, y: Array, sizes: Any) -> Array:
    """[m, k] times [k, n], a product for each group of k."""
    return np.stack([x[:, ks] @ y[ks] for ks in _groups(sizes, x.shape[1])])


_ROWS = DotDimensionNumbers((1,), (1,))
_DEPTH = DotDimensionNumbers((1,), (0,))
_L, _R = _small(7, 3), _small(4, 3, 5)
_K, _N = _small(3, 7), _small(7, 5)
_LB, _RB = _small(2, 7, 3), _small(4, 2, 3, 5)
_SIZES2 = np.array([[2, 0, 4, 1], [1, 1, 1, 1]])
_POISON = np.where(np.arange(4).reshape(4, 1, 1) == 1, np.float32(inf), _R)

_RAGGED: tuple[Sample, ...] = (
    *(
        _ragged(_L, _R, s32(sizes), _by_rows(_L, _R, sizes), f"rows {name}", 0, _ROWS)
        for name, sizes in (
            ("", [2, 0, 4, 1]), ("all in one group", [0, 0, 7, 0]), ("fewer than there are", [1, 2, 0, 1]),
            ("more than there are", [3, 3, 3, 3]), ("none", [0, 0, 0, 0]),
            ("far more than there are", [5, 2**31 - 1, 2**31 - 1, 1]),
        )
    ),
    _ragged(_L, _R, s64([2, 0, 4, 1]), _by_rows(_L, _R, [2, 0, 4, 1]), "rows", 0, _ROWS),
    _ragged(_L, _R, u8([2, 0, 4, 1]), _by_rows(_L, _R, [2, 0, 4, 1]), "rows", 0, _ROWS),
    _ragged(_L, _POISON, s32([2, 0, 4, 1]), _by_rows(_L, _R, [2, 0, 4, 1]), "rows, infinities in an empty group", 0,
            _ROWS),
    _ragged(_L[:0].copy(), _R, s32([0, 0, 0, 0]), f32(np.zeros((0, 5))), "no rows", 0, _ROWS),
    _ragged(_L, _R[:0].copy(), s32(np.zeros(0)), f32(np.zeros((len(_L), 5))), "no groups", 0, _ROWS),
    _ragged(
        s8([[100, 100], [1, 1]]), s8([[[2], [2]], [[3], [4]]]), s32([1, 1]), s32([[400], [7]]), "rows, widens", 0,
        _ROWS, shape=shape("s32[2,1]"),
    ),
    _ragged(bf16(_L), bf16(_R), s32([2, 0, 4, 1]), f32(_by_rows(_L, _R, [2, 0, 4, 1])), "rows", 0, _ROWS,
            shape=shape("f32[7,5]")),
    _ragged(
        _LB, _RB, s32(_SIZES2), np.stack([_by_rows(_LB[b], _RB[:, b].copy(), _SIZES2[b]) for b in range(2)]),
        "rows, sizes by batch", 1, DotDimensionNumbers((2,), (2,), (0,), (1,)),
    ),
    _ragged(
        _LB, _RB, s32([2, 0, 4, 1]), np.stack([_by_rows(_LB[b], _RB[:, b].copy(), [2, 0, 4, 1]) for b in range(2)]),
        "rows, the same sizes in each batch", 1, DotDimensionNumbers((2,), (2,), (0,), (1,)),
    ),
    _ragged(
        _LB, _R, s32(_SIZES2), np.stack([_by_rows(_LB[b], _R, _SIZES2[b]) for b in range(2)]),
        "rows, sizes by a free dimension", 1, DotDimensionNumbers((2,), (1,)),
    ),
    *(
        _ragged(_K, _N, s32(sizes), _by_depth(_K, _N, sizes), f"depth {name}", 1, _DEPTH)
        for name, sizes in (("", [2, 0, 4, 1]), ("fewer than there is", [1, 2]), ("more than there is", [3, 3, 3]))
    ),
    _ragged(
        _small(2, 3, 7), _small(2, 7, 5), s32(_SIZES2),
        np.stack([_by_depth(_small(2, 3, 7)[b], _small(2, 7, 5)[b], _SIZES2[b]) for b in range(2)], 1),
        "depth, sizes by batch", 2, DotDimensionNumbers((2,), (1,), (0,), (0,)),
    ),
    _ragged(
        _small(3, 2, 7), _small(2, 7, 5), s32(_SIZES2),
        np.stack([_by_depth(_small(3, 2, 7)[:, j], _small(2, 7, 5)[j], _SIZES2[j]) for j in range(2)]).sum(0),
        "depth, sizes by a contracting dimension", 2, DotDimensionNumbers((1, 2), (0, 1)),
    ),
    _ragged(
        _small(3, 4, 5), _small(3, 5, 6), s32([1, 2]), _small(3, 4, 5) @ _small(3, 5, 6), "batch", 0,
        DotDimensionNumbers((2,), (1,), (0,), (0,)),
    ),
)  # fmt: skip


def _scaled(x: Array, y: Array, x_scale: Array, y_scale: Array, expected: Array, name: str, **more: Any) -> Sample:
    """A scaled-dot of [.., m, k] and [.., n, k]."""
    batch = tuple(range(x.ndim - 2))
    numbers = DotDimensionNumbers((x.ndim - 1,), (x.ndim - 1,), batch, batch)
    attrs: dict[str, Any] = {
        "dot_dimension_numbers": numbers,
        "shape": shape(f"f32[{','.join(map(str, expected.shape))}]"),
    } | more
    return case("scaled-dot", (x, y, x_scale, y_scale), expected, name=name, xla=_NOT_IN_XLA, **attrs)


_X4, _Y4 = f32([[1, 2, 0.5, -1], [3, -2, 1, 4]]), f32([[1, 1, 2, 2], [-1, 3, 0, 1], [0.5, 0, 4, -4]])
_XS, _YS = f32([[2, 4], [1, 0.5]]), f32([[1, 2], [4, 1], [2, 8]])
_SCALED_X, _SCALED_Y = _X4 * np.repeat(_XS, 2, 1), _Y4 * np.repeat(_YS, 2, 1)

_SCALED: tuple[Sample, ...] = (
    *(
        _scaled(array(t, _X4), array(t, _Y4), array(s, _XS), array(s, _YS), _SCALED_X @ _SCALED_Y.T, "blocks of two")
        for t, s in (
            ("f32", "f32"), ("bf16", "bf16"), ("f8e4m3fn", "f8e8m0fnu"), ("f8e5m2", "f8e8m0fnu"),
            ("f4e2m1fn", "f8e4m3fn"), ("f6e2m3fn", "f8e8m0fnu"), ("f6e3m2fn", "f8e8m0fnu"), ("f16", "f32"),
        )
    ),
    _scaled(_X4, _Y4, f32([[2], [0.5]]), _YS, (_X4 * f32([[2], [0.5]])) @ _SCALED_Y.T, "a block is a row"),
    _scaled(_X4, _Y4, f32([[2]]), f32(np.ones((3, 4))), 2 * _X4 @ _Y4.T, "one block, and one for each element"),
    _scaled(_X4, _Y4, f32(1), _YS, _X4 @ _SCALED_Y.T, "only the right side has scales"),
    _scaled(bf16(_X4), array("f8e4m3fn", _Y4), bf16([[1]]), array("f8e8m0fnu", _YS), _X4 @ _SCALED_Y.T,
            "a scale that stands for none"),
    _scaled(_X4, _Y4, f32([[inf, 1], [nan, 1]]), f32(1), f32([[inf, nan, nan], [nan, nan, nan]]), "special scales"),
    _scaled(f32(np.zeros((2, 0))), f32(np.zeros((3, 0))), f32(np.zeros((2, 0))), f32(np.zeros((3, 0))),
            f32(np.zeros((2, 3))), "no block"),
    _scaled(np.stack([_X4, -_X4]), np.stack([_Y4, _Y4]), np.stack([_XS, _XS]),
            f32([[[1]], [[2]]]) * np.ones((2, 1, 1), np.float32),
            np.stack([_SCALED_X @ _Y4.T, -2 * _SCALED_X @ _Y4.T]), "batch"),
    _scaled(bf16(_X4), bf16(_Y4), bf16(_XS), bf16(_YS), bf16(_SCALED_X @ _SCALED_Y.T), "", shape=shape("bf16[2,3]")),
)  # fmt: skip

SAMPLES: tuple[Sample, ...] = (
    *_RAGGED,
    *_SCALED,
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
        for m, k, n in ((1, 1, 1), (3, 5, 7), (4, 8, 16), (5, 17, 33), (6, 3, 15), (13, 70, 9), (1, 33, 21),
                        (21, 33, 1), (70, 40, 66))
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
    _dot(_small(2, 3, 4), _small(4, 5, 6), np.tensordot(_small(2, 3, 4), _small(4, 5, 6), 1), "several free dimensions",
         ((2,), (0,))),
    _dot(_small(3, 4), _small(3, 4), (_small(3, 4) * _small(3, 4)).sum(1), "batch only", ((1,), (1,)), ((0,), (0,))),
    _dot(f64(_A), f64(_B), f64([[14, 10], [32, 19]]), "", _PLAIN),
    _dot(f64(_small(5, 17)), f64(_small(17, 9)), f64(_small(5, 17) @ _small(17, 9)), "5x17x9", _PLAIN),
    *(_dot(array(t, [[1, 2, 3], [4, 5, 6]]), array(t, [[1, 0], [2, 9], [3, 4]]), array(t, [[14, 30], [32, 69]]), "",
           _PLAIN)
      for t in ("s32", "u32", "s64", "s8", "u8")),
    _dot(s8([[100, 100]]), s8([[2], [2]]), s8([[-112]]), "wraps", _PLAIN),
    _dot(s8([[100, -128]]), s8([[2], [-128]]), s32([[16584]]), "widens", _PLAIN, shape=shape("s32[1,1]")),
    _dot(u8([[200, 200]]), u8([[200], [200]]), s32([[80000]]), "widens", _PLAIN, shape=shape("s32[1,1]")),
    _dot(s8(_small(9, 20)), s8(_small(20, 11)), s32(_small(9, 20) @ _small(20, 11)), "widens 9x20x11", _PLAIN,
         shape=shape("s32[9,11]")),
    _dot(s32([[2**31 - 1, 1]]), s32([[1], [1]]), s32([[-(2**31)]]), "wraps", _PLAIN),
    _dot(f32([[1, 2]]), f32([[0.5], [0.25]]), f64([[1]]), "widens", _PLAIN, shape=shape("f64[1,1]")),
    _dot(bf16(np.ones((1, 512))), bf16(np.ones((512, 1))), bf16([[512]]), "sums in f32", _PLAIN),
    _dot(bf16([[256, 1, 1]]), bf16([[1], [1], [1]]), f32([[258]]), "widens", _PLAIN, shape=shape("f32[1,1]")),
    _dot(s8([[-1, 100]]), u8([[255], [200]]), s32([[19745]]), "signed times unsigned", _PLAIN, shape=shape("s32[1,1]")),
    _dot(u8([[255, 200]]), s8([[-1], [100]]), s32([[19745]]), "unsigned times signed", _PLAIN, shape=shape("s32[1,1]")),
    _dot(s32([[2**31 - 1, 2]]), s32([[2], [3]]), array("s64", [[2**32 + 4]]), "widens", _PLAIN,
         shape=shape("s64[1,1]")),
    _dot(f32([[1, 2]]), bf16([[0.5], [0.25]]), f32([[1]]), "mixed", _PLAIN),
    _dot(s8([[3, -2]]), f32([[0.5], [0.25]]), f32([[1]]), "mixed", _PLAIN, shape=shape("f32[1,1]")),
    _dot(array("c64", [[1 + 2j, 3]]), array("c64", [[2 - 1j], [1j]]), array("c64", [[4 + 6j]]), "", _PLAIN),
    *(
        _dot(array(t, _wave(m, k)), array(t, _wave(k, n)), array(t, _wave(m, k) @ _wave(k, n)), f"{m}x{k}x{n}", _PLAIN)
        for t in ("c64", "c128")
        for m, k, n in ((5, 17, 9), (1, 6, 33), (13, 0, 2))
    ),
    _dot(
        array("c64", _wave(3, 4, 5)), array("c64", _wave(3, 6, 5)),
        array("c64", np.einsum("bik,bjk->bij", _wave(3, 4, 5), _wave(3, 6, 5))), "batch", ((2,), (2,)), ((0,), (0,)),
    ),
    _dot(
        array("c64", [[1 + 2j, 3]]), array("c64", [[2 - 1j], [1j]]), array("c128", [[4 + 6j]]), "widens", _PLAIN,
        shape=shape("c128[1,1]"),
    ),
    _dot(array("pred", [[1, 0], [0, 0]]), array("pred", [[1, 0], [1, 1]]), array("pred", [[1, 0], [0, 0]]),
         "any of both", _PLAIN),
    _dot(s8([[1, 1], [64, 64], [2, 1]]), s8([[1, 2], [-1, 2]]), array("pred", [[0, 1], [0, 0], [1, 1]]),
         "whether sums are zero", _PLAIN, shape=shape("pred[3,2]")),
    _dot(u8([[1, 255]]), s32([[3], [1]]), array("c64", [[258]]), "integers to complex", _PLAIN,
         shape=shape("c64[1,1]")),
    _dot(_A, _B, f32([[14, 10], [32, 19]]), "the highest precision", _PLAIN,
         precision_config=PrecisionConfig(("highest", "highest"))),
    _dot(_A, _B, f32([[14, 10], [32, 19]]), "an algorithm", _PLAIN,
         precision_config=PrecisionConfig((), "dot_bf16_bf16_f32_x3")),
    _dot(f32([[1, 2, 3], [4, 5, 6]]), f32([[1, 1, 1], [2, 2, 2]]), f32([[6, 12], [15, 30]]), "rows with rows",
         ((1,), (1,))),
    _dot(f32([[[1, 2], [3, 4]], [[5, 6], [7, 8]]]), f32([[[1, 0], [0, 1]]] * 2),
         f32([[[1, 2], [3, 4]], [[5, 6], [7, 8]]]), "batch of identities", ((2,), (1,)), ((0,), (0,))),
)  # fmt: skip
