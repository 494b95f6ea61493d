"""Loops whose trips are small: tables that each trip updates in one place, and loops of scalars alone. Only calls are
compared, and an element is a trip of the innermost loop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from onnx import TensorProto

from ..onnx_graph import Graph
from .workload import NS, Array, Workload, arrays

TITLE = "Loops"
RATE, RING, RELEASE = np.float32(3.5), 109, np.float32(0.9995)
RISE, FALL, LEVEL = np.float32(0.1), np.float32(0.02), np.float32(0.5)
MULTIPLIER, INCREMENT = np.int32(1664525), np.int32(1013904223)


def logistic(name: str, steps: int) -> Workload:
    """The logistic map, whose values all stay: each trip reads the last one in the array and writes the next.

    At this rate it settles on four values. Where it is chaotic, a rounding would soon change all that follows.
    """

    def function(first: Any) -> Any:
        import jax.numpy as jnp
        from jax import lax

        def trip(t: Any, x: Any) -> Any:
            return x.at[t + 1].set(RATE * x[t] * (1 - x[t]))

        return lax.fori_loop(0, steps, trip, jnp.zeros(steps + 1, jnp.float32).at[0].set(first))

    def reference(first: Array) -> Array:
        x = np.empty(steps + 1)
        x[0] = first
        for t in range(steps):
            x[t + 1] = float(RATE) * x[t] * (1 - x[t])
        return x

    def onnx(g: Graph) -> str:
        rate, one = g.constant("rate", RATE), g.constant("one", np.float32(1))

        def trip(_: str, x: str) -> tuple[list[str], list[str]]:
            x = g.node("Mul", g.node("Mul", rate, x), g.node("Sub", one, x))
            return [x], [x]

        _, rest = g.loop(steps, {"first": np.float32}, trip)
        row = g.constant("row", np.array([-1]))
        return g.node("Concat", *(g.node("Reshape", part, row) for part in ("first", rest)), axis=0)

    first = arrays(first=lambda rng: np.asarray(0.3, np.float32))
    return Workload(name, NS, steps, function, first, onnx=onnx, reference=reference, model=True)


def subsequence(name: str, size: int) -> Workload:
    """The longest common subsequence of two texts of four letters: a loop in a loop, with a table of all lengths."""

    def function(a: Any, b: Any) -> Any:
        import jax.numpy as jnp
        from jax import lax

        def cell(i: Any, j: Any, table: Any) -> Any:
            best = jnp.where(a[i] == b[j], table[i, j] + 1, jnp.maximum(table[i, j + 1], table[i + 1, j]))
            return table.at[i + 1, j + 1].set(best)

        def row(i: Any, table: Any) -> Any:
            return lax.fori_loop(0, size, lambda j, table: cell(i, j, table), table)

        return lax.fori_loop(0, size, row, jnp.zeros((size + 1, size + 1), jnp.int32))

    def reference(a: Array, b: Array) -> Array:
        table = np.zeros((size + 1, size + 1), np.int32)
        for i in range(size):
            diagonal = np.where(a[i] == b, table[i, :-1] + 1, table[i, 1:])
            table[i + 1, 1:] = np.maximum.accumulate(diagonal)
        return table

    def letters(rng: np.random.Generator) -> Array:
        return rng.integers(0, 4, size, np.int32)

    return Workload(name, NS, size * size, function, arrays(a=letters, b=letters), reference=reference, model=True)


def string(name: str, samples: int) -> Workload:
    """A plucked string after Karplus and Strong: a ring buffer of one period, read in two places and written in one,
    the place in it, the sound, and what a meter shows of it, all carried from trip to trip."""

    def function(pluck: Any) -> Any:
        import jax.numpy as jnp
        from jax import lax

        def trip(t: Any, carried: Any) -> Any:
            ring, at, sound, meter = carried
            after = jnp.where(at + 1 == RING, 0, at + 1)
            y = ring[at]
            sound, meter = sound.at[t].set(y), meter.at[t + 1].set(jnp.maximum(meter[t] * RELEASE, jnp.abs(y)))
            return ring.at[at].set(np.float32(0.5) * (y + ring[after])), after, sound, meter

        zeros = jnp.zeros(samples, jnp.float32)
        return lax.fori_loop(0, samples, trip, (pluck, 0, zeros, jnp.zeros(samples + 1, jnp.float32)))

    def reference(pluck: Array) -> Any:
        ring, sound, meter = pluck.astype(np.float64), np.empty(samples), np.zeros(samples + 1)
        for t in range(samples):
            at = t % RING
            y = sound[t] = ring[at]
            meter[t + 1] = max(meter[t] * float(RELEASE), abs(y))
            ring[at] = 0.5 * (y + ring[(at + 1) % RING])
        return ring, np.int32(samples % RING), sound, meter

    def pluck(rng: np.random.Generator) -> Array:
        return rng.uniform(-1, 1, RING).astype(np.float32)

    return Workload(name, NS, samples, function, arrays(pluck=pluck), reference=reference, model=True)


def counting(name: str, trips: int) -> Workload:
    """A linear congruential generator: a trip is a product and two sums of scalars, and nothing is in memory."""

    def function(seed: Any) -> Any:
        from jax import lax

        def trip(i: Any, state: Any) -> Any:
            return state * MULTIPLIER + INCREMENT + i

        return lax.fori_loop(0, trips, trip, seed)

    def reference(seed: Array) -> Array:
        state = int(seed)
        for i in range(trips):
            state = (state * int(MULTIPLIER) + int(INCREMENT) + i) % (1 << 32)
        return np.asarray(state, np.uint32).view(np.int32)

    def onnx(g: Graph) -> str:
        multiplier, increment = g.constant("multiplier", MULTIPLIER), g.constant("increment", INCREMENT)

        def trip(i: str, state: str) -> tuple[list[str], list[str]]:
            state = g.node("Add", g.node("Mul", state, multiplier), increment)
            return [g.node("Add", state, g.node("Cast", i, to=TensorProto.INT32))], []

        return g.loop(trips, {"seed": np.int32}, trip)[0]

    seed = arrays(seed=lambda rng: np.asarray(12345, np.int32))
    return Workload(name, NS, trips, function, seed, onnx=onnx, reference=reference, model=True)


def follower(name: str, samples: int) -> Workload:
    """The follower of a signal's envelope, as compressors have it: a scan whose trips take one of two branches, above
    the envelope a quick rise, below it a slow fall towards the least level."""

    def function(x: Any) -> Any:
        import jax.numpy as jnp
        from jax import lax

        def rise(level: Any, y: Any) -> Any:
            return level + RISE * (y - level)

        def fall(level: Any, y: Any) -> Any:
            return jnp.maximum(level - FALL * jnp.sqrt(level), y)

        def trip(level: Any, y: Any) -> Any:
            level = lax.cond(y > level, rise, fall, level, y)
            return level, level

        return lax.scan(trip, LEVEL, jnp.abs(x))

    def reference(x: Array) -> Any:
        made, level = np.empty(samples), float(LEVEL)
        for t, y in enumerate(np.abs(x).astype(np.float64)):
            level = level + float(RISE) * (y - level) if y > level else max(level - float(FALL) * level**0.5, y)
            made[t] = level
        return np.float64(level), made

    def signal(rng: np.random.Generator) -> Array:
        swell = 1 + np.sin(np.arange(samples) / 500)
        return (swell * rng.standard_normal(samples)).astype(np.float32)

    def onnx(g: Graph) -> tuple[str, ...]:
        rate, fall = g.constant("rate", RISE), g.constant("fall", FALL)
        start, heights = g.constant("start", LEVEL), g.node("Abs", "x")

        def rising(level: str, y: str) -> str:
            return g.node("Add", level, g.node("Mul", rate, g.node("Sub", y, level)))

        def falling(level: str, y: str) -> str:
            return g.node("Max", g.node("Sub", level, g.node("Mul", fall, g.node("Sqrt", level))), y)

        def trip(t: str, level: str) -> tuple[list[str], list[str]]:
            y = g.node("Gather", heights, t)
            above = g.node("Greater", y, level)
            level = g.choice(above, lambda: rising(level, y), lambda: falling(level, y))
            return [level], [level]

        return tuple(g.loop(samples, {start: np.float32}, trip))

    return Workload(name, NS, samples, function, arrays(x=signal), onnx=onnx, reference=reference, model=True)


def workloads() -> Iterator[Workload]:
    yield logistic("logistic_40k", 40_000)
    yield subsequence("lcs_300x300", 300)
    yield string("string_48k", 48_000)
    yield counting("loop_1M", 1_000_000)
    yield follower("scan_cond_100k", 100_000)
