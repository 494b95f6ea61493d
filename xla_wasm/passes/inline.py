"""Puts the bodies of calls, fusions and async wrappers in place of the instructions that call them."""

from __future__ import annotations

from ..hlo.ir import Computation, Instruction, Module
from .clone import copy_instruction

INLINED = ("call", "fusion")
IDENTITIES = ("opt-barrier", "copy")


def inline(module: Module) -> None:
    """Callees stand before callers, so one sweep in order leaves no nested call behind."""
    for computation in module.computations:
        if any(x.opcode in INLINED or x.opcode in IDENTITIES for x in computation.instructions):
            _inline(computation)


def _inline(computation: Computation) -> None:
    result: list[Instruction] = []
    replaced: dict[Instruction, Instruction] = {}

    def resolve(x: Instruction) -> Instruction:
        return replaced.get(x, x)

    for x in computation.instructions:
        x.operands = [resolve(o) for o in x.operands]
        if x.opcode in IDENTITIES:
            replaced[x] = x.operands[0]
        elif x.opcode in INLINED:
            made: dict[Instruction, Instruction] = {}
            for y in x.called[0].instructions:
                if y.opcode == "parameter":
                    made[y] = x.operands[y.attrs["parameter_number"]]
                    continue
                copy = copy_instruction(y, [made[o] for o in y.operands])
                copy.name = f"{x.name}.{y.name}"
                made[y] = copy
                result.append(copy)
            replaced[x] = made[x.called[0].root]
        else:
            result.append(x)
    computation.root = resolve(computation.root)
    computation.instructions = result
    if computation.root.opcode == "parameter" and computation.root not in result:
        raise AssertionError("a root that is nowhere")
