"""Replaces operations by others, as the rules of their family say: `inline.py`, `expand.py` and `canonical.py` in
`ops/*/`."""

from __future__ import annotations

from ..hlo.ir import Module
from ..ops.collective import expand as collective
from ..ops.control.inline import INLINE
from ..ops.conv import canonical as canonical_conv
from ..ops.conv import expand as conv
from ..ops.custom import expand as custom
from ..ops.dot import canonical as canonical_dot
from ..ops.dot import expand as dot
from ..ops.elementwise import expand as elementwise
from ..ops.fft import expand as fft
from ..ops.hostio import expand as hostio
from ..ops.indexing import expand as indexing
from ..ops.norm import expand as norm
from ..ops.random import expand as random
from ..ops.reduce import expand as reduce
from ..ops.sort import expand as sort
from ..ops.window import canonical as canonical_window
from ..ops.window import expand as window
from ..writing.writer import Rule
from .rewrite import rewrite

EXPAND: dict[str, Rule] = {
    opcode: rule
    for family in (
        elementwise,
        norm,
        reduce,
        window,
        indexing,
        sort,
        random,
        dot,
        conv,
        fft,
        collective,
        hostio,
        custom,
    )
    for opcode, rule in family.EXPAND.items()
}
"""opcode -> rule. Listed, never self-registered."""

CANONICAL: dict[str, Rule] = {**canonical_dot.CANONICAL, **canonical_conv.CANONICAL, **canonical_window.CANONICAL}


def lower_host_transfers(module: Module) -> None:
    """Makes requests of the transfers between the program and its host."""
    rewrite(module, hostio.HOST, to_fixpoint=True, suffixed=True)


def inline(module: Module) -> None:
    """Leaves no call and nothing asynchronous. Callees stand before callers, so one sweep in order leaves no nested
    call behind."""
    rewrite(module, INLINE)


def type_products(module: Module) -> None:
    """Gives products of floats a type of floats, in which they are rounded, before what is narrower than f32 is
    widened."""
    rewrite(module, dict.fromkeys(("dot", "convolution", "ragged-dot"), dot.in_floats), suffixed=True)


def expand(module: Module) -> None:
    """Replaces every operation that has a rule."""
    rewrite(module, EXPAND, to_fixpoint=True, suffixed=True)


def canonicalize(module: Module) -> None:
    """Brings operations into the one form that `plan` takes."""
    rewrite(module, CANONICAL)
