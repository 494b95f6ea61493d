"""Replaces operations by others, as the rules of their family say: the files `expand*.py` and `canonical.py` in
`ops/*/`."""

from __future__ import annotations

from ..hlo.ir import Module
from ..ops.control.expand_inline import INLINE
from ..ops.dot.expand import in_factors
from ..ops.hostio.expand import HOST
from ..ops.table import load_tables
from ..writing.writer import Rule
from .rewrite import rewrite

EXPAND: dict[str, Rule] = load_tables("expand", "EXPAND")
"""opcode -> rule."""

CANONICAL: dict[str, Rule] = load_tables("canonical", "CANONICAL")


def lower_host_transfers(module: Module) -> None:
    """Makes requests of the transfers between the program and its host."""
    rewrite(module, HOST, to_fixpoint=True, suffixed=True)


def inline(module: Module) -> None:
    """Leaves no call and nothing asynchronous. Callees stand before callers, so one sweep in order leaves no nested
    call behind."""
    rewrite(module, INLINE)


def type_products(module: Module) -> None:
    """Gives products of floats a type of floats, in which they are rounded, before what is narrower than f32 is
    widened."""
    rewrite(module, dict.fromkeys(("dot", "convolution", "ragged-dot"), in_factors), suffixed=True)


def expand(module: Module) -> None:
    """Replaces every operation that has a rule."""
    rewrite(module, EXPAND, to_fixpoint=True, suffixed=True)


def canonicalize(module: Module) -> None:
    """Brings operations into the one form that `plan` takes."""
    rewrite(module, CANONICAL)
