"""Records of the operations that move elements without looking at them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from ...errors import counted
from ...hlo.index_map import along, row_major
from ...hlo.infer import (
    array,
    arrays,
    brief,
    broken,
    declared,
    dilated,
    dimensions,
    flags,
    need_scalar,
    one_dimension,
    operand_shape,
    result,
)
from ...hlo.ir import Instruction
from ...hlo.op import REQUIRED, Attr, Kind, Op, Read, pointwise, scalar_map
from ...hlo.shape import Shape, array_shape
from ...hlo.types import TYPES

_DIMENSIONS = Attr("dimensions", "ints", (14,), REQUIRED, "dimensions permutation dimension")


def _bitcast(instr: Instruction) -> Shape:
    shape, target = array(instr, 0), declared(instr)
    bits = [s.size * TYPES[s.element_type].bits for s in (shape, target)]
    if bits[0] != bits[1] and shape.bytes != target.bytes:
        raise broken(instr, 2, f"{brief(shape)} and {brief(target)} do not take the same number of bytes")
    return target


def _broadcast(instr: Instruction) -> Shape:
    shape, target = array(instr, 0), declared(instr)
    dims = dimensions(instr, instr.attrs["dimensions"], target.rank, 3)
    if len(dims) != shape.rank:
        raise broken(
            instr,
            2,
            f"dimensions has {counted(len(dims), 'element')} for the {counted(shape.rank, 'dimension')} of the operand",
        )
    for index, dim in enumerate(dims):
        if shape.dimensions[index] != target.dimensions[dim]:
            raise broken(instr, 4, f"dimension {index} of {brief(shape)} and {dim} of {brief(target)} differ in size")
    return array_shape(shape.element_type, target.dimensions, target.dynamic)


def _reshape(instr: Instruction) -> Shape:
    shape, target = array(instr, 0), declared(instr)
    if shape.size != target.size:
        raise broken(
            instr, 2, f"{brief(shape)} has {counted(shape.size, 'element')}, {brief(target)} has {target.size}"
        )
    inferred = instr.attrs["inferred_dimension"]
    if inferred is not None and not 0 <= inferred < target.rank:
        raise broken(
            instr, 3, f"inferred_dimension {inferred} is none of the {counted(target.rank, 'dimension')} of the result"
        )
    return array_shape(shape.element_type, target.dimensions, target.dynamic)


def _transpose(instr: Instruction) -> Shape:
    shape = array(instr, 0)
    dims = dimensions(instr, instr.attrs["dimensions"], shape.rank, 2)
    if len(dims) != shape.rank:
        raise broken(instr, 2, f"dimensions must be a permutation of the {counted(shape.rank, 'dimension')}")
    dynamic = tuple([shape.dynamic[d] for d in dims]) if shape.dynamic else ()
    return array_shape(shape.element_type, tuple([shape.dimensions[d] for d in dims]), dynamic)


def _reverse(instr: Instruction) -> Shape:
    shape = array(instr, 0)
    dimensions(instr, instr.attrs["dimensions"], shape.rank, 2)
    return Shape(shape.element_type, shape.dimensions, None, shape.dynamic)


def _slice(instr: Instruction) -> Shape:
    shape, bounds = array(instr, 0), instr.attrs["slice"]
    if len(bounds) != shape.rank:
        raise broken(instr, 2, f"slice has {counted(len(bounds), 'bound')} for {counted(shape.rank, 'dimension')}")
    sizes = []
    for dim, (bound, size) in enumerate(zip(bounds, shape.dimensions)):
        if bound.stride < 1 or not 0 <= bound.start <= bound.limit <= size:
            text = f"[{bound.start}:{bound.limit}:{bound.stride}]"
            raise broken(instr, 3, f"bounds {text} do not fit dimension {dim} of size {size}")
        sizes.append((bound.limit - bound.start + bound.stride - 1) // bound.stride)
    return result(instr, shape.element_type, sizes)


def _concatenate(instr: Instruction) -> Shape:
    shapes = arrays(instr)
    first = shapes[0]
    dim = one_dimension(instr, first.rank, 2)
    before, after = first.dimensions[:dim], first.dimensions[dim + 1 :]
    total = 0
    for index, shape in enumerate(shapes):
        sizes = shape.dimensions
        if (
            shape.element_type != first.element_type
            or len(sizes) != first.rank
            or sizes[:dim] != before
            or sizes[dim + 1 :] != after
        ):
            raise broken(
                instr, 3, f"operand {index} is {brief(shape)}, which differs from {brief(first)} beyond dimension {dim}"
            )
        total += sizes[dim]
    dynamic: tuple[bool, ...] = tuple(map(any, zip(*map(flags, shapes)))) if any(s.dynamic for s in shapes) else ()
    return result(instr, first.element_type, (*before, total, *after), dynamic)


def _pad(instr: Instruction) -> Shape:
    shape, padding = array(instr, 0), instr.attrs["padding"]
    need_scalar(instr, 1, shape.element_type, 2)
    if len(padding) != shape.rank:
        raise broken(instr, 3, f"padding has {counted(len(padding), 'element')} for {counted(shape.rank, 'dimension')}")
    sizes = []
    for dim, (pad, size) in enumerate(zip(padding, shape.dimensions)):
        if pad.interior_padding < 0:
            raise broken(instr, 4, f"interior padding of dimension {dim} is negative")
        sizes.append(pad.edge_padding_low + pad.edge_padding_high + dilated(size, pad.interior_padding + 1))
        if sizes[-1] < 0:
            raise broken(instr, 5, f"dimension {dim} of size {size} would get the size {sizes[-1]}")
    return result(instr, shape.element_type, sizes)


def _view(places: Callable[[Instruction], list[tuple[int, int, int]]]) -> Callable[[Instruction], list[Read]]:
    """An operation that renames indices: (offset, stride, dimension of the result) for each dimension of the
    operand."""

    def reads(x: Instruction) -> list[Read]:
        return [_renamed(x.shape.dimensions, x.operands[0].shape.dimensions, tuple(places(x)))]

    return reads


@lru_cache(4096)
def _renamed(domain: tuple[int, ...], dims: tuple[int, ...], places: tuple[tuple[int, int, int], ...]) -> Read:
    return Read(Kind.MAP, along(domain, dims, places))


def _read_transpose(x: Instruction) -> list[tuple[int, int, int]]:
    return [(0, 1, x.attrs["dimensions"].index(d)) for d in range(x.shape.rank)]


def _read_reverse(x: Instruction) -> list[tuple[int, int, int]]:
    reversed_ = x.attrs["dimensions"]
    return [(size - 1, -1, d) if d in reversed_ else (0, 1, d) for d, size in enumerate(x.shape.dimensions)]


def _read_reshape(x: Instruction) -> list[Read]:
    return [_in_order(x.shape.dimensions, x.operands[0].shape.dimensions)]


@lru_cache(4096)
def _in_order(domain: tuple[int, ...], dims: tuple[int, ...]) -> Read:
    return Read(Kind.MAP, row_major(domain, dims))


def _read_concatenate(x: Instruction) -> list[Read]:
    (along_,), start, made = x.attrs["dimensions"], 0, []
    for o in x.operands:
        places = [(start if d == along_ else 0, 1, d) for d in range(o.shape.rank)]
        made.append(Read(Kind.PLACED, along(o.shape.dimensions, x.shape.dimensions, places)))
        start += o.shape.dimensions[along_]
    return made


def _read_pad(x: Instruction) -> list[Read]:
    dims = x.operands[0].shape.dimensions
    places = [(p.edge_padding_low, p.interior_padding + 1, d) for d, p in enumerate(x.attrs["padding"])]
    return [
        Read(Kind.PLACED, along(dims, x.shape.dimensions, places)),
        Read(Kind.MAP, scalar_map(x.shape.dimensions, ())),
    ]


OPS: tuple[Op, ...] = (
    Op(
        "copy",
        (1, 1),
        operand_shape,
        reads=pointwise,
        elementwise=True,
        doc="The same value in a buffer of its own, perhaps in another layout.",
    ),
    Op(
        "bitcast",
        (1, 1),
        _bitcast,
        doc="The operand's bytes in memory, taken as another array.",
        constraints=("Operand and result are arrays.", "They take the same number of bytes."),
    ),
    Op(
        "broadcast",
        (1, 1),
        _broadcast,
        (Attr("dimensions", "ints", (14,), ()),),
        reads=_view(lambda x: [(0, 1, d) for d in x.attrs["dimensions"]]),
        view=True,
        doc="The operand repeated along new dimensions; `dimensions` says which dimension of the result each of its "
        "own becomes.",
        constraints=(
            "Operand and result are arrays.",
            "`dimensions` has an element for each dimension of the operand.",
            "Its elements differ and are dimensions of the result.",
            "The operand's sizes are those of the result there; a size of 1 is not stretched.",
        ),
    ),
    Op(
        "reshape",
        (1, 1),
        _reshape,
        (Attr("inferred_dimension", "optional_first_int", (14,)),),
        reads=_read_reshape,
        view=True,
        doc="The same elements in row-major order under other dimensions.",
        constraints=(
            "Operand and result are arrays.",
            "They have the same number of elements.",
            "inferred_dimension, if there, is a dimension of the result.",
        ),
    ),
    Op(
        "transpose",
        (1, 1),
        _transpose,
        (_DIMENSIONS,),
        reads=_view(_read_transpose),
        view=True,
        doc="The dimensions permuted: dimension i of the result is dimension `dimensions[i]` of the operand.",
        constraints=("The operand is an array.", "`dimensions` is a permutation of its dimensions."),
    ),
    Op(
        "reverse",
        (1, 1),
        _reverse,
        (_DIMENSIONS,),
        reads=_view(_read_reverse),
        view=True,
        doc="The elements in opposite order along the given dimensions.",
        constraints=("The operand is an array.", "`dimensions` are different dimensions of it."),
    ),
    Op(
        "slice",
        (1, 1),
        _slice,
        (Attr("slice", "slices", (17,), REQUIRED, "start_indices limit_indices strides"),),
        reads=_view(lambda x: [(s.start, s.stride, d) for d, s in enumerate(x.attrs["slice"])]),
        view=True,
        doc="A block between constant bounds, every stride-th element of it.",
        constraints=(
            "The operand is an array.",
            "There are bounds for each of its dimensions.",
            "0 <= start <= limit <= size, and the stride is at least 1.",
        ),
    ),
    Op(
        "concatenate",
        (1, None),
        _concatenate,
        (_DIMENSIONS,),
        reads=_read_concatenate,
        doc="The operands one after another along one dimension.",
        constraints=(
            "The operands are arrays.",
            "`dimensions` holds one dimension of the first.",
            "All operands have its type and its sizes in the other dimensions.",
        ),
    ),
    Op(
        "pad",
        (2, 2),
        _pad,
        (Attr("padding", "padding", (21,), REQUIRED, "edge_padding_low edge_padding_high interior_padding"),),
        reads=_read_pad,
        doc="The first operand with copies of the second, a scalar, between its elements and at its edges; negative "
        "edges are cut off.",
        constraints=(
            "The first operand is an array.",
            "The second is a scalar of its type.",
            "There is padding for each dimension.",
            "Interior padding is not negative.",
            "No size of the result is negative.",
        ),
    ),
)
