"""Packs the right side of a matrix product into panels `[n / nr][k][nr]`, zero padded in n."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..loop.affine import ZERO, Affine
from ..loop.builder import Builder
from ..loop.ir import Loop, Val
from ..loop.tiling import transpose
from .tiles import Gemm, Tile

Element = Callable[[Affine, Affine], Val]
"""The right side's element at (k, n): a vector where one of them runs along lanes."""


def pack_kernel(b: Builder, g: Gemm, tile: Tile, out: int, element: Element, base: Affine = ZERO, along_k: bool = False) -> None:
    """Writes the panels of one right side to buffer `out` from `base` on.

    `along_k` tells that k is what lies contiguously in memory. Unless a loop is open already, the loop over panels is the
    range that callers may split.
    """
    nr, lanes = tile.nr, b.lanes
    ranged = len(b.stack) == 1
    pointer = b.pointer(out)

    def columns(panel: Affine, first: int | None, count: int) -> None:
        """One panel of `count` columns. `first` is its first column if that is known, so that no vector runs along n."""
        start = base + panel * g.k
        whole = count - count % lanes
        with b.loop(g.k) as k:
            for j in range(0, whole, lanes):
                b.store_lanes(pointer, start + k * nr + j, b.splat(element(k, panel + j), lanes), g.types.operand)
            for j in range(whole, count):
                assert first is not None
                b.store(out, base + first * g.k + k * nr + j, element(k, Affine(first + j)), g.types.operand)
        zeros(first, count)

    def columns_along_k(panel: Affine, first: int | None, count: int) -> None:
        start = base + panel * g.k
        whole = count - count % lanes
        if whole:
            with b.loop(whole // lanes, lanes) as j:
                b.vectorized(g.k, lambda k: transposed(panel + j, start + j, k))
        if whole < count:
            with b.loop(count - whole) as j:
                b.vectorized(g.k, lambda k: b.store(out, start + whole + j + k * nr, element(k, panel + whole + j), g.types.operand))
        zeros(first, count)

    def transposed(n: Affine, start: Affine, k: Affine) -> None:
        values = [element(k, n + u) for u in range(lanes)]
        if b.vector is None:
            for u, value in enumerate(values):
                b.store(out, start + k * nr + u, value, g.types.operand)
            return
        for u, value in enumerate(transpose(b, [b.splat(value, lanes) for value in values])):
            b.store_lanes(pointer, start + k * nr + u * nr, value, g.types.operand)

    def zeros(first: int | None, count: int) -> None:
        if count < nr:
            assert first is not None
            start = base + first * g.k
            with b.loop(g.k) as k, b.loop(nr - count) as j:
                b.store(out, start + k * nr + count + j, b.const(g.types.operand, 0), g.types.operand)

    if nr == 1:
        with b.loop(g.n, ranged=ranged) as n:
            b.vectorized(g.k, lambda k: b.store(out, base + n * g.k + k, element(k, n), g.types.operand))
    else:
        along_k = along_k and lanes == g.lanes
        panels(b, g.n, nr, not along_k, ranged, columns_along_k if along_k else columns)


def panels(b: Builder, n: int, nr: int, vector: bool, ranged: bool, body: Callable[[Affine, int | None, int], None]) -> None:
    """Runs `body(first column, the same if constant, columns)` for every panel; only the last may have fewer than `nr`."""
    count, tail = -(-n // nr), n % nr
    loop = b.open_loop(count, nr, vector=vector, ranged=ranged)
    first = Affine(0, ((loop, 1),))
    if tail and count > 1:
        last = is_trip(b, loop, count - 1)
        with b.when(b.not_(last)), without_last(loop):
            body(first, None, nr)
        with b.when(last):
            body(first, n - tail, tail)
    else:
        body(first, 0 if tail else None, tail or nr)
    b.close_loop(loop)


def is_trip(b: Builder, loop: Loop, trip: int) -> Val:
    """Whether a loop is in its trip number `trip`."""
    return b.eq(b.variable(loop), b.const("s32", trip * loop.step))


@contextmanager
def without_last(loop: Loop) -> Iterator[None]:
    """While code is written that the last trip passes over: indices are divided by the range that they have there."""
    loop.trips -= 1
    yield
    loop.trips += 1
