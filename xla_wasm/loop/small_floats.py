"""Floats of at most 16 bits: raw bits in 32-bit registers and lanes, turned into f32 and back by integer operations.

No value here is ever a subnormal f32, except those of bf16 and f8e8m0fnu: processors are slow with subnormals.
"""

from __future__ import annotations

import struct
from math import isnan
from typing import TYPE_CHECKING

from ..hlo import float_codes
from ..hlo.types import TYPES, FloatFormat
from .ir import Val

if TYPE_CHECKING:
    from .arithmetic import Arithmetic

_INFINITY = 0x7F800000


def decode(dtype: str, code: int) -> float:
    """The value of a code."""
    if dtype == "f16":
        return float(struct.unpack("<e", code.to_bytes(2, "little"))[0])
    if dtype == "bf16":
        return float(struct.unpack("<f", (code << 16).to_bytes(4, "little"))[0])
    table = float_codes.values(dtype)
    return table[code & len(table) - 1]


def encode(dtype: str, number: float) -> int:
    """The code nearest to a number, ties to even; bf16 rounds to f32 first."""
    if dtype not in ("f16", "bf16"):
        return float_codes.encode(dtype, number)
    form, infinity = ("<e", 0x7C00) if dtype == "f16" else ("<f", _INFINITY)
    try:
        word = int.from_bytes(struct.pack(form, number), "little")
    except OverflowError:
        word = infinity if number > 0 else infinity | 1 << TYPES[dtype].bits - 1
    if dtype == "f16":
        return word
    return (word | 0x400000 if isnan(number) else word + 0x7FFF + (word >> 16 & 1)) >> 16


def _format(dtype: str) -> FloatFormat:
    format_ = TYPES[dtype].format
    assert format_
    return format_


def to_pred(b: Arithmetic, x: Val) -> Val:
    """Returns a condition that is true if a value is other than 0."""
    if x.dtype == "f8e8m0fnu":
        return b.const("pred", True)
    bits = TYPES[x.dtype].bits
    signed = _format(x.dtype).special != "no negative zero"
    return b.ne(b.and_(b.word(x), b.const("s32", (1 << bits - signed) - 1)), b.const("s32", 0))


# --- to f32 ---------------------------------------------------------------------------------------------------------


def to_f32(b: Arithmetic, x: Val) -> Val:
    """The value as f32, exactly."""
    if x.op == "const":
        return b.const("f32", decode(x.dtype, x.imm))
    if x.dtype == "bf16":
        return _from_bf16(b, x)
    if x.dtype == "f8e8m0fnu":
        return _from_powers(b, x)
    if x in b.narrowed:
        return _rounded(b, b.narrowed[x], x.dtype)
    exponent_bits, mantissa_bits, bias, special = _format(x.dtype)
    word = b.word(x)
    half = 1 << exponent_bits + mantissa_bits
    ones = (1 << exponent_bits) - 1
    magnitude = b.and_(word, b.const("s32", half - 1))
    shifted = b.shl(magnitude, 23 - mantissa_bits)
    if special == "ieee":
        # An exponent of all ones becomes one; the product then corrects all others and leaves infinities and NaNs.
        raised = b.bitcast(b.add(shifted, b.const("s32", 255 - ones << 23)), "f32")
        normal = b.bitcast(b.mul(raised, b.const("f32", 2.0 ** (127 - bias - 255 + ones))), "s32")
    else:
        normal = b.add(shifted, b.const("s32", 127 - bias << 23))
    tiny = b.mul(b.convert(magnitude, "f32"), b.const("f32", 2.0 ** (1 - bias - mantissa_bits)))
    value = b.select(b.lt(magnitude, b.const("s32", 1 << mantissa_bits)), b.bitcast(tiny, "s32"), normal)
    if special == "nan":
        value = b.select(b.eq(magnitude, b.const("s32", half - 1)), b.const("s32", 0x7FC00000), value)
    elif special == "no negative zero":
        code = b.and_(word, b.const("s32", 2 * half - 1))
        value = b.select(b.eq(code, b.const("s32", half)), b.const("s32", 0x7FC00000), value)
    sign = b.shl(b.and_(word, b.const("s32", half)), 32 - TYPES[x.dtype].bits)
    return b.bitcast(b.or_(value, sign), "f32")


def _from_bf16(b: Arithmetic, x: Val) -> Val:
    word = b.word(x)
    if word.args[0].op == "bitcast" and word.args[0].args[0].op == "shr_u":
        # The high half of a word, from where `_to_bf16` left it.
        word = word.args[0].args[0].args[0]
        return b.bitcast(b.and_(word, b.const("s32", -65536)), "f32")
    return b.bitcast(b.shl(word, 16), "f32")


def _from_powers(b: Arithmetic, x: Val) -> Val:
    code = b.and_(b.word(x), b.const("s32", 255))
    outer = b.or_(b.eq(code, b.const("s32", 0)), b.eq(code, b.const("s32", 255)))
    # 2**-127 is subnormal, and 255 is NaN: both have the highest bit of the mantissa.
    return b.bitcast(b.or_(b.shl(code, 23), b.select(outer, b.const("s32", 0x400000), b.const("s32", 0))), "f32")


# --- from f32 -------------------------------------------------------------------------------------------------------


def from_f32(b: Arithmetic, x: Val, dtype: str) -> Val:
    """An f32 rounded to a small float, ties to even."""
    if x.op == "const":
        return b.const(dtype, struct.unpack("<f", x.imm.to_bytes(4, "little"))[0])
    word = b.bitcast(x, "s32")
    if dtype == "bf16":
        return _to_bf16(b, word)
    if dtype == "f8e8m0fnu":
        return _to_powers(b, word)
    exponent_bits, mantissa_bits, bias, special = _format(dtype)
    half = 1 << exponent_bits + mantissa_bits
    drop = 23 - mantissa_bits
    magnitude = b.and_(word, b.const("s32", 0x7FFFFFFF))
    odd = b.and_(b.shr_u(magnitude, drop), b.const("s32", 1))
    half_less = (1 << drop - 1) - 1
    normal = b.shr_u(b.add(b.add(magnitude, odd), b.const("s32", half_less - (127 - bias << 23))), drop)
    # Added to a number whose last bit is the smallest subnormal, a small one is rounded to a multiple of that.
    coarse = b.const("f32", 2.0 ** (24 - bias - mantissa_bits))
    tiny = b.sub(b.bitcast(b.add(b.bitcast(magnitude, "f32"), coarse), "s32"), b.bits("s32", coarse.imm))
    code = b.select(b.lt(magnitude, b.const("s32", 128 - bias << 23)), tiny, normal)
    sign = b.and_(b.shr_u(word, 32 - TYPES[dtype].bits), b.const("s32", half))
    nan = b.gt(magnitude, b.const("s32", _INFINITY))
    if special == "no negative zero":
        # What is too large has gone beyond the codes, NaN furthest.
        signed = b.select(b.eq(code, b.const("s32", 0)), code, b.or_(code, sign))
        code = b.select(b.gt(code, b.const("s32", half - 1)), b.const("s32", half), signed)
    elif special == "nan":
        code = b.or_(b.min(code, b.const("s32", half - 1)), sign)
    elif special == "finite":
        code = b.or_(b.select(nan, b.const("s32", half), b.min(code, b.const("s32", half - 1))), sign)
    else:
        infinity = half - (1 << mantissa_bits)
        quiet = infinity | 1 << mantissa_bits - 1
        code = b.or_(b.select(nan, b.const("s32", quiet), b.min(code, b.const("s32", infinity))), sign)
        result = b.stored(code, dtype)
        b.narrowed[result] = x
        return result
    return b.stored(code, dtype)


def _rounded(b: Arithmetic, x: Val, dtype: str) -> Val:
    """The f32 that an f32 becomes by way of a small float that has infinities."""
    _, mantissa_bits, bias, _ = _format(dtype)
    drop = 23 - mantissa_bits
    word = b.bitcast(x, "s32")
    magnitude = b.and_(word, b.const("s32", 0x7FFFFFFF))
    odd = b.and_(b.shr_u(magnitude, drop), b.const("s32", 1))
    normal = b.and_(b.add(b.add(magnitude, odd), b.const("s32", (1 << drop - 1) - 1)), b.const("s32", -1 << drop))
    coarse = b.const("f32", 2.0 ** (24 - bias - mantissa_bits))
    tiny = b.bitcast(b.sub(b.add(b.bitcast(magnitude, "f32"), coarse), coarse), "s32")
    value = b.select(b.lt(magnitude, b.const("s32", 128 - bias << 23)), tiny, normal)
    infinite = b.ge(value, b.const("s32", 128 + bias << 23))
    value = b.select(infinite, b.const("s32", _INFINITY), value)
    value = b.select(b.gt(magnitude, b.const("s32", _INFINITY)), b.const("s32", 0x7FC00000), value)
    return b.bitcast(b.or_(value, b.and_(word, b.const("s32", -1 << 31))), "f32")


def _to_bf16(b: Arithmetic, word: Val) -> Val:
    odd = b.and_(b.shr_u(word, 16), b.const("s32", 1))
    rounded = b.add(b.add(word, b.const("s32", 0x7FFF)), odd)
    x = b.bitcast(word, "f32")
    quiet = b.or_(word, b.const("s32", 0x400000))
    return b.stored(b.shr_u(b.select(b.ne(x, x), quiet, rounded), 16), "bf16")


def _to_powers(b: Arithmetic, word: Val) -> Val:
    """Halfway goes up: the last bit of a power of two is its leading one. Zero, negatives and NaN are NaN.

    What lies between 2**-127 and 2**-126 goes up too, as XLA has it.
    """
    rounded = b.min(b.shr_u(b.add(word, b.const("s32", 0x400000)), 23), b.const("s32", 255))
    least = b.select(b.gt(word, b.const("s32", 0x400000)), b.const("s32", 1), b.const("s32", 0))
    code = b.select(b.lt(word, b.const("s32", 0x800000)), least, rounded)
    return b.stored(b.select(b.gt(word, b.const("s32", 0)), code, b.const("s32", 255)), "f8e8m0fnu")


def from_f64(b: Arithmetic, x: Val, dtype: str) -> Val:
    """An f64 rounded once, as IEEE 754 says; to bf16 by way of f32, as XLA:CPU does it on every processor."""
    near = b.convert(x, "f32")
    if dtype == "bf16":
        return from_f32(b, near, dtype)
    # Toward zero, and with the last bit set where bits were lost, an f32 has bits enough for the second rounding.
    word, back = b.bitcast(near, "s32"), b.convert(near, "f64")
    zero = b.const("s32", 0)
    word = b.add(word, b.select(b.gt(b.abs(back), b.abs(x)), b.const("s32", -1), zero))
    word = b.or_(word, b.select(b.eq(back, x), zero, b.const("s32", 1)))
    return from_f32(b, b.bitcast(word, "f32"), dtype)
