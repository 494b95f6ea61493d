"""The things that a child of `os.fork` makes anew.

A child has only the thread that forked. Whatever its parent's other threads were in the middle of stays as it was for
ever: locks that they held, runs and instances that were theirs, threads that wait for work.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol

from .living import Living


class Owner(Protocol):
    """An object that holds something of that kind."""

    def _after_fork(self) -> None:
        """Makes it anew, in the child's only thread."""


_functions: list[Callable[[], None]] = []
_owners: Living[Owner] = Living()


def in_child(begin: Callable[[], None]) -> None:
    """Has a function called in every child, before all objects: for what is there once."""
    _functions.append(begin)


def owns(owner: Owner) -> None:
    """Has an object's `_after_fork` called in every child, as long as somebody holds the object."""
    _owners.add(owner)


def _after_fork() -> None:
    for begin in _functions:
        begin()
    for owner in _owners:
        owner._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
