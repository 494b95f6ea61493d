"""The benchmarks run, on tiny sizes. What they measure is nobody's business here."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import xla_wasm
from benchmarks import node_host, suite
from benchmarks.__main__ import main
from benchmarks.models import Encoder, convolution, matmul
from benchmarks.wasmtime_host import Resident, peak

TINY = Encoder(blocks=2, width=16, heads=2, hidden=24, tokens=6)
SIZES = suite.Sizes(matmul=12, image=6, channels=4, encoder=TINY, gradient=TINY)


def test_matmul_and_convolution_are_what_they_say() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 12, 12), np.float32)
    (product,) = xla_wasm.evaluate(matmul(12), x, w)
    np.testing.assert_allclose(product, x @ w, rtol=1e-4, atol=1e-5)
    image, kernel = np.ones((1, 5, 5, 3), np.float32), np.ones((3, 3, 3, 3), np.float32)
    (counts,) = xla_wasm.evaluate(convolution(5, 3), image, kernel)
    assert counts[0, :, :, 0].tolist() == [[3 * r * c for c in (2, 3, 3, 3, 2)] for r in (2, 3, 3, 3, 2)]


def test_encoder_under_wasmtime_is_that_of_jax() -> None:
    module, weights = TINY.forward(), TINY.weights()
    artifact = xla_wasm.compile(module, xla_wasm.Options(weights=tuple(weights)))
    resident = Resident(artifact, [TINY.input()], weights)
    resident()
    np.testing.assert_allclose(resident.output(), np.asarray(TINY.apply(TINY.input(), TINY.tree())), rtol=1e-4, atol=1e-5)
    assert all(seconds >= 0 for _, seconds in resident.profile(2))


def test_onnx_encoder_is_the_same() -> None:
    model = onnx.load_model_from_string(TINY.onnx())
    (theirs,) = ReferenceEvaluator(model).run(None, {"x": TINY.input()})
    np.testing.assert_allclose(theirs, np.asarray(TINY.apply(TINY.input(), TINY.tree())), rtol=1e-4, atol=1e-5)


def test_peak_counts_its_operations() -> None:
    call, flops = peak()
    call()
    assert flops > 1e6


def test_whole_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "CACHE", tmp_path)
    # onnxruntime-web comes with ./build.sh bench, not with the tests.
    monkeypatch.setattr(node_host, "find_runtime", lambda: None)
    main(["--seconds", "0", "--runs", "2", "--warmup", "1", "--compiles", "1", "--output", str(tmp_path)], SIZES)
    rows = json.loads((tmp_path / "results.json").read_text())["rows"]
    hosts = {row["where"].split()[0] for row in rows}
    assert hosts == {"wasmtime", "Node", "Python"}
    assert all(row["seconds"] > 0 for row in rows[1:])
    table = (tmp_path / "results.md").read_text().splitlines()
    assert len(table) == len(rows) + 4
    assert len({line.count("|") for line in table[: len(rows) + 2]}) == 1
