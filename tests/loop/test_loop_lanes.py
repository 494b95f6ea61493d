"""Values of 8 and 16 bits in 16 and 8 lanes, and masks of any width: each operation in wasm against NumPy, verified on
the way."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import wasmtime

from xla_wasm.loop.affine import Affine
from xla_wasm.loop.builder import Builder
from xla_wasm.loop.emit import emit
from xla_wasm.loop.ir import Val
from xla_wasm.loop.text import to_text
from xla_wasm.loop.verify import Argument, KernelError, verify
from xla_wasm.target import RELAXED_SIMD, SIMD128, Target
from xla_wasm.wasm import Module

Array = np.ndarray[Any, Any]
NUMPY = {
    "pred": np.bool_,
    "s8": np.int8,
    "u8": np.uint8,
    "s16": np.int16,
    "u16": np.uint16,
    "s32": np.int32,
    "u32": np.uint32,
}
NUMPY |= {"s64": np.int64, "u64": np.uint64, "f32": np.float32, "bf16": ml_dtypes.bfloat16}
NARROW = [("s8", 16), ("u8", 16), ("s8", 8), ("u8", 8), ("s16", 8), ("u16", 8), ("s8", 4), ("u16", 4)]
"""Types with lanes of their own width, of twice that, and as kernels of four lanes have them."""
ENGINE = wasmtime.Engine()
PLAIN, RELAXED = Target.named(SIMD128), Target.named(RELAXED_SIMD)


def run(
    make: Callable[[Builder], None],
    outputs: Sequence[Array],
    inputs: Sequence[Array],
    lanes: int,
    relaxed: bool = False,
) -> list[Array]:
    """Verifies a kernel and runs it: outputs come first among its buffers, and are as long as those that are given."""
    arrays = [*outputs, *inputs]
    b = Builder("lanes", len(arrays), lanes, RELAXED if relaxed else PLAIN, frozenset(range(len(outputs))))
    make(b)
    func = b.func()
    arguments = [Argument(a.nbytes, a.nbytes, k < len(outputs)) for k, a in enumerate(arrays)]
    assert verify(func, arguments).unproven == []
    module = Module()
    module.add(emit(func))
    module.export_func("run", func.name)
    addresses, top = [], 1024
    for a in arrays:
        addresses.append(top)
        top += -(-a.nbytes // 64) * 64 + 64
    module.memory(top // 65536 + 1)
    module.export_memory("memory")
    store = wasmtime.Store(ENGINE)
    exports = wasmtime.Instance(store, wasmtime.Module(ENGINE, module.encode()), []).exports(store)
    memory: Any = exports["memory"]
    memory.write(store, struct.pack(f"<{len(addresses)}I", *addresses), 16)
    for number, (a, address) in enumerate(zip(arrays, addresses)):
        memory.write(store, a.tobytes() if number >= len(outputs) else b"\xaa" * a.nbytes, address)
    start: Any = exports["run"]
    start(store, 16, 0, func.trips)
    found = [np.frombuffer(bytes(memory.read(store, at, at + a.nbytes)), a.dtype) for a, at in zip(outputs, addresses)]
    for a, address in zip(arrays, addresses):
        assert bytes(memory.read(store, address + a.nbytes, address + a.nbytes + 64)) == bytes(64), (
            "nothing lies behind an array"
        )
    return found


@cache
def pairs(dtype: str) -> tuple[Array, Array]:
    """All pairs of numbers of 8 bits; of 16 bits those of the edges with each other and with numbers drawn; and a few
    more for a rest."""
    if dtype == "pred":
        x, y = np.array([0, 0, 1, 1] * 20, np.bool_), np.array([0, 1, 0, 1] * 20, np.bool_)
    elif dtype in ("s8", "u8"):
        every = np.arange(256).astype(np.uint8).view(NUMPY[dtype])
        x, y = np.repeat(every, 256), np.tile(every, 256)
    else:
        rng = np.random.default_rng(0)
        edges = np.array(
            [0, 1, 2, 127, 128, 255, 256, 0x3FFF, 0x4000, 0x7FFE, 0x7FFF, 0x8000, 0x8001, 0xFF00, 0xFFFE, 0xFFFF],
            np.uint16,
        )
        some = np.concatenate([edges, rng.integers(0, 1 << 16, 200).astype(np.uint16)]).view(NUMPY[dtype])
        x, y = np.repeat(some, some.size), np.tile(some, some.size)
    return np.concatenate([x, x[-7:]]), np.concatenate([y, y[3:10]])


def wide(x: Array) -> Array:
    return x.astype(np.int64)


def clamped(x: Array, dtype: type[np.generic] | Any) -> Array:
    limits = np.iinfo(dtype)
    return np.clip(x, limits.min, limits.max).astype(dtype)


def quotient(x: Array, y: Array) -> Array:
    """Rounded toward zero."""
    x, y = wide(x), wide(y)
    return np.sign(x) * np.sign(y) * (abs(x) // np.maximum(abs(y), 1))


Op = tuple[Callable[[Builder, Val, Val], Val], Callable[[Array, Array], Array]]


def bits_of(x: Array) -> Array:
    """The numbers as those of the unsigned type."""
    return wide(x) & ((1 << 8 * x.itemsize) - 1)


ARITHMETIC: dict[str, Op] = {
    "add": (lambda b, x, y: b.add(x, y), lambda x, y: wide(x) + wide(y)),
    "sub": (lambda b, x, y: b.sub(x, y), lambda x, y: wide(x) - wide(y)),
    "mul": (lambda b, x, y: b.mul(x, y), lambda x, y: wide(x) * wide(y)),
    "mul by a constant": (lambda b, x, y: b.mul(x, b.const(x.dtype, 37)), lambda x, y: wide(x) * 37),
    "div": (lambda b, x, y: b.div(x, b.max(y, b.const(y.dtype, 1))), lambda x, y: quotient(x, np.maximum(y, 1))),
    "rem": (
        lambda b, x, y: b.rem(x, b.max(y, b.const(y.dtype, 1))),
        lambda x, y: np.fmod(wide(x), np.maximum(wide(y), 1)),
    ),
    "neg": (lambda b, x, y: b.neg(x), lambda x, y: -wide(x)),
    "abs": (lambda b, x, y: b.abs(x), lambda x, y: abs(wide(x))),
    "min": (lambda b, x, y: b.min(x, y), lambda x, y: np.minimum(x, y)),
    "max": (lambda b, x, y: b.max(x, y), lambda x, y: np.maximum(x, y)),
    "and": (lambda b, x, y: b.and_(x, y), lambda x, y: x & y),
    "or": (lambda b, x, y: b.or_(x, y), lambda x, y: x | y),
    "xor": (lambda b, x, y: b.xor(x, y), lambda x, y: x ^ y),
    "not": (lambda b, x, y: b.not_(x), lambda x, y: ~x),
    "andnot": (lambda b, x, y: b.andnot(x, y), lambda x, y: x & ~y),
    "shl": (lambda b, x, y: b.shl(x, 3), lambda x, y: wide(x) << 3),
    "shr_s": (lambda b, x, y: b.shr_s(x, 2), lambda x, y: wide(x) >> 2),
    "shr_u": (lambda b, x, y: b.shr_u(x, 2), lambda x, y: bits_of(x) >> 2),
    "shl by lanes": (lambda b, x, y: b.shl(x, b.and_(y, b.const(y.dtype, 7))), lambda x, y: wide(x) << (wide(y) & 7)),
    "shr_s by lanes": (
        lambda b, x, y: b.shr_s(x, b.and_(y, b.const(y.dtype, 7))),
        lambda x, y: wide(x) >> (wide(y) & 7),
    ),
    "shr_u by lanes": (
        lambda b, x, y: b.shr_u(x, b.and_(y, b.const(y.dtype, 7))),
        lambda x, y: bits_of(x) >> (wide(y) & 7),
    ),
    "select": (lambda b, x, y: b.select(b.lt(x, y), x, b.const(x.dtype, 5)), lambda x, y: np.where(x < y, x, 5)),
}
COMPARISONS = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


@pytest.mark.parametrize(("dtype", "lanes"), NARROW)
@pytest.mark.parametrize("op", ARITHMETIC)
def test_arithmetic(op: str, dtype: str, lanes: int) -> None:
    """Whole vectors, and the rest of the array one by one."""
    x, y = pairs(dtype)
    make, expected = ARITHMETIC[op]

    def kernel(b: Builder) -> None:
        b.vectorized(
            x.size, lambda i: b.store(0, i, make(b, b.load(1, i, dtype), b.load(2, i, dtype)), dtype), chunked=True
        )

    (found,) = run(kernel, [x], [x, y], lanes)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found, expected(x, y).astype(x.dtype))


@pytest.mark.parametrize(("dtype", "lanes"), NARROW)
@pytest.mark.parametrize("op", COMPARISONS)
def test_comparisons(op: str, dtype: str, lanes: int) -> None:
    x, y = pairs(dtype)
    out = np.zeros(x.size, np.bool_)

    def kernel(b: Builder) -> None:
        b.vectorized(x.size, lambda i: b.store(0, i, getattr(b, op)(b.load(1, i, dtype), b.load(2, i, dtype)), "pred"))

    np.testing.assert_array_equal(
        run(kernel, [out], [x, y], lanes)[0].view(np.uint8), COMPARISONS[op](x, y).view(np.uint8)
    )


@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
def test_masks(lanes: int) -> None:
    x, y = pairs("pred")

    def one(b: Builder, i: Affine) -> None:
        p, q = b.load(1, i, "pred"), b.load(2, i, "pred")
        made = (
            b.and_(p, q),
            b.or_(p, q),
            b.xor(p, q),
            b.not_(p),
            b.andnot(p, q),
            b.eq(p, q),
            b.select(p, q, b.const("pred", True)),
        )
        for number, value in enumerate(made):
            b.store(0, i + number * x.size, value, "pred")

    def kernel(b: Builder) -> None:
        b.vectorized(x.size, lambda i: one(b, i))

    (found,) = run(kernel, [np.zeros(7 * x.size, np.bool_)], [x, y], lanes)
    np.testing.assert_array_equal(
        found, np.concatenate([x & y, x | y, x ^ y, ~x, x & ~y, x == y, np.where(x, y, True)])
    )


@pytest.mark.parametrize(("dtype", "lanes"), [*NARROW, ("pred", 16), ("pred", 8), ("bf16", 8)])
def test_lanes_and_strides(dtype: str, lanes: int) -> None:
    """Loads and stores across memory, and lanes moved about."""
    x = np.resize(pairs("u16" if dtype == "bf16" else dtype)[0], 12 * lanes).view(NUMPY[dtype])
    order = tuple((5 * k + 3) % (2 * lanes) for k in range(lanes))

    def kernel(b: Builder) -> None:
        with b.loop(4, lanes, vector=True) as i:
            strided, dense = b.load(1, i * 3, dtype), b.load(1, i, dtype)
            b.store(0, i * 2, strided, dtype)
            b.store(0, i * 2 + 1, b.shuffle(strided, dense, order), dtype)
            b.store(1, i, b.splat_lane(dense, lanes - 1), dtype)
            b.store(2, i, b.pack([b.lane(dense, lanes - 1 - k) for k in range(lanes)]), dtype)

    whole = x[: 4 * lanes].reshape(4, lanes)
    strided = x[::3].reshape(4, lanes)
    both = np.concatenate([strided, whole], axis=1)[:, list(order)]
    outs = [np.zeros(n * lanes, x.dtype) for n in (8, 4, 4)]

    def moved(b: Builder) -> None:
        # The input comes after the three outputs.
        load, b.load = b.load, lambda number, index, dtype: load(number + 2, index, dtype)  # type: ignore[method-assign]
        kernel(b)

    mixed, last, backwards = run(moved, outs, [x], lanes)
    np.testing.assert_array_equal(mixed, np.stack([strided.ravel(), both.ravel()], axis=1).ravel())
    np.testing.assert_array_equal(last, np.repeat(whole[:, -1], lanes))
    np.testing.assert_array_equal(backwards, whole[:, ::-1].ravel())


@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
def test_any_lane(lanes: int) -> None:
    x = np.zeros((lanes + 1, lanes), np.bool_)
    x[1:][np.eye(lanes, dtype=np.bool_)] = True

    def kernel(b: Builder) -> None:
        with b.loop(lanes + 1) as i:
            b.store(0, i, b.any_true(b.load_lanes(b.pointer(1), i * lanes, "pred")), "pred")

    (found,) = run(kernel, [np.zeros(lanes + 1, np.bool_)], [x.ravel()], lanes)
    np.testing.assert_array_equal(found, x.any(1))


def test_set_bits() -> None:
    x, _ = pairs("u8")

    def kernel(b: Builder) -> None:
        with b.loop(x.size // 16, 16, vector=True) as i:
            b.store(0, i, b.popcnt(b.load(1, i, "u8")), "u8")

    (found,) = run(kernel, [x[: x.size // 16 * 16]], [x], 16)
    np.testing.assert_array_equal(found, [int(v).bit_count() for v in x[: found.size]])


@pytest.mark.parametrize("lanes", [2, 4])
def test_high_halves_of_products(lanes: int) -> None:
    x, y = (v.astype(np.uint32) * np.uint32(65537) + np.uint32(k) for k, v in enumerate(pairs("u16")))

    def kernel(b: Builder) -> None:
        b.vectorized(x.size, lambda i: b.store(0, i, b.mulhi(b.load(1, i, "u32"), b.load(2, i, "u32")), "u32"))

    (found,) = run(kernel, [x], [x, y], lanes)
    np.testing.assert_array_equal(found, (x.astype(np.uint64) * y >> 32).astype(np.uint32))


# --- other widths, other numbers of lanes ---------------------------------------------------------------------------


def blocks(count: int, body: Callable[[Builder, Affine], None]) -> Callable[[Builder], None]:
    """A kernel that takes `count` vectors of sixteen elements, one by one."""

    def kernel(b: Builder) -> None:
        with b.loop(count, 16) as i:
            body(b, i)

    return kernel


TWICE = {"s8": "s16", "u8": "u16", "s16": "s32", "u16": "u32", "s32": "s64", "u32": "u64"}


@pytest.mark.parametrize("dtype", TWICE)
def test_extensions(dtype: str) -> None:
    x = pairs(dtype if dtype[1:] != "32" else "u16")[0][:65536].astype(NUMPY[dtype])
    x = x if dtype[1:] != "32" else (x * np.array(65537, np.uint32).astype(x.dtype)).astype(x.dtype)
    lanes = 128 // int(dtype[1:])
    x = x[: x.size // 16 * 16]

    def body(b: Builder, i: Affine) -> None:
        for part in range(0, 16, lanes):
            value = b.load_lanes(b.pointer(1), i + part, dtype, lanes)
            for half, extended in enumerate((b.extend_low(value), b.extend_high(value))):
                assert (extended.dtype, extended.lanes) == (TWICE[dtype], lanes // 2)
                b.store_lanes(b.pointer(0), i + (part + half * lanes // 2), extended, TWICE[dtype])

    (found,) = run(blocks(x.size // 16, body), [np.zeros(x.size, NUMPY[TWICE[dtype]])], [x], 4)
    np.testing.assert_array_equal(found, x.astype(found.dtype))


@pytest.mark.parametrize(("dtype", "to"), [("s16", "s8"), ("s16", "u8"), ("s32", "s16"), ("s32", "u16")])
def test_narrowing_clamps(dtype: str, to: str) -> None:
    x = pairs("s16")[0][:46656]
    if dtype == "s32":
        edges = np.array([0, 1, -1, 32767, 32768, 65535, 65536, -32768, -32769, 2**31 - 1, -(2**31)], np.int32)
        x = np.resize(np.concatenate([edges, x.astype(np.int32) * 7]), x.size)
    lanes = 128 // int(dtype[1:])

    def body(b: Builder, i: Affine) -> None:
        for part in range(0, 16, 2 * lanes):
            first, second = (b.load_lanes(b.pointer(1), i + (part + k * lanes), dtype, lanes) for k in range(2))
            b.store_lanes(b.pointer(0), i + part, b.narrow(first, second, to), to)

    (found,) = run(blocks(x.size // 16, body), [np.zeros(x.size, NUMPY[to])], [x], 4)
    np.testing.assert_array_equal(found, clamped(x, NUMPY[to]))


@pytest.mark.parametrize("dtype", ["s8", "u8", "s16", "u16"])
def test_sums_of_neighbours(dtype: str) -> None:
    x = pairs(dtype)[1]
    x = x[: x.size // 16 * 16]
    lanes = 128 // int(dtype[1:])

    def kernel(b: Builder) -> None:
        with b.loop(x.size // 16, 8) as j:
            for part in range(0, 16, lanes):
                value = b.load_lanes(b.pointer(1), j * 2 + part, dtype, lanes)
                b.store_lanes(b.pointer(0), j + part // 2, b.extadd_pairwise(value), TWICE[dtype])

    (found,) = run(kernel, [np.zeros(x.size // 2, NUMPY[TWICE[dtype]])], [x], 4)
    np.testing.assert_array_equal(found, wide(x)[::2] + wide(x)[1::2])


def test_products_of_16_bits_in_pairs() -> None:
    x, y = (v[: v.size // 16 * 16] for v in pairs("s16"))
    y = np.concatenate([y[:-16], x[-16:]])
    x[:8] = y[:8] = -32768  # twice the square of it is 2**31

    def kernel(b: Builder) -> None:
        with b.loop(x.size // 8, 4) as j:
            p, q = (b.load_lanes(b.pointer(k), j * 2, "s16", 8) for k in (1, 2))
            b.store_lanes(b.pointer(0), j, b.dot(p, q), "s32")

    (found,) = run(kernel, [np.zeros(x.size // 2, np.int32)], [x, y], 4)
    product = wide(x) * wide(y)
    np.testing.assert_array_equal(found, (product[::2] + product[1::2]).astype(np.int32))
    assert found[0] == -(2**31)


@pytest.mark.parametrize("relaxed", [False, True])
def test_products_of_8_and_7_bits(relaxed: bool) -> None:
    """Every engine gives the same, as the second factors have no eighth bit; the plain target composes it."""
    x, y = (v[: v.size // 16 * 16] for v in pairs("s8"))
    y = y & 127
    start = np.resize(np.array([0, 1, -1, 2**31 - 1, -(2**31)], np.int32), x.size // 4)

    def kernel(b: Builder) -> None:
        with b.loop(x.size // 16, 4) as j:
            p, q = (b.load_lanes(b.pointer(k), j * 4, "s8", 16) for k in (2, 3))
            b.store_lanes(b.pointer(0), j * 2, b.dot_i7(p, q), "s16")
            b.store_lanes(b.pointer(1), j, b.dot_i7_add(p, q, b.load_lanes(b.pointer(4), j, "s32")), "s32")
        assert ("relaxed_dot_add" in to_text(b.func())) == relaxed

    outs = [np.zeros(x.size // 2, np.int16), np.zeros(x.size // 4, np.int32)]
    pairwise, fours = run(kernel, outs, [x, y, start], 4, relaxed)
    product = wide(x) * wide(y)
    np.testing.assert_array_equal(pairwise, product.reshape(-1, 2).sum(1))
    np.testing.assert_array_equal(fours, (product.reshape(-1, 4).sum(1) + start).astype(np.int32))


def test_masks_grow_and_shrink() -> None:
    """A mask of sixteen lanes becomes masks of eight, four and two, which choose among wider numbers, and one again."""
    x, y = (v[:65536] for v in pairs("s8"))

    def split(b: Builder, masks: list[Val]) -> list[Val]:
        return [half for m in masks for half in (b.extend_low(m), b.extend_high(m))]

    def join(b: Builder, masks: list[Val]) -> list[Val]:
        return [b.narrow(p, q, "pred") for p, q in zip(masks[::2], masks[1::2])]

    def body(b: Builder, i: Affine) -> None:
        masks = [b.lt(*(b.load_lanes(b.pointer(k), i, "s8", 16) for k in (5, 6)))]
        for number, dtype in enumerate(("s16", "s32", "s64")):
            masks = split(b, masks)
            for k, mask in enumerate(masks):
                at = i + k * mask.lanes
                b.store_lanes(b.pointer(number), at, b.select(mask, b.const(dtype, 3), b.const(dtype, -4)), dtype)
        b.store_lanes(b.pointer(3), i, join(b, join(b, join(b, masks)))[0], "pred")
        (loaded,) = split(b, [b.load_lanes(b.pointer(7), i, "pred", 16)])[:1]
        b.store_lanes(b.pointer(4), i, b.narrow(loaded, b.not_(loaded), "pred"), "pred")

    outs = [np.zeros(x.size, NUMPY[t]) for t in ("s16", "s32", "s64", "pred", "pred")]
    bits = (x > 3) ^ (y < 0)
    *chosen, joined, mixed = run(blocks(x.size // 16, body), outs, [x, y, bits], 4)
    for found in chosen:
        np.testing.assert_array_equal(found, np.where(x < y, 3, -4))
    np.testing.assert_array_equal(joined.view(np.uint8), (x < y).view(np.uint8))
    halves = bits.reshape(-1, 16)[:, :8]
    np.testing.assert_array_equal(
        mixed.view(np.uint8), np.concatenate([halves, ~halves], axis=1).ravel().view(np.uint8)
    )


def test_small_floats_of_eight_lanes_become_f32() -> None:
    x = pairs("u16")[0][:46656].view(ml_dtypes.bfloat16)

    def body(b: Builder, i: Affine) -> None:
        for part in (0, 8):
            words = b.bitcast(b.load_lanes(b.pointer(1), i + part, "bf16", 8), "u16")
            for half, extended in enumerate((b.extend_low(words), b.extend_high(words))):
                value = b.convert(b.stored(b.bitcast(extended, "s32"), "bf16"), "f32")
                b.store_lanes(b.pointer(0), i + (part + 4 * half), value, "f32")

    (found,) = run(blocks(x.size // 16, body), [np.zeros(x.size, np.float32)], [x], 4)
    np.testing.assert_array_equal(found.view(np.uint32), x.astype(np.float32).view(np.uint32))


def test_a_product_of_bytes_with_sums_of_32_bits() -> None:
    """A row of s8 by a column of s8: pairs of products in four lanes, carried through a loop."""
    rng = np.random.default_rng(1)
    x, y = (rng.integers(-128, 128, 4096).astype(np.int8) for _ in range(2))
    x[:64] = y[:64] = -128

    def kernel(b: Builder) -> None:
        with b.open_loop(x.size // 16, 16) as loop:
            i = Affine.along(loop)
            total = b.carry(loop, b.const("s32", 0), 4)
            p, q = (b.load_lanes(b.pointer(k), i, "s8", 16) for k in (1, 2))
            halves = [b.dot(extend(p), extend(q)) for extend in (b.extend_low, b.extend_high)]
            total.next = b.add(total.value, b.add(*halves))
        lanes = [b.lane(total.result, k) for k in range(4)]
        b.store(0, Affine(), b.add(b.add(*lanes[:2]), b.add(*lanes[2:])), "s32")

    (found,) = run(kernel, [np.zeros(1, np.int32)], [x, y], 4)
    assert found[0] == wide(x) @ wide(y)


def u16(b: Builder, x: Val) -> Val:
    return b.bitcast(b.extend_low(x), "u16")


WRONG: dict[str, tuple[Callable[[Builder, Val], Val], str]] = {
    "a mask of another width": (
        lambda b, x: b.select(b.lt(x, x), u16(b, x), b.neg(u16(b, x))),
        "u16x16: a vector has not so many lanes",
    ),
    "numbers that are too wide": (lambda b, x: b.splat(b.const("s32", 1), 16), "not so many lanes"),
    "pairs of unsigned numbers": (
        lambda b, x: b.dot(u16(b, x), u16(b, x)),
        "operand 1 .* is u16x8, which dot of s32 does not take",
    ),
    "pairs of 8 bits": (lambda b, x: b.dot(x, x), "dot does not work on s32x8"),
    "unsigned numbers narrowed": (
        lambda b, x: b.narrow(u16(b, x), u16(b, x), "u8"),
        "is u16x8, which narrow of u8 does not take",
    ),
    "leading zeros of bytes": (lambda b, x: b.clz(x), "clz does not work on s8x16"),
    "set bits of signed bytes": (lambda b, x: b.popcnt(x), "popcnt does not work on s8x16"),
    "lanes of two counts": (lambda b, x: b.add(b.extend_low(x), b.bitcast(x, "s16")), "lanes"),
}


@pytest.mark.parametrize("what", WRONG)
def test_the_verifier_knows_lanes(what: str) -> None:
    make, message = WRONG[what]
    b = Builder("wrong", 2, 16, PLAIN, frozenset({0}))
    with b.loop(4, 16, vector=True) as i:
        make(b, b.load(1, i, "s8"))
    with pytest.raises(KernelError, match=message):
        verify(b.func(), [Argument(64, 64, True), Argument(64, 64, False)])
