"""NumPy semantics of operations that only move elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...hlo.ir import Instruction
from ...hlo.layout import physical_elements
from ...host.layouts import logical, physical
from ..dtypes import DTYPES, Value, narrow


def _copy(instr: Instruction, operands: list[Value], call: Any) -> Value:
    return operands[0]


def _broadcast(instr: Instruction, operands: list[Value], call: Any) -> Value:
    x, dims, mapped = operands[0], instr.shape.dimensions, instr.attrs["dimensions"]
    if not dims:
        return x
    order = sorted(range(len(mapped)), key=lambda d: mapped[d])
    sizes = {mapped[d]: x.shape[d] for d in order}
    return np.broadcast_to(x.transpose(order).reshape([sizes.get(d, 1) for d in range(len(dims))]), dims)


def _reshape(instr: Instruction, operands: list[Value], call: Any) -> Value:
    if not instr.shape.dimensions and not instr.operands[0].shape.dimensions:
        return operands[0]
    return operands[0].reshape(instr.shape.dimensions)


def _transpose(instr: Instruction, operands: list[Value], call: Any) -> Value:
    return operands[0].transpose(instr.attrs["dimensions"])


def _reverse(instr: Instruction, operands: list[Value], call: Any) -> Value:
    return np.flip(operands[0], instr.attrs["dimensions"])


def _slice(instr: Instruction, operands: list[Value], call: Any) -> Value:
    return operands[0][tuple(slice(d.start, d.limit, d.stride) for d in instr.attrs["slice"])]


def _concatenate(instr: Instruction, operands: list[Value], call: Any) -> Value:
    return np.concatenate(operands, instr.attrs["dimensions"][0])


def _pad(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """Element i of a dimension goes to low + i * (interior + 1), or away if that lies outside the result."""
    x, value = operands
    dims = instr.shape.dimensions
    result = np.full(dims, value, x.dtype)
    sources, targets = [], []
    for size, out, padding in zip(x.shape, dims, instr.attrs["padding"]):
        target = padding.edge_padding_low + np.arange(size) * (padding.interior_padding + 1)
        (source,) = np.nonzero((target >= 0) & (target < out))
        sources.append(source)
        targets.append(target[source])
    if not dims:
        return x
    result[np.ix_(*targets)] = x[np.ix_(*sources)]
    return result


def _bitcast(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """The bytes of the operand's layout, read under the result's; zeros where the result's padding reaches beyond
    them."""
    source, target = instr.operands[0].shape, instr.shape
    if not source.dimensions and not target.dimensions and source.element_type == target.element_type:
        return operands[0]
    x = physical(source, operands[0])
    if source.element_type != target.element_type:
        x = narrow(x, source.element_type, False)
        dtype = DTYPES[target.element_type]
        x = np.pad(x, (0, -x.nbytes % dtype.itemsize // x.itemsize)).view(dtype)
    missing = max(physical_elements(target) - x.size, 0)
    return logical(target, np.pad(x, (0, missing)))


EVALUATE: dict[str, Callable[[Instruction, list[Value], Any], Value]] = {
    "copy": _copy,
    "bitcast": _bitcast,
    "broadcast": _broadcast,
    "reshape": _reshape,
    "transpose": _transpose,
    "reverse": _reverse,
    "slice": _slice,
    "concatenate": _concatenate,
    "pad": _pad,
}


LANEWISE = ("copy", "reshape", "broadcast", "bitcast")
"""Of a scalar."""
