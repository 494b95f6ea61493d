"""Samples of matrix factorisations and solvers: small integers and powers of two, so that every order of computing is
exact."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from ...hlo.attrs import TriangularSolveOptions
from ..dtypes import DTYPES, Array
from ..sample import Sample, array, bf16, case, f16, f32, f64, inf, nan

_ZERO_LAST = "XLA:CPU makes only the last element NaN where only the last pivot is 0"
_OVERFLOW = "XLA:CPU makes NaN of an infinite pivot"
_INVERTED = "XLA:CPU multiplies by the inverse of the triangle, which has no finite element here"
_DIAGONAL = "XLA:CPU keeps imaginary parts that a Hermitian matrix does not have"


def _factor(name: str, operand: Array, expected: Array, *, lower: bool = True, ulp: float = 0, xla: str = "") -> Sample:
    return case("cholesky", [operand], expected, name=name, lower=lower, ulp=ulp, xla=xla)


def _integers(size: int, step: int) -> Array:
    """A lower triangle of small odd integers with powers of two on the diagonal."""
    values = np.tril((np.arange(size * size).reshape(size, size) * step) % 7 - 3)
    np.fill_diagonal(values, 2 ** (np.arange(size) % 3))
    return values.astype(np.float64)


def _large(dtype: str, size: int, lower: bool) -> Sample:
    """More than one block; the triangle that is not read is NaN."""
    factor = _integers(size, 5).astype(DTYPES[dtype])
    if dtype[0] == "c":
        factor += 1j * np.tril(_integers(size, 3), -1)
    matrix = factor @ factor.conj().T
    unread = np.triu(np.ones((size, size)), 1) if lower else np.tril(np.ones((size, size)), -1)
    expected = factor if lower else factor.conj().T
    expected = np.where(unread != 0, 0, expected + 0).astype(DTYPES[dtype])
    return _factor(
        f"{size}x{size}, {'lower' if lower else 'upper'}",
        np.where(unread != 0, nan, matrix).astype(DTYPES[dtype]),
        expected,
        lower=lower,
    )


_CHOLESKY = (
    _factor("lower", f32([[4, nan], [2, 10]]), f32([[2, 0], [1, 3]])),
    _factor("upper", f32([[4, 2], [nan, 10]]), f32([[2, 1], [0, 3]]), lower=False),
    _factor("1x1", f64([[9]]), f64([[3]])),
    _factor("no rows", np.zeros((2, 0, 0), np.float32), np.zeros((2, 0, 0), np.float32)),
    _factor("no matrices", np.zeros((0, 2, 2), np.float64), np.zeros((0, 2, 2), np.float64)),
    _factor("not rounded twice", f32([[2, 0], [3, 7]]), f32([[2**0.5, 0], [3 / 2**0.5, 2.5**0.5]]), ulp=2),
    _factor(
        "one of a batch is not positive definite",
        f64([[[1, 2], [2, 1]], [[16, 8], [8, 5]]]),
        f64([[[nan, nan], [nan, nan]], [[4, 0], [2, 1]]]),
    ),
    _factor("negative", f32([[-1, 0], [0, 1]]), f32([[nan, nan], [nan, nan]])),
    _factor("first pivot 0", f32([[0, 0], [0, 1]]), f32([[nan, nan], [nan, nan]])),
    _factor("last pivot 0", f32([[1, 1], [1, 1]]), f32([[nan, nan], [nan, nan]]), xla=_ZERO_LAST),
    _factor("NaN", f32([[1, 0], [nan, 1]]), f32([[nan, nan], [nan, nan]])),
    _factor("infinity", f32([[inf, 0], [0, 4]]), f32([[inf, 0], [0, 2]]), xla=_OVERFLOW),
    _factor("", f16([[4, 0], [2, 10]]), f16([[2, 0], [1, 3]])),
    _factor("", bf16([[4, 0], [2, 10]]), bf16([[2, 0], [1, 3]])),
    _factor("", array("c64", [[4, nan], [2 + 2j, 11]]), array("c64", [[2, 0], [1 + 1j, 3]])),
    _factor("upper", array("c128", [[4, 2 - 2j], [nan, 11]]), array("c128", [[2, 1 - 1j], [0, 3]]), lower=False),
    _factor("imaginary diagonal", array("c64", [[4 + 3j]]), array("c64", [[2]]), xla=_DIAGONAL),
    *(
        _large(dtype, size, lower)
        for (dtype, size) in (("f32", 19), ("f64", 13), ("c64", 11), ("c128", 6))
        for lower in (True, False)
    ),
)


def _op(a: Array, transpose: str) -> Array:
    turned = a if transpose == "NO_TRANSPOSE" else np.swapaxes(a, -1, -2)
    return turned.conj() if transpose == "ADJOINT" else turned


def _solve(
    name: str, a: Array, b: Array, expected: Array, transpose: str = "NO_TRANSPOSE", *, xla: str = "", **flags: Any
) -> Sample:
    options = TriangularSolveOptions(**({"left_side": True, "lower": True} | flags), transpose_a=transpose)
    return case("triangular-solve", [a, b], expected, name=name, xla=xla, triangular_solve_options=options)


def _combination(
    dtype: str, left: bool, lower: bool, unit: bool, transpose: str, size: int, batch: tuple[int, ...] = ()
) -> Sample:
    """One combination of the flags; what must not be read is NaN."""
    dims = (*batch, size, size)
    numbers = np.arange(np.prod(dims)).reshape(dims)
    triangle = (numbers * 5 % 7 - 3).astype(DTYPES[dtype])
    x = (
        ((np.arange(np.prod(batch, dtype=int) * size * 3) * 4 % 11) - 5)
        .astype(DTYPES[dtype])
        .reshape(*batch, *((size, 3) if left else (3, size)))
    )
    if dtype[0] == "c":
        triangle = triangle + (numbers * 3 % 5 - 2) * 1j
        x = x + 1j
    keep = np.tril(np.ones((size, size)), -1) if lower else np.triu(np.ones((size, size)), 1)
    diagonal = np.diag(np.ones(size) if unit else 2.0 ** (np.arange(size) % 3 - 1))
    whole = (np.where(keep != 0, triangle, 0) + diagonal).astype(triangle.dtype)
    stored = np.where(keep + (0 if unit else np.eye(size)) != 0, whole, nan).astype(DTYPES[dtype])
    b = _op(whole, transpose) @ x if left else x @ _op(whole, transpose)
    sides = (
        f"{'left' if left else 'right'} {'lower' if lower else 'upper'} "
        f"{'unit ' if unit else ''}{transpose.lower()} {size}"
    )
    return _solve(
        sides,
        stored,
        b.astype(DTYPES[dtype]),
        (x + 0).astype(DTYPES[dtype]),
        transpose,
        left_side=left,
        lower=lower,
        unit_diagonal=unit,
    )


_BOOLEANS = (True, False)
_SOLVE = (
    *(
        _combination("f32", left, lower, unit, transpose, 4)
        for left, lower, unit, transpose in product(
            _BOOLEANS, _BOOLEANS, _BOOLEANS, ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")
        )
    ),
    *(
        _combination("c64", left, lower, False, transpose, 3)
        for left, lower, transpose in product(_BOOLEANS, _BOOLEANS, ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"))
    ),
    _combination("f64", True, True, False, "NO_TRANSPOSE", 3, (2, 2)),
    _combination("c128", False, False, True, "ADJOINT", 3, (2,)),
    _combination("f16", True, False, False, "NO_TRANSPOSE", 2),
    _combination("bf16", False, True, False, "TRANSPOSE", 2),
    _solve("no rows", np.zeros((0, 0), np.float32), np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32)),
    _solve("nothing to solve for", f32([[2, 0], [0, 2]]), np.zeros((2, 0), np.float32), np.zeros((2, 0), np.float32)),
    _solve("singular", f32([[0, 0], [0, 1]]), f32([[1, 0], [3, 4]]), f32([[inf, nan], [nan, nan]]), xla=_INVERTED),
    _solve("not square on the right", f32([[2, nan], [4, 1]]), f32([[8, 2]]), f32([[0, 2]]), left_side=False),
)

SAMPLES: tuple[Sample, ...] = (*_CHOLESKY, *_SOLVE)
