"""Components (the binary format of the component model, as WASI 0.2 has it): sections, types, and what a component is
made of.

A component has index spaces of its own for each sort of thing; `Component` numbers what is added, and gives the numbers
back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from .encoding import COMPONENT, named, sized, sleb64, uleb, vector

_PRIMITIVES = {"bool": 0x7F, "u8": 0x7D, "u16": 0x7B, "u32": 0x79, "u64": 0x77, "string": 0x73}
_CORE_FUNC, _CORE_MEMORY, _CORE_INSTANCE = b"\0\0", b"\0\2", b"\x12"
_FUNC, _TYPE, _INSTANCE = b"\1", b"\3", b"\5"

Value = str | int
"""A type of values: the name of a primitive one, or the index of one that was defined."""


def _value(type_: Value) -> bytes:
    return bytes([_PRIMITIVES[type_]]) if isinstance(type_, str) else sleb64(type_)


def _optional(type_: Value | None) -> bytes:
    return b"\0" if type_ is None else b"\1" + _value(type_)


def _extern_name(name: str) -> bytes:
    return b"\0" + named(name)


def record(fields: Mapping[str, Value]) -> bytes:
    """The type of a record."""
    return b"\x72" + vector([named(name) + _value(type_) for name, type_ in fields.items()])


def variant(cases: Mapping[str, Value | None]) -> bytes:
    """The type of one of several cases, each with a value or without."""
    return b"\x71" + vector([named(name) + _optional(type_) + b"\0" for name, type_ in cases.items()])


def tuple_of(*types: Value) -> bytes:
    """The type of several values together."""
    return b"\x6f" + vector([_value(type_) for type_ in types])


def list_of(type_: Value) -> bytes:
    """The type of a list."""
    return b"\x70" + _value(type_)


def option(type_: Value) -> bytes:
    """The type of a value that may be missing."""
    return b"\x6b" + _value(type_)


def result(ok: Value | None = None, error: Value | None = None) -> bytes:
    """The type of what went well, or did not."""
    return b"\x6a" + _optional(ok) + _optional(error)


def own(resource: int) -> bytes:
    """The type of a handle that is given away."""
    return b"\x69" + uleb(resource)


def borrow(resource: int) -> bytes:
    """The type of a handle that is lent."""
    return b"\x68" + uleb(resource)


def function(parameters: Mapping[str, Value], made: Value | None = None) -> bytes:
    """The type of a function."""
    listed = vector([named(name) + _value(type_) for name, type_ in parameters.items()])
    return b"\x40" + listed + (b"\1\0" if made is None else b"\0" + _value(made))


class InstanceType:
    """The type of an instance: what an interface is that a component imports."""

    def __init__(self) -> None:
        self._declarations: list[bytes] = []
        self._types = 0

    def _declare(self, content: bytes) -> int:
        self._declarations.append(content)
        self._types += 1
        return self._types - 1

    def type(self, content: bytes) -> int:
        """Defines a type; its index."""
        return self._declare(b"\1" + content)

    def outer(self, index: int) -> int:
        """A type of the component; its index here."""
        return self._declare(b"\2" + _TYPE + b"\2\1" + uleb(index))

    def resource(self, name: str) -> int:
        """A resource that the instance exports; its index."""
        return self._declare(b"\4" + _extern_name(name) + b"\3\1")

    def name(self, name: str, index: int) -> int:
        """Exports a type; the index of the one with that name, which functions have to use."""
        return self._declare(b"\4" + _extern_name(name) + b"\3\0" + uleb(index))

    def function(self, name: str, type_: bytes) -> None:
        """Exports a function."""
        index = self.type(type_)
        self._declarations.append(b"\4" + _extern_name(name) + b"\1" + uleb(index))

    def content(self) -> bytes:
        """The type, as a definition."""
        return b"\x42" + vector(self._declarations)


class Component:
    """Collects the parts, then `encode()`."""

    def __init__(self) -> None:
        self._sections: list[tuple[int, list[bytes]]] = []
        self._counts: dict[str, int] = {}

    def _add(self, identity: int, content: bytes, sort: str) -> int:
        if not self._sections or self._sections[-1][0] != identity or identity == 1:
            self._sections.append((identity, []))
        self._sections[-1][1].append(content)
        index = self._counts.get(sort, 0)
        self._counts[sort] = index + 1
        return index

    def type(self, content: bytes) -> int:
        """Defines a type; its index."""
        return self._add(7, content, "type")

    def import_instance(self, name: str, type_: InstanceType) -> int:
        """Imports an interface; the index of the instance."""
        return self._add(10, _extern_name(name) + _INSTANCE + uleb(self.type(type_.content())), "instance")

    def exported_type(self, instance: int, name: str) -> int:
        """The index of a type that an instance exports."""
        return self._add(6, _TYPE + b"\0" + uleb(instance) + named(name), "type")

    def exported_function(self, instance: int, name: str) -> int:
        """The index of a function that an instance exports."""
        return self._add(6, _FUNC + b"\0" + uleb(instance) + named(name), "func")

    def module(self, wasm: bytes) -> int:
        """Adds a core module; its index."""
        return self._add(1, wasm, "core module")

    def instantiate(self, module: int, arguments: Mapping[str, int]) -> int:
        """An instance of a core module, whose imports come from these core instances; its index."""
        listed = vector([named(name) + _CORE_INSTANCE + uleb(index) for name, index in arguments.items()])
        return self._add(2, b"\0" + uleb(module) + listed, "core instance")

    def core_instance(self, functions: Iterable[tuple[str, int]], memories: Iterable[tuple[str, int]] = ()) -> int:
        """A core instance of functions and memories that are there; its index."""
        items = [named(name) + b"\0" + uleb(index) for name, index in functions]
        items += [named(name) + b"\2" + uleb(index) for name, index in memories]
        return self._add(2, b"\1" + vector(items), "core instance")

    def core_function(self, instance: int, name: str) -> int:
        """The index of a function that a core instance exports."""
        return self._add(6, _CORE_FUNC + b"\1" + uleb(instance) + named(name), "core func")

    def core_memory(self, instance: int, name: str) -> int:
        """The index of a memory that a core instance exports."""
        return self._add(6, _CORE_MEMORY + b"\1" + uleb(instance) + named(name), "core memory")

    def lower(self, func: int, memory: int, realloc: int | None) -> int:
        """A function as core modules call it; its index among the core functions. `realloc` is for one that returns
        lists."""
        options = [b"\3" + uleb(memory)] + ([] if realloc is None else [b"\4" + uleb(realloc)])
        return self._add(8, b"\1\0" + uleb(func) + vector(options), "core func")

    def drop(self, resource: int) -> int:
        """The core function that lets go of a handle."""
        return self._add(8, b"\3" + uleb(resource), "core func")

    def lift(self, core_function: int, type_: int) -> int:
        """A core function as a function of a type; its index."""
        return self._add(8, b"\0\0" + uleb(core_function) + vector([]) + uleb(type_), "func")

    def export_instance(self, name: str, functions: Sequence[tuple[str, int]]) -> None:
        """Exports functions as an interface."""
        items = vector([_extern_name(function) + _FUNC + uleb(index) for function, index in functions])
        index = self._add(5, b"\1" + items, "instance")
        self._add(11, _extern_name(name) + _INSTANCE + uleb(index) + b"\0", "instance")

    def encode(self) -> bytes:
        """The component's bytes."""
        out = [COMPONENT]
        for identity, items in self._sections:
            content = items[0] if identity == 1 else vector(items)
            out.append(bytes([identity]) + sized(content))
        return b"".join(out)
