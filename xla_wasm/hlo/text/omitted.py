"""Parts that HLO text leaves out: result shapes with their layouts, and values that only other parts of an instruction
tell."""

from __future__ import annotations

from collections.abc import Container

from ...dataclass import replace
from ...errors import VerifyError, counted
from ..infer import shape_fault
from ..ir import Instruction
from ..op import records
from ..shape import Layout, Shape
from ..types import default_comparison

_DECLARED = frozenset(
    "bitcast bitcast-convert constant convert custom-call fusion infeed iota outfeed parameter reduce-precision "
    "reshape rng rng-bit-generator rng-get-and-update-state stochastic-convert".split()
)
"""Opcodes whose result shape cannot be left out, beside those that cannot be inferred at all."""
_KEEPS_LAYOUT = frozenset(
    "copy reverse opt-barrier domain add-dependency dynamic-update-slice while set-dimension-size".split()
)
"""Opcodes, beside the elementwise ones, whose result is laid out like their first operand."""


def _with_layout(instruction: Instruction, shape: Shape) -> Shape:
    """An inferred shape in the layout that XLA infers with it."""
    opcode, operands = instruction.opcode, instruction.operands
    if opcode == "tuple":
        return Shape.tuple([operand.shape for operand in operands])
    if opcode == "get-tuple-element":
        return operands[0].shape.tuple_shapes[instruction.attrs["index"]]
    if opcode in ("call", "conditional"):
        return instruction.called[0].root.shape
    if opcode == "sort" and operands:
        return operands[0].shape if len(operands) == 1 else Shape.tuple([operand.shape for operand in operands])
    if opcode == "transpose":
        layout = operands[0].shape.layout or Layout.default(shape.rank)
        dimensions = instruction.attrs["dimensions"]
        order = tuple(dimensions.index(d) for d in layout.minor_to_major)
        return shape.with_layout(replace(layout, minor_to_major=order))
    if opcode in _KEEPS_LAYOUT or records()[opcode].elementwise:
        like = operands[1 if opcode in ("select", "clamp") else 0].shape if operands else shape
        if shape.is_tuple:
            return like if compatible(like, shape) else shape
        return shape.with_layout(like.layout) if like.dimensions == shape.dimensions else shape
    return shape


def inferred(instruction: Instruction) -> Shape:
    """The shape that goes without saying, in the layout that XLA infers with it. Raises VerifyError if there is
    none."""
    opcode = instruction.opcode
    infer = records()[opcode].infer
    if infer is None or opcode in _DECLARED:
        raise VerifyError(f"the shape of {opcode} must be given")
    if opcode not in ("tuple", "get-tuple-element"):
        for operand in instruction.operands:
            if fault := shape_fault(operand.shape):
                raise VerifyError(f"the shape must be given, since that of '{operand.name}' {fault}")
    return _with_layout(instruction, infer(instruction))


def complete_attributes(instruction: Instruction, given: Container[str]) -> str:
    """Fills in attributes that follow from operands; what is wrong with the instruction, empty if nothing is.

    `given`: the keys of the attributes that the text has.
    """
    attrs, opcode, operands = instruction.attrs, instruction.opcode, instruction.operands
    if opcode == "compare":
        attrs["type"] = attrs["type"] or default_comparison(operands[0].shape.element_type)
    elif opcode == "outfeed":
        attrs["outfeed_shape"] = attrs["outfeed_shape"] or operands[0].shape
    elif opcode == "map":
        attrs["dimensions"] = attrs["dimensions"] or tuple(range(operands[0].shape.rank))
    elif opcode == "scan":
        attrs["is_associative"] = bool(attrs["is_associative"])
    elif opcode == "custom-call":
        attrs["constrain_layout"] = "operand_layout_constraints" in given
        constraints = attrs["operand_layout_constraints"]
        if constraints and len(constraints) != len(operands):
            return f"{len(constraints)} operand_layout_constraints for {counted(len(operands), 'operand')}"
        for constraint, operand in zip(constraints, operands):
            if not compatible(constraint, operand.shape):
                return f"operand_layout_constraints has {constraint} for '{operand.name}', which is a {operand.shape}"
    elif opcode == "broadcast" and operands[0].shape.rank and "dimensions" not in given:
        return f"broadcast needs dimensions= with a number for each dimension of {operands[0].shape}"
    elif opcode == "infeed" and not instruction.shape.tuple_shapes:
        return f"the shape of infeed is a tuple, (data, token[]), not {instruction.shape}"
    elif opcode == "conditional":
        selector = operands[0].shape
        if selector.is_tuple or selector.dimensions or selector.element_type not in ("pred", "s32"):
            return f"what selects the branch of a conditional is pred[] or s32[], not {selector}"
    return ""


def complete_shape(instruction: Instruction) -> None:
    """Transfers have the shape that follows from their operands, whatever the text says."""
    opcode, operands, token = instruction.opcode, instruction.operands, Shape("token")
    if opcode == "send":
        instruction.shape = Shape.tuple([operands[0].shape, Shape("u32"), token])
    elif opcode == "recv" and instruction.shape.tuple_shapes:
        instruction.shape = Shape.tuple([instruction.shape.tuple_shapes[0], Shape("u32"), token])
    elif opcode == "recv-done" and operands[0].shape.tuple_shapes:
        instruction.shape = Shape.tuple([operands[0].shape.tuple_shapes[0], token])
    elif opcode in ("send-done", "after-all", "outfeed"):
        instruction.shape = token


def compatible(a: Shape, b: Shape) -> bool:
    """Returns True if two shapes are equal but for layouts and for which dimensions are dynamic."""
    if a.element_type != b.element_type or a.dimensions != b.dimensions or len(a.tuple_shapes) != len(b.tuple_shapes):
        return False
    return all(map(compatible, a.tuple_shapes, b.tuple_shapes))
