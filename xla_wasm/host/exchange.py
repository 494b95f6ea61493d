"""Exchanges between the devices of one process: each device is a thread with an inbox, and reads what is large in the
sender's memory.

A device puts a message into the inbox of every receiver, and takes what its own inbox holds until it has all that the
exchange brings. Small blocks travel inside the message. Of large ones, the message says where they lie; the receiver
copies them from there and tells the sender, who waits for that. Nobody polls, and the inboxes are the only things that
threads share.
"""

from __future__ import annotations

import ctypes
import time
from collections import deque
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from ..errors import ExchangeError
from .budget import UNLIMITED, Budget
from .grid import Grid
from .loopback import BasePort
from .manifest import Exchange

_GRACE = 0.05
"""Seconds after the end of its budget that a device waits on, so that the one that still computes says where."""
EAGER = 32768
"""Up to so many bytes, to copy a message twice takes less time than to wait for its receiver."""


class Port(BasePort):
    """An exchange in linear memory: where the numbers of the devices, the blocks and the rows lie."""

    __slots__ = ("_addresses", "_receivers", "_rows", "_senders", "in_message", "owner", "same", "views")

    def __init__(self, request: Exchange, memory: memoryview, base: int, owner: object) -> None:
        super().__init__(request)
        self.owner = owner
        """The object that keeps the memory alive: whoever copies from the memory holds the port."""
        self._receivers, self._senders = (
            memory[at : at + 4 * count].cast("i") for at, count in (request.to, request.sources)
        )
        starts = [[offset + j * stride for offset, _, stride in request.sends] for j in range(request.to[1])]
        self._addresses = [[base + start for start in block] for block in starts]
        self.views = [[memory[start : start + size] for start, size in zip(block, self.sizes)] for block in starts]
        self._rows = [
            [
                (base + offset + i * size, size, memory[offset + i * size : offset + (i + 1) * size])
                for offset, size in request.receives
            ]
            for i in range(request.sources[1])
        ]
        self.same = all(not stride for _, _, stride in request.sends)
        """True if all receivers get the same blocks."""
        self.in_message = request.buffered or sum(self.sizes) <= EAGER
        """True if blocks travel as copies in messages."""

    def receivers(self) -> list[int]:
        return self._receivers.tolist()

    def senders(self) -> list[int]:
        return self._senders.tolist()

    def blocks(self, j: int) -> list[Any]:
        """Their addresses."""
        return self._addresses[j]

    def copies(self, j: int) -> list[Any]:
        return [
            bytes(view) if len(view) <= EAGER else _copied(view, address)
            for view, address in zip(self.views[j], self._addresses[j])
        ]

    def rows(self, i: int) -> list[memoryview]:
        """The memory of row i of what comes in."""
        return [view for _, _, view in self._rows[i]]

    def put(self, i: int, blocks: Sequence[Any]) -> None:
        for (address, size, view), block in zip(self._rows[i], blocks):
            if size > EAGER or type(block) is int:
                ctypes.memmove(address, block, size)
            else:
                view[:] = block


def _copied(view: memoryview, address: int) -> Any:
    """A copy made without the GIL, which `bytes` would hold."""
    copy = (ctypes.c_ubyte * len(view)).from_buffer(bytearray(len(view)))
    ctypes.memmove(copy, address, len(view))
    return copy


class Transport(Protocol):
    """An object that serves the exchanges of one device in one run."""

    def exchange(self, port: Port, /) -> None:
        """Sends the blocks and receives the rows; returns when the blocks may be overwritten and the rows are there."""


class EndedError(ExchangeError):
    """Another device has ended the run: what this one raises says nothing new."""


class Group:
    """The devices of one run."""

    def __init__(self, grid: Grid, timeout: float, budget: Budget = UNLIMITED) -> None:
        """`timeout` bounds each wait, `budget` the whole run."""
        self.grid = grid
        self.timeout = timeout
        self.budget = budget
        self.inboxes: list[SimpleQueue[Any]] = [SimpleQueue() for _ in range(grid.count)]
        self.endpoints = [Endpoint(self, device) for device in range(grid.count)]
        self.over = False
        """True once a device has failed."""

    def fail(self, device: int | None, why: str) -> None:
        """Ends the run on all devices; those that wait wake at once."""
        if device is not None:
            self.endpoints[device].outcome = why
        if not self.over:
            self.over = True
            for inbox in self.inboxes:
                inbox.put(None)


class Endpoint:
    """The exchanges of one device in one run."""

    __slots__ = ("_arrived", "_group", "_inbox", "_waiting", "device", "outcome")

    def __init__(self, group: Group, device: int) -> None:
        self._group = group
        self._inbox = group.inboxes[device]
        self._arrived: dict[tuple[int, int], deque[Any]] = {}
        """Messages that came before they were wanted, by sender and channel."""
        self._waiting: tuple[Port, dict[tuple[int, int], int], set[int]] | None = None
        """The exchange that it waits in, the rows that are still to come, and the devices that have still to read its
        blocks."""
        self.device = device
        self.outcome = ""
        """The end of its run, as in "ended its run"; empty until then."""

    @property
    def waits(self) -> bool:
        """True while it waits, or if its run ended in a wait."""
        return self._waiting is not None

    def exchange(self, port: Port) -> None:
        """See `Transport`."""
        group, device, channel = self._group, self.device, port.request.channel
        if group.over:
            raise EndedError(f"the run ended before {port}")
        inboxes, in_message, same = group.inboxes, port.in_message, port.in_message and port.same
        count = len(inboxes)
        blocks: list[Any] = []
        unread: set[int] = set()
        for j, receiver in enumerate(port.receivers()):
            if receiver < 0:
                continue
            port.check(receiver, count)
            if not in_message:
                blocks = port.blocks(j)
                unread.add(receiver)
            elif not (same and blocks):
                blocks = port.copies(j)
            inboxes[receiver].put((device, channel, port, blocks))
        missing: dict[tuple[int, int], int] = {}
        for i, sender in enumerate(port.senders()):
            if sender < 0:
                continue
            port.check(sender, count)
            early = self._arrived.get((sender, channel))
            if early:
                self._read(port, i, early.popleft())
            else:
                missing[sender, channel] = i
        if missing or unread:
            self._wait(port, missing, unread)

    def _wait(self, port: Port, missing: dict[tuple[int, int], int], unread: set[int]) -> None:
        self._waiting = port, missing, unread
        budget = self._group.budget
        end = time.monotonic() + self._group.timeout
        get, arrived = self._inbox.get, self._arrived
        while missing or unread:
            left = budget.seconds(lambda: f"the run waits in {self._whereabouts({self.device})}", _GRACE)
            timeout = max(0.0, end - time.monotonic())
            try:
                item = get(timeout=timeout if left is None else min(left, timeout))
            except Empty:
                if time.monotonic() < end:
                    continue  # the budget of the run says what is wrong
                raise ExchangeError(self._too_late()) from None
            if type(item) is tuple:
                key = item[:2]
                row = missing.pop(key, None)
                if row is None:
                    arrived.setdefault(key, deque()).append(item)
                else:
                    self._read(port, row, item)
            elif item is None:
                raise EndedError(f"the run ended in {port}")
            else:
                unread.discard(item)
        self._waiting = None

    def _read(self, port: Port, row: int, message: tuple[int, int, Port, list[Any]]) -> None:
        sender, _, source, blocks = message
        port.write(row, blocks, source.sizes)
        if not source.in_message:
            self._group.inboxes[sender].put(self.device)

    def _too_late(self) -> str:
        group = self._group
        return f"{group.grid.name(self.device)} waited {group.timeout:g} s in {self._whereabouts({self.device})}"

    def _whereabouts(self, told: set[int]) -> str:
        """Returns the exchange that the device waits in, for whom, and where those wait, as far as `told` does not hold
        them already."""
        waiting = self._waiting
        if waiting is None:
            return ""
        port, missing, unread = waiting
        parts = []
        for other in sorted({sender for sender, _ in missing} | unread):
            endpoint = self._group.endpoints[other]
            if other in told:
                what = ""
            elif endpoint.outcome:
                what = f", which {endpoint.outcome}"
            else:
                told.add(other)
                further = endpoint._whereabouts(told)
                what = f", which waits in {further}" if further else ", which never arrived"
            parts.append(f"device {other}{what}")
        return f"{port} for {'; '.join(parts) or 'nobody'}"
