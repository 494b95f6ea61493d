"""Rows in bytes times numbers of 4 bits, both in blocks with scales, as relaxed-simd has it: exact integers, whatever
the engine does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import xla_wasm
from tests.support import relaxed_dots, seeds
from tests.support.node_host import run_in_node
from tests.support.relaxed_dots import ENGINES
from xla_wasm import Options
from xla_wasm.compiler import stages
from xla_wasm.hlo.ir import Module
from xla_wasm.jax import lower
from xla_wasm.ops.dot.stored import BLOCK, FEW_ROWS
from xla_wasm.target import RELAXED_SIMD, SIMD128, TUNES, V8

Array = np.ndarray[Any, Any]
DOT = b"\xfd\x92\x02"
"""The relaxed product of bytes in pairs, as code."""


def blocks(rng: np.random.Generator, most: int, least: int, rows: int, length: int, fill: str) -> Array:
    """Whole numbers [rows, length], of which each block has one that is the greatest in magnitude, so that its scale is
    a power of two."""
    made = rng.integers(least, most, (rows, length // BLOCK, BLOCK), endpoint=True)
    if fill == "ends":
        made = rng.choice([least, most], made.shape)
    elif fill != "any":
        made[:] = least if fill == "least" else most
    if fill != "most":
        at = rng.integers(0, BLOCK, made.shape[:2])
        np.put_along_axis(made, at[..., None], least, -1)
    return (made * 2.0 ** rng.integers(0, 3, (*made.shape[:2], 1))).reshape(rows, length).astype(np.float32)


def program(seed: int) -> tuple[Callable[..., Any], Array, Array, Array]:
    """A product, a weight and rows of whole numbers that both formats hold exactly, and the product's result."""
    rng = np.random.default_rng(seed)
    m, n, k = (
        int(rng.integers(1, FEW_ROWS + 1)),
        int(rng.choice([3, 4, 7, 16, 24, 31, 33, 50, 64, 101])),
        BLOCK * int(rng.integers(1, 8)),
    )
    m = m if seed % 3 else 1
    batch, form = (
        int(rng.choice([0, 0, 0, 2, 3])),
        rng.choice(["plain", "turned", "left", "heads", "apart", "shared", "finished"]),
    )
    fills = rng.choice(["any", "any", "any", "least", "most", "ends"], 2)
    batch = max(batch, 2) if form == "shared" else batch
    lead = (batch,) if batch and form != "heads" else ()
    x = blocks(rng, 127, -127, m * max(batch if lead else 1, 1), k, fills[0]).reshape(*lead, m, k)
    if form == "shared":  # all batches have the same rows
        x[:] = x[:1]
    # Of four bits only -8 makes a scale that is a power of two.
    w = blocks(rng, 7, -8, n * max(batch if lead else 1, 1), k, "least" if fills[1] == "most" else fills[1]).reshape(
        *lead, n, k
    )
    exact = np.matmul(x.astype(np.float64), np.swapaxes(w, -1, -2).astype(np.float64))
    if form == "plain" or form == "finished":
        w = np.swapaxes(w, -1, -2)
    elif form == "heads":  # rows do not lie side by side
        x = np.swapaxes(x.reshape(m, k // BLOCK, BLOCK), 0, 1)
    elif form == "shared":
        x = x[0]
    elif form == "apart":
        x = np.concatenate([x, x[..., ::-1]], -1)

    def fn(w: Any, x: Any) -> Any:
        if form == "left":
            return jnp.swapaxes(jnp.matmul(w, jnp.swapaxes(x, -1, -2)), -1, -2)
        if form == "heads":
            x = jnp.swapaxes(x, 0, 1).reshape(m, k)
        if form == "shared":
            x = jnp.broadcast_to(x, (batch, m, k))
        if form == "finished":
            return jnp.abs(jnp.matmul(x, w)) * 2 + x[..., :1]
        return jnp.matmul(x[..., :k], w if form == "plain" else jnp.swapaxes(w, -1, -2))

    if form == "finished":
        exact = np.abs(exact) * 2 + x[..., :1]
    return fn, np.ascontiguousarray(w), np.ascontiguousarray(x), exact.astype(np.float32)


def compiled(module: Module, **options: Any) -> xla_wasm.Artifact:
    return xla_wasm.compile(
        module, Options(**{"target": RELAXED_SIMD, "weights": ("w",), "weight_format": "int4"} | options)
    )


def result(artifact: xla_wasm.Artifact, w: Array, x: Array, **options: Any) -> Array:
    exe = xla_wasm.load(artifact, **options)
    exe.set("w", w)
    (found,) = exe.run(x)
    return np.array(found)


@pytest.mark.parametrize("seed", range(seeds.count(20, 600)))
def test_sums_are_exact(seed: int) -> None:
    fn, w, x, exact = program(seed)
    module = lower(fn, w, x)
    artifact = compiled(module, tune=TUNES[seed % 3])
    assert DOT in artifact.wasm
    np.testing.assert_array_equal(result(artifact, w, x), exact)


@pytest.mark.parametrize("engine", ENGINES.values(), ids=list(ENGINES))
def test_any_engine(engine: relaxed_dots.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    relaxed_dots.be(monkeypatch, engine)
    for seed in range(6):
        fn, w, x, exact = program(1000 + seed)
        np.testing.assert_array_equal(result(compiled(lower(fn, w, x), tune=V8), w, x), exact)


def filled(m: int, k: int, n: int, left: int, right: int) -> tuple[Array, Array]:
    """Rows and columns of one number, but for the one in each block that makes its scale 1."""
    x, w = np.full((m, k), left, np.float32), np.full((k, n), right, np.float32)
    x[:, ::BLOCK] = 127
    w[BLOCK - 1 :: BLOCK] = -8
    return x, w


def test_numbers_that_are_farthest_from_0(tmp_path: Path) -> None:
    """In both hosts, one artifact for all."""
    m, k, n = 3, 4 * BLOCK, 37
    x, w = filled(m, k, n, 0, 0)
    artifact = compiled(lower(lambda w, x: x @ w, w, x), tune=V8)
    assert DOT in artifact.wasm
    for right in (-8, 7):
        given = [filled(m, k, n, left, right) for left in (-127, 127)]
        in_node = run_in_node(artifact, [[x] for x, _ in given], tmp_path, {"w": given[0][1]})
        for (x, w), (found,) in zip(given, in_node, strict=True):
            np.testing.assert_array_equal(found, x @ w)
            for untrusted in (False, True):
                np.testing.assert_array_equal(result(artifact, w, x, untrusted=untrusted), x @ w)


@pytest.mark.parametrize("rows", [1, 2, 5, FEW_ROWS])
def test_threads(rows: int) -> None:
    """Threads share the panels, or the rows."""
    rng = np.random.default_rng(rows)
    x, w = blocks(rng, 127, -127, rows, 8 * BLOCK, "any"), blocks(rng, 7, -8, 640, 8 * BLOCK, "any")
    artifact = compiled(lower(lambda w, x: x @ w.T, w, x), threads=True)
    for threads in (1, 2, 3):
        np.testing.assert_array_equal(result(artifact, w, x, threads=threads), x @ w.T)


def test_an_outlier_takes_the_precision_of_its_block_alone() -> None:
    rng = np.random.default_rng(0)
    x, w = (
        rng.standard_normal((2, 8 * BLOCK)).astype(np.float32),
        rng.integers(-8, 8, (8 * BLOCK, 24)).astype(np.float32),
    )
    w[::BLOCK] = -8
    w[BLOCK : 2 * BLOCK] = 0  # so that the block of the outlier shows in no result
    x[0, BLOCK + 5] = 1e6
    found = result(compiled(lower(lambda w, x: x @ w, w, x)), w, x)
    for row in range(2):
        error = found[row] - x[row].astype(np.float64) @ w
        assert np.sqrt((error**2).mean()) < 0.01 * np.sqrt(BLOCK * 7 * (w**2).mean())


def test_blocks_without_numbers() -> None:
    """Blocks of 0, of either side, have scales, and give 0."""
    rng = np.random.default_rng(1)
    x, w = blocks(rng, 127, -127, 2, 3 * BLOCK, "any"), blocks(rng, 7, -8, 24, 3 * BLOCK, "any")
    x[0, :BLOCK] = x[1] = w[3, BLOCK:] = w[5] = 0
    found = result(compiled(lower(lambda w, x: x @ w.T, w, x)), w, x)
    np.testing.assert_array_equal(found, x @ w.T)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_reaches_all_of_its_row(value: float) -> None:
    rng = np.random.default_rng(2)
    x, w = blocks(rng, 127, -127, 3, 4 * BLOCK, "any"), blocks(rng, 7, -8, 24, 4 * BLOCK, "any")
    w[4] = 0
    artifact = compiled(lower(lambda w, x: x @ w.T, w, x))
    exact = x @ w.T
    x[1, 70] = value
    found = result(artifact, w, x)
    assert np.isnan(found[1]).all()
    np.testing.assert_array_equal(np.delete(found, 1, 0), np.delete(exact, 1, 0))


def test_where_rows_are_in_bytes() -> None:
    """In few rows, on relaxed-simd, by a weight whose format says so."""

    def hlo(m: int, **options: Any) -> str:
        w, x = np.zeros((64, 24), np.float32), np.zeros((m, 64), np.float32)
        return stages(
            lower(lambda w, x: x @ w, w, x),
            Options(**{"target": RELAXED_SIMD, "weight_format": {"w": "int4"}} | options),
        )["hlo"]

    for m in (1, FEW_ROWS):
        assert f"s8[{m},64]" in hlo(m) and f"f32[{m},2]" in hlo(m)
    for text in (hlo(FEW_ROWS + 1), hlo(1, target=SIMD128), hlo(1, weight_format={"w": "int8"})):
        assert "s8[1,64]" not in text and f"s8[{FEW_ROWS + 1},64]" not in text
