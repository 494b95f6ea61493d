"""NumPy semantics of elementwise operations.

Functions get their operands widened (`arrays.wide`), compute there, and the evaluator rounds the result once.
They broadcast as NumPy does, so that a scalar computation can be evaluated over many lanes at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...hlo.ir import Instruction
from ...hlo.types import TYPES
from ..dtypes import DTYPES, TYPES_OF, Array, Value, dtype_of, narrow, wide
from . import reference_complex as complex_reference


def _is_float(x: Array) -> bool:
    return x.dtype.kind == "f"


def maximum(x: Array, y: Array) -> Array:
    """The greater; NaN if either is; +0 is greater than -0."""
    result = np.maximum(x, y)
    return np.where((x == 0) & (y == 0), x + y, result) if _is_float(result) else result


def minimum(x: Array, y: Array) -> Array:
    """The lesser; NaN if either is; -0 is less than +0."""
    result = np.minimum(x, y)
    return np.where((x == 0) & (y == 0), -(-x - y), result) if _is_float(result) else result


def divide(x: Array, y: Array) -> Array:
    """IEEE division, or integer division toward zero; by 0 the quotient is all ones; INT_MIN / -1 wraps."""
    if x.dtype.kind == "f":
        return np.divide(x, y)
    ones = np.array(-1).astype(x.dtype)
    safe = np.where((y == 0) | (y == ones), np.ones_like(y), y)
    quotient = (x - np.fmod(x, safe)) // safe
    if x.dtype.kind == "i":
        quotient = np.where(y == -1, np.negative(x), quotient)
    else:
        quotient = np.where(y == ones, (x == ones).astype(x.dtype), quotient)
    return np.where(y == 0, ones, quotient)


def remainder(x: Array, y: Array) -> Array:
    """The remainder with the sign of the dividend; of an integer by 0, the dividend."""
    if _is_float(x):
        return np.fmod(x, y)
    unit = (y == 0) | (y == -1) if x.dtype.kind == "i" else y == 0
    return np.where(y == 0, x, np.fmod(x, np.where(unit, np.ones_like(y), y)))


def power(x: Array, y: Array) -> Array:
    """C's pow, or the wrapping integer power, 0 where a negative exponent makes a fraction."""
    if x.dtype.kind == "f":
        return np.power(x, y)
    result, base, left = np.ones_like(x * y), x.copy(), np.where(y < 0, np.zeros_like(y), y)
    while np.any(left):
        result = np.where(left & 1, result * base, result)
        base, left = base * base, left >> 1
    inverse = np.where(x == 1, 1, np.where(x == np.array(-1).astype(x.dtype), np.where(y & 1, -1, 1), 0)).astype(
        x.dtype
    )
    return np.where(y < 0, inverse, result)


def _sign(x: Array) -> Array:
    return np.where(x == 0, x, np.sign(x))


def _round_away(x: Array) -> Array:
    whole = np.trunc(x)
    return np.copysign(np.where(np.abs(x - whole) >= 0.5, np.abs(whole) + 1, np.abs(whole)), x)


def _rsqrt(x: Array) -> Array:
    return 1 / np.sqrt(x)


def _logistic(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


_erf = np.vectorize(math.erf, otypes=[np.float64])

UNARY: dict[str, Callable[[Array], Array]] = {
    "abs": np.abs,
    "negate": np.negative,
    "sign": _sign,
    "not": np.invert,
    "is-finite": np.isfinite,
    "ceil": np.ceil,
    "floor": np.floor,
    "round-nearest-afz": _round_away,
    "round-nearest-even": np.rint,
    "exponential": np.exp,
    "exponential-minus-one": np.expm1,
    "log": np.log,
    "log-plus-one": np.log1p,
    "logistic": _logistic,
    "tanh": np.tanh,
    "erf": _erf,
    "sine": np.sin,
    "cosine": np.cos,
    "tan": np.tan,
    "sqrt": np.sqrt,
    "rsqrt": _rsqrt,
    "cbrt": np.cbrt,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "real": np.real,
    "imag": np.imag,
}

BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "power": power,
    "atan2": np.arctan2,
    "remainder": remainder,
    "divide": divide,
    "maximum": maximum,
    "minimum": minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}

_COMPARE = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "GE": np.greater_equal,
    "GT": np.greater,
    "LE": np.less_equal,
    "LT": np.less,
}


def _bits(instr: Instruction) -> int:
    return TYPES[instr.operands[0].shape.element_type].bits


def _unsigned(x: Array, bits: int) -> Array:
    """The `bits` low bits of each element, as an unsigned integer."""
    return x.astype(np.uint64) & np.uint64((1 << bits) - 1)


def _popcnt(instr: Instruction, operands: list[Value], call: Any) -> Value:
    return np.bitwise_count(_unsigned(wide(operands[0]), _bits(instr)))


def _clz(instr: Instruction, operands: list[Value], call: Any) -> Value:
    bits = _bits(instr)
    x = _unsigned(wide(operands[0]), bits)
    for shift in (1, 2, 4, 8, 16, 32):
        x = x | (x >> np.uint64(shift))
    return bits - np.bitwise_count(x).astype(np.int64)


def _shift(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """Shifts; the amount is unsigned, and one of the width or more leaves 0 or only sign bits."""
    bits = _bits(instr)
    x = wide(operands[0])
    amount = _unsigned(wide(operands[1]), bits)
    over = amount >= bits
    inside = np.where(over, np.uint64(0), amount)
    if instr.opcode == "shift-left":
        return np.where(over, np.uint64(0), _unsigned(x, bits) << inside)
    if instr.opcode == "shift-right-logical":
        return np.where(over, np.uint64(0), _unsigned(x, bits) >> inside)
    # the top bit of an unsigned element is its sign here
    signed = (_unsigned(x, bits) << np.uint64(64 - bits)).astype(np.int64) >> np.int64(64 - bits)
    return signed >> np.where(over, np.uint64(bits - 1), amount).astype(np.int64)


def _mulhi(instr: Instruction, operands: list[Value], call: Any) -> Value:
    bits = _bits(instr)
    x, y = (wide(v).astype(np.int64 if bits <= 32 else object) for v in operands)
    product = x * y if bits < 32 or TYPES[instr.shape.element_type].kind == "signed" else x.astype(object) * y
    return np.asarray(np.asarray(product >> bits), wide(operands[0]).dtype)


def _complex(instr: Instruction, operands: list[Value], call: Any) -> Value:
    re, im = np.broadcast_arrays(*(wide(v) for v in operands))
    result = np.empty(re.shape, np.complex128)
    result.real, result.imag = re, im
    return result


def total_order_key(x: Array) -> Array:
    """Integers ordered as TOTALORDER orders `x`: -NaN, -inf, ..., -0, +0, ..., inf, NaN."""
    x = np.asarray(wide(x), np.float64)
    bits = x.view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)


def _compare(instr: Instruction, operands: list[Value], call: Any) -> Value:
    x, y = (wide(v) for v in operands)
    if instr.attrs.get("type") == "TOTALORDER" and _is_float(x):
        x, y = total_order_key(x), total_order_key(y)
    return _COMPARE[instr.attrs["direction"]](x, y)


def _clamp(instr: Instruction, operands: list[Value], call: Any) -> Value:
    low, x, high = (wide(v) for v in operands)
    return minimum(maximum(x, low), high)


def _select(instr: Instruction, operands: list[Value], call: Any) -> Value:
    return np.where(*operands)


def to_integer(x: Array, element_type: str) -> Array:
    """Truncate toward zero, then saturate; NaN becomes 0."""
    type_ = TYPES[element_type]
    low, high = (-(1 << (type_.bits - 1)), 1 << (type_.bits - 1)) if type_.kind == "signed" else (0, 1 << type_.bits)
    whole = np.trunc(x)
    inside = (whole >= low) & (whole < high)
    holder = np.int64 if type_.kind == "signed" else np.uint64
    result = np.where(inside, whole, 0).astype(holder)
    result = np.where(whole >= high, holder(high - 1), result)
    return np.where(whole < low, holder(low), result)


def _convert(instr: Instruction, operands: list[Value], call: Any) -> Value:
    x, target = operands[0], instr.shape.element_type
    source, kind = TYPES_OF[x.dtype], TYPES[target].kind
    if source.kind == "complex" and kind != "complex":
        x = x.real
    if kind == "pred":
        return wide(x) != 0
    if kind in ("signed", "unsigned") and source.kind in ("float", "complex"):
        return to_integer(wide(x), target)
    if x.dtype == np.float64 and target != "bf16" and dtype_of(target, call.precise).itemsize <= 2:
        return _odd(x)
    return wide(x)


def _odd(x: Array) -> Array:
    """f64 as f32 that can be rounded again as if it were `x`: toward zero, its last bit set where bits were lost."""
    near = x.astype(np.float32)
    word = np.atleast_1d(near).view(np.int32).reshape(x.shape)
    word = word - (np.abs(near.astype(np.float64)) > np.abs(x))
    odd = (word | (near != x)).astype(np.int32).view(np.float32)
    return np.where(np.isnan(x) | (near == x), near, odd)


def _reduce_precision(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """Round to a float format; too large becomes infinite, below the smallest normal number becomes 0.

    XLA rounds the bits: subnormals, if the format has no fewer bits of exponent and so keeps them, at the same place as
    others.
    """
    x, element_type = operands[0], instr.shape.element_type
    exponent_bits, mantissa_bits = instr.attrs["exponent_bits"], instr.attrs["mantissa_bits"]
    if TYPES[element_type].bits < 16:
        element_type = "f32" if element_type == "f8e8m0fnu" else "f16"
        x = narrow(wide(x), element_type, False)
    format_ = TYPES[element_type].format
    assert format_
    own_mantissa, own_exponent = format_.mantissa_bits, format_.exponent_bits
    if exponent_bits < own_exponent or x.dtype != DTYPES[element_type]:
        return _reduced(wide(x), exponent_bits, mantissa_bits)
    drop = own_mantissa - mantissa_bits
    if drop <= 0:
        return x
    word = np.atleast_1d(x).view(f"u{x.dtype.itemsize}").reshape(x.shape).astype(np.uint64)
    rounded = word + ((np.uint64(1) << np.uint64(drop - 1)) - np.uint64(1)) + ((word >> np.uint64(drop)) & np.uint64(1))
    rounded = rounded >> np.uint64(drop) << np.uint64(drop)
    result = np.atleast_1d(rounded.astype(f"u{x.dtype.itemsize}")).view(x.dtype).reshape(x.shape)
    return np.where(np.isfinite(wide(x)), result, x)


def _reduced(x: Array, exponent_bits: int, mantissa_bits: int) -> Array:
    bias = (1 << (exponent_bits - 1)) - 1
    fraction, exponent = np.frexp(x)
    steps = np.rint(np.ldexp(fraction, mantissa_bits + 1))
    if mantissa_bits == 0:
        # The last bit that stays is the exponent's: halfway, an even exponent field (its bias is odd) stays.
        steps = np.where((np.abs(fraction) == 0.75) & (exponent % 2 == 0), np.sign(fraction), steps)
    rounded = np.ldexp(steps, exponent - mantissa_bits - 1)
    # f64's own range is as wide as any format's
    if bias < 1023:
        rounded = np.where(np.abs(rounded) >= 2.0 ** (bias + 1), np.copysign(np.inf, x), rounded)
        rounded = np.where(np.abs(rounded) < 2.0 ** (1 - bias), np.copysign(0.0, x), rounded)
    return np.where(np.isfinite(x), rounded, x)


def _stochastic_convert(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """Round toward or away from zero, away when the random bits are below the fraction."""
    x, random = wide(operands[0]), wide(operands[1])
    whole = np.trunc(np.abs(x))
    threshold = np.ldexp(np.abs(x) - whole, _bits(instr))
    threshold = np.where(np.isfinite(x), threshold, 0).astype(np.uint64)
    whole = np.where(random < threshold, whole + 1, whole)
    return to_integer(np.copysign(whole, x), instr.shape.element_type)


def _bitcast_convert(instr: Instruction, operands: list[Value], call: Any) -> Value:
    source, target = instr.operands[0].shape, instr.shape
    widths = [TYPES[s.element_type].bits for s in (source, target)]
    if widths[0] != widths[1] and min(widths) < 8:
        return _repacked(operands[0], target.element_type, widths)
    x = np.ascontiguousarray(narrow(operands[0], source.element_type, False)).reshape(operands[0].shape)
    dtype, ratio = DTYPES[target.element_type], TYPES[target.element_type].bits / TYPES[source.element_type].bits
    if ratio == 1:
        return x.view(dtype)
    if ratio < 1:
        return x[..., None].view(dtype)
    return x.view(dtype)[..., 0]


def _repacked(x: Array, element_type: str, widths: list[int]) -> Array:
    """The bits of elements, of which each takes whole bytes, cut anew; the first are the lowest."""
    codes = np.ascontiguousarray(x)[..., None].view(np.uint8)
    bits = np.unpackbits(codes, axis=-1, bitorder="little", count=widths[0])
    if widths[0] > widths[1]:
        bits = bits.reshape(*x.shape, -1, widths[1])
    else:
        bits = bits.reshape(*x.shape[:-1], widths[1])
    if widths[1] < 8 and TYPES[element_type].kind == "signed":
        bits = np.concatenate([bits, np.repeat(bits[..., -1:], 8 - widths[1], -1)], -1)
    return np.packbits(bits, axis=-1, bitorder="little").view(DTYPES[element_type])[..., 0]


def _function(
    fn: Callable[..., Array], of_complex: Callable[..., Array] | None
) -> Callable[[Instruction, list[Value], Any], Value]:
    def run(instr: Instruction, operands: list[Value], call: Any) -> Value:
        values = [wide(v) for v in operands]
        return of_complex(*values) if of_complex is not None and values[0].dtype.kind == "c" else fn(*values)

    return run


def _iota(instr: Instruction, operands: list[Value], call: Any) -> Value:
    dims, dimension = instr.shape.dimensions, instr.attrs["iota_dimension"]
    if 0 in dims:
        return np.zeros(dims, np.int64)
    index = np.arange(dims[dimension]).reshape([-1 if d == dimension else 1 for d in range(len(dims))])
    return np.broadcast_to(index, dims)


def _constant(instr: Instruction, operands: list[Value], call: Any) -> Value:
    return literal_value(instr.attrs["literal"], call.precise)


def literal_value(literal: Any, precise: bool) -> Value:
    """The array (or tuple) that a Literal holds."""
    if literal.shape.is_tuple:
        return tuple(literal_value(element, precise) for element in literal.elements)
    dtype, dims = DTYPES[literal.shape.element_type], literal.shape.dimensions
    x = np.frombuffer(bytes(literal.row_major()), dtype).reshape(dims)
    return x.astype(dtype_of(literal.shape.element_type, precise))


EVALUATE: dict[str, Callable[[Instruction, list[Value], Any], Value]] = {
    **{opcode: _function(fn, complex_reference.UNARY.get(opcode)) for opcode, fn in UNARY.items()},
    **{opcode: _function(fn, complex_reference.BINARY.get(opcode)) for opcode, fn in BINARY.items()},
    "popcnt": _popcnt,
    "count-leading-zeros": _clz,
    "shift-left": _shift,
    "shift-right-arithmetic": _shift,
    "shift-right-logical": _shift,
    "mulhi": _mulhi,
    "complex": _complex,
    "compare": _compare,
    "clamp": _clamp,
    "select": _select,
    "convert": _convert,
    "reduce-precision": _reduce_precision,
    "stochastic-convert": _stochastic_convert,
    "bitcast-convert": _bitcast_convert,
    "iota": _iota,
    "constant": _constant,
}


LANEWISE = tuple(EVALUATE)
