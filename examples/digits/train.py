"""Trains the digits model with JAX and writes the files that the demo, the page and the tests use.

    pip install -e '.[jax,test]' && python examples/digits/train.py

The data are scikit-learn's 1,797 handwritten digits, 8x8 grey values from 0 to 16. A fixed fifth is held out and never
trained on. One seed drives the split, the initial weights, the order of batches and the augmentation, so a second run
on the same machine and the same versions writes the same bytes. Written next to this file:

    digits.hlo.pb   the forward pass, a serialized HloModuleProto with its weights inside:
                    f32[1,8,8,1] pixel values from 0 to 1  ->  f32[1,10] logits
    images.npy      uint8 [N,8,8], the held-out images, values from 0 to 16
    labels.npy      uint8 [N], what they show
    logits.npy      float32 [N,10], what the same function gives under XLA:CPU
"""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.scipy.ndimage import map_coordinates
from sklearn.datasets import load_digits

# The module carries source lines for error messages and profiles: as paths inside the project, whatever machine this
# runs on.
jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/(?=examples/|site-packages/)")

HERE = Path(__file__).parent
SEED = 7
HELD_OUT = 360
EPOCHS = 80
BATCH = 64
PEAK_RATE = 4e-3
CHANNELS = (16, 32)
LAYOUT = ("NHWC", "HWIO", "NHWC")

Params = dict[str, jax.Array]


def init(key: jax.Array) -> Params:
    """He-normal weights of two 3x3 convolutions and one dense layer: 9,930 numbers, 40 KB."""
    first, second = CHANNELS
    shapes = {"conv1": (3, 3, 1, first), "conv2": (3, 3, first, second), "dense": (4 * 4 * second, 10)}
    params = {}
    for (name, shape), sub in zip(shapes.items(), jax.random.split(key, len(shapes)), strict=True):
        fan_in = np.prod(shape[:-1])
        params[name] = jax.random.normal(sub, shape) * np.sqrt(2 / fan_in)
        params[name + "_bias"] = jnp.zeros(shape[-1])
    return params


def forward(params: Params, images: jax.Array) -> jax.Array:
    """Logits f32[N,10] of images f32[N,8,8,1]: convolution, ReLU, convolution, ReLU, 2x2 max-pool, dense."""
    x = images
    for name in ("conv1", "conv2"):
        x = lax.conv_general_dilated(x, params[name], (1, 1), "SAME", dimension_numbers=LAYOUT)
        x = jax.nn.relu(x + params[name + "_bias"])
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return x.reshape(x.shape[0], -1) @ params["dense"] + params["dense_bias"]


def sample(image: jax.Array, u: jax.Array, v: jax.Array) -> jax.Array:
    """The image at columns `u` and rows `v`, between pixels too."""
    pixels: jax.Array = map_coordinates(image, [v, u], order=1)
    return pixels


def augment(key: jax.Array, images: jax.Array) -> jax.Array:
    """Turns, slants, stretches and shifts every image a little and scales its ink, as a hand on a drawing surface
    does."""
    n = images.shape[0]
    shape_key, shift_key, ink_key = jax.random.split(key, 3)
    turn, slant, wide, tall = (
        jax.random.uniform(shape_key, (4, n), minval=-1) * jnp.array([0.2, 0.2, 0.18, 0.1])[:, None]
    )
    shift = jax.random.uniform(shift_key, (2, n), minval=-0.6, maxval=0.6)
    y, x = jnp.meshgrid(jnp.arange(8) - 3.5, jnp.arange(8) - 3.5, indexing="ij")
    x, y = x[None], y[None]
    turn, slant, wide, tall = (v[:, None, None] for v in (turn, slant, wide, tall))
    u = (1 + wide) * (x * jnp.cos(turn) + y * jnp.sin(turn) + slant * y) + shift[0][:, None, None] + 3.5
    v = (1 + tall) * (y * jnp.cos(turn) - x * jnp.sin(turn)) + shift[1][:, None, None] + 3.5
    warped = jax.vmap(sample)(images[..., 0], u, v)[..., None]
    return jnp.clip(warped * jax.random.uniform(ink_key, (n, 1, 1, 1), minval=0.8, maxval=1.4), 0, 1)


def train(images: jax.Array, labels: jax.Array) -> Params:
    """Fits the model with AdamW under a cosine schedule and returns its weights."""
    key = jax.random.key(SEED)
    key, sub = jax.random.split(key)
    params = init(sub)
    steps_per_epoch = len(images) // BATCH
    schedule = optax.cosine_onecycle_schedule(EPOCHS * steps_per_epoch, PEAK_RATE)
    optimizer = optax.adamw(schedule, weight_decay=1e-3)
    state = optimizer.init(params)

    @jax.jit
    def step(
        params: Params, state: optax.OptState, key: jax.Array, images: jax.Array, labels: jax.Array
    ) -> tuple[Params, optax.OptState, jax.Array]:
        def loss(params: Params) -> jax.Array:
            logits = forward(params, augment(key, images))
            return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

        value, grads = jax.value_and_grad(loss)(params)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state, value

    for epoch in range(EPOCHS):
        key, order_key = jax.random.split(key)
        order = jax.random.permutation(order_key, len(images))
        total = 0.0
        for i in range(steps_per_epoch):
            key, sub = jax.random.split(key)
            batch = order[i * BATCH : (i + 1) * BATCH]
            params, state, value = step(params, state, sub, images[batch], labels[batch])
            total += float(value)
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1:3d}  loss {total / steps_per_epoch:.4f}")
    return params


def main() -> None:
    """Trains, checks the held-out accuracy and writes the four files."""
    data = load_digits()
    order = np.random.default_rng(SEED).permutation(len(data.images))
    held_out, rest = order[:HELD_OUT], order[HELD_OUT:]
    images = data.images.astype(np.uint8)
    labels = data.target.astype(np.uint8)

    def pixels(at: np.ndarray) -> jax.Array:
        return jnp.asarray(images[at], jnp.float32)[..., None] / 16

    params = train(pixels(rest), jnp.asarray(labels[rest], jnp.int32))

    def digits(image: jax.Array) -> jax.Array:
        return forward(params, image)

    call = jax.jit(digits)
    logits = np.concatenate([np.asarray(call(image[None])) for image in pixels(held_out)])
    accuracy = float((logits.argmax(1) == labels[held_out]).mean())
    print(f"held-out accuracy {accuracy:.2%} on {len(held_out)} images")
    if accuracy < 0.97:
        raise SystemExit("accuracy is below 97 %: the files were left as they are")

    module = call.lower(jnp.zeros((1, 8, 8, 1), jnp.float32)).compiler_ir("hlo")
    assert module is not None, "JAX no longer lowers to HLO"
    (HERE / "digits.hlo.pb").write_bytes(module.as_serialized_hlo_module_proto())
    np.save(HERE / "images.npy", images[held_out])
    np.save(HERE / "labels.npy", labels[held_out])
    np.save(HERE / "logits.npy", logits)


if __name__ == "__main__":
    main()
