"""The sides of a matrix product in memory, and how a kernel loads from them."""

from __future__ import annotations

from collections.abc import Callable

from ..dataclass import dataclass, replace
from ..hlo.types import PAIRED
from ..loop.affine import Affine, Index
from ..loop.builder import Builder
from ..loop.ir import Val
from .tiles import Gemm, Tile, place_in_panel, scales_of

Store = Callable[[Index, Affine, Affine, Val], None]
"""Takes the outer index, m, n and the product there: a vector where n runs along lanes, else a scalar."""
Spill = Callable[[Index, Affine, Affine], tuple[int, Affine]]
"""A buffer and the position in it for the product at (outer index, m, n); n must have stride 1."""


@dataclass(frozen=True, slots=True)
class Sides:
    """The places of a GEMM's sides and products."""

    lhs: tuple[int, int]
    """A buffer and the first element in it."""
    rhs: int
    """A buffer with packed right sides; if the `Gemm` tells where rows of these lie, they are read there."""
    store: Store
    """Its code appears once for every vector of a tile."""
    spill: Spill | None = None
    """If `store` is long: a place for raw products, which is not what `store` reads. `store` becomes a loop over
    them."""
    scratch: int | None = None
    """A buffer of `scratch_size` elements of the sums' type, if that is not 0."""
    scales: int | None = None
    """A buffer with the packed scales of blocks."""
    lhs_scales: int | None = None
    """A buffer with the scales of the left side's blocks: they lie as these do."""


@dataclass(frozen=True, slots=True)
class Right:
    """A panel of the right side."""

    pointer: Val
    start: Affine
    k_stride: int
    dtype: str
    packs: bool = False
    """True if it goes to the scratch memory as well."""
    beginning: tuple[Val, ...] = ()
    """The first values of its columns' sums, a vector after the other, if products are taken in quads; empty: 0."""


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


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one tile: `count` rows from row `m` on, so far `apart`."""

    outer: Index
    m: Affine
    count: int
    apart: int = 1


class Loads:
    """Loads from the sides of one GEMM."""

    def __init__(self, b: Builder, g: Gemm, tile: Tile, sides: Sides):
        self.b, self.g, self.tile = b, g, tile
        lhs, self.lhs_offset = sides.lhs
        self.lhs, self.lhs_pure = b.pointer(lhs), lhs not in b.written
        self.rhs = b.pointer(sides.rhs)
        self.scales = None if sides.scales is None else b.pointer(sides.scales)
        self.lhs_scales = None if sides.lhs_scales is None else b.pointer(sides.lhs_scales)
        self.scratch = None if sides.scratch is None else b.pointer(sides.scratch)

    def constant(self, dtype: str, value: float) -> Val:
        """A number in all lanes of a vector of sums."""
        return self.b.splat(self.b.const(dtype, value), self.g.lanes)

    @property
    def zero(self) -> Val:
        """The first value of sums."""
        return self.constant(self.g.types.accumulator, 0)

    @property
    def zero_halves(self) -> Val:
        return self.b.splat(self.b.const(PAIRED, 0), 2 * self.g.lanes)

    def right(self, outer: Index, n: Affine) -> Right:
        """The panel from column `n` on."""
        g = self.g
        apart = g.n_stride if g.k_stride else g.packed_rows // self.tile.stripes
        start = _column(g, outer, n * apart)
        return Right(self.rhs, start, g.k_stride or self.tile.stripe, g.types.right)

    def left(self, outer: Index, m: Affine) -> Left:
        """The rows from row `m` on."""
        g = self.g
        return Left(self.lhs, _row(g, outer, m) + self.lhs_offset, g.m_stride, g.types.left, self.lhs_pure)

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

    def elements(self, x: Left, row: int, k: Affine, pair: int | None = None) -> Val:
        """Consecutive elements of a row, in the type of the sums. `pair` as in `vector`."""
        return self.vector(x.pointer, x.start + k + row * x.m_stride, x.dtype, x.pure, pair)

    def element(self, x: Left, row: int, k: Affine) -> Val:
        """An element of a row in all lanes: in the type of the sums, or a pair of s16."""
        b, types, at = self.b, self.g.types, x.start + k + row * x.m_stride
        dtype = "s32" if types.pairs else types.accumulator
        if x.dtype == dtype or types.pairs and x.dtype == PAIRED:
            return b.load_splat(x.pointer, at, dtype, pure=x.pure)
        if not types.pairs:
            return b.splat(b.convert(b.load_at(x.pointer, at, x.dtype, pure=x.pure), dtype), self.g.lanes)
        pair = b.halves(b.splat(b.load_at(x.pointer, at, PAIRED, pure=x.pure), 2 * self.g.lanes))
        return b.joined(b.bitcast(b.extend_low(b.bitcast(pair, x.dtype)), PAIRED))

    def vector(self, pointer: Val, at: Affine, dtype: str, pure: bool = True, pair: int | None = None) -> Val:
        """Consecutive elements from memory, in the type of the sums: each a number of type `dtype`, or a pair of them.

        `pair`: there is a second vector that lies side by side with this one; this is the first, or the second of both.
        """
        b, types = self.b, self.g.types
        if pair is not None and self.loads_two(dtype):
            # One load gives two vectors, and one shuffle with zeros each, of which these numbers are the upper halves.
            both = b.load_lanes(pointer, at - pair * self.g.lanes, PAIRED, 2 * self.g.lanes, pure)
            first, count = pair * self.g.lanes, 2 * self.g.lanes
            interleaved = tuple(i for lane in range(first, first + self.g.lanes) for i in (lane, count + lane))
            return self.widened(b.joined(b.shuffle(self.zero_halves, both, interleaved)), dtype)
        if not types.pairs or dtype == types.accumulator:
            return b.convert(b.load_lanes(pointer, at, dtype, pure=pure), types.accumulator)
        if dtype == PAIRED:
            return b.load_lanes(pointer, at, types.accumulator, pure=pure)
        return b.joined(b.bitcast(b.load_lanes(pointer, at * 2, dtype, 2 * self.g.lanes, pure), PAIRED))

    def widened(self, x: Val, dtype: str) -> Val:
        """Numbers of a small float, the upper halves of words, as f32: f16 without infinities and NaN, which scales
        stand for, unless the types say that it has them."""
        b = self.b
        if dtype == "bf16":
            return b.bitcast(x, "f32")
        # The exponent has three bits more there, and another zero.
        moved = b.and_(b.shr_s(x, 3), self.constant("s32", -0x70002000))
        value = b.mul(b.bitcast(moved, "f32"), self.constant("f32", 2.0**112))
        if not self.g.types.has_infinities:
            return value
        ones, bits = self.constant("s32", 0x0F800000), b.bitcast(value, "s32")
        infinite = b.or_(bits, self.constant("s32", 0x7F800000))
        return b.bitcast(b.select(b.eq(b.and_(moved, ones), ones), infinite, bits), "f32")

    @staticmethod
    def loads_two(dtype: str) -> bool:
        """Returns True if one load gives two vectors, which are widened to f32."""
        return dtype in ("bf16", "f16")

    def scales_at(self, outer: Index, n: Affine) -> Right:
        """The scales of the panel from column `n` on."""
        assert self.scales is not None
        g = scales_of(self.g)
        return Right(self.scales, _column(g, outer, n * g.k), self.tile.nr, "f32")

    def scales_of_rows(self, rows: Rows) -> Left:
        """The scales of a tile's rows."""
        assert self.lhs_scales is not None
        g = scales_of(self.g)
        return Left(self.lhs_scales, _row(g, rows.outer, rows.m), g.m_stride, "f32")


def _row(g: Gemm, outer: Index, m: Affine) -> Affine:
    """Returns the place of row `m` of the left side."""
    return sum((i * stride for i, (_, stride, _) in zip(outer, g.outer)), m * g.m_stride)


def _column(g: Gemm, outer: Index, first: Affine) -> Affine:
    """Returns the place of a column of a right side, `first` in the first one."""
    return sum((i * stride for i, (_, _, stride) in zip(outer, g.outer)), first)
