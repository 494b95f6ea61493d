"""The exchanges of a run with its host while it is under way: infeed, outfeed, and recv and send by name.

Functions that users call take these as four keywords (`HostKeywords`, or of many devices `DeviceKeywords`), and make
one record of them, `HostIO`, which goes through everything inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypedDict

from .dataclass import dataclass
from .errors import ArgumentError, counted


class _Appends(Protocol):
    def append(self, value: Any, /) -> Any: ...


class _Puts(Protocol):
    def put(self, value: Any, /) -> Any: ...


Source = Iterable[Any]
"""Gives items: each an array, or a sequence of them where an instruction takes several. Queues with a method `get` do
too."""
Sink = Callable[[Any], Any] | _Appends | _Puts
"""Takes what comes out, an array or a tuple of several: a function, or an object with a method `append` or `put`."""


class HostKeywords(TypedDict, total=False):
    """The host of a run, as users give it."""

    infeed: Source | None
    outfeed: Sink | None
    send: Mapping[str, Sink] | None
    recv: Mapping[str, Source] | None


class DeviceKeywords(TypedDict, total=False):
    """The host of a run on many devices, as users give it: lists with an entry for each device."""

    infeed: Sequence[Source] | None
    outfeed: Sequence[Sink] | None
    send: Sequence[Mapping[str, Sink]] | None
    recv: Sequence[Mapping[str, Source]] | None


@dataclass(frozen=True, slots=True)
class HostIO:
    """The host of a run on one device; None where nothing is given."""

    infeed: Source | None = None
    outfeed: Sink | None = None
    send: Mapping[str, Sink] | None = None
    recv: Mapping[str, Source] | None = None


def of_devices(
    count: int,
    infeed: Sequence[Source] | None = None,
    outfeed: Sequence[Sink] | None = None,
    send: Sequence[Mapping[str, Sink]] | None = None,
    recv: Sequence[Mapping[str, Source]] | None = None,
) -> list[HostIO]:
    """The host of each of `count` devices. Raises ArgumentError for lists that have not an entry for each."""
    lists: dict[str, Any] = {"infeed": infeed, "outfeed": outfeed, "send": send, "recv": recv}
    given = {what: ends for what, ends in lists.items() if ends is not None}
    for what, ends in given.items():
        if not isinstance(ends, (tuple, list)) or len(ends) != count:
            got = counted(len(ends), "entry") if isinstance(ends, (tuple, list)) else f"one {type(ends).__name__}"
            raise ArgumentError(
                f"{what} must be a list with an entry for each of {counted(count, 'device')}, got {got}"
            )
    return [HostIO(**{what: ends[d] for what, ends in given.items()}) for d in range(count)]


def taker(kind: str, sink: Any) -> Callable[[Any], Any]:
    """The function that hands a value to a sink. Raises ArgumentError for what is none."""
    if callable(sink):
        return sink
    for name in ("append", "put"):
        method = getattr(sink, name, None)
        if callable(method):
            return method
    raise ArgumentError(
        f"{kind} must be a function, or an object with a method 'append' or 'put'; got {type(sink).__name__}"
    )
