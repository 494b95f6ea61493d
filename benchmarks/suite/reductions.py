"""Sums, maxima, rows that are normalised, running sums."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..onnx_graph import Graph
from .elementwise import MILLION
from .workload import NS, Array, Workload, arrays, normal

TITLE = "Reductions and rows"
EPSILON = 1e-5
SIDE = 1024


def _norm(x: Any, scale: Any, bias: Any) -> Any:
    import jax.numpy as jnp
    from jax import lax

    centred = x - x.mean(-1, keepdims=True)
    return centred * lax.rsqrt(jnp.mean(centred * centred, -1, keepdims=True) + EPSILON) * scale + bias


def _norm_exact(x: Array, scale: Array, bias: Array) -> Array:
    x = x.astype(np.float64)
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt(np.mean(centred**2, -1, keepdims=True) + EPSILON) * scale + bias


def _softmax_exact(x: Array) -> Array:
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _sum_onnx(g: Graph, *axes: int) -> str:
    return g.node("ReduceSum", "x", g.constant("axes", np.array(axes, np.int64)), keepdims=0)


NORM_TFJS = (
    "(() => { const c = x.sub(x.mean(-1, true)); return c.mul(c.square().mean(-1, "
    "true).add(1e-5).rsqrt()).mul(scale).add(bias); })()"
)
NORM_JAXJS = (
    "(() => { const c = x.ref.sub(x.mean(-1, {keepdims: true})), v = np.square(c.ref).mean(-1, {keepdims: true}); "
    "return c.mul(np.reciprocal(np.sqrt(v.add(1e-5)))).mul(scale).add(bias); })()"
)


def workloads() -> Iterator[Workload]:
    import jax
    import jax.numpy as jnp

    flat, square = arrays(x=normal(MILLION)), arrays(x=normal(SIDE, SIDE))
    yield Workload(
        "sum_1M",
        NS,
        MILLION,
        jnp.sum,
        flat,
        onnx=lambda g: _sum_onnx(g, 0),
        tfjs="tf.sum(x)",
        jaxjs="np.sum(x)",
        reference=lambda x: x.astype(np.float64).sum(),
        tolerance=1e-3,  # the terms cancel: the sum is about as large as the root of their number
        quick=True,
    )
    yield Workload(
        "softmax_1024x1024",
        NS,
        MILLION,
        jax.nn.softmax,
        square,
        onnx=lambda g: g.node("Softmax", "x", axis=-1),
        tfjs="tf.softmax(x)",
        jaxjs="nn.softmax(x)",
        reference=_softmax_exact,
        quick=True,
    )
    yield Workload(
        "layernorm_1024x768",
        NS,
        1024 * 768,
        _norm,
        arrays(x=normal(1024, 768), scale=normal(768), bias=normal(768)),
        onnx=lambda g: g.node("LayerNormalization", "x", "scale", "bias", axis=-1, epsilon=EPSILON),
        tfjs=NORM_TFJS,
        jaxjs=NORM_JAXJS,
        reference=_norm_exact,
        quick=True,
    )
    for name, axis in (("rowsum_1024x1024", 1), ("colsum_1024x1024", 0)):
        yield Workload(
            name,
            NS,
            MILLION,
            lambda x, axis=axis: jnp.sum(x, axis),
            square,
            onnx=lambda g, axis=axis: _sum_onnx(g, axis),
            tfjs=f"tf.sum(x, {axis})",
            jaxjs=f"np.sum(x, {axis})",
            reference=lambda x, axis=axis: x.astype(np.float64).sum(axis),
            quick=axis == 0,
        )
    yield Workload(
        "argmax_1M",
        NS,
        MILLION,
        jnp.argmax,
        flat,
        onnx=lambda g: g.node("ArgMax", "x", axis=0, keepdims=0),
        tfjs="tf.argMax(x)",
        jaxjs="np.argmax(x)",
        reference=np.argmax,
        counts=True,
        quick=True,
    )
    yield Workload(
        "cumsum_1M",
        NS,
        MILLION,
        jnp.cumsum,
        flat,
        onnx=lambda g: g.node("CumSum", "x", g.constant("axis", np.array(0, np.int64))),
        tfjs="tf.cumsum(x)",
        jaxjs="np.cumsum(x)",
        reference=lambda x: np.cumsum(x.astype(np.float64)),
        tolerance=1e-4,
    )
