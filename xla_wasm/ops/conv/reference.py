"""NumPy semantics of convolution: one matrix product per kernel position."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...hlo.attrs import Window
from ...hlo.ir import Instruction
from ..arrays import Array, Value
from ..dot.reference import as_factors
from ..window.reference import window_elements


def _convolve(x: Array, kernel: Array, window: Window, out: tuple[int, ...]) -> Array:
    """x [N, I, spatial...], kernel [O, I, spatial...] -> [N, O, out...]."""
    result = np.zeros((x.shape[0], kernel.shape[0], *out), x.dtype)
    if 0 in x.shape or 0 in kernel.shape or 0 in out:
        return result
    flat = kernel.reshape(*kernel.shape[:2], -1)
    for k, (positions, valid) in enumerate(window_elements(window.dimensions, x.shape[2:], out)):
        if np.any(valid):
            taps: Any = (slice(None), slice(None), *positions)
            part = np.where(valid, x[taps], 0).astype(x.dtype)
            result += np.moveaxis(np.tensordot(flat[:, :, k], part, ((1,), (1,))), 1, 0).reshape(result.shape)
    return result


def _convolution(instr: Instruction, operands: list[Value], call: Any) -> Value:
    numbers, window = instr.attrs["dim_labels"], instr.attrs["window"]
    x, kernel = as_factors(instr.shape.element_type, *operands)
    x = x.transpose([numbers.input_batch_dimension, numbers.input_feature_dimension, *numbers.input_spatial_dimensions])
    kernel = kernel.transpose(
        [numbers.kernel_output_feature_dimension, numbers.kernel_input_feature_dimension, *numbers.kernel_spatial_dimensions]
    )
    kernel = np.flip(kernel, tuple(2 + d for d, w in enumerate(window.dimensions) if w.window_reversal))
    out = tuple(instr.shape.dimensions[d] for d in numbers.output_spatial_dimensions)
    # a group of features, or of the batch, meets its own share of the kernel's output features
    features, batches = instr.attrs["feature_group_count"], instr.attrs["batch_group_count"]
    groups, axis = (batches, 0) if batches > 1 else (features, 1)
    parts = [_convolve(*pair, window, out) for pair in zip(np.split(x, groups, axis), np.split(kernel, groups, 0))]
    result = np.concatenate(parts, 1)
    order = [numbers.output_batch_dimension, numbers.output_feature_dimension, *numbers.output_spatial_dimensions]
    return result.transpose(np.argsort(order))


EVALUATE: dict[str, Callable[[Instruction, list[Value], Any], Value]] = {"convolution": _convolution}
