"""The engine of requests: so many run at once in threads, so many wait, and the others are turned away."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from ..errors import LimitError, RunError
from ..host.arrays import Array
from ..host.stop import Caller
from .batching import Batcher, check_rows, rows_of
from .metrics import Metrics
from .model import Model
from .problems import Problem
from .settings import Settings

T = TypeVar("T")
_LONGEST_RETRY = 60
"""Seconds that clients are told to wait at most before they try again."""


class Engine:
    """Runs the model for requests, off the event loop: wasmtime releases Python's lock while it computes."""

    def __init__(self, model: Model, settings: Settings, metrics: Metrics) -> None:
        """ArgumentError if requests are to be batched and the model does not allow it."""
        self._model = model
        self._metrics = metrics
        self._threads = ThreadPoolExecutor(settings.concurrency, thread_name_prefix="xla_wasm run")
        self._concurrency = settings.concurrency
        self._batcher: Batcher | None = None
        rows = 1
        if settings.batch_deadline is not None:
            rows = rows_of(model)
            check_rows(model)
            self._batcher = Batcher(self._run_in_thread, rows, settings.batch_deadline, self._count_batch)
        self._most = settings.concurrency * rows + settings.queue
        self._taken = 0
        self._futures: set[asyncio.Future[Any]] = set()
        self._lock = threading.Lock()
        self._caller = Caller()
        self._at_work = 0
        self._mean_seconds = 0.0
        self.stopping = False
        """True if the server was told to end."""
        self.abandoned = False
        """True if it has given up what was not done by then."""

    @property
    def at_work(self) -> int:
        """Threads that compute at this moment."""
        return self._at_work

    def check_room(self) -> None:
        """429 if no further request would be taken."""
        if self._taken >= self._most:
            seconds = math.ceil(self._mean_seconds * self._most / self._concurrency)
            wait = min(max(seconds, 1), _LONGEST_RETRY)
            raise Problem(
                429,
                f"as many requests as there may be are under way already, {self._taken}: try again later",
                headers={"Retry-After": str(wait)},
            )

    @contextmanager
    def _place(self) -> Iterator[None]:
        """A place among the requests that are taken."""
        self.check_room()
        self._taken += 1
        self._metrics.in_progress(self._taken)
        try:
            yield
        finally:
            self._taken -= 1
            self._metrics.in_progress(self._taken)

    async def answer(self, read: Callable[[], list[Array]], write: Callable[[Sequence[Array]], bytes]) -> bytes:
        """Runs the program on the arrays that `read` gives, and returns the bytes that `write` makes of the results.
        Both run in threads, and may raise a Problem."""
        with self._place():
            try:
                if self._batcher is None:
                    return await self._in_thread(lambda: write(self._run(read())))
                arrays = await self._in_thread(read)
                results = await self._batcher.run(arrays)
                return await self._in_thread(lambda: write(results))
            except (RunError, LimitError) as error:
                raise Problem(500, str(error)) from error

    def stop(self) -> None:
        """Has what was begun end soon: batches no longer wait for more."""
        self.stopping = True
        if self._batcher is not None:
            self._batcher.hurry()

    def abandon(self) -> int:
        """Answers what has not ended with 503, and ends its runs. Returns how many of them were at work."""
        count = self._at_work
        self.abandoned = True
        self._caller.leave(lambda: RunError("the server has ended"))
        for future in list(self._futures):
            future.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)
        return count

    async def _run_in_thread(self, arrays: Sequence[Array]) -> list[Array]:
        return await self._in_thread(lambda: self._run(arrays))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        if self.abandoned:
            raise shutting_down()
        future = asyncio.get_running_loop().run_in_executor(self._threads, self._counted, work)
        self._futures.add(future)
        try:
            return await future
        except asyncio.CancelledError:
            if self.abandoned:
                raise shutting_down() from None
            raise
        finally:
            self._futures.discard(future)

    def _counted(self, work: Callable[[], T]) -> T:
        with self._lock:
            self._at_work += 1
        try:
            return self._caller.wait_for(work)
        finally:
            with self._lock:
                self._at_work -= 1

    def _run(self, arrays: Sequence[Array]) -> list[Array]:
        self._metrics.begin_run()
        began = time.perf_counter()
        try:
            return self._model.run(arrays)
        finally:
            seconds = time.perf_counter() - began
            self._metrics.end_run(seconds)
            self._mean_seconds += (seconds - self._mean_seconds) / 16

    def _count_batch(self, requests: int) -> None:
        if requests > 1:
            self._metrics.batched.inc(requests)


def shutting_down() -> Problem:
    """503: the server ends before it could answer."""
    return Problem(503, "the server is shutting down: try again", headers={"Retry-After": "1", "Connection": "close"})
