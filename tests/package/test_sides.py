"""tools/sides.py: which conditions it finds, what it records of them, and that its reasons are about some."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from tests.support.paths import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import conditions
import recorder
import sides

TOY = '''"""A toy."""

LIMIT = 3 if __debug__ else 4


def choose(x: int, names: list | None = None, wide: bool = False) -> bool:
    """Returns True if x is large."""
    assert x > 0
    if x > 9:
        raise ValueError(f"{x > 9}")
    if names is None or not names and not isinstance(x, str):
        names = names or [str(n) for n in range(x) if n % 2]
    while wide and x < LIMIT:
        x += 1 if any(len(name) == 2 for name in names) else (x == 2)
    if wide:
        return x >= LIMIT or bool(names)
    return not (x < LIMIT)
'''
FOUND = [
    "names",
    "names #2",
    "n % 2",
    "wide",
    "x < LIMIT",
    "any((len(name) == 2 for name in names))",
    "len(name) == 2",
    "x == 2",
    "wide #2",
    "x >= LIMIT",
    "names #3",
    "x < LIMIT #2",
]


def test_conditions(tmp_path: Path) -> None:
    found = [c for c, _ in conditions.conditions_of(tmp_path / "toy.py", ast.parse(TOY))]
    assert [c.text for c in found] == FOUND
    assert {c.where for c in found} == {"toy.py: choose"}


def test_reasons_are_of_conditions() -> None:
    listed = conditions.all_conditions()
    assert len({c.key for c in listed}) == len(listed) > 1500
    assert sides.faults(listed, None, sides.reasons()) == []
    assert len(sides.faults(listed, None, {"ops/sort/lower.py: _gone: n > 1 is True": "gone"})) == 1


def test_value_tests_exist() -> None:
    assert all((ROOT / test.partition("::")[0]).exists() for test in sides.TESTS)


RECORDED = """
import numpy as np
import pytest
import xla_wasm

TEXT = '''
HloModule rows

set {
  old = f32[] parameter(0)
  ROOT new = f32[] parameter(1)
}

ENTRY main {
  x = f32[ROWS,4] parameter(0)
  i = s32[ROWS] parameter(1)
  u = f32[ROWS] parameter(2)
  ROOT s = f32[ROWS,4] scatter(x, i, u), update_window_dims={}, inserted_window_dims={1},
    scatter_dims_to_operand_dims={1}, index_vector_dim=1, input_batching_dims={0},
    scatter_indices_batching_dims={0}, to_apply=set
}
'''

def scatter(size, **options):
    module = xla_wasm.HloModule.from_text(TEXT.replace("ROWS", str(size)))
    artifact = xla_wasm.compile(module, xla_wasm.Options(**options))
    return lambda: xla_wasm.load(artifact).run(np.ones((size, 4), "f"), np.ones(size, "i"), np.zeros(size, "f"))[0]

@pytest.mark.parametrize("size", [6, 7])
def test_few(size):
    assert scatter(size)().sum() == 3 * size

def test_many():
    assert scatter(8)().sum() == 24

def test_does_not_run():
    scatter(9, threads=True)

def test_fails():
    assert scatter(10)().sum() == 0
"""


BY_HAND = """
import wasmtime
from xla_wasm.loop.builder import Builder
from xla_wasm.loop.emit import emit
from xla_wasm.target import Target
from xla_wasm.wasm import Module

ENGINE = wasmtime.Engine()

def zeros(count):
    b = Builder("zeros", 1, 4, Target.named("simd128"), frozenset({0}))
    b.vectorized(count, lambda i: b.store(0, i, b.const("f32", 0), "f32"))
    module = Module()
    module.memory(1)
    module.add(emit(b.func()))
    return wasmtime.Module(ENGINE, module.encode())

def test_runs():
    wasmtime.Instance(wasmtime.Store(ENGINE), zeros(8), [])

def test_does_not_run():
    zeros(9)

def test_emits_nothing():
    wasmtime.Instance(wasmtime.Store(ENGINE), wasmtime.Module(ENGINE, "(module)"), [])
    Builder("rest", 1, 4, Target.named("simd128")).vectorized(5, lambda i: None)
"""


def test_recorded(tmp_path: Path) -> None:
    """A scatter's path by its size, with what its function is about. A test that does not run what it compiles, or
    fails, does not count; without a compile one counts if it emits kernels itself and has an instance."""
    (tmp_path / "test_rows.py").write_text(RECORDED)
    (tmp_path / "test_zeros.py").write_text(BY_HAND)
    taken, status = sides.run([str(tmp_path), "-q"])
    assert status == 1
    key = "ops/indexing/lower.py: scatter_kernel: scatter.goes_in_lanes()"
    tags = recorder.BATCH | recorder.IN_PLACE
    few, many = taken.of(key, False), taken.of(key, True)
    assert few.keys() == many.keys() == {tags}
    assert few[tags][0] == 2 and many[tags][0] == 1
    assert [test.rpartition("::")[2] for test in (*few[tags][1], *many[tags][1])] == ["test_few", "test_many"]
    assert taken.of("ops/indexing/lower.py: _Scatter.goes_in_lanes: self.b.lanes != 4", True) == {}
    rest = "loop/builder.py: Builder.vectorized: rest > 0"
    count, tests = taken.of(rest, False)[0]
    assert count == 1 and tests[0].endswith("::test_runs")
    assert 0 not in taken.of(rest, True)
    again = recorder.Taken.from_json(taken.to_json())
    assert again.sides == taken.sides


def test_faults_and_gaps() -> None:
    """A side without a reason, a reason that is not needed, and tags that one side lacks."""
    one, other = (conditions.Condition("toy.py", n, "toy.py: f", text) for n, text in enumerate(("x > 7", "x < 3")))
    taken = recorder.Taken()
    taken.add(one.key, True, 0, 1, ["a"])
    taken.add(one.key, False, recorder.BATCH | recorder.SMALL, 2, ["b"])
    taken.add(other.key, True, recorder.BATCH, 1, ["c"])
    known = {"toy.py: f: x < 3 is True": "none"}
    assert sides.faults([one, other], taken, known) == [
        "taken, though sides.toml has a reason why not: toy.py: f: x < 3 is True",
        "toy.py:1: no value test takes: toy.py: f: x < 3 is False",
    ]
    assert sides.gaps([one, other], taken) == ["toy.py:0: toy.py: f: x > 7 is True: never with batch, small"]
