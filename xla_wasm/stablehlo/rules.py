"""The rule by which each operation of StableHLO is mapped: the record of the opcode that it is, or a rule of its
family."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from ..hlo.op import REQUIRED
from ..ops.stablehlo import Rule
from ..ops.table import OPS, load_tables
from .kinds import ABSENT, KINDS, Reader

RULES: dict[str, Rule] = load_tables("stablehlo", "STABLEHLO")
"""Name of an operation -> what it becomes."""

_HLO_ONLY = frozenset(
    "add-dependency all-gather-done all-gather-start all-reduce-done all-reduce-start async-done async-start "
    "async-update bitcast call collective-permute-done collective-permute-start conditional copy copy-done copy-start "
    "domain fusion opt-barrier parameter ragged-all-to-all ragged-dot recv-done rng-get-and-update-state scaled-dot "
    "scan send-done stochastic-convert topk".split()
)
"""Opcodes that have no operation of their name."""


class Plan(NamedTuple):
    """An operation that becomes one instruction with the same operands."""

    opcode: str
    attributes: tuple[tuple[str, Reader, tuple[str, ...], Any], ...]
    """Of each attribute that StableHLO has: its name, its reader, where that looks, and the default."""
    defaults: dict[str, Any]
    called: int
    """The number of computations, one in each region."""


@cache
def _plans() -> dict[str, Plan]:
    plans: dict[str, Plan] = {}
    for opcode, op in OPS.items():
        names = op.stablehlo or (() if opcode in _HLO_ONLY else (f"stablehlo.{opcode.replace('-', '_')}",))
        attributes = []
        for attr in op.attrs:
            if attr.kind in KINDS:
                attributes.append(
                    (attr.name, KINDS[attr.kind], tuple((attr.stablehlo or attr.name).split()), attr.default)
                )
        plan = Plan(opcode, tuple(attributes), op.defaults, len(op.called))
        plans |= dict.fromkeys(names, plan)
    return plans


def plan_of(name: str) -> Plan | None:
    """The plan of an operation by its name; None if it has none."""
    return _plans().get(name)


def attributes_of(plan: Plan, given: Any, operands: Any) -> dict[str, Any]:
    """The attributes of the instruction. Raises ParseError where one is missing or of a wrong kind."""
    found = dict(plan.defaults)
    for name, read, keys, default in plan.attributes:
        value = read(given, keys, operands)
        if value is not ABSENT:
            found[name] = value
        elif default is REQUIRED:
            raise KeyError(keys[0])
    return found
