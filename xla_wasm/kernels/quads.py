"""Products of bytes in quads: one relaxed instruction multiplies sixteen pairs of bytes and adds the products in fours.

Of one operand an engine reads the bytes as signed or as unsigned, and on the way it may add products in 16 bits, which
do not hold them: each engine does one of these always. So a kernel finds out what its engine does, and takes pairs of
s16 where that would not be exact. Both read the same panels, which hold pairs of bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from ..dataclass import dataclass
from ..hlo.types import PAIRED
from ..loop.affine import ZERO, Affine, Index
from ..loop.builder import Builder
from ..loop.ir import Val
from ..loop.nest import Step, along, fold
from ..target import V8
from .sides import Left, Right
from .tiles import Gemm, Tile, Types

_PROBE = ((-128, -1, 0), (-128, -128, 0), (127, -1, 0), (127, 127, 2**31 - 1))
"""For each lane four equal bytes of either operand, and what the sum begins with: products that are the farthest from
0, of each sign, and a sum that leaves 32 bits."""
_ONES = 0x01010101
"""Four bytes of 1: a product with them repeats a byte, too."""


@dataclass(frozen=True, slots=True)
class Quads:
    """Exact products of bytes in quads, whatever the engine makes of bytes, as values of a kernel.

    Bytes of the left side whose sign is not as the engine reads it have their highest bit changed. That adds a number,
    the same to all: so sums begin with as many sums of the column as take it away again. Quads are lanes of s32.
    """

    b: Builder
    exact: Val
    """True if products in quads are exact (a pred)."""
    shift: Val | None
    """The number added to each of the left side: 128, -128 or 0 (an s32); None: nothing."""
    swaps: bool
    """True if the left side is the operand that every engine reads as signed."""

    def added(self, left: Val, column: Val, total: Val) -> Val:
        """A vector of sums with the products of a quad of the left side, which is in all lanes, and a quad of each
        column."""
        left, column = as_bytes(self.b, left), as_bytes(self.b, column)
        return self.b.dot_i7_add(left, column, total) if self.swaps else self.b.dot_i7_add(column, left, total)

    def shifted(self, left: Val) -> Val:
        """Quads of the left side as the engine reads them."""
        b = self.b
        if self.shift is None:
            return left
        return b.xor(left, b.splat(b.mul(b.and_(self.shift, b.const("s32", 128)), b.const("s32", _ONES)), left.lanes))

    def columns(self, pointer: Val, at: Affine, row: int, width: int) -> list[Val]:
        """So many vectors of quads of a panel's columns: two rows of pairs from `at` on, `row` apart, lane by lane."""
        b, lanes = self.b, self.b.lanes
        made: list[Val] = []
        for first in range(0, width * lanes, 2 * lanes):
            upper, lower = (b.load_lanes(pointer, at + (u * row + first), PAIRED, 2 * lanes) for u in range(2))
            for half in range(0, 2 * lanes, lanes):
                turns = tuple(i for lane in range(half, half + lanes) for i in (lane, 2 * lanes + lane))
                made.append(b.joined(b.shuffle(upper, lower, turns)))
        return made[:width]

    def four(self, pointer: Val, at: Affine, pure: bool) -> Val:
        """Eight pairs of bytes of the left side, which lie at any even address, as four quads."""
        return self.shifted(self.b.joined(self.b.load_lanes(pointer, at, PAIRED, 2 * self.b.lanes, pure)))

    def one(self, pointer: Val, at: Affine, pure: bool) -> Val:
        """Two pairs of bytes of the left side as a quad, in all lanes."""
        b = self.b
        low, high = (b.convert(b.load_at(pointer, at + i, PAIRED, pure=pure), "s32") for i in range(2))
        return self.shifted(b.splat(b.or_(b.and_(low, b.const("s32", 0xFFFF)), b.shl(high, 16)), b.lanes))

    def steps(self, x: Left, right: Right, start: Affine, rows: int) -> list[tuple[int, Step]]:
        """Returns the steps that add the products of four quads, and of one: how many pairs along k that is, and the
        step."""
        b, lanes = self.b, self.b.lanes

        def add(left: Iterable[Val], k: Affine, sums: list[Val]) -> list[Val]:
            columns = self.columns(
                right.pointer, right.start + (start + k) * right.k_stride, right.k_stride, len(sums) // rows
            )
            return [b.pin(self.added(row, column, total)) for (row, column), total in zip(product(left, columns), sums)]

        def four(k: Affine, sums: list[Val]) -> list[Val]:
            vectors = [self.four(x.pointer, x.start + k + r * x.m_stride, x.pure) for r in range(rows)]
            for u in range(lanes):
                if u:
                    b.barrier(k.loops[0][0], sums)  # quads are taken of longer runs
                sums = add([b.splat_lane(vector, u) for vector in vectors], k + 2 * u, sums)
            return sums

        def one(k: Affine, sums: list[Val]) -> list[Val]:
            return add([self.one(x.pointer, x.start + k + r * x.m_stride, x.pure) for r in range(rows)], k, sums)

        return [(2 * lanes, four), (2, one)]

    def beginning(self, g: Gemm, tile: Tile, right: Right) -> tuple[Val, ...]:
        """Returns the values with which the sums of a panel's columns begin: they cancel the number that is added to
        those of the left side's quads."""
        b, width = self.b, -(-min(g.n, tile.nr) // g.lanes)
        zeros = [b.splat(b.const(g.types.accumulator, 0), g.lanes)] * width
        if self.shift is None:
            return tuple(zeros)

        def segment(index: Index, sums: list[Val]) -> list[Val]:
            start = ZERO
            for i, (count, _) in zip(index, g.segments):
                start = start * count + i
            at = right.start + start * (g.run * right.k_stride)

            def step(k: Affine, sums: list[Val]) -> list[Val]:
                columns = self.columns(right.pointer, at + k * right.k_stride, right.k_stride, width)
                ones = b.splat(b.const("s32", _ONES), b.lanes)
                return [self.added(ones, column, total) for column, total in zip(columns, sums)]

            return along(b, g.run // 2, sums, step, step=2)

        sums = fold(b, tuple(count for count, _ in g.segments), zeros, g.lanes, segment)
        return tuple([b.pin(b.mul(total, b.splat(b.neg(self.shift), g.lanes))) for total in sums])


def quads(b: Builder, types: Types, address: Val) -> Quads:
    """Code that finds out what the engine makes of the bytes of these types; `address` is any that is not 0.

    A right side of s8 is the operand that is always signed, and a left side gets the sign that the engine gives the
    other one. A right side of u8 has to be that other one, and then the left side is always signed. Engines that read
    both as signed are asked for in modules for V8 alone, which has an instruction for that on ARM: Cranelift writes it
    out, and takes two to four times as long as for pairs.
    """
    # No engine knows of this zero beforehand, so none computes what it is part of in another way than while the module
    # runs.
    zero = b.convert(b.eq(b.or_(address, b.const("u32", 1)), b.const("u32", 0)), "s32")
    words = [((x & 0xFF) * _ONES, (y & 0xFF) * _ONES, total) for x, y, total in _PROBE]
    x, y, total = (b.pack([b.const("s32", _signed(word)) for word in lanes]) for lanes in zip(*words))
    made = b.dot_i7_add(as_bytes(b, x), as_bytes(b, b.or_(y, b.splat(zero, y.lanes))), total)

    def is_read(unsigned: bool) -> Val:
        expected = [4 * x * (y & 0xFF if unsigned else y) + total for x, y, total in _PROBE]
        return b.not_(b.any_true(b.ne(made, b.pack([b.const("s32", _signed(number)) for number in expected]))))

    unsigned, swaps = is_read(True), types.right == "u8"
    added = ({"s8": 0, "u8": -128} if swaps else {"s8": 128, "u8": 0})[types.left]
    if swaps or b.target.tune != V8:
        return Quads(b, unsigned, b.const("s32", added) if added else None, swaps)
    shift = b.sub(b.shl(b.convert(unsigned, "s32"), 7), b.const("s32", 128 - added))
    return Quads(b, b.or_(unsigned, is_read(False)), shift, swaps)


def as_bytes(b: Builder, x: Val) -> Val:
    """The bytes of lanes of 32 bits as lanes of their own."""
    return b.halves(b.halves(x))


def _signed(x: int) -> int:
    """A number modulo 2**32 as s32."""
    return (x + 2**31) % 2**32 - 2**31
