"""Simplifications that never make a program slower: index maps that cancel or merge, tuples that are taken apart at
once.

The rules stand in the `simplify.py` of their family. What one returns computes the same values; `remove_dead` sweeps up
the rest.
"""

from __future__ import annotations

from typing import Any

from ..hlo.ir import Computation, Instruction, Module
from ..ops.table import RECORDS, load_tables
from ..writing.writer import Rule
from .rewrite import rewrite_computation

SIMPLIFY: dict[str, Rule] = load_tables("simplify", "SIMPLIFY")

_APART = frozenset([op.opcode for op in RECORDS.values() if op.effect]) | {"custom-call"}
"""Operations of which equal ones do not become one."""


def simplify(module: Module) -> None:
    """Applies the rules in one sweep, operands first, and shares equal instructions."""
    for computation in module.computations:
        simplify_computation(computation)


def simplify_computation(computation: Computation) -> None:
    """The same sweep through one computation."""
    rewrite_computation(computation, SIMPLIFY, to_fixpoint=True, key=_key)


def _key(x: Instruction) -> Any:
    """Returns the key of what an instruction computes, or None if equal ones must stay apart."""
    if x.called or x.opcode in _APART:
        return None
    shape: Any = x.shape
    if shape.tuple_shapes:
        shape = shape.without_layout()
    else:
        shape = shape.element_type, shape.dimensions, any(shape.dynamic) and shape.dynamic
    if x.opcode == "constant":
        return (shape, bytes(x.attrs["literal"].data)) if x.shape.size <= 64 and x.shape.is_array else None
    attrs = tuple([item for item in x.attrs.items() if item[0] not in ("sharding", "backend_config")])
    return x.opcode, shape, tuple(x.operands), attrs, x.marks
