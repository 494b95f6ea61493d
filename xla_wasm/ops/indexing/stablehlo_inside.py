"""Indices kept inside of the sizes that arrays have in a run.

HLO moves a slice at a computed place into the bounds of a dynamic dimension; StableHLO, as JAX does, into its size. So
what is read from StableHLO has its indices moved before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...hlo.attrs import GatherDimensionNumbers, ScatterDimensionNumbers, SliceDimension
from ...hlo.infer import flags
from ...hlo.ir import Instruction
from ...hlo.shape import Shape
from ...hlo.types import TYPES
from ...writing.writer import Writer

Attributes = dict[str, Any]
Move = Callable[[Writer, list[Instruction], Attributes], list[Instruction]]


def inside_sizes(w: Writer, opcode: str, operands: Sequence[Instruction], attrs: Attributes) -> list[Instruction]:
    """The operands of an instruction, with indices so that what it takes or writes lies inside of the sizes of its
    first operand."""
    move = _MOVES.get(opcode)
    return move(w, [*operands], attrs) if move is not None and operands[0].shape.is_dynamic else [*operands]


def _last(w: Writer, array: Instruction, block: Sequence[int | Instruction]) -> dict[int, Instruction]:
    """For each dynamic dimension that a block of these sizes does not span, the last place where it fits: an s32
    scalar."""
    shape = array.shape
    places = {}
    for d, (dynamic, bound, size) in enumerate(zip(flags(shape), shape.dimensions, block)):
        if dynamic and size != bound:
            (whole,) = _sizes(w, array, [d])
            assert isinstance(whole, Instruction)
            places[d] = w.sub(whole, size)
    return places


def _sizes(w: Writer, array: Instruction, dims: Iterable[int]) -> list[int | Instruction]:
    """The sizes of dimensions: numbers, or s32 scalars where only a run knows them."""
    shape = array.shape
    dynamic = flags(shape)
    return [
        w.op("get-dimension-size", array, shape=Shape("s32"), dimensions=(d,)) if dynamic[d] else shape.dimensions[d]
        for d in dims
    ]


def _wide(w: Writer, index: Instruction) -> Instruction:
    """An index in a type that holds all sizes."""
    return w.convert(index, "s32") if TYPES[index.shape.element_type].bits < 32 else index


def _at_most(w: Writer, index: Instruction, last: Instruction) -> Instruction:
    """The indices clamped to 0 and the last place."""
    dtype = index.shape.element_type
    return w.op("clamp", w.scalar(dtype, 0), index, w.convert(last, dtype))


def _or_outside(w: Writer, index: Instruction, last: Instruction) -> Instruction:
    """The indices, -1 where they are beyond the last place."""
    dtype = index.shape.element_type
    beyond = w.compare("GT", index, w.convert(last, dtype))
    signed = w.convert(index, "s64") if dtype in ("u32", "u64") else index
    return w.select(beyond, w.like(signed, -1), signed)


def _starts(w: Writer, starts: Sequence[Instruction], last: dict[int, Instruction]) -> list[Instruction]:
    """Scalars that start a block, one for each dimension."""
    if not last:
        return [*starts]
    wide = [_wide(w, start) for start in starts]
    return [_at_most(w, start, last[d]) if d in last else start for d, start in enumerate(wide)]


def _component(w: Writer, indices: Instruction, vector: int, i: int) -> Instruction:
    """Element i of each index vector. How many there are may be known to a run only."""
    shape = indices.shape
    sizes = tuple([1 if d == vector else size for d, size in enumerate(shape.dimensions)])
    bounds = [SliceDimension(i, i + 1) if d == vector else SliceDimension(0, size) for d, size in enumerate(sizes)]
    return w.op("slice", indices, shape=Shape(shape.element_type, sizes, None, shape.dynamic), slice=tuple(bounds))


def _components(
    w: Writer,
    indices: Instruction,
    vector: int,
    dims: Sequence[int],
    last: dict[int, Instruction],
    move: Callable[[Writer, Instruction, Instruction], Instruction],
) -> Instruction:
    """Index vectors along dimension `vector`, whose elements are for the dimensions `dims`, each moved by its last
    place."""
    if not any(d in last for d in dims):
        return indices
    indices = _wide(w, indices)
    if vector == indices.shape.rank:
        return move(w, indices, last[dims[0]])
    parts = [_component(w, indices, vector, i) for i in range(len(dims))]
    moved = [move(w, part, last[d]) if d in last else part for d, part in zip(dims, parts)]
    dtypes = {part.shape.element_type for part in moved}
    if len(dtypes) > 1:
        moved = [w.convert(part, "s64") for part in moved]
    return moved[0] if len(moved) == 1 else w.concatenate(moved, vector)


def _dynamic_slice(w: Writer, operands: list[Instruction], attrs: Attributes) -> list[Instruction]:
    array, *starts = operands
    return [array, *_starts(w, starts, _last(w, array, attrs["dynamic_slice_sizes"]))]


def _dynamic_update_slice(w: Writer, operands: list[Instruction], attrs: Attributes) -> list[Instruction]:
    array, update, *starts = operands
    return [array, update, *_starts(w, starts, _last(w, array, _sizes(w, update, range(update.shape.rank))))]


def _gather(w: Writer, operands: list[Instruction], attrs: Attributes) -> list[Instruction]:
    array, indices = operands
    n: GatherDimensionNumbers = attrs["gather_dimension_numbers"]
    last = _last(w, array, attrs["slice_sizes"])
    return [array, _components(w, indices, n.index_vector_dim, n.start_index_map, last, _at_most)]


def _scatter(w: Writer, operands: list[Instruction], attrs: Attributes) -> list[Instruction]:
    """A window that lies in part beyond the sizes is dropped as a whole; one of a single element would not count
    anyhow."""
    count = len(operands) // 2
    array, indices, update = operands[0], operands[count], operands[count + 1]
    n: ScatterDimensionNumbers = attrs["scatter_dimension_numbers"]
    window = iter(_sizes(w, update, n.update_window_dims))
    alone = (*n.inserted_window_dims, *n.input_batching_dims)
    block = [1 if d in alone else next(window) for d in range(array.shape.rank)]
    last = {d: place for d, place in _last(w, array, block).items() if d not in alone}
    operands[count] = _components(w, indices, n.index_vector_dim, n.scatter_dims_to_operand_dims, last, _or_outside)
    return operands


_MOVES: dict[str, Move] = {
    "gather": _gather,
    "scatter": _scatter,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
}
