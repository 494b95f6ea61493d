"""NumPy semantics of matrix factorisations and solvers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...hlo.ir import Instruction
from ..dtypes import Array, Value, wide
from .reference_reflections import adjoint, reflection
from .reference_spectral import ROUTINES as SPECTRAL


def _cholesky(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """Reads one triangle; a matrix that is not positive definite becomes NaN."""
    return _factor(operands[0], instr.attrs["lower"])[0]


def _factor(a: Array, lower: bool) -> tuple[Array, Array]:
    """The factors, and for each the row, from 1, where its matrix proves not to be positive definite (0: nowhere)."""
    a = wide(a)
    size = a.shape[-1]
    a = np.tril(a) if lower else adjoint(np.triu(a))
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
    return factor if lower else adjoint(factor), failed


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
    """The factor beside what the other triangle held, and the number of the row, from 1, where there is none (0: all is
    well)."""
    (a,) = operands
    lower = instr.attrs["custom_call_target"].endswith("lower")
    factor, info = _factor(a, lower)
    rows, columns = np.indices(a.shape[-2:])
    other = (columns > rows) if lower else (columns < rows)
    return np.where(other & (info == 0)[..., None, None], wide(a), factor), info


def _getrf(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """Gauss elimination with row exchanges: both factors in one array, pivots from 1, and the first column without one
    (0: none)."""
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
    """R, and below it the vectors v of the reflections I - tau v v^H (with v[0] = 1) whose product is Q; their factors
    tau."""
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


def _geqp3(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """QR of columns in the order of what is left of each, those that the second operand names before them; their
    numbers from 1."""
    a, wanted = wide(operands[0]).copy(), operands[1]
    *batch, m, n = a.shape
    pivots = np.zeros(wanted.shape, np.int32)
    taus = np.zeros((*batch, min(m, n)), a.dtype)
    for at in np.ndindex(*batch):
        order, fixed = list(range(n)), 0
        for j in np.flatnonzero(wanted[at]):
            order[j], order[fixed], fixed = order[fixed], order[j], fixed + 1
        x = a[at]
        x[:] = x[:, order]
        for i in range(min(m, n)):
            if i >= fixed:
                best = i + int(np.argmax(np.nan_to_num(np.linalg.norm(x[i:, i:], axis=0))))
                x[:, [i, best]] = x[:, [best, i]]
                order[i], order[best] = order[best], order[i]
            tau, v, beta = reflection(x[i:, i])
            taus[at][i] = tau
            x[i:, i + 1 :] -= np.conj(tau) * np.outer(v, v.conj() @ x[i:, i + 1 :])
            x[i, i], x[i + 1 :, i] = beta, v[1:]
        pivots[at] = np.array(order) + 1
    return a, pivots, taus


def _ormqr(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """The product of a matrix with a product of reflections, or with its adjoint."""
    a, taus, c = map(wide, operands)
    _, side, form = instr.attrs["custom_call_target"].split("_")[-3:]
    *batch, m, _ = a.shape
    result = np.zeros_like(c)
    for at in np.ndindex(*batch):
        q = np.eye(m, dtype=a.dtype)
        for j, tau in enumerate(taus[at]):
            v = np.concatenate((np.zeros(j), [1], a[at][j + 1 :, j]))
            q = q - tau * np.outer(q @ v, v.conj())
        q = q if form == "itself" else q.conj().T
        result[at] = q @ c[at] if side == "left" else c[at] @ q
    return result


def _gehrd(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """Hessenberg matrices similar to the operand's, the reflections below them, their factors, and info 0."""
    a = wide(operands[0]).copy()
    *batch, n, _ = a.shape
    taus = np.zeros((*batch, max(n - 1, 0)), a.dtype)
    for at in np.ndindex(*batch):
        x = a[at]
        for k in range(n - 1):
            tau, v, beta = reflection(x[k + 1 :, k])
            taus[at][k] = tau
            x[:, k + 1 :] -= tau * np.outer(x[:, k + 1 :] @ v, v.conj())
            x[k + 1 :, k + 1 :] -= np.conj(tau) * np.outer(v, v.conj() @ x[k + 1 :, k + 1 :])
            x[k + 1, k], x[k + 2 :, k] = beta, v[1:]
    return a, taus, np.zeros(batch, np.int32)


def _gtsv(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """Gauss elimination with exchanges of rows: the three diagonals of U above each other, the solution, and the first
    pivot that is 0."""
    dl, d, du, x = (wide(o).copy() for o in operands)
    *batch, n, _ = x.shape
    info = np.zeros(batch, np.int32)
    for at in np.ndindex(*batch):
        under, p, over, y = dl[at][1:], d[at], du[at], x[at]
        for i in range(n - 1):
            if abs(p[i].real) + abs(p[i].imag) >= abs(under[i].real) + abs(under[i].imag):
                if p[i] == 0:
                    break
                f, far = under[i] / p[i], 0
                p[i + 1] -= f * over[i]
            else:
                f, far = p[i] / under[i], over[i + 1] if i < n - 2 else under[i]
                p[i], p[i + 1], over[i] = under[i], over[i] - f * p[i + 1], p[i + 1]
                if i < n - 2:
                    over[i + 1] *= -f
                y[[i, i + 1]] = y[[i + 1, i]]
            if i < n - 2:
                under[i] = far
            y[i + 1] -= f * y[i]
        zero = np.flatnonzero(p == 0)
        info[at] = zero[0] + 1 if len(zero) else 0
        for i in range(n - 1, -1, -1):
            if not len(zero):
                y[i] -= (over[i] * y[i + 1] if i < n - 1 else 0) + (under[i] * y[i + 2] if i < n - 2 else 0)
                y[i] /= p[i]
    return dl, d, du, x, info


def _gtsv_perturbed(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """The same by pivots that are large in their rows, those near 0 moved away from it by an amount of the order of
    rounding."""
    dl, d, du, b = map(wide, operands)
    *batch, n, _ = b.shape
    result = b.copy()
    for at in np.ndindex(*batch):
        u, x = np.zeros((n, 3), b.dtype), result[at]
        if n == 0:
            continue
        u[0, 0], u[0, 1] = d[at][0], du[at][0] if n > 1 else 0
        size = np.sum(np.abs(u[0]))
        for k in range(n - 1):
            row = np.array([dl[at][k + 1], d[at][k + 1], du[at][k + 1] if k < n - 2 else 0])
            row_size = np.sum(np.abs(row))
            if row[0] == 0 or abs(row[0]) / row_size <= (abs(u[k, 0]) / size if u[k, 0] else 0):
                f = row[0] / u[k, 0] if row[0] else 0
                u[k + 1, :2] = row[1] - f * u[k, 1], row[2]
                size = row_size
            else:
                f = u[k, 0] / row[0]
                u[k + 1, :2] = u[k, 1] - f * row[1], -f * row[2]
                u[k] = row
                x[[k, k + 1]] = x[[k + 1, k]]
                size = np.sum(np.abs(u[k + 1]))
            x[k + 1] -= f * x[k]
        by = np.finfo(b.dtype).eps * np.max(np.abs(u))
        for i in range(n - 1, -1, -1):
            x[i] -= (u[i, 1] * x[i + 1] if i < n - 1 else 0) + (u[i, 2] * x[i + 2] if i < n - 2 else 0)
            x[i] /= _perturbed(u[i, 0], by, x[i])
    return result


def _perturbed(pivot: Any, by: Any, row: Array) -> Any:
    """A pivot by which a row, scaled if need be, can be divided without overflow."""
    low = np.finfo(row.dtype).tiny
    by, most = np.copysign(max(by, low), pivot.real), np.max(np.abs(row), initial=0)
    while (size := abs(pivot)) < 1:
        if 0 < size < low and most * low <= size:
            row *= 1 / low
            return pivot * (1 / low)
        if size >= low and most <= size / low:
            break
        pivot, by = pivot + by, 2 * by
    return pivot


EVALUATE: dict[str, Callable[[Instruction, list[Value], Any], Value]] = {
    "cholesky": _cholesky,
    "triangular-solve": _triangular_solve,
}

ROUTINES: dict[str, Callable[[Instruction, list[Value], Any], Value]] = {
    "xla_wasm.potrf_lower": _potrf,
    "xla_wasm.potrf_upper": _potrf,
    "xla_wasm.getrf": _getrf,
    "xla_wasm.geqrf": _geqrf,
    "xla_wasm.orgqr": _orgqr,
    "xla_wasm.geqp3": _geqp3,
    **{f"xla_wasm.ormqr_{side}_{form}": _ormqr for side in ("left", "right") for form in ("itself", "adjoint")},
    "xla_wasm.gehrd": _gehrd,
    "xla_wasm.gtsv": _gtsv,
    "xla_wasm.gtsv_perturbed": _gtsv_perturbed,
    **SPECTRAL,
}
"""Custom calls that the expansions of LAPACK's functions make, by target."""
