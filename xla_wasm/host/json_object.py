"""Objects of JSON read field by field: what is missing or wrong is an ArtifactError that says where."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

from ..errors import ArtifactError

MAX_INT = 2**53 - 1
"""The largest integer that JavaScript represents exactly."""

T = TypeVar("T")


class Object:
    """An object of the manifest, with the path to it for messages."""

    def __init__(self, raw: Any, path: str) -> None:
        self.path = path
        if not isinstance(raw, Mapping):
            self.fail("", f"expected an object, got {show(raw)}")
        self.raw = raw

    def fail(self, key: str, why: str) -> NoReturn:
        """Raises the error for a field, or with "" for the object itself."""
        where = f"{self.path}.{key}".strip(".") or "the top"
        raise ArtifactError(f"the artifact's manifest is wrong at {where}: {why}")

    def get(self, key: str) -> Any:
        """A field that has to be there."""
        if key not in self.raw:
            self.fail(key, "it is missing")
        return self.raw[key]

    def integer(self, key: str, low: int = 0, high: int = MAX_INT) -> int:
        """An integer within these bounds."""
        value = self.get(key)
        if not is_int(value) or not low <= value <= high:
            self.fail(key, f"expected an integer from {low} to {high}, got {show(value)}")
        return int(value)

    def index(self, key: str, count: int) -> int | None:
        """The number of one of `count` things, or null."""
        return None if self.get(key) is None else self.integer(key, 0, count - 1)

    def text(self, key: str) -> str:
        """A string."""
        value = self.get(key)
        if not isinstance(value, str):
            self.fail(key, f"expected a string, got {show(value)}")
        return value

    def flag(self, key: str) -> bool:
        """A boolean; what is not there is false."""
        value = self.raw.get(key, False)
        if not isinstance(value, bool):
            self.fail(key, f"expected true or false, got {show(value)}")
        return value

    def choice(self, key: str, choices: tuple[str, ...]) -> str:
        """One of these strings."""
        value = self.text(key)
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
        return tuple(read(Object(item, f"{self.path}.{key}[{i}]".strip("."))) for i, item in enumerate(self.array(key)))

    def range(self, key: str, size: int, memory: int, align: int) -> int:
        """An address of `size` bytes inside the memory."""
        address = self.integer(key, 0, memory)
        if address % align:
            self.fail(key, f"{address} is not a multiple of {align}")
        if address + size > memory:
            self.fail(key, f"{size} bytes at {address} reach beyond the memory of {memory} bytes")
        return address


def is_int(value: Any) -> bool:
    """Returns True for an integer of JSON; Python's booleans are integers too, and are none here."""
    return isinstance(value, int) and not isinstance(value, bool)


def show(value: Any) -> str:
    """A value for a message, cut short."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
