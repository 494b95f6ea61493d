"""Random programs around manual computations: what is divided gives what XLA:CPU's devices give; all else is
refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

import xla_wasm
from tests.support import seeds
from xla_wasm.jax import lower, mesh

AXES = {"x": 2, "y": 2}
SPECS = (P("x", "y"), P("y", "x"), P("x"), P(None, "x"), P(None, "y"), P(("x", "y")), P(None, ("y", "x")), P())

Step = Callable[[Any, Any, np.random.Generator, Any], Any]


def _manual(v: Any, w: Any, r: np.random.Generator, grid: Any) -> Any:
    spec = SPECS[r.integers(len(SPECS))]
    if spec == SPECS[0] and r.integers(2):
        return jax.shard_map(lambda a: lax.psum(a, "y"), mesh=grid, in_specs=spec, out_specs=P("x"))(v)
    return jax.shard_map(lambda a: 2 * jnp.sin(a), mesh=grid, in_specs=spec, out_specs=spec)(v)


def _piece(v: Any, w: Any, r: np.random.Generator, grid: Any) -> Any:
    at = jnp.asarray(r.integers(3, size=2), jnp.int32)
    return lax.dynamic_slice(v, (at[0], at[1]), (v.shape[0], 4) if r.integers(2) else (4, v.shape[1]))


def _update(v: Any, w: Any, r: np.random.Generator, grid: Any) -> Any:
    part, at = (jnp.ones((v.shape[0], 2)), (0, 1)) if r.integers(2) else (jnp.ones((2, v.shape[1])), (1, 0))
    return lax.dynamic_update_slice(v, part, at)


def _added(v: Any, w: Any) -> Any:
    return v + w if v.shape == w.shape else v + 0.5


STEPS: tuple[Step, ...] = (
    lambda v, w, r, grid: _added(v, w),
    lambda v, w, r, grid: v.T,
    lambda v, w, r, grid: jnp.where(v > 0, v, v.sum(int(r.integers(2)), keepdims=True)),
    lambda v, w, r, grid: (
        jnp.concatenate([v, v], int(r.integers(2)))[: v.shape[0], : v.shape[1]] * jnp.arange(v.shape[1], dtype="f4")
    ),
    lambda v, w, r, grid: v[:4] if r.integers(2) else v[:, :4],
    lambda v, w, r, grid: jnp.flip(v, int(r.integers(2))),
    lambda v, w, r, grid: lax.dot(v, w) if v.shape[1] == w.shape[0] else jnp.tanh(v),
    lambda v, w, r, grid: lax.fori_loop(0, 2, lambda i, c: _added(jnp.tanh(c), w), v),
    lambda v, w, r, grid: lax.cond(jnp.bool_(r.integers(2)), lambda c: _added(c, w), lambda c: 2 * c, v),
    _piece,
    _update,
    *(_manual,) * 4,
)


def program(seed: int, count: int, grid: Any) -> Callable[[Any, Any], list[Any]]:
    """A program of `count` steps, each of values that were there before; the first steps do not depend on the count."""

    def fn(a: Any, b: Any) -> list[Any]:
        r = np.random.default_rng(seed)
        values = [a, b]
        for _ in range(count):
            step, v, w = r.integers([len(STEPS), len(values), len(values)])
            made = STEPS[step](values[v], values[w], np.random.default_rng(r.integers(1 << 30)), grid)
            values.append(made if all(size in (4, 8) for size in made.shape) else values[v] + 0.25)
        return values[2:]

    return fn


@pytest.mark.parametrize("seed", range(seeds.count(6, 24)))
def test_random_program(seed: int) -> None:
    r = np.random.default_rng(seed)
    args = [r.standard_normal((8, 8)).astype(np.float32) for _ in range(2)]
    for count in range(10, 0, -1):
        module = lower(program(seed, count, mesh(**AXES)), *args)
        try:
            artifact = xla_wasm.compile(module)
        except xla_wasm.UnsupportedError as error:
            assert "needs XLA's partitioner" in str(error)
            continue
        exe = xla_wasm.load(artifact)
        results = exe.run_global(args) if exe.manifest.sharded else exe.run(*args)
        wanted = jax.jit(program(seed, count, Mesh(np.array(jax.devices("cpu")[:4]).reshape(2, 2), tuple(AXES))))(*args)
        for i, (actual, expected) in enumerate(zip(results, wanted, strict=True)):
            np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4, err_msg=f"step {i} of {count}")
        return
    pytest.fail("even its first step is refused")
