"""Programs on several devices in tests: XLA:CPU's devices, and whole arrays as those of each device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from tests.support import closeness
from xla_wasm.hlo.sharding import Shards

Array = np.ndarray[Any, Any]


@contextmanager
def shardy(on: bool) -> Iterator[None]:
    before = jax.config.jax_use_shardy_partitioner
    jax.config.update("jax_use_shardy_partitioner", on)
    try:
        yield
    finally:
        jax.config.update("jax_use_shardy_partitioner", before)


def devices(**axes: int) -> Mesh:
    """XLA:CPU's devices."""
    count = int(np.prod(list(axes.values())))
    return Mesh(np.array(jax.devices("cpu")[:count]).reshape(tuple(axes.values())), tuple(axes))


def compiled_by_xla(fn: Any, *args: Any, **options: Any) -> Any:
    """Returns the compiled function as JAX runs it, with all of its arguments kept."""
    return jax.jit(fn, keep_unused=True, **options).lower(*args).compile()


def optimized(compiled: Any) -> Any:
    (module,) = compiled.runtime_executable().hlo_modules()
    return module


def cut(array: Array, shards: Shards | None, device: int) -> Array:
    assert shards is not None
    return array[shards.block(device)]


def divided(arrays: Sequence[Array], shards: Sequence[Shards | None], count: int) -> list[list[Array]]:
    """The arguments of each device."""
    return [[cut(array, s, d) for array, s in zip(arrays, shards, strict=True)] for d in range(count)]


def joined(results: Sequence[Sequence[Array]], shards: Sequence[Shards | None]) -> list[Array]:
    """Whole results. Of blocks that several devices have, all are the same, bit by bit."""
    whole = []
    for i, s in enumerate(shards):
        assert s is not None
        array = np.zeros(s.dimensions, results[0][i].dtype)
        for d, row in enumerate(results):
            first = s.starts.index(s.starts[d])
            closeness.assert_same(row[i], results[first][i], what=f"result {i} of devices {first} and {d}")
            cut(array, s, d)[...] = row[i]
        whole.append(array)
    return whole
