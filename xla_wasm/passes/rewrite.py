"""The one way in which passes rewrite a module: rules by opcode, in a sweep through each computation, callees first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..hlo.ir import Computation, Instruction, Module
from ..writing.writer import Rule, Writer

Rules = Mapping[str, Rule]
"""opcode -> rule."""

DEEPEST = 50
"""Rules of which each takes what the one before has made; that are more than any program needs."""


def rewrite(module: Module, rules: Rules, *, to_fixpoint: bool = False, suffixed: bool = False) -> None:
    """Applies the rules to every computation.

    `to_fixpoint`: also to what they make, until none has anything left to do. `suffixed`: what they make has its opcode
    in its name.
    """
    done: list[Computation] = []
    for computation in module.computations:
        rewrite_computation(computation, rules, done, to_fixpoint=to_fixpoint, suffixed=suffixed)
    module.computations = done


def rewrite_computation(
    computation: Computation,
    rules: Rules,
    done: list[Computation] | None = None,
    *,
    to_fixpoint: bool = False,
    suffixed: bool = False,
    key: Callable[[Instruction], Any] | None = None,
) -> None:
    """The same with one computation; it goes to `done`, behind those that rules made. Instructions with equal keys
    become one.

    A rule gets each instruction after its operands are replaced. The instructions that the rule makes come before this
    one or in its place. The rule returns the instruction that replaces it in all users: the instruction itself, which
    then stays, or one that is there.
    """
    if key is not None or not rules.keys().isdisjoint([x.opcode for x in computation.instructions]):
        sweep = _Sweep(computation, rules, done, to_fixpoint, suffixed, key)
        values, result = sweep.values, sweep.result
        for x in computation.instructions:
            if values or key is not None or x.opcode in rules:
                sweep.visit(x)
            else:
                result.append(x)
        computation.root = sweep.values.get(computation.root, computation.root)
        computation.instructions = sweep.result
    if done is not None:
        done.append(computation)


class _Sweep:
    """A computation on its way through the rules: `result` has what stays, `values` the replacements of the rest."""

    def __init__(
        self,
        computation: Computation,
        rules: Rules,
        done: list[Computation] | None,
        to_fixpoint: bool,
        suffixed: bool,
        key: Callable[[Instruction], Any] | None,
    ):
        self.rules, self.done, self.to_fixpoint, self.suffixed, self.key = rules, done, to_fixpoint, suffixed, key
        self.writer = Writer(computation.root, suffixed=suffixed)
        self.result: list[Instruction] = []
        self.values: dict[Instruction, Instruction] = {}
        self.first: dict[Any, Instruction] = {}

    def visit(self, x: Instruction, depth: int = 0) -> None:
        if depth > DEEPEST:
            raise AssertionError(f"{x.where}: what a rule makes of it is taken by rules without end")
        values = self.values
        if values and not values.keys().isdisjoint(x.operands):
            x.operands = [values.get(o, o) for o in x.operands]
        rule = self.rules.get(x.opcode)
        if rule is not None:
            writer = self.writer
            writer.x = x
            y = rule(writer, x)
            if writer.made or writer.computations:
                self.flush(depth)
            if y is not x:
                values[x] = values.get(y, y)
                return
        known = self.key(x) if self.key is not None else None
        try:
            first = x if known is None else self.first.setdefault(known, x)
        except TypeError:  # an attribute that has no hash
            first = x
        if first is x:
            self.result.append(x)
        else:
            values[x] = first

    def flush(self, depth: int) -> None:
        """Puts what a rule has made in its place."""
        made, computations = self.writer.made, self.writer.computations
        self.writer.made, self.writer.computations = [], []
        for c in computations:
            if self.to_fixpoint:
                rewrite_computation(c, self.rules, self.done, to_fixpoint=True, suffixed=self.suffixed)
            elif self.done is not None:
                self.done.append(c)
        if self.to_fixpoint:
            for z in made:
                self.visit(z, depth + 1)
        else:
            self.result += made
