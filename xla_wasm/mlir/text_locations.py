"""Locations in MLIR text: of each the name that the user's framework gave, and the line of the user's program."""

from __future__ import annotations

from .lexer import ALIAS, WORD, terminal
from .text_attributes import Attributes
from .tree import Location

_PLACE = terminal(r":(\d++):(\d++)(?:\s++to(?:\s++(?:\d++)?+:\d++)?+)?+")
NOWHERE = Location()


class _Frame(Location):
    """A location whose name is that of a function, if it is inside of another name."""

    __slots__ = ()


class Locations(Attributes):
    """A place in a text where locations may stand."""

    __slots__ = ()

    def trailing(self) -> Location | None:
        """`loc(...)` after an operation or an argument, if there is one."""
        found = WORD.match(self.text, self.pos)
        if found is None or found[1] != "loc":
            return None
        self.pos = found.end()
        return self.in_parentheses()

    def in_parentheses(self) -> Location:
        """Reads what follows `loc`."""
        self.expect("(")
        location = self.location()
        self.expect(")")
        return location

    def location(self) -> Location:
        """The location that must stand here."""
        found = self.match(ALIAS)
        if found:
            return self.aliased("#" + found[1], self.aliased_location)
        self.enter()
        found = self.match(WORD)
        if found is None:
            location = self._named() if self.sees('"') else self.fail("a location")
        elif found[1] == "unknown":
            location = NOWHERE
        elif found[1] == "callsite":
            location = self._call()
        elif found[1] == "fused":
            location = self._fused()
        else:
            self.error(f"there is no location {found[1]!r}", found.start(1))
        self.leave()
        return location

    def aliased_location(self) -> Location:
        """Reads the location that an alias stands for."""
        return self.in_parentheses() if self.word("loc") else self.location()

    def _named(self) -> Location:
        """`"file":3:4 to 5:6`, `"name"`, `"name"(location)`."""
        name = self.quoted()
        found = self.match(_PLACE)
        if found:
            return Location("", name, self.number_in(found[1]))
        if not self.take("("):
            return Location(name)
        child = self.location()
        self.expect(")")
        if name.endswith(":"):  # the kind of an operation
            name = child.name if child.name and not isinstance(child, _Frame) else name[:-1]
        return (_Frame if child.file and not child.name else Location)(name, child.file, child.line)

    def _call(self) -> Location:
        """Reads what follows `callsite`: what is called says more than who calls it, which is passed over."""
        begin = self.skip()
        self.expect("(")
        callee = self.location()
        if not self.word("at"):
            self.fail("'at'")
        self.pos = begin
        self.balanced()
        return _Frame(*callee)

    def _fused(self) -> Location:
        """Reads what follows `fused`: of several the first name and the first place, as far as the first place."""
        if self.take("<"):
            self.attribute()
            self.expect(">")
        self.expect("[")
        name, file, line = "", "", 0
        while not self.take("]"):
            location = self.location()
            if not file:
                name, file, line = name or location.name, location.file, location.line
            if not self.take(","):
                self.expect("]")
                break
        return Location(name, file, line)
