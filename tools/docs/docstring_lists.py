"""Docstrings name parameters and fields in lines of their own, "`name`: what it is": on the site these are items of a
list."""

from __future__ import annotations

import re
from typing import Any

import griffe

ITEM = re.compile(r"^(?=`\w+`(, `\w+`)*: )", re.MULTILINE)


def listed(text: str) -> str:
    """The text with a list where such lines follow one another."""
    found = ITEM.search(text)
    if found is None:
        return text
    return text[: found.start()].rstrip() + "\n\n" + ITEM.sub("- ", text[found.start() :])


class DocstringLists(griffe.Extension):
    """Does so in all docstrings."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for each module, class, function and attribute that has been read."""
        if obj.docstring is not None:
            obj.docstring.value = listed(obj.docstring.value)
