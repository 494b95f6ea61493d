"""Random reductions of windows, short and long, of sizes on both sides of those at which they take another path."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.differential import TARGETS, differential
from xla_wasm.builder import Builder
from xla_wasm.hlo.attrs import Window, WindowDimension
from xla_wasm.hlo.ir import Computation, Module
from xla_wasm.hlo.shape import Shape
from xla_wasm.ops.dtypes import Array
from xla_wasm.ops.sample import array

TYPES = ("f32", "f32", "s32", "bf16", "f16", "s8", "u16", "f64", "s64", "pred")
REDUCERS = ("add", "add", "maximum", "minimum", "multiply", "turned")


def _reducer(names: list[str], dtypes: list[str]) -> Computation:
    """Returns the computation that combines each of several pairs of elements; "turned" gives the second of them."""
    f = Builder("combine")
    count = len(names)
    old, new = ([f.parameter(i + n * count, Shape(t)) for i, t in enumerate(dtypes)] for n in (0, 1))
    results = [
        new[i] if name == "turned" else f.op("xor" if dtypes[i] == "pred" else name, old[i], new[i])
        for i, name in enumerate(names)
    ]
    return f.build(f.op("tuple", *results) if count > 1 else results[0])


def _dimension(rng: np.random.Generator, size: int, long: bool) -> WindowDimension:
    """A window along a dimension of that size; a long one has most of its elements."""
    length = int(rng.integers(max(1, size // 4), size + 1)) if long else int(rng.choice([1, 1, 1, 2, 3]))
    stride = int(rng.choice([1, 1, 1, 2, 3]))
    low, high = (int(rng.choice([0, 0, 0, 1, length - 1])) for _ in range(2))
    base, dilation = (int(rng.choice([1] * 12 + [2])) for _ in range(2))
    missing = (length - 1) * dilation + 1 - ((size - 1) * base + 1 + low + high)
    return WindowDimension(length, stride, low, high + max(0, missing), dilation, base)


def random_windows(seed: int) -> tuple[Module, list[Array]]:
    """A reduce-window of one array or two, and its arguments: integers so small that sums are exact in any order."""
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    dims = [int(rng.choice([1, 2, 3, 4, 5, 9, 16])) for _ in range(rank)]
    along = int(rng.integers(0, rank))
    dims[along] = int(rng.choice([5, 16, 33, 40, 64, 100]))
    alone = rng.random() < 0.5  # a window along one dimension, the others being batches
    window = Window(
        tuple(
            WindowDimension(1, 1) if alone and d != along else _dimension(rng, size, d == along and rng.random() < 0.7)
            for d, size in enumerate(dims)
        )
    )
    count = int(rng.choice([1, 1, 1, 2]))
    dtypes = [str(rng.choice(TYPES)) for _ in range(count)]
    names = [str(rng.choice(REDUCERS)) for _ in range(count)]
    b = Builder("windows")
    arguments: list[Array] = []
    for sizes in [dims] * count + [[]] * count:
        dtype = dtypes[len(arguments) % count]
        made = np.asarray(rng.integers(0 if dtype[0] in "up" else -1, 2, sizes))
        arguments.append(made % 2 == 0 if dtype == "pred" else array(dtype, made))
    parameters = [b.parameter(n, Shape(dtypes[n % count], a.shape)) for n, a in enumerate(arguments)]
    if rng.random() < 0.3 and dtypes[0] != "pred":
        parameters[0] = b.op("negate", parameters[0])
    return b.module(b.op("reduce-window", *parameters, called=[_reducer(names, dtypes)], window=window)), arguments


@pytest.mark.parametrize("seed", range(120))
def test_random_windows(seed: int) -> None:
    module, arguments = random_windows(seed)
    differential(module, *arguments, targets=[[*TARGETS][seed % len(TARGETS)]])


def random_select_and_scatter(seed: int) -> tuple[Module, list[Array]]:
    """A select-and-scatter, and its arguments."""
    rng = np.random.default_rng(seed)
    dtype = str(rng.choice(["f32", "s32", "bf16", "f64", "s8"]))
    dims = [int(rng.choice([1, 2, 3, 5, 8, 9, 17])) for _ in range(rng.integers(1, 4))]
    window = Window(tuple(_dimension(rng, size, False) for size in dims))
    window = Window(tuple(replace(w, window_dilation=1, base_dilation=1) for w in window.dimensions))
    window = Window(tuple(replace(w, size=min(w.size, s + w.padding_low)) for w, s in zip(window.dimensions, dims)))
    places = [(s + w.padding_low + w.padding_high - w.size) // w.stride + 1 for w, s in zip(window.dimensions, dims)]
    arguments = [array(dtype, rng.integers(-3, 4, sizes)) for sizes in (dims, places, [])]
    b, select = Builder("pool"), Builder("select")
    x, y = (select.parameter(n, Shape(dtype)) for n in range(2))
    selects = select.build(select.op("compare", x, y, direction=str(rng.choice(["GE", "LE", "GT"]))))
    scatters = _reducer([str(rng.choice(["add", "add", "maximum", "turned"]))], [dtype])
    operands = [b.parameter(n, Shape(dtype, a.shape)) for n, a in enumerate(arguments)]
    return b.module(b.op("select-and-scatter", *operands, called=[selects, scatters], window=window)), arguments


@pytest.mark.parametrize("seed", range(60))
def test_random_selections(seed: int) -> None:
    module, arguments = random_select_and_scatter(seed)
    differential(module, *arguments, targets=[[*TARGETS][seed % len(TARGETS)]])
