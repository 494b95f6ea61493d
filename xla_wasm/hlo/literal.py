"""Constant values, kept as the bytes they arrived in for as long as possible."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Sequence
from itertools import product
from math import inf, isinf, prod
from typing import Any

from ..errors import ArgumentError, ParseError, counted
from . import float_codes
from .proto.schema import MESSAGES, UnknownFields
from .proto.shapes import read_shape, write_shape
from .proto.wire import UNKNOWN, Buffer, Fields, check_varints, count_varints, decode, encode, put_varint
from .shape import Layout, Shape
from .types import TYPES

_LITERAL = MESSAGES["LiteralProto"]
_VARINT_WIDTHS = {name: TYPES[name].bytes for name in ("pred", "s32", "u32", "s64", "u64")}
"""The types that LiteralProto stores as packed varints, with their widths in memory."""
_TRUTH = bytes([0] + [1] * 255)
_TOKEN = re.compile(rb"[\x80-\xff]*[\x00-\x7f]")
_CHUNK = 1 << 18


def _narrow_table(bits: int, signed: bool) -> bytes:
    """Translates a byte to the element in its low `bits` bits: extended by its sign, or by zeros."""
    mask, sign = (1 << bits) - 1, 1 << bits - 1
    return bytes((((code & mask) ^ sign) - sign) & 255 if signed else code & mask for code in range(256))


_NARROW = {
    t.name: _narrow_table(t.bits, t.kind == "signed") for t in TYPES.values() if 0 < t.bits < 8 and t.name != "pred"
}


class Literal:
    """The value of a constant: `data` for an array, `elements` for a tuple, neither for a token.

    `data` holds little-endian elements in the physical order of the shape's layout, one byte per element for types
    below a byte (signed ones sign-extended). `dynamic_sizes` are the actual sizes where the shape is dynamic.
    """

    __slots__ = ("shape", "elements", "dynamic_sizes", "elided", "_data", "_packed", "_hash")

    def __init__(
        self, shape: Shape, data: Buffer = b"", elements: tuple[Literal, ...] = (), dynamic_sizes: tuple[int, ...] = ()
    ):
        self.shape = shape
        self.elements = elements
        self.dynamic_sizes = dynamic_sizes
        self.elided = False
        """True if HLO text left the elements out: zeros stand in for them, and the module cannot be compiled."""
        self._data: Buffer | None = data
        self._packed: bytes | None = None  # the varints of the proto, until somebody asks for `data`
        self._hash: int | None = None

    @staticmethod
    def from_proto(data: Buffer) -> Literal:
        """A Literal from the bytes of a LiteralProto. Integers stay packed until they are asked for.

        Raises UnknownFields where something in it would be lost.
        """
        fields = decode(_LITERAL, data)
        if UNKNOWN in fields:
            raise UnknownFields(_LITERAL.name)
        if "shape" not in fields:
            raise ParseError("literal: it has no shape")
        shape = read_shape(fields["shape"])
        return _read_tuple(shape, fields) if shape.is_tuple else _read_array(shape, fields)

    @staticmethod
    def from_values(shape: Shape, values: Iterable[Any]) -> Literal:
        """An array of Python numbers in row-major order, rounded to the element type."""
        values = list(values)
        if len(values) != shape.size:
            raise ArgumentError(f"literal of {shape}: {counted(shape.size, 'value')} needed, {len(values)} given")
        try:
            row_major = _pack_numbers(shape.element_type, values)
        except (struct.error, TypeError, ValueError, OverflowError) as error:
            raise ArgumentError(f"literal of {shape}: a value does not fit the element type ({error})") from None
        return Literal(
            shape, relayout(row_major, shape, Layout.default(shape.rank).minor_to_major, shape.minor_to_major)
        )

    @property
    def data(self) -> Buffer:
        """The elements in physical order."""
        if self._data is None:
            assert self._packed is not None
            self._data = _unpack_varints(self._packed, self.shape.element_type)
            self._packed = None
        return self._data

    def row_major(self) -> Buffer:
        """The elements in row-major order; `data` itself if that is how they lie."""
        shape = self.shape
        return relayout(self.data, shape, shape.minor_to_major, Layout.default(shape.rank).minor_to_major)

    def with_layout(self, layout: Layout) -> Literal:
        """The same array laid out otherwise."""
        shape = Shape(self.shape.element_type, self.shape.dimensions, layout, self.shape.dynamic)
        return Literal(
            shape, relayout(self.data, shape, self.shape.minor_to_major, layout.minor_to_major), (), self.dynamic_sizes
        )

    def values(self) -> list[Any]:
        """Python numbers in row-major order: bool, int, float or complex."""
        return _numbers(self.shape.element_type, self.row_major())

    def splat_value(self) -> Any:
        """The value that all elements share bit by bit, or None if they differ or there are none."""
        size = self.shape.size if self.shape.is_array else 0
        if size == 0:
            return None
        if self._packed is not None:
            token = _TOKEN.match(self._packed)
            assert token is not None
            if len(self._packed) != size * token.end() or not _repeats(self._packed, token.end()):
                return None
            return _numbers(self.shape.element_type, _unpack_varints(token.group(), self.shape.element_type))[0]
        width = TYPES[self.shape.element_type].bytes
        return _numbers(self.shape.element_type, self.data[:width])[0] if _repeats(self.data, width) else None

    def to_proto(self) -> bytes:
        """The bytes of the LiteralProto."""
        name = self.shape.element_type
        fields: Fields = {"shape": write_shape(self.shape), "dynamic_sizes": self.dynamic_sizes}
        if self.shape.is_tuple:
            fields["tuple_literals"] = [element.to_proto() for element in self.elements]
        elif self.shape.is_array and self.shape.size:
            if self._packed is not None:
                fields[name + "s"] = self._packed
            elif name in _VARINT_WIDTHS:
                fields[name + "s"] = _pack_varints(_numbers(name, self.data))
            elif name in _NARROW:
                fields[name + "s"] = bytes(self.data).translate(
                    bytes(code & (1 << TYPES[name].bits) - 1 for code in range(256))
                )
            else:
                fields[name + "s"] = self.data
        return encode(_LITERAL, fields)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Literal) or self.shape != other.shape or self.dynamic_sizes != other.dynamic_sizes:
            return False
        return self.elements == other.elements and bytes(self.data) == bytes(other.data)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((self.shape, self.elements, bytes(self.data)))
        return self._hash

    def __repr__(self) -> str:
        return f"<Literal {self.shape}>"


def canonical_bytes(element_type: str, data: bytes) -> bytes:
    """Elements in memory, of which the bits of the type alone count, as `Literal.data` has them."""
    return data.translate(_TRUTH if element_type == "pred" else _NARROW.get(element_type))


def _read_tuple(shape: Shape, fields: Fields) -> Literal:
    inner = fields.get("tuple_literals", ())
    if len(inner) != len(shape.tuple_shapes):
        raise ParseError(f"literal of {shape}: it has {counted(len(inner), 'element')}")
    elements = []
    for data, declared in zip(inner, shape.tuple_shapes):
        element = Literal.from_proto(data)  # as deep as its shape, which is bounded
        if element.shape.without_layout() != declared.without_layout():
            raise ParseError(f"literal of {shape}: an element is a {element.shape}")
        elements.append(element)
    return Literal(shape, b"", tuple(elements))


def _read_array(shape: Shape, fields: Fields) -> Literal:
    if not shape.is_array:
        return Literal(shape)
    type_ = TYPES[shape.element_type]
    raw = fields.get(type_.name + "s", b"")
    if isinstance(raw, list):
        raw = raw[0] if len(raw) == 1 else b"".join(raw)
    size = shape.size
    if size < 0:
        raise ParseError(f"literal of {shape}: the size of a constant must be known")
    if size and not len(raw):
        raise ParseError(
            f"literal of {shape}: the data are missing (was the module written with large constants elided?)"
        )
    literal = Literal(shape, raw, (), tuple(fields.get("dynamic_sizes", ())))
    if type_.name in _VARINT_WIDTHS:
        packed = bytes(raw)
        check_varints(packed)
        count = count_varints(packed)
        literal._data, literal._packed = None, packed
    else:
        count, rest = divmod(len(raw), type_.bytes)
        if rest:
            raise ParseError(f"literal of {shape}: its data end inside an element")
        if type_.name in _NARROW:
            literal._data = bytes(raw).translate(_NARROW[type_.name])
    if count != size:
        raise ParseError(f"literal of {shape}: {counted(size, 'element')} needed, {count} found")
    if literal.dynamic_sizes and len(literal.dynamic_sizes) != shape.rank:
        raise ParseError(f"literal of {shape}: {len(literal.dynamic_sizes)} dynamic sizes")
    return literal


class _Decoded(dict[bytes, bytes]):
    """Varint -> element of `width` bytes; the low bytes of the two's complement are right for every type."""

    def __init__(self, width: int):
        self.width = width

    def __missing__(self, token: bytes) -> bytes:
        value = 0
        for byte in reversed(token):
            value = value << 7 | byte & 127
        self[token] = out = (value & (1 << 8 * self.width) - 1).to_bytes(self.width, "little")
        return out


def _unpack_varints(packed: bytes, name: str) -> Buffer:
    """The elements that packed varints stand for."""
    width = _VARINT_WIDTHS[name]
    if name == "pred" and packed.isascii():
        return packed.translate(_TRUTH)
    if packed.isascii():
        out = bytearray(len(packed) * width)
        out[::width] = packed
        return bytes(out)
    decoded = _Decoded(8 if name == "pred" else width)
    parts = []
    pos, end = 0, len(packed)
    while pos < end:
        stop = min(pos + _CHUNK, end)
        while packed[stop - 1] > 127:
            stop += 1
        tokens = _TOKEN.findall(packed, pos, stop)
        parts += (
            [bytes(any(decoded[t]) for t in tokens)] if name == "pred" else [b"".join(map(decoded.__getitem__, tokens))]
        )
        if len(decoded) > _CHUNK:
            decoded.clear()
        pos = stop
    return b"".join(parts)


def _pack_varints(values: Sequence[int]) -> bytes:
    """Packed varints; equal values are encoded once."""
    known: dict[int, bytes] = {}
    for value in set(values):
        token = bytearray()
        put_varint(token, value)
        known[value] = bytes(token)
    return b"".join(map(known.__getitem__, values))


def _repeats(data: Buffer, width: int) -> bool:
    """Returns True if data are their first `width` bytes over and over. Stops at the first block that differs."""
    first = bytes(data[:width])
    view = memoryview(data)
    if bytes(view[width : 2 * width]) not in (first, b"") or bytes(view[len(view) - width :]) != first:
        return False
    block = first * max(min(_CHUNK, len(view)) // width, 1)
    for pos in range(0, len(view), len(block)):
        piece = bytes(view[pos : pos + len(block)])
        if piece != (block if len(piece) == len(block) else block[: len(piece)]):
            return False
    return True


def _numbers(name: str, data: Buffer) -> list[Any]:
    """Python numbers from elements in memory."""
    if name == "pred":
        return [byte != 0 for byte in bytes(data)]
    if name in float_codes.FORMATS:
        table = float_codes.values(name)
        mask = len(table) - 1
        return [table[code & mask] for code in bytes(data)]
    if name == "bf16":
        wide = bytearray(2 * len(data))
        wide[2::4], wide[3::4] = bytes(data)[0::2], bytes(data)[1::2]
        return list(struct.unpack(f"<{len(wide) // 4}f", wide))
    code = TYPES[name].code
    flat = struct.unpack(f"<{len(data) // struct.calcsize('<' + code)}{code}", data)
    if TYPES[name].kind == "complex":
        return list(map(complex, flat[0::2], flat[1::2]))
    return list(flat)


def _pack_numbers(name: str, values: list[Any]) -> bytes:
    """Elements in memory from Python numbers."""
    type_ = TYPES[name]
    if name == "pred":
        return bytes(value != 0 for value in values)
    if name in float_codes.FORMATS:
        return bytes(float_codes.encode(name, float(value)) for value in values)
    if name == "bf16":
        return b"".join(_bf16(float(value)) for value in values)
    code = type_.code
    if type_.kind == "complex":
        values = [part for value in values for part in (complex(value).real, complex(value).imag)]
    if type_.kind in ("complex", "float"):
        return _pack_floats(code, [float(value) for value in values])
    packed = struct.pack(f"<{len(values)}{code}", *values)
    if type_.bits < 8 and packed.translate(_NARROW[name]) != packed:
        raise ValueError(f"{name} has {type_.bits} bits")
    return packed


def _pack_floats(code: str, values: list[float]) -> bytes:
    """Rounded to the format; what overflows becomes an infinity."""
    try:
        return struct.pack(f"<{len(values)}{code}", *values)
    except OverflowError:
        return b"".join(_pack_float(code, value) for value in values)


def _pack_float(code: str, value: float) -> bytes:
    try:
        return struct.pack("<" + code, value)
    except OverflowError:
        return struct.pack("<" + code, inf if value > 0 else -inf)


def _bf16(value: float) -> bytes:
    """Rounded to f32, then to bf16, ties to even; a NaN stays one."""
    bits = int.from_bytes(_pack_float("f", value), "little")
    if value == value and not isinf(value):
        bits += 0x7FFF + (bits >> 16 & 1)
    elif value != value:
        bits |= 0x400000
    return (bits >> 16).to_bytes(2, "little")


def strides(dimensions: tuple[int, ...], minor_to_major: tuple[int, ...]) -> list[int]:
    """Returns the distance, in elements, of neighbours along each dimension."""
    out = [0] * len(dimensions)
    step = 1
    for dim in minor_to_major:
        out[dim] = step
        step *= dimensions[dim]
    return out


def relayout(data: Buffer, shape: Shape, source: tuple[int, ...], target: tuple[int, ...]) -> Buffer:
    """Elements of an array in the order of `source` (minor to major), brought into that of `target`."""
    dims = shape.dimensions
    wide = [d for d in range(len(dims)) if dims[d] != 1]  # a dimension of size 1 may stand anywhere
    if [d for d in source if d in wide] == [d for d in target if d in wide] or prod(dims) == 0:
        return data
    width = TYPES[shape.element_type].bytes
    words = 2 if width == 16 else 1
    code: Any = {1: "B", 2: "H", 4: "I", 8: "Q", 16: "Q"}[width]
    from_, to = strides(dims, source), strides(dims, target)
    out = bytearray(len(data))
    old, new = memoryview(data).cast("B").cast(code), memoryview(out).cast(code)
    inner = max(wide, key=lambda d: dims[d])  # one strided copy along the longest dimension
    count, read, write = dims[inner], from_[inner] * words, to[inner] * words
    outer = [d for d in wide if d != inner]
    for index in product(*(range(dims[d]) for d in outer)):
        first = sum(i * from_[d] for i, d in zip(index, outer)) * words
        place = sum(i * to[d] for i, d in zip(index, outer)) * words
        for at, to_at in zip(range(first, first + words), range(place, place + words)):
            new[to_at : to_at + (count - 1) * write + 1 : write] = old[at : at + (count - 1) * read + 1 : read]
    return bytes(out)
