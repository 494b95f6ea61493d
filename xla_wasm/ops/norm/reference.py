"""NumPy semantics of batch normalisation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...hlo.ir import Instruction
from ..dtypes import Array, Value, wide


def _axes(instr: Instruction, x: Array) -> tuple[tuple[int, ...], list[int]]:
    """The dimensions that statistics run over, and the shape that stretches a feature vector over `x`."""
    feature = instr.attrs["feature_index"]
    return tuple(d for d in range(x.ndim) if d != feature), [-1 if d == feature else 1 for d in range(x.ndim)]


def _normalise(instr: Instruction, x: Array, scale: Array, offset: Array, mean: Array, variance: Array) -> Array:
    _, stretch = _axes(instr, x)
    scale, offset, mean, variance = (v.reshape(stretch) for v in (scale, offset, mean, variance))
    return scale * (x - mean) / np.sqrt(variance + instr.attrs["epsilon"]) + offset


def _training(instr: Instruction, operands: list[Value], call: Any) -> Value:
    x, scale, offset = map(wide, operands)
    axes, _ = _axes(instr, x)
    count = np.float64(x.size // max(scale.size, 1))
    mean = x.sum(axes) / count
    variance = np.square(x - np.expand_dims(mean, axes)).sum(axes) / count
    return _normalise(instr, x, scale, offset, mean, variance), mean, variance


def _inference(instr: Instruction, operands: list[Value], call: Any) -> Value:
    return _normalise(instr, *map(wide, operands))


def _grad(instr: Instruction, operands: list[Value], call: Any) -> Value:
    x, scale, mean, variance, dy = map(wide, operands)
    axes, stretch = _axes(instr, x)
    count = x.size // max(scale.size, 1)
    r = 1 / np.sqrt(variance + instr.attrs["epsilon"]).reshape(stretch)
    centred = x - mean.reshape(stretch)
    d_offset, d_scale = dy.sum(axes), (dy * centred * r).sum(axes)
    inner = dy - d_offset.reshape(stretch) / count - centred * d_scale.reshape(stretch) * r / count
    return scale.reshape(stretch) * r * inner, d_scale, d_offset


EVALUATE: dict[str, Callable[[Instruction, list[Value], Any], Value]] = {
    "batch-norm-training": _training,
    "batch-norm-inference": _inference,
    "batch-norm-grad": _grad,
}
