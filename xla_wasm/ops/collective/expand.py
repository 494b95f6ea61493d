"""The exchange between devices where there is one: most of it is the device's own data."""

from __future__ import annotations

from math import prod

from ...errors import UnsupportedError
from ...hlo.attrs import PaddingDimension
from ...hlo.ir import Instruction
from ...hlo.shape import Shape
from ..expansion import Expansion, Rule


def _zeros(e: Expansion, shape: Shape) -> Instruction:
    if shape.is_tuple:
        return e.tuple([_zeros(e, s) for s in shape.tuple_shapes])
    return e.full(shape.element_type, shape.dimensions, 0)


def _number(e: Expansion, x: Instruction) -> Instruction:
    return e.scalar("u32", 0)


def _same(e: Expansion, x: Instruction) -> Instruction:
    """The operands, as the group of this one device has them."""
    own = x.operands[0] if x.shape.is_array else e.tuple(x.operands)
    return _checked(x, own, x.shape)


def _checked(x: Instruction, own: Instruction, declared: Shape) -> Instruction:
    if "replica_groups" in x.attrs and any(len(group) > 1 for group in x.attrs["replica_groups"].expanded()):
        raise UnsupportedError(f"{x.where}: its groups have several devices, this module has one; more are not supported yet")
    if own.shape.without_layout() != declared.without_layout():
        raise UnsupportedError(f"{x.where}: {declared} of {own.shape} needs more than the one device of this module")
    return own


def _begun(e: Expansion, x: Instruction) -> Instruction:
    """(operands, results, contexts ...) of a start whose results are the operands."""
    first, second, *contexts = x.shape.tuple_shapes
    own = [_checked(x, e.tuple(x.operands) if s.is_tuple else x.operands[0], s) for s in (first, second)]
    return e.tuple([*own, *(_zeros(e, s) for s in contexts)])


def _ended(e: Expansion, x: Instruction) -> Instruction:
    return e.element(x.operands[0], 1)


def _unchanged(e: Expansion, x: Instruction) -> Instruction:
    return x.operands[0]


def _permute(e: Expansion, x: Instruction) -> Instruction:
    if x.attrs["slice_sizes"] or (len(x.operands) > 1 and len(x.operands) != len(x.shape.tuple_shapes)):
        raise UnsupportedError(f"{x.where}: a collective-permute of parts of buffers is not supported yet")
    return _same(e, x) if (0, 0) in x.attrs["source_target_pairs"] else _zeros(e, x.shape.without_layout())


def _permute_start(e: Expansion, x: Instruction) -> Instruction:
    if (0, 0) in x.attrs["source_target_pairs"]:
        return _begun(e, x)
    first, *others = x.shape.tuple_shapes
    own = _checked(x, e.tuple(x.operands) if first.is_tuple else x.operands[0], first)
    return e.tuple([own, *(_zeros(e, s.without_layout()) for s in others)])


def _broadcast(e: Expansion, x: Instruction) -> Instruction:
    groups = x.attrs["replica_groups"].expanded()
    return _same(e, x) if not groups or any(0 in group for group in groups) else _zeros(e, x.shape.without_layout())


def _ragged_all_to_all(e: Expansion, x: Instruction) -> Instruction:
    """Rows of the input that the device sends to itself, put over those of the output, one run of rows after another."""
    source, target, *numbers = x.operands
    offsets, sizes, places = (e.convert(e.reshape(n, (n.shape.size,)), "s32") for n in numbers[:3])
    _checked(x, target, x.shape)
    rows = target.shape.dimensions[0]
    if rows == 0:
        return target
    # A run may stand anywhere, so the input gets room on both sides.
    room = [PaddingDimension(rows, rows), *[PaddingDimension()] * (source.shape.rank - 1)]
    wide = e.pad(source, e.scalar(source.shape.element_type, 0), room)

    def put(e: Expansion, i: Instruction, result: Instruction, *given: Instruction) -> list[Instruction]:
        wide, *lists = given
        offset, size, place = (e.reshape(e.dynamic_slice(n, [i], (1,)), ()) for n in lists)
        zero = e.scalar("s32", 0)
        start = e.add(e.sub(offset, place), rows)
        moved = e.dynamic_slice(wide, [start, *[zero] * (result.shape.rank - 1)], result.shape.dimensions)
        row = e.iota("s32", result.shape.dimensions)
        inside = e.binary("and", e.compare("GE", row, place), e.compare("LT", row, e.add(place, size)))
        return [e.select(inside, moved, result), *given]

    return e.for_(prod(offsets.shape.dimensions), [target, wide, offsets, sizes, places], put)[0]


EXPAND: dict[str, Rule] = {
    "partition-id": _number,
    "replica-id": _number,
    "all-reduce": _same,
    "all-reduce-start": _same,
    "all-reduce-done": _unchanged,
    "all-gather": _same,
    "all-gather-start": _begun,
    "all-gather-done": _ended,
    "reduce-scatter": _same,
    "all-to-all": _same,
    "ragged-all-to-all": _ragged_all_to_all,
    "collective-broadcast": _broadcast,
    "collective-permute": _permute,
    "collective-permute-start": _permute_start,
    "collective-permute-done": _ended,
}
"""opcode -> rule; a module for several devices is refused before."""
