"""Programs of `hunt.py` that every run of the tests tries, the same each time; and a hunt that finds a fault and makes
it small."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import xla_wasm
from tests.programs import hunt
from tests.programs.hunt_near import difference_from_true
from tests.programs.hunt_reduce import Choices
from tests.support import seeds
from xla_wasm.hlo.ir import Module

BLOCKS = 10
"""Tests of so many programs each, so that they run side by side."""


@pytest.fixture(scope="module")
def xla() -> Iterator[None]:
    """XLA:CPU as a second judge, ended afterwards."""
    yield
    hunt.XLA.close()


def _judged(kind: str, seed: int, memory: bool = False, xla: bool = False) -> str:
    try:
        case = hunt.draw_case(kind, Choices(f"{kind} {seed}"))
    except Exception:
        assert kind == "jax", f"seed {seed}: nothing drawn"  # JAX refuses some functions
        return ""
    failure = hunt.judge(case, memory, xla)
    return f"python -m tests.programs.hunt {kind} --seed {seed} --count 1: {failure}" if failure else ""


@pytest.mark.parametrize("block", range(seeds.count(50, 300) // BLOCKS))
def test_values_read_through_several_index_maps(block: int) -> None:
    found = [_judged("family", seed, memory=True) for seed in range(block * BLOCKS, (block + 1) * BLOCKS)]
    assert not any(found), "\n".join(filter(None, found))


@pytest.mark.usefixtures("xla")
@pytest.mark.parametrize("block", range(seeds.count(50, 300) // BLOCKS))
def test_programs_of_all_operations(block: int) -> None:
    found = [_judged("writer", seed, xla=True) for seed in range(block * BLOCKS, (block + 1) * BLOCKS)]
    assert not any(found), "\n".join(filter(None, found))


@pytest.mark.usefixtures("xla")
@pytest.mark.parametrize("block", range(seeds.count(50, 300) // BLOCKS))
def test_functions_of_jax(block: int) -> None:
    found = [_judged("jax", seed, xla=True) for seed in range(block * BLOCKS, (block + 1) * BLOCKS)]
    assert not any(found), "\n".join(filter(None, found))


@pytest.mark.parametrize("block", range(seeds.count(50, 300) // BLOCKS))
def test_batches_beside_computed_places(block: int) -> None:
    found = [_judged("batched", seed) for seed in range(block * BLOCKS, (block + 1) * BLOCKS)]
    assert not any(found), "\n".join(filter(None, found))


@pytest.mark.parametrize("block", range(seeds.count(20, 300) // BLOCKS))
def test_updates_in_place(block: int) -> None:
    found = [_judged("updates", seed, memory=True) for seed in range(block * BLOCKS, (block + 1) * BLOCKS)]
    assert not any(found), "\n".join(filter(None, found))


@pytest.mark.parametrize("seed", [19793])
def test_rounding_decides_where_a_loop_forgets_its_start(seed: int) -> None:
    """x + sin(x) leads to pi, where its derivative is what rounding has left of 1 + cos(x): no change of x shows
    that."""
    assert not _judged("jax", seed)


def test_a_sum_may_overflow_on_its_way_to_a_large_value() -> None:
    """The order of its terms decides; small values have no such excuse."""
    dot = "ROOT y = f32[1] dot(x, ones), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    module = Module.from_text(
        f"HloModule m\nENTRY e {{ x = f32[1,4] parameter(0)\n ones = f32[4] constant({{1, 1, 1, 1}})\n {dot} }}"
    )
    for large, told in ((2e38, False), (2.0, True)):
        x = np.array([[large, -large, large, -large / 2]], np.float32)
        assert bool(difference_from_true(module, [x], [np.array([np.inf], np.float32)], [])) is told


def test_a_fault_is_found_and_made_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With transposes that are not compiled as such, a hunt comes down to a single one."""
    original = xla_wasm.compile

    def damaged(module: Module, options: xla_wasm.Options | None = None) -> xla_wasm.Artifact:
        copy = Module.from_text(module.to_text())
        for x in copy.instructions():
            if x.opcode == "transpose" and x.shape.dimensions == x.operands[0].shape.dimensions:
                x.attrs["dimensions"] = tuple(range(x.shape.rank))
        return original(copy, options)

    monkeypatch.setattr(xla_wasm, "compile", damaged)
    searched = hunt.Hunt(
        Namespace(kind="family", target="", memory=0, xla=0, out=str(tmp_path), reduce=1, seconds_to_reduce=20)
    )
    for seed in range(1000):
        searched.one(seed)
        if searched.found:
            break
    assert list(searched.found) == [("wrong value", "")]
    (path,) = tmp_path.glob("family-*-wrong-value.hlo")
    module = Module.from_text(path.read_text())
    opcodes = [x.opcode for x in module.entry.instructions]
    assert "transpose" in opcodes and len(opcodes) <= 4, path.read_text()
