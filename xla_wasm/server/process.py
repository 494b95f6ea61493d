"""Server processes: one that serves, or a parent that keeps several of them going; and how they end."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import wait
from typing import Any

import uvicorn

from ..dataclass import dataclass, field
from ..errors import XlaWasmError, visible
from .model import Model, Source
from .settings import Settings

_BACKLOG = 2048
"""Connections that wait at the listener at most."""
_LINGER = 0.25
"""Seconds in which requests that are already on their way over open connections are still taken, once the server was
told to end."""
_AFTER = 2.0
"""Seconds for the answers to what was given up."""
_KEEP_ALIVE = 75
"""Seconds that an idle connection stays open: longer than the minute after which proxies close theirs, who would be
surprised otherwise."""
_HURRY: int | None = getattr(signal, "SIGUSR1", None)
"""The signal by which the parent tells its workers to give up what they do. Not Ctrl-C's, which a terminal sends to
them as well, nor SIGTERM, which a supervisor may. On Windows there is none: workers end at once when they are told to
end."""
INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it."""


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens. XlaWasmError if the address cannot be had."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind, protocol)
        try:
            if os.name == "posix":
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(address)
            made.listen(_BACKLOG)
        except BaseException:
            made.close()
            raise
    except OSError as error:
        hint = "; choose another with --port, or 0 for a free one" if isinstance(error, OSError) and error.errno else ""
        raise XlaWasmError(f"cannot listen on {host}, port {port}: {error.strerror or error}{hint}") from error
    made.set_inheritable(True)
    return made


def serve(
    source: Source,
    settings: Settings,
    listener: socket.socket,
    workers: int,
    access_log: bool,
    ready: Callable[[Model], None],
) -> int:
    """Serves until a signal ends it; the exit code. `ready` is called with the model when it can be served.

    XlaWasmError if the model cannot be served.
    """
    if workers == 1:
        return serve_here(source, settings, listener, access_log, ready)
    model = Model(source, settings)  # so that what is wrong with it is said once, and here
    return _Parent(source, settings, listener, workers, access_log).run(lambda: ready(model))


def serve_here(
    source: Source,
    settings: Settings,
    listener: socket.socket,
    access_log: bool,
    ready: Callable[[Model], None],
    worker: bool = False,
) -> int:
    """Serves in this process."""
    # The metrics decide where they count when they are imported.
    from .app import Application
    from .connections import Connection
    from .engine import Engine
    from .metrics import Metrics

    model = Model(source, settings)
    metrics = Metrics(model.manifest.memory_bytes)
    engine = Engine(model, settings, metrics)
    config = uvicorn.Config(
        Application(model, settings, engine, metrics),
        http=Connection,
        lifespan="off",
        ws="none",
        access_log=access_log,
        log_level="info" if access_log else "warning",
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE,
        backlog=_BACKLOG,
    )
    server = _Server(config)
    ending = _Ending(server, engine, settings.grace, worker)
    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(ending.serve(listener, lambda: ready(model)))
    if ending.cut_off:
        # The threads of modules without a word to stop them by go on, and Python would wait for them.
        os._exit(1)
    return INTERRUPTED if ending.signal == signal.SIGINT else 0


def _say(text: str) -> None:
    """Prints a line to stderr, if anybody reads it still: that nobody does must not change how the server ends."""
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def _ignore(number: int) -> None:
    """Has a signal ignored from now on. Python prints a traceback of one that has come but has not been handled when
    its handler is changed; here that one is ignored as well."""
    before = sys.unraisablehook
    sys.unraisablehook = lambda _: None
    try:
        signal.signal(number, signal.SIG_IGN)
        signal.signal(number, signal.SIG_IGN)  # looks at those that have come
    finally:
        sys.unraisablehook = before


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


class _Server(uvicorn.Server):
    """uvicorn's server without its handling of signals, which would end it by raising them again."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def _protocol(self) -> asyncio.Protocol:
        """Returns the protocol that speaks on a new connection, as uvicorn makes it for those that it accepts."""
        return self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )

    async def take_waiting(self, listener: socket.socket) -> None:
        """Takes the connections that wait at the listener: closing it would reset them, and their requests may have
        been sent already.

        The event loop alone would take one of them each time that it looks, and may not look often on a busy machine.
        """
        loop = asyncio.get_running_loop()
        taking = []
        with suppress(OSError):  # none waits
            for _ in range(_BACKLOG):  # those that come meanwhile are behind these
                connection, _address = listener.accept()
                connection.setblocking(False)
                taking.append(loop.connect_accepted_socket(self._protocol, connection))
        await asyncio.gather(*taking, return_exceptions=True)  # a client may have gone away


class _Ending:
    """The end of one server process: no new connections, what was begun is finished, and what takes too long is given
    up."""

    def __init__(self, server: _Server, engine: Any, grace: float, worker: bool) -> None:
        self._server = server
        self._engine = engine
        self._grace = grace
        self._worker = worker
        self._told = asyncio.Event()
        self._hurry = asyncio.Event()
        self.signal = 0
        """The signal that ended it."""
        self.cut_off = 0
        """Runs that were cut off."""

    async def serve(self, listener: socket.socket, ready: Callable[[], None]) -> None:
        """Serves until told to end, and ends."""
        loop = asyncio.get_running_loop()
        # A worker hears of Ctrl-C from its parent, though it reaches all processes at a terminal.
        other = _HURRY if self._worker else signal.SIGINT
        signals = [signal.SIGTERM] if other is None else [signal.SIGTERM, other]
        for number in signals:
            signal.signal(number, lambda number, _: loop.call_soon_threadsafe(self._tell, number))
        parent = multiprocessing.parent_process() if self._worker else None
        if parent is not None:
            with suppress(NotImplementedError):  # on Windows
                loop.add_reader(parent.sentinel, self._orphaned, loop, parent.sentinel)
        serving = loop.create_task(self._server.serve([listener]))
        while not (self._server.started or serving.done()):
            await asyncio.sleep(0.01)
        if not serving.done():
            ready()
            told = loop.create_task(self._told.wait())
            await asyncio.wait({serving, told}, return_when=asyncio.FIRST_COMPLETED)
            told.cancel()
            await self._end(serving, listener)
        await serving
        for number in signals:
            _ignore(number)  # it ends already, and soon there is no loop to be told

    def _tell(self, number: int) -> None:
        if number == _HURRY or self._told.is_set() and number == signal.SIGINT:
            self._hurry.set()
        self.signal = self.signal or number
        self._told.set()

    def _orphaned(self, loop: asyncio.AbstractEventLoop, sentinel: int) -> None:
        loop.remove_reader(sentinel)
        self._tell(signal.SIGTERM)

    async def _end(self, serving: asyncio.Task[None], listener: socket.socket) -> None:
        end = time.monotonic() + self._grace
        count = self._engine.at_work
        if count and self._grace > 0:
            again = " again" if self.signal == signal.SIGINT else ""
            it = "it" if count == 1 else "them"
            _say(f"waiting up to {self._grace:g} s for {_runs(count)}; Ctrl-C{again} ends {it} now")
        self._engine.stop()
        await self._server.take_waiting(listener)
        for server in self._server.servers:
            server.close()
        await self._wait(serving, min(_LINGER, self._grace))
        for _ in range(3):  # on a busy machine, that time may pass before the loop has looked at what has arrived
            await asyncio.sleep(0)
        self._server.should_exit = True
        await self._wait(serving, end - time.monotonic())
        if not serving.done():
            self.cut_off = self._engine.abandon()
            if self.cut_off:
                late = f"not done {self._grace:g} s after the signal to end"
                _say(f"{_runs(self.cut_off)} cut off: {'by Ctrl-C' if self._hurry.is_set() else late}")
            await asyncio.wait({serving}, timeout=_AFTER)
            self._server.force_exit = True

    async def _wait(self, serving: asyncio.Task[None], seconds: float) -> None:
        """Waits until it has ended or somebody is in a hurry, but no longer than that."""
        hurry = asyncio.get_running_loop().create_task(self._hurry.wait())
        await asyncio.wait({serving, hurry}, timeout=max(seconds, 0), return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()


@dataclass
class _Worker:
    """A worker process, and the event by which it says that it serves."""

    process: Any
    ready: Any


@dataclass
class _Parent:
    """Keeps the worker processes going: one that dies is replaced."""

    source: Source
    settings: Settings
    listener: socket.socket
    count: int
    access_log: bool
    signals: list[int] = field(default_factory=list)

    def run(self, ready: Callable[[], None]) -> int:
        """Runs until a signal ends it; the exit code."""
        context = multiprocessing.get_context("spawn")
        counts = tempfile.mkdtemp(prefix="xla-wasm-metrics-")
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = counts
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, _: self.signals.append(number))
        workers: list[_Worker] = []
        try:
            workers += [self._start(context) for _ in range(self.count)]
            if self._began(workers):
                ready()
            while not self.signals:
                self._replace(context, workers)
                wait([worker.process.sentinel for worker in workers], timeout=0.1)
            return self._end(workers)
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                # Python would set them back to what ends a process before it has ended itself.
                _ignore(number)
            for worker in workers:
                worker.process.kill()
            shutil.rmtree(counts, ignore_errors=True)

    def _start(self, context: Any) -> _Worker:
        ready = context.Event()
        arguments = (self.source, self.settings, self.listener, self.access_log, ready)
        worker = _Worker(context.Process(target=_work, args=arguments, name="xla-wasm worker"), ready)
        # A signal that is ignored stays so in a new process: Ctrl-C while it imports would end it with a traceback.
        before = signal.getsignal(signal.SIGINT)
        _ignore(signal.SIGINT)
        try:
            worker.process.start()
        finally:
            signal.signal(signal.SIGINT, before)
        return worker

    def _began(self, workers: list[_Worker]) -> bool:
        """Waits until all workers serve; False if a signal came before."""
        for worker in workers:
            while not worker.ready.wait(0.05):
                if self.signals:
                    return False
                self._check(worker)
        return True

    def _check(self, worker: _Worker) -> None:
        """A worker that ends before it has served would do so again and again."""
        if not worker.process.is_alive() and not worker.ready.is_set():
            raise XlaWasmError(
                f"a worker process ended with code {worker.process.exitcode} before it could serve: see above"
            )

    def _replace(self, context: Any, workers: list[_Worker]) -> None:
        for i, worker in enumerate(workers):
            if not worker.process.is_alive():
                self._check(worker)
                code = worker.process.exitcode
                _say(f"worker process {worker.process.pid} ended with code {code}: starting another")
                _forget(worker.process.pid)
                workers[i] = self._start(context)

    def _end(self, workers: list[_Worker]) -> int:
        self.listener.close()  # or the system would go on taking connections that nobody serves
        for worker in workers:
            worker.process.terminate()
        end = time.monotonic() + self.settings.grace + 2 * _AFTER
        hurried = False
        while (alive := [worker.process for worker in workers if worker.process.is_alive()]) and time.monotonic() < end:
            if _HURRY is not None and not hurried and signal.SIGINT in self.signals[1:]:
                hurried, end = True, min(end, time.monotonic() + 2 * _AFTER)
                for process in alive:
                    os.kill(process.pid, _HURRY)
            wait([process.sentinel for process in alive], timeout=0.05)
        failed = any(worker.process.exitcode not in (0, -signal.SIGTERM) for worker in workers)
        return 1 if failed else INTERRUPTED if self.signals[0] == signal.SIGINT else 0


def _forget(pid: int) -> None:
    """Drops what a dead worker said of its instances."""
    from prometheus_client import multiprocess

    multiprocess.mark_process_dead(pid)


def _work(source: Source, settings: Settings, listener: socket.socket, access_log: bool, ready: Any) -> None:
    """The main function of a worker process."""
    try:
        code = serve_here(source, settings, listener, access_log, lambda _: ready.set(), worker=True)
    except XlaWasmError as error:
        _say(f"error: {visible(str(error))}")
        code = 2
    sys.exit(code)
