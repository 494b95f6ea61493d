"""Records of the elementwise operations, of constants and of index ramps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...hlo.index_map import along, identity
from ...hlo.infer import KIND, array, arrays, brief, broken, declared, dimension, flags, need_kind, result, same
from ...hlo.ir import Instruction
from ...hlo.op import REQUIRED, Attr, Kind, Narrow, Op, Read, pointwise
from ...hlo.shape import Shape, array_shape
from ...hlo.types import COMPLEX_OF, REAL_OF, TYPES

_INTEGER = ("signed", "unsigned")
_LOGICAL = ("pred", *_INTEGER)
_NUMBER = (*_INTEGER, "float", "complex")
_ANALYTIC = ("float", "complex")
_FLOAT = ("float",)
_ALL = ("pred", *_NUMBER)
_ORDERED = ("pred", *_INTEGER, "float")

_ACCURACY = (Attr("result_accuracy", "result_accuracy", (91,)),)

# opcode: (kinds of element types, whether it has result_accuracy, what it does)
_UNARY: dict[str, tuple[tuple[str, ...], bool, str]] = {
    "abs": (
        _NUMBER,
        False,
        "The absolute value; of a complex number its modulus, a real one. The least integer stays as it is.",
    ),
    "acos": (_ANALYTIC, True, "The inverse cosine."),
    "acosh": (_ANALYTIC, True, "The inverse hyperbolic cosine."),
    "asin": (_ANALYTIC, True, "The inverse sine."),
    "asinh": (_ANALYTIC, True, "The inverse hyperbolic sine."),
    "atan": (_ANALYTIC, True, "The inverse tangent."),
    "atanh": (_ANALYTIC, True, "The inverse hyperbolic tangent."),
    "cbrt": (_FLOAT, True, "The real cube root, negative for negative numbers."),
    "ceil": (_FLOAT, False, "The least integral number that is not smaller."),
    "cosine": (_ANALYTIC, True, "The cosine of an angle in radians."),
    "cosh": (_ANALYTIC, True, "The hyperbolic cosine."),
    "count-leading-zeros": (_INTEGER, False, "The number of zero bits before the highest one; the width for 0."),
    "erf": (_FLOAT, True, "The error function."),
    "exponential": (_ANALYTIC, True, "e to the power of each element."),
    "exponential-minus-one": (_ANALYTIC, True, "e to the power of each element, minus 1, exact near 0."),
    "floor": (_FLOAT, False, "The greatest integral number that is not greater."),
    "imag": (_ANALYTIC, False, "The imaginary part; 0 for a real number."),
    "is-finite": (_FLOAT, False, "True where an element is neither infinite nor NaN."),
    "log": (_ANALYTIC, True, "The natural logarithm."),
    "log-plus-one": (_ANALYTIC, True, "The natural logarithm of 1 plus the element, exact near 0."),
    "logistic": (_ANALYTIC, True, "1 / (1 + exp(-x))."),
    "negate": (_NUMBER, False, "The negative; integers wrap."),
    "not": (_LOGICAL, False, "Every bit flipped; the logical opposite for pred."),
    "popcnt": (_INTEGER, False, "The number of bits that are set."),
    "real": (_ANALYTIC, False, "The real part; a real number itself."),
    "round-nearest-afz": (_FLOAT, False, "The nearest integral number, halves away from zero."),
    "round-nearest-even": (_FLOAT, False, "The nearest integral number, halves to the even one."),
    "rsqrt": (_ANALYTIC, True, "1 over the square root."),
    "sign": (_NUMBER, False, "-1, 0 or 1 by the sign, keeping NaN and the sign of 0; of a complex number x / abs(x)."),
    "sine": (_ANALYTIC, True, "The sine of an angle in radians."),
    "sinh": (_ANALYTIC, True, "The hyperbolic sine."),
    "sqrt": (_ANALYTIC, True, "The square root."),
    "tan": (_ANALYTIC, True, "The tangent of an angle in radians."),
    "tanh": (_ANALYTIC, True, "The hyperbolic tangent."),
}

# opcode: (kinds of element types, what it does)
_BINARY: dict[str, tuple[tuple[str, ...], str]] = {
    "add": (_ALL, "The sum; integers wrap, pred: or."),
    "and": (_LOGICAL, "The bits that both have; logical for pred."),
    "atan2": (_ANALYTIC, "The angle of the point (second, first) in radians."),
    "divide": (_NUMBER, "The quotient; integers truncate toward zero, and divided by 0 give all ones."),
    "maximum": (_ORDERED, "The greater one; NaN if either is, +0 above -0."),
    "minimum": (_ORDERED, "The smaller one; NaN if either is, -0 below +0."),
    "mulhi": (_INTEGER, "The high half of the full product."),
    "multiply": (_ALL, "The product; integers wrap, pred: and."),
    "or": (_LOGICAL, "The bits that either has; logical for pred."),
    "power": (_NUMBER, "The first to the power of the second."),
    "remainder": (
        _NUMBER,
        "The remainder, which has the dividend's sign; by 0 it is NaN for floats and the dividend for integers.",
    ),
    "subtract": (_NUMBER, "The difference; integers wrap."),
    "xor": (_LOGICAL, "The bits that exactly one has; logical for pred."),
}

_SHIFTS = {
    "shift-left": "Bits moved up by the second operand's unsigned amount; 0 if that is the width or more.",
    "shift-right-arithmetic": "Bits moved down, copies of the sign moving in; all signs if the unsigned amount is the "
    "width or more.",
    "shift-right-logical": "Bits moved down, zeros moving in; 0 if the unsigned amount is the width or more.",
}


def _join_dynamic(shapes: Sequence[Shape]) -> tuple[bool, ...]:
    """A dimension of the result is dynamic if it is in any operand."""
    if not any(shape.dynamic for shape in shapes):
        return ()
    return tuple(map(any, zip(*(flags(shape) for shape in shapes if shape.dimensions))))


def _unary(kinds: tuple[str, ...], becomes: Callable[[str], str]) -> Callable[[Instruction], Shape]:
    def infer(instr: Instruction) -> Shape:
        shape = array(instr, 0)
        need_kind(instr, shape.element_type, kinds, 2)
        return array_shape(becomes(shape.element_type), shape.dimensions, shape.dynamic)

    return infer


def _same_type(element_type: str) -> str:
    return element_type


def _real_type(element_type: str) -> str:
    return REAL_OF.get(element_type, element_type)


_BECOMES: dict[str, Callable[[str], str]] = {
    "abs": _real_type,
    "real": _real_type,
    "imag": _real_type,
    "is-finite": lambda _: "pred",
}


def _pair(instr: Instruction) -> tuple[Shape, Shape]:
    """The shapes of two operands of equal sizes."""
    a, b = array(instr, 0), array(instr, 1)
    if a.dimensions != b.dimensions:
        raise broken(instr, 1, f"the operands' sizes differ: {brief(a)} and {brief(b)}")
    return a, b


def _result(element_type: str, *shapes: Shape) -> Shape:
    """The result of operands that are known to be sound and of equal sizes."""
    return array_shape(element_type, shapes[0].dimensions, _join_dynamic(shapes))


def _binary(kinds: tuple[str, ...]) -> Callable[[Instruction], Shape]:
    def infer(instr: Instruction) -> Shape:
        a, b = _pair(instr)
        if a.element_type != b.element_type:
            raise broken(instr, 2, f"the operands' types differ: {brief(a)} and {brief(b)}")
        need_kind(instr, a.element_type, kinds, 3, "the operands")
        return _result(a.element_type, a, b)

    return infer


def _shift(instr: Instruction) -> Shape:
    a, b = _pair(instr)
    for shape in (a, b):
        need_kind(instr, shape.element_type, _INTEGER, 2, "the operands")
    return _result(a.element_type, a, b)


def _complex(instr: Instruction) -> Shape:
    a, b = _pair(instr)
    if a.element_type != b.element_type or a.element_type not in COMPLEX_OF:
        raise broken(instr, 2, f"the operands must both be f32 or both f64, not {a.element_type} and {b.element_type}")
    return _result(COMPLEX_OF[a.element_type], a, b)


def _compare(instr: Instruction) -> Shape:
    a, b = _pair(instr)
    if a.element_type != b.element_type:
        raise broken(instr, 2, f"the operands' types differ: {brief(a)} and {brief(b)}")
    direction, kind = instr.attrs["direction"], KIND[a.element_type]
    if direction not in ("EQ", "NE", "GE", "GT", "LE", "LT"):
        raise broken(instr, 3, f"direction must be EQ, NE, GE, GT, LE or LT, not {direction!r}")
    if kind == "complex" and direction not in ("EQ", "NE"):
        raise broken(instr, 3, f"complex numbers have no order, so direction cannot be {direction}")
    # whether integers have a sign is up to their type, whatever the attribute says
    allowed = {"float": ("FLOAT", "TOTALORDER"), "complex": ("FLOAT",)}.get(kind, ("SIGNED", "UNSIGNED"))
    if instr.attrs["type"] not in allowed:
        raise broken(instr, 4, f"{a.element_type} is compared as {' or '.join(allowed)}, not {instr.attrs['type']!r}")
    return _result("pred", a, b)


def _clamp(instr: Instruction) -> Shape:
    low, x, high = arrays(instr)
    for name, bound in (("the lower", low), ("the upper", high)):
        if bound.element_type != x.element_type:
            raise broken(instr, 1, f"{name} bound {brief(bound)} has not the type of {brief(x)}")
        if bound.dimensions and bound.dimensions != x.dimensions:
            raise broken(instr, 2, f"{name} bound {brief(bound)} is neither a scalar nor of the sizes of {brief(x)}")
    need_kind(instr, x.element_type, _ORDERED, 3, "the operands")
    return _result(x.element_type, x, low, high)


def _select(instr: Instruction) -> Shape:
    choice, a, b = arrays(instr)
    if choice.element_type != "pred" or (choice.dimensions and choice.dimensions != a.dimensions):
        raise broken(instr, 2, f"operand 0 must be pred, a scalar or of the sizes of {brief(a)}, not {brief(choice)}")
    if a.element_type != b.element_type or a.dimensions != b.dimensions:
        raise broken(instr, 3, f"the operands to choose from differ: {brief(a)} and {brief(b)}")
    return _result(a.element_type, a, b, choice)


def _convert(instr: Instruction) -> Shape:
    shape = array(instr, 0)
    return Shape(declared(instr).element_type, shape.dimensions, None, shape.dynamic)


def _bitcast_convert(instr: Instruction) -> Shape:
    shape, target = array(instr, 0), declared(instr)
    old, new = TYPES[shape.element_type], TYPES[target.element_type]
    if (old.kind == "complex") != (new.kind == "complex"):
        raise broken(instr, 2, f"the bits of {old.name} cannot become {new.name}: one is complex")
    if "pred" in (old.name, new.name) and old.bits != new.bits:
        raise broken(
            instr,
            3,
            f"pred is one bit among types of one, not {old.name if new.name == 'pred' else new.name}: by way of u1",
        )
    if max(old.bits, new.bits) % min(old.bits, new.bits):
        raise broken(
            instr,
            3,
            f"{old.bits} and {new.bits} bits: neither {old.name} nor {new.name} is a whole number of the other",
        )
    sizes = shape.dimensions
    if old.bits > new.bits:
        sizes = (*sizes, old.bits // new.bits)
    elif old.bits < new.bits:
        if not sizes or sizes[-1] != new.bits // old.bits:
            raise broken(
                instr, 4, f"the last dimension of {brief(shape)} must be {new.bits // old.bits} to become {new.name}"
            )
        sizes = sizes[:-1]
    return result(instr, new.name, sizes)


def _read_bitcast_convert(x: Instruction) -> list[Read]:
    """An element of another width is a part of one, or is made of a row of them."""
    wide, narrow = sorted((x.shape.dimensions, x.operands[0].shape.dimensions), key=len, reverse=True)
    if x.shape.dimensions == wide:
        return [Read(Kind.MAP, along(wide, narrow, [(0, 1, d) for d in range(len(narrow))]))]
    return [Read(Kind.REDUCED, identity(wide), wide[-1:])]


def _reduce_precision(instr: Instruction) -> Shape:
    shape = array(instr, 0)
    need_kind(instr, shape.element_type, _FLOAT, 2)
    if instr.attrs["exponent_bits"] < 1 or instr.attrs["mantissa_bits"] < 0:
        raise broken(instr, 3, "exponent_bits must be at least 1 and mantissa_bits at least 0")
    return Shape(shape.element_type, shape.dimensions, None, shape.dynamic)


def _stochastic_convert(instr: Instruction) -> Shape:
    x, random = _pair(instr)
    need_kind(instr, x.element_type, _FLOAT, 2, "operand 0")
    need_kind(instr, random.element_type, ("unsigned",), 3, "operand 1")
    if TYPES[x.element_type].bits != TYPES[random.element_type].bits:
        raise broken(instr, 3, f"{random.element_type} has not as many bits as {x.element_type}")
    return _result(declared(instr).element_type, x, random)


def _iota(instr: Instruction) -> Shape:
    shape = declared(instr)
    dimension(instr, instr.attrs["iota_dimension"], shape.rank, 2, "iota_dimension")
    need_kind(instr, shape.element_type, _NUMBER, 3, "the result")
    return shape


def _constant(instr: Instruction) -> Shape:
    literal = instr.attrs["literal"]
    if literal is None or not same(literal.shape, instr.shape):
        raise broken(
            instr,
            1,
            f"the literal is {'missing' if literal is None else brief(literal.shape)}, the shape {brief(instr.shape)}",
        )
    if literal.elided:
        raise broken(instr, 1, "its values are missing: the text was printed without large constants")
    return instr.shape


_DEAR = ("atan2", "divide", "power", "reduce-precision", "remainder", "round-nearest-afz")
"""Functions that cost about ten operations an element, as those with a result_accuracy do."""


_NARROW = {
    **dict.fromkeys(("select", "real", "imag", "stochastic-convert"), Narrow.MOVED),
    **dict.fromkeys(("convert", "bitcast-convert", "reduce-precision"), Narrow.BITS),
    **dict.fromkeys(("maximum", "minimum", "abs", "negate", "sign", "clamp", "compare", "is-finite"), Narrow.EXACT),
}


_CHLO: dict[str, tuple[str, ...]] = {
    opcode: (f"chlo.{opcode}",) for opcode in "acos acosh asin asinh atan atanh cosh erf mulhi sinh".split()
} | {"tan": ("stablehlo.tan", "chlo.tan")}
"""Functions that StableHLO leaves to the dialect above it."""


def _elementwise(
    opcode: str, arity: int, infer: Callable[[Instruction], Shape], attrs: tuple[Attr, ...] = (), **rest: Any
) -> Op:
    traits: dict[str, Any] = {
        "cost": 10 if opcode in _DEAR or attrs == _ACCURACY else 1,
        "narrow": _NARROW.get(opcode, Narrow.COMPUTED),
    }
    traits["stablehlo"] = _CHLO.get(opcode, ())
    return Op(opcode, (arity, arity), infer, attrs, elementwise=True, **{"reads": pointwise, **traits, **rest})


_EQUAL_SIZES = "The operands are arrays of equal sizes."
_EQUAL_TYPES = "The operands have one element type."

OPS: tuple[Op, ...] = (
    *(
        _elementwise(
            opcode,
            1,
            _unary(kinds, _BECOMES.get(opcode, _same_type)),
            _ACCURACY if accuracy else (),
            doc=doc,
            constraints=("The operand is an array.", f"Its type is {' or '.join(kinds)}."),
        )
        for opcode, (kinds, accuracy, doc) in _UNARY.items()
    ),
    *(
        _elementwise(
            opcode,
            2,
            _binary(kinds),
            doc=doc,
            constraints=(
                _EQUAL_SIZES,
                _EQUAL_TYPES,
                *([] if kinds == _ALL else [f"The type is {' or '.join(kinds)}."]),
            ),
        )
        for opcode, (kinds, doc) in _BINARY.items()
    ),
    *(
        _elementwise(opcode, 2, _shift, doc=doc, constraints=(_EQUAL_SIZES, "Both have integer types."))
        for opcode, doc in _SHIFTS.items()
    ),
    _elementwise(
        "complex",
        2,
        _complex,
        doc="The complex numbers with these real and imaginary parts.",
        constraints=(_EQUAL_SIZES, "Both are f32, giving c64, or both f64, giving c128."),
    ),
    _elementwise(
        "compare",
        2,
        _compare,
        (
            Attr("direction", "comparison_direction", (63,), REQUIRED, "comparison_direction"),
            Attr("type", "comparison_type", (72,), stablehlo="compare_type"),
        ),
        doc="True where the elements compare so; FLOAT makes NaN unordered and -0 equal to 0, TOTALORDER orders all "
        "bit patterns.",
        constraints=(
            _EQUAL_SIZES,
            _EQUAL_TYPES,
            "direction is EQ, NE, GE, GT, LE or LT; for complex numbers EQ or NE.",
            "type is FLOAT or TOTALORDER for floats, FLOAT for complex numbers, SIGNED or UNSIGNED, without effect, "
            "for other types.",
        ),
    ),
    _elementwise(
        "clamp",
        3,
        _clamp,
        doc="The middle operand moved into the bounds, which may be scalars: min(max(x, low), high).",
        constraints=(
            "The operands are arrays of one type.",
            "Each bound is a scalar or has the sizes of the middle operand.",
            "The type is not complex.",
        ),
    ),
    _elementwise(
        "select",
        3,
        _select,
        doc="Elements of the second operand where the first, which may be a scalar, is true, else of the third.",
        constraints=(
            "The operands are arrays.",
            "The first is pred: a scalar or of the sizes of the others.",
            "The others have equal sizes and types.",
        ),
    ),
    _elementwise(
        "convert",
        1,
        _convert,
        doc="Elements in the result's type: floats truncate to integers and saturate, integers wrap.",
        constraints=("Operand and result are arrays.",),
    ),
    _elementwise(
        "bitcast-convert",
        1,
        _bitcast_convert,
        reads=_read_bitcast_convert,
        doc="The bits of the elements, taken as another type; a change of width adds or removes the last dimension.",
        constraints=(
            "Operand and result are arrays.",
            "Both types are complex or neither is.",
            "One type's width is a multiple of the other's.",
            "To become wider, the last dimension is the ratio of the widths.",
        ),
    ),
    _elementwise(
        "reduce-precision",
        1,
        _reduce_precision,
        (Attr("exponent_bits", "int", (18,), REQUIRED), Attr("mantissa_bits", "int", (19,), REQUIRED)),
        doc="Elements rounded to what a float with that many bits of exponent and mantissa can hold.",
        constraints=(
            "The operand is an array.",
            "Its type is float.",
            "exponent_bits is at least 1, mantissa_bits at least 0.",
        ),
    ),
    _elementwise(
        "stochastic-convert",
        2,
        _stochastic_convert,
        doc="Elements converted with random rounding; the second operand holds the random bits.",
        constraints=(_EQUAL_SIZES, "The first is float.", "The second is unsigned, as wide as the first."),
    ),
    Op(
        "iota",
        (0, 0),
        _iota,
        (Attr("iota_dimension", "first_int", (14,), REQUIRED),),
        cost=0,
        doc="Every element is its own index along one dimension.",
        constraints=(
            "The result is an array.",
            "iota_dimension is one of its dimensions.",
            "Its type is a number, not pred.",
        ),
    ),
    Op(
        "constant",
        (0, 0),
        _constant,
        (Attr("literal", "literal", (8,), REQUIRED, text=False),),
        cost=0,
        doc="A value known at compile time.",
        constraints=("The literal has the shape of the result.",),
    ),
)
