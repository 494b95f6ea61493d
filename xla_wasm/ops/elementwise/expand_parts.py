"""Complex arrays as two real ones, the real and the imaginary part, and what every operation is on these.

A tuple has both parts, side by side, in the place of a complex leaf. Whole arrays, with parts interleaved, are left at
the operations that take them so: `complex` makes them, `real` and `imag` read them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...dataclass import replace
from ...errors import UnsupportedError
from ...hlo.ir import Computation, Instruction
from ...hlo.literal import Literal
from ...hlo.op import Op, read_whole
from ...hlo.shape import Shape
from ...hlo.types import REAL_OF
from ...writing.writer import Writer
from ..reduce.monoids import monoid
from ..table import RECORDS
from . import expand_complex as functions

Pair = tuple[Instruction, Instruction]
Value = Instruction | Pair
"""The form of a value: the parts of a complex array, or one instruction."""


def is_complex(shape: Shape) -> bool:
    return shape.element_type in REAL_OF


def has_complex(shape: Shape) -> bool:
    return any(is_complex(leaf) for _, leaf in shape.leaves())


def part_of(shape: Shape) -> Shape:
    """One part of a complex array; any other array as it is."""
    return shape.with_element_type(REAL_OF[shape.element_type]).without_layout() if is_complex(shape) else shape


def _flat(shapes: tuple[Shape, ...]) -> list[Shape]:
    """Shapes with both parts in the place of each complex array."""
    return [s for shape in shapes for s in ([part_of(shape)] * 2 if is_complex(shape) else [split_shape(shape)])]


def split_shape(shape: Shape) -> Shape:
    """Returns the shape that a value of this one has as one instruction: of a complex array a tuple."""
    if shape.is_tuple or is_complex(shape):
        return Shape.tuple(_flat(shape.tuple_shapes if shape.is_tuple else (shape,)))
    return shape


def value_of(parts: Sequence[Instruction]) -> Value:
    """Both parts of a complex array, or the only one of a real array."""
    return (parts[0], parts[1]) if len(parts) == 2 else parts[0]


def _parts(value: Value) -> Sequence[Instruction]:
    return (value,) if isinstance(value, Instruction) else value


def real(value: Value) -> Instruction:
    assert isinstance(value, Instruction)
    return value


def _pair(value: Value) -> Pair:
    assert not isinstance(value, Instruction)
    return value


class PartWriter(Writer):
    """Writes one computation; `split` gives those that it calls, in the way that they are called ("state", "apply",
    "compare")."""

    def __init__(
        self, x: Instruction, computations: list[Computation], split: Callable[[Computation, str], Computation]
    ):
        super().__init__(x, [], computations)
        self._split = split
        self._joined: dict[Instruction, Instruction] = {}
        """The whole arrays, by their real parts."""

    def whole(self, value: Value, shape: Shape) -> Instruction:
        """A value of that shape with its complex arrays whole."""
        if not isinstance(value, Instruction):
            return self._join(*value)
        return self._whole_tuple(value, shape) if has_complex(shape) else value

    def _join(self, re: Instruction, im: Instruction) -> Instruction:
        if (
            re.opcode == "real"
            and im.opcode == "imag"
            and re.operands == im.operands
            and is_complex(re.operands[0].shape)
        ):
            return re.operands[0]
        found = self._joined.get(re)
        if found is None or found.operands[1] is not im:
            found = self._joined[re] = self.op("complex", re, im)
        return found

    def _whole_tuple(self, value: Instruction, shape: Shape) -> Instruction:
        elements, made = self.elements(value), []
        for s in shape.tuple_shapes:
            first = elements.pop(0)
            made.append(self.whole((first, elements.pop(0)) if is_complex(s) else first, s))
        return self.tuple(made)

    def apart(self, x: Instruction) -> Value:
        """The parts of a value whose complex arrays are whole."""
        if is_complex(x.shape):
            return self.unary("real", x), self.unary("imag", x)
        if not has_complex(x.shape):
            return x
        return self.tuple([part for element in self.elements(x) for part in _parts(self.apart(element))])

    def single(self, value: Value) -> Instruction:
        """A value as one instruction."""
        return value if isinstance(value, Instruction) else self.tuple(value)

    def from_single(self, x: Instruction, shape: Shape) -> Value:
        """The same, taken apart, of a value that was of that shape."""
        return value_of(self.elements(x)) if is_complex(shape) else x

    def called(self, x: Instruction, style: str) -> list[Computation]:
        return [self._split(c, style) for c in x.called]

    def together(self, x: Instruction, operands: list[Value], style: str = "apply") -> Value:
        """The operation on all parts at once."""
        parts = [part for value in operands for part in _parts(value)]
        return self.from_single(self.clone(x, parts, shape=split_shape(x.shape), called=self.called(x, style)), x.shape)


Rule = Callable[[PartWriter, Instruction, list[Value]], Value]
"""From an instruction and the values of its operands to its value."""


def _halves(w: PartWriter, x: Instruction, operands: list[Value]) -> Value:
    """The operation on each part of its complex operands."""
    called = w.called(x, "apply")
    both = ([value if isinstance(value, Instruction) else value[k] for value in operands] for k in range(2))
    return value_of([w.clone(x, parts, shape=part_of(x.shape), called=called) for parts in both])


def _function(w: PartWriter, x: Instruction, operands: list[Value]) -> Value:
    return value_of(functions.evaluate(w, x.opcode, operands))


def _element(w: PartWriter, x: Instruction, operands: list[Value]) -> Value:
    first = len(_flat(x.operands[0].shape.tuple_shapes[: x.attrs["index"]]))
    return value_of([w.element(real(operands[0]), first + k) for k in range(2 if is_complex(x.shape) else 1)])


def _map(w: PartWriter, x: Instruction, operands: list[Value]) -> Value:
    """One map for each part of its result: its computation with this part as the root."""
    if not is_complex(x.shape):
        return w.together(x, operands)
    (both,) = w.called(x, "apply")
    made = []
    for root in both.root.operands:
        one = Computation(f"{both.name}.part", list(both.instructions), root)
        w.computations.append(one)
        made.append(
            w.clone(x, [part for value in operands for part in _parts(value)], shape=part_of(x.shape), called=[one])
        )
    return value_of(made)


def _reduction(w: PartWriter, x: Instruction, operands: list[Value]) -> Value:
    """A sum of one array is the sum of each part; anything else goes over both at once."""
    if len(x.operands) != 2 or monoid(x.called[0]) != "add":
        return w.together(x, operands)
    part = part_of(x.shape)
    scalar = Shape(part.element_type)
    adder = w.computation("add", [scalar, scalar], lambda c, p, q: c.add(p, q))
    return value_of([w.clone(x, parts, shape=part, called=[adder]) for parts in zip(*map(_pair, operands))])


def _constant(w: PartWriter, x: Instruction, operands: list[Value]) -> Value:
    if x.shape.is_tuple:
        raise UnsupportedError(f"{x.where}: a tuple of complex constants is not supported yet")
    literal: Literal = x.attrs["literal"]
    part = part_of(x.shape)
    shape = replace(part, layout=literal.shape.layout)
    words = (
        memoryview(literal.data).cast("B").cast("I" if part.element_type == "f32" else "Q")
        if x.shape.size
        else memoryview(b"")
    )
    return value_of([w.op("constant", shape=part, literal=Literal(shape, words[k::2].tobytes())) for k in range(2)])


def _with_zero(w: PartWriter, re: Instruction) -> Value:
    """Real numbers as complex ones."""
    return re, w.full(re.shape.element_type, re.shape.dimensions, 0)


def _convert(w: PartWriter, x: Instruction, operands: list[Value]) -> Value:
    target, (value,) = x.shape.element_type, operands
    if isinstance(value, Instruction):
        return _with_zero(w, w.convert(value, REAL_OF[target]))
    if target in REAL_OF:
        return value_of([w.convert(part, REAL_OF[target]) for part in value])
    return w.convert(value[0], target)


def _bitcast(w: PartWriter, x: Instruction, operands: list[Value]) -> Value:
    """Between equal types nothing but a reshape; else the bytes of whole numbers change their meaning."""
    before = x.operands[0].shape
    if before.element_type == x.shape.element_type:
        return value_of([w.reshape(part, x.shape.dimensions) for part in _pair(operands[0])])
    return w.apart(w.clone(x, [w.whole(operands[0], before)]))


def _iota(w: PartWriter, x: Instruction, operands: list[Value]) -> Value:
    return _with_zero(w, w.iota(REAL_OF[x.shape.element_type], x.shape.dimensions, x.attrs["iota_dimension"]))


def _compare(w: PartWriter, x: Instruction, operands: list[Value]) -> Value:
    direction = x.attrs["direction"]
    re, im = (w.compare(direction, p, q, "FLOAT") for p, q in zip(*map(_pair, operands)))
    return w.binary("and" if direction == "EQ" else "or", re, im)


def _product(w: PartWriter, x: Instruction, operands: list[Value]) -> Value:
    """A dot or convolution as up to four real ones; a real operand has one part."""
    left, right = ((value, None) if isinstance(value, Instruction) else value for value in operands)
    shape = part_of(x.shape)

    def times(p: Instruction | None, q: Instruction | None) -> Instruction | None:
        return None if p is None or q is None else w.clone(x, [p, q], shape=shape)

    def total(opcode: str, p: Instruction | None, q: Instruction | None) -> Instruction:
        if p is None or q is None:
            found = p or q
            assert found is not None
            return found if p or opcode == "add" else w.unary("negate", found)
        return w.binary(opcode, p, q)

    re = total("subtract", times(left[0], right[0]), times(left[1], right[1]))
    if not is_complex(x.shape):
        return re
    if left[1] is None and right[1] is None:
        return _with_zero(w, re)
    return re, total("add", times(left[0], right[1]), times(left[1], right[0]))


def _sizes(w: PartWriter, x: Instruction, operands: list[Value]) -> Value:
    """Returns the result of what depends on the operand's sizes alone."""
    return w.clone(x, [_pair(operands[0])[0]])


def _moves(op: Op) -> bool:
    """Returns True if an operation puts elements of its operands somewhere, and so does to each part what it does to a
    number."""
    return op.reads is not read_whole and not (op.elementwise or op.called)


RULES: dict[str, Rule] = {
    **{opcode: PartWriter.together for opcode, op in RECORDS.items() if op.called},
    **{opcode: _halves for opcode, op in RECORDS.items() if _moves(op)},
    **dict.fromkeys(functions.FUNCTIONS, _function),
    **dict.fromkeys(functions.BY_PARTS, _halves),
    **dict.fromkeys(("reduce", "reduce-window", "all-reduce"), _reduction),
    **dict.fromkeys(("bitcast", "bitcast-convert"), _bitcast),
    **dict.fromkeys(("dot", "convolution"), _product),
    "tuple": PartWriter.together,
    "get-tuple-element": _element,
    "map": _map,
    "sort": lambda w, x, operands: w.together(x, operands, "compare"),
    "constant": _constant,
    "convert": _convert,
    "iota": _iota,
    "complex": lambda w, x, operands: (real(operands[0]), real(operands[1])),
    "real": lambda w, x, operands: _pair(operands[0])[0],
    "imag": lambda w, x, operands: _pair(operands[0])[1],
    "compare": _compare,
    "get-dimension-size": _sizes,
}
"""Rules for operations with a complex operand or result."""
