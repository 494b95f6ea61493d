"""Decompositions of matrices from the least denormal numbers to nearly the greatest, on both sides of each size where
an algorithm changes: residuals in roundings of the norm, and orthogonality."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
import pytest
from jax.lax import linalg

from tests.support import differential
from tests.support.closeness import Array
from tests.support.matrices import adjoint, each_type, numbers
from tests.support.xla_cpu import module_of
from xla_wasm.ops.dtypes import DTYPES

NORMS = {
    4: (1e-44, 1e-38, 1e-20, 1e-12, 1e-7, 1e-4, 1, 1e12, 1e36),
    8: (1e-322, 1e-307, 1e-200, 1e-20, 1e-7, 1, 1e20, 1e200, 1e304),
}
"""Bytes of a real number -> the sizes of matrices."""


def kinds(dtype: str, n: int) -> dict[str, Array]:
    """Matrices whose greatest element is about 1."""
    a = numbers("c128" if dtype[0] == "c" else "f64", n, n) / 4
    place, grades = np.arange(n), np.logspace(0, -30, n)
    front, some = place < n // 2, place % 3 > 0
    huge = 1e-8 * a
    huge[n // 2, n // 3] = 1
    beside = np.diag(np.ones(n - 1), 1)
    return {
        "normal": a,
        "graded": grades[:, None] * a * grades,
        "graded upwards": grades[::-1, None] * a * grades[::-1],
        "graded rows": grades[:, None] * a,
        "graded columns": a * grades[::-1],
        "graded diagonal": np.diag(grades),
        "of rank 2": a[:, :2] @ a[:2],
        "rows and columns of zeros": a * some * some[:, None],
        "one huge element": huge,
        "two parts": a * np.where(front[:, None] == front, np.where(front, 1e-9, 1), 1e-12),
        "Wilkinson's": np.diag(np.abs(place - n // 2) / n) + beside + beside.T,
        "identity": np.eye(n),
        "zeros": np.zeros((n, n)),
    }


def hermitian(a: Array) -> Array:
    lower = np.tril(a)
    return np.asarray(np.where(np.eye(a.shape[-1], dtype=bool), a.real, lower + adjoint(lower)), a.dtype)


def dominated(a: Array) -> Array:
    """A positive definite matrix of the same size."""
    size, n = np.max(np.abs(a), (-2, -1), keepdims=True), a.shape[-1]
    return np.asarray(np.where(np.eye(n, dtype=bool), np.where(size == 0, 1, size), hermitian(a / (4 * n))), a.dtype)


def scaled(exponents: Array, x: Array, root: int = 1) -> Array:
    """Each matrix of a batch, times a root of its own power of 2, in 64 bits."""
    wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    parts = wide.view(np.float64)
    np.ldexp(parts, (exponents // root).reshape(-1, *[1] * (x.ndim - 1)), out=parts)
    return wide


def tridiagonal(lower: Array, middle: Array, upper: Array) -> Array:
    n = middle.shape[-1]
    whole = np.zeros((len(middle), n, n), middle.dtype)
    for x, k in ((lower, -1), (middle, 0), (upper, 1)):
        rows = np.arange(max(0, -k), n - max(0, k))
        whole[:, rows, rows + k] = x
    return whole


def diagonals(a: Any) -> tuple[Any, Any, Any]:
    """As tridiagonal_solve takes them."""
    beside = [((0, 0), (1, 0)), ((0, 0), (0, 1))]
    lower, upper = (jnp.pad(jnp.diagonal(a, k, 1, 2), width) for k, width in zip((-1, 1), beside))
    return lower, jnp.diagonal(a, 0, 1, 2), upper


def beside(*matrices: Array) -> Array:
    return np.concatenate(matrices, -1)


def columns(x: Array) -> Array:
    return x[..., None]


# `s` in the checks brings what has a matrix's norm to a norm of about 1, and with 2 what has its root.

Result = tuple[Array, Array, list[Array]]
"""A product, what it should be, and matrices with orthonormal columns."""

DECOMPOSITIONS: dict[str, tuple[str, Callable[[Any], Any], Callable[..., Result]]] = {
    "eigh": (
        "hermitian",
        lambda a: jnp.linalg.eigh(a, symmetrize_input=False),
        lambda s, a, w, v: (v * s(w)[:, None] @ adjoint(v), s(a), [v]),
    ),
    "tridiagonal": (
        "hermitian",
        lambda a: linalg.tridiagonal(a)[1:3],
        lambda s, a, d, e: (
            columns(np.linalg.eigvalsh(tridiagonal(s(e), s(d), s(e)))),
            columns(np.linalg.eigvalsh(s(a))),
            [],
        ),
    ),
    "svd": ("any", jnp.linalg.svd, lambda s, a, u, d, vt: (u * s(d)[:, None] @ vt, s(a), [u, adjoint(vt)])),
    "schur": ("any", linalg.schur, lambda s, a, t, z: (z @ s(t) @ adjoint(z), s(a), [z])),
    "hessenberg": (
        "any",
        lambda a: jax.scipy.linalg.hessenberg(a, calc_q=True),
        lambda s, a, h, q: (q @ s(h) @ adjoint(q), s(a), [q]),
    ),
    "eig": (
        "balanced",
        linalg.eig,
        lambda s, a, w, left, right: (beside(s(a) @ right, s(a)), beside(right * s(w)[:, None], s(a)), []),
    ),
    "qr": ("any", jnp.linalg.qr, lambda s, a, q, r: (q @ s(r), s(a), [q])),
    "qr with pivots": (
        "any",
        lambda a: jax.scipy.linalg.qr(a, pivoting=True),
        lambda s, a, q, r, p: (q @ s(r), np.take_along_axis(s(a), p[:, None], -1), [q]),
    ),
    "lu": (
        "any",
        linalg.lu,
        lambda s, a, x, pivots, order: (
            (np.tril(x, -1) + np.eye(x.shape[-1])) @ s(np.triu(x)),
            np.take_along_axis(s(a), order[..., None], -2),
            [],
        ),
    ),
    "cholesky": (
        "positive",
        lambda a: linalg.cholesky(a, symmetrize_input=False),
        lambda s, a, x: (s(x, 2) @ adjoint(s(x, 2)), s(a), []),
    ),
    "triangular_solve": (
        "turned",
        lambda a: linalg.triangular_solve(a, a.mT, left_side=True, lower=True),
        lambda s, a, x: (np.tril(s(a)) @ x, np.swapaxes(s(a), -1, -2), []),
    ),
    "tridiagonal_solve": (
        "turned",
        lambda a: linalg.tridiagonal_solve(*diagonals(a), a),
        lambda s, a, x: (np.tril(np.triu(s(a), -1), 1) @ x, s(a), []),
    ),
}
"""Name -> what matrices it is of, the function, and what is true of its results."""


@each_type
@pytest.mark.parametrize("n", [8, 9, 32, 33])
def test_decompositions(dtype: str, n: int) -> None:
    """Sizes are those around the blocks of triangular systems (8), and of LU and divide and conquer (32)."""
    real = np.finfo(DTYPES[dtype])
    # Balancing, which LAPACK has too, gives small eigenvalues more digits, at the cost of such matrices' residuals.
    known, unbalanced = kinds(dtype, n), ("graded rows", "graded columns")
    names = [(kind, size) for kind in known for size in NORMS[real.bits // 8]]
    a = np.array([(known[kind] * size).astype(DTYPES[dtype]) for kind, size in names])
    positive = dominated(a)
    given = {
        "any": a,
        "balanced": np.where(np.array([[[kind in unbalanced]] for kind, _ in names]), 0, a),
        "hermitian": hermitian(a),
        "positive": positive,
        "turned": (positive * (0.6 + 0.8j) if dtype[0] == "c" else positive).astype(a.dtype),
    }

    def decompose(given: dict[str, Any]) -> Any:
        return {name: f(given[kind]) for name, (kind, f, _) in DECOMPOSITIONS.items()}

    with jax.enable_x64(True):
        tree = jax.tree.structure(jax.eval_shape(decompose, given))
    results = jax.tree.unflatten(tree, differential.run(module_of(decompose, given), *jax.tree.leaves(given)))
    for name, (kind, _, check) in DECOMPOSITIONS.items():
        exponents = -2 * (np.frexp(np.max(np.abs(given[kind]), (-2, -1)))[1] // 2)
        by = partial(scaled, exponents)
        product, true, unitary = check(by, given[kind], *jax.tree.leaves(results[name]))
        # Where numbers have fewer digits, all are rounded by as much.
        least = np.ldexp(real.smallest_subnormal * n, exponents)
        errors = length(product - true) / (real.eps * length(true) + least + real.tiny) / np.sqrt(n)
        for q in unitary:
            errors = np.maximum(errors, length(adjoint(q) @ q - np.eye(n)) / real.eps / np.sqrt(n))
        worst = int(np.argmax(errors))
        assert errors[worst] < 32, (name, *names[worst])


def length(a: Array) -> Array:
    return np.asarray(np.sqrt(np.sum(np.abs(a.astype(np.complex128)) ** 2, (-2, -1))))


@pytest.mark.parametrize("n", [32, 33, 70])
def test_eigh_of_a_small_matrix(n: int) -> None:
    """Scaled by a power of two, a matrix has the same eigenvectors, also where its parts are solved apart."""
    a = hermitian(numbers("f32", n, n))
    w, v = differential.run(module_of(jnp.linalg.eigh, a), a)
    for by in (2.0**-13, 2.0**-60, 2.0**20):
        small = differential.run(module_of(jnp.linalg.eigh, a), (a * by).astype(np.float32))
        np.testing.assert_array_equal(small[0], w * np.float32(by))
        np.testing.assert_array_equal(small[1], v)


def test_singular_vectors_of_graded_matrices_are_orthogonal() -> None:
    """Rotations of numbers whose squares vanish."""
    for dtype, span in (("f32", 44), ("f64", 320)):
        a = np.logspace(0, -span, 40)[:, None] * numbers("f64", 40, 40)
        for x in (a, a[::-1], a.T, np.triu(a, -1) - np.triu(a, 2)):
            x = x.astype(DTYPES[dtype])
            u, _, vt = differential.run(module_of(jnp.linalg.svd, x), x)
            for q in (u, vt):
                assert length(q.T @ q - np.eye(40)) < 100 * np.finfo(x.dtype).eps


@pytest.mark.parametrize("dtype", ["c64", "c128"])
def test_complex_divisors_of_any_size(dtype: str) -> None:
    """Pivots of which a part times another overflows, or has no digits."""
    real = np.finfo(DTYPES[dtype])
    sizes = np.array([real.smallest_subnormal * 5, real.tiny / 3, real.tiny * 7, 1, real.max / 7, real.max * 0.9])
    parts = np.array([3 + 4j, 4 - 3j, -2.5 + 5j, 5]) / 5
    a = (sizes[:, None] * parts).astype(DTYPES[dtype]).reshape(-1, 1, 1)
    b = (a * np.array([1, 1j, 0.5 - 0.25j])).astype(a.dtype)
    (x,) = differential.run(module_of(lambda a, b: linalg.triangular_solve(a, b, left_side=True), a, b), a, b)
    a, b = (scaled(-np.frexp(np.maximum(np.abs(a.real), np.abs(a.imag))[:, 0, 0])[1], y) for y in (a, b))
    np.testing.assert_allclose(x, b / a, rtol=4 * real.eps)


@each_type
def test_factors_of_what_is_not_finite_end(dtype: str) -> None:
    """With one element that is not finite, or whose imaginary part is not, before and after zeros."""
    names = [name for name in DECOMPOSITIONS if name not in ("eigh", "svd", "schur", "eig")]
    n = 9
    whole = np.asarray(dominated(numbers(dtype, n, n)) * np.eye(n), DTYPES[dtype])
    given = [whole]
    for bad in (np.nan, np.inf, *((complex(0, np.nan),) if dtype[0] == "c" else ())):
        for i, j in ((1, 0), (n - 1, 0), (n - 1, n - 2), *(((0, 0), (4, 4), (n - 1, n - 1)) if bad.imag == 0 else ())):
            x = whole.copy()
            x[i, j] = x[j, i] = bad
            given.append(x)
    a = np.array(given)

    def decompose(a: Any) -> Any:
        return [DECOMPOSITIONS[name][1](a) for name in names]

    with jax.enable_x64(True):
        tree = jax.tree.structure(jax.eval_shape(decompose, a))
    results = jax.tree.unflatten(tree, differential.run(module_of(decompose, a), a))
    for name, arrays in zip(names, results):
        # Solvers that do not read the element have it on their right-hand sides.
        finite: Array = np.asarray([np.isfinite(y).reshape(len(a), -1).all(1) for y in jax.tree.leaves(arrays)])
        finite = np.asarray(np.all(finite, 0))
        assert finite[0] and not finite[1:].any(), name
