"""Draws where the elements of an array lie in memory: as tables for a terminal, or as an SVG picture."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, product
from math import prod
from typing import TYPE_CHECKING

from ..errors import ArgumentError, counted
from ..hlo.layout import element_bits, index_at, physical_bytes, physical_elements, position, prefix_bytes, tilings
from ..hlo.shape import Index, Shape

if TYPE_CHECKING:
    from rich.console import RenderableType

LETTERS = "pzyx"
"""By convention the last dimension is x, the one before it y, and so on."""
_MOST_CELLS = 16
_MOST_GRIDS = 4
_MOST_PLACES = 128
_MOST_COLUMNS = 16
_MOST_CHARACTERS = 140

_CELL_HEIGHT, _MARGIN, _LINE, _CHARACTER = 28, 24, 22, 7.4


def draw(shape: Shape) -> RenderableType:
    """The layout as tables: the array with the position of every element, and memory with the index at every
    position."""
    from rich.console import Group
    from rich.text import Text

    from .report import table

    _check(shape)
    parts: list[RenderableType] = [Text(line) for line in summary(shape)]
    for title, rows in _grids(shape):
        width = len(rows[0][1]) if rows else 0
        grid = table(title, *(f">{_letter(shape, -1)}={x}" if shape.rank else ">" for x in range(width)))
        for label, places in rows:
            grid.add_row(label, *map(str, places))
        parts += [Text(), grid]
    parts += [Text(f"\n{line}") for line in _left_out(shape)]
    columns = _columns(shape)
    memory = table(">position", *[""] * columns)
    laid = list(_places(shape))
    for start in range(0, len(laid), columns):
        row = laid[start : start + columns]
        if any(index is not None for index in row):  # rows of nothing but padding say nothing
            memory.add_row(str(start), *map(_index_text, row))
    if laid:
        parts += [Text("\nIn memory (· is padding):"), memory]
    if physical_elements(shape) > len(laid):
        parts.append(Text(f"... and {physical_elements(shape) - len(laid):,} positions more"))
    return Group(*parts)


def svg(shape: Shape) -> str:
    """The layout as a picture: the array in colours that follow memory, a line along the order, and memory itself
    below."""
    _check(shape)
    places = list(_places(shape))
    total = physical_elements(shape)
    canvas = _Canvas(total, max(len(str(total)), *map(len, map(_index_text, places)), 4))
    for line in summary(shape):
        canvas.text(_MARGIN, line)
    for title, rows in _grids(shape):
        canvas.grid(title, rows)
    for line in _left_out(shape):
        canvas.text(_MARGIN, line)
    canvas.text(_MARGIN, "In memory:")
    canvas.strip(places, _columns(shape))
    return canvas.finish()


def summary(shape: Shape) -> list[str]:
    """Returns sentences about a layout."""
    bits = element_bits(shape)
    unit = f"{bits // 8} byte{'s' if bits > 8 else ''}" if bits % 8 == 0 else f"{bits} bits"
    total = physical_elements(shape)
    lines = [
        str(shape),
        f"elements: {shape.size:,} of {unit}",
        f"in memory: {counted(total, 'element')}, {total - shape.size:,} of them padding; {physical_bytes(shape):,} "
        f"bytes",
    ]
    if prefix_bytes(shape):
        lines.append(f"{prefix_bytes(shape)} bytes before the first element hold the sizes")
    if shape.rank > 1:
        lines.append("from slow to fast: " + ", ".join(_letter(shape, d) for d in reversed(shape.minor_to_major)))
    for tiling in tilings(shape):
        outer = f"{_sizes(tiling.outer)} times " if prod(tiling.outer) != 1 else ""
        merged = _sizes(tiling.dims)
        padded = f" padded to {_sizes(tiling.padded)}" if tiling.padded != tiling.dims else ""
        lines.append(f"tile {_sizes(tiling.tile)}: {outer}{merged}{padded} in {_sizes(tiling.counts)} tiles")
    return lines


def facts(shape: Shape) -> dict[str, int]:
    """Returns the size of an array: its elements, its positions in memory, and its bytes."""
    _check(shape)
    return {"elements": shape.size, "positions": physical_elements(shape), "bytes": physical_bytes(shape)}


def _check(shape: Shape) -> None:
    if not shape.is_array:
        raise ArgumentError(f"{shape} is no array, which alone have layouts: give the shape of one, as in f32[3,5]")
    physical_bytes(shape)


def _sizes(dims: Index) -> str:
    return "x".join(map(str, dims)) or "1"


def _letter(shape: Shape, d: int) -> str:
    """The name of a dimension."""
    d = shape.dimension_number(d)
    return LETTERS[d - shape.rank] if shape.rank <= len(LETTERS) else f"d{d}"


def _index_text(index: Index | None) -> str:
    return "·" if index is None else ",".join(map(str, index)) or "0"


Row = tuple[str, list[int]]


def _grids(shape: Shape) -> Iterator[tuple[str, list[Row]]]:
    """The last two dimensions for each index of the others: a title, and rows with a label and the positions."""
    *outer, height, width = (1, 1, *shape.dimensions)[-max(shape.rank, 2) :]
    if not shape.size:
        return
    width, height = min(width, _columns_shown(shape)), min(height, _MOST_CELLS)
    for first in islice(product(*map(range, outer)), _MOST_GRIDS):
        title = " ".join(f"{_letter(shape, d)}={i}" for d, i in enumerate(first))
        rows = []
        for y in range(height):
            indices = [(*first, y, x)[len(first) + 2 - shape.rank :] for x in range(width)]
            rows.append(
                (f"{_letter(shape, -2)}={y}" if shape.rank > 1 else "", [position(shape, index) for index in indices])
            )
        yield title, rows


def _left_out(shape: Shape) -> list[str]:
    """Returns sentences about what the grids do not show."""
    lines = []
    limits = (_MOST_CELLS, _columns_shown(shape))[-shape.rank :]
    if any(size > limit for size, limit in zip(shape.dimensions[-2:], limits)):
        lines.append(f"Shown is the corner of {_sizes(tuple(map(min, zip(shape.dimensions[-2:], limits))))} elements.")
    grids = prod(shape.dimensions[:-2])
    if shape.size and grids > _MOST_GRIDS:
        lines.append(f"Shown are {_MOST_GRIDS} of {grids:,} planes.")
    return lines


def _columns_shown(shape: Shape) -> int:
    """The most columns of a grid, which hold positions."""
    return min(_MOST_CELLS, _MOST_CHARACTERS // (len(str(physical_elements(shape))) + 2))


def _columns(shape: Shape) -> int:
    """Positions in a row of memory: the last tile, or the most minor dimension, as far as it fits."""
    found = tilings(shape)
    unit = prod(found[-1].tile) if found else shape.dimensions[shape.minor_to_major[0]] if shape.rank else 1
    most = max(_MOST_CHARACTERS // (sum(len(str(size)) + 1 for size in shape.dimensions) + 2), 1)
    most = min(_MOST_COLUMNS, most, max(physical_elements(shape), 1))
    return most // unit * unit if 0 < unit <= most else most


def _places(shape: Shape) -> Iterator[Index | None]:
    """The index at each of the first positions."""
    for place in range(min(physical_elements(shape), _MOST_PLACES)):
        yield index_at(shape, place)


class _Canvas:
    """An SVG picture that grows downwards."""

    def __init__(self, total: int, characters: int):
        self.total = total
        self.cell = round(characters * _CHARACTER) + 16
        self.parts: list[str] = []
        self.width = 0
        self.bottom = _MARGIN

    def text(self, x: float, text: str, anchor: str = "start") -> None:
        """A line of its own."""
        self.bottom += _LINE
        self._text(x, self.bottom - 6, text, anchor)
        self.width = max(self.width, round(x + _CHARACTER * len(text)))

    def grid(self, title: str, rows: list[Row]) -> None:
        """The positions of one plane, with a line from each to the next where both are in it."""
        if title:
            self.text(_MARGIN, title)
        left, top = _MARGIN + self.cell, self.bottom + 8
        centres = {}
        for y, (label, places) in enumerate(rows):
            self._text(left - 8, top + y * _CELL_HEIGHT + 19, label, "end")
            for x, place in enumerate(places):
                self._cell(left + x * self.cell, top + y * _CELL_HEIGHT, str(place), self._colour(place))
                centres[place] = (left + (x + 0.5) * self.cell, top + (y + 0.5) * _CELL_HEIGHT)
        line: list[str] = []
        for place in sorted(centres):
            line.append(("L" if place - 1 in centres else "M") + "{:g} {:g}".format(*centres[place]))
        self.parts.append(
            f'<path d="{" ".join(line)}" fill="none" stroke="#000" stroke-opacity="0.25" stroke-width="2"/>'
        )
        self.bottom = top + len(rows) * _CELL_HEIGHT + 8

    def strip(self, places: list[Index | None], columns: int) -> None:
        """Memory, row by row."""
        left, top = _MARGIN + self.cell, self.bottom + 8
        for place, index in enumerate(places):
            y, x = divmod(place, columns)
            if x == 0:
                self._text(left - 8, top + y * _CELL_HEIGHT + 19, str(place), "end")
            colour = "#eee" if index is None else self._colour(place)
            self._cell(left + x * self.cell, top + y * _CELL_HEIGHT, _index_text(index), colour)
        self.bottom = top + -(-len(places) // columns) * _CELL_HEIGHT + 8
        if self.total > len(places):
            self.text(left, f"... and {self.total - len(places):,} positions more")

    def finish(self) -> str:
        width, height = self.width + _MARGIN, self.bottom + _MARGIN
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
        )
        ground = f'<rect width="{width}" height="{height}" fill="#fff"/>'
        return "\n".join([f'{head} font-family="monospace" font-size="12">', ground, *self.parts, "</svg>\n"])

    def _colour(self, place: int) -> str:
        return f"hsl({210 + 200 * place // max(self.total - 1, 1)} 75% 80%)"

    def _cell(self, x: int, y: int, text: str, colour: str) -> None:
        self.width = max(self.width, x + self.cell)
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{self.cell}" height="{_CELL_HEIGHT}" fill="{colour}" stroke="#888"/>'
        )
        self._text(x + self.cell / 2, y + 18, text, "middle")

    def _text(self, x: float, y: float, text: str, anchor: str) -> None:
        self.parts.append(f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{text}</text>')
