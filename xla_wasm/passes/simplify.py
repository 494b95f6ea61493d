"""Simplifications that never make a program slower: index maps that cancel or merge, tuples that are taken apart at
once.

The rules stand in the `simplify.py` of their family. What one returns computes the same values; `remove_dead` sweeps up
the rest.
"""

from __future__ import annotations

from typing import Any

from ..hlo.ir import Computation, Instruction, Module
from ..ops.reading import record
from ..ops.table import load_tables
from ..writing.writer import Rule
from .rewrite import rewrite_computation

SIMPLIFY: dict[str, Rule] = load_tables("simplify", "SIMPLIFY")


def simplify(module: Module) -> None:
    """Applies the rules in one sweep, operands first, and shares equal instructions."""
    for computation in module.computations:
        simplify_computation(computation)


def simplify_computation(computation: Computation) -> None:
    """The same sweep through one computation."""
    rewrite_computation(computation, SIMPLIFY, to_fixpoint=True, key=_key)


def _key(x: Instruction) -> Any:
    """Returns the key of what an instruction computes, or None if equal ones must stay apart."""
    if x.called or record(x).effect or x.opcode == "custom-call":
        return None
    shape: Any = x.shape
    if shape.is_array:
        shape = shape.element_type, shape.dimensions, any(shape.dynamic) and shape.dynamic
    else:
        shape = shape.without_layout()
    if x.literal is not None:
        return (shape, bytes(x.literal.data)) if x.shape.size <= 64 and x.shape.is_array else None
    attrs = tuple((name, value) for name, value in x.attrs.items() if name not in ("sharding", "backend_config"))
    return x.opcode, shape, tuple(x.operands), attrs, x.marks
