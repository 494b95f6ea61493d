"""What the middle of the compiler makes of small modules, as text (`golden/`), and the values that come out in the end.

Where a change of a text is meant, `pytest tests/test_golden.py --update-golden` writes the texts anew, and `git diff` shows what changed.
"""

from __future__ import annotations

import difflib
from pathlib import Path

import numpy as np
import pytest
from golden.runner import golden_files, read, rewrite

import xla_wasm
from xla_wasm.compare import differing, tolerance
from xla_wasm.hlo.signature import parameter_leaves
from xla_wasm.inputs import random_array
from xla_wasm.reference import evaluate

UPDATE = "pytest tests/test_golden.py --update-golden"
FILES = [pytest.param(path, id=path.stem) for path in golden_files()]


@pytest.mark.parametrize("path", FILES)
def test_stages(path: Path, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("update_golden"):
        rewrite(read(path))
    golden = read(path)
    assert list(golden.expected) == golden.settings["sections"], f"{path.name} lacks a section it asks for; `{UPDATE}` writes it"
    actual = golden.actual()
    for section, expected in golden.expected.items():
        if actual[section] != expected:
            names = f"{path.name}, {section}, as expected", f"{path.name}, {section}, as it came out"
            lines = difflib.unified_diff(expected.splitlines(), actual[section].splitlines(), *names, lineterm="")
            pytest.fail("\n".join([*lines, f"If this is meant: `{UPDATE}`, and look through `git diff`."]), pytrace=False)


@pytest.mark.parametrize("target", ["simd128", "relaxed-simd"])
@pytest.mark.parametrize("path", FILES)
def test_values(path: Path, target: str) -> None:
    golden = read(path)
    module, options = golden.module, golden.options(target)
    rng = np.random.default_rng(11)
    arguments = {name: random_array(rng, shape.element_type, shape.dimensions) for name, shape in parameter_leaves(module)}
    executable = xla_wasm.load(xla_wasm.compile(module, options))
    kept = {*options.weights, *(name for name, _ in options.state)}
    for name in kept:
        executable.set(name, arguments[name])
    results = iter(executable.run(*(x for name, x in arguments.items() if name not in kept)))
    states = {result: name for name, result in options.state}
    for i, expected in enumerate(evaluate(module, *arguments.values())):
        actual = executable.get(states[i]) if i in states else next(results)
        assert actual.dtype == expected.dtype and actual.shape == expected.shape
        wrong = differing(actual, expected, tolerance(expected.dtype))
        assert not wrong.any(), f"result {i}: {actual[wrong]} instead of {expected[wrong]} at {np.argwhere(wrong).tolist()}"
