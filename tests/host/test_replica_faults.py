"""Failures of one of several devices: the right error on time, nothing left over, and a next run that works."""

from __future__ import annotations

import gc
import os
import random
import re
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xla_wasm
from tests.support.replica_programs import ADD, Array, entry, inputs, ready, reduced, same, stepped, steps
from tests.support.small_modules import counting
from xla_wasm import ExchangeError, HloModule, LimitError, Options, RunError
from xla_wasm.assemble.driver import ENTRY_BYTES, KERNEL
from xla_wasm.host.executor import Executable
from xla_wasm.host.instance import Instance

NOWHERE = 0x7FFFFFFF
"""A slot that no function table has: a call through it traps."""


def instances() -> int:
    gc.collect()
    return sum(type(thing) is Instance for thing in gc.get_objects())


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def ticking(devices: int, tick: Callable[[Array, Array], Array], **load: Any) -> Executable:
    """`steps` with a function of the host in each trip."""
    return ready(steps(devices, call=True), Options(host_calls=("tick",)), custom_calls={"tick": tick}, **load)


def arguments(devices: int, trips: int) -> tuple[list[list[Any]], list[list[Array]]]:
    """For `steps`, with the results."""
    x = inputs(devices)
    return [[np.int32(trips), a] for a in x], [[a] for a in stepped(x, trips)]


# --- a device that fails
# --------------------------------------------------------------------------------------------------


def test_a_trap_in_a_random_step_of_one_device() -> None:
    """Two hundred times, from a random trip on, in a random step of the loop, on a random device."""
    devices, trips = 4, 6
    plan: list[tuple[int, int, int]] = []
    running: list[Instance] = []

    def tick(i: Array, d: Array) -> Array:
        if plan and plan[0][:2] == (int(d), int(i)):
            at = table + ENTRY_BYTES * plan[0][2]
            running[int(d)].memory[at : at + 8] = struct.pack("<2I", KERNEL, NOWHERE)
        return i

    artifact = xla_wasm.compile(steps(devices, call=True), Options(host_calls=("tick",)))
    table = artifact.manifest["steps"]["address"]
    exe = xla_wasm.load(artifact, custom_calls={"tick": tick})
    names = exe.manifest.steps
    given, expected = arguments(devices, trips)
    same(exe.run_replicated(given), expected)
    same(exe.run_replicated(given), expected)
    loop = range(names.index("m"), names.index("end") + 1)
    before, threads, size = instances(), threading.active_count(), resident()
    rng = random.Random(6)
    for _ in range(200):
        device, step = rng.randrange(devices), rng.choice(loop)
        plan[:] = [(device, rng.randrange(trips - 2), step)]
        running[:] = [exe._device(d).pool._idle[-1] for d in range(devices)]
        with pytest.raises(RunError) as caught:
            exe.run_replicated(given)
        message = str(caught.value)
        assert message.startswith(f"device {device}: 'steps' failed in step {step} of {len(names)}, {names[step]}: "), (
            message
        )
        assert "wasm trap" in message
        del caught
        plan.clear()
        running.clear()
        same(exe.run_replicated(given), expected)
    assert instances() == before
    assert threading.active_count() <= threads
    assert resident() - size < 64e6


def test_a_function_of_the_host_that_raises() -> None:
    def tick(i: Array, d: Array) -> Array:
        if (int(d), int(i)) == fails:
            raise ValueError("no more")
        return i

    fails = (-1, -1)
    exe = ticking(3, tick)
    given, expected = arguments(3, 5)
    for fails in ((0, 0), (1, 3), (2, 4)):
        with pytest.raises(
            RunError, match=rf"^device {fails[0]}: custom call 'tick' \('t'\) failed: ValueError: no more"
        ):
            exe.run_replicated(given)
        kept = [exe._device(d).pool._idle[-1] for d in range(3)]
        fails = (-1, -1)
        same(exe.run_replicated(given), expected)
        assert [exe._device(d).pool._idle[-1] for d in range(3)] == kept  # the module was not to blame


def test_others_wake_at_once() -> None:
    """They have an hour to wait, and do not."""

    def tick(i: Array, d: Array) -> Array:
        if int(d) == 3:
            raise ValueError("no more")
        return i

    exe = ticking(4, tick)
    began = time.monotonic()
    with pytest.raises(RunError, match="^device 3: "):
        exe.run_replicated(arguments(4, 5)[0], timeout=3600)
    assert time.monotonic() - began < 60


SUM_OF_COUNTS = "f = f32[] convert(i)\n  ROOT y = f32[] all-reduce(f), replica_groups={}, to_apply=add"
ENDLESS = counting("endless", SUM_OF_COUNTS, ADD)


@pytest.mark.parametrize(
    ("limit", "says"),
    [({"fuel": 100_000}, "used up its fuel of 100000"), ({"timeout": 1.0}, r"longer than its 1 s")],
)
def test_a_device_that_reaches_its_limit(limit: dict[str, Any], says: str) -> None:
    exe = ready(HloModule.from_text(ENDLESS), **limit)
    for _ in range(2):
        for device in (0, 1):
            given = [[np.int32(5)], [np.int32(6)]]
            same(exe.run_replicated(given), [[np.array(11, np.float32)]] * 2)
            given[device] = [np.int32(-1)]
            with pytest.raises(LimitError, match=rf"^device {device}: 'endless' failed in step .*: it .*{says}"):
                exe.run_replicated(given)


def test_a_wait_that_ends_before_the_limit_of_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xla_wasm.host.exchange._GRACE", -0.9)
    exe = ready(HloModule.from_text(ENDLESS), timeout=1.0)
    for device in (0, 1):
        given = [[np.int32(5)], [np.int32(6)]]
        given[device] = [np.int32(-1)]
        with pytest.raises(
            LimitError, match=rf"^device {device}: 'endless' failed in step .*: it took longer than its 1 s"
        ):
            exe.run_replicated(given)


def test_the_states_of_all_are_lost() -> None:
    module = entry(
        """x = f32[] parameter(0)
        s = f32[] parameter(1)
        c = f32[] custom-call(x), custom_call_target="f"
        y = f32[] all-reduce(c), replica_groups={}, to_apply=add
        t = f32[] add(s, y)
        ROOT r = (f32[], f32[]) tuple(y, t)"""
    )

    def function(x: Array) -> Array:
        if x < 0:
            raise ValueError("negative")
        return x

    exe = ready(module, Options(state=(("s", 1),), host_calls=("f",)), custom_calls={"f": function})
    one, bad = [np.float32(1)], [np.float32(-1)]
    exe.run_replicated([one, one])
    assert [exe.get("s", device=d) for d in range(2)] == [2, 2]
    with pytest.raises(RunError, match="^device 1: .*negative"):
        exe.run_replicated([one, bad])
    for device in range(2):
        with pytest.raises(RunError, match="the state 's' was lost when a run failed or was interrupted: set it again"):
            exe.get("s", device=device)
    with pytest.raises(RunError, match="^device 0: the state 's' was lost"):
        exe.run_replicated([one, one])
    exe.set("s", np.float32(5), device=0)
    with pytest.raises(RunError, match="^device 1: the state 's' was lost"):
        exe.run_replicated([one, one])
    exe.set("s", np.float32(5))
    same(exe.run_replicated([one, one]), [[np.array(2, np.float32)]] * 2)
    assert [exe.get("s", device=d) for d in range(2)] == [7, 7]


def test_errors_keep_what_caused_them() -> None:
    exe = ticking(2, lambda i, d: i if int(d) == 0 else np.float32(1))  # type: ignore[arg-type,return-value]
    with pytest.raises(
        xla_wasm.ArgumentError, match=r"^device 1: .*result 0 of custom call 'tick'.* must be int32\[\]"
    ) as caught:
        exe.run_replicated(arguments(2, 1)[0])
    assert isinstance(caught.value.__cause__, xla_wasm.ArgumentError)


# --- a device that does not come
# ----------------------------------------------------------------------------------------


def test_a_device_that_never_arrives() -> None:
    release = threading.Event()

    def tick(i: Array, d: Array) -> Array:
        if int(d) == 1 and int(i) == 2 and late:
            release.wait(60)
        return i

    late = True
    exe = ticking(3, tick)
    given, expected = arguments(3, 4)
    timer = threading.Timer(3, release.set)
    timer.start()
    with pytest.raises(ExchangeError) as caught:
        exe.run_replicated(given, timeout=1)
    timer.join()
    assert re.fullmatch(
        r"device ([02]) \(replica \1, partition 0\) waited 1 s in all-reduce 's' for device 1, which never arrived(; "
        r"device \d.*)?",
        str(caught.value),
    ), caught.value
    late = False
    same(exe.run_replicated(given, timeout=30), expected)


def test_devices_that_wait_for_each_other() -> None:
    """If devices go different ways, the error of the one that gives up first names the operation in which the other
    waits."""
    module = HloModule.from_text(
        """HloModule ways

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

left {
  p = f32[2] parameter(0)
  ROOT y = f32[2] all-reduce(p), replica_groups={}, to_apply=add
}

right {
  p = f32[2] parameter(0)
  g = f32[4] all-gather(p), dimensions={0}, replica_groups={}
  ROOT y = f32[2] slice(g), slice={[0:2]}
}

ENTRY e {
  q = pred[] parameter(0)
  x = f32[2] parameter(1)
  ROOT y = f32[2] conditional(q, x, x), true_computation=left, false_computation=right
}
"""
    )
    exe = ready(module, Options(num_replicas=2))
    x = inputs(2, 2)
    with pytest.raises(ExchangeError) as caught:
        exe.run_replicated([[np.True_, x[0]], [np.False_, x[1]]], timeout=1)
    here, there = r"all-reduce 'y'", r"all-gather 'g'"
    ways = [rf"device {d} \(replica {d}, partition 0\) waited 1 s in {a} for device {1 - d}, which waits in {b} for device {d}"  # noqa: E501
            for d, a, b in ((0, here, there), (1, there, here))]  # fmt: skip
    assert re.fullmatch("|".join(ways), str(caught.value)), caught.value
    same(exe.run_replicated([[np.True_, a] for a in x]), [[x[0] + x[1]]] * 2)


def test_a_device_that_has_ended() -> None:
    exe = ready(steps(2))
    x = inputs(2)
    with pytest.raises(
        ExchangeError, match=r"^device 0 .* waited 1 s in all-reduce 's' for device 1, which ended its run$"
    ):
        exe.run_replicated([[np.int32(3), x[0]], [np.int32(2), x[1]]], timeout=1)
    same(exe.run_replicated([[np.int32(3), a] for a in x]), [[a] for a in stepped(x, 3)])


# --- interrupts
# ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Lets interrupts raise KeyboardInterrupt during a test: a process that a shell starts in the background ignores
    them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt() -> None:
    """As Ctrl-C does: the signal goes to the process, and so to its main thread."""
    os.kill(os.getpid(), signal.SIGINT)


def interrupting(wait: threading.Event, then: Callable[[], None]) -> Callable[[Array, Array], Array]:
    """Device 1 interrupts this process in trip 2, and goes on when it is released; `then` is called some time after the
    interrupt."""

    def tick(i: Array, d: Array) -> Array:
        if int(d) == 1 and int(i) == 2 and not wait.is_set():
            for seconds, act in ((0.2, interrupt), (0.6, then)):
                threading.Timer(seconds, act).start()
            wait.wait(60)
        return i

    return tick


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_the_run_on_all() -> None:
    release = threading.Event()
    exe = ticking(3, interrupting(release, release.set))
    given, expected = arguments(3, 4)
    with pytest.raises(KeyboardInterrupt):
        exe.run_replicated(given)
    assert release.is_set()  # it waited for the device that was still busy
    same(exe.run_replicated(given), expected)


@pytest.mark.usefixtures("interruptible")
def test_a_second_interrupt_does_not_wait_for_a_busy_device() -> None:
    release = threading.Event()
    exe = ticking(3, interrupting(release, interrupt))
    given, expected = arguments(3, 4)
    with pytest.raises(KeyboardInterrupt):
        exe.run_replicated(given)
    assert not release.is_set()
    same(ready(reduced()).run_replicated([inputs(1, 8)] * 2), [[inputs(1, 8)[0] * 2]] * 2)
    release.set()
    same(exe.run_replicated(given), expected)


@pytest.mark.usefixtures("interruptible")
def test_the_interpreter_ends_while_devices_compute() -> None:
    """Threads that never end do not keep the process."""
    script = f"""
import sys, threading
sys.path[:0] = {sys.path!r}
import numpy as np
from tests.host.test_replica_faults import ENDLESS, interrupt
import xla_wasm
exe = xla_wasm.load(xla_wasm.compile(xla_wasm.HloModule.from_text(ENDLESS)))
for seconds in (1, 2):
    threading.Timer(seconds, interrupt).start()
try:
    exe.run_replicated([[np.int32(5)], [np.int32(-1)]])
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.stdout == "interrupted\n" and done.returncode == 0, done.stdout + done.stderr
