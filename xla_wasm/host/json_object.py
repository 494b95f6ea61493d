"""Objects of JSON read field by field: what is missing or wrong is an ArtifactError that says where."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

from ..errors import COMPILE_ANEW, ArtifactError
from .manifest_fields import ARRAY_KINDS, MAX_INT, Field, field_of

T = TypeVar("T")


class Object:
    """An object of the manifest, with the path to it for messages."""

    def __init__(self, raw: Any, path: str, place: str) -> None:
        """`place` is the path without numbers, by which the table of fields has it."""
        self.path = path
        self.place = place
        if not isinstance(raw, Mapping):
            self.fail("", f"expected an object, got {show(raw)}")
        self.raw = raw

    def fail(self, key: str, why: str, cure: str = COMPILE_ANEW) -> NoReturn:
        """Raises the error for a field, or with "" for the object itself."""
        where = f"{self.path}.{key}".strip(".") or "the top"
        raise ArtifactError(f"the artifact's manifest is wrong at {where}: {why}{cure}")

    def field(self, key: str) -> Field:
        """The row of a field in the table."""
        return field_of(self.place, key)

    def get(self, key: str) -> Any:
        """A field that has to be there."""
        if key not in self.raw:
            self.fail(key, "it is missing")
        return self.raw[key]

    def integer(self, key: str, high: int | None = None) -> int:
        """An integer within the bounds that the table has, or with another upper one."""
        field, value = self.field(key), self.get(key)
        low, high = field.low, field.high if high is None else high
        if not is_int(value) or not low <= value <= high:
            self.fail(key, f"expected an integer from {low} to {high}, got {show(value)}")
        return int(value)

    def index(self, key: str, count: int) -> int | None:
        """The number of one of `count` things, or null."""
        return None if self.get(key) is None else self.integer(key, count - 1)

    def text(self, key: str) -> str:
        """A string."""
        value = self.get(key)
        if not isinstance(value, str):
            self.fail(key, f"expected a string, got {show(value)}")
        return value

    def flag(self, key: str, required: bool = False) -> bool:
        """A boolean; what is not there, and is not required, is false."""
        value = self.get(key) if required else self.raw.get(key, False)
        if not isinstance(value, bool):
            self.fail(key, f"expected true or false, got {show(value)}")
        return value

    def choice(self, key: str) -> str:
        """One of the strings that the table has."""
        value = self.text(key)
        choices = ARRAY_KINDS[self.place] if key == "kind" and self.place in ARRAY_KINDS else self.field(key).choices
        if value not in choices:
            self.fail(key, f"expected one of {', '.join(choices)}, got {show(value)}")
        return value

    def array(self, key: str) -> list[Any]:
        """A list of anything."""
        value = self.get(key)
        if not isinstance(value, (list, tuple)):
            self.fail(key, f"expected a list, got {show(value)}")
        return list(value)

    def integers(self, key: str) -> tuple[int, ...]:
        """A list of integers that are not negative."""
        values = self.array(key)
        for value in values:
            if not is_int(value) or not 0 <= value <= MAX_INT:
                self.fail(key, f"expected integers of 0 and more, got {show(value)}")
        return tuple(values)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings."""
        values = self.array(key)
        for value in values:
            if not isinstance(value, str):
                self.fail(key, f"expected strings, got {show(value)}")
        return tuple(values)

    def objects(self, key: str, read: Callable[[Object], T]) -> tuple[T, ...]:
        """A list of objects, as `read` makes of each."""
        path, place = (f"{start}.{key}".strip(".") for start in (self.path, self.place))
        return tuple(read(Object(item, f"{path}[{i}]", f"{place}[]")) for i, item in enumerate(self.array(key)))

    def object(self, key: str) -> Object:
        """An object."""
        path, place = (f"{start}.{key}".strip(".") for start in (self.path, self.place))
        return Object(self.get(key), path, place)

    def address(self, key: str, memory: int, size: int | None = None, align: int | None = None) -> int:
        """An address inside the memory of as many bytes; their number and its alignment are by default those of the
        table."""
        field, address = self.field(key), self.integer(key)
        size, align = field.size if size is None else size, field.align if align is None else align
        if address % align:
            self.fail(key, f"{address} is not a multiple of {align}")
        if address + size > memory:
            self.fail(key, f"{size} bytes at {address} would reach beyond the memory of {memory} bytes")
        return address


def is_int(value: Any) -> bool:
    """Returns True for an integer of JSON; Python's booleans are integers too, and are none here."""
    return isinstance(value, int) and not isinstance(value, bool)


def show(value: Any) -> str:
    """A value for a message, cut short."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
