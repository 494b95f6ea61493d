"""Programs whose arguments have symbolic sizes, for jax.export."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax, nn

from xla_wasm.stablehlo.symbols import evaluate as size_of


def running(x: Any) -> Any:
    return lax.scan(lambda c, row: (c + row, c * row), jnp.zeros(x.shape[1:]), x)


PROGRAMS: dict[str, tuple[Any, list[str]]] = {
    "reshape": (lambda x: x.reshape(-1), ["b,3"]),
    "flat2": (lambda x: x.reshape(x.shape[0] * 3), ["b,3"]),
    "sum": (lambda x: jnp.sum(x, 0), ["b,3"]),
    "mean": (lambda x: jnp.mean(x, 0), ["b,3"]),
    "outer": (lambda x: x @ x.T, ["b,3"]),
    "softmax": (lambda x: nn.softmax(x @ jnp.ones((3, 4)) + jnp.ones(4)), ["b,3"]),
    "concat": (lambda x: jnp.concatenate([x, x, jnp.zeros((2, 3))]), ["b,3"]),
    "pad": (lambda x: jnp.pad(x, ((1, 2), (0, 0))), ["b,3"]),
    "slice": (lambda x: x[1:], ["b,3"]),
    "rev": (lambda x: x[::-1], ["b,3"]),
    "iota": (lambda x: x + jnp.arange(x.shape[0])[:, None], ["b,3"]),
    "sort": (lambda x: jnp.sort(x, 0), ["b,3"]),
    "argsort": (lambda x: jnp.argsort(x[:, 0]), ["b,3"]),
    "argmax": (lambda x: jnp.argmax(x, 0), ["b,3"]),
    "cumsum": (lambda x: jnp.cumsum(x, 0), ["b,3"]),
    "gather": (lambda x: x[jnp.array([0, 1])], ["b,3"]),
    "take": (lambda x, i: jnp.take(x, i, axis=0), ["b,3", "n:i"]),
    "scatter": (lambda x: x.at[0].add(1.0), ["b,3"]),
    "scatter2": (lambda x, i: x.at[i].add(1.0), ["b,3", "n:i"]),
    "scan": (running, ["b,3"]),
    "while": (lambda x: lax.fori_loop(0, x.shape[0], lambda i, a: a + x[i], jnp.zeros(3)), ["b,3"]),
    "cond": (lambda x: lax.cond(x[0, 0] > 0, lambda x: x + 1, lambda x: x * 2, x), ["b,3"]),
    "conv": (
        lambda x: lax.conv_general_dilated(
            x, jnp.ones((3, 3, 1, 2)), (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        ),
        ["b,h,5,1"],
    ),
    "convs": (
        lambda x: lax.conv_general_dilated(
            x, jnp.ones((3, 3, 1, 2)), (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        ),
        ["b,h,5,1"],
    ),
    "pool": (lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"), ["b,h,4,1"]),
    "avg": (lambda x: nn.avg_pool(x, (2, 2)) if hasattr(nn, "avg_pool") else x, ["b,h,4,1"]),
    "broadcast": (lambda x: jnp.broadcast_to(x[:, None], (x.shape[0], 2, 3)), ["b,3"]),
    "tile": (lambda x: jnp.tile(x, (2, 1)), ["b,3"]),
    "attn": (lambda x: nn.softmax(jnp.where(jnp.tril(jnp.ones((x.shape[0],) * 2)) > 0, x @ x.T, -1e9)) @ x, ["b,3"]),
    "einsum": (lambda x: jnp.einsum("bij,bkj->bik", x, x), ["b,n,3"]),
    "grad": (lambda x: jax.grad(lambda y: jnp.sum(jnp.tanh(y @ jnp.ones((3, 3))) ** 2))(x), ["b,3"]),
    "norm": (lambda x: (x - x.mean(0)) / jnp.sqrt(x.var(0) + 1e-5), ["b,3"]),
    "rng": (lambda x: jax.random.normal(jax.random.key(0), x.shape) + x, ["b,3"]),
    "bern": (lambda x: jax.random.uniform(jax.random.key(1, impl="rbg"), x.shape) + x, ["b,3"]),
    "split": (lambda x: jnp.split(x.reshape(2, -1), 2), ["2*b,3"]),
    "two": (lambda x, y: (x @ y, x.sum(), y.T), ["b,n", "n,b+1"]),
    "dus": (lambda x: lax.dynamic_update_slice(x, jnp.ones((1, 3)), (1, 0)), ["b,3"]),
    "topk": (lambda x: lax.top_k(x, 2), ["b,3"]),
    "approx": (lambda x: lax.approx_max_k(x, 2), ["b,3"]),
    "mod": (lambda x: x.reshape(x.shape[0] // 2, 2, 3), ["2*b,3"]),
    "nested": (lambda x: jax.jit(lambda y: jax.jit(lambda z: z * z.shape[0])(y) + 1)(x), ["b,3"]),
    "vmap": (lambda x: jax.vmap(lambda r: r / jnp.linalg.norm(r))(x), ["b,3"]),
    "onehot": (lambda i: nn.one_hot(i, 5), ["n:i"]),
    "erfinv": (lambda x: lax.erf_inv(x / 10), ["b,3"]),
    "lgamma": (lambda x: lax.lgamma(x + 3), ["b,3"]),
    "chol": (lambda x: jnp.linalg.cholesky(x @ x.transpose(0, 2, 1) + 3 * jnp.eye(3)), ["b,3,3"]),
    "qr": (lambda x: jnp.linalg.qr(x)[1], ["b,3,3"]),
    "solve": (lambda x: jnp.linalg.solve(x + 5 * jnp.eye(3), x), ["b,3,3"]),
    "fft": (lambda x: jnp.fft.rfft(x), ["b,8"]),
    "cumlog": (lambda x: lax.cummax(x, 0), ["b,3"]),
    "resize": (lambda x: jax.image.resize(x, (x.shape[0], 8, 8, 1), "bilinear"), ["b,4,4,1"]),
    "sqz": (lambda x: jnp.stack([x, x], 1).reshape(x.shape[0], -1), ["b,3"]),
    "size": (lambda x: jnp.array(x.shape[0] * 2 + 1), ["b,3"]),
}
"""A function, and for each argument its sizes; ":i" for one of integers."""

DIMS = {"b": 4, "n": 3, "h": 6}


def arguments(specs: list[str]) -> tuple[list[Any], list[Any], dict[str, int]]:
    """Types with symbols, arrays, and the symbols that are used."""
    scope, rng = export.SymbolicScope(), np.random.default_rng(0)
    types, arrays = [], []
    for spec in specs:
        sizes, _, integer = spec.partition(":")
        dtype = np.int32 if integer else np.float32
        shape = tuple(size_of(text, DIMS) for text in sizes.split(","))
        types.append(jax.ShapeDtypeStruct(export.symbolic_shape(sizes, scope=scope), dtype))
        arrays.append(rng.integers(0, 3, shape).astype(dtype) if integer else rng.standard_normal(shape).astype(dtype))
    return (
        types,
        arrays,
        {name: size for name, size in DIMS.items() if any(name in spec.partition(":")[0] for spec in specs)},
    )


def symbolic(fn: Any, *specs: str, constraints: tuple[str, ...] = ()) -> bytes:
    scope = export.SymbolicScope(constraints)
    types = [jax.ShapeDtypeStruct(export.symbolic_shape(spec, scope=scope), np.float32) for spec in specs]
    return export.export(jax.jit(fn), platforms=["cpu"])(*types).serialize()
