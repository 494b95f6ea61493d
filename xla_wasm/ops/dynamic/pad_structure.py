"""Constants, tuples and custom calls of arrays of which a part counts."""

from __future__ import annotations

from ...hlo.attrs import PaddingDimension
from ...hlo.ir import Instruction
from ...hlo.literal import Literal
from ...hlo.shape import Shape
from ..custom.expand_built_in import IDENTITIES
from .pad_arrays import Extent, Padded, Rule, SizeWriter, is_whole, static, whole


def _extent(literal: Literal) -> Extent:
    if literal.shape.is_tuple:
        return tuple(map(_extent, literal.elements))
    return literal.dynamic_sizes or literal.shape.dimensions


def _custom_call(w: SizeWriter, x: Instruction, extents: list[Extent]) -> Padded:
    """Returns the value of a custom call. Raises an error if it has another shape than declared: nothing checked it."""
    declared = static(x.shape)
    made = _meaning(w, x, extents)
    if made.value.shape.without_layout() != declared:
        raise w.refuse(
            f"custom-call '{x.attrs['custom_call_target']}' gives {made.value.shape.without_layout()}, not {declared}"
        )
    return made


def _meaning(w: SizeWriter, x: Instruction, extents: list[Extent]) -> Padded:
    """The calls by which XLA's own passes go from dynamic to static arrays and back, and those that stand for their
    operand."""
    if not x.shape.is_dynamic and all(is_whole(o.shape, e) for o, e in zip(x.operands, extents)):
        return w.kept(x, whole(x.shape))
    target = x.attrs["custom_call_target"]
    if (
        target == "PadToStatic"
        and len(x.operands) == 1
        and x.shape.is_tuple
        and len(x.shape.tuple_shapes) == 1 + x.operands[0].shape.rank
    ):
        value = w.tuple([x.operands[0], *map(w.scalar_of, extents[0])])
        return Padded(value, whole(x.shape))
    if (
        target == "SliceToDynamic"
        and x.shape.is_array
        and len(x.operands) == 1 + x.shape.rank == 1 + x.operands[0].shape.rank
    ):
        array, *given = x.operands
        if any(o.shape.without_layout() != Shape("s32") for o in given):
            raise w.refuse("SliceToDynamic takes an array and its sizes, each an s32")
        flags = x.shape.dynamic or (False,) * x.shape.rank
        sizes = [
            w.clamped(w.size_of(o), bound) if flag else bound
            for o, bound, flag in zip(given, x.shape.dimensions, flags)
        ]
        behind = [PaddingDimension(0, bound - size) for bound, size in zip(x.shape.dimensions, array.shape.dimensions)]
        if any(p.edge_padding_high for p in behind):
            array = w.pad(array, w.scalar(array.shape.element_type, 0), behind)
        return Padded(array, tuple(sizes))
    if target in IDENTITIES and len(x.operands) == 1:
        return Padded(x.operands[0], extents[0])
    raise w.refuse(f"custom-call '{target}' of arrays with dynamic dimensions is not supported")


RULES: dict[str, Rule] = {
    "constant": lambda w, x, extents: w.kept(x, _extent(x.attrs["literal"])),
    "tuple": lambda w, x, extents: w.kept(x, tuple(extents)),
    "get-tuple-element": lambda w, x, extents: w.kept(x, extents[0][x.attrs["index"]]),
    "custom-call": _custom_call,
}
