"""Samples of batch normalisation, most with statistics that come out exact, so that every order of summing gives the
same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dtypes import Array
from ..sample import Sample, array, bf16, case, f32, inf, nan

# features of mean 2 and -1, variance 1 and 9
_X = f32([[1, -4], [3, 2], [1, 2], [3, -4]])
_MEAN, _VARIANCE = f32([2, -1]), f32([1, 9])
_SCALE, _OFFSET = f32([4, 6]), f32([0.5, -1])
_Y = f32([[-3.5, -7], [4.5, 5], [-3.5, 5], [4.5, -7]])
_DY = f32([[1, 0], [2, 1], [-1, 0], [2, 3]])
_XLA = "XLA subtracts the mean's square from the mean of the squares"
_IMAGES = f32(np.arange(48).reshape(2, 3, 4, 2) * 7 % 11)


def _sample(opcode: str, results: int, name: str, arrays: Sequence[Array], more: dict[str, Any]) -> Sample:
    """Of the arrays, the last ones are the results; the features are the last dimension, and epsilon is 0, unless said
    otherwise."""
    operands, expected = arrays[:-results], arrays[-results:]
    attrs = {"epsilon": 0.0, "feature_index": operands[0].ndim - 1} | more
    return case(opcode, operands, expected, name=name, **attrs)


def _training(name: str, *arrays: Array, **more: Any) -> Sample:
    """x, scale, offset; y, mean, variance."""
    return _sample("batch-norm-training", 3, name, arrays, more)


def _inference(name: str, *arrays: Array, **more: Any) -> Sample:
    """x, scale, offset, mean, variance; y."""
    return _sample("batch-norm-inference", 1, name, arrays, more)


def _grad(name: str, *arrays: Array, **more: Any) -> Sample:
    """x, scale, mean, variance, dy; dx, dscale, doffset."""
    return _sample("batch-norm-grad", 3, name, arrays, more)


def _of_images(feature: int) -> list[Sample]:
    """All three on images whose features are any dimension."""
    epsilon = 0.5
    axes = tuple(d for d in range(4) if d != feature)
    x, dy = _IMAGES.astype(np.float64), np.roll(_IMAGES, 5).astype(np.float64) - 3
    ones = np.ones(_IMAGES.shape[feature])
    mean, variance = (
        f32(x.mean(axes, keepdims=True)).astype(np.float64),
        f32(x.var(axes, keepdims=True)).astype(np.float64),
    )
    deviation = np.sqrt(variance + epsilon)
    y = (x - mean) / deviation
    d_scale, d_offset = (dy * y).sum(axes, keepdims=True), dy.sum(axes, keepdims=True)
    dx = (dy - (d_offset + y * d_scale) * len(ones) / x.size) / deviation
    mean, variance, d_scale, d_offset = (f32(v.reshape(-1)) for v in (mean, variance, d_scale, d_offset))
    one, name = f32(ones), f"images by feature {feature}"
    more: dict[str, Any] = {"epsilon": epsilon, "feature_index": feature}
    return [
        _training(name, _IMAGES, one, 20 * one, f32(y + 20), mean, variance, ulp=4, **more),
        _inference(name, _IMAGES, one, 20 * one, mean, variance, f32(y + 20), ulp=4, **more),
        _grad(name, _IMAGES, one, mean, variance, f32(dy), f32(dx), d_scale, d_offset, ulp=500, **more),
    ]


_TRAINING = (_X, _SCALE, _OFFSET, _Y, _MEAN, _VARIANCE)
_INFERENCE = (_X, _SCALE, _OFFSET, _MEAN, _VARIANCE, _Y)
_GRAD = (_X, _SCALE, _MEAN, _VARIANCE, _DY, f32([[4, -3], [0, 1], [-4, -1], [0, 3]]), f32([4, -2]), f32([4, 4]))

SAMPLES: tuple[Sample, ...] = (
    *(_training("", *(array(t, v) for v in _TRAINING)) for t in ("f32", "f64", "f16", "bf16")),
    _training("features first", _X.T.copy(), _SCALE, _OFFSET, _Y.T.copy(), _MEAN, _VARIANCE, feature_index=0),
    _training("constant", f32([[5], [5], [5]]), f32([2]), f32([1]), f32([[1], [1], [1]]), f32([5]), f32([0]),
              epsilon=0.25, xla=_XLA),
    _training("one element", f32([[3, 4]]), f32([2, 2]), f32([1, 7]), f32([[1, 7]]), f32([3, 4]), f32([0, 0]),
              epsilon=0.25),
    _training("no variance, no epsilon", f32([[5, 5]]), f32([1, 1]), f32([1, 7]), f32([[nan, nan]]), f32([5, 5]),
              f32([0, 0])),
    _training(
        "special values stay in their feature", f32([[nan, 1, inf], [1, 3, 1]]), f32([1, 2, 1]), f32([0, 0, 0]),
        f32([[nan, -2, nan], [nan, 2, nan]]), f32([nan, 2, inf]), f32([nan, 1, nan]),
    ),
    _training("no elements", f32(np.zeros((0, 1))), f32([1]), f32([0]), f32(np.zeros((0, 1))), f32([nan]), f32([nan])),
    _training("no features", f32(np.zeros((2, 0))), f32([]), f32([]), f32(np.zeros((2, 0))), f32([]), f32([])),
    # in f32, one is lost beside the square of 2^20
    _training("large mean", f32([[2**20 - 1], [2**20 + 1]]), f32([2]), f32([0]), f32([[-2], [2]]), f32([2**20]),
              f32([1]), xla=_XLA),
    # 512 ones: a sum in bf16 would stop at 256
    _training("sums in f32", bf16(np.ones((512, 1))), bf16([1]), bf16([3]), bf16(np.full((512, 1), 3)), bf16([1]),
              bf16([0]), epsilon=1.0),
    *(_inference("", *(array(t, v) for v in _INFERENCE)) for t in ("f32", "f64", "bf16")),
    _inference(
        "negative variance and infinities", f32([[1, 1, 1]]), f32([1, 1, 1]), f32([0, 0, 0]), f32([0, inf, 0]),
        f32([-2, 3, inf]), f32([[nan, -inf, 0]]), epsilon=1.0,
    ),
    _inference("no elements", f32(np.zeros((0, 2))), f32([1, 1]), f32([0, 0]), f32([0, 0]), f32([1, 1]),
               f32(np.zeros((0, 2)))),
    *(_grad("", *(array(t, v) for v in _GRAD), ulp=4) for t in ("f32", "f64", "bf16")),
    *(sample for feature in range(4) for sample in _of_images(feature)),
)  # fmt: skip
