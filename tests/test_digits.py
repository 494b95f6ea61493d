"""The shipped model, end to end under wasmtime: JAX's answers on every held-out image."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import wasmtime

import xla_wasm

DIGITS = Path(__file__).parents[1] / "examples" / "digits"
IMAGES = np.load(DIGITS / "images.npy").astype(np.float32)[:, None, :, :, None] / 16
LABELS = np.load(DIGITS / "labels.npy")
LOGITS = np.load(DIGITS / "logits.npy")


@pytest.fixture(scope="module")
def module() -> xla_wasm.HloModule:
    return xla_wasm.HloModule.from_proto((DIGITS / "digits.hlo.pb").read_bytes())


def test_the_shipped_files_fit_together() -> None:
    assert IMAGES.shape == (360, 1, 8, 8, 1) and LABELS.shape == (360,) and LOGITS.shape == (360, 10)
    assert (LOGITS.dtype, LABELS.dtype) == (np.float32, np.uint8)
    assert (LOGITS.argmax(1) == LABELS).mean() > 0.97
    absolute_path = re.compile(rb"(?<![\w.-])/[\w./-]+\.py")
    assert not absolute_path.search((DIGITS / "digits.hlo.pb").read_bytes())


@pytest.mark.parametrize("target", ["simd128", "relaxed-simd"])
@pytest.mark.parametrize("tune", ["portable", "wasmtime", "v8"])
def test_the_compiled_model_answers_as_jax_does(module: xla_wasm.HloModule, target: str, tune: str) -> None:
    exe = xla_wasm.load(xla_wasm.compile(module, xla_wasm.Options(target=target, tune=tune)))
    logits = np.concatenate([exe.run(image)[0] for image in IMAGES])
    assert (logits.argmax(1) == LOGITS.argmax(1)).all()
    np.testing.assert_allclose(logits, LOGITS, rtol=0, atol=1e-4)


def test_the_evaluator_answers_as_jax_does(module: xla_wasm.HloModule) -> None:
    logits = np.concatenate([xla_wasm.evaluate(module, image)[0] for image in IMAGES[:24]])
    np.testing.assert_allclose(logits, LOGITS[:24], rtol=0, atol=1e-4)


def test_the_artifact_is_small_and_imports_nothing(module: xla_wasm.HloModule) -> None:
    artifact = xla_wasm.compile(module)
    weights = sum(i.shape.bytes for i in module.instructions() if i.opcode == "constant")
    assert len(artifact.wasm) + len(artifact.weights) <= 60_000 + weights
    compiled = wasmtime.Module(wasmtime.Engine(), artifact.wasm)  # wasmtime validates as it compiles
    assert [item.name for item in compiled.imports] == []
    assert {item.name for item in compiled.exports} >= {"memory", "run", "init"}
