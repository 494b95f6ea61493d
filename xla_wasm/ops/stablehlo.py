"""Tools of rules that read StableHLO. A rule takes a `Mapper`, an operation and its operands, and gives its results;
`xla_wasm.stablehlo` calls it. Most operations need none: their records say all (`Op.stablehlo`, `Attr.stablehlo`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from ..errors import ParseError, UnsupportedError
from ..hlo.attrs import SliceDimension
from ..hlo.infer import flags
from ..hlo.ir import Computation, Instruction
from ..hlo.shape import Shape
from ..mlir.elements import hlo_type
from ..mlir.tree import DYNAMIC, Op, Tensor, Tuple, Type
from ..mlir.values import Attributes, where
from ..writing.writer import Writer


def shape_of(kind: Type) -> Shape | None:
    """The shape that a type stands for; None where a size is not known and has no bound."""
    if isinstance(kind, Tensor):
        name = hlo_type(kind.element)
        if name is None or kind.sizes is None:
            raise UnsupportedError(
                f"arrays of the type {kind.element if name is None else 'without rank'} are not supported"
            )
        if DYNAMIC not in kind.sizes:
            if kind.sizes and min(kind.sizes) < 0:
                raise ParseError(f"the size {min(kind.sizes)} of a dimension is negative")
            return Shape(name, kind.sizes)
        if not kind.bounds or any(size == bound == DYNAMIC for size, bound in zip(kind.sizes, kind.bounds)):
            return None
        sizes = tuple([bound if size == DYNAMIC else size for size, bound in zip(kind.sizes, kind.bounds)])
        return Shape(name, sizes, None, tuple([size == DYNAMIC for size in kind.sizes]))
    if isinstance(kind, Tuple):
        parts = [shape_of(part) for part in kind.types]
        known = [part for part in parts if part is not None]
        return Shape.tuple(known) if len(known) == len(parts) else None
    if kind == "token":
        return Shape("token")
    raise UnsupportedError(f"values of the type {kind} are not supported")


class Mapper(Writer, ABC):
    """Writes a computation from operations of StableHLO."""

    @abstractmethod
    def declared(self, kind: Type) -> Shape | None:
        """The shape of a type; None where its sizes are to be inferred."""

    @abstractmethod
    def integers(self, x: Instruction) -> tuple[int, ...] | None:
        """The elements of an array of integers, if they follow from constants and sizes."""

    @abstractmethod
    def ranges(self, x: Instruction) -> tuple[tuple[int, int], ...] | None:
        """The least and the greatest value of each element, as far as they follow from constants and from the bounds of
        sizes."""

    @abstractmethod
    def region(self, op: Op, index: int = 0) -> Computation:
        """The computation on scalars in a region."""

    @abstractmethod
    def call(self, name: str, operands: Sequence[Instruction]) -> Instruction:
        """A call of a function."""

    @abstractmethod
    def function(self, name: str) -> Computation:
        """The computation of a function that is called by others than operations."""

    @abstractmethod
    def simple(self, name: str, op: Op, given: Attributes, operands: list[Instruction]) -> list[Instruction]:
        """An operation by its name, with other attributes and operands than it has."""

    def sized(self, op: Op, sizes: Instruction, result: int = 0) -> Shape:
        """The shape of a result: as it is declared, or with sizes that are an operand. Those that only a run knows have
        a bound."""
        kind = op.results[result].type
        shape = self.declared(kind)
        if shape is not None:
            return shape
        name = hlo_type(kind.element) if isinstance(kind, Tensor) else None
        found = self.ranges(sizes)
        if found is None:
            self.need_integers(op, sizes, "the sizes of its result")
        bounds = tuple([high for _, high in found or ()])
        if name is None or min(bounds, default=0) < 0:
            raise ParseError(f"{where(op)}: its result cannot have the sizes {bounds}")
        dynamic = tuple([low != high for low, high in found or ()])
        return Shape(name, bounds, None, dynamic if any(dynamic) else ())

    def with_sizes(self, x: Instruction, shape: Shape, sizes: Instruction) -> Instruction:
        """The array with the sizes that `sizes` holds in the dimensions in which `shape` is dynamic and it is not
        yet."""
        for d, flag in enumerate(shape.dynamic):
            if flag and not flags(x.shape)[d]:
                size = self.reshape(self.op("slice", sizes, slice=(SliceDimension(d, d + 1),)), ())
                target = Shape(
                    x.shape.element_type,
                    x.shape.dimensions,
                    None,
                    tuple([f or i == d for i, f in enumerate(flags(x.shape))]),
                )
                x = self.op("set-dimension-size", x, self.convert(size, "s32"), shape=target, dimensions=(d,))
        return x

    def need_integers(self, op: Op, x: Instruction, what: str) -> tuple[int, ...]:
        """As `integers`. Raises UnsupportedError where they are known at run time only."""
        found = self.integers(x)
        if found is None:
            raise UnsupportedError(
                f"{where(op)}: {what} are known at run time only: export the program with static shapes, or give "
                f"dims={{...}}"
            )
        return found

    def result_shape(self, op: Op) -> Shape | None:
        """The declared shape of an operation's results, a tuple if they are several; None where that is to be
        inferred."""
        results = op.results
        if len(results) == 1:
            return self.declared(results[0].type)
        parts = [self.declared(value.type) for value in results]
        known = [part for part in parts if part is not None]
        return Shape.tuple(known) if len(known) == len(parts) else None

    def need_shape(self, op: Op) -> Shape:
        """The same where nothing else tells it."""
        shape = self.result_shape(op)
        if shape is None:
            raise UnsupportedError(
                f"{where(op)}: the sizes of its result are known at run time only: give the sizes with dims={{...}}"
            )
        return shape

    def split(self, op: Op, made: Instruction) -> list[Instruction]:
        """The results of an operation, which are a tuple if they are not one."""
        return [made] if len(op.results) == 1 else self.elements(made)


Rule = Callable[[Mapper, Op, list[Instruction]], list[Instruction]]
