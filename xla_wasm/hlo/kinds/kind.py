"""Kinds of attributes, and the parts that most kinds are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from ..op import REQUIRED
from ..proto.schema import MESSAGES, UnknownFields, word
from ..proto.wire import UNKNOWN, Buffer, Fields, decode, encode

if TYPE_CHECKING:
    from ..ir import Instruction
    from ..text.lexer import Lexer
    from ..text.shapes import Shapes

Parse = Callable[["Lexer", "Shapes"], Any]
"""Reads a value in HLO text."""


class Part(NamedTuple):
    """One attribute as HLO text has it: whether it must be there, and how its value is read."""

    required: bool
    read: Parse


class Kind:
    """One kind of attributes: all about their values, which are a field of the proto.

    `type` is the Python type of the values, or several; `absent` the value where the proto lacks the field, `REQUIRED`
    if only `read` can tell. `decoded` takes the field to the value, `encoded` back, or to None if there is to be no
    field. `parse` reads a value in HLO text, and `text` writes it, or None if there is to be no attribute.
    """

    def __init__(
        self,
        type: type | tuple[type, ...],
        absent: Any = None,
        *,
        parse: Parse,
        text: Callable[[Any], str | None] = str,
        decoded: Callable[[Any], Any] = lambda field: field,
        encoded: Callable[[Any], Any] = lambda value: value,
        nullable: bool = False,
    ):
        self.type, self.absent, self.nullable = type, absent, nullable or absent is None
        self.parse, self.text, self.decoded, self.encoded = parse, text, decoded, encoded

    def read(self, fields: Fields, keys: tuple[str, ...], instruction: Instruction) -> Any:
        """Takes the fields that it knows out of a decoded HloInstructionProto. The instruction has its operands
        already."""
        value = fields.pop(keys[0], None)
        return self.absent if value is None else self.decoded(value)

    def write(self, fields: Fields, keys: tuple[str, ...], value: Any) -> None:
        """Puts a value into the fields of an HloInstructionProto."""
        if value is not None:
            fields[keys[0]] = self.encoded(value)

    def print(self, name: str, value: Any, instruction: Instruction) -> str:
        """The attribute as HLO text, which may be empty."""
        text = self.text(value)
        return "" if text is None else f"{name}={text}"

    @property
    def unwritten(self) -> Any:
        """The value that texts have no attribute for, `REQUIRED` if every value has one."""
        empty = self.absent is not None and self.absent is not REQUIRED and self.text(self.absent) is None
        return self.absent if empty else REQUIRED

    def check(self, value: Any) -> bool:
        """Returns True if an attribute may have the value. None, where it is one, is for the shape inference to
        judge."""
        return isinstance(value, self.type) or (value is None and self.nullable)


class InParts(Kind):
    """A kind that HLO text has as several attributes; `build` makes the value of those that are there, and `text`
    writes them all."""

    def __init__(
        self,
        type: Any,
        parts: dict[str, Part],
        build: Callable[[dict[str, Any]], Any],
        *,
        text: Callable[[Any], str],
        decoded: Callable[[Buffer], Any],
        encoded: Callable[[Any], bytes],
    ):
        super().__init__(type, type(), parse=_apart, text=text, decoded=decoded, encoded=encoded)
        self.parts, self.build = parts, build

    def print(self, name: str, value: Any, instruction: Instruction) -> str:
        return self.text(value) or ""


def _apart(lexer: Lexer, shapes: Shapes) -> Any:
    raise NotImplementedError("the parts have readers of their own")


class Word(Kind):
    """An enum: its words in HLO text, in the order of the numbers. The first `unwritten` do not stand in texts."""

    def __init__(self, words: str, unwritten: int = 0):
        self.words = tuple(words.split())
        super().__init__(
            str,
            self.words[0],
            parse=lambda lexer, _: lexer.one_of(self.words[unwritten:]),
            text=lambda value: None if value in self.words[:unwritten] else value,
            decoded=lambda number: word(self.words, number),
            encoded=self.words.index,
        )


def known(name: str, data: Buffer) -> Fields:
    """A decoded message of which nothing is lost."""
    fields = decode(MESSAGES[name], data)
    if UNKNOWN in fields:
        raise UnknownFields(name)
    return fields


def unpacked(name: str, data: Buffer, keys: Iterable[str] = ()) -> list[Any]:
    """The fields of a message in the order of the keys, by default that of their numbers; absent ones are 0 or ()."""
    fields, writers = known(name, data), MESSAGES[name].writers
    return [tuple(fields.get(key, ())) if writers[key][2] else fields.get(key, 0) for key in keys or writers]


def packed(name: str, values: Iterable[Any]) -> bytes:
    """A message of the values of its fields, in the order of their numbers."""
    return encode(MESSAGES[name], dict(zip(MESSAGES[name].writers, values)))


def record(cls: Any, data: Buffer, name: str = "") -> Any:
    """A class whose fields are those of the message, by default that of its own name."""
    return cls(*unpacked(name or cls.__name__, data, cls.__dataclass_fields__))


def message(value: Any, name: str = "") -> bytes:
    """The reverse of `record`."""
    return encode(MESSAGES[name or type(value).__name__], {f: getattr(value, f) for f in value.__dataclass_fields__})


def integers(lexer: Lexer, _: Shapes) -> tuple[int, ...]:
    """A list of ints."""
    return tuple(lexer.integers())


def braced(values: Iterable[Any]) -> str:
    """A list in HLO text."""
    return "{" + ",".join(map(str, values)) + "}"


def flag(value: bool) -> str:
    """A truth value in HLO text."""
    return "true" if value else "false"
