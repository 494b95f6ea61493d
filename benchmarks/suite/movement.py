"""Workloads that move elements: transposes, gathers, scatters, sorts, the first k, Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ..onnx_graph import Graph
from .elementwise import MILLION
from .workload import MS, NS, Array, Workload, arrays, normal

TITLE = "Movement, sorting, transforms"
TOP = 100
FOURIER = 1e-3
"""onnxruntime-web's transforms of lengths that are no powers of 2 are wrong by 3e-4 of the largest value; the others'
by 2e-7."""


def _indices(count: int, below: int) -> Callable[[np.random.Generator], Array]:
    return lambda rng: rng.integers(0, below, count, np.int32)


def _shuffled(rng: np.random.Generator) -> Array:
    """A million numbers of which no two are equal, so that only one order is right."""
    return (rng.permutation(MILLION) / np.float32(MILLION) - np.float32(0.5)).astype(np.float32)


def _ascending(rng: np.random.Generator) -> Array:
    return np.sort(_shuffled(rng))


def _descending(rng: np.random.Generator) -> Array:
    return _ascending(rng)[::-1].copy()


def _topk_onnx(g: Graph) -> tuple[str, ...]:
    return g.nodes("TopK", 2, "x", g.constant("k", np.array([TOP], np.int64)), axis=0)


def _scatter_onnx(g: Graph) -> str:
    return g.node("ScatterElements", g.constant("zeros", np.zeros(1024, np.float32)), "i", "x", axis=0, reduction="add")


def _scatter_exact(x: Array, i: Array) -> Array:
    return np.bincount(i, x, 1024)


FFT_JAXJS = """(() => {
  const y = np.fft.fft({ real: x.ref.slice(...all, 0), imag: x.slice(...all, 1) });
  return np.stack([y.real, y.imag], -1);
})()"""


def _fft_onnx(g: Graph) -> str:
    batch = g.node("Unsqueeze", "x", g.constant("front", np.array([0])))
    return g.node("Squeeze", g.node("DFT", batch, axis=1), "front")


def _complex(*dims: int) -> Callable[[np.random.Generator], Array]:
    return lambda rng: rng.standard_normal((*dims, 2), np.float32).view(np.complex64)[..., 0]


def _transpose(name: str, dims: tuple[int, ...], order: tuple[int, ...], quick: bool) -> Workload:
    import jax.numpy as jnp

    return Workload(
        name,
        NS,
        float(np.prod(dims)),
        lambda x: jnp.transpose(x, order),
        arrays(x=normal(*dims)),
        onnx=lambda g: g.node("Transpose", "x", perm=order),
        tfjs=f"tf.transpose(x, {list(order)})",
        # A transpose alone is a view there: adding a zero that it does not know makes it an array.
        jaxjs=f"np.transpose(x, {list(order)}).add(zero)",
        reference=lambda x: np.transpose(x, order),
        quick=quick,
    )


def workloads() -> Iterator[Workload]:
    import jax.numpy as jnp
    from jax import lax

    yield _transpose("transpose_1024x1024", (1024, 1024), (1, 0), True)
    yield _transpose("transpose_0213_8x128x12x64", (8, 128, 12, 64), (0, 2, 1, 3), False)
    yield Workload(
        "embed_1024_of_30000x384",
        NS,
        1024 * 384,
        lambda i, w: w["table"][i],
        arrays(i=_indices(1024, 30000)),
        arrays(table=normal(30000, 384)),
        onnx=lambda g: g.node("Gather", "table", "i", axis=0),
        tfjs="tf.gather(w.table, i)",
        jaxjs="np.take(w.table, i, 0)",
        reference=lambda i, w: w["table"][i],
    )
    yield Workload(
        "gather_1M",
        NS,
        MILLION,
        lambda x, i: x[i],
        arrays(x=normal(MILLION), i=_indices(MILLION, MILLION)),
        onnx=lambda g: g.node("Gather", "x", "i", axis=0),
        tfjs="tf.gather(x, i)",
        jaxjs="np.take(x, i, 0)",
        reference=lambda x, i: x[i],
    )
    yield Workload(
        "scatter_add_1M_1024",
        NS,
        MILLION,
        lambda x, i: jnp.zeros(1024, jnp.float32).at[i].add(x),
        arrays(x=normal(MILLION), i=_indices(MILLION, 1024)),
        onnx=_scatter_onnx,
        tfjs="tf.scatterND(i.expandDims(1), x, [1024])",
        reference=_scatter_exact,
    )
    for suffix, make in (("", _shuffled), ("_ascending", _ascending), ("_descending", _descending)):
        yield Workload(
            f"topk100_1M{suffix}",
            NS,
            MILLION,
            lambda x: lax.top_k(x, TOP),
            arrays(x=make),
            onnx=_topk_onnx,
            tfjs=f"(() => {{ const t = tf.topk(x, {TOP}); return [t.values, t.indices]; }})()",
            jaxjs=f"lax.topK(x, {TOP})",
            reference=lambda x: (-np.sort(-x)[:TOP], np.argsort(-x)[:TOP]),
            counts=True,
            quick=not suffix,
        )
    yield Workload(
        "sort_1M",
        NS,
        MILLION,
        jnp.sort,
        arrays(x=_shuffled),
        onnx=lambda g: g.nodes("TopK", 2, "x", g.constant("k", np.array([MILLION], np.int64)), axis=0, largest=0)[0],
        tfjs=f"tf.topk(x, {MILLION}).values.reverse()",
        jaxjs="np.sort(x)",
        reference=np.sort,
    )
    yield Workload(
        "fft_65536",
        MS,
        5.0 * 65536 * 16,
        jnp.fft.fft,
        arrays(x=_complex(65536)),
        onnx=_fft_onnx,
        jaxjs=FFT_JAXJS.replace("...all", "[]"),
        tolerance=FOURIER,
        reference=lambda x: np.fft.fft(x.astype(np.complex128)),
    )
    yield Workload(
        "fft_1000x1000",
        MS,
        5.0 * 1e6 * np.log2(1000),
        jnp.fft.fft,
        arrays(x=_complex(1000, 1000)),
        onnx=lambda g: g.node("DFT", "x", axis=1),
        jaxjs=FFT_JAXJS.replace("...all", "[], []"),
        tolerance=FOURIER,
        reference=lambda x: np.fft.fft(x.astype(np.complex128)),
    )
