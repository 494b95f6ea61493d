"""Records of the operations that take indices at run time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...errors import counted
from ...hlo.attrs import GatherDimensionNumbers, ScatterDimensionNumbers
from ...hlo.index_map import along
from ...hlo.infer import (
    array,
    arrays,
    ascending,
    brief,
    broken,
    called_signature,
    dimensions,
    joined,
    need_kind,
    result,
)
from ...hlo.ir import Instruction
from ...hlo.op import REQUIRED, Attr, Kind, Op, Read, read_whole, scalar_map
from ...hlo.shape import Shape

_INTEGER = ("signed", "unsigned")
_SORTED = Attr("indices_are_sorted", "bool", (67,), False)


def _start_indices(instr: Instruction, first: int, rank: int) -> None:
    """The start operands: one integer scalar for each dimension, or (in old modules) one vector of them."""
    starts = [array(instr, index, 2) for index in range(first, len(instr.operands))]
    for start in starts:
        need_kind(instr, start.element_type, _INTEGER, 2, "an index")
        if start.element_type != starts[0].element_type:
            raise broken(instr, 2, f"indices of types {starts[0].element_type} and {start.element_type}")
    if len(starts) == 1 and starts[0].dimensions == (rank,):
        return
    if len(starts) != rank:
        raise broken(instr, 2, f"{len(starts)} start indices for {counted(rank, 'dimension')}")
    for start in starts:
        if start.dimensions:
            raise broken(instr, 2, f"a start index must be a scalar, not {brief(start)}")


def _dynamic_slice(instr: Instruction) -> Shape:
    shape, sizes = array(instr, 0), instr.attrs["dynamic_slice_sizes"]
    _start_indices(instr, 1, shape.rank)
    if len(sizes) != shape.rank or any(not 0 <= size <= whole for size, whole in zip(sizes, shape.dimensions)):
        raise broken(instr, 3, f"dynamic_slice_sizes {sizes[:64]} do not fit {brief(shape)}")
    return result(instr, shape.element_type, sizes)


def _dynamic_update_slice(instr: Instruction) -> Shape:
    shape, update = array(instr, 0), array(instr, 1)
    _start_indices(instr, 2, shape.rank)
    if update.rank != shape.rank or any(size > whole for size, whole in zip(update.dimensions, shape.dimensions)):
        raise broken(instr, 3, f"the update {brief(update)} does not fit {brief(shape)}")
    if update.element_type != shape.element_type:
        raise broken(instr, 4, f"the update {brief(update)} has not the type of {brief(shape)}")
    return Shape(shape.element_type, shape.dimensions, None, shape.dynamic)


class _Numbers(NamedTuple):
    """The common form of the dimension numbers of gather and scatter."""

    vector: int
    """The dimension of the indices that holds index vectors."""
    starts: tuple[int, ...]
    """The operand's dimensions that an index vector starts."""
    removed: tuple[int, ...]
    """The operand's dimensions that a window leaves out."""
    batching: tuple[int, ...]
    index_batching: tuple[int, ...]


def _batch_dimensions(instr: Instruction, shape: Shape, indices: Shape, n: _Numbers) -> list[int]:
    """The dimensions of the indices that count index vectors, after rules 2 to 6: what gather and scatter ask of their
    dimension numbers alike."""
    need_kind(instr, indices.element_type, _INTEGER, 2, "the indices")
    if not 0 <= n.vector <= indices.rank:
        raise broken(instr, 2, f"index_vector_dim {n.vector} does not fit the indices {brief(indices)}")
    length = indices.dimensions[n.vector] if n.vector < indices.rank else 1
    dimensions(instr, n.starts, shape.rank, 3, "the dimensions that an index vector starts")
    if len(n.starts) != length:
        started = counted(len(n.starts), "dimension")
        raise broken(instr, 3, f"index vectors of {counted(length, 'element')} are to start {started}")
    ascending(instr, n.removed, shape.rank, 4, "the dimensions left out of a window")
    ascending(instr, n.batching, shape.rank, 5, "the operand's batching dimensions")
    dimensions(instr, n.index_batching, indices.rank, 5, "the batching dimensions of the indices")
    if {*n.removed, *n.starts} & {*n.batching} or n.vector in n.index_batching:
        raise broken(instr, 5, "a batching dimension is also indexed, left out of a window, or holds the index vectors")
    if len(n.batching) != len(n.index_batching):
        both = f"{len(n.batching)} batching dimensions of the operand, {len(n.index_batching)} of the indices"
        raise broken(instr, 6, both)
    for mine, theirs in zip(n.batching, n.index_batching):
        if shape.dimensions[mine] != indices.dimensions[theirs]:
            which = f"batching dimension {mine} of the operand and {theirs} of the indices"
            raise broken(instr, 6, f"{which} differ in size")
    return [d for d in range(indices.rank) if d != n.vector]


def _gather(instr: Instruction) -> Shape:
    shape, indices = arrays(instr)
    numbers: GatherDimensionNumbers = instr.attrs["gather_dimension_numbers"]
    sizes: tuple[int, ...] = instr.attrs["slice_sizes"]
    removed, batching = numbers.collapsed_slice_dims, numbers.operand_batching_dims
    starts, index_batching = numbers.start_index_map, numbers.start_indices_batching_dims
    common = _Numbers(numbers.index_vector_dim, starts, removed, batching, index_batching)
    batch = _batch_dimensions(instr, shape, indices, common)
    if len(sizes) != shape.rank or any(not 0 <= size <= whole for size, whole in zip(sizes, shape.dimensions)):
        raise broken(instr, 7, f"slice_sizes {sizes[:64]} do not fit {brief(shape)}")
    gone = {*removed, *batching}
    if any(sizes[d] > 1 for d in gone):
        raise broken(instr, 8, "slice_sizes of collapsed and of batching dimensions must be 1, or 0")
    kept = [sizes[d] for d in range(shape.rank) if d not in gone]
    offsets = numbers.offset_dims
    rank = len(batch) + len(offsets)
    ascending(instr, offsets, rank, 9, "offset_dims")
    if len(offsets) != len(kept):
        raise broken(instr, 9, f"{len(offsets)} offset_dims for the {counted(len(kept), 'dimension')} of a slice")
    inner, outer = iter(kept), iter(batch)
    there = set(offsets)
    return result(
        instr, shape.element_type, [next(inner) if d in there else indices.dimensions[next(outer)] for d in range(rank)]
    )


def _scatter(instr: Instruction) -> Shape:
    shapes = arrays(instr)
    count = len(shapes) // 2
    if len(shapes) != 2 * count + 1:
        raise broken(instr, 1, f"{counted(len(shapes), 'operand')}: n arrays, the indices and n updates are expected")
    inputs, indices, updates = shapes[:count], shapes[count], shapes[count + 1 :]
    shape, update = inputs[0], updates[0]
    numbers: ScatterDimensionNumbers = instr.attrs["scatter_dimension_numbers"]
    removed, batching = numbers.inserted_window_dims, numbers.input_batching_dims
    starts, index_batching = numbers.scatter_dims_to_operand_dims, numbers.scatter_indices_batching_dims
    common = _Numbers(numbers.index_vector_dim, starts, removed, batching, index_batching)
    batch = _batch_dimensions(instr, shape, indices, common)
    for other, its in zip(inputs, updates):
        if other.dimensions != shape.dimensions or its.dimensions != update.dimensions:
            raise broken(instr, 7, "all arrays must have equal sizes, and so must all updates")
    gone = {*removed, *batching}
    windows = [size for d, size in enumerate(shape.dimensions) if d not in gone]
    ascending(instr, numbers.update_window_dims, update.rank, 8, "update_window_dims")
    if len(numbers.update_window_dims) != len(windows):
        raise broken(
            instr,
            8,
            f"{len(numbers.update_window_dims)} update_window_dims for the {counted(len(windows), 'dimension')} of a "
            f"window",
        )
    for dim, whole in zip(numbers.update_window_dims, windows):
        if update.dimensions[dim] > whole:
            raise broken(instr, 8, f"dimension {dim} of the updates {brief(update)} exceeds the window's {whole}")
    outer = [size for d, size in enumerate(update.dimensions) if d not in numbers.update_window_dims]
    if outer != [indices.dimensions[d] for d in batch]:
        raise broken(
            instr, 9, f"the updates {brief(update)} do not hold one window for each index vector of {brief(indices)}"
        )
    scalars = [Shape(s.element_type) for s in (*inputs, *updates)]
    called_signature(instr, 0, 10, scalars, scalars[:count])
    return joined(
        [Shape(s.element_type, s.dimensions, None, s.dynamic) for s in inputs], instr.called[0].root.shape.is_tuple
    )


_STARTS = "The start indices are integer scalars of one type, one for each dimension, or one vector of them."
_MAP = (
    "The indices are integers, and index_vector_dim is one of their dimensions, or their rank.",
    "Each element of an index vector starts another dimension of the operand.",
    "The dimensions left out of a window are different dimensions of the operand, in increasing order.",
    "Batching dimensions are different dimensions, the operand's in increasing order, neither indexed nor left out as "
    "well.",
    "Operand and indices have equally many batching dimensions, of equal sizes.",
)


def _spanned(sizes: Sequence[int], dims: Sequence[int]) -> list[tuple[int, int, int] | None]:
    """The places of a block of these sizes in an array: it starts at 0 where it spans the dimension, else where
    run-time values say."""
    return [(0, 1, d) if size == full else None for d, (size, full) in enumerate(zip(sizes, dims))]


def _read_starts(x: Instruction, first: int) -> list[Read]:
    """Start indices, one scalar each, or in old modules one vector."""
    return [
        Read(Kind.MAP, scalar_map(x.shape.dimensions, ())) if not o.shape.rank else read_whole(x)[-1]
        for o in x.operands[first:]
    ]


def _read_dynamic_slice(x: Instruction) -> list[Read]:
    dims = x.operands[0].shape.dimensions
    return [
        Read(Kind.COMPUTED, along(x.shape.dimensions, dims, _spanned(x.shape.dimensions, dims))),
        *_read_starts(x, 1),
    ]


def _read_dynamic_update_slice(x: Instruction) -> list[Read]:
    dims, block = x.shape.dimensions, x.operands[1].shape.dimensions
    places = _spanned(block, dims)
    return [
        Read(Kind.START, along(dims, dims, places)),
        Read(Kind.PLACED, along(block, dims, places)),
        *_read_starts(x, 2),
    ]


def _read_gather(x: Instruction) -> list[Read]:
    n, dims = x.attrs["gather_dimension_numbers"], x.operands[0].shape.dimensions
    kept = [d for d in range(len(dims)) if d not in n.collapsed_slice_dims and d not in n.operand_batching_dims]
    offsets = dict(zip(kept, n.offset_dims))
    places = [(0, 1, offsets[d]) if d in offsets and d not in n.start_index_map else None for d in range(len(dims))]
    batch = iter([d for d in range(x.shape.rank) if d not in n.offset_dims])
    sizes = x.operands[1].shape.dimensions
    box = sizes[n.index_vector_dim : n.index_vector_dim + 1]
    components = [(0, 1, x.shape.rank if d == n.index_vector_dim else next(batch)) for d in range(len(sizes))]
    indices = Read(Kind.REDUCED, along(x.shape.dimensions + box, sizes, components), box)
    return [Read(Kind.COMPUTED, along(x.shape.dimensions, dims, places)), indices]


def _read_scatter(x: Instruction) -> list[Read]:
    count, dims = len(x.operands) // 2, x.operands[0].shape.dimensions
    kinds = [Kind.START] * count + [Kind.PLACED] * (count + 1)
    return [Read(kind, along(o.shape.dimensions, dims, [None] * len(dims))) for kind, o in zip(kinds, x.operands)]


OPS: tuple[Op, ...] = (
    Op(
        "dynamic-slice",
        (1, None),
        _dynamic_slice,
        (Attr("dynamic_slice_sizes", "ints", (20,), REQUIRED, "slice_sizes"),),
        reads=_read_dynamic_slice,
        doc="A block of constant sizes that starts at indices computed at run time, which are moved so that it fits.",
        constraints=(
            "The first operand is an array.",
            _STARTS,
            "dynamic_slice_sizes lie between 0 and the operand's sizes.",
        ),
    ),
    Op(
        "dynamic-update-slice",
        (2, None),
        _dynamic_update_slice,
        reads=_read_dynamic_update_slice,
        doc="The first operand with a block overwritten by the second; the start is moved so that the block fits.",
        constraints=(
            "The first two operands are arrays.",
            _STARTS,
            "The update has the array's rank, and sizes that are not greater.",
            "The update has the array's type.",
        ),
    ),
    Op(
        "gather",
        (2, 2),
        _gather,
        (
            Attr("gather_dimension_numbers", "gather_dimension_numbers", (33,), REQUIRED),
            Attr("slice_sizes", "ints", (34,), REQUIRED),
            _SORTED,
        ),
        reads=_read_gather,
        doc="Slices of the first operand that start where the index vectors in the second say, moved so that they fit.",
        constraints=(
            "The operands are arrays.",
            *_MAP,
            "slice_sizes lie between 0 and the operand's sizes.",
            "Collapsed and batching dimensions have slice_sizes of at most 1.",
            "offset_dims are different dimensions of the result in increasing order, one for each dimension that a "
            "slice keeps.",
        ),
    ),
    Op(
        "scatter",
        (3, None),
        _scatter,
        (
            Attr("scatter_dimension_numbers", "scatter_dimension_numbers", (48,), REQUIRED),
            _SORTED,
            Attr("unique_indices", "bool", (69,), False),
        ),
        ("to_apply",),
        reads=_read_scatter,
        doc="n arrays with n updates combined in, window by window where the index vectors say; windows that do not "
        "fit are dropped.",
        constraints=(
            "The operands are n arrays, the indices, and n updates.",
            *_MAP,
            "The arrays have equal sizes, and so have the updates.",
            "update_window_dims are different dimensions of the updates in increasing order, one for each of a "
            "window, none greater.",
            "The other dimensions of the updates are those of the indices without index_vector_dim.",
            "to_apply takes n scalars of the arrays' types and n of the updates' and returns the former.",
        ),
    ),
)
