"""Ends runs from another thread: on Ctrl-C, when their time is over, and when nobody waits for them any more.

A thread that is inside of wasm runs no Python, not even the handler of a signal. So a thread of its own waits for the
bytes that Python writes when a signal comes (`signal.set_wakeup_fd`), and for the next end of a run's time. It writes
the word of the run's memory at which the program looks (`target.STOP`): the program traps, and the instance raises
what it was told.

An exception may be sent to a caller's thread between any two steps of Python, so nothing is locked here: whoever takes
a run's entry out of `_runs`, which is one operation, has ended it, and has said why before.
"""

from __future__ import annotations

import math
import os
import socket
import threading

# Not `signal`, which makes an Enum of each number.
from _signal import SIGINT, default_int_handler, getsignal, set_wakeup_fd  # type: ignore[import-not-found]
from _thread import get_ident, start_new_thread
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from time import monotonic
from typing import Protocol, TypeVar

from ..dataclass import dataclass
from ..errors import LimitError

T = TypeVar("T")
Reason = Callable[[], BaseException]
"""Makes the error that a run ends with."""


class Stoppable(Protocol):
    """An instance, as far as it can be stopped."""

    def stop(self, reason: Reason) -> None:
        """Ends the run, from another thread."""


@dataclass(eq=False, slots=True)
class Run:
    """A run that may be ended."""

    instance: Stoppable
    deadline: float
    """When its time is over, by the clock `monotonic`; infinity: never."""
    reason: Reason
    """Makes the error that it ends with, if it is ended: at first for the case that its time is over."""
    caller: Caller | None = None
    interruptible: bool = False
    """True if it is in the main thread, where Ctrl-C ends it."""
    before: int | None = None
    """The file to which Python wrote signals before; None if this run has not changed it."""


class Caller:
    """Somebody who waits for runs, and may leave before they have ended. Several threads may work for one."""

    def __init__(self) -> None:
        self.reason: Reason | None = None
        """Makes the error that its runs end with; None as long as it waits."""
        self._until = math.inf

    def wait_for(self, work: Callable[[], T]) -> T:
        """Does the work, whose runs the caller waits for."""
        outer = _caller.set(self)
        try:
            return work()
        finally:
            _caller.reset(outer)

    def leave(self, reason: Reason, grace: float = 0.0) -> None:
        """Ends the runs, those under way and those that would begin, after so many seconds."""
        self.reason, self._until = reason, monotonic() + grace
        for run in list(_runs):
            if run.caller is self:
                self.check(run)

    def check(self, run: Run) -> None:
        """Ends a run that is under way, or has begun, after `leave`."""
        if self.reason is None:
            return
        run.deadline = min(run.deadline, self._until)
        if self._until <= monotonic():
            _end(run, self.reason)
        else:
            _watching().wake()


_caller: ContextVar[Caller | None] = ContextVar("_caller", default=None)
_runs: dict[Run, bool] = {}
"""Those under way, as keys of True: to drop one says whether it was there."""
_WAKE = b"\0"
"""Written to the watcher where signals write their numbers: there is a nearer end of a run's time."""


class _Watcher:
    """The thread that ends runs, and the socket that wakes it."""

    def __init__(self) -> None:
        self._wakes, self._written = socket.socketpair()
        self._written.setblocking(False)
        self.fd = self._written.fileno()
        """The file to which Python is to write signals."""
        self.forward = -1
        """The file to which it wrote them before, and which gets them as well."""
        self.wakes_at = 0.0
        start_new_thread(self._watch, ())

    def wake(self) -> None:
        """Has it look when the time of a run is over."""
        with suppress(OSError):  # it is full: then it wakes in any case
            self._written.send(_WAKE)

    def _watch(self) -> None:
        while True:
            self.wakes_at = math.inf  # so that whoever begins from now on wakes it
            self.wakes_at = min((run.deadline for run in list(_runs)), default=math.inf)
            left = self.wakes_at - monotonic()
            self._wakes.settimeout(None if left == math.inf else max(left, _LEAST_WAIT))
            try:
                signals = self._wakes.recv(4096).replace(_WAKE, b"")
            except TimeoutError:
                signals = b""
            except OSError:  # somebody has closed all files
                signals = b""
                if self is _current.get(_WATCHER):
                    del _current[_WATCHER]
            if self is not _current.get(_WATCHER):
                return
            if signals and self.forward >= 0:
                with suppress(OSError):
                    os.write(self.forward, signals)
            _end_those(SIGINT in signals)


_LEAST_WAIT = 0.001
_WATCHER = "watcher"
_current: dict[str, _Watcher] = {}
"""The watcher, if there is one: two threads that find none make one each, and the first that puts it here has made it.
"""
_main_thread = threading.main_thread().ident


def _watching() -> _Watcher:
    """The watcher, made if there is none. Raises OSError or RuntimeError where the system allows no further one."""
    watcher = _current.get(_WATCHER)
    if watcher is None:
        made = _Watcher()
        watcher = _current.setdefault(_WATCHER, made)
        if watcher is not made:
            made.wake()  # and so it ends
    return watcher


def _after_fork() -> None:
    """A child has no thread of its parent's, and its signals are not for its parent's runs."""
    global _main_thread
    _main_thread = threading.main_thread().ident
    for run in list(_runs):
        run.interruptible = False
    if (watcher := _current.pop(_WATCHER, None)) is not None:
        _write_signals_to(watcher.forward, watcher)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _write_signals_to(file: int, watcher: _Watcher) -> None:
    """Has Python write signals to a file again, if it writes them to a watcher."""
    if (found := set_wakeup_fd(file, warn_on_full_buffer=False)) != watcher.fd:
        set_wakeup_fd(found, warn_on_full_buffer=False)


def _end(run: Run, reason: Reason) -> None:
    run.reason = reason
    if _runs.pop(run, False):
        run.instance.stop(reason)


def _end_those(interrupted: bool) -> None:
    """Ends the runs that an interrupt is for, and those whose time is over."""
    now = monotonic()
    for run in list(_runs):
        if interrupted and run.interruptible:
            _end(run, KeyboardInterrupt)
        elif run.deadline <= now:
            _end(run, (run.caller and run.caller.reason) or run.reason)


def _raises_interrupts() -> bool:
    """Returns True if Ctrl-C is for Python's own handler, or for asyncio's, which cancels a task. Handlers of the
    program may have other plans, such as to end after this run."""
    handler = getsignal(SIGINT)
    return handler is default_int_handler or (
        getattr(getattr(handler, "func", None), "__module__", None) == "asyncio.runners"
    )


def begin(run: Run) -> None:
    """From now on, until `end`, a run is ended when its time is over, when its caller leaves, and in the main thread by
    Ctrl-C. Where the system allows no further thread it is not, which is an error only if it has a deadline:
    LimitError."""
    run.caller = _caller.get()
    run.interruptible = get_ident() == _main_thread and _raises_interrupts()
    _runs[run] = True
    try:
        watcher = _watching()
    except (OSError, RuntimeError) as error:
        if run.deadline == math.inf:
            return
        raise LimitError(f"no run can be ended in time: {error}; load it without a timeout") from error
    if run.interruptible:
        try:
            before = set_wakeup_fd(watcher.fd, warn_on_full_buffer=False)
        except ValueError:  # the main thread of another interpreter
            before = watcher.fd
        if before != watcher.fd:
            run.before = watcher.forward = before
    if run.deadline < watcher.wakes_at:
        watcher.wake()
    if run.caller is not None:
        run.caller.check(run)


def end(run: Run) -> bool:
    """Returns True if a run has come to its end by itself, and nobody ends it any more."""
    if run.before is not None:
        set_wakeup_fd(run.before, warn_on_full_buffer=False)
    return _runs.pop(run, False)


def interrupted(run: Run) -> None:
    """After an interrupt that ended a run: the watcher may not have read the signal yet, and would take it for one that
    came in the next run. So another watcher takes its place."""
    if get_ident() != _main_thread or any(other.interruptible for other in list(_runs)):
        return  # inside of another run, which the signal is for as well
    if (old := _current.pop(_WATCHER, None)) is not None:
        _write_signals_to(old.forward if run.before is None else run.before, old)
        old.wake()
    if _runs:  # those of other threads
        with suppress(OSError, RuntimeError):
            _watching()
