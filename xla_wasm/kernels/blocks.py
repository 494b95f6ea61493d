"""Products whose right side has blocks of 4-bit numbers, with a scale each; the left side may have blocks of bytes."""

from __future__ import annotations

from itertools import product

from ..loop.affine import ZERO, Affine, Index
from ..loop.arithmetic import in_pairs
from ..loop.ir import Val
from ..loop.nest import along
from .inner_products import InnerProducts
from .packing import number_of
from .quads import as_bytes
from .sides import Left, Right, Rows
from .tiles import QUAD, WORD


class Blocks:
    """Adds to the sums of a tile what blocks give."""

    def __init__(self, sums: InnerProducts):
        self.b, self.g, self.tile, self.sums, self.loads = sums.b, sums.g, sums.tile, sums, sums.loads

    def in_blocks(self, x: Left, rows: Rows, n: Affine, sums: list[Val]) -> list[Val]:
        """Adds the products of each block times its scales, of the panel from column `n` on."""
        b, g, width = self.b, self.g, len(sums) // rows.count
        right, scale = self.loads.right(rows.outer, n), self.loads.scales_at(rows.outer, n)
        pairs, steps = g.types.pairs, WORD // (2 if g.types.pairs else 1)
        dtype = "s32" if pairs else "f32"

        def numbers(words: Val, step: int) -> Val:
            """Returns the numbers of one step along k from a vector of words: in each lane a pair of s16, or an f32."""
            if pairs:
                return b.joined(b.shr_s(b.shl(b.halves(words), 12 - 4 * step), 12))
            return b.convert(number_of(b, words, step), "f32")

        def block(i: Affine, sums: list[Val]) -> list[Val]:
            def row_of_words(row: Affine, parts: list[Val]) -> list[Val]:
                at = i * g.block_rows + row
                words = [
                    b.load_lanes(right.pointer, right.start + at * right.k_stride + j * g.lanes, "s32")
                    for j in range(width)
                ]
                for step in range(steps):
                    k = at * steps + step
                    left = [self.loads.element(x, r, k) for r in range(rows.count)]
                    columns = [numbers(column, step) for column in words]
                    factors = [(row, column) for row in left for column in columns]
                    parts = [b.pin(self.sums.added_product(*pair, part)) for pair, part in zip(factors, parts)]
                return parts

            parts = along(b, g.block_rows, [self.loads.constant(dtype, 0)] * len(sums), row_of_words)
            scales = [self.loads.column(scale, i, j) for j in range(width)] * rows.count
            return [
                b.pin(b.fma(b.convert(part, "f32"), factor, total)) for part, factor, total in zip(parts, scales, sums)
            ]

        return along(b, g.blocks, sums, block)

    def in_blocks_of_bytes(self, x: Left, rows: Rows, n: Affine, sums: list[Val]) -> list[Val]:
        """Adds the products of each block times the scales of both sides, of the panel from column `n` on.

        Every engine gives the same sums. Words hold numbers of 0 to 15, which are the same read as signed and as
        unsigned; two products are at most 2 * 15 * 127, which no engine clamps; and half of a block, 16 products, stays
        in 16 bits: the sums begin with -8 times the left side's numbers, so that all on the way are at most 16 * 8 *
        127.
        """
        b, g, width = self.b, self.g, len(sums) // rows.count
        right, scale = self.loads.right(rows.outer, n), self.loads.scales_at(rows.outer, n)
        scales, quads = self.loads.scales_of_rows(rows), g.types.block // QUAD

        def block(i: Affine, sums: list[Val]) -> list[Val]:
            parts, left = list[Val](), list[list[Val]]()
            for r in range(rows.count):
                first = x.start + r * x.m_stride + i * quads
                vectors = [b.load_lanes(x.pointer, first + u, "s32", pure=x.pure) for u in range(0, quads, g.lanes)]
                parts += [self.less_eights(vectors)] * width
                left.append([as_bytes(b, b.splat_lane(vector, lane)) for vector in vectors for lane in range(g.lanes)])
            for row in range(g.block_rows):
                at = right.start + (i * g.block_rows + row) * right.k_stride
                words = [b.load_lanes(right.pointer, at + j * g.lanes, "s32") for j in range(width)]
                for half in range(2):
                    nibbles = self.loads.constant("s32", 0x0F0F0F0F)
                    columns = [
                        as_bytes(b, b.and_(b.shr_u(word, 4 * half) if half else word, nibbles)) for word in words
                    ]
                    factors = product([quad[2 * row + half] for quad in left], columns)
                    parts = [b.pin(b.add(part, b.dot_i7(*pair))) for part, pair in zip(parts, factors)]
            own = [
                b.load_splat(scales.pointer, scales.start + r * scales.m_stride + i, "f32") for r in range(rows.count)
            ]
            factors = product(own, [self.loads.column(scale, i, j) for j in range(width)])
            products = [b.convert(b.extadd_pairwise(part), "f32") for part in parts]
            return [b.pin(b.fma(part, b.mul(*both), total)) for part, both, total in zip(products, factors, sums)]

        return along(b, g.blocks, sums, block)

    def less_eights(self, vectors: list[Val]) -> Val:
        """Minus 8 times the sum of a block of bytes, given as vectors of quads: words hold 8 more than their numbers.
        In each quad's place the first half has the sum of all first halves, and the other one that of the others."""
        b = self.b
        eights = self.loads.constant("s32", 0x08080808)
        products = [b.dot_i7(as_bytes(b, vector), as_bytes(b, eights)) for vector in vectors]
        total = in_pairs(products, b.add)
        for turn in ((2, 3, 0, 1), (1, 0, 3, 2)):
            lanes = b.joined(total)
            total = b.add(total, b.halves(b.shuffle(lanes, lanes, turn)))
        return b.pin(b.sub(self.loads.zero_halves, total))

    def unpacked(self, outer: Index, n: Affine) -> Right:
        """The panel from column `n` on made f32, in the scratch memory."""
        b, g, lanes, nr, memory = self.b, self.g, self.g.lanes, self.tile.nr, self.loads.scratch
        assert memory is not None
        right, scales = self.loads.right(outer, n), self.loads.scales_at(outer, n)
        with b.loop(g.blocks) as i, b.loop(nr // lanes, lanes) as j:
            scale = b.load_lanes(scales.pointer, scales.start + i * nr + j, "f32")
            with b.loop(g.block_rows) as row:
                at = i * g.block_rows + row
                words = b.load_lanes(right.pointer, right.start + at * nr + j, "s32")
                for u in range(WORD):
                    number = b.convert(number_of(b, words, u), "f32")
                    b.store_lanes(memory, (at * WORD + u) * nr + j, b.mul(number, scale), "f32")
        return Right(memory, ZERO, nr, "f32")
