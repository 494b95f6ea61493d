"""Kernels that are called for parts of their range: the same values, however small the parts are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from golden import values
from golden.runner import golden_files, read
from random_programs import draw_program
from random_values import Draw

import xla_wasm
from xla_wasm import Options, evaluate
from xla_wasm.loop import pieces
from xla_wasm.loop.builder import Builder
from xla_wasm.target import SIMD128, Target

FILES = [pytest.param(path, id=path.stem) for i, path in enumerate(golden_files()) if i % 15 == 0 or path.stem == "convolution_in_tiles"]


@pytest.fixture
def single_trips(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has each call of a kernel make one trip."""
    monkeypatch.setattr(pieces, "_STATEMENTS", 1)


@pytest.mark.usefixtures("single_trips")
@pytest.mark.parametrize("path", FILES)
def test_golden_files(path: Path) -> None:
    values.check(read(path), "simd128")


@pytest.mark.usefixtures("single_trips")
@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    module, arguments = draw_program(Draw(lambda low, high: int(rng.integers(low, high + 1))))
    results = xla_wasm.load(xla_wasm.compile(module, Options(target=("simd128", "relaxed-simd")[seed % 2]))).run(*arguments)
    for actual, wanted in zip(results, evaluate(module, *arguments), strict=True):
        np.testing.assert_array_equal(actual, wanted)


def kernel(trips: int, *, inner: int = 1, outside: bool = False) -> Builder:
    """Stores zeros: in its range, in a loop inside of that, and perhaps outside."""
    b = Builder("zeros", 1, 4, Target.named(SIMD128), frozenset((0,)))
    zero = b.const("f32", 0)
    with b.loop(trips, ranged=True) as i, b.loop(inner) as j:
        b.store(0, i * inner + j, zero, "f32")
    if outside:
        with b.loop(2) as i:
            b.store(0, i, zero, "f32")
    return b


def test_pieces_grow_as_their_trips_become_short() -> None:
    most = pieces._STATEMENTS
    assert piece_of(kernel(1000, inner=most)) == 1
    assert piece_of(kernel(1000, inner=most // 100)) in range(20, 101)
    assert piece_of(kernel(1000)) == 1000
    assert piece_of(kernel(3, inner=2 * most)) == 1


def test_what_stores_outside_of_its_range_is_called_once() -> None:
    assert piece_of(kernel(1000, inner=pieces._STATEMENTS, outside=True)) == 1000


def piece_of(b: Builder) -> int:
    return pieces.piece(b.func())
