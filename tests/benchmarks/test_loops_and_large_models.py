"""The suite's loops, its models that keep states and those that write text, at sizes at which each case is quick."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import xla_wasm
from benchmarks.suite import contestants, large, loops
from benchmarks.suite.contestants import RELAXED, WASMTIME
from benchmarks.suite.driver import Driver, Effort
from benchmarks.suite.workload import Workload

BERT = large.Bert(tokens=6, masked=2, blocks=2, width=16, heads=2, hidden=24, vocabulary=31, positions=8)
WHISPER = large.Whisper(
    frames=5, tokens=7, blocks=2, layers=2, width=16, heads=2, hidden=24, bands=4, vocabulary=31, positions=8, end=31
)
LOOPS = (
    loops.logistic("logistic", 37),
    loops.subsequence("subsequence", 13),
    loops.string("string", 250),
    loops.counting("counting", 1000),
    loops.follower("follower", 70),
)
KEPT = large.training("kept", BERT)
WRITTEN = large.writing("written", WHISPER)


def error(given: Sequence[Any], wanted: Sequence[Any]) -> float:
    """The largest error relative to the largest of its array."""
    for array, other in zip(given, wanted, strict=True):
        assert np.shape(array) == np.shape(other) and np.asarray(array).dtype.kind == np.asarray(other).dtype.kind
    pairs = [(np.asarray(a, np.float64), np.asarray(b, np.float64)) for a, b in zip(given, wanted)]
    return max(float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30)) for a, b in pairs)


@pytest.mark.parametrize("target", ["simd128", "relaxed-simd"])
@pytest.mark.parametrize("workload", LOOPS, ids=lambda workload: workload.name)
def test_loops(workload: Workload, target: str) -> None:
    """In NumPy's float64, in XLA and compiled."""
    expected = workload.expected()
    theirs = jax.tree.leaves(jax.jit(workload.function)(*workload.arguments()))
    ours = xla_wasm.load(contestants.compiled(workload, target, "portable")).run(*workload.arguments())
    assert error(theirs, expected) <= workload.tolerance and error(ours, expected) <= workload.tolerance


@pytest.mark.parametrize("workload", [w for w in LOOPS if w.onnx], ids=lambda workload: workload.name)
def test_loops_of_onnx(workload: Workload) -> None:
    model = onnx.load_model_from_string(contestants.onnx_models(workload)[0])
    theirs = ReferenceEvaluator(model).run(None, dict(workload.given[0]))
    expected = workload.expected()
    # What the loop has gathered has a dimension more in this evaluator than onnxruntime gives it.
    shaped = [np.reshape(array, np.shape(other)) for array, other in zip(theirs, expected, strict=True)]
    assert error(shaped, expected) <= workload.tolerance


def test_both_branches_of_the_scan_are_taken() -> None:
    _, made = loops.follower("scan_cond_100k", 5000).expected()
    share = np.mean(np.diff(made) > 0)
    assert 0.1 < share < 0.6


def test_a_text_is_compared_in_all_places() -> None:
    table = loops.subsequence("lcs_300x300", 60).expected()[0]
    assert table[-1, -1] > 30 and (np.diff(table) >= 0).all() and (np.diff(table, axis=0) >= 0).all()


def test_steps_of_training_change_the_states() -> None:
    """Three calls are three steps, and the loss falls; the weights go where XLA's go."""
    workload = KEPT
    inputs, weights = workload.given
    exe = xla_wasm.load(contestants.compiled(workload, "simd128", "portable"))
    for name, array in weights.items():
        exe.set(f"w.{name}", array)
    losses: list[float] = []
    w = weights
    for _ in range(3):
        (loss,) = exe.run(*inputs.values())
        expected, w = jax.jit(workload.function)(*inputs.values(), w)
        assert error([loss], [expected]) < 1e-4
        losses.append(float(loss))
    assert losses[0] > losses[1] > losses[2]
    for name, array in w.items():
        moved = np.asarray(array) - weights[name]
        assert error([exe.get(f"w.{name}") - weights[name]], [moved]) < 1e-3 or np.abs(moved).max() < 1e-5, name


def test_states_begin_anew_where_results_are_compared() -> None:
    """Many calls later the results are still those of the first step."""
    ours = [c for c in contestants.our_contestants() if c.name in (RELAXED, WASMTIME)]
    driver = Driver(contestants.machine_contestant(), ours, Effort(2, 0, 0))
    try:
        row = driver.row(KEPT)
    finally:
        driver.close()
    assert [entry["status"] for entry in row["contestants"].values()] == ["ok", "ok"], row["contestants"]


def test_xla_donates_states(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.suite import python_host, workload

    monkeypatch.setattr(workload, "find", {KEPT.name: KEPT}.__getitem__)
    host = python_host.Xla({"workload": KEPT.name})
    expected = KEPT.expected()
    for _ in range(2):
        assert error(host.results(), expected) == 0
        host.modes["kernel"]()
    first = [np.asarray(leaf) for leaf in jax.tree.leaves(host.modes["kernel"]())]
    assert error(first, expected) > 1e-4


@pytest.mark.parametrize("target", ["simd128", "relaxed-simd"])
def test_a_text_is_written(target: str) -> None:
    text, count, logits = WRITTEN.expected()
    ours = xla_wasm.load(contestants.compiled(WRITTEN, target, "portable"))
    inputs, weights = WRITTEN.given
    ours.set("w", weights)
    got = ours.run(*inputs.values())
    assert count == WHISPER.tokens and len(set(text.tolist())) > 2
    assert (got[0] == text).all() and got[1] == count and error(got, (text, count, logits)) < 1e-4

    early = large.writing("written", replace(WHISPER, end=int(text[2])))
    shorter, fewer, _ = early.expected()
    stops = int(np.argmax(text == text[2])) + 1
    assert fewer == stops and (shorter[:stops] == text[:stops]).all() and (shorter[stops:] == text[2]).all()
    ours = xla_wasm.load(contestants.compiled(early, target, "portable"))
    ours.set("w", weights)
    got = ours.run(*inputs.values())
    assert got[1] == fewer and (got[0] == shorter).all()


def test_the_cache_is_what_it_saves() -> None:
    """The logit of each token is that of a decoder which is given all tokens before once more."""
    import jax.numpy as jnp

    inputs, weights = WRITTEN.given
    text, _, logits = WRITTEN.expected()
    w = {name: jnp.asarray(array) for name, array in weights.items()}
    m, heard = WHISPER, WHISPER.encode(inputs["sound"], w)
    given = jnp.concatenate([inputs["first"][None], text[:-1]])
    x, later = w["embed.tokens"][given] + w["text.place"][: m.tokens], jnp.tri(m.tokens, dtype=bool)
    for layer in range(m.layers):
        name = f"decoder.{layer}"
        for part, seen in (("self", later), ("cross", None)):
            y = large._norm(x, w, f"{name}.{part}.norm")
            source = y if part == "self" else heard
            q = m._heads(large._dense(y, w, f"{name}.{part}.query"))
            keys = m._heads(source @ w[f"{name}.{part}.key.w"])
            values = m._heads(large._dense(source, w, f"{name}.{part}.value"))
            x = x + large._dense(m._mixed(q, keys, values, seen), w, f"{name}.{part}.output")
        x = m._mlp(x, w, name)
    found = large._norm(x, w, "decoder.norm") @ w["embed.tokens"].T
    assert error([found.max(-1)], [logits]) < 1e-5 and (jnp.argmax(found, -1) == text).all()
