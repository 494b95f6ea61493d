"""The lines that a printer writes, and what some of them are about."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class Lines(Generic[T]):
    """Lines of text, in order, of which runs are about something: an instruction, a step, a function."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.about: list[tuple[int, int, T]] = []
        """First and last line, counted from 0, and what they are about."""

    def add(self, lines: str | Iterable[str], about: T | None = None) -> None:
        """Appends lines, given as text or one by one. Those of one call belong together if they are about something."""
        first = len(self.lines)
        self.lines += lines.split("\n") if isinstance(lines, str) else lines
        if about is not None:
            self.about.append((first, len(self.lines) - 1, about))

    def __str__(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)
