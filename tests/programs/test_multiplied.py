"""A fixed selection of multiplied cases (`multiply.py`): each operation and what JAX's users vmap most in batches of
more elements than vectors have lanes, half of them with fast paths that begin with the first element, and the first
seeds of all feeds and laws; and a fault that they find."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from tests.programs import multiply
from tests.programs.multiply import Plan, Request, Step
from tests.support import multiplied_bounds, multiplied_jax, seeds
from tests.support.batching import Unavailable
from tests.support.multiplied_feeds import samples_by_operation
from xla_wasm.loop import builder
from xla_wasm.loop.affine import Affine
from xla_wasm.loop.ir import Loop

BLOCKS = 8
"""Tests of so many parts of a selection, so that they run side by side."""
SIZES = (8, 9, 17, 33)
TARGETS = ("simd128", "relaxed-simd", "simd128", "relaxed-simd for v8")
OPERATIONS = seeds.count(10, 100)
"""Samples of one operation, at most; of elementwise ones a third as many."""
ATTEMPTS = 3


@pytest.fixture(autouse=True)
def verified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_WASM_VERIFY", "1")


def _batches(plan: Plan, law: str, number: int) -> str:
    """The fault of a function in a batch, "" if it has none. Unavailable if no choices make a case of it."""
    for attempt in range(ATTEMPTS):
        step = Step(law, 10 * number + attempt, SIZES[(number // 3 + attempt) % len(SIZES)])
        bounds = multiplied_bounds.some(random.Random(number), least=True) if number % 2 else ()
        target = TARGETS[number // 2 % len(TARGETS)]
        case = replace(plan, steps=(step,), seed=number, target=target, bounds=bounds)
        try:
            found = multiply.timed(case)
        except Unavailable as error:
            reason = str(error)
            continue
        return f"{case}: {found.kind}: {found.message}" if found else ""
    raise Unavailable(reason)


def _all(cases: list[tuple[Plan, str, int]]) -> None:
    found, unavailable = [], Counter[str]()
    for plan, law, number in cases:
        try:
            found.append(_batches(plan, law, number))
        except Unavailable as error:
            unavailable[str(error)] += 1
    assert not any(found), "\n".join(filter(None, found))
    assert len(found) >= 0.8 * len(cases), f"too few cases: {unavailable}"


def _operations() -> list[tuple[Plan, str, int]]:
    cases = []
    for group in samples_by_operation():
        step = max(1, len(group) // OPERATIONS)
        cases += [(Plan("samples", number, (), 0), "batched", number) for number in group[::step][:OPERATIONS]]
    return cases


@pytest.mark.parametrize("block", range(BLOCKS))
def test_operations_in_batches(block: int) -> None:
    _all(_operations()[block::BLOCKS])


@pytest.mark.parametrize("block", range(BLOCKS))
def test_functions_of_jax_in_batches(block: int) -> None:
    count = len(multiplied_jax.CATALOGUE)
    _all([(Plan("catalogue", number, (), 0), "vmapped", number) for number in range(block, count, BLOCKS)])


@pytest.mark.parametrize("block", range(seeds.count(BLOCKS, 100)))
def test_any_cases(block: int) -> None:
    tally = multiply.tried(Request(tuple(range(4 * block, 4 * block + 4))))
    assert not tally.findings, "\n".join(tally.told)
    assert tally.cases["cases"] >= 8


def test_a_fault_is_found_and_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Places of a scatter whose own batching dimension runs along the lanes, all taken for that of the first lane."""

    def damaged(b: builder.Builder, index: Affine, vector: Loop | None, lane: int) -> Affine:
        return Affine(index.const, index.loops, tuple((b.lane(v, lane), c) for v, c in index.values))

    monkeypatch.setattr(builder.Builder, "at_lane", damaged)
    monkeypatch.setattr(multiply, "SECONDS_TO_REDUCE", 5)
    names = [name for name, *_ in multiplied_jax.CATALOGUE]
    plan = Plan("catalogue", names.index("at.set"), (Step("vmapped", 1, 33), Step("placed", 1, 0)), 0, weights=True)
    found = multiply.timed(plan)
    assert found is not None and found.kind == "wrong value"
    small = multiply.least(plan, found.kind)
    assert [step.law for step in small.steps] == ["vmapped"] and small.steps[0].size == 8 and not small.weights
    assert "scatter" in multiply.shown(small, found.kind)


def test_batches_of_what_has_no_rule_are_unavailable() -> None:
    """A law says so where it does not apply, instead of making no case in silence."""
    (number,) = [n for n in range(len(multiplied_jax.CATALOGUE)) if multiplied_jax.CATALOGUE[n][0] == "bits"]
    with pytest.raises(Unavailable), np.errstate(all="ignore"):
        multiplied_jax.gradients("catalogue", number, "simd128", random.Random(0), 3)
