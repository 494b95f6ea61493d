"""Arrays of the manifest: the leaves of parameters and results, and the operands and results of requests."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import product
from typing import Any

from ..dataclass import dataclass, field, replace
from ..errors import ArgumentError, ArtifactError, counted
from ..hlo.attrs import MOST_DEVICES
from ..hlo.layout import COMBINE, LAYOUT_FIELDS, physical_bytes
from ..hlo.shape import Layout, Shape
from ..hlo.types import ARRAY_TYPES, TYPES
from ..showing import dimensions as shown_dimensions
from .json_object import Object, is_int, show
from .manifest_fields import MAX_INT, MAX_RANK


@dataclass(frozen=True, slots=True)
class Shards:
    """A global array of which each device has a block of the leaf's own dimensions, from `starts[device]` on."""

    dimensions: tuple[int, ...]
    starts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Leaf:
    """An array in the module's memory: a leaf of a parameter or of the result."""

    name: str
    element_type: str
    dimensions: tuple[int, ...]
    minor_to_major: tuple[int, ...]
    offset: int
    bytes: int
    kind: str
    shape: Shape
    """The array with the layout that callers use. In the module's memory it lies in that order, but neither tiled nor
    padded."""
    sizes: tuple[int | None, ...] = field(default=(), kw_only=True)
    """Of an array with dynamic dimensions (`dimensions` are their bounds), where the actual size of each lies as s32;
    None: static."""
    least: tuple[int, ...] = field(default=(), kw_only=True)
    """Of an array with dynamic dimensions the least size of each dimension; empty: 0 where it is dynamic."""
    shards: Shards | None = field(default=None, kw_only=True)
    """The blocks of a global array that the devices have; None if it is unknown."""

    def __str__(self) -> str:
        return f"{self.element_type}[{','.join(self.shown_dimensions)}]"

    @property
    def shown_dimensions(self) -> list[str]:
        """The dimensions for a message, those that are dynamic with their bounds."""
        return shown_dimensions(self.dimensions, self.sizes, self.least)

    @property
    def least_dimensions(self) -> tuple[int, ...]:
        """The dimensions of the smallest array."""
        if not self.sizes or self.least:
            return self.least or self.dimensions
        return tuple(bound if at is None else 0 for bound, at in zip(self.dimensions, self.sizes))

    def fits(self, dimensions: tuple[int, ...]) -> bool:
        """Returns True for the dimensions of an array that goes in: the leaf's own, or where these are dynamic, from
        the least to their bounds."""
        if not self.sizes or len(dimensions) != len(self.dimensions):
            return dimensions == self.dimensions
        return all(low <= size <= bound for low, size, bound in zip(self.least_dimensions, dimensions, self.dimensions))

    def actual(self, stated: Iterable[int | None]) -> tuple[int, ...]:
        """Returns the array's dimensions, from the sizes that the module states; None: static. Raises ArtifactError
        beyond a bound."""
        made = []
        for d, (size, bound) in enumerate(zip(stated, self.dimensions)):
            size = bound if size is None else size
            if not 0 <= size <= bound:
                raise ArtifactError(f"the module states size {size} of dimension {d} of '{self.name}', which is {self}")
            made.append(size)
        return tuple(made)


def leaf_fields(item: Object, memory: int, placed: bool = True) -> dict[str, Any]:
    """Returns the fields of a Leaf, checked; raises ArtifactError naming the first that is wrong. `placed`: it has a
    place of its own in the memory of so many bytes."""
    element_type = item.text("element_type")
    if element_type not in ARRAY_TYPES:
        item.fail("element_type", f"{show(element_type)} is not the type of an array")
    width = TYPES[element_type].bytes
    dimensions = item.integers("dimensions")
    if len(dimensions) > MAX_RANK or math.prod(d or 1 for d in dimensions) * width > MAX_INT:
        item.fail("dimensions", "they are too many or too large")
    minor_to_major = item.integers("minor_to_major")
    order = list(range(len(dimensions)))
    if sorted(minor_to_major) != order:
        item.fail("minor_to_major", f"{show(list(minor_to_major))} is not a permutation of {order}")
    size = item.integer("bytes")
    if size != math.prod(dimensions) * width:
        item.fail(
            "bytes",
            f"{element_type}[{','.join(map(str, dimensions))}] takes {math.prod(dimensions) * width} bytes, not {size}",
        )
    component = width // 2 if TYPES[element_type].kind == "complex" else width
    return {
        "name": item.text("name"),
        "element_type": element_type,
        "dimensions": dimensions,
        "minor_to_major": minor_to_major,
        "offset": item.address("offset", memory, size, component) if placed else 0,
        "bytes": size,
        "kind": item.choice("kind"),
        "shape": Shape(
            element_type, dimensions, _layout(item, Shape(element_type, dimensions, Layout(minor_to_major)))
        ),
        "sizes": (sizes := _sizes(item, len(dimensions), memory)),
        "least": _least(item, dimensions, sizes),
        "shards": _shards(item, dimensions),
    }


def _shards(item: Object, own: tuple[int, ...]) -> Shards | None:
    """Returns the starts of the devices' blocks; None if there are none. Raises ArtifactError if they do not make up
    the global array."""
    if item.raw.get("shards") is None:
        return None
    at = Object(item.get("shards"), f"{item.path}.shards", "array.shards")
    whole = at.integers("dimensions")
    if len(whole) != len(own) or any(n % size if size else n for n, size in zip(whole, own)):
        at.fail("dimensions", f"{show(list(whole))} does not divide into blocks of {show(list(own))}")
    starts = tuple(tuple(row) if isinstance(row, (list, tuple)) else () for row in at.array("starts"))
    fitting = math.prod(n // size if size else 1 for n, size in zip(whole, own)) <= len(starts) <= MOST_DEVICES
    if not fitting or set(starts) != set(
        product(*(range(0, n, size) if size else (0,) for n, size in zip(whole, own)))
    ):
        at.fail("starts", f"blocks of {show(list(own))} from there on do not make up {show(list(whole))}")
    return Shards(whole, starts)


def _sizes(item: Object, rank: int, memory: int) -> tuple[int | None, ...]:
    """Returns the addresses of the sizes of dynamic dimensions; empty if there are none. Raises ArtifactError for wrong
    ones."""
    if "sizes" not in item.raw:
        return ()
    sizes = item.array("sizes")
    if len(sizes) != rank or all(size is None for size in sizes):
        item.fail("sizes", f"expected an address or null for each of {counted(rank, 'dimension')}, got {show(sizes)}")
    for size in sizes:
        if size is not None and (not is_int(size) or size % 4 or not 0 <= size <= memory - 4):
            item.fail("sizes", f"expected addresses of s32 inside the memory of {memory} bytes, got {show(size)}")
    if item.text("kind") == "weight":
        item.fail("sizes", "a weight has no dynamic dimensions")
    return tuple(sizes)


def _least(item: Object, bounds: tuple[int, ...], sizes: tuple[int | None, ...]) -> tuple[int, ...]:
    """Returns the least size of each dimension; empty if there are none. Raises ArtifactError for wrong ones."""
    if "least" not in item.raw:
        return ()
    least = item.integers("least")
    fitting = len(least) == len(bounds) == len(sizes) and all(map(int.__le__, least, bounds))
    if not fitting or any(at is None and n != bound for n, bound, at in zip(least, bounds, sizes)):
        item.fail("least", f"expected sizes up to the bounds {show(list(bounds))}, got {show(list(least))}")
    return least


def _layout(item: Object, shape: Shape) -> Layout:
    """The layout that callers use: `shape` has its order of dimensions, `item` what else is not default."""
    layout = shape.layout or Layout()
    given = [name for name in LAYOUT_FIELDS if name in item.raw]
    if not given:
        return layout
    fields: dict[str, Any] = {name: item.integer(name) for name in given if name not in ("tiles", "padded_dimensions")}
    if "tiles" in given:
        fields["tiles"] = tuple(_tile(item, tile) for tile in item.array("tiles"))
    if "padded_dimensions" in given:
        fields["padded_dimensions"] = item.integers("padded_dimensions")
    layout = replace(layout, **fields)
    size = item.integer("physical_bytes")
    try:
        actual = physical_bytes(shape.with_layout(layout))
    except ArgumentError as error:
        item.fail("minor_to_major", str(error))
    if size != actual:
        item.fail("physical_bytes", f"{shape.with_layout(layout)} takes {actual} bytes, not {size}")
    return layout


def _tile(item: Object, tile: Any) -> tuple[int, ...]:
    if not isinstance(tile, (list, tuple)) or not 0 < len(tile) <= MAX_RANK:
        item.fail("tiles", f"expected lists of sizes, got {show(tile)}")
    if not all(size == "*" or is_int(size) and 0 < size <= MAX_INT for size in tile):
        item.fail("tiles", f"expected sizes above 0 or '*', got {show(tile)}")
    return tuple(COMBINE if size == "*" else size for size in tile)
