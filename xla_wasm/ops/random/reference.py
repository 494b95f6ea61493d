"""NumPy semantics of random numbers: the counter-based generators Threefry-2x32 and Philox-4x32, and what is drawn with
them."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ...hlo.ir import Instruction
from ...hlo.types import TYPES
from ..dtypes import DTYPES, Array, Value
from .expand import key_of
from .record import FIRST_STATE

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_LOW = np.uint64(0xFFFFFFFF)


def _low(x: Any) -> Any:
    return (x & _LOW).astype(np.uint32)


def _high(x: Any) -> Any:
    return (x >> np.uint64(32)).astype(np.uint32)


def threefry(key: np.uint64, counters: Array) -> tuple[Array, Array]:
    """The two words of every 64-bit counter's block."""
    keys = [_low(key), _high(key)]
    keys.append(keys[0] ^ keys[1] ^ np.uint32(0x1BD11BDA))
    x0, x1 = _low(counters) + keys[0], _high(counters) + keys[1]
    for group in range(1, 6):
        for rotation in _ROTATIONS[(group - 1) % 2]:
            x0 = x0 + x1
            x1 = (x1 << np.uint32(rotation)) | (x1 >> np.uint32(32 - rotation))
            x1 = x1 ^ x0
        x0, x1 = x0 + keys[group % 3], x1 + keys[(group + 1) % 3] + np.uint32(group)
    return x0, x1


def philox(key: np.uint64, low: Array, high: Array) -> list[Array]:
    """The four words of every 128-bit counter's block."""
    x = [_low(low), _high(low), _low(high), _high(high)]
    k0, k1 = _low(key), _high(key)
    for _ in range(10):
        p0, p1 = x[0].astype(np.uint64) * np.uint64(0xD2511F53), x[2].astype(np.uint64) * np.uint64(0xCD9E8D57)
        x = [_high(p1) ^ x[1] ^ k0, _low(p1), _high(p0) ^ x[3] ^ k1, _low(p0)]
        k0, k1 = k0 + np.uint32(0x9E3779B9), k1 + np.uint32(0xBB67AE85)
    return x


def _threefry_bits(state: Array, dims: tuple[int, ...], bits: int) -> tuple[Array, Array]:
    if bits == 64:
        count = prod(dims)
        x0, x1 = threefry(state[0], state[1] + np.arange(count, dtype=np.uint64))
        draws = (x0.astype(np.uint64) | x1.astype(np.uint64) << np.uint64(32)).reshape(dims)
        return np.array([state[0], state[1] + np.uint64(count)]), draws
    if not dims:
        return np.array([state[0], state[1] + np.uint64(1)]), threefry(state[0], state[1:2])[0].reshape(())
    # the two words of a block become neighbours along the first even dimension, else along the largest
    even = [d for d, size in enumerate(dims) if size % 2 == 0]
    split = even[0] if even else dims.index(max(dims))
    half = tuple((size + 1) // 2 if d == split else size for d, size in enumerate(dims))
    words = threefry(state[0], state[1] + np.arange(prod(half), dtype=np.uint64))
    pairs = np.stack([w.reshape(half) for w in words], split + 1)
    full = tuple(2 * size if d == split else size for d, size in enumerate(half))
    draws = pairs.reshape(full)[tuple(slice(size) for size in dims)]
    return np.array([state[0], state[1] + np.uint64(prod(half))]), draws


def _philox_bits(state: Array, dims: tuple[int, ...], bits: int) -> tuple[Array, Array]:
    count = prod(dims)
    blocks = -(-count * (2 if bits == 64 else 1) // 4)
    low, high = int(state[1]), int(state[2] if len(state) == 3 else state[0])
    counter = low | high << 64
    lows = state[1] + np.arange(blocks, dtype=np.uint64)
    carried = (lows < state[1]).astype(np.uint64)
    words = np.stack(philox(state[0], lows, np.uint64(high) + carried), 1).reshape(-1)
    if bits == 64:
        pairs = words.reshape(-1, 2).astype(np.uint64)
        words = pairs[:, 0] | pairs[:, 1] << np.uint64(32)
    after = counter + blocks
    parts = [int(state[0]), after & (2**64 - 1), after >> 64 & (2**64 - 1)]
    return np.array(parts[: len(state)], np.uint64), words[:count].reshape(dims)


def _rng_bit_generator(instr: Instruction, operands: list[Value], call: Any) -> Value:
    shape = instr.shape.tuple_shapes[1]
    bits = TYPES[shape.element_type].bits
    generate = _threefry_bits if "three" in instr.attrs["algorithm"].lower() else _philox_bits
    state, draws = generate(operands[0], shape.dimensions, bits)
    draws = draws & draws.dtype.type(2**bits - 1)
    if TYPES[shape.element_type].kind == "float":
        return state, draws.astype(f"u{bits // 8}").view(DTYPES[shape.element_type])
    return state, draws


def _next_state(instr: Instruction, delta: int, call: Any) -> int:
    """The 128-bit state that an instruction finds; each keeps its own."""
    state: int = call.states.setdefault(instr, FIRST_STATE)
    call.states[instr] = (state + delta) % 2**128
    return state


def _rng_get_and_update_state(instr: Instruction, operands: list[Value], call: Any) -> Value:
    state = _next_state(instr, instr.attrs["delta"], call)
    return np.array([state & (2**64 - 1), state >> 64][: instr.shape.dimensions[0]], np.uint64)


def _words(instr: Instruction, count: int, bits: int, call: Any) -> Array:
    """Philox by the instruction's own key, counted on from run to run."""
    state = _next_state(instr, -(-count * bits // 128), call)
    words = [key_of(instr.name), state & (2**64 - 1), state >> 64]
    return _philox_bits(np.array(words, np.uint64), (count,), bits)[1]


def _unit(instr: Instruction, count: int, call: Any) -> Array:
    if instr.shape.element_type == "f64":
        return (_words(instr, count, 64, call) >> np.uint64(12)) * np.float64(2) ** -52
    return (_words(instr, count, 32, call) >> np.uint32(9)) * np.float32(2) ** -23


def _rng(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """The algorithm that XLA:CPU has, with other keys: every execution gives other numbers, every evaluation the
    same."""
    type_, dims, count = TYPES[instr.shape.element_type], instr.shape.dimensions, instr.shape.size
    if type_.kind == "float":
        a, b = (float(o) for o in operands)
        if instr.attrs["distribution"] == "rng_uniform":
            return (_unit(instr, count, call) * (b - a) + a).reshape(dims)
        u, v = _unit(instr, count + count % 2, call).reshape(-1, 2).T
        radius, angle = (
            np.sqrt(np.log(np.maximum(u, u.dtype.type(1e-7))) * u.dtype.type(-2)),
            v * u.dtype.type(2 * np.pi),
        )
        drawn = np.concatenate([radius * np.sin(angle), radius * np.cos(angle)])[:count]
        return (drawn * b + a).reshape(dims)
    a, b = operands
    if type_.kind == "pred":
        odd = (_words(instr, count, 32, call) & np.uint32(1)).astype(bool)
        return (odd if a != b else np.full(count, a)).reshape(dims)
    bits = 64 if type_.bits == 64 else 32
    low, high = (int(o) for o in (a, b))
    draws = _words(instr, count, bits, call)
    span = (high - low) % 2**bits
    draws = draws % draws.dtype.type(span) if span else draws
    return (
        (draws + draws.dtype.type(low % 2**bits))
        .astype(f"i{bits // 8}" if type_.kind == "signed" else draws.dtype)
        .reshape(dims)
    )


EVALUATE: dict[str, Callable[[Instruction, list[Value], Any], Value]] = {
    "rng-bit-generator": _rng_bit_generator,
    "rng-get-and-update-state": _rng_get_and_update_state,
    "rng": _rng,
}
