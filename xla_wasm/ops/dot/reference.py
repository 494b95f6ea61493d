"""NumPy semantics of matrix products: products and sums in f64, rounded once; integers wrap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ...hlo.attrs import DotDimensionNumbers
from ...hlo.infer import wider
from ...hlo.ir import Instruction
from ...hlo.types import TYPES
from ..dtypes import DTYPES, TYPES_OF, Array, Value, narrow, wide
from ..elementwise.reference import to_integer
from .expand import ragged_prefix


def as_factors(element_type: str, *arrays: Array) -> list[Array]:
    """Arrays in the type that a product with results of `element_type` is computed in."""
    if TYPES[element_type].kind in ("signed", "unsigned", "float", "complex") and not _are_floats(arrays):
        return [wide(x).astype(wide(np.zeros((), DTYPES[element_type])).dtype) for x in arrays]
    widened = [wide(x) for x in arrays]
    if element_type == "pred" and not _are_floats(arrays):
        # Whether a sum of integers is 0 says the type with most bits.
        most = max(arrays, key=lambda x: TYPES_OF[x.dtype].bits).dtype
        return [x.astype(most) for x in widened]
    return [x.astype(np.result_type(*widened)) for x in widened]


def _are_floats(arrays: Sequence[Array]) -> bool:
    return any(TYPES_OF[x.dtype].kind == "float" for x in arrays)


def as_result(instr: Instruction, product: Array) -> Array:
    """A product in the type of its instruction; one of floats becomes integers, if it does, from the wider of their
    types."""
    given = [o.shape.element_type for o in instr.operands[:2]]
    if TYPES[instr.shape.element_type].kind not in ("signed", "unsigned") or "float" not in [
        TYPES[name].kind for name in given
    ]:
        return product
    return to_integer(wide(narrow(product, wider(*given), False)), instr.shape.element_type)


def dot_general(x: Array, y: Array, numbers: DotDimensionNumbers) -> Array:
    """Batch dimensions first, then the free ones of `x`, then those of `y`."""
    x_batch, y_batch = numbers.lhs_batch_dimensions, numbers.rhs_batch_dimensions
    x_sum, y_sum = numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions
    x_free = [d for d in range(x.ndim) if d not in x_batch and d not in x_sum]
    y_free = [d for d in range(y.ndim) if d not in y_batch and d not in y_sum]
    batch = [x.shape[d] for d in x_batch]
    rows, columns = [x.shape[d] for d in x_free], [y.shape[d] for d in y_free]
    depth = prod(x.shape[d] for d in x_sum)
    left = x.transpose([*x_batch, *x_free, *x_sum]).reshape(prod(batch), prod(rows), depth)
    right = y.transpose([*y_batch, *y_sum, *y_free]).reshape(prod(batch), depth, prod(columns))
    return np.matmul(left, right).reshape([*batch, *rows, *columns])


def _dot(instr: Instruction, operands: list[Value], call: Any) -> Value:
    x, y = as_factors(instr.shape.element_type, *operands)
    return as_result(instr, dot_general(x, y, instr.attrs["dot_dimension_numbers"]))


def _ragged_dot(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """A dot for each group, on operands of which everything outside of the group is zero."""
    x, y = as_factors(instr.shape.element_type, *operands[:2])
    ragged = instr.attrs["ragged_dot_dimension_numbers"]
    numbers = ragged.dot_dimension_numbers
    mode, dim, prefix = ragged_prefix(ragged, x.ndim)
    if mode == "batch":
        return as_result(instr, dot_general(x, y, numbers))
    sizes = operands[2].astype(np.int64)
    sizes = np.broadcast_to(sizes, (*(x.shape[d] for d in prefix), sizes.shape[-1]))
    ends = np.minimum(np.cumsum(np.maximum(sizes, 0), -1), x.shape[dim])
    begins = np.concatenate([np.zeros_like(ends[..., :1]), ends[..., :-1]], -1)
    result = np.zeros(instr.shape.dimensions, x.dtype)
    for group in range(sizes.shape[-1]):
        inside = partial(_inside, begins[..., group], ends[..., group])
        if mode == "free":
            part = np.take(y, [group], ragged.rhs_group_dimensions[0])
            product = dot_general(x, part, numbers)
            product = product.reshape(result.shape)
            order = [
                *numbers.lhs_batch_dimensions,
                *(d for d in range(x.ndim) if d not in numbers.lhs_batch_dimensions),
            ]
            order = [d for d in order if d not in numbers.lhs_contracting_dimensions]
            live = inside(result.shape, [order.index(d) for d in prefix], order.index(dim))
            result = np.where(live, product, result)
        else:
            _, other, other_prefix = ragged_prefix(ragged, x.ndim, 1)
            left = np.where(inside(x.shape, prefix, dim), x, 0).astype(x.dtype)
            right = np.where(inside(y.shape, other_prefix, other), y, 0).astype(y.dtype)
            result[group] = dot_general(left, right, numbers)
    return as_result(instr, result)


def _inside(begin: Array, end: Array, dims: Sequence[int], prefix: Sequence[int], dim: int) -> Array:
    """Returns a mask of the elements of an array of `dims` that lie from `begin` to `end` of its dimension `dim`; both
    vary along `prefix`."""
    where = np.indices(dims)
    index = tuple(where[d] for d in prefix)
    return np.logical_and(where[dim] >= begin[index], where[dim] < end[index])


def _scaled_dot(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """A scale of some size applies to equal blocks of its operand; a scalar to nothing."""
    scaled: list[Array] = []
    for x, scale in zip(operands[:2], operands[2:]):
        x, scale = wide(x), wide(scale)
        for d, blocks in enumerate(scale.shape):
            scale = np.repeat(scale, x.shape[d] // max(blocks, 1), d)
        scaled.append(x * scale if scale.ndim else x)
    left, right = scaled
    return dot_general(left, right, instr.attrs["dot_dimension_numbers"])


EVALUATE: dict[str, Callable[[Instruction, list[Value], Any], Value]] = {
    "dot": _dot,
    "ragged-dot": _ragged_dot,
    "scaled-dot": _scaled_dot,
}
