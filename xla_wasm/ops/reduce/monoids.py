"""The operations by which most programs reduce: associative, commutative, with a neutral element (see `neutral`)."""

from __future__ import annotations

from ...hlo.ir import Computation

MONOIDS = ("add", "multiply", "maximum", "minimum", "and", "or", "xor")
IDEMPOTENT = ("maximum", "minimum", "and", "or")
"""The monoids whose result stays the same if they take an element twice."""


def monoid(computation: Computation) -> str | None:
    """The opcode of a reducer that is one of these operations on its two parameters; None of any other."""
    root = computation.root
    if root.opcode not in MONOIDS or len(computation.parameters) != 2:
        return None
    numbers = sorted(o.attrs["parameter_number"] for o in root.operands if o.opcode == "parameter")
    return root.opcode if numbers == [0, 1] else None
