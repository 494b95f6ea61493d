"""reduce-window without padding and dilation of its operand, along one dimension after another where that is less
work."""

from __future__ import annotations

from math import prod

from ...dataclass import replace
from ...hlo.attrs import PaddingDimension, Window, WindowDimension
from ...hlo.ir import Instruction
from ...writing.writer import Rule, Writer
from ..reduce.monoids import monoid
from ..reduce.neutral import neutral
from .prefixes import cumulative


def padding(side: WindowDimension) -> PaddingDimension:
    """The padding of an array that does what this dimension of a window does before it moves."""
    return PaddingDimension(side.padding_low, side.padding_high, side.base_dilation - 1)


def _reduce_window(w: Writer, x: Instruction) -> Instruction:
    """Padding with the reducer's neutral element is the same as skipping the padding, and costs no test per element."""
    inits = x.operands[len(x.operands) // 2 :]
    if not x.operands[0].shape.size:
        # Windows over nothing but padding.
        parts = [w.broadcast(init, shape.dimensions) for init, (_, shape) in zip(inits, x.shape.leaves())]
        return w.tuple(parts) if x.shape.is_tuple else parts[0]
    window = x.attrs["window"].dimensions
    opcode = monoid(x.called[0]) if len(x.operands) == 2 and x.shape.is_array else None
    value = neutral(opcode, x.shape.element_type) if opcode is not None else None
    if value is None or x.shape.size == 0 or cumulative(x) is not None:
        return x
    padded = any(padding(side) != PaddingDimension() for side in window)
    order = _apart(x)
    if not padded and len(order) < 2:
        return x
    nothing = w.scalar(x.shape.element_type, value)
    nothing.name = f"{x.name}.identity"
    operand, init = x.operands
    if padded:
        operand = w.pad(operand, nothing, [*map(padding, window)])
    bare = [replace(side, padding_low=0, padding_high=0, base_dilation=1) for side in window]
    if len(order) < 2:
        return w.op("reduce-window", operand, init, called=x.called, window=Window(tuple(bare)))
    for d in order:
        alone = Window(tuple(side if i == d else WindowDimension(1, 1) for i, side in enumerate(bare)))
        operand = w.op("reduce-window", operand, init if d == order[-1] else nothing, called=x.called, window=alone)
    return operand


_CACHED = 1 << 20
"""So many elements stay near the processor from one kernel to the next."""


def _apart(x: Instruction) -> list[int]:
    """The dimensions along which to reduce one after another, if that takes fewer operations than all at once."""
    window, dims = x.attrs["window"].dimensions, list(x.operands[0].shape.dimensions)
    order = sorted((d for d, w in enumerate(window) if w.size > 1 or w.stride > 1), key=lambda d: -window[d].stride)
    steps = 0
    for d in order:
        dims[d] = x.shape.dimensions[d]
        # What is written between is read again, perhaps from beyond the cache.
        steps += prod(dims) * (window[d].size + (1 if prod(dims) <= _CACHED else 4))
    return order if steps < x.shape.size * prod(w.size for w in window) else []


CANONICAL: dict[str, Rule] = {"reduce-window": _reduce_window}
