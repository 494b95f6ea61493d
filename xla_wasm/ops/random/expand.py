"""Random numbers in terms of bits: what draws of every type and shape are made of."""

from __future__ import annotations

import hashlib
import math

from ...errors import UnsupportedError
from ...hlo.ir import Instruction
from ...hlo.shape import Index, Shape
from ...hlo.types import TYPES
from ...writing.writer import Rule, Writer


def key_of(name: str) -> int:
    """The key of an rng instruction's generator: each has its own sequence."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")


def _rng_bit_generator(e: Writer, x: Instruction) -> Instruction:
    """Leaves two forms for the kernels: Threefry with bits u64[n], a block in each, and Philox with u32[4 n], four
    words a block."""
    (state,) = x.operands
    dtype, dims = (shape := x.shape.tuple_shapes[1]).element_type, shape.dimensions
    wide = TYPES[dtype].bits == 64
    if x.attrs["algorithm"] == "rng_three_fry":
        if dtype == "u64" and len(dims) == 1:
            return x
        after, bits = _threefry_64(e, state, dims) if wide else _threefry_32(e, state, dims)
    else:
        if x.attrs["algorithm"] == "rng_philox" and dtype == "u32" and len(dims) == 1 and dims[0] % 4 == 0:
            return x
        after, bits = _philox(e, state, dims, wide)
    return e.tuple([after, _typed(e, bits, dtype)])


def _generate(e: Writer, state: Instruction, algorithm: str, dtype: str, count: int) -> tuple[Instruction, Instruction]:
    shape = Shape.tuple([state.shape.without_layout(), Shape(dtype, (count,))])
    made = e.op("rng-bit-generator", state, shape=shape, algorithm=algorithm)
    return e.element(made, 0), e.element(made, 1)


def _threefry_64(e: Writer, state: Instruction, dims: Index) -> tuple[Instruction, Instruction]:
    after, bits = _generate(e, state, "rng_three_fry", "u64", math.prod(dims))
    return after, e.reshape(bits, dims)


def _threefry_32(e: Writer, state: Instruction, dims: Index) -> tuple[Instruction, Instruction]:
    """The two words of a block are neighbours along the first even dimension, else along the largest; its last one may
    be cut off."""
    even = [d for d, size in enumerate(dims) if size % 2 == 0]
    split = even[0] if even else dims.index(max(dims)) if dims else 0
    whole = dims or (1,)
    half = (whole[split] + 1) // 2
    before, behind = math.prod(whole[:split]) * half, math.prod(whole[split + 1 :])
    after, blocks = _generate(e, state, "rng_three_fry", "u64", before * behind)
    words = e.reshape(e.bitcast(blocks, "u32", (before * behind, 2)), (before, behind, 2))
    words = e.reshape(e.transpose(words, (0, 2, 1)), (*whole[:split], 2 * half, *whole[split + 1 :]))
    return after, e.reshape(e.slice(words, (0,) * len(whole), whole), dims)


def _philox(e: Writer, state: Instruction, dims: Index, wide: bool) -> tuple[Instruction, Instruction]:
    count = math.prod(dims)
    words = 2 * count if wide else count
    after, bits = _generate(e, state, "rng_philox", "u32", -(-words // 4) * 4)
    bits = e.slice(bits, (0,), (words,))
    if wide:
        bits = e.bitcast(e.reshape(bits, (count, 2)), "u64", (count,))
    return after, e.reshape(bits, dims)


def _typed(e: Writer, bits: Instruction, dtype: str) -> Instruction:
    """The low bits of words as another type."""
    kind, width = TYPES[dtype].kind, TYPES[dtype].bits
    return e.bitcast_convert(e.convert(bits, f"u{width}"), dtype) if kind == "float" else e.convert(bits, dtype)


def _rng(e: Writer, x: Instruction) -> Instruction:
    """Philox over a counter that the module keeps; uniform floats from the high bits, integers by remainder, normal
    ones by Box-Muller."""
    dtype, dims = x.shape.element_type, x.shape.dimensions
    kind, count = TYPES[dtype].kind, x.shape.size
    normal = x.attrs["distribution"] == "rng_normal"
    if kind == "complex" or (normal and kind != "float"):
        raise UnsupportedError(f"{x.where}: XLA defines no {x.attrs['distribution']} of {dtype}")
    if kind == "float":
        real = "f64" if dtype == "f64" else "f32"
        a, b = (e.convert(o, real) for o in x.operands)
        if normal:
            drawn = e.add(e.mul(_normal(e, x, count, real), b), a)
        else:
            drawn = e.add(e.mul(_unit(e, x, count, real), e.sub(b, a)), a)
    else:
        word = "u64" if TYPES[dtype].bits == 64 else "u32"
        bits = _words(e, x, count, word)
        a, b = x.operands
        if kind == "pred":
            odd = e.compare("NE", e.binary("and", bits, 1), 0)
            drawn = e.select(e.like(odd, e.compare("NE", a, b)), odd, a)
        else:
            a, b = (e.convert(o, word) for o in (a, b))
            drawn = e.add(e.binary("remainder", bits, e.sub(b, a)), a)
    return e.reshape(e.convert(drawn, dtype), dims)


def _words(e: Writer, x: Instruction, count: int, dtype: str) -> Instruction:
    blocks = -(-count * TYPES[dtype].bits // 128)
    counter = e.op("rng-get-and-update-state", shape=Shape("u64", (2,)), delta=blocks)
    state = e.concatenate([e.constant("u64", [key_of(x.name)]), counter], 0)
    return _generate(e, state, "rng_philox", dtype, count)[1]


def _unit(e: Writer, x: Instruction, count: int, dtype: str) -> Instruction:
    """Uniform numbers from 0 to below 1: as many high bits as the type has digits."""
    word, drop, one = ("u64", 12, 0x3FF0000000000000) if dtype == "f64" else ("u32", 9, 0x3F800000)
    digits = e.binary("shift-right-logical", _words(e, x, count, word), drop)
    return e.sub(e.bitcast_convert(e.binary("or", digits, one), dtype), 1)


def _normal(e: Writer, x: Instruction, count: int, dtype: str) -> Instruction:
    pairs = -(-count // 2)
    uniform = e.reshape(_unit(e, x, 2 * pairs, dtype), (pairs, 2))
    u, v = (e.reshape(e.slice(uniform, (0, i), (pairs, i + 1)), (pairs,)) for i in range(2))
    radius = e.unary("sqrt", e.mul(e.unary("log", e.binary("maximum", u, 1e-7)), -2))
    angle = e.mul(v, 2 * math.pi)
    drawn = e.concatenate([e.mul(radius, e.unary(function, angle)) for function in ("sine", "cosine")], 0)
    return e.slice(drawn, (0,), (count,))


def _stochastic_convert(e: Writer, x: Instruction) -> Instruction:
    """Towards zero, or away from it where the random number is below the fraction."""
    value, random = x.operands
    target, word = x.shape.element_type, random.shape.element_type
    real = "f64" if value.shape.element_type == "f64" else "f32"
    value = e.convert(value, real)
    magnitude = e.unary("abs", value)
    whole = e.unary("floor", magnitude)
    fraction = e.mul(e.sub(magnitude, whole), 2.0 ** TYPES[word].bits)
    up = e.compare("LT", random, e.convert(fraction, word))
    result = e.convert(whole, target)
    result = e.select(up, e.add(result, 1), result)
    result = e.select(e.compare("LT", value, 0), e.unary("negate", result), result)
    top = 1 << (TYPES[target].bits - 1)
    # As a float, the greatest integer may be one above it: then all that reaches it is out of range.
    for direction, bound in (("GE", top - 1), ("LE", -top)):
        result = e.select(e.compare(direction, value, float(bound)), e.full(target, x.shape.dimensions, bound), result)
    return e.select(e.compare("NE", value, value), e.full(target, x.shape.dimensions, 0), result)


EXPAND: dict[str, Rule] = {
    "rng-bit-generator": _rng_bit_generator,
    "rng": _rng,
    "stochastic-convert": _stochastic_convert,
}
