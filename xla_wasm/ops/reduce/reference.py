"""NumPy semantics of reduce, map and scan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...hlo.ir import Instruction
from ..dtypes import DTYPES, Value, wide
from ..window.prefixes import stepwise
from ..window.reference import reduce_windows
from .reference_combine import combiner
from .tree import free, step

_MOST_STEPS = 1 << 14
"""The most elements that a reducer of its own is applied to in turn."""


def _reduce(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """Combine elements into the initial values: pairwise for one monoid, else in index order, and in the steps that
    `tree` tells of.

    Where each result has one element, that is it: an initial value is taken to change nothing.
    """
    count = len(operands) // 2
    xs, inits = operands[:count], operands[count:]
    dims = instr.attrs["dimensions"]
    kept = [d for d in range(xs[0].ndim) if d not in dims]
    out = tuple(xs[0].shape[d] for d in kept)
    bounds = instr.attrs.get("bounds", instr.operands[0].shape.dimensions)
    if all(bounds[d] == 1 == xs[0].shape[d] for d in dims):
        shapes = instr.shape.tuple_shapes if instr.shape.is_tuple else (instr.shape,)
        same = tuple(x.reshape(out).astype(DTYPES[s.element_type], copy=False) for x, s in zip(xs, shapes))
        return same if instr.shape.is_tuple else same[0]
    while not free(instr) and (window := step(xs[0].shape, dims)) is not None:
        steps = tuple(-(-size // w.size) for size, w in zip(xs[0].shape, window.dimensions))
        xs = reduce_windows(instr.called[0], xs, inits, window.dimensions, steps, call, stepwise(instr))
    length = int(np.prod([xs[0].shape[d] for d in dims], dtype=np.int64))
    flat = [x.transpose([*dims, *kept]).reshape(length, *out) for x in xs]
    combine, widen = combiner(instr.called[0], call, stepwise(instr))
    totals = [np.broadcast_to(init, out) for init in inits]
    if widen:
        rest = wide(flat[0])
        while len(rest) > 1:
            half = len(rest) // 2
            rest = np.concatenate([*combine([rest[:half]], [rest[half : 2 * half]]), rest[2 * half :]])
        if len(rest):
            totals = combine(totals, [rest[0]])
    elif length <= _MOST_STEPS:
        for k in range(length):
            totals = combine(totals, [x[k] for x in flat])
    else:
        # neighbours first, in order: a reducer is associative
        while len(flat[0]) > 1:
            half = len(flat[0]) // 2
            pairs = combine([x[: 2 * half : 2] for x in flat], [x[1 : 2 * half : 2] for x in flat])
            flat = [np.concatenate([pair, x[2 * half :].astype(pair.dtype)]) for pair, x in zip(pairs, flat)]
        totals = combine(totals, [x[0] for x in flat])
    return tuple(totals) if instr.shape.is_tuple else totals[0]


def _map(instr: Instruction, operands: list[Value], call: Any) -> Value:
    return call.lanes(instr.called[0], *operands)


def _scan(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """Walk one dimension with carries; outputs are stacked along it, the final carries follow."""
    carries_count = instr.attrs["num_carries"]
    split = len(operands) - carries_count
    xs, carries = operands[:split], tuple(operands[split:])
    dim = instr.attrs["dimensions"][0]
    length = xs[0].shape[dim]
    order = range(length - 1, -1, -1) if instr.attrs["is_reverse"] else range(length)
    shapes = instr.shape.tuple_shapes if instr.shape.is_tuple else (instr.shape,)
    outputs_count = len(shapes) - carries_count
    outputs: list[Any] = [np.zeros(s.dimensions, DTYPES[s.element_type]) for s in shapes[:outputs_count]]
    rows: dict[int, Any] = {}
    for k in order:
        result = call(instr.called[0], *(np.take(x, k, dim) for x in xs), *carries)
        result = result if isinstance(result, tuple) else (result,)
        rows[k], carries = result[:outputs_count], result[outputs_count:]
    if length:
        outputs = [np.stack([rows[k][i] for k in range(length)], dim) for i in range(outputs_count)]
    results = (*outputs, *carries)
    return results if instr.shape.is_tuple else results[0]


EVALUATE: dict[str, Callable[[Instruction, list[Value], Any], Value]] = {"reduce": _reduce, "map": _map, "scan": _scan}
