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
from xla_wasm.ops.arrays import Array
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
    states = {result: name for name, result in options.state}
    kept = {*options.weights, *states.values()}
    for name in kept:
        executable.set(name, arguments[name])
    feeds = [x for x in module.instructions() if x.opcode in ("infeed", "outfeed")]
    infeed = [random_array(rng, "f32", x.shape.tuple_shapes[0].dimensions) for x in feeds if x.opcode == "infeed"]
    sent, wanted = (host_side(infeed, any(x.opcode == "outfeed" for x in feeds)) for _ in range(2))
    outputs = iter(executable.run(*(x for name, x in arguments.items() if name not in kept), **sent))
    results = evaluate(module, *arguments.values(), **wanted)
    actual = [executable.get(states[i]) if i in states else next(outputs) for i in range(len(results))]
    for i, (a, e) in enumerate(zip(actual + sent.get("outfeed", []), results + wanted.get("outfeed", []), strict=True)):
        assert a.dtype == e.dtype and a.shape == e.shape
        wrong = differing(a, e, tolerance(e.dtype))
        assert not wrong.any(), f"result {i}: {a[wrong]} instead of {e[wrong]} at {np.argwhere(wrong).tolist()}"


def host_side(infeed: list[Array], outfeed: bool) -> dict[str, list[Array]]:
    """What the host has its part in a run with, where the program has one for it: arrays to take, and a list for what is sent."""
    given: dict[str, list[Array]] = {"infeed": infeed} if infeed else {}
    return given | ({"outfeed": []} if outfeed else {})
