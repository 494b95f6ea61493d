"""Modules that nobody trusts, and hosts under stress: every public call ends in time, and whatever happens the next one
works."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import cycle
from typing import Any, cast

import numpy as np
import pytest
import wasmtime

from tests.support.at_once import at_once
from tests.support.toy_artifact import SHAPE, WAT, toy
from xla_wasm import ArgumentError, LimitError, Options, RunError, compile, load
from xla_wasm.artifact import Artifact
from xla_wasm.hlo.ir import Module
from xla_wasm.host.engine import Clock

X = np.arange(6, dtype=np.float32).reshape(SHAPE)
W = X * 3
K = np.int64(4)
SLACK = 0.2
"""Seconds that a call may take beyond its timeout; on a machine that does much else, tests allow more."""
LOADED = 3.0


def compiled(text: str, **options: Any) -> Artifact:
    return compile(Module.from_text(text), Options(**options))


def endless(body: str, before: str = "", kept: str = "s32[]", after: str = "") -> str:
    """A loop that never ends, over a number and a token."""
    return f"""HloModule endless{before}
{after}
always {{
  s = ({kept}, token[]) parameter(0)
  ROOT yes = pred[] constant(true)
}}
again {{
  s = ({kept}, token[]) parameter(0)
  n = {kept} get-tuple-element(s), index=0
  t = token[] get-tuple-element(s), index=1
{body}
}}
ENTRY e {{
  n = {kept} parameter(0)
  t = token[] after-all()
  s = ({kept}, token[]) tuple(n, t)
  w = ({kept}, token[]) while(s), condition=always, body=again
  ROOT r = {kept} get-tuple-element(w), index=0
}}
"""


COMPUTING = endless("  one = s32[] constant(1)\n  m = s32[] add(n, one)\n  ROOT u = (s32[], token[]) tuple(m, t)")
FEEDING = endless("  o = token[] outfeed(n, t), outfeed_shape=s32[]\n  ROOT u = (s32[], token[]) tuple(n, o)")
TO_NOBODY = endless(
    "  m = s32[] collective-permute(n), source_target_pairs={}, channel_id=1\n  ROOT u = (s32[], token[]) tuple(m, t)",
    before=", replica_count=2",
)
CALLING = endless('  m = s32[] custom-call(n), custom_call_target="f"\n  ROOT u = (s32[], token[]) tuple(m, t)')
N = np.int32(1)


def within(timeout: float, call: Callable[[], Any], message: str = "took longer than its") -> None:
    begin = time.monotonic()
    with pytest.raises(LimitError, match=message):
        call()
    assert time.monotonic() - begin < timeout + SLACK + LOADED


@pytest.mark.parametrize("way", ["run", "profile"])
def test_a_run_that_never_ends(way: str) -> None:
    exe = load(compiled(COMPUTING), timeout=0.2)
    for _ in range(2):
        within(0.2, lambda: getattr(exe, way)(N))
    exe = load(compiled(COMPUTING), fuel=200_000)
    for _ in range(2):
        within(0, lambda: getattr(exe, way)(N), "used up its fuel of 200000")


@pytest.mark.parametrize("way", ["run", "profile"])
def test_a_run_that_waits_for_its_host_for_ever(way: str) -> None:
    items: list[Any] = []
    exe = load(compiled(FEEDING), timeout=0.2)
    within(0.2, lambda: getattr(exe, way)(N, outfeed=items.append))
    assert items
    within(0, lambda: getattr(load(compiled(FEEDING), fuel=20_000), way)(N, outfeed=items.append), "fuel")
    called = load(compiled(CALLING, host_calls={"f"}), timeout=0.2, custom_calls={"f": lambda n: n})
    within(0.2, lambda: getattr(called, way)(N))


@pytest.mark.parametrize("way", ["run_replicated", "profile_replicated"])
def test_exchanges_with_nobody(way: str) -> None:
    exe = load(compiled(TO_NOBODY), timeout=0.2)
    for _ in range(2):
        within(0.2, lambda: getattr(exe, way)([[N], [N]]))


def test_a_device_that_others_wait_for() -> None:
    """The one computes for ever, the other waits for it: one budget for both."""
    text = """HloModule m, replica_count=2

add { a = s32[] parameter(0)  b = s32[] parameter(1)  ROOT c = s32[] add(a, b) }
first { s = s32[] parameter(0)  zero = s32[] constant(0)  ROOT yes = pred[] compare(s, zero), direction=GE }
again { s = s32[] parameter(0)  two = s32[] constant(2)  ROOT t = s32[] xor(s, two) }
ENTRY e {
  n = s32[] parameter(0)
  w = s32[] while(n), condition=first, body=again
  ROOT r = s32[] all-reduce(w), to_apply=add
}
"""
    exe = load(compiled(text), timeout=0.3)
    within(0.3, lambda: exe.run_replicated([[N], [np.int32(-1)]]))
    assert exe.run_replicated([[np.int32(-1)], [np.int32(-2)]])[0][0] == -3


def test_many_inits() -> None:
    """Each of them is short."""
    slow = WAT.replace(
        "(if (i32.eq (local.get $i) (i32.const 0)) (then",
        "(loop $l (br_if $l (i32.lt_u (local.tee $p (i32.add (local.get $p) (i32.const 1))) (i32.const 1000000))))"
        "(if (i32.ge_u (local.get $i) (i32.const 3)) (then return)) (local.set $p (i32.const 0))"
        "(if (i32.eq (local.get $i) (i32.const 0)) (then",
        1,
    )
    artifact = toy(slow)
    more = [{**artifact.manifest["inits"][0], "index": i, "name": f"c{i}"} for i in range(3, 10_000)]
    artifact = Artifact(
        artifact.wasm, {**artifact.manifest, "inits": [*artifact.manifest["inits"], *more]}, artifact.weights
    )
    within(0.3, lambda: load(artifact, timeout=0.3))
    within(0, lambda: load(artifact, fuel=10**8), "fuel")


def test_instances_do_not_get_lost() -> None:
    """Exceptions that another thread sends, at any moment: the instance stays, or another one takes its place.

    In a process of its own, since they also come where something is freed, and Python reports those.
    XLA_WASM_INTERRUPTS says how many.
    """
    count = int(os.environ.get("XLA_WASM_INTERRUPTS", "3000"))
    out = in_process(
        f"""
import threading
import numpy as np
from tests.support.toy_artifact import toy
from tests.host.test_limits import K, W, X, interrupt, runs_in_threads
from xla_wasm import load
sys.unraisablehook = threading.excepthook = lambda *_: None  # else they come while Python writes of the last one
for options in ({{}}, {{"memory_limit": 65536}}, {{"timeout": 60.0}}):
    exe = load(toy(), **options)
    exe.set("w", W)
    exe.run(X, K)
    interrupt(exe, {count})
    exe.set("count", np.int32(0))
    print(runs_in_threads(exe))
""",
        seconds=60 + count / 200,
    )
    assert out == "4\n4\n4\n"


class Interrupt(BaseException):
    """The exception that `interrupted` raises within a call."""


def interrupted(call: Callable[[], object], first: int, gap: int = 10**9) -> bool:
    """Returns true if a call ends by an `Interrupt`, which is raised before the instruction of Python with the number
    `first`, and again before the one `gap` later."""
    number = 0

    def trace(frame: Any, event: str, _: object) -> Any:
        nonlocal number
        frame.f_trace_opcodes = True
        number += event == "opcode"
        if event == "opcode" and number in (first + 1, first + 1 + gap):
            raise Interrupt
        return trace

    outer = sys.gettrace()  # of what measures coverage
    sys.settrace(trace)
    try:
        call()
    except Interrupt:
        return True
    finally:
        sys.settrace(outer)
    return False


def test_interrupted_clocks_go_on() -> None:
    """An exception before any instruction of Python that a call under a time limit takes: the epoch advances for the
    next call."""

    class Engine:
        ticks = 0

        def increment_epoch(self) -> None:
            self.ticks += 1

    def advances(clock: Clock, engine: Engine) -> bool:
        def call(before: int) -> int:
            end = time.monotonic() + 20
            while engine.ticks == before and time.monotonic() < end:
                time.sleep(0.001)
            return engine.ticks - before

        counts: list[int] = []
        run = lambda: counts.append(clock.run(call, engine.ticks, time.monotonic() + 60))  # noqa: E731
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(30)
        return bool(counts and counts[0])

    for instructions in range(10000):
        engine = Engine()
        clock = Clock(cast(wasmtime.Engine, engine))
        more = interrupted(partial(clock.run, lambda argument: argument, 0, time.monotonic() + 60), instructions)
        assert advances(clock, engine), instructions
        if not more:
            break
    assert 20 < instructions < 9999


@pytest.mark.parametrize("options", [{}, {"memory_limit": 65536}], ids=["plain", "memory"])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_interrupted_runs_keep_or_lose_the_state(options: dict[str, Any]) -> None:
    """Exceptions before any instruction of Python that a run takes, and before one of those that end it: the next run
    finds the state as it was before or after, or says that it was lost; none waits for an instance that is gone.
    """
    exe = load(toy(), timeout=20, **options)
    exe.set("w", W)
    exe.run(X, K)
    gaps = [10**9, *range(1, 12), 16, 23, 31, 44, 60]
    count, lost = 1, 0
    for first in range(10000):
        more = False
        for gap in gaps:
            more |= interrupted(lambda: exe.run(X, K), first, gap)
            try:
                (now,) = exe.get("count").reshape(1)
                assert now in (count, count + 1), (first, gap)
                count = int(now)
            except RunError as error:
                assert "was lost" in str(error)
                lost += 1
                exe.set("count", np.int32(count))
        if not more:
            break
    assert 40 < first < 9999
    assert lost


def runs_in_threads(exe: Any) -> int:
    """Starts four runs at once, and returns the number of those that end; it waits 30 s for each."""
    done: list[Any] = []
    threads = [threading.Thread(target=lambda: done.append(exe.run(X, K)), daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return len(done)


class Sent(BaseException):
    """The exception that one thread raises in another."""


def interrupt(exe: Any, count: int) -> None:
    """Runs while exceptions come from outside, until `count` have come."""
    caught: list[None] = []

    def work() -> None:
        while True:
            try:
                while True:
                    try:
                        exe.run(X, K)
                    except RunError:  # the state was lost
                        exe.set("count", np.int32(0))
            except Sent:
                caught.append(None)
                if len(caught) >= count:
                    return

    pauses = np.random.default_rng(0).random(1000) * 4e-5
    while len(caught) < count:  # one that comes after another may end the thread
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        for pause in cycle(pauses):
            if not thread.is_alive():
                break
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(Sent))
            end = time.perf_counter() + pause
            while time.perf_counter() < end:
                time.sleep(0)


def in_process(script: str, seconds: float = 60) -> str:
    """Runs a script in a process of its own."""
    head = f"import sys\nsys.path[:0] = {sys.path!r}\n"
    done = subprocess.run([sys.executable, "-c", head + script], capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    return done.stdout


def test_after_a_fork() -> None:
    """Limits hold in parent and child, for what was loaded before and what is loaded after; what other threads held is
    not missed."""
    out = in_process("""
import os, threading, time, warnings
import numpy as np
from tests.host.test_limits import COMPUTING, K, N, W, X, compiled
from tests.support.toy_artifact import toy
from xla_wasm import LimitError, RunError, load
warnings.simplefilter("ignore")
endless_exe = load(compiled(COMPUTING), timeout=0.3)
short = load(toy(), memory_limit=65536)
short.set("w", W)
def ends(exe):
    begin = time.monotonic()
    try:
        exe.run(N)
    except LimitError:
        return time.monotonic() - begin < 5
held = threading.Event()
gone = threading.Event()
def hold():
    instance = short._first.take(set(), short._budget())
    held.set()
    gone.wait()
    short._first.put_back(instance)
threading.Thread(target=hold, daemon=True).start()
held.wait()
busy = threading.Thread(target=ends, args=(endless_exe,))
busy.start()
child = os.fork()
if not child:
    fresh = load(compiled(COMPUTING.replace("constant(1)", "constant(3)")), timeout=0.3)
    fine = ends(endless_exe) and ends(fresh)
    try:
        short.run(X, K)
    except RunError:  # the state was in the hands of a thread that is not here
        short.set("count", np.int32(5))
        fine = fine and bool(short.run(X, K)) and short.get("count") == 6
    else:
        fine = False
    os._exit(0 if fine else 1)
gone.set()
_, status = os.waitpid(child, 0)
busy.join()
print(status, ends(endless_exe), len(short.run(X, K)))
""")
    assert out == "0 True 3\n"


CALLED = """HloModule calls

ENTRY e {
  x = s32[] parameter(0)
  ROOT y = s32[] custom-call(x), custom_call_target="f"
}
"""


def nested(**options: Any) -> Any:
    """An executable whose function runs it again, with one less."""
    exe: Any = None

    def f(n: Any) -> Any:
        return n if n <= 0 else exe.run(np.int32(n - 1))[0] + 1

    exe = load(compiled(CALLED, host_calls={"f"}), custom_calls={"f": f}, **options)
    return exe


def test_functions_that_run_their_own_executable() -> None:
    exe = nested()
    assert exe.run(np.int32(1))[0] == 1 or os.cpu_count() == 1
    with pytest.raises(
        RunError, match=r"instances of 'calls' are held by runs that wait for another run of it: .* exe.clone\(\)"
    ):
        exe.run(np.int32(2 * (os.cpu_count() or 1) + 1))
    assert exe.run(np.int32(0))[0] == 0
    one = nested(memory_limit=exe.manifest.memory_bytes)
    with pytest.raises(RunError, match="held by runs that wait"):
        one.run(np.int32(1))
    assert one.run(np.int32(0))[0] == 0


def test_threads_that_nest_at_once() -> None:
    """Each holds an instance and wants another: one of them gets an error, or all go through."""
    exe = nested()
    outcomes: list[Any] = []

    def work(caller: int) -> None:
        for _ in range(20):
            try:
                outcomes.append(int(exe.run(np.int32(1))[0]))
            except RunError as error:
                outcomes.append(str(error))

    at_once(work, range(4))
    assert len(outcomes) == 80
    assert all(outcome == 1 or "held by runs that wait" in outcome for outcome in outcomes)
    assert exe.run(np.int32(0))[0] == 0


def test_devices_whose_functions_run_their_executable() -> None:
    text = CALLED.replace("HloModule calls", "HloModule calls, replica_count=2")
    exe: Any = None
    other: Any = None

    def f(n: Any) -> Any:
        return n if n == 0 else (exe if n == 1 else other).run_replicated([[np.int32(0)]] * 2)[0][0] + 5

    artifact = compiled(text, host_calls={"f"})
    exe = load(artifact, custom_calls={"f": f})
    other = exe.clone()
    for arguments in ([[1], [0]], [[0], [1]]):
        with pytest.raises(RunError, match="runs on all its devices already"):
            exe.run_replicated([[np.int32(n)] for (n,) in arguments])
    assert exe.run_replicated([[np.int32(2)], [np.int32(0)]])[0][0] == 5


RECURSING = WAT.replace(
    "(func $affine (local $p i32)",
    """(func $deep (param i32) (result i32) (i32.add (call $deep (i32.add (local.get 0) (i32.const 1))) (i32.const 1)))
  (func $affine (local $p i32) (drop (call $deep (i32.const 0)))""",
    1,
)


def test_small_stacks() -> None:
    """A module that recurses for ever ends with an error on a thread with a stack of 128 KiB, and programs run
    there."""
    out = in_process("""
import threading
from tests.host.test_limits import K, RECURSING, W, X
from tests.support.toy_artifact import toy
from xla_wasm import RunError, load
threading.stack_size(128 * 1024)
def work():
    exe = load(toy(RECURSING))
    exe.set("w", W)
    try:
        exe.run(X, K)
    except RunError as error:
        print("call stack exhausted" in str(error))
    exe = load(toy())
    exe.set("w", W)
    print(len(exe.run(X, K)))
thread = threading.Thread(target=work)
thread.start()
thread.join()
""")
    assert out == "True\n3\n"


def test_untrusted() -> None:
    nan = "HloModule m\n\nENTRY e {\n  x = f32[4] parameter(0)\n  ROOT y = f32[4] divide(x, x)\n}\n"
    exe = load(compiled(nan), untrusted=True)
    assert exe.run(np.zeros(4, np.float32))[0].view(np.uint32).tolist() == [0x7FC00000] * 4
    limits = exe._limits
    assert limits.memory == 1 << 30 and limits.fuel == 10**11 and limits.timeout == 10
    assert load(compiled(nan), untrusted=True, timeout=0.5)._limits.timeout == 0.5
    with pytest.raises(LimitError, match="the limit is 1024"):
        load(compiled(nan), untrusted=True, memory_limit=1024)
    with pytest.raises(ArgumentError, match="fuel must be above zero"):
        load(compiled(nan), untrusted=True, fuel=0)


def test_clones() -> None:
    exe = load(toy())
    exe.set("w", W)
    first = exe.run(X, K)
    twin = exe.clone()
    np.testing.assert_equal(twin.run(X, K), first)
    assert (exe.get("count"), twin.get("count")) == (1, 1)
    exe.run(X, K)
    twin.set("w", 2 * W)
    assert (exe.get("count"), twin.get("count")) == (2, 1)
    np.testing.assert_equal(exe.run(X, K), first)
    assert not np.array_equal(twin.run(X, K)[0], first[0])


def test_a_thousand_instances() -> None:
    """Of one compiled module, all alive and all right, in at most 200 MB."""
    out = in_process("""
import gc, pathlib, resource
import numpy as np
from tests.support.paths import ROOT
from xla_wasm import HloModule, compile, load
exe = load(compile(HloModule.from_proto((ROOT / "examples/digits/digits.hlo.pb").read_bytes())))
images = np.load(ROOT / "examples/digits/images.npy").reshape(-1, 1, 8, 8, 1).astype(np.float32)
def resident():
    gc.collect()
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
before = resident()
clones = [exe.clone() for _ in range(1000)]
right = all(np.array_equal(clone.run(images[i % len(images)])[0], exe.run(images[i % len(images)])[0]) for i, clone in enumerate(clones))
print(right, (resident() - before) >> 20)
""")  # noqa: E501
    right, megabytes = out.split()
    assert right == "True" and int(megabytes) < 200
