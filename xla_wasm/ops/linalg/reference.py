"""NumPy semantics of matrix factorisations and solvers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...hlo.ir import Instruction
from ..arrays import Array, Value, wide


def _cholesky(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """Reads one triangle; a matrix that is not positive definite becomes NaN."""
    return _factor(operands[0], instr.attrs["lower"])[0]


def _factor(a: Array, lower: bool) -> tuple[Array, Array]:
    """The factors, and for each the row, from 1, where its matrix proves not to be positive definite (0: nowhere)."""
    a = wide(a)
    size = a.shape[-1]
    a = np.tril(a) if lower else _adjoint(np.triu(a))
    factor = np.zeros_like(a)
    failed = np.zeros(a.shape[:-2], np.int32)
    for j in range(size):
        row = factor[..., j, :j]
        rest = a[..., j, j].real - np.sum(row.real**2 + row.imag**2, -1)
        failed = np.where((failed == 0) & ~(rest > 0), j + 1, failed)
        factor[..., j, j] = np.sqrt(rest)
        below = a[..., j + 1 :, j] - np.einsum("...ik,...k->...i", factor[..., j + 1 :, :j], row.conj())
        factor[..., j + 1 :, j] = below / factor[..., j, j, None]
    factor = np.where(failed[..., None, None] != 0, np.nan, factor)
    return factor if lower else _adjoint(factor), failed


def _adjoint(a: Array) -> Array:
    """The conjugate transpose, without negative zeros for the imaginary parts of real numbers."""
    turned = np.swapaxes(a, -1, -2).conj()
    if turned.dtype.kind == "c":
        turned.imag += 0
    return turned


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


def _potrf(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """The factor beside what the other triangle held, and the number of the row, from 1, where there is none (0: all is well)."""
    (a,) = operands
    lower = instr.attrs["custom_call_target"].endswith("lower")
    factor, info = _factor(a, lower)
    rows, columns = np.indices(a.shape[-2:])
    other = (columns > rows) if lower else (columns < rows)
    return np.where(other & (info == 0)[..., None, None], wide(a), factor), info


def _getrf(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """Gauss elimination with row exchanges: both factors in one array, pivots from 1, and the first column without one (0: none)."""
    a = wide(operands[0]).copy()
    *batch, m, n = a.shape
    pivots = np.zeros((*batch, min(m, n)), np.int32)
    info = np.zeros(batch, np.int32)
    for at in np.ndindex(*batch):
        x = a[at]
        for j in range(min(m, n)):
            size = np.abs(x[j:, j].real) + np.abs(x[j:, j].imag)
            p = j + int(np.argmax(np.where(np.isnan(size), -1, size)))
            pivots[at][j] = p + 1
            x[[j, p]] = x[[p, j]]
            if x[j, j] == 0:
                info[at] = info[at] or j + 1
            else:
                x[j + 1 :, j] /= x[j, j]
            x[j + 1 :, j + 1 :] -= np.outer(x[j + 1 :, j], x[j, j + 1 :])
    return a, pivots, info


def _geqrf(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """R, and below it the vectors v of the reflections I - tau v v^H (with v[0] = 1) whose product is Q; their factors tau."""
    a = wide(operands[0]).copy()
    *batch, m, n = a.shape
    taus = np.zeros((*batch, min(m, n)), a.dtype)
    for at in np.ndindex(*batch):
        for j in range(min(m, n)):
            x = a[at][j:, j]
            alpha, rest = x[0], np.linalg.norm(x[1:])
            if rest == 0 and alpha.imag == 0:
                continue
            beta = -np.copysign(np.hypot(abs(alpha), rest), alpha.real)
            tau = taus[at][j] = (beta - alpha) / beta
            v = np.concatenate(([1], x[1:] / (alpha - beta)))
            a[at][j:, j + 1 :] -= tau.conj() * np.outer(v, v.conj() @ a[at][j:, j + 1 :])
            x[0], x[1:] = beta, v[1:]
    return a, taus


def _orgqr(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """The first columns of the product of the reflections that lie in the columns of the operand."""
    a, taus = map(wide, operands)
    *batch, m, n = a.shape
    result = np.zeros_like(a)
    for at in np.ndindex(*batch):
        q = np.eye(m, n, dtype=a.dtype)
        for j in reversed(range(taus.shape[-1])):
            v = np.concatenate((np.zeros(j), [1], a[at][j + 1 :, j]))
            q -= taus[at][j] * np.outer(v, v.conj() @ q)
        result[at] = q
    return result


def _reflection(x: Array) -> tuple[Any, Array, Any]:
    """(tau, v, beta) with v[0] = 1, for which (I - tau v v^H)^H x is beta times the first unit vector."""
    alpha, rest = x[0], np.linalg.norm(x[1:])
    v = np.concatenate(([1], x[1:])).astype(x.dtype)
    if rest == 0 and alpha.imag == 0:
        v[1:] = 0
        return x.dtype.type(0), v, alpha
    beta = -np.copysign(np.hypot(abs(alpha), rest), alpha.real)
    v[1:] /= alpha - beta
    return (beta - alpha) / beta, v, beta


def _hermitian(a: Array, lower: bool) -> Array:
    """The matrices of which one triangle is given."""
    a = np.tril(a) if lower else _adjoint(np.triu(a))
    diagonal = np.eye(a.shape[-1], dtype=bool)
    return np.where(diagonal, a.real, a + _adjoint(np.tril(a, -1))).astype(a.dtype)


def _sytrd(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """Tridiagonal matrices similar to Hermitian ones: the triangle with the reflections in it, d, e, their factors, and info 0."""
    a = wide(operands[0])
    lower = instr.attrs["custom_call_target"].endswith("lower")
    *batch, n, _ = a.shape
    turn = slice(None) if lower else slice(None, None, -1)
    whole = _hermitian(a, lower)[..., turn, turn]
    result, real = a.copy(), a.real.dtype
    d, e, taus = np.zeros((*batch, n), real), np.zeros((*batch, n - 1), real), np.zeros((*batch, n - 1), a.dtype)
    for at in np.ndindex(*batch):
        x, stored = whole[at], result[at][turn, turn]
        for k in range(n):
            d[at][k] = stored[k, k] = x[k, k].real
            if k < n - 1:
                tau, v, beta = _reflection(x[k + 1 :, k])
                taus[at][k], e[at][k] = tau, beta.real
                stored[k + 1 :, k] = v
                stored[k + 1, k] = beta
                h = np.eye(len(v)) - tau * np.outer(v, v.conj())
                x[k + 1 :, k + 1 :] = h.conj().T @ x[k + 1 :, k + 1 :] @ h
    return result, d[..., turn], e[..., turn], taus[..., turn], np.zeros(batch, np.int32)


def _syevd(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """Eigenvectors (or the operand as it is), eigenvalues in ascending order, and info: not 0 where there are none."""
    a = wide(operands[0])
    _, triangle, results = instr.attrs["custom_call_target"].split("_")[-3:]
    matrices = _hermitian(a, triangle == "lower")
    vectors, values = a.copy(), np.zeros(a.shape[:-1], a.real.dtype)
    info = np.zeros(a.shape[:-2], np.int32)
    for at in np.ndindex(*a.shape[:-2]):
        if not np.isfinite(matrices[at]).all():
            values[at], info[at] = np.nan, a.shape[-1]
            vectors[at] = np.nan
            continue
        w, v = np.linalg.eigh(matrices[at])
        values[at] = w
        if results == "vectors":
            vectors[at] = v
    return vectors, values, info


def _gesdd(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """Singular values in descending order, both sides' vectors (or zeros), and info: not 0 where there are none."""
    a = wide(operands[0])
    _, form, results = instr.attrs["custom_call_target"].split("_")[-3:]
    *batch, m, n = a.shape
    k = min(m, n)
    s, info = np.zeros((*batch, k), a.real.dtype), np.zeros(batch, np.int32)
    u = np.zeros((*batch, m, m if form == "full" else k), a.dtype)
    vt = np.zeros((*batch, n if form == "full" else k, n), a.dtype)
    for at in np.ndindex(*batch):
        if not np.isfinite(a[at]).all():
            s[at], info[at] = np.nan, -4 if np.isnan(a[at]).any() else k
            u[at], vt[at] = np.nan, np.nan
        elif results == "vectors":
            u[at], s[at], vt[at] = np.linalg.svd(a[at], form == "full")
        else:
            s[at] = np.linalg.svd(a[at], compute_uv=False)
    return s, u, vt, info


EVALUATE: dict[str, Callable[[Instruction, list[Value], Any], Value]] = {"cholesky": _cholesky, "triangular-solve": _triangular_solve}

ROUTINES: dict[str, Callable[[Instruction, list[Value], Any], Value]] = {
    "xla_wasm.potrf_lower": _potrf,
    "xla_wasm.potrf_upper": _potrf,
    "xla_wasm.getrf": _getrf,
    "xla_wasm.geqrf": _geqrf,
    "xla_wasm.orgqr": _orgqr,
    **{f"xla_wasm.sytrd_{triangle}": _sytrd for triangle in ("lower", "upper")},
    **{f"xla_wasm.syevd_{triangle}_{results}": _syevd for triangle in ("lower", "upper") for results in ("vectors", "values")},
    **{f"xla_wasm.gesdd_{form}_{results}": _gesdd for form in ("full", "reduced") for results in ("vectors", "values")},
}
"""Custom calls that the expansions of LAPACK's functions make, by target."""
