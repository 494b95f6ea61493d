"""The terminals of MLIR text, and the cursor that matches them.

As in HLO text, what characters mean depends on where they stand (`4xf32` is a size and a type, `x4` may be a word), so
the parser asks for the terminal that the grammar expects. The expressions are possessive: their time is linear in the
text.
"""

from __future__ import annotations

import re
from typing import NoReturn

from ..errors import UnsupportedError
from ..hlo.text.lexer import Cursor, TextError

BLANK = r"(?:\s++|//[^\n]*+)*+"
MOST_NESTED = 100
"""The greatest depth of attributes, types, locations and regions in one another."""


def terminal(body: str) -> re.Pattern[str]:
    """An expression for what follows blanks and comments."""
    return re.compile(BLANK + body, re.ASCII)


STRING_BODY = r'"[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+"'
SPACE = terminal("")
WORD = terminal(r"([A-Za-z_][\w$.]*+)")
"""A word with or without a dialect. Group 1."""
KEY = terminal(rf"({STRING_BODY}|[A-Za-z_][\w$.]*+)")
STRING = terminal(f"({STRING_BODY})")
INTEGER = terminal(r"(-?+(?:0x[\da-fA-F]++|\d++))(?![\w.])")
NUMBER = terminal(r"(-?+(?:0x[\da-fA-F]++|\d++(?:\.\d*+(?:[eE][-+]?\d++)?+)?+))")
SYMBOL = terminal(rf"@({STRING_BODY}|[A-Za-z_][\w$.-]*+)")
ALIAS = terminal(r"[#!]([A-Za-z_][\w$]*+|\d++)(?![\w$.<])")
"""The name of an alias: no dot, and no `<` behind it. Group 1."""
DIALECT = terminal(r"[#!]([A-Za-z_][\w$.]*+)")
"""The name of an attribute or a type of a dialect. Group 1."""
_VALUE = r"%(?:[A-Za-z_$.-][\w$.-]*+|\d++)(?:#\d++)?+"
VALUE = terminal(f"({_VALUE})")
VALUES = terminal(rf"({_VALUE}(?:{BLANK},{BLANK}{_VALUE})*+)")
"""Operands with commas between them, up to what is none. Group 1."""
OPERANDS = terminal(rf"\({BLANK}((?:{_VALUE}(?:{BLANK},{BLANK}{_VALUE})*+{BLANK})?+)\)")
"""The same in parentheses, perhaps none."""
_RESULT = r"%(?:[A-Za-z_$.-][\w$.-]*+|\d++)(?::\d++)?+"
HEAD = terminal(
    rf"(?:({_RESULT}(?:{BLANK},{BLANK}{_RESULT})*+){BLANK}={BLANK})?+(?:({STRING_BODY})|([A-Za-z_][\w$.]*+))"
)
"""The beginning of an operation: its results, and its name in quotes, as of the generic form, or without."""
LABEL = terminal(r"\^([\w$.-]++)")
_NESTED = re.compile(rf"[^<>()\[\]{{}}\"/-]*+(?:{STRING_BODY}|->|[<>()\[\]{{}}]|//[^\n]*+|[/-])")
_ESCAPE = re.compile(r"\\(?:([\da-fA-F]{2})|([nt\"\\]))")
_CLOSING = {"<": ">", "(": ")", "[": "]", "{": "}"}


class MlirTextError(TextError):
    """MLIR text that does not follow the grammar, or means nothing."""


class Lexer(Cursor):
    """A place in a text, and how deep it stands."""

    __slots__ = ("depth",)
    wrong = MlirTextError
    space = SPACE

    def __init__(self, text: str):
        super().__init__(text)
        self.depth = 0

    def enter(self) -> None:
        """One level deeper; `leave` comes back."""
        self.depth += 1
        if self.depth > MOST_NESTED:
            self.error(f"more than {MOST_NESTED} levels of nesting")

    def leave(self) -> None:
        self.depth -= 1

    def word(self, word: str) -> bool:
        """Passes a word of the grammar if it comes next, whole."""
        found = WORD.match(self.text, self.pos)
        if found and found[1] == word:
            self.pos = found.end()
            return True
        return False

    def integer(self, expected: str = "an integer") -> int:
        digits = self.need(INTEGER, expected)
        return (
            self.number_in(digits)
            if "x" not in digits
            else int(digits, 16)
            if len(digits) < 24
            else self.number_in("9" * 24)
        )

    def quoted(self) -> str:
        """The text that a quoted string stands for."""
        literal = self.need(STRING, "a string")
        return self.unescaped(literal)

    def unescaped(self, literal: str) -> str:
        """The text of a quoted string: `\\22` is the byte with that code, and bytes are UTF-8."""
        body = literal[1:-1]
        if "\\" not in body:
            return body
        out, pos = bytearray(), 0
        while (at := body.find("\\", pos)) >= 0:
            found = _ESCAPE.match(body, at)
            if found is None:
                self.error(f"{body[at : at + 3]!r} is no escape of a string", self.pos - len(literal))
            out += body[pos:at].encode("utf-8", "surrogatepass")
            out += bytes([int(found[1], 16)]) if found[1] else {"n": b"\n", "t": b"\t"}.get(found[2], found[2].encode())
            pos = found.end()
        return (bytes(out) + body[pos:].encode("utf-8", "surrogatepass")).decode("utf-8", "surrogateescape")

    def symbol(self) -> str:
        """`@name` or `@"any name"`."""
        name = self.need(SYMBOL, "a symbol")
        return self.unescaped(name) if name[0] == '"' else name

    def balanced(self) -> str:
        """The bracketed text that stands here, from the bracket to the one that closes it; strings in it may hold
        anything."""
        begin = self.skip()
        if self.text[begin : begin + 1] not in _CLOSING:
            self.fail("a bracket")
        closing: list[str] = []
        pos = begin
        while found := _NESTED.match(self.text, pos):
            pos = found.end()
            mark = self.text[pos - 1]
            if mark in _CLOSING and self.text[pos - 2 : pos] != "->":
                closing.append(_CLOSING[mark])
            elif mark in ">)]}" and self.text[pos - 2 : pos] != "->":
                if not closing or closing.pop() != mark:
                    self.error(f"'{mark}' closes nothing", pos - 1)
            if not closing:
                break
        if closing:
            self.error("a bracket that nothing closes", begin)
        self.pos = pos
        return self.text[begin:pos]

    def unsupported(self, what: str) -> NoReturn:
        """Refuses what is valid but not known here."""
        line = self.text.count("\n", 0, self.skip()) + 1
        raise UnsupportedError(f"line {line}: {what}")
