"""`Builder`, which makes one computation of HLO, filling in defaults and inferring every shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from ..errors import ArgumentError, VerifyError
from ..hlo.attrs import DotDimensionNumbers, PaddingDimension, PrecisionConfig, ReplicaGroups, SliceDimension
from ..hlo.infer import UNKNOWN, brief, same, shape_fault
from ..hlo.ir import Computation, Instruction, Module, callees
from ..hlo.literal import Literal
from ..hlo.op import records
from ..hlo.shape import Shape
from ..hlo.verify import inferred, record
from .derived import Given, add_operations


def _of(kind: type, make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda given: given if isinstance(given, kind) else make(given)


groups = _of(ReplicaGroups, lambda given: ReplicaGroups(tuple(map(tuple, given))))
"""Groups of devices, which may be written down as lists."""
_FORMS: dict[str, Callable[[Any], Any]] = {
    "": lambda given: tuple(given) if isinstance(given, list) else given,
    "ints": lambda given: tuple(given) if isinstance(given, Iterable) else (given,),
    "bytes": lambda given: given.encode() if isinstance(given, str) else given,
    "slices": lambda given: tuple(map(_of(SliceDimension, lambda bounds: SliceDimension(*bounds)), given)),
    "padding": lambda given: tuple(map(_of(PaddingDimension, lambda edges: PaddingDimension(*edges)), given)),
    "precision_config": _of(PrecisionConfig, lambda word: PrecisionConfig((word.lower(),) * 2 if word else ())),
    "replica_groups": groups,
    "rng_algorithm": str.lower,
    "source_target_pairs": lambda given: tuple(map(tuple, given)),
}
"""Kind of attribute, "" for any other -> its value, from the forms in which it may be given: one number for a list of
one, sequences for tuples and for classes of `hlo.attrs`, a word for a precision, a str for bytes."""


class Builder:
    """Makes a computation, one instruction after another.

    Every opcode has a method of its own name with underscores (`and_`, `or_`, `not_`, `while_` for Python's keywords),
    which is `op` with the opcode filled in, or a shorter form defined here.
    """

    def __init__(self, name: str):
        self.name = name
        self.instructions: list[Instruction] = []
        self._own: set[Instruction] = set()
        self._names: dict[str, int] = {}

    def op(
        self,
        opcode: str,
        *operands: Instruction,
        called: Sequence[Computation] = (),
        shape: Shape | None = None,
        element_type: str = "",
        name: str = "",
        **attrs: Any,
    ) -> Instruction:
        """Appends an instruction. Attributes not given get their defaults; `shape` is needed only where nothing else
        tells it, `element_type` where nothing else tells that of the result.

        Raises VerifyError if the instruction breaks a rule.
        """
        declared = shape or (Shape(element_type) if element_type else UNKNOWN)
        made = Instruction(self._unique(name or opcode), opcode, declared, [*operands], {}, [*called])
        if shape and (fault := shape_fault(shape)):
            raise VerifyError(f"{made.where}: its shape {fault}")
        known = record(made)
        kinds = {attr.name: attr.kind for attr in known.attrs}
        if unknown := attrs.keys() - kinds.keys() - {"sharding", "backend_config"}:
            raise ArgumentError(f"{made.where}: it has no attribute {', '.join(sorted(unknown))}")
        given = {key: _FORMS.get(kinds.get(key, ""), _FORMS[""])(value) for key, value in attrs.items()}
        made.attrs = known.attributes(operands, given)
        found = inferred(made)
        if shape is None:
            if found is None:
                raise ArgumentError(f"{made.where}: its shape must be given")
            if fault := shape_fault(found):
                raise VerifyError(f"{made.where}: the result {fault}")
            made.shape = found
        elif found is not None and not same(found, shape):
            raise VerifyError(f"{made.where}: its shape is declared as {brief(shape)}, but it is {brief(found)}")
        self.instructions.append(made)
        self._own.add(made)
        return made

    def _check(self, what: str, operands: Iterable[Instruction]) -> None:
        """Raises an error for what is no value of this builder."""
        for x in operands:
            if not isinstance(x, Instruction):
                raise ArgumentError(f"{what}: operand {x!r} is no value of a builder; Constant makes one of a number")
            if x not in self._own:
                raise VerifyError(f"{what}: its operand '{x.name}' was not made by the builder of '{self.name}'")

    def _unique(self, name: str) -> str:
        """`name`, with a number behind it if it is taken."""
        count = self._names[name] = self._names.get(name, -1) + 1
        return self._unique(f"{name}.{count}") if count else name

    def _numbers(self) -> list[int]:
        return sorted(x.attrs["parameter_number"] for x in self.instructions if x.opcode == "parameter")

    def build(self, root: Instruction | None = None) -> Computation:
        """The computation, which returns `root`, the last value if not given; `module` gives a module that has it as
        its entry."""
        if not self.instructions:
            raise ArgumentError(f"computation '{self.name}' has no instructions")
        self._check("the root", [root or self.instructions[-1]])
        if (numbers := self._numbers()) != [*range(len(numbers))]:
            raise VerifyError(f"computation '{self.name}': its parameters are numbered {numbers}, not from 0 on")
        return Computation(self.name, list(self.instructions), root)

    def module(self, root: Instruction | None = None) -> Module:
        """A module that has this computation as its entry, and those that it calls before it."""
        return module(self.name, self.build(root))

    def parameter(self, number: int, shape: Shape, name: str = "") -> Instruction:
        """Parameter `number` of the computation."""
        if number in self._numbers():
            raise VerifyError(f"parameter: number {number} of '{self.name}' is taken")
        return self.op("parameter", shape=shape, name=name, parameter_number=number)

    def constant(self, literal: Any, element_type: Any = "f32") -> Instruction:
        """A Literal; or a number or nested sequences of numbers, and an element type; or a Shape and flat values."""
        if isinstance(literal, Shape):
            literal = Literal.from_values(literal, element_type)
        elif not isinstance(literal, Literal):
            dims, flat = _flatten(literal)
            literal = Literal.from_values(Shape(element_type, dims), flat)
        return self.op("constant", shape=literal.shape, literal=literal)

    def broadcast(self, x: Instruction, sizes: Iterable[int], dimensions: Iterable[int] = ()) -> Instruction:
        """`x` repeated; `dimensions` are the dimensions of the result that its own become."""
        return self.op("broadcast", x, shape=Shape(x.shape.element_type, tuple(sizes)), dimensions=dimensions)

    def full(self, value: Any, shape: Shape) -> Instruction:
        """An array of one value, a broadcast constant."""
        scalar = self.constant(value, shape.element_type)
        return self.broadcast(scalar, shape.dimensions) if shape.dimensions else scalar

    def reshape(self, x: Instruction, sizes: Iterable[int]) -> Instruction:
        """The elements of `x` in row-major order under other sizes."""
        return self.op("reshape", x, shape=Shape(x.shape.element_type, tuple(sizes)))

    def concatenate(self, *operands: Instruction, dimension: int = 0) -> Instruction:
        """The operands one after another."""
        return self.op("concatenate", *operands, dimensions=dimension)

    def _sides(self, opcode: str, given: Given) -> None:
        batch, contracting = given.pop("batch"), given.pop("contracting") or ([given["lhs"][0].shape.rank - 1], [0])
        given["dot_dimension_numbers"] = DotDimensionNumbers(*map(tuple, (*contracting, *batch)))

    def _reducer(self, opcode: str, given: Given) -> Instruction:
        (x,), init, to_apply, dims = given["x"], given["init"], given["to_apply"], given["dimensions"]
        if not isinstance(init, Instruction):
            init = self.constant(init, x.shape.element_type)
        called = scalar_computation(to_apply, x.shape.element_type) if isinstance(to_apply, str) else to_apply
        return self.op(opcode, x, init, called=[called], dimensions=range(x.shape.rank) if dims is None else dims)

    def __getattr__(self, name: str) -> Callable[..., Instruction]:
        """Any other opcode by its name, with underscores."""
        opcode = name.rstrip("_").replace("_", "-")
        if name.startswith("_") or opcode not in records():
            raise AttributeError(f"Builder has no operation {name!r}")
        return partial(self.op, opcode)


_SHORTER = """
iota(shape: Shape, dimension: int = 0)
transpose(x, dimensions: Iterable[int])
convert(x, element_type: str)
bitcast_convert(x, element_type: str)
compare(a, b, direction: str, type: str = "")
dot(lhs, rhs, contracting: Sequence[Ints] = (), batch: Sequence[Ints] = ((), ()), element_type: str = "") @_sides
    A product summed over pairs of dimensions; without `contracting` over the last of `lhs` and the first of `rhs`.
reduce(x, init: Value | float, to_apply: Computation | str, dimensions: Iterable[int] | None = None) @_reducer
    `x` reduced over some dimensions, all if not given, by a computation or by a binary opcode such as "add".
get_tuple_element(x, index: int)
while_(state, condition: Computation, body: Computation)
"""
add_operations(Builder, _SHORTER)


def module(name: str, entry: Computation) -> Module:
    """A module with an entry computation; the computations that it needs are found and put in order."""
    return Module(name, [*callees(entry.instructions), entry], entry)


def scalar_computation(opcode: str, element_type: str) -> Computation:
    """The computation of one binary operation on two scalars, as reductions use it."""
    b = Builder(opcode)
    x, y = (b.parameter(number, Shape(element_type)) for number in range(2))
    return b.build(b.op(opcode, x, y))


def _flatten(value: Any) -> tuple[tuple[int, ...], list[Any]]:
    """The sizes and row-major elements of nested sequences."""
    if not isinstance(value, list | tuple):
        return (), [value]
    parts = [_flatten(item) for item in value]
    if any(sizes != parts[0][0] for sizes, _ in parts):
        raise ArgumentError("a constant's rows differ in length")
    inner = parts[0][0] if parts else ()
    return (len(parts), *inner), [x for _, flat in parts for x in flat]
