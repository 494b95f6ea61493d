"""Reductions down columns: neighbouring results go side by side, so that whole cache lines are used."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ...hlo.ir import Instruction
from ...hlo.types import TYPES
from ...loop.affine import ZERO, Affine, Index
from ...loop.builder import is_float
from ...loop.ir import Val
from ...loop.nest import fold, nest
from ...lowering.elemental import Elemental
from ...lowering.kernel_writer import KernelWriter
from ...lowering.source import Source
from .lower_running import running
from .lower_walk import Parts, Walk, block_of, next_states, states
from .monoids import monoid

_LEAST_COLUMN = 16
"""Elements in a column from which on neighbouring ones are summed side by side."""
_LONG_ROW = 2048
"""Bytes of a row from which on a walk down a few columns touches a page of memory for every row or two."""
_CHUNK = 512
"""Columns whose sums are in memory at a time."""
_ROWS = 4
"""Rows that are added to such sums at a time."""


def columns_together(x: Instruction, work: int) -> int:
    """Returns the number of vectors of neighbouring results of a reduction that are best computed side by side, where
    each needs so much work an element: more than one where it goes down columns, of which a vector takes a part of a
    cache line only."""
    if x.opcode != "reduce" or x.shape.is_tuple or not x.shape.rank:
        return 1
    shape, dims = x.operands[0].shape.dimensions, x.attrs["dimensions"]
    if not dims or len(shape) - 1 in dims or prod([shape[d] for d in dims]) < _LEAST_COLUMN:
        return 1
    return 8 if work <= 2 and monoid(x.called[0]) not in ("maximum", "minimum") else 4


def columns(e: Elemental, x: Instruction, indices: list[Index]) -> list[Val]:
    """The results of a reduction of one array at several indices, which lie side by side, in one walk."""
    b, w, lanes, count = e.b, Walk(e, x), e.b.lanes_at(indices[0]), len(indices)
    init = e.value(x.operands[1], ())
    if w.opcode is None or w.adds_floats:
        start = [b.splat(init, lanes)] * count
        fresh = [b.splat(w.neutral, lanes)] * count if w.adds_floats else None

        def combined(inner: Index, acc: list[Val]) -> list[Val]:
            return [b.splat(w.combine(a, w.element(i, inner)), lanes) for a, i in zip(acc, indices)]

        return Parts(b, fresh, w.combine).fold(w.sizes, 1, start, combined)
    r = running(w, lanes)

    def row(inner: Index, acc: list[Val]) -> list[Val]:
        return next_states(acc, count, lambda u, state: r.step(state, w.element(indices[u], inner)))

    made = fold(b, w.sizes, r.start(lanes) * count, lanes, row)
    results = [r.result(state) for state in states(made, count)]
    return [w.combine(b.splat(init, lanes), result) for result in results]


def columns_in_memory(x: Instruction, work: int) -> int:
    """Returns the number of columns whose sums are best kept in memory, so that rows are read as they lie; 0: the sums
    stay in registers.

    `x` is a reduction for which `columns_together` gives more than one.
    """
    shape, dims = x.operands[0].shape.dimensions, x.attrs["dimensions"]
    if monoid(x.called[0]) != "add" or not is_float(x.shape.element_type) or len(dims) > 1 or work > 2:
        return 0
    row, last = prod(shape[dims[0] + 1 :]) * TYPES[x.shape.element_type].bytes, shape[-1]
    if row < _LONG_ROW or last < _CHUNK:
        return 0
    return next((width for width in range(2 * _CHUNK, _CHUNK - 1, -4) if last % width == 0), _CHUNK)


class ColumnSums:
    """Sums down columns with the rows outermost: as `columns` has them, bit by bit, but for the sums' place, which is
    memory."""

    def __init__(self, kernel: KernelWriter, x: Instruction):
        self.kernel, self.b, self.x = kernel, kernel.b, x
        self.walk = Walk(kernel.e, x)
        self.arrays: list[Source] = []

    def chunk(self, before: Index, start: Affine, width: int) -> Source:
        """The sums of columns from `start` on, in memory that the next chunk takes again."""
        total = self._array(0, width)
        self._fill(total, width, self.kernel.e.value(self.x.operands[1], ()))

        def add(first: Affine, count: int, into: Source) -> None:
            whole = count - count % _ROWS
            if whole:
                with self.b.loop(whole // _ROWS, _ROWS) as n:
                    self._add_rows(before, start, width, [first + n + r for r in range(_ROWS)], into)
            if whole < count:
                self._add_rows(before, start, width, [first + r for r in range(whole, count)], into)

        self._turns(self.walk.sizes[0], total, width, add, 1)
        return total

    def _turns(
        self, trips: int, into: Source, width: int, turns: Callable[[Affine, int, Source], None], level: int
    ) -> None:
        """Does what `Parts.turns` does with accumulators in registers: sums of parts, so that rounding errors do not
        add up.

        `turns` adds a number of turns, from one on, to an array.
        """
        block = block_of(trips, 1)
        if trips <= block:
            turns(ZERO, trips, into)
            return
        count, rest = divmod(trips, block)
        own = self._array(level, width)

        def part(first: Affine, size: int, into: Source) -> None:
            self._fill(own, width, self.walk.neutral)
            turns(first, size, own)
            nest(self.b, (width,), lambda i: self._put(into, i, [self._at(own, i)]))

        def parts(first: Affine, count: int, into: Source) -> None:
            with self.b.loop(count) as i:
                part((first + i) * block, block, into)

        self._turns(count, into, width, parts, level + 1)
        if rest:
            part(Affine(count * block), rest, into)

    def _array(self, level: int, width: int) -> Source:
        while len(self.arrays) <= level:
            self.arrays.append(self.kernel.scratch(self.x.shape.element_type, (width,)))
        return self.arrays[level]

    def _fill(self, array: Source, width: int, value: Val) -> None:
        nest(self.b, (width,), lambda i: self.b.store(array.number, array.position(i), value, array.dtype))

    def _add_rows(self, before: Index, start: Affine, width: int, rows: list[Affine], into: Source) -> None:
        def add(i: Index) -> None:
            index = (*before, start + i[0])
            self._put(into, i, [self.walk.element(index, (row,)) for row in rows])

        nest(self.b, (width,), add)

    def _put(self, into: Source, i: Index, values: list[Val]) -> None:
        """Adds values to an element, one after the other."""
        total = self._at(into, i)
        for value in values:
            total = self.b.pin(self.walk.combine(total, value))
        self.b.store(into.number, into.position(i), total, into.dtype)

    def _at(self, array: Source, i: Index) -> Val:
        return self.b.load(array.number, array.position(i), array.dtype)
