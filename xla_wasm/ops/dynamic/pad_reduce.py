"""Reductions, windows, sort and batch normalisation of arrays of which a part counts: the rest must have no say."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...hlo.attrs import ScatterDimensionNumbers, WindowDimension
from ...hlo.infer import PRED
from ...hlo.ir import Computation, Instruction
from ...hlo.shape import Shape
from ...writing.writer import Index, Writer
from ..norm.expand import WRITE, Features
from ..reduce.monoids import monoid
from ..reduce.neutral import neutral
from .pad_arrays import Extent, Padded, Rule, Size, SizeWriter, is_known


def _common(w: SizeWriter, dims: Index, extents: Sequence[Extent]) -> tuple[Size, ...]:
    """The sizes of arrays that are used together."""
    return tuple(w.agreed([e[d] for e in extents], bound) for d, bound in enumerate(dims))


def _results(x: Instruction, sizes: Sequence[Size]) -> Extent:
    return tuple(tuple(sizes) for _ in x.shape.tuple_shapes) if x.shape.is_tuple else tuple(sizes)


# --- reduce and reduce-window ---------------------------------------------------------------------------------------


def _reduce(w: SizeWriter, x: Instruction, extents: list[Extent]) -> Padded:
    dims = x.operands[0].shape.dimensions
    sizes = _common(w, dims, extents[: len(x.operands) // 2])
    over = x.attrs["dimensions"]
    kept = [size for d, size in enumerate(sizes) if d not in over]
    live = w.live(dims, sizes, over)
    if live is not None and all(dims[d] == 1 for d in over):
        # The one element there is takes the initial value's place, so where there is none that stays.
        arrays, inits = x.operands[: len(x.operands) // 2], x.operands[len(x.operands) // 2 :]
        chosen = [
            w.select(live, a, w.broadcast(w.convert(i, a.shape.element_type), dims)) for a, i in zip(arrays, inits)
        ]
        return Padded(w.clone(x, [*chosen, *inits]), _results(x, kept))
    return Padded(_ignoring(w, x, live), _results(x, kept))


def _reduce_window(w: SizeWriter, x: Instruction, extents: list[Extent]) -> Padded:
    dims = x.operands[0].shape.dimensions
    sizes = _common(w, dims, extents[: len(x.operands) // 2])
    window = x.attrs["window"].dimensions
    mixed = [d for d, wd in enumerate(window) if wd != WindowDimension(1)]
    places = [w.places(size, wd) for size, wd in zip(sizes, window)]
    return Padded(_ignoring(w, x, w.live(dims, sizes, mixed)), _results(x, places))


def _ignoring(w: SizeWriter, x: Instruction, live: Instruction | None) -> Instruction:
    """The reduction of what is live: the rest becomes the reducer's neutral element, or is marked by a flag."""
    if live is None:
        return w.clone(x)
    count = len(x.operands) // 2
    arrays, inits = x.operands[:count], x.operands[count:]
    opcode = monoid(x.called[0]) if count == 1 else None
    value = neutral(opcode, arrays[0].shape.element_type) if opcode else None
    if value is not None:
        return w.clone(
            x,
            [
                w.select(live, arrays[0], w.full(arrays[0].shape.element_type, arrays[0].shape.dimensions, value)),
                *inits,
            ],
        )
    called = [_of_present(w, x.called[0], count)]
    made = w.again(x, *arrays, live, *inits, w.scalar("pred", 1), called=called)
    parts = w.elements(made)[:count]
    return w.tuple(parts) if x.shape.is_tuple else parts[0]


def _of_present(w: SizeWriter, reducer: Computation, count: int) -> Computation:
    """The reducer with a flag beside each side: a side that is absent leaves the other as it is."""
    shapes = [p.shape for p in reducer.parameters]

    def body(e: Writer, *parameters: Instruction) -> Instruction:
        left, left_there, right, right_there = (
            parameters[:count],
            parameters[count],
            parameters[count + 1 : -1],
            parameters[-1],
        )
        both = e.results(e.inline(reducer, [*left, *right]))
        chosen = []
        for p, q, r in zip(left, right, both):
            alone = e.select(left_there, e.convert(p, r.shape.element_type), e.convert(q, r.shape.element_type))
            chosen.append(e.select(e.binary("and", left_there, right_there), r, alone))
        return e.tuple([*chosen, e.binary("or", left_there, right_there)])

    return w.computation("present", [*shapes[:count], PRED, *shapes[count:], PRED], body)


# --- select-and-scatter ---------------------------------------------------------------------------------------------


def _select_and_scatter(w: SizeWriter, x: Instruction, extents: list[Extent]) -> Padded:
    """Each window's choice, as a number of an element, comes from a reduce-window; a scatter brings the source
    there."""
    array, source, init = x.operands
    dims, places = array.shape.dimensions, source.shape.dimensions
    window = x.attrs["window"].dimensions
    number = w.reshape(w.iota("s32", (prod(dims),)), dims)
    present = w.live(dims, extents[0]) or w.full("pred", dims, 1)
    zero, absent = w.scalar(array.shape.element_type, 0), w.scalar("pred", 0)
    shapes = [Shape(array.shape.element_type), Shape("s32"), PRED]

    def choose(e: Writer, *p: Instruction) -> Instruction:
        left, left_number, left_there, right, right_number, right_there = p
        kept = e.binary("or", e.unary("not", right_there), e.inline(x.called[0], [left, right]))
        kept = e.binary("and", left_there, kept)
        pairs = ((left, right), (left_number, right_number))
        return e.tuple([*(e.select(kept, a, b) for a, b in pairs), e.binary("or", left_there, right_there)])

    chosen = w.op(
        "reduce-window",
        *(array, number, present, zero, w.scalar("s32", -1), absent),
        called=[w.computation("choose", [*shapes, *shapes], choose)],
        window=x.attrs["window"],
    )
    _, place, there = w.elements(chosen)
    counts = [w.least(w.places(size, wd), given) for size, wd, given in zip(extents[0], window, extents[1])]
    counting = w.live(places, counts)
    there = there if counting is None else w.binary("and", there, counting)
    nowhere = w.full("s32", places, -1)
    count = (prod(places),)
    scattered = w.op(
        "scatter",
        w.broadcast(init, (prod(dims),)),
        w.reshape(w.select(there, place, nowhere), count),
        w.reshape(source, count),
        called=[x.called[1]],
        scatter_dimension_numbers=ScatterDimensionNumbers((), (0,), (0,), 1),
    )
    return Padded(w.reshape(scattered, dims), extents[0])


# --- sort -----------------------------------------------------------------------------------------------------------


def _sort(w: SizeWriter, x: Instruction, extents: list[Extent]) -> Padded:
    """Sorts what counts, and puts last what does not."""
    dims = x.operands[0].shape.dimensions
    (dim,) = x.attrs["dimensions"]
    sizes = _common(w, dims, extents)
    live = w.live(dims, sizes, [dim])
    extent = _results(x, sizes)
    if live is None:
        return Padded(w.clone(x), extent)
    comparator = x.called[0]

    def compare(e: Writer, *p: Instruction) -> Instruction:
        left, right = p[-2:]
        return e.binary("and", left, e.binary("or", e.unary("not", right), e.inline(comparator, p[:-2])))

    shapes = [p.shape for p in comparator.parameters]
    called = [w.computation("counted", [*shapes, PRED, PRED], compare)]
    parts = w.elements(w.again(x, *x.operands, live, called=called))[:-1]
    return Padded(w.tuple(parts) if x.shape.is_tuple else parts[0], extent)


def _topk(w: SizeWriter, x: Instruction, extents: list[Extent]) -> Padded:
    if not is_known(extents[0][-1], x.operands[0].shape.dimensions[-1]):
        raise w.refuse("topk along a dynamic dimension is not supported")
    return Padded(w.clone(x), _results(x, (*extents[0][:-1], x.attrs["k"])))


# --- batch normalisation --------------------------------------------------------------------------------------------


def _batch_norm(w: SizeWriter, x: Instruction, extents: list[Extent]) -> Padded:
    array = x.operands[0]
    dims, feature = array.shape.dimensions, x.attrs["feature_index"]
    sizes = list(extents[0])
    if x.opcode == "batch-norm-grad":
        sizes = list(_common(w, dims, [extents[0], extents[4]]))
    vectors = [e[0] for o, e in zip(x.operands, extents) if o.shape.rank == 1 and o is not array]
    sizes[feature] = w.agreed([sizes[feature], *vectors], dims[feature])
    others = [d for d in range(len(dims)) if d != feature]
    live = w.live(dims, sizes, others)
    count = None if live is None else w.convert(w.scalar_of(w.product(sizes[d] for d in others)), "f32")
    value = WRITE[x.opcode](Features(w, x, live, count))
    if not value.shape.is_tuple:
        return Padded(value, tuple(sizes))
    return Padded(value, (tuple(sizes), (sizes[feature],), (sizes[feature],)))


RULES: dict[str, Rule] = {
    "reduce": _reduce,
    "reduce-window": _reduce_window,
    "select-and-scatter": _select_and_scatter,
    "sort": _sort,
    "topk": _topk,
    "batch-norm-training": _batch_norm,
    "batch-norm-inference": _batch_norm,
    "batch-norm-grad": _batch_norm,
}
