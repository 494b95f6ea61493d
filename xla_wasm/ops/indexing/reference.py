"""NumPy semantics of operations that take indices at run time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...hlo.ir import Instruction
from ..dtypes import Array, Value, narrow, wide
from ..reduce.reference_combine import fold


def _clamped_starts(indices: Sequence[Array], dims: Sequence[int], sizes: Sequence[int]) -> list[int]:
    flat = [int(i) for operand in indices for i in np.ravel(operand)]
    return [min(max(start, 0), dim - size) for start, dim, size in zip(flat, dims, sizes)]


def _dynamic_slice(instr: Instruction, operands: list[Value], call: Any) -> Value:
    x, *indices = operands
    sizes = instr.attrs["dynamic_slice_sizes"]
    starts = _clamped_starts(indices, x.shape, sizes)
    return x[tuple(slice(start, start + size) for start, size in zip(starts, sizes))]


def _dynamic_update_slice(instr: Instruction, operands: list[Value], call: Any) -> Value:
    x, update, *indices = operands
    starts = _clamped_starts(indices, x.shape, update.shape)
    result = x.copy()
    result[tuple(slice(start, start + size) for start, size in zip(starts, update.shape))] = update
    return result


def _start_vectors(
    indices: Array, index_vector_dim: int, index_map: Sequence[int], batching: Sequence[tuple[int, int]], rank: int
) -> Array:
    """Array [index batch dims..., rank]: where the slice of each index starts in the operand."""
    indices = wide(indices)
    # How far beyond the operand an index lies does not matter, and sums with it must not wrap.
    indices = np.clip(indices, 0 if indices.dtype == np.uint64 else -(2**62), 2**62).astype(np.int64)
    if index_vector_dim == indices.ndim:
        indices = indices[..., None]
    vectors = np.moveaxis(indices, index_vector_dim, -1)
    starts = np.zeros((*vectors.shape[:-1], rank), np.int64)
    for position, dim in enumerate(index_map):
        starts[..., dim] = vectors[..., position]
    for operand_dim, indices_dim in batching:
        axis = indices_dim - (indices_dim > index_vector_dim)
        count = starts.shape[axis]
        starts[..., operand_dim] = np.arange(count).reshape([-1 if d == axis else 1 for d in range(starts.ndim - 1)])
    return starts


def _window_positions(starts: Array, sizes: Sequence[int]) -> list[Array]:
    """Per operand dimension, the positions of every window's elements, broadcastable to [batch dims..., *sizes]."""
    batch, rank = starts.ndim - 1, len(sizes)
    positions = []
    for dim, size in enumerate(sizes):
        offsets = np.arange(size).reshape([-1 if d == dim else 1 for d in range(rank)])
        positions.append(starts[..., dim].reshape(starts.shape[:batch] + (1,) * rank) + offsets)
    return positions


def _gather(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """Every index vector starts a slice, moved to lie inside the operand; elements of an empty one are 0."""
    x, indices = operands
    if not x.size:
        return np.full(instr.shape.dimensions, 0, x.dtype)
    numbers, sizes = instr.attrs["gather_dimension_numbers"], instr.attrs["slice_sizes"]
    batching = list(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims))
    starts = _start_vectors(indices, numbers.index_vector_dim, numbers.start_index_map, batching, x.ndim)
    starts = np.clip(starts, 0, np.subtract(x.shape, sizes))
    slices = x[tuple(_window_positions(starts, sizes))] if x.ndim else np.broadcast_to(x, starts.shape[:-1])
    dropped = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    batch = starts.ndim - 1
    slices = slices.reshape(starts.shape[:batch] + tuple(size for dim, size in enumerate(sizes) if dim not in dropped))
    batch_dims = [d for d in range(slices.ndim) if d not in numbers.offset_dims]
    return np.moveaxis(slices, range(slices.ndim), [*batch_dims, *numbers.offset_dims])


def _scatter(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """Combine every update into the operand at its index; a window that does not fit is dropped whole."""
    count = len(operands) // 2
    xs, indices, updates = operands[:count], operands[count], operands[count + 1 :]
    numbers = instr.attrs["scatter_dimension_numbers"]
    dims = xs[0].shape
    batching = list(zip(numbers.input_batching_dims, numbers.scatter_indices_batching_dims))
    starts = _start_vectors(
        indices, numbers.index_vector_dim, numbers.scatter_dims_to_operand_dims, batching, len(dims)
    )
    batch = starts.ndim - 1
    # bring each update to [index batch dims..., window dims of the operand...]
    window_dims = numbers.update_window_dims
    order = [d for d in range(updates[0].ndim) if d not in window_dims] + list(window_dims)
    sizes = [1] * len(dims)
    kept = [
        d for d in range(len(dims)) if d not in numbers.inserted_window_dims and d not in numbers.input_batching_dims
    ]
    for dim, update_dim in zip(kept, window_dims):
        sizes[dim] = updates[0].shape[update_dim]
    full = starts.shape[:batch] + tuple(sizes)
    fits = np.all((starts >= 0) & (starts + sizes <= dims), -1).reshape(starts.shape[:batch] + (1,) * len(dims))
    fits = np.broadcast_to(fits, full).reshape(-1)
    if not fits.any():
        return tuple(xs) if instr.shape.is_tuple else xs[0]
    positions = [np.broadcast_to(p, full).reshape(-1)[fits] for p in _window_positions(starts, sizes)]
    flat = np.ravel_multi_index(positions, dims) if positions else np.zeros(np.count_nonzero(fits), np.int64)
    # Floats may come in another precision than the computation has.
    types = [p.shape.element_type for p in instr.called[0].parameters[count:]]
    lanes = [
        narrow(update.transpose(order).reshape(-1)[fits], element_type, call.precise)
        for update, element_type in zip(updates, types)
    ]
    results = fold(instr.called[0], call, [x.reshape(-1) for x in xs], flat, lanes, stepwise=True)
    shaped = tuple(r.reshape(dims) for r in results)
    return shaped if instr.shape.is_tuple else shaped[0]


EVALUATE: dict[str, Callable[[Instruction, list[Value], Any], Value]] = {
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "gather": _gather,
    "scatter": _scatter,
}
