"""Matrix products and direct convolutions: one generator of register-tiled kernels.

The left side is read where it lies: each row of a tile by vector loads along k, whose lanes are splatted one by one.
The right side is packed beforehand, or read where it lies by the first tile of rows, which packs each panel for those
below. Accumulators stay in registers over all of k, so that what follows a product (bias, activation, residual) works
on them before they are ever stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product

from ..dataclass import dataclass, replace
from ..hlo.types import TYPES
from ..loop.affine import ZERO, Affine
from ..loop.builder import Builder
from ..loop.ir import Loop, Val
from ..loop.nest import fold
from ..loop.tiling import transpose
from .packing import is_trip, number_of, pack_kernel, without_last
from .quads import Quads, as_bytes, quads
from .tiles import (
    PAIR,
    QUAD,
    ROWS,
    WORD,
    Gemm,
    Tile,
    chain_of,
    group_of_rows,
    packed_size,
    packs_panels,
    parts_of_k,
    place_in_panel,
    scales_of,
    takes_quads,
    unpacks,
)

__all__ = ["Gemm", "Sides", "Tile", "gemm_kernel", "pack_kernel", "packed_size"]

Index = tuple[Affine, ...]
Store = Callable[[Index, Affine, Affine, Val], None]
"""Takes the outer index, m, n and the product there: a vector where n runs along lanes, else a scalar."""
Spill = Callable[[Index, Affine, Affine], tuple[int, Affine]]
"""A buffer and the position in it for the product at (outer index, m, n); n must have stride 1."""

SQUARE_STEPS = 4
"""Steps along k in a trip of a loop in squares: what Cranelift copies at a trip's end is a small part of them."""

Step = Callable[[Loop | None, Affine, list[Val]], list[Val]]
"""Takes the loop along k if there is one, an index along k and sums; gives the sums with what is there."""


@dataclass(frozen=True, slots=True)
class Sides:
    """Where a GEMM finds its sides, and where its products go."""

    lhs: tuple[int, int]
    """A buffer and the first element in it."""
    rhs: int
    """A buffer with packed right sides; if the `Gemm` tells where rows of these lie, they are read there."""
    store: Store
    """Its code appears once for every vector of a tile."""
    spill: Spill | None = None
    """Where `store` is long: a place for raw products, which is not what `store` reads. `store` becomes a loop over
    them."""
    scratch: int | None = None
    """A buffer of `scratch_size` elements of the sums' type, if that is not 0."""
    scales: int | None = None
    """A buffer with the packed scales of blocks."""
    lhs_scales: int | None = None
    """A buffer with the scales of the left side's blocks: they lie as these do."""


def gemm_kernel(b: Builder, g: Gemm, tile: Tile, sides: Sides, chunked: bool = True) -> None:
    """Writes a GEMM. The outermost loop is the range that callers may split, if it is `chunked`."""
    assert b.lanes == g.lanes, "accumulators need all lanes of their type"
    _Writer(b, g, tile, sides).outer_loops(chunked)


@dataclass(frozen=True, slots=True)
class Right:
    """A panel of the right side."""

    pointer: Val
    start: Affine
    k_stride: int
    dtype: str
    packs: bool = False
    """What is read goes to the scratch memory as well."""
    beginning: tuple[Val, ...] = ()
    """What sums of its columns begin with, a vector after the other, if products are taken in quads; they begin with 0
    if not."""


@dataclass(frozen=True, slots=True)
class Left:
    """Rows of the left side, from the first of a tile on."""

    pointer: Val
    start: Affine
    m_stride: int
    dtype: str
    pure: bool = True
    """True if nothing writes there."""

    def moved(self, k: Affine) -> Left:
        """The same from index `k` of the rows on."""
        return replace(self, start=self.start + k)


class _Writer:
    """Writes one GEMM, from the outermost loop inwards."""

    def __init__(self, b: Builder, g: Gemm, tile: Tile, sides: Sides):
        self.b = b
        self.g = g
        self.tile = tile
        (lhs, self.lhs_offset), self.store, self.spill = sides.lhs, sides.store, sides.spill
        self.lhs, self.lhs_pure = b.pointer(lhs), lhs not in b.written
        self.rhs = b.pointer(sides.rhs)
        self.scales = None if sides.scales is None else b.pointer(sides.scales)
        self.lhs_scales = None if sides.lhs_scales is None else b.pointer(sides.lhs_scales)
        self.scratch = None if sides.scratch is None else b.pointer(sides.scratch)
        self.panels: Loop
        """The loop over panels of columns, while it is open."""
        self.zero = b.splat(b.const(g.types.accumulator, 0), g.lanes)
        self.nibbles, self.eights = (b.splat(b.const("s32", four), g.lanes) for four in (0x0F0F0F0F, 0x08080808))
        self.zero_halves = b.splat(b.const(PAIR, 0), 2 * g.lanes)
        self.f16_bits = b.splat(b.const("s32", -0x70002000), g.lanes)
        self.f16_unit = b.splat(b.const("f32", 2.0**112), g.lanes)
        self.quads = quads(b, g.types, self.rhs) if takes_quads(g, tile, b.target) else None
        self.split = self._split()
        self.is_column = tile.nr == g.n == 1 and tile.mr % g.lanes == 0
        """True if results along rows lie side by side, and so make vectors."""

    def _split(self) -> int:
        """Returns the number of outer dimensions that enclose the panel loop. The others, short rows of a convolution,
        share each panel."""
        split, rows = len(self.g.outer), self.g.m
        while (
            split
            and not self.g.outer[split - 1][2]
            and rows * self.g.outer[split - 1][0] <= 4 * ROWS
            and rows < ROWS // 2
        ):
            split -= 1
            rows *= self.g.outer[split][0]
        return split

    def outer_loops(self, split: bool) -> None:
        """Loops over the outer dimensions. The outermost loop of more than one trip is the range that callers may
        `split`."""
        sizes = [size for size, _, _ in self.g.outer[: self.split]]
        chunked = next((d for d, size in enumerate(sizes) if size > 1), -1) if split else len(sizes)

        def level(index: Index) -> None:
            d = len(index)
            if d == len(sizes):
                self.groups(index, chunked < 0)
            else:
                with self.b.loop(sizes[d], chunked=d == chunked) as i:
                    level((*index, i))

        level(())

    def groups(self, outer: Index, chunked: bool) -> None:
        """Splits the rows into groups that stay cached while all panels pass."""
        b, mr = self.b, self.tile.mr
        if mr > 1 and self.tile.streams == mr and self.tile.nr == 1:
            self.spread_rows(outer, chunked)
            return
        span = self.tile.span
        if span:
            with b.loop(-(-self.g.n // self.tile.nr) // span, span * self.tile.nr, chunked=chunked) as n:
                self.row_groups(outer, False, n)
        else:
            self.row_groups(outer, chunked)

    def row_groups(self, outer: Index, chunked: bool, first: Affine = ZERO) -> None:
        """All rows, in their groups. Of a tile with a span the panels are those from column `first` on."""
        b, mr = self.b, self.tile.mr
        blocks, rest = divmod(self.g.m, mr)
        size = group_of_rows(self.g, self.tile) // mr
        if self.split < len(self.g.outer) or size == blocks:
            self.columns(outer, ZERO, blocks, rest, chunked, first)
            return
        count = blocks // size
        loop = b.open_loop(count, size * mr, chunked=chunked)
        self.columns(outer, Affine(0, ((loop, 1),)), size, 0, False, first)
        done = count * size
        if done < blocks or rest:
            with b.when(is_trip(b, loop, count - 1)):
                self.columns(outer, Affine(done * mr), blocks - done, rest, False, first)
        b.close_loop(loop)

    def columns(self, outer: Index, m: Affine, blocks: int, rest: int, chunked: bool, first: Affine = ZERO) -> None:
        """All panels for `blocks` tiles of rows from `m` on and `rest` rows more."""
        if parts_of_k(self.g, self.tile):
            assert not chunked, "the groups of rows are the range"
            self.by_parts(outer, m, blocks, rest)
        else:
            self.each_panel(chunked, lambda n, last: self.panel(outer, m, blocks, rest, n, last), first)

    def each_panel(self, chunked: bool, body: Callable[[Affine, Val | None], None], first: Affine = ZERO) -> None:
        """Calls `body(first column, whether the panel is the last)` for all panels, or those of the span from column
        `first` on; the latter is None if that is as wide as others."""
        b, nr, n = self.b, self.tile.nr, self.g.n
        panels = -(-n // nr)
        self.panels = b.open_loop(self.tile.span or panels, nr, vector=nr > 1, chunked=chunked)
        last = is_trip(b, self.panels, panels - 1) if n % nr and panels > 1 else None
        body(first + Affine(0, ((self.panels, 1),)), last)
        b.close_loop(self.panels)

    def spread_rows(self, outer: Index, chunked: bool) -> None:
        """All rows for one column, those of a tile as far apart as they can be: each is part of a stream of its own
        through memory."""
        b, mr = self.b, self.tile.mr
        blocks, rest = divmod(self.g.m, mr)
        right = self.right(outer, ZERO)
        loop = b.open_loop(blocks, chunked=chunked)
        self.block(outer, Affine(0, ((loop, 1),)), mr, ZERO, None, right, blocks)
        if rest:
            with b.when(is_trip(b, loop, blocks - 1)):
                self.block(outer, Affine(blocks * mr), rest, ZERO, None, right)
        b.close_loop(loop)

    def panel(self, outer: Index, m: Affine, blocks: int, rest: int, n: Affine, last: Val | None) -> None:
        """All rows of the panel from column `n` on, in quads where the engine takes these exactly. `last` tells whether
        it is the last, if that has fewer columns."""
        if self.quads is None:
            self.rows(outer, m, blocks, rest, n, last)
            return
        b, exact = self.b, self.quads.exact
        with b.when(exact):
            self.rows(outer, m, blocks, rest, n, last, self.beginning(self.quads, self.right(outer, n)))
        with b.when(b.not_(exact)):
            self.rows(outer, m, blocks, rest, n, last)

    def rows(
        self,
        outer: Index,
        m: Affine,
        blocks: int,
        rest: int,
        n: Affine,
        last: Val | None,
        beginning: tuple[Val, ...] = (),
    ) -> None:
        """All rows of the panel from column `n` on, in quads if `beginning` says what their sums begin with. `last` as
        in `panel`."""
        if len(outer) < len(self.g.outer):
            with self.b.loop(self.g.outer[len(outer)][0]) as i:
                self.rows((*outer, i), m, blocks, rest, n, last, beginning)
            return
        mr, right = self.tile.mr, replace(self.right(outer, n), beginning=beginning)
        if unpacks(self.g):
            right = self.unpacked(outer, n)
        if packs_panels(self.g, self.tile) and not beginning:
            first = mr if blocks else rest
            more = blocks * mr + rest > first
            self.block(outer, m, first, n, last, replace(right, packs=more))
            if not more:
                return
            assert self.scratch is not None
            m, blocks, right = m + mr, blocks - 1, Right(self.scratch, ZERO, self.tile.nr, self.g.types.accumulator)
        self.each_tile(m, blocks, rest, lambda m, rows: self.block(outer, m, rows, n, last, right))

    def each_tile(self, m: Affine, blocks: int, rest: int, body: Callable[[Affine, int], None]) -> None:
        """Calls `body(first row, rows)` for `blocks` tiles from row `m` on and for what rows are left."""
        mr = self.tile.mr
        if blocks:
            with self.b.loop(blocks, mr, vector=self.is_column) as i:
                body(m + i, mr)
        if rest:
            body(m + blocks * mr, rest)

    def by_parts(self, outer: Index, m: Affine, blocks: int, rest: int) -> None:
        """All panels and rows for one part of k, then for the next, so that the rows' part stays cached: a copy of it,
        since rows that lie a power of two apart share few places of a cache. The sums wait behind it, panel by panel,
        for the same reason."""
        b, g, lanes, nr, memory = self.b, self.g, self.g.lanes, self.tile.nr, self.scratch
        assert memory is not None
        dtype, width, length = g.types.accumulator, nr // lanes, parts_of_k(g, self.tile)
        padded, rows_in_all, row_stride = -(-g.n // nr) * nr, blocks * self.tile.mr + rest, length + lanes
        waiting = group_of_rows(g, self.tile) * row_stride

        def places(row: Affine, rows: int, n: Affine) -> list[Affine]:
            first = n * rows_in_all + (row - m) * nr + waiting
            return [first + i * lanes for i in range(rows * width)]

        def loaded(row: Affine, rows: int, n: Affine) -> list[Val]:
            return [b.load_lanes(memory, at, dtype, pure=False) for at in places(row, rows, n)]

        def copy(k: Affine) -> None:
            with b.loop(rows_in_all) as row:
                x, (whole, tail) = self.left(outer, m + row).moved(k), divmod(length, lanes)
                with b.loop(whole, lanes) as i:
                    b.store_lanes(memory, row * row_stride + i, self.elements(x, 0, i), dtype)
                for at in range(whole * lanes, whole * lanes + tail):
                    b.store_at(
                        memory,
                        row * row_stride + at,
                        b.convert(b.load_at(x.pointer, x.start + at, x.dtype), dtype),
                        dtype,
                    )

        def add(k: Affine, row: Affine, rows: int, n: Affine) -> None:
            x = Left(memory, (row - m) * row_stride, row_stride, dtype, pure=False)
            sums = self.products(x, self.right(outer, n), k, length, rows, self.zeros(x, rows * width))
            for at, more in zip(
                places(row, rows, n), sums
            ):  # one by one: V8 would spill sums in the loop that makes them
                b.store_lanes(memory, at, b.add(b.load_lanes(memory, at, dtype, pure=False), more), dtype)

        def finished(n: Affine, last: Val | None) -> None:
            self.each_tile(
                m, blocks, rest, lambda row, rows: self.finish_tile(outer, row, rows, n, last, loaded(row, rows, n))
            )

        with b.loop(rows_in_all * padded // lanes, lanes) as i:
            b.store_lanes(memory, i + waiting, self.zero, dtype)
        with b.loop(g.run // length, length) as k:
            copy(k)
            self.each_panel(False, lambda n, _: self.each_tile(m, blocks, rest, lambda row, rows: add(k, row, rows, n)))
        self.each_panel(False, finished)

    def right(self, outer: Index, n: Affine) -> Right:
        """The panel from column `n` on."""
        g = self.g
        start = n if g.k_stride else n * (g.packed_rows // self.tile.stripes)
        for i, (_, _, stride) in zip(outer, g.outer):
            start = start + i * stride
        return Right(self.rhs, start, g.k_stride or self.tile.stripe, g.types.right)

    def left(self, outer: Index, m: Affine) -> Left:
        """The rows from row `m` on."""
        return Left(
            self.lhs, _row(self.g, outer, m) + self.lhs_offset, self.g.m_stride, self.g.types.left, self.lhs_pure
        )

    def block(
        self, outer: Index, m: Affine, rows: int, n: Affine, last: Val | None, right: Right, apart: int = 1
    ) -> None:
        """One tile: `rows` rows from `m` on, so far `apart`, by the columns from `n` on."""
        b, g, nr, x = self.b, self.g, self.tile.nr, self.left(outer, m)
        x = replace(x, m_stride=x.m_stride * apart)
        zeros = self.zeros(x, rows * -(-min(g.n, nr) // g.lanes))
        beginning = [*right.beginning] * rows or zeros
        chain = chain_of(g)

        def segment(index: Index, sums: list[Val]) -> list[Val]:
            at, k = x, ZERO
            for i, (count, stride) in zip(index, g.segments):
                at = at.moved(i * stride)
                k = k * count + i
            k = k * g.run
            if not chain:
                return run(at, k, g.run, sums)
            sums = fold(
                b,
                (g.run // chain,),
                sums,
                g.lanes,
                lambda i, sums: partial(at.moved(i[0] * chain), k + i[0] * chain, chain, sums),
            )
            done = g.run - g.run % chain
            return partial(at.moved(Affine(done)), k + done, g.run - done, sums) if done < g.run else sums

        def run(at: Left, k: Affine, length: int, sums: list[Val]) -> list[Val]:
            if nr == 1:
                return self.dots(at, right.start + k, length, rows, sums)
            return self.products(at, right, k, length, rows, sums)

        def partial(at: Left, k: Affine, length: int, sums: list[Val]) -> list[Val]:
            return [b.pin(b.add(total, part)) for total, part in zip(sums, run(at, k, length, zeros))]

        if g.types.both_in_blocks:
            sums = self.in_blocks_of_bytes(x, self.scales_of_rows(outer, m), outer, n, rows, zeros)
        elif g.types.in_blocks and not unpacks(g):
            sums = self.in_blocks(x, outer, n, rows, zeros)
        else:
            sums = fold(b, tuple(count for count, _ in g.segments), beginning, g.lanes, segment)
        if nr == 1 and b.vector is not None and m.coefficient(b.vector):
            self.finish(
                outer, m, [[self.totals(sums[r : r + g.lanes])] for r in range(0, rows, g.lanes)], n, 1, g.lanes
            )
        elif nr == 1:
            self.finish(outer, m, [[self.total(value)] for value in sums], n, 1, apart)
        else:
            self.finish_tile(outer, m, rows, n, last, sums)

    def finish_tile(self, outer: Index, m: Affine, rows: int, n: Affine, last: Val | None, sums: list[Val]) -> None:
        """Hands on the sums of a tile. `last` tells whether its panel is the last, if that has fewer columns."""
        b, g, nr = self.b, self.g, self.tile.nr
        if last is None:
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

    def finish(self, outer: Index, m: Affine, grid: list[list[Val]], n: Affine, step: int, apart: int = 1) -> None:
        """Hands a grid of finished sums, `apart` rows and `step` columns apart, to `store`."""
        b, spill, dtype = self.b, self.spill, self.g.types.result
        for r, row in enumerate(grid):
            for at, total in enumerate(row):
                value = b.convert(total, dtype)
                if spill is None:
                    self.store(outer, m + r * apart, n + at * step, value)
                else:
                    number, position = spill(outer, m + r * apart, n + at * step)
                    b.store(number, position, value, dtype)
        if spill is not None:
            with b.loop(len(grid), apart) as i, b.loop(len(grid[0]), step) as j:
                number, position = spill(outer, m + i, n + j)
                self.store(outer, m + i, n + j, b.load(number, position, dtype))

    def products(self, x: Left, right: Right, start: Affine, run: int, rows: int, sums: list[Val]) -> list[Val]:
        """Adds the outer products of one contiguous run of k, whose first is `start`."""
        b, lanes = self.b, self.g.lanes
        width = len(sums) // rows

        def step(left: Iterable[Val], k: Affine, sums: list[Val]) -> list[Val]:
            columns = [self.column(right, start + k, j) for j in range(width)]
            after: list[Val] = []
            for splat in left:
                for column in columns:
                    # Cranelift overwrites the first operand: here comes the one that costs it fewer spills.
                    factors = (splat, column) if self.tile.scalar else (column, splat)
                    after.append(b.pin(self.added_product(*factors, sums[len(after)])))
            return after

        def one(_: Loop | None, k: Affine, sums: list[Val]) -> list[Val]:
            left = (self.element(x, r, k) for r in range(rows))
            return step(left, k, sums)

        def several(loop: Loop | None, k: Affine, sums: list[Val]) -> list[Val]:
            vectors = [self.elements(x, r, k) for r in range(rows)]
            for u in range(lanes):
                if u and loop:
                    # Without it, Cranelift moves all loads before all arithmetic and runs out of registers.
                    b.barrier(loop, sums)
                sums = step((b.splat_lane(vector, u) for vector in vectors), k + u, sums)
            return sums

        def in_squares(loop: Loop | None, k: Affine, sums: list[Val]) -> list[Val]:
            for u in range(SQUARE_STEPS):
                sums = self.squares(x, right, k + u, start + k + u, loop, rows, sums)
            return sums

        done = 0
        by_squares = (
            self.tile.squares and rows > 1 and not right.packs
        )  # few rows and the first ones are not worth the code
        longer = (SQUARE_STEPS, in_squares) if by_squares else (1, one) if self.tile.scalar else (lanes, several)
        quads = self.in_quads(self.quads, x, right, start, rows) if self.quads and right.beginning else [longer]
        for step_size, body in dict.fromkeys((*quads, (1, one))):
            for streams in dict.fromkeys((self.tile.streams, 1)):
                trips = (run - done) // (step_size * streams)
                sums = self.along(trips, step_size, sums, self.side_by_side(body, done, streams, trips * step_size))
                done += trips * step_size * streams
        return sums

    def in_quads(self, quads: Quads, x: Left, right: Right, start: Affine, rows: int) -> list[tuple[int, Step]]:
        """Returns the steps that add the products of four quads, and of one: how many pairs along k that is, and the
        step."""
        b, lanes = self.b, self.g.lanes

        def add(left: Iterable[Val], k: Affine, sums: list[Val]) -> list[Val]:
            columns = quads.columns(
                right.pointer, right.start + (start + k) * right.k_stride, right.k_stride, len(sums) // rows
            )
            return [
                b.pin(quads.added(row, column, total)) for (row, column), total in zip(product(left, columns), sums)
            ]

        def four(loop: Loop | None, k: Affine, sums: list[Val]) -> list[Val]:
            vectors = [quads.four(x.pointer, x.start + k + r * x.m_stride, x.pure) for r in range(rows)]
            for u in range(lanes):
                if u and loop:
                    b.barrier(loop, sums)
                sums = add([b.splat_lane(vector, u) for vector in vectors], k + 2 * u, sums)
            return sums

        def one(_: Loop | None, k: Affine, sums: list[Val]) -> list[Val]:
            return add([quads.one(x.pointer, x.start + k + r * x.m_stride, x.pure) for r in range(rows)], k, sums)

        return [(2 * lanes, four), (2, one)]

    def beginning(self, quads: Quads, right: Right) -> tuple[Val, ...]:
        """Returns what sums of a panel's columns begin with, so that what is added to the numbers of the left side's
        quads does not count."""
        b, g = self.b, self.g
        width = -(-min(g.n, self.tile.nr) // g.lanes)
        if quads.shift is None:
            return (self.zero,) * width

        def segment(index: Index, sums: list[Val]) -> list[Val]:
            start = ZERO
            for i, (count, _) in zip(index, g.segments):
                start = start * count + i
            at = right.start + start * (g.run * right.k_stride)

            def step(_: Loop | None, k: Affine, sums: list[Val]) -> list[Val]:
                columns = quads.columns(right.pointer, at + k * right.k_stride, right.k_stride, width)
                return [quads.added_numbers(column, total) for column, total in zip(columns, sums)]

            return self.along(g.run // 2, 2, sums, step)

        sums = fold(b, tuple(count for count, _ in g.segments), [self.zero] * width, g.lanes, segment)
        return tuple([b.pin(b.mul(total, b.splat(b.neg(quads.shift), g.lanes))) for total in sums])

    def squares(
        self, x: Left, right: Right, k: Affine, row: Affine, loop: Loop | None, rows: int, sums: list[Val]
    ) -> list[Val]:
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
            if loop and sums != [carry.value for carry in loop.carries]:
                b.barrier(loop, sums)
            high, wide = range(r, min(r + 2, rows)), range(j, min(j + 2, width))
            left |= {i: self.element(x, i, k) for i in high if i not in left}
            columns |= {i: self.column(right, row, i) for i in wide if i not in columns}
            for column, splat in product(wide, high):
                # Cranelift overwrites the first operand: copies of the one that more squares use cost it fewer spills.
                factors = (left[splat], columns[column]) if width >= rows else (columns[column], left[splat])
                at = splat * width + column
                sums[at] = b.pin(self.added_product(*factors, sums[at]))
        return sums

    def in_blocks(self, x: Left, outer: Index, n: Affine, rows: int, sums: list[Val]) -> list[Val]:
        """Adds the products of each block times its scales, of the panel from column `n` on."""
        b, g, width = self.b, self.g, len(sums) // rows
        right, scale = self.right(outer, n), self.scales_at(outer, n)
        pairs, steps = g.types.pairs, WORD // (2 if g.types.pairs else 1)
        dtype = "s32" if pairs else "f32"

        def numbers(words: Val, step: int) -> Val:
            """Returns what a step along k takes of a vector of words: pairs, or numbers."""
            if pairs:
                return b.joined(b.shr_s(b.shl(b.halves(words), 12 - 4 * step), 12))
            return b.convert(number_of(b, words, step), "f32")

        def block(_: Loop | None, i: Affine, sums: list[Val]) -> list[Val]:
            def row_of_words(_: Loop | None, row: Affine, parts: list[Val]) -> list[Val]:
                at = i * g.block_rows + row
                words = [
                    b.load_lanes(right.pointer, right.start + at * right.k_stride + j * g.lanes, "s32")
                    for j in range(width)
                ]
                for step in range(steps):
                    k = at * steps + step
                    left = [self.element(x, r, k) for r in range(rows)]
                    columns = [numbers(column, step) for column in words]
                    factors = [(row, column) for row in left for column in columns]
                    parts = [b.pin(self.added_product(*pair, part)) for pair, part in zip(factors, parts)]
                return parts

            zero = b.splat(b.const(dtype, 0), g.lanes)
            parts = self.along(g.block_rows, 1, [zero] * len(sums), row_of_words)
            scales = [self.column(scale, i, j) for j in range(width)] * rows
            return [
                b.pin(b.fma(b.convert(part, "f32"), factor, total)) for part, factor, total in zip(parts, scales, sums)
            ]

        return self.along(g.blocks, 1, sums, block)

    def in_blocks_of_bytes(
        self, x: Left, scales: Left, outer: Index, n: Affine, rows: int, sums: list[Val]
    ) -> list[Val]:
        """Adds the products of each block times the scales of both sides, of the panel from column `n` on.

        Every engine gives the same sums. Words hold numbers of 0 to 15, which are the same read as signed and as
        unsigned; two products are at most 2 * 15 * 127, which no engine clamps; and half of a block, 16 products, stays
        in 16 bits: the sums begin with -8 times the left side's numbers, so that all on the way are at most 16 * 8 *
        127.
        """
        b, g, width = self.b, self.g, len(sums) // rows
        right, scale = self.right(outer, n), self.scales_at(outer, n)
        quads = g.types.block // QUAD

        def block(_: Loop | None, i: Affine, sums: list[Val]) -> list[Val]:
            parts, left = list[Val](), list[list[Val]]()
            for r in range(rows):
                first = x.start + r * x.m_stride + i * quads
                vectors = [b.load_lanes(x.pointer, first + u, "s32", pure=x.pure) for u in range(0, quads, g.lanes)]
                parts += [self.less_eights(vectors)] * width
                left.append([as_bytes(b, b.splat_lane(vector, lane)) for vector in vectors for lane in range(g.lanes)])
            for row in range(g.block_rows):
                at = right.start + (i * g.block_rows + row) * right.k_stride
                words = [b.load_lanes(right.pointer, at + j * g.lanes, "s32") for j in range(width)]
                for half in range(2):
                    halves = [b.and_(b.shr_u(word, 4 * half) if half else word, self.nibbles) for word in words]
                    factors = product(
                        [quad[2 * row + half] for quad in left], [as_bytes(b, column) for column in halves]
                    )
                    parts = [b.pin(b.add(part, b.dot_i7(*pair))) for part, pair in zip(parts, factors)]
            own = [b.load_splat(scales.pointer, scales.start + r * scales.m_stride + i, "f32") for r in range(rows)]
            factors = product(own, [self.column(scale, i, j) for j in range(width)])
            products = [b.convert(b.extadd_pairwise(part), "f32") for part in parts]
            return [b.pin(b.fma(part, b.mul(*both), total)) for part, both, total in zip(products, factors, sums)]

        return self.along(g.blocks, 1, sums, block)

    def less_eights(self, vectors: list[Val]) -> Val:
        """Minus 8 times the sum of a block of bytes, given as vectors of quads: words hold 8 more than their numbers.
        In each quad's place the first half has the sum of all first halves, and the other one that of the others."""
        b = self.b
        total = self.added([b.dot_i7(as_bytes(b, vector), as_bytes(b, self.eights)) for vector in vectors])
        for turn in ((2, 3, 0, 1), (1, 0, 3, 2)):
            lanes = b.joined(total)
            total = b.add(total, b.halves(b.shuffle(lanes, lanes, turn)))
        return b.pin(b.sub(self.zero_halves, total))

    def unpacked(self, outer: Index, n: Affine) -> Right:
        """The panel from column `n` on made f32, in the scratch memory."""
        b, g, lanes, nr, memory = self.b, self.g, self.g.lanes, self.tile.nr, self.scratch
        assert memory is not None
        right, scales = self.right(outer, n), self.scales_at(outer, n)
        with b.loop(g.blocks) as i, b.loop(nr // lanes, lanes) as j:
            scale = b.load_lanes(scales.pointer, scales.start + i * nr + j, "f32")
            with b.loop(g.block_rows) as row:
                at = i * g.block_rows + row
                words = b.load_lanes(right.pointer, right.start + at * nr + j, "s32")
                for u in range(WORD):
                    number = b.convert(number_of(b, words, u), "f32")
                    b.store_lanes(memory, (at * WORD + u) * nr + j, b.mul(number, scale), "f32")
        return Right(memory, ZERO, nr, "f32")

    def scales_at(self, outer: Index, n: Affine) -> Right:
        """The scales of the panel from column `n` on."""
        assert self.scales is not None
        g = scales_of(self.g)
        start = n * g.k
        for i, (_, _, stride) in zip(outer, g.outer):
            start = start + i * stride
        return Right(self.scales, start, self.tile.nr, "f32")

    def scales_of_rows(self, outer: Index, m: Affine) -> Left:
        """The scales of the rows from row `m` on."""
        assert self.lhs_scales is not None
        g = scales_of(self.g)
        return Left(self.lhs_scales, _row(g, outer, m), g.m_stride, "f32")

    def added_product(self, x: Val, y: Val, total: Val) -> Val:
        """A sum with one product more, or two where operands are pairs."""
        b = self.b
        return b.add(total, b.dot(b.halves(x), b.halves(y))) if self.g.types.pairs else b.fma(x, y, total)

    def side_by_side(self, body: Step, start: int, streams: int, length: int) -> Step:
        """The same step in several parts of k, each of a length, from `start` on."""

        def steps(loop: Loop | None, k: Affine, sums: list[Val]) -> list[Val]:
            for stream in range(streams):
                sums = body(loop, k + (start + stream * length), sums)
            return sums

        return steps

    def column(self, right: Right, k: Affine, j: int) -> Val:
        """Vector `j` of a panel's row `k`, in the type of the sums. The first rows put it where those below find it."""
        column = j * self.g.lanes
        at = (
            right.start
            + k * right.k_stride
            + (column if right.pointer is self.scratch else place_in_panel(self.g, self.tile, column))
        )
        stripe = self.tile.stripe // self.g.lanes
        pair = j % stripe % 2 if j % stripe < stripe - stripe % 2 else None
        value = self.vector(right.pointer, at, right.dtype, right.pointer is not self.scratch, pair)
        if right.packs:
            assert self.scratch is not None
            self.b.store_lanes(self.scratch, k * self.tile.nr + column, value, self.g.types.accumulator)
        return value

    def dots(self, x: Left, y: Affine, run: int, rows: int, sums: list[Val]) -> list[Val]:
        """Adds the products of one contiguous run of k, every lane a sum of its own."""
        b, g, lanes = self.b, self.g, self.g.lanes

        def body(_: Loop | None, k: Affine, sums: list[Val], lost: int = 0, pair: int | None = None) -> list[Val]:
            def counted(value: Val) -> Val:
                return b.shuffle(value, self.zero, (*[lanes] * lost, *range(lost, lanes))) if lost else value

            right = counted(self.vector(self.rhs, y + k, g.types.right))
            return [self.added_product(counted(self.elements(x, r, k, pair)), right, sums[r]) for r in range(rows)]

        def two(loop: Loop | None, k: Affine, sums: list[Val]) -> list[Val]:
            for pair in range(2):
                sums = body(loop, k + pair * lanes, sums, pair=pair)
            return sums

        done = 0
        for step, vectors in ((2 * lanes, two), (lanes, body)) if self.loads_two(x.dtype) else ((lanes, body),):
            sums = self.along((run - done) // step, step, sums, self.side_by_side(vectors, done, 1, 0))
            done += (run - done) // step * step
        tail = run % lanes
        # The last vector overlaps the one before it, whose elements count only once.
        return body(None, Affine(run - lanes), sums, lanes - tail) if tail else sums

    def elements(self, x: Left, row: int, k: Affine, pair: int | None = None) -> Val:
        """Consecutive elements of a row, in the type of the sums. `pair` as in `vector`."""
        return self.vector(x.pointer, x.start + k + row * x.m_stride, x.dtype, x.pure, pair)

    def loads_two(self, dtype: str) -> bool:
        """Returns True if one load gives two vectors."""
        return dtype in ("bf16", "f16") and self.g.types.accumulator == "f32"

    def widened(self, x: Val, dtype: str) -> Val:
        """Numbers of a small float, the upper halves of words, as f32: f16 without infinities and NaN, which scales
        stand for."""
        b = self.b
        if dtype == "bf16":
            return b.bitcast(x, "f32")
        # The exponent has three bits more there, and another zero.
        moved = b.and_(b.shr_s(x, 3), self.f16_bits)
        return b.mul(b.bitcast(moved, "f32"), self.f16_unit)

    def vector(self, pointer: Val, at: Affine, dtype: str, pure: bool = True, pair: int | None = None) -> Val:
        """Consecutive elements from memory, in the type of the sums: each a number of type `dtype`, or a pair of them.

        `pair`: there is a second vector that lies side by side with this one; this is the first, or the second of both.
        """
        b, types = self.b, self.g.types
        if pair is not None and self.loads_two(dtype):
            # One load gives two vectors, and one shuffle with zeros each, of which these numbers are the upper halves.
            both = b.load_lanes(pointer, at - pair * self.g.lanes, PAIR, 2 * self.g.lanes, pure)
            first, count = pair * self.g.lanes, 2 * self.g.lanes
            interleaved = tuple(i for lane in range(first, first + self.g.lanes) for i in (lane, count + lane))
            return self.widened(b.joined(b.shuffle(self.zero_halves, both, interleaved)), dtype)
        if not types.pairs or dtype == types.accumulator:
            return b.convert(b.load_lanes(pointer, at, dtype, pure=pure), types.accumulator)
        if dtype == PAIR:
            return b.load_lanes(pointer, at, types.accumulator, pure=pure)
        return b.joined(b.bitcast(b.load_lanes(pointer, at * 2, dtype, 2 * self.g.lanes, pure), PAIR))

    def element(self, x: Left, row: int, k: Affine) -> Val:
        """An element of a row in all lanes: in the type of the sums, or a pair of s16."""
        b, types, at = self.b, self.g.types, x.start + k + row * x.m_stride
        dtype = "s32" if types.pairs else types.accumulator
        if x.dtype == dtype or types.pairs and x.dtype == PAIR:
            return b.load_splat(x.pointer, at, dtype, pure=x.pure)
        if not types.pairs:
            return b.splat(b.convert(b.load_at(x.pointer, at, x.dtype, pure=x.pure), dtype), self.g.lanes)
        pair = b.halves(b.splat(b.load_at(x.pointer, at, PAIR, pure=x.pure), 2 * self.g.lanes))
        return b.joined(b.bitcast(b.extend_low(b.bitcast(pair, x.dtype)), PAIR))

    def along(self, trips: int, step: int, sums: list[Val], body: Step) -> list[Val]:
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

    def zeros(self, x: Left, count: int) -> list[Val]:
        """Returns what the sums of rows begin with.

        In squares it is a zero that no engine knows before it has the rows' address. Cranelift gives a sum the place of
        what it begins with, and a constant's place through all loops around may be in memory.
        """
        b, dtype = self.b, self.g.types.accumulator
        if not self.tile.squares:
            return [self.zero] * count
        address, _ = b.address(x.pointer, x.start, TYPES[x.dtype].bytes)
        never = b.eq(b.or_(address, b.const("u32", 1)), b.const("u32", 0))
        return [b.splat(b.convert(never, dtype), self.g.lanes)] * count

    def total(self, value: Val) -> Val:
        """The sum of a vector's lanes."""
        return self.added([self.b.lane(value, lane) for lane in range(self.g.lanes)])

    def totals(self, values: list[Val]) -> Val:
        """The sums of the lanes of as many vectors as they have lanes, in one vector."""
        return self.added(transpose(self.b, values))

    def added(self, values: list[Val]) -> Val:
        """Their sum, of pairs."""
        while len(values) > 1:
            values = [self.b.add(x, y) for x, y in zip(values[::2], values[1::2])]
        return values[0]


def _row(g: Gemm, outer: Index, m: Affine) -> Affine:
    """Returns the place of row `m` of the left side."""
    return sum((i * stride for i, (_, stride, _) in zip(outer, g.outer)), m * g.m_stride)
