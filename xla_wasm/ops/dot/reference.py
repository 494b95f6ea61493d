"""NumPy semantics of matrix products: products and sums in f64, rounded once; integers wrap."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ...hlo.attrs import DotDimensionNumbers
from ...hlo.ir import Instruction
from ...hlo.types import TYPES
from ..arrays import DTYPES, Array, Value, wide


def as_factors(element_type: str, *arrays: Array) -> list[Array]:
    """Arrays in the type that a product with results of `element_type` is computed in."""
    if TYPES[element_type].kind in ("signed", "unsigned"):
        return [wide(x).astype(wide(np.zeros((), DTYPES[element_type])).dtype) for x in arrays]
    widened = [wide(x) for x in arrays]
    return [x.astype(np.result_type(*widened)) for x in widened]


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
    return dot_general(x, y, instr.attrs["dot_dimension_numbers"])


EVALUATE: dict[str, Callable[[Instruction, list[Value], Any], Value]] = {"dot": _dot}
