"""Products of bytes in quads, where the engine takes them exactly, and in pairs where not: the same bits, whatever it
does."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import xla_wasm
from tests.host.test_threads import fill_own_memory
from tests.kernels.test_integer_products import finished, numbers
from tests.support import relaxed_dots, seeds
from tests.support.closeness import equal
from tests.support.differential import differential, run
from tests.support.relaxed_dots import ENGINES, Engine
from xla_wasm import Options
from xla_wasm.builder import Builder
from xla_wasm.hlo.attrs import ConvolutionDimensionNumbers, Window, WindowDimension
from xla_wasm.hlo.ir import Instruction, Module
from xla_wasm.hlo.shape import Shape
from xla_wasm.hlo.types import limits
from xla_wasm.ops.dtypes import DTYPES, Array
from xla_wasm.ops.sample import shape_of
from xla_wasm.target import PORTABLE, RELAXED_SIMD, SIMD128, TUNES, V8, WASMTIME

QUAD = b"\xfd\x93\x02"
"""The relaxed product with its sum, as code."""
BYTES = ("s8", "u8")


def in_bytes(rng: np.random.Generator, b: Builder, x: Instruction) -> Instruction:
    """An operand of bytes, or of wider numbers that fit into bytes, as programs that quantise write it; some do not
    fit."""
    choice = int(rng.integers(7))
    if choice < 3:
        return x
    y = b.convert(x, "s32")
    if choice == 3:
        return y
    if choice == 4:
        return b.subtract(y, b.full(128 if x.shape.element_type == "u8" else int(rng.integers(-3, 4)), y.shape))
    if choice == 5:
        return b.maximum(
            b.minimum(y, b.full(int(rng.choice([127, 100, 255])), y.shape)), b.full(int(rng.choice([-128, 0])), y.shape)
        )
    return b.convert(b.negate(b.minimum(y, b.full(120, y.shape))), "s16")


def a_dot(rng: np.random.Generator) -> tuple[Module, list[Array]]:
    """A product of any sizes, in any order of the dimensions, with or without batches; perhaps of another one's
    requantised result."""
    m, n, k = (int(rng.integers(int(rng.choice([1, 32])), 71)) for _ in range(3))
    batch = (int(rng.integers(2, 4)),) if rng.integers(4) == 0 else ()
    flip_left, flip_right = (bool(rng.integers(3) == 0) for _ in range(2))
    types = (*BYTES, *BYTES, *BYTES, "s4", "pred")
    given = [
        numbers(rng, str(rng.choice(types)), (*batch, *((k, m) if flip_left else (m, k)))),
        numbers(rng, str(rng.choice(types)), (*batch, *((n, k) if flip_right else (k, n)))),
    ]
    b = Builder("m")
    x, y = (in_bytes(rng, b, b.parameter(i, shape_of(a))) for i, a in enumerate(given))
    rank = len(batch)
    contracting = ((rank + 1 - flip_left,), (rank + flip_right,))
    z = b.dot(
        x, y, contracting, (range(rank), range(rank)), element_type=str(rng.choice(["s32", "s32", "u32", "s16", "s64"]))
    )
    if not batch and rng.integers(3) == 0:
        given.append(numbers(rng, str(rng.choice(BYTES)), (n, int(rng.integers(1, 71)))))
        scaled = b.multiply(b.convert(z, "f32"), b.full(2.0**-7, z.shape.with_element_type("f32")))
        clipped = b.maximum(b.minimum(scaled, b.full(127, scaled.shape)), b.full(-128, scaled.shape))
        right = b.parameter(2, shape_of(given[2]))
        z = b.dot(b.convert(b.round_nearest_even(clipped), "s8"), right, ((1,), (0,)), element_type="s32")
    return b.module(finished(rng, b, z)), given


def a_convolution(rng: np.random.Generator) -> tuple[Module, list[Array]]:
    """One with rows of pixels or images enough for quads, most of the time."""
    inputs, outputs, taps = int(rng.integers(1, 70)), int(rng.integers(1, 40)), int(rng.choice([1, 1, 2, 3]))
    images, height, width = int(rng.choice([1, 2, 9])), int(rng.integers(taps, 6)), int(rng.choice([3, 8, 13]))
    given = [
        numbers(rng, str(rng.choice(BYTES)), (images, height, width, inputs)),
        numbers(rng, str(rng.choice(BYTES)), (taps, taps, inputs, outputs)),
    ]
    b = Builder("m")
    x, y = (in_bytes(rng, b, b.parameter(i, shape_of(a))) for i, a in enumerate(given))
    side = WindowDimension(taps, int(rng.choice([1, 1, 2])), int(rng.integers(2)), int(rng.integers(2)))
    labels = ConvolutionDimensionNumbers(0, 3, (1, 2), 2, 3, (0, 1), 0, 3, (1, 2))
    attrs = {"window": Window((side, side)), "dim_labels": labels}
    plain = Builder("m").op("convolution", x, y, **attrs).shape
    return b.module(finished(rng, b, b.op("convolution", x, y, shape=plain.with_element_type("s32"), **attrs))), given


@pytest.mark.parametrize("engine", ENGINES.values(), ids=list(ENGINES))
@pytest.mark.parametrize("seed", range(seeds.count(6, 120)))
def test_any_engine(seed: int, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    module, given = (a_convolution if seed % 4 == 3 else a_dot)(rng)
    relaxed_dots.be(monkeypatch, engine)
    tune, weights = str(rng.choice([PORTABLE, V8])), (1,) if seed % 3 == 2 else ()
    differential(module, *given, near=equal, target=RELAXED_SIMD, tune=tune, weights=weights)


@pytest.mark.parametrize("seed", range(seeds.count(5, 100)))
def test_the_engine_that_is_there(seed: int) -> None:
    """One artifact, with the instruction itself, where it is what the processor has, and where it is the deterministic
    one."""
    rng = np.random.default_rng(1000 + seed)
    module, given = (a_convolution if seed % 4 == 3 else a_dot)(rng)
    for untrusted in (False, True):
        differential(module, *given, targets=["relaxed-simd for v8"], near=equal, untrusted=untrusted)


def product(
    left: str, right: str, m: int = 16, n: int = 24, k: int = 64, most: int = 128
) -> tuple[Module, list[Array]]:
    """A product of numbers of a type that are not beyond `most`."""
    rng = np.random.default_rng(m * n + k)

    def drawn(dtype: str, dims: tuple[int, ...]) -> Array:
        low, high = limits(dtype)
        return rng.integers(max(low, -most), min(high, most), dims, np.int64, endpoint=True).astype(DTYPES[dtype])

    given = [drawn(left, (m, k)), drawn(right, (k, n))]
    b = Builder("m")
    x, y = (b.parameter(i, shape_of(a)) for i, a in enumerate(given))
    return b.module(b.dot(x, y, ((1,), (0,)), element_type="s32")), given


@pytest.mark.parametrize("engine", ENGINES.values(), ids=list(ENGINES))
@pytest.mark.parametrize("right", BYTES)
@pytest.mark.parametrize("left", BYTES)
def test_quads_are_taken_where_they_are_exact(
    left: str, right: str, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With wrong products of pairs the result shows which were taken: numbers are so small that all engines take quads
    of them exactly."""
    module, given = product(left, right, most=7)
    relaxed_dots.be(monkeypatch, engine)
    relaxed_dots.spoil_pairs(monkeypatch)
    (true,) = xla_wasm.evaluate(module, *given)
    for tune in TUNES:
        (ours,) = run(module, *given, target=RELAXED_SIMD, tune=tune)
        taken = engine.exact and tune != WASMTIME and (engine.sign == "u" or tune == V8 and right == "s8")
        assert np.array_equal(ours, true) == taken, tune


@pytest.mark.parametrize("engine", ENGINES.values(), ids=list(ENGINES))
@pytest.mark.parametrize("right", BYTES)
@pytest.mark.parametrize("left", BYTES)
def test_numbers_that_are_farthest_from_0(
    left: str, right: str, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, given = product(left, right)
    relaxed_dots.be(monkeypatch, engine)
    exe = xla_wasm.load(xla_wasm.compile(module, Options(target=RELAXED_SIMD, tune=V8)))
    for x, y in itertools.product(limits(left), limits(right)):
        filled = np.full_like(given[0], x), np.full_like(given[1], y)
        np.testing.assert_array_equal(exe.run(*filled)[0], np.full((16, 24), 64 * x * y, np.int32))


@pytest.mark.parametrize("engine", ["vpdpbusd", "sdot"])
@pytest.mark.parametrize("right", BYTES)
@pytest.mark.parametrize("left", BYTES)
def test_windows(left: str, right: str, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a window lie apart: each is a run along k, here of an odd number of pairs."""
    rng = np.random.default_rng(3)
    given = [numbers(rng, left, (2, 5, 11, 22)), numbers(rng, right, (3, 3, 22, 20))]
    b = Builder("m")
    x, y = (b.parameter(i, shape_of(a)) for i, a in enumerate(given))
    side, labels = WindowDimension(3, 1, 1, 1), ConvolutionDimensionNumbers(0, 3, (1, 2), 2, 3, (0, 1), 0, 3, (1, 2))
    shape = Shape("s32", (2, 5, 11, 20))
    module = b.module(b.op("convolution", x, y, shape=shape, window=Window((side, side)), dim_labels=labels))
    assert QUAD in xla_wasm.compile(module, Options(target=RELAXED_SIMD, tune=V8)).wasm
    relaxed_dots.be(monkeypatch, ENGINES[engine])
    differential(module, *given, targets=["relaxed-simd for v8"])


def test_where_there_is_no_quad() -> None:
    """Without the feature, in few rows, in short sums, and where a side is no bytes."""
    assert QUAD in xla_wasm.compile(product("s8", "s8")[0], Options(target=RELAXED_SIMD)).wasm
    assert QUAD not in xla_wasm.compile(product("s8", "s8")[0], Options(target=SIMD128)).wasm
    for module, _ in (
        product("s8", "s8", m=7),
        product("s8", "s8", k=28),
        product("s16", "s8"),
        product("u8", "s16"),
        product("s8", "s8", n=4),
    ):
        assert QUAD not in xla_wasm.compile(module, Options(target=RELAXED_SIMD)).wasm


CENTRED = """HloModule m

ENTRY e {
  x = u8[24,96] parameter(0)
  wide = s32[24,96] convert(x)
  point = s32[] constant(128)
  points = s32[24,96] broadcast(point), dimensions={}
  centred = s32[24,96] subtract(wide, points)
  w = s8[96,40] constant(WEIGHTS)
  ROOT y = s32[24,40] dot(centred, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""


@pytest.mark.parametrize("options", [{}, {"sidecar": True}, {"threads": True}], ids=str)
def test_what_is_packed_does_not_depend_on_the_engine(options: dict[str, Any]) -> None:
    """One engine packs constants when compiling, and another one multiplies them. The numbers of the left side are
    found to be bytes."""
    rng = np.random.default_rng(0)
    weights = str(rng.integers(-128, 128, (96, 40)).tolist()).replace("[", "{").replace("]", "}")
    module = Module.from_text(CENTRED.replace("WEIGHTS", weights))
    x = rng.integers(0, 256, (24, 96)).astype(np.uint8)
    for prepared in (False, True):
        artifact = xla_wasm.compile(module, Options(target=RELAXED_SIMD, tune=V8, prepared=prepared, **options))
        assert QUAD in artifact.wasm
        for untrusted in (False, True):
            ways = {"prepared": prepared, "untrusted": untrusted} | options
            differential(module, x, targets=["relaxed-simd for v8"], **ways)


@pytest.mark.parametrize("engine", ["vpdpbusd", "sdot", "vpmaddubsw"])
def test_threads(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads share the panels or the rows of a product, and each widens the panels that it takes for itself."""
    relaxed_dots.be(monkeypatch, ENGINES[engine])
    for left, right, m, n, k in (("s8", "s8", 200, 72, 130), ("u8", "s8", 33, 600, 66), ("s8", "u8", 129, 128, 257)):
        module, given = product(left, right, m, n, k)
        (true,) = xla_wasm.evaluate(module, *given)
        artifact = xla_wasm.compile(module, Options(target=RELAXED_SIMD, tune=V8, threads=True))
        for threads in (1, 2, 3):
            exe = xla_wasm.load(artifact, threads=threads)
            if threads > 1:
                fill_own_memory(exe, threads)
            for _ in range(2):
                np.testing.assert_array_equal(exe.run(*given)[0], true)
