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
from ..arrays import DTYPES, TYPES_OF, Array, Value, dtype_of, narrow, wide


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
    if x.dtype.kind in "fc":
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
    if x.dtype.kind in "fc":
        result = np.power(x, y)
        return np.where(y == 0, np.ones_like(result), result) if x.dtype.kind == "c" else result
    result, base, left = np.ones_like(x * y), x.copy(), np.where(y < 0, np.zeros_like(y), y)
    while np.any(left):
        result = np.where(left & 1, result * base, result)
        base, left = base * base, left >> 1
    inverse = np.where(x == 1, 1, np.where(x == np.array(-1).astype(x.dtype), np.where(y & 1, -1, 1), 0)).astype(x.dtype)
    return np.where(y < 0, inverse, result)


def _atan2(y: Array, x: Array) -> Array:
    if y.dtype.kind != "c":
        return np.arctan2(y, x)
    return -1j * np.log((x + 1j * y) / np.sqrt(x * x + y * y))


def _sign(x: Array) -> Array:
    if x.dtype.kind == "c":
        return np.where(x == 0, x, x / np.where(x == 0, 1, np.abs(x)))
    return np.where(x == 0, x, np.sign(x))


def _round_away(x: Array) -> Array:
    whole = np.trunc(x)
    return np.copysign(np.where(np.abs(x - whole) >= 0.5, np.abs(whole) + 1, np.abs(whole)), x)


def _rsqrt(x: Array) -> Array:
    return 1 / np.sqrt(x)


def _cbrt(x: Array) -> Array:
    return np.power(x, 1 / 3) if x.dtype.kind == "c" else np.cbrt(x)


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
    "sqrt": np.sqrt,
    "rsqrt": _rsqrt,
    "cbrt": _cbrt,
    "exponential": np.exp,
    "exponential-minus-one": np.expm1,
    "log": np.log,
    "log-plus-one": np.log1p,
    "sine": np.sin,
    "cosine": np.cos,
    "tan": np.tan,
    "tanh": np.tanh,
    "logistic": _logistic,
    "erf": _erf,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "cosh": np.cosh,
    "sinh": np.sinh,
    "real": np.real,
    "imag": np.imag,
}

BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": divide,
    "remainder": remainder,
    "maximum": maximum,
    "minimum": minimum,
    "power": power,
    "atan2": _atan2,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}

_COMPARE = {"EQ": np.equal, "NE": np.not_equal, "GE": np.greater_equal, "GT": np.greater, "LE": np.less_equal, "LT": np.less}


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
    if x.dtype.kind == "u":  # the top bit of an unsigned element is its sign here
        x = x.view(x.dtype.str.replace("u", "i"))
    return x.astype(np.int64) >> np.where(over, np.uint64(bits - 1), amount).astype(np.int64)


def _mulhi(instr: Instruction, operands: list[Value], call: Any) -> Value:
    x, y = (wide(v).astype(object) for v in operands)
    return np.asarray((x * y) >> _bits(instr)).astype(DTYPES[instr.shape.element_type])


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
    if instr.attrs["type"] == "TOTALORDER" and _is_float(x):
        x, y = total_order_key(x), total_order_key(y)
    return _COMPARE[instr.attrs["direction"]](x, y)


def _clamp(instr: Instruction, operands: list[Value], call: Any) -> Value:
    low, x, high = (wide(v) for v in operands)
    return minimum(maximum(x, low), high)


def _select(instr: Instruction, operands: list[Value], call: Any) -> Value:
    return np.where(*operands)


def _to_integer(x: Array, element_type: str) -> Array:
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
    if kind == "pred":
        return wide(x) != 0
    if source.kind == "complex" and kind != "complex":
        x = x.real
    if kind in ("signed", "unsigned") and source.kind in ("float", "complex"):
        return _to_integer(wide(x), target)
    return wide(x)


def _reduce_precision(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """Round to a float format; too large becomes infinite, below the smallest normal number becomes 0."""
    x = wide(operands[0])
    exponent_bits, mantissa_bits = instr.attrs["exponent_bits"], instr.attrs["mantissa_bits"]
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
    whole = np.where(np.isfinite(x) & (random < np.floor(threshold)), whole + 1, whole)
    return _to_integer(np.copysign(whole, x), instr.shape.element_type)


def _bitcast_convert(instr: Instruction, operands: list[Value], call: Any) -> Value:
    source, target = instr.operands[0].shape, instr.shape
    x = np.ascontiguousarray(narrow(operands[0], source.element_type, False)).reshape(operands[0].shape)
    dtype, ratio = DTYPES[target.element_type], TYPES[target.element_type].bits / TYPES[source.element_type].bits
    if ratio == 1:
        return x.view(dtype)
    if ratio < 1:
        return x[..., None].view(dtype)
    return x.view(dtype)[..., 0]


def _unary(fn: Callable[[Array], Array]) -> Callable[[Instruction, list[Value], Any], Value]:
    return lambda instr, operands, call: fn(wide(operands[0]))


def _binary(fn: Callable[[Array, Array], Array]) -> Callable[[Instruction, list[Value], Any], Value]:
    return lambda instr, operands, call: fn(wide(operands[0]), wide(operands[1]))


def _iota(instr: Instruction, operands: list[Value], call: Any) -> Value:
    dims, dimension = instr.shape.dimensions, instr.attrs["iota_dimension"]
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
    **{opcode: _unary(fn) for opcode, fn in UNARY.items()},
    **{opcode: _binary(fn) for opcode, fn in BINARY.items()},
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
