"""Records of the operations on dynamic dimensions."""

from __future__ import annotations

from ...errors import counted
from ...hlo.infer import array, brief, broken, declared, flags, need_scalar, one_dimension, result
from ...hlo.ir import Instruction
from ...hlo.op import REQUIRED, Attr, Op
from ...hlo.shape import Shape

_DIMENSION = Attr("dimensions", "ints", (14,), REQUIRED, "dimension")


def _get_dimension_size(instr: Instruction) -> Shape:
    one_dimension(instr, array(instr, 0).rank, 2)
    return Shape("s32")


def _set_dimension_size(instr: Instruction) -> Shape:
    shape = array(instr, 0)
    dim = one_dimension(instr, shape.rank, 2)
    need_scalar(instr, 1, "s32", 3)
    dynamic = list(flags(shape))
    dynamic[dim] = (
        instr.shape.dimensions != shape.dimensions or flags(instr.shape)[dim]
    )  # a size equal to the bound makes it static
    return result(instr, shape.element_type, shape.dimensions, tuple(dynamic))


def _dynamic_reshape(instr: Instruction) -> Shape:
    shape, target = array(instr, 0), declared(instr)
    if len(instr.operands) - 1 != target.rank:
        sizes = counted(len(instr.operands) - 1, "size")
        raise broken(instr, 2, f"{sizes} for the {counted(target.rank, 'dimension')} of {brief(target)}")
    for index in range(1, len(instr.operands)):
        need_scalar(instr, index, "s32", 3)
    if shape.size != target.size:
        raise broken(
            instr,
            4,
            f"the bounds of {brief(shape)} hold {counted(shape.size, 'element')}, those of {brief(target)} "
            f"{target.size}",
        )
    return Shape(shape.element_type, target.dimensions, None, target.dynamic)


OPS: tuple[Op, ...] = (
    Op(
        "get-dimension-size",
        (1, 1),
        _get_dimension_size,
        (_DIMENSION,),
        doc="The actual size of one dimension, as s32.",
        constraints=("The operand is an array.", "`dimensions` holds one dimension of it."),
    ),
    Op(
        "set-dimension-size",
        (2, 2),
        _set_dimension_size,
        (_DIMENSION,),
        doc="The same elements, of which only so many along one dimension count.",
        constraints=("The first operand is an array.", "`dimensions` holds one dimension of it.", "The size is s32[]."),
    ),
    Op(
        "dynamic-reshape",
        (1, None),
        _dynamic_reshape,
        doc="A reshape to sizes computed at run time.",
        constraints=(
            "The first operand and the result are arrays.",
            "There is a size for each dimension of the result.",
            "The sizes are s32[].",
            "The bounds of both hold the same number of elements.",
        ),
    ),
)

SIZES = tuple(op.opcode for op in OPS)
"""The operations on sizes themselves."""
