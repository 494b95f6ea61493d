"""Loops in tiles: for arrays whose elements lie along another dimension than the one that runs along lanes.

A tile has as many rows as a vector has lanes. What lies across it is loaded along its own direction and transposed in
registers.
"""

from __future__ import annotations

from collections.abc import Callable

from ..dataclass import dataclass, field
from .affine import ZERO, Affine, Index
from .builder import Builder
from .ir import Loop, Val

_TOGETHER = 4
"""Tiles side by side: four vectors of f32 are the 64 bytes of a cache line, which then is read, or written, once."""


@dataclass(slots=True)
class Tile:
    """The tile that is being written: `loop` runs over tiles along the rows, of which `row` is the current one."""

    loop: Loop
    row: int = 0
    turned: dict[tuple[int, Affine, str], list[Val]] = field(default_factory=dict)
    """The rows of each square that was loaded across."""

    def load(self, b: Builder, number: int, position: Affine, dtype: str) -> Val | None:
        """The elements at a position of a buffer that lie across the tile; None if they do not, or are written."""
        across, along = position.coefficient(b.vector), position.coefficient(self.loop)
        if b.vector is None or across in (0, 1) or along not in (1, -1) or position.values or number in b.written:
            return None
        first = position - along * self.row if along > 0 else position + self.row - (b.lanes - 1)
        key = (number, first, dtype)
        if key not in self.turned:
            base = b.pointer(number)
            self.turned[key] = transpose(b, [b.load_lanes(base, first + u * across, dtype) for u in range(b.lanes)])
        return self.turned[key][self.row if along > 0 else b.lanes - 1 - self.row]


def transpose(b: Builder, rows: list[Val]) -> list[Val]:
    """As many vectors as they have lanes, transposed."""
    if len(rows) == 2:
        x, y = rows
        return [b.shuffle(x, y, (0, 2)), b.shuffle(x, y, (1, 3))]
    x, y, z, w = rows
    low, high = (0, 4, 1, 5), (2, 6, 3, 7)
    halves = [(b.shuffle(x, y, pick), b.shuffle(z, w, pick)) for pick in (low, high)]
    return [b.shuffle(p, q, pick) for p, q in halves for pick in ((0, 1, 4, 5), (2, 3, 6, 7))]


def nest_in_tiles(
    b: Builder, dims: tuple[int, ...], rows: int, element: Callable[[Index, Tile | None], None], *, wide: bool
) -> None:
    """Runs `element` at every index of `dims`, in tiles of the dimension `rows` and the last one, which runs along
    vectors.

    Elements that fill no tile come with None. The rows of some tiles are walked to their ends side by side, `wide` in
    steps of whole cache lines, for which there are several times as many copies of what `element` writes.
    """
    last, lanes = len(dims) - 1, b.lanes
    height, length = dims[rows], dims[last]
    tiles, left = divmod(height, lanes)
    blocks, more = divmod(tiles, _TOGETHER)

    def level(d: int, index: Index) -> None:
        if d == last:
            plane(index)
        elif d == rows or dims[d] == 1:
            level(d + 1, (*index, ZERO))
        else:
            with b.loop(dims[d], chunked=True) as i:
                level(d + 1, (*index, i))

    def plane(index: Index) -> None:
        def at(row: Affine, place: Affine) -> Index:
            return (*index[:rows], row, *index[rows + 1 :], place)

        if blocks:
            with b.loop(blocks, _TOGETHER * lanes, chunked=True) as first:
                strip(at, first, _TOGETHER)
        if more:
            strip(at, Affine(blocks * _TOGETHER * lanes), more)
        if left:
            with b.loop(left) as row:
                b.vectorized(length, lambda place: element(at(row + tiles * lanes, place), None))

    def strip(at: Callable[[Affine, Affine], Index], first: Affine, count: int) -> None:
        """So many tiles' rows, from `first` on."""
        lines, rest = divmod(length // lanes, _TOGETHER if wide else length)
        for start, trips, together in ((0, lines, _TOGETHER), (lines * _TOGETHER * lanes, rest, 1)):
            if trips:
                with b.loop(trips, together * lanes, vector=True) as place:
                    square(at, first, count, [place + start + k * lanes for k in range(together)])
        done = (length // lanes) * lanes
        if done < length:
            with b.loop(count * lanes) as row, b.loop(length - done) as place:
                element(at(first + row, place + done), None)

    def square(at: Callable[[Affine, Affine], Index], first: Affine, count: int, places: list[Affine]) -> None:
        with b.open_loop(count, lanes) as loop:
            for place in places:
                tile = Tile(loop)
                for tile.row in range(lanes):
                    element(at(first + Affine.along(loop) + tile.row, place), tile)

    level(0, ())
