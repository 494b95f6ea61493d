"""Tables of figures as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with these titles; columns whose titles begin with ">" are set to the right, as in `report.table`."""
    titles = [title.removeprefix(">") for title in columns]
    ruler = ["---:" if title.startswith(">") else "---" for title in columns]
    return "".join(f"| {' | '.join(line)} |\n" for line in (titles, ruler, *rows))


def replace_between(path: Path, begin: str, end: str, text: str) -> None:
    """Puts `text` between two lines of a file, which may be HTML comments."""
    before, found, rest = path.read_text().partition(f"{begin}\n")
    _, ended, after = rest.partition(f"{end}\n")
    if not (found and ended):
        raise ValueError(f"{path} has no lines {begin!r} and {end!r}")
    path.write_text(f"{before}{begin}\n{text}{end}\n{after}")
