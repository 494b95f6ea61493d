"""Records of sorting."""

from __future__ import annotations

from ...hlo.index_map import along
from ...hlo.infer import (
    PRED,
    array,
    arrays,
    brief,
    broken,
    called_signature,
    flags,
    joined,
    need_kind,
    one_dimension,
    result,
)
from ...hlo.ir import Instruction
from ...hlo.op import REQUIRED, Attr, Kind, Op, Read
from ...hlo.shape import Shape


def _sort(instr: Instruction) -> Shape:
    shapes = arrays(instr)
    for shape in shapes:
        if shape.dimensions != shapes[0].dimensions:
            raise broken(instr, 1, f"the operands' sizes differ: {brief(shapes[0])} and {brief(shape)}")
    one_dimension(instr, shapes[0].rank, 2)
    called_signature(instr, 0, 3, [Shape(s.element_type) for s in shapes for _ in range(2)], [PRED])
    return joined([Shape(s.element_type, s.dimensions, None, s.dynamic) for s in shapes])


def _topk(instr: Instruction) -> Shape:
    shape, k = array(instr, 0), instr.attrs["k"]
    need_kind(instr, shape.element_type, ("pred", "signed", "unsigned", "float"), 1)
    if not shape.dimensions or not 0 <= k <= shape.dimensions[-1]:
        raise broken(instr, 2, f"k is {k}, the operand {brief(shape)}")
    sizes = (*shape.dimensions[:-1], k)
    dynamic = (*flags(shape)[:-1], False)
    return Shape.tuple([result(instr, shape.element_type, sizes, dynamic), result(instr, "s32", sizes, dynamic)])


def _read_along(x: Instruction, sorted_: int) -> list[Read]:
    """Each operand is read at all places of one dimension."""
    dims, domain = x.operands[0].shape.dimensions, next(s.dimensions for _, s in x.shape.leaves())
    box = (dims[sorted_],)
    places = [(0, 1, len(dims) if d == sorted_ else d) for d in range(len(dims))]
    return [Read(Kind.REDUCED, along(domain + box, dims, places), box)] * len(x.operands)


OPS: tuple[Op, ...] = (
    Op(
        "sort",
        (1, None),
        _sort,
        (Attr("dimensions", "ints", (14,), REQUIRED), Attr("is_stable", "bool", (60,), False)),
        ("to_apply",),
        reads=lambda x: _read_along(x, x.attrs["dimensions"][0]),
        doc="The operands reordered alike along one dimension, so that the comparator is true of no element and one "
        "before it.",
        constraints=(
            "The operands are arrays of equal sizes.",
            "`dimensions` holds one dimension of theirs.",
            "to_apply takes two scalars of each operand's type, side by side, and returns pred.",
        ),
    ),
    Op(
        "topk",
        (1, 1),
        _topk,
        (
            Attr("k", "int", (81,), REQUIRED),
            Attr("largest", "bool", (85,), True),
            Attr("is_stable", "bool", (60,), False, text=False),  # XLA's parser does not know it yet
        ),
        reads=lambda x: _read_along(x, x.operands[0].shape.rank - 1),
        stablehlo=("chlo.top_k",),
        doc="The k largest or smallest elements of the last dimension, best first, and their indices; of equal ones "
        "the first comes first.",
        constraints=(
            "The operand is an array of an ordered type.",
            "k lies between 0 and the size of the last dimension.",
        ),
    ),
)
