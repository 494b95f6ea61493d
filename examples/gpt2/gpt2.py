"""GPT-2 in plain JAX, one token at a time: keys and values of the past, the position and the random key are its state.

Weights have the names and shapes of the published files, and any file with those names will do: its shapes tell the
size of the gpt2.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

import xla_wasm
from xla_wasm import safetensors
from xla_wasm.jax import lower

Array = Any
Tree = dict[str, Any]
Floats = np.ndarray[Any, np.dtype[np.float32]]

HEAD = 64
"""Numbers in a head of attention, in every published size; `Config.heads` may say otherwise."""

EPSILON = 1e-5


@dataclass(frozen=True)
class Config:
    """The size of a gpt2."""

    layers: int
    width: int
    heads: int
    vocabulary: int
    context: int
    """Tokens of the longest text."""

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every weight."""
        w = self.width
        found: dict[str, tuple[int, ...]] = {"wte.weight": (self.vocabulary, w), "wpe.weight": (self.context, w)}
        for layer in range(self.layers):
            for name, shape in (
                *(
                    ("ln_1.weight", (w,)),
                    ("ln_1.bias", (w,)),
                    ("attn.c_attn.weight", (w, 3 * w)),
                    ("attn.c_attn.bias", (3 * w,)),
                ),
                *(
                    ("attn.c_proj.weight", (w, w)),
                    ("attn.c_proj.bias", (w,)),
                    ("ln_2.weight", (w,)),
                    ("ln_2.bias", (w,)),
                ),
                *(("mlp.c_fc.weight", (w, 4 * w)), ("mlp.c_fc.bias", (4 * w,))),
                *(("mlp.c_proj.weight", (4 * w, w)), ("mlp.c_proj.bias", (w,))),
            ):
                found[f"h.{layer}.{name}"] = shape
        return found | {"ln_f.weight": (w,), "ln_f.bias": (w,)}


SMALL = Config(12, 768, 12, 50257, 1024)
"""GPT-2-small: 124 million numbers."""
TINY = Config(4, 128, 4, 128, 256)
"""About 0.9 million numbers, for characters of ASCII: the model of `training.py`."""


def config_of(shapes: Mapping[str, tuple[int, ...]]) -> Config:
    """The size of the model with weights of these shapes. Raises ValueError where they are none of GPT-2's."""
    if not {"wte.weight", "wpe.weight"} <= shapes.keys():
        raise ValueError("there is no wte.weight and wpe.weight: these are not the weights of a GPT-2")
    (vocabulary, width), (context, _) = shapes["wte.weight"], shapes["wpe.weight"]
    layers = 1 + max((int(name.split(".")[1]) for name in shapes if name.startswith("h.")), default=-1)
    known = {c.width: c.heads for c in (SMALL, TINY)}
    config = Config(layers, width, known.get(width) or max(width // HEAD, 1), vocabulary, context)
    for name, shape in config.shapes.items():
        if name not in shapes:
            raise ValueError(f"the weight {name} is missing")
        if tuple(shapes[name]) != shape:
            raise ValueError(f"the weight {name} is {list(shapes[name])}, and a GPT-2 of this width has {list(shape)}")
    return config


def is_scale(name: str) -> bool:
    """Returns True if the numbers of the weight of that name begin as 1."""
    return "ln_" in name and name.endswith("weight")


def deviation(name: str, config: Config) -> float:
    """Returns the standard deviation of a matrix as training begins: less if its product goes into the layers' sum."""
    return 0.02 / (2 * config.layers) ** 0.5 if name.endswith("c_proj.weight") else 0.02


def random_weights(config: Config, seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    """Weights as training begins with them."""
    rng = np.random.default_rng(seed)

    def made(name: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        if len(shape) == 1:
            return np.full(shape, is_scale(name), np.float32)
        return rng.standard_normal(shape, np.float32) * np.float32(deviation(name, config))

    return {name: made(name, shape) for name, shape in config.shapes.items()}


# --- the model --------------------------------------------------------------------------------------------------------


def normalised(x: Array, w: Tree, name: str) -> Array:
    """Layer normalisation over the last dimension."""
    centred = x - x.mean(-1, keepdims=True)
    return (
        centred * lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + EPSILON) * w[f"{name}.weight"]
        + w[f"{name}.bias"]
    )


def dense(x: Array, w: Tree, name: str) -> Array:
    return x @ w[f"{name}.weight"] + w[f"{name}.bias"]


def heads(x: Array, config: Config) -> Array:
    """[tokens, width] as [heads, tokens, numbers of a head]."""
    return x.reshape(len(x), config.heads, -1).swapaxes(0, 1)


def attend(q: Array, k: Array, v: Array, sees: Array) -> Array:
    """[tokens, width]: for each token of `q` the values of those that it `sees`."""
    scores = q @ k.swapaxes(1, 2) / np.float32(q.shape[-1] ** 0.5)
    mixed = jax.nn.softmax(jnp.where(sees, scores, -jnp.inf)) @ v
    return mixed.swapaxes(0, 1).reshape(q.shape[1], -1)


def decode(w: Tree, cache: Tree, token: Array, position: Array, config: Config) -> tuple[Array, Tree]:
    """Returns the logits of the token after this one, [vocabulary], and the cache with this one's keys and values."""
    x = (w["wte.weight"][token] + w["wpe.weight"][position])[None]
    sees = jnp.arange(cache["k0"].shape[1]) <= position
    kept = dict(cache)
    for layer in range(config.layers):
        here = f"h.{layer}"
        q, k, v = jnp.split(dense(normalised(x, w, f"{here}.ln_1"), w, f"{here}.attn.c_attn"), 3, 1)
        for name, new in (("k", k), ("v", v)):
            kept[f"{name}{layer}"] = lax.dynamic_update_slice_in_dim(
                kept[f"{name}{layer}"], heads(new, config), position, 1
            )
        x = x + dense(attend(heads(q, config), kept[f"k{layer}"], kept[f"v{layer}"], sees), w, f"{here}.attn.c_proj")
        x = x + dense(
            jax.nn.gelu(dense(normalised(x, w, f"{here}.ln_2"), w, f"{here}.mlp.c_fc")), w, f"{here}.mlp.c_proj"
        )
    return (normalised(x, w, "ln_f") @ w["wte.weight"].T)[0], kept


def logits(w: Tree, tokens: Array, config: Config) -> Array:
    """Returns the logits of the token after each of a text, [tokens, vocabulary]: all at once, as for training."""
    x = w["wte.weight"][tokens] + w["wpe.weight"][: len(tokens)]
    sees = jnp.tril(jnp.ones((len(tokens), len(tokens)), bool))
    for layer in range(config.layers):
        here = f"h.{layer}"
        q, k, v = (
            heads(part, config)
            for part in jnp.split(dense(normalised(x, w, f"{here}.ln_1"), w, f"{here}.attn.c_attn"), 3, 1)
        )
        x = x + dense(attend(q, k, v, sees), w, f"{here}.attn.c_proj")
        x = x + dense(
            jax.nn.gelu(dense(normalised(x, w, f"{here}.ln_2"), w, f"{here}.mlp.c_fc")), w, f"{here}.mlp.c_proj"
        )
    return normalised(x, w, "ln_f") @ w["wte.weight"].T


def sample(logits: Array, key: Array, temperature: Array, top: int) -> Array:
    """One of the `top` likeliest tokens; the likeliest itself where the temperature is 0."""
    values, tokens = lax.top_k(logits, top)
    drawn = jax.random.categorical(key, values / jnp.maximum(temperature, 1e-6))
    return tokens[jnp.where(temperature > 0, drawn, 0)]


def step(
    w: Tree,
    state: Tree,
    given: Array,
    temperature: Array,
    config: Config,
    top: int,
    only: Callable[[Array], Array] = lambda logits: logits,
) -> dict[str, Any]:
    """One token more: `given`, or the one that was drawn last if that is negative; and the token that is drawn to
    follow it.

    `only` may keep tokens from being drawn, by their logits.
    """
    token = jnp.where(given < 0, state["token"], given)
    found, cache = decode(w, state["cache"], token, state["position"], config)
    key, own = jax.random.split(jax.random.wrap_key_data(state["key"]))
    drawn = sample(only(found), own, temperature, top)
    after = {"cache": cache, "position": state["position"] + 1, "key": jax.random.key_data(key), "token": drawn}
    return {"token": drawn, "state": after}


def initial(config: Config, length: int, seed: int = 0) -> Tree:
    """The state before the first token, for texts of up to `length` tokens."""
    empty = np.zeros((config.heads, length, config.width // config.heads), np.float32)
    cache = {f"{name}{layer}": empty for name in "kv" for layer in range(config.layers)}
    key = np.asarray(jax.random.key_data(jax.random.key(seed)))
    return {"cache": cache, "position": np.int32(0), "key": key, "token": np.int32(0)}


def leaves(tree: Tree, before: str) -> dict[str, Any]:
    """The arrays of nested dictionaries, by the names that `lower` gives them in an argument called `before`."""
    found: dict[str, Any] = {}
    for key, value in tree.items():
        name = f"{before}.{key}"
        found |= leaves(value, name) if isinstance(value, dict) else {name: value}
    return found


def compiled(
    config: Config,
    length: int,
    top: int = 40,
    weight_format: str = "f32",
    threads: bool = False,
    target: str = "relaxed-simd",
) -> xla_wasm.Artifact:
    """The module that makes one token after the other of texts of up to `length` tokens, one of the `top` likeliest
    each.

    Its weights have the names that files have them by; its state, once set, goes on from token to token.
    """
    weights: Tree = {name: jax.ShapeDtypeStruct(shape, np.float32) for name, shape in config.shapes.items()}
    state = initial(config, length)

    def next_token(state: Tree, given: Array, temperature: Array, **weights: Array) -> Any:
        return step(weights, state, given, temperature, config, min(top, config.vocabulary))

    module = lower(next_token, state, np.int32(0), np.float32(0), **weights)
    kept = tuple((name, name) for name in leaves(state, "state"))
    formats = tuple((name, weight_format) for name in weights)
    return xla_wasm.compile(module, xla_wasm.Options(target=target, state=kept, weight_format=formats, threads=threads))


def begin(exe: xla_wasm.Executable, config: Config, length: int, seed: int = 0) -> None:
    """Has the next token be the first of a text."""
    for name, array in leaves(initial(config, length, seed), "state").items():
        exe.set(name, array)


# --- files ------------------------------------------------------------------------------------------------------------


def read(path: Path) -> tuple[Config, dict[str, Floats]]:
    """The weights of a safetensors file as f32, and the size of the gpt2. Raises ValueError where they are none of
    GPT-2's."""
    tensors = safetensors.read(path)
    # Some files have a name in front of all others, and masks of attention that are no weights.
    shorter = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
    config = config_of({name: tensor.dimensions for name, tensor in shorter.items()})
    return config, {name: _floats(shorter[name]) for name in config.shapes}


def _floats(tensor: safetensors.Tensor) -> Floats:
    types = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
    if tensor.element_type not in types:
        raise ValueError(f"a weight has elements of {tensor.element_type}; f32, f16 and bf16 are read")
    return np.frombuffer(tensor.data, types[tensor.element_type]).reshape(tensor.dimensions).astype(np.float32)


def write(path: Path, weights: Mapping[str, Floats]) -> None:
    """A safetensors file with weights in f16."""
    header, data = dict[str, Any](), b""
    for name, array in weights.items():
        part = array.astype("<f2").tobytes()
        header[name] = {"dtype": "F16", "shape": array.shape, "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
