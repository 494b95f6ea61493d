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
from functools import partial
from time import monotonic
from typing import Protocol, TypeVar
from weakref import WeakValueDictionary

from ..dataclass import dataclass, field
from ..errors import LimitError
from .forks import in_child

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
    """The end of its time, by the clock `monotonic`; infinity: never."""
    reason: Reason
    """Makes the error that it ends with, if it is ended: at first for the case that its time is over."""
    thread: int = 0
    caller: Caller | None = None
    interruptible: bool = False
    """True if it is in the main thread, where Ctrl-C ends it."""
    before: list[int] = field(default_factory=list)
    """The file to which Python wrote signals before, if this run has changed it."""


class Caller:
    """Somebody who waits for runs, and may leave before they have ended. Several threads may work for one. Whoever
    waits for the thread that makes it waits for its runs as well."""

    def __init__(self) -> None:
        self._outer = _callers.get(get_ident())
        self._reason: Reason | None = None
        self._until = math.inf

    def wait_for(self, work: Callable[[], T]) -> T:
        """Does the work, whose runs in this thread the caller waits for."""
        thread = get_ident()
        outer = _callers.get(thread)
        try:
            _callers[thread] = self
            return work()
        finally:
            if outer is None:
                _callers.pop(thread, None)
            else:
                _callers[thread] = outer

    def leave(self, reason: Reason, grace: float = 0.0) -> None:
        """Ends the runs, those under way and those that would begin, after so many seconds."""
        self._reason, self._until = reason, monotonic() + grace
        for run in list(_runs):
            if run.caller is not None:
                run.caller.check(run)

    def check(self, run: Run) -> None:
        """Ends a run that is under way, or has begun, after this caller or one who waits for it has left."""
        left = self._who_left()
        if left is None or left._reason is None:
            return
        if left._until <= monotonic():
            _end(run, left._reason)
        elif left._until < run.deadline:  # whose time is over first says where
            run.reason, run.deadline = left._reason, left._until
            with suppress(OSError, RuntimeError):
                _watching().wake()

    def _who_left(self) -> Caller | None:
        caller: Caller | None = self
        while caller is not None and caller._reason is None:
            caller = caller._outer
        return caller

    @property
    def reason(self) -> Reason | None:
        """Makes the error that its runs end with; None as long as it waits."""
        left = self._who_left()
        return left._reason if left else None


_callers: WeakValueDictionary[int, Caller] = WeakValueDictionary()
"""Of each thread the one it works for. One that an exception has left here goes when nobody has it any more."""
_runs: dict[Run, bool] = {}
"""The runs under way, as keys of True: to drop one says whether it was there."""
_WAKE = b"\0"
"""Written to the watcher where signals write their numbers: there is a nearer end of a run's time."""
_LEAST_WAIT, _FIRST_WAIT, _LONGEST_WAIT = 0.001, 1.0, 3600.0


def check_caller() -> None:
    """Raises the error of the caller that this thread works for, if it has left: for whoever waits, and runs nothing
    yet."""
    caller = _callers.get(get_ident())
    if caller is not None and (reason := caller.reason) is not None:
        raise reason()


class _Watcher:
    """The thread that ends runs, and the socket that wakes it."""

    def __init__(self) -> None:
        self._wakes, self._written = socket.socketpair()
        self._written.setblocking(False)
        self.fd = self._written.fileno()
        """The file to which Python is to write signals."""
        self._before: tuple[int, int, int] | None = None
        """The file to which it wrote them before, and which gets them as well: its number, device and inode."""
        self._forward = -1
        """The same file under a number of the watcher's own: its owner may close it, and another file may have its
        number, before the watcher has written to it."""
        self._old: list[int] = []
        self.wakes_at = 0.0
        start_new_thread(self._watch, ())

    def forward_to(self, file: int) -> None:
        """Has the file get the signals that come from now on as well."""
        about = None
        with suppress(OSError):
            status = os.fstat(file)
            about = file, status.st_dev, status.st_ino
        if about == self._before:
            return
        forward = -1
        with suppress(OSError):
            forward = os.dup(file) if about else -1
        self._old.append(self._forward)
        self._forward, self._before = forward, about

    def wake(self) -> None:
        """Has it look when the time of a run is over."""
        with suppress(OSError):  # it is full: then it wakes in any case
            self._written.send(_WAKE)

    def _watch(self) -> None:
        longest = _FIRST_WAIT  # an exception may have come before anybody knew of it
        try:
            while True:
                self.wakes_at = math.inf  # so that whoever begins from now on wakes it
                self.wakes_at = min((run.deadline for run in list(_runs)), default=math.inf)
                self._wakes.settimeout(min(max(self.wakes_at - monotonic(), _LEAST_WAIT), longest))
                longest = _LONGEST_WAIT
                try:
                    signals = self._wakes.recv(4096).replace(_WAKE, b"")
                except TimeoutError:
                    signals = b""
                if signals and self._forward >= 0:
                    with suppress(OSError):
                        os.write(self._forward, signals)
                self._close(self._old)
                if self is not _current.get(_WATCHER):
                    return
                _end_those(SIGINT in signals)
        except OSError:  # somebody has closed all files
            pass
        finally:
            if self is _current.get(_WATCHER):  # or nobody would make another
                del _current[_WATCHER]
            self._close([*self._old, self._forward])
            self._wakes.close()
            self._written.close()

    @staticmethod
    def _close(files: list[int]) -> None:
        while files:
            if (file := files.pop()) >= 0:
                os.close(file)


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


@in_child
def _after_fork() -> None:
    """A child has no other thread of its parent's, and its signals are not for its parent's runs."""
    global _main_thread
    _main_thread = threading.main_thread().ident
    thread = get_ident()
    for run in [run for run in _runs if run.thread != thread]:
        del _runs[run]
    for other in [*_callers]:
        if other != thread:
            _callers.pop(other, None)
    if (watcher := _current.pop(_WATCHER, None)) is not None:
        _put_back(next((run.before[0] for run in _runs if run.before), -1), watcher.fd)
    if _runs:
        _watching()


_set_wakeup_fd = partial(set_wakeup_fd, warn_on_full_buffer=False)


def _put_back(file: int, ours: int) -> None:
    """Has Python write signals to a file again, if it writes them to one of ours. Whoever has closed that file gets no
    error here."""
    if (found := _set_wakeup_fd(-1)) != ours:
        file = found
    with suppress(ValueError, OSError):
        set_wakeup_fd(file)


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
            _end(run, run.reason)


_CANCELS = ("asyncio.runners", "ipykernel.ipkernel")
"""The modules of handlers that cancel a task: of asyncio, and of Jupyter in cells that await something."""


def _raises_interrupts() -> bool:
    """Returns True if Ctrl-C is for Python's own handler, or for one that cancels a task. Handlers of the
    program may have other plans, such as to end after this run."""
    handler = getsignal(SIGINT)
    return handler is default_int_handler or getattr(getattr(handler, "func", handler), "__module__", None) in _CANCELS


def begin(run: Run) -> None:
    """From now on, until `end`, a run is ended when its time is over, when its caller leaves, and in the main thread by
    Ctrl-C. Where the system allows no further thread it is not, which is an error only if it has a deadline:
    LimitError."""
    run.thread = thread = get_ident()
    run.caller = _callers.get(thread)
    run.interruptible = thread == _main_thread and _raises_interrupts()
    _runs[run] = True
    try:
        watcher = _watching()
    except (OSError, RuntimeError) as error:
        if run.deadline == math.inf:
            return
        raise LimitError(f"no run can be ended in time: {error}; load it without a timeout") from error
    if run.interruptible:
        with suppress(ValueError):  # the main thread of another interpreter
            # One operation, so that no exception comes between the call and its result.
            run.before.extend(map(_set_wakeup_fd, (watcher.fd,)))
        if run.before == [watcher.fd]:  # inside of another run
            run.before.clear()
        elif run.before:
            watcher.forward_to(run.before[0])
    if run.deadline < watcher.wakes_at:
        watcher.wake()
    if run.caller is not None:
        run.caller.check(run)


def end(run: Run) -> bool:
    """Returns True if a run has come to its end by itself, and nobody ends it any more."""
    is_whole = _runs.pop(run, False)
    if run.before:
        try:
            set_wakeup_fd(run.before[0])
        except (ValueError, OSError):  # its owner has closed it
            set_wakeup_fd(-1)
    return is_whole


def clean_up(run: Run, interrupted: bool) -> None:
    """After an exception, which may have come inside of `begin` or `end` as well. Of an interrupt, the watcher may not
    have read the signal yet, and would take it for one that came in the next run: so another one takes its place."""
    _runs.pop(run, None)
    if get_ident() != _main_thread or (watcher := _current.get(_WATCHER)) is None:
        return
    if run.before:
        _put_back(run.before[0], watcher.fd)
    if not interrupted or any(other.interruptible for other in list(_runs)):
        return  # inside of another run, which the signal is for as well
    _put_back(-1, watcher.fd)  # it is closed from now on
    try:
        _current[_WATCHER] = _Watcher()  # one operation, as runs of other threads need one
    except (OSError, RuntimeError):
        _current.pop(_WATCHER, None)
    watcher.wake()
