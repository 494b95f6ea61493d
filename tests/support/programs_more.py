"""More whole programs: networks, solvers and generators of random numbers, as they are written in JAX."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax, nn

from tests.support.programs import Program, Random, Tree, block_params, layer_norm, program

# Networks


def _conv(x: Any, kernel: Any, stride: int = 1) -> Any:
    return lax.conv_general_dilated(x, kernel, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def _norm_params(r: Random, width: int) -> Tree:
    params = {"scale": 1 + r.normal(width, scale=0.1), "bias": r.normal(width, scale=0.1)}
    return params, {"mean": r.normal(width, scale=0.1), "var": np.abs(1 + r.normal(width, scale=0.1))}


def batch_norm(p: Tree, s: Tree, x: Any, train: bool) -> tuple[Any, Tree]:
    """Over all but the channels; in training with the batch's own mean and variance, which the running ones follow."""
    if train:
        mean, var = x.mean((0, 1, 2)), x.var((0, 1, 2))
        s = {"mean": 0.9 * s["mean"] + 0.1 * mean, "var": 0.9 * s["var"] + 0.1 * var}
    else:
        mean, var = s["mean"], s["var"]
    return (x - mean) * lax.rsqrt(var + 1e-5) * p["scale"] + p["bias"], s


def _resnet(r: Random) -> tuple[Tree, Tree]:
    """A stem, two stages of two blocks, the second at half the resolution and twice the width."""
    params: Tree = {"stem": r.dense(3, 3, 3, 8), "head": r.dense(16, 10), "head_bias": r.normal(10, scale=0.1)}
    state: Tree = {}
    params["stem_norm"], state["stem_norm"] = _norm_params(r, 8)
    for name, before, width in (("a0", 8, 8), ("a1", 8, 8), ("b0", 8, 16), ("b1", 16, 16)):
        p: Tree = {"conv1": r.dense(3, 3, before, width), "conv2": r.dense(3, 3, width, width)}
        s: Tree = {}
        p["norm1"], s["norm1"] = _norm_params(r, width)
        p["norm2"], s["norm2"] = _norm_params(r, width)
        if before != width:
            p["skip"] = r.dense(1, 1, before, width)
        params[name], state[name] = p, s
    return params, state


def resnet(params: Tree, state: Tree, x: Any, train: bool) -> tuple[Any, Tree]:
    new: Tree = {}
    x, new["stem_norm"] = batch_norm(params["stem_norm"], state["stem_norm"], _conv(x, params["stem"]), train)
    x = lax.reduce_window(nn.relu(x), -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    for name in ("a0", "a1", "b0", "b1"):
        p, s = params[name], state[name]
        stride = 2 if "skip" in p else 1
        y, first = batch_norm(p["norm1"], s["norm1"], _conv(x, p["conv1"], stride), train)
        y, second = batch_norm(p["norm2"], s["norm2"], _conv(nn.relu(y), p["conv2"]), train)
        x = nn.relu(y + (_conv(x, p["skip"], stride) if "skip" in p else x))
        new[name] = {"norm1": first, "norm2": second}
    return x.mean((1, 2)) @ params["head"] + params["head_bias"], new


@program
def resnet_forward() -> Program:
    r = Random(101)
    params, state = _resnet(r)
    return Program(lambda p, s, x: resnet(p, s, x, False)[0], (params, state, r.normal(2, 16, 16, 3)))


@program
def resnet_train_step() -> Program:
    optimizer = optax.flatten(optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.1, momentum=0.9, nesterov=True)))

    def step(params: Tree, state: Tree, moments: Tree, x: Any, labels: Any) -> Any:
        def loss(params: Tree) -> Any:
            logits, new = resnet(params, state, x, True)
            targets = optax.smooth_labels(nn.one_hot(labels, 10), 0.1)
            return optax.softmax_cross_entropy(logits, targets).mean(), (new, logits)

        (value, (new, logits)), grads = jax.value_and_grad(loss, has_aux=True)(params)
        updates, moments = optimizer.update(grads, moments, params)
        return optax.apply_updates(params, updates), new, moments, value, jnp.mean(jnp.argmax(logits, -1) == labels)

    r = Random(102)
    params, state = _resnet(r)
    moments = jax.tree.map(np.asarray, optimizer.init(params))
    return Program(step, (params, state, moments, r.normal(8, 24, 24, 3), r.integers(10, 8)))


def attend(p: Tree, x: Any, context: Any, heads: int, mask: Any = None) -> Any:
    """Attention of `x` over the keys and values of `context` (key, value), each [batch, length, heads, width of a
    head]."""
    batch, length, width = x.shape
    q = (x @ p["q"]).reshape(batch, length, heads, -1)
    keys, values = context
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, keys) / np.sqrt(width // heads)
    if mask is not None:
        scores = jnp.where(mask, scores, jnp.finfo(scores.dtype).min)
    return jnp.einsum("bhqk,bkhd->bqhd", nn.softmax(scores), values).reshape(batch, length, width) @ p["out"]


def _encoder_block(p: Tree, x: Any) -> Any:
    y = layer_norm(p["norm1"], x)
    batch, length, width = x.shape
    q, k, v = jnp.split(y @ p["qkv"]["w"] + p["qkv"]["b"], 3, -1)
    split = functools.partial(jnp.reshape, shape=(batch, length, 4, width // 4))
    scores = nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", split(q), split(k)) * (width // 4) ** -0.5)
    x = x + jnp.einsum("bhqk,bkhd->bqhd", scores, split(v)).reshape(x.shape) @ p["out"]["w"] + p["out"]["b"]
    y = nn.gelu(layer_norm(p["norm2"], x) @ p["up"]["w"] + p["up"]["b"], approximate=False)
    return x + y @ p["down"]["w"] + p["down"]["b"]


def vit(params: Tree, images: Any) -> Any:
    """Patches by a strided convolution, a class token, learnt positions, blocks under one scan."""
    x = lax.conv_general_dilated(images, params["patch"], (4, 4), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    x = x.reshape(x.shape[0], -1, x.shape[-1])
    x = jnp.concatenate([jnp.broadcast_to(params["token"], (x.shape[0], 1, x.shape[-1])), x], 1) + params["positions"]
    x, _ = lax.scan(lambda x, p: (_encoder_block(p, x), None), x, params["blocks"])
    return layer_norm(params["norm"], x)[:, 0] @ params["head"]


def _vit_args(seed: int) -> tuple[Any, ...]:
    r = Random(seed)
    blocks = jax.tree.map(lambda *leaves: np.stack(leaves), *(block_params(r, 32, 64) for _ in range(3)))
    params = {
        "patch": r.dense(4, 4, 3, 32),
        "token": r.normal(1, 1, 32),
        "positions": r.normal(17, 32, scale=0.1),
        "blocks": blocks,
    }
    params |= {"norm": {"scale": 1 + r.normal(32, scale=0.1), "bias": r.normal(32, scale=0.1)}, "head": r.dense(32, 10)}
    return params, r.normal(2, 16, 16, 3), r.integers(10, 2)


@program
def vit_forward() -> Program:
    return Program(lambda params, images, _: vit(params, images), _vit_args(103))


@program
def vit_gradient() -> Program:
    def loss(params: Tree, images: Any, labels: Any) -> Any:
        return optax.softmax_cross_entropy_with_integer_labels(vit(params, images), labels).mean()

    return Program(jax.value_and_grad(loss), _vit_args(104))


def _rotated(x: Any, positions: Any) -> Any:
    """Rotary positions of [batch, length, heads, width]."""
    half = x.shape[-1] // 2
    angles = positions[:, None] * 100.0 ** (-jnp.arange(half, dtype=x.dtype) / half)
    cos, sin = jnp.cos(angles)[:, None], jnp.sin(angles)[:, None]
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


def gpt(params: Tree, cache: Tree, ids: Any, start: Any) -> tuple[Any, Tree]:
    """The logits of the last of `ids`, which follow `start` earlier ones whose keys and values are in the cache."""
    x = params["embedding"][ids]
    batch, length, width = x.shape
    most, heads = cache["k"].shape[2], cache["k"].shape[3]
    positions = start + jnp.arange(length)
    mask = jnp.arange(most)[None, :] <= positions[:, None]
    new: Tree = {"k": [], "v": []}
    for i, p in enumerate(params["blocks"]):
        y = x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * p["norm1"]
        q, k, v = ((y @ p[name]).reshape(batch, length, heads, -1) for name in ("q", "k", "v"))
        k = lax.dynamic_update_slice(cache["k"][i], _rotated(k, positions.astype(k.dtype)), (0, start, 0, 0))
        v = lax.dynamic_update_slice(cache["v"][i], v, (0, start, 0, 0))
        scores = jnp.einsum("bqhd,bkhd->bhqk", _rotated(q, positions.astype(q.dtype)), k) * (width // heads) ** -0.5
        weights = nn.softmax(jnp.where(mask, scores, -1e30))
        x = x + jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape) @ p["o"]
        y = x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * p["norm2"]
        x = x + (nn.silu(y @ p["gate"]) * (y @ p["up"])) @ p["down"]
        new["k"].append(k)
        new["v"].append(v)
    return x[:, -1] @ params["embedding"].T, {name: jnp.stack(parts) for name, parts in new.items()}


def _gpt_args(seed: int, length: int) -> tuple[Any, ...]:
    r = Random(seed)
    width, most = 32, 12
    matrices = {"q": 32, "k": 32, "v": 32, "o": 32, "gate": 64, "up": 64}
    blocks = [
        {name: r.dense(width, size) for name, size in matrices.items()}
        | {"down": r.dense(64, width), "norm1": 1 + r.normal(width, scale=0.1), "norm2": 1 + r.normal(width, scale=0.1)}
        for _ in range(2)
    ]
    cache = {name: r.normal(2, 2, most, 4, width // 4) for name in ("k", "v")}
    return {"embedding": r.normal(40, width), "blocks": blocks}, cache, r.integers(40, 2, length)


@program
def gpt_step_with_cache() -> Program:
    return Program(gpt, (*_gpt_args(105, 1), np.int32(7)))


@program
def gpt_generates() -> Program:
    """A prompt, then greedy tokens under a scan that carries the cache."""

    def generate(params: Tree, cache: Tree, prompt: Any) -> Any:
        logits, cache = gpt(params, cache, prompt, jnp.int32(0))

        def step(carry: Any, position: Any) -> Any:
            cache, logits = carry
            token = jnp.argmax(logits, -1)
            logits, cache = gpt(params, cache, token[:, None], position)
            return (cache, logits), token

        (_, logits), tokens = lax.scan(step, (cache, logits), jnp.arange(5, 10))
        return tokens.T, logits

    return Program(generate, _gpt_args(106, 5))


def gru(p: Tree, xs: Any) -> Any:
    """xs [time, batch, features] -> hidden states, last first; the reset gate works on the product, as cuDNN has it."""

    def cell(h: Any, x: Any) -> Any:
        xr, xz, xn = jnp.split(x @ p["wx"] + p["bx"], 3, -1)
        hr, hz, hn = jnp.split(h @ p["wh"] + p["bh"], 3, -1)
        r, z = nn.sigmoid(xr + hr), nn.sigmoid(xz + hz)
        h = (1 - z) * jnp.tanh(xn + r * hn) + z * h
        return h, h

    return lax.scan(cell, jnp.zeros((xs.shape[1], p["wh"].shape[0]), xs.dtype), xs, reverse=True)[1]


def _gru_args(seed: int) -> tuple[Any, ...]:
    r = Random(seed)
    params = {"wx": r.dense(6, 48), "wh": r.dense(16, 48), "bx": r.normal(48, scale=0.1), "bh": r.normal(48, scale=0.1)}
    return params, r.normal(9, 3, 6)


@program
def gru_forward() -> Program:
    return Program(gru, _gru_args(107))


@program
def gru_gradient() -> Program:
    return Program(jax.value_and_grad(lambda p, xs: jnp.mean(gru(p, xs) ** 2), argnums=(0, 1)), _gru_args(108))


def _group_norm(x: Any, scale: Any, groups: int = 4) -> Any:
    shape = x.shape
    x = x.reshape(*shape[:-1], groups, -1)
    mean, var = x.mean((1, 2, 4), keepdims=True), x.var((1, 2, 4), keepdims=True)
    return ((x - mean) * lax.rsqrt(var + 1e-5)).reshape(shape) * scale


def _unet_block(p: Tree, x: Any, time: Any) -> Any:
    h = _conv(nn.silu(_group_norm(x, p["norm1"])), p["conv1"]) + (nn.silu(time) @ p["time"])[:, None, None]
    h = _conv(nn.silu(_group_norm(h, p["norm2"])), p["conv2"])
    return h + (x @ p["skip"] if "skip" in p else x)


def unet(p: Tree, x: Any, t: Any) -> Any:
    """The noise in `x` at the time `t`: down, attention in the middle, up with the skipped features."""
    frequencies = jnp.exp(-np.log(1e4) * jnp.arange(8, dtype=x.dtype) / 8)
    angles = t.astype(x.dtype)[:, None] * frequencies
    time = nn.silu(jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], -1) @ p["time1"]) @ p["time2"]
    first = _unet_block(p["down1"], _conv(x, p["in"]), time)
    second = _unet_block(p["down2"], _conv(first, p["shrink"], 2), time)
    batch, height, width, channels = second.shape
    flat = _group_norm(second, p["middle_norm"]).reshape(batch, height * width, channels)
    context = [(flat @ p["middle"][name]).reshape(batch, -1, 2, channels // 2) for name in ("k", "v")]
    middle = second + attend(p["middle"], flat, context, 2).reshape(second.shape)
    up = jax.image.resize(middle, (batch, 2 * height, 2 * width, channels), "nearest")
    h = _unet_block(p["up"], jnp.concatenate([_conv(up, p["grow"]), first], -1), time)
    return _conv(nn.silu(_group_norm(h, p["out_norm"])), p["out"])


def _unet_params(r: Random) -> Tree:
    def block(before: int, width: int) -> Tree:
        p = {
            "norm1": 1 + r.normal(before, scale=0.1),
            "norm2": 1 + r.normal(width, scale=0.1),
            "time": r.dense(16, width),
        }
        p |= {"conv1": r.dense(3, 3, before, width), "conv2": r.dense(3, 3, width, width)}
        return p | ({"skip": r.dense(before, width)} if before != width else {})

    return {
        "time1": r.dense(16, 16),
        "time2": r.dense(16, 16),
        "in": r.dense(3, 3, 2, 8),
        "down1": block(8, 8),
        "shrink": r.dense(3, 3, 8, 16),
        "down2": block(16, 16),
        "middle_norm": 1 + r.normal(16, scale=0.1),
        "middle": {name: r.dense(16, 16) for name in ("q", "k", "v", "out")},
        "grow": r.dense(3, 3, 16, 8),
        "up": block(16, 8),
        "out_norm": 1 + r.normal(8, scale=0.1),
        "out": r.dense(3, 3, 8, 2),
    }


@program
def diffusion_step() -> Program:
    """One step back of a denoising diffusion, with a cosine schedule; no noise is added at time 0."""

    def step(params: Tree, x: Any, t: Any, noise: Any) -> Any:
        def kept(time: Any) -> Any:
            return jnp.cos((time / 50 + 0.008) / 1.008 * np.pi / 2) ** 2

        now, before = kept(t.astype(x.dtype)), kept(jnp.maximum(t - 1, 0).astype(x.dtype))
        now, before = (jnp.clip(a, 1e-4, 0.9999)[:, None, None, None] for a in (now, before))
        guess = jnp.clip((x - jnp.sqrt(1 - now) * unet(params, x, t)) / jnp.sqrt(now), -1, 1)
        beta = jnp.clip(1 - now / before, 1e-4, 0.999)
        mean = (jnp.sqrt(before) * beta * guess + jnp.sqrt(1 - beta) * (1 - before) * x) / (1 - now)
        return mean + jnp.where(t[:, None, None, None] > 0, jnp.sqrt(beta), 0) * noise, guess

    r = Random(109)
    return Program(step, (_unet_params(r), r.normal(2, 8, 8, 2), np.array([30, 1], np.int32), r.normal(2, 8, 8, 2)))


@program
def diffusion_gradient() -> Program:
    def loss(params: Tree, x: Any, t: Any, noise: Any) -> Any:
        return jnp.mean((unet(params, x, t) - noise) ** 2)

    r = Random(110)
    return Program(
        jax.value_and_grad(loss),
        (_unet_params(r), r.normal(2, 8, 8, 2), np.array([3, 40], np.int32), r.normal(2, 8, 8, 2)),
    )


# Solvers and searches


@program
def ode_adaptive() -> Program:
    """Dormand and Prince's steps of the Lotka-Volterra equations with a controlled error, until the time is up."""
    nodes = np.array([0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1])
    rows = [
        [1 / 5],
        [3 / 40, 9 / 40],
        [44 / 45, -56 / 15, 32 / 9],
        [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
        [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
        [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
    ]
    fourth = [5179 / 57600, 0, 7571 / 16695, 393 / 640, -92097 / 339200, 187 / 2100, 1 / 40]

    def field(y: Any, rates: Any) -> Any:
        return jnp.stack([y[0] * (rates[0] - rates[1] * y[1]), y[1] * (rates[2] * y[0] - rates[3])])

    def solve(y0: Any, rates: Any, end: Any) -> Any:
        def trip(state: Any) -> Any:
            t, y, h, count = state
            h = jnp.minimum(h, end - t)
            slopes = [field(y, rates)]
            for row in rows:
                slopes.append(field(y + h * sum(a * k for a, k in zip(row, slopes) if a), rates))
            new = y + h * sum(a * k for a, k in zip(rows[-1], slopes) if a)
            other = y + h * sum(a * k for a, k in zip(fourth, slopes) if a)
            error = jnp.sqrt(jnp.mean(((new - other) / (1e-4 + 1e-3 * jnp.abs(y))) ** 2))
            good = error <= 1
            factor = jnp.clip(0.9 * error**-0.2, 0.2, 5)
            return jnp.where(good, t + h, t), jnp.where(good, new, y), h * factor, count + 1

        start = (jnp.zeros_like(end), y0, jnp.full_like(end, 0.01), jnp.int32(0))
        return lax.while_loop(lambda s: (s[0] < end) & (s[3] < 200), trip, start)

    assert len(nodes) == len(rows)
    return Program(solve, (np.array([1.0, 1.0]), np.array([1.1, 0.4, 0.1, 0.4]), np.float64(4.0)), x64=True)


@program
def ode_sensitivities() -> Program:
    """The derivative of a pendulum's end by its start and length, through a scan of Runge and Kutta's steps."""

    def end(y: Any, length: Any) -> Any:
        def field(y: Any) -> Any:
            return jnp.stack([y[1], -9.81 / length * jnp.sin(y[0]) - 0.1 * y[1]])

        def step(y: Any, _: Any) -> Any:
            h = 0.02
            a = field(y)
            b = field(y + h / 2 * a)
            c = field(y + h / 2 * b)
            d = field(y + h * c)
            return y + h / 6 * (a + 2 * b + 2 * c + d), None

        return lax.scan(step, y, None, length=40)[0]

    return Program(jax.jacrev(end, argnums=(0, 1)), (np.array([0.5, -0.2], np.float32), np.float32(1.3)))


@program
def newton_roots() -> Program:
    """Newton's steps on a batch of equations, each until it has settled."""

    def solve(a: Any) -> Any:
        def one(a: Any) -> Any:
            def trip(state: Any) -> Any:
                x, _, count = state
                change = (x**3 + a * x - 5) / (3 * x**2 + a)
                return x - change, jnp.abs(change), count + 1

            return lax.while_loop(
                lambda s: (s[1] > 1e-3) & (s[2] < 50), trip, (jnp.ones_like(a), jnp.full_like(a, jnp.inf), 0)
            )

        return jax.vmap(one)(a)

    return Program(solve, (np.abs(Random(111).normal(9)) + 0.5,))
