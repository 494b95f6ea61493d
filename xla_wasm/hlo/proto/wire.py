"""The protobuf wire format, table-driven, one level at a time.

`decode` turns the bytes of one message into a dict {field name: value}. A submessage stays bytes until it is decoded in
its turn, so nesting costs nothing here and is bounded where recursion happens. Several occurrences of a submessage that
is not repeated are joined, which is what protobuf's merging means. Fields that the table lacks are kept under
`UNKNOWN`.

Values of up to `LARGE` bytes are `bytes`; longer ones are memoryviews of the caller's data, not copies.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from math import copysign
from typing import Any

from ...errors import ParseError

UNKNOWN = ""
"""The key under which a decoded message holds the wire bytes of the fields that its table does not list."""
LARGE = 1 << 16

Buffer = bytes | memoryview
Fields = dict[str, Any]

# How the payload of a field is read. Up to _STR: length-delimited; then varints; then fixed width.
_MESSAGE, _MESSAGES, _BYTES, _BYTES_LIST, _STR, _STR_LIST, _PACKED, _KEPT = range(8)
_SIGNED, _UNSIGNED, _INT32, _UINT32, _BOOL, _FLOAT, _DOUBLE = range(8, 15)
_REPEATED = 16  # added to the scalar codes above

_SCALARS = {
    "i64": _SIGNED,
    "u64": _UNSIGNED,
    "i32": _INT32,
    "enum": _INT32,
    "u32": _UINT32,
    "bool": _BOOL,
    "f32": _FLOAT,
    "f64": _DOUBLE,
}
_WIRE_TYPES = {_FLOAT: 5, _DOUBLE: 1}
_FLOATS = {_FLOAT: struct.Struct("<f"), _DOUBLE: struct.Struct("<d")}
_OVERLONG = re.compile(rb"[\x80-\xff]{10}")
_DROP_CONTINUATION = bytes(range(128, 256))
_MASK64 = (1 << 64) - 1
_MASK32 = (1 << 32) - 1


class Message:
    """The table of one message. A row is "number name:type", the type one of i32 i64 u32 u64 bool enum f32 f64 str
    bytes or a message's name, followed by * (repeated), ? (written even when zero) or ~ (repeated, kept packed)."""

    __slots__ = ("name", "by_tag", "numbers", "writers", "by_number", "inner")

    def __init__(self, name: str, rows: str):
        self.name = name
        self.by_tag: dict[int, tuple[str, int, int]] = {}
        """tag -> (name, how it is read, scalar code of packed elements)."""
        self.numbers: set[int] = set()
        self.by_number: dict[int, str] = {}
        self.inner: dict[str, str] = {}
        """name -> message, of the fields that hold messages."""
        self.writers: dict[str, tuple[int, int, bool, bool]] = {}
        """name -> (number, code, repeated, written even when zero), in the order of the numbers."""
        for row in rows.split(";"):
            number_text, _, declaration = row.strip().partition(" ")
            field, _, type_ = declaration.partition(":")
            number, suffix = int(number_text), type_[-1] if type_[-1] in "*?~" else ""
            self._add(number, field, type_.rstrip("*?~"), suffix)

    def _add(self, number: int, field: str, type_: str, suffix: str) -> None:
        self.numbers.add(number)
        self.by_number[number] = field
        repeated = suffix in ("*", "~")
        scalar = _SCALARS.get(type_)
        if scalar is None:
            single, many = {"str": (_STR, _STR_LIST), "bytes": (_BYTES, _BYTES_LIST)}.get(type_, (_MESSAGE, _MESSAGES))
            code = many if repeated else single
            if single == _MESSAGE:
                self.inner[field] = type_
            self.by_tag[number << 3 | 2] = (field, code, 0)
            self.writers[field] = (number, code, repeated, suffix == "?")
            return
        tag = number << 3 | _WIRE_TYPES.get(scalar, 0)
        if suffix == "~":
            self.by_tag[tag] = self.by_tag[number << 3 | 2] = (field, _KEPT, 0)
            self.writers[field] = (number, _KEPT, True, False)
        elif repeated:
            self.by_tag[tag] = (field, scalar + _REPEATED, 0)
            self.by_tag[number << 3 | 2] = (field, _PACKED, scalar)
            self.writers[field] = (number, scalar, True, False)
        else:
            self.by_tag[tag] = (field, scalar, 0)
            self.writers[field] = (number, scalar, False, suffix == "?")


def varint(data: Buffer, pos: int) -> tuple[int, int]:
    """The unsigned varint at `pos` and the position after it. IndexError at the end of data."""
    value = shift = 0
    while True:
        byte = data[pos]
        pos += 1
        if byte < 128:
            return (value | byte << shift) & _MASK64, pos
        value |= (byte & 127) << shift
        shift += 7
        if shift > 63:
            raise ParseError("protobuf: a varint longer than 10 bytes")


def varints(data: Buffer) -> list[int]:
    """All varints of a packed field, unsigned."""
    data = bytes(data)
    if data.isascii():
        return list(data)
    check_varints(data)
    out = []
    value = shift = 0
    for byte in data:
        if byte < 128:
            out.append((value | byte << shift) & _MASK64)
            value = shift = 0
        else:
            value |= (byte & 127) << shift
            shift += 7
    return out


def check_varints(data: bytes) -> None:
    """Raise ParseError unless `data` is a sequence of whole varints of at most 10 bytes each."""
    if data and data[-1] > 127:
        raise ParseError("protobuf: a packed field ends inside a varint")
    if len(data) > 10 and _OVERLONG.search(data):
        raise ParseError("protobuf: a varint longer than 10 bytes")


def count_varints(data: bytes) -> int:
    """Returns the number of varints in a packed field, without decoding them."""
    return len(data) if data.isascii() else len(data.translate(None, _DROP_CONTINUATION))


def _scalar(value: int, code: int) -> int | bool:
    """A raw varint as a value of the declared type; too wide ones are cut, as protobuf does."""
    if code == _SIGNED:
        return value - (1 << 64) if value >> 63 else value
    if code == _INT32:
        value &= _MASK32
        return value - (1 << 32) if value >> 31 else value
    if code == _UINT32:
        return value & _MASK32
    return value != 0 if code == _BOOL else value


def _unpack(data: Buffer, code: int, message: Message) -> list[Any]:
    """The elements of a packed field."""
    if code >= _FLOAT:
        form = _FLOATS[code]
        if len(data) % form.size:
            raise ParseError(f"protobuf: a packed field of {message.name} is cut")
        return list(struct.unpack(f"<{len(data) // form.size}{form.format[1]}", data))
    values = varints(data)
    if code == _BOOL:
        return [value != 0 for value in values]
    if len(values) == len(data):  # one byte each, so none is negative or wide
        return values
    return values if code == _UNSIGNED else [_scalar(value, code) for value in values]


def skip(data: Buffer, pos: int, tag: int) -> int:
    """The position after the payload of an unknown field whose tag ends at `pos`."""
    wire = tag & 7
    if tag < 8:
        raise ParseError("protobuf: field number 0")
    if wire == 0:
        return varint(data, pos)[1]
    if wire == 2:
        size, pos = varint(data, pos)
        return pos + size
    if wire not in (1, 5):
        raise ParseError(f"protobuf: wire type {wire} of field {tag >> 3}")
    return pos + (8 if wire == 1 else 4)


def fields(data: Buffer) -> Iterator[tuple[int, int, Buffer]]:
    """(number, wire type, payload bytes) of every field of a message whose type is not known."""
    pos, end = 0, len(data)
    try:
        while pos < end:
            tag, pos = varint(data, pos)
            start = pos
            pos = skip(data, pos, tag)
            if pos > end:
                raise ParseError("protobuf: the data end inside a field")
            if tag & 7 == 2:
                start = varint(data, start)[1]
            yield tag >> 3, tag & 7, data[start:pos]
    except IndexError:
        raise ParseError("protobuf: the data end inside a field") from None


def decode(message: Message, data: Buffer) -> Fields:
    """The fields of one message. Raises ParseError for bytes that are not one."""
    by_tag = message.by_tag
    out: Fields = {}
    unknown: list[bytes] = []
    parts: dict[str, list[Buffer]] = {}
    pos, end = 0, len(data)
    is_view = type(data) is memoryview
    try:
        while pos < end:
            start = pos
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = data[pos] << 7 | tag & 127, pos + 1
                if tag > 16383:
                    tag, pos = varint(data, start)
            entry = by_tag.get(tag)
            if entry is None:
                pos = skip(data, pos, tag)
                if pos > end:
                    raise IndexError
                if tag >> 3 in message.numbers:
                    raise ParseError(f"protobuf: field {tag >> 3} of {message.name} has wire type {tag & 7}")
                unknown.append(bytes(data[start:pos]))
                continue
            name, code, element = entry
            if tag & 7 == 2:
                size = data[pos]
                pos += 1
                if size > 127:
                    size, pos = varint(data, pos - 1)
                stop = pos + size
                if stop > end:
                    raise IndexError
                value: Any = data[pos:stop]
                if is_view and size <= LARGE:
                    value = bytes(value)
                pos = stop
                if code == _STR:
                    out[name] = str(value, "utf-8")
                elif code == _MESSAGE:
                    if name in out:
                        parts.setdefault(name, [out[name]]).append(value)
                    else:
                        out[name] = value
                elif code == _PACKED:
                    value = _unpack(value, element, message)
                    if name in out:
                        out[name] += value
                    else:
                        out[name] = value
                elif code == _BYTES:
                    out[name] = value
                else:
                    if code == _STR_LIST:
                        value = str(value, "utf-8")
                    if name in out:
                        out[name].append(value)
                    else:
                        out[name] = [value]
                continue
            if tag & 7 == 0:
                start = pos
                value = data[pos]
                pos += 1
                if value > 127:
                    value &= 127
                    shift = 7
                    while (byte := data[pos]) > 127:
                        value |= (byte & 127) << shift
                        pos += 1
                        shift += 7
                        if shift > 63:
                            raise ParseError("protobuf: a varint longer than 10 bytes")
                    pos += 1
                    value |= byte << shift
                    if value >> 31:
                        value = _scalar(value & _MASK64, code & 15)
                if code == _BOOL:
                    value = value != 0
                elif code > 14 or code == _KEPT:
                    if code == _KEPT:
                        value = bytes(data[start:pos])
                    elif code == _BOOL + _REPEATED:
                        value = value != 0
                    if name in out:
                        out[name].append(value)
                    else:
                        out[name] = [value]
                    continue
                out[name] = value
                continue
            stop = pos + (4 if tag & 7 == 5 else 8)
            if stop > end:
                raise IndexError
            raw = bytes(data[pos:stop])
            pos = stop
            if code == _FLOAT or code == _DOUBLE:
                out[name] = _FLOATS[code].unpack(raw)[0]
            else:
                out.setdefault(name, []).append(raw if code == _KEPT else _FLOATS[code - _REPEATED].unpack(raw)[0])
    except IndexError:
        raise ParseError(f"protobuf: the data end inside a field of {message.name}") from None
    except UnicodeDecodeError:
        raise ParseError(f"protobuf: a string of {message.name} is not UTF-8") from None
    for name, pieces in parts.items():
        out[name] = b"".join(pieces)
    if unknown:
        out[UNKNOWN] = b"".join(unknown)
    return out


def put_varint(out: bytearray, value: int) -> None:
    """Append a varint; a negative number takes 10 bytes."""
    if value < 0:
        value &= _MASK64
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def encode(message: Message, values: Fields) -> bytes:
    """The wire bytes of a message, in the order of the field numbers, unknown fields last.

    None is not written, nor is a zero scalar, an empty string or bytes, except in a field marked `?`.
    """
    out = bytearray()
    writers = message.writers
    for name in sorted(values, key=lambda key: writers[key][0] if key else 1 << 30):
        value = values[name]
        if value is None:
            continue
        if not name:
            out += value
            continue
        number, code, repeated, presence = writers[name]
        if code >= _SIGNED:
            if repeated:
                if value:
                    _put_bytes(out, number, _pack(value, code))
            elif value or presence or (code >= _FLOAT and copysign(1.0, value) < 0):
                put_varint(out, number << 3 | _WIRE_TYPES.get(code, 0))
                if code >= _FLOAT:
                    out += _FLOATS[code].pack(value)
                else:
                    put_varint(out, int(value))
        elif code == _KEPT:
            _put_bytes(out, number, b"".join(value) if isinstance(value, list) else value)
        elif repeated:
            for item in value:
                _put_bytes(out, number, item.encode() if code == _STR_LIST else item)
        elif value or presence or code == _MESSAGE:
            _put_bytes(out, number, value.encode() if code == _STR else value)
    return bytes(out)


def _put_bytes(out: bytearray, number: int, value: Buffer) -> None:
    put_varint(out, number << 3 | 2)
    put_varint(out, len(value))
    out += value


def _pack(values: Any, code: int) -> bytes:
    """The elements of a packed field."""
    if code >= _FLOAT:
        return struct.pack(f"<{len(values)}{_FLOATS[code].format[1]}", *values)
    return pack_varints(values)


def pack_varints(values: Any) -> bytes:
    """Consecutive varints."""
    try:
        out = bytes(values)  # every value in 0..255: right as it is unless one needs a second byte
        if out.isascii():
            return out
    except (ValueError, OverflowError):
        pass
    packed = bytearray()
    for value in values:
        put_varint(packed, value)
    return bytes(packed)
