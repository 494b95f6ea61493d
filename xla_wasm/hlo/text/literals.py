"""Literals in HLO text."""

from __future__ import annotations

import re
import struct
from math import inf, isfinite, prod
from typing import Any

from ...dataclass import replace
from .. import float_codes
from ..literal import Literal, relayout
from ..shape import Layout, Shape
from ..types import REAL_OF, TYPES, limits
from .lexer import NUMBER, WORD, Lexer, terminal

_PLAIN = terminal(r"([-{][-+\d.eE,{}\s]*+)")
"""Braces and decimal numbers, without comments, words or parentheses."""
_ROW = re.compile(r"\{([^{}]*+)\}")
_DECIMAL = re.compile(r"[.eE]")
_MINUS_ZERO = re.compile(r"-0++(?![\d.eE])")
_BAD_POINT = re.compile(r"(?<!\d)\.|(?<![eE])\+")
_INTEGER = re.compile(r"-?+\d++\Z")
_ELIDED = terminal(r"(\{\s*+\.\.\.\s*+\})")
_MADE_UP = 1 << 24
"""The most elements that stand in for those of a constant that the text leaves out."""


def literal(lexer: Lexer, shape: Shape, whole: bool = True) -> Literal:
    """The literal of that shape, which the text gives in row-major order. `whole`: it is no element of a tuple."""
    if shape.is_tuple:
        return _tuple(lexer, shape)
    if not shape.is_array:
        return Literal(shape)
    if shape.layout and shape.layout.element_size_in_bits:  # literals are not packed
        shape = shape.with_layout(replace(shape.layout, element_size_in_bits=0))
    if any(size < 0 for size in shape.dimensions):
        lexer.error("a constant has no unbounded dimensions")
    if shape.dynamic:
        shape = replace(shape, dynamic=())
    if lexer.match(_ELIDED):
        return _elided(lexer, shape)
    begin = lexer.skip()
    data = _quick(lexer, shape) if whole else None  # in a tuple it would look at all that follows, each time
    if data is None:
        lexer.pos = begin
        data = _Elements(lexer, shape).read()
    order = Layout.default(shape.rank).minor_to_major
    return Literal(shape, relayout(data, shape, order, shape.minor_to_major))


def _tuple(lexer: Lexer, shape: Shape) -> Literal:
    elements: list[Literal] = []
    lexer.expect("(")
    for part in shape.tuple_shapes:
        if elements:
            lexer.expect(",")
        elements.append(literal(lexer, part, False))
    lexer.expect(")")
    made = Literal(shape, b"", tuple(elements))
    made.elided = any(element.elided for element in elements)
    return made


def _elided(lexer: Lexer, shape: Shape) -> Literal:
    """A constant whose elements the printer left out: marked, so that it can be shown and written but not compiled."""
    if shape.size > _MADE_UP:
        lexer.error("the elements of this constant were left out when the module was printed")
    made = Literal(shape, bytes(shape.bytes))
    made.elided = True
    return made


def _quick(lexer: Lexer, shape: Shape) -> bytes | None:
    """Arrays of plain decimal numbers, by whole rows; None: read them one by one, and complain there."""
    kind = TYPES[shape.element_type].kind
    if not shape.rank or not shape.size or kind == "complex":
        return None
    found = _PLAIN.match(lexer.text, lexer.pos)
    if found is None:
        return None
    text = found[1].rstrip()
    rows = _ROW.findall(text)
    inner = shape.dimensions[-1]
    if len(rows) != prod(shape.dimensions[:-1]) or any(row.count(",") + 1 != inner for row in rows):
        return None
    outline = re.sub(r"\s++", "", _ROW.sub("x", text))
    for size in reversed(shape.dimensions[:-1]):
        row = "{" + ",".join(["x"] * size) + "}"
        outline = outline.replace(row, "x")
    if outline != "x":
        return None
    numbers = ",".join(rows)
    if (
        _BAD_POINT.search(numbers)
        or (kind == "float" and _MINUS_ZERO.search(numbers))
        or (kind != "float" and _DECIMAL.search(numbers))
    ):
        return None
    try:
        values: list[Any] = list(map(float if kind == "float" else int, numbers.split(",")))
        data = _packed(shape.element_type, values)
    except (ValueError, OverflowError, struct.error):
        return None
    lexer.pos = found.start(1) + len(text)
    return data


class _Elements:
    """Reads any literal element by element."""

    def __init__(self, lexer: Lexer, shape: Shape):
        self.lexer = lexer
        self.shape = shape
        self.name = shape.element_type
        self.kind = TYPES[shape.element_type].kind
        self.out = bytearray()

    def read(self) -> bytes:
        if self.shape.rank and self.lexer.sees("{"):
            self._nested(self.shape.dimensions)
        elif self.kind != "complex" or not self.shape.rank:
            self._element()
            size = self.shape.size * TYPES[self.name].bytes
            if size > _MADE_UP:
                self.lexer.error("one number for an array this large")
            self.out += bytes(max(size - len(self.out), 0))  # XLA reads a number without braces as the first element
            del self.out[size:]
        else:
            self.lexer.fail("'{'")
        return bytes(self.out)

    def _nested(self, dimensions: tuple[int, ...]) -> None:
        """Braces around `dimensions[0]` parts. As deep as the shape, whose rank is bounded."""
        lexer = self.lexer
        lexer.expect("{")
        for _ in range(dimensions[0]):
            while lexer.take(","):  # XLA takes them for blanks
                pass
            if len(dimensions) > 1:
                self._nested(dimensions[1:])
            else:
                self._element()
        while lexer.take(","):
            pass
        lexer.expect("}")

    def _element(self) -> None:
        if self.kind == "complex":
            self.lexer.expect("(")
            self._number()
            self.lexer.expect(",")
            middle = len(self.out)
            width = TYPES[self.name].bytes // 2
            self._number()
            real = bytes(self.out[middle - width : middle])
            if _is_nan(real):  # XLA sets the real part's NaN for both
                self.out[middle:] = real
            self.lexer.expect(")")
        else:
            self._number()

    def _number(self) -> None:
        lexer = self.lexer
        word = lexer.match(WORD)
        if word and word[1] in ("true", "false") and self.kind == "pred":
            self.out.append(word[1] == "true")
            return
        if word and word[1] not in ("inf", "nan"):
            lexer.fail(f"a value of type {self.name}", word.start(1))
        if word:
            lexer.pos = word.start(1)
        text = lexer.need(NUMBER, f"a value of type {self.name}")
        begin = lexer.pos - len(text)
        part = REAL_OF.get(self.name, self.name)
        if "nan" in text and self.kind in ("float", "complex"):
            self.out += self._nan(part, text, begin)
            return
        try:
            if self.kind in ("float", "complex"):
                if text.startswith("."):
                    lexer.fail(f"a value of type {self.name}", begin)
                value: Any = _integral(text) if _INTEGER.match(text) else float(text)
            else:
                value = int(text)
            self.out += _packed(part, [value], "inf" in text)
        except (ValueError, OverflowError, struct.error):
            lexer.error(f"{text[:40]} is no value of type {part}, or out of its range", begin)

    def _nan(self, part: str, text: str, begin: int) -> bytes:
        """A NaN with its sign and payload."""
        negative = text.startswith("-")
        quiet = Literal.from_values(Shape(part), [-float("nan") if negative else float("nan")]).data
        format_, width = TYPES[part].format, TYPES[part].bytes
        if format_ is None or format_.special != "ieee":
            if "(" in text:
                self.lexer.error(f"a NaN of type {part} has no payload", begin)
            return bytes(quiet)
        mantissa = format_.mantissa_bits
        payload = int(text[text.index("(") + 1 : -1], 16) if "(" in text else 1 << mantissa - 1
        if not 0 < payload < 1 << mantissa:
            self.lexer.error(f"the payload of a NaN of type {part} lies between 1 and {(1 << mantissa) - 1:#x}", begin)
        exponent = (1 << 8 * width - 1) - (1 << mantissa)
        return (negative << 8 * width - 1 | exponent | payload).to_bytes(width, "little")


def _packed(name: str, values: list[Any], infinite: bool = False) -> bytes:
    """The elements in memory. Raises ValueError or the like for a value out of range."""
    kind = TYPES[name].kind
    if kind == "float":
        if not infinite and inf in map(abs, values):
            raise ValueError
        if name in float_codes.FORMATS:
            codes = [float_codes.encode(name, value) for value in values]
            table = float_codes.values(name)
            if not infinite and not all(isfinite(table[code]) for code in codes):
                raise ValueError
            return bytes(codes)
        data = bytes(Literal.from_values(Shape(name, (len(values),)), values).data)
        if not infinite and name != "f64":
            _check_finite(name, data)
        return data
    if kind == "pred":
        return bytes(value != 0 for value in values)
    if name in ("s64", "u64"):  # whatever fits 64 bits, with or without a sign
        if min(values) < -(1 << 63) or max(values) >= 1 << 64:
            raise ValueError
        return struct.pack(f"<{len(values)}Q", *(value & (1 << 64) - 1 for value in values))
    low, high = limits(name)
    if min(values) < low or max(values) > high:
        raise ValueError
    return struct.pack(f"<{len(values)}{TYPES[name].code}", *values)


def _is_nan(number: bytes) -> bool:
    value: float = struct.unpack("<f" if len(number) == 4 else "<d", number)[0]
    return value != value


def _integral(text: str) -> float:
    """An integer for a float: without a negative zero, and within 64 bits."""
    value = int(text)
    if not -(1 << 63) <= value < 1 << 64:
        raise ValueError
    return float(value)


def _check_finite(name: str, data: bytes) -> None:
    """Raises ValueError if rounding made an infinity."""
    if name == "bf16":
        high = data[1::2]
        if any(byte & 127 == 127 and low & 128 for byte, low in zip(high, data[0::2])):
            raise ValueError
    elif not all(map(isfinite, struct.unpack(f"<{len(data) // TYPES[name].bytes}{TYPES[name].code}", data))):
        raise ValueError
