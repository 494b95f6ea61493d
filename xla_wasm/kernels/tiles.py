"""What a matrix product is to the kernels, and the register tile that suits it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ..hlo.types import TYPES
from ..target import V8, WASMTIME, Target


@dataclass(frozen=True, slots=True)
class Gemm:
    """out[outer, m, n] = sum over k of lhs[outer, m, k] * rhs[outer, k, n]. Strides count elements."""

    dtype: str
    """f32, f64, s32 or u32; also that of the result."""
    outer: tuple[tuple[int, int, int], ...]
    """Batches, or a convolution's images and rows: (size, lhs stride, stride in the packed rhs: 0 if shared)."""
    m: int
    m_stride: int
    n: int
    segments: tuple[tuple[int, int], ...]
    """What k runs over before its contiguous run: (count, lhs stride), a convolution's kernel rows and taps."""
    run: int

    @property
    def k(self) -> int:
        return self.run * prod(count for count, _ in self.segments)

    @property
    def lanes(self) -> int:
        """Elements in a vector."""
        return 16 // TYPES[self.dtype].bytes


@dataclass(frozen=True, slots=True)
class Tile:
    """`mr` rows by `nr` columns of accumulators. With `nr` 1, vectors run along k and each row is a dot product."""

    mr: int
    nr: int
    scalar: bool = False
    """Reads the left side element by element and takes one step along k a trip; else a vector, hence several steps."""


def tile(g: Gemm, target: Target) -> Tile:
    """The tile for a product, as measured: at least eight accumulators hide an addition's latency, and 16 registers hold all.

    With fused operations, for each of which it copies a factor, Cranelift spills eight accumulators of an unrolled loop, so tiles for all
    engines read scalars then. Six it keeps, and the fewer instructions of such a loop matter more. V8 has room for twelve.
    """
    lanes = g.lanes
    vectors = -(-g.n // lanes)
    fused = target.fused and g.dtype[0] == "f"
    if g.n <= 2 and g.run >= 4 * lanes:
        return Tile(4, 1)
    if vectors == 1:
        return Tile(min(g.m, 8), lanes, scalar=True)
    if g.m == 1:
        return Tile(1, min(vectors, 8) * lanes)
    if fused and target.tune == V8 and (g.m > 36 or g.m % 6 in (0, 3, 4, 5)):
        return Tile(6, 2 * lanes, scalar=True)
    if fused and target.tune == WASMTIME and vectors > 3 and (g.m >= 8 or g.m % 3 == 0):
        return Tile(3, 2 * lanes)
    half_empty = 0 < vectors % 4 <= 2 and vectors < 32
    if half_empty or g.k * 64 > _PANEL:
        return Tile(min(g.m, 4), 2 * lanes, scalar=fused)
    return Tile(2, 4 * lanes, scalar=fused)


_PANEL = 256 << 10
"""Bytes of a panel of four vectors beyond which narrower panels, read half as often, are better for the caches."""


def packed_size(g: Gemm, tile: Tile) -> int:
    """The elements of one packed right side."""
    return g.k * -(-g.n // tile.nr) * tile.nr
