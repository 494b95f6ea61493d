"""Writes what the page needs to train the digits model by itself: three modules of HLO, and the images.

    pip install -e '.[jax,test]' && python examples/digits/page.py

The model is that of train.py. Nothing here trains it: the page does, with these modules, each a jitted JAX function.

    initial.hlo.pb   a seed u32[2] -> random weights
    step.hlo.pb      one step of AdamW on a batch: weights, both moments, step count and random key are its state
    classify.hlo.pb  weights and one image -> logits f32[1,10]
    web/demo/digits/images.bin   all 1,797 images and their labels, gzip: 1,437 to train on, then the 360 held out
"""

from __future__ import annotations

import gzip

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_digits
from train import BATCH, HELD_OUT, HERE, SEED, Params, augment, forward, init

from xla_wasm.jax import lower

# As in train.py; `lower` is on the stack too.
jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/(?=examples/|site-packages/|xla_wasm/)")

IMAGES = HERE.parents[1] / "web" / "demo" / "digits" / "images.bin"
MEAN_DECAY, SQUARE_DECAY, EPSILON = 0.9, 0.999, 1e-8
WEIGHT_DECAY = 1e-3

State = dict[str, Params | jax.Array]


def initial(seed: jax.Array) -> dict[str, Params]:
    """He-normal weights from a seed u32[2]."""
    return {"params": init(jax.random.wrap_key_data(seed))}


def step(
    params: Params,
    mean: Params,
    square: Params,
    count: jax.Array,
    key: jax.Array,
    pixels: jax.Array,
    labels: jax.Array,
    rate: jax.Array,
) -> State:
    """One step of AdamW on grey values u8[N,8,8] and labels u8[N]: the state after it, and the loss."""
    key, sub = jax.random.split(jax.random.wrap_key_data(key))
    images = pixels.astype(jnp.float32)[..., None] / 16

    def loss(params: Params) -> jax.Array:
        logits = jax.nn.log_softmax(forward(params, augment(sub, images)))
        return -jnp.mean(jnp.sum(logits * jax.nn.one_hot(labels, 10), axis=1))

    value, grads = jax.value_and_grad(loss)(params)
    count = count + 1
    mean = jax.tree.map(lambda m, g: MEAN_DECAY * m + (1 - MEAN_DECAY) * g, mean, grads)
    square = jax.tree.map(lambda s, g: SQUARE_DECAY * s + (1 - SQUARE_DECAY) * g * g, square, grads)
    # Both moments begin at zero: what that takes from them is given back.
    mean_scale, square_scale = 1 / (1 - MEAN_DECAY**count), 1 / (1 - SQUARE_DECAY**count)

    def update(w: jax.Array, m: jax.Array, s: jax.Array) -> jax.Array:
        return w - rate * (m * mean_scale / (jnp.sqrt(s * square_scale) + EPSILON) + WEIGHT_DECAY * w)

    params = jax.tree.map(update, params, mean, square)
    return {
        "params": params,
        "mean": mean,
        "square": square,
        "count": count,
        "key": jax.random.key_data(key),
        "loss": value,
    }


def classify(params: Params, image: jax.Array) -> jax.Array:
    """Logits f32[1,10] of one image f32[1,8,8,1]."""
    return forward(params, image)


def main() -> None:
    """Lowers the three functions and packs the images."""
    key = jnp.zeros(2, jnp.uint32)
    params = initial(key)["params"]
    count = jnp.float32(0)
    batch = jnp.zeros((BATCH, 8, 8), jnp.uint8), jnp.zeros(BATCH, jnp.uint8), jnp.float32(0)
    modules = {
        "initial": lower(initial, key),
        "step": lower(step, params, params, params, count, key, *batch),
        "classify": lower(classify, params, jnp.zeros((1, 8, 8, 1), jnp.float32)),
    }
    for name, module in modules.items():
        (HERE / f"{name}.hlo.pb").write_bytes(module.to_proto())

    data = load_digits()
    order = np.random.default_rng(SEED).permutation(len(data.images))
    order = np.concatenate([order[HELD_OUT:], order[:HELD_OUT]])  # as train.py splits them
    content = data.images[order].astype(np.uint8).tobytes() + data.target[order].astype(np.uint8).tobytes()
    IMAGES.parent.mkdir(parents=True, exist_ok=True)
    IMAGES.write_bytes(gzip.compress(content, 9, mtime=0))
    for path in (*(HERE / f"{name}.hlo.pb" for name in modules), IMAGES):
        print(f"{path.relative_to(HERE.parents[1])}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
