"""NumPy semantics of dynamic dimensions: an array is as large as it actually is, and an operation on it is the static
one on arrays of these sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from ...dataclass import replace
from ...errors import UnsupportedError
from ...hlo.infer import dilated
from ...hlo.ir import Instruction
from ...hlo.shape import Shape
from ..dtypes import Array, Value
from ..elementwise.record import OPS as _ELEMENTWISE
from .pad_reshape import groups_of

Evaluate = Callable[[Instruction, list[Value], Any], Value]
Sizes = tuple[int, ...]


def is_dynamic(instr: Instruction) -> bool:
    """Returns True if sizes of its operands or of its result are known only when it runs."""
    return bool(instr.shape.dynamic) or any(o.shape.dynamic for o in instr.operands)


def evaluate(instr: Instruction, operands: list[Value], call: Any, fn: Evaluate) -> Value:
    """The value of an instruction with dynamic dimensions; `fn` is what evaluates the static ones of its opcode."""
    if instr.opcode in _ANY_SIZES:
        return fn(instr, operands, call)
    return _OWN.get(instr.opcode, _as_static)(instr, operands, call, fn)


def _as_static(
    instr: Instruction, operands: list[Value], call: Any, fn: Evaluate, dims: Sizes | None = None, **attrs: Any
) -> Value:
    """The instruction as one on arrays of the actual sizes; `dims` are its result's where those do not follow from
    these."""
    from ..table import OPS

    infer = OPS[instr.opcode].infer
    if infer is None:
        raise UnsupportedError(
            f"the reference evaluator does not know {instr.opcode} of dynamic dimensions: {instr.where}"
        )
    given = [
        Instruction(o.name, "parameter", Shape(o.shape.element_type, np.shape(v)))
        for o, v in zip(instr.operands, operands)
    ]
    shape = (
        Shape(instr.shape.element_type, instr.shape.dimensions if dims is None else dims)
        if instr.shape.is_array
        else instr.shape
    )
    static = Instruction(instr.name, instr.opcode, shape, given, instr.attrs | attrs, instr.called, instr.metadata)
    static.shape = infer(static)
    return fn(static, operands, call)


def cut(x: Array, sizes: Sequence[int]) -> Array:
    """The first elements along each dimension."""
    return x[tuple(map(slice, sizes))]


def extended(x: Array, sizes: Sequence[int]) -> Array:
    """The array with sizes of any kind; what it did not have is zero."""
    result = np.zeros(sizes, x.dtype)
    kept = [min(pair) for pair in zip(x.shape, sizes)]
    result[tuple(map(slice, kept))] = cut(x, kept)
    return result


# --- arrays that go together ----------------------------------------------------------------------------------------


def _least(arrays: Sequence[Array]) -> Sizes:
    return tuple(map(min, zip(*(a.shape for a in arrays))))


def _elementwise(instr: Instruction, operands: list[Value], call: Any, fn: Evaluate) -> Value:
    """Computes each element by itself: where sizes differ the least counts; one element of a dynamic dimension goes
    together with any number."""
    ranked = [(o.shape, v) for o, v in zip(instr.operands, operands) if o.shape.dimensions]
    sizes = []
    for d, bound in enumerate(ranked[0][0].dimensions):
        found = [v.shape[d] for shape, v in ranked if shape.dynamic and shape.dynamic[d]]
        several = [size for size in found if size != 1]
        sizes.append(min(several) if several else 1 if found else bound)
    together = []
    for o, v in zip(instr.operands, operands):
        flags = o.shape.dynamic or (False,) * len(sizes)
        repeated = (
            [v.shape[d] == 1 != size and flag for d, (size, flag) in enumerate(zip(sizes, flags))]
            if o.shape.dimensions
            else []
        )
        if o.shape.dimensions:
            v = np.broadcast_to(v, [size if again else own for again, size, own in zip(repeated, sizes, v.shape)])
            v = cut(v, sizes)
        together.append(v)
    return _as_static(instr, together, call, fn)


def _reduction(instr: Instruction, operands: list[Value], call: Any, fn: Evaluate) -> Value:
    half = len(operands) // 2
    sizes = _least(operands[:half])
    # One element may be all there is this time; a reduction of one is another thing.
    bounds = instr.operands[0].shape.dimensions
    return _as_static(instr, [*(cut(x, sizes) for x in operands[:half]), *operands[half:]], call, fn, bounds=bounds)


def _sort(instr: Instruction, operands: list[Value], call: Any, fn: Evaluate) -> Value:
    sizes = _least(operands)
    return _as_static(instr, [cut(x, sizes) for x in operands], call, fn)


def _select_and_scatter(instr: Instruction, operands: list[Value], call: Any, fn: Evaluate) -> Value:
    """A source of more elements than there are windows is cut; where it has fewer, the last windows choose nothing."""
    x, source, init = operands
    places = []
    for size, w in zip(x.shape, instr.attrs["window"].dimensions):
        room = w.padding_low + dilated(size, w.base_dilation) + w.padding_high - dilated(w.size, w.window_dilation)
        places.append(max(room // w.stride + 1, 0))
    if any(a < b for a, b in zip(source.shape, places)):
        raise UnsupportedError(f"the reference evaluator needs an element of the source for each window: {instr.where}")
    return _as_static(instr, [x, cut(source, places), init], call, fn)


def _batch_norm(instr: Instruction, operands: list[Value], call: Any, fn: Evaluate) -> Value:
    feature = instr.attrs["feature_index"]
    features = min(v.shape[feature] if v.ndim == operands[0].ndim > 1 else v.shape[0] for v in operands)
    arrays = [v for v in operands if v.ndim == operands[0].ndim]
    sizes = tuple(features if d == feature else size for d, size in enumerate(_least(arrays)))
    return _as_static(instr, [cut(v, sizes if v.ndim == len(sizes) else [features]) for v in operands], call, fn)


def _dot(instr: Instruction, operands: list[Value], call: Any, fn: Evaluate) -> Value:
    """Paired dimensions have the least of both sizes."""
    ragged = instr.attrs.get("ragged_dot_dimension_numbers")
    n = ragged.dot_dimension_numbers if ragged else instr.attrs["dot_dimension_numbers"]
    left, right = (list(v.shape) for v in operands[:2])
    for pairs in (
        (n.lhs_batch_dimensions, n.rhs_batch_dimensions),
        (n.lhs_contracting_dimensions, n.rhs_contracting_dimensions),
    ):
        for p, q in zip(*pairs):
            left[p] = right[q] = min(left[p], right[q])
    return _as_static(instr, [cut(operands[0], left), cut(operands[1], right), *operands[2:]], call, fn)


# --- movement -------------------------------------------------------------------------------------------------------


def _broadcast(instr: Instruction, operands: list[Value], call: Any, fn: Evaluate) -> Value:
    sizes = dict(zip(instr.attrs["dimensions"], operands[0].shape))
    return _as_static(
        instr, operands, call, fn, tuple(sizes.get(d, bound) for d, bound in enumerate(instr.shape.dimensions))
    )


def _slice(instr: Instruction, operands: list[Value], call: Any, fn: Evaluate) -> Value:
    bounds = [
        replace(b, start=min(b.start, size), limit=min(b.limit, size))
        for b, size in zip(instr.attrs["slice"], operands[0].shape)
    ]
    return _as_static(instr, operands, call, fn, slice=tuple(bounds))


def _pad(instr: Instruction, operands: list[Value], call: Any, fn: Evaluate) -> Value:
    """Cropping beyond the last element leaves none."""
    padding = []
    for size, p in zip(operands[0].shape, instr.attrs["padding"]):
        out = size + max(size - 1, 0) * p.interior_padding + p.edge_padding_low + p.edge_padding_high
        padding.append(replace(p, edge_padding_high=p.edge_padding_high - min(out, 0)))
    return _as_static(instr, operands, call, fn, padding=tuple(padding))


def _reshape(instr: Instruction, operands: list[Value], call: Any, fn: Evaluate) -> Value:
    """In each group of dimensions the one that is dynamic takes up what the others leave."""
    (x,) = operands
    before, after = instr.operands[0].shape.dimensions, instr.shape.dimensions
    sizes = list(after)
    for sources, targets in groups_of(before, after) if 0 not in before else []:
        held = prod(x.shape[d] for d in sources)
        if held == prod(after[d] for d in targets):
            continue
        takers = [d for d in targets if instr.shape.dynamic and instr.shape.dynamic[d]]
        inferred = instr.attrs["inferred_dimension"]
        (taker,) = [inferred] if len(takers) != 1 and inferred in targets else takers
        sizes[taker] = held // prod(after[d] for d in targets if d != taker)
    return extended(x.reshape(-1), [prod(sizes)]).reshape(sizes)


def _dynamic_reshape(instr: Instruction, operands: list[Value], call: Any) -> Value:
    flags = instr.shape.dynamic or (False,) * instr.shape.rank
    sizes = [
        min(max(int(n), 0), bound) if flag else bound
        for n, bound, flag in zip(operands[1:], instr.shape.dimensions, flags)
    ]
    return extended(operands[0].reshape(-1), [prod(sizes)]).reshape(sizes)


# --- at computed places, which are clamped to the bounds ------------------------------------------------------------


def _room(shape: Shape, x: Array, taken: Sequence[int]) -> tuple[Array, Sizes]:
    """An operand as large as its bounds where slices of it are smaller, and the sizes of slices."""
    whole = [size == bound for size, bound in zip(taken, shape.dimensions)]
    room = [own if all_ else bound for all_, own, bound in zip(whole, x.shape, shape.dimensions)]
    return extended(x, room), tuple(own if all_ else size for all_, own, size in zip(whole, x.shape, taken))


def _gather(instr: Instruction, operands: list[Value], call: Any, fn: Evaluate) -> Value:
    x, sizes = _room(instr.operands[0].shape, operands[0], instr.attrs["slice_sizes"])
    return _as_static(instr, [x, operands[1]], call, fn, slice_sizes=sizes)


def _dynamic_slice(instr: Instruction, operands: list[Value], call: Any, fn: Evaluate) -> Value:
    x, sizes = _room(instr.operands[0].shape, operands[0], instr.attrs["dynamic_slice_sizes"])
    return _as_static(instr, [x, *operands[1:]], call, fn, dynamic_slice_sizes=sizes)


def _dynamic_update_slice(instr: Instruction, operands: list[Value], call: Any, fn: Evaluate) -> Value:
    x = extended(operands[0], instr.operands[0].shape.dimensions)
    return cut(_as_static(instr, [x, *operands[1:]], call, fn), operands[0].shape)


def _scatter(instr: Instruction, operands: list[Value], call: Any, fn: Evaluate) -> Value:
    """Updates and indices that are not there are not applied."""
    n = instr.attrs["scatter_dimension_numbers"]
    count = len(operands) // 2
    arrays, indices, updates = operands[:count], operands[count], operands[count + 1 :]
    bounds = instr.operands[0].shape.dimensions
    own, given = _least(arrays), list(_least(updates))
    outer = [d for d in range(indices.ndim) if d != n.index_vector_dim]
    listed = list(indices.shape)
    for d, place in zip(outer, (d for d in range(len(given)) if d not in n.update_window_dims)):
        listed[d] = given[place] = min(listed[d], given[place])
    whole = [*(extended(x, bounds) for x in arrays), cut(indices, listed), *(cut(u, given) for u in updates)]
    result = _as_static(instr, whole, call, fn)
    return tuple(cut(r, own) for r in result) if isinstance(result, tuple) else cut(result, own)


# --- sizes ----------------------------------------------------------------------------------------------------------


def _constant(instr: Instruction, operands: list[Value], call: Any, fn: Evaluate) -> Value:
    sizes = instr.attrs["literal"].dynamic_sizes
    return cut(fn(instr, operands, call), sizes) if sizes else fn(instr, operands, call)


def _custom_call(instr: Instruction, operands: list[Value], call: Any, fn: Evaluate) -> Value:
    target = instr.attrs["custom_call_target"]
    if target == "PadToStatic":
        (x,) = operands
        return extended(x, instr.operands[0].shape.dimensions), *(np.int32(size) for size in x.shape)
    if target == "SliceToDynamic":
        flags = instr.shape.dynamic or (False,) * instr.shape.rank
        sizes = [
            min(max(int(n), 0), bound) if flag else bound
            for n, bound, flag in zip(operands[1:], instr.shape.dimensions, flags)
        ]
        return extended(operands[0], sizes)
    return fn(instr, operands, call)


def _get_dimension_size(instr: Instruction, operands: list[Value], call: Any) -> Value:
    return np.int32(np.shape(operands[0])[instr.attrs["dimensions"][0]])


def _set_dimension_size(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """A size outside of the bounds is clamped; elements that there were none of are zero."""
    (dim,) = instr.attrs["dimensions"]
    bound = instr.shape.dimensions[dim]
    dynamic = instr.shape.dynamic and instr.shape.dynamic[dim]
    sizes = list(operands[0].shape)
    sizes[dim] = min(max(int(operands[1]), 0), bound) if dynamic else bound
    return extended(operands[0], sizes)


EVALUATE: dict[str, Evaluate] = {
    "get-dimension-size": _get_dimension_size,
    "set-dimension-size": _set_dimension_size,
    "dynamic-reshape": _dynamic_reshape,
}

_ANY_SIZES = frozenset(
    (
        *EVALUATE,
        *(
            "tuple",
            "get-tuple-element",
            "call",
            "fusion",
            "while",
            "conditional",
            "copy",
            "opt-barrier",
            "add-dependency",
            "domain",
        ),
        *("async-start", "async-update", "async-done", "transpose", "reverse", "outfeed", "send"),
    )
)
"""Operations that are the same whatever the sizes."""

_OWN: dict[str, Callable[[Instruction, list[Value], Any, Evaluate], Value]] = {
    **{op.opcode: _elementwise for op in _ELEMENTWISE if op.opcode not in ("iota", "constant", "bitcast-convert")},
    "constant": _constant,
    "map": _elementwise,
    "reduce": _reduction,
    "reduce-window": _reduction,
    "select-and-scatter": _select_and_scatter,
    "sort": _sort,
    **dict.fromkeys(("batch-norm-training", "batch-norm-inference", "batch-norm-grad"), _batch_norm),
    **dict.fromkeys(("dot", "ragged-dot", "scaled-dot"), _dot),
    "broadcast": _broadcast,
    "slice": _slice,
    "pad": _pad,
    "reshape": _reshape,
    "gather": _gather,
    "scatter": _scatter,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "custom-call": _custom_call,
}
"""Functions that make an operation's operands those of a static one."""
