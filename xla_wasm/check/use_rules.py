"""Rules for the operands of operations: some operations tell the use of an operand, others pass on that of their
result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from ..dataclass import replace
from ..hlo.attrs import GatherDimensionNumbers, ScatterDimensionNumbers
from ..hlo.ir import Instruction, callees
from ..hlo.types import TYPES
from ..host.arrays import Array
from .use import FAR, Range, Use, Uses, between, integers, moved, unbounded, where

Told = list[tuple[Instruction, Uses]]
"""Instructions, each with what the leaves of its value are used for."""
IDENTITIES = frozenset(("opt-barrier", "copy", "domain", "add-dependency"))
"""Operations that give their first operand as it is."""


def limited(x: Instruction, least: Range) -> Uses:
    """The use of a value of which only the numbers are limited."""
    return [unbounded(leaf, least) for _, leaf in x.shape.leaves()]


def _starts(x: Instruction) -> Told:
    """The starts of a dynamic slice, or of an update."""
    first = 1 if x.opcode == "dynamic-slice" else 2
    whole = x.operands[0].shape.dimensions
    part = x.shape.dimensions if first == 1 else x.operands[1].shape.dimensions
    last = [max(a - b, 0) for a, b in zip(whole, part)]
    starts = x.operands[first:]
    if len(starts) == 1 and starts[0].shape.rank:
        return [(starts[0], [Use(np.zeros(len(last), np.int64), np.array(last, np.int64))])]
    return [(start, [between(start.shape, 0, most)]) for start, most in zip(starts, last)]


def _indices(x: Instruction) -> Told:
    """The index vectors of a gather or a scatter, each component inside the dimension that it starts."""
    whole = x.operands[0].shape.dimensions
    if x.opcode == "gather":
        gathered: GatherDimensionNumbers = x.attrs["gather_dimension_numbers"]
        indices, vector, starts = x.operands[1], gathered.index_vector_dim, gathered.start_index_map
        sizes = dict(enumerate(x.attrs["slice_sizes"]))
    else:
        scattered: ScatterDimensionNumbers = x.attrs["scatter_dimension_numbers"]
        count = len(x.operands) // 2
        indices, vector = x.operands[count], scattered.index_vector_dim
        starts = scattered.scatter_dims_to_operand_dims
        update = x.operands[count + 1].shape.dimensions
        gone = {*scattered.inserted_window_dims, *scattered.input_batching_dims}
        kept = [d for d in range(len(whole)) if d not in gone]
        sizes = {d: update[at] for d, at in zip(kept, scattered.update_window_dims)}
    last = np.array([max(whole[d] - sizes.get(d, 1), 0) for d in starts], np.int64)
    dims = indices.shape.dimensions
    if vector < len(dims):
        last = last.reshape([-1 if d == vector else 1 for d in range(len(dims))])
    elif len(last):
        last = last[0]
    else:
        return []
    return [(indices, [Use(np.broadcast_to(np.int64(0), dims), np.broadcast_to(last, dims))])]


def _shift(x: Instruction) -> Told:
    return [(x.operands[1], [between(x.operands[1].shape, 0, TYPES[x.shape.element_type].bits - 1)])]


def _size(x: Instruction) -> Told:
    """A size that is not beyond its bound."""
    bounds = [x.shape.dimensions[d] for d in x.attrs["dimensions"]] if x.attrs.get("dimensions") else x.shape.dimensions
    sizes = zip(x.operands[1:], bounds)
    return [(size, [replace(between(size.shape, 0, bound), strict=True)]) for size, bound in sizes]


def _runs(x: Instruction) -> Told:
    """The runs of rows of a ragged-all-to-all: their beginnings in the first half, so that they fit."""
    rows, room = (o.shape.dimensions[0] for o in x.operands[:2])
    longest = min(rows - rows // 2, room - room // 2)
    lasts = (rows // 2, longest, room // 2, longest)
    return [(o, [replace(between(o.shape, 0, last), strict=True)]) for o, last in zip(x.operands[2:], lasts)]


def _finite(x: Instruction) -> Told:
    return [(operand, limited(operand, Range.FINITE)) for operand in x.operands]


def _reduced(x: Instruction) -> Told:
    """Reducers of several operations may take a NaN for anything, depending on the order of elements."""
    is_monoid = x.called and x.called[0].root.opcode in _MONOIDS and len(x.called[0].instructions) == 3
    return [] if is_monoid else _finite(x)


def _ordinary(x: Instruction) -> Told:
    return [(operand, limited(operand, Range.ORDINARY)) for operand in x.operands]


def _branched(x: Instruction) -> Told:
    selector = x.operands[0]
    told: Told = []
    if selector.shape.element_type != "pred":
        told.append((selector, [between(selector.shape, 0, len(x.called) - 1)]))
    if any(y.opcode in _EXCHANGES for c in callees([x]) for y in c.instructions):  # devices must take the same branch
        told.append((selector, limited(selector, Range.ORDINARY)))
    return told


_MONOIDS = frozenset(("add", "multiply", "maximum", "minimum", "and", "or", "xor"))
_EXCHANGES = frozenset(
    "all-reduce all-reduce-start all-gather all-gather-start reduce-scatter all-to-all ragged-all-to-all "
    "collective-broadcast collective-permute collective-permute-start send recv".split()
)
SINKS: dict[str, Callable[[Instruction], Told]] = {
    **dict.fromkeys(("dynamic-slice", "dynamic-update-slice"), _starts),
    **dict.fromkeys(("gather", "scatter"), _indices),
    **dict.fromkeys(("shift-left", "shift-right-arithmetic", "shift-right-logical"), _shift),
    **dict.fromkeys(("set-dimension-size", "dynamic-reshape"), _size),
    **dict.fromkeys(("sort", "fft"), _finite),
    **dict.fromkeys(("reduce", "reduce-window", "select-and-scatter", "scan"), _reduced),
    **dict.fromkeys(("cholesky", "triangular-solve", "custom-call"), _ordinary),
    "conditional": _branched,
    "ragged-all-to-all": _runs,
}
"""Opcode -> what the operation's operands are used for."""


Number = Callable[[Instruction], Array | None]
"""The elements of an array, where they follow from constants."""
Pass = Callable[[Instruction, Use, Number], Sequence[Use | None]]
"""The uses of the operands of an operation, given that of its result."""


def _same(x: Instruction, use: Use, number: Number) -> list[Use | None]:
    return [use] * len(x.operands)


def _negated(x: Instruction, use: Use, number: Number) -> list[Use | None]:
    return [replace(use, low=-use.high, high=-use.low)]


def _reshaped(x: Instruction, use: Use, number: Number) -> list[Use | None]:
    shape = x.operands[0].shape
    same = prod(shape.dimensions) == prod(x.shape.dimensions)
    return [use.map(lambda a: a.reshape(shape.dimensions)) if same else None]


def _transposed(x: Instruction, use: Use, number: Number) -> list[Use | None]:
    return [use.map(lambda a: a.transpose(np.argsort(x.attrs["dimensions"])))]


def _reversed(x: Instruction, use: Use, number: Number) -> list[Use | None]:
    return [use.map(lambda a: np.flip(a, x.attrs["dimensions"]))]


def _broadcast(x: Instruction, use: Use, number: Number) -> list[Use | None]:
    shape, dims = x.operands[0].shape, x.attrs["dimensions"]
    if not prod(x.shape.dimensions):
        return [None]
    others = tuple(d for d in range(x.shape.rank) if d not in dims)
    order = np.argsort(np.argsort(dims))
    low, high = (f(a, axis=others).transpose(order) for f, a in ((np.max, use.low), (np.min, use.high)))
    apart = low > high  # used as several things
    if apart.any():
        least, most = (f(a, axis=others).transpose(order) for f, a in ((np.min, use.low), (np.max, use.high)))
        low, high = np.where(apart, least, low), np.where(apart, most, high)
    return [replace(use, low=low.reshape(shape.dimensions), high=high.reshape(shape.dimensions))]


def _parts(x: Instruction, use: Use, number: Number) -> list[Use | None]:
    (axis,) = x.attrs["dimensions"]
    ends = np.cumsum([o.shape.dimensions[axis] for o in x.operands])[:-1]
    return [replace(use, low=a, high=b) for a, b in zip(np.split(use.low, ends, axis), np.split(use.high, ends, axis))]


def _sliced(x: Instruction, use: Use, number: Number) -> list[Use | None]:
    whole = unbounded(x.operands[0].shape, use.range)
    at = tuple(slice(b.start, b.limit, b.stride) for b in x.attrs["slice"])
    low, high = whole.low.copy(), whole.high.copy()
    low[at], high[at] = use.low, use.high
    return [replace(use, low=low, high=high)]


def _spread(x: Instruction, use: Use, number: Number) -> list[Use | None]:
    """Elements of the operands that hold data may be any of the result's."""
    count = {"gather": 1, "dynamic-slice": 1}.get(x.opcode, 2)
    return [use.like(o.shape) if o.shape.is_array else None for o in x.operands[:count]]


def _gathered_extreme(x: Instruction, use: Use, number: Number) -> list[Use | None]:
    """A greatest or least element is one of the elements."""
    return _spread(x, use, number) if x.called[0].root.opcode in ("maximum", "minimum") else []


def _chosen(x: Instruction, use: Use, number: Number) -> list[Use | None]:
    return [None, use, use]


def _clamped(x: Instruction, use: Use, number: Number) -> list[Use | None]:
    return [None, use, None]


def _added(x: Instruction, use: Use, number: Number) -> list[Use | None]:
    out: list[Use | None] = []
    for own, other in ((0, 1), (1, 0)):
        value = integers(number(x.operands[other]))
        if value is not None:
            out.append(moved(use, -value))
        elif number(x.operands[own]) is not None:
            out.append(None)
        else:  # two numbers that vary: each has half
            out.append(replace(use, high=np.where(use.bounded, (use.low + use.high + 1) // 2, use.high)))
    return out


def _subtracted(x: Instruction, use: Use, number: Number) -> list[Use | None]:
    left, right = (integers(number(o)) for o in x.operands)
    negative = replace(use, low=-use.high, high=-use.low)
    if right is not None:
        return [moved(use, right), None]
    if left is not None:
        return [None, moved(negative, left)]
    middle = (use.low + use.high + 1) // 2
    width = np.where(use.bounded, use.high - middle, FAR)
    return [
        replace(use, low=np.where(use.bounded, middle, use.low)),
        replace(use, low=np.where(use.bounded, 0, use.low), high=width),
    ]


def _multiplied(x: Instruction, use: Use, number: Number) -> list[Use | None]:
    out: list[Use | None] = []
    for own, other in ((0, 1), (1, 0)):
        value = integers(number(x.operands[other]))
        if value is not None:
            good = use.bounded & (value > 0)
            by = np.maximum(value, 1)
            out.append(where(good, replace(use, low=-(-use.low // by), high=use.high // by)))
        elif number(x.operands[own]) is not None:
            out.append(None)
        else:  # two numbers that vary
            root = np.floor(np.sqrt(np.maximum(use.high, 0))).astype(np.int64)
            good = use.bounded & (use.low <= 0)
            out.append(where(good, replace(use, low=np.zeros_like(use.low), high=root)))
    return out


def _divided(x: Instruction, use: Use, number: Number) -> list[Use | None]:
    value = integers(number(x.operands[1]))
    if value is None or x.shape.element_type == "pred":
        return []
    by = np.maximum(value, 1)
    good = use.bounded & (value > 0) & (use.high < FAR // by)
    return [where(good, replace(use, low=use.low * by, high=use.high * by + by - 1))]


def _shifted_left(x: Instruction, use: Use, number: Number) -> list[Use | None]:
    value = integers(number(x.operands[1]))
    if value is None:
        return []
    by = np.clip(value, 0, 62)
    return [replace(use, low=use.low >> by, high=use.high >> by)]


THROUGH: dict[str, Pass] = {
    **dict.fromkeys(("convert", "abs", "maximum", "minimum", "floor", "ceil", "reduce-precision"), _same),
    **dict.fromkeys(("round-nearest-afz", "round-nearest-even", *IDENTITIES), _same),
    **dict.fromkeys(("copy-start", "copy-done"), _same),
    "negate": _negated,
    **dict.fromkeys(("reshape", "bitcast"), _reshaped),
    "transpose": _transposed,
    "reverse": _reversed,
    "broadcast": _broadcast,
    "concatenate": _parts,
    "slice": _sliced,
    **dict.fromkeys(("gather", "dynamic-slice", "dynamic-update-slice", "pad", "all-gather", "all-to-all"), _spread),
    **dict.fromkeys(("collective-permute", "collective-broadcast"), _spread),
    "reduce": _gathered_extreme,
    "select": _chosen,
    "clamp": _clamped,
    "add": _added,
    "subtract": _subtracted,
    "multiply": _multiplied,
    "divide": _divided,
    "shift-left": _shifted_left,
}
"""Opcode -> how a use goes on to the operands, those left out having none."""
