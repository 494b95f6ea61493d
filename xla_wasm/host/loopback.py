"""Exchanges of a program that runs on one device: what it sends to itself comes back. Needs neither numpy nor
ctypes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import Any

from ..errors import ArtifactError, ExchangeError
from .manifest import Exchange


class BasePort(ABC):
    """An exchange in the memory of an instance."""

    __slots__ = ("request", "row_sizes", "sizes")

    def __init__(self, request: Exchange) -> None:
        self.request = request
        self.sizes = tuple(size for _, size, _ in request.sends)
        """Bytes of each block that goes to one receiver."""
        self.row_sizes = tuple(size for _, size in request.receives)

    @abstractmethod
    def receivers(self) -> list[int]:
        """Returns the device that each block goes to, -1 for none."""

    @abstractmethod
    def senders(self) -> list[int]:
        """Returns the device that each row comes from, -1 for none."""

    @abstractmethod
    def blocks(self, j: int) -> list[Any]:
        """Returns the blocks for the j-th receiver, for `put`; they may be overwritten when the exchange is over."""

    @abstractmethod
    def copies(self, j: int) -> list[Any]:
        """Returns copies of the blocks for the j-th receiver, which last."""

    @abstractmethod
    def put(self, i: int, blocks: Sequence[Any]) -> None:
        """Writes blocks of the right sizes into row i of what comes in."""

    def check(self, device: int, count: int) -> None:
        """Raises ArtifactError if there is no such device among `count`."""
        if device >= count:
            raise ArtifactError(f"{self} names device {device}, and there {'is one' if count == 1 else f'are {count}'}")

    def write(self, i: int, blocks: Sequence[Any], sizes: tuple[int, ...]) -> None:
        """Writes blocks of these sizes, in bytes, into row i. Raises ArtifactError if the row has other sizes."""
        if sizes != self.row_sizes:
            raise ArtifactError(
                f"{self} gets blocks of {list(sizes)} bytes where it has room for {list(self.row_sizes)}"
            )
        self.put(i, blocks)

    def __str__(self) -> str:
        return f"{self.request.opcode} '{self.request.name}'"


class Loopback:
    """The transport of a run on one device: each exchange receives what this device has sent."""

    def __init__(self) -> None:
        self._sent: dict[int, deque[tuple[list[Any], tuple[int, ...]]]] = {}
        """By channel."""

    def exchange(self, port: BasePort) -> None:
        """Receives what the same or an earlier exchange has sent."""
        buffered = port.request.buffered
        sent = self._sent.setdefault(port.request.channel, deque())
        for j, receiver in enumerate(port.receivers()):
            if receiver >= 0:
                port.check(receiver, 1)
                sent.append((port.copies(j) if buffered else port.blocks(j), port.sizes))
        for i, sender in enumerate(port.senders()):
            if sender >= 0:
                port.check(sender, 1)
                if not sent:
                    raise ExchangeError(f"the only device waits in {port} for itself, and has sent nothing")
                port.write(i, *sent.popleft())
        if sent and not buffered:
            raise ExchangeError(f"the only device sends to itself in {port}, and does not receive it")
