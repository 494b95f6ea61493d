"""result_accuracy: taken wherever it stands, and heeded where it asks for the most exact result."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.differential import run
from xla_wasm.builder import XlaBuilder
from xla_wasm.hlo.attrs import ResultAccuracy
from xla_wasm.hlo.shape import Shape
from xla_wasm.ops.table import OPS
from xla_wasm.reference import evaluate

ACCURACIES = (ResultAccuracy("highest"), ResultAccuracy("default"), ResultAccuracy("", 1e-3, 1e-3))
WITH_ACCURACY = sorted(o for o, op in OPS.items() if any(a.name == "result_accuracy" for a in op.attrs))


@pytest.mark.parametrize("opcode", WITH_ACCURACY)
@pytest.mark.parametrize("accuracy", ACCURACIES, ids=lambda a: a.mode)
def test_functions(opcode: str, accuracy: ResultAccuracy) -> None:
    """In the highest mode results are those of f64, rounded."""
    b = XlaBuilder("main")
    module = b.module(b.op(opcode, b.Parameter(0, Shape("f32", (2000,))), result_accuracy=accuracy))
    low, high = {"acosh": (1, 9), "acos": (-1, 1), "asin": (-1, 1), "atanh": (-1, 1)}.get(opcode, (1e-3, 9))
    x = np.linspace(low, high, 2000).astype(np.float32)
    result = run(module, x)[0].astype(np.float64)
    (true,) = evaluate(module, x, precision="f64")
    with np.errstate(invalid="ignore"):
        off = np.abs(result - true) / np.spacing(np.abs(true).astype(np.float32))
    off = off[np.isfinite(true) & (true != 0)]
    assert off.max() <= (0.501 if accuracy.mode == "highest" else 2.5)
