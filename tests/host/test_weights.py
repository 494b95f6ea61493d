"""Weights, state and the sidecar: what stays in the module, under wasmtime and in Node."""

from __future__ import annotations

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xla_wasm
import xla_wasm.jax
from tests.support.closeness import allclose, assert_all
from tests.support.embedding_cases import late
from tests.support.node_host import node_for, run_in_node
from tests.support.paths import ROOT
from tests.support.processes import output
from tests.support.toy_artifact import safetensors

X = np.linspace(-1, 1, 6 * 8, dtype=np.float32).reshape(6, 8)
W = np.sin(np.arange(8 * 5, dtype=np.float32)).reshape(8, 5)


def dense(x: jax.Array, w: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.tanh(x @ w + b)


@pytest.mark.parametrize("target", ["simd128", "relaxed-simd"])
def test_weights_are_set_once_and_packed(target: str, tmp_path: Path) -> None:
    b = np.arange(5, dtype=np.float32)
    module = xla_wasm.jax.lower(dense, X, W, b)
    artifact = xla_wasm.compile(module, xla_wasm.Options(target=target, weights=("w", "b")))
    assert [p["kind"] for p in artifact.manifest["parameters"]] == ["input", "weight", "weight"]
    assert any(init["kind"] == "weight" and init["name"] == "w" for init in artifact.manifest["inits"])
    exe = xla_wasm.load(artifact)
    for scale in (1, -2):
        exe.set("w", W * np.float32(scale))
        exe.set("b", b)
        np.testing.assert_array_equal(exe.get("w"), W * np.float32(scale))
        (result,) = exe.run(X)
        np.testing.assert_allclose(result, dense(X, W * np.float32(scale), b), rtol=1e-5, atol=1e-6)
    ((again,),) = run_in_node(artifact, [[X]], tmp_path, {"w": W, "b": b})
    np.testing.assert_allclose(again, dense(X, W, b), rtol=1e-5, atol=1e-6)


def test_what_packs_a_weight_reads_prepared_constants(tmp_path: Path) -> None:
    """The sorted constant is made by one `init`, and read by that of the weight, which must come after it: also where a
    file brings it."""
    artifact = late()
    assert [init["kind"] for init in artifact.manifest["inits"]] == ["segment", "weight"]
    x, w = np.eye(8, dtype=np.float32), np.arange(64, dtype=np.float32) / 4
    expected = (w + np.arange(1, 65, dtype=np.float32)).reshape(8, 8)
    exe = xla_wasm.load(artifact)
    exe.set("w", w)
    np.testing.assert_array_equal(exe.run(x)[0], expected)
    ((given,),) = run_in_node(artifact, [[x]], tmp_path, {"w": w})
    np.testing.assert_array_equal(given, expected)
    (tmp_path / "w.safetensors").write_bytes(safetensors(w=w))
    script = f"""import {{ load }} from {json.dumps((ROOT / "web" / "xla_wasm.js").as_uri())};
const exe = await load('module.wasm', {{ weights: 'w.safetensors' }});
console.log(JSON.stringify([...exe.run(Float32Array.from({json.dumps(x.reshape(-1).tolist())}))[0]]));
"""
    (tmp_path / "late.mjs").write_text(script)
    said = output([node_for("simd128"), "late.mjs"], tmp_path)
    np.testing.assert_array_equal(json.loads(said), expected.reshape(-1))


def test_state_stays_in_the_module() -> None:
    def step(w: jax.Array, velocity: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        gradient = jax.grad(lambda w: jnp.sum((x @ w) ** 2))(w)
        velocity = 0.9 * velocity - 0.01 * gradient
        return w + velocity, velocity, jnp.sum(w)

    module = xla_wasm.jax.lower(step, W, np.zeros_like(W), X)
    exe = xla_wasm.load(xla_wasm.compile(module, xla_wasm.Options(state={"w": 0, "velocity": 1})))
    exe.set("w", W)
    exe.set("velocity", np.zeros_like(W))
    w, velocity = W, np.zeros_like(W)
    for _ in range(3):
        (total,) = exe.run(X)
        w, velocity, expected = (np.asarray(a) for a in step(w, velocity, X))
        np.testing.assert_allclose(total, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(exe.get("w"), w, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(exe.get("velocity"), velocity, rtol=1e-4, atol=1e-6)


def test_states_that_change_places() -> None:
    module = xla_wasm.jax.lower(lambda a, b: (b, a, a), np.float32([1, 2]), np.float32([3, 4]))
    exe = xla_wasm.load(xla_wasm.compile(module, xla_wasm.Options(state=((0, 0), (1, 1)))))
    exe.set(exe.parameters[0].name, np.float32([1, 2]))
    exe.set(exe.parameters[1].name, np.float32([3, 4]))
    for first, second in (([1, 2], [3, 4]), ([3, 4], [1, 2])):
        (old,) = exe.run()
        np.testing.assert_array_equal(old, np.float32(first))
        np.testing.assert_array_equal(exe.get(exe.parameters[0].name), np.float32(second))


def test_large_constants_in_a_sidecar(tmp_path: Path) -> None:
    big = np.random.default_rng(0).standard_normal((128, 256)).astype(np.float32)
    x = np.ones((3, 128), np.float32)
    module = xla_wasm.jax.lower(lambda x: (x @ big, x @ big[:, :4] + big[:3, :4]), x)
    artifact = xla_wasm.compile(module, xla_wasm.Options(sidecar=True))
    assert len(artifact.weights) >= big.nbytes > len(artifact.wasm)
    expected = [x @ big, x @ big[:, :4] + big[:3, :4]]
    for results in (xla_wasm.load(artifact).run(x), xla_wasm.load(artifact.save(tmp_path / "big.wasm")).run(x)):
        assert_all(results, expected, allclose(0.0001, 0.0001))
    (results,) = run_in_node(artifact, [[x]], tmp_path)
    np.testing.assert_allclose(results[0], expected[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": ("nobody",)}, "no parameter named 'nobody'"),
        ({"weights": (7,)}, "no parameter 7"),
        ({"state": {"x": 0}}, "replaces it is"),
        ({"state": {"x": 3}}, "no result 3"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, object], message: str) -> None:
    module = xla_wasm.jax.lower(dense, X, W, np.zeros(5, np.float32))
    with pytest.raises(xla_wasm.ArgumentError, match=message):
        xla_wasm.compile(module, xla_wasm.Options(**options))
