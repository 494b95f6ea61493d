"""The operations by which most programs reduce: associative, commutative, with a neutral element (see `neutral`)."""

from __future__ import annotations

from ...hlo.ir import Computation

MONOIDS = ("add", "multiply", "maximum", "minimum", "and", "or", "xor")
IDEMPOTENT = ("maximum", "minimum", "and", "or")
"""The monoids whose result stays the same if they take an element twice."""


def monoid(computation: Computation) -> str | None:
    """The opcode of a reducer that is one of these operations on its two parameters; None of any other."""
    return None if computation.root.opcode == "tuple" else (monoids(computation) or (None,))[0]


def monoids(computation: Computation) -> tuple[str, ...] | None:
    """The opcodes of a reducer each of whose results is one of these operations on its own accumulator and element;
    None of any other."""
    root = computation.root
    parts = root.operands if root.opcode == "tuple" else [root]
    count = len(parts)
    if len(computation.parameters) != 2 * count:
        return None
    for i, part in enumerate(parts):
        numbers = sorted(o.attrs["parameter_number"] for o in part.operands if o.opcode == "parameter")
        if part.opcode not in MONOIDS or numbers != [i, count + i]:
            return None
    return tuple(part.opcode for part in parts)
