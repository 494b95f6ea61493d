"""NumPy semantics of operations over sliding windows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from ...dataclass import replace
from ...hlo.attrs import WindowDimension
from ...hlo.ir import Computation, Instruction
from ..dtypes import TYPES_OF, Array, Value, wide
from ..elementwise.reference import BINARY
from ..reduce.monoids import monoid
from ..reduce.neutral import neutral
from ..reduce.reference_combine import combiner, fold
from ..reduce.tree import free, step
from .expand import whole
from .prefixes import stepwise


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


def window_elements(
    window: Sequence[WindowDimension], base: Sequence[int], out: Sequence[int]
) -> Iterator[tuple[list[Array], Array]]:
    """`_positions` of every window element, in row-major order."""
    for offset in product(*(range(w.size) for w in window)):
        yield _positions(window, offset, base, out)


def _reduce_window(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """Every output starts from the initial value once; padding and holes are skipped. A scalar is its own reduction."""
    count = len(operands) // 2
    xs, inits = operands[:count], operands[count:]
    if not instr.shape.is_tuple and xs[0].ndim == 0:
        return xs[0]
    window = instr.attrs["window"].dimensions
    out = (instr.shape.tuple_shapes[0] if instr.shape.is_tuple else instr.shape).dimensions
    reduced = whole(window, xs[0].shape) if instr.shape.is_array else ()
    while reduced and not free(instr) and (first := step(xs[0].shape, reduced)) is not None:
        # A window that covers all is a reduction.
        steps = tuple(-(-size // w.size) for size, w in zip(xs[0].shape, first.dimensions))
        xs = reduce_windows(instr.called[0], xs, inits, first.dimensions, steps, call, stepwise(instr))
        window = tuple(
            replace(w, size=size) if d in reduced else w for d, (w, size) in enumerate(zip(window, xs[0].shape))
        )
    totals = reduce_windows(instr.called[0], xs, inits, window, out, call, stepwise(instr))
    return tuple(totals) if instr.shape.is_tuple else totals[0]


def reduce_windows(
    reducer: Computation,
    xs: Sequence[Array],
    inits: Sequence[Array],
    window: Sequence[WindowDimension],
    out: tuple[int, ...],
    call: Any,
    stepwise: bool,
) -> list[Array]:
    """The reductions of all windows."""
    combine, widen = combiner(reducer, call, stepwise)
    totals = [np.broadcast_to(wide(init) if widen else init, out) for init in inits]
    if 0 in xs[0].shape or 0 in out:
        return totals
    if widen:
        opcode = monoid(reducer)
        assert opcode is not None
        return combine(totals, [_windowed(opcode, wide(xs[0]), window, out)])
    for positions, valid in window_elements(window, xs[0].shape, out):
        if np.any(valid):
            elements = [np.broadcast_to(x[tuple(positions)], out) for x in xs]
            totals = [np.where(valid, new, old) for new, old in zip(combine(totals, elements), totals)]
    return totals


def _windowed(opcode: str, x: Array, window: Sequence[WindowDimension], out: Sequence[int]) -> Array:
    """Dimension by dimension; the elements of a window are combined by halves, so that wide windows cost their
    logarithm."""
    fn, nothing = BINARY[opcode], neutral(opcode, TYPES_OF[x.dtype].name)
    for d, (w, count) in enumerate(zip(window, out)):
        x = np.moveaxis(x, d, 0)
        last = (count - 1) * w.stride + (w.size - 1) * w.window_dilation
        padded = np.full((last + 1, *x.shape[1:]), nothing, x.dtype)
        place = w.padding_low + np.arange(len(x)) * w.base_dilation
        inside = (place >= 0) & (place <= last)
        padded[place[inside]] = x[inside]
        # `run` holds combinations of `width` neighbours, `total` those of the window's elements so far
        run, width, done = padded, 1, 0
        total = None
        while True:
            if w.size & width:
                part = run[done * w.window_dilation :][: (count - 1) * w.stride + 1 : w.stride]
                total = part if total is None else fn(total, part)
                done += width
            if done == w.size:
                break
            run = fn(run[: -width * w.window_dilation], run[width * w.window_dilation :])
            width *= 2
        assert total is not None
        x = np.moveaxis(total, 0, d)
    return x


def _select_and_scatter(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """Each window selects one element of the operand, where its source element is then scattered."""
    x, source, init = operands
    select, scatter = instr.called
    out = source.shape
    best = np.broadcast_to(np.zeros((), x.dtype), out)
    where = np.full(out, -1, np.int64)
    flat_index = np.arange(x.size).reshape(x.shape)
    if x.size and source.size:
        for positions, valid in window_elements(instr.attrs["window"].dimensions, x.shape, out):
            candidate = np.broadcast_to(x[tuple(positions)], out)
            keep = (where >= 0) & call.lanes(select, best, candidate)
            take = valid & ~keep
            best = np.where(take, candidate, best)
            where = np.where(take, np.broadcast_to(flat_index[tuple(positions)], out), where)
    chosen = where.reshape(-1) >= 0
    (result,) = fold(
        scatter,
        call,
        [np.full(x.size, init, x.dtype)],
        where.reshape(-1)[chosen],
        [source.reshape(-1)[chosen]],
        stepwise(instr),
    )
    return result.reshape(x.shape)


EVALUATE: dict[str, Callable[[Instruction, list[Value], Any], Value]] = {
    "reduce-window": _reduce_window,
    "select-and-scatter": _select_and_scatter,
}
