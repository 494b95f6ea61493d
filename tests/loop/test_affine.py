"""Affine indices: the digits that `digit` and `delinearize` give are those of every index that the loops reach."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from math import prod
from random import Random
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.support.closeness import Array, allclose
from tests.support.differential import TUNED, differential
from xla_wasm.jax import lower
from xla_wasm.loop.affine import Affine, delinearize, digit
from xla_wasm.loop.ir import Block, Loop


def _drawn(rng: Random) -> Affine:
    loops = [
        Loop(rng.randint(1, 4), rng.choice((1, 1, 2, 4)), rng.choice((1, 1, 2)), False, Block(i))
        for i in range(rng.randint(0, 3))
    ]
    terms = tuple((loop, rng.choice((1, 2, 3, 4, 6, 8, 9, 12, 24, -1, -4))) for loop in loops)
    return Affine(rng.choice((0, 0, 1, 3, 8, 17)), terms)


def _places(loops: list[Loop]) -> Iterator[dict[Loop, int]]:
    """The values of the loop variables, lanes included."""
    for values in product(*(range((loop.trips - 1) * loop.step + loop.lanes) for loop in loops)):
        if all(v % loop.step < loop.lanes for loop, v in zip(loops, values)):
            yield dict(zip(loops, values))


def _at(value: Affine, place: dict[Loop, int]) -> int:
    return value.const + sum(c * place[loop] for loop, c in value.loops)


def test_digits() -> None:
    rng, found = Random(1), 0
    for _ in range(3000):
        value, divisor, size = _drawn(rng), rng.choice((1, 2, 3, 4, 9)), rng.choice((2, 3, 4, 9))
        made = digit(value, divisor, size)
        if made is None:
            continue
        found += 1
        for place in _places([loop for loop, _ in value.loops]):
            assert _at(made, place) == _at(value, place) // divisor % size
    assert found > 300


def test_a_multiple_of_the_whole_says_nothing_of_a_digit() -> None:
    outer, inner = Loop(9, 1, 1, False, Block(0)), Loop(2, 4, 1, False, Block(1))
    value = Affine(1, ((outer, 9), (inner, 1)))
    assert digit(value, 1, 9) == Affine(1, ((inner, 1),))
    assert digit(value, 9, 9) == Affine(0, ((outer, 1),))


def test_delinearized_positions() -> None:
    rng, found = Random(2), 0
    for _ in range(3000):
        dims = tuple(rng.choice((1, 2, 3, 4, 9)) for _ in range(rng.randint(1, 4)))
        value = _drawn(rng)
        bounds = value.range()
        if bounds is None or bounds[0] < 0 or bounds[1] >= prod(dims):
            continue
        made = delinearize(value, dims)
        if made is None:
            continue
        found += 1
        for place in _places([loop for loop, _ in value.loops]):
            position = 0
            for i, size in zip(made, dims):
                digit_ = _at(i, place)
                assert 0 <= digit_ < size
                position = position * size + digit_
            assert position == _at(value, place)
    assert found > 300


def _digits(name: str, x: Array, y: Array, v: Any) -> Any:
    """A value that is read through indices which take digits of others, or of a place that is known at run time."""
    row = {
        "tiles of a row": lambda: jnp.exp(jnp.broadcast_to(x[0], (4, 2, 3)).reshape(24)).reshape(4, 6) * y,
        "rows": lambda: jnp.exp(jnp.broadcast_to(x, (4, 2, 3)).reshape(24)).reshape(4, 6) * y,
        "planes": lambda: jnp.exp(y.reshape(4, 2, 3)).reshape(4, 6),
        "parts of rows": lambda: jnp.exp(y).reshape(24),
        "rows of all": lambda: jnp.exp(y.reshape(24) * 2).reshape(4, 6),
    }
    if name == "every other element":
        return jnp.tile(jnp.repeat(x[0], 2), 4)[::2] * y.reshape(24)[:12]
    if name == "every other element, backwards":
        return jnp.tile(jnp.repeat(x[0], 2), 4)[::-2] * y.reshape(24)[:12]
    return lax.dynamic_index_in_dim(row[name](), v, 0, False) * 2


@pytest.mark.parametrize(
    "name",
    ["tiles of a row", "rows", "planes", "parts of rows", "rows of all"]
    + ["every other element", "every other element, backwards"],
)
def test_programs(name: str) -> None:
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((2, 3)).astype(np.float32), rng.standard_normal((4, 6)).astype(np.float32)
    for v in (2, -1, 9):
        module = lower(partial(_digits, name), x, y, np.int32(v))
        differential(module, x, y, np.int32(v), targets=TUNED, near=allclose(1e-6, 1e-6))
