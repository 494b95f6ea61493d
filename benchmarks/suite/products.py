"""Products of matrices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np

from .workload import GBS, GFLOPS, GOPS, Array, Workload, arrays, normal

TITLE = "Products of matrices"
SMALL = 6e-7
"""Error of a sum of products in f32 that is summed in any order, relative to the largest: some units in the last
place."""


def _dot(a: Any, b: Any) -> Any:
    return a @ b


def _exact(a: Array, b: Array) -> Array:
    return a.astype(np.float64) @ b.astype(np.float64)


def _product(name: str, m: int, k: int, n: int, quick: bool = False, batch: tuple[int, ...] = ()) -> Workload:
    return Workload(
        name,
        GFLOPS,
        2.0 * m * k * n * int(np.prod(batch)),
        _dot,
        arrays(a=normal(*batch, m, k), b=normal(*batch, k, n)),
        onnx=lambda g: g.node("MatMul", "a", "b"),
        tfjs="tf.matMul(a, b)",
        jaxjs="np.matmul(a, b)",
        reference=_exact,
        tolerance=SMALL * 10,
        bound="fma",
        quick=quick,
    )


def _turned(name: str, n: int, first: bool) -> Workload:
    side = {"transA": 1} if first else {"transB": 1}

    def function(a: Any, b: Any) -> Any:
        return a.T @ b if first else a @ b.T

    def exact(a: Array, b: Array) -> Array:
        return _exact(a.T, b) if first else _exact(a, b.T)

    return Workload(
        name,
        GFLOPS,
        2.0 * n**3,
        function,
        arrays(a=normal(n, n), b=normal(n, n)),
        onnx=lambda g: g.node("Gemm", "a", "b", **side),
        tfjs=f"tf.matMul(a, b, {str(first).lower()}, {str(not first).lower()})",
        jaxjs="np.matmul(np.transpose(a), b)" if first else "np.matmul(a, np.transpose(b))",
        reference=exact,
        tolerance=SMALL * 10,
        bound="fma",
    )


def _bytes(rng: np.random.Generator, *dims: int) -> Array:
    return rng.integers(-128, 128, dims, np.int8)


def _int8(name: str, n: int, constant: bool) -> Workload:
    import jax.numpy as jnp
    from jax import lax

    def function(a: Any, b: Any) -> Any:
        return lax.dot(a, b["b"] if constant else b, preferred_element_type=jnp.int32)

    def exact(a: Array, b: Any) -> Array:
        return a.astype(np.int32) @ (b["b"] if constant else b).astype(np.int32)

    a, b = arrays(a=lambda rng: _bytes(rng, n, n)), arrays(b=lambda rng: _bytes(rng, n, n))
    return Workload(
        name,
        GOPS,
        2.0 * n**3,
        function,
        a if constant else lambda rng: a(rng) | b(rng),
        b if constant else None,
        onnx=lambda g: g.node("MatMulInteger", "a", "b"),
        reference=exact,
    )


def workloads() -> Iterator[Workload]:
    for n in (64, 256, 512, 1024, 2048):
        yield _product(f"matmul_{n}", n, n, n, n in (256, 512))
    yield Workload(
        "matmul_512_constB",
        GFLOPS,
        2.0 * 512**3,
        lambda a, w: a @ w["b"],
        arrays(a=normal(512, 512)),
        arrays(b=normal(512, 512)),
        onnx=lambda g: g.node("MatMul", "a", "b"),
        tfjs="tf.matMul(a, w.b)",
        jaxjs="np.matmul(a, w.b)",
        reference=lambda a, w: _exact(a, w["b"]),
        tolerance=SMALL * 10,
        bound="fma",
    )
    yield Workload(
        "gemv_4096",
        GBS,
        4.0 * 4096 * 4096,
        _dot,
        arrays(a=normal(4096, 4096), x=normal(4096)),
        onnx=lambda g: g.node("MatMul", "a", "x"),
        tfjs="tf.dot(a, x)",
        jaxjs="np.matmul(a, x)",
        reference=_exact,
        tolerance=SMALL * 10,
        bound="read",
        quick=True,
    )
    yield _product("bmm_96x128x64x128", 128, 64, 128, batch=(96,))
    yield _product("matmul_509x521x503", 509, 521, 503)
    yield _product("matmul_8192x64x32", 8192, 64, 32)
    yield _product("matmul_16x1024x1024", 16, 1024, 1024, quick=True)
    yield _product("matmul_7x768x768", 7, 768, 768)
    yield _turned("matmul_nt_512", 512, first=False)
    yield _turned("matmul_tn_512", 512, first=True)
    yield Workload(
        "bf16_matmul_512",
        GFLOPS,
        2.0 * 512**3,
        _dot,
        arrays(
            **{
                name: lambda rng: rng.standard_normal((512, 512), np.float32).astype(ml_dtypes.bfloat16)
                for name in "ab"
            }
        ),
        reference=lambda a, b: _exact(a, b).astype(np.float32).astype(ml_dtypes.bfloat16),
        tolerance=2**-8,
        bound="fma",
    )
    yield _int8("int8_matmul_512", 512, constant=False)
    yield _int8("int8_matmul_512_constB", 512, constant=True)
