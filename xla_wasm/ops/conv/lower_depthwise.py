"""Depthwise convolutions, and those in groups of few features: there is no product of matrices to be made.

All taps are unrolled over a block of neighbouring pixels, whose sums stay in registers; features run along lanes and
through the innermost loop, so that whole cache lines are used. Padding is no copy: where a window reaches beyond the
image is known for each row and block when the kernel is written, and zeros take part there, as infinite weights make
NaN of them.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from ...loop.affine import Affine, Index
from ...loop.builder import Builder
from ...loop.ir import Val
from ...lowering.apply import multiply_add
from ...lowering.source import Source
from .plan import Depthwise, Inside, Side


def _at(side: Side, output: Affine, tap: int) -> Affine:
    """Returns the place in the image of a tap of an output's window."""
    return output * side.stride + (tap * side.dilation - side.low)


def depthwise_kernel(
    b: Builder, d: Depthwise, image: Source, kernel: Source, store: Callable[[Index, Val], None]
) -> None:
    """Writes the loops; `store` takes an index of the result and its element, a vector where the features run along
    lanes."""
    zero = b.const(d.dtype, 0)
    lanes = b.lanes
    *leading, columns = d.sides

    def block(index: Index, inside: tuple[Inside, ...], first: Affine, pixels: tuple[Inside, ...]) -> None:
        """A block of pixels, from `first` on, of the row at `index`."""

        def pixel(at: Index, c: Affine, feature: int) -> Val:
            """Returns the image's elements at a place that the results at `c` read: of each group the given feature."""
            if d.inputs == 1:
                return b.load(image.number, image.position((*at, c)), d.dtype)
            position = image.position((*at, c * (d.inputs // d.outputs)))
            vectors = [
                b.load_lanes(b.pointer(image.number), position + i, d.dtype)
                for i in range(0, lanes // d.outputs * d.inputs, lanes)
            ]
            picked = tuple([lane // d.outputs * d.inputs + feature for lane in range(lanes)])
            return b.shuffle(vectors[0], vectors[-1], picked)

        def element(c: Affine) -> None:
            sums = [b.splat(zero, b.lanes_at((c,)))] * len(pixels)
            for *rows, column, feature in product(*(range(side.taps) for side in d.sides), range(d.inputs)):
                weight = b.load(kernel.number, kernel.position((*map(Affine, (*rows, column, feature)), c)), d.dtype)
                met = all(taps[tap] for taps, tap in zip(inside, rows))
                places = [_at(side, i, tap) for side, i, tap in zip(leading, index[1:], rows)]
                for p, taps in enumerate(pixels):
                    value = zero
                    if met and taps[column]:
                        value = pixel((index[0], *places, _at(columns, first + p, column)), c, feature)
                    sums[p] = b.pin(multiply_add(b, value, weight, sums[p]))
            for p, total in enumerate(sums):
                store((*index, first + p, c), total)

        b.vectorized(d.features, element)

    def level(index: Index, inside: tuple[Inside, ...]) -> None:
        if len(index) <= len(leading):
            for first, count, taps in leading[len(index) - 1].spans():
                with b.loop(count, chunked=True) as i:
                    level((*index, i + first), (*inside, taps))
            return
        for first, count, size, pixels in columns.blocks(d.pixels(inside)):
            with b.loop(count, size) as i:
                block(index, inside, i + first, pixels)

    with b.loop(d.batch, chunked=d.batch > 1) as n:
        level((n,), ())


_TAPS = 4
"""Taps of a row that are spelled out: for each, all results load and add what their windows meet there."""


def walking_kernel(
    b: Builder, d: Depthwise, image: Source, kernel: Source, sums: Source, store: Callable[[Index, Val], None]
) -> None:
    """As `depthwise_kernel`, for few results and windows of any size: one walk over the taps, features innermost, with
    the sums of all results in memory. `sums` has room for two of each: sums of a row of taps, and of rows."""
    places = list(product(*(range(side.outputs) for side in d.sides)))
    size = len(places) * d.features
    zero = b.const(d.dtype, 0)
    *leading, columns = d.sides

    def clear(start: int) -> None:
        b.vectorized(size, lambda i: b.store(sums.number, i + start, zero, d.dtype))

    def total(i: Affine) -> None:
        both = [b.load(sums.number, i + start, d.dtype) for start in (size, 0)]
        b.store(sums.number, i + size, b.add(*both), d.dtype)

    def step(n: Affine, taps: Index, count: int, c: Affine) -> None:
        """Adds the products of `count` taps from these on."""
        *rows, first = taps
        weights = [
            b.load(kernel.number, kernel.position((*rows, first + u, Affine(), c)), d.dtype) for u in range(count)
        ]
        for k, place in enumerate(places):
            value = b.load(sums.number, c + k * d.features, d.dtype)
            *above, left = (
                tap * side.dilation + p * side.stride - side.low for tap, p, side in zip(taps, place, d.sides)
            )
            for u, weight in enumerate(weights):
                pixel = b.load(image.number, image.position((n, *above, left + u * columns.dilation, c)), d.dtype)
                value = b.pin(multiply_add(b, pixel, weight, value))
            b.store(sums.number, c + k * d.features, value, d.dtype)

    def level(n: Affine, taps: Index) -> None:
        if len(taps) < len(leading):
            with b.loop(leading[len(taps)].taps) as i:
                level(n, (*taps, i))
            return
        clear(0)
        whole = columns.taps - columns.taps % _TAPS
        if whole:
            with b.loop(whole // _TAPS, _TAPS) as i:
                b.vectorized(d.features, lambda c: step(n, (*taps, i), _TAPS, c))
        if whole < columns.taps:
            with b.loop(columns.taps - whole) as i:
                b.vectorized(d.features, lambda c: step(n, (*taps, i + whole), 1, c))
        b.vectorized(size, total)

    def finish(n: Affine, place: tuple[int, ...], start: int) -> None:
        b.vectorized(d.features, lambda c: store((n, *map(Affine, place), c), b.load(sums.number, c + start, d.dtype)))

    with b.loop(d.batch) as n:
        clear(size)
        level(n, ())
        for k, place in enumerate(places):
            finish(n, place, size + k * d.features)
