"""Packs the right side of a matrix product into panels, zero padded in n: `[stripe][n / nr][k][nr / stripes]`.

Of numbers of 4 bits a row has eight of each column in a word; the scales of blocks of them are packed as a right side
of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce

from ..loop.affine import ZERO, Affine
from ..loop.builder import Builder
from ..loop.ir import Loop, Val
from ..loop.tiling import transpose
from .tiles import Gemm, Tile, packed_size, place_in_panel

Element = Callable[[Affine, Affine], Val]
"""The right side's element at (k, n): a vector where one of them runs along lanes."""


def pack_kernel(
    b: Builder, g: Gemm, tile: Tile, out: int, element: Element, base: Affine = ZERO, along_k: bool = False
) -> None:
    """Writes the panels of one right side to buffer `out` from `base` on.

    `along_k` tells that k is what lies contiguously in memory. Unless a loop is open already, the loop over panels is
    the range that callers may split.
    """
    assert b.lanes == g.lanes, "what computes the right side has as many lanes as the sums"
    lanes, stripe, stripes, rows = b.lanes, tile.stripe, tile.stripes, g.packed_rows
    pointer, dtype = b.pointer(out), g.types.right_element
    apart = packed_size(g, tile) // stripes

    def columns(n: Affine, first: int | None, count: int, start: Affine) -> None:
        """A panel's columns from `n` on. `first` is that column if it is known, so that no vector runs along n."""
        whole = count - count % lanes
        with b.loop(rows) as k:
            at = start + k * stripe
            if g.types.in_blocks and whole:  # a word takes much code
                with b.loop(whole // lanes, lanes) as column:
                    b.store_lanes(pointer, at + column, b.splat(element(k, n + column), lanes), dtype)
            for j in range(0, 0 if g.types.in_blocks else whole, lanes):
                value = b.splat(element(k, n + j), lanes)
                b.store_lanes(pointer, at + place_in_panel(g, tile, j), value, dtype)
            for j in range(whole, count):
                assert first is not None
                b.store(out, at + place_in_panel(g, tile, j), element(k, Affine(first + j)), dtype)

    def columns_along_k(n: Affine, count: int, start: Affine) -> None:
        """A stripe's columns from `n` on."""
        whole = count - count % lanes
        if whole:
            with b.loop(whole // lanes, lanes) as j:
                b.vectorized(rows, lambda k: transposed(n + j, start + j, k))
        if whole < count:
            with b.loop(count - whole) as j:
                to, column = start + whole + j, n + whole + j
                b.vectorized(rows, lambda k: b.store(out, to + k * stripe, element(k, column), dtype))

    def transposed(n: Affine, start: Affine, k: Affine) -> None:
        values = [element(k, n + u) for u in range(lanes)]
        if b.vector is None:
            for u, value in enumerate(values):
                b.store(out, start + k * stripe + u, value, dtype)
            return
        for u, value in enumerate(transpose(b, [b.splat(value, lanes) for value in values])):
            b.store_lanes(pointer, start + k * stripe + u * stripe, value, dtype)

    def zeros(start: Affine, count: int) -> None:
        """A stripe's columns from number `count` on."""
        with b.loop(rows) as k, b.loop(stripe - count) as j:
            b.store(out, start + k * stripe + count + j, b.const(dtype, 0), dtype)

    def panel(n: Affine, first: int | None, count: int) -> None:
        start = base + (n if first is None else Affine(first)) * (rows // stripes)
        whole, rest = divmod(count, stripe)
        last = start + whole * apart
        if not along_k:
            columns(n, first, count, start)
        else:
            if whole:
                with b.loop(whole) as i:
                    columns_along_k(n + i * stripe, stripe, start + i * apart)
            if rest:
                columns_along_k(n + whole * stripe, rest, last)
        if rest:
            zeros(last, rest)
        empty = stripes - whole - bool(rest)
        if empty:
            with b.loop(empty) as i:
                zeros(start + (i + (stripes - empty)) * apart, 0)

    if tile.nr == 1:
        with b.loop(g.n, chunked=True) as n:
            b.vectorized(rows, lambda k: b.store(out, base + n * rows + k, element(k, n), dtype))
    else:
        panels(b, g.n, tile.nr, not along_k, panel)


def word(b: Builder, numbers: Sequence[Val]) -> Val:
    """Eight numbers of 4 bits in a word: those at 2 p and 2 p + 1 from bit 4 p of its low and its high half on, so that
    a shift gives pairs of them."""
    bits = [b.and_(b.convert(number, "s32"), b.const("s32", 15)) for number in numbers]
    return reduce(b.or_, [b.shl(part, u // 2 * 4 + u % 2 * 16) for u, part in enumerate(bits)])


def word_of_quads(b: Builder, numbers: Sequence[Val]) -> Val:
    """Eight numbers of 4 bits in a word, 8 added to each: the first four in the low halves of its bytes, the others in
    the high ones."""
    bits = [b.and_(b.add(b.convert(number, "s32"), b.const("s32", 8)), b.const("s32", 15)) for number in numbers]
    return reduce(b.or_, [b.shl(part, u % 4 * 8 + u // 4 * 4) for u, part in enumerate(bits)])


def number_of(b: Builder, words: Val, number: int) -> Val:
    """One of the eight numbers of each word, as s32."""
    return b.shr_s(b.shl(words, 28 - number // 2 * 4 - number % 2 * 16), 28)


def panels(b: Builder, n: int, nr: int, vector: bool, body: Callable[[Affine, int | None, int], None]) -> None:
    """Runs `body(first column, the same if constant, columns)` for every panel; only the last may have fewer than
    `nr`."""
    count, tail = -(-n // nr), n % nr
    with b.open_loop(count, nr, vector=vector, chunked=True) as loop:
        first = Affine.along(loop)
        if tail and count > 1:
            last = is_trip(b, loop, count - 1)
            with b.when(b.not_(last)), without_last(loop):
                body(first, None, nr)
            with b.when(last):
                body(first, n - tail, tail)
        else:
            body(first, 0 if tail else None, tail or nr)


def is_trip(b: Builder, loop: Loop, trip: int) -> Val:
    """Returns a condition that is true if a loop is in its trip number `trip`."""
    return b.eq(b.variable(loop), b.const("s32", trip * loop.step))


@contextmanager
def without_last(loop: Loop) -> Iterator[None]:
    """While code is written that the last trip passes over: indices are divided by the range that they have there."""
    loop.trips -= 1
    yield
    loop.trips += 1
