"""Large constants go from file to file as views: compiling takes little memory beside its input."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import xla_wasm
from xla_wasm import HloModule, Options
from xla_wasm.builder import XlaBuilder
from xla_wasm.hlo.literal import Literal
from xla_wasm.hlo.shape import Shape
from xla_wasm.host.arrays import dtype_of

COUNT, SIZE = 16, 1 << 20


@pytest.fixture(scope="module")
def content() -> np.ndarray:
    return np.random.default_rng(0).integers(-4, 4, SIZE).astype(np.float32)


def proto(content: np.ndarray, element_type: str) -> bytes:
    """A module that adds up products of its argument with 16 matrices, one of which another operation reads too."""
    b = XlaBuilder("large")
    x = b.Parameter(0, Shape(element_type, (2, 1024)), "x")
    total = x
    for i in range(COUNT):
        data = np.roll(content, i).astype(dtype_of(element_type)).tobytes()
        matrix = b.Constant(Literal(Shape(element_type, (1024, 1024)), data))
        total = b.Add(total, b.Dot(x, matrix) if i % 4 else b.Slice(matrix, [i, 0], [i + 2, 1024], [1, 1]))
    return b.module(total).to_proto()


@pytest.mark.parametrize("sidecar", [True, False])
@pytest.mark.parametrize("element_type", ["f32", "bf16"])
def test_memory_of_compiling(content: np.ndarray, element_type: str, sidecar: bool, tmp_path: Path) -> None:
    data = proto(content, element_type)
    assert len(data) > COUNT * SIZE * dtype_of(element_type).itemsize
    options = Options(sidecar=sidecar)
    tracemalloc.start()
    artifact = xla_wasm.compile(HloModule.from_proto(data), options)
    sizes = artifact.sizes
    artifact.save(tmp_path / "m.wasm")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < len(data) / 4  # what the stages make of a program with small constants is some MB
    saved = xla_wasm.Artifact.open(tmp_path / "m.wasm")
    assert (len(saved.wasm), len(saved.weights)) == sizes == (len(artifact.wasm), len(artifact.weights))
    assert saved == artifact and (sizes[1] > 0) == sidecar


def test_values(content: np.ndarray, tmp_path: Path) -> None:
    """A module whose constants are written in parts, with or without a sidecar, gives the expected values."""
    data = proto(content, "f32")
    x = np.random.default_rng(1).integers(-3, 3, (2, 1024)).astype(np.float32)
    want = x.copy()
    for i in range(COUNT):
        matrix = np.roll(content, i).reshape(1024, 1024)
        want += x @ matrix if i % 4 else matrix[i : i + 2]
    for sidecar in (False, True):
        artifact = xla_wasm.compile(HloModule.from_proto(data), Options(sidecar=sidecar))
        path = artifact.save(tmp_path / f"{sidecar}.wasm")
        for source in (artifact, path):
            np.testing.assert_array_equal(xla_wasm.load(source).run(x)[0], want)
