"""The neutral elements of monoids."""

from __future__ import annotations

from ...hlo.types import TYPES, limits


def neutral(opcode: str, dtype: str) -> complex | float | int | None:
    """Returns the neutral (identity) element of `opcode` in a type; None if there is none, or the type lacks it."""
    kind = TYPES[dtype].kind
    if kind == "pred":
        return int(opcode in ("multiply", "minimum", "and"))
    if kind == "complex":
        return {"add": complex(-0.0, -0.0), "multiply": 1}.get(opcode)
    if kind == "float":
        format_ = TYPES[dtype].format
        assert format_ is not None, "every float has one"
        if format_.special != "ieee":
            return None
        return {"add": -0.0, "multiply": 1, "maximum": float("-inf"), "minimum": float("inf")}.get(opcode)
    if opcode in ("add", "or", "xor"):
        return 0
    if opcode == "multiply":
        return 1
    low, high = limits(dtype)
    return {"maximum": low, "minimum": high, "and": high if kind == "unsigned" else -1}.get(opcode)
