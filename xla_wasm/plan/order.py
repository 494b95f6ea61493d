"""In which order a kernel walks the elements of its results, where that is not one vector after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..hlo.ir import Instruction
from ..hlo.op import Kind
from ..hlo.types import REAL_OF
from ..loop.affine import Affine, Index
from ..loop.builder import Builder
from ..loop.nest import scalar_nest
from ..lowering.source import Source
from ..ops.reading import record
from ..ops.reduce.lower_best import best
from ..ops.reduce.lower_columns import columns_together
from ..ops.reduce.monoids import monoid
from .cost import LONG_ROW, MOST_IN_TILES
from .fit import Places, axes
from .fuse import reduces_rows


def together(
    inner: list[Instruction], sums: set[Instruction], dims: tuple[int, ...], lanes: int
) -> tuple[Instruction, int] | None:
    """The reduction down columns that a kernel computes, and how many vectors of its results go side by side; None:
    there is none."""
    reductions = [x for x in inner if record(x).accumulates]
    if len(reductions) != 1:
        return None
    (x,) = reductions
    count = columns_together(x, len(inner) - len(sums))
    # What is made of the sums is made element by element.
    same = all(y is x or (record(y).elementwise and y.shape.dimensions == dims) for y in sums)
    return (x, count) if count > 1 and same and dims[-1] >= count * lanes else None


def row_by_row(root: Instruction, inner: list[Instruction], lanes: int) -> tuple[tuple[int, ...], int] | None:
    """The dimensions that the kernel of a reduction by itself runs over, and how many of them are rows, if each row is
    long enough to be taken along the lanes of vectors; None: neighbouring rows go side by side in them."""
    if root.opcode != "reduce" or not reduces_rows(root) or [x for x in inner if record(x).accumulates] != [root]:
        return None
    dims = root.operands[0].shape.dimensions
    rows = len(dims) - len(root.attrs["dimensions"])
    if not rows or 0 in dims or dims[-1] < LONG_ROW:
        return None
    along = monoid(root.called[0]) is not None if root.shape.is_array else best(root) is not None
    return (dims, rows) if along else None


def rows_across(
    roots: list[Instruction],
    inner: list[Instruction],
    sources: Mapping[Instruction, Source],
    dims: tuple[int, ...],
    lanes: int,
) -> int | None:
    """The dimension along which lie the elements of what a kernel reads across its last one, or of most of it; None: of
    none."""
    if len(dims) < 2 or dims[-1] < lanes or work(inner) > MOST_IN_TILES:
        return None
    if all(map(_is_read_in_order, inner)):
        return None
    walk = Places(sources.__contains__)
    index = axes(dims)
    for x in roots:
        walk.value(x, index, None)
    along = [next((loop for loop, _ in i.loops), None) for i in index]
    votes = [0] * len(dims)
    for x, place in walk.found:
        position = sources[x].position(place)
        if position.coefficient(along[-1]) in (0, 1) or sources[x].dtype in REAL_OF:  # 0 where it is computed
            continue
        for d, loop in enumerate(along[:-1]):
            votes[d] += dims[d] >= lanes and position.coefficient(loop) in (1, -1)
    return votes.index(max(votes)) if any(votes) else None


def work(inner: list[Instruction]) -> int:
    """The operations that an element takes."""
    return sum([record(x).cost for x in inner])


def _is_read_in_order(x: Instruction) -> bool:
    """Returns True if an operation takes its operands' elements in the order of its own."""
    about = record(x)
    return about.elementwise or all(read.kind is Kind.MAP and read.map.keeps_order for read in about.reads(x))


def nest_in_blocks(
    b: Builder,
    dims: tuple[int, ...],
    count: int,
    block: Callable[[list[Index]], None],
    element: Callable[[Index], None],
) -> None:
    """As `nest`, with `block` for each `count` vectors in a row of the last dimension, and `element` for those that are
    left over."""
    *outer, last = dims
    step = count * b.lanes

    def line(index: Index) -> None:
        with b.loop(last // step, step, vector=True, chunked=True) as i:
            block([(*index, i + u * b.lanes) for u in range(count)])
        _rest(b, index, last, last % step, element)

    scalar_nest(b, tuple(outer), line, chunked=True)


def nest_in_chunks(
    b: Builder,
    dims: tuple[int, ...],
    width: int,
    chunk: Callable[[Index, Affine, int], None],
    element: Callable[[Index], None],
) -> None:
    """As `nest`, with `chunk(outer indices, start, size)` for each so many elements of the last dimension and for what
    is left over of whole vectors, and `element` for the last few."""
    *outer, last = dims

    def line(index: Index) -> None:
        count, rest = divmod(last - last % b.lanes, width)
        with b.loop(count, width, chunked=True) as start:
            chunk(index, start, width)
        if rest:
            chunk(index, Affine(count * width), rest)
        _rest(b, index, last, last % b.lanes, element)

    scalar_nest(b, tuple(outer), line, chunked=True)


def _rest(b: Builder, index: Index, last: int, rest: int, element: Callable[[Index], None]) -> None:
    """The last elements of a row of so many."""
    if rest:
        b.vectorized(rest, lambda i: element((*index, i + (last - rest))))
