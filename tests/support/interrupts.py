"""Programs that only Ctrl-C ends, run in every way there is and interrupted again and again.

    python -m tests.support.interrupts [WAY ...] [--count N] [--load N]

prints for each way of running how long after the signal KeyboardInterrupt came, in ms. After each interrupt, a run that
ends has to give what it should. `--load`: so many processes compute meanwhile. pytest runs each way a few times
(`tests/host/test_interrupts.py`).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from _thread import start_new_thread
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

import xla_wasm

_SIZE = 1 << 16
ENDLESS = """HloModule endless
c {
  s = (f32[], f32[SIZE]) parameter(0)
  i = f32[] get-tuple-element(s), index=0
  two = f32[] constant(2)
  ROOT go = pred[] compare(i, two), direction=LT
}
b {
  s = (f32[], f32[SIZE]) parameter(0)
  i = f32[] get-tuple-element(s), index=0
  x = f32[SIZE] get-tuple-element(s), index=1
  y = f32[SIZE] sine(x)
  ROOT t = (f32[], f32[SIZE]) tuple(i, y)
}
ENTRY e {
  i = f32[] parameter(0)
  x = f32[SIZE] broadcast(i), dimensions={}
  s = (f32[], f32[SIZE]) tuple(i, x)
  w = (f32[], f32[SIZE]) while(s), condition=c, body=b
  ROOT r = f32[SIZE] get-tuple-element(w), index=1
}
""".replace("SIZE", str(_SIZE))
"""Ends at once for 2 and more, and never for less."""
STARTS, ENDS = np.float32(1), np.float32(3)
_CHOLESKY = """HloModule m
ENTRY e {
  x = f32[2500,2500] parameter(0)
  ROOT y = f32[2500,2500] cholesky(x), lower=true
}
"""
"""One call of the C runtime that takes some hundred milliseconds."""

Run = Callable[[np.float32], object]
"""Runs the endless program."""


def _loaded(**options: object) -> xla_wasm.Executable:
    compiled = xla_wasm.Options(threads="threads" in options)
    return xla_wasm.load(xla_wasm.compile(xla_wasm.HloModule.from_text(ENDLESS), compiled), **options)  # type: ignore[arg-type]


def _run(**options: object) -> Run:
    exe = _loaded(**options)
    return lambda i: exe.run(i)[0]


def _run_async() -> Run:
    exe = _loaded()
    return lambda i: asyncio.run(exe.run_async(i))[0]


def _inside_a_loop() -> Run:
    """A run that blocks a loop of asyncio, whose handler of the signal only cancels the task."""
    exe = _loaded()

    async def main(i: np.float32) -> object:
        return exe.run(i)[0]

    return lambda i: asyncio.run(main(i))


def _jit() -> Run:
    import jax

    from xla_wasm.jax import jit

    return jit(lambda i: jax.lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0], jax.numpy.sin(s[1])),
                                            (i, jax.numpy.broadcast_to(i, _SIZE)))[1])  # fmt: skip


def _profile() -> Run:
    exe = _loaded()

    def run(i: np.float32) -> object:
        exe.profile(i)
        return exe.run(ENDS)[0]

    return run


def _replicas() -> Run:
    exe = _loaded()
    return lambda i: exe.run_replicated([[i]] * 3)[2][0]


def _one_replica() -> Run:
    """The last of three computes, and the main thread waits for it."""
    exe = _loaded()
    return lambda i: exe.run_replicated([[ENDS], [ENDS], [i]])[2][0]


def _one_kernel() -> Run:
    exe = xla_wasm.load(xla_wasm.compile(xla_wasm.HloModule.from_text(_CHOLESKY)))
    large, small = np.eye(2500, dtype=np.float32) * 4, np.zeros((2500, 2500), np.float32)

    def run(i: np.float32) -> object:
        if i == STARTS:
            while True:
                exe.run(large)
        exe.run(small)
        return np.full(_SIZE, ENDS)

    return run


WAYS: dict[str, Callable[[], Run]] = {
    "run": _run,
    "run, with a timeout": lambda: _run(timeout=600.0),
    "run, with fuel": lambda: _run(fuel=10**15),
    "threads": lambda: _run(threads=2),
    "run_async": _run_async,
    "inside of asyncio": _inside_a_loop,
    "profile": _profile,
    "replicas": _replicas,
    "one replica": _one_replica,
    "one kernel": _one_kernel,
    "jit": _jit,
}


def interrupted(run: Run, seconds: float) -> float:
    """Starts the endless program, sends this process SIGINT after so many seconds, and returns how many seconds later
    KeyboardInterrupt came."""
    sent: list[float] = []

    def send() -> None:
        time.sleep(seconds)
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    try:
        # Not `threading.Timer`, whose `start` may not be interrupted: on a busy machine the signal comes that soon.
        start_new_thread(send, ())
        run(STARTS)
    except KeyboardInterrupt:
        return time.monotonic() - sent[0]
    raise AssertionError("the program has ended")


def measure(way: str, count: int, random_: random.Random) -> list[float]:
    """The seconds from signal to KeyboardInterrupt, `count` times. AssertionError if a run between them is wrong."""
    run = WAYS[way]()
    expected = np.full(_SIZE, ENDS)
    np.testing.assert_array_equal(np.asarray(run(ENDS)), expected)
    seconds = []
    for _ in range(count):
        seconds.append(interrupted(run, random_.uniform(0.01, 0.1)))
        np.testing.assert_array_equal(np.asarray(run(ENDS)), expected)
    return seconds


@contextmanager
def _load(processes: int) -> Iterator[None]:
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("ways", nargs="*", metavar="WAY", help=f"one of: {'; '.join(WAYS)}. All, if there is none")
    parser.add_argument("--count", type=int, default=100, help="interrupts of each way")
    parser.add_argument("--load", type=int, default=0, help="processes that compute meanwhile")
    given = parser.parse_args()
    # A process that a shell starts in the background ignores the signal.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with _load(given.load):
        for way in given.ways or WAYS:
            milliseconds = sorted(1000 * s for s in measure(way, given.count, random.Random(1)))
            print(
                f"{way}: median {milliseconds[len(milliseconds) // 2]:.1f}, most {milliseconds[-1]:.1f} ms", flush=True
            )


if __name__ == "__main__":
    main()
