"""Files of `jax.export`: a flatbuffer with the program as a portable artifact, and the trees of its inputs and
outputs."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..errors import ParseError, counted
from ..hlo.proto.wire import Buffer
from .bytecode import MAGIC

_DEEPEST = 64
_MOST_LEAVES = 1 << 20


class Aval(NamedTuple):
    """The type of an input or output; sizes are texts, such as "3", "b" and "2*b + 1"."""

    sizes: tuple[str, ...]
    dtype: str


class TreePath(NamedTuple):
    """The place of an input or output: the path to it from the root of the tree."""

    path: tuple[str, ...]


class Exported(NamedTuple):
    """A file of jax.export."""

    name: str
    module: Buffer
    """MLIR bytecode."""
    platforms: tuple[str, ...]
    inputs: tuple[TreePath, ...]
    """The places of the inputs in the tree of (args, kwargs)."""
    outputs: tuple[TreePath, ...]
    input_types: tuple[Aval, ...]
    output_types: tuple[Aval, ...]
    kept: tuple[int, ...]
    """The inputs that the module takes."""
    ordered_effects: tuple[str, ...]


_DTYPES = (
    "bool i8 i16 i32 i64 ui8 ui16 ui32 ui64 f16 f32 f64 c64 c128 bf16 i4 ui4 f8E4M3B11FNUZ f8E4M3FN f8E4M3FNUZ f8E5M2 "
    "f8E5M2FNUZ float0 f8E4M3 f8E3M4 f8E8M0FNU f4E2M1FN key<fry> key<rbg> key<unsafe_rbg>"
).split()


class _Table:
    """A table of a flatbuffer. Its vtable says where the fields are that it has."""

    def __init__(self, data: Buffer, at: int):
        self.data, self.at = data, at
        self.vtable = at - _get("<i", data, at)
        self.size = _get("<H", data, self.vtable)

    def _place(self, field: int) -> int:
        slot = 4 + 2 * field
        offset = _get("<H", self.data, self.vtable + slot) if slot + 2 <= self.size else 0
        return self.at + offset if offset else 0

    def number(self, field: int, form: str) -> int:
        place = self._place(field)
        return _get(form, self.data, place) if place else 0

    def table(self, field: int) -> _Table | None:
        place = self._place(field)
        return _Table(self.data, place + _get("<I", self.data, place)) if place else None

    def _vector(self, field: int, width: int) -> tuple[int, int]:
        """Returns the place where a vector begins, and its length."""
        place = self._place(field)
        if not place:
            return 0, 0
        at = place + _get("<I", self.data, place)
        count = _get("<I", self.data, at)
        if at + 4 + count * width > len(self.data):
            raise ParseError(
                f"jax.export: a list of {counted(count, 'member')} at byte {at} goes beyond the end of the file"
            )
        return at + 4, count

    def blob(self, field: int) -> Buffer:
        at, size = self._vector(field, 1)
        return memoryview(self.data)[at : at + size]

    def text(self, field: int) -> str:
        return str(self.blob(field), "utf-8")

    def numbers(self, field: int, form: str) -> tuple[int, ...]:
        width = struct.calcsize(form)
        at, count = self._vector(field, width)
        return tuple([v for (v,) in struct.iter_unpack(form, memoryview(self.data)[at : at + count * width])])

    def _offsets(self, field: int) -> list[int]:
        at, count = self._vector(field, 4)
        return [at + 4 * i + _get("<I", self.data, at + 4 * i) for i in range(count)]

    def tables(self, field: int) -> list[_Table]:
        return [_Table(self.data, at) for at in self._offsets(field)]

    def texts(self, field: int) -> tuple[str, ...]:
        found = []
        for at in self._offsets(field):
            size = _get("<I", self.data, at)
            if at + 4 + size > len(self.data):
                raise ParseError(f"jax.export: a text at byte {at} goes beyond the end of the file")
            found.append(str(self.data[at + 4 : at + 4 + size], "utf-8"))
        return tuple(found)


def _get(form: str, data: Buffer, at: int) -> int:
    if at < 0:
        raise ParseError(f"jax.export: a place before the start of the file ({at})")
    number: int = struct.unpack_from(form, data, at)[0]
    return number


def _top(data: Buffer) -> _Table:
    return _Table(data, _get("<I", data, 0))


def read(data: bytes | bytearray | memoryview) -> Exported:
    """The contents of a file that `jax.export.Exported.serialize` wrote. Raises ParseError."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise ParseError(f"a file of jax.export is bytes, not {type(data).__name__}")
    view = data if isinstance(data, bytes) else memoryview(data).cast("B")
    try:
        return _exported(_top(view))
    except struct.error:
        raise ParseError("jax.export: the file is damaged, a place in it lies beyond its end") from None
    except (IndexError, UnicodeDecodeError) as error:
        raise ParseError(f"jax.export: the file is damaged ({error})") from None


def _exported(top: _Table) -> Exported:
    unique = [_aval(t) for t in top.tables(19)]

    def types(indices: int, spelled: int) -> tuple[Aval, ...]:
        chosen = top.numbers(indices, "<I")
        return tuple([unique[i] for i in chosen]) if chosen else tuple([_aval(t) for t in top.tables(spelled)])

    module = top.blob(13)
    if bytes(module[:4]) != MAGIC:
        raise ParseError("jax.export: the file holds no MLIR bytecode")
    return Exported(
        name=top.text(1),
        module=module,
        platforms=top.texts(9),
        inputs=_leaves(top.table(2)),
        outputs=_leaves(top.table(4)),
        input_types=types(22, 3),
        output_types=types(23, 5),
        kept=top.numbers(15, "<H"),
        ordered_effects=tuple([t.text(0) for t in top.tables(10)]),
    )


def _aval(table: _Table) -> Aval:
    return Aval(table.texts(1), _DTYPES[table.number(2, "<B")])


_LEAF, _NONE, _TUPLE, _LIST, _DICT, _CUSTOM = range(6)


def _leaves(root: _Table | None) -> tuple[TreePath, ...]:
    """The leaves of a pytree, in their order."""
    found: list[TreePath] = []

    def walk(table: _Table, path: tuple[str, ...]) -> None:
        kind = table.number(0, "<B")
        if kind == _LEAF:
            found.append(TreePath(path))
        if len(found) > _MOST_LEAVES or len(path) > _DEEPEST:
            raise ParseError(f"jax.export: a tree of more than {_MOST_LEAVES} leaves, or nested deeper than {_DEEPEST}")
        for key, child in _children(table, kind):
            walk(child, (*path, key))

    if root is not None:
        walk(root, ())
    return tuple(found)


def _children(table: _Table, kind: int) -> Iterator[tuple[str, Any]]:
    if kind in (_LEAF, _NONE):
        return
    children = table.tables(1)
    keys = table.texts(2) if kind == _DICT else ()
    for i, child in enumerate(children):
        yield keys[i] if i < len(keys) else str(i), child
