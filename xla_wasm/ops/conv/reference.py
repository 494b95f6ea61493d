"""NumPy semantics of convolution: one matrix product per kernel position."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ...hlo.attrs import Window
from ...hlo.ir import Instruction
from ..dot.reference import as_factors, as_result
from ..dtypes import Array, Value
from ..window.reference import window_elements


def _convolve(x: Array, kernel: Array, window: Window, out: tuple[int, ...]) -> Array:
    """x [G, N, I, spatial...], kernel [G, O, I, spatial...] -> [G, N, O, out...], one group G beside the other."""
    groups, batch, inputs = x.shape[:3]
    outputs = kernel.shape[1]
    result = np.zeros((groups, outputs, batch * prod(out)), x.dtype)
    if 0 not in x.shape and 0 not in kernel.shape and 0 not in out:
        x = np.moveaxis(x, 1, 2)
        flat = kernel.reshape(*kernel.shape[:3], -1)
        offsets = product(*(range(w.size) for w in window.dimensions))
        elements = window_elements(window.dimensions, x.shape[3:], out)
        for k, (offset, (positions, valid)) in enumerate(zip(offsets, elements)):
            # Where all is padding, too: 0 times an infinite weight is NaN. Holes take no part.
            taps: Any = (slice(None), slice(None), slice(None), *positions)
            part = np.where(valid, x[taps], 0).astype(x.dtype).reshape(groups, inputs, -1)
            products = flat[:, :, :, k] * part if inputs == 1 else np.matmul(flat[:, :, :, k], part)
            np.add(result, products, out=result, where=np.tile(_meets(window, offset, out), batch))
    return np.moveaxis(result.reshape(groups, outputs, batch, *out), 1, 2)


def _meets(window: Window, offset: Sequence[int], out: Sequence[int]) -> Array:
    """For one window element, whether at each output it meets an element or padding beside the holes, [prod(out)]."""
    met = np.ones((1,) * len(out), np.bool_)
    for d, (w, k, count) in enumerate(zip(window.dimensions, offset, out)):
        places = np.arange(count) * w.stride + k * w.window_dilation - w.padding_low
        met = met & (places % w.base_dilation == 0).reshape([-1 if i == d else 1 for i in range(len(out))])
    return np.broadcast_to(met, out).reshape(-1)


def _convolution(instr: Instruction, operands: list[Value], call: Any) -> Value:
    numbers, window = instr.attrs["dim_labels"], instr.attrs["window"]
    x, kernel = as_factors(instr.shape.element_type, *operands)
    x = x.transpose([numbers.input_batch_dimension, numbers.input_feature_dimension, *numbers.input_spatial_dimensions])
    kernel = kernel.transpose(
        [
            numbers.kernel_output_feature_dimension,
            numbers.kernel_input_feature_dimension,
            *numbers.kernel_spatial_dimensions,
        ]
    )
    kernel = np.flip(kernel, tuple(2 + d for d, w in enumerate(window.dimensions) if w.window_reversal))
    out = tuple(instr.shape.dimensions[d] for d in numbers.output_spatial_dimensions)
    # a group of features, or of the batch, meets its own share of the kernel's output features
    features, batches = instr.attrs["feature_group_count"], instr.attrs["batch_group_count"]
    groups = batches if batches > 1 else features
    if batches > 1:
        x = x.reshape(groups, x.shape[0] // groups, *x.shape[1:])
    else:
        x = np.moveaxis(x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:]), 1, 0)
    parts = np.moveaxis(
        _convolve(x, kernel.reshape(groups, kernel.shape[0] // groups, *kernel.shape[1:]), window, out), 0, 1
    )
    result = parts.reshape(parts.shape[0], parts.shape[1] * parts.shape[2], *out)
    order = [numbers.output_batch_dimension, numbers.output_feature_dimension, *numbers.output_spatial_dimensions]
    return as_result(instr, result.transpose(np.argsort(order)))


EVALUATE: dict[str, Callable[[Instruction, list[Value], Any], Value]] = {"convolution": _convolution}
