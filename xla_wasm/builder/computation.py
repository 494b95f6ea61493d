"""Building HLO by hand: a `Builder` makes one computation, filling in defaults and inferring every shape.

>>> b = Builder("main")
>>> x = b.parameter(0, Shape("f32", (4,)))
>>> module = b.module(b.add(x, b.multiply(x, x)))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..errors import ArgumentError, VerifyError
from ..hlo.attrs import DotDimensionNumbers
from ..hlo.infer import UNKNOWN, brief, same, shape_fault
from ..hlo.ir import Computation, Instruction, Module, callees
from ..hlo.literal import Literal
from ..hlo.op import REQUIRED, records
from ..hlo.shape import Shape
from ..hlo.types import TYPES, default_comparison
from ..hlo.verify import inferred, record


class Builder:
    """Makes a computation, one instruction after another.

    Every opcode has a method of its own name with underscores (`and_`, `or_`, `not_`, `while_` for Python's keywords),
    which is `op` with the opcode filled in, or a shorter form defined here.
    """

    def __init__(self, name: str):
        self.name = name
        self.instructions: list[Instruction] = []
        self._names: dict[str, int] = {}

    def op(
        self,
        opcode: str,
        *operands: Instruction,
        called: Sequence[Computation] = (),
        shape: Shape | None = None,
        name: str = "",
        **attrs: Any,
    ) -> Instruction:
        """Appends an instruction. Attributes not given get their defaults; `shape` is needed only where nothing else
        tells it.

        Raises VerifyError if the instruction breaks a rule.
        """
        instruction = Instruction(self._unique(name or opcode), opcode, shape or UNKNOWN, [*operands], {}, [*called])
        if shape and (fault := shape_fault(shape)):
            raise VerifyError(f"{instruction.where}: its shape {fault}")
        known = record(instruction).attrs
        if unknown := attrs.keys() - {attr.name for attr in known} - {"sharding", "backend_config"}:
            raise ArgumentError(f"{instruction.where}: it has no attribute {', '.join(sorted(unknown))}")
        for attr in known:
            if attr.default is not REQUIRED:
                instruction.attrs[attr.name] = attr.default
        if opcode == "compare" and operands:
            instruction.attrs["type"] = default_comparison(operands[0].shape.element_type)
        instruction.attrs |= {key: tuple(value) if isinstance(value, list) else value for key, value in attrs.items()}
        found = inferred(instruction)
        if shape is None:
            if found is None:
                raise ArgumentError(f"{instruction.where}: its shape must be given")
            if fault := shape_fault(found):
                raise VerifyError(f"{instruction.where}: the result {fault}")
            instruction.shape = found
        elif found is not None and not same(found, shape):
            raise VerifyError(f"{instruction.where}: its shape is declared as {brief(shape)}, but it is {brief(found)}")
        self.instructions.append(instruction)
        return instruction

    def _unique(self, name: str) -> str:
        """`name`, with a number behind it if it is taken."""
        count = self._names.get(name)
        if count is None:
            self._names[name] = 0
            return name
        count += 1
        while f"{name}.{count}" in self._names:
            count += 1
        self._names[name] = count
        self._names[f"{name}.{count}"] = 0
        return f"{name}.{count}"

    def build(self, root: Instruction | None = None) -> Computation:
        """The computation, which returns `root`, the last instruction if not given."""
        if not self.instructions:
            raise ArgumentError(f"computation '{self.name}' has no instructions")
        return Computation(self.name, list(self.instructions), root)

    def module(self, root: Instruction | None = None) -> Module:
        """A module that has this computation as its entry, and those that it calls before it."""
        return module(self.name, self.build(root))

    def parameter(self, number: int, shape: Shape, name: str = "") -> Instruction:
        """Parameter `number` of the computation."""
        return self.op("parameter", shape=shape, name=name, parameter_number=number)

    def constant(self, value: Any, element_type: Any = "f32") -> Instruction:
        """A constant: a number or nested sequences of numbers, and an element type; or a Literal; or a Shape and flat
        values."""
        if isinstance(value, Literal):
            literal = value
        elif isinstance(value, Shape):
            literal = Literal.from_values(value, element_type)
        else:
            dims, flat = _flatten(value)
            literal = Literal.from_values(Shape(element_type, dims), flat)
        return self.op("constant", shape=literal.shape, literal=literal)

    def iota(self, shape: Shape, dimension: int = 0) -> Instruction:
        """An array whose elements are their own index along one dimension."""
        return self.op("iota", shape=shape, iota_dimension=dimension)

    def broadcast(self, x: Instruction, sizes: Iterable[int], dimensions: Iterable[int] = ()) -> Instruction:
        """`x` repeated; `dimensions` are the dimensions of the result that its own become."""
        return self.op("broadcast", x, shape=Shape(x.shape.element_type, tuple(sizes)), dimensions=tuple(dimensions))

    def full(self, value: Any, shape: Shape) -> Instruction:
        """An array of one value, a broadcast constant."""
        scalar = self.constant(value, shape.element_type)
        return self.broadcast(scalar, shape.dimensions) if shape.dimensions else scalar

    def reshape(self, x: Instruction, sizes: Iterable[int]) -> Instruction:
        """The elements of `x` in row-major order under other sizes."""
        return self.op("reshape", x, shape=Shape(x.shape.element_type, tuple(sizes)))

    def transpose(self, x: Instruction, dimensions: Iterable[int]) -> Instruction:
        """`x` with dimension i being its `dimensions[i]`."""
        return self.op("transpose", x, dimensions=tuple(dimensions))

    def concatenate(self, *operands: Instruction, dimension: int = 0) -> Instruction:
        """The operands one after another."""
        return self.op("concatenate", *operands, dimensions=(dimension,))

    def convert(self, x: Instruction, element_type: str) -> Instruction:
        """`x` in another element type."""
        return self.op("convert", x, shape=Shape(element_type, x.shape.dimensions, None, x.shape.dynamic))

    def bitcast_convert(self, x: Instruction, element_type: str) -> Instruction:
        """The bits of `x`, taken as another element type."""
        sizes, old, new = x.shape.dimensions, TYPES[x.shape.element_type].bits, TYPES[element_type].bits
        sizes = (*sizes, old // new) if old > new else sizes[:-1] if old < new else sizes
        return self.op("bitcast-convert", x, shape=Shape(element_type, sizes))

    def compare(self, a: Instruction, b: Instruction, direction: str, **attrs: Any) -> Instruction:
        """Compares the elements of `a` and `b` in that direction: EQ NE GE GT LE LT."""
        return self.op("compare", a, b, direction=direction, **attrs)

    def dot(
        self,
        lhs: Instruction,
        rhs: Instruction,
        contracting: tuple[Iterable[int], Iterable[int]] | None = None,
        batch: tuple[Iterable[int], Iterable[int]] = ((), ()),
        element_type: str = "",
        **attrs: Any,
    ) -> Instruction:
        """A product summed over pairs of dimensions; without `contracting` over the last of `lhs` and the first of
        `rhs`."""
        left, right = contracting or ((lhs.shape.rank - 1,), (0,))
        attrs.setdefault(
            "dot_dimension_numbers", DotDimensionNumbers(tuple(left), tuple(right), tuple(batch[0]), tuple(batch[1]))
        )
        if not element_type:
            return self.op("dot", lhs, rhs, **attrs)
        plain = Builder(self.name).op("dot", lhs, rhs, **attrs)
        return self.op("dot", lhs, rhs, shape=plain.shape.with_element_type(element_type), **attrs)

    def reduce(
        self,
        x: Instruction,
        init: Instruction | float,
        to_apply: Computation | str,
        dimensions: Iterable[int] | None = None,
    ) -> Instruction:
        """`x` reduced over some dimensions, all if not given, by a computation or by a binary opcode such as "add"."""
        if not isinstance(init, Instruction):
            init = self.constant(init, x.shape.element_type)
        called = scalar_computation(to_apply, x.shape.element_type) if isinstance(to_apply, str) else to_apply
        dims = range(x.shape.rank) if dimensions is None else dimensions
        return self.op("reduce", x, init, called=[called], dimensions=tuple(dims))

    def get_tuple_element(self, x: Instruction, index: int) -> Instruction:
        """One element of a tuple."""
        return self.op("get-tuple-element", x, index=index)

    def while_(self, state: Instruction, condition: Computation, body: Computation) -> Instruction:
        """The state after `body` ran on it for as long as `condition` held."""
        return self.op("while", state, called=[body, condition])

    def __getattr__(self, name: str) -> Callable[..., Instruction]:
        """Any other opcode by its name, with underscores."""
        opcode = name.rstrip("_").replace("_", "-")
        if name.startswith("_") or opcode not in records():
            raise AttributeError(f"Builder has no operation {name!r}")

        def append(*operands: Instruction, **keywords: Any) -> Instruction:
            return self.op(opcode, *operands, **keywords)

        return append


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


__all__ = ["Builder", "module", "scalar_computation"]
