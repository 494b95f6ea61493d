"""Small loops as kernels: the values of their steps, of every kind of step and on both sides of bounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import xla_wasm
from tests.support.differential import BOTH, check_states, differential
from tests.support.nested_loops import stepwise
from xla_wasm import Options
from xla_wasm.compiler import trace
from xla_wasm.errors import LimitError
from xla_wasm.hlo.ir import Module
from xla_wasm.host.instance import Instance
from xla_wasm.jax import lower
from xla_wasm.plan import loops
from xla_wasm.plan.plan import joined_loops


def joined(module: Any) -> int:
    """The loops of a module that are kernels."""
    return len([*joined_loops(trace(module, Options()).plan.steps)])


def collatz(n: Any) -> Any:
    def step(c: Any) -> Any:
        n, count = c
        return jnp.where(n % 2 == 0, n // 2, 3 * n + 1), count + 1

    return lax.while_loop(lambda c: c[0] != 1, step, (n, jnp.int32(0)))


def branches(x: Any, i: Any) -> Any:
    ways = [lambda x: x + 1, lambda x: x * 2, lambda x: x[::-1], lambda x: x - x[0]]

    def step(t: Any, x: Any) -> Any:
        return lax.cond(x[0] > 9, lambda x: -x, lambda x: lax.switch(i[t], ways, x), x)

    return lax.fori_loop(0, i.size, step, x)


def nested(n: Any) -> Any:
    """The sum of all products of three numbers below n, and of those of two."""

    def outer(i: Any, c: Any) -> Any:
        def middle(j: Any, c: Any) -> Any:
            return lax.fori_loop(0, j, lambda k, s: s + i * j * k, c[0]), c[1] + i * j

        return lax.fori_loop(0, i, middle, c)

    return lax.fori_loop(0, n, outer, (jnp.int32(0), jnp.int32(0)))


def fibonacci(x: Any) -> Any:
    return lax.fori_loop(0, 20, lambda _, c: (c[1], c[0] + c[1]), (x, x + 1))


def recurrence(x: Any) -> Any:
    return lax.fori_loop(0, 9, lambda t, x: x.at[(t + 1) % x.size].set(x[t % x.size] + x.sum()), x)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "no trip": (lambda x, n: lax.fori_loop(5, n, lambda t, x: x + 1, x), (np.float32(1), np.int32(5))),
    "a number of trips that is known at run time": (collatz, (np.int32(97),)),
    "more trips than a call makes": (
        lambda x: lax.fori_loop(0, 70_000, lambda t, x: x * 5 + t, x),
        (np.int32(1),),
    ),
    "branches": (branches, (np.arange(5, dtype=np.int32), np.array([0, 3, 1, 2, 7, -4, 1, 0], np.int32))),
    "nested loops": (nested, (np.int32(9),)),
    "what two carries hand over": (fibonacci, (np.int32(1),)),
    "vectors that two carries hand over": (fibonacci, (np.arange(7, dtype=np.uint8),)),
    "a scan": (
        lambda x, y: lax.scan(lambda c, y: (c + y, c * y), x, y),
        (np.int32(1), np.arange(40, dtype=np.int32)),
    ),
    "a sort by comparisons": (
        lambda x: lax.fori_loop(0, 3, lambda t, x: lax.sort(x)[::-1] + x, x),
        (np.arange(17, dtype=np.int32) * 7 % 17,),
    ),
    "an inner loop in the condition": (
        lambda x: lax.while_loop(lambda x: lax.fori_loop(0, x % 5, lambda t, s: s + t * x, x) < 60, lambda x: x + 1, x),
        (np.int32(0),),
    ),
    "an inner loop that ends at once": (
        lambda x: lax.fori_loop(0, 9, lambda t, x: lax.while_loop(lambda x: x < t, lambda x: x + 3, x), x),
        (np.int32(0),),
    ),
}


@pytest.mark.parametrize("options", [{}, {"threads": True}], ids=["", "threads"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name: str, options: dict[str, Any]) -> None:
    function, arguments = PROGRAMS[name]
    module = lower(function, *arguments)
    assert joined(module)
    differential(module, *arguments, targets=BOTH, **options)


def test_parts_of_a_concatenation() -> None:
    """A step writes from the middle of an array on."""
    count = 70
    parts = "".join(
        f"""
          x{k} = s32[1] slice(x), slice={{[{k}:{k + 1}]}}
          y{k} = s32[1] subtract(t, x{k})"""
        for k in range(count)
    )
    module = Module.from_text(f"""
        HloModule parts
        body {{
          c = (s32[1], s32[{count}]) parameter(0)
          t = s32[1] get-tuple-element(c), index=0
          x = s32[{count}] get-tuple-element(c), index=1
          one = s32[1] constant({{1}})
          next = s32[1] add(t, one){parts}
          all = s32[{count}] concatenate({", ".join(f"y{k}" for k in range(count))}), dimensions={{0}}
          ROOT r = (s32[1], s32[{count}]) tuple(next, all)
        }}
        condition {{
          c = (s32[1], s32[{count}]) parameter(0)
          t = s32[1] get-tuple-element(c), index=0
          first = s32[] reshape(t)
          five = s32[] constant(5)
          ROOT go_on = pred[] compare(first, five), direction=LT
        }}
        ENTRY main {{
          t = s32[1] parameter(0)
          x = s32[{count}] parameter(1)
          c = (s32[1], s32[{count}]) tuple(t, x)
          ROOT w = (s32[1], s32[{count}]) while(c), condition=condition, body=body
        }}""")
    assert joined(module)
    differential(module, np.zeros(1, np.int32), np.arange(count, dtype=np.int32), targets=BOTH)


def test_loops_without_a_kernel() -> None:
    """Whose trips only copy."""
    module = lower(lambda a, b, c: lax.while_loop(lambda s: s[0], lambda s: (s[1], s[2], s[2]), (a, b, c)), *[True] * 3)
    assert not joined(module)
    for a, b in ((False, True), (True, False), (True, True)):
        differential(module, *np.array([a, b, False]), targets=BOTH)


@pytest.mark.parametrize("operations, is_kernel", [(200, True), (2000, False)])
def test_code_decides(operations: int, is_kernel: bool) -> None:
    def step(_: Any, x: Any) -> Any:
        for k in range(operations // 2):
            x = x * 5 + k
        return x

    module = lower(lambda x: lax.fori_loop(0, 3, step, x), np.int32(1))
    assert bool(joined(module)) == is_kernel
    differential(module, np.int32(7), targets=BOTH)


TYPES = (
    "bool",
    "int4",
    "uint8",
    "int16",
    "uint32",
    "int64",
    "bfloat16",
    "float16",
    "float64",
    "complex64",
    "complex128",
)


@pytest.mark.parametrize("size", [1, 3, 16, 17, 65])
@pytest.mark.parametrize("dtype", TYPES)
def test_types(dtype: str, size: int) -> None:
    """Carries of every type, of which two change places, and one is changed in part."""
    with jax.enable_x64(True):
        x = np.asarray(jnp.arange(size).astype(dtype))
        y = np.asarray((jnp.arange(size) % 3).astype(dtype))

        def step(t: Any, c: Any) -> Any:
            x, y, z = c
            change = jnp.logical_not(x[t % size]) if dtype == "bool" else x[t % size] + x[0]
            return y, x, z.at[t % size].set(change)

        def whole(x: Any, y: Any) -> Any:
            return lax.fori_loop(0, 5, step, (x, y, x))

        module = lower(whole, x, y)
    assert joined(module)
    differential(module, x, y)


@pytest.mark.parametrize(("size", "is_kernel"), [(64, True), (1000, True), (20_000, False)])
def test_work_decides(size: int, is_kernel: bool) -> None:
    """A trip that takes long is not worth it: its kernels may run on several threads."""
    x = np.arange(size, dtype=np.int32)
    module = lower(lambda x: lax.fori_loop(0, 3, lambda t, x: x * 3 + t, x), x)
    assert joined(module) == is_kernel
    differential(module, x)


@pytest.mark.parametrize(("batch", "size"), [(3, 5), (8, 9), (17, 33)])
def test_batches(batch: int, size: int) -> None:
    x = np.arange(batch * size, dtype=np.float32).reshape(batch, size) % 7
    module = lower(jax.vmap(recurrence), x)
    assert joined(module)
    differential(module, x, targets=BOTH)


@pytest.mark.parametrize("rows", [1, 2, 5, -1, -3])
@pytest.mark.parametrize(("dtype", "columns"), [("float32", 16), ("uint8", 16), ("uint8", 13), ("float64", 3)])
def test_moves_within_an_array(dtype: str, columns: int, rows: int) -> None:
    """An array's part is copied within its memory, up or down: the two places overlap."""
    with jax.enable_x64(True):
        x = np.arange(16 * columns).reshape(16, columns).astype(dtype)

        def shifted(x: Any) -> Any:
            return lax.fori_loop(0, 2, lambda t, x: lax.pad(x, x[0, 0] * 0, ((rows, -rows, 0), (0, 0, 0))), x)

        module = lower(shifted, x)
    assert joined(module)
    differential(module, x, targets=BOTH)


def test_states() -> None:
    module = lower(recurrence, np.zeros(5, np.float32))
    check_states(module, [np.arange(5, dtype=np.float32)], [[], [], []], ((0, 0),))


def test_loops_of_equal_content_share_a_kernel() -> None:
    def both(x: Any) -> Any:
        return collatz(x)[1], collatz(x + 1)[1]

    module = lower(both, np.int32(9))
    assert joined(module) == 2
    funcs = trace(module, Options()).plan.funcs
    assert len([name for name in funcs if name.startswith("loop")]) == 1
    differential(module, np.int32(9))


# --- loops in loops: a call of their kernel ends anywhere -------------------------------------------------------------


def one_after_another(n: Any, x: Any) -> Any:
    """Inner loops of 0 to 5 trips with steps before, between and behind them."""

    def trip(i: Any, c: Any) -> Any:
        s, x = c
        x = x * 3 + i
        s = lax.fori_loop(0, n[i], lambda j, s: s * 7 + j, s)
        x = x.at[i % x.size].add(s)
        s, x = lax.fori_loop(n[i] - 3, n[i], lambda j, c: (c[0] + j, c[1].at[j % x.size].add(c[0])), (s, x))
        return s - x[0], x

    return lax.fori_loop(0, n.size, trip, (x[1], x))


def in_branches(n: Any, x: Any) -> Any:
    """A branch is chosen by a carry of the loop in it, which ends the loop."""

    def least(p: Any, x: Any) -> Any:
        return lax.while_loop(lambda c: c[0], lambda c: (c[1][0] < 40, c[1] * 2 + 1), (p, x))[1]

    def trip(i: Any, x: Any) -> Any:
        x = lax.cond(x[0] < 20, least, lambda p, x: x - 30, x[0] < 20, x)

        def choose(i: Any, x: Any) -> Any:
            ways = [
                lambda x: x + 1,
                lambda x: lax.fori_loop(0, n[i], lambda j, x: x.at[0].add(j), x),
                lambda x: lax.cond(
                    x[1] % 2 == 0, lambda x: lax.fori_loop(0, 2, lambda j, x: x + j, x), lambda x: -x, x
                ),
                lambda x: lax.fori_loop(0, 3, lambda j, x: x[::-1] + j, x),
            ]
            return lax.switch(n[i] - 1, ways, x)

        return lax.fori_loop(i, i + 2, choose, x)

    return lax.fori_loop(0, n.size - 1, trip, x)


def in_the_condition(n: Any) -> Any:
    """Loops in both parts of a loop; that of the condition makes no trip at first."""

    def go_on(c: Any) -> Any:
        return lax.fori_loop(0, c[1], lambda j, s: s + j, c[0]) < n

    def trip(c: Any) -> Any:
        return lax.fori_loop(0, 3, lambda j, s: s + j, c[0]), c[1] + 1

    return lax.while_loop(go_on, trip, (jnp.int32(0), jnp.int32(0)))


def ended_early(n: Any) -> Any:
    """A trip says at its beginning that it is the last one, and goes on with a loop."""

    def trip(c: Any) -> Any:
        _, i, s = c
        go_on = i < n
        return go_on, i + 1, lax.fori_loop(0, jnp.where(go_on, 2, 4), lambda j, s: s * 3 + j, s)

    return lax.while_loop(lambda c: c[0], trip, (n > 0, jnp.int32(0), jnp.int32(1)))


def said_before(n: Any) -> Any:
    """The condition is a carry."""
    return lax.while_loop(lambda c: c[0], lambda c: (c[1] < n, c[1] + 1, c[2] * 3 + c[1]), (n > 0, 0, jnp.int32(1)))


def sorted_by_insertion(x: Any) -> Any:
    def swap(c: Any) -> Any:
        x, j = c
        return x.at[j - 1].set(x[j]).at[j].set(x[j - 1]), j - 1

    def insert(i: Any, x: Any) -> Any:
        return lax.while_loop(lambda c: (c[1] > 0) & (c[0][c[1] - 1] > c[0][c[1]]), swap, (x, i))[0]

    return lax.fori_loop(1, x.size, insert, x)


def two_rows(n: Any, x: Any) -> Any:
    """Loops in a loop of which two carries change places."""

    def trip(i: Any, c: Any) -> Any:
        last, row = c
        row = lax.fori_loop(1, n[i], lambda j, row: row.at[j % 4].set(last[j % 4 - 1] + row[j % 4 - 1]), row)
        return row + 1, last

    return lax.fori_loop(0, n.size, trip, (x, x * 2))


COUNTS = np.array([1, 0, 3, 5, 2, 4, 0, 0], np.int32)
NESTS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "one after another": (one_after_another, (COUNTS, np.arange(5, dtype=np.int32))),
    "three levels": (nested, (np.int32(5),)),
    "in branches": (in_branches, (COUNTS, np.arange(4, dtype=np.int32))),
    "two rows": (two_rows, (COUNTS, np.arange(4, dtype=np.int32))),
    "in the condition": (in_the_condition, (np.int32(30),)),
    "ended early": (ended_early, (np.int32(3),)),
    "no trip": (ended_early, (np.int32(0),)),
    "one loop": (said_before, (np.int32(9),)),
    "while": (sorted_by_insertion, (np.float32([5, 2, 8, 8, 1, 0, 9]),)),
    "batches": (jax.vmap(sorted_by_insertion), (np.arange(21).reshape(3, 7)[:, ::-1] * np.int32(5) % 13,)),
}


def allow_trips(trips: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has a call of a nest's kernel make so many trips, of all its loops together."""
    monkeypatch.setattr(loops, "STATEMENTS", trips)
    monkeypatch.setattr(loops._LoopWriter, "cost", lambda writer, loop: 1)


@pytest.mark.parametrize("trips", [1, 2, 3, 4, 5, 11])
@pytest.mark.parametrize("name", NESTS)
def test_calls_that_end_between_trips(name: str, trips: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inner loops make fewer trips than a call may, as many, and more."""
    allow_trips(trips, monkeypatch)
    function, arguments = NESTS[name]
    module = lower(function, *arguments)
    assert joined(module) == 1
    differential(module, *arguments, targets=BOTH if trips == 2 else BOTH[:1])


@pytest.mark.parametrize("options", [{"threads": True}, {"state": ((1, 0),)}], ids=["threads", "state"])
def test_calls_that_end_between_trips_of_other_programs(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    allow_trips(2, monkeypatch)
    module = lower(lambda n, x: one_after_another(n, x)[1], COUNTS, np.arange(5, dtype=np.int32))
    differential(module, COUNTS, np.arange(5, dtype=np.int32), times=2, **options)


@pytest.mark.parametrize("trips", [1, 2, 4, 5, 6, 7, 18, 19, 100])
def test_trips_of_a_call(trips: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call ends with the trip that uses up what it may make, if another one follows in that loop."""
    allow_trips(trips, monkeypatch)
    calls, left = 1, trips
    for _ in range(3):
        for more in (True, True, True, True, False, True):  # an inner loop, and the outer one
            left -= 1
            if more and left <= 0:
                calls, left = calls + 1, trips
    seen: Counter[int] = Counter()
    call = Instance._call_step

    def counted(instance: Instance, pc: int) -> int:
        seen[pc] += 1
        return call(instance, pc)

    monkeypatch.setattr(Instance, "_call_step", counted)
    module = lower(lambda x: lax.fori_loop(0, 3, lambda i, x: lax.fori_loop(0, 4, lambda j, x: x * i + j, x), x), 1)
    xla_wasm.load(xla_wasm.compile(module)).profile(np.int32(1))
    assert max(seen.values()) == calls


def test_runs_that_end_in_an_inner_loop() -> None:
    """The next run begins anew."""
    x, one = np.int32(0), np.int32(1)
    exe = xla_wasm.load(xla_wasm.compile(lower(stepwise, x, one)), timeout=0.1)
    for last in (one, np.int32(3)):
        with pytest.raises(LimitError, match="timeout"):
            exe.run(x, np.int32(0))
        with pytest.raises(LimitError, match="timeout"):
            exe.run(np.int32(10), one)  # beyond the first end
        assert [int(y) for y in exe.run(x, last)] == [27, ((1 * 2 + 0) * 2 + 9) * 2 + 18]
