"""Tuples that are taken apart where they are made."""

from __future__ import annotations

from ...hlo.ir import Instruction
from ...writing.writer import Rule, Writer


def element(w: Writer, x: Instruction) -> Instruction:
    (o,) = x.operands
    return o.elements[x.attrs["index"]] if o.elements else x


SIMPLIFY: dict[str, Rule] = {"get-tuple-element": element}
