"""Whole programs, compiled for every target, against an f64 evaluation and XLA:CPU's own error."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import jax
import numpy as np
import pytest

import xla_wasm
import xla_wasm.jax
from tests.support import closeness, xla_cpu
from tests.support.node_host import run_in_node
from tests.support.seeds import exhaustive
from tests.support.whole_programs import PROGRAMS, lowered, of_jaxlib
from xla_wasm.artifact import Artifact
from xla_wasm.reference import evaluate

TARGETS = ("simd128", "relaxed-simd")


@cache
def judged(name: str) -> tuple[list[closeness.Array], list[closeness.Array]]:
    """The true values, and XLA:CPU's."""
    module, args = lowered(name)
    return evaluate(module, *args, precision="f64"), xla_cpu.run(of_jaxlib(name), *args)


def check(name: str, results: list[closeness.Array]) -> None:
    """Integers exact; floats about as far from the true values as XLA's (`closeness.within`).

    An exact program has XLA's results bit by bit.
    """
    true, xla = judged(name)
    bitwise = PROGRAMS[name]().exact
    assert len(results) == len(true) == len(xla)
    for i, (actual, exact, other) in enumerate(zip(results, true, xla)):
        what = f"{name}, result {i}"
        if bitwise:
            closeness.assert_same(actual, other, what=what)
        else:
            closeness.assert_near_true(actual, exact, other, what)


@pytest.mark.parametrize("name", PROGRAMS)
def test_reference(name: str) -> None:
    module, args = lowered(name)
    check(name, evaluate(module, *args))


@pytest.mark.parametrize("name", PROGRAMS)
def test_xla_agrees_with_the_true_values_on_integers(name: str) -> None:
    for i, (true, xla) in enumerate(zip(*judged(name), strict=True)):
        if not closeness.is_float(xla.dtype) and xla.dtype.kind != "c":
            closeness.assert_same(xla, true, what=f"{name}, result {i}")


@pytest.mark.parametrize(
    "name", ["digits_train_sgd", "transformer_gradient", "lstm_gradient", "batch_norm_train", "conv_grouped_gradient"]
)
def test_true_values_are_those_of_jax_in_f64(name: str) -> None:
    program = PROGRAMS[name]()
    with jax.enable_x64(True):
        widened = jax.tree.map(lambda x: np.asarray(x, np.float64) if x.dtype == np.float32 else x, program.args)
        expected = jax.tree.leaves(jax.jit(program.fn)(*widened))
    for actual, wanted in zip(judged(name)[0], expected, strict=True):
        # constants of the program were rounded to f32 on one side only
        np.testing.assert_allclose(actual, wanted, rtol=1e-6, atol=1e-7 * max(1, np.max(np.abs(wanted), initial=0)))


@cache
def compiled(name: str, target: str) -> Artifact:
    return xla_wasm.compile(lowered(name)[0], xla_wasm.Options(target=target))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled(name: str, target: str) -> None:
    check(name, xla_wasm.load(compiled(name, target)).run(*lowered(name)[1]))


@pytest.mark.parametrize(
    ("name", "target"),
    [(name, target) for i, name in enumerate(PROGRAMS) for j, target in enumerate(TARGETS) if i % 2 == j or exhaustive],
)
def test_compiled_in_node(name: str, target: str, tmp_path: Path) -> None:
    (results,) = run_in_node(compiled(name, target), [lowered(name)[1]], tmp_path)
    check(name, results)
