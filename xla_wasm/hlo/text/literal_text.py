"""Literals as HLO text: the shortest numbers that read back to the same bits."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from math import prod
from typing import Any

from .. import float_codes
from ..literal import Literal
from ..shape import Shape
from ..types import REAL_OF, TYPES

_MOST_SHOWN = 10
_BF16 = Shape("bf16", (1,))


def literal_text(literal: Literal, large: bool) -> str:
    """The text between the parentheses of a constant; {...} for more than ten elements or a tuple unless `large`."""
    shape = literal.shape
    if literal.elided:
        return "{...}"
    if shape.is_tuple:
        return f"({', '.join(literal_text(element, large) for element in literal.elements)})" if large else "{...}"
    if not shape.is_array:
        return ""
    braces = prod(shape.dimensions[: shape.dimensions.index(0)]) if shape.size == 0 else shape.size
    if braces > _MOST_SHOWN and (not large or shape.size == 0):
        return "{...}"  # an empty array can have any number of empty rows
    values = literal.values()
    if shape.rank == 0 and shape.element_type == "pred":
        return "true" if values[0] else "false"
    words = _words(literal, values)
    return next(words) if shape.rank == 0 else _nested(words, shape.dimensions, "" if shape.rank == 1 else " ")


def _nested(words: Iterator[str], dimensions: tuple[int, ...], pad: str) -> str:
    if dimensions[0] == 0:
        return "{}"
    if len(dimensions) == 1:
        return "{" + pad + ", ".join(next(words) for _ in range(dimensions[0])) + pad + "}"
    return "{ " + ", ".join(_nested(words, dimensions[1:], " ") for _ in range(dimensions[0])) + " }"


def _words(literal: Literal, values: list[Any]) -> Iterator[str]:
    """The elements as text, in row-major order."""
    name, kind = literal.shape.element_type, TYPES[literal.shape.element_type].kind
    if kind not in ("float", "complex"):
        yield from (str(int(value)) for value in values)
        return
    number = _formatter(name)
    width = TYPES[name].bytes
    data = literal.row_major()
    for at, value in enumerate(values):
        place = at * width
        if kind == "float":
            yield number(value, data[place : place + width])
        else:
            middle, end = place + width // 2, place + width
            yield f"({number(value.real, data[place:middle])}, {number(value.imag, data[middle:end])})"


def _formatter(name: str) -> Callable[[float, Any], str]:
    """Formats a number of the type, given its bits too for the sake of NaNs."""
    part = TYPES[REAL_OF.get(name, name)]
    assert part.format
    form, mantissa_bits, special = "<" + part.code, part.format.mantissa_bits, part.format.special

    def same(text: str, value: float) -> bool:
        if name in float_codes.FORMATS:
            return float_codes.encode(name, float(text)) == float_codes.encode(name, value)
        if name == "bf16":
            return Literal.from_values(_BF16, [float(text)]).data == Literal.from_values(_BF16, [value]).data
        try:
            return struct.pack(form, float(text)) == struct.pack(form, value)
        except OverflowError:
            return False

    def number(value: float, data: Any) -> str:
        if value != value:
            sign = "" if data[-1] < 128 or special == "powers of two" else "-"
            return sign + _nan(int.from_bytes(data, "little"), mantissa_bits if special == "ieee" else 0)
        if value in (float("inf"), float("-inf")):
            return "inf" if value > 0 else "-inf"
        if value == 0:
            return "-0.0" if str(value)[0] == "-" else "0"  # "-0" would be read as an integer, which has no sign
        if form == "<d":
            text = repr(value)
            return text[:-2] if text.endswith(".0") else text
        for digits in range(6 if form == "<f" else 1, 10):
            text = f"{value:.{digits}g}"
            if same(text, value):
                break
        return text

    return number


def _nan(bits: int, mantissa_bits: int) -> str:
    """nan, and unless only the quiet bit is set its payload; with `mantissa_bits` 0 there is none."""
    payload = bits & (1 << mantissa_bits) - 1
    return "nan" if 2 * payload == 1 << mantissa_bits or not mantissa_bits else f"nan({payload:#x})"
