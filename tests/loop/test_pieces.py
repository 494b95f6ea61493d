"""Kernels that are called for parts of their range: the same values, however small the parts are."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
import wasmtime

from tests.golden import values
from tests.golden.runner import golden_files, read
from tests.support import seeds
from tests.support.closeness import assert_all, equal
from tests.support.differential import run
from tests.support.random_placed import draw_placed
from tests.support.random_programs import draw_program
from tests.support.random_values import Draw
from xla_wasm import evaluate
from xla_wasm.loop import pieces
from xla_wasm.loop.builder import Builder
from xla_wasm.loop.emit import emit
from xla_wasm.target import SIMD128, Target
from xla_wasm.wasm import Module

FILES = [
    pytest.param(path, id=path.stem)
    for i, path in enumerate(golden_files())
    if i % 15 == 0 or path.stem == "convolution_in_tiles"
]


@pytest.fixture
def single_trips(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has each call of a kernel make one trip."""
    monkeypatch.setattr(pieces, "STATEMENTS", 1)


@pytest.mark.usefixtures("single_trips")
@pytest.mark.parametrize("path", FILES)
def test_golden_files(path: Path) -> None:
    values.check(read(path), "simd128")


@pytest.mark.usefixtures("single_trips")
@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    module, arguments = draw_program(Draw(lambda low, high: int(rng.integers(low, high + 1))))
    results = run(module, *arguments, target=("simd128", "relaxed-simd")[seed % 2])
    assert_all(results, evaluate(module, *arguments), equal)


@pytest.mark.usefixtures("single_trips")
def test_random_paddings() -> None:
    """Kernels whose range is made of several loops."""
    for seed in range(seeds.count(13, 500)):
        rng = np.random.default_rng(seed)
        module, arguments = draw_placed(Draw(lambda low, high, rng=rng: int(rng.integers(low, high + 1))))
        results = run(module, *arguments, tune=("portable", "v8")[seed % 2])
        for actual, wanted in zip(results, evaluate(module, *arguments), strict=True):
            assert actual.tobytes() == wanted.tobytes(), f"seed {seed}"


@pytest.mark.parametrize("trips", [(5,), (1, 4), (3, 1, 2), (1, 1), (2, 3, 4)])
def test_any_part_of_a_range(trips: tuple[int, ...]) -> None:
    """Each loop makes the trips that are its own of those that it is called for, and no others."""
    b = Builder("numbers", 1, 4, Target.named(SIMD128), frozenset((0,)))
    first = 0
    for loop, count in enumerate(trips):
        with b.loop(count, chunked=True) as i:
            b.store(0, i + first, b.add(b.index_value(i), b.const("s32", 100 * (loop + 1))), "s32")
        first += count
    func = b.func()
    assert func.trips == sum(trips)
    all_numbers = [100 * (loop + 1) + i for loop, count in enumerate(trips) for i in range(count)]
    module = Module()
    module.memory(1)
    module.export_memory("memory")
    module.add(emit(func))
    module.export_func("numbers", "numbers")
    store = wasmtime.Store()
    exports = wasmtime.Instance(store, wasmtime.Module(store.engine, module.encode()), []).exports(store)
    memory, run = exports["memory"], exports["numbers"]
    assert isinstance(memory, wasmtime.Memory) and isinstance(run, wasmtime.Func)
    for begin in range(sum(trips) + 1):
        for end in range(begin, sum(trips) + 1):
            memory.write(store, struct.pack("<I", 64) + bytes(124))
            run(store, 0, begin, end)
            found = struct.unpack(f"<{sum(trips)}i", memory.read(store, 64, 64 + 4 * sum(trips)))
            assert list(found) == [n if begin <= k < end else 0 for k, n in enumerate(all_numbers)]


def kernel(trips: int, *, inner: int = 1, outside: bool = False) -> Builder:
    """Stores zeros: in its range, in a loop inside of that, and perhaps outside."""
    b = Builder("zeros", 1, 4, Target.named(SIMD128), frozenset((0,)))
    zero = b.const("f32", 0)
    with b.loop(trips, chunked=True) as i, b.loop(inner) as j:
        b.store(0, i * inner + j, zero, "f32")
    if outside:
        with b.loop(2) as i:
            b.store(0, i, zero, "f32")
    return b


def test_pieces_grow_as_their_trips_become_short() -> None:
    most = pieces.STATEMENTS
    assert piece_of(kernel(1000, inner=most)) == 1
    assert piece_of(kernel(1000, inner=most // 100)) in range(20, 101)
    assert piece_of(kernel(1000)) == 1000
    assert piece_of(kernel(3, inner=2 * most)) == 1


def test_what_stores_outside_of_its_range_is_called_once() -> None:
    assert piece_of(kernel(1000, inner=pieces.STATEMENTS, outside=True)) == 1000


def piece_of(b: Builder) -> int:
    return pieces.piece(b.func())
