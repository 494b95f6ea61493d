"""The shipped model, end to end under wasmtime: JAX's answers on every held-out image. And the modules with which the
page trains."""

from __future__ import annotations

import gzip
import importlib
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import wasmtime

import xla_wasm
from tests.support.paths import ROOT
from xla_wasm.site import pages

DIGITS = ROOT / "examples" / "digits"
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


PAGE = {model.name: model for model in pages.MODELS if model.folder == "digits"}


@pytest.fixture(scope="module")
def functions(monkeypatch_module: pytest.MonkeyPatch) -> Any:
    """The JAX functions that the modules of the page were lowered from."""
    monkeypatch_module.syspath_prepend(str(DIGITS))
    return importlib.import_module("page")


@pytest.fixture(scope="module")
def monkeypatch_module() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


def test_the_page_has_the_images_that_training_uses() -> None:
    from sklearn.datasets import load_digits

    content = np.frombuffer(gzip.decompress((pages.site() / "demo" / "digits" / "images.bin").read_bytes()), np.uint8)
    pixels, labels = content[: 1797 * 64].reshape(1797, 8, 8), content[1797 * 64 :]
    np.testing.assert_array_equal(pixels[1437:], IMAGES[:, 0, :, :, 0] * 16)
    np.testing.assert_array_equal(labels[1437:], LABELS)
    data = load_digits()
    known = sorted(
        image.tobytes() + bytes([label]) for image, label in zip(data.images.astype(np.uint8), data.target, strict=True)
    )
    assert sorted(image.tobytes() + bytes([label]) for image, label in zip(pixels, labels, strict=True)) == known


def test_the_files_of_the_page_hold_no_path_of_a_machine() -> None:
    for model in pages.MODELS:
        assert not re.search(rb"(?<![\w.-])/[\w./-]+\.py", model.source.read_bytes()), model.name


@pytest.mark.parametrize("target", ["simd128", "relaxed-simd"])
def test_the_page_trains_as_jax_does(functions: Any, target: str) -> None:
    """Random weights, and some steps from them: weights, moments, key and losses are those of the same functions under
    JAX."""
    import jax

    def compiled(name: str) -> Any:
        return xla_wasm.load(pages.compiled(PAGE[name], target))

    key = np.array([0, 3], np.uint32)
    weights = jax.tree.map(np.asarray, functions.initial(key)["params"])
    initial, trainer, classifier = compiled("initial"), compiled("step"), compiled("classify")
    for leaf, value in zip(initial.results, initial.run(key), strict=True):
        name = leaf.name.removeprefix("params.")
        np.testing.assert_allclose(value, weights[name], rtol=1e-5, atol=1e-6)
        trainer.set(leaf.name, weights[name])
    trainer.set("key", key)

    state = [weights, *[jax.tree.map(np.zeros_like, weights)] * 2, np.float32(0), key]
    step = jax.jit(functions.step)
    order = np.random.default_rng(0)
    for _ in range(4):
        batch = order.permutation(len(IMAGES))[:64]
        pixels, labels = (IMAGES[batch, 0, :, :, 0] * 16).astype(np.uint8), LABELS[batch]
        expected = step(*state, pixels, labels, np.float32(1e-3))
        state = [expected[part] for part in ("params", "mean", "square", "count", "key")]
        (loss,) = trainer.run(pixels, labels, np.float32(1e-3))
        np.testing.assert_allclose(loss, expected["loss"], rtol=1e-4)
    for group, values in zip(("params", "mean", "square"), state):
        for name, value in values.items():
            # A gradient near zero may have either sign, and Adam takes a whole step either way: the norm tells, not the
            # worst element.
            got = trainer.get(f"{group}.{name}")
            assert np.linalg.norm(got - value) <= 2e-3 * np.linalg.norm(value) + 1e-6, f"{group}.{name}"
    np.testing.assert_array_equal(trainer.get("key"), state[-1])
    assert trainer.get("count") == 4

    for name, value in state[0].items():
        classifier.set(f"params.{name}", np.asarray(value))
    logits = np.concatenate([classifier.run(image)[0] for image in IMAGES[:40]])
    np.testing.assert_allclose(logits, functions.forward(state[0], IMAGES[:40, 0]), rtol=0, atol=1e-4)
