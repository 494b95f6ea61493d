"""Trains a GPT-2 of under a million numbers on two plays, in WebAssembly: `python examples/gpt2/training.py`.

One step, forward, backward and Adam, is one module, whose weights and moments are its state. It writes
tiny.safetensors.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import gpt2
import jax
import jax.numpy as jnp
import numpy as np
from rich.progress import Progress

import xla_wasm
from xla_wasm.jax import lower

Array = Any
HERE = Path(__file__).parent
BATCH, LENGTH = 8, gpt2.TINY.context
RATE, WARMUP = 2e-3, 100
HELD_OUT = 0.05
"""The part of the text, its end, that is not trained on."""


def text() -> np.ndarray[Any, Any]:
    """The plays, a number for each character."""
    return np.frombuffer((HERE.parents[1] / "web" / "demo" / "generate" / "plays.txt").read_bytes(), np.uint8).astype(
        np.int32
    )


def loss(weights: gpt2.Tree, tokens: Array) -> Array:
    """Nats for each character of [texts, characters], but the first of a text."""
    found = jax.vmap(lambda text: gpt2.logits(weights, text[:-1], gpt2.TINY))(tokens)
    likely = jax.nn.log_softmax(found)
    return -jnp.take_along_axis(likely, tokens[:, 1:, None], -1).mean()


def train(state: gpt2.Tree, tokens: Array, steps: Array) -> dict[str, Any]:
    """One step of Adam with weight decay; its rate rises and falls over `steps`."""
    value, slopes = jax.value_and_grad(loss)(state["weights"], tokens)
    count = state["count"] + 1
    rate = RATE * jnp.minimum(count / WARMUP, 0.05 + 0.95 * (0.5 + 0.5 * jnp.cos(jnp.pi * count / steps)))
    norm = jnp.sqrt(sum(jnp.square(g).sum() for g in jax.tree.leaves(slopes)))
    slopes = jax.tree.map(lambda g: g / jnp.maximum(norm, 1), slopes)
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["first"], slopes)
    second = jax.tree.map(lambda v, g: 0.98 * v + 0.02 * g * g, state["second"], slopes)

    def moved(w: Array, m: Array, v: Array) -> Array:
        decay = 0.1 if w.ndim > 1 else 0.0
        return w - rate * (m / (1 - 0.9**count) / (jnp.sqrt(v / (1 - 0.98**count)) + 1e-8) + decay * w)

    weights = jax.tree.map(moved, state["weights"], first, second)
    return {"loss": value, "state": {"weights": weights, "first": first, "second": second, "count": count}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=4000, help="steps of training; default 4000")
    parser.add_argument("--seed", type=int, default=0, help="of the first weights, and of what is read when; default 0")
    parser.add_argument("--output", type=Path, default=HERE / "tiny.safetensors", help="where the weights go, in f16")
    options = parser.parse_args()
    weights = gpt2.random_weights(gpt2.TINY, options.seed)
    zeros = {name: np.zeros_like(w) for name, w in weights.items()}
    state = {"weights": weights, "first": zeros, "second": zeros, "count": np.float32(0)}
    tokens = np.zeros((BATCH, LENGTH + 1), np.int32)
    module = lower(train, state, tokens, np.float32(0))
    kept = tuple((name, name) for name in gpt2.leaves(state, "state"))
    exe = xla_wasm.load(xla_wasm.compile(module, xla_wasm.Options(target="relaxed-simd", state=kept, threads=True)))
    for name, array in weights.items():
        exe.set(f"state.weights.{name}", array)
    characters = text()
    known = characters[: int(len(characters) * (1 - HELD_OUT))]
    rng = np.random.default_rng(options.seed)
    began, recent = time.perf_counter(), list[float]()
    with Progress() as progress:
        task = progress.add_task("training", total=options.steps)
        for step in range(options.steps):
            starts = rng.integers(0, len(known) - LENGTH - 1, BATCH)
            (value,) = exe.run(np.stack([known[s : s + LENGTH + 1] for s in starts]), np.float32(options.steps))
            recent = [*recent[-99:], float(value)]
            progress.update(task, advance=1, description=f"loss {np.mean(recent):.3f}")
            if (step + 1) % 500 == 0:
                progress.console.print(
                    f"step {step + 1}: {np.mean(recent):.3f} nats a character, {time.perf_counter() - began:.0f} s"
                )
    trained = {name: exe.get(f"state.weights.{name}") for name in weights}
    print(f"held out: {held_out(trained, characters[len(known) :]):.3f} nats a character")
    gpt2.write(options.output, trained)
    print(f"{options.output}: {options.output.stat().st_size / 1e6:.1f} MB")


def held_out(weights: gpt2.Tree, characters: np.ndarray[Any, Any]) -> float:
    """The mean loss over a text."""
    texts = [characters[s : s + LENGTH + 1] for s in range(0, len(characters) - LENGTH, LENGTH)]
    batches = [np.stack(texts[i : i + BATCH]) for i in range(0, len(texts) - BATCH + 1, BATCH)]
    judge = xla_wasm.load(xla_wasm.compile(lower(loss, weights, batches[0])))
    return float(np.mean([judge.run(*jax.tree.leaves(weights), batch)[0] for batch in batches]))


if __name__ == "__main__":
    main()
