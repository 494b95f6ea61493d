"""A copy of a module whose instructions can be changed without touching the original. Literals are shared."""

from __future__ import annotations

from ..hlo.ir import Computation, Instruction, Module


def clone(module: Module) -> Module:
    """A deep copy of the graph."""
    copies: dict[Computation, Computation] = {}
    for computation in module.computations:
        made: dict[Instruction, Instruction] = {}
        for x in computation.instructions:
            made[x] = copy_instruction(x, [made[o] for o in x.operands])
            made[x].called = [copies[c] for c in x.called]
            made[x].control_predecessors = [made[p] for p in x.control_predecessors]
        copies[computation] = Computation(computation.name, list(made.values()), made[computation.root])
    result = Module(module.name, list(copies.values()), copies[module.entry])
    result.parameter_shapes, result.result_shape = module.parameter_shapes, module.result_shape
    result.frontend_attributes = dict(module.frontend_attributes)
    result.input_output_alias = list(module.input_output_alias)
    result.replica_count, result.num_partitions = module.replica_count, module.num_partitions
    return result


def copy_instruction(x: Instruction, operands: list[Instruction]) -> Instruction:
    """The same instruction on other operands."""
    copy = Instruction(x.name, x.opcode, x.shape, operands, dict(x.attrs), x.called, x.metadata)
    copy.frontend_attributes = x.frontend_attributes
    return copy
