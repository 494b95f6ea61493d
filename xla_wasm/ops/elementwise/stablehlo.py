"""Constants, ramps, and the functions of the dialect CHLO that are short in other operations."""

from __future__ import annotations

from functools import partial
from math import inf

from ...errors import ParseError
from ...hlo.ir import Instruction
from ...hlo.literal import Literal
from ...hlo.shape import Shape
from ...mlir.elements import element_bits, hlo_type, unpacked
from ...mlir.tree import Dense, Number, Op, Tensor
from ...mlir.values import integer, where, word
from ..movement.stablehlo import broadcast_in_dim
from ..stablehlo import Mapper, Rule
from .stablehlo_special import SPECIAL


def _constant(e: Mapper, op: Op, _: list[Instruction]) -> list[Instruction]:
    value = op.attributes.get("value")
    if not isinstance(value, Dense):
        raise ParseError(f"{where(op)}: its value must be a tensor of numbers, not {type(value).__name__}")
    shape = e.declared(value.type)
    if shape is None or shape != e.need_shape(op):
        raise ParseError(f"{where(op)}: its value is not of its type")
    data = unpacked(value.data, value.type.element) if element_bits(value.type.element) < 8 else value.data
    scalar = Shape(shape.element_type)
    if len(data) != (scalar.bytes if value.is_splat else shape.bytes):
        raise ParseError(f"{where(op)}: a constant of {shape} has {len(data)} bytes")
    if value.is_splat:
        one = e.op("constant", shape=scalar, literal=Literal(scalar, data))
        return [e.op("broadcast", one, shape=shape, dimensions=())]
    return [e.op("constant", shape=shape, literal=Literal(shape, data))]


def _constant_like(e: Mapper, op: Op, operands: list[Instruction]) -> list[Instruction]:
    value, (like,) = op.attributes.get("value"), operands
    if not isinstance(value, Number):
        raise ParseError(f"{where(op)}: its value must be a number, not {type(value).__name__}")
    return [e.full(like.shape.element_type, like.shape.dimensions, value.value)]


def _dynamic_iota(e: Mapper, op: Op, operands: list[Instruction]) -> list[Instruction]:
    shape = e.sized(op, operands[0])
    made = e.op(
        "iota", shape=shape.with_dimensions(shape.dimensions), iota_dimension=integer(op.attributes["iota_dimension"])
    )
    return [e.with_sizes(made, shape, operands[0])]


def _square(e: Mapper, _: Op, operands: list[Instruction]) -> list[Instruction]:
    """The product of a number with itself; of a complex one without two infinite squares whose difference is NaN."""
    (z,) = operands
    if z.shape.element_type not in ("c64", "c128"):
        return [e.mul(z, z)]
    x, y = e.op("real", z), e.op("imag", z)
    product = e.mul(x, y)
    equal = e.op("and", e.compare("EQ", e.unary("abs", x), e.unary("abs", y)), e.unary("is-finite", x))
    re = e.select(equal, e.sub(x, x), e.mul(e.sub(x, y), e.add(x, y)))
    return [e.op("complex", re, e.add(product, product))]


def _conj(e: Mapper, _: Op, operands: list[Instruction]) -> list[Instruction]:
    (x,) = operands
    if x.shape.element_type not in ("c64", "c128"):
        return [x]
    return [e.op("complex", e.op("real", x), e.op("negate", e.op("imag", x)))]


def _limit(e: Mapper, _: Op, operands: list[Instruction], direction: str) -> list[Instruction]:
    """The greater or the less of two complex numbers: by their real parts, and where these are equal by the others."""
    x, y = operands
    (a, b), (c, d) = [[e.op(part, z) for part in ("real", "imag")] for z in (x, y)]
    chosen = e.select(e.compare("EQ", a, c), e.compare(direction, b, d), e.compare(direction, a, c))
    return [e.select(chosen, x, y)]


def _cbrt(e: Mapper, _: Op, operands: list[Instruction]) -> list[Instruction]:
    """The principal cubic root of a complex number: that of its size, at a third of its angle."""
    (x,) = operands
    size = e.unary("cbrt", e.unary("abs", x))
    angle = e.div(e.op("atan2", e.op("imag", x), e.op("real", x)), 3.0)
    return [e.op("complex", e.mul(size, e.unary("cosine", angle)), e.mul(size, e.unary("sine", angle)))]


def _bitcast_convert(e: Mapper, op: Op, operands: list[Instruction]) -> list[Instruction]:
    """The bits as another type. A boolean is one bit, among others as much as alone."""
    (x,), kind = operands, op.results[0].type
    name = (hlo_type(kind.element) if isinstance(kind, Tensor) else None) or ""
    bits = ["u1" if n == "pred" else n for n in (x.shape.element_type, name)]
    if x.shape.element_type == name:
        bits = [name, name]
    shape = e.result_shape(op)
    made = e.op(
        "bitcast-convert",
        e.convert(x, bits[0]),
        shape=None if shape is None else shape.with_element_type(bits[1]),
        dtype=bits[1],
    )
    return [e.convert(made, name)]


def _is_infinite(e: Mapper, _: Op, operands: list[Instruction], sign: int) -> list[Instruction]:
    x = operands[0] if sign else e.op("abs", operands[0])
    return [e.compare("EQ", x, inf if sign >= 0 else -inf)]


def _next_after(e: Mapper, _: Op, operands: list[Instruction]) -> list[Instruction]:
    """The neighbour of x toward y: the bits of x as an integer, one up or down."""
    x, y = operands
    bits = e.op("bitcast-convert", x, shape=x.shape.with_element_type(f"s{8 * Shape(x.shape.element_type).bytes}"))
    kind, dims = bits.shape.element_type, x.shape.dimensions
    width = 8 * Shape(kind).bytes
    sign_bit = e.full(kind, dims, -(1 << (width - 1)))
    y_bits = e.op("bitcast-convert", y, shape=bits.shape)
    sign = e.op("and", bits, sign_bit)
    magnitude, other = (e.op("and", v, e.op("not", sign_bit)) for v in (bits, y_bits))
    signs_differ = e.compare("NE", sign, e.op("and", y_bits, sign_bit))
    down = e.op("or", signs_differ, e.compare("GT", magnitude, other))
    step = e.op("add", bits, e.op("select", down, e.full(kind, dims, -1), e.full(kind, dims, 1)))
    smallest = e.op("or", e.op("and", y_bits, sign_bit), e.full(kind, dims, 1))
    zero = e.full(kind, dims, 0)
    moved = e.op("select", e.compare("EQ", magnitude, zero), smallest, step)
    moved = e.op("select", e.compare("EQ", x, y), y_bits, moved)
    value = e.op("bitcast-convert", moved, shape=x.shape)
    nan = e.op("or", e.compare("NE", x, x), e.compare("NE", y, y))
    return [e.op("select", nan, e.op("add", x, y), value)]


def _broadcast_binary(e: Mapper, op: Op, operands: list[Instruction], opcode: str) -> list[Instruction]:
    """An elementwise operation whose operands are brought to one shape first."""
    shape = e.result_shape(op)
    dims = _joined([o.shape.dimensions for o in operands]) if shape is None else shape.dimensions
    spread = [broadcast_in_dim(e, o, tuple(range(len(dims) - o.shape.rank, len(dims))), dims) for o in operands]
    if opcode == "compare":
        kind = op.attributes.get("compare_type", "NOTYPE")
        return [
            e.op(
                opcode,
                *spread,
                direction=word(op.attributes["comparison_direction"]),
                type="" if kind == "NOTYPE" else word(kind),
            )
        ]
    return [e.op(opcode, *spread)]


def _joined(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """The sizes to which arrays are spread: from the last dimension on the one that is not 1."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(dims)) + dims for dims in shapes]
    return tuple([next((size for size in sizes if size != 1), 1) for sizes in zip(*padded)])


_BROADCAST = {
    f"chlo.broadcast_{opcode.replace('-', '_')}": opcode
    for opcode in "add and atan2 compare complex divide maximum minimum multiply or power remainder select shift-left "
    "shift-right-arithmetic shift-right-logical subtract xor".split()
}

STABLEHLO: dict[str, Rule] = {
    "stablehlo.constant": _constant,
    "chlo.constant": _constant,
    "sdy.constant": _constant,
    "chlo.constant_like": _constant_like,
    "stablehlo.dynamic_iota": _dynamic_iota,
    "stablehlo.bitcast_convert": _bitcast_convert,
    "chlo.square": _square,
    "chlo.conj": _conj,
    "chlo.is_inf": partial(_is_infinite, sign=0),
    "chlo.is_pos_inf": partial(_is_infinite, sign=1),
    "chlo.is_neg_inf": partial(_is_infinite, sign=-1),
    "chlo.next_after": _next_after,
    **SPECIAL,
    **{name: partial(_broadcast_binary, opcode=opcode) for name, opcode in _BROADCAST.items()},
}
"""Rules for operations that are more than one instruction."""

COMPLEX: dict[str, Rule] = {
    "stablehlo.maximum": partial(_limit, direction="GT"),
    "stablehlo.minimum": partial(_limit, direction="LT"),
    "stablehlo.cbrt": _cbrt,
}
"""Rules for complex numbers, where HLO has the operation for others."""
