"""Matrices for tests of linear algebra."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.closeness import Array
from xla_wasm.ops.dtypes import DTYPES

TYPES = ("f32", "f64", "c64", "c128")

each_type = pytest.mark.parametrize("dtype", TYPES)


def numbers(dtype: str, *dims: int, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(dims)
    return (x + 1j * rng.standard_normal(dims) if dtype[0] == "c" else x).astype(DTYPES[dtype])


def adjoint(a: Array) -> Array:
    return np.swapaxes(a, -1, -2).conj()
