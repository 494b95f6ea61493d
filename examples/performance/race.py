"""Lowers what the page of figures has three libraries compute in turns.

    pip install -e '.[jax,test]' && python examples/performance/race.py

Written next to this file, each with its weights as parameters `w.NAME`, which the page draws at random:

    digits.hlo.pb    the digits network on one image
    encoder.hlo.pb   a block of a BERT-like encoder of MiniLM's width, 128 tokens
    conv.hlo.pb      a 3x3 convolution, 64 channels of 56x56 to 64
    decode.hlo.pb    a block of GPT-2 small computes one token more, from the keys and values of 127

The page has the same in the words of the others (`web/demo/performance/workloads.js`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, nn

from xla_wasm import HloModule
from xla_wasm.jax import lower

# The modules carry source lines for error messages and profiles: as paths inside the project.
jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/(?=examples/|site-packages/|xla_wasm/)")

HERE = Path(__file__).parent
NHWC = ("NHWC", "HWIO", "NHWC")
Array = jax.Array
Weights = dict[str, Any]


def convolved(x: Array, taps: Array) -> Array:
    """A padded convolution of images with channels last."""
    return lax.conv_general_dilated(x, taps, (1, 1), "SAME", dimension_numbers=NHWC)


def digits(x: Array, w: Weights) -> Array:
    """Logits f32[1,10] of an image f32[1,8,8,1]: `forward` of examples/digits/train.py."""
    for name in ("conv1", "conv2"):
        x = nn.relu(convolved(x, w[name]) + w[f"{name}_bias"])
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return x.reshape(1, -1) @ w["dense"] + w["dense_bias"]


def dense(x: Array, w: Weights, name: str) -> Array:
    return x @ w[name] + w[f"{name}_bias"]


def norm(x: Array, w: Weights, name: str) -> Array:
    """A layer normalisation."""
    centred = x - x.mean(-1, keepdims=True)
    variance = jnp.mean(centred * centred, -1, keepdims=True)
    return centred * lax.rsqrt(variance + 1e-5) * w[name] + w[f"{name}_bias"]


def encoder(x: Array, w: Weights) -> Array:
    """A block of f32[tokens,width]: attention and two dense layers, each normalised after its residual."""
    tokens, width = x.shape

    def heads(name: str) -> Array:
        return dense(x, w, name).reshape(tokens, HEADS, -1).transpose(1, 0, 2)

    q, k, v = (heads(name) for name in ("query", "key", "value"))
    scores = nn.softmax(q @ k.transpose(0, 2, 1) * np.float32((width // HEADS) ** -0.5))
    mixed = (scores @ v).transpose(1, 0, 2).reshape(tokens, width)
    x = norm(x + dense(mixed, w, "output"), w, "norm1")
    h = dense(x, w, "up")
    h = h * 0.5 * (1 + lax.erf(h * np.float32(2**-0.5)))
    return norm(x + dense(h, w, "down"), w, "norm2")


def conv(x: Array, w: Weights) -> Array:
    return convolved(x, w["taps"])


def decode(x: Array, cache: Array, w: Weights) -> tuple[Array, Array]:
    """The block's f32[1,width] for a token, and its key and value f32[2,heads,1,size]; `cache` f32[2,heads,past,size]
    has those of the tokens before."""
    _, heads, _, size = cache.shape
    q, k, v = dense(norm(x, w, "norm1"), w, "attend").reshape(3, heads, 1, size)
    keys, values = (jnp.concatenate([cache[part], new], 1) for part, new in enumerate((k, v)))
    scores = nn.softmax(q @ keys.transpose(0, 2, 1) * np.float32(size**-0.5))
    x = x + dense((scores @ values).reshape(1, -1), w, "project")
    x = x + dense(nn.gelu(dense(norm(x, w, "norm2"), w, "up")), w, "down")
    return x, jnp.stack([k, v])


HEADS = 12


def _shaped(**shapes: tuple[int, ...]) -> dict[str, Any]:
    return {name: jax.ShapeDtypeStruct(shape, np.float32) for name, shape in shapes.items()}


def _layers(**shapes: tuple[int, ...]) -> dict[str, Any]:
    """Weights of layers, each with a bias."""
    return _shaped(**shapes, **{f"{name}_bias": shape[-1:] for name, shape in shapes.items()})


def modules() -> dict[str, HloModule]:
    """All of them, by their names."""
    square = dict.fromkeys(("query", "key", "value", "output"), (384, 384))
    widths = _layers(**square, up=(384, 1536), down=(1536, 384), norm1=(384,), norm2=(384,))
    gpt2 = {"attend": (768, 2304), "project": (768, 768), "up": (768, 3072), "down": (3072, 768)}
    given = _shaped(
        image=(1, 8, 8, 1), tokens=(128, 384), places=(1, 56, 56, 64), token=(1, 768), cache=(2, HEADS, 127, 64)
    )
    return {
        "digits": lower(digits, given["image"], _layers(conv1=(3, 3, 1, 16), conv2=(3, 3, 16, 32), dense=(512, 10))),
        "encoder": lower(encoder, given["tokens"], widths),
        "conv": lower(conv, given["places"], _shaped(taps=(3, 3, 64, 64))),
        "decode": lower(decode, given["token"], given["cache"], _layers(**gpt2, norm1=(768,), norm2=(768,))),
    }


def main() -> None:
    """Lowers the functions."""
    for name, module in modules().items():
        path = HERE / f"{name}.hlo.pb"
        path.write_bytes(module.to_proto())
        print(f"{path.relative_to(HERE.parents[1])}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
