"""Products of a matrix and a vector: the matrix is read where it lies, whichever side of the product it is and whatever
else reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.support.closeness import equal
from tests.support.differential import EACH, differential
from xla_wasm import Options
from xla_wasm.compiler import stages
from xla_wasm.jax import lower
from xla_wasm.kernels import tiles

Array = Any
ROWS = (1, 2, 3, 4, 5, 7, 8, 9, 12, 31, 33, 64)
LENGTHS = (1, 2, 3, 5, 15, 16, 17, 18, 19, 20, 31, 32, 40, 64, 1030)
TYPES = (np.float32, np.float32, np.float32, np.float64, np.int32, np.uint32, np.int8, jnp.bfloat16)


def whole(rng: np.random.Generator, dtype: Any, *dims: int) -> Array:
    """Small whole numbers: every order of summation gives the same, and bf16 holds most sums."""
    return rng.integers(-2, 3, dims).astype(dtype)


def program(seed: int) -> tuple[Callable[..., Any], list[Array]]:
    """A function of a matrix and a vector, which meet in some order; the matrix may be part of a larger one, and others
    may read it."""
    rng = np.random.default_rng(seed)
    rows, length = int(rng.choice(ROWS)), int(rng.choice(LENGTHS))
    lead = ((), (), (1,), (2,), (3, 2))[rng.integers(5)]
    dtype = TYPES[rng.integers(len(TYPES))]
    form, order, use, place = (int(rng.integers(n)) for n in (6, 4, 8, 3))
    columns = int(rng.choice([1, 1, 1, 2]))
    dims = {
        1: (*lead, rows + 2, length + 3),
        2: (*lead, length, rows),
        3: (*lead, 2 * rows, length),
        4: (rows, *lead, length),
    }
    matrix, vector = (
        whole(rng, dtype, *dims.get(form, (*lead, rows, length))),
        whole(rng, dtype, *lead, columns, length),
    )
    token = np.array(rng.integers(-2, rows + 2), np.int32)

    def seen(w: Array) -> Array:
        if form == 1:
            return w[..., 1 : rows + 1, 2 : length + 2]
        if form == 2:
            return jnp.swapaxes(w, -1, -2)
        if form == 3:
            return w[..., ::2, :]
        if form == 4:
            return jnp.moveaxis(w, 0, -2)
        return w[..., ::-1, :] if form == 5 else w

    def product(w: Array, x: Array) -> Array:
        w = seen(w)
        if order == 0:
            return jnp.matmul(x, jnp.swapaxes(w, -1, -2))
        if order == 1:
            return jnp.swapaxes(jnp.matmul(w, jnp.swapaxes(x, -1, -2)), -1, -2)
        if order == 2 and columns == 1:
            return jnp.einsum("...nk,...k->...n", w, x[..., 0, :])[..., None, :]
        return jnp.einsum("...nk,...mk->...mn", w, x)

    def used(w: Array, x: Array, i: Array) -> Any:
        y = product(w, x)
        if use == 0:
            return y
        if use == 1:
            return y + 1, lax.dynamic_index_in_dim(seen(w), i, seen(w).ndim - 2)
        if use == 2:
            return jnp.maximum(y, 0) * 2 - jnp.swapaxes(seen(w)[..., :1], -1, -2), jnp.sum(seen(w), -1)
        if use == 3:
            return y - jnp.sum(y), seen(w).T
        if use == 4:
            return product(w + 1, x), product(w, x + 1)
        if use == 5:
            return jnp.concatenate([y, y], -1), y[..., :1]
        if use == 6:
            # More operations than are copied for every vector of a tile.
            for k in range(8):
                y = jnp.maximum(y - k, -y) + jnp.minimum(y, k) * (k % 3 - 1)
            return y
        return jnp.where(y > 0, y, jnp.arange(y.shape[-1]).astype(y.dtype))

    if place != 1 or jnp.issubdtype(dtype, jnp.floating):
        return used, [matrix, vector, token]

    def step(k: Any, state: Any) -> Any:
        w, x = state
        return w + k.astype(w.dtype), x + product(w, x)[..., :1]

    return lambda w, x, i: (lax.fori_loop(0, 3, step, (w, x)), used(w, x, i)), [matrix, vector, token]


@pytest.mark.parametrize("seed", range(60))
def test_random_programs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 2:
        monkeypatch.setattr(tiles, "CACHE", 1 << 8)  # matrices of any size come from beyond the caches
    fn, arrays = program(seed)
    with jax.enable_x64():
        differential(lower(fn, *arrays), *arrays, targets=EACH, near=equal, weights=(0,) if seed % 3 else ())


def test_the_matrix_is_in_memory_once() -> None:
    """An embedding that is looked up, and that makes the logits."""
    table, x, token = np.ones((999, 32), np.float32), np.ones((1, 32), np.float32), np.array([3], np.int32)

    def fn(table: Array, x: Array, token: Array) -> Array:
        return (x + table[token]) @ table.T

    plan = stages(lower(fn, table, x, token), Options(weights=(0,)))["plan"]
    assert "init " not in plan, plan
    jax.clear_caches()
