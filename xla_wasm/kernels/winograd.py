"""Convolutions with windows of 3x3 by the algorithm of Winograd (Lavin and Gray, 2015): F(2x2, 3x3) and F(4x4, 3x3).

A tile of m x m results needs (m + 2)^2 elements of the image. Image tiles and weights are transformed, so that the
convolution is one product of matrices for each of the (m + 2)^2 places in a tile, and the products are transformed
back: 16 multiplications in place of 36, or 36 in place of 144. Tiles go in blocks whose transforms stay in the
second-level cache.

What is not finite would spread in its tile. Where a result is not, its tile is computed again, directly.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import reduce
from typing import NoReturn

from ..dataclass import dataclass
from ..loop.affine import ZERO, Affine, Index
from ..loop.arithmetic import in_pairs
from ..loop.builder import Builder
from ..loop.ir import Val
from ..loop.nest import along, fold
from .gemm import gemm_kernel
from .sides import Sides
from .tiles import Gemm, Tile, Types, packed_size

_NEAR = 512 << 10
"""Bytes of a block's transforms, of image and products, beyond which a larger block gains nothing by itself."""
_CACHE = 2 << 20
"""Bytes of the second-level cache."""
_MEMORY = 16 << 20
"""Bytes that a block may have."""
_SKEW = 16
"""Elements between the products of one place in a tile and of the next: else all might share one set of the first-level
cache."""


@dataclass(frozen=True, slots=True)
class Winograd:
    """A convolution of [batch, height, width, inputs] by [3, 3, inputs, outputs] in f32, in tiles of `tile` x `tile`
    results."""

    tile: int
    batch: int
    image: tuple[int, int]
    padding: tuple[int, int]
    """Rows above and columns left of the image."""
    out: tuple[int, int]
    inputs: int
    outputs: int

    @property
    def side(self) -> int:
        """Rows and columns of an image tile."""
        return self.tile + 2

    @property
    def places(self) -> int:
        return self.side**2

    @property
    def tiles(self) -> tuple[int, int]:
        """Rows and columns of tiles."""
        return -(-self.out[0] // self.tile), -(-self.out[1] // self.tile)

    @property
    def rows(self) -> int:
        """Rows of tiles in a block: they divide all rows, such that least comes from behind the second-level cache.
        That are the weights, once for each block, unless they fit in beside it, and the transforms, if those of a block
        take more than half of it."""
        height, width = self.tiles
        row = self.places * (self.inputs + self.outputs) * width * 4
        weights = self.places * self.inputs * self.outputs * 4

        def cost(rows: int) -> tuple[int, int, int]:
            size = rows * row
            again = height // rows * weights if weights + size > _CACHE else 0
            spilled = 2 * height * row if size > _CACHE // 2 else 0
            return again + spilled, size if size > _NEAR else 0, -rows

        return min(
            (rows for rows in range(1, height + 1) if height % rows == 0 and rows * row <= max(row, _MEMORY)), key=cost
        )

    @property
    def block(self) -> int:
        """Tiles of a block."""
        return self.rows * self.tiles[1]

    @property
    def in_stages(self) -> bool:
        """True if there is one block, so that each stage may be a kernel."""
        return self.batch == 1 and self.rows == self.tiles[0]

    def gemm(self, packed: int = 0) -> Gemm:
        """The products of a block: one for each place, over right sides of `packed` elements."""
        outer = ((self.places, self.stride(self.inputs), packed),)
        return Gemm(Types.all("f32"), outer, self.block, self.inputs, self.outputs, (), self.inputs)

    def stride(self, features: int) -> int:
        """Elements from one place to the next in a block's transforms."""
        return self.block * features + _SKEW

    @property
    def scratch(self) -> tuple[int, int, int]:
        """Bytes of the image's transforms, of the products, and of a tile half transformed."""
        most = max(self.side * self.side * self.inputs, self.tile * self.side * self.outputs)
        return self.places * self.stride(self.inputs) * 4, self.places * self.stride(self.outputs) * 4, most * 4


# --- transforms along one dimension ---------------------------------------------------------------------------------


def _of_image(b: Builder, d: list[Val]) -> list[Val]:
    """A row of an image tile, transformed."""
    if len(d) == 4:
        return [b.sub(d[0], d[2]), b.add(d[1], d[2]), b.sub(d[2], d[1]), b.sub(d[1], d[3])]
    two, four, five = (b.const("f32", n) for n in (2, 4, 5))
    even, odd = b.fnma(d[2], four, d[4]), b.fnma(d[1], four, d[3])
    near, far = b.sub(d[4], d[2]), b.sub(d[3], d[1])
    return [
        b.fma(d[0], four, b.fnma(d[2], five, d[4])),
        b.add(even, odd),
        b.sub(even, odd),
        b.fma(far, two, near),
        b.fnma(far, two, near),
        b.fma(d[1], four, b.fnma(d[3], five, d[5])),
    ]


def _of_weights(b: Builder, side: int, g: list[Val]) -> list[Val]:
    """A row of weights, transformed."""
    ends = b.add(g[0], g[2])
    if side == 4:
        half = b.const("f32", 0.5)
        return [g[0], b.mul(b.add(ends, g[1]), half), b.mul(b.sub(ends, g[1]), half), g[2]]
    quarter, sixth, half = b.const("f32", 0.25), b.const("f32", -1 / 6), b.const("f32", 0.5)
    weighted = b.add(b.mul(g[0], quarter), g[2])
    third = b.const("f32", 1 / 6)
    middle = b.mul(g[1], half)
    return [
        b.mul(g[0], quarter),
        b.mul(b.add(ends, g[1]), sixth),
        b.mul(b.sub(ends, g[1]), sixth),
        b.mul(b.add(weighted, middle), third),
        b.mul(b.sub(weighted, middle), third),
        g[2],
    ]


def _of_products(b: Builder, m: list[Val]) -> list[Val]:
    """A row of products, transformed to results."""
    total, difference = b.add(m[1], m[2]), b.sub(m[1], m[2])
    if len(m) == 4:
        return [b.add(m[0], total), b.sub(difference, m[3])]
    two, four, eight = (b.const("f32", n) for n in (2, 4, 8))
    far, apart = b.add(m[3], m[4]), b.sub(m[3], m[4])
    return [
        b.add(b.add(m[0], total), far),
        b.fma(apart, two, difference),
        b.fma(far, four, total),
        b.add(b.fma(apart, eight, difference), m[5]),
    ]


# --- kernels --------------------------------------------------------------------------------------------------------


def winograd_pack(b: Builder, w: Winograd, tile: Tile, out: int, weights: Callable[[Index], Val]) -> None:
    """Writes the transformed weights to buffer `out`: packed right sides, one for each place in a tile. `weights` gives
    the element at (row, column, input, output), a vector where the outputs run along lanes."""
    side, nr, size = w.side, tile.nr, packed_size(w.gemm(), tile)
    pointer = b.pointer(out)

    def vector(start: Affine, n: Affine, k: Affine) -> None:
        rows = [
            _of_weights(b, side, [b.splat(weights((Affine(r), Affine(c), k, n)), b.lanes) for r in range(3)])
            for c in range(3)
        ]
        for r in range(side):
            for c, value in enumerate(_of_weights(b, side, [rows[i][r] for i in range(3)])):
                b.store_lanes(pointer, start + (r * side + c) * size, value, "f32")

    def panel(first: Affine, start: Affine, columns: int) -> None:
        with b.loop(w.inputs) as k:
            with b.loop(columns // b.lanes, b.lanes, vector=True) as j:
                vector(start + k * nr + j, first + j, k)
            if columns < nr:
                with b.loop(w.places) as place, b.loop((nr - columns) // b.lanes, b.lanes) as j:
                    b.store_lanes(
                        pointer, start + k * nr + j + columns + place * size, b.splat(b.const("f32", 0), b.lanes), "f32"
                    )

    whole = w.outputs // nr
    with b.loop(whole, nr, chunked=True) as n:
        panel(n, n * w.inputs, nr)
    if w.outputs % nr:
        panel(Affine(whole * nr), Affine(whole * nr * w.inputs), w.outputs % nr)


def _absent(*index: object) -> NoReturn:
    raise AssertionError("the stage does without it")


class WinogradKernel:
    """Writes the kernel of a convolution, or one of its stages: `transforms`, `multiplies` and `finishes` are a kernel
    each where there is one block, so that each has a range that callers may split; `write` is all of them, and the
    range is that of images or blocks.

    `image` and `weights` give elements at an index, vectors where the last dimension runs along lanes; `store` takes an
    index of the result and its element. `packed` is the buffer of transformed weights, `scratch` are the buffers that
    `Winograd.scratch` asks for. A stage gets of these what it needs.
    """

    def __init__(
        self,
        b: Builder,
        w: Winograd,
        tile: Tile,
        scratch: tuple[int, int, int],
        packed: int = 0,
        image: Callable[[Index], Val] = _absent,
        weights: Callable[[Index], Val] = _absent,
        store: Callable[[Index, Val], None] = _absent,
    ):
        self.b, self.w, self.tile = b, w, tile
        self.image, self.weights, self.store = image, weights, store
        self.packed = packed
        self.transformed, self.products, self.half = scratch

    def write(self) -> None:
        """All loops: blocks of tiles, and in each the three stages."""
        b, w = self.b, self.w
        blocks = w.tiles[0] // w.rows
        with b.loop(w.batch, chunked=w.batch > 1) as n, b.loop(blocks, w.rows, chunked=w.batch == 1 < blocks) as first:
            self.transforms(n, first)
            self.multiplies()
            self.finishes(n, first)

    def transforms(self, n: Affine = ZERO, first: Affine = ZERO, chunked: bool = False) -> None:
        """Transforms the image tiles of a block."""
        width = self.w.tiles[1]
        with self.b.loop(self.w.rows, chunked=chunked) as i, self.b.loop(width) as j:
            self.transform(n, first + i, j, i * width + j)

    def multiplies(self, chunked: bool = False) -> None:
        """The products of a block."""
        gemm = self.w.gemm(packed_size(self.w.gemm(), self.tile))
        gemm_kernel(self.b, gemm, self.tile, Sides((self.transformed, 0), self.packed, self.keep), chunked)

    def finishes(self, n: Affine = ZERO, first: Affine = ZERO, chunked: bool = False) -> None:
        """The results of a block."""
        width = self.w.tiles[1]
        with self.b.loop(self.w.rows, chunked=chunked) as i, self.b.loop(width) as j:
            self.finish(n, first + i, j, i * width + j)

    def keep(self, outer: Index, m: Affine, n: Affine, value: Val) -> None:
        """Puts products where `finish` finds them."""
        self.b.store(self.products, outer[0] * self.w.stride(self.w.outputs) + m * self.w.outputs + n, value, "f32")

    def transform(self, n: Affine, row: Affine, column: Affine, tile: Affine) -> None:
        """Transforms one tile of the image: its rows, then its columns."""
        b, w, side = self.b, self.w, self.w.side
        columns = [b.inside(column * w.tile + (c - w.padding[1]), w.image[1]) for c in range(side)]
        masks = [None if held is None else b.select(held, b.const("s32", -1), b.const("s32", 0)) for _, held in columns]
        with b.loop(side) as r:
            y, held = b.inside(row * w.tile + r - w.padding[0], w.image[0])

            def rows() -> None:
                with b.loop(w.inputs // b.lanes, b.lanes, vector=True) as c:
                    pixels = []
                    for (x, _), mask in zip(columns, masks):
                        pixel = self.image((n, y, x, c))
                        pixels.append(
                            pixel if mask is None else b.bitcast(b.and_(b.bitcast(pixel, "s32"), mask), "f32")
                        )
                    for i, value in enumerate(_of_image(b, pixels)):
                        b.store(self.half, (r * side + i) * w.inputs + c, value, "f32")

            if held is None:
                rows()
            else:
                with b.when(held):
                    rows()
                with b.when(b.not_(held)), b.loop(side * w.inputs // b.lanes, b.lanes, vector=True) as c:
                    b.store(self.half, r * (side * w.inputs) + c, b.const("f32", 0), "f32")
        with b.loop(side) as i, b.loop(w.inputs // b.lanes, b.lanes, vector=True) as c:
            pixels = [b.load(self.half, (i + k * side) * w.inputs + c, "f32") for k in range(side)]
            for place, value in enumerate(_of_image(b, pixels)):
                b.store(self.transformed, (i + place * side) * w.stride(w.inputs) + tile * w.inputs + c, value, "f32")

    def finish(self, n: Affine, row: Affine, column: Affine, tile: Affine) -> None:
        """Transforms the products of one tile to results: columns, then rows; and computes the tile again if one is not
        finite."""
        b, w, side = self.b, self.w, self.w.side
        with b.loop(side) as i, b.loop(w.outputs // b.lanes, b.lanes, vector=True) as c:
            values = [
                b.load(self.products, (i + r * side) * w.stride(w.outputs) + tile * w.outputs + c, "f32")
                for r in range(side)
            ]
            for place, value in enumerate(_of_products(b, values)):
                b.store(self.half, (i + place * side) * w.outputs + c, value, "f32")

        def line(r: Affine, lost: list[Val]) -> list[Val]:
            y, held = b.inside(row * w.tile + r, w.out[0])
            places = [b.inside(column * w.tile + i, w.out[1]) for i in range(w.tile)]

            def vector(c: Affine, lost: list[Val]) -> list[Val]:
                values = [b.load(self.half, (r * side + i) * w.outputs + c, "f32") for i in range(side)]
                results = [b.pin(value) for value in _of_products(b, values)]
                total = reduce(b.add, results)
                # 0 if all are finite, else NaN.
                lost = [b.pin(b.add(lost[0], b.sub(total, total)))]
                for (x, there), value in zip(places, results):
                    self.put((n, y, x, c), value, held, there)
                return lost

            return along(b, w.outputs // b.lanes, lost, vector, step=b.lanes, vector=True)

        (lost,) = along(b, w.tile, [b.splat(b.const("f32", 0), b.lanes)], line)
        spread = in_pairs([b.lane(lost, lane) for lane in range(b.lanes)], b.add)
        with b.when(b.ne(spread, spread)):
            self.direct(n, row, column)

    def put(self, index: Index, value: Val, *conditions: Val | None) -> None:
        """Stores a result where conditions hold."""
        held = [c for c in conditions if c is not None]
        with self.b.when(reduce(self.b.and_, held)) if held else nullcontext():
            self.store(index, value)

    def direct(self, n: Affine, row: Affine, column: Affine) -> None:
        """Computes one tile by the definition."""
        b, w = self.b, self.w
        with b.loop(w.tile) as r, b.loop(w.tile) as s:
            y, held = b.inside(row * w.tile + r, w.out[0])
            x, there = b.inside(column * w.tile + s, w.out[1])
            with b.loop(w.outputs // b.lanes, b.lanes, vector=True) as c:

                def step(inner: Index, sums: list[Val]) -> list[Val]:
                    i, j, k = inner
                    above, met = b.inside(row * w.tile + r + i - w.padding[0], w.image[0])
                    left, also = b.inside(column * w.tile + s + j - w.padding[1], w.image[1])
                    pixel = self.image((n, above, left, k))
                    for condition in (met, also):
                        if condition is not None:
                            pixel = b.select(condition, pixel, b.const("f32", 0))
                    return [b.fma(pixel, self.weights((i, j, k, c)), sums[0])]

                (value,) = fold(b, (3, 3, w.inputs), [b.const("f32", 0)], b.lanes, step)
                self.put((n, y, x, c), value, held, there)
