"""Changes to what the reference shows. Docstrings name parameters and fields in lines of their own, "`name`:
what it is": on the site these are items of a list. An attribute that a constructor sets from its parameter has the
parameter's type, and not the line that sets it."""

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
    """Makes the lists, in all docstrings."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for each module, class, function and attribute that has been read."""
        if obj.docstring is not None:
            obj.docstring.value = listed(obj.docstring.value)


class GivenAttributes(griffe.Extension):
    """Shows attributes that constructors are given by their types."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Called for each class that has been read."""
        made = cls.members.get("__init__")
        if not isinstance(made, griffe.Function):
            return
        for attribute in cls.attributes.values():
            if "instance-attribute" not in attribute.labels or attribute.value is None:
                continue
            names = re.findall(r"(?<![\w.])[a-zA-Z_]\w*", str(attribute.value))
            given = next((made.parameters[name] for name in names if name in made.parameters), None)
            if given is not None:
                attribute.value = None
                attribute.annotation = attribute.annotation or given.annotation
