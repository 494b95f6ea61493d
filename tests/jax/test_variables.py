"""Functions that update modules of flax's nnx by mutation: as under `nnx.jit`, or an error that says how."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

import xla_wasm
from xla_wasm import ArgumentError, Options
from xla_wasm.jax import jit, lower

X, Y = np.arange(12, dtype=np.float32).reshape(4, 3) / 10, np.ones((4, 2), np.float32)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


class Net(nnx.Module):
    """Parameters, statistics of a batch, a counter of random keys, and functions in a list."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first = nnx.Linear(3, 8, rngs=rngs)
        self.norm = nnx.BatchNorm(8, rngs=rngs)
        self.rest = nnx.Sequential(nnx.relu, nnx.Dropout(0.1, rngs=rngs), nnx.Linear(8, 2, rngs=rngs))

    def __call__(self, x: Any) -> Any:
        return self.rest(self.norm(self.first(x)))


def step(model: Any, opt: Any, x: Any, *, y: Any) -> Any:
    loss, grads = nnx.value_and_grad(lambda model: jnp.mean((model(x) - y) ** 2))(model)
    opt.update(model, grads)
    return {"loss": loss, "act": jnp.tanh}


def trained(compile_: Any, **options: Any) -> tuple[list[float], list[Any]]:
    model = Net(nnx.Rngs(0))
    opt = nnx.Optimizer(model, optax.sgd(0.1, momentum=0.9), wrt=nnx.Param)
    f = compile_(step, **options)
    losses = [f(model, opt, X, y=Y)["loss"] for _ in range(4)]
    return [*map(float, losses)], jax.tree.leaves((model, opt))


@pytest.mark.parametrize("options", [{}, {"results": "jax"}, {"weights": "model"}], ids=str)
def test_updates_by_mutation(options: Any) -> None:
    losses, leaves = trained(lambda f, **_: f)
    found, made = trained(jit, **options)
    np.testing.assert_allclose(found, losses, rtol=1e-4)
    assert len({*found}) == 4
    for a, b in zip(made, leaves, strict=True):
        assert isinstance(a, jax.Array) and a.dtype == b.dtype
        if not jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def test_functions_that_nnx_has_jitted() -> None:
    count = nnx.Variable(jnp.zeros((), jnp.int32))

    @nnx.jit
    def increase(count: Any, x: Any) -> Any:
        count[...] += 1
        return x + count[...]

    f = jit(increase)
    assert [int(f(count, 10)) for _ in range(3)] == [11, 12, 13] and int(count[...]) == 3
    assert f.stats().traces == 1


def test_what_is_not_updated_stays() -> None:
    """Inference has no further results, and variables that are not updated stay the arrays that they are."""
    model = Net(nnx.Rngs(0))
    model.eval()
    before = jax.tree.leaves(model)
    f = jit(lambda model, x: model(x))
    np.testing.assert_allclose(f(model, X), model(X), rtol=1e-5)
    assert all(a is b for a, b in zip(jax.tree.leaves(model), before))
    assert [r["name"] for r in f.artifact(model, X).manifest["results"]] == ["result"]
    model.train()
    kernel = model.first.kernel.get_value()
    f(model, X)
    assert model.first.kernel.get_value() is kernel and float(jnp.abs(model.norm.mean[...]).max()) > 0


def test_artifacts_have_updates_as_results() -> None:
    def count_up(counter: Any, x: Any) -> Any:
        counter["n"][...] += x
        return x * 2

    counter = {"n": nnx.Variable(jnp.float32(3)), "m": nnx.Variable(jnp.float32(0))}
    module = lower(count_up, counter, 1.0)
    assert float(counter["n"][...]) == 3
    exe = xla_wasm.load(xla_wasm.compile(module))
    assert exe.call(counter, 2.0) == (4, {"counter.n.value": 5})
    exe = xla_wasm.load(xla_wasm.compile(module, Options(state={"counter.n.value": "1.counter.n.value"})))
    exe.set("counter.n", counter["n"])
    for i in range(3):
        assert exe.call({"m": counter["m"], "n": None}, 1)[0] == 2 and exe.get("counter.n.value") == 4 + i


def test_errors_say_how() -> None:
    shared = nnx.Variable(jnp.zeros(2))

    def twice(pair: Any) -> Any:
        pair[0][...] += 1
        return pair[1][...]

    with pytest.raises(ArgumentError, match=r"a Variable .* is in two places .*: give it the state .* nnx.split"):
        jit(twice)([shared, shared])
    assert np.array_equal(shared[...], np.zeros(2))
    assert jit(twice)([shared, nnx.Variable(jnp.ones(2))]).tolist() == [1, 1]

    def grow(model: Any, x: Any) -> Any:
        model.more = nnx.Variable(x)
        return x

    with pytest.raises(ArgumentError, match=r"adds or removes variables of its arguments.*nnx.merge\(graph, state\)"):
        jit(grow)(Net(nnx.Rngs(0)), X)
    model = Net(nnx.Rngs(0))
    opt = nnx.Optimizer(model, optax.sgd(1e-2), wrt=nnx.Param)
    with pytest.raises(ArgumentError, match=r"step updates variables of nnx by mutation.*: leave state out"):
        jit(step, state={"opt.step.value": "1.opt.step.value"})(model, opt, X, y=Y)


def test_modules_are_structures_of_an_executable(tmp_path: Path) -> None:
    """Of a model with attributes called `shape` and `dtype`; get gives a module back."""

    class Shaped(nnx.Module):
        def __init__(self) -> None:
            self.shape, self.dtype = (3, 2), jnp.float32
            self.kernel = nnx.Param(jnp.ones((3, 2)))

        def __call__(self, x: Any) -> Any:
            return x @ self.kernel

    model = nnx.Dict(inner=Shaped(), norm=nnx.BatchNorm(2, rngs=nnx.Rngs(0), use_running_average=True))
    exe = xla_wasm.load(
        xla_wasm.compile(lower(lambda model, x: model["norm"](model["inner"](x)), model, X), Options(weights="model"))
    )
    exe.set("model", model)
    y = model["norm"](model["inner"](X))
    np.testing.assert_allclose(exe(X), y, rtol=1e-5)
    got = exe.get("model")
    np.testing.assert_allclose(got["norm"](got["inner"](X)), y, rtol=1e-5)
    exe.set("model", nnx.state(model))
    np.testing.assert_allclose(exe(X), y, rtol=1e-5)
    xla_wasm.safetensors.save(tmp_path / "model.safetensors", model)
    exe.set("model", tmp_path / "model.safetensors")
    np.testing.assert_allclose(exe(X), y, rtol=1e-5)
