"""How many random programs, files and requests a run of the tests draws: the first of each kind, or all of them with
`--exhaustive`."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")

exhaustive = False
"""Whether the option is given: conftest.py says so before any test is imported."""


def count(few: int, all: int) -> int:
    """How many of `all` to draw, which are enough to look for what nobody has thought of; `few` show that each kind of
    them works."""
    assert few < all
    return all if exhaustive else few


def more(*combinations: T) -> tuple[T, ...]:
    """Combinations of what tests combine otherwise already: they are tried with `--exhaustive` only."""
    return combinations if exhaustive else ()
