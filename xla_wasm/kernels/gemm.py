"""Matrix products and direct convolutions: one generator of register-tiled kernels.

The left side is read where it lies: each row of a tile by vector loads along k, whose lanes are splatted one by one.
The right side is packed beforehand, or panel by panel on the way, or read where it lies by the first tile of rows,
which packs each panel for those below. Accumulators stay in registers over all of k, so that what follows a product
(bias, activation, residual) works on them before they are ever stored.
"""

from __future__ import annotations

from collections.abc import Callable

from ..dataclass import dataclass, replace
from ..loop.affine import ZERO, Affine, Index
from ..loop.builder import Builder
from ..loop.ir import Loop, Val
from ..loop.nest import fold, scalar_nest
from ..loop.tiling import transpose
from .blocks import Blocks
from .inner_products import InnerProducts
from .packing import is_trip, without_last
from .quads import quads
from .sides import Left, Loads, Right, Rows, Sides
from .tiles import (
    ROWS,
    Gemm,
    Tile,
    chain_of,
    group_of_rows,
    narrow_columns,
    packs_panels,
    scratch_size,
    takes_quads,
    unpacks,
    waiting_columns,
)


def gemm_kernel(b: Builder, g: Gemm, tile: Tile, sides: Sides, chunked: bool = True) -> None:
    """Writes a GEMM. The outermost loop is the range that callers may split, if it is `chunked`."""
    assert b.lanes == g.lanes, "accumulators need all lanes of their type"
    writer = _Writer(b, g, tile, sides)
    sizes = tuple(size for size, _, _ in g.outer[: writer.split])
    scalar_nest(b, sizes, lambda outer: writer.groups(outer, chunked and not sizes), chunked=chunked)


@dataclass(frozen=True, slots=True)
class Group:
    """Rows that pass a panel before the next one: `tiles` tiles of rows and `rest` rows more, from row `m` on."""

    outer: Index
    m: Affine
    tiles: int
    rest: int


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel's columns, from column `n` on."""

    n: Affine
    columns: int
    last: Val | None = None
    """True if it is the last one, if that has fewer columns than others."""


class _Writer:
    """Writes one GEMM, from the outermost loop inwards."""

    def __init__(self, b: Builder, g: Gemm, tile: Tile, sides: Sides):
        self.b, self.g, self.tile = b, g, tile
        self.store, self.spill = sides.store, sides.spill
        self.panels: Loop
        """The loop over panels of columns, while it is open."""
        self.loads = Loads(b, g, tile, sides)
        self.scratch = self.loads.scratch
        self.quads = quads(b, g.types, self.loads.rhs) if takes_quads(g, tile, b.target) else None
        self.sums = InnerProducts(self.loads, self.quads)
        self.blocks = Blocks(self.sums)
        self.spreads = tile.mr > 1 and tile.streams == tile.mr and tile.nr == 1
        """True if the rows of a tile are streams through memory of their own."""
        self.split = self._split()
        self.is_column = tile.nr == g.n == 1
        """True if results along rows lie side by side, and so make vectors."""

    def _split(self) -> int:
        """Returns the number of outer dimensions that enclose the panel loop. The others, short rows of a convolution,
        share each panel, unless there is but one, which their streams pass."""
        split, rows = len(self.g.outer), self.g.m
        while (
            split
            and not self.spreads
            and not self.g.outer[split - 1][2]
            and rows * self.g.outer[split - 1][0] <= 4 * ROWS
            and rows < ROWS // 2
        ):
            split -= 1
            rows *= self.g.outer[split][0]
        return split

    def groups(self, outer: Index, chunked: bool) -> None:
        """Splits the rows into groups that stay cached while all panels pass."""
        nr, span = self.tile.nr, self.tile.span
        if self.spreads:
            self.spread_rows(outer, chunked)
        elif span:
            with self.b.loop(-(-self.g.n // nr) // span, span * nr, chunked=chunked) as n:
                self.row_groups(outer, False, n)
        else:
            self.row_groups(outer, chunked)

    def row_groups(self, outer: Index, chunked: bool, first: Affine = ZERO) -> None:
        """All rows, in their groups. Of a tile with a span the panels are those from column `first` on."""
        b, mr = self.b, self.tile.mr
        tiles, rest = divmod(self.g.m, mr)
        size = group_of_rows(self.g, self.tile) // mr
        if self.split < len(self.g.outer) or size == tiles:
            self.columns(Group(outer, ZERO, tiles, rest), chunked, first)
            return
        count = tiles // size
        done = count * size
        with b.open_loop(count, size * mr, chunked=chunked) as loop:
            self.columns(Group(outer, Affine.along(loop), size, 0), False, first)
            if done < tiles or rest:
                with b.when(is_trip(b, loop, count - 1)):
                    self.columns(Group(outer, Affine(done * mr), tiles - done, rest), False, first)

    def columns(self, group: Group, chunked: bool, first: Affine = ZERO) -> None:
        """All panels for a group of rows."""
        if self.tile.part:
            assert not chunked, "the groups of rows or the spans of panels are the range"
            self.by_parts(group)
        elif self.tile.ahead:
            self.packed_ahead(group, chunked)
        else:
            self.each_panel(chunked, lambda panel: self.panel(group, panel), first)

    def each_panel(self, chunked: bool, body: Callable[[Panel], None], first: Affine = ZERO) -> None:
        """Calls `body` for all panels, or those of the span from column `first` on."""
        b, nr, n = self.b, self.tile.nr, self.g.n
        panels = -(-n // nr)
        with b.open_loop(self.tile.span or panels, nr, vector=nr > 1, chunked=chunked) as self.panels:
            last = is_trip(b, self.panels, panels - 1) if n % nr and panels > 1 else None
            body(Panel(first + Affine.along(self.panels), min(n, nr), last))

    def packed_ahead(self, group: Group, chunked: bool) -> None:
        """All panels for a group of rows: some are packed, then all rows pass them."""
        b, g, nr, count = self.b, self.g, self.tile.nr, self.tile.ahead
        panels = -(-g.n // nr)
        tail = g.n % nr
        assert self.scratch is not None and (not tail or count == 1) and panels % count == 0
        with b.open_loop(panels // count, count * nr, chunked=chunked) as self.panels:
            start, last = Affine.along(self.panels), None
            if tail and panels > 1:
                last = is_trip(b, self.panels, panels - 1)
                with b.when(b.not_(last)), without_last(self.panels):
                    self.pack_ahead(group.outer, start, nr)
                with b.when(last):
                    self.pack_ahead(group.outer, Affine(g.n - tail), tail)
            else:
                self.pack_ahead(group.outer, start, min(g.n, count * nr))
            with b.open_loop(count, nr, vector=True) as loop:
                n = Affine.along(loop)
                right = Right(self.scratch, n * g.k, nr, g.types.accumulator)
                self.tiles(group, Panel(start + n, min(g.n, nr), last), right, self.block)

    def pack_ahead(self, outer: Index, n: Affine, columns: int) -> None:
        """Packs so many columns from column `n` on: those of some panels, or of the last one."""
        b, g, lanes, nr, memory = self.b, self.g, self.g.lanes, self.tile.nr, self.scratch
        assert memory is not None
        right, dtype = self.loads.right(outer, n), g.types.accumulator

        def loaded(k: Affine, column: Affine) -> Val:
            return b.load_lanes(right.pointer, right.start + k * g.k_stride + column * g.n_stride, dtype)

        if g.n_stride == 1:
            with b.loop(g.k) as k:
                for first in range(0, columns, lanes):
                    panel, inside = divmod(first, nr)
                    b.store_lanes(memory, k * nr + panel * nr * g.k + inside, loaded(k, Affine(first)), dtype)
            return
        whole, tail = divmod(columns, lanes)

        def turn(column: Affine, count: int) -> None:
            """A vector of columns, of which so many are there."""

            def tile(index: Index) -> None:
                k = index[0] * lanes
                values = [loaded(k, column + min(u, count - 1)) for u in range(lanes)]
                for u, value in enumerate(transpose(b, values)):
                    b.store_lanes(memory, (k + u) * nr + column, value, dtype)

            scalar_nest(b, (g.k // lanes,), tile)
            for last in range(g.k - g.k % lanes, g.k):
                for u in range(count):
                    value = b.load_at(right.pointer, right.start + (column + u) * g.n_stride + last, dtype)
                    b.store_at(memory, column + (last * nr + u), value, dtype)

        if whole:
            with b.loop(whole, lanes) as column:
                turn(column, lanes)
        if tail:
            turn(Affine(whole * lanes), tail)

    def spread_rows(self, outer: Index, chunked: bool) -> None:
        """All rows for one column, those of a tile as far apart as they can be: each is part of a stream of its own
        through memory."""
        b, mr = self.b, self.tile.mr
        tiles, rest = divmod(self.g.m, mr)
        column, right = Panel(ZERO, 1), self.loads.right(outer, ZERO)
        with b.open_loop(tiles, chunked=chunked) as loop:
            self.block(Rows(outer, Affine.along(loop), mr, tiles), column, right)
            if rest:
                with b.when(is_trip(b, loop, tiles - 1)):
                    self.block(Rows(outer, Affine(tiles * mr), rest), column, right)

    def panel(self, group: Group, panel: Panel) -> None:
        """All rows of a panel, in quads where the engine takes these exactly."""
        if self.quads is None:
            self.rows(group, panel)
            return
        b, exact = self.b, self.quads.exact
        with b.when(exact):
            right = self.loads.right(group.outer, panel.n)
            self.rows(group, panel, self.quads.beginning(self.g, self.tile, right))
        with b.when(b.not_(exact)):
            self.rows(group, panel)

    def rows(self, group: Group, panel: Panel, beginning: tuple[Val, ...] = ()) -> None:
        """All rows of a panel, in quads if `beginning` says what their sums begin with."""
        outer = group.outer
        if len(outer) < len(self.g.outer):
            with self.b.loop(self.g.outer[len(outer)][0]) as i:
                self.rows(replace(group, outer=(*outer, i)), panel, beginning)
            return
        right = replace(self.loads.right(outer, panel.n), beginning=beginning)
        if unpacks(self.g):
            right = self.blocks.unpacked(outer, panel.n)
        self.tiles(group, panel, right, self.block)

    def tiles(self, group: Group, panel: Panel, right: Right, block: Callable[[Rows, Panel, Right], None]) -> None:
        """Calls `block` for all tiles of rows that pass a panel, the first of which may pack it for the others."""
        if packs_panels(self.g, self.tile) and not right.beginning:
            mr = self.tile.mr
            first = self.tile.first or (mr if group.tiles else group.rest)
            more = group.tiles * mr + group.rest - first
            block(Rows(group.outer, group.m, first), panel, replace(right, packs=more > 0))
            if not more:
                return
            assert self.scratch is not None
            group = replace(group, m=group.m + first, tiles=more // mr, rest=more % mr)
            right = Right(self.scratch, ZERO, self.tile.nr, self.g.types.accumulator)

        def below(rows: Rows, part: Panel, n: Affine) -> None:
            block(rows, part, replace(right, start=right.start + n))

        self.each_tile(group, panel, below)

    def each_tile(self, group: Group, panel: Panel, body: Callable[[Rows, Panel, Affine], None]) -> None:
        """Calls `body` for each tile of a group, and for what rows are left, by the columns of a panel or parts of it;
        the last argument is the first of these in the panel."""
        mr, narrow = self.tile.mr, narrow_columns(panel.columns, self.tile)
        with self.b.loop(panel.columns // narrow, narrow) as n:
            part = replace(panel, n=panel.n + n, columns=narrow)
            if group.tiles:
                with self.b.loop(group.tiles, mr, vector=self.is_column) as i:
                    body(Rows(group.outer, group.m + i, mr), part, n)
            if group.rest:
                body(Rows(group.outer, group.m + group.tiles * mr, group.rest), part, n)

    def by_parts(self, group: Group) -> None:
        """All panels and rows for one part of k, then for the next, so that the rows' part stays cached: a copy of it,
        since rows that lie a power of two apart share few places of a cache. The sums wait behind it, panel by panel,
        for the same reason."""
        b, g, lanes, nr, memory = self.b, self.g, self.g.lanes, self.tile.nr, self.scratch
        assert memory is not None
        dtype, length, columns = g.types.accumulator, self.tile.part, waiting_columns(g, self.tile)
        rows_in_all, row_stride = group.tiles * self.tile.mr + group.rest, length + lanes
        waiting = rows_in_all * row_stride
        assert waiting + rows_in_all * columns <= scratch_size(g, self.tile)

        def places(rows: Rows, panel: Panel) -> list[Affine]:
            start = panel.n * rows_in_all + (rows.m - group.m) * nr + waiting
            return [
                start + row * nr + column
                for row in range(rows.count)
                for column in range(0, -(-panel.columns // lanes) * lanes, lanes)
            ]

        def loaded(at: Affine) -> Val:
            return b.load_lanes(memory, at, dtype, pure=False)

        def copy(k: Affine) -> None:
            with b.loop(rows_in_all) as row:
                x, (whole, tail) = self.loads.left(group.outer, group.m + row).moved(k), divmod(length, lanes)
                to = row * row_stride
                with b.loop(whole, lanes) as i:
                    b.store_lanes(memory, to + i, self.loads.elements(x, 0, i), dtype)
                for at in range(whole * lanes, whole * lanes + tail):
                    value = b.convert(b.load_at(x.pointer, x.start + at, x.dtype), dtype)
                    b.store_at(memory, to + at, value, dtype)

        def add(rows: Rows, panel: Panel, right: Right) -> None:
            x = Left(memory, (rows.m - group.m) * row_stride, row_stride, dtype, pure=False)
            at = places(rows, panel)
            sums = self.sums.products(x, right, ZERO, length, rows.count, self.sums.zeros(x, len(at)))
            # one by one: V8 would spill sums in the loop that makes them
            for place, more in zip(at, sums):
                b.store_lanes(memory, place, b.add(loaded(place), more), dtype)

        def add_all(k: Affine, panel: Panel) -> None:
            right = self.loads.right(group.outer, panel.n)
            self.tiles(group, panel, replace(right, start=right.start + k * right.k_stride), add)

        def finish(rows: Rows, panel: Panel, _: Affine) -> None:
            self.finish_tile(rows, panel, [loaded(place) for place in places(rows, panel)])

        with b.loop(rows_in_all * columns // lanes, lanes) as i:
            b.store_lanes(memory, i + waiting, self.loads.zero, dtype)
        with b.loop(g.run // length, length) as k:
            copy(k)
            self.each_panel(False, lambda panel: add_all(k, panel))
        self.each_panel(False, lambda panel: self.each_tile(group, panel, finish))

    def block(self, rows: Rows, panel: Panel, right: Right) -> None:
        """One tile: rows by the columns of a panel."""
        b, g, nr, x = self.b, self.g, self.tile.nr, self.loads.left(rows.outer, rows.m)
        x = replace(x, m_stride=x.m_stride * rows.apart)
        zeros = self.sums.zeros(x, rows.count * -(-panel.columns // g.lanes))
        beginning = [*right.beginning] * rows.count or zeros
        chain = chain_of(g)

        def segment(index: Index, sums: list[Val]) -> list[Val]:
            at, k = x, ZERO
            for i, (count, stride) in zip(index, g.segments):
                at = at.moved(i * stride)
                k = k * count + i
            k = k * g.run
            if not chain:
                return run(at, k, g.run, sums)

            def part(i: Index, sums: list[Val]) -> list[Val]:
                return partial(at.moved(i[0] * chain), k + i[0] * chain, chain, sums)

            sums = fold(b, (g.run // chain,), sums, g.lanes, part)
            done = g.run - g.run % chain
            return partial(at.moved(Affine(done)), k + done, g.run - done, sums) if done < g.run else sums

        def run(at: Left, k: Affine, length: int, sums: list[Val]) -> list[Val]:
            if nr == 1:
                return self.sums.dots(at, right.start + k, length, rows.count, sums)
            return self.sums.products(at, right, k, length, rows.count, sums)

        def partial(at: Left, k: Affine, length: int, sums: list[Val]) -> list[Val]:
            return [b.pin(b.add(total, part)) for total, part in zip(sums, run(at, k, length, zeros))]

        if g.types.both_in_blocks:
            sums = self.blocks.in_blocks_of_bytes(x, rows, panel.n, zeros)
        elif g.types.in_blocks and not unpacks(g):
            sums = self.blocks.in_blocks(x, rows, panel.n, zeros)
        else:
            sums = fold(b, tuple(count for count, _ in g.segments), beginning, g.lanes, segment)
        if nr > 1:
            self.finish_tile(rows, panel, sums)
        elif b.vector is not None:
            vectors = [[self.sums.totals(sums[r : r + g.lanes])] for r in range(0, rows.count, g.lanes)]
            self.finish(replace(rows, apart=g.lanes), vectors, panel.n, 1)
        else:
            self.finish(rows, [[self.sums.total(value)] for value in sums], panel.n, 1)

    def finish_tile(self, rows: Rows, panel: Panel, sums: list[Val]) -> None:
        """Hands on the sums of a tile."""
        b = self.b
        if panel.last is None:
            self.finish_columns(rows, panel.n, panel.columns, sums)
        else:
            with b.when(b.not_(panel.last)), without_last(self.panels):
                self.finish_columns(rows, panel.n, panel.columns, sums)
            with b.when(panel.last):
                self.finish_columns(rows, panel.n, self.g.n % panel.columns, sums)

    def finish_columns(self, rows: Rows, n: Affine, columns: int, sums: list[Val]) -> None:
        """Finishes the first `columns` columns of a tile."""
        width, (whole, tail) = len(sums) // rows.count, divmod(columns, self.g.lanes)
        grid = [sums[r * width : (r + 1) * width] for r in range(rows.count)]
        if whole:
            self.finish(rows, [row[:whole] for row in grid], n, self.g.lanes)
        if tail:
            # The rest of a vector goes lane by lane. Its columns are constants, so that nothing there runs along lanes.
            scalars = [[self.b.lane(row[whole], lane) for lane in range(tail)] for row in grid]
            self.finish(rows, scalars, Affine(self.g.n - tail), 1)

    def finish(self, rows: Rows, grid: list[list[Val]], n: Affine, step: int) -> None:
        """Hands a grid of finished sums, `step` columns apart, to `store`."""
        b, spill, dtype, (outer, m, apart) = self.b, self.spill, self.g.types.result, (rows.outer, rows.m, rows.apart)
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
