"""The attributes and types of a file of MLIR bytecode, decoded when they are first asked for."""

from __future__ import annotations

import struct
from collections.abc import Callable
from operator import itemgetter
from typing import Any

from ..errors import ParseError, UnsupportedError, counted
from ..hlo.float_codes import values
from ..hlo.proto.wire import Buffer
from . import tree
from .bytecode_tables import WORDS, entries
from .cursor import DEEPEST, Cursor
from .elements import HLO_TYPES, element_bits, unpacked
from .plain import Fields
from .shardy import TEXTS, mesh_groups
from .strings import readable
from .tree import UNIT, Attribute, Dense, Elements, Location, Tensor, Type, TypeOf

_HEAVIEST = 1 << 20
"""The greatest number of attributes and types in one of them: a shared one is stored once, but copied by who reads
it."""
_ABSENT: Any = object()


class _Place(tuple[Any, ...]):
    """A location that is not decoded: its kind and its fields."""

    __slots__ = ()


class Entries:
    """Attributes and types by number."""

    def __init__(self, data: Cursor, offsets: Cursor, strings: list[str], dialects: list[str]):
        self.strings = strings
        self.resources: list[Buffer] = []
        self._data = data.data
        counts = (offsets.varint(), offsets.varint())
        self._attributes = _listed(data, offsets, dialects, counts[0])
        self._types = _listed(data, offsets, dialects, counts[1])
        self._known: dict[int, Attribute] = {}
        self._known_types: dict[int, Type] = {}
        self._locations: dict[int, Location] = {}
        self._weights: dict[tuple[str, int], int] = {}
        self._weight, self._depth = 0, 0

    def attribute(self, index: int) -> Attribute:
        found = self._known.get(index, _ABSENT)
        if found is _ABSENT:
            found = self._known[index] = self._entry("attribute", self._attributes, index)
        elif self._depth:
            self._weight += self._weights["attribute", index]
        return found

    def type(self, index: int) -> Type:
        found = self._known_types.get(index, _ABSENT)
        if found is _ABSENT:
            found = self._known_types[index] = self._entry("type", self._types, index)
        elif self._depth:
            self._weight += self._weights["type", index]
        return found

    def dictionary(self, index: int) -> dict[str, Attribute]:
        found = self.attribute(index)
        if not isinstance(found, dict):
            raise ParseError(f"MLIR bytecode: attribute {index} should be a dictionary")
        return found

    def location(self, index: int) -> Location:
        """The name and the place in a source file that a location gives: of nested ones the first of each. The last
        resort are a name that ends in ":", which is of a kind of operations, and those of functions: what is called,
        and what stands inside of another name at a place in a file."""
        found = self._locations.get(index)
        if found is not None:
            return found
        file, line, called = "", 0, False
        names: list[tuple[bool, str]] = []
        pending = [index]
        for _ in range(_HEAVIEST):
            if not pending or file:
                break
            place = self.attribute(pending.pop())
            kind = place[0] if isinstance(place, _Place) else ""
            if kind == "name":
                kind_only = place[1].endswith(":")
                is_frame = called or (bool(names) and self._is_file(place[2]))
                names.append((kind_only or is_frame, place[1].removesuffix(":")))
                pending.append(place[2])
            elif kind == "fused":
                pending += reversed(place[1])
            elif kind == "call":
                called = True
                pending.append(place[1])
            elif kind == "file":
                file, line = place[1:]
        name = min(names, key=itemgetter(0))[1] if names else ""
        found = self._locations[index] = Location(readable(name), readable(file), line)
        return found

    def _is_file(self, index: int) -> bool:
        place = self.attribute(index)
        return isinstance(place, _Place) and place[0] == "file"

    # --- one entry ----------------------------------------------------------------------------------------------

    def _entry(self, what: str, table: list[tuple[str, bool, int, int]], index: int) -> Any:
        dialect, custom, start, end = table[index]
        before = self._weight
        self._weight, self._depth = 1, self._depth + 1
        if self._depth > DEEPEST:
            raise ParseError(f"MLIR bytecode: {what}s nest deeper than {DEEPEST}, at byte {start}")
        cursor = Cursor(self._data, start, end)
        try:
            made = (
                self._custom(what, dialect, cursor)
                if custom
                else _from_text(what, str(self._data[start : end - 1], "utf-8"))
            )
        except (UnicodeDecodeError, struct.error, IndexError):
            raise cursor.fail(f"{what} {index} of the dialect {dialect} is damaged") from None
        if self._weight > _HEAVIEST:
            raise ParseError(f"MLIR bytecode: {what} {index} is made of more than {_HEAVIEST} others, at byte {start}")
        self._weights[what, index] = self._weight
        self._weight, self._depth = before + self._weight, self._depth - 1
        return made

    def _custom(self, what: str, dialect: str, cursor: Cursor) -> Any:
        start, code = cursor.at, cursor.varint()
        form = entries(what, dialect).get(code)
        if form is None:
            raise UnsupportedError(
                f"MLIR bytecode: the dialect {dialect} has no {what} of number {code} that is known, at byte {start}"
            )
        kind, fields = form
        read: dict[str, Any] = {}
        if kind.endswith("_location"):
            return self._place(kind, fields, cursor)
        if kind == "word":
            return _word(fields[0][0], cursor)
        for name, how in fields:
            read[name] = self._field(cursor, how, read)
        if cursor.at > cursor.end:
            raise cursor.fail(f"{what} of kind {kind} ends within its fields")
        self._weight += sum(len(v) for v in read.values() if isinstance(v, tuple))
        if what == "type":
            return _type(kind, read)
        make = _MAKE.get(kind)
        if make is None:
            raise UnsupportedError(f"MLIR bytecode: attributes of the kind {kind} are not supported, at byte {start}")
        return make(read)

    def _place(self, kind: str, fields: tuple[tuple[str, str], ...], cursor: Cursor) -> _Place:
        """A location, of which the numbers of others are kept: they may nest deep."""
        if kind == "file_location":
            name = self.attribute(cursor.varint())
            if fields[1][1] == "U":  # line, column and perhaps a range
                cursor.varint()
            return _Place(("file", str(name), cursor.varint()))
        if kind == "name_location":
            return _Place(("name", str(self.attribute(cursor.varint())), cursor.varint()))
        if kind == "fused_location":
            return _Place(("fused", [cursor.varint() for _ in range(cursor.count())]))
        return _Place(("call", cursor.varint())) if kind == "call_location" else _Place(("none",))

    def _field(self, cursor: Cursor, how: str, before: dict[str, Any]) -> Any:
        read = _NUMBERS.get(how)
        if read:
            return read(cursor)
        if how == "a":
            return self.attribute(cursor.varint())
        if how == "t":
            return self.type(cursor.varint())
        if how == "s":
            return self.strings[cursor.varint()]
        if how == "o":
            index = cursor.varint()
            return self.attribute(index >> 1) if index & 1 else None
        if how in "xy":
            return self.attribute(cursor.varint()) if (cursor.varint() if how == "x" else cursor.byte()) else None
        if how == "B":
            size = cursor.varint()
            start = cursor.take(size)
            return memoryview(cursor.data)[start : start + size]
        if how == "r":
            return self.resources[cursor.varint()]
        if how == "n":
            return _number(cursor, before["type"])
        if how == "P":
            return {
                str(self.attribute(cursor.varint())): self.attribute(cursor.varint()) for _ in range(cursor.count())
            }
        if how == "S":
            return tuple(
                [
                    self.strings[cursor.varint()]
                    for _ in range(cursor.count() if before["splat"] else _some(cursor, before["type"]))
                ]
            )
        lower = how.lower()
        return tuple([self._field(cursor, lower, before) for _ in range(cursor.count())])


def _listed(data: Cursor, offsets: Cursor, dialects: list[str], count: int) -> list[tuple[str, bool, int, int]]:
    """Dialect, whether it is encoded by the dialect, start and end of each entry."""
    found: list[tuple[str, bool, int, int]] = []
    while len(found) < count:
        dialect = dialects[offsets.varint()]
        for _ in range(offsets.count()):
            size = offsets.varint()
            start = data.take(size >> 1)
            found.append((dialect, bool(size & 1), start, start + (size >> 1)))
    return found


def _some(cursor: Cursor, type_: Type) -> int:
    count = 1
    for size in type_.sizes or () if isinstance(type_, Tensor) else ():
        count *= size
    if not 0 <= count <= cursor.end - cursor.at:
        raise cursor.fail(f"{counted(count, 'string')} in {cursor.end - cursor.at} bytes")
    return count


def _double(cursor: Cursor) -> float:
    value: float = struct.unpack("<d", (cursor.signed() & (1 << 64) - 1).to_bytes(8, "little"))[0]
    return value


def _optional(cursor: Cursor) -> int | None:
    value = cursor.varint()
    return value >> 1 if value & 1 else None


_NUMBERS: dict[str, Callable[[Cursor], Any]] = {
    "u": Cursor.varint,
    "i": Cursor.signed,
    "b": lambda cursor: bool(cursor.byte()),
    "d": _double,
    "p": _optional,
}
_FLOATS = {"f16": "<e", "f32": "<f", "f64": "<d"}


def _number(cursor: Cursor, type_: Type) -> int | float:
    """A number of a type: of up to 8 bits a byte, else of its bits in zigzag form."""
    bits = element_bits(type_)
    if not 0 < bits <= 64:
        raise UnsupportedError(f"MLIR bytecode: a number of type {type_}, at byte {cursor.at}")
    raw = (cursor.byte() if bits <= 8 else cursor.signed()) & ((1 << bits) - 1)
    name = str(type_)
    if name in _FLOATS:
        value: float = struct.unpack(_FLOATS[name], raw.to_bytes(bits // 8, "little"))[0]
        return value
    if name == "bf16":
        value = struct.unpack("<f", (raw << 16).to_bytes(4, "little"))[0]
        return value
    if name[:1] == "f":
        return values(name.lower())[raw]
    return raw - (1 << bits) if name != "i1" and name[:2] != "ui" and raw >> (bits - 1) else raw


# --- what is made of the fields -------------------------------------------------------------------------------------


def _word(names: str, cursor: Cursor) -> str:
    words, number = WORDS[names], cursor.varint()
    if number >= len(words):
        raise cursor.fail(f"{number} is none of {', '.join(words)}")
    return words[number]


def _type(kind: str, read: dict[str, Any]) -> Type:
    if kind == "tensor":
        encoding = read.get("encoding")
        fits = (
            isinstance(encoding, tuple)
            and len(encoding) == len(read["sizes"])
            and all(isinstance(bound, int) for bound in encoding)
        )
        if encoding is not None and not fits:
            raise UnsupportedError(f"MLIR bytecode: a tensor with the encoding {encoding!r} is not supported")
        return Tensor(read["sizes"], read["element"], encoding or ())
    if kind == "integer":
        return ("i", "i", "ui", "i")[read["v"] & 3] + str(read["v"] >> 2)
    make = _MAKE_TYPES.get(kind)
    if make:
        return make(read)
    if read:
        raise UnsupportedError(f"MLIR bytecode: types of the kind {kind} are not supported")
    return kind


def _quantized(read: dict[str, Any]) -> Type:
    axis = read.get("axis")
    scales, points = (
        ((read["scale"],), (read["zero_point"],)) if axis is None else (read["scales"], read["zero_points"])
    )
    storage = str(read["storage"])
    if not read["flags"] & 1 and storage[:1] == "i":
        storage = "u" + storage
    return tree.Quantized(storage, str(read["expressed"]), scales, points, read["minimum"], read["maximum"], axis)


_MAKE_TYPES: dict[str, Callable[[dict[str, Any]], Type]] = {
    "function": lambda read: tree.Function(read["inputs"], read["results"]),
    "complex": lambda read: tree.Complex(str(read["v"])),
    "tuple": lambda read: tree.Tuple(read["v"]),
    "future": lambda read: tree.Future(read["v"]),
    "memref": lambda read: tree.Memref(read["sizes"], read["element"]),
    "unranked": lambda read: Tensor(None, read["v"]),
    "quantized": _quantized,
}


def _plain_number(read: dict[str, Any]) -> Attribute:
    return bool(read["v"]) if read["type"] == "i1" else tree.Number(read["v"], read["type"])


def _dense(read: dict[str, Any]) -> Dense:
    """The elements of a tensor, unpacked to a byte each where they take less. The file has one element of a splat."""
    type_, data = read["type"], read["data"]
    if not isinstance(type_, Tensor) or type_.sizes is None or min(type_.sizes, default=0) < 0:
        raise ParseError(f"MLIR bytecode: constants are of static tensors, not of {type_}")
    count, bits = 1, element_bits(type_.element)
    for size in type_.sizes:
        count *= size
    if bits <= 0:
        raise UnsupportedError(f"MLIR bytecode: constants of the element type {type_.element} are not supported")
    width = (bits + 7) // 8
    if count == 0 and len(data) == width:  # a splat of nothing
        return Dense(type_, b"")
    if count > 1 and _is_splat(data, count, bits):
        return Dense(type_, unpacked(data, type_.element), True)
    if bits == 1 and len(data) == (count + 7) // 8 and count > 1:
        digits = f"{int.from_bytes(data, 'little'):0{len(data) * 8}b}"[::-1][:count]
        return Dense(type_, digits.encode().translate(_BITS))
    if len(data) != count * width:
        raise ParseError(f"MLIR bytecode: a constant of {type_} has {len(data)} bytes")
    return Dense(type_, unpacked(data, type_.element))


def _is_splat(data: Buffer, count: int, bits: int) -> bool:
    """Returns True if these are the bytes of one element that stands for all. Up to eight bits are one byte that may be
    either."""
    if bits == 1:
        return len(data) == 1 and (data[0] in (0, 255) or count > 8)
    return len(data) == (bits + 7) // 8


_BITS = bytes([code & 1 for code in range(256)])
"""Turns the digits of a binary number into bytes of their values."""
_FORMATS = {
    "i1": "?",
    "i8": "b",
    "i16": "<h",
    "i32": "<i",
    "i64": "<q",
    "f32": "<f",
    "f64": "<d",
    "index": "<q",
    "ui8": "B",
}


def _dense_array(read: dict[str, Any]) -> Elements:
    element, data = str(read["type"]), read["data"]
    form = _FORMATS.get(element)
    if form is None:
        raise UnsupportedError(f"MLIR bytecode: arrays of {element} are not supported")
    return Elements(element, tuple([v for (v,) in struct.iter_unpack(form, data)]))


def _accuracy(read: dict[str, Any]) -> Attribute:
    return tree.Accuracy(read["atol"], read["rtol"], read["ulps"], str(read["mode"]))


_MAKE: dict[str, Callable[[dict[str, Any]], Attribute]] = {
    **{kind: (lambda read: read["v"]) for kind in ("array", "dictionary", "string", "bounds")},
    "symbol": lambda read: tree.Symbol("::@".join([read["v"], *(s.name for s in read.get("inner", ()))])),
    "type": lambda read: TypeOf(read["v"]),
    "unit": lambda _: UNIT,
    "bool": lambda read: bool(read["v"]),
    "number": _plain_number,
    "custom_call_api": lambda read: tree.Number(read["v"], "i32"),
    "dense": _dense,
    "dense_array": _dense_array,
    "resource": lambda read: _dense({"type": read["type"], "data": read["v"]}),
    "strings": lambda read: tree.Strings(read["type"], read["v"]),
    "fields": lambda read: Fields({name: TypeOf(v) if isinstance(v, str) else v for name, v in read.items()}),
    "alias": lambda read: tree.Alias(
        read["output_tuple_indices"], read["operand_index"], read["operand_tuple_indices"]
    ),
    "accuracy": _accuracy,
    "mesh_groups": mesh_groups,
    **TEXTS,
}


def _from_text(what: str, text: str) -> Any:
    """Reads what a file holds as MLIR text: element types of older writers, and attributes of other dialects."""
    if what == "type":
        if text.startswith("!quant."):
            from .text_types import Types

            return Types(text).type()
        return text if text in HLO_TYPES else tree.Opaque(text)
    if text.startswith(("#chlo.", "#chlo<")):  # CHLO has no binary form of most of its attributes
        from .text_attributes import Attributes

        return Attributes(text).attribute()
    return tree.Opaque(text)
