"""Checks that a kernel can compute what it is to hold: its values followed through their index maps, before any code is
written.

A value in a kernel is an instruction at an index. Loops stand for the dimensions of the kernel and of the boxes that
its operations walk; a walk from the results down to the buffers gives each value its index, by the same maps as
lowering.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ..hlo.ir import Instruction
from ..hlo.op import Kind, Read
from ..loop.affine import ZERO, Affine, Index, delinearize, linearize
from ..loop.ir import Block, Loop, Val
from ..lowering.source import place
from ..lowering.table import has_kernel
from ..ops.reading import reads, record
from .cost import ROW

Available = Callable[[Instruction], bool]
"""True if an instruction lies in a buffer that the kernel can read."""


def axes(dims: tuple[int, ...]) -> Index:
    """An index that runs over these dimensions, with a loop for each that is not 1."""
    return tuple(
        [ZERO if size == 1 else Affine(0, ((Loop(size, 1, 1, False, Block(d)), 1),)) for d, size in enumerate(dims)]
    )


def row_place(x: Instruction, row: Index, row_dims: tuple[int, ...]) -> Index | None:
    """Returns the place where the element of a row lies in an array (of several, in each) of one value per row; None if
    that is unknown, or `x` has not one for each."""
    shape = next(leaf for _, leaf in x.shape.leaves())
    return delinearize(linearize(row, row_dims), shape.dimensions) if shape.size == prod(row_dims) else None


class Walk:
    """Follows the values of one kernel. `misfit` is the first instruction that cannot be computed where it is
    needed."""

    def __init__(self, available: Available, known: tuple[Instruction, Index] | None = None):
        self.available = available
        self.known = known
        """A value given from outside, such as the accumulators of a product, at its one index."""
        self.homes: dict[Instruction, Index] = {}
        """The index of a value that is computed once, as it costs too much again elsewhere: the first dimensions of its
        own."""
        self.misfit: Instruction | None = None
        self.seen: set[tuple[Instruction, Index]] = set()

    def root(self, x: Instruction) -> Instruction | None:
        """Follows a kernel of which `x` is the result; the misfit."""
        if not has_kernel(x):
            self.value(x, axes(next(s.dimensions for _, s in x.shape.leaves())))
            return self.misfit
        for o, read in zip(x.operands, reads(x)):
            # A kernel of its own kind walks boxes as it likes.
            self.value(o, axes(o.shape.dimensions) if read.kind is Kind.PLACED else anywhere(o))
        return self.misfit

    def value(self, x: Instruction, index: Index, inside: Instruction | None = None) -> None:
        """Follows `x` at an index, `inside` the loops of a reduction or of the elements of a row."""
        if self.misfit is not None or (x, index) in self.seen:
            return
        self.seen.add((x, index))
        if self.available(x):
            return
        if self.known is not None and x is self.known[0]:
            assert index == self.known[1], f"{x.where}: what finishes a product takes its elements in order"
            return
        about = record(x)
        home = self.homes.get(x, ())
        if index[: len(home)] != home:
            self.misfit = x
            return
        self.note(x, index, inside)
        if about.elementwise:
            for o in x.operands:
                self.value(o, index if o.shape.rank == len(index) else (), inside)
            return
        for o, read in zip(x.operands, about.reads(x)):
            at = self.read(read, o, index)
            if at is not None:
                self.value(o, at, x if read.box else inside)
            elif not self.available(o):  # else it is a reshape of what lies in memory, which keeps its order
                self.misfit = o

    def note(self, x: Instruction, index: Index, inside: Instruction | None) -> None:
        """`x` is computed at an index."""

    def read(self, read: Read, o: Instruction, index: Index) -> Index | None:
        """The index at which an operand is read; None if it would take a division."""
        at = place(read.map, (*index, *axes(read.box)))
        if at is None and read.kind is Kind.MAP:
            return None
        return anywhere(o) if at is None else at


class Places(Walk):
    """Notes where the values of a kernel that fits read what lies in buffers."""

    def __init__(self, available: Available):
        super().__init__(available)
        self.found: list[tuple[Instruction, Index]] = []

    def value(self, x: Instruction, index: Index, inside: Instruction | None = None) -> None:
        if self.available(x):
            self.found.append((x, index))
        super().value(x, index, inside)


class RowWalk(Walk):
    """Follows a kernel of rows: reductions of the row, then its elements, in loops inside those over `full[:rows]`."""

    def __init__(self, available: Available, full: tuple[int, ...], rows: int):
        super().__init__(available)
        self.full, self.rows = full, rows
        self.row = axes(full[:rows])
        self.per_row: set[tuple[Instruction, Index]] = set()
        """Reductions that the row has by now."""
        self.loops: dict[Instruction, dict[Instruction, None]] = {}
        """The loops over the row's own elements that need a value, each by the reduction it is of, or by the value's
        own name."""
        self.moved: set[Instruction] = set()
        """Values of the row that something needs in another order, or a part of."""

    def note(self, x: Instruction, index: Index, inside: Instruction | None) -> None:
        if record(x).accumulates:
            assert inside is None or (x, index) in self.per_row, f"{x.where}: once for each element, not for each row"
        elif x.shape.dimensions == self.full and index[: self.rows] == self.row:
            if inside is None or not _covers(index[self.rows :], self.full[self.rows :]):
                self.moved.add(x)
            else:
                self.loops.setdefault(x, {})[inside] = None

    def group(self, roots: list[Instruction], inner: list[Instruction], dear: list[Instruction]) -> Instruction | None:
        """Follows the kernel of these results; the misfit. What is `dear` has to be read where its row or its element
        is computed."""
        row_dims = self.full[: self.rows]
        for x in dear:
            self.homes[x] = self.row if x.shape.dimensions == self.full else row_place(x, self.row, row_dims) or ()
        for x in inner:
            if record(x).accumulates:
                self.at_row(x, row_dims)
        for x in roots:
            if x.shape.dimensions != self.full:
                self.at_row(x, row_dims)
        index = (*self.row, *axes(self.full[self.rows :]))
        for x in roots:
            if x.shape.dimensions == self.full:
                self.value(x, index, roots[0])
        return self.misfit

    def at_row(self, x: Instruction, row_dims: tuple[int, ...]) -> None:
        """Follows a value of the row."""
        at = row_place(x, self.row, row_dims)
        if at is None:
            self.misfit = x
            return
        self.value(x, at)
        self.per_row.add((x, at))

    def kept(self, inner: list[Instruction]) -> list[Instruction]:
        """The values that several loops over the row need and that cost more to compute than to load."""
        cost: dict[Instruction, int] = {}
        found = []
        for x in inner:
            own = sum(cost.get(o, 1) for o in x.operands) + max(record(x).cost, 1)
            cost[x] = own if x.shape.dimensions == self.full else 1
            if own > ROW and len(self.loops.get(x, ())) > 1 and x not in self.moved:
                found.append(x)
                cost[x] = 1
        return found


def _covers(index: Index, dims: tuple[int, ...]) -> bool:
    """Returns True if an index, which stays inside these dimensions, runs over all of them, with a loop for each."""
    return all(size == 1 or [(c, loop.trips) for loop, c in i.loops] == [(1, size)] for i, size in zip(index, dims))


def anywhere(x: Instruction) -> Index:
    """An index known at run time only."""
    places = [Val("index", (), "s32", 1, d, Block(0)) for d in range(x.shape.rank)]
    return tuple([Affine(0, (), ((i, 1),)) for i in places])
