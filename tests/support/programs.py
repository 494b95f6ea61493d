"""Real programs, small but whole: what the compiler is judged by. Every one has fixed seeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax, nn

Tree = Any


@dataclass(frozen=True)
class Program:
    """A function and its arguments; `x64` keeps 64-bit types, `exact` results are XLA:CPU's bit by bit."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    x64: bool = False
    exact: bool = False


PROGRAMS: dict[str, Callable[[], Program]] = {}


def program(make: Callable[[], Program]) -> Callable[[], Program]:
    """Lists a program under the name of the function that makes it."""
    PROGRAMS[make.__name__] = make
    return make


class Random:
    """Arrays of random numbers from one seed."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)

    def normal(self, *dims: int, scale: float = 1.0) -> np.ndarray:
        return (self.rng.standard_normal(dims) * scale).astype(np.float32)

    def dense(self, *dims: int) -> np.ndarray:
        """Weights scaled by the size of what they sum over."""
        return self.normal(*dims, scale=float(np.prod(dims[:-1])) ** -0.5)

    def integers(self, limit: int, *dims: int) -> np.ndarray:
        return self.rng.integers(0, limit, dims).astype(np.int32)


# The digits model


def cnn_params(r: Random) -> Tree:
    return {
        "conv1": {"kernel": r.dense(3, 3, 1, 8), "bias": r.normal(8, scale=0.1)},
        "conv2": {"kernel": r.dense(3, 3, 8, 16), "bias": r.normal(16, scale=0.1)},
        "dense": {"kernel": r.dense(64, 10), "bias": r.normal(10, scale=0.1)},
    }


def conv(x: Any, p: Tree, padding: str = "SAME") -> Any:
    y = lax.conv_general_dilated(x, p["kernel"], (1, 1), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return y + p["bias"]


def max_pool(x: Any) -> Any:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def cnn(params: Tree, images: Any) -> Any:
    x = max_pool(nn.relu(conv(images, params["conv1"])))
    x = max_pool(nn.relu(conv(x, params["conv2"])))
    x = x.reshape(x.shape[0], -1)
    return x @ params["dense"]["kernel"] + params["dense"]["bias"]


def cnn_loss(params: Tree, images: Any, labels: Any) -> Any:
    logits = cnn(params, images)
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def _images(r: Random, count: int) -> tuple[np.ndarray, np.ndarray]:
    return np.abs(r.normal(count, 8, 8, 1)), r.integers(10, count)


@program
def digits_forward() -> Program:
    r = Random(1)
    return Program(cnn, (cnn_params(r), _images(r, 8)[0]))


@program
def digits_train_sgd() -> Program:
    def step(params: Tree, images: Any, labels: Any) -> Any:
        loss, grads = jax.value_and_grad(cnn_loss)(params, images, labels)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss

    r = Random(2)
    return Program(step, (cnn_params(r), *_images(r, 8)))


@program
def digits_train_log_softmax() -> Program:
    def loss(params: Tree, images: Any, labels: Any) -> Any:
        picked = jnp.take_along_axis(nn.log_softmax(cnn(params, images)), labels[:, None], axis=1)
        return -picked.mean()

    r = Random(3)
    return Program(jax.value_and_grad(loss), (cnn_params(r), *_images(r, 6)))


@program
def digits_train_adam() -> Program:
    optimizer = optax.adam(1e-3)

    def step(params: Tree, state: Tree, images: Any, labels: Any) -> Any:
        loss, grads = jax.value_and_grad(cnn_loss)(params, images, labels)
        updates, state = optimizer.update(grads, state)
        return optax.apply_updates(params, updates), state, loss

    r = Random(4)
    params = cnn_params(r)
    state = jax.tree.map(lambda x: np.asarray(x), optimizer.init(params))
    return Program(step, (params, state, *_images(r, 8)))


# Dense layers


def mlp(params: Tree, x: Any) -> Any:
    for layer in params[:-1]:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def mlp_params(r: Random, *sizes: int) -> Tree:
    return [{"w": r.dense(m, n), "b": r.normal(n, scale=0.1)} for m, n in zip(sizes, sizes[1:])]


@program
def mlp_forward() -> Program:
    r = Random(5)
    return Program(mlp, (mlp_params(r, 13, 64, 32, 3), r.normal(16, 13)))


@program
def mlp_gradient() -> Program:
    r = Random(6)
    loss = jax.value_and_grad(lambda params, x, y: jnp.mean((mlp(params, x) - y) ** 2))
    return Program(loss, (mlp_params(r, 13, 32, 16, 3), r.normal(16, 13), r.normal(16, 3)))


# The transformer encoder block


def block_params(r: Random, width: int, hidden: int) -> Tree:
    return {
        "norm1": {"scale": 1 + r.normal(width, scale=0.1), "bias": r.normal(width, scale=0.1)},
        "norm2": {"scale": 1 + r.normal(width, scale=0.1), "bias": r.normal(width, scale=0.1)},
        "qkv": {"w": r.dense(width, 3 * width), "b": r.normal(3 * width, scale=0.1)},
        "out": {"w": r.dense(width, width), "b": r.normal(width, scale=0.1)},
        "up": {"w": r.dense(width, hidden), "b": r.normal(hidden, scale=0.1)},
        "down": {"w": r.dense(hidden, width), "b": r.normal(width, scale=0.1)},
    }


def layer_norm(p: Tree, x: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    variance = x.var(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-6) * p["scale"] + p["bias"]


def attention(p: Tree, x: Any, heads: int) -> Any:
    batch, length, width = x.shape
    qkv = x @ p["qkv"]["w"] + p["qkv"]["b"]
    q, k, v = (part.reshape(batch, length, heads, width // heads) for part in jnp.split(qkv, 3, -1))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(width // heads)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", nn.softmax(scores), v).reshape(batch, length, width)
    return mixed @ p["out"]["w"] + p["out"]["b"]


def block(p: Tree, x: Any, approximate: bool = True) -> Any:
    x = x + attention(p, layer_norm(p["norm1"], x), 4)
    h = nn.gelu(layer_norm(p["norm2"], x) @ p["up"]["w"] + p["up"]["b"], approximate=approximate)
    return x + h @ p["down"]["w"] + p["down"]["b"]


def _block_args(seed: int) -> tuple[Any, ...]:
    r = Random(seed)
    return block_params(r, 32, 128), r.normal(2, 12, 32)


@program
def transformer_tanh_gelu() -> Program:
    return Program(block, _block_args(7))


@program
def transformer_erf_gelu() -> Program:
    return Program(lambda p, x: block(p, x, approximate=False), _block_args(8))


@program
def transformer_gradient() -> Program:
    return Program(jax.value_and_grad(lambda p, x: jnp.mean(block(p, x) ** 2), argnums=(0, 1)), _block_args(9))


@program
def transformer_gradient_erf_gelu() -> Program:
    return Program(jax.grad(lambda p, x: jnp.mean(block(p, x, approximate=False) ** 2)), _block_args(10))


# Loops


def lstm(params: Tree, xs: Any) -> Any:
    """xs [time, batch, features] -> hidden states [time, batch, width], final state."""
    width = params["b"].shape[0] // 4

    def cell(state: Any, x: Any) -> Any:
        h, c = state
        i, f, g, o = jnp.split(x @ params["wx"] + h @ params["wh"] + params["b"], 4, -1)
        c = nn.sigmoid(f + 1) * c + nn.sigmoid(i) * jnp.tanh(g)
        h = nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zero = jnp.zeros((xs.shape[1], width), xs.dtype)
    state, hs = lax.scan(cell, (zero, zero), xs)
    return hs, state


def _lstm_args(seed: int) -> tuple[Any, ...]:
    r = Random(seed)
    return {"wx": r.dense(6, 64), "wh": r.dense(16, 64), "b": r.normal(64, scale=0.1)}, r.normal(10, 3, 6)


@program
def lstm_forward() -> Program:
    return Program(lstm, _lstm_args(11))


@program
def lstm_gradient() -> Program:
    return Program(jax.value_and_grad(lambda params, xs: jnp.sum(lstm(params, xs)[0][-1] ** 2)), _lstm_args(12))


@program
def k_means() -> Program:
    def run(points: Any, start: Any) -> Any:
        count = start.shape[0]

        def assign(centres: Any) -> Any:
            return jnp.argmin(jnp.sum((points[:, None] - centres[None]) ** 2, -1), -1)

        def moving(state: Any) -> Any:
            _, moved, trips = state
            return (moved > 1e-4) & (trips < 50)

        def update(state: Any) -> Any:
            centres, _, trips = state
            member = nn.one_hot(assign(centres), count, dtype=points.dtype)
            new = (member.T @ points) / jnp.maximum(member.sum(0), 1)[:, None]
            return new, jnp.max(jnp.abs(new - centres)), trips + 1

        centres, _, trips = lax.while_loop(moving, update, (start, jnp.float32(jnp.inf), jnp.int32(0)))
        return centres, assign(centres), trips

    r = Random(13)
    points = np.concatenate(
        [r.normal(40, 3) + centre for centre in ([0, 0, 0], [6, 0, 3], [0, 7, -4], [-5, -5, 5])]
    ).astype(np.float32)
    return Program(run, (points, points[[1, 45, 90, 130]] + np.float32(0.25)))


# Smaller pieces


@program
def embedding() -> Program:
    def loss(table: Any, ids: Any) -> Any:
        return jnp.sum(jnp.tanh(table[ids]).mean(1) ** 2)

    r = Random(14)
    return Program(jax.value_and_grad(loss), (r.normal(50, 8), r.integers(50, 4, 7)))


@program
def average_pool_gradient() -> Program:
    def pool(x: Any) -> Any:
        return lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "SAME") / 9

    return Program(jax.value_and_grad(lambda x: jnp.sum(pool(x) ** 2)), (Random(15).normal(2, 9, 7, 3),))


def _convolved(
    seed: int, dims: tuple[int, ...], kernel: tuple[int, ...], gradient: bool = False, **options: Any
) -> Program:
    options = {"window_strides": (1, 1), "padding": "SAME", "dimension_numbers": ("NHWC", "HWIO", "NHWC"), **options}

    def fn(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(x, w, **options)

    r = Random(seed)
    args = (r.normal(*dims), r.dense(*kernel))
    return Program(jax.grad(lambda x, w: jnp.sum(fn(x, w) ** 2), argnums=(0, 1)) if gradient else fn, args)


@program
def conv_depthwise() -> Program:
    return _convolved(16, (1, 9, 9, 12), (3, 3, 1, 12), feature_group_count=12)


@program
def conv_grouped() -> Program:
    return _convolved(17, (2, 7, 8, 12), (3, 3, 4, 18), feature_group_count=3, window_strides=(2, 1))


@program
def conv_dilated() -> Program:
    return _convolved(18, (1, 12, 12, 4), (3, 3, 4, 8), rhs_dilation=(2, 3))


@program
def conv_transposed() -> Program:
    return _convolved(19, (1, 6, 6, 8), (4, 4, 8, 4), lhs_dilation=(2, 2), padding=((2, 2), (2, 2)))


@program
def conv_stride_gradient() -> Program:
    return _convolved(20, (2, 9, 9, 4), (3, 3, 4, 6), gradient=True, window_strides=(2, 2))


@program
def conv_grouped_gradient() -> Program:
    return _convolved(21, (2, 6, 6, 8), (3, 3, 4, 6), gradient=True, feature_group_count=2)


@program
def conv_features_first() -> Program:
    return _convolved(22, (2, 5, 8, 9), (6, 5, 3, 3), dimension_numbers=("NCHW", "OIHW", "NCHW"))


@program
def batch_norm_train() -> Program:
    def loss(x: Any, scale: Any, bias: Any) -> Any:
        mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
        y = (x - mean) / jnp.sqrt(variance + 1e-5) * scale + bias
        return jnp.mean(nn.relu(y) ** 2), (mean, variance)

    r = Random(23)
    return Program(
        jax.value_and_grad(loss, argnums=(0, 1, 2), has_aux=True), (r.normal(4, 5, 5, 6), 1 + r.normal(6), r.normal(6))
    )


@program
def top_1() -> Program:
    r = Random(24)
    return Program(
        lambda x, y: (jnp.argmax(x, -1), jnp.max(x, -1), jnp.mean(jnp.argmax(x, -1) == y)),
        (r.normal(20, 10), r.integers(10, 20)),
    )


@program
def argmin_integers() -> Program:
    return Program(lambda x: (jnp.argmin(x, 0), jnp.argmax(x)), (Random(25).integers(9, 6, 11),))


@program
def cumulative_sums() -> Program:
    r = Random(26)
    return Program(
        lambda x, y: (jnp.cumsum(x, 1), jnp.cumsum(y), jnp.cumprod(x, 0)), (r.normal(5, 33), r.integers(100, 40))
    )


@program
def log_sum_exp() -> Program:
    return Program(
        lambda x: (nn.logsumexp(x, -1), nn.softmax(x, 0), nn.log_softmax(x)), (Random(27).normal(9, 21, scale=5),)
    )


@program
def integer_matmul() -> Program:
    def fn(x: Any, y: Any) -> Any:
        return lax.dot(x, y, preferred_element_type=jnp.int32)

    r = Random(28)
    return Program(fn, (r.integers(255, 9, 33).astype(np.int8), r.integers(255, 33, 17).astype(np.int8)))


@program
def double_matmul() -> Program:
    r = Random(29)
    args = (r.normal(11, 23).astype(np.float64), r.normal(23, 14).astype(np.float64))
    return Program(lambda x, y: (x @ y, jnp.sum(x * x, 0), x.astype(jnp.int64)), args, x64=True)


@program
def double_functions() -> Program:
    def fn(x: Any) -> Any:
        y = jnp.abs(x) + 0.1
        return (
            jnp.exp(x),
            jnp.log(y),
            jnp.tanh(x),
            jnp.sin(x),
            jnp.cos(x),
            nn.sigmoid(x),
            y**x,
            jnp.arctan2(x, y),
            jnp.sqrt(y),
            nn.softmax(x),
        )

    return Program(fn, (Random(30).normal(7, 9).astype(np.float64),), x64=True)


@program
def float_functions() -> Program:
    def fn(x: Any) -> Any:
        y = jnp.abs(x) + 0.1
        logs = jnp.log(y), jnp.log1p(y), jnp.log2(y), jnp.exp(x), jnp.expm1(x), y**x
        turns = jnp.sin(x), jnp.cos(x), jnp.tan(x), jnp.arctan2(x, y), jnp.sinh(x), jnp.arctan(x)
        return (
            *logs,
            *turns,
            jnp.tanh(x),
            nn.sigmoid(x),
            lax.erf(x),
            lax.rsqrt(y),
            jnp.cbrt(x),
            jnp.sqrt(y),
            jnp.round(x),
            x % y,
        )

    return Program(fn, (Random(31).normal(9, 13, scale=3),))


@program
def choosing() -> Program:
    def fn(x: Any, ids: Any) -> Any:
        hot = nn.one_hot(ids, 7)
        return (
            hot,
            jnp.clip(x, -1, 1),
            jnp.where(x > 0, x, 0.01 * x),
            jnp.where((ids % 2 == 0)[:, None], x, -x),
            jnp.sign(x),
            jnp.isfinite(x),
        )

    r = Random(32)
    return Program(fn, (r.normal(9, 5), r.integers(7, 9)))


@program
def shuffling() -> Program:
    def fn(x: Any, i: Any) -> Any:
        padded = jnp.pad(x, ((1, 2), (0, 1), (0, 0)), mode="edge")
        moved = jnp.roll(jnp.flip(x, 1), 1, 0).transpose(2, 0, 1)
        tiled = jnp.tile(x[:, ::2], (1, 2, 1)).reshape(-1, 4)
        stacked = jnp.stack([x, x + 1], 1)
        return (
            padded,
            moved,
            tiled,
            stacked,
            lax.dynamic_index_in_dim(x, i, 1),
            lax.dynamic_update_slice(x, x[:1, :1] * 2, (i, i, 0)),
        )

    return Program(fn, (Random(33).normal(3, 5, 4), np.int32(2)))


@program
def segment_sums() -> Program:
    def fn(x: Any, ids: Any) -> Any:
        return (
            jax.ops.segment_sum(x, ids, 5),
            jax.ops.segment_max(x, ids, 5),
            jnp.zeros(6, jnp.int32).at[ids].add(1),
            x.at[1, ids[:3]].set(9),
        )

    r = Random(34)
    return Program(fn, (r.normal(12, 6), r.integers(5, 12)))


@program
def branches() -> Program:
    def fn(i: Any, x: Any) -> Any:
        y = lax.switch(i, [jnp.sin, jnp.cos, lambda v: v * 2], x)
        return lax.cond(y.sum() > 0, lambda v: v + 1, lambda v: v - 1, y), lax.fori_loop(
            0, 5, lambda k, v: v * 0.5 + k, y
        )

    return Program(fn, (np.int32(2), Random(35).normal(4, 3)))


@program
def random_bits() -> Program:
    def fn(seed: Any) -> Any:
        key = jax.random.fold_in(jax.random.key(0, impl="threefry2x32"), seed)
        return (
            jax.random.uniform(key, (5, 4)),
            jax.random.normal(key, (7,)),
            jax.random.randint(key, (6,), 0, 100),
            jax.random.bernoulli(key, 0.3, (9,)),
        )

    return Program(fn, (np.int32(7),))


@program
def unused_argument() -> Program:
    r = Random(36)
    return Program(
        lambda state, x: {"y": x * 2, "state": state["count"] + 1},
        ({"count": np.int32(3), "idle": r.normal(2)}, r.normal(3)),
    )
