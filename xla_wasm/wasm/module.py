"""A WebAssembly module under construction. Functions are known by symbol; indices exist only in the encoded bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..dataclass import dataclass, field
from .encoding import MAGIC, f32_bytes, f64_bytes, named, sized, sleb32, sleb64, uleb, vector
from .func import Func, value_types
from .opcodes import CODE, VALUE_TYPES

Data = bytes | memoryview
Signature = tuple[tuple[str, ...], tuple[str, ...]]

_CONST: dict[str, Callable[[Any], bytes]] = {"i32": sleb32, "i64": sleb64, "f32": f32_bytes, "f64": f64_bytes}
_FUNC, _MEMORY = 0, 2


def _constant(kind: str, value: float | int) -> bytes:
    return CODE[f"{kind}.const"] + _CONST[kind](value) + CODE["end"]


def _section(identity: int, content: bytes) -> bytes:
    return bytes([identity]) + sized(content)


def custom(name: str, content: bytes) -> bytes:
    """A custom section, which may follow a module's bytes."""
    return _section(0, named(name) + content)


@dataclass(frozen=True, slots=True)
class Linked:
    """A function whose body, locals vector and `end` included, is already final."""

    name: str
    params: tuple[str, ...]
    results: tuple[str, ...]
    body: bytes


@dataclass(slots=True)
class _Import:
    module: str
    field: str
    name: str
    signature: Signature


@dataclass(slots=True)
class _Memory:
    least: int
    most: int
    shared: bool
    imported: tuple[str, str] | None

    def limits(self) -> bytes:
        return bytes([3 if self.shared else 1]) + uleb(self.least) + uleb(self.most)


@dataclass(slots=True)
class Module:
    """Collects the parts, then `encode()`. Equal calls in equal order give equal bytes."""

    functions: list[Func | Linked] = field(default_factory=list)
    _imports: list[_Import] = field(default_factory=list)
    _index: dict[str, int] = field(default_factory=dict)
    _types: dict[Signature, int] = field(default_factory=dict)
    _memory: _Memory | None = None
    _slots: dict[str, int] = field(default_factory=dict)
    _segments: list[tuple[int | None, list[Data]]] = field(default_factory=list)
    _exports: list[tuple[str, int, str]] = field(default_factory=list)
    _globals: list[tuple[str, bool, float | int]] = field(default_factory=list)
    _start: str = ""

    # functions

    def import_func(
        self, module: str, field_name: str, name: str, params: tuple[str, ...], results: tuple[str, ...]
    ) -> int:
        """Declare an imported function, known here as `name`. Imports come before all other functions."""
        if self.functions:
            raise ValueError("imports must be declared before functions")
        self._imports.append(_Import(module, field_name, name, (params, results)))
        return self._name(name)

    def number_imports(self, module: str) -> list[tuple[str, str]]:
        """Call the imported functions by their numbers, as of this module; what they were called, module and name."""
        were = [(item.module, item.field) for item in self._imports]
        for number, item in enumerate(self._imports):
            item.module, item.field = module, str(number)
        return were

    def add(self, func: Func) -> int:
        """Add a function; its index. Its code may still grow until `encode`."""
        self.functions.append(func)
        return self._name(func.name)

    def add_code(self, name: str, params: tuple[str, ...], results: tuple[str, ...], body: bytes) -> int:
        """Add a function whose body is final; its index."""
        self.functions.append(Linked(name, params, results, body))
        return self._name(name)

    def _name(self, name: str) -> int:
        if name in self._index:
            raise ValueError(f"two functions are called {name}")
        index = self._index[name] = len(self._index)
        return index

    def has(self, name: str) -> bool:
        """Returns True if a function of this name was added or imported."""
        return name in self._index

    def index(self, name: str) -> int:
        """The index of the function of this name, which was added or imported."""
        return self._index[name]

    def function_count(self) -> int:
        """Returns the number of functions, which is the index of the next one."""
        return len(self._index)

    def missing(self) -> list[str]:
        """Symbols that functions, slots and exports use and nothing defines, in order of first use."""
        used: dict[str, None] = {}
        for func in self.functions:
            if isinstance(func, Func):
                used.update((symbol, None) for _, symbol in func.calls)
        used.update(dict.fromkeys(self._slots))
        used.update((name, None) for _, kind, name in self._exports if kind == _FUNC)
        return [symbol for symbol in used if symbol not in self._index]

    def type_index(self, params: tuple[str, ...], results: tuple[str, ...]) -> int:
        """The index of a function type, which is added if it is new."""
        return self._types.setdefault((params, results), len(self._types))

    def slot(self, name: str) -> int:
        """The slot of a function in the function table; slot 0 stays null."""
        return self._slots.setdefault(name, len(self._slots) + 1)

    # memory, data, globals

    def memory(self, least: int, most: int | None = None, shared: bool = False) -> None:
        """Declare the one memory, in pages; by default it cannot grow."""
        self._memory = _Memory(least, least if most is None else most, shared, None)

    def import_memory(self, module: str, field_name: str, least: int, most: int, shared: bool = False) -> None:
        """Take the one memory from the host, as threads need it."""
        self._memory = _Memory(least, most, shared, (module, field_name))

    def data(self, address: int, content: Data) -> int:
        """Add a segment which is copied to its address when the module starts; its index."""
        self._segments.append((address, [content]))
        return len(self._segments) - 1

    def join_segments(self, gap: int = 8) -> None:
        """Make one of segments that lie at most `gap` bytes apart, since each has a header. Memory must be zero in
        between.

        The indices that `data` gave count no longer."""
        active = sorted(
            ((address, parts) for address, parts in self._segments if address is not None),
            key=lambda segment: segment[0],
        )
        joined: list[tuple[int | None, list[Data]]] = []
        end = -gap - 1
        for address, parts in active:
            if address - end > gap:
                joined.append((address, []))
                end = address
            joined[-1][1].append(bytes(address - end))
            joined[-1][1].extend(parts)
            end = address + sum(map(len, parts))
        self._segments = joined + [segment for segment in self._segments if segment[0] is None]

    def move_data(self, other: Module) -> None:
        """Give all segments to another module, which has the memory."""
        other._segments += self._segments
        self._segments = []

    def make_passive(self) -> list[tuple[int, int, int]]:
        """Make all segments passive; of those that were to be copied when the module starts the index, the address and
        the size."""
        moved = [
            (i, address, sum(map(len, parts)))
            for i, (address, parts) in enumerate(self._segments)
            if address is not None
        ]
        self._segments = [(None, parts) for _, parts in self._segments]
        return moved

    def passive(self, content: Data) -> int:
        """Add a segment for `memory.init`; its index."""
        self._segments.append((None, [content]))
        return len(self._segments) - 1

    def global_(self, kind: str, mutable: bool, value: float | int) -> int:
        """Add a global; its index."""
        self._globals.append((kind, mutable, value))
        return len(self._globals) - 1

    # exports and the rest

    def export_func(self, name: str, func_name: str) -> None:
        """Export a function under a name."""
        self._exports.append((name, _FUNC, func_name))

    def export_memory(self, name: str) -> None:
        """Export the memory under a name."""
        self._exports.append((name, _MEMORY, ""))

    def start(self, func_name: str) -> None:
        """Have a function run whenever the module is instantiated."""
        self._start = func_name

    def encode(self, names: bool = False) -> bytes:
        """The module's bytes; `names` adds the function names for debuggers and the disassembler."""
        return b"".join(self.encode_parts(names))

    def encode_parts(self, names: bool = False) -> list[Data]:
        """The same in parts: what was given to `data` is among them and not copied."""
        signatures = [self.type_index(func.params, func.results) for func in self.functions]
        imported = [self.type_index(*item.signature) for item in self._imports]
        bodies = [self._body(func) for func in self.functions]
        imports = [
            named(item.module) + named(item.field) + b"\0" + uleb(index)
            for item, index in zip(self._imports, imported, strict=True)
        ]
        memories = []
        if self._memory is not None:
            if self._memory.imported is None:
                memories.append(self._memory.limits())
            else:
                module, field_name = self._memory.imported
                imports.append(named(module) + named(field_name) + b"\2" + self._memory.limits())
        types = [b"\x60" + value_types(*params) + value_types(*results) for params, results in self._types]
        slots = len(self._slots) + 1
        out: list[Data] = [MAGIC]

        def put(identity: int, items: list[bytes]) -> None:
            if items:
                out.append(_section(identity, vector(items)))

        put(1, types)
        put(2, imports)
        put(3, [uleb(index) for index in signatures])
        put(4, [b"\x70\1" + uleb(slots) + uleb(slots)] if self._uses_table() else [])
        put(5, memories)
        put(6, [bytes([VALUE_TYPES[kind], mutable]) + _constant(kind, value) for kind, mutable, value in self._globals])
        put(
            7,
            [
                named(name) + bytes([kind]) + uleb(self._index[target] if kind == _FUNC else 0)
                for name, kind, target in self._exports
            ],
        )
        if self._start:
            out.append(_section(8, uleb(self._index[self._start])))
        put(
            9,
            [b"\0" + _constant("i32", 1) + vector([uleb(self._index[name]) for name in self._slots])]
            if self._slots
            else [],
        )
        if any(address is None for address, _ in self._segments):
            out.append(_section(12, uleb(len(self._segments))))
        put(10, [sized(body) for body in bodies])
        if self._segments:
            count, content = (
                uleb(len(self._segments)),
                [part for segment in self._segments for part in self._segment(*segment)],
            )
            out += [b"\x0b" + uleb(len(count) + sum(map(len, content))) + count, *content]
        if names:
            entries = vector([uleb(index) + named(name) for name, index in self._index.items()])
            out.append(custom("name", _section(1, entries)))
        return out

    def _uses_table(self) -> bool:
        return bool(self._slots) or any(func.type_uses for func in self.functions if isinstance(func, Func))

    def _body(self, func: Func | Linked) -> bytes:
        if isinstance(func, Linked):
            return func.body
        try:
            return func.body(self._index.__getitem__, self.type_index)
        except KeyError as missing:
            raise ValueError(f"{func.name} calls {missing}, which the module does not define") from None

    @staticmethod
    def _segment(address: int | None, parts: list[Data]) -> list[Data]:
        head = b"\1" if address is None else b"\0" + _constant("i32", address)
        return [head + uleb(sum(map(len, parts))), *parts]
