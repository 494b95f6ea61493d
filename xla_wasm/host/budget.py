"""The limits of one public call: time and fuel, over everything that it does."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from ..dataclass import dataclass
from ..errors import ArgumentError, LimitError

LONGEST = 1e9
"""Seconds, some thirty years: threads and engines count no further."""


def seconds(timeout: float) -> float:
    """Returns the seconds that a call is given, `LONGEST` at most. Raises ArgumentError if they are not above zero."""
    if not timeout > 0:
        raise ArgumentError(f"timeout must be above zero, got {timeout}")
    return float(min(timeout, LONGEST))


@dataclass(frozen=True)
class Limits:
    """The limits of an executable; None means no limit. `memory` is in bytes, `timeout` in seconds; fuel and time are
    each call's."""

    memory: int | None = None
    fuel: int | None = None
    timeout: float | None = None
    untrusted: bool = False
    """True if results must not depend on the processor, because nobody trusts the module."""
    threads: int = 1
    """The number of threads that share the work of a run, if the module is compiled for threads."""
    divided: bool = False
    """True if devices that run together divide the threads among themselves, instead of having so many each."""

    def threads_for(self, devices: int) -> int:
        """Returns the number of threads of each of so many devices."""
        return max(1, self.threads // devices) if self.divided else self.threads

    def late(self, what: str) -> LimitError:
        """Returns the error of a call whose time is over; `what` begins its message."""
        return LimitError(f"{what}: it took longer than its {self.timeout:g} s: load it with a longer timeout")


class Budget:
    """The account of one public call on one device. It begins when it is made, and goes on over waiting, requests and
    steps."""

    __slots__ = ("deadline", "fuel", "limits")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.fuel = limits.fuel
        self.deadline = None if limits.timeout is None else monotonic() + limits.timeout

    def seconds(self, what: Callable[[], str], more: float = 0.0) -> float | None:
        """Returns the seconds that are left, and `more`; None: no limit. Raises LimitError, which begins with `what`,
        if there are none."""
        if self.deadline is None:
            return None
        left = self.deadline + more - monotonic()
        if left <= 0:
            raise self.limits.late(what())
        return left


UNLIMITED = Budget(Limits())
