"""Random bits as kernels: four blocks of a counter-based generator side by side in lanes; and the state that outlives a
run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...hlo.ir import Instruction
from ...loop.affine import Affine
from ...loop.builder import Builder
from ...loop.ir import Val
from ...loop.tiling import transpose
from ...lowering.kernel_writer import KernelWriter
from ...lowering.source import Source
from .record import FIRST_STATE

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def _halves(b: Builder, x: Val) -> tuple[Val, Val]:
    """The low and the high word of a u64."""
    return b.convert(x, "u32"), b.convert(b.shr_u(x, 32), "u32")


def _element(b: Builder, source: Source, i: int) -> Val:
    return b.load(source.number, Affine(i), source.dtype)


def threefry(b: Builder, keys: tuple[Val, Val], x0: Val, x1: Val) -> tuple[Val, Val]:
    """One block of Threefry-2x32."""
    k0, k1 = keys
    schedule = (k0, k1, b.xor(b.xor(k0, k1), b.const("u32", 0x1BD11BDA)))
    x0, x1 = b.add(x0, k0), b.add(x1, k1)
    for group in range(1, 6):
        for rotation in _ROTATIONS[(group - 1) % 2]:
            x0 = b.add(x0, x1)
            x1 = b.xor(b.or_(b.shl(x1, rotation), b.shr_u(x1, 32 - rotation)), x0)
        x0 = b.add(x0, schedule[group % 3])
        x1 = b.add(x1, b.add(schedule[(group + 1) % 3], b.const("u32", group)))
    return x0, x1


def philox(b: Builder, keys: tuple[Val, Val], x: Sequence[Val]) -> tuple[Val, Val, Val, Val]:
    """One block of Philox-4x32."""
    (k0, k1), (x0, x1, x2, x3) = keys, x
    first, second = b.const("u32", 0xD2511F53), b.const("u32", 0xCD9E8D57)
    for turn in range(10):
        high0, low0 = b.mulhi(x0, first), b.mul(x0, first)
        high1, low1 = b.mulhi(x2, second), b.mul(x2, second)
        x0, x1, x2, x3 = b.xor(b.xor(high1, x1), k0), low1, b.xor(b.xor(high0, x3), k1), low0
        if turn < 9:
            k0, k1 = b.add(k0, b.const("u32", 0x9E3779B9)), b.add(k1, b.const("u32", 0xBB67AE85))
    return x0, x1, x2, x3


def rng_bit_generator_kernel(k: KernelWriter, x: Instruction) -> None:
    """The next state, and bits in the form that `expand` leaves: u64[n] of Threefry, u32[4 n] of Philox."""
    after, bits = k.outputs[x]
    if x.attrs["algorithm"] == "rng_three_fry":
        _threefry_kernel(k, k.whole(x.operands[0]), after, bits)
    else:
        _philox_kernel(k, k.whole(x.operands[0]), after, bits)


def _threefry_kernel(k: KernelWriter, state: Source, after: Source, bits: Source) -> None:
    b = k.b
    (count,) = bits.dims
    key, counter = _element(b, state, 0), _element(b, state, 1)
    b.store(after.number, Affine(0), key, "u64")
    b.store(after.number, Affine(1), b.add(counter, b.const("u64", count)), "u64")
    keys, (low, high) = _halves(b, key), _halves(b, counter)

    def block(i: Affine) -> None:
        c0 = b.add(b.bitcast(b.index_value(i), "u32"), low)
        _interleave(k, bits, i * 2, threefry(b, keys, c0, b.add(high, b.convert(b.lt(c0, low), "u32"))))

    _blocks(b, count, block)


def _philox_kernel(k: KernelWriter, state: Source, after: Source, bits: Source) -> None:
    b = k.b
    count = bits.dims[0] // 4
    words = state.dims[0]
    # Of a state of two words, the key's is the high half of the counter as well.
    key, low, high = _element(b, state, 0), _element(b, state, 1), _element(b, state, words - 1 if words == 3 else 0)
    b.store(after.number, Affine(0), key, "u64")
    moved = b.add(low, b.const("u64", count))
    b.store(after.number, Affine(1), moved, "u64")
    if words == 3:
        b.store(after.number, Affine(2), b.add(high, b.convert(b.lt(moved, low), "u64")), "u64")
    keys, (l0, l1), (h0, h1) = _halves(b, key), _halves(b, low), _halves(b, high)

    def block(i: Affine) -> None:
        c0 = b.add(b.bitcast(b.index_value(i), "u32"), l0)
        carry, counter, zero = b.lt(c0, l0), [c0], b.const("u32", 0)
        for word in (l1, h0, h1):
            if len(counter) > 1:
                carry = b.and_(carry, b.eq(counter[-1], zero))
            counter.append(b.add(word, b.convert(carry, "u32")))
        _interleave(k, bits, i * 4, philox(b, keys, counter))

    _blocks(b, count, block)


def _blocks(b: Builder, count: int, block: Callable[[Affine], None]) -> None:
    """Runs `block` for every block, in whole vectors: what lies behind the last bits is padding."""
    if count == 1:
        block(Affine())
    elif count:
        b.vectorized(count, block, padded=True, chunked=True)


def _interleave(k: KernelWriter, target: Source, start: Affine, words: tuple[Val, ...]) -> None:
    """Stores the words of each lane's block one after another."""
    b, pointer = k.b, k.b.pointer(target.number)
    if words[0].lanes == 1:
        for j, word in enumerate(words):
            b.store_at(pointer, start + j, word, "u32")
        return
    halves = ((0, 4, 1, 5), (2, 6, 3, 7))
    rows = [b.shuffle(*words, half) for half in halves] if len(words) == 2 else transpose(b, [*words])
    for j, row in enumerate(rows):
        b.store_lanes(pointer, start + 4 * j, row, "u32")


def rng_get_and_update_state_kernel(k: KernelWriter, x: Instruction) -> None:
    """The state as it is, and the one that the next execution gives: 128 bits, kept by the module."""
    b = k.b
    (old,) = k.outputs[x]
    memory = k.persistent("u64", (2,), FIRST_STATE.to_bytes(16, "little"))
    delta = x.attrs["delta"]
    low, high = (b.load(memory.number, Affine(i), "u64") for i in range(2))
    for i, word in enumerate((low, high)[: old.dims[0]]):
        b.store(old.number, Affine(i), word, "u64")
    moved = b.add(low, b.const("u64", delta))
    b.store(memory.number, Affine(0), moved, "u64")
    # The delta is signed: its high half is its sign.
    high = b.add(high, b.const("u64", -1 if delta < 0 else 0))
    b.store(memory.number, Affine(1), b.add(high, b.convert(b.lt(moved, low), "u64")), "u64")


KERNELS = {"rng-bit-generator": rng_bit_generator_kernel, "rng-get-and-update-state": rng_get_and_update_state_kernel}
