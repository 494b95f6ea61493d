"""The one way in which passes rewrite a module: rules by opcode, in a sweep through each computation, callees first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..hlo.ir import Computation, Instruction, Module
from ..ops.writer import Rule, Writer

Rules = Mapping[str, Rule]
"""opcode -> rule."""


def rewrite(module: Module, rules: Rules, *, again: bool = False, suffixed: bool = False) -> None:
    """Applies the rules to every computation.

    `again`: also to what they make, until none has anything left to do. `suffixed`: what they make has its opcode in its name.
    """
    done: list[Computation] = []
    for computation in module.computations:
        rewrite_computation(computation, rules, done, again=again, suffixed=suffixed)
    module.computations = done


def rewrite_computation(
    computation: Computation,
    rules: Rules,
    done: list[Computation] | None = None,
    *,
    again: bool = False,
    suffixed: bool = False,
    key: Callable[[Instruction], Any] | None = None,
) -> None:
    """The same with one computation; it goes to `done`, behind those that rules made. Instructions with equal keys become one.

    A rule gets each instruction on the operands that stand for its own by then. What it makes comes before the instruction or in
    the place of it. It returns what stands for it from then on: the instruction itself, which then stays, or one that is there.
    """
    result: list[Instruction] = []
    values: dict[Instruction, Instruction] = {}
    first: dict[Any, Instruction] = {}

    def share(x: Instruction) -> None:
        assert key is not None
        known = key(x)
        if known is None or first.setdefault(known, x) is x:
            result.append(x)
        else:
            values[x] = first[known]

    place = result.append if key is None else share

    def visit(x: Instruction) -> None:
        x.operands = [values.get(o, o) for o in x.operands]
        rule = rules.get(x.opcode)
        if rule is None:
            place(x)
            return
        writer.x = x
        y = rule(writer, x)
        if writer.made or writer.computations:
            settle()
        if y is x:
            place(x)
        else:
            values[x] = values.get(y, y)

    def settle() -> None:
        """Puts what a rule has made in its place."""
        made, writer.made = writer.made, []
        computations, writer.computations = writer.computations, []
        for c in computations:
            if again:
                rewrite_computation(c, rules, done, again=True, suffixed=suffixed)
            elif done is not None:
                done.append(c)
        for z in made:
            if again:
                visit(z)
            else:
                result.append(z)

    writer = Writer(computation.root, suffixed=suffixed)
    for x in computation.instructions:
        visit(x)
    computation.root = values.get(computation.root, computation.root)
    computation.instructions = result
    if done is not None:
        done.append(computation)
