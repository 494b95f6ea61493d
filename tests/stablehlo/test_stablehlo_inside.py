"""Gathers, scatters and slices at computed places in arrays whose sizes a run gives: they are kept inside of these, as
JAX's are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax

import xla_wasm
from tests.support import seeds
from tests.support.closeness import assert_all, equal
from xla_wasm import HloModule, evaluate

INDICES = (np.int32, np.int32, np.int8, np.uint8, np.uint32, np.int16)
LEAST, MOST = 2, 6
Function = Callable[..., Any]


def indices(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Of some type, in and beyond the sizes; large ones too."""
    dtype = rng.choice(INDICES)
    low, high = (0, 9) if np.dtype(dtype).kind == "u" else (-9, 9)
    made = rng.integers(low, high, shape).astype(dtype)
    return np.where(rng.random(shape) < 0.1, np.iinfo(dtype).max, made).astype(dtype)


def window(rng: np.random.Generator, sizes: list[str]) -> tuple[int, ...]:
    return tuple(int(rng.integers(1, LEAST + 1)) for _ in sizes)


def dynamic_slice(rng: np.random.Generator, sizes: list[str]) -> tuple[Function, Any]:
    part = window(rng, sizes)
    return lambda x, i: lax.dynamic_slice(x, [*i], part), indices(rng, (len(sizes),))


def dynamic_update_slice(rng: np.random.Generator, sizes: list[str]) -> tuple[Function, Any]:
    part = window(rng, sizes)
    return lambda x, i: lax.dynamic_update_slice(x, jnp.full(part, 7.0, x.dtype), [*i]), indices(rng, (len(sizes),))


def take(rng: np.random.Generator, sizes: list[str]) -> tuple[Function, Any]:
    """Along one dimension; slices that are as large as the others are refused where these are not known."""
    axis, mode = int(rng.integers(len(sizes))), str(rng.choice(["clip", "fill"]))
    sizes[:] = [size if d == axis else "3" for d, size in enumerate(sizes)]
    return lambda x, i: jnp.take(x, i, axis=axis, mode=mode), indices(rng, (3, 2))


def gather(rng: np.random.Generator, sizes: list[str]) -> tuple[Function, Any]:
    """Windows of several elements, at vectors of indices into some of the dimensions in any order."""
    rank, part = len(sizes), window(rng, sizes)
    mapped = tuple(int(d) for d in rng.permutation(rank)[: rng.integers(1, rank + 1)])
    numbers = lax.GatherDimensionNumbers(tuple(range(1, rank + 1)), (), mapped)
    mode = lax.GatherScatterMode.CLIP if rng.random() < 0.5 else lax.GatherScatterMode.FILL_OR_DROP
    return lambda x, i: lax.gather(x, i, numbers, part, mode=mode), indices(rng, (4, len(mapped)))


def scatter(rng: np.random.Generator, sizes: list[str]) -> tuple[Function, Any]:
    rank, part = len(sizes), window(rng, sizes)
    mapped = tuple(int(d) for d in rng.permutation(rank)[: rng.integers(1, rank + 1)])
    numbers = lax.ScatterDimensionNumbers(tuple(range(1, rank + 1)), (), mapped)
    mode = lax.GatherScatterMode.CLIP if rng.random() < 0.5 else lax.GatherScatterMode.FILL_OR_DROP
    updates = rng.integers(1, 9, (4, *part)).astype(np.float32)
    return lambda x, i: lax.scatter_add(x, i, updates, numbers, mode=mode), indices(rng, (4, len(mapped)))


KINDS = (dynamic_slice, dynamic_update_slice, take, gather, scatter)


def program(seed: int) -> tuple[Function, list[str], Any]:
    """A function of an array and indices, the array's sizes, and indices. The array, or what is made of it, is read in
    two ways."""
    rng = np.random.default_rng(seed)
    sizes = [str(rng.choice(["b", "n", "3"])) for _ in range(rng.integers(1, 4))]
    sizes[rng.integers(len(sizes))] = "b"
    inner, given = KINDS[seed % len(KINDS)](rng, sizes)
    if rng.random() < 0.5:
        return inner, sizes, given
    order = [int(d) for d in rng.permutation(len(sizes))]
    return (
        lambda x, i: (inner(jnp.transpose(x, order) * 2, i), jnp.sum(x)),
        [sizes[order.index(d)] for d in range(len(sizes))],
        given,
    )


@pytest.mark.parametrize("seed", range(seeds.count(10, 40)))
def test_inside_of_the_sizes(seed: int) -> None:
    fn, sizes, given = program(seed)
    symbols = sorted({*sizes} - {"3"})
    scope = export.SymbolicScope([f"{name} >= {LEAST}" for name in symbols])
    shape = export.symbolic_shape(",".join(sizes), scope=scope)
    as_many = (
        "b" in sizes and seed % 3 == 0 and KINDS[seed % len(KINDS)] in (take, gather)
    )  # indices whose number a run knows
    many = jax.ShapeDtypeStruct((shape[sizes.index("b")], given.shape[1]), given.dtype) if as_many else given
    data = export.export(jax.jit(fn), platforms=["cpu"])(jax.ShapeDtypeStruct(shape, np.float32), many).serialize()
    module = HloModule.from_exported(data, {name: range(LEAST, MOST + 1) for name in symbols})
    executable = xla_wasm.load(xla_wasm.compile(module))
    for b, n in ((LEAST, MOST), (3, LEAST), (MOST, 4)):
        x = np.arange(np.prod(actual := [{"b": b, "n": n}.get(s, 3) for s in sizes]), dtype=np.float32).reshape(actual)
        i = given[np.arange(b) % len(given)] if as_many else given
        wanted = [np.asarray(leaf) for leaf in jax.tree.leaves(jax.jit(fn)(x, i))]
        for found in (evaluate(module, x, i), executable.run(x, i)):
            assert_all(found, wanted, equal)
