"""Models that go through a sequence, and a training step."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..onnx_graph import Graph
from .workload import MS, Arrays, Workload, arrays, normal

EPSILON = 1e-5


def recurrent(name: str, steps: int, inputs: int, width: int) -> Workload:
    """An LSTM over a sequence; gates in ONNX's order: input, output, forget, cell."""

    def function(x: Any, w: Arrays) -> Any:
        import jax
        import jax.numpy as jnp
        from jax import lax

        def step(state: Any, gates: Any) -> Any:
            h, c = state
            i, o, f, g = jnp.split(gates + h @ w["recurrent"], 4)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zero = jnp.zeros(width, jnp.float32)
        return lax.scan(step, (zero, zero), x @ w["input"] + w["bias"])[1]

    def onnx(g: Graph) -> str:
        weights = {name: g.weights.pop(name) for name in ("input", "recurrent", "bias")}
        w, r = (g.constant(f"{name}_rows", weights[name].T[None]) for name in ("input", "recurrent"))
        b = g.constant("bias_row", np.concatenate([weights["bias"], np.zeros_like(weights["bias"])])[None])
        x = g.node("Unsqueeze", "x", g.constant("batch", np.array([1])))
        y = g.node("LSTM", x, w, r, b, hidden_size=width)
        return g.node("Reshape", y, g.constant("flat", np.array([steps, width])))

    weights = arrays(
        input=normal(inputs, 4 * width, scale=inputs**-0.5),
        recurrent=normal(width, 4 * width, scale=width**-0.5),
        bias=normal(4 * width, scale=0.1),
    )
    flops = 2.0 * steps * (inputs + width) * 4 * width
    return Workload(
        name,
        MS,
        flops,
        function,
        arrays(x=normal(steps, inputs)),
        weights,
        onnx=onnx,
        tolerance=1e-4,
        bound="fma",
        model=True,
    )


def training(name: str, batch: int) -> Workload:
    """A step of gradient descent of a small network of convolutions, for images of 28x28."""

    def logits(p: Arrays, x: Any) -> Any:
        import jax
        import jax.numpy as jnp
        from jax import lax

        for layer in ("first", "second"):
            x = lax.conv_general_dilated(x, p[layer], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
            x = jax.nn.relu(x + p[f"{layer}_bias"])
            x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return x.reshape(batch, -1) @ p["dense"] + p["dense_bias"]

    def step(x: Any, y: Any, *parameters: Any) -> Any:
        import jax
        import jax.numpy as jnp

        def loss(p: Arrays) -> Any:
            return -jnp.mean(jnp.sum(jax.nn.log_softmax(logits(p, x)) * jax.nn.one_hot(y, 10), -1))

        p = dict(zip(names, parameters))
        value, gradient = jax.value_and_grad(loss)(p)
        return value, *(p[name] - 0.1 * gradient[name] for name in names)

    shapes = {"first": (3, 3, 1, 16), "second": (3, 3, 16, 32), "dense": (7 * 7 * 32, 10)}
    names = [f"{layer}{part}" for layer in shapes for part in ("", "_bias")]

    def given(rng: np.random.Generator) -> Arrays:
        made: Arrays = {"x": rng.random((batch, 28, 28, 1), np.float32), "y": rng.integers(0, 10, batch, np.int32)}
        for layer, shape in shapes.items():
            made[layer] = normal(*shape, scale=float(np.prod(shape[:-1])) ** -0.5)(rng)
            made[f"{layer}_bias"] = normal(shape[-1], scale=0.1)(rng)
        return made

    products = 2 * 28 * 28 * 9 * 16 * 2 + 3 * 14 * 14 * 9 * 16 * 32 * 2 + 3 * 7 * 7 * 32 * 10 * 2
    return Workload(name, MS, float(batch * products), step, given, tolerance=1e-4, bound="fma", model=True)


WIDTH, HEADS, BLOCKS, VOCABULARY, POSITIONS = 768, 12, 12, 50257, 1024


def adding_token(name: str, past: int) -> Workload:
    """GPT-2 small computes the next token from one more token and the keys and values of those before."""
    size = WIDTH // HEADS

    def weights(rng: np.random.Generator) -> Arrays:
        made = {
            "tokens": normal(VOCABULARY, WIDTH, scale=0.02)(rng),
            "positions": normal(POSITIONS, WIDTH, scale=0.01)(rng),
        }
        shapes = {
            "attend": (WIDTH, 3 * WIDTH),
            "project": (WIDTH, WIDTH),
            "up": (WIDTH, 4 * WIDTH),
            "down": (4 * WIDTH, WIDTH),
        }
        for block in range(BLOCKS):
            for layer, shape in shapes.items():
                made[f"{layer}{block}"] = normal(*shape, scale=0.5 * shape[0] ** -0.5)(rng)
                made[f"{layer}{block}_bias"] = normal(shape[1], scale=0.02)(rng)
        for norm in [f"norm{part}_{block}" for block in range(BLOCKS) for part in (1, 2)] + ["norm_last"]:
            made[norm] = 1 + normal(WIDTH, scale=0.1)(rng)
            made[f"{norm}_bias"] = normal(WIDTH, scale=0.1)(rng)
        return made

    def inputs(rng: np.random.Generator) -> Arrays:
        cache = normal(BLOCKS, 2, HEADS, past, size)(rng)
        return {
            "token": rng.integers(0, VOCABULARY, 1, np.int32),
            "position": np.array([past], np.int32),
            "cache": cache,
        }

    def function(token: Any, position: Any, cache: Any, w: Arrays) -> Any:
        import jax
        import jax.numpy as jnp
        from jax import lax

        def norm(x: Any, name: str) -> Any:
            centred = x - x.mean(-1, keepdims=True)
            return (
                centred * lax.rsqrt(jnp.mean(centred * centred, -1, keepdims=True) + EPSILON) * w[name]
                + w[f"{name}_bias"]
            )

        def dense(x: Any, name: str) -> Any:
            return x @ w[name] + w[f"{name}_bias"]

        x = w["tokens"][token] + w["positions"][position]
        added = []
        for block in range(BLOCKS):
            q, k, v = dense(norm(x, f"norm1_{block}"), f"attend{block}").reshape(3, HEADS, 1, size)
            added.append(jnp.stack([k, v]))
            keys, values = (jnp.concatenate([cache[block, part], new], 1) for part, new in enumerate((k, v)))
            scores = jax.nn.softmax(q @ keys.transpose(0, 2, 1) / np.float32(size**0.5))
            x = x + dense((scores @ values).reshape(1, WIDTH), f"project{block}")
            x = x + dense(jax.nn.gelu(dense(norm(x, f"norm2_{block}"), f"up{block}")), f"down{block}")
        return norm(x, "norm_last") @ w["tokens"].T, jnp.stack(added)

    flops = 2.0 * (BLOCKS * (12 * WIDTH**2 + 2 * (past + 1) * WIDTH) + VOCABULARY * WIDTH)
    return Workload(
        name, MS, flops, function, inputs, weights, onnx=lambda g: _token_onnx(g, size), tolerance=2e-4, model=True
    )


def _token_onnx(g: Graph, size: int) -> tuple[str, str]:
    """As exporters write it, with the tanh form of GELU in pieces."""
    node = g.node

    def norm(x: str, name: str) -> str:
        return node("LayerNormalization", x, name, f"{name}_bias", axis=-1, epsilon=EPSILON)

    def dense(x: str, name: str) -> str:
        return node("Add", node("MatMul", x, name), f"{name}_bias")

    def number(value: float) -> str:
        return g.constant(f"is_{value}", np.array(value, np.float32))

    def gelu(x: str) -> str:
        cubed = node("Mul", node("Mul", node("Mul", x, x), x), number(0.044715))
        inner = node("Tanh", node("Mul", node("Add", x, cubed), number((2 / np.pi) ** 0.5)))
        return node("Mul", node("Mul", x, number(0.5)), node("Add", inner, number(1.0)))

    g.constant("heads", np.array([3, HEADS, 1, size]))
    g.constant("merged", np.array([1, WIDTH]))
    g.constant("pair", np.array([1, 2, HEADS, 1, size]))
    x = node("Add", node("Gather", "tokens", "token"), node("Gather", "positions", "position"))
    added = []
    for block in range(BLOCKS):
        three = node("Reshape", dense(norm(x, f"norm1_{block}"), f"attend{block}"), "heads")
        q, k, v = g.nodes("Split", 3, three, axis=0, num_outputs=3)
        added.append(node("Reshape", node("Concat", k, v, axis=0), "pair"))
        index = g.constant(f"block{block}", np.array(block))
        held = node("Gather", "cache", index, axis=0)
        keys, values = (
            node("Concat", node("Gather", held, g.constant(f"part{part}", np.array([part])), axis=0), new, axis=2)
            for part, new in enumerate((k, v))
        )
        scores = node("Div", node("MatMul", q, node("Transpose", keys, perm=(0, 1, 3, 2))), number(size**0.5))
        mixed = node("Reshape", node("MatMul", node("Softmax", scores, axis=-1), values), "merged")
        x = node("Add", x, dense(mixed, f"project{block}"))
        x = node("Add", x, dense(gelu(dense(norm(x, f"norm2_{block}"), f"up{block}")), f"down{block}"))
    # The embedding once more, transposed as exporters keep it.
    head = g.constant("head", g.weights["tokens"].T)
    return node("MatMul", norm(x, "norm_last"), head), node("Concat", *added, axis=0)
