"""Splits complex arrays into their real and imaginary parts, two real arrays each.

Every instruction on complex numbers becomes instructions on their parts, and tuples, loops, branches, reducers and
comparators carry two real leaves, side by side, for a complex one. Whole complex arrays, with parts interleaved, are left at
the boundary (the entry's parameters and result) and at the operations in `_WHOLE`: `complex` makes them, `real` and `imag`
read them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..dataclass import replace
from ..errors import UnsupportedError
from ..hlo.infer import REAL_OF
from ..hlo.ir import Computation, Instruction, Module
from ..hlo.literal import Literal
from ..hlo.shape import Shape
from ..ops.elementwise import complex as functions
from ..ops.reduce.monoids import monoid
from ..ops.writer import Writer

Pair = tuple[Instruction, Instruction]

_WHOLE = frozenset(
    (
        *("fft", "cholesky", "triangular-solve", "custom-call"),
        *("infeed", "outfeed", "send", "send-done", "recv", "recv-done"),
    )
)
"""Operations that take and give whole complex arrays."""

_HALVES = frozenset(
    (
        *("add", "subtract", "negate", "select", "copy", "broadcast", "reshape", "transpose", "reverse", "slice", "dynamic-slice"),
        *("dynamic-update-slice", "concatenate", "pad", "gather", "set-dimension-size", "dynamic-reshape"),
        *("all-gather", "all-to-all", "collective-broadcast", "collective-permute"),
    )
)
"""Operations that do to each part what they do to the number."""

_VARIADIC = frozenset(("reduce", "reduce-window", "select-and-scatter", "scatter", "sort", "while", "conditional", "tuple"))
"""Operations that take any number of arrays, or a tuple of them."""

_FUNCTIONS = frozenset((*functions.UNARY, *functions.BINARY, "abs")) - _HALVES


def split_complex(module: Module) -> None:
    """Leaves complex arrays only where they are taken and given whole."""
    if any(_is_complex(leaf) for x in module.instructions() for _, leaf in x.shape.leaves()):
        split = _Split()
        module.entry = split.computation(module.entry, "entry")
        module.computations = split.done


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
    """One computation while it is rewritten."""

    def __init__(self, split: _Split, computation: Computation, style: str):
        self.split = split
        self.source = computation
        self.style = style
        self.instructions: list[Instruction] = []
        self.pairs: dict[Instruction, Pair] = {}
        self.values: dict[Instruction, Instruction] = {}
        """What stands for each value that is no complex array; a tuple with two leaves for every complex one."""
        self.joined: dict[Instruction, Instruction] = {}
        """The whole arrays, by their real parts."""

    def run(self) -> Computation:
        if self.style in ("apply", "compare"):
            self.element_parameters()
        for x in self.source.instructions:
            if x not in self.pairs and x not in self.values:
                self.visit(x)
        root = self.source.root
        e = self.expansion(root)
        if self.style == "entry":
            end = self.whole(e, root)
        else:
            end = e.tuple(self.pairs[root]) if root in self.pairs else self.values[root]
        return Computation(self.source.name, self.instructions, end)

    def expansion(self, x: Instruction) -> Writer:
        return Writer(x, self.instructions, self.split.done)

    def element_parameters(self) -> None:
        parts: dict[Instruction, list[Instruction]] = {}
        for number, (p, _) in enumerate(_parameters(self.source, self.style)):
            shape = _part(p.shape) if _is_complex(p.shape) else p.shape
            made = Instruction(p.name, "parameter", shape, [], p.attrs | {"parameter_number": number}, [], p.metadata)
            self.instructions.append(made)
            parts.setdefault(p, []).append(made)
        for p, both in parts.items():
            self.define(p, both)

    # --- whole arrays -------------------------------------------------------------------------------------------

    def whole(self, e: Writer, x: Instruction) -> Instruction:
        """The value of `x` with its complex arrays whole."""
        if x in self.pairs:
            return self.join(e, *self.pairs[x])
        return self.whole_tuple(e, self.values[x], x.shape) if _has_complex(x.shape) else self.values[x]

    def join(self, e: Writer, re: Instruction, im: Instruction) -> Instruction:
        if re.opcode == "real" and im.opcode == "imag" and re.operands == im.operands and _is_complex(re.operands[0].shape):
            return re.operands[0]
        found = self.joined.get(re)
        if found is None or found.operands[1] is not im:
            found = self.joined[re] = e.op("complex", re, im)
        return found

    def whole_tuple(self, e: Writer, value: Instruction, shape: Shape) -> Instruction:
        elements = list(value.operands) if value.opcode == "tuple" else e.elements(value)
        made = []
        for s in shape.tuple_shapes:
            first = elements.pop(0)
            if _is_complex(s):
                made.append(self.join(e, first, elements.pop(0)))
            else:
                made.append(self.whole_tuple(e, first, s) if _has_complex(s) else first)
        return e.tuple(made)

    def parts(self, e: Writer, x: Instruction) -> Pair:
        """The parts of a whole array."""
        return e.unary("real", x), e.unary("imag", x)

    def split_tuple(self, e: Writer, x: Instruction) -> Instruction:
        """A tuple of whole arrays as one of parts."""
        made: list[Instruction] = []
        for element in e.elements(x):
            if _is_complex(element.shape):
                made += self.parts(e, element)
            else:
                made.append(self.split_tuple(e, element) if _has_complex(element.shape) else element)
        return e.tuple(made)

    def keep(self, x: Instruction, y: Instruction) -> None:
        """`y`, which gives whole arrays, stands for `x`."""
        e = self.expansion(x)
        if _is_complex(x.shape):
            self.pairs[x] = self.parts(e, y)
        else:
            self.values[x] = self.split_tuple(e, y) if _has_complex(x.shape) else y

    # --- instructions -------------------------------------------------------------------------------------------

    def visit(self, x: Instruction) -> None:
        opcode = x.opcode
        if opcode == "parameter":
            self.parameter(x)
        elif opcode in _WHOLE:
            e = self.expansion(x)
            operands = [self.whole(e, o) for o in x.operands]
            self.keep(x, self.placed(x, x.shape, operands, x.called))
        elif opcode in ("while", "conditional"):
            self.variadic(x, [self.split.computation(c, "state") for c in x.called], True)
        elif opcode == "get-tuple-element":
            self.element(x)
        elif opcode == "map" and _is_complex(x.shape):
            self.map(x)
        elif not _has_complex(x.shape) and not any(_has_complex(o.shape) for o in x.operands):
            called = [self.split.computation(c, "apply") for c in x.called]
            self.values[x] = self.placed(x, x.shape, [self.values[o] for o in x.operands], called)
        elif opcode in _RULES:
            _RULES[opcode](self, self.expansion(x), x)
        elif opcode in _FUNCTIONS:
            made = functions.evaluate(self.expansion(x), opcode, [self.pairs[o] for o in x.operands])
            self.define(x, made)
        elif opcode in _HALVES:
            self.halves(x)
        elif opcode in _VARIADIC or opcode == "map":
            style = "compare" if opcode == "sort" else "apply"
            self.variadic(x, [self.split.computation(c, style) for c in x.called])
        else:
            raise UnsupportedError(f"{x.where}: not supported yet for complex numbers")

    def placed(self, x: Instruction, shape: Shape, operands: list[Instruction], called: list[Computation]) -> Instruction:
        """The same operation on other operands."""
        made = Instruction(x.name, x.opcode, shape, operands, dict(x.attrs), called, x.metadata)
        made.frontend_attributes = x.frontend_attributes
        self.instructions.append(made)
        return made

    def define(self, x: Instruction, made: list[Instruction]) -> None:
        if len(made) == 2:
            self.pairs[x] = made[0], made[1]
        else:
            self.values[x] = made[0]

    def parameter(self, x: Instruction) -> None:
        if self.style == "entry":
            self.instructions.append(x)
            self.keep(x, x)
            return
        made = self.placed(x, _split_shape(x.shape), [], [])
        if _is_complex(x.shape):
            re, im = self.expansion(x).elements(made)
            self.pairs[x] = re, im
        else:
            self.values[x] = made

    def halves(self, x: Instruction) -> None:
        """The operation on each part of its complex operands."""
        made = []
        for k in range(2):
            operands = [self.pairs[o][k] if o in self.pairs else self.values[o] for o in x.operands]
            called = [self.split.computation(c, "apply") for c in x.called]
            made.append(self.placed(x, _part(x.shape), operands, called))
        self.define(x, made)

    def variadic(self, x: Instruction, called: list[Computation], state: bool = False) -> None:
        """The operation on all parts. `state`: its operands are tuples, and what a lone complex array becomes is one too."""
        e = self.expansion(x)
        operands: list[Instruction] = []
        for o in x.operands:
            if o in self.pairs:
                operands += [e.tuple(self.pairs[o])] if state else self.pairs[o]
            else:
                operands.append(self.values[o])
        made = self.placed(x, _split_shape(x.shape), operands, called)
        if _is_complex(x.shape):
            re, im = e.elements(made)
            self.pairs[x] = re, im
        else:
            self.values[x] = made

    def element(self, x: Instruction) -> None:
        value, index = self.values[x.operands[0]], x.attrs["index"]
        before = len(_flat(x.operands[0].shape.tuple_shapes[:index]))
        e = self.expansion(x)

        def taken(number: int) -> Instruction:
            return value.operands[number] if value.opcode == "tuple" else e.element(value, number)

        self.define(x, [taken(before + k) for k in range(2 if _is_complex(x.shape) else 1)])

    def map(self, x: Instruction) -> None:
        """One map for each part: its computation with this part as the root."""
        both = self.split.computation(x.called[0], "apply")
        operands = [p for o in x.operands for p in (self.pairs[o] if o in self.pairs else (self.values[o],))]
        made = []
        for part in both.root.operands:
            one = Computation(f"{both.name}.part", list(both.instructions), part)
            self.split.done.append(one)
            made.append(self.placed(x, _part(x.shape), operands, [one]))
        self.define(x, made)


def _reduction(s: _Scope, e: Writer, x: Instruction) -> None:
    """A sum of one array is the sum of each part; anything else goes over both at once."""
    if len(x.operands) == 2 and monoid(x.called[0]) == "add":
        part = _part(x.shape)
        scalar = Shape(part.element_type)
        adder = e.computation("add", [scalar, scalar], lambda c, p, q: c.add(p, q))
        s.define(x, [s.placed(x, part, [s.pairs[o][k] for o in x.operands], [adder]) for k in range(2)])
    else:
        s.variadic(x, [s.split.computation(c, "apply") for c in x.called])


def _constant(s: _Scope, e: Writer, x: Instruction) -> None:
    if x.shape.is_tuple:
        raise UnsupportedError(f"{x.where}: a tuple of complex constants is not supported yet")
    literal: Literal = x.attrs["literal"]
    part = _part(x.shape)
    shape = replace(part, layout=literal.shape.layout)
    words = memoryview(literal.data).cast("B").cast("I" if part.element_type == "f32" else "Q") if x.shape.size else memoryview(b"")
    s.define(x, [e.op("constant", shape=part, literal=Literal(shape, words[k::2].tobytes())) for k in range(2)])


def _zero(e: Writer, like: Instruction) -> Instruction:
    return e.full(like.shape.element_type, like.shape.dimensions, 0)


def _convert(s: _Scope, e: Writer, x: Instruction) -> None:
    target, (operand,) = x.shape.element_type, x.operands
    if operand not in s.pairs:
        re = e.convert(s.values[operand], REAL_OF[target])
        s.define(x, [re, _zero(e, re)])
        return
    re, im = s.pairs[operand]
    if target in REAL_OF:
        s.define(x, [e.convert(part, REAL_OF[target]) for part in (re, im)])
    elif target == "pred":
        s.define(x, [e.binary("or", e.compare("NE", re, 0, "FLOAT"), e.compare("NE", im, 0, "FLOAT"))])
    else:
        s.define(x, [e.convert(re, target)])


def _bitcast(s: _Scope, e: Writer, x: Instruction) -> None:
    """Between equal types nothing but a reshape; else the bytes of whole numbers change their meaning."""
    (operand,) = x.operands
    if operand.shape.element_type == x.shape.element_type:
        s.define(x, [e.reshape(part, x.shape.dimensions) for part in s.pairs[operand]])
    else:
        s.keep(x, s.placed(x, x.shape, [s.whole(e, operand)], []))


def _iota(s: _Scope, e: Writer, x: Instruction) -> None:
    re = e.iota(REAL_OF[x.shape.element_type], x.shape.dimensions, x.attrs["iota_dimension"])
    s.define(x, [re, _zero(e, re)])


def _complex(s: _Scope, e: Writer, x: Instruction) -> None:
    re, im = x.operands
    s.pairs[x] = s.values[re], s.values[im]


def _taken(part: int) -> Callable[[_Scope, Writer, Instruction], None]:
    def rule(s: _Scope, e: Writer, x: Instruction) -> None:
        s.values[x] = s.pairs[x.operands[0]][part]

    return rule


def _compare(s: _Scope, e: Writer, x: Instruction) -> None:
    direction = x.attrs["direction"]
    re, im = (e.compare(direction, p, q, "FLOAT") for p, q in zip(*(s.pairs[o] for o in x.operands)))
    s.values[x] = e.binary("and" if direction == "EQ" else "or", re, im)


def _product(s: _Scope, e: Writer, x: Instruction) -> None:
    """A dot or convolution as up to four real ones; a real operand has one part."""
    left, right = (s.pairs[o] if o in s.pairs else (s.values[o], None) for o in x.operands)
    shape = _part(x.shape) if _is_complex(x.shape) else x.shape

    def times(p: Instruction | None, q: Instruction | None) -> Instruction | None:
        return None if p is None or q is None else s.placed(x, shape, [p, q], [])

    def total(opcode: str, p: Instruction | None, q: Instruction | None) -> Instruction:
        if p is None or q is None:
            found = p or q
            assert found is not None
            return found if p or opcode == "add" else e.unary("negate", found)
        return e.binary(opcode, p, q)

    re = total("subtract", times(left[0], right[0]), times(left[1], right[1]))
    if not _is_complex(x.shape):
        s.define(x, [re])
        return
    if left[1] is None and right[1] is None:
        s.define(x, [re, _zero(e, re)])
        return
    s.define(x, [re, total("add", times(left[0], right[1]), times(left[1], right[0]))])


def _sizes(s: _Scope, e: Writer, x: Instruction) -> None:
    """What depends on the operand's sizes alone."""
    s.values[x] = s.placed(x, x.shape, [s.pairs[x.operands[0]][0]], [])


_RULES: dict[str, Callable[[_Scope, Writer, Instruction], Any]] = {
    "reduce": _reduction,
    "reduce-window": _reduction,
    "all-reduce": _reduction,
    "constant": _constant,
    "convert": _convert,
    "bitcast": _bitcast,
    "bitcast-convert": _bitcast,
    "iota": _iota,
    "complex": _complex,
    "real": _taken(0),
    "imag": _taken(1),
    "compare": _compare,
    "dot": _product,
    "convolution": _product,
    "get-dimension-size": _sizes,
}
