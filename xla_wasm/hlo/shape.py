"""Shape and Layout (xla_data.proto `ShapeProto`, `LayoutProto`). Immutable and hashable."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import prod

from ..dataclass import dataclass
from ..errors import ArgumentError
from .types import TYPES

UNBOUNDED = -(2**63)
"""The size that the proto writes for an unbounded dimension (`?` in text)."""

Index = tuple[int, ...]
IndexedShape = tuple[Index, "Shape"]


@dataclass(frozen=True, slots=True)
class Layout:
    """The order of an array in memory: `minor_to_major` lists the dimensions from fastest to slowest varying."""

    minor_to_major: tuple[int, ...] = ()
    tiles: tuple[tuple[int, ...], ...] = ()
    element_size_in_bits: int = 0
    memory_space: int = 0
    tail_padding_alignment_in_elements: int = 1
    dynamic_shape_metadata_prefix_bytes: int = 0
    padded_dimensions: tuple[int, ...] = ()
    """An older field: the sizes to which the dimensions are padded with `padding_value`; empty: no padding."""
    padding_value: int = 0
    split_configs: tuple[tuple[int, Index], ...] = ()
    """(dimension, where it is cut in parts that lie in separate memories)."""
    index_primitive_type: str = ""
    pointer_primitive_type: str = ""
    """The types of a sparse array's indices and pointers, which dense layouts may state without meaning."""
    unknown: bytes = b""
    """Wire bytes of the fields not named here, written back as they were."""

    @staticmethod
    def default(rank: int) -> Layout:
        """The row-major layout of `rank` dimensions."""
        return Layout(tuple(range(rank - 1, -1, -1)))

    def __str__(self) -> str:
        tiles = "".join("(" + ",".join("*" if d == UNBOUNDED else str(d) for d in tile) + ")" for tile in self.tiles)
        padding = self.tail_padding_alignment_in_elements
        items = (
            ("T", tiles),
            ("L", f"({padding})" if padding > 1 else ""),
            *(
                (letter, f"({word})" if word else "")
                for letter, word in (("#", self.index_primitive_type), ("*", self.pointer_primitive_type))
            ),
            *(
                (letter, f"({size})" if size else "")
                for letter, size in (("E", self.element_size_in_bits), ("S", self.memory_space))
            ),
            (
                "SC",
                "".join(f"({dimension}:{','.join(map(str, indices))})" for dimension, indices in self.split_configs),
            ),
            ("M", f"({self.dynamic_shape_metadata_prefix_bytes})" if self.dynamic_shape_metadata_prefix_bytes else ""),
        )
        tail = "".join(letter + text for letter, text in items if text)
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
        """True if any dimension, of any leaf, is dynamic."""
        return any(self.dynamic) or any(s.is_dynamic for s in self.tuple_shapes)

    @property
    def rank(self) -> int:
        return len(self.dimensions)

    def dimension_number(self, d: int) -> int:
        """The number of a dimension that may be counted from the end: -1 is the last one."""
        if not -self.rank <= d < self.rank:
            raise ArgumentError(f"{self} has no dimension {d}")
        return d % self.rank

    def dimension(self, d: int) -> int:
        """The size of a dimension, which may be counted from the end."""
        return self.dimensions[self.dimension_number(d)]

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

    def leaves(self, index: Index = ()) -> Iterator[IndexedShape]:
        """Every non-tuple shape inside, with its tuple index, in order."""
        if self.is_tuple:
            for i, shape in enumerate(self.tuple_shapes):
                yield from shape.leaves((*index, i))
        else:
            yield index, self

    def with_leaves(self, leaves: Iterator[Shape]) -> Shape:
        """The same tuple of tuples with the next ones of `leaves` in the places of its own; such a leaf itself if it is
        none."""
        return Shape.tuple([s.with_leaves(leaves) for s in self.tuple_shapes]) if self.is_tuple else next(leaves)

    def without_layout(self) -> Shape:
        """The same shape with no layout anywhere: two shapes hold the same values exactly if these are equal."""
        if self.tuple_shapes:
            return Shape(self.element_type, tuple_shapes=tuple([s.without_layout() for s in self.tuple_shapes]))
        if self.layout is None and not self.dynamic:
            return self
        return array_shape(self.element_type, self.dimensions, self.dynamic if any(self.dynamic) else ())

    def with_dimensions(self, dimensions: Index) -> Shape:
        """An array of the same element type with other static dimensions, in the default layout."""
        return Shape(self.element_type, dimensions)

    def with_layout(self, layout: Layout | None) -> Shape:
        """The same array laid out otherwise; None: in row-major order."""
        return Shape(self.element_type, self.dimensions, layout, self.dynamic, self.tuple_shapes)

    def with_default_layout(self) -> Shape:
        """The same shape with every array in it row-major, and said to be so."""
        if self.is_tuple:
            return Shape.tuple([s.with_default_layout() for s in self.tuple_shapes])
        return self.with_layout(Layout.default(self.rank)) if self.is_array else self

    def with_element_type(self, element_type: str) -> Shape:
        return Shape(element_type, self.dimensions, self.layout, self.dynamic, self.tuple_shapes)

    def __str__(self) -> str:
        if self.is_tuple:
            return "(" + ", ".join(map(str, self.tuple_shapes)) + ")"
        if self.element_type == "buffer":
            return f"b({self.tuple_shapes[0]})"
        dynamic = self.dynamic or (False,) * self.rank
        dims = (
            "?" if size == UNBOUNDED else f"<={size}" if flag else str(size)
            for size, flag in zip(self.dimensions, dynamic)
        )
        shown = self.layout and (self.rank or self.layout != Layout())
        return f"{self.element_type}[{','.join(dims)}]" + (str(self.layout) if shown else "")


@lru_cache(4096)
def array_shape(element_type: str, dimensions: Index, dynamic: tuple[bool, ...] = ()) -> Shape:
    """The shape of an array without a layout. Shapes that are alike are one object: a program has many arrays and few
    shapes."""
    return Shape(element_type, dimensions, None, dynamic)
