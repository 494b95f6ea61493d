"""Matrix products and direct convolutions: one generator of register-tiled kernels.

The left side is read where it lies: each row of a tile by vector loads along k, whose lanes are splatted one by one. The
right side is packed beforehand. Accumulators stay in registers over all of k, so that what follows a product (bias,
activation, residual) works on them before they are ever stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..hlo.types import TYPES
from ..loop.affine import ZERO, Affine
from ..loop.builder import Builder
from ..loop.ir import Loop, Val
from ..loop.nest import fold
from .packing import is_trip, pack_kernel, without_last
from .tiles import Gemm, Tile, packed_size

__all__ = ["Gemm", "Tile", "gemm_kernel", "pack_kernel", "packed_size"]

Index = tuple[Affine, ...]
Store = Callable[[Index, Affine, Affine, Val], None]
"""Takes the outer index, m, n and the product there: a vector where n runs along lanes, else a scalar."""
Park = Callable[[Index, Affine, Affine], tuple[int, Affine]]
"""A buffer and the position in it for the product at (outer index, m, n); n must have stride 1."""

_CACHE = 256 << 10
"""Bytes of left rows that stay in the second-level cache while the panels pass."""
_CHAIN = 1024
"""Products of floats in one sum: longer sums are made of such parts, so that their error grows no further."""
_ROWS = 64
"""Rows after which reading a panel of the right side is as good as free."""
_SHARES = 8
"""Groups of rows that leave threads enough to share."""


def gemm_kernel(b: Builder, g: Gemm, tile: Tile, lhs: tuple[int, int], rhs: int, store: Store, park: Park | None = None) -> None:
    """Writes a GEMM: `lhs` is a buffer and the first element in it, `rhs` a buffer with packed right sides.

    The code of `store` appears once for every vector of a tile. Where it is long, `park` names a place for raw products,
    which is not what `store` reads, and `store` becomes a loop over them.
    """
    assert b.lanes == g.lanes, "accumulators need all lanes of their type"
    _Writer(b, g, tile, lhs, rhs, store, park).outer_loops()


class _Writer:
    """Writes one GEMM, from the outermost loop inwards."""

    def __init__(self, b: Builder, g: Gemm, tile: Tile, lhs: tuple[int, int], rhs: int, store: Store, park: Park | None):
        self.b = b
        self.g = g
        self.tile = tile
        self.lhs, self.lhs_offset = b.pointer(lhs[0]), lhs[1]
        self.rhs = b.pointer(rhs)
        self.store = store
        self.park = park
        self.panels: Loop
        """The loop over panels of columns, while it is open."""
        self.zero = b.splat(b.const(g.types.accumulator, 0), g.lanes)
        self.split = self._split()

    def _split(self) -> int:
        """How many outer dimensions enclose the panel loop. The others, short rows of a convolution, share each panel."""
        split, rows = len(self.g.outer), self.g.m
        while split and not self.g.outer[split - 1][2] and rows * self.g.outer[split - 1][0] <= 4 * _ROWS and rows < _ROWS // 2:
            split -= 1
            rows *= self.g.outer[split][0]
        return split

    def outer_loops(self) -> None:
        """Loops over the outer dimensions. The outermost loop of more than one trip is the range that callers may split."""
        sizes = [size for size, _, _ in self.g.outer[: self.split]]
        ranged = next((d for d, size in enumerate(sizes) if size > 1), -1)

        def level(index: Index) -> None:
            d = len(index)
            if d == len(sizes):
                self.groups(index, ranged < 0)
            else:
                with self.b.loop(sizes[d], ranged=d == ranged) as i:
                    level((*index, i))

        level(())

    def groups(self, outer: Index, ranged: bool) -> None:
        """Splits the rows into groups that stay cached while all panels pass."""
        b, mr = self.b, self.tile.mr
        blocks, rest = divmod(self.g.m, mr)
        rows = min(max(self.g.m // _SHARES, _ROWS // 4), _ROWS, _CACHE // (self.g.k * TYPES[self.g.types.operand].bytes))
        size = _group(blocks, max(rows // mr, 4))
        if self.split < len(self.g.outer) or size == blocks:
            self.columns(outer, ZERO, blocks, rest, ranged)
            return
        count = blocks // size
        loop = b.open_loop(count, size * mr, ranged=ranged)
        self.columns(outer, Affine(0, ((loop, 1),)), size, 0, False)
        done = count * size
        if done < blocks or rest:
            with b.when(is_trip(b, loop, count - 1)):
                self.columns(outer, Affine(done * mr), blocks - done, rest, False)
        b.close_loop(loop)

    def columns(self, outer: Index, m: Affine, blocks: int, rest: int, ranged: bool) -> None:
        """All panels for `blocks` tiles of rows from `m` on and `rest` rows more."""
        b, nr, n = self.b, self.tile.nr, self.g.n
        loop = b.open_loop(-(-n // nr), nr, vector=nr > 1, ranged=ranged)
        last = is_trip(b, loop, loop.trips - 1) if n % nr and loop.trips > 1 else None
        self.panels = loop
        self.rows(outer, m, blocks, rest, Affine(0, ((loop, 1),)), last)
        b.close_loop(loop)

    def rows(self, outer: Index, m: Affine, blocks: int, rest: int, n: Affine, last: Val | None) -> None:
        """All rows of the panel from column `n` on. `last` tells whether it is the last, if that has fewer columns."""
        if len(outer) < len(self.g.outer):
            with self.b.loop(self.g.outer[len(outer)][0]) as i:
                self.rows((*outer, i), m, blocks, rest, n, last)
            return
        mr = self.tile.mr
        if blocks:
            with self.b.loop(blocks, mr) as i:
                self.block(outer, m + i, mr, n, last)
        if rest:
            self.block(outer, m + blocks * mr, rest, n, last)

    def block(self, outer: Index, m: Affine, rows: int, n: Affine, last: Val | None) -> None:
        """One tile: `rows` rows from `m` on by the columns from `n` on."""
        b, g, nr = self.b, self.g, self.tile.nr
        x = m * g.m_stride + self.lhs_offset
        y = n * g.k
        for i, (_, lhs_stride, rhs_stride) in zip(outer, g.outer):
            x = x + i * lhs_stride
            y = y + i * rhs_stride

        zeros = [self.zero] * (rows * -(-min(g.n, nr) // g.lanes))
        chain = _chain(g)

        def segment(index: Index, sums: list[Val]) -> list[Val]:
            at, k = x, ZERO
            for i, (count, stride) in zip(index, g.segments):
                at = at + i * stride
                k = k * count + i
            k = k * g.run
            if not chain:
                return run(at, k, g.run, sums)
            sums = fold(b, (g.run // chain,), sums, g.lanes, lambda i, sums: partial(at + i[0] * chain, k + i[0] * chain, chain, sums))
            done = g.run - g.run % chain
            return partial(at + done, k + done, g.run - done, sums) if done < g.run else sums

        def run(at: Affine, k: Affine, length: int, sums: list[Val]) -> list[Val]:
            return (self.dots if nr == 1 else self.products)(at, y + k * nr, length, rows, sums)

        def partial(at: Affine, k: Affine, length: int, sums: list[Val]) -> list[Val]:
            return [b.pin(b.add(total, part)) for total, part in zip(sums, run(at, k, length, zeros))]

        counts = tuple(count for count, _ in g.segments)
        sums = fold(b, counts, zeros, g.lanes, segment)
        if nr == 1:
            self.finish(outer, m, [[self.total(value)] for value in sums], n, 1)
        elif last is None:
            self.finish_columns(outer, m, rows, n, min(g.n, nr), sums)
        else:
            with b.when(b.not_(last)), without_last(self.panels):
                self.finish_columns(outer, m, rows, n, nr, sums)
            with b.when(last):
                self.finish_columns(outer, m, rows, n, g.n % nr, sums)

    def finish_columns(self, outer: Index, m: Affine, rows: int, n: Affine, columns: int, sums: list[Val]) -> None:
        """Finishes the first `columns` columns of a tile."""
        width, (whole, tail) = len(sums) // rows, divmod(columns, self.g.lanes)
        grid = [sums[r * width : (r + 1) * width] for r in range(rows)]
        if whole:
            self.finish(outer, m, [row[:whole] for row in grid], n, self.g.lanes)
        if tail:
            # The rest of a vector goes lane by lane. Its columns are constants, so that nothing there runs along lanes.
            scalars = [[self.b.lane(row[whole], lane) for lane in range(tail)] for row in grid]
            self.finish(outer, m, scalars, Affine(self.g.n - tail), 1)

    def finish(self, outer: Index, m: Affine, grid: list[list[Val]], n: Affine, step: int) -> None:
        """Hands a grid of finished sums, `step` columns apart, to `store`."""
        b, park, dtype = self.b, self.park, self.g.types.result
        for r, row in enumerate(grid):
            for at, total in enumerate(row):
                value = b.convert(total, dtype)
                if park is None:
                    self.store(outer, m + r, n + at * step, value)
                else:
                    number, position = park(outer, m + r, n + at * step)
                    b.store(number, position, value, dtype)
        if park is not None:
            with b.loop(len(grid)) as i, b.loop(len(grid[0]), step) as j:
                number, position = park(outer, m + i, n + j)
                self.store(outer, m + i, n + j, b.load(number, position, dtype))

    def products(self, x: Affine, y: Affine, run: int, rows: int, sums: list[Val]) -> list[Val]:
        """Adds the outer products of one contiguous run of k."""
        b, g, lanes, nr = self.b, self.g, self.g.lanes, self.tile.nr
        width = len(sums) // rows

        def step(left: Iterable[Val], y: Affine, sums: list[Val]) -> list[Val]:
            right = [self.vector(self.rhs, y + j * lanes) for j in range(width)]
            after: list[Val] = []
            for splat in left:
                for column in right:
                    # Cranelift overwrites the first operand: here comes the one that costs it fewer spills.
                    factors = (splat, column) if self.tile.scalar else (column, splat)
                    after.append(b.pin(b.fma(*factors, sums[len(after)])))
            return after

        def one(_: Loop | None, k: Affine, sums: list[Val]) -> list[Val]:
            k = k + done
            left = (self.element(x + k + r * g.m_stride) for r in range(rows))
            return step(left, y + k * nr, sums)

        def several(loop: Loop | None, k: Affine, sums: list[Val]) -> list[Val]:
            vectors = [self.vector(self.lhs, x + k + r * g.m_stride) for r in range(rows)]
            for u in range(lanes):
                if u and loop:
                    # Without it, Cranelift moves all loads before all arithmetic and runs out of registers.
                    b.barrier(loop, sums)
                sums = step((b.splat_lane(vector, u) for vector in vectors), y + (k + u) * nr, sums)
            return sums

        whole = 0 if self.tile.scalar else run // lanes
        done = whole * lanes
        sums = self.along(whole, lanes, sums, several)
        return self.along(run - done, 1, sums, one)

    def dots(self, x: Affine, y: Affine, run: int, rows: int, sums: list[Val]) -> list[Val]:
        """Adds the products of one contiguous run of k, every lane a sum of its own."""
        b, g, lanes = self.b, self.g, self.g.lanes

        def body(_: Loop | None, k: Affine, sums: list[Val], lost: int = 0) -> list[Val]:
            def load(base: Val, at: Affine) -> Val:
                value = self.vector(base, at + k)
                return b.shuffle(value, self.zero, (*[lanes] * lost, *range(lost, lanes))) if lost else value

            right = load(self.rhs, y)
            return [b.fma(load(self.lhs, x + r * g.m_stride), right, sums[r]) for r in range(rows)]

        sums = self.along(run // lanes, lanes, sums, body)
        tail = run % lanes
        # The last vector overlaps the one before it, whose elements count only once.
        return body(None, Affine(run - lanes), sums, lanes - tail) if tail else sums

    def vector(self, base: Val, at: Affine) -> Val:
        """Consecutive elements of a side, in the type of the sums."""
        return self.b.convert(self.b.load_lanes(base, at, self.g.types.operand), self.g.types.accumulator)

    def element(self, at: Affine) -> Val:
        """An element of the left side in all lanes, in the type of the sums."""
        b, types = self.b, self.g.types
        return b.splat(b.convert(b.load_at(self.lhs, at, types.operand), types.accumulator), self.g.lanes)

    def along(self, trips: int, step: int, sums: list[Val], body: Callable[[Loop | None, Affine, list[Val]], list[Val]]) -> list[Val]:
        """Carries sums through a loop along k."""
        if trips <= 1:
            return body(None, ZERO, sums) if trips else sums
        b = self.b
        loop = b.open_loop(trips, step)
        carries = [b.carry(loop, value, self.g.lanes) for value in sums]
        for carry, value in zip(carries, body(loop, Affine(0, ((loop, 1),)), [carry.value for carry in carries])):
            carry.next = value
        b.close_loop(loop)
        return [carry.result for carry in carries if carry.result is not None]

    def total(self, value: Val) -> Val:
        """The sum of a vector's lanes."""
        b = self.b
        lanes = [b.lane(value, lane) for lane in range(self.g.lanes)]
        while len(lanes) > 1:
            lanes = [b.add(x, y) for x, y in zip(lanes[::2], lanes[1::2])]
        return lanes[0]


def _chain(g: Gemm) -> int:
    """How many products of a contiguous run go into one part of a sum; 0 if the whole sum is one."""
    if not g.is_float or g.k <= _CHAIN:
        return 0
    parts = -(-g.run // _CHAIN)
    return -(-g.run // (parts * g.lanes)) * g.lanes


def _group(blocks: int, most: int) -> int:
    """How many blocks of rows make a group: about `most`, such that best none and else few blocks are left over."""
    if blocks <= most:
        return blocks
    sizes = [*range(most, most // 2, -1), *range(most + 1, 2 * most)]
    return min(sizes, key=lambda size: blocks % size)
