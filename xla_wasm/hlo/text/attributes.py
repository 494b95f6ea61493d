"""Attributes of instructions in HLO text: what the op records say of how they are spelled."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from ..kinds.kind import InParts, Part
from ..kinds.table import KINDS
from ..op import REQUIRED, records

_ONE_DIMENSION = frozenset(
    "concatenate sort all-gather all-gather-start reduce-scatter get-dimension-size set-dimension-size scan".split()
)


class Attribute(NamedTuple):
    """An attribute of an opcode's record, ready to read from text."""

    name: str
    keys: tuple[str, ...]
    build: Callable[[dict[str, Any]], Any] | None
    default: Any


class Spelling(NamedTuple):
    """All that the text of an opcode may have: the parts by key, the attributes that they make, keys of called
    computations."""

    parts: dict[str, Part]
    attributes: tuple[Attribute, ...]
    called: tuple[str, ...]
    one_dimension: bool


@cache
def spelling(opcode: str) -> Spelling | None:
    """Returns the spelling of an opcode's attributes; None for an unknown opcode."""
    op = records().get(opcode)
    if op is None:
        return None
    parts: dict[str, Part] = {}
    attributes = []
    for attr in op.attrs:
        kind, build = KINDS[attr.kind], None
        # What a kind writes as nothing is read from nothing, also if the record has no default.
        default = kind.unwritten if attr.default is REQUIRED and attr.text else attr.default
        own = {attr.name: Part(default is REQUIRED, kind.parse)} if attr.text else {}
        if isinstance(kind, InParts):
            own, build = kind.parts, kind.build
        parts.update(own)
        attributes.append(Attribute(attr.name, tuple(own), build, default))
    called = op.called
    if opcode == "custom-call":
        called = ("to_apply?", "called_computations*")
    return Spelling(parts, tuple(attributes), called, opcode in _ONE_DIMENSION)
