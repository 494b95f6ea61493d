"""Elementwise operations as loop values: `ELEMENTWISE[opcode](builder, instruction, *operands) -> Val`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...errors import UnsupportedError
from ...hlo.ir import Instruction
from ...hlo.types import TYPES
from ...loop import math
from ...loop.builder import NARROW, Builder, is_float
from ...loop.ir import Val

Lower = Callable[..., Any]
"""Gives a Val; of a complex result its two parts in a list."""


def _plain(name: str) -> Lower:
    def lower(b: Builder, x: Instruction, *operands: Val) -> Val:
        return getattr(b, name)(*operands)

    return lower


def _function(b: Builder, x: Instruction, *operands: Val) -> Val:
    """A transcendental function, by its polynomial for the type."""
    if x.opcode not in math.FUNCTIONS.get(operands[0].dtype, {}):
        raise UnsupportedError(f"{x.where}: {x.opcode} of {operands[0].dtype} is not supported yet")
    if x.marks.fraction:
        return math.log1p_of_fraction(b, *operands)
    return math.function(b, x.opcode, *operands)


def _with_logic(name: str, logic: str) -> Lower:
    """The method of a name, or of predicates the other one."""

    def lower(b: Builder, x: Instruction, a: Val, c: Val) -> Val:
        return getattr(b, logic if a.dtype == "pred" else name)(a, c)

    return lower


def _guarded(b: Builder, a: Val, c: Val) -> tuple[Val, Val]:
    """Returns a mask of zero divisors, and a divisor that traps nowhere: neither there, nor where the quotient
    overflows (INT_MIN / -1)."""
    zero, one = b.const(c.dtype, 0), b.const(c.dtype, 1)
    by_zero = b.eq(c, zero)
    if TYPES[c.dtype].kind == "signed" and c.dtype not in NARROW:
        least = b.const(c.dtype, -(1 << (TYPES[c.dtype].bits - 1)))
        overflow = b.and_(b.eq(a, least), b.eq(c, b.const(c.dtype, -1)))
        return by_zero, b.select(b.or_(by_zero, overflow), one, c)
    return by_zero, b.select(by_zero, one, c)


def _divide(b: Builder, x: Instruction, a: Val, c: Val) -> Val:
    if is_float(a.dtype):
        return b.div(a, c)
    by_zero, divisor = _guarded(b, a, c)
    # INT_MIN / 1 is INT_MIN: what the overflowing quotient wraps to.
    return b.select(by_zero, b.const(a.dtype, -1), b.div(a, divisor))


def _remainder(b: Builder, x: Instruction, a: Val, c: Val) -> Val:
    if is_float(a.dtype):
        return _function(b, x, a, c)
    by_zero, divisor = _guarded(b, a, c)
    return b.select(by_zero, a, b.rem(a, divisor))


def _power(b: Builder, x: Instruction, a: Val, c: Val) -> Val:
    if is_float(a.dtype):
        return _function(b, x, a, c)
    # Square and multiply over every bit of the exponent; a negative exponent leaves only the bases 1 and -1.
    dtype, zero, one = a.dtype, b.const(a.dtype, 0), b.const(a.dtype, 1)
    result, base = one, a
    bits = TYPES[dtype].bits
    for k in range(bits):
        bit = b.ne(b.and_(c, b.bits(dtype, 1 << k)), zero)
        result = b.select(bit, b.mul(result, base), result)
        if k < bits - 1:
            base = b.mul(base, base)
    if TYPES[dtype].kind == "signed":
        minus = b.const(dtype, -1)
        odd = b.ne(b.and_(c, one), zero)
        unit = b.select(b.eq(a, minus), b.select(odd, minus, one), b.select(b.eq(a, one), one, zero))
        result = b.select(b.lt(c, zero), unit, result)
    return result


def _shift(op: str) -> Lower:
    def lower(b: Builder, x: Instruction, a: Val, c: Val) -> Val:
        bits = TYPES[a.dtype].bits
        unsigned = f"u{bits}"
        amount = b.convert(c, unsigned)
        inside = b.lt(amount, b.const(unsigned, bits))
        if op == "shr_s":
            limited = b.select(inside, amount, b.const(unsigned, bits - 1))
            if a.dtype in NARROW:
                # The sign is the highest bit, of unsigned types too.
                signed = f"s{bits}"
                return b.convert(b.shr_s(b.convert(a, signed), limited), a.dtype)
            return b.shr_s(a, limited)
        limited = b.select(inside, amount, b.const(unsigned, 0))
        shifted = b.shl(a, limited) if op == "shl" else b.shr_u(a, limited)
        return b.select(inside, shifted, b.const(a.dtype, 0))

    return lower


def twos_complement(b: Builder, word: Val, sign: Val) -> Val:
    """The bits of a float in two's complement instead of sign and magnitude, where `sign` is that of a negative one;
    and back. The order of these integers is the total order of the floats."""
    bits = TYPES[word.dtype].bits
    return b.xor(word, b.and_(b.shr_s(sign, bits - 1), b.bits(word.dtype, (1 << (bits - 1)) - 1)))


def _compare(b: Builder, x: Instruction, a: Val, c: Val) -> Val:
    if x.attrs.get("type") == "TOTALORDER":
        words = (b.bitcast(v, f"s{TYPES[v.dtype].bits}") for v in (a, c))
        a, c = (twos_complement(b, word, word) for word in words)
    return getattr(b, x.attrs["direction"].lower())(a, c)


def _bitcast_convert(b: Builder, x: Instruction, a: Val) -> Val:
    # Only a pred is not what its register says: in lanes it is a mask.
    target = x.shape.element_type
    return b.convert(a, target) if "pred" in (a.dtype, target) else b.bitcast(a, target)


def _sign(b: Builder, x: Instruction, a: Val) -> Val:
    if is_float(a.dtype):
        one = b.copysign(b.const(a.dtype, 1), a)
        # 0, -0 and NaN are their own sign.
        return b.select(b.gt(b.abs(a), b.const(a.dtype, 0)), one, a)
    zero = b.const(a.dtype, 0)
    positive = b.select(b.gt(a, zero), b.const(a.dtype, 1), zero)
    return positive if TYPES[a.dtype].kind == "unsigned" else b.select(b.lt(a, zero), b.const(a.dtype, -1), positive)


def _is_finite(b: Builder, x: Instruction, a: Val) -> Val:
    infinity = b.bits(a.dtype, 0x7F800000 if a.dtype == "f32" else 0x7FF0000000000000)
    return b.lt(b.abs(a), infinity)


def _bit_count(op: str) -> Lower:
    def lower(b: Builder, x: Instruction, a: Val) -> Val:
        bits = TYPES[a.dtype].bits
        if a.dtype in NARROW:
            wide = b.and_(b.bitcast(a, "u32"), b.bits("u32", (1 << bits) - 1))
            count = getattr(b, op)(wide)
            count = b.sub(count, b.const("u32", 32 - bits)) if op == "clz" else count
            return b.bitcast(count, a.dtype)  # wrapped: two set bits of an s2 are -2
        return getattr(b, op)(a)

    return lower


def _reduce_precision(b: Builder, x: Instruction, a: Val) -> Val:
    """Works on the bits, of subnormals too: they are rounded at the same place as others, unless all of them become
    0."""
    exponent, mantissa = x.attrs["exponent_bits"], x.attrs["mantissa_bits"]
    bits = TYPES[a.dtype].bits
    format_ = TYPES[a.dtype].format
    assert format_
    own, own_exponent = format_.mantissa_bits, format_.exponent_bits
    signed = "s64" if bits == 64 else "s32"
    word = b.bitcast(a, signed)
    sign = b.and_(word, b.bits(signed, 1 << (bits - 1)))
    magnitude = b.andnot(word, b.bits(signed, 1 << (bits - 1)))
    if mantissa < own:
        drop = own - mantissa
        odd = b.and_(b.shr_u(magnitude, drop), b.const(signed, 1))
        magnitude = b.add(magnitude, b.add(odd, b.const(signed, (1 << (drop - 1)) - 1)))
        magnitude = b.and_(magnitude, b.bits(signed, ((1 << bits) - 1) & ~((1 << drop) - 1)))
    if exponent < own_exponent:
        bias, own_bias = (1 << (exponent - 1)) - 1, (1 << (own_exponent - 1)) - 1
        largest = ((own_bias + bias) << own) | (((1 << own) - 1) & ~((1 << (own - min(mantissa, own))) - 1))
        smallest = (own_bias - bias + 1) << own
        infinity = ((1 << own_exponent) - 1) << own
        magnitude = b.select(b.gt(magnitude, b.bits(signed, largest)), b.bits(signed, infinity), magnitude)
        magnitude = b.select(b.lt(magnitude, b.bits(signed, smallest)), b.const(signed, 0), magnitude)
    rounded = b.bitcast(b.or_(sign, magnitude), a.dtype)
    nan = b.gt(b.andnot(word, b.bits(signed, 1 << (bits - 1))), b.bits(signed, ((1 << own_exponent) - 1) << own))
    return b.select(nan, a, rounded)


def _mulhi(b: Builder, x: Instruction, a: Val, c: Val) -> Val:
    """The high half of the product, from four products of half-width digits."""
    dtype, bits = a.dtype, TYPES[a.dtype].bits
    if dtype in NARROW:
        wide = b.mul(b.convert(a, "s32"), b.convert(c, "s32"))
        return b.convert(b.shr_s(wide, bits) if dtype[0] == "s" else b.shr_u(b.bitcast(wide, "u32"), bits), dtype)
    if dtype == "u32":
        return b.mulhi(a, c)
    unsigned, half = f"u{bits}", bits // 2
    p, q = b.bitcast(a, unsigned), b.bitcast(c, unsigned)
    mask = b.const(unsigned, (1 << half) - 1)
    p0, p1, q0, q1 = b.and_(p, mask), b.shr_u(p, half), b.and_(q, mask), b.shr_u(q, half)
    middle = b.add(b.mul(p1, q0), b.shr_u(b.mul(p0, q0), half))
    carry = b.add(b.mul(p0, q1), b.and_(middle, mask))
    high = b.add(b.add(b.mul(p1, q1), b.shr_u(middle, half)), b.shr_u(carry, half))
    if dtype[0] == "s":
        zero = b.const(unsigned, 0)
        high = b.sub(high, b.select(b.lt(a, b.const(dtype, 0)), q, zero))
        high = b.sub(high, b.select(b.lt(c, b.const(dtype, 0)), p, zero))
    return b.bitcast(high, dtype)


ELEMENTWISE: dict[str, Lower] = {
    **dict.fromkeys((*math.FUNCTIONS["f32"], *math.FUNCTIONS["f64"]), _function),
    "abs": _plain("abs"),
    "negate": _plain("neg"),
    "sign": _sign,
    "not": _plain("not_"),
    "is-finite": _is_finite,
    "popcnt": _bit_count("popcnt"),
    "count-leading-zeros": _bit_count("clz"),
    "ceil": _plain("ceil"),
    "floor": _plain("floor"),
    "round-nearest-even": _plain("nearest"),
    "sqrt": _plain("sqrt"),
    "convert": lambda b, x, a: b.convert(a, x.shape.element_type),
    "bitcast-convert": _bitcast_convert,
    "copy": lambda b, x, a: a,
    "reduce-precision": _reduce_precision,
    "real": lambda b, x, a: a[0] if isinstance(a, list) else a,
    "imag": lambda b, x, a: a[1] if isinstance(a, list) else b.const(a.dtype, 0),
    "complex": lambda b, x, re, im: [re, im],
    "add": _with_logic("add", "or_"),
    "subtract": _plain("sub"),
    "multiply": _with_logic("mul", "and_"),
    "divide": _divide,
    "remainder": _remainder,
    "power": _power,
    "maximum": _with_logic("max", "or_"),
    "minimum": _with_logic("min", "and_"),
    "and": _plain("and_"),
    "or": _plain("or_"),
    "xor": _plain("xor"),
    "mulhi": _mulhi,
    "shift-left": _shift("shl"),
    "shift-right-logical": _shift("shr_u"),
    "shift-right-arithmetic": _shift("shr_s"),
    "compare": _compare,
    "clamp": lambda b, x, low, a, high: b.min(b.max(a, low), high),
    "select": _plain("select"),
}
