"""Writes the modules that the page Generate runs, HLO of the model in examples/gpt2.

pip install -e '.[jax,test]' && python examples/generate/modules.py

initial.hlo.pb   a seed u32[2] -> random weights
step.hlo.pb      one step of training, forward, backward and optimiser: weights, moments and the count of steps are its
state write.hlo.pb     one character more: the past, the position and the random key are its state, the character is
drawn inside tiny.hlo.pb      the same for the model that examples/gpt2 has trained,
distil.hlo.pb    for DistilGPT-2, and
small.hlo.pb     for GPT-2-small, whose weights a visitor may bring
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xla_wasm.hlo.ir import Module
from xla_wasm.jax import lower

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "gpt2"))
import gpt2  # noqa: E402

Array = Any
Tree = gpt2.Tree

OWN = gpt2.Config(2, 128, 4, 128, 96)
"""About 0.4 million numbers: what the page trains, for texts of up to 128 different characters."""
BATCH = 12
"""Pieces of the text that a step trains on, each as long as the model can look back."""
TOP = 40
"""The number of likeliest tokens among which the next one is drawn."""
DISTIL = gpt2.Config(6, 768, 12, 50257, 1024)
PAST = 256
"""Tokens that the published models look back on here; they could on 1,024."""

MATRIX_RATE, MATRIX_DECAY = 0.02, 0.95
"""Of the weights that are matrices inside a layer: how far a step goes, and what is left of the momentum from step to
step."""
RATE, MEAN_DECAY, SQUARE_DECAY, EPSILON = 6e-3, 0.9, 0.98, 1e-8
"""Of the others, which Adam moves."""
WARMUP, CONSTANT = 10, 300
"""Steps in which the rates rise, and those after which they fall, as the square root of the count rises."""
QUINTIC = (3.4445, -4.7750, 2.0315)
"""The polynomial whose repetition takes numbers from 0 to 1 to about 1."""

# In error messages, paths inside the project, whatever machine this runs on.
jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/(?=examples/|site-packages/|xla_wasm/)")


def is_matrix(name: str) -> bool:
    """Returns True if Muon moves the weight of that name."""
    return name.startswith("h.") and name.endswith(".weight") and ".ln_" not in name


def orthogonal(x: Array) -> Array:
    """The matrix with the singular vectors of `x`, and singular values near 1 (Newton and Schulz's iteration)."""
    a, b, c = QUINTIC
    tall = x.shape[0] > x.shape[1]
    y = x.T if tall else x
    y = y / (jnp.sqrt(jnp.square(y).sum()) + 1e-7)
    for _ in range(5):
        square = y @ y.T
        y = a * y + (b * square + c * square @ square) @ y
    return y.T if tall else y


def known(logits: Array, characters: Array) -> Array:
    """Logits of which only the first `characters` may come: a text seldom has as many characters as the model has
    places."""
    return jnp.where(jnp.arange(logits.shape[-1]) < characters, logits, -1e9)


def loss(weights: Tree, texts: Array, characters: Array) -> Array:
    """Nats for each character of [texts, characters], but the first of a text."""
    found = jax.vmap(lambda text: gpt2.logits(weights, text[:-1], OWN))(texts)
    likely = jax.nn.log_softmax(known(found, characters))
    return -jnp.take_along_axis(likely, texts[:, 1:, None], -1).mean()


def step(weights: Tree, momentum: Tree, square: Tree, count: Array, texts: Array, characters: Array) -> Tree:
    """One step of training: Muon for the matrices inside the layers, Adam for all else. The state after it, and the
    loss before it."""
    value, slopes = jax.value_and_grad(loss)(weights, texts, characters)
    count = count + 1
    pace = jnp.minimum(count / WARMUP, 1) * jax.lax.rsqrt(jnp.maximum(count / CONSTANT, 1))
    moved, momentum, squares = dict(weights), dict(momentum), dict(square)
    for name, w in weights.items():
        slope = slopes[name]
        if is_matrix(name):
            momentum[name] = MATRIX_DECAY * momentum[name] + slope
            # A layer that makes more numbers than it gets makes each of them move as much.
            wide = max(1.0, w.shape[1] / w.shape[0]) ** 0.5
            moved[name] = w - pace * MATRIX_RATE * wide * orthogonal(slope + MATRIX_DECAY * momentum[name])
        else:
            momentum[name] = MEAN_DECAY * momentum[name] + (1 - MEAN_DECAY) * slope
            squares[name] = SQUARE_DECAY * square[name] + (1 - SQUARE_DECAY) * slope * slope
            mean, mean_square = momentum[name] / (1 - MEAN_DECAY**count), squares[name] / (1 - SQUARE_DECAY**count)
            moved[name] = w - pace * RATE * mean / (jnp.sqrt(mean_square) + EPSILON)
    return {"weights": moved, "momentum": momentum, "square": squares, "count": count, "loss": value}


def initial(seed: Array) -> Tree:
    """Random weights from a seed u32[2], as training begins with them."""
    keys = iter(jax.random.split(jax.random.wrap_key_data(seed), len(OWN.shapes)))

    def made(name: str, shape: tuple[int, ...]) -> Array:
        key = next(keys)
        if len(shape) == 1:
            return jnp.full(shape, float(gpt2.is_scale(name)))
        return gpt2.deviation(name, OWN) * jax.random.normal(key, shape)

    return {"weights": {name: made(name, shape) for name, shape in OWN.shapes.items()}}


def writer(config: gpt2.Config, length: int) -> Module:
    """One token more, after at most `length` that came before."""

    def write(weights: Tree, state: Tree, given: Array, temperature: Array, characters: Array) -> Tree:
        return gpt2.step(weights, state, given, temperature, config, TOP, lambda logits: known(logits, characters))

    weights = {name: jax.ShapeDtypeStruct(shape, np.float32) for name, shape in config.shapes.items()}
    return lower(write, weights, gpt2.initial(config, length), np.int32(0), np.float32(0), np.int32(0))


def modules() -> dict[str, Module]:
    """All of them, by their names."""
    weights = {name: jax.ShapeDtypeStruct(shape, np.float32) for name, shape in OWN.shapes.items()}
    square = {name: shape for name, shape in weights.items() if not is_matrix(name)}
    texts = jax.ShapeDtypeStruct((BATCH, OWN.context + 1), np.int32)
    return {
        "initial": lower(initial, np.zeros(2, np.uint32)),
        "step": lower(step, weights, weights, square, np.float32(0), texts, np.int32(0)),
        "write": writer(OWN, OWN.context),
        "tiny": writer(gpt2.TINY, gpt2.TINY.context),
        "distil": writer(DISTIL, PAST),
        "small": writer(gpt2.SMALL, PAST),
    }


def main() -> None:
    """Lowers the functions."""
    for name, module in modules().items():
        path = HERE / f"{name}.hlo.pb"
        path.write_bytes(module.to_proto())
        print(f"{path.relative_to(HERE.parents[1])}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
