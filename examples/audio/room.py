"""Compiles a room that one can play in: each block of 128 samples of sound with what the walls give back of it, for
process() of an AudioWorklet. Writes model.wasm, its JavaScript and the loader beside this file."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from xla_wasm import Options, compile, javascript
from xla_wasm.jax import lower

BLOCK = 128
"""Samples that a browser asks for at a time: 2.7 ms of 48 kHz."""
ECHO = 8192
"""Samples of what comes back: 0.17 s."""


def impulse() -> np.ndarray:
    """The f32[8192] samples that come back of a clap: noise that dies away."""
    noise = np.random.default_rng(0).standard_normal(ECHO)
    answer = noise * np.exp(-5 * np.arange(ECHO) / ECHO)
    return (answer / np.linalg.norm(answer)).astype(np.float32)


def room(past: jax.Array, samples: jax.Array, wet: jax.Array) -> dict[str, jax.Array]:
    """The sound of f32[128] `samples` of which the share `wet` comes from the walls; `past` are the f32[8191] samples
    before them."""
    heard = jnp.concatenate([past, samples])
    echo = jnp.convolve(heard, impulse(), mode="valid")
    return {"sound": (1 - wet) * samples + wet * echo, "past": heard[BLOCK:]}


def main() -> None:
    module = lower(room, np.zeros(ECHO - 1, np.float32), np.zeros(BLOCK, np.float32), np.float32(0))
    artifact = compile(module, Options(state=(("past", "past"),)))
    path = Path(__file__).with_name("model.wasm")
    javascript.copy_loader(path.parent)
    # The loader for worklets, which have no `import()`.
    javascript.save(artifact, path, "./xla-wasm/standalone.js")


if __name__ == "__main__":
    main()
