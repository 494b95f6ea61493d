"""The one way in which passes rewrite a module: rules by opcode, in a sweep through each computation, callees first."""

from __future__ import annotations

from collections.abc import Mapping

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
    computation: Computation, rules: Rules, done: list[Computation] | None = None, *, again: bool = False, suffixed: bool = False
) -> None:
    """The same with one computation; it goes to `done`, behind those that rules made.

    A rule gets each instruction on the operands that stand for its own by then. What it makes comes before the instruction or in
    the place of it. It returns what stands for it from then on: the instruction itself, which then stays, or one that is there.
    """
    result: list[Instruction] = []
    values: dict[Instruction, Instruction] = {}

    def visit(x: Instruction) -> None:
        x.operands = [values.get(o, o) for o in x.operands]
        rule = rules.get(x.opcode)
        if rule is None:
            result.append(x)
            return
        writer = Writer(x, suffixed=suffixed)
        y = rule(writer, x)
        for made in writer.computations:
            if again:
                rewrite_computation(made, rules, done, again=True, suffixed=suffixed)
            elif done is not None:
                done.append(made)
        if again:
            for z in writer.made:
                visit(z)
        else:
            result.extend(writer.made)
        if y is x:
            result.append(x)
        else:
            values[x] = values.get(y, y)

    for x in computation.instructions:
        visit(x)
    computation.root = values.get(computation.root, computation.root)
    computation.instructions = result
    if done is not None:
        done.append(computation)
