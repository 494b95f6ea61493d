"""Objects that others hold, for those who have to find them all."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Living(Generic[T]):
    """The objects added to it that somebody else still holds.

    When an object goes, a `WeakSet` runs a function of Python, in which an interrupt would be lost: here it is a method
    of a built-in type.
    """

    def __init__(self) -> None:
        self._references: set[weakref.ref[T]] = set()

    def add(self, thing: T) -> None:
        """Adds an object, which is compared by identity."""
        self._references.add(weakref.ref(thing, self._references.discard))

    def __iter__(self) -> Iterator[T]:
        things = [reference() for reference in self._references.copy()]
        return iter([thing for thing in things if thing is not None])
