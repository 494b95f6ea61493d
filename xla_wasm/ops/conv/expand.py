"""Convolutions of floats that give integers as convolutions that give floats: those that rules of custom calls write,
after the pass that sees to a module's own."""

from __future__ import annotations

from ...writing.writer import Rule
from ..dot.expand import in_factors

EXPAND: dict[str, Rule] = {"convolution": in_factors}
