"""The pages of the site, as the repository has them, and the blocks of code in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from mkdocs.config import load_config

from tests.support.paths import ROOT

GENERATED = "reference/"
"""Folder of the pages that no file of the repository holds."""
FENCE = re.compile(r"^( *)```(\w*)(?: title=\"([^\"]+)\")?\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One block of code: its page, its number among those of its language there, and the name of a file where it is the
    whole of one."""

    page: str
    language: str
    number: int
    title: str | None
    code: str
    line: int

    @property
    def place(self) -> str:
        """Returns the name of the block in the table of blocks: its page, language and number."""
        return f"{self.page} {self.language} {self.number}"


def navigation() -> list[str]:
    """The pages in the order of the navigation, by their names on the site."""

    def pages(entry: Any) -> Iterator[str]:
        if isinstance(entry, str):
            yield entry
        else:
            for inner in entry.values() if isinstance(entry, dict) else entry:
                yield from pages(inner)

    return list(pages(load_config(str(ROOT / "mkdocs.yml")).nav))


def loader_options() -> list[str]:
    """The names of the options of the JavaScript loader's `load`, as web/load.js has them."""
    text = (ROOT / "web" / "load.js").read_text(encoding="utf-8")
    found = re.search(r"const OPTIONS = (.*?)\.split\(' '\)", text, re.DOTALL)
    assert found, "web/load.js has OPTIONS no longer"
    return "".join(re.findall(r"'(.*?)'", found[1])).split()


def written() -> list[str]:
    """The pages that somebody has written, by their paths in the repository."""
    names = [name for name in navigation() if not name.startswith(GENERATED)]
    return [
        "README.md" if name == "index.md" else name if (ROOT / name).is_file() else f"docs/{name}" for name in names
    ]


@cache
def blocks(page: str) -> tuple[Block, ...]:
    """All blocks of a page, in their order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    counts: dict[str, int] = {}
    found = []
    for match in FENCE.finditer(text):
        indent, language, title, code = match.groups()
        number = counts[language] = counts.get(language, -1) + 1
        plain = re.sub(rf"^{indent}", "", code, flags=re.MULTILINE)
        found.append(Block(page, language, number, title, plain, text[: match.start()].count("\n") + 1))
    return tuple(found)


def block(page: str, language: str, number: int = 0) -> Block:
    """One of them."""
    return [found for found in blocks(page) if found.language == language][number]
