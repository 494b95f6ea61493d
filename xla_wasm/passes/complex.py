"""Splits complex arrays into their real and imaginary parts, two real arrays each.

Every instruction on complex numbers becomes instructions on their parts, and tuples, loops, branches, reducers and
comparators carry two real leaves, side by side, for a complex one. Whole complex arrays, with parts interleaved, are left at
the boundary (the entry's parameters and result) and at the operations that take them so: `complex` makes them, `real` and `imag`
read them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..dataclass import replace
from ..errors import UnsupportedError
from ..hlo.infer import REAL_OF
from ..hlo.ir import Computation, Instruction, Module
from ..hlo.literal import Literal
from ..hlo.op import Op, read_whole
from ..hlo.shape import Shape
from ..ops.elementwise import complex as functions
from ..ops.reading import record
from ..ops.reduce.monoids import monoid
from ..ops.writer import Writer, walk

Pair = tuple[Instruction, Instruction]
Value = Instruction | Pair
"""What stands for a value: the parts of a complex array, or one instruction."""


def split_complex(module: Module) -> None:
    """Leaves complex arrays only where they are taken and given whole."""
    split = _Split()
    module.entry = split.computation(module.entry, "entry")
    module.computations = split.done


def _moves(op: Op) -> bool:
    """Whether an operation puts elements of its operands somewhere, and so does to each part what it does to a number."""
    return op.reads is not read_whole and not (op.elementwise or op.called)


def _is_complex(shape: Shape) -> bool:
    return shape.element_type in REAL_OF


def _has_complex(shape: Shape) -> bool:
    return any(_is_complex(leaf) for _, leaf in shape.leaves())


def _part(shape: Shape) -> Shape:
    """One part of a complex array."""
    return shape.with_element_type(REAL_OF[shape.element_type]).without_layout()


def _flat(shapes: tuple[Shape, ...]) -> list[Shape]:
    """Shapes with both parts in the place of each complex array."""
    return [s for shape in shapes for s in ([_part(shape)] * 2 if _is_complex(shape) else [_split_shape(shape)])]


def _split_shape(shape: Shape) -> Shape:
    """What a value of this shape becomes as one instruction: of a complex array a tuple."""
    if shape.is_tuple or _is_complex(shape):
        return Shape.tuple(_flat(shape.tuple_shapes if shape.is_tuple else (shape,)))
    return shape


def _parameters(computation: Computation, style: str) -> list[tuple[Instruction, int]]:
    """The parameters, in their new order, that take the place of those of a computation on elements: each and which part."""
    order: list[tuple[Instruction, int]] = []
    parameters = computation.parameters
    step = 2 if style == "compare" else 1
    for i in range(0, len(parameters), step):
        group = parameters[i : i + step]
        # A comparator takes the two elements of each array side by side.
        order += [(p, k) for k in range(2 if _is_complex(group[0].shape) else 1) for p in group]
    return order


class _Split:
    """The computations made so far, callees first. One computation is split in the way that its callers need it:

    "entry" keeps its parameters and result whole; "state" has one parameter, a tuple; "apply" and "compare" work on single
    elements and take both parts of each as parameters of their own, a comparator those of the same kind side by side.
    """

    def __init__(self) -> None:
        self.done: list[Computation] = []
        self.made: dict[tuple[Computation, str], Computation] = {}

    def computation(self, computation: Computation, style: str) -> Computation:
        made = self.made.get((computation, style))
        if made is None:
            made = _Scope(self, computation, style).run()
            self.made[computation, style] = made
            self.done.append(made)
        return made


class _Scope:
    """One computation while it is rewritten: `values` holds the parts of each complex array, and what stands for every other value,
    a tuple with two leaves for every complex one."""

    def __init__(self, split: _Split, computation: Computation, style: str):
        self.split = split
        self.source = computation
        self.style = style
        self.w = Writer(computation.root, [], split.done)
        self.values: dict[Instruction, Value] = {}
        self.joined: dict[Instruction, Instruction] = {}
        """The whole arrays, by their real parts."""

    def run(self) -> Computation:
        if self.style in ("apply", "compare"):
            self.element_parameters()
        walk(self.source.instructions, self.visit, self.values)
        root = self.source.root
        self.w.x = root
        value = self.values[root]
        end = self.whole(value, root.shape) if self.style == "entry" else self.single(value)
        return Computation(self.source.name, self.w.made, end)

    def element_parameters(self) -> None:
        parts: dict[Instruction, list[Instruction]] = {}
        for number, (p, _) in enumerate(_parameters(self.source, self.style)):
            shape = _part(p.shape) if _is_complex(p.shape) else p.shape
            parts.setdefault(p, []).append(self.w.again(p, shape=shape, parameter_number=number))
        self.values |= {p: _value(both) for p, both in parts.items()}

    # --- whole arrays -------------------------------------------------------------------------------------------

    def whole(self, value: Value, shape: Shape) -> Instruction:
        """A value of that shape with its complex arrays whole."""
        if not isinstance(value, Instruction):
            return self.join(*value)
        return self.whole_tuple(value, shape) if _has_complex(shape) else value

    def join(self, re: Instruction, im: Instruction) -> Instruction:
        if re.opcode == "real" and im.opcode == "imag" and re.operands == im.operands and _is_complex(re.operands[0].shape):
            return re.operands[0]
        found = self.joined.get(re)
        if found is None or found.operands[1] is not im:
            found = self.joined[re] = self.w.op("complex", re, im)
        return found

    def whole_tuple(self, value: Instruction, shape: Shape) -> Instruction:
        elements = list(value.operands) if value.opcode == "tuple" else self.w.elements(value)
        made = []
        for s in shape.tuple_shapes:
            first = elements.pop(0)
            made.append(self.whole((first, elements.pop(0)) if _is_complex(s) else first, s))
        return self.w.tuple(made)

    def apart(self, x: Instruction) -> Value:
        """The parts of a value whose complex arrays are whole."""
        if _is_complex(x.shape):
            return self.w.unary("real", x), self.w.unary("imag", x)
        if not _has_complex(x.shape):
            return x
        return self.w.tuple([part for element in self.w.elements(x) for part in _parts(self.apart(element))])

    def single(self, value: Value) -> Instruction:
        """A value as one instruction."""
        return value if isinstance(value, Instruction) else self.w.tuple(value)

    # --- instructions -------------------------------------------------------------------------------------------

    def visit(self, x: Instruction, operands: list[Value]) -> Value:
        opcode, op, w = x.opcode, record(x), self.w
        w.x = x
        if opcode == "parameter":
            return self.parameter(x)
        if op.complex or op.effect:
            return self.apart(w.again(x, [self.whole(value, o.shape) for value, o in zip(operands, x.operands)]))
        if op.control:
            return self.together(x, [self.single(value) for value in operands], "state")
        if opcode == "get-tuple-element":
            return self.element(x, _real(operands[0]))
        if opcode == "map" and _is_complex(x.shape):
            return self.map(x, operands)
        if not _has_complex(x.shape) and not any(_has_complex(o.shape) for o in x.operands):
            return w.again(x, [_real(value) for value in operands], called=self.called(x, "apply"))
        if opcode in _RULES:
            return _RULES[opcode](self, x, operands)
        if opcode in functions.BY_PARTS or _moves(op):
            return self.halves(x, operands)
        if opcode in functions.FUNCTIONS:
            return _value(functions.evaluate(w, opcode, operands))
        if op.called or opcode == "tuple":
            return self.together(x, [part for value in operands for part in _parts(value)], "compare" if opcode == "sort" else "apply")
        raise UnsupportedError(f"{x.where}: not supported yet for complex numbers")

    def called(self, x: Instruction, style: str) -> list[Computation]:
        return [self.split.computation(c, style) for c in x.called]

    def parameter(self, x: Instruction) -> Value:
        if self.style == "entry":
            return self.apart(self.w.keep(x))
        made = self.w.again(x, shape=_split_shape(x.shape))
        return _value(self.w.elements(made)) if _is_complex(x.shape) else made

    def halves(self, x: Instruction, operands: list[Value]) -> Value:
        """The operation on each part of its complex operands."""
        called = self.called(x, "apply")
        both = ([value if isinstance(value, Instruction) else value[k] for value in operands] for k in range(2))
        return _value([self.w.again(x, parts, shape=_part(x.shape), called=called) for parts in both])

    def together(self, x: Instruction, operands: list[Instruction], style: str) -> Value:
        """The operation on all parts at once."""
        made = self.w.again(x, operands, shape=_split_shape(x.shape), called=self.called(x, style))
        return _value(self.w.elements(made)) if _is_complex(x.shape) else made

    def element(self, x: Instruction, value: Instruction) -> Value:
        first = len(_flat(x.operands[0].shape.tuple_shapes[: x.attrs["index"]]))
        numbers = range(first, first + (2 if _is_complex(x.shape) else 1))
        return _value([value.operands[k] if value.opcode == "tuple" else self.w.element(value, k) for k in numbers])

    def map(self, x: Instruction, operands: list[Value]) -> Value:
        """One map for each part: its computation with this part as the root."""
        both = self.split.computation(x.called[0], "apply")
        made = []
        for root in both.root.operands:
            one = Computation(f"{both.name}.part", list(both.instructions), root)
            self.split.done.append(one)
            parts = [part for value in operands for part in _parts(value)]
            made.append(self.w.again(x, parts, shape=_part(x.shape), called=[one]))
        return _value(made)


def _value(parts: list[Instruction]) -> Value:
    """Both parts of a complex array, or the only one of a real array."""
    return (parts[0], parts[1]) if len(parts) == 2 else parts[0]


def _parts(value: Value) -> Sequence[Instruction]:
    return (value,) if isinstance(value, Instruction) else value


def _real(value: Value) -> Instruction:
    assert isinstance(value, Instruction)
    return value


def _pair(value: Value) -> Pair:
    assert not isinstance(value, Instruction)
    return value


def _reduction(s: _Scope, x: Instruction, operands: list[Value]) -> Value:
    """A sum of one array is the sum of each part; anything else goes over both at once."""
    if len(x.operands) != 2 or monoid(x.called[0]) != "add":
        return s.together(x, [part for value in operands for part in _parts(value)], "apply")
    part = _part(x.shape)
    scalar = Shape(part.element_type)
    adder = s.w.computation("add", [scalar, scalar], lambda c, p, q: c.add(p, q))
    return _value([s.w.again(x, parts, shape=part, called=[adder]) for parts in zip(*map(_pair, operands))])


def _constant(s: _Scope, x: Instruction, operands: list[Value]) -> Value:
    if x.shape.is_tuple:
        raise UnsupportedError(f"{x.where}: a tuple of complex constants is not supported yet")
    literal: Literal = x.attrs["literal"]
    part = _part(x.shape)
    shape = replace(part, layout=literal.shape.layout)
    words = memoryview(literal.data).cast("B").cast("I" if part.element_type == "f32" else "Q") if x.shape.size else memoryview(b"")
    return _value([s.w.op("constant", shape=part, literal=Literal(shape, words[k::2].tobytes())) for k in range(2)])


def _with_zero(s: _Scope, re: Instruction) -> Value:
    """Real numbers as complex ones."""
    return re, s.w.full(re.shape.element_type, re.shape.dimensions, 0)


def _convert(s: _Scope, x: Instruction, operands: list[Value]) -> Value:
    target, (value,), w = x.shape.element_type, operands, s.w
    if isinstance(value, Instruction):
        return _with_zero(s, w.convert(value, REAL_OF[target]))
    if target in REAL_OF:
        return _value([w.convert(part, REAL_OF[target]) for part in value])
    if target == "pred":
        re, im = (w.compare("NE", part, 0, "FLOAT") for part in value)
        return w.binary("or", re, im)
    return w.convert(value[0], target)


def _bitcast(s: _Scope, x: Instruction, operands: list[Value]) -> Value:
    """Between equal types nothing but a reshape; else the bytes of whole numbers change their meaning."""
    before = x.operands[0].shape
    if before.element_type == x.shape.element_type:
        return _value([s.w.reshape(part, x.shape.dimensions) for part in _pair(operands[0])])
    return s.apart(s.w.again(x, [s.whole(operands[0], before)]))


def _iota(s: _Scope, x: Instruction, operands: list[Value]) -> Value:
    return _with_zero(s, s.w.iota(REAL_OF[x.shape.element_type], x.shape.dimensions, x.attrs["iota_dimension"]))


def _compare(s: _Scope, x: Instruction, operands: list[Value]) -> Value:
    direction = x.attrs["direction"]
    re, im = (s.w.compare(direction, p, q, "FLOAT") for p, q in zip(*map(_pair, operands)))
    return s.w.binary("and" if direction == "EQ" else "or", re, im)


def _product(s: _Scope, x: Instruction, operands: list[Value]) -> Value:
    """A dot or convolution as up to four real ones; a real operand has one part."""
    left, right = ((value, None) if isinstance(value, Instruction) else value for value in operands)
    shape = _part(x.shape) if _is_complex(x.shape) else x.shape

    def times(p: Instruction | None, q: Instruction | None) -> Instruction | None:
        return None if p is None or q is None else s.w.again(x, [p, q], shape=shape)

    def total(opcode: str, p: Instruction | None, q: Instruction | None) -> Instruction:
        if p is None or q is None:
            found = p or q
            assert found is not None
            return found if p or opcode == "add" else s.w.unary("negate", found)
        return s.w.binary(opcode, p, q)

    re = total("subtract", times(left[0], right[0]), times(left[1], right[1]))
    if not _is_complex(x.shape):
        return re
    if left[1] is None and right[1] is None:
        return _with_zero(s, re)
    return re, total("add", times(left[0], right[1]), times(left[1], right[0]))


def _sizes(s: _Scope, x: Instruction, operands: list[Value]) -> Value:
    """What depends on the operand's sizes alone."""
    return s.w.again(x, [_pair(operands[0])[0]])


_RULES: dict[str, Callable[[_Scope, Instruction, list[Value]], Value]] = {
    "reduce": _reduction,
    "reduce-window": _reduction,
    "all-reduce": _reduction,
    "constant": _constant,
    "convert": _convert,
    "bitcast": _bitcast,
    "bitcast-convert": _bitcast,
    "iota": _iota,
    "complex": lambda s, x, operands: (_real(operands[0]), _real(operands[1])),
    "real": lambda s, x, operands: _pair(operands[0])[0],
    "imag": lambda s, x, operands: _pair(operands[0])[1],
    "compare": _compare,
    "dot": _product,
    "convolution": _product,
    "get-dimension-size": _sizes,
}
