"""Threads that are kept for the next time they are needed: starting one takes longer than a small program runs."""

from __future__ import annotations

import threading
from _thread import start_new_thread
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue

from .forks import in_child

_PATIENCE = 10.0
"""Seconds after which an idle thread ends."""

_idle: deque[_Worker] = deque()
in_child(_idle.clear)  # which has none of its parent's threads


class _Worker:
    """A thread that does one task after the other. It is a daemon: a task that never ends must not keep the interpreter
    from ending."""

    def __init__(self) -> None:
        self.tasks: SimpleQueue[Callable[[], None]] = SimpleQueue()
        start_new_thread(self._begin, ())

    def _begin(self) -> None:
        """Starts its thread, from another one than the caller's: an exception that a handler of signals raises in the
        middle of `Thread.start` leaves a thread that the module `threading` does not know."""
        try:
            threading.Thread(target=self._work, name="xla_wasm device", daemon=True).start()
        except RuntimeError:  # no further one
            self._work()

    def _work(self) -> None:
        while True:
            try:
                task = self.tasks.get(timeout=_PATIENCE)
            except Empty:
                try:
                    _idle.remove(self)
                    return
                except ValueError:  # someone has just taken it: a task is on its way
                    pass
                try:
                    task = self.tasks.get(timeout=_PATIENCE)
                except Empty:  # an exception has come in between
                    return
            task()
            del task  # and what it holds
            _idle.append(self)


def start(task: Callable[[], None]) -> None:
    """Does the task in another thread. It must not raise."""
    try:
        worker = _idle.pop()
    except IndexError:
        worker = _Worker()
    worker.tasks.put(task)
