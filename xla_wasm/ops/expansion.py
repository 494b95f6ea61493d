"""Operations in terms of others: what an `expand.py` of a family writes its rules with.

A rule takes an `Expansion` and an instruction, and returns the instruction that stands for it from then on: one that it
made with the expansion's methods, an operand, or the instruction itself where nothing is to be done. What a rule makes is
expanded in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..hlo.attrs import DotDimensionNumbers, PaddingDimension, PrecisionConfig, SliceDimension
from ..hlo.ir import Computation, Instruction
from ..hlo.literal import Literal
from ..hlo.shape import Shape

Index = tuple[int, ...]
Body = Callable[..., Instruction]
"""From the Expansion of a computation and its parameters to its root."""


class Expansion:
    """Writes instructions in the place of `x`: into `made`, operands first, and computations that they call into `computations`."""

    def __init__(self, x: Instruction, made: list[Instruction], computations: list[Computation]):
        self.x = x
        self.made = made
        self.computations = computations

    def emit(
        self, opcode: str, shape: Shape, operands: Sequence[Instruction], *, called: Sequence[Computation] = (), **attrs: Any
    ) -> Instruction:
        """Any instruction; attributes as in `Instruction.attrs`."""
        made = Instruction(f"{self.x.name}.{opcode}", opcode, shape, list(operands), attrs, list(called), self.x.metadata)
        self.made.append(made)
        return made

    # --- values -------------------------------------------------------------------------------------------------

    def constant(self, dtype: str, values: Sequence[Any], dims: Index | None = None) -> Instruction:
        """An array of Python numbers in row-major order; of one dimension, if `dims` does not say otherwise."""
        shape = Shape(dtype, (len(values),) if dims is None else dims)
        return self.emit("constant", shape, [], literal=Literal.from_values(shape, values))

    def scalar(self, dtype: str, value: Any) -> Instruction:
        return self.constant(dtype, [value], ())

    def full(self, dtype: str, dims: Index, value: Any) -> Instruction:
        """An array of one number."""
        return self.broadcast(self.scalar(dtype, value), dims)

    def iota(self, dtype: str, dims: Index, dimension: int = 0) -> Instruction:
        return self.emit("iota", Shape(dtype, dims), [], iota_dimension=dimension)

    # --- elementwise --------------------------------------------------------------------------------------------

    def unary(self, opcode: str, a: Instruction) -> Instruction:
        """An elementwise operation that keeps the type."""
        return self.emit(opcode, a.shape.without_layout(), [a])

    def binary(self, opcode: str, a: Instruction, c: Instruction | int | float) -> Instruction:
        """An elementwise operation of equal types; a number is spread over the shape, and so is a scalar instruction."""
        return self.emit(opcode, a.shape.without_layout(), [a, self.like(a, c)])

    def like(self, a: Instruction, value: Instruction | int | float) -> Instruction:
        """A number or a scalar in the shape of `a` (a number also in its type)."""
        if not isinstance(value, Instruction):
            value = self.scalar(a.shape.element_type, value)
        return value if value.shape.dimensions == a.shape.dimensions else self.broadcast(value, a.shape.dimensions)

    def add(self, a: Instruction, c: Instruction | int | float) -> Instruction:
        return self.binary("add", a, c)

    def sub(self, a: Instruction, c: Instruction | int | float) -> Instruction:
        return self.binary("subtract", a, c)

    def mul(self, a: Instruction, c: Instruction | int | float) -> Instruction:
        return self.binary("multiply", a, c)

    def div(self, a: Instruction, c: Instruction | int | float) -> Instruction:
        return self.binary("divide", a, c)

    def compare(self, direction: str, a: Instruction, c: Instruction | int | float, type: str | None = None) -> Instruction:
        """A pred; `direction` is EQ NE LT LE GT GE, `type` TOTALORDER where that is meant."""
        attrs: dict[str, Any] = {"direction": direction} | ({"type": type} if type else {})
        return self.emit("compare", Shape("pred", a.shape.dimensions), [a, self.like(a, c)], **attrs)

    def select(self, condition: Instruction, a: Instruction, c: Instruction | int | float) -> Instruction:
        return self.emit("select", a.shape.without_layout(), [condition, a, self.like(a, c)])

    def convert(self, a: Instruction, dtype: str) -> Instruction:
        return a if a.shape.element_type == dtype else self.emit("convert", Shape(dtype, a.shape.dimensions), [a])

    def bitcast_convert(self, a: Instruction, dtype: str) -> Instruction:
        """Between types of one width."""
        return a if a.shape.element_type == dtype else self.emit("bitcast-convert", Shape(dtype, a.shape.dimensions), [a])

    def bitcast(self, a: Instruction, dtype: str, dims: Index) -> Instruction:
        """The bytes of `a`, in row-major order, as an array of another type."""
        return self.emit("bitcast", Shape(dtype, dims), [a])

    # --- movement -----------------------------------------------------------------------------------------------

    def broadcast(self, a: Instruction, dims: Index, dimensions: Index = ()) -> Instruction:
        """`dimensions` are those of the result that the operand's become."""
        return self.emit("broadcast", Shape(a.shape.element_type, dims), [a], dimensions=dimensions)

    def reshape(self, a: Instruction, dims: Index) -> Instruction:
        return a if a.shape.dimensions == dims else self.emit("reshape", Shape(a.shape.element_type, dims), [a], inferred_dimension=None)

    def transpose(self, a: Instruction, permutation: Index) -> Instruction:
        """Dimension i of the result is dimension `permutation[i]` of the operand."""
        if permutation == tuple(range(len(permutation))):
            return a
        dims = tuple(a.shape.dimensions[d] for d in permutation)
        return self.emit("transpose", Shape(a.shape.element_type, dims), [a], dimensions=permutation)

    def slice(self, a: Instruction, start: Index, limit: Index, stride: Index | None = None) -> Instruction:
        steps = stride or (1,) * len(start)
        bounds = tuple(SliceDimension(*b) for b in zip(start, limit, steps))
        dims = tuple(max(0, -(-(b.limit - b.start) // b.stride)) for b in bounds)
        return self.emit("slice", Shape(a.shape.element_type, dims), [a], slice=bounds)

    def slice_dim(self, a: Instruction, dimension: int, start: int, limit: int) -> Instruction:
        """A slice along one dimension."""
        dims = a.shape.dimensions
        low = tuple(start if d == dimension else 0 for d in range(len(dims)))
        high = tuple(limit if d == dimension else size for d, size in enumerate(dims))
        return self.slice(a, low, high)

    def reverse(self, a: Instruction, dimensions: Index) -> Instruction:
        return self.emit("reverse", a.shape.without_layout(), [a], dimensions=dimensions)

    def concatenate(self, parts: Sequence[Instruction], dimension: int) -> Instruction:
        dims = list(parts[0].shape.dimensions)
        dims[dimension] = sum(p.shape.dimensions[dimension] for p in parts)
        return self.emit("concatenate", Shape(parts[0].shape.element_type, tuple(dims)), parts, dimensions=(dimension,))

    def pad(self, a: Instruction, value: Instruction, padding: Sequence[PaddingDimension]) -> Instruction:
        dims = tuple(
            p.edge_padding_low + p.edge_padding_high + size + max(size - 1, 0) * p.interior_padding
            for p, size in zip(padding, a.shape.dimensions)
        )
        return self.emit("pad", Shape(a.shape.element_type, dims), [a, value], padding=tuple(padding))

    def dynamic_slice(self, a: Instruction, starts: Sequence[Instruction], sizes: Index) -> Instruction:
        """`starts` are integer scalars of one type."""
        return self.emit("dynamic-slice", Shape(a.shape.element_type, sizes), [a, *starts], dynamic_slice_sizes=sizes)

    def dynamic_update_slice(self, a: Instruction, update: Instruction, starts: Sequence[Instruction]) -> Instruction:
        return self.emit("dynamic-update-slice", a.shape.without_layout(), [a, update, *starts])

    def tuple(self, elements: Sequence[Instruction]) -> Instruction:
        return self.emit("tuple", Shape.tuple([e.shape.without_layout() for e in elements]), elements)

    def element(self, a: Instruction, index: int) -> Instruction:
        """One element of a tuple."""
        return self.emit("get-tuple-element", a.shape.tuple_shapes[index].without_layout(), [a], index=index)

    def elements(self, a: Instruction) -> list[Instruction]:
        return [self.element(a, i) for i in range(len(a.shape.tuple_shapes))]

    # --- products, reductions, control --------------------------------------------------------------------------

    def dot(self, a: Instruction, c: Instruction, numbers: DotDimensionNumbers, dtype: str | None = None) -> Instruction:
        """Batch dimensions, then the free ones of `a`, then those of `c`."""
        left = [
            size
            for d, size in enumerate(a.shape.dimensions)
            if d not in numbers.lhs_batch_dimensions and d not in numbers.lhs_contracting_dimensions
        ]
        right = [
            size
            for d, size in enumerate(c.shape.dimensions)
            if d not in numbers.rhs_batch_dimensions and d not in numbers.rhs_contracting_dimensions
        ]
        batch = [a.shape.dimensions[d] for d in numbers.lhs_batch_dimensions]
        shape = Shape(dtype or a.shape.element_type, (*batch, *left, *right))
        return self.emit("dot", shape, [a, c], dot_dimension_numbers=numbers, precision_config=PrecisionConfig())

    def reduce(self, a: Instruction, init: Instruction, dimensions: Index, opcode: str) -> Instruction:
        """A reduction by one binary opcode."""
        dims = tuple(size for d, size in enumerate(a.shape.dimensions) if d not in dimensions)
        scalar = Shape(a.shape.element_type)
        reducer = self.computation(opcode, [scalar, scalar], lambda e, p, q: e.binary(opcode, p, q))
        return self.emit("reduce", Shape(a.shape.element_type, dims), [a, init], called=[reducer], dimensions=dimensions)

    def computation(self, name: str, shapes: Sequence[Shape], body: Body) -> Computation:
        """A computation to be called: `body(expansion, *parameters)` writes it and returns its root."""
        inner = Expansion(self.x, [], self.computations)
        parameters = [inner.emit("parameter", shape, [], parameter_number=i, parameter_replication=()) for i, shape in enumerate(shapes)]
        root = body(inner, *parameters)
        made = Computation(f"{self.x.name}.{name}", inner.made, root)
        self.computations.append(made)
        return made

    def while_(
        self,
        state: Sequence[Instruction],
        condition: Callable[..., Instruction],
        body: Callable[..., Sequence[Instruction]],
    ) -> list[Instruction]:
        """A loop over a tuple: `condition(expansion, *state)` gives a pred, `body(expansion, *state)` the next state."""
        init = self.tuple(state)
        shape = init.shape
        test = self.computation("condition", [shape], lambda e, s: condition(e, *e.elements(s)))
        step = self.computation("body", [shape], lambda e, s: e.tuple(body(e, *e.elements(s))))
        return self.elements(self.emit("while", shape, [init], called=[step, test]))

    def for_(
        self,
        trips: int,
        state: Sequence[Instruction],
        body: Callable[..., Sequence[Instruction]],
    ) -> list[Instruction]:
        """A loop of `trips` trips: `body(expansion, i, *state)` with the trip's number as s32."""
        count = self.scalar("s32", 0)

        def condition(e: Expansion, i: Instruction, *_: Instruction) -> Instruction:
            return e.compare("LT", i, trips)

        def step(e: Expansion, i: Instruction, *values: Instruction) -> list[Instruction]:
            return [e.add(i, 1), *body(e, i, *values)]

        return self.while_([count, *state], condition, step)[1:]

    def inline(self, computation: Computation, arguments: Sequence[Instruction]) -> Instruction:
        """The root of a computation whose instructions are written anew here, with `arguments` for its parameters."""
        copies: dict[Instruction, Instruction] = {}
        for y in computation.instructions:
            if y.opcode == "parameter":
                copies[y] = arguments[y.attrs["parameter_number"]]
            else:
                copies[y] = self.emit(y.opcode, y.shape, [copies[o] for o in y.operands], called=y.called, **y.attrs)
        return copies[computation.root]

    def results(self, root: Instruction) -> list[Instruction]:
        """A value that may be a tuple, as a list."""
        return self.elements(root) if root.shape.is_tuple else [root]

    # --- single elements ----------------------------------------------------------------------------------------

    def at(self, a: Instruction, place: Sequence[Instruction]) -> Instruction:
        """One element as a scalar; `place` holds an s32 scalar for each dimension, and is clamped."""
        return self.reshape(self.dynamic_slice(a, place, (1,) * len(place)), ()) if place else a

    def put(self, a: Instruction, value: Instruction, place: Sequence[Instruction]) -> Instruction:
        """The array with a scalar in the place of one element."""
        return self.dynamic_update_slice(a, self.reshape(value, (1,) * len(place)), place) if place else value

    def place(self, number: Instruction, dims: Index) -> list[Instruction]:
        """The index, in an array of `dims`, of an element given by its s32 number in row-major order."""
        index: list[Instruction] = []
        for size in reversed(dims):
            index.append(self.binary("remainder", number, size))
            number = self.div(number, size)
        return index[::-1]


Rule = Callable[[Expansion, Instruction], Instruction]
