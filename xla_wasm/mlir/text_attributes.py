"""Attributes of all kinds in MLIR text. The builtin ones are here; `text_dialects.py` has those of dialects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..hlo.literal import Literal
from ..hlo.shape import Shape
from ..hlo.types import TYPES
from .elements import hlo_type
from .lexer import INTEGER, KEY, NUMBER, WORD
from .text_dialects import DialectAttributes
from .text_types import ELEMENT
from .tree import UNIT, Attribute, Elements, Number, Opaque, Symbol, Type, TypeOf

_MOST_DIGITS = 400


class Attributes(DialectAttributes):
    """A place in a text where attributes may stand."""

    __slots__ = ()

    def attribute(self) -> Attribute:
        """The attribute that must stand here."""
        begin = self.skip()
        mark = self.text[begin : begin + 1]
        if mark == '"':
            text = self.quoted()
            if self.take(":"):
                self.type()
            return text
        if mark.isdigit() or (mark == "-" and self.text[begin + 1 : begin + 2].isdigit()):
            return self.number()
        read = _BY_MARK.get(mark)
        if read is None:
            found = WORD.match(self.text, begin)
            read = found and _BY_WORD.get(found[1])
            if found is None or read is None:
                return TypeOf(self.type())
            self.pos = found.end()
        self.enter()
        value = read(self)
        self.leave()
        return value

    def dictionary(self) -> dict[str, Attribute]:
        """`{key = value, key}`."""
        self.expect("{")
        found: dict[str, Attribute] = {}
        while not self.take("}"):
            key = self._key()
            if key in found:
                self.error(f"the attribute {key!r} stands twice", self.pos - len(key))
            found[key] = self.attribute() if self.take("=") else UNIT
            if not self.take(","):
                self.expect("}")
                break
        return found

    def _key(self) -> str:
        if self.sees("#"):  # VHLO's keys are attributes
            key = self.attribute()
            return key if isinstance(key, str) else self.error("the name of an attribute is a string")
        name = self.need(KEY, "the name of an attribute")
        return self.unescaped(name) if name[0] == '"' else name

    def array(self) -> tuple[Attribute, ...]:
        """`[a, b]`."""
        self.expect("[")
        found: list[Attribute] = []
        if not self.take("]"):
            found.append(self.attribute())
            while self.take(","):
                found.append(self.attribute())
            self.expect("]")
        return tuple(found)

    def path(self) -> Symbol:
        """`@name::@inner`."""
        names = [self.symbol()]
        while self.text.startswith("::@", self.pos):
            self.pos += 2
            names.append(self.symbol())
        return Symbol("::@".join(names))

    def number(self) -> Number | bool:
        """`1`, `1 : i32`, `1.0 : f32`, `0x7F800000 : f32`."""
        begin = self.skip()
        literal = self.need(NUMBER, "a number")
        type_: Type = "f64" if "." in literal else "i64"
        if self.take(":"):
            type_ = self.type()
        return self._typed(literal, type_, begin)

    def _typed(self, literal: str, type_: Type, begin: int) -> Number | bool:
        """A number as its type holds it."""
        name = hlo_type(type_) if isinstance(type_, str) else None
        if (
            name is None
            or len(literal) > _MOST_DIGITS
            or (TYPES[name].kind != "float" and not INTEGER.fullmatch(literal))
        ):
            self.error(f"{literal[:40]} is no number of type {type_}", begin)
        kind, bits = TYPES[name].kind, TYPES[name].bits
        hexadecimal = "x" in literal
        if kind != "float":
            value = self.fitting(int(literal, 16 if hexadecimal else 10), bits, kind, begin)
            return value != 0 if type_ == "i1" else Number(value, type_)
        if not hexadecimal:
            return Number(Literal.from_values(Shape(name), [float(literal)]).values()[0], type_)
        code = int(literal, 16)
        if not 0 <= code < 1 << bits:
            self.error(f"{literal[:40]} does not fit {bits} bits", begin)
        return Number(Literal(Shape(name), code.to_bytes(TYPES[name].bytes, "little")).values()[0], type_)

    def dense_array(self) -> Elements:
        """Reads what follows `array`."""
        self.expect("<")
        element = self.need(WORD, "a type")
        if not ELEMENT.fullmatch(element):
            self.error(f"there is no type {element!r}", self.pos - len(element))
        values: list[Any] = []
        if self.take(":"):
            values.append(self._element(element))
            while self.take(","):
                values.append(self._element(element))
        self.expect(">")
        return Elements(element, tuple(values))

    def _element(self, element: str) -> Any:
        begin = self.skip()
        if element == "i1" and not self.text[begin : begin + 1].isdigit():
            return self.truth()
        value = self._typed(self.need(NUMBER, "a number"), element, begin)
        return value.value if isinstance(value, Number) else value

    def truth(self) -> bool:
        """`true` or `false`."""
        if self.word("true"):
            return True
        if not self.word("false"):
            self.fail("'true' or 'false'")
        return False

    def kept(self) -> Opaque:
        """An attribute that is kept as its text; its first word has been read."""
        end = self.pos
        begin = end
        while begin and (self.text[begin - 1].isalnum() or self.text[begin - 1] == "_"):
            begin -= 1
        while self.sees("<") or self.sees("[") or self.sees("("):
            self.balanced()
        return Opaque(self.text[begin : self.pos])


_BY_MARK: dict[str, Callable[[Attributes], Attribute]] = {
    "[": Attributes.array,
    "{": Attributes.dictionary,
    "@": Attributes.path,
    "#": Attributes.of_dialect,
}
_BY_WORD: dict[str, Callable[[Attributes], Attribute]] = {
    "true": lambda _: True,
    "false": lambda _: False,
    "unit": lambda _: UNIT,
    "dense": Attributes.dense,
    "dense_resource": Attributes.resource,
    "array": Attributes.dense_array,
    **dict.fromkeys(("affine_map", "affine_set", "distinct", "loc", "opaque", "sparse", "strided"), Attributes.kept),
}
