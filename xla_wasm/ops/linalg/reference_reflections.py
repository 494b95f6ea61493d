"""Common parts of the NumPy semantics of factorisations."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import Array


def adjoint(a: Array) -> Array:
    """The conjugate transpose, without negative zeros for the imaginary parts of real numbers."""
    turned = np.swapaxes(a, -1, -2).conj()
    if turned.dtype.kind == "c":
        turned.imag += 0
    return turned


def reflection(x: Array) -> tuple[Any, Array, Any]:
    """(tau, v, beta) with v[0] = 1, for which (I - tau v v^H)^H x is beta times the first unit vector."""
    alpha, rest = x[0], np.linalg.norm(x[1:])
    v = np.concatenate(([1], x[1:])).astype(x.dtype)
    if rest == 0 and alpha.imag == 0:
        v[1:] = 0
        return x.dtype.type(0), v, alpha
    beta = -np.copysign(np.hypot(abs(alpha), rest), alpha.real)
    v[1:] /= alpha - beta
    return (beta - alpha) / beta, v, beta
