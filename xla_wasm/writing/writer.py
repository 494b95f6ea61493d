"""Writing HLO: every instruction that the compiler makes is made by a `Writer`, which fills in the defaults of
attributes and infers the shape through the operation's record.

A rule takes a `Writer` and an instruction, and returns the instruction that replaces it: one that it made with the
writer's methods, an operand, or the instruction itself where nothing is to be done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from ..errors import VerifyError, counted
from ..hlo.attrs import DotDimensionNumbers, PaddingDimension, PrecisionConfig, SliceDimension
from ..hlo.infer import UNKNOWN
from ..hlo.ir import Computation, Instruction
from ..hlo.literal import Literal
from ..hlo.shape import Shape
from ..ops.table import RECORDS

Index = tuple[int, ...]
Body = Callable[..., Instruction]
"""From the Writer of a computation and its parameters to its root."""
Value = TypeVar("Value")


def walk(
    instructions: Iterable[Instruction],
    visit: Callable[[Instruction, list[Value]], Value],
    values: dict[Instruction, Value],
) -> dict[Instruction, Value]:
    """Adds the value of each instruction to `values`: `visit` gives it, from the instruction and the values of its
    operands.

    Instructions that have a value already, as parameters may, are left out.
    """
    for x in instructions:
        if x not in values:
            values[x] = visit(x, [values[o] for o in x.operands])
    return values


class Writer:
    """Writes instructions in the place of `x`: into `made`, operands first, and computations that they call into
    `computations`.

    They have the origin of `x`, and its name, if `suffixed` with the opcode behind it.
    """

    def __init__(
        self,
        x: Instruction,
        made: list[Instruction] | None = None,
        computations: list[Computation] | None = None,
        suffixed: bool = True,
    ):
        self.x = x
        self.made: list[Instruction] = [] if made is None else made
        self.computations: list[Computation] = [] if computations is None else computations
        self.suffixed = suffixed

    def op(
        self,
        opcode: str,
        *operands: Instruction,
        called: Sequence[Computation] = (),
        shape: Shape | None = None,
        dtype: str = "",
        **attrs: Any,
    ) -> Instruction:
        """Any instruction; attributes as in `Instruction.attrs`, those not given get their defaults.

        `shape` is needed where nothing else tells it, and trusted. `dtype` is for what can be inferred but for the
        element type.
        """
        x, record = self.x, RECORDS[opcode]
        name = f"{x.name}.{opcode}" if self.suffixed else x.name
        declared = shape or (Shape(dtype) if dtype else UNKNOWN)
        attrs = record.attributes(operands, attrs)
        made = Instruction(name, opcode, declared, [*operands], attrs, [*called], x.metadata)
        if shape is None:
            least, most = record.arity
            if not least <= len(operands) <= (len(operands) if most is None else most):
                raise VerifyError(f"{x.where}: {opcode} cannot have {counted(len(operands), 'operand')}")
            assert record.infer is not None, opcode
            made.shape = record.infer(made)
        self.made.append(made)
        return made

    def clone(
        self,
        x: Instruction,
        operands: Sequence[Instruction] | None = None,
        *,
        called: Sequence[Computation] | None = None,
        shape: Shape | None = None,
        **attrs: Any,
    ) -> Instruction:
        """Returns a copy of the instruction, by its own name; with other operands, computations, shape and attributes
        where they are given."""
        made = x.on(x.operands if operands is None else operands)
        made.attrs |= attrs
        made.shape = shape or x.shape
        made.called = [*(x.called if called is None else called)]
        return self.keep(made)

    def keep(self, x: Instruction) -> Instruction:
        """Puts an instruction that is there already in this place."""
        self.made.append(x)
        return x

    # --- values -------------------------------------------------------------------------------------------------

    def constant(self, dtype: str, values: Sequence[Any], dims: Index | None = None) -> Instruction:
        """An array of Python numbers in row-major order; of one dimension, if `dims` does not say otherwise."""
        shape = Shape(dtype, (len(values),) if dims is None else dims)
        return self.op("constant", shape=shape, literal=Literal.from_values(shape, values))

    def scalar(self, dtype: str, value: Any) -> Instruction:
        return self.constant(dtype, [value], ())

    def full(self, dtype: str, dims: Index, value: Any) -> Instruction:
        """An array of one number."""
        return self.broadcast(self.scalar(dtype, value), dims)

    def iota(self, dtype: str, dims: Index, dimension: int = 0) -> Instruction:
        return self.op("iota", shape=Shape(dtype, dims), iota_dimension=dimension)

    # --- elementwise --------------------------------------------------------------------------------------------

    def unary(self, opcode: str, a: Instruction) -> Instruction:
        """An elementwise operation of one operand."""
        return self.op(opcode, a)

    def binary(self, opcode: str, a: Instruction, c: Instruction | int | float) -> Instruction:
        """An elementwise operation of equal types; a number is spread over the shape, and so is a scalar
        instruction."""
        return self.op(opcode, a, self.like(a, c))

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

    def compare(self, direction: str, a: Instruction, c: Instruction | int | float, type: str = "") -> Instruction:
        """A pred; `direction` is EQ NE LT LE GT GE, `type` TOTALORDER where that is meant."""
        return self.op("compare", a, self.like(a, c), direction=direction, type=type)

    def select(self, condition: Instruction, a: Instruction, c: Instruction | int | float) -> Instruction:
        return self.op("select", condition, a, self.like(a, c))

    def convert(self, a: Instruction, dtype: str, **noted: Any) -> Instruction:
        """`noted` are attributes of the conversion."""
        return a if a.shape.element_type == dtype else self.op("convert", a, dtype=dtype, **noted)

    def bitcast_convert(self, a: Instruction, dtype: str) -> Instruction:
        return a if a.shape.element_type == dtype else self.op("bitcast-convert", a, dtype=dtype)

    def bitcast(self, a: Instruction, dtype: str, dims: Index) -> Instruction:
        """The bytes of `a`, in row-major order, as an array of another type."""
        return self.op("bitcast", a, shape=Shape(dtype, dims))

    # --- movement -----------------------------------------------------------------------------------------------

    def broadcast(self, a: Instruction, dims: Index, dimensions: Index = ()) -> Instruction:
        """`dimensions` are those of the result that the operand's become."""
        return self.op("broadcast", a, shape=Shape(a.shape.element_type, dims), dimensions=dimensions)

    def reshape(self, a: Instruction, dims: Index) -> Instruction:
        return a if a.shape.dimensions == dims else self.op("reshape", a, shape=Shape(a.shape.element_type, dims))

    def transpose(self, a: Instruction, permutation: Index) -> Instruction:
        """Dimension i of the result is dimension `permutation[i]` of the operand."""
        return a if permutation == tuple(range(len(permutation))) else self.op("transpose", a, dimensions=permutation)

    def transpose_back(self, a: Instruction, permutation: Index) -> Instruction:
        """Returns the operand of which `transpose` makes `a`: its dimension `permutation[i]` is dimension i of `a`."""
        return self.transpose(a, tuple(permutation.index(d) for d in range(len(permutation))))

    def slice(self, a: Instruction, start: Index, limit: Index, stride: Index | None = None) -> Instruction:
        return self.op("slice", a, slice=tuple(map(SliceDimension, start, limit, stride or (1,) * len(start))))

    def slice_dim(self, a: Instruction, dimension: int, start: int, limit: int) -> Instruction:
        """A slice along one dimension."""
        dims = a.shape.dimensions
        low = tuple(start if d == dimension else 0 for d in range(len(dims)))
        high = tuple(limit if d == dimension else size for d, size in enumerate(dims))
        return self.slice(a, low, high)

    def reverse(self, a: Instruction, dimensions: Index) -> Instruction:
        return self.op("reverse", a, dimensions=dimensions)

    def concatenate(self, parts: Sequence[Instruction], dimension: int) -> Instruction:
        return self.op("concatenate", *parts, dimensions=(dimension,))

    def pad(self, a: Instruction, value: Instruction, padding: Sequence[PaddingDimension]) -> Instruction:
        return self.op("pad", a, value, padding=tuple(padding))

    def dynamic_slice(self, a: Instruction, starts: Sequence[Instruction], sizes: Index) -> Instruction:
        """`starts` are integer scalars of one type."""
        return self.op("dynamic-slice", a, *starts, dynamic_slice_sizes=sizes)

    def dynamic_update_slice(self, a: Instruction, update: Instruction, starts: Sequence[Instruction]) -> Instruction:
        return self.op("dynamic-update-slice", a, update, *starts)

    def tuple(self, elements: Sequence[Instruction]) -> Instruction:
        return self.op("tuple", *elements)

    def zeros(self, shape: Shape) -> Instruction:
        """An array of zeros, or a tuple of them."""
        if shape.is_tuple:
            return self.tuple([self.zeros(s) for s in shape.tuple_shapes])
        return self.full(shape.element_type, shape.dimensions, 0)

    def element(self, a: Instruction, index: int) -> Instruction:
        """One element of a tuple, which is there already where the tuple is made."""
        return a.elements[index] if a.elements else self.op("get-tuple-element", a, index=index)

    def elements(self, a: Instruction) -> list[Instruction]:
        return [self.element(a, i) for i in range(len(a.shape.tuple_shapes))]

    # --- products, reductions, control --------------------------------------------------------------------------

    def dot(
        self, a: Instruction, c: Instruction, numbers: DotDimensionNumbers, dtype: str | None = None
    ) -> Instruction:
        """Batch dimensions, then the free ones of `a`, then those of `c`."""
        return self.op(
            "dot",
            a,
            c,
            dtype=dtype or a.shape.element_type,
            dot_dimension_numbers=numbers,
            precision_config=PrecisionConfig(),
        )

    def reduce(self, a: Instruction, init: Instruction, dimensions: Index, opcode: str) -> Instruction:
        """A reduction by one binary opcode."""
        scalar = Shape(a.shape.element_type)
        reducer = self.computation(opcode, [scalar, scalar], lambda e, p, q: e.binary(opcode, p, q))
        return self.op("reduce", a, init, called=[reducer], dimensions=dimensions)

    def computation(self, name: str, shapes: Sequence[Shape], body: Body) -> Computation:
        """A computation to be called: `body(writer, *parameters)` writes it and returns its root."""
        inner = Writer(self.x, [], self.computations)
        parameters = [inner.op("parameter", shape=shape, parameter_number=i) for i, shape in enumerate(shapes)]
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
        """A loop over a tuple: `condition(writer, *state)` gives a pred, `body(writer, *state)` the next state."""
        init = self.tuple(state)
        test = self.computation("condition", [init.shape], lambda e, s: condition(e, *e.elements(s)))
        step = self.computation("body", [init.shape], lambda e, s: e.tuple(body(e, *e.elements(s))))
        return self.elements(self.op("while", init, called=[step, test]))

    def for_(
        self,
        trips: int,
        state: Sequence[Instruction],
        body: Callable[..., Sequence[Instruction]],
    ) -> list[Instruction]:
        """A loop of `trips` trips: `body(writer, i, *state)` with the trip's number as s32."""
        if not trips:  # what a trip takes of empty arrays may be no sound program
            return [*state]
        count = self.scalar("s32", 0)

        def condition(e: Writer, i: Instruction, *_: Instruction) -> Instruction:
            return e.compare("LT", i, trips)

        def step(e: Writer, i: Instruction, *values: Instruction) -> list[Instruction]:
            return [e.add(i, 1), *body(e, i, *values)]

        return self.while_([count, *state], condition, step)[1:]

    def inline(self, computation: Computation, arguments: Sequence[Instruction]) -> Instruction:
        """The root of a computation whose instructions are written anew here, with `arguments` for its parameters."""
        bound = dict(zip(computation.parameters, arguments))

        def copied(y: Instruction, operands: list[Instruction]) -> Instruction:
            return self.op(y.opcode, *operands, called=y.called, shape=y.shape, **y.attrs)

        return walk(computation.instructions, copied, bound)[computation.root]

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


Rule = Callable[[Writer, Instruction], Instruction]


def operand_if_alike(w: Writer, x: Instruction) -> Instruction:
    """The rule of an operation that gives its first operand where that has the shape of the result."""
    (o, *_), shape = x.operands, x.shape
    return o if o.shape.dimensions == shape.dimensions and o.shape.element_type == shape.element_type else x
