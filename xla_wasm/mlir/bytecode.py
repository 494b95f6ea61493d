"""MLIR bytecode as a tree: portable artifacts (VHLO) and modules in the dialects stablehlo, chlo, func and sdy.

The file has sections; `IR` holds the operations, which refer to attributes, types and properties by number. These are
decoded when they are first asked for. Constants stay where they lie in the file.
"""

from __future__ import annotations

import gc
import struct
from collections.abc import Iterator
from typing import Any

from ..errors import ParseError, UnsupportedError, XlaWasmError, counted
from ..hlo.proto.wire import Buffer
from .bytecode_entries import Entries
from .bytecode_tables import properties
from .cursor import DEEPEST, Cursor
from .plain import plain_attributes, plain_name
from .tree import Attribute, Block, Op, Value

MAGIC = b"ML\xefR"
_NEWEST = 6
_STRINGS, _DIALECTS, _ATTRIBUTES, _OFFSETS, _IR, _RESOURCES, _RESOURCE_OFFSETS, _, _PROPERTIES = range(9)
_SECTIONS = {
    _STRINGS: "strings",
    _DIALECTS: "dialects",
    _ATTRIBUTES: "attributes",
    _OFFSETS: "offsets of attributes",
    _IR: "operations",
}
_BROKEN = (
    IndexError,
    KeyError,
    ValueError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
    ZeroDivisionError,
    struct.error,
)
"""Errors that damaged data raise where nothing looks for the damage itself."""


def read(data: bytes | bytearray | memoryview) -> list[Op]:
    """The operations at the top of a file of MLIR bytecode, which is one module as a rule. Raises ParseError and
    UnsupportedError."""
    collecting = gc.isenabled()
    gc.disable()  # all that is made lives until the end
    reader = _Reader(data if isinstance(data, bytes) else memoryview(data).cast("B"))
    try:
        return reader.module()
    except XlaWasmError:
        raise
    except _BROKEN as error:
        raise ParseError(
            f"MLIR bytecode: the data are damaged at byte {reader.at()} ({type(error).__name__}: {error})"
        ) from None
    finally:
        if collecting:
            gc.enable()


class _Reader:
    """One file being read."""

    def __init__(self, data: Buffer):
        self.top = self.ir = Cursor(data, 0, len(data))
        self.version = 0
        self.names: list[tuple[str, bool]] = []
        """Operations that the file has: their names, and whether their properties have a form of their own."""
        self.properties: list[tuple[int, int]] = []
        self.values: list[Value] = []
        self.dictionaries: dict[tuple[int, int, int], tuple[str, dict[str, Attribute]]] = {}
        """(name, attributes, properties) -> the plain name and attributes: operations that are alike share them."""
        self.casts: dict[Value, Value] = {}
        self.depth = 0
        self.room = 0
        """The number of values that the operations can still define."""

    def at(self) -> int:
        return self.ir.at

    def module(self) -> list[Op]:
        top = self.top
        if bytes(top.data[:4]) != MAGIC:
            raise ParseError("MLIR bytecode: the data do not begin with its four bytes, 'ML', EF and 'R'")
        top.at = 4
        self.version = top.varint()
        if self.version > _NEWEST:
            raise UnsupportedError(
                f"MLIR bytecode of version {self.version}: versions up to {_NEWEST} can be read; export for an older "
                f"one"
            )
        while top.byte():
            pass  # the name of the producer
        sections: dict[int, Cursor] = {}
        while top.at < top.end:
            number, section = top.section()
            sections[number] = section
        missing = [name for number, name in _SECTIONS.items() if number not in sections]
        if missing:
            raise ParseError(f"MLIR bytecode: the file ends without its section of {missing[0]}")
        strings = self._strings(sections[_STRINGS])
        dialects = self._dialects(sections[_DIALECTS], strings)
        self.entries = Entries(sections[_ATTRIBUTES], sections[_OFFSETS], strings, dialects)
        if _PROPERTIES in sections:
            self._list_properties(sections[_PROPERTIES])
        if _RESOURCES in sections and _RESOURCE_OFFSETS in sections:
            self.entries.resources = self._resources(sections[_RESOURCES], sections[_RESOURCE_OFFSETS])
        self.ir = sections[_IR]
        self.room = self.ir.end - self.ir.at
        block = Block()
        self._block(self.ir, block, iter(()), "")
        if self.ir.at != sections[_IR].end:
            raise self.ir.fail("the operations end before their section does")
        return block.ops

    def _strings(self, cursor: Cursor) -> list[str]:
        sizes = [cursor.varint() for _ in range(cursor.count())][::-1]
        strings = []
        for size in sizes:
            start = cursor.take(size)
            strings.append(str(cursor.data[start : start + size - 1], "utf-8", "surrogateescape"))
        return strings

    def _dialects(self, cursor: Cursor, strings: list[str]) -> list[str]:
        """The dialects; their operations go to `names`."""
        dialects = []
        for _ in range(cursor.count()):
            name = cursor.varint()
            if self.version >= 1:
                if name & 1:
                    cursor.section()  # the version of the dialect
                name >>= 1
            dialects.append(strings[name])
        if self.version >= 4:
            cursor.varint()
        marked = self.version >= 5
        while cursor.at < cursor.end:
            dialect = dialects[cursor.varint()]
            for _ in range(cursor.count()):
                name = cursor.varint()
                self.names.append((f"{dialect}.{strings[name >> 1 if marked else name]}", bool(marked and name & 1)))
        return dialects

    def _list_properties(self, cursor: Cursor) -> None:
        for _ in range(cursor.count()):
            size = cursor.varint()
            start = cursor.take(size)
            self.properties.append((start, start + size))

    def _resources(self, values: Cursor, offsets: Cursor) -> list[Buffer]:
        """The blobs that attributes refer to: those of dialects. The first groups are of others."""
        found: list[Buffer] = []
        outside = offsets.varint()
        while offsets.at < offsets.end:
            offsets.varint()  # the group
            for _ in range(offsets.count()):
                offsets.varint()  # the key
                size, kind = offsets.varint(), offsets.byte()
                start = values.take(size)
                if outside <= 0:
                    found.append(self._blob(Cursor(values.data, start, start + size)) if kind == 0 and size else b"")
            outside -= 1
        return found

    def _blob(self, cursor: Cursor) -> Buffer:
        align, size = cursor.varint(), cursor.varint()
        if not align:
            raise cursor.fail("a resource is aligned by 0 bytes")
        cursor.take(-cursor.at % align)
        start = cursor.take(size)
        return memoryview(cursor.data)[start : start + size]

    # --- operations ---------------------------------------------------------------------------------------------

    def _region(self, cursor: Cursor, parent: str) -> list[Block]:
        blocks = [Block() for _ in range(cursor.count())]
        if not blocks:
            return blocks
        self.depth += 1
        if self.depth > DEEPEST:
            raise UnsupportedError(f"MLIR bytecode: regions nest deeper than {DEEPEST}, at byte {cursor.at}")
        mark = len(self.values)
        count = cursor.varint()
        self.room -= count
        if self.room < 0:
            raise cursor.fail(
                f"a region of {counted(count, 'value')}, which is more than there are bytes to define them in"
            )
        self.values += [Value("none") for _ in range(count)]  # all at once: an operand may be defined later
        free = iter(self.values[mark:])
        for block in blocks:
            self._block(cursor, block, free, parent)
        del self.values[mark:]
        self.depth -= 1
        return blocks

    def _block(self, cursor: Cursor, block: Block, free: Iterator[Value], parent: str) -> None:
        head = cursor.varint()
        if head >> 1 > cursor.end - cursor.at:
            raise cursor.fail(f"a block of {head >> 1} operations in {cursor.end - cursor.at} bytes")
        if head & 1:
            for _ in range(cursor.count()):
                block.arguments.append(self._argument(cursor, block, free))
            if self.version >= 3 and cursor.byte():
                _skip_orders(cursor, len(block.arguments))
        for _ in range(head >> 1):
            op = self._op(cursor, free, parent)
            if op is not None:
                block.ops.append(op)

    def _argument(self, cursor: Cursor, block: Block, free: Iterator[Value]) -> Value:
        kind = cursor.varint()
        located = True
        if self.version >= 4:
            located, kind = bool(kind & 1), kind >> 1
        value = self._next(cursor, free)
        value.type, value.owner = self.entries.type(kind), block
        if located:
            value.name = self.entries.location(cursor.varint()).name
        return value

    def _next(self, cursor: Cursor, free: Iterator[Value]) -> Value:
        value = next(free, None)
        if value is None:
            raise cursor.fail("a region defines more values than it says")
        return value

    def _op(self, cursor: Cursor, free: Iterator[Value], parent: str) -> Op | None:
        """One operation; None where it only casts between dialects."""
        varint, entries, values = cursor.varint, self.entries, self.values
        number = varint()
        mask = cursor.data[cursor.at]
        cursor.at += 1
        where = varint()
        key = (number, varint() if mask & 1 else -1, varint() if mask & 0x40 else -1)
        shared = self.dictionaries.get(key)
        if shared is None:
            shared = self.dictionaries[key] = self._attributes(*key)
        types = [varint() for _ in range(cursor.count())] if mask & 2 else ()
        operands = [values[varint()] for _ in range(cursor.count())] if mask & 4 else []
        if self.casts:
            operands = [self.casts.get(o, o) for o in operands]
        if mask & 8:
            raise UnsupportedError(
                f"{shared[0]}: it has successors, at byte {cursor.at}: control flow between blocks is not StableHLO's"
            )
        if mask & 0x20:
            _skip_orders(cursor, len(types))
        name = shared[0]
        if name == "stablehlo.return" and parent == "func.func":
            name = "func.return"  # VHLO has one for both
        op = Op(name, operands, shared[1], entries.location(where))
        for kind in types:
            value = self._next(cursor, free)
            value.type, value.owner = entries.type(kind), op
            op.results.append(value)
        if mask & 0x10:
            self._regions(cursor, op)
        if op.name == "builtin.unrealized_conversion_cast" and len(operands) == len(op.results):
            self.casts.update(zip(op.results, operands))
            return None
        return op

    def _regions(self, cursor: Cursor, op: Op) -> None:
        head = cursor.varint()
        isolated, outer = head & 1, self.values
        if head >> 1 > cursor.end - cursor.at:
            raise cursor.fail(f"{head >> 1} regions in {cursor.end - cursor.at} bytes")
        if isolated:
            self.values = []
            if self.version >= 2:
                cursor = cursor.section()[1]
                before, self.ir = self.ir, cursor
        op.regions = [self._region(cursor, op.name) for _ in range(head >> 1)]
        if isolated:
            self.values = outer
            if self.version >= 2:
                self.ir = before

    def _attributes(self, number: int, dictionary: int, index: int) -> tuple[str, dict[str, Attribute]]:
        name, has_form = self.names[number]
        found: dict[str, Any] = {}
        if dictionary >= 0:
            found |= self.entries.dictionary(dictionary)
        if index >= 0:
            found |= self._properties(name, *self.properties[index]) if has_form else self.entries.dictionary(index)
        plain = plain_name(name)
        return plain, plain_attributes(plain, found, name.startswith("vhlo."))

    def _properties(self, name: str, start: int, end: int) -> dict[str, Attribute]:
        fields = properties(name)
        if fields is None:
            if start == end:
                return {}
            raise UnsupportedError(f"{name}: this version does not know which attributes it has")
        cursor = Cursor(self.top.data, start, end)
        groups = [field for field in fields if field[0] == "+"]
        single = [field for field in fields if field[0] != "+"]
        numbers: list[int] = []
        while cursor.at < end and not (groups and len(numbers) == len(single)):
            numbers.append(cursor.varint())
        if len(numbers) < len(single):
            single = [field for field in single if field[-1] != "!"]
        if len(numbers) != len(single):
            raise UnsupportedError(
                f"{name}: it has {counted(len(numbers), 'property')} where {len(single)} are known, at byte {start}"
            )
        found: dict[str, Attribute] = {}
        for field, number in zip(single, numbers):
            if "?" not in field:
                found[field.rstrip("!")] = self.entries.attribute(number)
            elif number & 1:
                found[field.rstrip("?!")] = self.entries.attribute(number >> 1)
        for field in groups:
            found[field[1:]] = _segments(cursor)
        return found


def _segments(cursor: Cursor) -> tuple[int, ...]:
    """Reads the number of operands or results in each group of them."""
    head = cursor.varint()
    if not head & 1:
        return tuple([cursor.varint() for _ in range(head >> 1)])
    bits, found = cursor.varint(), {}
    if bits > 8:
        raise cursor.fail("more than 256 groups of operands or results")
    for _ in range(head >> 1):
        pair = cursor.varint()
        found[pair & ((1 << bits) - 1)] = pair >> bits
    return tuple([found.get(i, 0) for i in range(max(found, default=-1) + 1)])


def _skip_orders(cursor: Cursor, values: int) -> None:
    """The order of the uses of values, which has no meaning for us."""
    for _ in range(cursor.count() if values > 1 else 1):
        if values > 1:
            cursor.varint()
        for _ in range(cursor.varint() >> 1):
            cursor.varint()
