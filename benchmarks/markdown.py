"""Tables of figures as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with these titles; columns whose titles begin with ">" are set to the right, as in `report.table`."""
    titles = [title.removeprefix(">") for title in columns]
    ruler = ["---:" if title.startswith(">") else "---" for title in columns]
    return "".join(f"| {' | '.join(line)} |\n" for line in (titles, ruler, *rows))
