"""A child of `os.fork` runs what its parent had loaded, whatever the parent's other threads were in the middle of."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import xla_wasm
from tests.host.test_interrupts import endless, endless_after
from tests.support.interrupts import ENDLESS, ENDS, STARTS
from xla_wasm.host import stop
from xla_wasm.host.executor import Executable
from xla_wasm.jax import jit
from xla_wasm.jax.jitted import _Program

pytestmark = pytest.mark.filterwarnings("ignore:os.fork", "ignore:This process")  # threads of JAX, and any threads
_LONG = 120
"""Seconds after which a child is ended that does not end by itself."""
Array = np.ndarray[Any, Any]


def child(work: Callable[[], object]) -> int:
    """The exit code of a child that does the work: 0 if it could."""
    process = os.fork()
    if process == 0:
        code = 1
        try:
            signal.alarm(_LONG)
            work()
            code = 0
        except BaseException as error:
            os.write(2, f"in the child: {error!r}\n".encode())
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def works(exe: Executable) -> None:
    """Runs it in every way."""
    for _ in range(3):
        assert (exe.run(ENDS)[0] == ENDS).all()
        assert [device[0][0] for device in exe.run_replicated([[ENDS], [ENDS + 1], [ENDS + 2]])] == [3, 4, 5]
    assert exe.run(ENDS, out=[exe.output(exe.results[0].name)])[0][0] == ENDS
    exe.close()
    assert endless().run(ENDS)[0][0] == ENDS


@contextmanager
def under_way(exe: Executable, run: Callable[[], object]) -> Iterator[None]:
    """A run in another thread, which is ended at the end."""
    caller, errors = stop.Caller(), []

    def work() -> None:
        try:
            caller.wait_for(run)
        except xla_wasm.RunError as error:
            errors.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    while not stop._runs:
        time.sleep(0.001)
    try:
        yield
        assert thread.is_alive()
    finally:
        caller.leave(lambda: xla_wasm.RunError("enough"))
        thread.join(_LONG)
    assert len(errors) == 1 and "enough" in errors[0]
    assert exe.run_replicated([[ENDS]] * 2)[1][0][0] == ENDS


@pytest.mark.parametrize("method", ["run", "run_replicated"])
@pytest.mark.parametrize("threads", [False, True])
def test_while_another_thread_runs(method: str, threads: bool) -> None:
    module = xla_wasm.HloModule.from_text(ENDLESS)
    exe = xla_wasm.load(xla_wasm.compile(module, xla_wasm.Options(threads=threads)), threads=2 if threads else None)
    exe.run(ENDS)

    with under_way(exe, lambda: exe.run(STARTS) if method == "run" else exe.run_replicated([[STARTS]] * 3)):
        for _ in range(3):
            assert child(lambda: works(exe)) == 0


def test_errors_that_are_kept() -> None:
    """They hold runs that are over, of which there is nothing to make anew."""

    def call(x: Array) -> Array:
        raise ValueError("no more")

    failing, exe, kept = endless_after(call), endless(), []
    for _ in range(10):
        with pytest.raises(xla_wasm.RunError, match="no more") as error:
            failing.run_replicated([[ENDS]] * 2)
        kept.append(error)
    with under_way(exe, lambda: exe.run_replicated([[STARTS]] * 2)):
        assert child(lambda: works(exe)) == 0
    assert len(kept) == 10


def locks() -> list[tuple[Any, str]]:
    """All locks in attributes of the host's and `jit`'s objects, and in their modules, as pairs of an owner and a
    name."""
    ours = ("xla_wasm.host.", "xla_wasm.jax.")
    modules = [module for name, module in sys.modules.items() if name.startswith(ours)]
    objects = [thing for thing in gc.get_objects() if str(type(thing).__module__).startswith(ours)]
    return [
        (owner, name)
        for owner in (*modules, *objects)
        for name in (*getattr(owner, "__dict__", ()), *getattr(type(owner), "__slots__", ()))
        if type(getattr(owner, name, None)) in (type(threading.Lock()), type(threading.RLock()))
    ]


def taken(owner: Any, name: str) -> bool:
    """Takes a lock, unless another thread has it."""
    return bool(getattr(owner, name).acquire(blocking=False))


def test_every_lock_is_free() -> None:
    artifact = xla_wasm.compile(xla_wasm.HloModule.from_text(ENDLESS))
    exe = xla_wasm.load(artifact, untrusted=True)
    exe.run_replicated([[ENDS]] * 2)
    jitted = jit(works), _Program(artifact, {})
    found = locks()
    assert {name for _, name in found} >= {"_lock", "_together", "_leasing", "_only", "_loading", "_counting"}
    held, over = threading.Event(), threading.Event()

    def hold() -> None:
        mine = [getattr(owner, name) for owner, name in found if taken(owner, name)]
        held.set()
        over.wait(_LONG)
        for lock in mine:
            lock.release()

    def check() -> None:
        assert [(owner, name) for owner, name in found if not taken(owner, name)] == []
        for owner, name in found:
            getattr(owner, name).release()
        assert exe.run(ENDS)[0][0] == ENDS
        assert jitted[1].executable.run(ENDS)[0][0] == ENDS

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(_LONG)
    try:
        assert child(check) == 0
        assert not any(taken(owner, name) for owner, name in found)
    finally:
        over.set()
        thread.join(_LONG)


@pytest.mark.parametrize("seconds", [0.0, 0.2])
def test_inside_of_a_run_on_several_devices(seconds: float) -> None:
    """Its child has no thread for the other device, which has begun or may not have: an error says so, and the next run
    has one."""
    children: list[int] = []
    forked = threading.Event()

    def call(x: Array) -> Array:
        if x == ENDS and not children:
            time.sleep(seconds)
            children.append(os.fork())
            if children == [0]:
                signal.alarm(_LONG)
            forked.set()
        forked.wait(_LONG)
        return x

    exe, results = endless_after(call), []
    try:
        results = exe.run_replicated([[ENDS], [ENDS + 1]])
        code = 1
    except xla_wasm.RunError as error:
        left = "device 1: os.fork, called while it ran, has left its thread in the parent process"
        code = 0 if str(error) == left else 2
    if children == [0]:
        try:
            assert [device[0][0] for device in exe.run_replicated([[ENDS], [ENDS + 1]])] == [3, 4]
        except BaseException:
            code = 3
        finally:
            os._exit(code)
    assert [device[0][0] for device in results] == [3, 4]
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 0
