"""Products of integers, which are multiplied in pairs of s16 where their numbers fit, against the evaluator."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support import seeds
from tests.support.closeness import equal
from tests.support.differential import differential
from xla_wasm.builder import Builder
from xla_wasm.hlo.attrs import ConvolutionDimensionNumbers, Window, WindowDimension
from xla_wasm.hlo.ir import Instruction, Module
from xla_wasm.hlo.types import limits
from xla_wasm.ops.dtypes import DTYPES, Array
from xla_wasm.ops.sample import shape_of
from xla_wasm.target import TARGETS, TUNES

TYPES = ("s8", "u8", "s16", "u16", "s32", "u32", "s4", "u4", "pred")
RESULTS = ("s32", "s32", "s32", "u32", "s16", "s8", "u8", "s64")


def numbers(rng: np.random.Generator, dtype: str, dims: tuple[int, ...]) -> Array:
    """All numbers of a type; half of the time only its least, its greatest and 0."""
    low, high = (0, 1) if dtype == "pred" else limits(dtype)
    if rng.integers(2):
        return rng.choice(np.array([low, high, 0], np.int64), dims).astype(DTYPES[dtype])
    return rng.integers(low, high, dims, np.int64, endpoint=True).astype(DTYPES[dtype])


def widened(rng: np.random.Generator, b: Builder, x: Instruction) -> Instruction:
    """An operand that is wider than its numbers, as programs that dequantise write it; some leave the range of 16
    bits."""
    choice = int(rng.integers(9))
    if choice < 3:
        return x
    y = b.convert(x, "s32")
    point = int(rng.choice([-128, -1, 1, 127, 128, 255, 32767, 70000]))
    if choice == 3:
        return y
    if choice == 4:
        return b.subtract(y, b.full(point, y.shape))
    if choice == 5:
        return b.multiply(y, b.full(point, y.shape))
    if choice == 6:
        return b.maximum(b.minimum(y, b.full(abs(point), y.shape)), b.full(-abs(point), y.shape))
    if choice == 7:
        return b.negate(b.add(y, b.full(point, y.shape)))
    return b.convert(b.subtract(y, b.full(point, y.shape)), "s16")


def finished(rng: np.random.Generator, b: Builder, x: Instruction) -> Instruction:
    """Returns one of the results that programs make of the sums: floats with a scale for each column, clipped bytes,
    the sums themselves, or sums and floats."""
    choice = int(rng.integers(5))
    if choice < 2:
        return x
    scale = b.constant([2.0 ** -(i % 9) for i in range(x.shape.dimensions[-1])])
    y = b.multiply(b.convert(x, "f32"), b.broadcast(scale, x.shape.dimensions, (x.shape.rank - 1,)))
    if choice == 2:
        return y
    if choice == 3:
        return b.tuple(x, y)
    clipped = b.maximum(b.minimum(b.round_nearest_even(y), b.full(127, y.shape)), b.full(-128, y.shape))
    return b.convert(clipped, "s8")


def a_dot(rng: np.random.Generator) -> tuple[Module, list[Array]]:
    m, n = (int(rng.choice([1, 1, 2, 3, 7, 8, 13, 16, 33, 40])) for _ in range(2))
    k = int(rng.choice([7, 8, 9, 15, 16, 31, 33, 64, 65, 200]))
    batch = (int(rng.integers(2, 4)),) if rng.integers(4) == 0 else ()
    flip_left, flip_right = (bool(rng.integers(3) == 0) for _ in range(2))
    given = [
        numbers(rng, str(rng.choice(TYPES)), (*batch, *((k, m) if flip_left else (m, k)))),
        numbers(rng, str(rng.choice(TYPES)), (*batch, *((n, k) if flip_right else (k, n)))),
    ]
    b = Builder("m")
    x, y = (widened(rng, b, b.parameter(i, shape_of(a))) for i, a in enumerate(given))
    rank = len(batch)
    contracting = ((rank + 1 - flip_left,), (rank + flip_right,))
    z = b.dot(x, y, contracting, (range(rank), range(rank)), element_type=str(rng.choice(RESULTS)))
    return b.module(finished(rng, b, z)), given


def a_convolution(rng: np.random.Generator) -> tuple[Module, list[Array]]:
    inputs, outputs = (int(rng.choice([1, 2, 3, 4, 8, 16, 17])) for _ in range(2))
    groups = int(rng.choice([1, 1, 2, 4]))
    size, taps = int(rng.integers(3, 12)), int(rng.choice([1, 2, 3]))
    given = [
        numbers(rng, str(rng.choice(TYPES)), (int(rng.integers(1, 8)), size, size, inputs * groups)),
        numbers(rng, str(rng.choice(TYPES)), (taps, taps, inputs, outputs * groups)),
    ]
    b = Builder("m")
    x, y = (widened(rng, b, b.parameter(i, shape_of(a))) for i, a in enumerate(given))
    low, high = (int(rng.integers(2)) for _ in range(2))
    side = WindowDimension(taps, int(rng.integers(1, 3)), low, high, int(rng.integers(1, 3)) if size > 2 * taps else 1)
    attrs = {
        "window": Window((side, side)),
        "dim_labels": ConvolutionDimensionNumbers(0, 3, (1, 2), 2, 3, (0, 1), 0, 3, (1, 2)),
        "feature_group_count": groups,
    }
    plain = Builder("m").op("convolution", x, y, **attrs).shape
    z = b.op("convolution", x, y, shape=plain.with_element_type(str(rng.choice(RESULTS))), **attrs)
    return b.module(finished(rng, b, z)), given


@pytest.mark.parametrize("seed", range(seeds.count(20, 400)))
def test_products(seed: int) -> None:
    rng = np.random.default_rng(seed)
    module, given = (a_convolution if seed % 3 == 2 else a_dot)(rng)
    target, tune = str(rng.choice(list(TARGETS))), str(rng.choice(list(TUNES)))
    differential(module, *given, near=equal, target=target, tune=tune, weights=(1,) if seed % 4 == 3 else ())


@pytest.mark.parametrize("target", list(TARGETS))
@pytest.mark.parametrize("steps", [1, 6, 7, 8, 9, 12])
def test_ranges_through_many_instructions(steps: int, target: str) -> None:
    """Numbers are followed so far; what is beyond may be anything. Sums that leave 16 bits are no pairs."""
    rng = np.random.default_rng(steps)
    for dtype, by in (("s8", 1), ("u8", 1), ("s8", 5000)):
        given = [numbers(rng, dtype, (2, 9, 33)), numbers(rng, "s8", (2, 33, 24))]
        b = Builder("m")
        x = b.convert(b.parameter(0, shape_of(given[0])), "s32")
        for _ in range(steps):
            x = b.negate(b.add(x, b.full(by, x.shape)))
        y = b.dot(x, b.convert(b.parameter(1, shape_of(given[1])), "s32"), ((2,), (1,)), ((0,), (0,)))
        differential(b.module(y), *given, near=equal, target=target)


@pytest.mark.parametrize("through", ["s8", "s16", "u8", "s4", "s32"])
@pytest.mark.parametrize("source", ["s16", "s8", "u8", "s32"])
def test_operands_that_are_converted(source: str, through: str) -> None:
    """A conversion that drops bits is none that widens."""
    rng = np.random.default_rng(3)
    for m, n, batch in ((1, 70, ()), (9, 24, (2,))):
        given = [numbers(rng, source, (*batch, m, 65)), numbers(rng, source, (*batch, 65, n))]
        b = Builder("m")
        x, y = (b.convert(b.parameter(i, shape_of(a)), through) for i, a in enumerate(given))
        rank = len(batch)
        z = b.dot(x, y, ((rank + 1,), (rank,)), (range(rank), range(rank)), element_type="s32")
        differential(b.module(z), *given, near=equal, targets=["relaxed-simd for v8" if batch else "simd128"])
