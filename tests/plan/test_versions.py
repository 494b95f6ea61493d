"""Updates in loops are done where the array lies, whoever reads it before or behind them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.support.differential import BOTH, check_states, differential
from xla_wasm import Options
from xla_wasm.compiler import trace
from xla_wasm.jax import lower
from xla_wasm.plan.plan import Conditional, Copy, Steps, While

TRIPS = 6
Arrays = Any


def loop(body: Callable[..., Arrays]) -> Callable[..., Arrays]:
    """A loop that carries the arguments: one array, or several."""

    def whole(*arguments: Any) -> Arrays:
        alone = len(arguments) == 1
        return lax.fori_loop(0, TRIPS, body, arguments[0] if alone else arguments)

    return whole


def swapped(x: Any, i: Any, j: Any) -> Any:
    return x.at[i].set(x[j]).at[j].set(x[i])


def inserted(i: Any, x: Any) -> Any:
    def step(c: Any) -> Any:
        x, j = c
        return swapped(x, j - 1, j), j - 1

    return lax.while_loop(lambda c: (c[1] > 0) & (c[0][c[1] - 1] > c[0][c[1]]), step, (x, i))[0]


def table(i: Any, m: Any) -> Any:
    def step(j: Any, m: Any) -> Any:
        return m.at[i + 1, j].set(jnp.maximum(m[i, j - 1], m[i, j]) + m[i + 1, j - 1])

    return lax.fori_loop(1, 8, step, m)


UPDATES: dict[str, Callable[..., Any]] = {
    "the next of the last": loop(lambda t, x: x.at[t + 1].set(3 * x[t] - 1)),
    "an element": loop(lambda t, x: x.at[t].set(x[t] + 1)),
    "a sum": loop(lambda t, x: x.at[t].add(x[t + 1])),
    "a slice": loop(lambda t, x: lax.dynamic_update_slice(x, 2 * lax.dynamic_slice(x, (t,), (4,)), (t + 2,))),
    "a slice backwards": loop(lambda t, x: lax.dynamic_update_slice(x, lax.dynamic_slice(x, (t,), (4,))[::-1], (t,))),
    "a place that it says itself": loop(lambda t, x: x.at[x[t].astype(int) % 9].set(t)),
    "several places": loop(lambda t, x: x.at[jnp.stack([t, t + 3])].set(x[jnp.stack([t + 3, t + 4])] * 2)),
    "two elements swapped": loop(lambda t, x: swapped(x, t, t + 2)),
    "static places": loop(lambda t, x: x.at[3].set(x[4] * 2).at[4].set(x[3])),
    "static slices": loop(lambda t, x: x.at[3:9].set(x[2:8] - 1)),
    "in another shape": loop(lambda t, x: x.reshape(-1, 5).at[t % 2, t % 5].set(x[t] + 1).reshape(-1)),
    "a table": lambda x: loop(table)(x.reshape(10, -1)),
    "in a branch": loop(lambda t, x: lax.cond(x[t] > 2, lambda x: x.at[t].set(0), lambda x: x, x)),
    "in both branches": loop(
        lambda t, x: lax.cond(x[t] > 2, lambda x: x.at[t].set(x[t + 1]), lambda x: x.at[t + 1].set(x[t]), x)
    ),
    "in some branches": loop(
        lambda t, x: lax.switch(t, [lambda x: x, lambda x: x.at[t].set(x[0]), lambda x: x.at[-1].add(1)], x)
    ),
    "in a branch, read by the other one": loop(
        lambda t, x: lax.cond(x[t] > 2, lambda x: (x.at[t].set(0), x[t]), lambda x: (x, x[t + 1]), x)[0]
    ),
    "in a branch behind another one": loop(
        lambda t, x: lax.cond(
            t % 2 == 0,
            lambda x: x,
            lambda x: x.at[t].set(x[t + 1] + x.sum()),
            lax.cond(x[t] > 1, lambda x: x.at[0].set(x[t]), lambda x: x, x),
        )
    ),
    "in a branch of a branch": loop(
        lambda t, x: lax.cond(
            t % 2 == 0,
            lambda x: x,
            lambda x: lax.cond(x[t] > 1, lambda x: x, lambda x: x.at[t].set(x[t + 1] + x.sum()), x.at[0].set(x[t])),
            x,
        )
    ),
    "an inner loop": loop(lambda t, x: lax.fori_loop(0, 3, lambda s, x: x.at[t + s].set(2 * x[t + s + 1]), x)),
    "an inner loop until it is sorted": loop(inserted),
    "batches": lambda x: jax.vmap(loop(lambda t, x: x.at[t + 1].set(3 * x[t] - 1)))(jnp.stack([x, -x])),
}
"""A loop over an array, by what its trips do to it."""
MORE: dict[str, Callable[..., Any]] = {
    "swapped": loop(lambda t, c: (c[1].at[t].set(c[0][t] * 2), c[0])),
    "swapped for an odd number of trips": lambda x, y: lax.fori_loop(
        0, TRIPS + 1, lambda t, c: (c[1].at[t].set(c[0][t] * 2), c[0]), (x, y)
    ),
    "swapped, both updated": loop(lambda t, c: (c[1].at[t].set(c[0][t + 1] * 2), c[0].at[t].set(c[1][t]))),
    "an array made anew beside the old one": loop(lambda t, c: (c[0][::-1] * 2 + t, c[0])),
    "an array made anew from both": loop(lambda t, c: (2 * c[0] - c[1] + c[0][::-1], c[0])),
    "swapped until a value is there": lambda x, y: lax.while_loop(
        lambda c: c[0][0] < 30, lambda c: (c[1].at[0].set(c[0][0] + c[0][1] + 1), c[0]), (x, y)
    ),
    "read behind it": loop(lambda t, c: (c[0].at[t].set(c[1][0]), c[1].at[0].add(c[0][t + 1]))),
    "both versions read": loop(
        lambda t, c: (lambda new: (new, c[1].at[t + 1].set(new[t] + c[0][t])))(c[0].at[t].set(2 * c[1][t]))
    ),
    "each by the other": loop(lambda t, c: (c[0].at[t].set(2 * c[1][t]), c[1].at[t + 1].set(c[0][t] + 1))),
    "around": loop(lambda t, c: (c[0].at[t].set(c[1][t]), c[1].at[t].set(c[2][t]), c[2].at[t].set(c[0][t]))),
    "by a sum over all": loop(lambda t, c: (c[0].at[t].set(c[1].sum()), c[1].at[t].set(c[0].max()))),
    "in branches": loop(
        lambda t, c: lax.cond(
            c[0][t] > c[1][t], lambda x, y: (x, y.at[t].set(x[0])), lambda x, y: (x.at[t].set(y[0] + 1), y), *c
        )
    ),
}
"""The same of two arrays or three."""


def whole_copies(steps: Steps, size: int, around: str = "") -> list[str]:
    """The copies of so many bytes and more in loops, by the innermost."""
    found = []
    for step in steps:
        if isinstance(step, Copy):
            same = step.arguments[0].address == step.arguments[1].address
            found += [str(step)] * (around != "" and step.bytes >= size and not same)
        if isinstance(step, Conditional) and step.name == around:
            found += whole_copies(step.parts[0], size, around)  # the other part brings home what has changed places
        else:
            for part in getattr(step, "parts", ()):
                found += whole_copies(part, size, step.name if isinstance(step, While) else around)
    return found


def arguments(name: str, size: int) -> list[Any]:
    count = 1 if name in UPDATES else 3 if name == "around" else 2
    return [*np.random.default_rng(0).integers(0, 5, (count, size)).astype(np.float32)]


@pytest.mark.parametrize("size", [20, 60, 70, 300])
@pytest.mark.parametrize("name", [*UPDATES, *MORE])
def test_values(name: str, size: int) -> None:
    """On both sides of what is copied in no time."""
    given = arguments(name, size)
    differential(lower((UPDATES | MORE)[name], *given), *given, targets=BOTH)


@pytest.mark.parametrize("name", [*UPDATES, *MORE])
def test_no_trip_copies_an_array(name: str) -> None:
    given = arguments(name, 300)
    plan = trace(lower((UPDATES | MORE)[name], *given), Options()).plan
    assert not whole_copies(plan.steps, given[0].nbytes), str(plan)


def test_the_test_sees_copies() -> None:
    """Of what a trip needs behind the update."""
    given = arguments("an element", 300)
    plan = trace(lower(loop(lambda t, x: x.at[t].set(0) + x[::-1]), *given), Options()).plan
    assert whole_copies(plan.steps, given[0].nbytes)


@pytest.mark.parametrize("size", [20, 300])
def test_carries_of_other_shapes_and_types_that_change_places(size: int) -> None:
    """They are copied: what is the next of one is the other as it is seen through a view."""

    def turned(t: Any, c: Any) -> Any:
        a, b = c
        return b.reshape(a.shape).at[t].set(a[t + 1] * 2), a.reshape(b.shape)

    def cast(t: Any, c: Any) -> Any:
        a, b = c
        return lax.bitcast_convert_type(b, a.dtype), lax.bitcast_convert_type(a, b.dtype).at[t].add(1)

    x, y = np.random.default_rng(0).integers(0, 5, (2, size)).astype(np.float32)
    for step, other in ((turned, y.reshape(-1, 2)), (cast, y.astype(np.int32))):
        differential(lower(loop(step), x, other), x, other, targets=BOTH)


@pytest.mark.parametrize("size", [20, 300])
def test_states(size: int) -> None:
    """A state is updated where it lies by what it is before, and by another state that is read behind."""

    def step(x: Any, y: Any, i: Any) -> Any:
        return swapped(x, i, i + 1), y.at[i].set(x[i] + y[i + 1]), x[i + 2]

    x, y = np.random.default_rng(0).integers(0, 5, (2, size)).astype(np.float32)
    module, state = lower(step, x, y, np.int32(0)), ((0, 0), (1, 1))
    check_states(module, [x, y], [[np.array(i, np.int32)] for i in (0, 3, 4)], state)
    plan = trace(module, Options(state=state)).plan
    assert size < 64 or not whole_copies(plan.steps, x.nbytes, "a run"), str(plan)


@pytest.mark.parametrize("weights", ["w", ()])
def test_a_weight_in_a_loop_whose_carries_change_places_is_packed_once(weights: Any) -> None:
    """Such a loop has its body twice, unless that has a product."""

    def turn(t: Any, c: Any) -> Any:
        x, y, w = c
        return y, x.at[0].set((y @ w)[t] % 5), w

    rng = np.random.default_rng(0)
    x, y, w = (rng.integers(-2, 3, dims).astype(np.float32) for dims in ((8, 512), (8, 512), (512, 512)))
    module = lower(lambda x, y, w: lax.fori_loop(0, TRIPS, turn, (x, y, w))[:2], x, y, w)
    plan = trace(module, Options(weights=weights)).plan
    assert sum(buffer.bytes >= w.nbytes for buffer in plan.buffers if buffer.merged is None) == 2, str(plan)
    differential(module, x, y, w, targets=BOTH)
