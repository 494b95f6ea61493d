"""Views of an executable's memory: arguments and results that nobody copies."""

from __future__ import annotations

import gc
import random
import re
import threading
from typing import Any

import numpy as np
import pytest

import xla_wasm
from xla_wasm import ArgumentError, Options, RunError, UnsupportedError
from xla_wasm.hlo.ir import Module
from xla_wasm.host.arrays import dtype_of
from xla_wasm.host.fresh import FreshExecutable

ADD = "ENTRY e {\n x = f32[4] parameter(0)\n y = f32[4] parameter(1)\n ROOT s = f32[4] subtract(x, y)\n}"
TWO = """HloModule m, entry_computation_layout={(f32[2,3]{0,1}, f32[2,3]{1,0})->(f32[3,2]{0,1}, f32[2,3]{1,0}, f32[2,3]{1,0})}
ENTRY e {
  x = f32[2,3] parameter(0)
  y = f32[2,3] parameter(1)
  t = f32[3,2] transpose(x), dimensions={1,0}
  d = f32[2,3] subtract(x, y)
  ROOT r = (f32[3,2], f32[2,3], f32[2,3]) tuple(t, d, y)
}
"""  # noqa: E501
FAILS = """ENTRY e {
  x = f32[4] parameter(0)
  n = f32[4] negate(x)
  ROOT y = f32[4] custom-call(n), custom_call_target="mine"
}
"""
A, B = np.array([1, 2, 3, 4], np.float32), np.array([10, 30, 20, 50], np.float32)


def artifact(text: str, **options: Any) -> xla_wasm.Artifact:
    return xla_wasm.compile(Module.from_text(text), Options(**options))


def exe(text: str = ADD, **options: Any) -> xla_wasm.Executable:
    return xla_wasm.load(artifact(text), **options)


def test_what_is_written_there_runs_and_what_comes_is_there() -> None:
    ready = exe()
    x, y, s = ready.input("x"), ready.input("y"), ready.output("result")
    assert (x.dtype, x.shape, s.dtype, s.shape) == (np.float32, (4,), np.float32, (4,))
    x[:], y[:] = A, B
    (made,) = ready.run(x, y, out=[s])
    assert made is s
    np.testing.assert_array_equal(s, A - B)
    x *= 2
    ready.run(x, y)
    np.testing.assert_array_equal(s, 2 * A - B)
    np.testing.assert_array_equal(y, B)
    with pytest.raises(ValueError, match="read-only"):
        s[0] = 1


def test_arguments_that_lie_in_each_others_places() -> None:
    """Swapped, shifted, and one output as an argument: each is read before anything is written over it."""
    ready = exe()
    x, y, s = ready.input("x"), ready.input("y"), ready.output("result")
    x[:], y[:] = A, B
    np.testing.assert_array_equal(ready.run(y, x)[0], B - A)
    np.testing.assert_array_equal(x, B)
    np.testing.assert_array_equal(ready.run(x[::-1], y)[0], B[::-1] - A)
    x[:], y[:] = A, B
    np.testing.assert_array_equal(ready.run(s, x)[0], (B[::-1] - A) - A)


def test_results_into_places_of_others() -> None:
    ready = exe(TWO)
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 2, 3)).astype(np.float32)
    x, y = ready.input("x"), ready.input("y")
    t, d, p = (ready.output(f"result.{i}") for i in range(3))
    x[:], y[:] = a, b
    for out in ([t, d, p], [t, y, np.empty((2, 3), np.float32)], [t, np.empty((2, 3), np.float32), x]):
        x[:], y[:] = a, b
        made = ready.run(x, y, out=out)
        assert all(m is o for m, o in zip(made, out))
        for got, want in zip(out, (a.T, a - b, b)):
            np.testing.assert_array_equal(got, want)


def test_random_uses_against_copies() -> None:
    """Any mix of views, parts of views in any order, and arrays of the caller, as arguments and targets, gives what
    copies give."""
    ready, plain = exe(TWO), exe(TWO)
    x, y = ready.input("x"), ready.input("y")
    outputs = [ready.output(f"result.{i}") for i in range(3)]
    for seed in range(200):
        rng = random.Random(seed)
        x[:], y[:] = np.array(rng.sample(range(100), 12), np.float32).reshape(2, 2, 3)
        own = np.array(rng.sample(range(100), 6), np.float32).reshape(2, 3)
        sources = [x, y, own, x[::-1], y[:, ::-1], outputs[1], outputs[2], outputs[0].T]
        given = [rng.choice(sources) for _ in range(2)]
        want = plain.run(*[np.array(g) for g in given])
        rooms = [
            [outputs[0], np.empty((3, 2), np.float32), np.empty((2, 3), np.float32).T],
            [outputs[1], np.empty((2, 3), np.float32), x],
            [outputs[2], np.empty((2, 3), np.float32)],
        ]
        out = None if rng.random() < 0.3 else [rng.choice(room) for room in rooms]
        if out and out[1] is x and out[0] is outputs[0]:
            continue  # the transposed argument lies where the argument does: these are two results for one place
        for got, expected in zip(ready.run(*given, out=out), want):
            np.testing.assert_array_equal(got, expected, str(seed))


@pytest.mark.parametrize("element_type", ["pred", "bf16", "f16", "f8e4m3fn", "s4", "u2", "c64", "c128", "s64", "f64"])
@pytest.mark.parametrize("dims", ["", "3", "3,0", "3,5"])
def test_all_types(element_type: str, dims: str) -> None:
    ready = exe(f"ENTRY e {{\n x = {element_type}[{dims}] parameter(0)\n ROOT y = {element_type}[{dims}] copy(x)\n}}")
    x, y = ready.input("x"), ready.output("result")
    given = (np.arange(x.size) % 2).reshape(x.shape).astype(dtype_of(element_type))
    x[...] = given
    ready.run(x, out=[y])
    assert y.dtype == given.dtype and y.tobytes() == given.tobytes()


def test_views_keep_the_memory_and_the_executable_goes_on() -> None:
    ready = exe()
    s = ready.output("result")
    ready.run(A, B)
    del ready
    gc.collect()
    np.testing.assert_array_equal(s, A - B)
    again = exe()
    part = again.input("x")[1:3]
    gc.collect()
    part[:] = 7
    np.testing.assert_array_equal(again.input("x")[1:3], 7)


def test_weights_and_states() -> None:
    text = (
        "ENTRY e {\n w = f32[4] parameter(0)\n h = f32[4] parameter(1)\n x = f32[4] parameter(2)\n m = f32[4] "
        "multiply(w, x)\n"
    )
    text += " n = f32[4] add(h, m)\n ROOT r = (f32[4], f32[4]) tuple(n, m)\n}"
    ready = xla_wasm.load(artifact(text, weights=("w",), state=(("h", "result.0"),)))
    x, m = ready.input("x"), ready.output("result.1")
    ready.set("w", B)
    ready.set("h", A)
    x[:] = A
    for times in (1, 2):
        ready.run(x, out=[m])
        np.testing.assert_array_equal(m, A * B)
        np.testing.assert_array_equal(ready.get("h"), A + times * A * B)
    ready.set("w", A)
    ready.run(x)
    np.testing.assert_array_equal(m, A * A)
    with pytest.raises(ArgumentError, match=re.escape("has no argument called 'w' (known: x)")):
        ready.input("w")


def test_threads_take_turns_and_get_their_own_results() -> None:
    ready = exe()
    view = ready.input("x")
    wrong: list[int] = []

    def work(k: int) -> None:
        for _ in range(50):
            if not np.array_equal(ready.run(A * k, B)[0], A * k - B):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    views = [ready.input("x") for _ in range(20)]
    for t in threads:
        t.join()
    assert wrong == [] and len({v.ctypes.data for v in [view, *views]}) == 1


def test_after_a_trap_old_views_must_go_first() -> None:
    text = FAILS.replace('custom-call(n), custom_call_target="mine"', "add(n, n)")
    ready = exe(text)
    x = ready.input("x")
    ready.run(A)
    assert x is not None
    instance = ready._first.take(frozenset(), ready._budget())
    instance.sound = False  # as a trap leaves it
    ready._first.put_back(instance)
    del instance
    for _ in range(2):
        with pytest.raises(
            RunError, match=re.escape("views of the memory that it had are held: drop them, and take new ones")
        ):
            ready.run(A)
    with pytest.raises(RunError, match="views of the memory"):
        ready.input("x")
    del x
    gc.collect()
    np.testing.assert_array_equal(ready.run(A)[0], -2 * A)
    x = ready.input("x")
    x[:] = B
    np.testing.assert_array_equal(ready.run(x)[0], -2 * B)


def test_a_host_function_that_fails_leaves_them() -> None:
    def mine(n: Any) -> Any:
        if n[0] == -1:
            raise ValueError("no")
        return n

    ready = xla_wasm.load(artifact(FAILS, host_calls=("mine",)), custom_calls={"mine": mine})
    x, y = ready.input("x"), ready.output("result")
    x[:] = A
    with pytest.raises(RunError, match="no"):
        ready.run(x, out=[y])
    x[0] = 5
    ready.run(x, out=[y])
    np.testing.assert_array_equal(y, [-5, -2, -3, -4])


def test_where_there_are_none() -> None:
    with pytest.raises(ArgumentError, match=re.escape("'module_e' has no result called 'y' (known: result)")):
        exe().output("y")
    dynamic = exe("ENTRY e {\n x = f32[<=4] parameter(0)\n ROOT y = f32[<=4] negate(x)\n}")
    for take in (lambda: dynamic.input("x"), lambda: dynamic.output("result")):
        with pytest.raises(ArgumentError, match="no views of arrays with dynamic dimensions"):
            take()
    with pytest.raises(ArgumentError, match="load without physical=True"):
        exe(physical=True).input("x")
    with pytest.raises(ArgumentError, match="is untrusted: there are no views"):
        exe(untrusted=True).output("result")
    with pytest.raises(UnsupportedError, match="there are no views of its memory here"):
        FreshExecutable(artifact(ADD)).input("x")
    many = "HloModule m, replica_count=2\nENTRY e {\n x = f32[4] parameter(0)\n"
    many += " ROOT y = f32[4] collective-permute(x), source_target_pairs={{0,1},{1,0}}\n}"
    with pytest.raises(ArgumentError, match="call exe.run_replicated"):
        exe(many).input("x")
