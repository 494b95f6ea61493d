"""Shape and Layout (xla_data.proto `ShapeProto`, `LayoutProto`). Immutable and hashable."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from .types import TYPES

UNBOUNDED = -(2**63)
"""The size that the proto writes for an unbounded dimension (`?` in text)."""

Index = tuple[int, ...]
Leaf = tuple[Index, "Shape"]


@dataclass(frozen=True, slots=True)
class Layout:
    """How an array lies in memory: `minor_to_major` lists the dimensions from fastest to slowest varying."""

    minor_to_major: tuple[int, ...] = ()
    tiles: tuple[tuple[int, ...], ...] = ()
    element_size_in_bits: int = 0
    memory_space: int = 0
    tail_padding_alignment_in_elements: int = 1
    dynamic_shape_metadata_prefix_bytes: int = 0
    unknown: bytes = b""
    """Wire bytes of the fields not named here, written back as they were."""

    @staticmethod
    def default(rank: int) -> Layout:
        """The row-major layout of `rank` dimensions."""
        return Layout(tuple(range(rank - 1, -1, -1)))

    def __str__(self) -> str:
        tiles = "".join("(" + ",".join("*" if d == UNBOUNDED else str(d) for d in tile) + ")" for tile in self.tiles)
        padding = self.tail_padding_alignment_in_elements
        numbers = (
            ("L", padding if padding > 1 else 0),
            ("E", self.element_size_in_bits),
            ("S", self.memory_space),
            ("M", self.dynamic_shape_metadata_prefix_bytes),
        )
        tail = ("T" + tiles if tiles else "") + "".join(f"{letter}({number})" for letter, number in numbers if number)
        return "{" + ",".join(map(str, self.minor_to_major)) + (":" + tail if tail else "") + "}"


@dataclass(frozen=True, slots=True)
class Shape:
    """The type of an HLO value: an array, a tuple of shapes, a token or an opaque value.

    `dynamic` holds one flag per dimension (empty: all static); `dimensions` then holds upper bounds.
    A missing `layout` means row-major.
    """

    element_type: str
    dimensions: Index = ()
    layout: Layout | None = None
    dynamic: tuple[bool, ...] = ()
    tuple_shapes: tuple[Shape, ...] = ()

    @staticmethod
    def tuple(shapes: list[Shape] | tuple[Shape, ...]) -> Shape:
        """The tuple of `shapes`."""
        return Shape("tuple", tuple_shapes=(*shapes,))

    @property
    def is_tuple(self) -> bool:
        return self.element_type == "tuple"

    @property
    def is_array(self) -> bool:
        return TYPES[self.element_type].bits > 0

    @property
    def is_token(self) -> bool:
        return self.element_type == "token"

    @property
    def is_dynamic(self) -> bool:
        """Whether any dimension, of any leaf, is dynamic."""
        return any(self.dynamic) or any(s.is_dynamic for s in self.tuple_shapes)

    @property
    def rank(self) -> int:
        return len(self.dimensions)

    @property
    def size(self) -> int:
        """Number of elements of an array (of its bound, where a dimension is dynamic)."""
        return prod(self.dimensions)

    @property
    def bytes(self) -> int:
        """Bytes of the dense array; 0 for what is not an array."""
        return self.size * TYPES[self.element_type].bytes if self.is_array else 0

    @property
    def minor_to_major(self) -> Index:
        return self.layout.minor_to_major if self.layout else tuple(range(self.rank - 1, -1, -1))

    @property
    def is_row_major(self) -> bool:
        m2m = self.minor_to_major
        return m2m == tuple(range(self.rank - 1, -1, -1))

    def leaves(self, index: Index = ()) -> Iterator[Leaf]:
        """Every non-tuple shape inside, with its tuple index, in order."""
        if self.is_tuple:
            for i, shape in enumerate(self.tuple_shapes):
                yield from shape.leaves((*index, i))
        else:
            yield index, self

    def without_layout(self) -> Shape:
        """The same shape with no layout anywhere: two shapes hold the same values exactly if these are equal."""
        if self.is_tuple:
            return Shape.tuple([s.without_layout() for s in self.tuple_shapes])
        return Shape(self.element_type, self.dimensions, None, self.dynamic if any(self.dynamic) else ())

    def with_dimensions(self, dimensions: Index) -> Shape:
        """An array of the same element type with other static dimensions, in the default layout."""
        return Shape(self.element_type, dimensions)

    def with_element_type(self, element_type: str) -> Shape:
        return replace(self, element_type=element_type)

    def __str__(self) -> str:
        if self.is_tuple:
            return "(" + ", ".join(map(str, self.tuple_shapes)) + ")"
        if self.element_type == "buffer":
            return f"b({self.tuple_shapes[0]})"
        dynamic = self.dynamic or (False,) * self.rank
        dims = ("?" if size == UNBOUNDED else f"<={size}" if flag else str(size) for size, flag in zip(self.dimensions, dynamic))
        return f"{self.element_type}[{','.join(dims)}]" + (str(self.layout) if self.layout and self.rank else "")
