"""NumPy semantics of eigenvalues, singular values, and the forms of matrices that show them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...hlo.ir import Instruction
from ..dtypes import Array, Value, wide
from .reference_reflections import adjoint, reflection


def _hermitian(a: Array, lower: bool) -> Array:
    """The matrices of which one triangle is given."""
    a = np.tril(a) if lower else adjoint(np.triu(a))
    diagonal = np.eye(a.shape[-1], dtype=bool)
    return np.where(diagonal, a.real, a + adjoint(np.tril(a, -1))).astype(a.dtype)


def _sytrd(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """Tridiagonal matrices similar to Hermitian ones: the triangle with the reflections in it, d, e, their factors, and
    info 0."""
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
                tau, v, beta = reflection(x[k + 1 :, k])
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


def _eigenvalues(w: Array, dtype: Any) -> list[Array]:
    """Complex eigenvalues as they are given: for real matrices in two parts."""
    return [w.astype(dtype)] if np.dtype(dtype).kind == "c" else [w.real.astype(dtype), w.imag.astype(dtype)]


def _geev(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """Eigenvalues, left and right eigenvectors of length 1 (or zeros), and info: -4 where the matrix is not finite."""
    a = wide(operands[0])
    words = instr.attrs["custom_call_target"].split("_")
    complex_type = np.result_type(a.dtype, np.complex64)
    w, info = np.zeros(a.shape[:-1], complex_type), np.zeros(a.shape[:-2], np.int32)
    left, right = np.zeros(a.shape, complex_type), np.zeros(a.shape, complex_type)
    for at in np.ndindex(*a.shape[:-2]):
        if not np.isfinite(a[at]).all():
            w[at], left[at], right[at] = [complex(np.nan, np.nan)] * 3
            info[at] = -4
            continue
        w[at], vectors = np.linalg.eig(a[at])
        if "right" in words:
            right[at] = vectors
        if "left" in words and len(a[at]):
            left[at] = _left_vectors(a[at], w[at])
    return *_eigenvalues(w, a.dtype), left, right, info


def _left_vectors(a: Array, w: Array) -> Array:
    """For each eigenvalue the vector that a, less the eigenvalue, takes nearest to 0; its greatest element is real."""
    vectors = np.stack([np.linalg.svd(a - value * np.eye(len(a)))[0][:, -1] for value in w], axis=-1)
    peak = np.argmax(np.abs(vectors), 0), np.arange(len(a))
    turned = vectors * (np.conj(vectors[peak]) / np.abs(vectors[peak]))
    turned.imag[peak] = 0
    return turned


def _gees(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """Schur form, Schur vectors (or zeros), eigenvalues, 0 for those that were selected, and info."""
    a = wide(operands[0])
    t, q = a.copy(), np.zeros_like(a)
    w, info = np.zeros(a.shape[:-1], np.result_type(a.dtype, np.complex64)), np.zeros(a.shape[:-2], np.int32)
    for at in np.ndindex(*a.shape[:-2]):
        if not np.isfinite(a[at]).all():
            t[at], q[at], w[at], info[at] = np.nan, np.nan, complex(np.nan, np.nan), a.shape[-1]
            continue
        t[at], vectors = _schur(a[at])
        w[at] = _eigenvalues_of_blocks(t[at])
        if instr.attrs["custom_call_target"].endswith("vectors"):
            q[at] = vectors
    return t, q, *_eigenvalues(w, a.dtype), np.zeros_like(info), info


def _schur(a: Array) -> tuple[Array, Array]:
    """QR iterations on the whole matrix, with one shift, or two for real matrices."""
    n, step = len(a), 1 if a.dtype.kind == "c" else 2
    t, q, end = a.copy(), np.eye(n, dtype=a.dtype), n
    small = np.finfo(a.dtype).eps * np.linalg.norm(a)
    for sweep in range(100 * n):
        for count in range(1, step + 1):
            if end >= count and np.linalg.norm(t[end - count : end, : end - count]) <= small:
                t[end - count : end, : end - count] = 0
                if count == 2:
                    _standardize(t, q, end - 2)
                end -= count
        if end <= 0:
            break
        block = t[:end, :end]
        shifts = np.linalg.eigvals(block[-2:, -2:])
        if sweep % 10 == 9:
            shifts = shifts + np.linalg.norm(block[-1, :-1])
        identity = np.eye(end, dtype=a.dtype)
        if step == 1:
            shifted = block - min(shifts, key=lambda s: abs(s - block[-1, -1])) * identity
        else:
            shifted = block @ block - np.sum(shifts).real * block + np.prod(shifts).real * identity
        _turn(t, q, 0, np.linalg.qr(shifted)[0])
    return t, q


def _turn(t: Array, q: Array, at: int, by: Array) -> None:
    """Replaces t by a similar matrix."""
    rows = slice(at, at + len(by))
    t[rows] = by.conj().T @ t[rows]
    t[:, rows] = t[:, rows] @ by
    q[:, rows] = q[:, rows] @ by
    if len(by) == 2 and at + 2 <= len(t) and abs(t[at + 1, at]) <= np.finfo(t.dtype).eps * np.abs(t[rows, rows]).max():
        t[at + 1, at] = 0


def _standardize(t: Array, q: Array, at: int) -> None:
    """Brings the block in rows `at` and the next into standard form."""
    _turn(t, q, at, _standard(t[at : at + 2, at : at + 2]))
    if t[at + 1, at] != 0:
        t[at, at] = t[at + 1, at + 1] = (t[at, at] + t[at + 1, at + 1]) / 2


def _standard(block: Array) -> Array:
    """The rotation that makes a real 2x2 matrix triangular, or its diagonal elements equal where its eigenvalues are a
    pair."""
    values, vectors = np.linalg.eig(block)
    if np.isrealobj(values):
        first = vectors[:, 0]
        return np.array([[first[0], -first[1]], [first[1], first[0]]])
    angle = np.arctan2(block[1, 1] - block[0, 0], block[0, 1] + block[1, 0]) / 2
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def _eigenvalues_of_blocks(t: Array) -> Array:
    """The diagonal of a triangular matrix, with pairs where a real one has blocks on it."""
    w = np.diagonal(t).astype(np.result_type(t.dtype, np.complex64))
    for i in range(len(t) - 1):
        if t[i + 1, i] != 0:
            part = np.sqrt(abs(t[i, i + 1])) * np.sqrt(abs(t[i + 1, i]))
            w[i : i + 2] = np.mean(np.diagonal(t)[i : i + 2]) + 1j * np.array([part, -part])
    return w


ROUTINES: dict[str, Callable[[Instruction, list[Value], Any], Value]] = {
    **{f"xla_wasm.sytrd_{triangle}": _sytrd for triangle in ("lower", "upper")},
    **{
        f"xla_wasm.syevd_{triangle}_{results}": _syevd
        for triangle in ("lower", "upper")
        for results in ("vectors", "values")
    },
    **{f"xla_wasm.gesdd_{form}_{results}": _gesdd for form in ("full", "reduced") for results in ("vectors", "values")},
    **{f"xla_wasm.geev_{results}": _geev for results in ("values", "left", "right", "left_right")},
    **{f"xla_wasm.gees_{results}": _gees for results in ("form", "vectors")},
}
"""Custom calls that the expansions of LAPACK's functions make, by target."""
