"""`HloModule.from_stablehlo`: programs in StableHLO as bytes or text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import index
from typing import Any

from ..errors import ArgumentError, ParseError, counted
from ..hlo.ir import Module
from ..hlo.proto.container import EXPORTED, mlir_kind
from ..hlo.shape import Shape
from ..mlir import bytecode
from ..mlir.elements import hlo_type
from ..mlir.text_of import shown_type
from ..mlir.tree import DYNAMIC, Op, Tensor
from .module import Builder, from_tree

Sizes = Sequence[int] | None
"""The sizes of an argument; None for one whose type has them."""
_MOST = 1 << 31
"""Sizes are below."""


def tree_of(data: str | bytes | bytearray | memoryview) -> list[Op]:
    """The operations in MLIR bytecode or text."""
    if not isinstance(data, str):
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise ParseError(f"StableHLO is bytes or text, not {type(data).__name__}")
        view = memoryview(data)
        if bytes(view[:4]) == bytecode.MAGIC:
            return bytecode.read(data)
        if mlir_kind(view) == EXPORTED:
            raise ParseError(
                "this is a file of jax.export: read it with HloModule.from_exported, which knows the names of its "
                "inputs"
            )
        try:
            data = str(view, "utf-8-sig")
        except UnicodeDecodeError as error:
            raise ParseError(
                f"StableHLO: neither MLIR bytecode nor text (the byte at {error.start} is not UTF-8)"
            ) from None
    from ..mlir import text

    return text.read(data)


def from_stablehlo(
    data: str | bytes | bytearray | memoryview, shapes: Sequence[Sizes] | Mapping[str, Sizes] | None = None
) -> Module:
    """The module of a program in StableHLO, as MLIR bytecode, a portable artifact or text.

    `shapes` gives the sizes of arguments where the program leaves them open (`tensor<?x3xf32>`): of all in their order,
    None for those that need none, or by name, as in {"x": (8, 3)}.
    """
    ops = tree_of(data)
    return from_tree(ops, _shapes(ops, shapes) if shapes is not None else None)


def _shapes(ops: list[Op], given: Sequence[Sizes] | Mapping[str, Sizes]) -> list[Shape]:
    """The shapes of the arguments of the program."""
    builder = Builder(ops)
    arguments = builder.block_of(builder.entry()).arguments
    names = [value.name or str(i) for i, value in enumerate(arguments)]
    if not isinstance(given, Mapping):
        if len(given) != len(arguments):
            raise ArgumentError(
                f"shapes are given for {counted(len(given), 'argument')}, the program has {len(arguments)}"
            )
        given = dict(zip(names, given))
    unknown = [name for name in given if name not in names]
    if unknown:
        raise ArgumentError(f"the program has no argument {unknown[0]!r}; it has {', '.join(names) or 'none'}")
    found = []
    for name, value in zip(names, arguments):
        sizes, shape = given.get(name), builder.declared(value.type)
        if sizes is not None and isinstance(value.type, Tensor):
            shape = _with_sizes(name, value.type, sizes)
        if shape is None:
            raise ArgumentError(
                f"the sizes of argument {name!r}, {shown_type(value.type)}, are left open: give them in shapes"
            )
        found.append(shape)
    return found


def _with_sizes(name: str, kind: Tensor, given: Any) -> Shape:
    element = hlo_type(kind.element)
    try:
        sizes = tuple([index(size) if not isinstance(size, bool) else -1 for size in given])
    except TypeError:
        sizes = (-1,)
    fits = kind.sizes is None or (
        len(kind.sizes) == len(sizes) and all(a in (b, DYNAMIC) for a, b in zip(kind.sizes, sizes))
    )
    if element is None or not fits or not all(0 <= size < _MOST for size in sizes):
        raise ArgumentError(f"argument {name!r} is {shown_type(kind)}, and cannot have the sizes {given!r:.100}")
    return Shape(element, sizes)
