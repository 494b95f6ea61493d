"""What one public call may use: time and fuel, over everything that it does."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from ..dataclass import dataclass
from ..errors import LimitError


@dataclass(frozen=True)
class Limits:
    """What an executable may use; None means no limit. Fuel and time are those of each public call."""

    memory: int | None = None
    fuel: int | None = None
    timeout: float | None = None
    untrusted: bool = False
    """Whether results must not depend on the processor, because nobody trusts the module."""
    threads: int = 1
    """How many share the work of a run, where the module says how."""
    divided: bool = False
    """Whether devices that run together divide the threads among themselves, instead of having so many each."""

    def threads_for(self, devices: int) -> int:
        """How many each of so many devices has."""
        return max(1, self.threads // devices) if self.divided else self.threads


class Budget:
    """The account of one public call on one device. It begins when it is made, and goes on over waiting, requests and steps."""

    __slots__ = ("deadline", "fuel", "limits")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.fuel = limits.fuel
        self.deadline = None if limits.timeout is None else monotonic() + limits.timeout

    def seconds(self, what: Callable[[], str], more: float = 0.0) -> float | None:
        """How much longer it may take, and `more`; None: as long as it wants. LimitError, which begins with `what`, if no time is left."""
        if self.deadline is None:
            return None
        left = self.deadline + more - monotonic()
        if left <= 0:
            raise LimitError(f"{what()}: it took longer than its {self.limits.timeout} s: load it with a longer timeout")
        return left


UNLIMITED = Budget(Limits())
