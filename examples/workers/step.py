"""Writes the training step that the page Workers splits over web workers: one module of HLO for each number of them.

    pip install -e '.[jax,test]' && python examples/workers/step.py

The model, its data and the weights it begins with are those of examples/digits. `step-4.hlo.pb` is the step for four
workers: each gets a quarter of the images, and one all-reduce adds up what they found.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, PartitionSpec

from xla_wasm.jax import lower, mesh

sys.path.insert(0, str(Path(__file__).parents[1] / "digits"))
from train import Params, forward, init

HERE = Path(__file__).parent
MOST = 8
BATCH = 128
MOMENTUM = 0.9
WORKERS = "workers"
NOBODY = 255
"""The label of a row that is no image: it counts for nothing. Such rows fill up a batch that does not split evenly."""

# In error messages, paths inside the project, whatever machine this runs on.
jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/(?=examples/|site-packages/|xla_wasm/)")


def step(params: Params, velocity: Params, pixels: jax.Array, labels: jax.Array, rate: jax.Array) -> dict[str, Any]:
    """One step of gradient descent with momentum on a worker's part of the batch, grey values u8[n,8,8] and labels
    u8[n]."""
    images = pixels.astype(jnp.float32)[..., None] / 16

    def loss(params: Params) -> jax.Array:
        logits = jax.nn.log_softmax(forward(params, images))
        return -jnp.sum(logits * jax.nn.one_hot(labels, 10)) / BATCH

    own, restore = ravel_pytree(jax.value_and_grad(loss)(params))
    value, grads = restore(jax.lax.psum(own, WORKERS))
    velocity = jax.tree.map(lambda v, g: MOMENTUM * v + g, velocity, grads)
    params = jax.tree.map(lambda w, v: w - rate * v, params, velocity)
    return {"params": params, "velocity": velocity, "loss": value}


def shared(workers: int, mesh: Any = None) -> Any:
    """The step on so many workers, JAX's own devices or those of a mesh: all have the weights, the rows of the batch
    are split."""
    if mesh is None:
        mesh = Mesh(np.array(jax.devices()[:workers]), (WORKERS,))
    whole, split = PartitionSpec(), PartitionSpec(WORKERS)
    return jax.shard_map(
        step, mesh=mesh, in_specs=(whole, whole, split, split, whole), out_specs=whole, check_vma=False
    )


def rows(workers: int) -> int:
    """Of the whole batch, those that fill it up included."""
    return -(-BATCH // workers) * workers


def main() -> None:
    """Lowers the step for one to eight workers."""
    params = init(jax.random.key(0))
    for workers in range(1, MOST + 1):
        n = rows(workers)
        batch = jnp.zeros((n, 8, 8), jnp.uint8), jnp.zeros(n, jnp.uint8), jnp.float32(0)
        path = HERE / f"step-{workers}.hlo.pb"
        path.write_bytes(lower(shared(workers, mesh(**{WORKERS: workers})), params, params, *batch).to_proto())
        print(f"{path.relative_to(HERE.parents[1])}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
