"""A copy of a module whose instructions can be changed without touching the original. Literals are shared."""

from __future__ import annotations

from collections.abc import Callable

from ..hlo.ir import Computation, Instruction, Module


def clone(module: Module) -> Module:
    """A deep copy of the graph."""
    copies: dict[Computation, Computation] = {}
    for computation in module.computations:
        copies[computation] = copy_computation(computation, copies.__getitem__)
    result = Module(module.name, list(copies.values()), copies[module.entry])
    result.parameter_shapes, result.result_shape = module.parameter_shapes, module.result_shape
    result.frontend_attributes = dict(module.frontend_attributes)
    result.input_output_alias = list(module.input_output_alias)
    result.replica_count, result.num_partitions = module.replica_count, module.num_partitions
    return result


def copy_computation(computation: Computation, callee: Callable[[Computation], Computation]) -> Computation:
    """A copy that calls `callee(c)` in the place of each computation c."""
    made: dict[Instruction, Instruction] = {}
    for x in computation.instructions:
        made[x] = copy_instruction(x, [made[o] for o in x.operands])
        made[x].called = [callee(c) for c in x.called]
        made[x].control_predecessors = [made[p] for p in x.control_predecessors]
    return Computation(computation.name, list(made.values()), made[computation.root])


def copy_instruction(x: Instruction, operands: list[Instruction]) -> Instruction:
    """The same instruction on other operands."""
    copy = Instruction(x.name, x.opcode, x.shape, operands, dict(x.attrs), x.called, x.metadata)
    copy.frontend_attributes = x.frontend_attributes
    return copy
