"""Shapes to and from ShapeProto and ProgramShapeProto."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...errors import ParseError, UnsupportedError, counted
from ..shape import UNBOUNDED, Layout, Shape
from ..types import BY_NUMBER, TYPES
from .schema import MESSAGES, UnknownFields
from .wire import UNKNOWN, Buffer, Fields, Message, decode, encode

_SHAPE, _LAYOUT, _TILE, _SPLIT, _PROGRAM = (
    MESSAGES[name] for name in ("ShapeProto", "LayoutProto", "TileProto", "SplitConfigProto", "ProgramShapeProto")
)
_MOST_DIMENSIONS = 256
_MOST_ELEMENTS = 1 << 60
_DEEPEST = 64
_AS_THEY_ARE = (
    "minor_to_major padded_dimensions padding_value element_size_in_bits memory_space "
    "tail_padding_alignment_in_elements dynamic_shape_metadata_prefix_bytes".split()
)
"""Fields of a layout that a proto has as a `Layout` has them."""
_SPARSE = ("physical_shape", "dim_unique", "dim_ordered")


def read_shape(data: Buffer, depth: int = 0) -> Shape:
    """A Shape from the bytes of a ShapeProto. Raises UnknownFields where something in it would be lost."""
    fields = decode(_SHAPE, data)
    if UNKNOWN in fields:
        raise UnknownFields(_SHAPE.name)
    type_ = BY_NUMBER.get(fields.get("element_type", 0))
    if type_ is None:
        raise ParseError(f"shape: element type {fields.get('element_type', 0)} does not exist")
    inner = fields.get("tuple_shapes", ())
    dimensions = tuple(fields.get("dimensions", ()))
    if type_.bits == 0:
        if dimensions:
            raise ParseError(f"shape: a {type_.name} has no dimensions")
        if inner and depth == _DEEPEST:
            raise ParseError(f"shape: tuples nested deeper than {_DEEPEST}")
        if type_.name == "buffer" and len(inner) != 1:
            raise ParseError("shape: a buffer has exactly one inner shape")
        if inner and type_.name not in ("tuple", "buffer"):
            raise ParseError(f"shape: a {type_.name} has no inner shapes")
        return Shape(type_.name, tuple_shapes=tuple([read_shape(item, depth + 1) for item in inner]))
    if inner:
        raise ParseError(f"shape: an array of {type_.name} has no inner shapes")
    rank = len(dimensions)
    if rank > _MOST_DIMENSIONS:
        raise ParseError(f"shape: {counted(rank, 'dimension')}")
    size = 1
    for dim in dimensions:
        if dim < 0 and dim != UNBOUNDED:
            raise ParseError(f"shape: dimension of size {dim}")
        size = size * max(dim, 1)
        if size > _MOST_ELEMENTS:
            raise ParseError(f"shape: {type_.name}{list(dimensions)} has more elements than any machine holds")
    dynamic = fields.get("is_dynamic_dimension", ())
    if dynamic and len(dynamic) != rank:
        raise ParseError(f"shape: {counted(len(dynamic), 'dynamic flag')} for {counted(rank, 'dimension')}")
    layout = fields.get("layout")
    return Shape(
        type_.name,
        dimensions,
        None if layout is None else _read_layout(layout, rank),
        tuple(dynamic) if any(dynamic) else (),
    )


def _fields(message: Message, data: Buffer) -> Fields:
    fields = decode(message, data)
    if UNKNOWN in fields:
        raise UnknownFields(message.name)
    return fields


def _read_layout(data: Buffer, rank: int) -> Layout:
    fields = decode(_LAYOUT, data)
    minor_to_major = tuple(fields.pop("minor_to_major", ()))
    if sorted(minor_to_major) != list(range(rank)):
        raise ParseError(f"layout: {list(minor_to_major[:8])} is no permutation of {counted(rank, 'dimension')}")
    if any(name in fields for name in _SPARSE) or any(fields.pop("dim_level_types", ())):
        raise UnsupportedError("layout: sparse arrays are not supported")
    tiles = tuple(tuple(_fields(_TILE, tile).get("dimensions", ())) for tile in fields.pop("tiles", ()))
    # A tile may have more dimensions than the array: later tiles apply to what earlier ones make.
    if not all(size > 0 or size == UNBOUNDED for tile in tiles for size in tile) or not all(
        0 < len(t) <= _MOST_DIMENSIONS for t in tiles
    ):
        raise ParseError(f"layout: {tiles[:8]} are no tiles")
    padded = tuple(fields.pop("padded_dimensions", ()))
    if padded and len(padded) != rank:
        raise ParseError(f"layout: {counted(len(padded), 'padded size')} for {counted(rank, 'dimension')}")
    return Layout(
        minor_to_major,
        tiles,
        fields.pop("element_size_in_bits", 0),
        fields.pop("memory_space", 0),
        fields.pop("tail_padding_alignment_in_elements", 0) or 1,
        fields.pop("dynamic_shape_metadata_prefix_bytes", 0),
        padded,
        fields.pop("padding_value", 0),
        _read_splits(fields.pop("split_configs")) if "split_configs" in fields else (),
        _type_name(fields.pop("index_primitive_type", 0)),
        _type_name(fields.pop("pointer_primitive_type", 0)),
        encode(_LAYOUT, fields) if fields else b"",
    )


def _read_splits(items: list[Buffer]) -> tuple[tuple[int, tuple[int, ...]], ...]:
    decoded = [_fields(_SPLIT, item) for item in items]
    return tuple((fields.get("dimension", 0), tuple(fields.get("split_indices", ()))) for fields in decoded)


def _type_name(number: int) -> str:
    if not number:
        return ""
    if number not in BY_NUMBER:
        raise ParseError(f"layout: element type {number} does not exist")
    return BY_NUMBER[number].name


def _type_number(name: str) -> int:
    return TYPES[name].number if name else 0


def write_shape(shape: Shape) -> bytes:
    """The bytes of the ShapeProto of `shape`, as XLA writes it."""
    fields: dict[str, Any] = {"element_type": TYPES[shape.element_type].number}
    if not shape.is_array:
        return encode(_SHAPE, {**fields, "tuple_shapes": [write_shape(inner) for inner in shape.tuple_shapes]})
    layout = shape.layout or Layout.default(shape.rank)
    splits = [encode(_SPLIT, {"dimension": d, "split_indices": at}) for d, at in layout.split_configs]
    written = {
        **{name: getattr(layout, name) for name in _AS_THEY_ARE},
        "tiles": [encode(_TILE, {"dimensions": tile}) for tile in layout.tiles],
        "split_configs": splits,
        "index_primitive_type": _type_number(layout.index_primitive_type),
        "pointer_primitive_type": _type_number(layout.pointer_primitive_type),
        UNKNOWN: layout.unknown,
    }
    dynamic = shape.dynamic or (False,) * shape.rank
    fields |= {"dimensions": shape.dimensions, "layout": encode(_LAYOUT, written), "is_dynamic_dimension": dynamic}
    return encode(_SHAPE, fields)


def read_program_shape(data: Buffer) -> tuple[list[Shape], Shape | None]:
    """The parameters and the result of a ProgramShapeProto."""
    fields = _fields(_PROGRAM, data)
    result = fields.get("result")
    return [read_shape(item) for item in fields.get("parameters", ())], None if result is None else read_shape(result)


def write_program_shape(parameters: Iterable[Shape], result: Shape, names: Iterable[str]) -> bytes:
    """The bytes of a ProgramShapeProto."""
    return encode(
        _PROGRAM,
        {
            "parameters": [write_shape(s) for s in parameters],
            "result": write_shape(result),
            "parameter_names": list(names),
        },
    )
