"""The engines under which modules run, what counts their time, and the modules that were compiled last."""

from __future__ import annotations

import atexit
import threading
import time
from _thread import start_new_thread
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from math import ceil
from queue import SimpleQueue
from typing import Any

import wasmtime
from wasmtime._managed import Managed

from ..errors import COMPILE_ANEW, ArtifactError
from .budget import Limits
from .forks import in_child, owns

STACK = 65536
"""Bytes of a thread's stack that a module may use. Python itself needs about half as much beside it, so that a thread
with a stack of 128 KiB is enough."""
_KEPT_MODULES = 16
_ON_DISK = range(100_000, 1 << 26)
"""Sizes of modules whose code wasmtime keeps on disk for the next process: smaller ones compile in no time, and of
larger ones most is numbers, not code."""
_MOST_PERIODS = 100000
"""Periods that are made up for at once when a clock was late."""


class Clock:
    """Advances the epoch of an engine while any call with a time limit is under way.

    An exception may be sent to a caller's thread at any moment, also inside of Python's own `Event` and `Thread.start`,
    whose locks then stay held. So a caller takes no lock here: each of its steps is one call of C, and what it leaves
    undone the next call does.
    """

    PERIOD = 0.004

    def __init__(self, engine: wasmtime.Engine) -> None:
        self._engine = engine
        self._after_fork()
        owns(self)

    def _after_fork(self) -> None:
        """A child has neither the thread nor the calls of its parent's other threads."""
        self._calls: dict[int, float] = {}
        """Until when the call of a thread may go on. Setting and dropping an entry cannot be interrupted half-way."""
        self._begun: SimpleQueue[None] = SimpleQueue()
        """The queue that wakes the thread which advances the epoch."""
        self._advancing = False
        self._started = False
        self._only = threading.Lock()
        """Held for ever by the first thread that was started: two calls may start one each."""

    def run(self, call: Callable[[int], int], argument: int, deadline: float) -> int:
        """Makes the call while the epoch advances."""
        thread = threading.get_ident()
        self._calls[thread] = deadline
        try:
            if not self._advancing:
                self._wake()
            return call(argument)
        finally:
            self._calls.pop(thread, None)

    def periods(self, seconds: float) -> int:
        """Returns the number of times that the epoch advances in so many seconds, rounded up."""
        return ceil(seconds / self.PERIOD) + 1

    def _wake(self) -> None:
        self._begun.put(None)
        if not self._started:
            start_new_thread(self._advance, ())

    def _advance(self) -> None:
        if not self._only.acquire(blocking=False):
            return
        self._started = True
        while True:
            self._begun.get()
            self._advancing = True
            begin, done = time.monotonic(), 0
            while self._calls:
                time.sleep(self.PERIOD)
                now = time.monotonic()
                # By the clock on the wall: on a busy machine a sleep takes longer than it was told.
                due = int((now - begin) / self.PERIOD)
                for _ in range(min(due - done, _MOST_PERIODS)):
                    self._engine.increment_epoch()
                if due // 256 > done // 256:
                    self._drop_lost(now)
                done = due
            self._advancing = False
            if self._calls:  # one that has just begun may have seen it advancing
                self._begun.put(None)

    def _drop_lost(self, now: float) -> None:
        """An interrupt may have come between a call and its end: then nobody drops its entry."""
        for thread, deadline in list(self._calls.items()):
            if deadline < now - 1:
                self._calls.pop(thread, None)


@atexit.register
def _finalize_quietly() -> None:
    """From now on an object of wasmtime that can no longer be freed is left to the system.

    When the interpreter takes modules apart, wasmtime's finalizers find None in the place of the functions that free
    something, and each would say so on standard error. Which objects live so long is not in our hands: JAX keeps
    functions and modules for ever, and with them whatever they refer to, errors of wasmtime as well. Nothing is closed
    here, since whoever registered before runs after this.
    """
    close = Managed.close

    def finalize(self: Any, close: Callable[[Any], None] = close, expected: type[Exception] = Exception) -> None:
        try:
            close(self)
        except expected:
            pass

    Managed.__del__ = finalize  # type: ignore[method-assign]


@cache
def _engine(
    fuel: bool, epochs: bool, untrusted: bool, parallel: bool, threads: bool, on_disk: bool
) -> tuple[wasmtime.Engine, Clock | None]:
    config = wasmtime.Config()
    config.cranelift_opt_level = "speed"
    config.consume_fuel = fuel
    config.epoch_interruption = epochs
    config.max_wasm_stack = STACK
    config.parallel_compilation = parallel
    config.wasm_threads = config.shared_memory = threads
    if untrusted:
        config.wasm_relaxed_simd_deterministic = True
        config.cranelift_nan_canonicalization = True
        # Objects of the engine's own heap, which exceptions are too, would take memory beside the module's.
        config.wasm_gc = config.wasm_exceptions = False
    if on_disk:
        with suppress(wasmtime.WasmtimeError):  # nobody's work depends on a folder that can be written
            config.cache = True
    engine = wasmtime.Engine(config)
    return engine, Clock(engine) if epochs else None


parallel = True
"""True if several threads compile a module. In a forked process they do not: they stayed in the parent."""


def engine_for(limits: Limits, stops: bool, threads: bool, size: int) -> tuple[wasmtime.Engine, Clock | None]:
    """An engine for each way to count, since counting costs 6 to 11 % and nobody should pay who need not. `stops`: the
    module ends by itself when it is told to (`stop`), which is enough for those that are trusted. `threads`: one that
    lets instances share memory. `size`: the module's, in bytes; what strangers wrote is not kept on disk."""
    epochs = limits.timeout is not None and (limits.untrusted or not stops)
    on_disk = size in _ON_DISK and not limits.untrusted
    return _engine(limits.fuel is not None, epochs, limits.untrusted, parallel, threads, on_disk)


class _ModuleCache:
    """The compiled modules used last, by content and engine: loading an artifact again costs nothing."""

    def __init__(self) -> None:
        self._after_fork()
        owns(self)

    def _after_fork(self) -> None:
        """Begins anew: another thread of the parent may have been in the middle of something."""
        self._modules: OrderedDict[tuple[str, int], wasmtime.Module] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, engine: wasmtime.Engine, wasm: bytes, digest: str) -> wasmtime.Module:
        """Returns the module of these bytes. Raises ArtifactError if wasmtime refuses them."""
        key = (digest, id(engine))
        with self._lock:
            if key in self._modules:
                self._modules.move_to_end(key)
                return self._modules[key]
        try:
            module = wasmtime.Module(engine, wasm)
        except wasmtime.WasmtimeError as error:
            raise ArtifactError(f"wasmtime refuses the module: {first_lines(error)}{COMPILE_ANEW}") from error
        with self._lock:
            self._modules[key] = module
            if len(self._modules) > _KEPT_MODULES:
                self._modules.popitem(last=False)
        return module


modules = _ModuleCache()


def first_lines(error: BaseException) -> str:
    """Returns the message of an error of wasmtime as one line that is not too long."""
    return " ".join(str(error).split())[:300]


@in_child
def _after_fork() -> None:
    global parallel
    parallel = False
