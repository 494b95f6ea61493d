"""The terminals of HLO text, and a cursor that matches them.

What a run of characters means depends on where it stands (`1x2` is one size list, `b01f` may be a name or dimension
labels), so the cursor is asked for the terminal that the grammar expects instead of cutting the text into tokens
beforehand. Every terminal is one compiled expression that swallows the blanks and comments before it. The expressions
never backtrack over blanks, names or strings (possessive quantifiers), so the time is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from ...errors import ParseError

BLANK = r"(?:\s++|//[^\n]*+|/\*[^*]*+(?:\*(?!/)[^*]*+)*+\*/)*+"
_NAME = r"[A-Za-z_][\w.-]*+"
_MOST_SHOWN = 120
"""The longest piece of a line that an error shows."""


def terminal(body: str) -> re.Pattern[str]:
    """An expression for what follows blanks and comments."""
    return re.compile(BLANK + body, re.ASCII)


SPACE = terminal("")
NAME = terminal(f"%?+({_NAME})")
"""A name, its `%` dropped. Group 1."""
WORD = terminal(rf"({_NAME})(?!\s*+=)")
KEY = terminal(f"({_NAME})=")
"""The name of an attribute, with its equals sign right behind."""
INTEGER = terminal(r"(-?+\d++)(?![\d.]*[.\dxeE_])")
NUMBER = terminal(r"(-?+(?:\d++(?:\.\d*+)?+|\.\d++)(?:[eE][-+]?+\d++)?+|-?+inf\b|-?+nan\b(?:\(0x[0-9a-fA-F]++\))?+)")
STRING = terminal(r"(\"[^\"\\]*+(?:\\[\s\S][^\"\\]*+)*+\"|'[^'\\]*+(?:\\[\s\S][^'\\]*+)*+')")
SIZES = terminal(r"(\d++(?:x\d++)*+)(?![\w.])")
PAD = terminal(r"(-?+\d++_-?+\d++(?:_-?+\d++)?+(?:x-?+\d++_-?+\d++(?:_-?+\d++)?+)*+)(?![\w.])")
DIM_LABELS = terminal(r"([0-9bf?]{2,}+_[0-9io?]{2,}+->[0-9bf?]{2,}+)(?!\w)")
HEAD = terminal(rf"(ROOT\s++)?+(?:({_NAME})(?=[\s/])|%({_NAME})){BLANK}=")
"""The beginning of an instruction: whether it is the root, and its name, in group 2 or, after a `%`, in group 3."""
OPCODE = terminal(rf"({_NAME}){BLANK}\(")
OPERAND = terminal(rf"%?+({_NAME})(?={BLANK}[,)])")
ARRAY = terminal(
    r"([a-z][a-z0-9]*+\[[\d,<=?]*+\](?:\{[\d,]*+(?:(?<=[\d{]):[A-Z][A-Z\d(),:*-]*+)?+(?<!\{)\})?+)(?!\s*+\{\s*+[\d:])"
)
"""The shape of an array as it is mostly written, without blanks in it."""
LAYOUT = terminal(rf"\{{(?={BLANK}[\d:])")
"""The brace of a layout: any other brace after a shape begins something else."""
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|([\s\S]))")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_BRACES = re.compile(r"[^{}\"]*+(?:\"[^\"\\]*+(?:\\[\s\S][^\"\\]*+)*+\"|[{}])")


class TextError(ParseError):
    """A text that does not follow its grammar, or means nothing. `line` and `column` count from 1."""

    def __init__(self, message: str, text: str, at: int):
        begin = text.rfind("\n", 0, at) + 1
        end = text.find("\n", at)
        self.line = text.count("\n", 0, begin) + 1
        self.column = at - begin + 1
        line = text[begin : len(text) if end < 0 else end].replace("\t", " ").rstrip("\r")
        first = max(0, min(at - begin - _MOST_SHOWN // 2, len(line) - _MOST_SHOWN))
        shown = line[first : first + _MOST_SHOWN]
        super().__init__(f"line {self.line}, column {self.column}: {message}\n{shown}\n{' ' * (at - begin - first)}^")


class HloTextError(TextError):
    """HLO text that does not follow the grammar, or means nothing."""


class Cursor:
    """A place in a text."""

    __slots__ = ("text", "pos")
    wrong: type[TextError] = HloTextError
    """The error of this language."""
    space: re.Pattern[str] = SPACE
    """Its blanks and comments."""

    def __init__(self, text: str):
        self.text = text
        self.pos = 0

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """The terminal that stands here, passed over; None and no step if it is another one."""
        found = pattern.match(self.text, self.pos)
        if found:
            self.pos = found.end()
        return found

    def need(self, pattern: re.Pattern[str], expected: str) -> str:
        """Group 1 of the terminal that must stand here."""
        found = pattern.match(self.text, self.pos)
        if found is None:
            self.fail(expected)
        self.pos = found.end()
        return found[1]

    def skip(self) -> int:
        """Passes blanks and comments; where the next terminal begins."""
        found = self.space.match(self.text, self.pos)
        assert found
        self.pos = found.end()
        return self.pos

    def sees(self, mark: str) -> bool:
        """Returns True if these characters come next."""
        return self.text.startswith(mark, self.skip())

    def take(self, mark: str) -> bool:
        """Passes these characters if they come next."""
        if not self.text.startswith(mark, self.pos) and not self.text.startswith(mark, self.skip()):
            return False
        self.pos += len(mark)
        return True

    def expect(self, mark: str) -> None:
        """These characters must come next."""
        if not self.take(mark):
            self.fail(f"'{mark}'")

    def number_in(self, digits: str) -> int:
        """The value of digits just passed, which must fit 64 bits."""
        value = int(digits) if len(digits) < 24 else 1 << 64
        if not -(1 << 63) <= value < 1 << 63:
            self.error("the number does not fit 64 bits", self.pos - len(digits))
        return value

    def fail(self, expected: str, at: int | None = None) -> NoReturn:
        """Says what was expected, and what is there."""
        at = self.skip() if at is None else at
        found = re.match(r"[\w.%-]+|\S", self.text[at : at + 40])
        self.error(f"{expected} expected, not {found[0]!r}" if found else f"{expected} expected, but the text ends", at)

    def error(self, message: str, at: int | None = None) -> NoReturn:
        """Says what is wrong here or at `at`."""
        raise self.wrong(message, self.text, self.skip() if at is None else at)


class Lexer(Cursor):
    """A place in HLO text, and what may stand there."""

    __slots__ = ()

    def word(self, word: str) -> bool:
        """Passes a word of the grammar if it comes next, whole."""
        found = NAME.match(self.text, self.pos)
        if found and found[1] == word and self.text[found.start(1) - 1 : found.start(1)] != "%":
            self.pos = found.end()
            return True
        return False

    def integer(self, expected: str = "an integer") -> int:
        return self.number_in(self.need(INTEGER, expected))

    def integers(self, opening: str = "{", closing: str = "}") -> list[int]:
        """A list of integers in brackets."""
        return self.listed(self.integer, opening, closing)

    def listed(self, item: Callable[[], Any], opening: str = "{", closing: str = "}") -> list[Any]:
        """Items between brackets, with commas between them."""
        self.expect(opening)
        out: list[Any] = []
        if self.take(closing):
            return out
        while True:
            out.append(item())
            if not self.take(","):
                self.expect(closing)
                return out

    def entries(self, expected: str) -> Iterator[tuple[str, int]]:
        """{key=value key=value}: each key, behind which its value stands to be read, and where it begins."""
        self.expect("{")
        while not self.take("}"):
            begin = self.skip()
            yield self.key(expected), begin
            self.take(",")

    def key(self, expected: str) -> str:
        """The name of an attribute, with its equals sign."""
        return self.need(KEY, expected)

    def name(self, expected: str) -> str:
        """A name, its `%` dropped."""
        return self.need(NAME, expected)

    def one_of(self, words: Sequence[str], fold: bool = False) -> str:
        """One of the words, in whatever letters if `fold`."""
        begin = self.skip()
        found = self.match(NAME)
        word = found[1].lower() if found and fold else found[1] if found else ""
        return (
            word
            if word in words
            else self.fail(" or ".join(words) if len(words) < 8 else f"one of {', '.join(words)}", begin)
        )

    def boolean(self) -> bool:
        """true or false."""
        if self.word("true"):
            return True
        return False if self.word("false") else self.fail("true or false")

    def number(self) -> float:
        """A number; the payload of a NaN is dropped."""
        return float(self.need(NUMBER, "a number").partition("(")[0])

    def sizes(self, expected: str) -> list[int]:
        """1x2x3"""
        return [self.number_in(digits) for digits in self.need(SIZES, expected).split("x")]

    def pads(self) -> list[list[int]]:
        """1_2x3_4: the numbers of each dimension."""
        return [
            [self.number_in(digits) for digits in part.split("_")]
            for part in self.need(PAD, "padding, such as 0_0x1_1,").split("x")
        ]

    def labels(self, expected: str) -> str:
        """The labels of a convolution's dimensions."""
        return self.need(DIM_LABELS, expected)

    def unicode(self) -> str:
        """A quoted string of UTF-8."""
        try:
            return self.string().decode()
        except UnicodeDecodeError:
            self.error("the string is not UTF-8")

    def string(self) -> bytes:
        """A quoted string, as the bytes it stands for."""
        return unquoted(self.need(STRING, "a string"))

    def braces(self) -> str:
        """A balanced {...}, raw; braces inside double quotes do not count."""
        begin = self.skip()
        depth, pos = 0, begin
        if not self.text.startswith("{", begin):
            self.fail("'{'")
        while found := _BRACES.match(self.text, pos):
            pos = found.end()
            last = self.text[pos - 1]
            depth += 1 if last == "{" else -1 if last == "}" else 0
            if depth == 0:
                self.pos = pos
                return self.text[begin:pos]
        self.error("this brace is never closed", begin)


def unquoted(literal: str) -> bytes:
    """The bytes that a quoted string with C escapes stands for."""
    body = literal[1:-1]
    if "\\" not in body:
        return body.encode()
    out, pos = bytearray(), 0
    for found in _ESCAPE.finditer(body):
        out += body[pos : found.start()].encode()
        octal, hexadecimal, other = found.groups()
        if other is None:
            out.append(int(octal, 8) & 255 if octal else int(hexadecimal, 16))
        else:
            out += _ESCAPED.get(other, other).encode()
        pos = found.end()
    return bytes(out + body[pos:].encode())
