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
from .lower import Parts, block_of, operand_index, side_by_side
from .lower_running import neutral_value, running
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
    """The results of a reduction of one array at several indices, in one walk."""
    operand, start = x.operands
    reducer, sizes = x.called[0], tuple(operand.shape.dimensions[d] for d in x.attrs["dimensions"])
    b, dtype = e.b, x.shape.element_type
    init = e.value(start, ())

    def combine(p: Val, q: Val) -> Val:
        return e.apply(reducer, [p, q])[0]

    def element(index: Index, inner: Index) -> Val:
        return e.value(operand, operand_index(x, index, inner))

    opcode = monoid(reducer)
    if opcode == "add" and is_float(dtype):

        def row(inner: Index, acc: list[Val]) -> list[Val]:
            return [b.splat(combine(a, element(i, inner)), b.lanes_at(i)) for a, i in zip(acc, indices)]

        neutral = neutral_value(b, "add", dtype)
        inits = [b.splat(init, b.lanes_at(i)) for i in indices]
        return Parts(b, [b.splat(neutral, b.lanes_at(i)) for i in indices], combine).fold(sizes, 1, inits, row)
    lanes = b.lanes_at(indices[0])
    if opcode is None:
        starts = [b.splat(init, lanes)] * len(indices)
        return fold(
            b, sizes, starts, lanes, lambda inner, acc: [combine(a, element(i, inner)) for a, i in zip(acc, indices)]
        )
    made = side_by_side(running(b, opcode, dtype, combine, lanes, prod(sizes)), sizes, lanes, indices, element)
    return [combine(b.splat(init, lanes), value) for value in made]


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
        self.kernel = kernel
        self.b = kernel.b
        self.x = x
        self.length = x.operands[0].shape.dimensions[x.attrs["dimensions"][0]]
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

        self._turns(self.length, total, width, add, 1)
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
            self._fill(own, width, neutral_value(self.b, "add", own.dtype))
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
        e, operand = self.kernel.e, self.x.operands[0]

        def add(i: Index) -> None:
            index = (*before, start + i[0])
            self._put(into, i, [e.value(operand, operand_index(self.x, index, (row,))) for row in rows])

        nest(self.b, (width,), add)

    def _put(self, into: Source, i: Index, values: list[Val]) -> None:
        """Adds values to an element, one after the other."""
        total = self._at(into, i)
        for value in values:
            total = self.b.pin(self.kernel.e.apply(self.x.called[0], [total, value])[0])
        self.b.store(into.number, into.position(i), total, into.dtype)

    def _at(self, array: Source, i: Index) -> Val:
        return self.b.load(array.number, array.position(i), array.dtype)
