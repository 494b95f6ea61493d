"""Positions of an array's elements in memory: indices to positions and back, tiles, and arrays packed into a layout's
bytes.

Positions count elements. The physical order is made in steps: the dimensions from major to minor; then each tile in
turn splits the most minor dimensions of what there is into (number of tiles, tile), all in-tile dimensions moved to the
minor end; then the count of elements is rounded up to `tail_padding_alignment_in_elements`. Bytes of an array here are
little-endian elements, a whole byte for those below one.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import inf, prod
from typing import Any

from ..dataclass import dataclass
from ..errors import ArgumentError, counted
from . import float_codes
from .shape import UNBOUNDED, Index, Shape
from .types import TYPES

COMBINE = UNBOUNDED
"""The size in a tile that merges a dimension into the next more minor one (`*` in text)."""
LAYOUT_FIELDS = (
    *("tiles", "element_size_in_bits", "tail_padding_alignment_in_elements"),
    *("dynamic_shape_metadata_prefix_bytes", "padded_dimensions", "padding_value"),
)
"""Fields of a layout, beyond the order of dimensions, that decide where elements lie."""
_HOLE = -(1 << 62)
"""Stands for padding in lists of positions; it stays negative whatever is added to it."""

ONE_PAD, LOWEST_PAD, HIGHEST_PAD = 2, 3, 4
"""Values of the older field `padding_value`; anything else, 1 among it, fills with zeros."""


# --- indices and positions ------------------------------------------------------------------------------------------


def position(shape: Shape, index: Sequence[int]) -> int:
    """Returns the position of an element, tiles and padding counted."""
    index = _inside(shape, index)
    coordinates = [index[d] for d in reversed(shape.minor_to_major)]
    for tiling in tilings(shape):
        coordinates = tiling.split(coordinates)
    place = 0
    for coordinate, size in zip(coordinates, physical_dimensions(shape)):
        place = place * size + coordinate
    return place


def index_at(shape: Shape, place: int) -> Index | None:
    """The inverse of `position`; None for a position of padding."""
    if not 0 <= place < physical_elements(shape):
        raise ArgumentError(f"{shape} has no position {place}: it takes {counted(physical_elements(shape), 'element')}")
    dims = physical_dimensions(shape)
    if place >= prod(dims):
        return None
    coordinates = [0] * len(dims)
    for d in range(len(dims) - 1, -1, -1):
        place, coordinates[d] = divmod(place, dims[d])
    for tiling in reversed(tilings(shape)):
        joined = tiling.join(coordinates[len(coordinates) - len(tiling.after) :])
        if joined is None:
            return None
        coordinates = joined
    coordinates = coordinates[len(coordinates) - shape.rank :]
    index = [0] * shape.rank
    for d, coordinate in zip(reversed(shape.minor_to_major), coordinates):
        index[d] = coordinate
    return tuple(index) if all(i < size for i, size in zip(index, shape.dimensions)) else None


def _inside(shape: Shape, index: Sequence[int]) -> Sequence[int]:
    if len(index) != shape.rank or not all(0 <= i < size for i, size in zip(index, shape.dimensions)):
        raise ArgumentError(f"{shape} has no element {tuple(index)}")
    return index


# --- tiles ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tiling:
    """One tile applied to an array of `before`: the last `len(dims)` dimensions, once merged, are `dims`."""

    before: Index
    outer: Index
    """The dimensions that the tile does not reach."""
    dims: Index
    tile: Index
    merged: tuple[Index, ...]
    """For each of `dims` the sizes of the dimensions merged into it."""

    @property
    def counts(self) -> Index:
        """Tiles along each of `dims`."""
        return tuple(-(-size // t) for size, t in zip(self.dims, self.tile))

    @property
    def padded(self) -> Index:
        """`dims` rounded up to whole tiles."""
        return tuple(count * t for count, t in zip(self.counts, self.tile))

    @property
    def after(self) -> Index:
        return (*self.outer, *self.counts, *self.tile)

    def split(self, coordinates: list[int]) -> list[int]:
        """The coordinates of an element in the tiled array."""
        rank = len(self.outer)
        coordinates = [0] * (len(self.before) - len(coordinates)) + coordinates
        rest = iter(coordinates[rank:])
        joined = []
        for sizes in self.merged:
            at = 0
            for size in sizes:
                at = at * size + next(rest)
            joined.append(at)
        return [
            *coordinates[:rank],
            *(i // t for i, t in zip(joined, self.tile)),
            *(i % t for i, t in zip(joined, self.tile)),
        ]

    def join(self, coordinates: list[int]) -> list[int] | None:
        """The inverse of `split`; None in padding."""
        rank, k = len(self.outer), len(self.tile)
        result = coordinates[:rank]
        for d, sizes in enumerate(self.merged):
            at = coordinates[rank + d] * self.tile[d] + coordinates[rank + k + d]
            if at >= self.dims[d]:
                return None
            parts = []
            for size in reversed(sizes):
                at, part = divmod(at, size)
                parts.append(part)
            result += reversed(parts)
        return result


def tilings(shape: Shape) -> list[Tiling]:
    """The tiles of an array's layout, each with what it is applied to. A tile of more dimensions than there are finds
    ones."""
    found = []
    bounds = physical_bounds(shape)
    for tile in shape.layout.tiles if shape.layout else ():
        bounds = (1,) * (len(tile) - len(bounds)) + bounds
        reach = len(bounds) - len(tile)
        merged: list[Index] = []
        sizes: list[int] = []
        for size, t in zip(bounds[reach:], tile):
            sizes.append(size)
            if t == COMBINE:
                continue
            if t < 1:
                raise ArgumentError(f"{shape}: a tile of size {t}")
            merged.append(tuple(sizes))
            sizes = []
        if sizes:
            raise ArgumentError(f"{shape}: the last dimension of a tile has none to be combined with")
        whole = tuple(t for t in tile if t != COMBINE)
        found.append(Tiling(bounds, bounds[:reach], tuple(prod(m) for m in merged), whole, tuple(merged)))
        bounds = found[-1].after
    return found


def physical_bounds(shape: Shape) -> Index:
    """The dimensions from major to minor, before tiling, with the padding of the older field `padded_dimensions`."""
    padded = shape.layout.padded_dimensions if shape.layout else ()
    if padded and (len(padded) != shape.rank or any(wide < size for wide, size in zip(padded, shape.dimensions))):
        raise ArgumentError(f"{shape}: dimensions padded to {padded}")
    return tuple((padded or shape.dimensions)[d] for d in reversed(shape.minor_to_major))


def physical_dimensions(shape: Shape) -> Index:
    """The dimensions of the array as it lies in memory, after all tiles, from major to minor."""
    found = tilings(shape)
    return found[-1].after if found else physical_bounds(shape)


def physical_elements(shape: Shape) -> int:
    """Returns the number of elements that the array takes in memory, padding counted."""
    align = shape.layout.tail_padding_alignment_in_elements if shape.layout else 1
    if align < 1:
        raise ArgumentError(f"{shape}: padding to a multiple of {align}")
    return -(-prod(physical_dimensions(shape)) // align) * align


def element_bits(shape: Shape) -> int:
    """The bits that one element takes in memory: those of a whole byte or more, unless the layout says otherwise."""
    type_ = TYPES[shape.element_type]
    bits = shape.layout.element_size_in_bits if shape.layout else 0
    if bits and (bits < type_.bits or bits > 8 and bits % 8):
        raise ArgumentError(f"{shape}: {bits} bits do not hold an element of {type_.name}")
    return bits or 8 * type_.bytes


def prefix_bytes(shape: Shape) -> int:
    """The bytes before the first element, which hold the sizes of the dimensions."""
    return shape.layout.dynamic_shape_metadata_prefix_bytes if shape.layout else 0


def physical_bytes(shape: Shape) -> int:
    """The bytes that the array takes in memory."""
    return prefix_bytes(shape) + -(-physical_elements(shape) * element_bits(shape) // 8)


def is_plain(shape: Shape) -> bool:
    """Returns True if the array lies without tiles, padding or packing: its dimensions in some order, nothing else."""
    layout = shape.layout
    return layout is None or not (
        layout.tiles
        or layout.padded_dimensions
        or layout.tail_padding_alignment_in_elements > 1
        or layout.dynamic_shape_metadata_prefix_bytes
        or element_bits(shape) != 8 * TYPES[shape.element_type].bytes
    )


# --- whole arrays ---------------------------------------------------------------------------------------------------


def order(shape: Shape) -> list[int]:
    """For every position in memory the row-major number of its element, -1 for padding."""
    strides = [1] * shape.rank
    for d in range(shape.rank - 2, -1, -1):
        strides[d] = strides[d + 1] * shape.dimensions[d + 1]
    axes = [(shape.dimensions[d], strides[d]) for d in reversed(shape.minor_to_major)]
    found = _sums(
        [
            [i * stride if i < size else _HOLE for i in range(wide)]
            for (size, stride), wide in zip(axes, physical_bounds(shape))
        ]
    )
    for tiling in tilings(shape):
        block = _block(tiling)
        size = prod(tiling.dims)
        starts = range(0, prod(tiling.before), size) if size else range(0)
        found = [found[start + o] if o >= 0 else _HOLE for start in starts for o in block]
    found += [_HOLE] * (physical_elements(shape) - len(found))
    return [max(element, -1) for element in found]


def _block(tiling: Tiling) -> list[int]:
    """The tiled order of the elements of one block of `tiling.dims`; negative for padding."""
    stride, step = prod(tiling.dims), prod(tiling.padded)
    padded, counts, insides = [], [], []
    for size, wide, t in zip(tiling.dims, tiling.padded, tiling.tile):
        stride, step = stride // (size or 1), step // (wide or 1)
        padded.append([i * stride if i < size else _HOLE for i in range(wide)])
        counts.append([i * step for i in range(0, wide, t)])
        insides.append([i * step for i in range(t)])
    elements = _sums(padded)
    return [elements[place] for place in _sums(counts + insides)]


def _sums(axes: list[list[int]]) -> list[int]:
    """All sums of one number of each axis, the last axis varying fastest."""
    found = [0]
    for axis in axes:
        found = [a + b for a in found for b in axis]
    return found


def pack(shape: Shape, data: bytes | bytearray | memoryview) -> bytes:
    """The physical bytes of an array that is given by its elements in row-major order."""
    width = TYPES[shape.element_type].bytes
    if len(data) != shape.size * width:
        raise ArgumentError(f"{shape}: its elements take {shape.size * width} bytes, {len(data)} given")
    fill = padding_element(shape)
    elements = bytes(data)
    chunks = [fill if e < 0 else elements[e * width : (e + 1) * width] for e in order(shape)]
    return prefix(shape) + _pack_bits(b"".join(chunks), width, element_bits(shape))


def unpack(shape: Shape, data: bytes | bytearray | memoryview) -> bytes:
    """The elements, in row-major order, of an array that is given by its physical bytes."""
    if len(data) != physical_bytes(shape):
        raise ArgumentError(f"{shape} takes {physical_bytes(shape)} bytes, {len(data)} given")
    width = TYPES[shape.element_type].bytes
    count = physical_elements(shape)
    elements = _unpack_bits(bytes(data)[prefix_bytes(shape) :], width, element_bits(shape), count, shape)
    found = [0] * shape.size
    for place, element in enumerate(order(shape)):
        if element >= 0:
            found[element] = place
    return b"".join([elements[p * width : (p + 1) * width] for p in found])


def prefix(shape: Shape) -> bytes:
    """Returns the bytes that lie before the elements: the sizes of the dimensions, as s32."""
    room = prefix_bytes(shape)
    if room and room < 4 * shape.rank:
        raise ArgumentError(f"{shape}: {room} bytes do not hold {counted(shape.rank, 'size')}")
    return struct.pack(f"<{shape.rank}i", *shape.dimensions).ljust(room, b"\0") if room else b""


def _pack_bits(data: bytes, width: int, bits: int) -> bytes:
    """Elements of `width` bytes put into `bits` bits each, the first in the lowest."""
    if bits == 8 * width:
        return data
    if bits > 8:
        return b"".join([data[i : i + width].ljust(bits // 8, b"\0") for i in range(0, len(data), width)])
    mask = (1 << bits) - 1
    packed = bytearray()
    for start in range(0, len(data), 8):  # eight elements fill `bits` bytes
        group = 0
        for i, code in enumerate(data[start : start + 8]):
            group |= (code & mask) << bits * i
        packed += group.to_bytes(bits, "little")
    return bytes(packed[: -(-len(data) * bits // 8)])


def _unpack_bits(data: bytes, width: int, bits: int, count: int, shape: Shape) -> bytes:
    if bits == 8 * width:
        return data
    if bits > 8:
        return b"".join([data[i : i + width] for i in range(0, len(data), bits // 8)])
    mask = (1 << bits) - 1
    codes = bytearray()
    for start in range(0, len(data), bits):
        group = int.from_bytes(data[start : start + bits], "little")
        codes += bytes([group >> bits * i & mask for i in range(8)])
    type_ = TYPES[shape.element_type]
    if type_.kind == "signed":
        sign = 1 << type_.bits - 1
        codes = bytearray(((code ^ sign) - sign) & 255 for code in codes)
    return bytes(codes[:count])


def padding_element(shape: Shape) -> bytes:
    """The element that fills what `padded_dimensions` add. Tiles leave their padding unspecified; here it is the
    same."""
    type_ = TYPES[shape.element_type]
    what = shape.layout.padding_value if shape.layout else 0
    if what not in (ONE_PAD, LOWEST_PAD, HIGHEST_PAD):
        return bytes(type_.bytes)
    from .literal import Literal  # which lays arrays out itself

    return bytes(Literal.from_values(Shape(type_.name), [_padding_number(type_.name, what)]).data)


def _padding_number(name: str, what: int) -> Any:
    type_ = TYPES[name]
    if what == ONE_PAD:
        return -1 if name == "s1" else 1
    if type_.kind == "complex":
        raise ArgumentError(f"padding with the least or greatest {name}: complex numbers have no order")
    if name in float_codes.FORMATS:
        numbers = [value for value in float_codes.values(name) if value == value]
        return min(numbers) if what == LOWEST_PAD else max(numbers)
    if type_.kind == "float":
        return -inf if what == LOWEST_PAD else inf
    signed = type_.kind == "signed"
    if what == LOWEST_PAD:
        return -(1 << type_.bits - 1) if signed else 0
    return (1 << type_.bits - signed) - 1
