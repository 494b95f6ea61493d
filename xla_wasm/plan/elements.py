"""Kernels that compute elements one by one: the order in which they walk them, and their loops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any

from ..dataclass import dataclass
from ..hlo.index_map import row_major_strides
from ..hlo.ir import Instruction
from ..hlo.op import Kind
from ..hlo.types import REAL_OF, TYPES
from ..loop.affine import ZERO, Affine, Index
from ..loop.builder import Builder
from ..loop.interleave import interleave
from ..loop.nest import nest, scalar_nest
from ..loop.tiling import Tile, nest_in_tiles
from ..lowering.elemental import Elemental
from ..lowering.kernel_writer import KernelWriter
from ..lowering.source import Scratch, Source, pin
from ..lowering.table import ELEMENTAL, ELEMENTWISE, KERNELS, LANES
from ..ops.reading import record
from ..ops.reduce.lower_columns import ColumnSums, columns, columns_in_memory, columns_together
from ..ops.reduce.monoids import monoid
from ..target import V8
from .cost import LONG_ROW, MOST_IN_TILES, RECOMPUTED
from .fit import Places, axes, row_place
from .fuse import reduces_rows
from .group import Group
from .kernel import Expression, InPlace, Kernel, KernelCache, Lowered

Scratches = tuple[int | bytes, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Routine(Kernel):
    """An operation that is always a kernel of its own."""

    strides: tuple[int, ...] | None
    """The place of the result, if it is not in row-major order."""

    def __str__(self) -> str:
        return "a routine of its own"

    @property
    def moves(self) -> bool:
        return self.expression.moves

    def write(self, cache: KernelCache) -> Lowered:
        (root,) = self.expression.roots
        w = _writer(cache, self.expression, strides=self.strides)
        KERNELS[root.opcode](w, root)
        return _written(w)


@dataclass(frozen=True, slots=True, eq=False)
class Rows(Kernel):
    """Loops over the first dimensions of `full`, `rows` of them: in each turn what is one value per row, reductions
    among it, then the elements of the row."""

    full: tuple[int, ...]
    rows: int
    kept: tuple[Instruction, ...]
    """Values of a row that wait in scratch memory."""

    def __str__(self) -> str:
        kept = f", keeping {', '.join(x.name for x in self.kept)}" if self.kept else ""
        return f"rows of {list(self.full)}, {self.rows} outside{kept}"

    def scratch(self, cache: KernelCache) -> Scratches:
        return tuple(x.shape.bytes // prod(self.full[: self.rows]) for x in self.kept)

    def write(self, cache: KernelCache) -> Lowered:
        expression, full = self.expression, self.full
        w = _writer(cache, expression, kept=self.kept, rows=self.rows)
        b, e = w.b, w.e
        row_dims = full[: self.rows]
        reductions = [x for x in expression.inner if record(x).accumulates]
        per_row = [r for r in expression.roots if r.shape.dimensions != full]
        per_element = [r for r in expression.roots if r not in per_row]

        def at(x: Instruction, row: Index) -> Index:
            place = row_place(x, row, row_dims)
            assert place is not None, "the plan has followed it"
            return place

        def row(index: Index) -> None:
            for s in e.scratch.values():
                s.filled = False
            e.row, e.row_depth = index, len(b.stack)
            for x in reductions:
                pin(b, e.value(x, at(x, index)))
                for s in e.scratch.values():
                    s.filled = s.filled or s.touched
            for r in per_row:
                _store_leaves(w, r, at(r, index))
            if per_element:
                nest(b, full[self.rows :], lambda i: _store_roots(w, per_element, i), done=index)

        scalar_nest(b, row_dims, row, chunked=True)
        return _written(w, scratch=self.scratch(cache))


@dataclass(frozen=True, slots=True, eq=False)
class Elements(Kernel):
    """Loops over the elements of the results, which are all of one shape."""

    dims: tuple[int, ...]
    """The loops: one over all elements where every array has them in the same order."""
    early: tuple[Instruction, ...]
    """Values that are computed before the loops of what reads them: inside they would be computed in each turn."""
    strides: tuple[int, ...] | None
    """The place of the result, if it is not in row-major order."""

    def __str__(self) -> str:
        return f"elements of {list(self.dims)}"

    @property
    def moves(self) -> bool:
        return self.expression.moves

    def scratch(self, cache: KernelCache) -> Scratches:
        return ()

    def write(self, cache: KernelCache) -> Lowered:
        w = _writer(cache, self.expression, self.dims, self.strides)
        element = _Element(w, self.expression.roots, self.early)
        self.loops(w, element)
        return _written(w, element.may_overwrite)

    def loops(self, w: KernelWriter, element: _Element) -> None:
        """Writes the loops; `element` stores the results at an index."""
        nest(w.b, self.dims, element, padded=self.expression.flat, chunked=True)


@dataclass(frozen=True, slots=True, eq=False)
class Tiles(Elements):
    """In tiles of neighbours along the last dimension and along one that lies across it in what is read."""

    across: int
    wide: bool

    def __str__(self) -> str:
        return f"tiles of {list(self.dims)}, across dimension {self.across}"

    def loops(self, w: KernelWriter, element: _Element) -> None:
        def in_tile(index: Index, tile: Tile | None) -> None:
            w.e.tile = tile
            element(index)

        nest_in_tiles(w.b, self.dims, self.across, in_tile, wide=self.wide)


@dataclass(frozen=True, slots=True, eq=False)
class Columns(Elements):
    """Neighbouring results of a reduction down columns side by side: `count` vectors of sums in registers, or `width`
    sums in memory."""

    reduction: Instruction
    count: int
    width: int

    def __str__(self) -> str:
        places = f"{self.width} sums in memory" if self.width else f"{self.count} vectors of sums"
        return f"columns of {list(self.dims)}, {places}"

    def scratch(self, cache: KernelCache) -> Scratches:
        return Kernel.scratch(self, cache) if self.width else ()

    def loops(self, w: KernelWriter, element: _Element) -> None:
        if self.width:
            self._in_memory(w, element)
        else:
            self._in_registers(w, element)

    def _in_memory(self, w: KernelWriter, element: _Element) -> None:
        sums = ColumnSums(w, self.reduction)

        def chunk(before: Index, start: Affine, size: int) -> None:
            w.e.reads.clear()
            total = sums.chunk(before, start, size)
            element.read_elsewhere(w.e.reads)

            def finish(i: Index) -> None:
                index = (*before, start + i[0])
                w.e.memo[self.reduction, index] = w.b.pin(w.e.load(total, total.position(i), total.dtype))
                element(index)

            nest(w.b, (size,), finish)

        nest_in_chunks(w.b, self.dims, self.width, chunk, element)

    def _in_registers(self, w: KernelWriter, element: _Element) -> None:
        def block(indices: list[Index]) -> None:
            w.e.reads.clear()
            for index, value in zip(indices, columns(w.e, self.reduction, indices)):
                w.e.memo[self.reduction, index] = w.b.pin(value)
            element.read_elsewhere(w.e.reads)
            for index in indices:
                element(index)

        nest_in_blocks(w.b, self.dims, self.count, block, element)


# --- which of them ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Case:
    """A kernel that is to be decided on: the members of its group share the loops over `full[:rows]`."""

    expression: Expression
    group: Group | None
    strides: tuple[int, ...] | None
    sums: set[Instruction]
    """Reductions, and what is made of them."""

    @property
    def root(self) -> Instruction:
        return self.expression.roots[0]

    @property
    def dims(self) -> tuple[int, ...]:
        """The dimensions of the results."""
        return (
            (self.root.shape.size,) if self.expression.flat else next(s for _, s in self.root.shape.leaves()).dimensions
        )

    @property
    def elements(self) -> tuple[Expression, tuple[int, ...], tuple[Instruction, ...], tuple[int, ...] | None]:
        """The fields of `Elements`."""
        members = self.group.members if self.group is not None else ()
        return self.expression, self.dims, tuple([x for x in members if x in self.sums]), self.strides


def kernel_of(
    cache: KernelCache, expression: Expression, group: Group | None = None, strides: tuple[int, ...] | None = None
) -> Kernel:
    """The kernel of an expression: its results are the first arguments, its sources follow in order, then scratch
    memory.

    `group` says which loops its members share, `strides` how the result lies if not in row-major order.
    """

    def decide() -> Kernel:
        sums = set[Instruction]()
        for x in expression.inner:
            if record(x).accumulates or not sums.isdisjoint(x.operands):
                sums.add(x)
        case = _Case(expression, group, strides, sums)
        return next(kernel for strategy in STRATEGIES if (kernel := strategy(case)) is not None)

    space = (group.full, group.rows) if group is not None else None
    return cache.find((expression.key, space, strides), decide)


def in_rows_of_group(case: _Case) -> Kernel | None:
    """The members of a group share the loops over rows."""
    group = case.group
    if group is None or group.full is None or group.rows is None:
        return None
    return Rows(case.expression, group.full, group.rows, tuple(group.kept))


def in_rows(case: _Case) -> Kernel | None:
    """Each row of a reduction by itself is long enough to be taken along the lanes of vectors: else neighbouring rows
    go side by side in them."""
    root = case.root
    if root.opcode != "reduce" or not reduces_rows(root):
        return None
    dims = root.operands[0].shape.dimensions
    rows = len(dims) - len(root.attrs["dimensions"])
    if not rows or 0 in dims or dims[-1] < LONG_ROW or any(record(x).accumulates for x in case.expression.inner[:-1]):
        return None
    return Rows(case.expression, dims, rows, ()) if root.marks.best or monoid(root.called[0]) else None


def by_routine(case: _Case) -> Kernel | None:
    """The operation has a kernel of its own."""
    return Routine(case.expression, case.strides) if case.root.opcode in KERNELS else None


def in_tiles(case: _Case) -> Kernel | None:
    """Most of what the kernel reads across its last dimension lies along another one."""
    expression, dims = case.expression, case.dims
    if case.sums or len(dims) < 2 or dims[-1] < expression.lanes:
        return None
    if work(expression.inner) > MOST_IN_TILES or all(map(_is_read_in_order, expression.inner)):
        return None
    sources = expression.arguments(0)
    walk = Places(sources.__contains__)
    index = axes(dims)
    for x in expression.roots:
        walk.value(x, index, None)
    along = [next((loop for loop, _ in i.loops), None) for i in index]
    votes = [0] * len(dims)
    for x, place in walk.found:
        position = sources[x].position(place)
        if position.coefficient(along[-1]) in (0, 1) or sources[x].dtype in REAL_OF:  # 0 where it is computed
            continue
        for d, loop in enumerate(along[:-1]):
            votes[d] += dims[d] >= expression.lanes and position.coefficient(loop) in (1, -1)
    if not any(votes):
        return None
    return Tiles(*case.elements, votes.index(max(votes)), work(expression.inner) <= RECOMPUTED)


def in_columns(case: _Case) -> Kernel | None:
    """A reduction goes down columns, and what is made of the sums is made element by element."""
    expression, dims = case.expression, case.dims
    reductions = [x for x in expression.inner if record(x).accumulates]
    if len(reductions) != 1:
        return None
    (x,) = reductions
    others = len(expression.inner) - len(case.sums)
    count = columns_together(x, others)
    same = all(y is x or (record(y).elementwise and y.shape.dimensions == dims) for y in case.sums)
    if count <= 1 or not same or dims[-1] < count * expression.lanes:
        return None
    return Columns(*case.elements, x, count, columns_in_memory(x, others))


STRATEGIES: tuple[Callable[[_Case], Kernel | None], ...] = (
    in_rows_of_group,
    in_rows,
    by_routine,
    in_tiles,
    in_columns,
    lambda case: Elements(*case.elements),
)
"""The first that suits is taken."""


def work(inner: list[Instruction]) -> int:
    """The operations that an element takes."""
    return sum([record(x).cost for x in inner])


def _is_read_in_order(x: Instruction) -> bool:
    """Returns True if an operation takes its operands' elements in the order of its own."""
    about = record(x)
    return about.elementwise or all(read.kind is Kind.MAP and read.map.keeps_order for read in about.reads(x))


# --- their loops --------------------------------------------------------------------------------------------------


def _writer(
    cache: KernelCache,
    expression: Expression,
    dims: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
    kept: Sequence[Instruction] = (),
    rows: int = 0,
) -> KernelWriter:
    """A kernel to be written, whose results have these dimensions, or those of their shapes."""
    outputs: dict[Instruction, tuple[Source, ...]] = {}
    number = 0
    for r in expression.roots:
        shapes = [(shape.element_type, dims or shape.dimensions) for _, shape in r.shape.leaves()]
        outputs[r] = tuple(
            [Source(number + i, dtype, d, strides or row_major_strides(d)) for i, (dtype, d) in enumerate(shapes)]
        )
        number += len(shapes)
    sources = expression.arguments(number)
    count = number + len(sources)
    scratch = {x: Scratch(count + i, rows) for i, x in enumerate(kept)}
    root = expression.roots[0]
    lanes = LANES.get(root.opcode, expression.lanes)
    written = (*range(number), *range(count, count + len(scratch)))
    b = cache.builder(root.opcode.replace("-", "_"), count + len(scratch), lanes, *written)
    e = _Flat(b, sources, ELEMENTAL) if expression.flat else Elemental(b, sources, ELEMENTAL, scratch)
    return KernelWriter(b, e, outputs, expression.unread)


def _written(w: KernelWriter, may_overwrite: InPlace = (), scratch: Scratches = ()) -> Lowered:
    func = w.b.func()
    if w.b.target.tune == V8:
        interleave(func)
    return Lowered(func, may_overwrite, (*scratch, *w.scratch_bytes))


class _Element:
    """Stores the results at an index."""

    def __init__(self, w: KernelWriter, roots: list[Instruction], early: Sequence[Instruction]):
        self.w, self.roots, self.early = w, roots, early
        self.results = [result for root in roots for result in w.outputs[root]]
        self.elsewhere: set[tuple[int, int]] = set()
        """Results, and sources that are read at other places than where these are written."""

    def __call__(self, index: Index) -> None:
        e = self.w.e
        e.reads.clear()
        for x in self.early:
            pin(self.w.b, e.value(x, index))
        _store_roots(self.w, self.roots, index)
        for result in self.results:
            written = {(result.position(index), TYPES[result.dtype].bytes)}
            self.elsewhere.update((result.number, number) for number, places in e.reads.items() if places != written)

    def read_elsewhere(self, sources: Iterable[int]) -> None:
        """Sources are read at places of their own."""
        self.elsewhere.update((result.number, number) for result in self.results for number in sources)

    @property
    def may_overwrite(self) -> InPlace:
        """The sources that each result may overwrite: all results of an element are computed before one is stored."""
        pairs = [(result.number, source.number) for result in self.results for source in self.w.e.sources.values()]
        return tuple(pair for pair in pairs if pair not in self.elsewhere)


class _Flat(Elemental):
    """Evaluates over one loop through all elements: an index is a row-major position, or () for a scalar."""

    def _compute(self, x: Instruction, index: Index) -> Any:
        source = self.sources.get(x)
        if source is not None:
            return self.load(source, index[0] if x.shape.size > 1 else ZERO, source.dtype)
        return self.expression(x, index)

    def expression(self, x: Instruction, index: Index) -> Any:
        if not record(x).elementwise:
            return self.value(x.operands[0], index) if x.operands else super().expression(x, index)
        fused = self.fused(x)
        operands = [self.value(o, index) for o in fused or x.operands]
        return self.b.contracted(*operands) if fused else ELEMENTWISE[x.opcode](self.b, x, *operands)


def _store_roots(w: KernelWriter, roots: list[Instruction], index: Index) -> None:
    if len(roots) == 1:
        _store_leaves(w, roots[0], index)
        return
    # All are computed before any is stored: a result may lie where an input lay.
    values = [pin(w.b, w.e.value(r, index)) for r in roots]
    for r, value in zip(roots, values):
        w.store(r, index, value)


def _store_leaves(w: KernelWriter, root: Instruction, index: Index) -> None:
    value = w.e.value(root, index)
    if not root.shape.is_tuple:
        w.store(root, index, value)
        return
    for leaf, v in enumerate(pin(w.b, value)):
        w.store(root, index, v, leaf)


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
