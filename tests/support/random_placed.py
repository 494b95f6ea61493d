"""Random programs that place arrays inside of others, and read what they made in several ways: paddings of all signs,
inside and outside, concatenations along any dimension, and depthwise convolutions, whose kernels go row by row in
sections of different kinds."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.support.random_values import Draw
from xla_wasm import HloModule
from xla_wasm.jax import lower

Array = Any


def draw_placed(draw: Draw) -> tuple[HloModule, list[Array]]:
    """A program and its arguments, all of whose numbers are whole and small, so that every order of a sum gives the
    same."""
    rng = np.random.default_rng(draw.integer(0, 1 << 30))
    rank = int(rng.integers(1, 5))
    shape = tuple(int(n) for n in rng.choice([1, 2, 3, 5, 8, 17, 20, 33], rank))
    dtype = rng.choice(["float32", "int32", "int8", "float64", "int16"])
    steps = [_step(rng, dtype) for _ in range(int(rng.integers(1, 4)))]

    def program(x: Array, y: Array) -> Any:
        made = [x, y]
        for step in steps:
            made.append(step(made[-1], made[len(made) // 2]))
        # Each value is read elementwise, transposed, and summed.
        last = made[-1]
        return last, last.T * 2, last.sum(0), made[-2] + 1

    with jax.enable_x64(True):
        x, y = (jnp.asarray(rng.integers(-4, 5, shape), dtype) for _ in range(2))
        return lower(program, x, y), [np.asarray(x), np.asarray(y)]


def _step(rng: np.random.Generator, dtype: str) -> Any:
    kind = rng.choice(["pad", "concatenate", "depthwise", "elementwise"], p=[0.4, 0.3, 0.2, 0.1])
    seed = int(rng.integers(1 << 30))

    def step(x: Array, other: Array) -> Array:
        own = np.random.default_rng(seed)
        if kind == "pad":
            config = [
                tuple(int(n) for n in own.choice([0, 0, 0, 1, 2, 5, -1], 2)) + (int(own.choice([0, 0, 0, 0, 1, 2])),)
                for _ in x.shape
            ]
            config = [
                (lo, hi, gap) if n + (n - 1) * gap + lo + hi > 0 else (0, 0, 0)
                for n, (lo, hi, gap) in zip(x.shape, config)
            ]
            value = x.reshape(-1)[0] if own.random() < 0.3 else jnp.asarray(int(own.integers(-2, 3)), x.dtype)
            return jax.lax.pad(x + 1 if own.random() < 0.5 else x, value, config)
        if kind == "concatenate":
            d = int(own.integers(x.ndim))
            part = jax.lax.slice_in_dim(x, 0, int(own.integers(1, x.shape[d] + 1)), axis=d)
            parts = [x, part * 2, jnp.flip(part, 0), part]
            return jnp.concatenate([parts[int(i)] for i in own.integers(0, 4, int(own.integers(2, 5)))], d)
        if kind == "depthwise" and x.ndim >= 3 and dtype in ("float32", "int32", "float64"):
            return _depthwise(own, x)
        return x * 3 - other.reshape(-1)[0]

    return step


def _depthwise(rng: np.random.Generator, x: Array) -> Array:
    spatial = x.ndim - 2
    window = [int(n) for n in rng.integers(1, 4, spatial)]
    weights = jnp.asarray(rng.integers(-2, 3, (*window, 1, x.shape[-1])), x.dtype)
    dilation = [int(n) for n in rng.choice([1, 1, 2], spatial)]
    padding = [tuple(int(n) for n in rng.integers(0, 3, 2)) for _ in window]
    whole = [(n - 1) * d + 1 for n, d in zip(window, dilation)]
    padding = [(lo, max(hi, reach - n - lo)) for n, reach, (lo, hi) in zip(x.shape[1:], whole, padding)]
    letters = "HWD"[:spatial]
    strides = [int(n) for n in rng.choice([1, 1, 2], spatial)]
    numbers = (f"N{letters}C", f"{letters}IO", f"N{letters}C")
    return jax.lax.conv_general_dilated(
        x, weights, strides, padding, rhs_dilation=dilation, dimension_numbers=numbers, feature_group_count=x.shape[-1]
    )
