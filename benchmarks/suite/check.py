"""The errors of contestants' results, against the expected ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from .workload import Array, Order

TYPES = {"bfloat16": ml_dtypes.bfloat16}
SMALL_FLOATS = {np.dtype(ml_dtypes.bfloat16): np.dtype(np.uint16), np.dtype(np.float16): np.dtype(np.uint16)}


def error(results: Sequence[Any], expected: Sequence[Array], order: Order | None = None) -> float:
    """The largest error of any result: relative to the largest value of its array for floats; infinite where anything
    else differs.

    `results` are files with their types, in the dimension order `order` of the expected arrays.
    """
    if len(results) != len(expected):
        return float("inf")
    ordered = (wanted if order is None else wanted.transpose(order) for wanted in expected)
    return max((_error(entry, wanted) for entry, wanted in zip(results, ordered)), default=0.0)


def _error(entry: Any, wanted: Array) -> float:
    data = Path(entry["path"]).read_bytes()
    given = np.frombuffer(data, TYPES.get(entry["type"], entry["type"]))
    wanted = np.ascontiguousarray(wanted).reshape(-1)
    if given.dtype == SMALL_FLOATS.get(wanted.dtype):
        given = given.view(wanted.dtype)  # JavaScript has their bits
    if wanted.dtype.kind == "c":
        wanted = wanted.view(np.float64 if wanted.dtype == np.complex128 else np.float32)
        given = given.view(np.float32) if given.dtype.kind == "c" else given
    if given.shape != wanted.shape:
        return float("inf")
    if wanted.dtype.kind in "iub":  # of any number of bits
        return 0.0 if np.array_equal(given, wanted) else float("inf")
    exact, made = wanted.astype(np.float64), given.astype(np.float64)
    finite = np.isfinite(exact)
    if not np.array_equal(exact[~finite], made[~finite], equal_nan=True):
        return float("inf")
    worst = np.abs(made[finite] - exact[finite]).max(initial=0.0)
    scale = np.abs(exact[finite]).max(initial=0.0)
    if worst == 0:
        return 0.0
    return float("inf") if np.isnan(worst) or scale == 0 else float(worst / scale)
