"""Reading attributes of the tree: each kind of value comes in several forms, by the age of the file and its format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import ParseError, counted
from ..hlo.attrs import PRECISIONS
from .elements import element_bits, hlo_type
from .strings import readable
from .tree import UNIT, Attribute, Dense, Elements, Number, Op, Symbol, TypeOf

MOST = 1 << 20
"""The most members of a list: a splat may stand for any number of them."""

Attributes = Mapping[str, Attribute]


def where(op: Op) -> str:
    """A phrase for error messages: the operation, and where it came from if that is known."""
    at = op.location
    if at is None or not (at.name or at.file):
        return op.name
    return f"{op.name} ({at.name!r}, {at.file}:{at.line})" if at.file else f"{op.name} ({at.name!r})"


def integers(value: Attribute) -> tuple[int, ...]:
    """A list of integers or flags, whichever of the forms it has; a tensor in row-major order."""
    if isinstance(value, Elements):
        return tuple([int(v) for v in value.values])
    if isinstance(value, Dense):
        return _elements(value)
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple([integer(v) for v in value])
    raise ParseError(f"a list of integers is expected, not {_brief(value)}")


def integer(value: Attribute) -> int:
    """One integer or flag."""
    if isinstance(value, Number):
        value = value.value
    if value is UNIT:
        return 1
    if isinstance(value, int):
        return int(value)
    if isinstance(value, (Dense, Elements)):
        found = integers(value)
        if len(found) == 1:
            return found[0]
    raise ParseError(f"an integer is expected, not {_brief(value)}")


def flag(attributes: Attributes, name: str) -> bool:
    """Returns True if a flag is set."""
    return name in attributes and bool(integer(attributes[name]))


def number(value: Attribute) -> float:
    """One number."""
    if isinstance(value, Number):
        return float(value.value)
    raise ParseError(f"a number is expected, not {_brief(value)}")


def word(value: Attribute) -> str:
    """A string, or a word of an enumeration."""
    if isinstance(value, str):
        return value
    raise ParseError(f"a word is expected, not {_brief(value)}")


def one_of(names: Sequence[str], name: str) -> str:
    """A word that is one of some."""
    if name not in names:
        raise ParseError(f"one of the words {', '.join(names)} is expected, not {name[:80]!r}")
    return name


def precisions(given: Attributes) -> tuple[str, ...]:
    """The precision of each operand of a product, as HLO spells it."""
    words = given.get("precision_config", ())
    return tuple([one_of(PRECISIONS, word(value).lower()) for value in words]) if isinstance(words, tuple) else ()


def text(value: Attribute) -> str:
    """A string that people read: what is not UTF-8 in it is replaced."""
    return readable(word(value))


def symbol(value: Attribute) -> str:
    """The name of a function."""
    return readable(value.name) if isinstance(value, Symbol) else text(value)


def pairs(value: Attribute) -> tuple[tuple[int, int], ...]:
    """A tensor of two columns."""
    found = integers(value)
    if len(found) % 2:
        raise ParseError(f"pairs of integers are expected, not {len(found)} of them")
    return tuple(zip(found[::2], found[1::2]))


def rows(value: Attribute) -> tuple[tuple[int, ...], ...]:
    """A tensor of two dimensions, row by row."""
    if not isinstance(value, Dense) or len(value.type.sizes or ()) != 2:
        raise ParseError(f"a matrix of integers is expected, not {_brief(value)}")
    count, width = value.type.sizes or (0, 0)
    found = integers(value)
    return tuple([found[i * width : (i + 1) * width] for i in range(count)])


def _elements(value: Dense) -> tuple[int, ...]:
    kind = hlo_type(value.type.element) or ""
    bits = element_bits(value.type.element)
    if not bits or (kind[0] not in "su" and kind != "pred"):
        raise ParseError(f"integers are expected, not a tensor of {value.type.element}")
    width, count = max(bits // 8, 1), 1
    for size in value.type.sizes or ():
        count *= size
    if count > MOST:
        raise ParseError(f"a list of {counted(count, 'integer')} is longer than any attribute may be")
    data = value.data
    found = [int.from_bytes(data[i : i + width], "little", signed=kind[0] == "s") for i in range(0, len(data), width)]
    return tuple(found * count if value.is_splat else found)


def type_of(value: Attribute) -> Any:
    """A type, however it stands in the attribute."""
    return value.type if isinstance(value, TypeOf) else value


def _brief(value: Attribute) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
