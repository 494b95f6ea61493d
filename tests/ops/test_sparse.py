"""Products of sparse matrices as JAX has them."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from jax.experimental import sparse

import xla_wasm.jax
from tests.support.differential import run
from xla_wasm.reference import evaluate

SHAPE = (5, 4)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.complex64])
@pytest.mark.parametrize("columns", [None, 3])
def test_compressed_rows(dtype: Any, columns: int | None) -> None:
    """Empty rows first, last and between, and room for more values than there are."""
    matrix = np.zeros(SHAPE, dtype)
    matrix[1], matrix[3] = (1, 0, -2, 3), (0, 4, 0, 0)
    right = (np.arange(4 * (columns or 1)).reshape((4, columns) if columns else 4) - 3).astype(dtype)
    for nse in (4, 7):
        stored = sparse.BCSR.fromdense(matrix, nse=nse)
        arrays = [np.asarray(a) for a in (stored.data, stored.indices, stored.indptr, right)]

        def product(data: Any, indices: Any, starts: Any, right: Any) -> jax.Array:
            return sparse.BCSR((data, indices, starts), shape=SHAPE) @ right

        module = xla_wasm.jax.lower(product, *arrays)
        for result in (run(module, *arrays)[0], evaluate(module, *arrays)[0]):
            np.testing.assert_array_equal(result, matrix @ right)


def test_without_values() -> None:
    def product(data: Any, indices: Any, starts: Any, right: Any) -> jax.Array:
        return sparse.BCSR((data, indices, starts), shape=SHAPE) @ right

    arrays = (np.zeros(0, np.float32), np.zeros(0, np.int32), np.zeros(6, np.int32), np.ones(4, np.float32))
    np.testing.assert_array_equal(run(xla_wasm.jax.lower(product, *arrays), *arrays)[0], np.zeros(5))
