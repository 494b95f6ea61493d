"""Right sides of products that a run gives: they are read where they lie, through whatever lies between, and what else
reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.support import seeds
from tests.support.closeness import equal
from tests.support.differential import BOTH, EACH, differential
from xla_wasm import Options
from xla_wasm.compiler import stages
from xla_wasm.jax import lower

SIZES = (1, 2, 3, 4, 6, 7, 8, 12, 16, 24, 32, 33, 64)
Array = Any
TYPES = (np.float32, np.float32, np.int32, np.int8, np.uint32)
NARROW = (
    *((np.float32, jnp.bfloat16), (np.float32, jnp.bfloat16), (np.float32, np.int8)),
    *((np.int16, np.int8), (np.int16, np.uint8), (np.int32, np.int16)),
)
"""The types of x, and of a y that the program widens."""


def whole(rng: np.random.Generator, dtype: type, *dims: int) -> Array:
    """Small whole numbers: every order of summation gives the same."""
    return rng.integers(-4, 5, dims).astype(dtype)


def program(seed: int) -> tuple[Callable[..., Any], list[Array]]:
    """A function of x and y that multiplies them.

    y is read in other ways too, and may be a part of an array, turned around, or of a narrower type and widened, before
    that or after.
    """
    rng = np.random.default_rng(seed)
    m, k, n = (int(rng.choice(SIZES)) for _ in range(3))
    batch = int(rng.choice([0, 0, 2, 3]))
    form, use, place = rng.choice(["plain", "slice", "turned", "heads", "rows"]), rng.integers(6), rng.integers(3)
    lead = (batch,) if batch else ()
    dims = {"turned": (*lead, n, k), "slice": (*lead, k + 3, n + 5), "heads": (k, *lead, n), "rows": (*lead, 2 * k, n)}
    dtype = narrow = TYPES[rng.integers(len(TYPES))]
    widens = rng.integers(4)
    if widens < 2:
        dtype, narrow = NARROW[rng.integers(len(NARROW))]
    y, x = whole(rng, narrow, *dims.get(form, (*lead, k, n))), whole(rng, dtype, *lead, m, k)

    def side(y: Array) -> Array:
        return part(y.astype(dtype)) if widens else part(y).astype(dtype)

    def part(y: Array) -> Array:
        if form == "turned":
            return jnp.swapaxes(y, -1, -2)
        if form == "slice":
            return y[..., 1 : k + 1, 2 : n + 2]
        if form == "heads" and batch:
            return jnp.swapaxes(y, 0, 1)
        return y[..., ::2, :] if form == "rows" else y

    def product(x: Array, y: Array) -> Array:
        return jnp.matmul(x, side(y))

    def fn(x: Array, y: Array) -> Any:
        if use == 0:
            return product(x, y)
        if use == 1:
            return product(x, y) + 1, jnp.sum(y, -1), y * 2
        if use == 2:
            return product(x, y + 1), y + 1
        if use == 3:
            return jnp.maximum(product(x, y), 0).sum(-1), product(x + 1, y)
        if use == 4:
            return product(x, y) - jnp.sum(side(y), -2)[..., None, :]
        return product(x, y) @ jnp.swapaxes(side(y), -1, -2)

    if place == 0:
        return fn, [x, y]

    def step(_: Any, state: Any) -> Any:
        x, y = state
        return jnp.sign(x + product(x, y).sum()).astype(dtype), y - 1

    if place == 1:
        return lambda x, y: lax.fori_loop(0, 2, step, (x, y)), [x, y]
    return lambda x, y: lax.cond(x.sum() > 0, fn, lambda x, y: fn(x - 1, y), x, y), [x, y]


@pytest.mark.parametrize("seed", range(seeds.count(15, 60)))
def test_random_programs(seed: int) -> None:
    fn, arrays = program(seed)
    differential(lower(fn, *arrays), *arrays, targets=EACH, near=equal)


def test_special_values_stay_in_their_columns() -> None:
    """Columns of the neighbours are not part of a product, whatever they hold."""
    x, y = np.ones((9, 5), np.float32), np.ones((5, 24), np.float32)
    y[2, :4], y[3, 20:] = np.nan, np.inf

    def fn(x: Array, y: Array) -> Array:
        return x @ y[:, 4:20]

    differential(lower(fn, x, y), x, y, targets=BOTH, expected=[np.full((9, 16), 5, np.float32)])


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 1), (0, 2)])
def test_a_reversed_side(axes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """An array that is read backwards begins before its first element."""
    monkeypatch.setenv("XLA_WASM_VERIFY", "1")
    rng = np.random.default_rng(0)
    x, y = whole(rng, np.float32, 3, 6, 6), whole(rng, np.float32, 3, 6, 4)
    for fn in (lambda x, y: x @ jnp.flip(y, axes), lambda x, y: jnp.flip(x, axes) @ y):
        differential(lower(fn, x, y), x, y, targets=BOTH, near=equal)


@pytest.mark.parametrize(
    ("fn", "options", "packs"),
    [
        (lambda x, y: x @ y, {}, False),
        (lambda x, y: x @ y, {"weights": (1,)}, True),
        (lambda x, y: x @ y.T, {}, False),
        (lambda x, y: lax.fori_loop(0, 3, lambda i, c: c @ y, x), {}, True),
        (lambda x, y: lax.fori_loop(0, 3, lambda i, c: (c[0] @ c[1], c[1] + 1), (x, y)), {}, False),
    ],
    ids=["an input", "a weight", "turned around", "the same in each trip of a loop", "another in each trip"],
)
def test_what_is_packed(fn: Callable[..., Any], options: dict[str, Any], packs: bool) -> None:
    """A right side is packed if many products share it; one that is new to each is read where it lies."""
    x, y = np.ones((16, 32), np.float32), np.ones((32, 32), np.float32)
    plan = stages(lower(fn, x, y), Options(**options))["plan"]
    assert (".pack" in plan) == packs, plan
    jax.clear_caches()
