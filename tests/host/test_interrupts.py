"""Ctrl-C ends any run, and the next one is right. `python -m tests.support.interrupts` measures how soon."""

from __future__ import annotations

import asyncio
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

import xla_wasm
import xla_wasm.jax
from tests.support.interrupts import ENDLESS, ENDS, STARTS, WAYS
from tests.support.paths import ROOT
from xla_wasm.host import replicas, stop, workers
from xla_wasm.host.instance import Instance

sys.path.insert(0, str(ROOT / "tools"))
import pythons

PYTHONS = ROOT / ".tools" / "pythons"
_LONG = 120
"""Seconds after which a child is ended that does not end by itself."""


@pytest.mark.parametrize("version", pythons.found())
def test_every_way_of_running(version: str) -> None:
    command = [str(pythons.python(PYTHONS, version)), "-m", "tests.support.interrupts", "--count", "2"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=4 * _LONG, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == [*WAYS]


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "endless.hlo").write_text(ENDLESS)
    np.save(tmp_path / "i.npy", STARTS)
    command = [sys.executable, "-m", "xla_wasm", "run", "endless.hlo", "-i", "i.npy"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        text=True,
        # What a shell starts in the background ignores the signal, and so do its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    ended = threading.Timer(_LONG, process.kill)
    ended.start()
    while process.poll() is None and _cpu_seconds(process.pid) < 2.5:  # several times what it takes to start
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate()
    ended.cancel()
    assert process.returncode == 130, errors
    assert "Traceback" not in output + errors


WHILE_IMPORTING = """
import signal
import sys
where = sys.argv.pop(1)
class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == where:
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupts())
from xla_wasm.command import main
main()
"""


@pytest.mark.parametrize(
    ("where", "command"),
    [
        ("typer", "run m.hlo --random-inputs"),
        ("xla_wasm.command.run", "run m.hlo --random-inputs"),
        ("numpy", "run m.hlo --random-inputs"),
        ("numpy._core.multiarray", "run m.hlo --random-inputs"),
        ("ml_dtypes._finfo", "run m.hlo --random-inputs"),
        ("wasmtime._ffi", "run m.hlo --random-inputs"),
        ("numpy._core.umath", "check m.hlo"),
        ("numpy._core.umath", "compile m.hlo --state x:0 --initial x=x.npy"),
    ],
)
def test_the_command_while_it_imports(tmp_path: Path, where: str, command: str) -> None:
    """NumPy's extension modules print the exception that comes then, and raise another one."""
    (tmp_path / "m.hlo").write_text(
        "HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n  y = f32[4] negate(x)\n"
        "  ROOT t = (f32[4], f32[4]) tuple(y, y)\n}\n"
    )
    np.save(tmp_path / "x.npy", np.ones(4, np.float32))
    done = subprocess.run(
        [sys.executable, "-c", WHILE_IMPORTING, where, *command.split()],
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
        cwd=tmp_path,
        timeout=_LONG,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_the_timeout_of_the_command(tmp_path: Path) -> None:
    (tmp_path / "endless.hlo").write_text(ENDLESS)
    np.save(tmp_path / "i.npy", STARTS)
    command = [sys.executable, "-m", "xla_wasm", "run", "endless.hlo", "-i", "i.npy", "--timeout", "0.5"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=_LONG)
    assert done.returncode == 2
    assert "took longer than its 0.5 s" in done.stderr and "--timeout" in done.stderr


@pytest.fixture(scope="module")
def kernel() -> Iterator[BlockingKernelClient]:
    """A kernel of Jupyter, in which `exe` is the endless program."""
    manager = KernelManager()
    manager.start_kernel(env={**os.environ, "PYTHONPATH": str(ROOT)})
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=_LONG)
    client.interrupt = manager.interrupt_kernel
    made = f"xla_wasm.load(xla_wasm.compile(xla_wasm.HloModule.from_text({ENDLESS!r})))"
    cell = f"import numpy as np, xla_wasm\nexe = {made}"
    assert client.execute_interactive(cell, timeout=_LONG)["content"]["status"] == "ok"
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


@pytest.mark.parametrize("call", ["exe.run", "await exe.run_async", "exe.profile"])
def test_jupyter(kernel: BlockingKernelClient, call: str) -> None:
    for _ in range(2):
        kernel.execute(f"print('begun', flush=True); {call}(np.float32({STARTS}))", stop_on_error=False)
        while (message := kernel.get_iopub_msg(timeout=_LONG))["msg_type"] != "stream":
            pass
        assert message["content"]["text"].startswith("begun")
        time.sleep(0.1)
        kernel.interrupt()
        reply = kernel.get_shell_msg(timeout=_LONG)["content"]
        assert (reply["status"], reply["ename"]) in [("error", "KeyboardInterrupt"), ("error", "CancelledError")]
        done = kernel.execute_interactive(f"assert (exe.run(np.float32({ENDS}))[0] == {ENDS}).all()", timeout=_LONG)
        assert done["content"]["status"] == "ok", done["content"]


def endless(**options: float) -> xla_wasm.Executable:
    """The endless program, loaded."""
    return xla_wasm.load(xla_wasm.compile(xla_wasm.HloModule.from_text(ENDLESS)), **options)  # type: ignore[arg-type]


def test_a_handler_of_the_program_decides() -> None:
    """Whoever notes the signal to end after this run is not interrupted in it."""
    exe, noted = endless(timeout=1.0), []
    before = signal.signal(signal.SIGINT, lambda *_: noted.append(1))
    try:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(xla_wasm.LimitError):
            exe.run(STARTS)
    finally:
        signal.signal(signal.SIGINT, before)
    assert noted


def test_a_wakeup_file_of_others_gets_the_signals() -> None:
    """As event loops set one."""
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    before = signal.signal(signal.SIGINT, signal.default_int_handler), signal.set_wakeup_fd(writes)
    try:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            endless().run(STARTS)
        assert signal.set_wakeup_fd(-1) == writes
        assert os.read(reads, 1) == bytes([signal.SIGINT])
    finally:
        signal.set_wakeup_fd(before[1])
        signal.signal(signal.SIGINT, before[0])
        os.close(reads)
        os.close(writes)


def test_a_cancelled_task_ends_its_run() -> None:
    exe = endless()

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await exe.run_async(STARTS)
        assert (await exe.run_async(ENDS))[0][0] == ENDS

    asyncio.run(main())


@pytest.mark.parametrize("limits", [{}, {"timeout": 1000.0}, {"timeout": 1000.0, "fuel": 10**15}])
def test_a_device_that_computes_ends_when_another_fails(limits: dict[str, Any]) -> None:
    """At once, and not when its own time is over."""
    text = """HloModule m
c { s = s32[] parameter(0)
  zero = s32[] constant(0)
  ROOT go = pred[] compare(s, zero), direction=GE }
b { s = s32[] parameter(0)
  ROOT same = s32[] add(s, s) }
ENTRY e {
  i = s32[] parameter(0)
  k = s32[] custom-call(i), custom_call_target="fails"
  ROOT w = s32[] while(k), condition=c, body=b
}"""

    def fails(i: np.ndarray) -> np.ndarray:
        if int(i) < 0:
            time.sleep(0.2)
            raise ValueError("no more")
        return i * 0

    options = xla_wasm.Options(host_calls=("fails",))
    artifact = xla_wasm.compile(xla_wasm.HloModule.from_text(text), options)
    exe = xla_wasm.load(artifact, custom_calls={"fails": fails}, **limits)
    began = time.monotonic()
    with pytest.raises(xla_wasm.RunError, match="^device 1: .*no more"):
        exe.run_replicated([[np.int32(1)], [np.int32(-1)]])
    assert time.monotonic() - began < 500


def calling(waits: Callable[[np.ndarray], np.ndarray], size: int, **options: float) -> xla_wasm.Executable:
    """A program that calls the host twice and then computes so many sines; `size` decides if it can be ended."""
    text = f"""HloModule m
ENTRY e {{
  i = f32[] parameter(0)
  j = f32[] custom-call(i), custom_call_target="waits"
  k = f32[] custom-call(j), custom_call_target="waits"
  l = f32[{size}] broadcast(k), dimensions={{}}
  ROOT m = f32[{size}] sine(l)
}}"""
    artifact = xla_wasm.compile(xla_wasm.HloModule.from_text(text), xla_wasm.Options(host_calls=("waits",)))
    assert (artifact.manifest["stop"] is None) == (size == 4)
    return xla_wasm.load(artifact, custom_calls={"waits": waits}, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [4, 1 << 22])
@pytest.mark.parametrize("method", ["run", "profile"])
def test_functions_of_the_host_use_up_the_time(size: int, method: str) -> None:
    calls: list[float] = []

    def waits(x: np.ndarray) -> np.ndarray:
        calls.append(time.sleep(0.3) or 0.3)
        return x

    exe = calling(waits, size, timeout=0.2)
    with pytest.raises(xla_wasm.LimitError, match=r"took longer than its 0.2 s"):
        getattr(exe, method)(ENDS)
    assert len(calls) == 1


@pytest.mark.parametrize("size", [4, 1 << 22])
@pytest.mark.parametrize("method", ["run", "profile"])
def test_an_interrupt_inside_of_a_function_of_the_host(size: int, method: str) -> None:
    """It ends the function where it is; the watcher may have ended the run as well."""
    waiting = [True]

    def waits(x: np.ndarray) -> np.ndarray:
        if waiting[0]:
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
            time.sleep(_LONG)
        return x

    exe = calling(waits, size)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for _ in range(3):
            waiting[0] = True
            with pytest.raises(KeyboardInterrupt):
                getattr(exe, method)(ENDS)
            waiting[0] = False
            time.sleep(0.05)
            np.testing.assert_allclose(exe.run(ENDS)[0], np.sin(ENDS), rtol=1e-6)
    finally:
        signal.signal(signal.SIGINT, before)


def test_no_further_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(stop, "_current", {})
    monkeypatch.setattr(stop, "start_new_thread", refuse)
    assert endless().run(ENDS)[0][0] == ENDS
    with pytest.raises(xla_wasm.LimitError, match="no run can be ended in time: can't start new thread; load it with"):
        endless(timeout=1.0).run(ENDS)


@pytest.mark.parametrize("timeout", [60.0, 1e10, 1e300])
def test_ends_of_time_far_away(timeout: float) -> None:
    """The one who ends runs waits for the nearest end, and signals, whatever the others are."""
    errors: list[BaseException] = []

    def short() -> None:
        try:
            endless(timeout=0.2).run(STARTS)
        except xla_wasm.LimitError as error:
            errors.append(error)
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        threading.Timer(0.2, short).start()
        with pytest.raises(KeyboardInterrupt):
            endless(timeout=timeout).run(STARTS)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(errors) == 1


def test_what_takes_long_when_it_is_loaded() -> None:
    """A short run, whose constants are computed in the instance."""
    products = "\n".join(
        f"  m{i + 1} = f32[1400,1400] dot(m{i}, m0), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
        for i in range(4)
    )
    text = f"""HloModule m
ENTRY e {{
  i = f32[1400,1400] iota(), iota_dimension=0
  m0 = f32[1400,1400] sine(i)
{products}
  s = f32[1,1] slice(m4), slice={{[5:6],[7:8]}}
  t = f32[] reshape(s)
  x = f32[] parameter(0)
  ROOT r = f32[] add(x, t)
}}"""
    artifact = xla_wasm.compile(xla_wasm.HloModule.from_text(text))
    xla_wasm.load(artifact)  # translates it for this machine
    with pytest.raises(xla_wasm.LimitError, match="failed preparing the weights.*longer than its 0.05 s"):
        xla_wasm.load(artifact, timeout=0.05)


def test_a_cancelled_task_that_waits() -> None:
    """For its turn, as long as another run takes."""
    exe = endless()
    exe.output(exe.results[0].name)  # so that runs take turns

    async def cancelled(i: np.float32) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await exe.run_async(i)

    async def for_its_turn() -> None:
        first = asyncio.create_task(exe.run_async(STARTS))
        await asyncio.sleep(0.1)
        await cancelled(ENDS)
        assert not first.done()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert (await exe.run_async(ENDS))[0][0] == ENDS

    asyncio.run(for_its_turn())


def endless_after(call: Callable[[np.ndarray], np.ndarray], **options: float) -> xla_wasm.Executable:
    """The endless program, whose argument goes through a function of the host first."""
    text = ENDLESS.replace(
        "  i = f32[] parameter(0)\n",
        '  p = f32[] parameter(0)\n  i = f32[] custom-call(p), custom_call_target="call"\n',
    )
    artifact = xla_wasm.compile(xla_wasm.HloModule.from_text(text), xla_wasm.Options(host_calls=("call",)))
    return xla_wasm.load(artifact, custom_calls={"call": call}, **options)  # type: ignore[arg-type]


def test_runs_that_nobody_cancelled() -> None:
    """A cancelled run's function has left a coroutine with the loop, which runs something else."""
    other, results = endless(), []

    async def later() -> None:
        while not is_cancelled:
            await asyncio.sleep(0.01)
        results.append(other.run(ENDS)[0][0])

    is_cancelled = False

    async def main() -> None:
        nonlocal is_cancelled
        loop, futures = asyncio.get_running_loop(), []

        def call(x: np.ndarray) -> np.ndarray:
            futures.append(asyncio.run_coroutine_threadsafe(later(), loop))
            return x

        task = asyncio.create_task(endless_after(call).run_async(STARTS))
        while not futures:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        is_cancelled = True
        await asyncio.wrap_future(futures[0])

    asyncio.run(main())
    assert results == [ENDS]


def test_replicas_inside_of_a_cancelled_run() -> None:
    inner = endless()

    def call(x: np.ndarray) -> np.ndarray:
        inner.run_replicated([[x], [x]])
        return x

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await endless_after(call).run_async(STARTS)

    asyncio.run(main())
    assert not stop._runs


def test_a_wakeup_file_that_is_closed() -> None:
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    before = signal.set_wakeup_fd(writes)
    os.close(reads)
    os.close(writes)
    try:
        exe = endless()
        for _ in range(2):
            assert exe.run(ENDS)[0][0] == ENDS
    finally:
        signal.set_wakeup_fd(before)
    assert not stop._runs


def test_every_signal_reaches_the_wakeup_file_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signals that come just before an interrupt do so as well, though another watcher takes the place of theirs."""
    begin = stop.begin

    def begin_and_signal(run: stop.Run) -> None:
        begin(run)
        signal.raise_signal(signal.SIGUSR1)
        signal.raise_signal(signal.SIGINT)

    exe = endless()
    exe.run(ENDS)
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    before = signal.signal(signal.SIGINT, signal.default_int_handler), signal.signal(signal.SIGUSR1, lambda *_: None)
    file = signal.set_wakeup_fd(writes)
    try:
        monkeypatch.setattr(stop, "begin", begin_and_signal)
        for _ in range(5):
            with pytest.raises(KeyboardInterrupt):
                exe.run(ENDS)
            got = b""
            while signal.SIGUSR1 not in got:
                got += os.read(reads, 100)
    finally:
        signal.set_wakeup_fd(file)
        signal.signal(signal.SIGINT, before[0])
        signal.signal(signal.SIGUSR1, before[1])
        os.close(reads)
        os.close(writes)


def test_signals_reach_no_other_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its owner closes the wakeup file, and opens another of the same number, before the watcher has written to it."""
    exe, begin, write, late = endless(), stop.begin, os.write, threading.Event()

    def begin_and_signal(run: stop.Run) -> None:
        begin(run)
        signal.raise_signal(signal.SIGUSR1)

    def write_late(file: int, data: bytes) -> int:
        assert late.wait(_LONG)
        return write(file, data)

    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    file = signal.set_wakeup_fd(writes)
    monkeypatch.setattr(stop.os, "write", write_late)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(stop, "begin", begin_and_signal)
            exe.run(ENDS)
        signal.set_wakeup_fd(-1)
        others, mine = os.pipe()
        os.dup2(mine, writes)
        late.set()
        assert os.read(reads, 1) == bytes([signal.SIGUSR1]), "the file that was open then"
        os.set_blocking(others, False)
        with pytest.raises(BlockingIOError):
            os.read(others, 1)
    finally:
        late.set()
        signal.set_wakeup_fd(file)
        signal.signal(signal.SIGUSR1, before)
        for number in (reads, writes, others, mine):
            os.close(number)


class _Late(queue.SimpleQueue[None]):
    """A queue of which an exception comes between an item and whoever gets it, once."""

    def __init__(self, error: type[BaseException]) -> None:
        self.error: type[BaseException] | None = error
        self.waits = threading.Event()

    def get(self, *arguments: Any, **options: Any) -> None:
        self.waits.set()
        super().get(*arguments, **options)
        if error := self.error:
            self.error = None
            raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError])
def test_an_exception_while_devices_end(monkeypatch: pytest.MonkeyPatch, error: type[BaseException]) -> None:
    """Nobody waits for a device of which it has heard that it has ended."""
    late = _Late(error)

    def call(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if x > ENDS:
            assert late.waits.wait(_LONG)
        return x

    exe = endless_after(call)
    with monkeypatch.context() as patch:
        patch.setattr(replicas, "SimpleQueue", lambda: late)
        with pytest.raises(error):
            exe.run_replicated([[ENDS], [ENDS + 1]])
    assert [device[0][0] for device in exe.run_replicated([[ENDS], [ENDS + 1]])] == [ENDS, ENDS + 1]


class _Mine(Exception):
    """Raised by the program's own handler."""


class _Handler:
    """Each way to write one."""

    def method(self, *_: object) -> None:
        raise _Mine

    __call__ = method


@pytest.mark.parametrize("handler", [_Handler().method, _Handler(), partial(_Handler.method, None), "other"])
@pytest.mark.parametrize("place", ["argument", "argument of a device", "function", "infeed", "outfeed", "jit"])
def test_an_exception_of_a_handler_comes_out(handler: Any, place: str) -> None:
    """Whatever was under way: what somebody else's function raises is another error, which says where."""

    class Value:
        shape, dtype = (), np.dtype(np.float32)

        def __array__(self, *_: object, **__: object) -> np.ndarray[Any, Any]:
            return raises()

    def raises(*_: object) -> Any:
        if handler == "other":
            raise _Mine
        signal.raise_signal(signal.SIGUSR1)

    def run() -> object:
        if place == "jit":
            return xla_wasm.jax.jit(lambda x: x)(Value())
        if place == "function":
            return calling(raises, 4).run(STARTS)
        if place == "argument":
            return endless().run(Value())
        if place == "argument of a device":
            return endless().run_replicated([[ENDS], [Value()]])
        feeds = "  t = token[] after-all()\n"
        feeds += (
            "  i = ((f32[]), token[]) infeed(t)\n  ROOT u = token[] get-tuple-element(i), index=1\n"
            if place == "infeed"
            else "  x = f32[] constant(1)\n  ROOT o = token[] outfeed(x, t), outfeed_shape=f32[]\n"
        )
        exe = xla_wasm.load(xla_wasm.compile(xla_wasm.HloModule.from_text("HloModule m\nENTRY e {\n" + feeds + "}")))
        return exe.run(infeed=map(raises, [1])) if place == "infeed" else exe.run(outfeed=raises)

    before = signal.signal(signal.SIGUSR1, handler if callable(handler) else lambda *_: None)
    try:
        with pytest.raises(xla_wasm.XlaWasmError if handler == "other" else _Mine):
            run()
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError])
def test_an_exception_while_devices_begin(
    monkeypatch: pytest.MonkeyPatch, when: str, error: type[BaseException]
) -> None:
    """No device is waited for that nobody has begun with, and none computes on an instance that others have."""
    exe, start = endless(), workers.start
    arguments = [[ENDS + i] for i in range(3)]
    exe.run_replicated(arguments)
    count = iter(range(100))

    def start_or_raise(task: Callable[[], None]) -> None:
        second = next(count) == 1
        if second and when == "before":
            raise error
        start(task)
        if second:
            raise error

    with monkeypatch.context() as patch:
        patch.setattr(workers, "start", start_or_raise)
        with pytest.raises(error):
            exe.run_replicated(arguments)
    for _ in range(5):
        assert [device[0][0] for device in exe.run_replicated(arguments)] == [ENDS, ENDS + 1, ENDS + 2]


def test_an_interrupt_while_an_instance_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its exception is still there, as in an interactive session, when the next run needs an instance."""
    exe = endless()
    exe.run(ENDS)
    pool = exe._first.pool
    taken = [pool.acquire()]
    monkeypatch.setattr(pool, "_limit", 2)
    make = pool._make

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pool, "_make", interrupted)
    with pytest.raises(KeyboardInterrupt) as kept:
        exe.run(ENDS)
    monkeypatch.setattr(pool, "_make", make)
    assert exe.run(ENDS)[0][0] == ENDS
    assert kept.value and taken


def test_a_coroutine_that_nobody_goes_on_with() -> None:
    """Whoever closes it ends its run."""
    coroutine = endless().run_async(STARTS)

    async def begin() -> None:
        coroutine.send(None)  # up to where it waits
        await asyncio.sleep(0.2)

    asyncio.new_event_loop().run_until_complete(begin())
    assert stop._runs
    coroutine.close()
    ends = time.monotonic() + _LONG
    while stop._runs and time.monotonic() < ends:
        time.sleep(0.01)
    assert not stop._runs


def test_the_interpreter_ends_while_a_coroutine_runs() -> None:
    script = (
        "import asyncio\n"
        "from tests.host.test_interrupts import STARTS, endless\n"
        "async def main():\n"
        "    asyncio.ensure_future(endless().run_async(STARTS))\n"
        "    await asyncio.sleep(0.5)\n"
        "asyncio.new_event_loop().run_until_complete(main())\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, timeout=_LONG, cwd=ROOT)
    assert done.returncode == 0


def test_a_second_interrupt_while_the_first_is_dealt_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of other threads end in time all the same."""
    exe, other, errors = endless(), endless(timeout=1.0), []

    def run() -> None:
        try:
            other.run(STARTS)
        except xla_wasm.LimitError as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while not stop._runs:
        time.sleep(0.01)
    make = stop._Watcher
    first = iter([True])

    def interrupted() -> object:
        if next(first, False):
            raise KeyboardInterrupt
        return make()

    monkeypatch.setattr(stop, "_Watcher", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            exe.run(STARTS)
    finally:
        signal.signal(signal.SIGINT, before)
    thread.join(_LONG)
    assert len(errors) == 1


@pytest.mark.parametrize("out", [False, True])
def test_an_interrupt_while_results_are_copied(monkeypatch: pytest.MonkeyPatch, out: bool) -> None:
    """The state is one run further, of which nobody has the results: it is lost, and says so."""
    text = """HloModule m
ENTRY e {
  s = f32[] parameter(0)
  one = f32[] constant(1)
  n = f32[] add(s, one)
  ROOT t = (f32[], f32[]) tuple(n, n)
}"""
    exe = xla_wasm.load(xla_wasm.compile(xla_wasm.HloModule.from_text(text), xla_wasm.Options(state=((0, 0),))))
    state, result = exe.parameters[0].name, exe.run()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Instance, "put_outputs", interrupted)
        patch.setattr(type(exe._outputs[0]), "give", interrupted)
        with pytest.raises(KeyboardInterrupt):
            exe.run(out=result) if out else exe.run()
    with pytest.raises(xla_wasm.RunError, match="lost"):
        exe.run()
    exe.set(state, np.float32(5))
    assert exe.run()[0] == 6


@pytest.mark.parametrize("timeout", [1e300, float("inf"), 10**400])
def test_no_end_of_time(timeout: float) -> None:
    assert endless(timeout=timeout, untrusted=True).run(ENDS)[0][0] == ENDS
    assert endless(timeout=timeout).run_replicated([[ENDS]] * 2, timeout=timeout)[0][0][0] == ENDS


@pytest.mark.parametrize("moment", ["begin", "end"])
def test_interrupts_between_two_steps(monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    """One interrupt is one KeyboardInterrupt, and the signals' file is as it was."""
    exe, original = endless(), getattr(stop, moment)
    exe.run(ENDS)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupted(run: stop.Run) -> object:
        if moment == "end":
            signal.raise_signal(signal.SIGINT)
        result = original(run)
        signal.raise_signal(signal.SIGINT)
        return result

    try:
        for _ in range(5):
            with monkeypatch.context() as patch:
                patch.setattr(stop, moment, interrupted)
                with pytest.raises(KeyboardInterrupt):
                    exe.run(ENDS)
            assert not stop._runs
            assert exe.run(ENDS)[0][0] == ENDS
            assert (file := signal.set_wakeup_fd(-1)) == -1, file
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("method", ["run", "profile"])
def test_a_fork_inside_of_a_run(method: str) -> None:
    """Its child goes on with the run, whose time is over some time there as well."""
    children: list[int] = []

    def fork(x: np.ndarray) -> np.ndarray:
        children.append(os.fork())
        return x if children[-1] == 0 else x * 0 + ENDS

    exe = endless_after(fork, timeout=0.5)
    try:
        getattr(exe, method)(STARTS)
        if children[-1] == 0:
            os._exit(1)
    except xla_wasm.LimitError:
        if children[-1] == 0:
            os._exit(7)
        raise
    ends = time.monotonic() + _LONG
    while (ended := os.waitpid(children[0], os.WNOHANG))[0] == 0 and time.monotonic() < ends:
        time.sleep(0.05)
    if not ended[0]:
        os.kill(children[0], signal.SIGKILL)
        os.waitpid(children[0], 0)
    assert os.waitstatus_to_exitcode(ended[1]) == 7


def test_a_child_of_fork() -> None:
    """Its signals are not for a run of its parent, which goes on meanwhile."""
    exe = endless(timeout=60.0)
    children: list[int] = []

    def fork() -> None:
        time.sleep(0.2)
        child = os.fork()
        if child == 0:
            before = signal.signal(signal.SIGINT, lambda *_: os._exit(7))
            try:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(_LONG)
            finally:
                signal.signal(signal.SIGINT, before)
                os._exit(1)
        children.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        threading.Thread(target=fork).start()
        with pytest.raises(KeyboardInterrupt):
            exe.run(STARTS)
    finally:
        signal.signal(signal.SIGINT, before)
    assert children == [7]


def test_a_stop_while_nothing_runs() -> None:
    """A signal that comes after a run leaves the next one alone."""
    exe = endless()
    for _ in range(3):
        exe.run(ENDS)
        with pytest.raises(KeyboardInterrupt):
            before = signal.signal(signal.SIGINT, signal.default_int_handler)
            os.kill(os.getpid(), signal.SIGINT)
            queue.SimpleQueue[None]().get(timeout=1)
        signal.signal(signal.SIGINT, before)
        assert exe.run(ENDS)[0][0] == ENDS
