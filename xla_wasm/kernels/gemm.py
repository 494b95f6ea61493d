"""Matrix products and direct convolutions: one generator of register-tiled kernels.

The left side is read where it lies: each row of a tile by vector loads along k, whose lanes are splatted one by one. The
right side is packed beforehand into panels `[n / nr][k][nr]`, zero padded in n. Accumulators stay in registers over all
of k, so that what follows a product (bias, activation, residual) works on them, before they are first stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from ..hlo.types import TYPES
from ..loop.affine import ZERO, Affine
from ..loop.builder import Builder
from ..loop.ir import Loop, Val
from ..loop.nest import fold
from .tiles import Tile

Store = Callable[[tuple[Affine, ...], Affine, Affine, Val], None]
"""Takes the outer index, m, n and the product there: a vector along n, or a scalar."""


@dataclass(frozen=True, slots=True)
class Gemm:
    """out[outer, m, n] = sum over k of lhs[outer, m, k] * rhs[outer, k, n]. Strides count elements."""

    dtype: str
    """f32, f64, s32 or u32, also of the result."""
    outer: tuple[tuple[int, int, int], ...]
    """Batches, or a convolution's images and rows: (size, lhs stride, rhs stride in the packed rhs, 0 if shared)."""
    m: int
    m_stride: int
    n: int
    segments: tuple[tuple[int, int], ...]
    """k runs over these, (count, lhs stride), and a contiguous run: a convolution's kernel rows and taps."""
    run: int

    @property
    def k(self) -> int:
        return self.run * prod(count for count, _ in self.segments)


def packed_size(g: Gemm, tile: Tile) -> int:
    """The elements of one packed right side."""
    return g.k * -(-g.n // tile.nr) * tile.nr


class _Writer:
    """Writes one GEMM into a kernel."""

    def __init__(self, b: Builder, g: Gemm, tile: Tile, lhs: tuple[int, int], rhs: int, store: Store):
        self.b = b
        self.g = g
        self.tile = tile
        self.lhs = b.pointer(lhs[0])
        self.lhs_offset = lhs[1]
        self.rhs = b.pointer(rhs)
        self.store = store
        self.lanes = 16 // TYPES[g.dtype].bytes
        self.zero = b.const(g.dtype, 0)
        self.panels = -(-g.n // tile.nr)
        # Where one row of a convolution's output is short, rows stay together below the panel that they share.
        self.inner = 0
        rows = g.m
        for size, _, rhs_stride in reversed(g.outer):
            if rhs_stride or rows * size > tile.rows:
                break
            rows *= size
            self.inner += 1
        self.folded = prod(size for size, _, _ in g.outer[len(g.outer) - self.inner :])

    def run(self) -> None:
        """Loops over the outer dimensions, groups of rows and panels; the outermost is the range that callers may split."""
        outer = self.g.outer[: len(self.g.outer) - self.inner]
        ranged = next((d for d, (size, _, _) in enumerate(outer) if size > 1), None)

        def level(d: int, index: tuple[Affine, ...]) -> None:
            if d == len(outer):
                self.groups(index, ranged is None)
            else:
                with self.b.loop(outer[d][0], ranged=d == ranged) as i:
                    level(d + 1, (*index, i))

        level(0, ())

    def groups(self, outer: tuple[Affine, ...], ranged: bool) -> None:
        """Splits the rows into groups that stay in the second-level cache while all panels pass."""
        mr, m = self.tile.mr, self.g.m
        blocks, rest = divmod(m, mr)
        size = _group(blocks, max(1, min(self.tile.rows, _CACHE // (self.g.k * TYPES[self.g.dtype].bytes)) // mr))
        count = blocks // size if size else 0
        if self.inner or count <= 1:
            self.columns(outer, ZERO, blocks, rest, ranged)
            return
        b = self.b
        loop = b.open_loop(count, size * mr, ranged=ranged)
        self.columns(outer, Affine(0, ((loop, 1),)), size, 0, False)
        if count * size < blocks or rest:
            with b.when(self.at(loop, count - 1)):
                self.columns(outer, Affine(count * size * mr), blocks - count * size, rest, False)
        b.close_loop(loop)

    def at(self, loop: Loop, trip: int) -> Val:
        return self.b.eq(self.b.variable(loop), self.b.const("s32", trip * loop.step))

    def columns(self, outer: tuple[Affine, ...], m: Affine, blocks: int, rest: int, ranged: bool) -> None:
        """All panels for `blocks` tiles of rows from `m` on and `rest` rows more."""
        b, nr, n = self.b, self.tile.nr, self.g.n
        tail = n % nr
        loop = b.open_loop(self.panels, nr, vector=nr > 1, ranged=ranged)
        panel = Affine(0, ((loop, 1),))
        if tail and self.panels > 1:
            last = self.at(loop, self.panels - 1)
            with b.when(b.eq(last, b.const("pred", False))):
                self.rows(outer, m, blocks, rest, panel, nr)
            with b.when(last):
                self.rows(outer, m, blocks, rest, panel, tail)
        else:
            self.rows(outer, m, blocks, rest, panel, tail or nr)
        b.close_loop(loop)

    def rows(self, outer: tuple[Affine, ...], m: Affine, blocks: int, rest: int, panel: Affine, columns: int) -> None:
        """All rows of one panel, of which `columns` columns exist."""
        folded = self.g.outer[len(outer) :]

        def level(index: tuple[Affine, ...]) -> None:
            if len(index) < len(self.g.outer):
                with self.b.loop(self.g.outer[len(index)][0]) as i:
                    level((*index, i))
                return
            if blocks:
                with self.b.loop(blocks, self.tile.mr) as i:
                    self.block(index, m + i, self.tile.mr, panel, columns)
            if rest:
                self.block(index, m + blocks * self.tile.mr, rest, panel, columns)

        del folded
        level(outer)

    def block(self, outer: tuple[Affine, ...], m: Affine, rows: int, panel: Affine, columns: int) -> None:
        """One tile: `rows` rows from `m` on."""
        b, g, lanes, nr = self.b, self.g, self.lanes, self.tile.nr
        x = m * g.m_stride + self.lhs_offset
        y = panel * g.k
        for i, (_, lhs_stride, rhs_stride) in zip(outer, g.outer):
            x = x + i * lhs_stride
            y = y + i * rhs_stride
        vectors = 1 if nr == 1 else -(-columns // lanes)

        def segment(index: tuple[Affine, ...], sums: list[Val]) -> list[Val]:
            at_x, k = x, ZERO
            for i, (count, stride) in zip(index, g.segments):
                at_x = at_x + i * stride
                k = k * count + i
            return (self.dots if nr == 1 else self.products)(at_x, y + k * (g.run * nr), sums, vectors)

        counts = tuple(count for count, _ in g.segments)
        sums = fold(b, counts, [b.splat(self.zero, lanes)] * (rows * vectors), lanes, segment)
        for r in range(rows):
            if nr == 1:
                self.store(outer, m + r, panel, self.total(sums[r]))
                continue
            for j in range(vectors):
                value = sums[r * vectors + j]
                if (j + 1) * lanes <= columns:
                    self.store(outer, m + r, panel + j * lanes, value)
                    continue
                first = (self.panels - 1) * nr + j * lanes
                for lane in range(columns - j * lanes):
                    self.store(outer, m + r, Affine(first + lane), b.lane(value, lane))

    def products(self, x: Affine, y: Affine, sums: list[Val], vectors: int) -> list[Val]:
        """Adds the outer products of one contiguous run of k."""
        b, g, lanes, nr = self.b, self.g, self.lanes, self.tile.nr
        rows = range(len(sums) // vectors)
        dtype = g.dtype

        def step(sums: Sequence[Val], splats: Callable[[int], Val], y: Affine, loop: Loop | None = None) -> list[Val]:
            if loop and self.tile.barrier and self.first:
                b.barrier(loop, sums)
            self.first = True
            right = [b.load_lanes(self.rhs, y + j * lanes, dtype) for j in range(vectors)]
            sums = list(sums)
            for r in rows:
                if loop and self.tile.barrier and r and r % self.tile.barrier == 0:
                    b.barrier(loop, sums)
                left = splats(r)
                for j in range(vectors):
                    at = r * vectors + j
                    if self.tile.tie:
                        sums[at] = b.pin(b.fma(right[j], left, sums[at]))
                    else:
                        sums[at] = b.pin(b.fma(left, right[j], sums[at]))
            return sums

        def scalar(x: Affine) -> Callable[[int], Val]:
            return lambda r: b.splat(b.load_at(self.lhs, x + r * g.m_stride, dtype), lanes)

        def reload(x: Affine, u: int) -> Callable[[int], Val]:
            return lambda r: b.splat_lane(b.load_lanes(self.lhs, x + r * g.m_stride, dtype, False), u)

        unroll = self.tile.unroll if self.tile.scalar else lanes
        trips, rest = divmod(g.run, unroll)
        if trips:
            loop = b.open_loop(trips, unroll)
            carries = [b.carry(loop, s, lanes) for s in sums]
            sums = [c.value for c in carries]
            k = Affine(0, ((loop, 1),))
            left = [] if self.tile.scalar else [b.load_lanes(self.lhs, x + k + r * g.m_stride, dtype) for r in rows]
            self.first = False
            for u in range(unroll):
                splats = scalar(x + k + u) if self.tile.scalar==1 else reload(x+k,u) if self.tile.scalar else lambda r, u=u: b.splat_lane(left[r], u)
                sums = step(sums, splats, y + k * nr + u * nr, loop)
            for carry, value in zip(carries, sums):
                carry.next = value
            b.close_loop(loop)
            sums = [c.result for c in carries if c.result is not None]
        for k in range(g.run - rest, g.run):
            sums = step(sums, scalar(x + k), y + k * nr)
        return sums

    def dots(self, x: Affine, y: Affine, sums: list[Val], vectors: int) -> list[Val]:
        raise NotImplementedError

    def total(self, value: Val) -> Val:
        raise NotImplementedError


def gemm_kernel(b: Builder, g: Gemm, tile: Tile, lhs: tuple[int, int], rhs: int, store: Store) -> None:
    """Writes a GEMM: `lhs` is a buffer and the first element in it, `rhs` a buffer with packed right sides."""
    _Writer(b, g, tile, lhs, rhs, store).run()


_CACHE = 256 << 10
"""Bytes of left rows that stay cached while the panels pass."""


def _group(blocks: int, most: int) -> int:
    """How many blocks of rows make a group: at most `most` or so, and few blocks left over."""
    if blocks <= most:
        return blocks
    return min(range(most, (most + 1) // 2 - 1 or 1, -1), key=lambda size: (blocks % size, -size))
