"""Runs one program on many devices at once, each in a thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from threading import get_ident
from typing import Any, Generic, NoReturn, TypeVar

from ..errors import ExchangeError, LimitError, RunError, XlaWasmError
from . import workers
from .budget import Budget
from .device import Device
from .exchange import EndedError, Endpoint, Group
from .forks import owns
from .grid import Grid
from .instance import Instance
from .stop import Caller

T = TypeVar("T")
_GRACE = 0.1
"""Seconds in which devices that compute come to their next exchange, and keep their instances, when another fails."""
Work = Callable[[int, Instance, Endpoint], T]
"""A function that works on the device of that number, with an instance and its endpoint of the exchanges."""


def run_together(
    devices: Sequence[Device], needed: Set[str], grid: Grid, timeout: float, work: Work[T], budgets: Sequence[Budget]
) -> list[T]:
    """Runs `work` on each device, the first on this thread, and returns its results. If one fails, ends all runs and
    raises its error."""
    instances = _take(devices, needed, budgets)
    run = _Run(Group(grid, timeout, budgets[0]), work, instances)
    try:
        run.run()
    finally:
        failed = {d for d, _ in run.failures}
        for d, (device, instance) in enumerate(zip(devices, instances)):
            if d in run.unfinished:
                device.drop(instance)  # it may still write into its memory
            else:
                device.put_back(instance)
            if failed:
                device.lose()  # it may have stopped before another one, or gone further
        instances.clear()
    return run.results()


def _take(devices: Sequence[Device], needed: Set[str], budgets: Sequence[Budget]) -> list[Instance]:
    """An instance of each device, taken in their order: so two runs never wait for each other."""
    instances: list[Instance] = []
    try:
        for device, budget in zip(devices, budgets):
            instances.append(device.take(needed, budget))
    except BaseException as error:
        for device, instance in zip(devices, instances):
            device.put_back(instance)
        raise_named(len(instances), error)
    return instances


class _Run(Generic[T]):
    """One run: its threads, its results and its failures."""

    def __init__(self, group: Group, work: Work[T], instances: list[Instance]) -> None:
        self._work = work
        self._instances = instances
        self._group = group
        self._results: list[Any] = [None] * group.grid.count
        self.unfinished = set(range(1, len(instances)))
        """The devices on other threads that have not ended."""
        self._ended: SimpleQueue[None] = SimpleQueue()
        """Gets an item whenever one has ended."""
        self._unclaimed = dict.fromkeys(self.unfinished, True)
        """The ones that no thread has begun with: whoever takes a device out of here, which is one operation, begins
        with it, or sees to it that nobody does."""
        self._caller = Caller()
        self.failures: list[tuple[int | None, BaseException]] = []
        """In the order in which they happened; None is this thread, outside of its device."""
        owns(self)

    def run(self) -> None:
        """Runs all devices to their end. An interrupt ends the run; one more does not even wait for functions of the
        host."""
        try:
            for d in range(1, len(self._instances)):
                workers.start(partial(copy_context().run, self._on_worker, d))
            self._on(0)
            self._wait()
        except BaseException as error:
            first = all(isinstance(failure, Exception) for _, failure in self.failures)
            self.unfinished -= {d for d in [*self._unclaimed] if self._unclaimed.pop(d, False)}
            self._fail(None, error)
            if first:
                self._wait()

    def _wait(self) -> None:
        while self.unfinished:
            self._ended.get()  # an exception may come before the item is here: it says nothing that others have to know

    def _on_worker(self, d: int) -> None:
        if self._unclaimed.pop(d, False):
            self._on(d)
            self._end(d)

    def _end(self, d: int) -> None:
        self.unfinished.discard(d)
        self._ended.put(None)

    def _after_fork(self) -> None:
        """In a child the devices on other threads go no further, and their memory is as it was in the middle."""
        for d, instance in enumerate(self._instances):  # none if it is over
            is_lost = d in self._unclaimed or instance.permit.holder != get_ident()
            if is_lost and (d == 0 or d in self.unfinished):
                instance.sound = False
                self._fail(d, RunError("os.fork, called while it ran, has left its thread in the parent process"))
                self._end(d)

    def _on(self, d: int) -> None:
        endpoint = self._group.endpoints[d]
        self._instances[d].permit.holder = get_ident()
        try:
            self._results[d] = self._caller.wait_for(lambda: self._work(d, self._instances[d], endpoint))
            endpoint.outcome = "ended its run"
        except BaseException as error:
            self._fail(d, error)

    def _fail(self, d: int | None, error: BaseException) -> None:
        self.failures.append((d, error))
        self._group.fail(d, f"failed: {error}")
        if d is not None and isinstance(error, LimitError) and self._group.endpoints[d].waits:
            return  # the time of all is over: each ends by itself, and says where
        self._caller.leave(_ended, _GRACE if isinstance(error, Exception) else 0.0)

    def results(self) -> list[T]:
        """Returns the result of each device, or raises the error that ended the run."""
        # Errors hold the frames that they went through, and these hold this object: without the list they go when they
        # are done with.
        failures, self.failures = self.failures, []
        if not failures:
            return self._results
        interrupts = [failure for failure in failures if not isinstance(failure[1], Exception)]
        own = [failure for failure in failures if not isinstance(failure[1], EndedError)]
        # A device that waits until the time is over says less than the one that it waits for.
        busy = [(d, error) for d, error in own if d is None or not self._group.endpoints[d].waits]
        d, error = (interrupts or busy or own or failures)[0]
        del failures, interrupts, own, busy
        try:
            raise_named(d, error)
        finally:
            del error


def _ended() -> EndedError:
    return EndedError("the run has ended on another device")


def raise_named(device: int | None, error: BaseException) -> NoReturn:
    """Raises an error as that of a device."""
    try:
        if (
            device is None or not isinstance(error, Exception) or isinstance(error, ExchangeError)
        ):  # this names devices itself
            raise error
        if isinstance(error, XlaWasmError):
            raise type(error)(f"device {device}: {error}") from error
        error.add_note(f"(on device {device})")
        raise error
    finally:
        del error
