"""The parameters of a matrix product's kernel, and the register tile that suits it."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ..dataclass import dataclass, replace
from ..hlo.types import BYTES, PAIRED, TYPES
from ..target import RELAXED_SIMD, V8, WASMTIME, Target


@dataclass(frozen=True, slots=True)
class Types:
    """Element types of a product. What it loads becomes the type of its sums, and these the type of its result."""

    left: str
    """Of the numbers of the left side in memory."""
    right: str
    """Of those of the right side, in memory and in panels."""
    accumulator: str
    """f32, f64, s32 or u32: in this the products are taken and added."""
    result: str
    pairs: bool = False
    """True if an element of a side is two numbers of s16, s8 or u8 along k: each step takes two products. If the right
    side is in blocks it is so of the left one alone."""
    block: int = 0
    """The numbers along k of the right side, which is in 4 bits then, that have one scale; a multiple of `WORD`. If the
    left side is of s8, as many of its numbers have one, too."""
    has_infinities: bool = False
    """True if a right side in f16 may have infinities and NaN."""

    @classmethod
    def all(cls, dtype: str) -> Types:
        """One type for everything."""
        return cls(dtype, dtype, dtype, dtype)

    @property
    def left_element(self) -> str:
        """The type as which an element of the left side is stored."""
        return "s32" if self.both_in_blocks else _PAIR_OF[self.left] if self.pairs else self.left

    @property
    def left_step(self) -> int:
        """Numbers along k in an element of the left side."""
        return QUAD if self.both_in_blocks else 2 if self.pairs else 1

    @property
    def in_blocks(self) -> bool:
        """True if the right side is packed as words of eight numbers, and has a scale for each block of them."""
        return self.block > 0

    @property
    def both_in_blocks(self) -> bool:
        """True if the left side has scales for blocks as well: then an element of it is a quad of bytes."""
        return self.in_blocks and self.left == "s8"

    @property
    def right_element(self) -> str:
        """The type as which an element of the right side is stored."""
        if self.in_blocks:
            return "s32"
        return _PAIR_OF[self.right] if self.pairs else self.right


WORD = 8
"""Numbers of 4 bits in a word."""
QUAD = 4
"""Bytes that are multiplied at once."""
_PAIR_OF = {"s16": "s32", "s8": "s16", "u8": "u16"}
"""Types as wide as two numbers."""


@dataclass(frozen=True, slots=True)
class Gemm:
    """out[outer, m, n] = sum over k of lhs[outer, m, k] * rhs[outer, k, n]. Strides count elements."""

    types: Types
    outer: tuple[tuple[int, int, int], ...]
    """Batches, or a convolution's images and rows: (size, lhs stride, stride in the packed rhs: 0 if shared). What a
    kernel is written for has none of size 1."""
    m: int
    m_stride: int
    n: int
    segments: tuple[tuple[int, int], ...]
    """The loops of k around its contiguous run: (count, lhs stride), a convolution's kernel rows and taps."""
    run: int
    k_stride: int = 0
    """Of the right side, if it is read where it lies. 0: it is packed."""
    n_stride: int = 1
    """Of the right side where it lies: either this is 1, or `k_stride` is."""

    def __str__(self) -> str:
        outer = "".join(f"{count} x " for count, _, _ in self.outer)
        return f"{outer}{self.m}x{self.k}x{self.n} of {self.types.left} by {self.types.right}"

    @property
    def k(self) -> int:
        return self.run * prod(count for count, _ in self.segments)

    @property
    def blocks(self) -> int:
        """The number of blocks of k."""
        return self.k * self.types.left_step // self.types.block

    @property
    def block_rows(self) -> int:
        """Rows of words of a block."""
        return self.types.block // WORD

    @property
    def packed_rows(self) -> int:
        """Rows of a packed panel."""
        return self.blocks * self.block_rows if self.types.in_blocks else self.k

    @property
    def lanes(self) -> int:
        """Sums in a vector."""
        return 16 // TYPES[self.types.accumulator].bytes

    @property
    def vectors(self) -> int:
        """Vectors that a row of sums fills."""
        return -(-self.n // self.lanes)

    @property
    def is_float(self) -> bool:
        """True if the order of the sums shows, and a product and its sum can be one operation."""
        return TYPES[self.types.accumulator].kind == "float"


@dataclass(frozen=True, slots=True)
class Tile:
    """`mr` rows by `nr` columns of accumulators. With `nr` 1, vectors run along k and each row is a dot product."""

    mr: int
    nr: int
    scalar: bool = False
    """Reads the left side element by element and takes one step along k a trip; else a vector, hence several steps."""
    squares: bool = False
    """Finishes sums of 2 x 2 vectors before it loads what the next ones need, some steps along k a trip."""
    streams: int = 1
    """So many parts of k are walked side by side: where memory is the limit it gives more to several streams than to
    one. With `nr` 1 it is parts of the rows."""
    stripes: int = 1
    """So many parts of a panel's columns lie in stripes, each behind the same part of the panel before: streams, too,
    and longer ones."""
    span: int = 0
    """Panels that all rows pass before the next ones, a part of the range for threads to share; 0: the range is that of
    the rows."""
    part: int = 0
    """Steps along k that pass all panels before the next ones, while sums wait in scratch memory; 0: all of k at
    once."""
    first: int = 0
    """So many rows read a right side where it lies, all `nr` columns, whole lines of the caches, and pack it for tiles
    of `mr` rows by half of the columns. 0: all tiles have `nr` columns."""
    ahead: int = 0
    """So many panels of a right side where it lies are packed together before any rows pass them. 0: the first rows
    read them there."""

    def __str__(self) -> str:
        counts = [f"{n} {name}" for n, name in ((self.streams, "streams"), (self.stripes, "stripes")) if n > 1]
        parts = [f"{name} {n}" for n, name in ((self.span, "panels at a time:"), (self.part, "k in parts of")) if n]
        parts += [f"behind {self.first} rows in halves"] if self.first else []
        parts += [f"packed ahead: {self.ahead}"] if self.ahead else []
        ways = [name for how, name in ((self.scalar, "one step of k a trip"), (self.squares, "in squares")) if how]
        return ", ".join([f"tile {self.mr}x{self.nr}", *ways, *counts, *parts])

    @property
    def stripe(self) -> int:
        """Columns of a panel that lie side by side."""
        return self.nr // self.stripes


CACHE = 256 << 10
"""Bytes that stay in the second-level cache while others pass."""
_FAR = 8 * CACHE
"""Bytes of a left side that comes from beyond that cache for each panel, fast enough."""
ROWS = 64
"""Rows after which reading a panel of the right side is as good as free."""
_SHARES = 8
"""Groups of rows that leave threads enough to share."""
_SPANS = 16
"""Parts of a product that leave threads enough to share, however fast each is."""
_CHAIN = 1024
"""Products of floats in one sum: longer sums are made of such parts, so that their error grows no further."""
_UNPACKED = 4
"""Rows of f32 up to which each tile makes f32 of numbers of 4 bits for itself."""
_QUAD_ROWS = 8
"""Rows from which products in quads pay: of each panel they take the sums of its columns first, which is the work of a
row."""
_PAIRS = 16
"""Pairs along k from which their widened panels, or products in quads, do."""
_STREAM = 32
"""Steps along k that a stream is worth."""
_LINE = 128
"""Bytes of two lines of the caches, which are fetched together."""
_LINES = 2
"""Rows that read a right side where it lies by whole lines of the caches."""
_PAGE = 4096
"""Bytes from which on rows lie far from each other: each in a page of memory of its own."""
_PANEL = 256 << 10
"""Bytes of a panel of four vectors beyond which narrower panels, read half as often, are better for the caches."""


def _fused(g: Gemm, target: Target) -> bool:
    return target.fused and g.is_float


def _in_squares(g: Gemm, target: Target) -> bool:
    """Returns True if sums are finished by squares: Cranelift needs them to keep eight in registers, V8 does not."""
    return _fused(g, target) and target.tune != V8


def _narrow_panels(g: Gemm) -> bool:
    """Returns True if panels of four vectors would be half empty, or too large for the caches."""
    return 0 < g.vectors % 4 <= 2 and g.vectors < 32 or g.k * 64 > _PANEL


def _even_width(g: Gemm, most: int) -> int:
    """Vectors of a panel, so many at most; fewer if all panels are full then."""
    most = min(g.vectors, most)
    even = [width for width in range(most, 3, -1) if g.n % (width * g.lanes) == 0]
    return even[0] if even else most


def _reads_lines(g: Gemm, target: Target) -> bool:
    """Returns True if V8 had better have two rows read a right side where it lies, since tiles of six rows would leave
    one or two over, and its rows lie near each other."""
    near = g.n_stride == 1 and g.k_stride * TYPES[g.types.right].bytes < _PAGE
    return near and _is_uneven(g, target) and g.vectors % 4 == 0


def _is_uneven(g: Gemm, target: Target) -> bool:
    """Returns True if V8 reads a right side where it lies, and tiles of six rows would leave one or two over."""
    return g.k_stride > 0 and g.m > 6 and not _in_sixes(g) and _fused(g, target) and target.tune == V8


def _in_sixes(g: Gemm) -> bool:
    """Returns True if tiles of six rows leave few or enough over."""
    return g.m > 36 or g.m % 6 not in (1, 2)


def _even_rows(rows: int) -> int:
    """Returns the rows of tiles, six at most, that leave few over."""
    return -(-rows // -(-rows // 6))


_TABLE: tuple[tuple[Callable[[Gemm, Target], bool], Callable[[Gemm, Target], Tile]], ...] = (
    # what is unpacked is multiplied by several rows: 1x768x3072 is 0.9 of the time in 8 bits, 16x768x3072 that in f32
    (
        lambda g, _: g.types.in_blocks and g.m == 1,
        lambda g, _: Tile(1, _even_width(g, 8 if g.types.both_in_blocks else 6) * g.lanes, scalar=True),
    ),
    (lambda g, _: g.types.in_blocks and not unpacks(g), lambda g, _: Tile(2, _even_width(g, 4) * g.lanes, scalar=True)),
    # memory is the limit: 4096x1024x1 27 and 27, fused 19 and 18
    (lambda g, _: g.n <= 2 and g.run >= 4 * g.lanes, lambda g, _: Tile(4, 1)),
    # 1024x512x4: 58 and 59, fused 43 and 47
    (lambda g, _: g.vectors == 1, lambda g, _: Tile(min(g.m, 8), g.lanes, scalar=True)),
    # memory again: 1x4096x1024 26 and 22, fused 18 and 17
    (lambda g, _: g.m == 1, lambda g, _: Tile(1, _even_width(g, 8) * g.lanes, scalar=True)),
    # read where it lies: 7x768x768 80, in V8 by 2 rows each 71
    (_reads_lines, lambda g, _: Tile(_even_rows(g.m - _LINES), 4 * g.lanes, first=_LINES, scalar=True)),
    (_is_uneven, lambda g, _: Tile(_even_rows(g.m), 2 * g.lanes, scalar=True)),
    # 512x512x512: fused 45 and 97; 128x384x384: V8 96
    (
        lambda g, t: _fused(g, t) and t.tune == V8 and _in_sixes(g),
        lambda g, _: Tile(6, 2 * g.lanes, scalar=True),
    ),
    # 512x512x24: 86 and 85, fused 76 and 83; a row of 7 pixels, 3x3x512 to 512: 76 and 73, fused 73 and 75
    (
        lambda g, _: _narrow_panels(g),
        lambda g, t: Tile(min(g.m, 4), 2 * g.lanes, scalar=_fused(g, t), squares=_in_squares(g, t)),
    ),
    # 512x512x512: 91 and 90, fused 86 and 95; 12 x 128x32x128: 97 and 95, fused 82 and 90
    (lambda g, _: True, lambda g, t: Tile(2, 4 * g.lanes, scalar=_fused(g, t), squares=_in_squares(g, t))),
)
"""(for which products, tile): the first that suits is taken.

The numbers are the best shares, in percent, of the peak of the same operations under wasmtime and in V8, as `python -m
benchmarks.gemm` measured them for a product m x k x n.

At least eight accumulators hide an addition's latency, and 16 registers hold all. With fused operations, for each of
which it copies a factor, Cranelift spills eight accumulators of an unrolled loop, unless they are finished in squares:
then what is loaded and copied for one square is gone before the next, and eight stay where they are. V8 has room for
twelve.
"""


def tile(g: Gemm, target: Target) -> Tile:
    """The tile for a product."""
    found = _tile(g, target)
    found = replace(found, part=_part(g, found, target))
    return replace(found, span=_span(g, found)) if target.threads else found


def _part(g: Gemm, tile: Tile, target: Target) -> int:
    """The steps of a part of k. Of many long rows few would stay cached, and all panels come from beyond the caches for
    so few. Of shorter parts more rows stay there: in V8 that is worth more than what it costs to let sums wait."""
    if not chain_of(g) or g.k_stride or packs_panels(g, tile) or g.types.in_blocks or g.segments or tile.nr == 1:
        return 0
    if g.m <= 4 * ROWS or not all(right for _, _, right in g.outer):
        return 0
    return (target.tune == V8 and _divisor(g.run, _CHAIN // 4)) or _divisor(g.run, _CHAIN // 2)


def _divisor(number: int, most: int) -> int:
    """Returns the largest divisor of a number up to `most`, if it is more than half of that; else 0."""
    return next((part for part in range(most, most // 2, -1) if number % part == 0), 0)


def _span(g: Gemm, tile: Tile) -> int:
    """The panels of a span, 0 where groups of rows are enough for threads. Spans are alike, the last panel as wide as
    others."""
    panels = -(-g.n // tile.nr)
    groups = g.m // max(group_of_rows(g, tile), 1)
    if (
        tile.nr == 1
        or g.n % tile.nr
        or g.k_stride
        or groups < 2
        or groups >= _SPANS
        or panels < 2 * groups
        or tile.part
        or g.outer
    ):
        return 0
    least = min(_SPANS, panels)
    return max(width for width in range(1, panels + 1) if panels % width == 0 and panels // width >= least)


def _tile(g: Gemm, target: Target) -> Tile:
    found = next(chosen(g, target) for suits, chosen in _TABLE if suits(g, target))
    size = g.k * g.n * TYPES[g.types.right_element].bytes
    if found.nr == g.n == 1:
        far = g.m >= found.mr and g.m * g.k * TYPES[g.types.left_element].bytes > CACHE
        return replace(found, streams=found.mr) if far else found
    ahead = _ahead(g, found, size, _SHARES if target.threads else 1)
    if ahead:
        return replace(found, ahead=ahead)
    if found.nr == 1 or not found.scalar or g.segments or size <= CACHE or g.types.in_blocks:
        return found
    most = 4 if g.m <= found.mr else 2
    stripes = 1 if g.k_stride else _stripes(g, found, most)
    # Of more rows, two tiles compute for as long as one stream takes; rows of a right side that is read where it lies
    # are no stream.
    parts = most // stripes if g.m <= (3 if g.k_stride else 2) * found.mr else 1
    return replace(found, streams=max(min(parts, g.run // _STREAM), 1), stripes=stripes)


def _ahead(g: Gemm, tile: Tile, size: int, least: int) -> int:
    """Returns the panels of a right side of so many bytes that are packed together ahead, 0 if none are. Columns that
    lie contiguously are turned on the way; of rows that do a panel has half a line or less, whose rest would be gone
    from the caches before the next panel. `least`: the parts of the panels that are packed one after another, for
    threads to share."""
    if not g.k_stride or tile.nr == 1 or tile.first:
        return 0
    if g.n_stride != 1:
        return 1
    together = _LINE // (tile.nr * TYPES[g.types.right].bytes)
    if together < 2 or g.m <= tile.mr or size <= CACHE:
        return 0
    parts, rest = divmod(g.n, together * tile.nr)
    return together if not rest and parts >= least else 0


def _stripes(g: Gemm, tile: Tile, most: int) -> int:
    """Into how many stripes of whole vectors the panels of a right side from beyond the caches go: `most`, the fewest
    above that, or else the most."""
    width = tile.nr // g.lanes
    possible = [stripes for stripes in range(1, width + 1) if width % stripes == g.k % stripes == 0]
    return next((stripes for stripes in possible if stripes >= most), possible[-1])


def reads_in_place(g: Gemm, tile: Tile) -> bool:
    """Returns True if a right side whose rows or columns are contiguous is best read where it lies: then all rows pass
    a panel in one group.

    The first rows read it there and pack it for the others, or it is packed ahead of them. Of rows that lie
    contiguously the last panel must be as wide as the others.
    """
    shared = any(not right for _, _, right in g.outer)
    if tile.nr == 1:
        return g.n == 1 and g.types.right_element == g.types.accumulator and not shared
    left = g.m * g.k * TYPES[g.types.left_element].bytes
    fits = g.types.right_element == g.types.accumulator and (g.n_stride != 1 or g.n % tile.nr == 0)
    most = _FAR if tile.ahead else CACHE
    return fits and not shared and not g.segments and left <= most and (tile.ahead > 0 or g.m <= 2 * ROWS)


def chain_of(g: Gemm) -> int:
    """Returns the number of products of a contiguous run that go into one part of a sum; 0 if the whole sum is one."""
    if not g.is_float or g.k <= _CHAIN:
        return 0
    parts = -(-g.run // _CHAIN)
    return -(-g.run // (parts * g.lanes)) * g.lanes


def group_of_rows(g: Gemm, tile: Tile) -> int:
    """Returns the number of rows, a multiple of the tile's, that pass a panel before the next one: they stay cached
    meanwhile."""
    blocks = g.m // tile.mr
    if g.k_stride:
        return blocks * tile.mr
    most = CACHE // ((tile.part or g.k) * TYPES[g.types.left_element].bytes)
    rows = min(max(g.m // _SHARES, ROWS // 4), 4 * ROWS if tile.part else ROWS, most)
    most = max(rows // tile.mr, 4)
    if blocks <= most:
        return blocks * tile.mr
    sizes = [*range(most, most // 2, -1), *range(most + 1, 2 * most)]  # best such that none is left over, else few
    return min(sizes, key=lambda size: blocks % size) * tile.mr


def unpacks(g: Gemm) -> bool:
    """Returns True if a panel is made f32 before any row passes it: else each row's tile does so with what it loads."""
    return g.types.in_blocks and g.types.left_step == 1 and g.m > _UNPACKED


def packs_panels(g: Gemm, tile: Tile) -> bool:
    """Returns True if the first rows that pass a panel pack it for the others: one that they read where it lies, or in
    a type of its own."""
    if g.types.in_blocks or tile.ahead:
        return False
    as_multiplied = g.types.right == PAIRED or g.run < _PAIRS if g.types.pairs else g.types.right == g.types.accumulator
    return tile.nr > 1 and g.m > tile.mr and bool(g.k_stride or not as_multiplied)


def takes_quads(g: Gemm, tile: Tile, target: Target) -> bool:
    """Returns True if the kernel takes products in quads of bytes where the engine does so exactly; Cranelift has no
    instruction that does."""
    if RELAXED_SIMD not in target.features or target.tune == WASMTIME or not g.types.pairs:
        return False
    if g.types.left not in BYTES or g.types.right not in BYTES or tile.nr % (2 * g.lanes):
        return False
    return g.m >= _QUAD_ROWS and g.run >= _PAIRS


def scratch_size(g: Gemm, tile: Tile) -> int:
    """The elements of memory of its own that the kernel needs: for a panel that it packs, or for sums that wait."""
    if tile.part:
        return group_of_rows(g, tile) * (tile.part + g.lanes + waiting_columns(g, tile))
    return g.k * tile.nr * max(tile.ahead, packs_panels(g, tile) or unpacks(g))


def waiting_columns(g: Gemm, tile: Tile) -> int:
    """The columns whose sums wait while the next part of k passes."""
    return -(-g.n // tile.nr) * tile.nr


def narrow_columns(columns: int, tile: Tile) -> int:
    """The columns of the tiles below the first rows, in a panel of so many."""
    return columns // 2 if tile.first else columns


def scales_of(g: Gemm) -> Gemm:
    """The product whose right side is the scales of blocks, and whose left side those of the left one, if it has
    any."""
    block = g.types.block // g.types.left_step
    outer = tuple([(size, left // block, right // g.block_rows) for size, left, right in g.outer])
    return replace(g, types=Types.all("f32"), outer=outer, m_stride=g.m_stride // block, segments=(), run=g.blocks)


def packed_size(g: Gemm, tile: Tile) -> int:
    """The elements of one packed right side."""
    return g.packed_rows * -(-g.n // tile.nr) * tile.nr


def place_in_panel(g: Gemm, tile: Tile, column: int) -> int:
    """Returns the distance in elements of a column of a packed panel from its first one."""
    stripe, inside = divmod(column, tile.stripe)
    return stripe * (packed_size(g, tile) // tile.stripes) + inside
