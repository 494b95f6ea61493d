"""Weights in parts: hosts bring a large table part by part, and what a run gives is the same, bit for bit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import xla_wasm
from tests.support import seeds
from tests.support.closeness import allclose, assert_all, same_bits
from tests.support.node_host import nodes
from tests.support.paths import ROOT
from tests.support.processes import output
from tests.support.toy_artifact import safetensors
from xla_wasm import Options, UnsupportedError
from xla_wasm.command.c_header import header
from xla_wasm.compiler import trace
from xla_wasm.host.manifest import Manifest
from xla_wasm.jax import lower
from xla_wasm.plan import bring
from xla_wasm.plan.plan import Plan
from xla_wasm.reference import evaluate
from xla_wasm.safetensors import save

Array = Any
PART = 4096


def program(seed: int) -> tuple[Callable[..., Any], list[Array]]:
    """A function of a table w, rows i and x, that looks rows up, multiplies by all of them, or reads the table in
    another way."""
    rng = np.random.default_rng(seed)
    rows, width = int(rng.choice([64, 200, 333, 512])), int(rng.choice([16, 33, 96, 128]))
    planes = int(rng.choice([0, 0, 0, 3]))
    use = int(rng.integers(7))
    w = rng.standard_normal((planes, rows, width) if planes else (rows, width)).astype(np.float32)
    i, x = rng.integers(0, len(w), 5).astype(np.int32), rng.standard_normal((2, width)).astype(np.float32)

    def fn(w: Array, i: Array, x: Array) -> Any:
        if use == 0:
            return w[i], x @ jnp.swapaxes(w, -1, -2)
        if use == 1:
            return (w[i],)
        if use == 2:
            return w[i], w.sum(-1), w.max(-2)
        if use == 3:
            return w[i], jnp.cos(w).reshape(-1)[i]
        if use == 4:
            return w[i] + w[i[0]], (w * w).sum()
        if use == 5:
            return w[i], jnp.swapaxes(w, -1, -2)[..., i, :]
        return w[i], w[..., ::-1][i]

    return fn, [w, i, x]


def parts(plan: Plan) -> list[int]:
    return [len(init.parts) for init in plan.inits.values() if init.parts]


@pytest.mark.parametrize("seed", range(seeds.count(12, 300)))
def test_random_programs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fn, (w, i, x) = program(seed)
    module = lower(fn, w, i, x)
    options = Options(weight_format={"w": ("int8", "bf16", "f16", "int4", "f32")[seed % 5]}, threads=seed % 2 == 0)
    whole = xla_wasm.load(xla_wasm.compile(module, options), threads=1)
    monkeypatch.setattr(bring, "PART", PART)
    exe = xla_wasm.load(xla_wasm.compile(module, options), threads=1 + seed % 4 // 2 if options.threads else 1)
    for scale in (1, -3):
        for host in (whole, exe):
            host.set("w", w * scale)
        assert_all(exe.run(i, x), whole.run(i, x), same_bits)


def test_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that is looked up and makes the logits takes its small numbers, its scales and one part."""
    monkeypatch.setattr(bring, "PART", PART)
    w, i, x = np.zeros((2000, 64), np.float32), np.zeros(1, np.int32), np.zeros((1, 64), np.float32)
    plan = trace(lower(lambda w, i, x: (w[i], x @ w.T), w, i, x), Options(weight_format={"w": "int8"})).plan
    assert parts(plan) == [125] and plan.weights[0].part == PART
    assert (
        plan.end <= 2000 * 64 + 2000 * 4 + 2 * PART + 2000 * 4 + 16384
    )  # the rest: the table of steps, and the result


def test_what_needs_a_weight_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A factor is packed by columns."""
    monkeypatch.setattr(bring, "PART", PART)
    w, i, x = np.zeros((200, 64), np.float32), np.zeros(1, np.int32), np.zeros((1, 200), np.float32)
    assert not parts(trace(lower(lambda w, i, x: x @ w, w, i, x), Options(weight_format={"w": "int8"})).plan)


def test_programs_by_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command reads its weights at once."""
    monkeypatch.setattr(bring, "PART", PART)
    w, i = np.zeros((200, 64), np.float32), np.zeros(1, np.int32)
    assert not parts(trace(lower(lambda w, i: w[i], w, i), Options(weight_format={"w": "int8"}, kind="command")).plan)


def test_the_header_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bring, "PART", PART)
    w, i = np.zeros((200, 64), np.float32), np.zeros(1, np.int32)
    artifact = xla_wasm.compile(lower(lambda w, i: w[i], w, i), Options(weight_format={"w": "int8"}))
    assert artifact.manifest["format"] == 2 and artifact.manifest["inits"][0]["part"] == PART
    with pytest.raises(UnsupportedError, match="weight 'w' comes in parts"):
        header(Manifest.parse(artifact.manifest), "k")


@pytest.mark.parametrize("version", nodes())
def test_node(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set from an array, and poured from files of f32, f16 and 8 bits."""
    monkeypatch.setattr(bring, "PART", PART)
    rng = np.random.default_rng(0)
    w, i, x = (
        rng.integers(-127, 128, (333, 65)).astype(np.float16),
        rng.integers(0, 333, 4).astype(np.int32),
        np.ones((1, 65), np.float32),
    )
    w[7] = 127
    module = lower(lambda w, i, x: (w[i], x @ w.T), w.astype(np.float32), i, x)
    artifact = xla_wasm.compile(module, Options(weight_format={"w": "int8"}, target="simd128"))
    artifact.save(tmp_path / "parts.wasm")
    exe = xla_wasm.load(artifact)
    exe.set("w", w.astype(np.float32))
    expected = [r.ravel().tolist() for r in exe.run(i, x)]
    given = {"w": w.astype(np.float32).ravel().tolist(), "i": i.tolist(), "x": x.ravel().tolist(), "expected": expected}
    (tmp_path / "parts.json").write_text(json.dumps(given))
    for name, array in (("f32", w.astype(np.float32)), ("f16", w)):
        (tmp_path / f"{name}.safetensors").write_bytes(safetensors(w=array))
    save(tmp_path / "int8.safetensors", {"w": w.astype(np.float32)}, "int8")
    node, _ = nodes()[version]
    output([node, ROOT / "tests/js/parts.test.mjs"], env={"FIXTURES": str(tmp_path)})


def _chained(v: Array, w: Array, count: int = 90) -> Array:
    """More operations than one kernel has."""
    for _ in range(count):
        v = jnp.abs(v) - w
    return v


def _above(w: Array) -> Array:
    return jnp.exp(w - w.max(-1, keepdims=True))


def _backwards(w: Array, v: Array) -> Array:
    return jnp.exp(v[::-1] / 8 + w + v)


def _bytes(w: Array) -> Array:
    return lax.bitcast_convert_type(w, jnp.uint8)


SEVERAL: dict[str, tuple[Callable[[Array], Array], bool]] = {
    "each for itself": (lambda w: _above(w) + w.reshape(200, 8, 12).max(-1)[:, :1], True),
    "one after another": (lambda w: _chained(w, w), True),
    "elements after rows": (lambda w: _chained(_above(w), w), False),
    "rows after elements": (lambda w: jnp.sin(_chained(w, w, 62)[:, ::-1] + w), False),
    "rows after half rows": (lambda w: jnp.exp(w) + _bytes(w)[:100].reshape(200, 96, 2)[:, :, 0].astype(float), False),
    "rows after rows backwards": (lambda w: _backwards(w, jnp.tanh(jnp.sin(w) + w[:, ::-1])), False),
    "columns": (lambda w: jnp.exp(w - w.max(0)), False),
    "turned": (lambda w: jnp.exp(w) + jnp.transpose(jnp.sin(w).reshape(96, 200)), False),
    "two ways at once": (lambda w: jnp.exp(w) + _bytes(w)[:, :, 0].astype(float), True),
    "two ways at once, one backwards": (lambda w: jnp.exp(w) + _bytes(w)[::-1, :, 0].astype(float), False),
}
"""Kernels that read a weight of 200 rows, or one that reads it in two ways, and whether it may come in parts."""


@pytest.mark.parametrize("case", SEVERAL)
@pytest.mark.parametrize("threads", [False, True])
def test_a_weight_that_is_read_several_times(case: str, threads: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    fn, divided = SEVERAL[case]
    w = np.random.default_rng(0).standard_normal((200, 96)).astype(np.float32)
    i = np.array([1, 199, 7], np.int32)
    module = lower(lambda w, i: fn(w)[i], w, i)
    options = Options(weights=("w",), threads=threads)
    whole = xla_wasm.load(xla_wasm.compile(module, options))
    monkeypatch.setattr(bring, "PART", PART)
    exe = xla_wasm.load(xla_wasm.compile(module, options), threads=2 if threads else 1)
    assert bool(parts(trace(module, options).plan)) == divided
    for scale in (1, -3):
        for host in (whole, exe):
            host.set("w", w * scale)
        assert_all(exe.run(i), whole.run(i), same_bits)
        assert_all(exe.run(i), evaluate(module, w * scale, i), allclose(1e-5, 1e-4))
