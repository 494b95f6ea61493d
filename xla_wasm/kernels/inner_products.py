"""The inner products of a tile: its sums stay in registers while a kernel walks along k."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from ..hlo.types import TYPES
from ..loop.affine import Affine
from ..loop.arithmetic import in_pairs
from ..loop.ir import Val
from ..loop.nest import Step, along
from ..loop.tiling import transpose
from .quads import Quads
from .sides import Left, Loads, Right

SQUARE_STEPS = 4
"""Steps along k in a trip of a loop in squares: what Cranelift copies at a trip's end is a small part of them."""


class InnerProducts:
    """Adds products of what `loads` reads to the sums of a tile, in quads of bytes where a panel is for these."""

    def __init__(self, loads: Loads, quads: Quads | None):
        self.b, self.g, self.tile = loads.b, loads.g, loads.tile
        self.loads, self.quads = loads, quads

    def products(self, x: Left, right: Right, start: Affine, run: int, rows: int, sums: list[Val]) -> list[Val]:
        """Adds the outer products of one contiguous run of k, whose first is `start`."""
        b, lanes = self.b, self.g.lanes
        width = len(sums) // rows

        def step(left: Iterable[Val], k: Affine, sums: list[Val]) -> list[Val]:
            columns = [self.loads.column(right, start + k, j) for j in range(width)]
            after: list[Val] = []
            for splat in left:
                for column in columns:
                    # Cranelift overwrites the first operand: here comes the one that costs it fewer spills.
                    factors = (splat, column) if self.tile.scalar else (column, splat)
                    after.append(b.pin(self.added_product(*factors, sums[len(after)])))
            return after

        def one(k: Affine, sums: list[Val]) -> list[Val]:
            left = (self.loads.element(x, r, k) for r in range(rows))
            return step(left, k, sums)

        def several(k: Affine, sums: list[Val]) -> list[Val]:
            vectors = [self.loads.elements(x, r, k) for r in range(rows)]
            for u in range(lanes):
                if u and k.loops:
                    # Without it, Cranelift moves all loads before all arithmetic and runs out of registers.
                    b.barrier(k.loops[0][0], sums)
                sums = step((b.splat_lane(vector, u) for vector in vectors), k + u, sums)
            return sums

        def in_squares(k: Affine, sums: list[Val]) -> list[Val]:
            for u in range(SQUARE_STEPS):
                sums = self.squares(x, right, k + u, start + k + u, rows, sums)
            return sums

        done = 0
        by_squares = (
            self.tile.squares and rows > 1 and not right.packs
        )  # few rows and the first ones are not worth the code
        longer = (SQUARE_STEPS, in_squares) if by_squares else (1, one) if self.tile.scalar else (lanes, several)
        quads = self.quads.steps(x, right, start, rows) if self.quads and right.beginning else [longer]
        for step_size, body in dict.fromkeys((*quads, (1, one))):
            for streams in dict.fromkeys((self.tile.streams, 1)):
                trips = (run - done) // (step_size * streams)
                steps = self.side_by_side(body, done, streams, trips * step_size)
                sums = along(b, trips, sums, steps, step=step_size)
                done += trips * step_size * streams
        return sums

    def squares(self, x: Left, right: Right, k: Affine, row: Affine, rows: int, sums: list[Val]) -> list[Val]:
        """One step along k, of the left side from `k` and row `row` of the right one, by squares of 2 x 2 vectors of
        sums.

        A barrier keeps each from the next: what is loaded for one square fills few registers, and all sums stay in
        theirs.
        """
        b, width = self.b, len(sums) // rows
        left: dict[int, Val] = {}
        columns: dict[int, Val] = {}
        sums = list(sums)
        for r, j in product(range(0, rows, 2), range(0, width, 2)):
            if k.loops and sums != [carry.value for carry in k.loops[0][0].carries]:
                b.barrier(k.loops[0][0], sums)
            high, wide = range(r, min(r + 2, rows)), range(j, min(j + 2, width))
            left |= {i: self.loads.element(x, i, k) for i in high if i not in left}
            columns |= {i: self.loads.column(right, row, i) for i in wide if i not in columns}
            for column, splat in product(wide, high):
                # Cranelift overwrites the first operand: copies of the one that more squares use cost it fewer spills.
                factors = (left[splat], columns[column]) if width >= rows else (columns[column], left[splat])
                at = splat * width + column
                sums[at] = b.pin(self.added_product(*factors, sums[at]))
        return sums

    def dots(self, x: Left, y: Affine, run: int, rows: int, sums: list[Val]) -> list[Val]:
        """Adds the products of one contiguous run of k, every lane a sum of its own."""
        b, g, lanes = self.b, self.g, self.g.lanes

        def body(k: Affine, sums: list[Val], lost: int = 0, pair: int | None = None) -> list[Val]:
            def counted(value: Val) -> Val:
                kept = (*[lanes] * lost, *range(lost, lanes))
                return b.shuffle(value, self.loads.zero, kept) if lost else value

            right = counted(self.loads.vector(self.loads.rhs, y + k, g.types.right))
            return [
                self.added_product(counted(self.loads.elements(x, r, k, pair)), right, sums[r]) for r in range(rows)
            ]

        def two(k: Affine, sums: list[Val]) -> list[Val]:
            for pair in range(2):
                sums = body(k + pair * lanes, sums, pair=pair)
            return sums

        done = 0
        for step, vectors in ((2 * lanes, two), (lanes, body)) if self.loads.loads_two(x.dtype) else ((lanes, body),):
            sums = along(b, (run - done) // step, sums, self.side_by_side(vectors, done, 1, 0), step=step)
            done += (run - done) // step * step
        tail = run % lanes
        # The last vector overlaps the one before it, whose elements count only once.
        return body(Affine(run - lanes), sums, lanes - tail) if tail else sums

    def side_by_side(self, body: Step, start: int, streams: int, length: int) -> Step:
        """The same step in several parts of k, each of a length, from `start` on."""

        def steps(k: Affine, sums: list[Val]) -> list[Val]:
            for stream in range(streams):
                sums = body(k + (start + stream * length), sums)
            return sums

        return steps

    def added_product(self, x: Val, y: Val, total: Val) -> Val:
        """A sum with one product more, or two where operands are pairs."""
        b = self.b
        return b.add(total, b.dot(b.halves(x), b.halves(y))) if self.g.types.pairs else b.fma(x, y, total)

    def zeros(self, x: Left, count: int) -> list[Val]:
        """Returns zeros, the values with which the sums of rows begin.

        In squares it is a zero that no engine knows before it has the rows' address. Cranelift gives a sum the place of
        what it begins with, and a constant's place through all loops around may be in memory.
        """
        b = self.b
        if not self.tile.squares:
            return [self.loads.zero] * count
        address, _ = b.address(x.pointer, x.start, TYPES[x.dtype].bytes)
        never = b.eq(b.or_(address, b.const("u32", 1)), b.const("u32", 0))
        return [b.splat(b.convert(never, self.g.types.accumulator), self.g.lanes)] * count

    def total(self, value: Val) -> Val:
        """The sum of a vector's lanes."""
        return in_pairs([self.b.lane(value, lane) for lane in range(self.g.lanes)], self.b.add)

    def totals(self, values: list[Val]) -> Val:
        """The sums of the lanes of as many vectors as they have lanes, in one vector."""
        return in_pairs(transpose(self.b, values), self.b.add)
