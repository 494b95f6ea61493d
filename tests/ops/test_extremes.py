"""The greatest and the least of floats: NaN wherever there is one, and the right zero, however the reduction goes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support import seeds
from tests.support.differential import BOTH, differential
from xla_wasm.builder import Builder
from xla_wasm.hlo.ir import Module
from xla_wasm.ops.dtypes import DTYPES
from xla_wasm.ops.reduce import lower, lower_columns
from xla_wasm.ops.reduce.lower_running import Running
from xla_wasm.ops.sample import reducer, shape

KINDS = ("numbers", "zeros", "zeros and less", "zeros and more", "infinities", "all", "few nan")


def values(rng: np.random.Generator, sizes: list[int], kind: str) -> np.ndarray[Any, Any]:
    """Numbers of which many are equal, with what processors' maxima get wrong in some places."""
    zeros = rng.choice([0.0, -0.0] if rng.integers(0, 2) else [-0.0, -0.0, -0.0, 0.0], sizes)
    if kind == "numbers":
        return rng.normal(size=sizes)
    if kind.startswith("zeros"):
        least, greatest = {"zeros": (0, 0), "zeros and less": (-5, 0), "zeros and more": (0, 5)}[kind]
        return np.where(
            rng.integers(0, 3, sizes) > 0, rng.integers(least, greatest + 1, sizes) * np.copysign(1.0, zeros), zeros
        )
    if kind == "infinities":
        return rng.choice([np.inf, -np.inf], sizes) if rng.integers(0, 2) else np.full(sizes, -np.inf)
    if kind == "all":
        return rng.choice([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 1e-40, -1e-40], sizes)
    made = np.asarray(rng.normal(size=sizes))
    if made.size:
        made.flat[rng.integers(0, made.size)] = rng.choice([np.nan, -np.nan])
    return made


def program(rng: np.random.Generator) -> tuple[Module, list[np.ndarray[Any, Any]], str]:
    """Extremes of an array along some dimensions, of what is made of them again, and what is made of both."""
    rank = int(rng.integers(1, 4))
    longest = (500, 70, 20)[rank - 1]
    dims = [
        int(rng.choice([1, 2, 5, 16, 17, 31, 33])) if rng.integers(0, 2) else int(rng.integers(0, longest))
        for _ in range(rank)
    ]
    element_type = str(rng.choice(["f32", "f32", "f32", "f64", "bf16", "f16"]))
    b = Builder("extremes")
    arguments: list[np.ndarray[Any, Any]] = []
    for sizes in (dims, []):
        arguments.append(values(rng, sizes, str(rng.choice(KINDS))).astype(DTYPES[element_type]))
    x = b.parameter(0, shape(f"{element_type}[{','.join(map(str, dims))}]"))
    init = b.parameter(1, shape(element_type))
    leaves = []
    for _ in range(int(rng.integers(1, 4))):
        opcode = str(rng.choice(["maximum", "minimum"]))
        reduced = tuple(sorted(rng.choice(rank, int(rng.integers(1, rank + 1)), replace=False).tolist()))
        value = x
        way = int(rng.integers(0, 4))
        if way == 0:
            value = b.op("reverse", x, dimensions=(int(rng.integers(0, rank)),))
        elif way == 1 and len(set(dims)) == 1:
            value = b.op("transpose", x, dimensions=tuple(rng.permutation(rank).tolist()))
        elif way == 2:
            value = b.op("negate", x)
        start = (
            init
            if rng.integers(0, 2)
            else b.constant(shape(element_type), [-np.inf if opcode == "maximum" else np.inf])
        )
        total = b.op("reduce", value, start, called=[reducer(opcode, element_type)()], dimensions=reduced)
        leaves.append(total)
        if rng.integers(0, 2):
            kept = tuple(d for d in range(rank) if d not in reduced)
            spread = b.op(
                "broadcast", total, dimensions=kept, shape=shape(f"{element_type}[{','.join(map(str, dims))}]")
            )
            back = b.op("subtract", x, spread)
            leaves.append(
                b.op("reduce", back, init, called=[reducer("minimum", element_type)()], dimensions=reduced)
                if way
                else back
            )
    return b.module(b.op("tuple", *leaves)), arguments, str(rng.choice(BOTH))


@pytest.mark.parametrize("seed", range(seeds.count(2, 8)))
def test_the_same_as_the_evaluator(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    monkeypatch.setenv("XLA_WASM_VERIFY", "1")
    made: list[Running] = []
    chosen = lower.running

    def spied(*args: Any) -> Running:
        made.append(chosen(*args))
        return made[-1]

    for file in (lower, lower_columns):
        monkeypatch.setattr(file, "running", spied)
    for _ in range(60):
        module, arrays, target = program(rng)
        differential(module, *arrays, targets=[target])
    assert sum(type(r) is not Running for r in made) > 30, "the programs have to show what they are for"
