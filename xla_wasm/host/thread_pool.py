"""The other threads of an instance (`xla_wasm.assemble.threads`): each a thread of Python with an instance on the
shared memory."""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import wasmtime

from ..errors import ArgumentError
from ..target import ALONE, FAILED, MOST_PAGES, MOST_THREADS, PAGE, STOPPED
from .engine import first_lines
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
        self._threads: list[threading.Thread] = []
        self._process = 0
        self._ended = False
        self._begun = (0, 0)

    def start(self, threads: int) -> None:
        """Has so many share the next run, the one that runs the program among them. Those that run already stay, but in
        a child process there are none at first."""
        begun = os.getpid(), threads
        if self._begun == begun or self._ended:
            return
        # Who runs alone now may have company in the next run, so others need not end.
        self._words[ALONE // 4] = threads == 1
        if threads > 1 and (self._process != begun[0] or len(self._threads) != threads - 1):
            if self._process == begun[0] and not self._end_others():
                return
            self._words[STOPPED // 4] = 0
            self._threads = [
                threading.Thread(target=self._work, args=(n + 1,), daemon=True) for n in range(threads - 1)
            ]
            self._process = begun[0]
            _pools.add(self)
            for thread in self._threads:
                with suppress(RuntimeError):  # no more threads: the program runs on those there are
                    thread.start()
        self._begun = begun

    def _end_others(self) -> bool:
        """Ends the threads that there are; whether they have ended."""
        self._stop()
        self.join()
        return not any(thread.is_alive() for thread in self._threads)

    def wake_first(self) -> None:
        """Has thread 0 end the run where it waits for the others."""
        self._words[FAILED // 4] = 1

    def end(self) -> None:
        """Has the threads end, each when its chunk is done."""
        if not self._ended:
            self._ended = True
            if self._process == os.getpid():
                self._stop()

    def join(self) -> None:
        """Waits until they have."""
        for thread in self._threads if self._process == os.getpid() else ():
            if thread.ident is not None:
                thread.join(_END)

    def _work(self, number: int) -> None:
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


_pools: weakref.WeakSet[ThreadPool] = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    """Before the engines go."""
    pools = list(_pools)
    for pool in pools:
        pool.end()
    for pool in pools:
        pool.join()
