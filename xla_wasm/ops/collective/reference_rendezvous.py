"""Devices of the reference evaluator: each runs in a thread of its own and hands values to the others."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from ...dataclass import dataclass, field
from ...errors import ExchangeError, XlaWasmError
from ...hlo.ir import Instruction
from ..dtypes import Value
from .reference_membership import Grid

Result = TypeVar("Result")


class _Ended(Exception):
    """Another device has failed, and this one has nothing to wait for any more."""


@dataclass(slots=True)
class _State:
    """The state of a device, as far as others need to know it."""

    waits: tuple[Instruction, int, Hashable] | None = None
    """In which instruction for which device, and on which channel."""
    ended: bool = False
    error: BaseException | None = None


@dataclass(slots=True)
class Device:
    """One device, as the operations that it runs see it."""

    number: int
    rendezvous: Rendezvous

    @property
    def grid(self) -> Grid:
        return self.rendezvous.grid

    @property
    def replica(self) -> int:
        return self.grid.place(self.number)[0]

    @property
    def partition(self) -> int:
        return self.grid.place(self.number)[1]

    def send(self, receiver: int, channel: Hashable, value: Value) -> None:
        """Hands a value to a device, which may be this one. It never waits."""
        self.rendezvous.put((self.number, receiver, channel), value)

    def receive(self, sender: int, channel: Hashable, instr: Instruction) -> Value:
        """The next value that a device has handed to this one on a channel; waits for it, in the instruction
        `instr`."""
        return self.rendezvous.take(self.number, sender, channel, instr)

    def gather(self, members: Sequence[int], value: Value, instr: Instruction) -> list[Value]:
        """The values of all members of a group that this device is one of, in the group's order."""
        for member in members:
            self.send(member, instr, value)
        return [self.receive(member, instr, instr) for member in members]


@dataclass(slots=True)
class Rendezvous:
    """All devices of a run, and what lies between them: a queue for each sender, receiver and channel."""

    grid: Grid
    _queues: dict[tuple[int, int, Hashable], deque[Value]] = field(default_factory=dict)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _states: list[_State] = field(init=False)
    _failed: bool = False

    def __post_init__(self) -> None:
        self._states = [_State() for _ in range(self.grid.size)]

    def run(self, work: Callable[[Device], Result]) -> list[Result]:
        """Runs `work` on every device; returns the results in order. If one fails, all end, and its error is raised."""
        results: dict[int, Result] = {}

        def live(device: Device) -> None:
            state = self._states[device.number]
            try:
                results[device.number] = work(device)
            except _Ended:
                pass
            except BaseException as error:
                state.error = error
            with self._changed:
                state.ended = True
                self._failed = self._failed or state.error is not None
                self._look()
                self._changed.notify_all()

        if self.grid.size == 1:
            live(Device(0, self))
        else:
            threads = [
                threading.Thread(target=live, args=(Device(d, self),), daemon=True) for d in range(self.grid.size)
            ]
            for thread in threads:
                thread.start()
            try:
                for thread in threads:
                    thread.join()
            finally:
                with self._changed:
                    self._failed = True  # where an interrupt has ended the wait, the devices end as soon as they meet
                    self._changed.notify_all()
        for number, state in enumerate(self._states):
            if state.error is not None:
                raise self._named(number, state.error)
        return [results[d] for d in range(self.grid.size)]

    def _named(self, device: int, error: BaseException) -> BaseException:
        """The error of a device, saying whose it is."""
        if self.grid.size == 1 or (isinstance(error, ExchangeError) and str(error).startswith("device ")):
            return error
        if isinstance(error, XlaWasmError):
            named = type(error)(f"device {device}: {error}")
            named.__cause__ = error
            return named
        error.add_note(f"on device {device}")
        return error

    def put(self, key: tuple[int, int, Hashable], value: Value) -> None:
        with self._changed:
            self._queues.setdefault(key, deque()).append(value)
            self._changed.notify_all()

    def take(self, receiver: int, sender: int, channel: Hashable, instr: Instruction) -> Value:
        key, state = (sender, receiver, channel), self._states[receiver]
        with self._changed:
            state.waits = (instr, sender, channel)
            self._look()
            while not self._queues.get(key):
                if state.error is not None:
                    raise state.error
                if self._failed:
                    raise _Ended
                self._changed.wait()
            state.waits = None
            return self._queues[key].popleft()

    def _look(self) -> None:
        """If every device waits for what nobody will send any more, the first one fails with that."""
        if self._failed or all(state.ended for state in self._states):
            return
        for number, state in enumerate(self._states):
            if not state.ended and (state.waits is None or self._queues.get((state.waits[1], number, state.waits[2]))):
                return
        number = next(i for i, state in enumerate(self._states) if not state.ended)
        instr, sender, _ = self._states[number].waits or (None, number, None)
        assert instr is not None
        self._states[number].error = ExchangeError(
            f"{self.grid.name(number)} waits in {instr.where} for device {sender}, which {self._doing(sender)}: "
            "all devices must come to the same collectives in the same order"
        )
        self._failed = True
        self._changed.notify_all()

    def _doing(self, device: int) -> str:
        state = self._states[device]
        if state.ended:
            return "ended its run"
        assert state.waits is not None
        instr, sender, _ = state.waits
        return f"waits in {instr.where} for device {sender}"


def alone() -> Device:
    """The one device of an evaluation on one."""
    return Device(0, Rendezvous(Grid(1, 1)))
