"""Numbers of 4 bits with a scale for each block of what is summed: recognised wherever programs have them so, and
nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import xla_wasm
from tests.support import seeds
from tests.support.differential import differential
from xla_wasm import Options, evaluate
from xla_wasm.compiler import stages, trace
from xla_wasm.hlo.ir import Module
from xla_wasm.jax import lower
from xla_wasm.passes.dequantize import constant_blocks
from xla_wasm.plan.plan import Halt, Launch

Array = Any


def program(seed: int) -> tuple[Callable[..., Any], list[Array]]:
    """A product of x by numbers of 4 bits and scales for blocks of them, of some length, which lie in one of several
    ways."""
    rng = np.random.default_rng(seed)
    m, n = int(rng.choice([1, 1, 2, 4, 5, 9, 33])), int(rng.choice([2, 3, 4, 9, 16, 24, 37]))
    block, batch = int(rng.choice([32, 32, 64, 96, 16, 8])), int(rng.choice([0, 0, 0, 2]))
    blocks, form, use = (
        int(rng.integers(1, 5)),
        rng.choice(["plain", "turned", "left", "sliced", "columns"]),
        int(rng.integers(4)),
    )
    k, lead = block * blocks, (batch,) if batch else ()
    rows = form in ("turned", "left")
    columns = 2 if form == "columns" and n % 2 == 0 else 1
    q = rng.integers(-8, 8, (*lead, n, k) if rows else (*lead, k, n)).astype(jnp.int4)
    s = rng.uniform(0.5, 2, (*lead, n, blocks) if rows else (*lead, blocks, n // columns)).astype(np.float32)
    x = rng.standard_normal((*lead, m, k + 32 if form == "sliced" else k)).astype(np.float32)
    if form == "sliced":
        q = np.concatenate([q, q[..., :32, :]], -2)

    def fn(q: Array, s: Array, x: Array) -> Array:
        small = q.astype(jnp.float32)
        if form == "sliced":
            small, x = small[..., :k, :], x[..., 32:]
        if rows:
            w = (small.reshape(*lead, n, blocks, block) * s[..., None]).reshape(*lead, n, k)
        else:
            w = small * jnp.repeat(jnp.repeat(s, block, -2), columns, -1)
        if form == "left":
            y = jnp.swapaxes(jnp.matmul(w, jnp.swapaxes(x, -1, -2)), -1, -2)
        else:
            y = jnp.matmul(x, jnp.swapaxes(w, -1, -2) if rows else w)
        return (y, jnp.maximum(y, 0) + y[..., :1], y.sum(-1), (y * 2, w))[use]

    return fn, [q, s, x]


@pytest.mark.parametrize("seed", range(seeds.count(30, 600)))
def test_random_programs(seed: int) -> None:
    fn, arrays = program(seed)
    module = lower(fn, *arrays)
    expected = evaluate(module, *arrays)

    def near(actual: Array, wanted: Array) -> None:
        np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=1e-5 * np.abs(wanted).max(initial=0))

    for target, weights in (("simd128", ()), ("relaxed-simd for v8", ("q", "s")), ("threads", ("q",))):
        differential(module, *arrays, targets=[target], expected=expected, near=near, weights=weights)


def quantized(m: int, k: int, n: int, block: int, along: int = 0) -> Module:
    """The module of x @ (q * scales), where scales are for blocks along the first or the other dimension of q."""
    q, x = np.zeros((k, n), jnp.int4), np.zeros((m, k), np.float32)
    s = np.zeros((k // block, n) if along == 0 else (k, n // block), np.float32)
    return lower(lambda q, s, x: x @ (q.astype(jnp.float32) * jnp.repeat(s, block, along)), q, s, x)


@pytest.mark.parametrize(
    ("module", "found"),
    [
        (quantized(1, 128, 24, 32), True),
        (quantized(40, 128, 24, 64), True),
        (quantized(1, 128, 24, 128), True),
        (quantized(1, 128, 24, 16), False),
        (quantized(1, 128, 64, 32, along=1), False),
        (quantized(1, 128, 2, 32), False),
    ],
)
def test_what_is_recognised(module: Module, found: bool) -> None:
    assert ("scaled-dot" in stages(module, Options())["hlo"]) == found


def test_each_weight_is_packed_when_it_is_set() -> None:
    """Numbers and scales are two weights, and neither is packed in a run."""
    plan = trace(quantized(1, 128, 24, 32), Options(weights=("q", "s"))).plan
    assert [type(step) for step in plan.entries] == [Launch, Halt]
    kept = [buffer.bytes for buffer in plan.buffers if buffer.kind == "persistent"]
    assert sum(kept) == 128 * 24 // 2 + 4 * 24 * 4


def test_memory() -> None:
    """Four bits and a scale for 32 numbers, where the caller wants them; a table that is looked up takes eight."""
    shapes = {"table": (96, 64), "w": (64, 256), "v": (256, 32)}
    weights = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    module = lower(lambda table, w, v, i: jnp.tanh(table[i] @ w) @ v, *weights.values(), np.zeros(1, np.int32))
    plan = trace(module, Options(weight_format=dict.fromkeys(shapes, "int4"))).plan
    kept = sum(buffer.bytes for buffer in plan.buffers if buffer.kind == "persistent")
    assert kept == (64 * 256 + 256 * 32) * 5 // 8 + 96 * 64 + 96 * 4
    assert not any(leaf in (view.buffer for view in step.arguments) for step in plan.entries for leaf in plan.weights)


@pytest.mark.parametrize("format", ["bf16", "int8", "int4"])
def test_threads(format: str) -> None:
    """The same bits with any number of them."""
    rng = np.random.default_rng(0)
    w, v = rng.standard_normal((512, 640), np.float32), rng.standard_normal((640, 384), np.float32)
    for rows in (1, 8, 100):
        x = rng.standard_normal((rows, 512), np.float32)
        module, results = lower(lambda w, v, x: jnp.tanh(x @ w) @ v, w, v, x), set()
        for threads in (0, 1, 2, 3):
            exe = xla_wasm.load(
                xla_wasm.compile(module, Options(weight_format={"w": format, "v": format}, threads=threads > 0)),
                threads=threads or 1,
            )
            exe.set("w", w)
            exe.set("v", v)
            results.add(exe.run(x)[0].tobytes())
        assert len(results) == 1


def moved(rng: np.random.Generator) -> tuple[Callable[[Array, Array], Array], Array]:
    """A function that repeats an array's elements and moves what comes of it, and an array of different numbers."""
    dims = [int(d) for d in rng.choice([1, 2, 3, 4], rng.integers(1, 4))]
    ways = [int(way) for way in rng.integers(0, 6, rng.integers(1, 6))]
    seed = int(rng.integers(1 << 30))

    def fn(x: Array, at: Array) -> Array:
        inner = np.random.default_rng(seed)
        for way in ways:
            d = int(inner.integers(x.ndim))
            if way == 0:
                x = jnp.repeat(x, int(inner.choice([2, 3, 4])), d)
            elif way == 1:
                x = jnp.broadcast_to(jnp.expand_dims(x, d), (*x.shape[:d], int(inner.choice([2, 3])), *x.shape[d:]))
            elif way == 2:
                x = jnp.transpose(x, inner.permutation(x.ndim))
            elif way == 3 and x.ndim > 1:
                d = int(inner.integers(x.ndim - 1))
                x = x.reshape(*x.shape[:d], x.shape[d] * x.shape[d + 1], *x.shape[d + 2 :])
            elif way == 4:
                first = int(inner.integers(x.shape[d]))
                last = int(inner.integers(first, x.shape[d])) + 1
                x = (
                    lax.slice_in_dim(x, first, last, int(inner.integers(1, 3)), d)
                    if inner.random() < 0.7
                    else lax.rev(x, (d,))
                )
            elif way == 5:
                x = lax.dynamic_slice_in_dim(x, at, int(inner.integers(1, x.shape[d] + 1)), d)
        return x

    return fn, np.arange(np.prod(dims), dtype=np.float32).reshape(dims)


def test_blocks_that_are_constant() -> None:
    """Elements that are said to be the same in a block are the same."""
    found = 0
    for seed in range(seeds.count(150, 5000)):
        rng = np.random.default_rng(seed)
        fn, x = moved(rng)
        at = np.int32(rng.integers(0, 3))
        module = lower(fn, x, at)
        (value,) = evaluate(module, x, at)
        blocks = constant_blocks(
            module.entry.root.operands[0] if module.entry.root.shape.is_tuple else module.entry.root
        )
        for d, block in enumerate(blocks):
            assert value.shape[d] % block == 0
            firsts = np.take(value, np.arange(value.shape[d]) // block * block, d)
            assert (firsts == value).all(), f"seed {seed}: dimension {d} of {value.shape} in blocks of {block}"
            found += 1 < block < value.shape[d]
    assert found > 20
