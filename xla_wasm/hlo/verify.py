"""Checks that a module is sound, so that nothing after it has to: every later stage relies on what is checked here."""

from __future__ import annotations

from typing import Any

from ..errors import UnsupportedError, VerifyError, counted
from .attrs import MOST_DEVICES
from .infer import UNSUPPORTED, brief, same, shape_fault
from .ir import Computation, Instruction, Module
from .kinds.table import KINDS
from .op import REQUIRED, Op, records
from .shape import Shape

MAX_CALL_DEPTH = 100
"""The deepest nesting of calls, loops and branches."""

MAX_EXPANDED = 200_000
"""The most instructions of a computation with all that it calls written out: the passes write it out, and what is
called twice stands there twice. A gradient of a large model has some thousands."""
MAX_ALL_EXPANDED = 1_000_000
"""The same of all computations together: each is written out, whether anything calls it or not."""


def record(instruction: Instruction) -> Op:
    """The record of the instruction's opcode."""
    op = records().get(instruction.opcode)
    if op is None:
        raise UnsupportedError(f"{instruction.where}: the opcode is unknown; the module may come from a newer XLA")
    return op


def inferred(instruction: Instruction) -> Shape | None:
    """The shape that the operands, attributes and called computations of an instruction give; None if only the declared
    one tells.

    Operands and called computations must be sound already.
    """
    op = record(instruction)
    least, most = op.arity
    count = len(instruction.operands)
    if count < least or (most is not None and count > most):
        low = f"at least {least}" if most is None else f"{least} to {most}"
        wanted = counted(least, "operand") if least == most else f"{low} operands"
        raise VerifyError(f"{instruction.where}: it takes {wanted}, not {count}")
    attrs = instruction.attrs
    for attr in op.attrs:
        value = attrs.get(attr.name, REQUIRED)
        if value is REQUIRED:
            raise VerifyError(f"{instruction.where}: attribute {attr.name} is missing")
        if not KINDS[attr.kind].check(value):
            raise VerifyError(f"{instruction.where}: attribute {attr.name} cannot be {value!r}")
        if value is None and attr.default is REQUIRED:
            raise VerifyError(f"{instruction.where}: attribute {attr.name} is missing")
    _check_called_count(instruction, op)
    return op.infer(instruction) if op.infer else None


def _check_called_count(instruction: Instruction, op: Op) -> None:
    count = len(instruction.called)
    if not op.called:
        if count:
            raise VerifyError(f"{instruction.where}: it calls no computation, but has {count}")
    elif not op.called[0].endswith("*"):
        least = sum(not name.endswith("?") for name in op.called)
        if not least <= count <= len(op.called):
            raise VerifyError(f"{instruction.where}: it calls {counted(len(op.called), 'computation')}, not {count}")


def verify(module: Module) -> None:
    """Raises VerifyError where the module breaks a rule, UnsupportedError for an opcode or a shape that is not known
    here."""
    if module.replica_count * module.num_partitions > MOST_DEVICES:
        asked = f"{counted(module.replica_count, 'replica')} of {counted(module.num_partitions, 'partition')}"
        raise UnsupportedError(
            f"the module '{module.name}' is for {asked}: at most {MOST_DEVICES} devices are supported"
        )
    checker = _Checker()
    for computation in module.computations:
        checker.computation(computation)
    if module.entry not in checker.depths:
        raise VerifyError(f"the entry computation '{module.entry.name}' is not among the computations")
    _check_signature(module)
    _check_aliases(module)


class _Checker:
    """Walks the computations in order, callees before callers."""

    def __init__(self) -> None:
        self.depths: dict[Computation, int] = {}
        self.expanded: dict[Computation, int] = {}
        self.all_expanded = 0
        self.sound: set[int] = set()  # ids of shapes; the module keeps them alive

    def computation(self, computation: Computation) -> None:
        if computation in self.depths:
            raise VerifyError(f"computation '{computation.name}' is listed twice")
        seen: set[Instruction] = set()
        numbers = []
        depth, expanded = 1, len(computation.instructions)
        for instruction in computation.instructions:
            for operand in instruction.operands:
                if operand not in seen:
                    self._misplaced(computation, instruction, operand, "operand")
            for predecessor in instruction.control_predecessors:
                if predecessor not in seen:
                    self._misplaced(computation, instruction, predecessor, "control predecessor")
            for called in instruction.called:
                if called not in self.depths:
                    raise VerifyError(
                        f"{instruction.where}: computation '{called.name}' does not come before the one that calls it, "
                        f"'{computation.name}': calls must not form a cycle"
                    )
                depth = max(depth, self.depths[called] + 1)
                expanded += self.expanded[called]
            if instruction in seen:
                raise VerifyError(f"{instruction.where}: it stands twice in computation '{computation.name}'")
            self._shape(instruction)
            shape = inferred(instruction)
            if shape is not None and not same(shape, instruction.shape):
                raise VerifyError(
                    f"{instruction.where}: its shape is declared as {brief(instruction.shape)}, but it is "
                    f"{brief(shape)}: write that, or give it other operands"
                )
            if instruction.opcode == "parameter":
                numbers.append(instruction.attrs["parameter_number"])
            seen.add(instruction)
        if computation.root not in seen:
            raise VerifyError(
                f"computation '{computation.name}': its root '{computation.root.name}' is not among its instructions"
            )
        if sorted(numbers) != list(range(len(numbers))):
            raise VerifyError(
                f"computation '{computation.name}': its parameters are numbered {sorted(numbers)[:16]}, not from 0 on"
            )
        if depth > MAX_CALL_DEPTH:
            raise VerifyError(f"computation '{computation.name}': calls nest deeper than {MAX_CALL_DEPTH}")
        if expanded > max(MAX_EXPANDED, len(computation.instructions)):
            raise UnsupportedError(
                f"computation '{computation.name}': with the computations that it calls in the places of the calls it "
                f"has {expanded} "
                f"instructions; up to {MAX_EXPANDED} are supported. Call less often, or from a loop"
            )
        if expanded > len(computation.instructions):  # what calls nothing is as long as the file has it
            self.all_expanded += expanded
        if self.all_expanded > MAX_ALL_EXPANDED:
            raise UnsupportedError(
                f"computation '{computation.name}': with what they call in the places of the calls, all up to this "
                f"one have "
                f"{self.all_expanded} instructions; up to {MAX_ALL_EXPANDED} are supported. Call less often, or from "
                f"a loop"
            )
        self.depths[computation], self.expanded[computation] = depth, expanded

    def _shape(self, instruction: Instruction) -> None:
        shape = instruction.shape
        if id(shape) in self.sound:
            return
        if fault := shape_fault(shape):
            kind = UnsupportedError if fault in UNSUPPORTED else VerifyError
            raise kind(f"{instruction.where}: its shape {fault}")
        self.sound.add(id(shape))

    def _misplaced(self, computation: Computation, instruction: Instruction, other: Instruction, role: str) -> None:
        where = "comes later in" if other in computation.instructions else "is not in"
        raise VerifyError(f"{instruction.where}: its {role} '{other.name}' {where} computation '{computation.name}'")


def _check_signature(module: Module) -> None:
    """The shapes that callers use differ from those of the entry computation in layouts only."""
    entry = module.entry
    own = [p.shape for p in entry.parameters]
    outer = module.parameter_shapes
    if outer:  # a signature without parameters leaves them as they are
        if len(outer) != len(own):
            raise VerifyError(
                f"the module's signature has {counted(len(outer), 'parameter')}, the entry computation has {len(own)}"
            )
        for number, (ours, theirs) in enumerate(zip(own, outer)):
            _check_outer(f"parameter {number}", ours, theirs)
    if module.result_shape is not None:
        _check_outer("the result", entry.root.shape, module.result_shape)


def _check_outer(what: str, own: Shape, outer: Shape) -> None:
    if fault := shape_fault(outer):
        raise VerifyError(f"the module's signature: the shape of {what} {fault}")
    if not same(own, outer):
        raise VerifyError(
            f"the module's signature: {what} is {brief(outer)}, but {brief(own)} in the entry computation"
        )


def _check_aliases(module: Module) -> None:
    """Aliases and donated buffers name parts that exist, alike for both sides of an alias."""
    parameters = [p.shape for p in module.entry.parameters]
    outputs = set()
    for output, number, index, _ in module.input_output_alias:
        if output in outputs:
            raise VerifyError(f"input_output_alias: output {output} has two aliases")
        outputs.add(output)
        result, parameter = _part([module.entry.root.shape], (0, *output)), _part(parameters, (number, *index))
        if result is None or parameter is None or result.is_tuple or parameter.is_tuple:
            raise VerifyError(
                f"input_output_alias: output {output} or parameter {number} {index} is no array of the module"
            )
        if result.bytes != parameter.bytes:
            raise VerifyError(
                f"input_output_alias: output {output} is {brief(result)}, parameter {number} {index} {brief(parameter)}"
            )
    for number, index in module.buffer_donor:
        if _part(parameters, (number, *index)) is None:
            raise VerifyError(f"buffer_donor: parameter {number} {index} does not exist")


def _part(shapes: Any, index: tuple[int, ...]) -> Shape | None:
    """The shape at a tuple index, whose first element counts `shapes`."""
    part: Shape | None = None
    for i in index:
        if not 0 <= i < len(shapes):
            return None
        part = shapes[i]
        shapes = part.tuple_shapes
    return part


__all__ = ["MAX_CALL_DEPTH", "MAX_EXPANDED", "inferred", "record", "verify"]
