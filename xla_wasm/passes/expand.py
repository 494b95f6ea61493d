"""Replaces operations that are made of others by these, as the `expand.py` of their family says."""

from __future__ import annotations

from collections.abc import Mapping

from ..hlo.ir import Computation, Instruction, Module
from ..ops.collective import expand as collective
from ..ops.custom import expand as custom
from ..ops.dot import expand as dot
from ..ops.elementwise import expand as elementwise
from ..ops.fft import expand as fft
from ..ops.hostio import expand as hostio
from ..ops.indexing import expand as indexing
from ..ops.norm import expand as norm
from ..ops.random import expand as random
from ..ops.reduce import expand as reduce
from ..ops.sort import expand as sort
from ..ops.window import expand as window
from ..ops.writer import Rule, Writer

EXPAND: dict[str, Rule] = {
    opcode: rule
    for family in (elementwise, norm, reduce, window, indexing, sort, random, dot, fft, collective, hostio, custom)
    for opcode, rule in family.EXPAND.items()
}
"""opcode -> rule. Listed, never self-registered."""


def ask_host(module: Module) -> None:
    """Makes requests of the transfers between the program and its host."""
    apply(module, hostio.HOST)


def expand(module: Module) -> None:
    """Replaces every operation that has a rule."""
    apply(module, EXPAND)


def apply(module: Module, rules: Mapping[str, Rule]) -> None:
    """Applies the rules, also to what they make, until none has anything left to do."""
    pending = list(module.computations)
    done: list[Computation] = []
    for computation in pending:
        added: list[Computation] = []
        _expand(computation, added, rules)
        done += [*added, computation]
    module.computations = done


def _expand(computation: Computation, added: list[Computation], rules: Mapping[str, Rule]) -> None:
    """Rewrites one computation; those that its new instructions call go to `added`, expanded, callees first."""
    result: list[Instruction] = []
    replaced: dict[Instruction, Instruction] = {}

    def resolve(x: Instruction) -> Instruction:
        while x in replaced:
            x = replaced[x]
        return x

    def visit(x: Instruction) -> None:
        x.operands = [resolve(o) for o in x.operands]
        rule = rules.get(x.opcode)
        if rule is None:
            result.append(x)
            return
        made: list[Instruction] = []
        new: list[Computation] = []
        y = rule(Writer(x, made, new), x)
        for c in new:
            _expand(c, added, rules)
            added.append(c)
        if y is x:
            assert not made, f"the rule of {x.opcode} made instructions and kept the old one"
            result.append(x)
            return
        for z in made:
            visit(z)
        replaced[x] = y

    for x in computation.instructions:
        visit(x)
    computation.root = resolve(computation.root)
    computation.instructions = result
