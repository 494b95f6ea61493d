"""The other threads of an instance (`xla_wasm.assemble.threads`): each a thread of Python with an instance on the
shared memory."""

from __future__ import annotations

import atexit
import ctypes
import os
from _thread import start_new_thread
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any

import wasmtime

from ..errors import ArgumentError
from ..target import ALONE, FAILED, MOST_PAGES, MOST_THREADS, PAGE, STOPPED
from .engine import first_lines
from .forks import owns
from .living import Living
from .manifest import Manifest

_FOR_EVER = 1 << 62
"""Epochs and fuel of threads that only help: the limits are those of the thread that runs the program."""
_END = 5.0
"""Seconds that a thread may take to finish its chunk when the interpreter ends."""


def cpus() -> int:
    """Returns the number of threads that can run at once in this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads_of_run(manifest: Manifest, threads: int | None, fuel: bool, untrusted: bool) -> int:
    """Returns the number of threads of a run. Raises ArgumentError if the module or the other options do not allow so
    many."""
    if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int) or threads < 1):
        raise ArgumentError(f"threads must be an integer above zero, got {threads!r}")
    if manifest.threads is None:
        if threads is not None and threads > 1:
            raise ArgumentError(
                f"'{manifest.name}' is compiled for one thread: compile it with Options(threads=True), or --threads"
            )
        return 1
    if fuel or untrusted:
        if threads is not None and threads > 1:
            what = "what nobody trusts" if untrusted else "fuel, which counts exactly,"
            raise ArgumentError(f"{what} runs on one thread: leave out threads={threads}")
        return 1
    most = most_threads(manifest.memory_bytes, manifest.threads.bytes)
    if threads is not None and threads > most:
        raise ArgumentError(f"'{manifest.name}' has room for at most {most} threads, not {threads}")
    return min(threads or cpus(), most)


class SharedMemory(wasmtime.SharedMemory):
    """A memory of so many pages for several stores."""

    def __init__(self, engine: wasmtime.Engine, pages: int) -> None:
        self.engine = engine
        super().__init__(engine, wasmtime.MemoryType(wasmtime.Limits(pages, pages), shared=True))

    def _as_extern(self) -> Any:
        from wasmtime import _ffi as ffi  # not for programs without threads: it may change

        # `ptr` gives a pointer to what wasmtime means; wasmtime-py 50 wraps it once more.
        return ffi.wasmtime_extern_t(
            ffi.WASMTIME_EXTERN_SHAREDMEMORY, ffi.wasmtime_extern_union(sharedmemory=self.ptr())
        )

    @property
    def address(self) -> int:
        """Its address in this process, in bytes."""
        return ctypes.addressof(self.data_ptr().contents)


def pages_for(memory_bytes: int, own: int, threads: int) -> int:
    """The pages of a memory for so many threads, each of which but the first has so many bytes of its own."""
    return -(-(memory_bytes + (threads - 1) * own) // PAGE)


def most_threads(memory_bytes: int, own: int) -> int:
    """For how many threads there is room, in memory and in tickets."""
    return min(1 + (MOST_PAGES * PAGE - memory_bytes) // own, MOST_THREADS)


class ThreadPool:
    """Threads that help one instance, which does not hold it: it ends with the instance."""

    def __init__(
        self, module: wasmtime.Module, shared: SharedMemory, words: memoryview, stop: Callable[[], None]
    ) -> None:
        """`words` are the control block's. `stop` has the module's threads end; it holds what it needs."""
        self.failure = ""
        """The message of the error that ended a thread; empty if none has failed."""
        self._engine, self._module, self._shared = shared.engine, module, shared
        self._words, self._stop = words, stop
        self._ended = False
        self._after_fork()
        owns(self)
        _pools.add(self)

    def _after_fork(self) -> None:
        """In a child there are no threads at first."""
        self._begun = 0
        """The number of threads that share the next run; 0 if they have still to start."""
        self._helpers = 0
        """The number of threads that help, those that have still to start included."""
        self._unclaimed: dict[int, bool] = {}
        """The numbers that no thread has: whoever takes one out of here, which is one operation, is that thread. So an
        exception may come between any two steps of `start`, which begins with the rest when it is called again."""
        self._running: set[object] = set()
        """One object for each thread that has not ended."""
        self._gone: SimpleQueue[None] = SimpleQueue()
        """Gets an item whenever one has."""

    def start(self, threads: int) -> None:
        """Has so many share the next run, the one that runs the program among them. Those that run already stay."""
        if self._begun == threads or self._ended:
            return
        self._begun = 0
        # Who runs alone now may have company in the next run, so others need not end.
        self._words[ALONE // 4] = threads == 1
        if threads > 1:
            if self._helpers != threads - 1:
                if self._running and not self._end_others():
                    return
                self._words[STOPPED // 4] = 0
                self._unclaimed, self._helpers = dict.fromkeys(range(1, threads), True), threads - 1
            for number in [*self._unclaimed]:
                with suppress(RuntimeError):  # no more threads: the program runs on those there are
                    start_new_thread(self._work, (number,))
        self._begun = threads

    def _end_others(self) -> bool:
        """Ends the threads that there are; whether they have ended."""
        self._helpers = 0
        self._unclaimed.clear()
        self._stop()
        self.join()
        return not self._running

    def wake_first(self) -> None:
        """Has thread 0 end the run where it waits for the others."""
        self._words[FAILED // 4] = 1

    def end(self) -> None:
        """Has the threads end, each when its chunk is done."""
        if not self._ended:
            self._ended = True
            self._unclaimed.clear()
            if self._running:
                self._stop()

    def join(self) -> None:
        """Waits until they have."""
        if self._running:
            end = monotonic() + _END
            while self._running and (left := end - monotonic()) > 0:
                with suppress(Empty):
                    self._gone.get(timeout=left)

    def _work(self, number: int) -> None:
        me = object()
        self._running.add(me)
        try:
            if self._unclaimed.pop(number, False):
                self._help(number)
        finally:
            self._running.discard(me)
            self._gone.put(None)

    def _help(self, number: int) -> None:
        store = wasmtime.Store(self._engine)
        store.set_epoch_deadline(_FOR_EVER)
        try:
            instance = wasmtime.Instance(store, self._module, [self._shared])
        except wasmtime.WasmtimeError:
            return  # no room for it: the others do its work
        work = instance.exports(store)["work"]
        assert isinstance(work, wasmtime.Func)
        try:
            work(store, number)
        except BaseException as error:  # whatever it is, thread 0 must not wait for this one
            self.failure = first_lines(error)
            self._words[FAILED // 4] = 1


_pools: Living[ThreadPool] = Living()


@atexit.register
def _end_all() -> None:
    """Before the engines go."""
    pools = list(_pools)
    for pool in pools:
        pool.end()
    for pool in pools:
        pool.join()
