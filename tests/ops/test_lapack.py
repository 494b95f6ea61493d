"""Eigenvalues, singular values and the forms that lead to them: residuals and orthogonality, on spectra that are hard
to get right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.lax.linalg import geqp3

from tests.support import differential, xla_cpu
from tests.support.closeness import Array, allclose, assert_all
from tests.support.matrices import adjoint, each_type, numbers
from tests.support.xla_cpu import module_of
from xla_wasm.ops.dtypes import DTYPES
from xla_wasm.reference import evaluate


def run(f: Callable[..., Any], *args: Array) -> list[Array]:
    """Returns the results of the compiled module of a function."""
    return differential.run(module_of(f, *args), *args)


def of_jax(f: Callable[..., Any], *args: Array) -> list[Array]:
    """Returns the results of XLA:CPU for a function."""
    return xla_cpu.run(module_of(f, *args), *args)


def units(actual: Array, expected: Array, scale: Array) -> float:
    """The greatest error, in roundings of the greatest element of `scale` times the number of its rows and columns."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    if not actual.size:
        return 0
    eps = np.finfo(actual.dtype).eps * max(*scale.shape[-2:], 1)
    size = np.max(np.abs(scale), initial=np.finfo(scale.dtype).tiny)
    error = np.max(np.abs(actual - expected))
    return float(error / size / eps)


def orthogonality(q: Array) -> float:
    """Returns the distance of the columns from orthonormal ones, in the units of `units`."""
    identity = np.broadcast_to(np.eye(q.shape[-1], dtype=q.dtype), (*q.shape[:-2], q.shape[-1], q.shape[-1]))
    return units(adjoint(q) @ q, identity, identity) if q.size else 0


# --- hard spectra ------------------------------------------------------------------------------------------------


def orthogonal(dtype: str, n: int, seed: int) -> Array:
    wide = "c128" if dtype[0] == "c" else "f64"
    return np.linalg.qr(numbers(wide, n, n, seed=seed))[0]


def spectra(dtype: str, n: int = 40) -> Array:
    """Square matrices whose singular values are clustered, graded over 12 digits, few, or those of what has no basis of
    eigenvectors."""
    q, p = orthogonal(dtype, n, 1), orthogonal(dtype, n, 2)
    graded, rng = np.logspace(0, -12, n), np.random.default_rng(3)
    ones = np.ones(n - 1)
    made = [
        (q * (1 + 1e-15 * rng.standard_normal(n))) @ adjoint(q),
        (q * graded) @ p,
        (q * graded) @ adjoint(q),
        graded[:, None] * numbers("f64", n, n) * graded,
        (graded[:, None] * numbers("f64", n, n) * graded)[::-1, ::-1],
        np.outer(q[0], p[0]),
        (q * (np.arange(n) < n // 2)) @ p,
        np.zeros((n, n)),
        np.eye(n),
        np.diag(np.abs(np.arange(n) - n // 2) * 1.0) + np.diag(ones, 1) + np.diag(ones, -1),
        np.eye(n) + np.diag(ones, 1),
        np.diag(ones, 1),
        np.triu(-0.9 * np.ones((n, n)), 1) + np.eye(n),
        1 / (np.arange(n)[:, None] + np.arange(n) + 1.0),
    ]
    return np.array([np.asarray(a, DTYPES[dtype]) for a in made])


def extremes(dtype: str) -> tuple[Array, Array]:
    """Matrices whose squares would overflow, or vanish."""
    a = numbers(dtype, 9, 9)
    big = np.finfo(a.dtype).max ** 0.9
    return (a * a.real.dtype.type(big)).astype(a.dtype), (a / a.real.dtype.type(big)).astype(a.dtype)


# --- eigenvalues of Hermitian matrices ---------------------------------------------------------------------------


def check_eigh(h: Array, w: Array, v: Array) -> None:
    for a, values, vectors in zip(
        h.reshape(-1, *h.shape[-2:]), w.reshape(-1, w.shape[-1]), v.reshape(-1, *v.shape[-2:])
    ):
        assert units(a @ vectors, vectors * values, a) < 4
        assert orthogonality(vectors) < 4
        assert np.all(np.diff(values) >= 0)
        assert units(values, np.linalg.eigvalsh(a.astype(np.result_type(a, np.float64))), a) < 4


@each_type
@pytest.mark.parametrize("n", [1, 2, 3, 8, 21, 67])
def test_eigh_of_every_size(dtype: str, n: int) -> None:
    a = numbers(dtype, 2, n, n)
    w, v = run(jnp.linalg.eigh, a + adjoint(a))
    check_eigh(a + adjoint(a), w, v)


@each_type
def test_eigh_of_hard_spectra(dtype: str) -> None:
    h = spectra(dtype)
    h = (h + adjoint(h)) / 2
    check_eigh(h, *run(jnp.linalg.eigh, h))
    for a in extremes(dtype):
        h = (a + adjoint(a)) / 2
        check_eigh(h, *run(jnp.linalg.eigh, h))


@each_type
def test_eigh_in_parts(dtype: str) -> None:
    """Of more rows than are solved at once: parts that hardly touch, a grid, nothing to do, one large eigenvalue."""
    n = 90
    wilkinson = np.diag(np.abs(np.arange(n) % 15 - 7.0)) / 2 + np.diag(np.where(np.arange(1, n) % 15, 1, 1e-8), 1)
    second = np.diag(np.ones(n - 1), 1)
    made = [
        wilkinson + wilkinson.T,
        second + second.T,
        np.diag(numbers("f64", n)),
        np.diag(np.arange(n) == 0) + 1e-6 * numbers("f64", n, n),
    ]
    h = np.concatenate((spectra(dtype, n), np.array(made, DTYPES[dtype])))
    h = (h + adjoint(h)) / 2
    check_eigh(h, *run(jnp.linalg.eigh, h))


@each_type
def test_eigh_reads_one_triangle(dtype: str) -> None:
    a = numbers(dtype, 7, 7)
    h = a + adjoint(a)
    for lower in (True, False):
        given = np.where(np.tri(7) > 0 if lower else np.tri(7).T > 0, h, np.nan).astype(h.dtype)
        v, w = run(lambda x, lower=lower: jax.lax.linalg.eigh(x, lower=lower, symmetrize_input=False), given)
        check_eigh(h, w, v)


@each_type
@pytest.mark.parametrize("lower", [True, False])
def test_tridiagonal_as_lapack_has_it(dtype: str, lower: bool) -> None:
    for n in (1, 2, 3, 9):
        a = numbers(dtype, 2, n, n)
        a = a + adjoint(a)
        for x, y in zip(
            *(g(lambda x: jax.lax.linalg.tridiagonal(x, lower=lower), a) for g in (run, of_jax)), strict=True
        ):
            assert units(x, y, a) < 8


# --- singular values ---------------------------------------------------------------------------------------------


def check_svd(a: Array, u: Array, s: Array, vt: Array) -> None:
    k = s.shape[-1]
    for x, left, values, right in zip(*(y.reshape(-1, *y.shape[a.ndim - 2 :]) for y in (a, u, s, vt))):
        assert units(left[:, :k] * values @ right[:k], x, x) < 4
        assert orthogonality(left) < 4 and orthogonality(adjoint(right)) < 4
        assert np.all(np.diff(values) <= 0) and np.all(values >= 0)
        assert units(values, np.linalg.svd(x.astype(np.result_type(x, np.float64)), compute_uv=False), x) < 4


@each_type
@pytest.mark.parametrize(
    "dims", [(1, 1), (1, 5), (5, 1), (2, 2), (8, 8), (3, 9), (9, 3), (41, 30), (30, 41), (2, 3, 5, 4)]
)
def test_svd_of_every_size(dtype: str, dims: tuple[int, ...]) -> None:
    a = numbers(dtype, *dims)
    check_svd(a, *run(jnp.linalg.svd, a))
    check_svd(a, *run(lambda x: jnp.linalg.svd(x, full_matrices=False), a))
    (s,) = run(jnp.linalg.svdvals, a)
    assert units(s, np.linalg.svd(a, compute_uv=False), a) < 4


@each_type
def test_svd_of_hard_spectra(dtype: str) -> None:
    a = spectra(dtype)
    check_svd(a, *run(jnp.linalg.svd, a))
    for x in extremes(dtype):
        check_svd(x, *run(jnp.linalg.svd, x))


def test_small_singular_values_keep_their_digits() -> None:
    """A bidiagonal matrix determines each of its singular values to almost its own precision."""
    d = 10.0 ** -np.arange(0, 60, 3)
    a = np.diag(d) + np.diag(d[:-1] / 2, 1)
    _, s, _ = run(jnp.linalg.svd, a)
    exact = np.sort([float(x) for x in _bidiagonal_singular_values(d, d[:-1] / 2)])[::-1]
    np.testing.assert_allclose(s, exact, rtol=1e-13)


def _bidiagonal_singular_values(d: Array, e: Array) -> Array:
    """By one-sided Jacobi rotations on rows scaled to a common size, which keep each one's digits."""
    b = (np.diag(d) + np.diag(e, 1)).T.astype(np.longdouble)
    n = len(d)
    for _ in range(30):
        for i in range(n):
            for j in range(i + 1, n):
                p, q, r = b[:, i] @ b[:, i], b[:, j] @ b[:, j], b[:, i] @ b[:, j]
                if r == 0:
                    continue
                zeta = (q - p) / (2 * r)
                t = np.copysign(1, zeta) / (abs(zeta) + np.hypot(1, zeta))
                c = 1 / np.hypot(1, t)
                b[:, i], b[:, j] = c * b[:, i] - c * t * b[:, j], c * t * b[:, i] + c * b[:, j]
    return np.sqrt(np.sum(b * b, 0))


# --- QR with pivots, products with Q, Hessenberg form --------------------------------------------------------------


@each_type
@pytest.mark.parametrize("dims", [(1, 1), (5, 5), (9, 4), (4, 9), (33, 20), (2, 6, 6), (0, 3), (2, 3, 0)])
def test_qr_with_pivots(dtype: str, dims: tuple[int, ...]) -> None:
    a = numbers(dtype, *dims)
    for mode in ("full", "economic"):
        q, r, p = run(lambda x, mode=mode: jax.scipy.linalg.qr(x, mode=mode, pivoting=True), a)
        expected = of_jax(lambda x, mode=mode: jax.scipy.linalg.qr(x, mode=mode, pivoting=True), a)
        np.testing.assert_array_equal(p, expected[2])
        assert orthogonality(q) < 4
        assert units(q @ r, np.take_along_axis(a, p[..., None, :], -1), a) < 4
        assert units(r, expected[1], a) < 8


@each_type
def test_pivots_show_the_rank(dtype: str) -> None:
    for a in spectra(dtype):
        q, r, p = run(lambda x: jax.scipy.linalg.qr(x, pivoting=True), a)
        assert units(q @ r, a[:, p], a) < 4 and orthogonality(q) < 4
        diagonal = np.abs(np.diag(r))
        assert np.all(diagonal[1:] <= diagonal[:-1] * (1 + 64 * np.finfo(a.dtype).eps) + np.finfo(a.dtype).tiny)


def test_columns_that_are_wanted_first() -> None:
    a, wanted = numbers("f64", 6, 5), np.array([0, 0, 1, 0, 1], np.int32)
    assert_all(run(geqp3, a, wanted), of_jax(geqp3, a, wanted), allclose(1e-13, 1e-13))


@each_type
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
def test_products_with_q(dtype: str, left: bool, transpose: bool) -> None:
    for m, n, k in ((1, 1, 1), (6, 6, 4), (9, 4, 4)):
        a, c = numbers(dtype, 2, m, n), numbers(dtype, 2, *((m, 5) if left else (5, m)), seed=1)

        def product(a: Array, c: Array, k: int = k) -> Any:
            h, taus = jnp.linalg.qr(a, mode="raw")
            return jax.lax.linalg.ormqr(h.mT, taus[..., :k], c, left=left, transpose=transpose)

        for x, y in zip(run(product, a, c), of_jax(product, a, c), strict=True):
            assert units(x, y, c) < 8


@each_type
@pytest.mark.parametrize("dims", [(1, 1), (2, 2), (2, 3, 3), (17, 17)])
def test_hessenberg_as_lapack_has_it(dtype: str, dims: tuple[int, ...]) -> None:
    a = numbers(dtype, *dims)
    for f in (jax.lax.linalg.hessenberg, lambda x: jax.scipy.linalg.hessenberg(x, calc_q=True)):
        for x, y in zip(run(f, a), of_jax(f, a), strict=True):
            assert units(x, y, a) < 16


# --- eigenvalues of general matrices -----------------------------------------------------------------------------


def general(dtype: str, n: int = 24) -> Array:
    """Matrices far from normal: triangular, of a polynomial, badly scaled, with pairs only, with eigenvalues on a
    circle."""
    scales, a = np.logspace(0, 10, n), numbers(dtype, n, n)
    companion = np.diag(np.ones(n - 1), -1)
    companion[0] = numbers("f64", n)
    made = [
        np.triu(a),
        np.tril(a),
        companion,
        scales[:, None] * a / scales,
        a - a.T,
        np.roll(np.eye(n), 1, 0),
        np.kron(np.eye(n // 2), [[1, 2], [-3, 1]]) + np.diag(np.ones(n - 2), 2),
    ]
    return np.array([np.asarray(x, DTYPES[dtype]) for x in made])


def check_eig(a: Array, w: Array, left: Array, right: Array) -> None:
    square, rounding = a.shape[-2:], 16 * np.finfo(a.dtype).eps
    for x, values, u, v in zip(
        a.reshape(-1, *square), w.reshape(-1, square[0]), left.reshape(-1, *square), right.reshape(-1, *square)
    ):
        assert units(x @ v, v * values, x) < 4 and units(adjoint(u) @ x, values[:, None] * adjoint(u), x) < 4
        for vectors in (u, v):
            np.testing.assert_allclose(np.linalg.norm(vectors, axis=0), 1, rtol=rounding)
            # Of the elements that may be the greatest, one is real.
            greatest = np.abs(vectors) >= np.max(np.abs(vectors), 0) * (1 - rounding)
            assert np.all(np.min(np.where(greatest, np.abs(vectors.imag), 1), 0) == 0)


def check_schur(a: Array, t: Array, z: Array) -> None:
    for x, form, q in zip(*(y.reshape(-1, *a.shape[-2:]) for y in (a, t, z))):
        assert units(q @ form @ adjoint(q), x, x) < 4 and orthogonality(q) < 4
        below = np.diagonal(form, -1)
        assert not np.tril(form, -2 if form.dtype.kind == "f" else -1).any()
        # Blocks on the diagonal stand apart, and are those of pairs, with equal elements on the diagonal.
        pairs = np.flatnonzero(below)
        assert np.all(np.diff(pairs) > 1)
        assert np.all(form[pairs, pairs] == form[pairs + 1, pairs + 1]) and np.all(
            np.sign(form[pairs, pairs + 1]) == -np.sign(below[pairs])
        )


def eig_of_both_sides(a: Array) -> Any:
    return jax.lax.linalg.eig(a, compute_left_eigenvectors=True)


@each_type
@pytest.mark.parametrize("n", [1, 2, 3, 4, 9, 50])
def test_eig_and_schur_of_every_size(dtype: str, n: int) -> None:
    a = numbers(dtype, 2, n, n)
    w, left, right = run(eig_of_both_sides, a)
    check_eig(a, w, left, right)
    check_schur(a, *run(jax.lax.linalg.schur, a))
    (values,) = run(jnp.linalg.eigvals, a)
    for x, y in zip(
        np.sort_complex(values), np.sort_complex(np.linalg.eigvals(a.astype(np.result_type(a, np.float64))))
    ):
        assert units(np.min(np.abs(x[:, None] - y), 0).astype(a.real.dtype), np.zeros(n), a.real[0]) < 20


@each_type
def test_eig_and_schur_of_hard_spectra(dtype: str) -> None:
    for a in (spectra(dtype, 24), general(dtype), *extremes(dtype)):
        check_eig(a, *run(eig_of_both_sides, a))
        check_schur(a, *run(jax.lax.linalg.schur, a))


def test_a_schur_form_alone() -> None:
    for dtype in ("f64", "c128"):
        a = numbers(dtype, 2, 7, 7)
        with_vectors, _ = run(jax.lax.linalg.schur, a)
        (alone,) = run(lambda x: jax.lax.linalg.schur(x, compute_schur_vectors=False), a)
        np.testing.assert_array_equal(alone, with_vectors)


# --- tridiagonal systems -----------------------------------------------------------------------------------------


def tridiagonal_systems(dtype: str, n: int, width: int = 3) -> list[Array]:
    """Some need exchanges of rows, and some have zeros beside the diagonal."""
    dl, d, du = (numbers(dtype, 3, n, seed=i) for i in range(3))
    d[1] /= 100
    dl[:, 0] = du[:, -1] = 0
    dl[2, 1::2] = 0
    return [dl, d, du, numbers(dtype, 3, n, width, seed=3)]


@each_type
@pytest.mark.parametrize("n", [1, 2, 3, 12])
def test_tridiagonal_systems(dtype: str, n: int) -> None:
    given = tridiagonal_systems(dtype, n)
    for x, y in zip(*(g(jax.lax.linalg.tridiagonal_solve, *given) for g in (run, of_jax)), strict=True):
        assert units(x, y, y) < 200


@each_type
def test_singular_tridiagonal_systems(dtype: str) -> None:
    dl, d, du, b = tridiagonal_systems(dtype, 6)
    d[0] = dl[0] = 0
    (x,) = run(jax.lax.linalg.tridiagonal_solve, dl, d, du, b)
    assert np.isnan(x[0]).all() and np.isfinite(x[1:]).all()

    def solve(*given: Array) -> Any:
        return jax.lax.linalg.tridiagonal_solve(*given, perturb_singular=True)

    # Rows are exchanged for others than in tridiagonal_solve.
    for given in (
        (dl, d, du, b),
        tridiagonal_systems(dtype, 1),
        tridiagonal_systems(dtype, 9),
        (0 * dl, 0 * d, 0 * du, b),
    ):
        (x,), (y,) = run(solve, *given), of_jax(solve, *given)
        for mine, theirs in zip(x, y):
            assert np.isfinite(mine).all() and units(mine, theirs, theirs) < 200


# --- elements of any size ----------------------------------------------------------------------------------------


def check_batch(actual: Array, expected: Array, scale: Array, allowed: float = 16) -> None:
    """The same as `units`, of each of many matrices."""
    size = np.max(np.abs(scale), (-2, -1), initial=np.finfo(scale.dtype).tiny)[:, None, None]
    worst = np.max(np.abs(actual - expected) / size, initial=0) / np.finfo(actual.dtype).eps / scale.shape[-1]
    assert worst < allowed


def check_all(a: Array) -> None:
    """Hermitian eigenvalues, singular values and Schur form of many matrices."""
    h, identity = (a + adjoint(a)) / 2, np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape)
    w, v = run(jnp.linalg.eigh, h)
    u, s, vt = run(jnp.linalg.svd, a)
    t, z = run(jax.lax.linalg.schur, a)
    check_batch(h @ v, v * w[:, None, :], h)
    check_batch(u * s[:, None, :] @ vt, a, a)
    check_batch(z @ t @ adjoint(z), a, a)
    for q in (v, u, adjoint(vt), z):
        check_batch(adjoint(q) @ q, identity, identity)


@each_type
@pytest.mark.parametrize("n", [2, 3, 4, 5, 8])
def test_elements_of_any_size(dtype: str, n: int) -> None:
    """Sparse, from 1e-12 to 1e12: numbers that vanish beside others, also in a sweep."""
    rng = np.random.default_rng(n)
    a = rng.integers(-1, 2, (400, n, n)) * 10.0 ** rng.integers(-12, 13, (400, n, n))
    a = a + 1j * rng.integers(-1, 2, a.shape) * np.abs(a) if dtype[0] == "c" else a
    check_all(np.asarray(a, DTYPES[dtype]))


@each_type
def test_what_did_not_converge_once(dtype: str) -> None:
    """Equal singular values beside a large one; rounding that a matrix without eigenvectors cannot get below; zeros on
    the diagonal."""
    large = [[1e-10, 1e-11, -1e2, 1e4], [1e-12, 1e2, -1e-5, -1e-7], [-1e2, 0, 1e-4, -1e-10], [-1e2, 0, 0, 1e11]]
    jordan = [[1e9, 1e-7, 0, 0], [1e9, 1e9, 0, 0], [1e-12, 0, 0, 0], [0, 0, 0, 0]]
    zeros = [[0, -1e-11, -1e-2, 0], [0, 0, -1e1, 0], [0, 0, -1e12, 0], [0, 0, 0, 0]]
    a = np.array([large, jordan, zeros], DTYPES[dtype])
    if dtype[0] == "c":
        a[1, :2] *= 1 + 1j
        a[2, 0, 1] *= 1 - 1j
    check_all(a)


# --- what is not finite, and the reference ------------------------------------------------------------------------


@each_type
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("f", [jnp.linalg.eigh, jnp.linalg.svd, jnp.linalg.eig, jax.lax.linalg.schur])
def test_what_is_not_finite_becomes_nan_and_ends(dtype: str, bad: float, f: Callable[..., Any]) -> None:
    a = numbers(dtype, 3, 5, 5)
    a = a + adjoint(a)
    a[1, 2, 3] = a[1, 3, 2] = bad
    for x in run(f, a):
        assert np.isnan(x[1]).all()
        assert np.isfinite(x[[0, 2]]).all()


@pytest.mark.parametrize(
    "f",
    [
        jnp.linalg.eigvalsh,
        lambda a: jax.lax.linalg.tridiagonal(a)[1:],
        lambda a: jax.lax.linalg.tridiagonal(a, lower=False),
        jnp.linalg.svdvals,
        lambda a: jnp.linalg.svd(a, full_matrices=False),
        lambda a: jax.scipy.linalg.qr(a, pivoting=True),
        lambda a: jax.lax.linalg.ormqr(a, a[..., 0, :3] / 8, a),
        lambda a: jax.lax.linalg.ormqr(a, a[..., 0, :3] / 8, a, left=False, transpose=True),
        jax.lax.linalg.hessenberg,
        lambda a: jax.lax.linalg.tridiagonal_solve(a[:, 0], a[:, 1], a[:, 2], a),
        lambda a: jax.lax.linalg.tridiagonal_solve(a[:, 0], a[:, 1], 0 * a[:, 2], a, perturb_singular=True),
    ],
)
def test_the_reference_knows_the_calls(f: Callable[..., Any]) -> None:
    for dtype in ("f64", "c128"):
        a = numbers(dtype, 2, 5, 5)
        a = a + adjoint(a)
        compiled, known = run(f, a), evaluate(module_of(f, a), a)
        for x, y in zip(compiled, known, strict=True):
            assert x.shape == y.shape and x.dtype == y.dtype
            if x.dtype.kind == "i":
                np.testing.assert_array_equal(x, y)
                continue
            assert units(np.abs(x), np.abs(y), a) < 64 * max(1, np.max(np.abs(y)))


@pytest.mark.parametrize("dtype", ["f64", "c128"])
def test_the_reference_knows_eig_and_schur(dtype: str) -> None:
    """In an order of its own."""
    a = np.concatenate((numbers(dtype, 2, 6, 6), general(dtype, 6)))
    check_eig(a, *(np.asarray(x) for x in evaluate(module_of(eig_of_both_sides, a), a)))
    check_schur(a, *(np.asarray(x) for x in evaluate(module_of(jax.lax.linalg.schur, a), a)))
