"""New states that are made where the old ones lie: the same values, whoever still reads the old ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support import seeds
from tests.support.differential import BOTH, check_states
from xla_wasm import Options
from xla_wasm.builder import Builder
from xla_wasm.compiler import trace
from xla_wasm.hlo.attrs import SliceDimension
from xla_wasm.hlo.ir import Module
from xla_wasm.hlo.shape import Shape
from xla_wasm.ops.sample import reducer, shape
from xla_wasm.plan.plan import Copy, Launch

N = (1, 3, 4, 5, 8, 17)


def program(rng: np.random.Generator) -> tuple[Module, int, dict[int, int]]:
    """Two or three states of one shape and an input; what comes next is made of any of them, read in any way, now and
    then in a loop."""
    n = int(rng.choice(N))
    b = Builder("states")
    matrix = shape(f"f32[{n},{n}]")
    count = int(rng.integers(2, 4))
    states = [b.parameter(i, matrix) for i in range(count)]
    given = b.parameter(count, matrix)
    at = b.parameter(count + 1, shape("s32"))
    zero = b.constant(shape("s32"), [0])
    values = [*states, given]

    def pick() -> Any:
        return values[int(rng.integers(0, len(values)))]

    def row(value: Any) -> Any:
        return b.op("slice", value, slice=(SliceDimension(0, 1, 1), SliceDimension(0, n, 1)))

    for _ in range(int(rng.integers(2, 8))):
        way = int(rng.integers(0, 8))
        value = pick()
        if way < 3:
            made = b.op("dynamic-update-slice", value, row(pick()), at if rng.integers(0, 2) else zero, zero)
        elif way == 3:
            made = b.op("add", b.op("transpose", value, dimensions=(1, 0)), pick())
        elif way == 4:
            made = b.op("reverse", value, dimensions=(int(rng.integers(0, 2)),))
        elif way == 5:
            total = b.op(
                "reduce", value, b.constant(shape("f32"), [0.0]), called=[reducer("add", "f32")()], dimensions=(1,)
            )
            made = b.op("subtract", pick(), b.op("broadcast", total, dimensions=(0,), shape=matrix))
        elif way == 6:
            made = b.op("maximum", value, pick())
        else:
            made = _loop(b, rng, value, pick(), n)
        values.append(made)
    results = [
        values[int(rng.integers(0, len(values)))] if rng.integers(0, 3) == 0 else values[-1 - i % len(values)]
        for i in range(count + 1)
    ]
    order = rng.permutation(count + 1).tolist()
    return b.module(b.op("tuple", *(results[i] for i in order))), count, {p: order.index(p) for p in range(count)}


def _loop(b: Builder, rng: np.random.Generator, start: Any, other: Any, n: int) -> Any:
    """A value that is updated a few times, beside one that is read."""
    carried = Shape.tuple([shape("s32"), *[shape(f"f32[{n},{n}]")] * 2])
    condition, body = Builder("condition"), Builder("body")
    c = condition.parameter(0, carried)
    condition_made = condition.build(
        condition.op(
            "compare",
            condition.op("get-tuple-element", c, index=0),
            condition.constant(shape("s32"), [3]),
            direction="LT",
        )
    )
    p = body.parameter(0, carried)
    i, x, y = (body.op("get-tuple-element", p, index=k) for k in range(3))
    one, zero = (body.constant(shape("s32"), [k]) for k in (1, 0))
    first = body.op("slice", y, slice=(SliceDimension(0, 1, 1), SliceDimension(0, n, 1)))
    new = body.op("dynamic-update-slice", x, body.op("negate", first), i, zero)
    mixed = body.op("add", new, y) if rng.integers(0, 2) else new
    pair = (y, mixed) if rng.integers(0, 4) == 0 else (mixed, y)
    body_made = body.build(body.op("tuple", body.op("add", i, one), *pair))
    init = b.op("tuple", b.constant(shape("s32"), [0]), start, other)
    return b.op("get-tuple-element", b.op("while", init, called=[body_made, condition_made]), index=1)


@pytest.mark.parametrize("seed", range(seeds.count(2, 6)))
def test_the_same_as_the_evaluator(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    monkeypatch.setenv("XLA_WASM_VERIFY", "1")
    copied = 0
    for _ in range(50):
        module, count, state = program(rng)
        n = module.entry.parameters[0].shape.dimensions[0]
        target = str(rng.choice(BOTH))
        options = Options(target=target, state=tuple(state.items()))
        own = {v.buffer.root() for v in trace(module, options).plan.parameters[:count]}
        copied += all(
            isinstance(s, Launch) or s.arguments[0].buffer.root() not in own
            for s in trace(module, options).plan.entries
            if isinstance(s, Launch | Copy)
        )
        held = [rng.integers(-9, 9, (n, n)).astype(np.float32) for _ in range(count)]
        given = [
            [rng.integers(-9, 9, (n, n)).astype(np.float32), np.array(int(rng.integers(0, n)), np.int32)]
            for _ in range(3)
        ]
        check_states(module, held, given, state, target=target)
    assert copied > 5, "the programs have to show what they are for"
