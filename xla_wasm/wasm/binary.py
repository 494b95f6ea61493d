"""Reading modules: the sections as plain records, and the instructions of a body. Shared by `disasm` and `validate`.

Only the shape of the bytes is checked here (and turned into ArtifactError where it is wrong); what they mean is
`validate`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..dataclass import dataclass, field
from ..errors import ArtifactError, counted
from .encoding import Reader, sections, uleb
from .opcodes import VALUE_TYPES, Opcode, opcodes

Signature = tuple[tuple[str, ...], tuple[str, ...]]

TYPE_NAMES = {byte: name for name, byte in VALUE_TYPES.items()}
FUNC, TABLE, MEMORY, GLOBAL = range(4)
_SECTION_ORDER = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 10, 11)
# Engines share these limits (the JavaScript API of WebAssembly states them).
MAX_LOCALS = 50_000
MAX_ARITY = 1_000
MAX_STRING = 100_000
MAX_BODY = 7_654_321
MAX_COUNT = 1_000_000
MAX_LABELS = 65_520
MAX_SEGMENTS = 100_000


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes of a memory or table; `most` None: no bound."""

    least: int
    most: int | None
    shared: bool = False


@dataclass(frozen=True, slots=True)
class TableType:
    kind: str
    limits: Limits


@dataclass(frozen=True, slots=True)
class GlobalType:
    kind: str
    mutable: bool


@dataclass(frozen=True, slots=True)
class Import:
    """`what` is a type index, TableType, Limits or GlobalType by `kind`."""

    module: str
    name: str
    kind: int
    what: Any


Instruction = tuple[Opcode, tuple[Any, ...]]
Expression = tuple[Instruction, ...]  # a constant expression, without its `end`


@dataclass(frozen=True, slots=True)
class Element:
    """`table` None: not active, then `declared` tells the declarative from the passive ones. Items are function indices
    or constant expressions."""

    table: int | None
    offset: Expression
    declared: bool
    kind: str
    functions: tuple[int, ...] | None
    expressions: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Data:
    """`offset` None: passive."""

    memory: int
    offset: Expression | None
    content: bytes


@dataclass(frozen=True, slots=True)
class Body:
    """Locals in runs, and a reader of the code, the final `end` included."""

    runs: tuple[tuple[int, str], ...]
    code: Reader


@dataclass(slots=True)
class Binary:
    """A module as its sections have it. Index spaces begin with the imports."""

    types: list[Signature] = field(default_factory=list)
    imports: list[Import] = field(default_factory=list)
    functions: list[int] = field(default_factory=list)
    tables: list[TableType] = field(default_factory=list)
    memories: list[Limits] = field(default_factory=list)
    globals: list[GlobalType] = field(default_factory=list)
    initials: list[Expression] = field(default_factory=list)
    exports: list[tuple[str, int, int]] = field(default_factory=list)
    start: int | None = None
    elements: list[Element] = field(default_factory=list)
    data_count: int | None = None
    bodies: list[Body] = field(default_factory=list)
    data: list[Data] = field(default_factory=list)
    customs: list[tuple[str, bytes]] = field(default_factory=list)

    def imported(self, kind: int) -> int:
        """Returns the number of imports in an index space."""
        return sum(item.kind == kind for item in self.imports)


# Instructions


def _value_type(reader: Reader) -> str:
    name = TYPE_NAMES.get(reader.u8())
    if name is None:
        raise reader.fail("not a value type")
    return name


def _reference_type(reader: Reader) -> str:
    name = _value_type(reader)
    if name not in ("funcref", "externref"):
        raise reader.fail("not a reference type")
    return name


def _block(reader: Reader) -> str | int | None:
    """None, a value type, or a type index."""
    start = reader.pos
    byte = reader.u8()
    if byte == 0x40:
        return None
    if byte in TYPE_NAMES:
        return TYPE_NAMES[byte]
    reader.pos = start
    index = reader.signed(33)
    if index < 0:
        raise reader.fail("not a block type")
    return index


def _labels(reader: Reader) -> tuple[tuple[int, ...], int]:
    count = reader.unsigned()
    if count > MAX_LABELS:
        raise reader.fail("too many labels")
    return tuple(reader.unsigned() for _ in range(count)), reader.unsigned()


def _memarg(reader: Reader) -> tuple[int, int]:
    """(align_log2, offset)"""
    align = reader.unsigned()
    if align > 0x3F:
        raise reader.fail("malformed alignment")
    return align, reader.unsigned()


def _zero(reader: Reader) -> int:
    if reader.u8():
        raise reader.fail("zero byte expected")
    return 0


_IMMEDIATES: dict[str, Callable[[Reader], Any]] = {
    "block": _block,
    "labels": _labels,
    "memarg": _memarg,
    "memory": _zero,
    "zero": _zero,
    "heap": _reference_type,
    "types": lambda reader: tuple(_value_type(reader) for _ in range(reader.unsigned())),
    "lane": Reader.u8,
    "i32": lambda reader: reader.signed(32),
    "i64": lambda reader: reader.signed(64),
    "f32": lambda reader: reader.take(4),
    "f64": lambda reader: reader.take(8),
    "v128": lambda reader: reader.take(16),
    "shuffle": lambda reader: tuple(reader.take(16)),
}
_READERS = {
    name: tuple(_IMMEDIATES.get(kind.partition(":")[0], Reader.unsigned) for kind in op.immediates)
    for name, op in opcodes().items()
}
_BY_CODE = {op.code: op for op in opcodes().values()}
_PREFIXES = (0xFC, 0xFD, 0xFE)


def read_instruction(reader: Reader) -> Instruction:
    """The next instruction: its opcode and one value for each kind of immediate."""
    first = reader.u8()
    code = bytes([first]) + uleb(reader.unsigned()) if first in _PREFIXES else bytes([first])
    op = _BY_CODE.get(code)
    if op is None:
        raise reader.fail(f"unknown opcode {code.hex(' ')}")
    return op, tuple([read(reader) for read in _READERS[op.name]])


def read_instructions(reader: Reader) -> Iterator[Instruction]:
    """All instructions up to the reader's end."""
    while not reader.done():
        yield read_instruction(reader)


def _expression(reader: Reader) -> Expression:
    out: list[Instruction] = []
    while True:
        op, immediates = read_instruction(reader)
        if op.name == "end":
            return tuple(out)
        out.append((op, immediates))


# Sections


def _count(reader: Reader, most: int = MAX_COUNT) -> range:
    count = reader.unsigned()
    if count > most:
        raise reader.fail(f"{counted(count, 'entry')}; the limit is {most}")
    return range(count)


def _name(reader: Reader) -> str:
    name = reader.name()
    if len(name.encode()) > MAX_STRING:
        raise reader.fail("a name is too long")
    return name


def _limits(reader: Reader, may_share: bool) -> Limits:
    flags = reader.u8()
    if flags > (3 if may_share else 1):
        raise reader.fail("malformed limits")
    least = reader.unsigned()
    return Limits(least, reader.unsigned() if flags & 1 else None, bool(flags & 2))


def _table(reader: Reader) -> TableType:
    return TableType(_reference_type(reader), _limits(reader, False))


def _global(reader: Reader) -> GlobalType:
    kind = _value_type(reader)
    flag = reader.u8()
    if flag > 1:
        raise reader.fail("malformed mutability")
    return GlobalType(kind, bool(flag))


def _read_types(module: Binary, reader: Reader) -> None:
    for _ in _count(reader):
        if reader.u8() != 0x60:
            raise reader.fail("not a function type")
        params = tuple(_value_type(reader) for _ in _count(reader, MAX_ARITY))
        module.types.append((params, tuple(_value_type(reader) for _ in _count(reader, MAX_ARITY))))


def _read_imports(module: Binary, reader: Reader) -> None:
    for _ in _count(reader):
        origin, name, kind = _name(reader), _name(reader), reader.u8()
        what: Any
        if kind == FUNC:
            what = reader.unsigned()
            module.functions.append(what)
        elif kind == TABLE:
            what = _table(reader)
            module.tables.append(what)
        elif kind == MEMORY:
            what = _limits(reader, True)
            module.memories.append(what)
        elif kind == GLOBAL:
            what = _global(reader)
            module.globals.append(what)
        else:
            raise reader.fail("malformed import")
        module.imports.append(Import(origin, name, kind, what))


def _read_functions(module: Binary, reader: Reader) -> None:
    module.functions += [reader.unsigned() for _ in _count(reader)]


def _read_tables(module: Binary, reader: Reader) -> None:
    module.tables += [_table(reader) for _ in _count(reader)]


def _read_memories(module: Binary, reader: Reader) -> None:
    module.memories += [_limits(reader, True) for _ in _count(reader)]


def _read_globals(module: Binary, reader: Reader) -> None:
    for _ in _count(reader):
        module.globals.append(_global(reader))
        module.initials.append(_expression(reader))


def _read_exports(module: Binary, reader: Reader) -> None:
    for _ in _count(reader):
        name, kind = _name(reader), reader.u8()
        if kind > GLOBAL:
            raise reader.fail("malformed export")
        module.exports.append((name, kind, reader.unsigned()))


def _read_start(module: Binary, reader: Reader) -> None:
    module.start = reader.unsigned()


def _read_elements(module: Binary, reader: Reader) -> None:
    for _ in _count(reader, MAX_SEGMENTS):
        flags = reader.unsigned()
        if flags > 7:
            raise reader.fail("malformed element segment")
        active, explicit, expressions = not flags & 1, bool(flags & 2), bool(flags & 4)
        table = (reader.unsigned() if explicit else 0) if active else None
        offset = _expression(reader) if active else ()
        kind = "funcref"
        if explicit or not active:
            if expressions:
                kind = _reference_type(reader)
            elif reader.u8():
                raise reader.fail("malformed element kind")
        declared = not active and explicit
        if expressions:
            items = tuple(_expression(reader) for _ in _count(reader))
            module.elements.append(Element(table, offset, declared, kind, None, items))
        else:
            functions = tuple(reader.unsigned() for _ in _count(reader))
            module.elements.append(Element(table, offset, declared, kind, functions, ()))


def _read_code(module: Binary, reader: Reader) -> None:
    for _ in _count(reader):
        body = reader.sub()
        if body.end - body.pos > MAX_BODY:
            raise body.fail("a function is too large")
        runs = tuple((body.unsigned(), _value_type(body)) for _ in _count(body, MAX_LOCALS))
        if sum(count for count, _ in runs) > MAX_LOCALS:
            raise body.fail("too many locals")
        module.bodies.append(Body(runs, body))


def _read_data(module: Binary, reader: Reader) -> None:
    for _ in _count(reader, MAX_SEGMENTS):
        flags = reader.unsigned()
        if flags > 2:
            raise reader.fail("malformed data segment")
        memory = reader.unsigned() if flags == 2 else 0
        offset = None if flags == 1 else _expression(reader)
        module.data.append(Data(memory, offset, reader.take(reader.unsigned())))


def _read_data_count(module: Binary, reader: Reader) -> None:
    module.data_count = reader.unsigned()


_SECTIONS: dict[int, Callable[[Binary, Reader], None]] = {
    1: _read_types,
    2: _read_imports,
    3: _read_functions,
    4: _read_tables,
    5: _read_memories,
    6: _read_globals,
    7: _read_exports,
    8: _read_start,
    9: _read_elements,
    10: _read_code,
    11: _read_data,
    12: _read_data_count,
}


def read_module(wasm: bytes) -> Binary:
    """The module's parts; ArtifactError where the bytes are malformed."""
    module = Binary()
    place = -1
    for identity, part in sections(wasm):
        if identity == 0:
            module.customs.append((part.name(), part.take(part.end - part.pos)))
            continue
        if identity not in _SECTIONS:
            raise part.fail(f"unknown section {identity}")
        if _SECTION_ORDER.index(identity) <= place:
            raise part.fail(f"section {identity} is out of order")
        place = _SECTION_ORDER.index(identity)
        _SECTIONS[identity](module, part)
        if not part.done():
            raise part.fail(f"section {identity} is longer than its contents")
    if len(module.bodies) != len(module.functions) - module.imported(FUNC):
        raise Reader(wasm, len(wasm)).fail("functions and bodies differ in number")
    if module.data_count is not None and module.data_count != len(module.data):
        raise Reader(wasm, len(wasm)).fail("the data count is wrong")
    return module


def function_names(module: Binary) -> dict[int, str]:
    """Function names out of the name section; a damaged one counts as absent, since nothing depends on it."""
    names: dict[int, str] = {}
    for title, content in module.customs:
        if title == "name":
            try:
                reader = Reader(content)
                while not reader.done():
                    kind, part = reader.u8(), reader.sub()
                    if kind == 1:
                        names.update((part.unsigned(), part.name()) for _ in _count(part))
            except ArtifactError:
                return {}
    return names
