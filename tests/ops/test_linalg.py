"""Factorisations and triangular systems: sizes around blocks, batches, JAX's calls of LAPACK, and errors against
f64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
import pytest
from jax import lax

import xla_wasm
from tests.support import differential, xla_cpu
from tests.support.closeness import Array, allclose, assert_all
from tests.support.matrices import adjoint, each_type, numbers
from tests.support.small_modules import operation
from xla_wasm.hlo.attrs import TriangularSolveOptions
from xla_wasm.jax import lower as module_of
from xla_wasm.ops.dtypes import DTYPES
from xla_wasm.reference import evaluate

SIZES = (1, 2, 7, 8, 9, 17, 40, 67)

each_size = pytest.mark.parametrize("size", SIZES)


def positive(dtype: str, *dims: int, seed: int = 0) -> Array:
    a = numbers(dtype, *dims, seed=seed)
    return np.asarray(a @ adjoint(a) + dims[-1] * np.eye(dims[-1]), DTYPES[dtype])


def run(opcode: str, *args: Array, **attrs: Any) -> Array:
    (result,) = differential.run(operation(opcode, *args, **attrs), *args)
    return result


def units(actual: Array, true: Array) -> float:
    """The greatest error in roundings of the greatest element."""
    return float(np.max(np.abs(actual - true)) / np.max(np.abs(true)) / np.finfo(actual.dtype).eps)


def wide(a: Array) -> Array:
    return a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)


@each_type
@each_size
def test_cholesky_of_every_size(dtype: str, size: int) -> None:
    a = positive(dtype, 2, size, size)
    true = np.linalg.cholesky(wide(a))
    assert units(run("cholesky", np.where(np.tri(size) > 0, a, np.nan).astype(a.dtype), lower=True), true) < 8
    assert (
        units(run("cholesky", np.where(np.tri(size).T > 0, a, np.nan).astype(a.dtype), lower=False), adjoint(true)) < 8
    )


@each_type
@each_size
@pytest.mark.parametrize("left", [True, False])
def test_triangular_solve_of_every_size(dtype: str, size: int, left: bool) -> None:
    a = numbers(dtype, size, size) / size + 2 * np.eye(size)
    a = a.astype(DTYPES[dtype])
    b = numbers(dtype, *((size, 5) if left else (5, size)), seed=1)
    for lower in (True, False):
        for transpose in ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"):
            triangle = wide(np.tril(a) if lower else np.triu(a))
            op = {"NO_TRANSPOSE": triangle, "TRANSPOSE": triangle.T, "ADJOINT": adjoint(triangle)}[transpose]
            true = np.linalg.solve(op, wide(b)) if left else np.linalg.solve(op.T, wide(b).T).T
            options = TriangularSolveOptions(left_side=left, lower=lower, transpose_a=transpose)
            assert units(run("triangular-solve", a, b, triangular_solve_options=options), true) < 16, (lower, transpose)


def test_more_right_hand_sides_than_are_solved_at_once() -> None:
    a, b = np.tril(numbers("f32", 12, 12)) + 4 * np.eye(12, dtype=np.float32), numbers("f32", 12, 1100)
    options = TriangularSolveOptions(left_side=True, lower=True)
    assert (
        units(run("triangular-solve", a, b, triangular_solve_options=options), np.linalg.solve(wide(a), wide(b))) < 16
    )


def test_cholesky_is_as_exact_as_lapack() -> None:
    a = positive("f32", 200, 200)
    ours, theirs = run("cholesky", a, lower=True), np.linalg.cholesky(a)

    def error(factor: Array) -> float:
        return float(np.linalg.norm(wide(factor) @ wide(factor).T - a))

    assert error(ours) < 1.5 * error(theirs)


# --- JAX's calls of LAPACK ---------------------------------------------------------------------------------------


def of_jax(f: Callable[..., Any], *args: Array) -> tuple[list[Array], list[Array]]:
    """Returns the results of the compiled module, and those of XLA:CPU."""
    module = xla_cpu.module_of(f, *args)
    return differential.run(module, *args), xla_cpu.run(module, *args)


def check(f: Callable[..., Any], *args: Array, allowed: float = 64) -> None:
    actual, expected = of_jax(f, *args)
    for x, y in zip(actual, expected, strict=True):
        assert x.shape == y.shape and x.dtype == y.dtype
        if x.dtype.kind == "i":
            np.testing.assert_array_equal(x, y)
            continue
        finite = np.isfinite(y)
        np.testing.assert_array_equal(np.isfinite(x), finite)
        scale = np.max(np.abs(y[finite]), initial=np.finfo(y.dtype).tiny)
        assert np.max(np.abs(x - y)[finite], initial=0) / scale / np.finfo(y.dtype).eps < allowed


@each_type
def test_cholesky_of_jax(dtype: str) -> None:
    a = positive(dtype, 3, 6, 6)
    a[1] = -a[1]
    check(jnp.linalg.cholesky, a)
    check(lambda x: jnp.linalg.cholesky(x, upper=True), a)


@each_type
def test_solving_of_jax(dtype: str) -> None:
    a, b = numbers(dtype, 3, 6, 6), numbers(dtype, 3, 6, 2, seed=1)
    check(jnp.linalg.solve, a, b, allowed=500)
    check(jnp.linalg.inv, a, allowed=500)
    check(jnp.linalg.det, a, allowed=500)
    check(jnp.linalg.slogdet, a, allowed=500)


@each_type
@pytest.mark.parametrize("trans", [0, 1, 2])
def test_triangular_systems_of_jax(dtype: str, trans: int) -> None:
    a, b = numbers(dtype, 2, 5, 5) + 4 * np.eye(5), numbers(dtype, 2, 5, 3, seed=1)
    for lower in (True, False):
        for unit in (True, False):

            def solve(x: Array, y: Array, lower: bool = lower, unit: bool = unit) -> Any:
                return jax.scipy.linalg.solve_triangular(x, y, trans=trans, lower=lower, unit_diagonal=unit)

            check(solve, a.astype(DTYPES[dtype]), b)


@each_type
@pytest.mark.parametrize("dims", [(1, 1), (5, 5), (9, 4), (4, 9), (45, 40), (13, 70), (70, 13), (2, 6, 6), (2, 0, 3)])
def test_lu_of_jax(dtype: str, dims: tuple[int, ...]) -> None:
    check(jax.lax.linalg.lu, numbers(dtype, *dims))


@each_type
@pytest.mark.parametrize("dims", [(1, 1), (5, 5), (9, 4), (4, 9), (45, 40), (2, 6, 3), (2, 0, 3), (3, 0)])
@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_qr_of_jax(dtype: str, dims: tuple[int, ...], mode: str) -> None:
    check(lambda a: jnp.linalg.qr(a, mode=mode), numbers(dtype, *dims))


@each_type
def test_qr_of_columns_of_zeros_and_of_extreme_numbers(dtype: str) -> None:
    a = np.array([[0, 3, 1], [0, 4, 0], [0, 0, 2]]).astype(DTYPES[dtype])
    check(jnp.linalg.qr, a)
    check(jnp.linalg.qr, numbers(dtype, 6, 4) * np.finfo(a.dtype).max ** 0.75)
    check(jnp.linalg.qr, numbers(dtype, 6, 4) * np.finfo(a.dtype).tiny ** 0.75)


def test_lu_of_singular_matrices() -> None:
    """A column without a pivot is left as it is, and info tells the first."""
    a = np.array(
        [[[0, 1, 2], [0, 3, 4], [0, 5, 6]], [[1, 2, 3], [2, 4, 6], [1, 0, 0]], [[0, 0, 0], [0, 0, 0], [0, 0, 0]]],
        np.float32,
    )
    check(jax.lax.linalg.lu, a)
    check(jnp.linalg.det, a)


def test_gradients_through_solvers() -> None:
    a, s = numbers("f32", 5, 5), positive("f32", 5, 5)
    check(jax.grad(lambda x: jnp.linalg.slogdet(x)[1]), a, allowed=500)
    check(jax.grad(lambda x: jnp.sum(jnp.linalg.cholesky(x) ** 3)), s, allowed=500)


@pytest.mark.parametrize("dims", [(4, 4), (3, 5), (2, 5, 3)])
@pytest.mark.parametrize("f", [jax.lax.linalg.lu, jnp.linalg.qr])
def test_the_reference_knows_the_calls(f: Callable[..., Any], dims: tuple[int, ...]) -> None:
    for dtype in ("f64", "c128"):
        a = numbers(dtype, *dims)
        module = xla_cpu.module_of(f, a)
        assert_all(evaluate(module, a), xla_cpu.run(module, a), allclose(1e-12, 1e-12))


def _hermitian(x: Array) -> Array:
    return x + adjoint(x)


def _definite(x: Array) -> Array:
    return x @ adjoint(x) + x.shape[-1] * np.eye(x.shape[-1], dtype=x.dtype)


BATCHED: dict[str, tuple[Callable[..., Any], Callable[[Array], Array], tuple[int, int]]] = {
    "cholesky": (lambda x: lax.linalg.cholesky(x, symmetrize_input=False), _definite, (33, 33)),
    "eigh of the lower triangle": (lambda x: lax.linalg.eigh(x, symmetrize_input=False), _hermitian, (17, 17)),
    "eigh of the upper triangle": (
        lambda x: lax.linalg.eigh(x, lower=False, symmetrize_input=False),
        _hermitian,
        (17, 17),
    ),
    "eigenvalues of the upper triangle": (lambda x: jnp.linalg.eigvalsh(x, UPLO="U"), _hermitian, (17, 17)),
    "svd, full": (lambda x: jnp.linalg.svd(x, full_matrices=True), np.array, (9, 17)),
    "svd, reduced": (lambda x: jnp.linalg.svd(x, full_matrices=False), np.array, (17, 9)),
    "singular values": (lambda x: jnp.linalg.svd(x, compute_uv=False), np.array, (17, 9)),
    "lu": (lax.linalg.lu, np.array, (17, 9)),
    "qr": (jnp.linalg.qr, np.array, (17, 9)),
    "triangular solve": (
        lambda x: lax.linalg.triangular_solve(x, x, left_side=False, lower=True, transpose_a=True, conjugate_a=True),
        _definite,
        (33, 33),
    ),
    "schur": (lax.linalg.schur, np.array, (9, 9)),
    "eig": (lax.linalg.eig, np.array, (9, 9)),
    "eigenvectors of the right side": (
        lambda x: lax.linalg.eig(x, compute_left_eigenvectors=False),
        np.array,
        (9, 9),
    ),
}


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
@pytest.mark.parametrize("name", BATCHED)
def test_a_batch_is_the_stack_of_its_matrices(name: str, dtype: type) -> None:
    """Bit by bit, also where threads share them."""
    function, prepared, dims = BATCHED[name]
    rng = np.random.default_rng(len(name))
    x = rng.standard_normal((2, 4, *dims)) + (1j * rng.standard_normal((2, 4, *dims)) if dtype is np.complex64 else 0)
    x = prepared(x.astype(dtype)).astype(dtype)
    single = xla_wasm.load(xla_wasm.compile(module_of(function, x[0, 0])))
    batch = xla_wasm.load(xla_wasm.compile(module_of(function, x), xla_wasm.Options(threads=True)), threads=2)
    whole = batch.run(x)
    for i in np.ndindex(2, 4):
        for part, result in zip(single.run(x[i]), whole, strict=True):
            np.testing.assert_array_equal(result[i], part)
