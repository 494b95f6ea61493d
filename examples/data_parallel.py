"""Trains a small network on several devices, each of which gets its part of every batch, and on one, and compares the
losses.

    pip install -e '.[jax]' && python examples/data_parallel.py [DEVICES]

The devices are threads that run one WebAssembly module; JAX lowers the step without having them. The images are those
that the digits example holds out: handwritten digits, 8x8 grey values.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P

import xla_wasm
from xla_wasm.jax import lower

DIGITS = Path(__file__).parent / "digits"
STEPS, BATCH, RATE, MOMENTUM = 40, 80, 0.2, 0.9

Params = dict[str, Any]


def init(seed: int = 0) -> Params:
    r = np.random.default_rng(seed)
    sizes = {"hidden": (64, 48), "out": (48, 10)}
    weights = {name: (r.standard_normal(size) / np.sqrt(size[0])).astype(np.float32) for name, size in sizes.items()}
    return weights | {f"{name}_bias": np.zeros(size[1], np.float32) for name, size in sizes.items()}


def logits(params: Params, pixels: Any) -> Any:
    x = pixels.reshape(len(pixels), 64).astype(jnp.float32) / 16
    x = jnp.tanh(x @ params["hidden"] + params["hidden_bias"])
    return x @ params["out"] + params["out_bias"]


def step(params: Params, velocity: Params, pixels: Any, labels: Any) -> Params:
    """Returns the parameters, velocity and loss after one device's step on its part of the batch. The mean over the
    devices makes it a step on all of the batch."""

    def loss(params: Params) -> Any:
        chances = jax.nn.log_softmax(logits(params, pixels))
        return -jnp.take_along_axis(chances, labels[:, None].astype(jnp.int32), 1).mean()

    value, grads = lax.pmean(jax.value_and_grad(loss)(params), "batch")
    velocity = jax.tree.map(lambda v, g: MOMENTUM * v + g, velocity, grads)
    return {"params": jax.tree.map(lambda w, v: w - RATE * v, params, velocity), "velocity": velocity, "loss": value}


def train(devices: int, pixels: Any, labels: Any) -> tuple[list[float], Params, float]:
    """The loss of each step, the weights at the end, and the seconds that the steps took."""
    params = init()
    zeros = {name: np.zeros_like(w) for name, w in params.items()}
    # One line makes it a program for several devices: the weights are on all of them, the batch is divided.
    whole, divided = P(), P("batch")
    specs: Any = {"in_specs": (whole, whole, divided, divided), "out_specs": whole}
    module = lower(
        step, params, zeros, pixels[:BATCH], labels[:BATCH], mesh={"batch": devices}, check_vma=False, **specs
    )
    # Weights and velocities stay on the devices: each result takes the place of the parameter of its name.
    state = {f"{tree}.{name}": w for tree, own in (("params", params), ("velocity", zeros)) for name, w in own.items()}
    exe = xla_wasm.load(xla_wasm.compile(module, xla_wasm.Options(state=tuple((name, name) for name in state))))
    for name, array in state.items():
        exe.set(name, array)
    losses = []
    begin = time.perf_counter()
    for i in range(STEPS):
        batch = np.arange(i * BATCH, (i + 1) * BATCH) % len(pixels)
        arguments = [pixels[batch], labels[batch]]
        (loss,) = exe.run_global(arguments) if devices > 1 else exe.run(*arguments)
        losses.append(float(loss))
    seconds = time.perf_counter() - begin
    return losses, {name: exe.get(f"params.{name}") for name in params}, seconds


def main() -> None:
    devices = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    pixels, labels = np.load(DIGITS / "images.npy"), np.load(DIGITS / "labels.npy")
    together, params, seconds = train(devices, pixels, labels)
    alone, _, seconds_alone = train(1, pixels, labels)
    print(f"step  loss on {devices} devices  loss on one")
    for i in (*range(0, STEPS, 10), STEPS - 1):
        print(f"{i:4}  {together[i]:17.6f}  {alone[i]:11.6f}")
    right = np.mean(np.argmax(np.asarray(logits(params, pixels)), -1) == labels)
    print(f"{right:.1%} of the images it was trained on are right")
    print(f"{1000 * seconds / STEPS:.2f} ms a step on {devices} devices, {1000 * seconds_alone / STEPS:.2f} ms on one")
    np.testing.assert_allclose(together, alone, rtol=1e-4)


if __name__ == "__main__":
    main()
