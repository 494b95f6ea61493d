"""Compile time: copy the runtime functions that a module calls into it, with everything that they need in turn.

`runtime.bin` (made by `objfile.py` when the package is built) holds bodies from which the fields to be relocated were
cut out. Linking puts the final index or address there, in its shortest form; no instruction is ever decoded.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import accumulate
from typing import Any, TypeVar

from ..dataclass import dataclass
from ..wasm.encoding import Reader, sleb32, uleb
from ..wasm.module import Module, Signature

# What a hole is filled with: an index (CALL, TYPE, STACK, OUTSIDE), a table slot or an address, as LEB128 or as a
# 32-bit word.
CALL, SLOT, SLOT_WORD, ADDRESS, ADDRESS_SIGNED, ADDRESS_WORD, TYPE, STACK, OUTSIDE = range(9)
FORMAT = 3
MODEL = "xla_wasm"
"""The module from which C sources import what the program that they are linked to defines, or chooses among them."""

Alloc = Callable[[int, int, bool], int]
"""The address of so many bytes, at a multiple of the second number. The third: whether they have content, and do not
start as zeros."""


@dataclass(frozen=True, slots=True)
class Hole:
    """A place in cut content: `target` is a function, data or type index of the table, `addend` a byte offset."""

    offset: int
    kind: int
    target: int
    addend: int


@dataclass(frozen=True, slots=True)
class Function:
    """A compiled C function: its body without the bytes of the holes."""

    name: str
    type: int
    body: bytes
    holes: tuple[Hole, ...]


@dataclass(frozen=True, slots=True)
class Data:
    """Static data; `content` may be shorter than `size`, the rest is zero."""

    align: int
    size: int
    content: bytes
    holes: tuple[Hole, ...]


@dataclass(frozen=True, slots=True)
class Outside:
    """A function that no C source defines: an import of the linked module, or of `MODEL`."""

    module: str
    name: str
    type: int


T = TypeVar("T", Function, Data)


class Lazy(Sequence[T]):
    """Parts of the runtime, each of which is read when it is first asked for: a program needs few of them."""

    def __init__(self, count: int, read: Callable[[int], T]) -> None:
        self._parts: list[T | None] = [None] * count
        self._read: Callable[[int], T] = read

    def __len__(self) -> int:
        return len(self._parts)

    def __getitem__(self, index: Any) -> Any:
        part = self._parts[index]
        if part is None:
            part = self._parts[index] = self._read(index)
        return part

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class Table:
    """The whole runtime; references between its parts are indices. `names` are those of the functions, in their
    order."""

    types: tuple[Signature, ...]
    outside: tuple[Outside, ...]
    functions: Sequence[Function]
    data: Sequence[Data]
    names: tuple[str, ...]


def read_table(packed: bytes) -> Table:
    """The table out of the contents of `runtime.bin`: an index, and blocks with the content of functions and data.

    After a byte for the format and four for the size of the index come the index and the blocks, each compressed by
    itself.
    """
    start = 5 + int.from_bytes(packed[1:5], "little")
    if packed[:1] != bytes([FORMAT]):
        raise ValueError("runtime.bin was built for another version of xla_wasm; build it again")
    index = json.loads(zlib.decompress(packed[5:start]))
    ends = list(accumulate(index["blocks"], initial=start))

    @cache
    def block(number: int) -> bytes:
        return zlib.decompress(packed[ends[number] : ends[number + 1]])

    def content(number: int, at: int) -> tuple[bytes, tuple[Hole, ...]]:
        reader = Reader(block(number), at)
        body = reader.take(reader.unsigned())
        return body, tuple(
            Hole(reader.unsigned(), reader.u8(), reader.unsigned(), reader.signed(32)) for _ in range(reader.unsigned())
        )

    functions, data = index["functions"], index["data"]

    def function(i: int) -> Function:
        name, type_, *place = functions[i]
        return Function(name, type_, *content(*place))

    def datum(i: int) -> Data:
        align, size, *place = data[i]
        return Data(align, size, *content(*place))

    types = tuple((tuple(params), tuple(results)) for params, results in index["types"])
    outside = tuple(Outside(*item) for item in index["outside"])
    return Table(
        types, outside, Lazy(len(functions), function), Lazy(len(data), datum), tuple(row[0] for row in functions)
    )


@cache
def _runtime() -> Table:
    path = os.path.join(os.path.dirname(__file__), "runtime.bin")
    try:
        with open(path, "rb") as file:
            packed = file.read()
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is missing; `python hatch_build.py` in a source tree builds it") from None
    return read_table(packed)


def runtime_functions() -> dict[str, Signature]:
    """The functions that `Linker.need` can supply, with their parameter and result types."""
    table = _runtime()
    public = [i for i, name in enumerate(table.names) if name.startswith("xw_")]
    return {table.names[i]: table.types[table.functions[i].type] for i in public}


class Linker:
    """Links runtime functions into `module`. `alloc` gives the address of memory that stays theirs, for static
    data and, if any of them needs one, a stack of `stack_bytes`; the memory must be zero when the module starts.

    `chosen` says which function stands for one that C sources import from `MODEL`: one of the runtime, or of the
    module. By default it is the module's function of that name.
    """

    def __init__(
        self,
        module: Module,
        alloc: Alloc,
        stack_bytes: int = 32768,
        table: Table | None = None,
        chosen: Mapping[str, str] | None = None,
    ) -> None:
        self._module = module
        self._alloc = alloc
        self._stack_bytes = stack_bytes
        self._table = table or _runtime()
        self._by_name = {name: i for i, name in enumerate(self._table.names)}
        self._chosen = dict(chosen or {})
        self._placed: dict[int, int] = {}
        self._address: dict[int, int] = {}
        self._filled: set[int] = set()
        self._stack: int | None = None

    @property
    def stack(self) -> int | None:
        """The global that points into the stack; None if no function needs one."""
        return self._stack

    def need_missing(self) -> None:
        """Link every symbol that the module uses and does not define."""
        for symbol in self._module.missing():
            self.need(symbol)

    def import_for(self, *symbols: str) -> None:
        """Declare the imports of functions that are to be linked: a module has them before any function of its own."""
        functions: dict[int, None] = {}
        for symbol in symbols:
            functions |= dict.fromkeys(self._closure(self._by_name[symbol]))
        needed = {hole.target for i in functions for hole in self._table.functions[i].holes if hole.kind == OUTSIDE}
        for i, item in enumerate(self._table.outside):
            if i in needed and item.module != MODEL:
                self._module.import_func(item.module, item.name, _import_name(item), *self._table.types[item.type])

    def place_by_size(self, *symbols: str) -> None:
        """Place the data of functions that are to be linked: the stack, what starts as zero, the largest last, then
        what has content. An instance that uses little of each writes to few pages of memory."""
        found: dict[int, None] = {}
        for symbol in symbols:
            functions, data = self._reached(self._by_name[symbol])
            found |= dict.fromkeys(data)
            if any(hole.kind == STACK for i in functions for hole in self._table.functions[i].holes):
                self._stack_global()
        for index in sorted(
            found, key=lambda index: (bool(self._table.data[index].content), self._table.data[index].size)
        ):
            self._allocate(index)

    def need(self, symbol: str) -> None:
        """Link a function and its closure; nothing happens if it is there already."""
        if symbol not in self._by_name:
            raise ValueError(f"the runtime has no function {symbol}")
        new = self._closure(self._by_name[symbol])
        # Indices first, for recursion; add_code then hands out the same ones.
        base = self._module.function_count()
        self._placed.update({index: base + i for i, index in enumerate(new)})
        for index in new:
            function = self._table.functions[index]
            params, results = self._table.types[function.type]
            self._module.add_code(function.name, params, results, self._fill(function.body, function.holes))

    def _closure(self, root: int) -> list[int]:
        return self._reached(root)[0]

    def _reached(self, root: int) -> tuple[list[int], list[int]]:
        """The functions reachable from one, through data as well, that are not in the module yet, and the data; in
        order of discovery."""
        if root in self._placed:
            return [], []
        functions = [root]
        seen: dict[tuple[bool, int], None] = {(True, root): None}
        work = [self._table.functions[root].holes]
        while work:
            for hole in work.pop():
                target = self._runtime_function(hole)
                is_function = target is not None
                target = hole.target if target is None else target
                if hole.kind in (TYPE, STACK) or (hole.kind == OUTSIDE and not is_function):
                    continue
                if (is_function, target) in seen or (is_function and target in self._placed):
                    continue
                seen[is_function, target] = None
                if is_function:
                    functions.append(target)
                    work.append(self._table.functions[target].holes)
                else:
                    work.append(self._table.data[target].holes)
        return functions, [index for is_function, index in seen if not is_function]

    def _runtime_function(self, hole: Hole) -> int | None:
        """The function of the runtime that a hole refers to, if it does."""
        if hole.kind in (CALL, SLOT, SLOT_WORD):
            return hole.target
        return self._by_name.get(self._symbol(hole)) if hole.kind == OUTSIDE else None

    def _symbol(self, hole: Hole) -> str:
        item = self._table.outside[hole.target]
        return self._chosen.get(item.name, item.name) if item.module == MODEL else _import_name(item)

    def _fill(self, content: bytes, holes: tuple[Hole, ...]) -> bytes:
        parts = []
        start = 0
        for hole in holes:
            parts.append(content[start : hole.offset])
            parts.append(self._filling(hole))
            start = hole.offset
        parts.append(content[start:])
        return b"".join(parts)

    def _filling(self, hole: Hole) -> bytes:
        target, kind = hole.target, hole.kind
        if kind in (CALL, OUTSIDE):
            function = self._runtime_function(hole)
            return uleb(self._module.index(self._symbol(hole)) if function is None else self._placed[function])
        if kind == TYPE:
            return uleb(self._module.type_index(*self._table.types[target]))
        if kind == STACK:
            return uleb(self._stack_global())
        if kind in (SLOT, SLOT_WORD):
            value = self._module.slot(self._table.names[target])
        else:
            value = self._place(target) + hole.addend & 0xFFFFFFFF
        if kind in (SLOT_WORD, ADDRESS_WORD):
            return value.to_bytes(4, "little")
        return uleb(value) if kind == ADDRESS else sleb32(value)

    def _allocate(self, index: int) -> None:
        data = self._table.data[index]
        self._address[index] = self._alloc(data.size, data.align, bool(data.content))

    def _place(self, index: int) -> int:
        """The address of static data, which is placed at its first use."""
        data = self._table.data[index]
        if index not in self._address:
            self._allocate(index)
        if index not in self._filled:
            # Known before it is filled, because data may point at itself.
            self._filled.add(index)
            content = self._fill(data.content, data.holes).rstrip(b"\0")
            if content:
                self._module.data(self._address[index], content)
        return self._address[index]

    def _stack_global(self) -> int:
        if self._stack is None:
            top = self._alloc(self._stack_bytes, 16, False) + self._stack_bytes
            self._stack = self._module.global_("i32", True, top)
        return self._stack


def _import_name(item: Outside) -> str:
    """Returns the name of an imported function in the module that imports it."""
    return f"{item.module}.{item.name}"
