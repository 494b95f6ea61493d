"""What a kind of attributes is, and what most kinds are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from ..schema import MESSAGES, UnknownFields, word
from ..wire import UNKNOWN, Buffer, Fields, decode, encode

if TYPE_CHECKING:
    from ..ir import Instruction
    from ..lexer import Lexer
    from ..parser_shapes import Shapes


class Part(NamedTuple):
    """One attribute as HLO text has it: whether it must be there, and how its value is read."""

    required: bool
    read: Callable[[Lexer, Shapes], Any]


class Kind:
    """One kind of attributes: everything about the values that such an attribute has. This one is a field of the proto as it is."""

    type: Any = int
    """The Python type of the values, or several."""
    nullable = False
    """Whether None is a value, which is for the shape inference to judge."""
    absent: Any = None
    """The value where the proto lacks the field; REQUIRED: only `read` can tell."""

    def read(self, fields: Fields, keys: tuple[str, ...], instruction: Instruction) -> Any:
        """Takes the fields that it knows out of a decoded HloInstructionProto. The instruction has its operands already."""
        value = fields.pop(keys[0], None)
        return self.absent if value is None else self.decoded(value)

    def write(self, fields: Fields, keys: tuple[str, ...], value: Any) -> None:
        """Puts a value into the fields of an HloInstructionProto."""
        if value is not None:
            fields[keys[0]] = self.encoded(value)

    def decoded(self, value: Any) -> Any:
        """The value that a field of the proto holds."""
        return value

    def encoded(self, value: Any) -> Any:
        """The field of the proto for a value; None: there is none."""
        return value

    def parse(self, lexer: Lexer, shapes: Shapes) -> Any:
        """Reads a value in HLO text."""
        raise NotImplementedError

    def print(self, name: str, value: Any, instruction: Instruction) -> str:
        """The attribute as HLO text, which may be empty."""
        return f"{name}={self.text(value)}"

    def text(self, value: Any) -> str:
        """A value as HLO text."""
        return str(value)

    def check(self, value: Any) -> bool:
        """Whether an attribute of this kind may have the value."""
        return isinstance(value, self.type) or (value is None and self.nullable)


class InParts(Kind):
    """Kinds that HLO text has as several attributes."""

    parts: dict[str, Part]

    def build(self, found: dict[str, Any]) -> Any:
        """The value that the parts which the text has make together."""
        raise NotImplementedError


class Record(Kind):
    """A class of `hlo.attrs` whose fields are those of the message of the same name."""

    def __init__(self, cls: type, absent: Any = None):
        self.type, self.absent, self.nullable = cls, absent, absent is None

    def decoded(self, value: Buffer) -> Any:
        return record(self.type, self.type.__name__, value)

    def encoded(self, value: Any) -> bytes:
        return message(self.type.__name__, value)


class Word(Kind):
    """An enum: its words in HLO text, in the order of the numbers. The first `unwritten` do not stand in texts."""

    type = str

    def __init__(self, words: str, unwritten: int = 0):
        self.words = tuple(words.split())
        self.absent, self.written = self.words[0], self.words[unwritten:]

    def decoded(self, value: int) -> str:
        return word(self.words, value)

    def encoded(self, value: str) -> int:
        return self.words.index(value)

    def parse(self, lexer: Lexer, shapes: Shapes) -> str:
        return lexer.one_of(self.written)


def known(name: str, data: Buffer) -> Fields:
    """A decoded message of which nothing is lost."""
    fields = decode(MESSAGES[name], data)
    if UNKNOWN in fields:
        raise UnknownFields(name)
    return fields


def record(cls: Any, name: str, data: Buffer) -> Any:
    """A class whose fields are those of the message, absent ones 0, False or ()."""
    fields = known(name, data)
    writers = MESSAGES[name].writers
    return cls(*[tuple(fields.get(f, ())) if writers[f][2] else fields.get(f, 0) for f in cls.__dataclass_fields__])


def message(name: str, value: Any) -> bytes:
    """The reverse of `record`."""
    return encode(MESSAGES[name], {f: getattr(value, f) for f in value.__dataclass_fields__})


def braced(values: Iterable[Any]) -> str:
    """A list in HLO text."""
    return "{" + ",".join(map(str, values)) + "}"


def flag(value: bool) -> str:
    """A truth value in HLO text."""
    return "true" if value else "false"
