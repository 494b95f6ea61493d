"""The encoders that are timed: lowered by JAX, and written as ONNX."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xla_wasm import HloModule

if TYPE_CHECKING:
    from .onnx_graph import Graph

Array = np.ndarray[Any, np.dtype[np.float32]]
Tree = Any
EPSILON = 1e-12
"""The number that BERT's layer normalisation adds to the variance."""


@dataclass(frozen=True)
class Encoder:
    """The sizes of a BERT-like encoder without its embeddings; the default is MiniLM-L6."""

    blocks: int = 6
    width: int = 384
    heads: int = 12
    hidden: int = 1536
    tokens: int = 128

    @property
    def flops(self) -> float:
        """Floating-point operations in products."""
        dense = 4 * self.width**2 + 2 * self.width * self.hidden
        return 2.0 * self.blocks * self.tokens * (dense + 2 * self.tokens * self.width)

    def input(self) -> Array:
        return np.random.default_rng(1).standard_normal((1, self.tokens, self.width), np.float32)

    def weights(self) -> dict[str, Array]:
        """Random weights by the names that the lowered module's parameters have."""
        rng = np.random.default_rng(2)
        shapes = dict.fromkeys(("query", "key", "value", "output"), (self.width, self.width))
        shapes |= {"up": (self.width, self.hidden), "down": (self.hidden, self.width)}
        made: dict[str, Array] = {}
        for block in range(self.blocks):
            for name, (fan_in, fan_out) in shapes.items():
                made[f"p.{block}.{name}.w"] = (rng.standard_normal((fan_in, fan_out)) * fan_in**-0.5).astype(np.float32)
                made[f"p.{block}.{name}.b"] = (rng.standard_normal(fan_out) * 0.1).astype(np.float32)
            for name in ("norm1", "norm2"):
                made[f"p.{block}.{name}.scale"] = (1 + rng.standard_normal(self.width) * 0.1).astype(np.float32)
                made[f"p.{block}.{name}.bias"] = (rng.standard_normal(self.width) * 0.1).astype(np.float32)
        return made

    def tree(self, weights: dict[str, Any] | None = None) -> list[Tree]:
        """The weights as the list of blocks that `apply` takes."""
        blocks: list[Tree] = [{} for _ in range(self.blocks)]
        for path, array in (weights or self.weights()).items():
            _, block, layer, name = path.split(".")
            blocks[int(block)].setdefault(layer, {})[name] = array
        return blocks

    def apply(self, x: Any, p: list[Tree]) -> Any:
        """The encoder in JAX: attention and two dense layers, each normalised after its residual, with the exact
        GELU."""
        import jax.numpy as jnp
        from jax import lax, nn

        def dense(layer: Tree, x: Any) -> Any:
            return x @ layer["w"] + layer["b"]

        def norm(layer: Tree, x: Any) -> Any:
            centred = x - x.mean(-1, keepdims=True)
            variance = jnp.mean(centred * centred, -1, keepdims=True)
            return centred * lax.rsqrt(variance + EPSILON) * layer["scale"] + layer["bias"]

        def heads(x: Any) -> Any:
            return x.reshape(*x.shape[:2], self.heads, -1)

        for block in p:
            q, k, v = (heads(dense(block[name], x)) for name in ("query", "key", "value"))
            scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.float32(np.sqrt(self.width // self.heads))
            mixed = jnp.einsum("bhqk,bkhd->bqhd", nn.softmax(scores), v).reshape(x.shape)
            x = norm(block["norm1"], x + dense(block["output"], mixed))
            h = dense(block["up"], x)
            h = h * 0.5 * (1 + lax.erf(h / np.float32(np.sqrt(2))))
            x = norm(block["norm2"], x + dense(block["down"], h))
        return x

    def forward(self) -> HloModule:
        """The lowered encoder: parameter x, then the weights."""
        from xla_wasm.jax import lower

        def encoder(x: Any, p: list[Tree]) -> Any:
            return self.apply(x, p)

        return lower(encoder, self.input(), self.tree())

    def gradient(self) -> HloModule:
        """The lowered gradient of the mean square of the outputs, with the value, by all weights."""
        import jax
        import jax.numpy as jnp

        from xla_wasm.jax import lower

        def loss(p: list[Tree], x: Any) -> Any:
            return jnp.mean(self.apply(x, p) ** 2)

        return lower(jax.value_and_grad(loss), self.tree(), self.input())

    def nodes(self, graph: Graph, x: str) -> str:
        """The encoder of a value as nodes of a graph that has the weights, in the operators that exporters of BERT
        write."""
        from .onnx_graph import EncoderBlocks

        blocks = EncoderBlocks(graph, self.width, self.heads)
        for number in range(self.blocks):
            block = f"p.{number}"

            def dense(layer: str, x: str, block: str = block) -> str:
                return blocks.dense(x, f"{block}.{layer}.w", f"{block}.{layer}.b")

            def norm(layer: str, x: str, block: str = block) -> str:
                return blocks.norm(x, f"{block}.{layer}.scale", f"{block}.{layer}.bias")

            x = blocks.block(x, dense, norm)
        return x


def lowered(folder: Path, name: str, encoder: Encoder, make: Callable[[], HloModule]) -> Path:
    """The file of a module that JAX lowers, made if it is not there yet; its name changes with the sizes and this
    source."""
    tag = hashlib.sha256(f"{encoder}".encode() + Path(__file__).read_bytes()).hexdigest()[:12]
    path = folder / f"{name}-{tag}.hlo.pb"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        path.write_bytes(make().to_proto())
    return path
