"""Training steps whose parameters and optimizer's state stay in the module: bit for bit what they give otherwise, in
little more memory than the states take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests.support import seeds
from tests.support.differential import BOTH
from xla_wasm.jax import jit
from xla_wasm.ops.dtypes import Array
from xla_wasm.target import TUNES

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: optax.sgd(0.1),
    "momentum": lambda: optax.sgd(0.1, 0.9),
    "nesterov": lambda: optax.sgd(0.1, 0.9, nesterov=True),
    "adam": lambda: optax.adam(0.1),
    "adamw": lambda: optax.adamw(0.1),
    "clipped": lambda: optax.chain(optax.clip_by_global_norm(1.0), optax.adam(0.1)),
    "lamb": lambda: optax.lamb(0.1),
    "lion": lambda: optax.lion(0.1),
    "every_other": lambda: optax.MultiSteps(optax.adam(0.1), 2),
    "if_finite": lambda: optax.apply_if_finite(optax.adam(0.1), 3),
}

LAYERS: dict[str, Callable[[Any, Any], Any]] = {
    "plain": lambda p, x: jnp.tanh(x @ p["w"] + p["b"]),
    "transposed": lambda p, x: jax.nn.relu(x @ p["w"].T + p["b"]),
    "normed": lambda p, x: jax.nn.standardize(x @ p["w"]) * p["b"],
    "twice": lambda p, x: x @ p["w"] @ p["w"].T + p["b"],
}


class Model:
    """A model of a few layers, drawn at random, and its training step."""

    def __init__(self, rng: np.random.Generator):
        def chance(n: int) -> bool:
            return int(rng.integers(0, n)) == 0

        # Below, at and above a tile's four rows, the 16 that lie side by side, and the lanes of a vector.
        self.width = int(rng.choice([3, 4, 5, 8, 15, 16, 17, 20, 33, 70]))
        self.count = int(rng.integers(1, 5))
        self.layer = LAYERS[str(rng.choice([*LAYERS]))]
        self.optimizer = OPTIMIZERS[str(rng.choice([*OPTIMIZERS]))]()
        self.looked_up, self.scanned, self.repeated, self.tells = chance(3), chance(4), chance(4), chance(3)
        dtype = jnp.bfloat16 if chance(5) else jnp.float32

        def numbers(*dims: int) -> Array:
            return jnp.asarray(rng.integers(-8, 9, dims) / 8, dtype)

        layers = [{"w": numbers(self.width, self.width), "b": numbers(self.width)} for _ in range(self.count)]
        self.params: Any = {"layers": jax.tree.map(lambda *a: jnp.stack(a), *layers) if self.scanned else layers}
        self.x = numbers(int(rng.integers(1, 10)), self.width)
        if self.looked_up:
            self.params["table"] = numbers(11, self.width)
            self.x = jnp.asarray(rng.integers(0, 11, len(self.x)))
        self.state = self.optimizer.init(self.params)

    def loss(self, params: Any, x: Any) -> Any:
        x = params["table"][x] if self.looked_up else x
        if self.scanned:
            x, _ = jax.lax.scan(lambda x, p: (self.layer(p, x).astype(x.dtype), None), x, params["layers"])
        else:
            for p in params["layers"]:
                x = self.layer(p, x)
        return jnp.mean((x - 1) ** 2)

    def step(self, params: Any, state: Any, x: Any) -> Any:
        def once(params: Any, state: Any) -> Any:
            loss, gradients = jax.value_and_grad(self.loss)(params, x)
            updates, state = self.optimizer.update(gradients, state, params)
            return optax.apply_updates(params, updates), state, loss

        told = jax.tree.map(lambda w: w * 2, params) if self.tells else None
        if self.repeated:
            start = (params, state, jnp.zeros((), params["layers"]["w"].dtype if self.scanned else self.dtype))
            return *jax.lax.fori_loop(0, 2, lambda _, c: once(c[0], c[1]), start), told
        return *once(params, state), told

    @property
    def dtype(self) -> Any:
        return self.params["layers"][0]["w"].dtype


def runs(model: Model, settings: dict[str, Any], state: dict[str, str]) -> list[Array]:
    """All that three runs give."""
    step = jit(model.step, cache=False, state=state, **settings)
    params, optimizer, told = model.params, model.state, []
    for _ in range(3):
        params, optimizer, *more = step(params, optimizer, model.x)
        told += more
    return [np.asarray(a) for a in jax.tree.leaves((params, optimizer, told))]


@pytest.mark.parametrize("seed", range(seeds.count(2, 6)))
def test_the_same_as_without_states(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    monkeypatch.setenv("XLA_WASM_VERIFY", "1")
    for _ in range(6):
        model = Model(rng)
        settings = {
            "target": str(rng.choice(BOTH)),
            "tune": str(rng.choice(TUNES)),
            "threads": bool(rng.integers(0, 3) == 0),
        }
        named = {"params": "0"} | ({"state": "1"} if jax.tree.leaves(model.state) else {})
        for found, expected in zip(runs(model, settings, named), runs(model, settings, {}), strict=True):
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("name", "copies", "layers"),
    [("sgd", 1, 10), ("momentum", 2, 10), ("adam", 3, 10), ("adamw", 3, 10), ("clipped", 3, 10), ("adam", 3, 40)],
)
def test_memory(name: str, copies: int, layers: int) -> None:
    """The states, one gradient and one packed weight at a time, and little else; to clip gradients, all of them. Of
    many layers, too, none of whose gradients waits for others."""
    optimizer = OPTIMIZERS[name]()
    params = [{"w": np.ones((128, 128), np.float32), "b": np.ones(128, np.float32)} for _ in range(layers)]

    def step(params: Any, state: Any, x: Any) -> Any:
        def loss(params: Any) -> Any:
            y = x
            for p in params:
                y = jnp.tanh(y @ p["w"] + p["b"])
            return jnp.mean(y**2)

        updates, state = optimizer.update(jax.grad(loss)(params), state, params)
        return optax.apply_updates(params, updates), state

    state = optimizer.init(params)
    named = {"params": "0"} | ({"state": "1"} if jax.tree.leaves(state) else {})
    artifact = jit(step, cache=False, state=named).artifact(params, state, np.ones((2, 128), np.float32))
    size = sum(a.nbytes for a in jax.tree.leaves(params))
    most = copies + (1.3 if name == "clipped" else 0.3)
    assert artifact.manifest["peak_bytes"] < most * size
