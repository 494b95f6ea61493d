"""A slice of all there is."""

from __future__ import annotations

from ...writing.writer import Rule, operand_if_alike

SIMPLIFY: dict[str, Rule] = {"dynamic-slice": operand_if_alike}
