"""Build time: index relocatable wasm objects, as clang writes them, into the table that `link.py` reads.

The object format is LLVM's: an ordinary module with a `linking` section (symbols, segment alignments) and `reloc.*`
sections that list the fields to patch. One function and one datum per section make each of them a unit of its own.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence

from ..dataclass import dataclass, field
from ..wasm.encoding import Reader, sections, sized, sleb, uleb, vector
from ..wasm.module import Signature
from ..wasm.opcodes import VALUE_TYPES
from .link import (
    ADDRESS,
    ADDRESS_SIGNED,
    ADDRESS_WORD,
    CALL,
    FORMAT,
    OUTSIDE,
    SLOT,
    SLOT_WORD,
    STACK,
    TYPE,
    Data,
    Function,
    Hole,
    Outside,
    Table,
)

# LLVM's relocation type -> (our kind, bytes in the object)
_KINDS = {
    0: (CALL, 5),
    1: (SLOT, 5),
    2: (SLOT_WORD, 4),
    3: (ADDRESS, 5),
    4: (ADDRESS_SIGNED, 5),
    5: (ADDRESS_WORD, 4),
    6: (TYPE, 5),
    7: (STACK, 5),
}
_TABLE_NUMBER = 20
# Names of what may appear and is not supported, for the error message.
_OTHER = {
    8: "FUNCTION_OFFSET_I32",
    9: "SECTION_OFFSET_I32",
    10: "TAG_INDEX_LEB",
    11: "MEMORY_ADDR_REL_SLEB",
    12: "TABLE_INDEX_REL_SLEB",
    13: "GLOBAL_INDEX_I32",
    14: "MEMORY_ADDR_LEB64",
    15: "MEMORY_ADDR_SLEB64",
    16: "MEMORY_ADDR_I64",
    17: "MEMORY_ADDR_REL_SLEB64",
    18: "TABLE_INDEX_SLEB64",
    19: "TABLE_INDEX_I64",
    21: "MEMORY_ADDR_TLS_SLEB",
    22: "FUNCTION_OFFSET_I64",
    23: "MEMORY_ADDR_LOCREL_I32",
    24: "TABLE_INDEX_REL_SLEB64",
    25: "MEMORY_ADDR_TLS_SLEB64",
    26: "FUNCTION_INDEX_I32",
}
_HAS_ADDEND = {3, 4, 5, 8, 9, 11, 14, 15, 16, 17, 21, 22, 23, 25}
_BLOCK = 1 << 15
"""Bytes after which a block of `runtime.bin` ends: what a program needs of the runtime lies in few of them."""
_FUNCTION, _DATA, _GLOBAL, _SECTION = 0, 1, 2, 3
_LOCAL, _UNDEFINED, _EXPLICIT_NAME = 0x02, 0x10, 0x40
_TYPE_NAMES = {byte: name for name, byte in VALUE_TYPES.items()}


@dataclass(frozen=True, slots=True)
class _Symbol:
    kind: int
    name: str
    defined: bool
    local: bool
    index: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class _Chunk:
    """A function body or a data segment, and where it starts in its section."""

    start: int
    content: bytes


@dataclass(slots=True)
class Object:
    """A relocatable object, as far as linking needs it."""

    name: str
    types: list[Signature] = field(default_factory=list)
    imported: list[tuple[str, str]] = field(default_factory=list)
    """Module and name of each function that it imports; functions of other objects come from the module "env"."""
    signatures: list[int] = field(default_factory=list)
    code: list[_Chunk] = field(default_factory=list)
    data: list[_Chunk] = field(default_factory=list)
    aligns: list[int] = field(default_factory=list)
    strings: list[bool] = field(default_factory=list)
    """Of each datum whether it is a constant string, which equal ones may stand for."""
    symbols: list[_Symbol] = field(default_factory=list)
    relocations: dict[str, list[tuple[int, int, int, int]]] = field(default_factory=dict)


def read_object(name: str, content: bytes) -> Object:
    """Parse an object file; `name` is for messages and for the names of static functions."""
    obj = Object(name)
    for identity, part in sections(content):
        start = part.pos
        if identity == 0:
            title = part.name()
            if title == "linking":
                _read_linking(obj, part)
            elif title in ("reloc.CODE", "reloc.DATA"):
                _read_relocations(obj.relocations.setdefault(title[6:], []), part)
        elif identity == 1:
            for _ in range(part.unsigned()):
                part.u8()
                params, results = (tuple(_TYPE_NAMES[b] for b in part.take(part.unsigned())) for _ in range(2))
                obj.types.append((params, results))
        elif identity == 2:
            _read_imports(obj, part)
        elif identity == 3:
            obj.signatures += [part.unsigned() for _ in range(part.unsigned())]
        elif identity == 10:
            for _ in range(part.unsigned()):
                size = part.unsigned()
                obj.code.append(_Chunk(part.pos - start, part.take(size)))
        elif identity == 11:
            for _ in range(part.unsigned()):
                if part.unsigned() != 0 or part.u8() != 0x41:
                    raise ValueError(f"{name}: a data segment is not placed by a constant")
                part.signed(32)
                part.u8()
                size = part.unsigned()
                obj.data.append(_Chunk(part.pos - start, part.take(size)))
    return obj


def _read_imports(obj: Object, part: Reader) -> None:
    for _ in range(part.unsigned()):
        module, name = part.name(), part.name()
        kind = part.u8()
        if kind == 0:
            obj.imported.append((module, name))
            obj.signatures.append(part.unsigned())
        elif kind == 3:
            part.take(2)
        else:
            if kind == 1:
                part.u8()
            flags = part.unsigned()
            for _ in range(1 + (flags & 1)):
                part.unsigned()


def _read_relocations(into: list[tuple[int, int, int, int]], part: Reader) -> None:
    part.unsigned()
    for _ in range(part.unsigned()):
        kind, offset, index = part.unsigned(), part.unsigned(), part.unsigned()
        into.append((kind, offset, index, part.signed(32) if kind in _HAS_ADDEND else 0))


def _read_linking(obj: Object, part: Reader) -> None:
    version = part.unsigned()
    if version != 2:
        raise ValueError(f"{obj.name}: version {version} of the linking section, not 2")
    while not part.done():
        kind = part.u8()
        inner = part.sub()
        if kind == 8:
            obj.symbols = [_read_symbol(obj, inner) for _ in range(inner.unsigned())]
        elif kind == 6 and inner.unsigned():
            raise ValueError(f"{obj.name}: has functions that must run at start-up")
        elif kind == 5:
            for _ in range(inner.unsigned()):
                segment = inner.name()
                obj.aligns.append(1 << inner.unsigned())
                flags = inner.unsigned()
                obj.strings.append(bool(flags & 1))
                if flags & 2:
                    raise ValueError(f"{obj.name}: {segment} is thread-local")


def _read_symbol(obj: Object, reader: Reader) -> _Symbol:
    kind, flags = reader.u8(), reader.unsigned()
    defined, local = not flags & _UNDEFINED, bool(flags & _LOCAL)
    if kind == _DATA:
        name = reader.name()
        segment, offset = (reader.unsigned(), reader.unsigned()) if defined else (0, 0)
        if defined:
            reader.unsigned()
        return _Symbol(kind, name, defined, local, segment, offset)
    index = reader.unsigned()
    if kind == _SECTION:
        return _Symbol(kind, "", True, True, index)
    if defined or flags & _EXPLICIT_NAME:
        name = reader.name()
    else:
        name = obj.imported[index][1] if kind == _FUNCTION else "__stack_pointer"
    return _Symbol(kind, name, defined, local, index)


_Unit = tuple[bool, int, int]  # is a function, object number, index of the body or segment


class _Indexer:
    """Numbers the functions, data and types that the public functions reach."""

    def __init__(self, objects: Sequence[Object]) -> None:
        self.objects = objects
        self.globals: dict[str, tuple[int, _Symbol]] = {}
        for number, obj in enumerate(objects):
            for symbol in obj.symbols:
                if symbol.kind in (_FUNCTION, _DATA) and symbol.defined and not symbol.local:
                    if symbol.name in self.globals:
                        raise ValueError(
                            f"{symbol.name} is defined in {objects[self.globals[symbol.name][0]].name} and {obj.name}"
                        )
                    self.globals[symbol.name] = number, symbol
        self.functions: dict[tuple[int, int], int] = {}
        self.data: dict[tuple[int, int], int] = {}
        self.strings: dict[bytes, tuple[int, int]] = {}
        self.types: dict[Signature, int] = {}
        self.outside: dict[Outside, int] = {}
        self.work: list[_Unit] = []
        self.made: dict[_Unit, Function | Data] = {}

    def run(self) -> Table:
        """The table of everything reachable from the functions called xw_*."""
        for name in sorted(self.globals):
            number, symbol = self.globals[name]
            if symbol.kind == _FUNCTION and name.startswith("xw_"):
                self.function(number, symbol)
        if not self.functions:
            raise ValueError("the objects define no function called xw_*")
        while self.work:
            unit = self.work.pop(0)
            self.made[unit] = self.make_function(*unit[1:]) if unit[0] else self.make_data(*unit[1:])
        functions = tuple(self.made[True, *key] for key in self.functions)
        data = tuple(self.made[False, *key] for key in self.data)
        names = tuple(f.name for f in functions)  # type: ignore[union-attr]
        return Table(tuple(self.types), tuple(self.outside), functions, data, names)  # type: ignore[arg-type]

    def resolve(self, number: int, symbol: _Symbol) -> tuple[int, _Symbol]:
        if symbol.defined:
            return number, symbol
        if symbol.name not in self.globals:
            raise ValueError(f"{self.objects[number].name} needs {symbol.name}, which no source defines")
        return self.globals[symbol.name]

    def function(self, number: int, symbol: _Symbol) -> int:
        key = number, symbol.index - len(self.objects[number].imported)
        if key not in self.functions:
            self.functions[key] = len(self.functions)
            self.work.append((True, *key))
        return self.functions[key]

    def datum(self, number: int, segment: int) -> int:
        key = number, segment
        obj = self.objects[number]
        if obj.strings[segment]:
            key = self.strings.setdefault(obj.data[segment].content, key)
        if key not in self.data:
            self.data[key] = len(self.data)
            self.work.append((False, *key))
        return self.data[key]

    def type(self, signature: Signature) -> int:
        return self.types.setdefault(signature, len(self.types))

    def make_function(self, number: int, index: int) -> Function:
        obj = self.objects[number]
        position = index + len(obj.imported)
        symbol = next(s for s in obj.symbols if s.kind == _FUNCTION and s.defined and s.index == position)
        # Only what is called xw_* is public; other names may be those of kernels.
        name = symbol.name if symbol.name.startswith("xw_") and not symbol.local else f"{obj.name}:{symbol.name}"
        body, holes = self.cut(number, "CODE", obj.code[index])
        return Function(name, self.type(obj.types[obj.signatures[position]]), body, holes)

    def make_data(self, number: int, index: int) -> Data:
        obj = self.objects[number]
        content, holes = self.cut(number, "DATA", obj.data[index])
        content = content[: max(len(content.rstrip(b"\0")), max((hole.offset for hole in holes), default=0))]
        return Data(obj.aligns[index], len(obj.data[index].content), content, holes)

    def cut(self, number: int, section: str, chunk: _Chunk) -> tuple[bytes, tuple[Hole, ...]]:
        """The chunk without the fields to be relocated, and what belongs there."""
        obj = self.objects[number]
        parts: list[bytes] = []
        holes: list[Hole] = []
        start = length = 0
        for kind, offset, index, addend in sorted(obj.relocations.get(section, ()), key=lambda entry: entry[1]):
            at = offset - chunk.start
            if not 0 <= at < len(chunk.content):
                continue
            parts.append(chunk.content[start:at])
            length += at - start
            if kind == _TABLE_NUMBER:  # there is one table
                parts.append(b"\0")
                length += 1
                start = at + 5
                continue
            if kind not in _KINDS:
                raise ValueError(f"{obj.name}: relocation {_OTHER.get(kind, kind)} is not supported")
            ours, width = _KINDS[kind]
            start = at + width
            holes.append(self.hole(number, length, ours, index, addend))
        parts.append(chunk.content[start:])
        return b"".join(parts), tuple(holes)

    def hole(self, number: int, offset: int, kind: int, index: int, addend: int) -> Hole:
        obj = self.objects[number]
        if kind == TYPE:
            return Hole(offset, kind, self.type(obj.types[index]), 0)
        symbol = obj.symbols[index]
        if kind == STACK:
            if symbol.name != "__stack_pointer":
                raise ValueError(f"{obj.name}: global {symbol.name} is not supported")
            return Hole(offset, kind, 0, 0)
        if symbol.kind == _FUNCTION and not symbol.defined and obj.imported[symbol.index][0] != "env":
            if kind != CALL:
                raise ValueError(f"{obj.name}: the address of {symbol.name}, which is imported, is not supported")
            item = Outside(*obj.imported[symbol.index], self.type(obj.types[obj.signatures[symbol.index]]))
            return Hole(offset, OUTSIDE, self.outside.setdefault(item, len(self.outside)), 0)
        owner, symbol = self.resolve(number, symbol)
        if symbol.kind == _DATA:
            return Hole(offset, kind, self.datum(owner, symbol.index), symbol.offset + addend)
        return Hole(offset, kind, self.function(owner, symbol), 0)


def index_objects(objects: Sequence[Object]) -> Table:
    """The table of all functions called xw_* and what they need. Only these names are public."""
    return _Indexer(objects).run()


def write_table(table: Table) -> bytes:
    """The contents of `runtime.bin`; `link.read_table` is the inverse."""

    def holes(items: tuple[Hole, ...]) -> bytes:
        return vector([uleb(h.offset) + bytes([h.kind]) + uleb(h.target) + sleb(h.addend) for h in items])

    blocks: list[bytes] = [b""]

    def place(content: bytes, items: tuple[Hole, ...]) -> tuple[int, int]:
        """The number of the block that takes it, and where it begins there."""
        if len(blocks[-1]) >= _BLOCK:
            blocks.append(b"")
        start = len(blocks[-1])
        blocks[-1] += sized(content) + holes(items)
        return len(blocks) - 1, start

    functions = [(f.name, f.type, *place(f.body, f.holes)) for f in table.functions]
    data = [(d.align, d.size, *place(d.content, d.holes)) for d in table.data]
    packed = [zlib.compress(block, 9) for block in blocks]
    outside = [(x.module, x.name, x.type) for x in table.outside]
    index = {
        "types": table.types,
        "outside": outside,
        "functions": functions,
        "data": data,
        "blocks": list(map(len, packed)),
    }
    head = zlib.compress(json.dumps(index, separators=(",", ":")).encode(), 9)
    return bytes([FORMAT]) + len(head).to_bytes(4, "little") + head + b"".join(packed)
