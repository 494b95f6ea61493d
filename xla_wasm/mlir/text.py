"""MLIR text: the operations that a text holds, in the generic form and in the forms of StableHLO, CHLO, func and
Shardy.

`read` is the way in. Each class that the parser is made of adds what may stand in a text: `lexer.py` terminals,
`text_types.py` types, `text_dense.py` constants, `text_dialects.py` and `text_attributes.py` attributes,
`text_locations.py` locations, `text_ops.py` operations in their generic form.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..errors import ParseError
from . import text_pretty, text_regions, text_shardy
from .lexer import STRING_BODY, terminal
from .text_ops import Operations
from .tree import Block, Op

_ALIAS = re.compile(r"([#!][\w$]+)\s*=\s*(?!=)", re.ASCII)
_ALIAS_HERE = terminal(r"([#!][\w$]++)\s*+=")
_RESOURCE = re.compile(rf"([\w$.-]+|{STRING_BODY})\s*:\s*(?=\"0x)")


class Parser(Operations):
    """A whole text."""

    __slots__ = ()
    forms = text_pretty.FORMS | text_regions.FORMS | text_shardy.FORMS

    def top(self) -> list[Op]:
        """The operations of the text, but for the definitions of aliases and resources between them."""
        ops: list[Op] = []
        while (at := self.skip()) < len(self.text):
            if self.text.startswith("{-#", at):
                end = self.text.find("#-}", at)
                if end < 0:
                    self.error("resources that do not end")
                self.pos = end + 3
            elif self.text[at] in "#!":
                self._pass_alias()
            else:
                op = self.op()
                if op is not None:
                    ops.append(op)
        return ops

    def _pass_alias(self) -> None:
        """Passes over `#name = value`, which has been found before."""
        found = self.match(_ALIAS_HERE)
        if found is None:
            self.fail("an operation")
        self.aliases.setdefault(found[1], self.pos)
        if found[1][0] == "!":
            self.type()
        elif self.word("loc"):
            self.balanced()
        else:
            self.attribute()

    def find_aliases(self) -> None:
        """Notes where each alias that begins a line is defined: those of locations stand at the end of a text."""
        for at in (*self._lines_with("#"), *self._lines_with("!")):
            found = _ALIAS.match(self.text, at)
            if found:
                if found[1] in self.aliases:
                    self.error(f"{found[1]} is defined twice", at)
                self.aliases[found[1]] = found.end()

    def _lines_with(self, mark: str) -> Iterator[int]:
        """Yields the places of the lines that have a mark in front."""
        if self.text.startswith(mark):
            yield 0
        at = self.text.find("\n" + mark)
        while at >= 0:
            yield at + 1
            at = self.text.find("\n" + mark, at + 1)

    def find_resources(self) -> None:
        """Notes where the bytes of each resource stand, in `{-# dialect_resources: { builtin: { key: "0x.." } }
        #-}`."""
        at = self.text.rfind("{-#")
        while 0 <= at:
            found = _RESOURCE.search(self.text, at)
            if found is None:
                return
            end = self.text.find('"', found.end() + 1)
            if end < 0:
                self.error("a string that does not end", found.end())
            key = found[1]
            self.resources[self.unescaped(key) if key[0] == '"' else key] = (found.end() + 3, end)
            at = end + 1


def read(text: str) -> list[Op]:
    """The operations of MLIR text at its top: one module, which is put around them where they stand without it. Raises
    ParseError."""
    parser = Parser(text)
    try:
        parser.find_aliases()
        parser.find_resources()
        ops = parser.top()
    except RecursionError:
        raise ParseError("MLIR text: it is nested too deeply") from None
    if len(ops) == 1 and ops[0].name == "builtin.module":
        return ops
    module = Op("builtin.module", [], {})
    block = Block()
    block.ops = ops
    module.regions = [[block]]
    return [module]
