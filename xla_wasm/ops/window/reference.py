"""NumPy semantics of operations over sliding windows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from ...hlo.attrs import WindowDimension
from ...hlo.ir import Instruction
from ..arrays import Array, Value, wide
from ..reduce.combine import combiner


def _positions(
    window: Sequence[WindowDimension], offset: Sequence[int], base: Sequence[int], out: Sequence[int]
) -> tuple[list[Array], Array]:
    """For one window element, at every output: its position in the base per dimension, and whether that is an element
    of the base rather than padding or a hole of base dilation. Both broadcast to `out`."""
    rank = len(window)
    positions, valid = [], np.ones((1,) * rank, np.bool_)
    for d, (w, k, size, count) in enumerate(zip(window, offset, base, out)):
        p = np.arange(count) * w.stride + k * w.window_dilation - w.padding_low
        inside = (p >= 0) & (p % w.base_dilation == 0) & (p // w.base_dilation < size)
        shape = [-1 if i == d else 1 for i in range(rank)]
        positions.append(np.where(inside, p // w.base_dilation, 0).reshape(shape))
        valid = valid & inside.reshape(shape)
    return positions, valid


def window_elements(window: Sequence[WindowDimension], base: Sequence[int], out: Sequence[int]) -> Iterator[tuple[list[Array], Array]]:
    """`_positions` of every window element, in row-major order."""
    for offset in product(*(range(w.size) for w in window)):
        yield _positions(window, offset, base, out)


def _reduce_window(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """Every output starts from the initial value once; padding and holes are skipped."""
    count = len(operands) // 2
    xs, inits = operands[:count], operands[count:]
    out = (instr.shape.tuple_shapes[0] if instr.shape.is_tuple else instr.shape).dimensions
    combine, widen = combiner(instr.called[0], call)
    totals = [np.broadcast_to(wide(init) if widen else init, out) for init in inits]
    if 0 not in xs[0].shape:
        for positions, valid in window_elements(instr.attrs["window"].dimensions, xs[0].shape, out):
            if np.any(valid):
                elements = [np.broadcast_to(x[tuple(positions)], out) for x in xs]
                totals = [np.where(valid, new, old) for new, old in zip(combine(totals, elements), totals)]
    return tuple(totals) if instr.shape.is_tuple else totals[0]


def _select_and_scatter(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """Each window selects one element of the operand, where its source element is then scattered."""
    x, source, init = operands
    select, scatter = instr.called
    out = source.shape
    best = np.broadcast_to(np.zeros((), x.dtype), out)
    where = np.full(out, -1, np.int64)
    flat_index = np.arange(x.size).reshape(x.shape)
    if x.size:
        for positions, valid in window_elements(instr.attrs["window"].dimensions, x.shape, out):
            candidate = np.broadcast_to(x[tuple(positions)], out)
            keep = (where >= 0) & call.lanes(select, best, candidate)
            take = valid & ~keep
            best = np.where(take, candidate, best)
            where = np.where(take, np.broadcast_to(flat_index[tuple(positions)], out), where)
    combine, widen = combiner(scatter, call)
    result = np.full(x.size, init, x.dtype)
    result = wide(result) if widen else result
    for target, value in zip(where.reshape(-1), source.reshape(-1)):
        if target >= 0:
            result[target] = combine([result[target : target + 1]], [value[None]])[0][0]
    return result.reshape(x.shape)


EVALUATE: dict[str, Callable[[Instruction, list[Value], Any], Value]] = {
    "reduce-window": _reduce_window,
    "select-and-scatter": _select_and_scatter,
}
