"""Transfers between a run and its host while it is under way: infeed, outfeed, and the host's send and recv by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import ArgumentError, RunError
from ..hostio import HostIO, taker
from .handlers import raise_if_handlers
from .leaf import Leaf
from .manifest import Manifest, Request

if TYPE_CHECKING:
    from .arrays import Slot

_GIVEN_BY = {
    "infeed": "infeed=items",
    "recv": "recv={{{0!r}: items}}",
    "outfeed": "outfeed=function",
    "send": "send={{{0!r}: function}}",
}
_DOES = {
    "infeed": "takes {} from its host",
    "recv": "receives {} from its host",
    "outfeed": "gives {} to its host",
    "send": "sends {} to its host",
}

Key = tuple[str, str]
"""Kind and name of a transfer."""


class _Site:
    """An instruction that hands arrays over."""

    def __init__(self, request: Request, slot: Callable[[Leaf, str], Slot]) -> None:
        leaves = request.results or request.operands
        self.key: Key = (request.kind, request.target)
        self.what = f"{'recv-done' if request.kind == 'recv' else request.kind} '{request.name}'"
        self.slots = [slot(leaf, "the array" if len(leaves) == 1 else f"array {i}") for i, leaf in enumerate(leaves)]
        self.wanted = str(self.slots[0]) if len(leaves) == 1 else f"({', '.join(map(str, self.slots))})"

    def accept(self, item: Any) -> list[Any]:
        """The arrays of an item, checked."""
        slots = self.slots
        if len(slots) == 1 and not _are_arrays(item, slots[0].leaf):
            arrays: Sequence[Any] = (item,)
        elif isinstance(item, (tuple, list)) and len(item) == len(slots):
            arrays = item
        else:
            wanted = f"one array, {self.wanted}" if len(slots) == 1 else f"{len(slots)} arrays, {self.wanted}"
            raise ArgumentError(
                f"it must be {wanted}, not {len(item) if isinstance(item, (tuple, list)) else type(item).__name__}"
            )
        return [slot.accept(array) for slot, array in zip(slots, arrays)]

    def give(self, arrays: Sequence[Any]) -> Any:
        """Copies of the arrays, as the receiver gets them."""
        given = tuple(slot.give(array) for slot, array in zip(self.slots, arrays))
        return given[0] if len(given) == 1 else given


def _are_arrays(item: Any, leaf: Leaf) -> bool:
    """Returns True for a sequence of arrays of the leaf's rank, where one array is wanted; False for one array as
    nested lists."""
    if not isinstance(item, (tuple, list)) or not item:
        return False
    shapes = [getattr(array, "shape", None) for array in item]
    return all(shape is not None and len(shape) == len(leaf.dimensions) for shape in shapes)


class Transfers:
    """All instructions of a module that hand arrays to its host or take some from it."""

    def __init__(self, manifest: Manifest, slot: Callable[[Leaf, str], Slot]) -> None:
        self.module = manifest.name
        self.sites = {i: _Site(request, slot) for i, request in manifest.transfers.items()}

    def begin(self, host: HostIO) -> Feeds:
        """The feeds of one run on one device, which must be all that the module needs."""
        if not self.sites and host.infeed is None and host.outfeed is None and not host.send and not host.recv:
            return NONE
        given: dict[Key, Any] = {("infeed", ""): host.infeed, ("outfeed", ""): host.outfeed}
        for kind, named in (("send", host.send), ("recv", host.recv)):
            if named is not None and not isinstance(named, Mapping):
                wanted = _GIVEN_BY[kind].format("name")
                raise ArgumentError(f"{kind} must be a mapping from names, as in {wanted}; got {type(named).__name__}")
            given |= {(kind, name): end for name, end in (named or {}).items()}
        given = {key: end for key, end in given.items() if end is not None}
        keys = {site.key for site in self.sites.values()}
        for kind, name in given:
            if (kind, name) not in keys:
                known = ", ".join(repr(other) for same, other in sorted(keys) if same == kind)
                why = f"of the name {name!r} (known: {known or 'it has none'})" if kind in ("send", "recv") else "in it"
                raise ArgumentError(f"'{self.module}' was given {kind}, but there is no {kind} {why}: leave it out")
        for site in self.sites.values():
            if site.key not in given:
                kind, name = site.key
                does = f"{_DOES[kind].format(site.wanted)} in {site.what}"
                raise ArgumentError(f"'{self.module}' {does}: pass run(..., {_GIVEN_BY[kind].format(name)})")
        return Feeds(self.sites, given)


class Feeds:
    """The two ends, the program's and the host's, of what goes between them in one run."""

    def __init__(self, sites: Mapping[int, _Site], given: Mapping[Key, Any]) -> None:
        self._sites = sites
        self._sources = {key: _Items(key[0], end) for key, end in given.items() if key[0] in ("infeed", "recv")}
        self._sinks = {key: taker(key[0], end) for key, end in given.items() if key[0] in ("outfeed", "send")}

    def serve(self, number: int, operands: Sequence[Any]) -> list[Any]:
        """Serves the request of that number: takes its operands, and gives its results."""
        site = self._sites[number]
        if site.key in self._sources:
            return self._sources[site.key].next(site)
        value = site.give(operands)
        try:
            self._sinks[site.key](value)
        except Exception as error:
            raise_if_handlers(error)
            raise RunError(
                f"{site.what}: the host failed to take what it gives: {type(error).__name__}: {error}"
            ) from error
        return []


class _Items:
    """The items of one source, counted."""

    def __init__(self, kind: str, source: Any) -> None:
        self._count = 0
        if isinstance(source, Iterable):
            self._next: Callable[[], Any] = iter(source).__next__
        elif callable(getattr(source, "get", None)):
            self._next = source.get
        else:
            raise ArgumentError(
                f"{kind} must be an iterable of items, or a queue with a method 'get'; got {type(source).__name__}"
            )

    def next(self, site: _Site) -> list[Any]:
        """The arrays of the next item."""
        number = self._count
        try:
            item = self._next()
        except StopIteration:
            cure = "give it an item for each time that the program asks"
            raise RunError(
                f"{site.what} takes item {number} of this run, {site.wanted}, but its feed has ended: {cure}"
            ) from None
        except Exception as error:
            raise_if_handlers(error)
            raise RunError(
                f"{site.what}: item {number} of this run could not be had: {type(error).__name__}: {error}"
            ) from error
        self._count += 1
        try:
            return site.accept(item)
        except ArgumentError as error:
            raise ArgumentError(f"{site.what}, item {number} of this run: {error}") from error


NONE = Feeds({}, {})
"""The feeds of a module that has no transfers."""
