"""The encoder of all-MiniLM-L6-v2 in JAX: token numbers to a vector of length one, near to those of sentences that mean
the same.

`python examples/minilm/model.py` lowers it and writes `minilm.hlo.pb`. The weights are parameters of that module, under
the names that they have in the published file, so it is small; `xla_wasm.site.minilm` puts them in.

One module serves texts of every length: layers work on blocks of a few tokens, in loops that end at the last token
there is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import xla_wasm
from xla_wasm.hlo.signature import STRUCTURE
from xla_wasm.jax import lower

HERE = Path(__file__).parent
TOKENS = 128
"""The most tokens of a text."""
BLOCK = 8
"""The number of tokens that a layer works on at a time."""
WIDTH, HIDDEN, LAYERS, HEADS = 384, 1536, 6, 12
VOCABULARY, POSITIONS, TYPES = 30522, 512, 2
EPSILON = 1e-12

Weights = Mapping[str, Any]


def shapes() -> dict[str, tuple[int, ...]]:
    """Every weight that the encoder reads, by its name in the published file. Matrices lie as [out, in]."""
    table = {"word": VOCABULARY, "position": POSITIONS, "token_type": TYPES}
    made: dict[str, tuple[int, ...]] = {
        f"embeddings.{name}_embeddings.weight": (rows, WIDTH) for name, rows in table.items()
    }
    norms = ["embeddings.LayerNorm"]
    for i in range(LAYERS):
        layer = f"encoder.layer.{i}"
        dense = dict.fromkeys(
            [f"attention.self.{part}" for part in ("query", "key", "value")] + ["attention.output.dense"],
            (WIDTH, WIDTH),
        )
        dense |= {"intermediate.dense": (HIDDEN, WIDTH), "output.dense": (WIDTH, HIDDEN)}
        for name, shape in dense.items():
            made |= {f"{layer}.{name}.weight": shape, f"{layer}.{name}.bias": shape[:1]}
        norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
    for name in norms:
        made |= {f"{name}.weight": (WIDTH,), f"{name}.bias": (WIDTH,)}
    return made


def encode(ids: jax.Array, length: jax.Array, weights: Weights) -> jax.Array:
    """The vector f32[384] of the first `length` of the tokens `ids`, s32[128]; what follows them is padding."""

    def weight(name: str) -> jax.Array:
        # Half precision is how they are stored, not how they are computed with.
        return jnp.asarray(weights[name]).astype(jnp.float32)

    def dense(name: str, x: jax.Array) -> jax.Array:
        return x @ weight(f"{name}.weight").T + weight(f"{name}.bias")

    def norm(name: str, x: jax.Array) -> jax.Array:
        centred = x - x.mean(-1, keepdims=True)
        variance = jnp.mean(centred * centred, -1, keepdims=True)
        return centred * lax.rsqrt(variance + EPSILON) * weight(f"{name}.weight") + weight(f"{name}.bias")

    def embedding(name: str, rows: Any) -> jax.Array:
        return jnp.asarray(weights[f"embeddings.{name}_embeddings.weight"])[rows].astype(jnp.float32)

    def heads(x: jax.Array) -> jax.Array:
        return x.reshape(-1, HEADS, WIDTH // HEADS)

    def by_blocks(
        make: Callable[[jax.Array], tuple[jax.Array, ...]], x: jax.Array, *results: jax.Array
    ) -> tuple[jax.Array, ...]:
        """`results` with what `make` gives for each block of rows of x in those rows, as far as there are real
        tokens."""

        def step(i: jax.Array, results: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
            made = make(lax.dynamic_slice_in_dim(x, i * BLOCK, BLOCK))
            return tuple(lax.dynamic_update_slice_in_dim(old, new, i * BLOCK, 0) for old, new in zip(results, made))

        return lax.fori_loop(0, (length + BLOCK - 1) // BLOCK, step, results)

    real = jnp.arange(TOKENS) < length
    x = norm(
        "embeddings.LayerNorm",
        embedding("word", ids) + embedding("token_type", 0) + embedding("position", slice(TOKENS)),
    )
    for i in range(LAYERS):
        layer = f"encoder.layer.{i}"

        def keys_and_values(rows: jax.Array, layer: str = layer) -> tuple[jax.Array, ...]:
            return tuple(dense(f"{layer}.attention.self.{part}", rows) for part in ("key", "value"))

        empty = jnp.zeros_like(x)
        k, v = map(heads, by_blocks(keys_and_values, x, empty, empty))

        def block(rows: jax.Array, layer: str = layer, k: jax.Array = k, v: jax.Array = v) -> tuple[jax.Array]:
            q = heads(dense(f"{layer}.attention.self.query", rows))
            scores = jnp.einsum("qhd,khd->hqk", q, k) / np.float32(np.sqrt(WIDTH // HEADS))
            shares = jax.nn.softmax(jnp.where(real, scores, np.float32(-1e9)))
            mixed = jnp.einsum("hqk,khd->qhd", shares, v).reshape(BLOCK, WIDTH)
            rows = norm(f"{layer}.attention.output.LayerNorm", rows + dense(f"{layer}.attention.output.dense", mixed))
            h = dense(f"{layer}.intermediate.dense", rows)
            h = h * 0.5 * (1 + lax.erf(h / np.float32(np.sqrt(2))))
            return (norm(f"{layer}.output.LayerNorm", rows + dense(f"{layer}.output.dense", h)),)

        (x,) = by_blocks(block, x, x)
    # A mean over the real tokens, then length one; their number cancels.
    total = jnp.sum(jnp.where(real[:, None], x, 0), 0)
    return total * lax.rsqrt(jnp.sum(total * total))


def stored(name: str) -> Any:
    """The type in which a weight is kept: matrices, which are nearly all of the bytes, take half precision."""
    return jnp.float16 if len(shapes()[name]) == 2 else jnp.float32


def lowered() -> xla_wasm.HloModule:
    """The encoder with its weights as parameters: `ids`, `length`, and `weights.` before the name of each."""

    def minilm(ids: jax.Array, length: jax.Array, weights: Weights) -> dict[str, jax.Array]:
        return {"embedding": encode(ids, length, weights)}

    weights = {name: jax.ShapeDtypeStruct(shape, stored(name)) for name, shape in shapes().items()}
    module = lower(minilm, jax.ShapeDtypeStruct((TOKENS,), jnp.int32), jax.ShapeDtypeStruct((), jnp.int32), weights)
    for instruction in module.instructions():
        instruction.metadata = None  # where in these sources it comes from takes more room than the instruction
    # The tables that the places of instructions refer to.
    module.unknown = b""
    # The structure of arguments, of which the weights become constants.
    module.frontend_attributes.pop(STRUCTURE, None)
    return module


def main() -> None:
    """Writes the module."""
    path = HERE / "minilm.hlo.pb"
    path.write_bytes(lowered().to_proto())
    print(f"{path.name}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
