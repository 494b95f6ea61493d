"""Numbers of random programs, files and requests that a run of the tests draws: the first of each kind, or all of them
with `--exhaustive`."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")

exhaustive = False
"""True if the option is given: conftest.py says so before any test is imported."""


def count(few: int, all: int) -> int:
    """Returns the number of cases to draw: `all` are enough to look for faults that nobody has thought of; `few`, the
    usual, show that each kind of them works."""
    assert few < all
    return all if exhaustive else few


def more(*combinations: T) -> tuple[T, ...]:
    """Combinations of what tests combine otherwise already: they are tried with `--exhaustive` only."""
    return combinations if exhaustive else ()
