"""A computation of HLO as operations of StableHLO. Tuples are taken apart: a value is one name, or a tuple of
values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ..errors import UnsupportedError
from ..hlo.ir import Computation, Instruction
from ..hlo.proto.schema import MESSAGES
from ..hlo.proto.wire import decode
from ..hlo.shape import Shape
from ..hlo.text.sharding_text import sharding_text
from ..mlir.strings import string_text, symbol_text
from .write_attributes import ATTRIBUTES, SAME, UnsupportedInstruction, name_of, quoted_attributes, unsupported
from .write_text import dictionary, location, signature, truth, type_text


class Name(NamedTuple):
    """A value of MLIR: its name and the text of its type."""

    name: str
    type: str


Value = Any
"""A Name, or a tuple of values; None for what StableHLO does not have, the context of a send."""
Emit = Callable[["Body", Instruction], Value]


def leaves(value: Value) -> list[Name]:
    """The names in a value, in their order."""
    if isinstance(value, Name):
        return [value]
    return [] if value is None else [name for part in value for name in leaves(part)]


def _is_whole(value: Value) -> bool:
    """Returns True if StableHLO has all parts of a value."""
    return isinstance(value, Name) or (value is not None and all(map(_is_whole, value)))


def shaped(shape: Shape, names: Iterator[Name]) -> Value:
    """The next names in the form of a shape."""
    return tuple([shaped(s, names) for s in shape.tuple_shapes]) if shape.is_tuple else next(names)


def types_of(shape: Shape) -> list[str]:
    """The types of the arrays and tokens in a shape."""
    return [type_text(leaf) for _, leaf in shape.leaves()]


class Functions:
    """The functions of a module that are still to be written, and names for values."""

    def __init__(self, apart: frozenset[Computation]):
        self.apart = apart
        """Computations that are functions wherever they are called."""
        self.names: dict[Computation, str] = {}
        self.pending: list[Computation] = []
        self.used = {"main"}
        self.count = 0

    def of(self, computation: Computation) -> str:
        """The name of the function that a computation is."""
        name = self.names.get(computation)
        if name is None:
            name, number = computation.name, 0
            while name in self.used:
                number += 1
                name = f"{computation.name}.{number}"
            self.used.add(name)
            self.names[computation] = name
            self.pending.append(computation)
        return name

    def name(self, type_: str, prefix: str = "") -> Name:
        """A name that nothing has yet."""
        self.count += 1
        return Name(f"%{prefix}{self.count}", type_)


class Body:
    """The operations of one region."""

    def __init__(self, functions: Functions, emit: dict[str, Emit], depth: int):
        self.functions, self.emit, self.depth = functions, emit, depth
        self.lines: list[str] = []
        self.values: dict[Instruction, Value] = {}

    def write(self, computation: Computation, arguments: Sequence[Value]) -> Value:
        """The operations of a computation, whose parameters have these values; its result."""
        for parameter, value in zip(computation.parameters, arguments):
            self.values[parameter] = value
        for x in computation.instructions:
            if x.opcode != "parameter":
                self.values[x] = self._instruction(x)
        return self.values[computation.root]

    def _instruction(self, x: Instruction) -> Value:
        try:
            emit = self.emit.get(x.opcode)
            if emit is not None:
                return emit(self, x)
            if x.opcode in SAME or x.opcode in ATTRIBUTES:
                return self.regular(x)
        except UnsupportedInstruction:
            raise
        except UnsupportedError as error:
            raise UnsupportedInstruction(f"{x.where}: {error}") from None
        raise UnsupportedInstruction(f"{x.where}: StableHLO has no such operation")

    def regular(self, x: Instruction) -> Value:
        """An instruction that is one operation: operands, attributes, and the computations that it applies as
        regions."""
        give = ATTRIBUTES.get(x.opcode)
        attributes = give(x) if give else {}
        regions = [self.region(called) for called in x.called]
        return self.op(name_of(x.opcode), x, self.operands(x), attributes, regions)

    def operands(self, x: Instruction) -> list[Name]:
        """The names of what an instruction takes."""
        return [name for o in x.operands for name in self.names(self.values[o], x)]

    def names(self, value: Value, x: Instruction) -> list[Name]:
        """The names in a value that `x` takes or is."""
        if not _is_whole(value):
            raise unsupported(x, "the context of a send or of a receipt")
        return leaves(value)

    def op(
        self,
        name: str,
        x: Instruction,
        operands: Sequence[Name],
        attributes: dict[str, str],
        regions: Sequence[str] = (),
        shape: Shape | None = None,
    ) -> Value:
        """Writes an operation; its value. It has the shape and the notes of the instruction, or if it is a part of it,
        this shape."""
        notes = noted(x) if shape is None else {}
        shape = x.shape if shape is None else shape
        results = [self.functions.name(type_) for type_ in types_of(shape)]
        self.line(name, operands, results, attributes | notes, regions, location(x.metadata))
        return shaped(shape, iter(results))

    def line(
        self,
        name: str,
        operands: Sequence[Name],
        results: Sequence[Name],
        attributes: dict[str, str],
        regions: Sequence[str] = (),
        where: str = "",
    ) -> None:
        """One operation in MLIR's generic form, whose regions are given as texts."""
        head = ", ".join(r.name for r in results) + " = " if results else ""
        inner = f" ({', '.join(regions)})" if regions else ""
        listed = f" {dictionary(attributes)}" if attributes else ""
        type_ = signature((o.type for o in operands), (r.type for r in results))
        self.lines.append(
            f'{"  " * self.depth}{head}"{name}"({", ".join(o.name for o in operands)}){inner}{listed} : {type_}{where}'
        )

    def region(self, computation: Computation, given: Sequence[Value] | None = None) -> str:
        """A region of a computation. Its block has the parameters as arguments, unless these values from outside are
        given."""
        inner = Body(self.functions, self.emit, self.depth + 1)
        arguments = inner.arguments(computation) if given is None else given
        if computation in self.functions.apart:
            value: Value = inner.call(computation, arguments)
        else:
            value = inner.write(computation, arguments)
        inner.line("stablehlo.return", inner.names(value, computation.root), [], {})
        margin = "  " * self.depth
        names = [name for argument in arguments for name in leaves(argument)] if given is None else []
        head = f"{margin}^bb0({', '.join(f'{name}: {type_}' for name, type_ in names)}):\n" if names else ""
        return "{\n" + head + "\n".join(inner.lines) + f"\n{margin}}}"

    def arguments(self, computation: Computation) -> list[Value]:
        """Names for the parameters of a computation."""
        found = []
        for parameter in computation.parameters:
            try:
                names = [self.functions.name(type_, "arg") for type_ in types_of(parameter.shape)]
            except UnsupportedError as error:
                raise UnsupportedInstruction(f"{parameter.where}: {error}") from None
            found.append(shaped(parameter.shape, iter(names)))
        return found

    def call(
        self, computation: Computation, arguments: Iterable[Value], extra: dict[str, str] | None = None, where: str = ""
    ) -> Value:
        """The call of a computation that is a function."""
        callee = {"callee": symbol_text(self.functions.of(computation))}
        names = [name for argument in arguments for name in self.names(argument, computation.root)]
        shape = computation.root.shape
        results = [self.functions.name(type_) for type_ in types_of(shape)]
        self.line("func.call", names, results, callee | (extra or {}), (), where)
        return shaped(shape, iter(results))


def noted(x: Instruction) -> dict[str, str]:
    """The attributes that any operation may have."""
    found: dict[str, str] = {}
    if x.frontend_attributes:
        found["mhlo.frontend_attributes"] = quoted_attributes(x.frontend_attributes)
    if x.attrs.get("sharding") is not None:
        found["mhlo.sharding"] = string_text(sharding_text(x.attrs["sharding"]))
    return found


def noted_parts(x: Instruction) -> list[dict[str, str]]:
    """The attributes of each array in a parameter or a result."""
    count = sum(1 for _ in x.shape.leaves())
    data = x.attrs.get("sharding")
    parts = decode(MESSAGES["OpSharding"], data).get("tuple_shardings", ()) if data is not None else ()
    shardings = parts if len(parts) == count else [data] * count
    found: list[dict[str, str]] = [
        {"mhlo.sharding": string_text(sharding_text(s))} if s is not None else {} for s in shardings
    ]
    replicated = x.attrs.get("parameter_replication") or ()
    for fields, flag in zip(found, replicated):
        fields["mhlo.parameter_replication"] = f"[{truth(flag)}]"
    if x.opcode == "parameter" and x.frontend_attributes:
        for fields in found:
            fields["mhlo.frontend_attributes"] = quoted_attributes(x.frontend_attributes)
    return found
