"""Models of more than 100 million parameters: a step of training, and a loop that writes text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..models import Encoder
from .workload import MS, Arrays, Workload, arrays, normal

Shape = tuple[int, ...]
EPSILON = 1e-5
CLOSE, STEP = 2e-4, 2e-5
"""Errors relative to the largest: of what many layers give, and of weights after a step, in which half of them move by
0.6 % of it and more."""


def _drawn(shapes: Mapping[str, Shape], rng: np.random.Generator) -> Arrays:
    """Weights by their names: scales near 1, matrices that keep the size of what they multiply, places as large as what
    blocks add, so that each place gets a text of its own, and small others."""

    def made(name: str, shape: Shape) -> Any:
        array = rng.standard_normal(shape, np.float32)
        if name.endswith("scale"):
            return 1 + array * np.float32(0.1)
        if not name.endswith("place"):
            array *= np.float32(0.02 if "embed" in name else 0.1 if len(shape) == 1 else np.prod(shape[:-1]) ** -0.5)
        return array

    return {name: made(name, shape) for name, shape in shapes.items()}


def _norm(x: Any, w: Mapping[str, Any], name: str) -> Any:
    import jax.numpy as jnp
    from jax import lax

    centred = x - x.mean(-1, keepdims=True)
    variance = jnp.mean(centred * centred, -1, keepdims=True)
    return centred * lax.rsqrt(variance + EPSILON) * w[f"{name}.scale"] + w[f"{name}.bias"]


def _dense(x: Any, w: Mapping[str, Any], name: str) -> Any:
    return x @ w[f"{name}.w"] + w[f"{name}.b"]


@dataclass(frozen=True)
class Bert:
    """A model of BERT's kind that guesses masked tokens; the default is BERT-base, of 110 million parameters."""

    tokens: int = 64
    masked: int = 10
    blocks: int = 12
    width: int = 768
    heads: int = 12
    hidden: int = 3072
    vocabulary: int = 30522
    positions: int = 512
    rate: float = 0.1

    @property
    def encoder(self) -> Encoder:
        return Encoder(self.blocks, self.width, self.heads, self.hidden, self.tokens)

    @property
    def flops(self) -> float:
        """Of a step's products: the way there, and twice as many back."""
        head = 2.0 * self.masked * self.width * (self.width + self.vocabulary)
        return 3 * (self.encoder.flops + head)

    def weights(self, rng: np.random.Generator) -> Arrays:
        width = self.width
        shapes = {
            "embed.tokens": (self.vocabulary, width),
            "embed.positions": (self.positions, width),
            "embed.kinds": (2, width),
            "embed.norm.scale": (width,),
            "embed.norm.bias": (width,),
            "head.w": (width, width),
            "head.b": (width,),
            "head.norm.scale": (width,),
            "head.norm.bias": (width,),
            "head.tokens.b": (self.vocabulary,),
        }
        return _drawn(shapes, rng) | self.encoder.weights()

    def inputs(self, rng: np.random.Generator) -> Arrays:
        return {
            "tokens": rng.integers(0, self.vocabulary, self.tokens, np.int32),
            "kinds": (np.arange(self.tokens) >= self.tokens // 2).astype(np.int32),
            "places": np.sort(rng.choice(self.tokens, self.masked, replace=False)).astype(np.int32),
            "labels": rng.integers(0, self.vocabulary, self.masked, np.int32),
        }

    def loss(self, w: Mapping[str, Any], tokens: Any, kinds: Any, places: Any, labels: Any) -> Any:
        """The mean cross entropy of the masked tokens."""
        import jax
        import jax.numpy as jnp

        x = w["embed.tokens"][tokens] + w["embed.positions"][: self.tokens] + w["embed.kinds"][kinds]
        x = _norm(x, w, "embed.norm")
        x = self.encoder.apply(x[None], self.encoder.tree({n: a for n, a in w.items() if n.startswith("p.")}))
        x = _norm(jax.nn.gelu(_dense(x[0, places], w, "head"), approximate=False), w, "head.norm")
        logits = x @ w["embed.tokens"].T + w["head.tokens.b"]
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1))

    def step(self, tokens: Any, kinds: Any, places: Any, labels: Any, w: Mapping[str, Any]) -> Any:
        """Gradient descent: the loss, and the weights after it."""
        import jax

        loss, gradient = jax.value_and_grad(self.loss)(w, tokens, kinds, places, labels)
        return loss, {name: array - np.float32(self.rate) * gradient[name] for name, array in w.items()}


def training(name: str, model: Bert) -> Workload:
    """A step of training whose weights stay in the module as states."""
    return Workload(
        name,
        MS,
        model.flops,
        model.step,
        model.inputs,
        model.weights,
        tolerance=STEP,
        bound="fma",
        model=True,
        kept=True,
    )


@dataclass(frozen=True)
class Whisper:
    """A model of Whisper's kind: an encoder of sound and a decoder that writes text. The default is Distil-Whisper
    small, of 165 million parameters, for 5 seconds of sound.

    The decoder's loop has a cache of keys and values, into which each token's are written; it ends after so many
    tokens, or with the token of the end.
    """

    frames: int = 250
    tokens: int = 16
    blocks: int = 12
    layers: int = 4
    width: int = 768
    heads: int = 12
    hidden: int = 3072
    bands: int = 80
    vocabulary: int = 51864
    positions: int = 448
    end: int = 50256

    @property
    def flops(self) -> float:
        """Of the products, if no end comes before `tokens` are there."""
        width, hidden, frames = self.width, self.hidden, self.frames
        dense = 4 * width**2 + 2 * width * hidden
        convolutions = 3 * (2 * frames * self.bands * width + frames * width**2)
        encoder = self.blocks * frames * (dense + 2 * frames * width) + convolutions
        crossing = self.layers * 2 * frames * width**2
        written = self.layers * (dense + 2 * width**2 + 2 * (self.tokens + frames) * width) + self.vocabulary * width
        return 2.0 * (encoder + crossing + self.tokens * written)

    def _block(self, name: str, parts: tuple[str, ...]) -> dict[str, Shape]:
        width, hidden = self.width, self.hidden
        shapes: dict[str, Shape] = {}
        for part in parts:
            shapes |= {f"{name}.{part}.norm.scale": (width,), f"{name}.{part}.norm.bias": (width,)}
            for layer in ("query", "key", "value", "output"):
                shapes |= {f"{name}.{part}.{layer}.w": (width, width), f"{name}.{part}.{layer}.b": (width,)}
            del shapes[f"{name}.{part}.key.b"]
        shapes |= {f"{name}.mlp.norm.scale": (width,), f"{name}.mlp.norm.bias": (width,)}
        shapes |= {f"{name}.mlp.up.w": (width, hidden), f"{name}.mlp.up.b": (hidden,)}
        return shapes | {f"{name}.mlp.down.w": (hidden, width), f"{name}.mlp.down.b": (width,)}

    def weights(self, rng: np.random.Generator) -> Arrays:
        width = self.width
        shapes: dict[str, Shape] = {
            "conv1.w": (3, self.bands, width),
            "conv1.b": (width,),
            "conv2.w": (3, width, width),
            "conv2.b": (width,),
            "sound.place": (self.frames, width),
            "embed.tokens": (self.vocabulary, width),
            "text.place": (self.positions, width),
        }
        for block in range(self.blocks):
            shapes |= self._block(f"encoder.{block}", ("self",))
        for layer in range(self.layers):
            shapes |= self._block(f"decoder.{layer}", ("self", "cross"))
        for name in ("encoder", "decoder"):
            shapes |= {f"{name}.norm.scale": (width,), f"{name}.norm.bias": (width,)}
        return _drawn(shapes, rng)

    def _heads(self, x: Any) -> Any:
        return x.reshape(len(x), self.heads, -1).transpose(1, 0, 2)

    def _mixed(self, q: Any, keys: Any, values: Any, seen: Any = None) -> Any:
        """Attention of all heads; `seen` says which keys there are."""
        import jax
        import jax.numpy as jnp

        scores = jnp.einsum("hqd,hkd->hqk", q, keys) / np.float32(np.sqrt(q.shape[-1]))
        if seen is not None:
            scores = jnp.where(seen, scores, -jnp.inf)
        return jnp.einsum("hqk,hkd->qhd", jax.nn.softmax(scores), values).reshape(q.shape[1], -1)

    def _mlp(self, x: Any, w: Mapping[str, Any], name: str) -> Any:
        import jax

        h = jax.nn.gelu(_dense(_norm(x, w, f"{name}.mlp.norm"), w, f"{name}.mlp.up"), approximate=False)
        return x + _dense(h, w, f"{name}.mlp.down")

    def encode(self, sound: Any, w: Mapping[str, Any]) -> Any:
        """The encoder: two convolutions along time, the second of stride 2, and the blocks."""
        import jax
        from jax import lax

        x = sound[None]
        for number in (1, 2):
            x = lax.conv_general_dilated(
                x, w[f"conv{number}.w"], (number,), [(1, 1)], dimension_numbers=("NWC", "WIO", "NWC")
            )
            x = jax.nn.gelu(x + w[f"conv{number}.b"], approximate=False)
        x = x[0] + w["sound.place"]
        for block in range(self.blocks):
            name = f"encoder.{block}"
            y = _norm(x, w, f"{name}.self.norm")
            q, v = (self._heads(_dense(y, w, f"{name}.self.{part}")) for part in ("query", "value"))
            x = x + _dense(self._mixed(q, self._heads(y @ w[f"{name}.self.key.w"]), v), w, f"{name}.self.output")
            x = self._mlp(x, w, name)
        return _norm(x, w, "encoder.norm")

    def decode(self, token: Any, at: Any, cache: Any, crossing: Any, w: Mapping[str, Any]) -> Any:
        """Logits of what follows a token, and the cache with its keys and values."""
        import jax.numpy as jnp
        from jax import lax

        x = (w["embed.tokens"][token] + w["text.place"][at])[None]
        for layer in range(self.layers):
            name = f"decoder.{layer}"
            y = _norm(x, w, f"{name}.self.norm")
            key, value = y @ w[f"{name}.self.key.w"], _dense(y, w, f"{name}.self.value")
            new = jnp.stack([self._heads(key), self._heads(value)])
            cache = lax.dynamic_update_slice(cache, new[None], (layer, 0, 0, at, 0))
            q = self._heads(_dense(y, w, f"{name}.self.query"))
            seen = jnp.arange(self.tokens) <= at
            x = x + _dense(self._mixed(q, cache[layer, 0], cache[layer, 1], seen), w, f"{name}.self.output")
            q = self._heads(_dense(_norm(x, w, f"{name}.cross.norm"), w, f"{name}.cross.query"))
            x = self._mlp(x + _dense(self._mixed(q, *crossing[layer]), w, f"{name}.cross.output"), w, name)
        return (_norm(x, w, "decoder.norm") @ w["embed.tokens"].T)[0], cache

    def write(self, sound: Any, first: Any, w: Mapping[str, Any]) -> Any:
        """The tokens, how many there are, and the logit of each: the encoder, and a loop of the decoder."""
        import jax.numpy as jnp
        from jax import lax

        heard = self.encode(sound, w)
        crossing = [
            (
                self._heads(heard @ w[f"decoder.{layer}.cross.key.w"]),
                self._heads(_dense(heard, w, f"decoder.{layer}.cross.value")),
            )
            for layer in range(self.layers)
        ]

        def going(carried: Any) -> Any:
            return (carried[0] < self.tokens) & (carried[1] != self.end)

        def trip(carried: Any) -> Any:
            at, token, text, logits, cache = carried
            found, cache = self.decode(token, at, cache, crossing, w)
            token = jnp.argmax(found).astype(jnp.int32)
            return at + 1, token, text.at[at].set(token), logits.at[at].set(found[token]), cache

        cache = jnp.zeros((self.layers, 2, self.heads, self.tokens, self.width // self.heads), jnp.float32)
        text, logits = jnp.full(self.tokens, self.end, jnp.int32), jnp.zeros(self.tokens, jnp.float32)
        count, _, text, logits, _ = lax.while_loop(going, trip, (jnp.int32(0), first, text, logits, cache))
        return text, count, logits


def writing(name: str, model: Whisper) -> Workload:
    """Sound becomes text in one call."""
    return Workload(
        name,
        MS,
        model.flops,
        model.write,
        arrays(
            sound=normal(2 * model.frames, model.bands),
            first=lambda rng: rng.integers(0, model.end, dtype=np.int32),
        ),
        model.weights,
        tolerance=CLOSE,
        bound="fma",
        model=True,
    )
