"""The GEMM and convolution kernels against NumPy, on every kind of tail, and what they promise about ranges and code
size."""

from __future__ import annotations

import struct
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import wasmtime

import xla_wasm
from tests.support import seeds
from xla_wasm.builder import Builder as HloBuilder
from xla_wasm.hlo.shape import Shape
from xla_wasm.hlo.types import limits
from xla_wasm.kernels import Gemm, Sides, Tile, Types, gemm_kernel, pack_kernel, packed_size, tile
from xla_wasm.kernels.tiles import reads_in_place, scratch_size
from xla_wasm.loop.affine import ZERO, Affine
from xla_wasm.loop.builder import Builder
from xla_wasm.loop.emit import emit
from xla_wasm.loop.ir import Val
from xla_wasm.loop.verify import Argument, verify
from xla_wasm.ops.dtypes import DTYPES
from xla_wasm.target import PORTABLE, SIMD128, TARGETS, TUNES, V8, Target
from xla_wasm.wasm import Module

EVERY = [Target.named(name, tune) for tune in TUNES for name in TARGETS]
SOME = [target for target in EVERY if target.tune == V8 or (target.tune == PORTABLE) == (target.name == SIMD128)]
"""Each tune and each target, and for V8, with which most people run modules, both."""
each_target = pytest.mark.parametrize("target", EVERY if seeds.exhaustive else SOME, ids=lambda t: f"{t.name} {t.tune}")
ENGINE = wasmtime.Engine()
MIXED = [
    *(Types(operand, operand, "s32", "s32") for operand in ("s8", "u8", "u16")),
    *(Types(operand, operand, "f32", "f32") for operand in ("f16", "bf16", "s8")),
    *(Types("f32", right, "f32", "f32") for right in ("bf16", "s8")),
    *(Types("s16", "s16", "s32", "f32"), Types("f32", "f32", "f64", "f64"), Types("f32", "f32", "f32", "s32")),
]
_seen: dict[bytes, bytes] = {}
"""The results of kernels that were verified and ran, by their bytes and those of their inputs: for many targets they
are the same."""
GUARD = 64
"""Bytes around each buffer which must stay as they are."""


def strides(dims: tuple[int, ...]) -> list[int]:
    return [int(np.prod(dims[d + 1 :])) for d in range(len(dims))]


def kernels(g: Gemm, shape: Tile, target: Target, along_k: bool, bias: bool, spilled: bool) -> list[Builder]:
    """A pack kernel (packed, rhs) and a GEMM (out, lhs, packed or rhs, bias, its scratch memory) that writes a dense
    result."""
    pack = Builder("pack", 2, g.lanes, target, frozenset({0}))
    copies = max([1, *(size for size, _, rhs in g.outer if rhs)])

    def fill(batch: Affine) -> None:
        def element(k: Affine, n: Affine) -> Val:
            at = n * g.k + k if along_k else k * g.n + n
            return pack.load(1, batch * (g.k * g.n) + at, g.types.right_element)

        pack_kernel(pack, g, shape, 0, element, batch * packed_size(g, shape), along_k)

    if copies == 1:
        fill(ZERO)
    else:
        with pack.loop(copies, chunked=True) as batch:
            fill(batch)

    gemm = Builder("gemm", 5, g.lanes, target, frozenset({0, 4}))
    places = strides((*(size for size, _, _ in g.outer), g.m, g.n))

    def position(outer: tuple[Affine, ...], m: Affine, n: Affine) -> Affine:
        total = n
        for i, stride in zip((*outer, m), places):
            total = total + i * stride
        return total

    def store(outer: tuple[Affine, ...], m: Affine, n: Affine, value: Val) -> None:
        if bias:
            value = gemm.add(value, gemm.load(3, n, g.types.result))
        gemm.store(0, position(outer, m, n), value, g.types.result)

    spill = (lambda outer, m, n: (0, position(outer, m, n))) if spilled else None
    gemm_kernel(gemm, g, shape, Sides((1, 3), 2, store, spill, 4 if scratch_size(g, shape) else None))
    return [pack, gemm]


def run(
    g: Gemm,
    shape: Tile,
    target: Target,
    lhs: np.ndarray,
    rhs: np.ndarray,
    bias: np.ndarray | None = None,
    **options: bool,
) -> np.ndarray:
    """Packs and multiplies in wasmtime, in two ranges each; the guards around the buffers must survive."""
    along_k, spilled = options.get("along_k", False), options.get("spilled", False)
    builders = kernels(g, shape, target, along_k, bias is not None, spilled)
    module = Module()
    funcs = [b.func() for b in builders]
    for func in funcs:
        code = emit(func)
        assert len(code.code) <= 8192, f"{len(code.code)} bytes of code"
        module.add(code)
        module.export_func(func.name, func.name)
    copies = max([1, *(size for size, _, right in g.outer if right)])
    outs = (*(size for size, _, _ in g.outer), g.m, g.n)
    dtype = np.dtype(DTYPES[g.types.result])
    extra = np.zeros(g.n, dtype) if bias is None else bias
    sizes = [
        int(np.prod(outs)),
        lhs.size + 3,
        packed_size(g, shape) * copies,
        extra.size,
        rhs.size,
        scratch_size(g, shape),
    ]
    wide = [
        dtype.itemsize,
        lhs.itemsize,
        rhs.itemsize,
        dtype.itemsize,
        rhs.itemsize,
        DTYPES[g.types.accumulator].itemsize,
    ]
    addresses, top = [], 64
    for size, width in zip(sizes, wide):
        addresses.append(top + GUARD)
        top += (size * width + 2 * GUARD + 63) // 64 * 64
    module.memory(top // 65536 + 1)
    module.export_memory("memory")
    wasm = module.encode()
    out, left, packed, third, right, scratch = addresses
    given = struct.pack("<7I", packed, right, out, left, right if g.k_stride else packed, third, scratch)
    key = b"".join((wasm, given, lhs.tobytes(), rhs.tobytes(), extra.tobytes()))
    if key in _seen:
        return np.frombuffer(_seen[key], dtype).reshape(outs)
    # Not one byte beyond a buffer, vectors included.
    room = [Argument(size * width, size * width, k in (0, 2, 5)) for k, (size, width) in enumerate(zip(sizes, wide))]
    for func, used in zip(funcs, ((2, 4), (0, 1, 4 if g.k_stride else 2, 3, 5))):
        assert verify(func, [room[k] for k in used]).unproven == []
    store = wasmtime.Store(ENGINE)
    exports = wasmtime.Instance(store, wasmtime.Module(ENGINE, wasm), []).exports(store)
    memory = exports["memory"]
    memory.write(store, b"\xaa" * (top - 64), 64)
    memory.write(store, given, 8)
    memory.write(store, lhs.tobytes(), left + 3 * lhs.itemsize)
    memory.write(store, extra.tobytes(), third)
    memory.write(store, np.ascontiguousarray(rhs.swapaxes(-1, -2) if along_k else rhs).tobytes(), right)
    for func, args in zip(funcs, (8, 16)):
        half = func.trips // 2
        exports[func.name](store, args, half, func.trips)
        exports[func.name](store, args, 0, half)
    for address, size, width in [(addresses[i], sizes[i], wide[i]) for i in (0, 2, 5)]:
        end = address + size * width
        assert memory.read(store, address - GUARD, address) == b"\xaa" * GUARD
        assert memory.read(store, end, end + GUARD) == b"\xaa" * GUARD
    _seen[key] = bytes(memory.read(store, out, out + sizes[0] * dtype.itemsize))
    return np.frombuffer(_seen[key], dtype).reshape(outs)


def values(rng: np.random.Generator, dtype: str, *dims: int) -> np.ndarray:
    """Small whole numbers: every order of summation gives the same."""
    return rng.integers(-8, 9, dims).astype(DTYPES[dtype])


def matmul(m: int, n: int, k: int, dtype: str | Types = "f32", batch: int = 0, pad: int = 0) -> Gemm:
    outer = ((batch, m * (k + pad), 1),) if batch else ()
    return Gemm(dtype if isinstance(dtype, Types) else Types.all(dtype), outer, m, k + pad, n, (), k)


def check(g: Gemm, target: Target, seed: int, shape: Tile | None = None, gap: int = 0, **options: bool) -> None:
    """`in_place`: the right side is read where it lies, with a `gap` behind each of its rows, or of its columns if they
    are what lies contiguously (`along_k`)."""
    rng = np.random.default_rng(seed)
    in_place, along_k = options.pop("in_place", False), options.get("along_k", False)
    rows, columns = (g.k + gap, g.n) if along_k else (g.k, g.n + gap)
    if in_place:
        g = replace(g, k_stride=1 if along_k else columns, n_stride=rows if along_k else 1)
    shape = shape or tile(g, target)
    batches = tuple(size for size, _, _ in g.outer)
    size = rows * columns if in_place else packed_size(g, shape)
    g = replace(g, outer=tuple((count, left, size if right else 0) for count, left, right in g.outer))
    assert reads_in_place(g, shape) or not in_place
    lhs = values(rng, g.types.left, *batches, g.m, g.m_stride)
    rhs = values(rng, g.types.right, *(size for size, _, right in g.outer if right), rows, columns)
    bias = values(rng, g.types.result, g.n) if options.pop("bias", False) else None
    left, right = lhs[..., : g.k], rhs[..., : g.k, : g.n]
    sums = left.astype(DTYPES[g.types.accumulator]) @ right.astype(DTYPES[g.types.accumulator])
    expected = sums.astype(DTYPES[g.types.result]) + (0 if bias is None else bias)
    np.testing.assert_array_equal(run(g, shape, target, lhs, rhs, bias, **options), expected, f"{g} {shape}")


@each_target
def test_small_sizes(target: Target) -> None:
    for i, (m, n, k) in enumerate(product((1, 2, 3, 5, 6, 8, 13), (1, 2, 3, 4, 7, 8, 17, 32), (1, 3, 4, 9, 16, 22))):
        check(matmul(m, n, k), target, i, bias=i % 2 == 0, along_k=i % 3 == 0)


@each_target
@pytest.mark.parametrize("dtype", ["f32", "f64", "s32", "u32"])
def test_random_sizes(dtype: str, target: Target) -> None:
    rng = np.random.default_rng(7)
    for i in range(30):
        m, n, k = (int(x) for x in rng.integers(1, 71, 3))
        check(
            matmul(m, n, k, dtype, pad=int(rng.integers(0, 3))),
            target,
            i,
            bias=i % 2 == 0,
            along_k=i % 3 == 0,
            spilled=i % 4 == 1,
        )


@each_target
@pytest.mark.parametrize("types", MIXED, ids=lambda t: f"{t.left} {t.right} {t.accumulator} {t.result}")
def test_operands_sums_and_results_of_different_types(types: Types, target: Target) -> None:
    for i, (m, n, k) in enumerate(product((1, 3, 13), (1, 4, 7, 32), (3, 22, 40))):
        check(matmul(m, n, k, types, pad=i % 3), target, i, bias=i % 2 == 0, along_k=i % 3 == 0, spilled=i % 4 == 1)


@each_target
@pytest.mark.parametrize("right", ["s16", "s8", "u8"])
@pytest.mark.parametrize("left", ["s16", "s8", "u8"])
def test_pairs(left: str, right: str, target: Target) -> None:
    """Elements are two numbers along k."""
    types = Types(left, right, "s32", "s32", pairs=True)
    rng = np.random.default_rng(5)
    for i, (m, n, k) in enumerate(product((1, 3, 13), (1, 4, 7, 33), (3, 22, 40))):
        g = matmul(m, n, k, types)
        x, y = (
            rng.choice([*limits(t), 0, 1], dims).astype(DTYPES[t])
            for t, dims in ((left, (m, 2 * k)), (right, (2 * k, n)))
        )
        sides = x, np.ascontiguousarray(y.reshape(k, 2, n).swapaxes(1, 2)).reshape(k, 2 * n)
        lhs, rhs = (a.view(DTYPES[t]) for a, t in zip(sides, (types.left_element, types.right_element)))
        expected = (x.astype(np.int64) @ y.astype(np.int64)).astype(np.int32)
        np.testing.assert_array_equal(run(g, tile(g, target), target, lhs, rhs, along_k=i % 2 == 0), expected)


@pytest.mark.parametrize(
    "shape", [Tile(4, 8), Tile(2, 16), Tile(6, 8, True), Tile(3, 4, True), Tile(4, 1), Tile(1, 32)], ids=str
)
def test_tiles(shape: Tile) -> None:
    for i, (m, n, k) in enumerate(product((1, 9, 30), (5, 33), (8, 21))):
        check(matmul(m, n, k), Target.named("relaxed-simd"), i, shape, bias=True, spilled=i % 2 == 0)


@pytest.mark.parametrize(
    "shape", [Tile(1, 32, True, stripes=4), Tile(6, 8, True, stripes=2), Tile(2, 16, stripes=2, streams=2)], ids=str
)
def test_stripes(shape: Tile) -> None:
    """The last panel may end within a stripe, at the end of one, or before all of the last one."""
    for i, (m, n, k) in enumerate(product((1, 8), (3, 8, 13, 16, 27, 32, 41, 64, 71), (8, 20))):
        for along_k in (False, True):
            check(
                matmul(m, n, k, batch=i % 3),
                Target.named("relaxed-simd"),
                i,
                shape,
                bias=True,
                spilled=i % 2 == 0,
                along_k=along_k,
            )
            check(
                matmul(m, n, k, Types("bf16", "bf16", "f32", "f32")), Target.named("simd128"), i, shape, along_k=along_k
            )


@each_target
def test_batches(target: Target) -> None:
    for i, (batch, m, n, k) in enumerate(
        [(3, 5, 7, 9), (2, 70, 12, 8), (12, 16, 16, 32), (4, 1, 40, 6), (5, 9, 1, 33)]
    ):
        check(matmul(m, n, k, batch=batch), target, i, along_k=i % 2 == 0, bias=True)


@each_target
@pytest.mark.parametrize("dtype", ["f32", "f64", "s32", "u32"])
def test_right_sides_that_are_read_where_they_lie(dtype: str, target: Target) -> None:
    """The first rows pack each panel for those below."""
    rng = np.random.default_rng(3)
    for i in range(30):
        m, k = int(rng.integers(1, 40)), int(rng.integers(1, 70))
        g = matmul(m, 1, k, dtype, batch=int(rng.integers(0, 4)), pad=int(rng.integers(0, 3)))
        n = int(rng.integers(1, 5)) * tile(replace(g, n=24), target).nr
        g = replace(g, n=n)
        if reads_in_place(g, tile(g, target)):
            check(g, target, i, bias=i % 2 == 0, spilled=i % 4 == 1, gap=int(rng.integers(0, 9)), in_place=True)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize(("mr", "lines"), [(5, 2), (6, 2), (3, 1), (6, 0)])
def test_right_sides_in_lines(mr: int, lines: int, dtype: str) -> None:
    """The first rows read whole panels, the others halves of these."""
    target, width = Target.named("relaxed-simd", V8), 8 if dtype == "f64" else 16
    shape = Tile(mr, width if lines else width // 2, True, first=lines)
    for i, (m, columns, k) in enumerate(product((7, 8, 13, 31), (3, 6), (40, 80))):
        g = matmul(m, columns * shape.nr, k, dtype, batch=i % 3, pad=i % 2)
        check(g, target, i, shape, bias=i % 2 == 0, spilled=i % 4 == 1, gap=i % 5, in_place=True)


@pytest.mark.parametrize("dtype", ["f32", "f64", "s32"])
@pytest.mark.parametrize("ahead", [1, 2, 4])
@pytest.mark.parametrize("shape", [Tile(6, 8, True), Tile(2, 16), Tile(4, 8), Tile(3, 4, True)], ids=str)
def test_panels_that_are_packed_ahead_of_all_rows(shape: Tile, ahead: int, dtype: str) -> None:
    """Rows that lie contiguously, in panels that end together."""
    for i, (m, columns, k) in enumerate(product((1, 7, 12, 31), (ahead, 3 * ahead), (1, 3, 40, 81))):
        g = matmul(m, columns * shape.nr, k, dtype, batch=i % 3, pad=i % 2)
        check(
            g,
            Target.named("relaxed-simd", V8),
            i,
            replace(shape, ahead=ahead),
            bias=i % 2 == 0,
            spilled=i % 4 == 1,
            gap=i % 5,
            in_place=True,
        )


@each_target
@pytest.mark.parametrize("dtype", ["f32", "f64", "s32", "u32"])
def test_columns_that_are_packed_ahead_of_all_rows(dtype: str, target: Target) -> None:
    """Columns that lie contiguously are turned on the way, and the last panel may have fewer of them."""
    taken = 0
    for i, (m, n, k) in enumerate(product((1, 2, 7, 33), (3, 4, 8, 9, 17, 24, 35), (1, 3, 4, 9, 22, 32))):
        g = matmul(m, n, k, dtype, batch=i % 4, pad=i % 3)
        there = replace(g, k_stride=1, n_stride=k + i % 5)
        shape = tile(there, target)
        if shape.nr > 1 and reads_in_place(there, shape):
            taken += shape.ahead
            check(g, target, i, bias=i % 2 == 0, spilled=i % 4 == 1, gap=i % 5, in_place=True, along_k=True)
    assert taken > 100


@pytest.mark.parametrize(
    ("m", "n", "gap", "ahead"), [(7, 768, 0, 0), (7, 1024, 0, 4), (7, 768, 256, 4), (12, 768, 0, 4)]
)
def test_what_is_packed_ahead(m: int, n: int, gap: int, ahead: int) -> None:
    """Not rows of the right side that lie near each other, where V8's tiles would leave one or two rows over."""
    g = replace(matmul(m, n, 100), k_stride=n + gap)
    assert tile(g, Target.named("relaxed-simd", V8)).ahead == ahead
    check(matmul(m, n, 100), Target.named("relaxed-simd", V8), m, gap=gap, in_place=True)


@pytest.mark.parametrize(("n", "threads", "ahead"), [(256, True, 4), (224, True, 0), (224, False, 4)])
def test_threads_need_parts_to_share(n: int, threads: bool, ahead: int) -> None:
    """Of panels that are packed together there are as many parts at least as threads may share."""
    target = Target.named("relaxed-simd", V8, threads)
    assert tile(replace(matmul(12, n, 300), k_stride=n), target).ahead == ahead
    check(matmul(12, n, 300), target, n, in_place=True)


@each_target
@pytest.mark.parametrize(("m", "n", "k"), [(1, 96, 3000), (5, 40, 2050), (11, 96, 1100), (2, 1024, 100)])
def test_streams(m: int, n: int, k: int, target: Target) -> None:
    """Parts of k are walked side by side; what is left over comes behind them."""
    g = matmul(m, n, k)
    assert any(tile(g, each).streams * tile(g, each).stripes > 1 for each in EVERY)
    check(g, target, k, bias=True)
    check(replace(g, n=n + 5, m_stride=k), target, k)


@each_target
@pytest.mark.parametrize(("m", "n", "k"), [(300, 20, 1100), (257, 9, 2046), (520, 33, 1028)])
def test_parts_of_k(m: int, n: int, k: int, target: Target) -> None:
    """All panels pass a part of many long rows before the next part, while sums wait."""
    g = matmul(m, n, k)
    # V8 takes shorter ones, where a number divides k.
    least = 128 if target.tune == V8 and k != 1028 else 256
    assert least < tile(g, target).part <= 2 * least
    check(g, target, k, bias=True, spilled=n == 9)
    if target.name == "simd128":
        check(matmul(m, n, k, Types("bf16", "bf16", "f32", "f32")), target, k)


@pytest.mark.parametrize("m", [64, 127, 130, 200, 509])
def test_groups_of_rows(m: int) -> None:
    for name in TARGETS:
        check(matmul(m, 20, 19), Target.named(name), m, bias=True)


@each_target
@pytest.mark.parametrize(
    ("images", "size", "channels", "outputs", "taps", "stride", "dilation"),
    [
        (1, 9, 4, 8, 3, 1, 1),
        (2, 7, 3, 5, 3, 2, 1),
        (1, 12, 5, 20, 3, 1, 2),
        (2, 80, 2, 4, 5, 1, 1),
        (1, 40, 1, 9, 7, 2, 1),
        (3, 5, 8, 16, 1, 1, 1),
    ],
)
def test_convolution(
    target: Target, images: int, size: int, channels: int, outputs: int, taps: int, stride: int, dilation: int
) -> None:
    """A two-dimensional convolution, NHWC and HWIO: kernel rows are segments, and taps too where they lie apart."""
    rng = np.random.default_rng(size)
    x = values(rng, "f32", images, size, size, channels)
    w = values(rng, "f32", taps, taps, channels, outputs)
    result = (size - (taps - 1) * dilation - 1) // stride + 1
    row = size * channels
    segments = ((taps, dilation * row),) if dilation == 1 else ((taps, dilation * row), (taps, dilation * channels))
    g = Gemm(
        Types.all("f32"),
        ((images, size * row, 0), (result, stride * row, 0)),
        result,
        stride * channels,
        outputs,
        segments,
        taps * channels if dilation == 1 else channels,
    )
    reach = (result - 1) * stride + 1
    expected = sum(
        x[:, i * dilation :, j * dilation :][:, :reach:stride, :reach:stride] @ w[i, j]
        for i, j in product(range(taps), range(taps))
    )
    rhs = w.reshape(-1, outputs)
    np.testing.assert_array_equal(run(g, tile(g, target), target, x, rhs), expected)


def test_special_values_stay_apart() -> None:
    """Padding and overlapping loads multiply nothing twice, so an infinity or NaN reaches only its own row and
    column."""
    rng = np.random.default_rng(0)
    for m, n, k in ((5, 1, 19), (5, 2, 33), (3, 7, 9), (6, 19, 5)):
        lhs, rhs = values(rng, "f32", m, k), np.abs(values(rng, "f32", k, n)) + 1
        lhs[1, k - 2], rhs[0, n - 1] = np.inf, np.nan
        for target in EVERY:
            g = matmul(m, n, k)
            with np.errstate(invalid="ignore"):
                np.testing.assert_array_equal(run(g, tile(g, target), target, lhs, rhs), lhs @ rhs)


@pytest.mark.parametrize("target", ["simd128", "relaxed-simd"])
@pytest.mark.parametrize("k", [4096, 5003])
def test_long_sums_are_made_of_parts(k: int, target: str) -> None:
    """One chain of so many additions would be 30 ulp off."""
    rng = np.random.default_rng(0)
    x, y = rng.random((5, k), np.float32), rng.random((k, 19), np.float32)
    b = HloBuilder("m")
    module = b.module(b.dot(b.parameter(0, Shape("f32", x.shape)), b.parameter(1, Shape("f32", y.shape))))
    (result,) = xla_wasm.load(xla_wasm.compile(module, xla_wasm.Options(target=target))).run(x, y)
    true = x.astype(np.float64) @ y.astype(np.float64)
    assert np.abs(result - true).max() <= 8 * np.spacing(np.float32(true.max()))
