"""NumPy semantics of matrix factorisations and solvers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...hlo.ir import Instruction
from ..arrays import Array, Value, wide


def _cholesky(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """Reads one triangle; a matrix that is not positive definite becomes NaN."""
    a, lower = wide(operands[0]), instr.attrs["lower"]
    size = a.shape[-1]
    a = np.tril(a) if lower else np.swapaxes(np.triu(a), -1, -2).conj()
    factor = np.zeros_like(a)
    for j in range(size):
        row = factor[..., j, :j]
        pivot = np.sqrt(a[..., j, j].real - np.sum(np.abs(row) ** 2, -1))
        factor[..., j, j] = np.where(pivot > 0, pivot, np.nan)
        rest = a[..., j + 1 :, j] - np.einsum("...ik,...k->...i", factor[..., j + 1 :, :j], row.conj())
        factor[..., j + 1 :, j] = rest / factor[..., j, j, None]
    bad = np.isnan(np.diagonal(factor, axis1=-2, axis2=-1).real).any(-1)
    factor = np.where(bad[..., None, None], np.nan, factor)
    return factor if lower else np.swapaxes(factor, -1, -2).conj()


def _triangular_solve(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """op(a) x = b or x op(a) = b, reading one triangle of `a` as stored."""
    a, b, options = wide(operands[0]), wide(operands[1]), instr.attrs["triangular_solve_options"]
    lower, unit = options.lower, options.unit_diagonal
    if options.transpose_a != "NO_TRANSPOSE":
        a, lower = np.swapaxes(a, -1, -2), not lower
    if options.transpose_a == "ADJOINT":
        a = a.conj()
    if options.left_side:
        return _substitute(a, b, lower, unit)
    x = _substitute(np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2), not lower, unit)
    return np.swapaxes(x, -1, -2)


def _substitute(a: Array, b: Array, lower: bool, unit: bool) -> Array:
    size = a.shape[-1]
    x = np.zeros_like(b)
    order = range(size) if lower else range(size - 1, -1, -1)
    for i in order:
        done = slice(0, i) if lower else slice(i + 1, size)
        row = b[..., i, :] - np.einsum("...k,...kn->...n", a[..., i, done], x[..., done, :])
        x[..., i, :] = row if unit else row / a[..., i, i, None]
    return x


EVALUATE: dict[str, Callable[[Instruction, list[Value], Any], Value]] = {"cholesky": _cholesky, "triangular-solve": _triangular_solve}
