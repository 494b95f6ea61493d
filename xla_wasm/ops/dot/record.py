"""Records of the products of matrices."""

from __future__ import annotations

from functools import lru_cache

from ...errors import counted
from ...hlo.attrs import DotDimensionNumbers, PrecisionConfig, RaggedDotDimensionNumbers
from ...hlo.index_map import Coordinate, IndexMap, along, index_map
from ...hlo.infer import NOT_ARRAYS, array, brief, broken, dimension, dimensions, need_kind, product_type, result, wider
from ...hlo.ir import Instruction
from ...hlo.op import REQUIRED, Attr, Kind, Narrow, Op, Read
from ...hlo.shape import Shape

_PRECISION = Attr("precision_config", "precision_config", (51,), PrecisionConfig())


def _sizes(instr: Instruction, lhs: Shape, rhs: Shape, numbers: DotDimensionNumbers) -> list[int]:
    """The sizes of a dot's result: batch, free dimensions of the left, free dimensions of the right. Checks rules 2 to
    4."""
    pairs = (
        ("contracting", numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions),
        ("batch", numbers.lhs_batch_dimensions, numbers.rhs_batch_dimensions),
    )
    dimensions(instr, (*pairs[0][1], *pairs[1][1]), lhs.rank, 2, "dimensions of the left operand")
    dimensions(instr, (*pairs[0][2], *pairs[1][2]), rhs.rank, 2, "dimensions of the right operand")
    for what, left, right in pairs:
        if len(left) != len(right):
            raise broken(instr, 3, f"{len(left)} {what} dimensions of the left operand, {len(right)} of the right")
        for a, b in zip(left, right):
            if lhs.dimensions[a] != rhs.dimensions[b]:
                raise broken(instr, 4, f"{what} dimensions {a} of {brief(lhs)} and {b} of {brief(rhs)} differ in size")
    left_used, right_used = ({*pairs[0][side], *pairs[1][side]} for side in (1, 2))
    return [
        *(lhs.dimensions[d] for d in pairs[1][1]),
        *(size for d, size in enumerate(lhs.dimensions) if d not in left_used),
        *(size for d, size in enumerate(rhs.dimensions) if d not in right_used),
    ]


def _dot(instr: Instruction) -> Shape:
    lhs, rhs = array(instr, 0), array(instr, 1)
    sizes = _sizes(instr, lhs, rhs, instr.attrs["dot_dimension_numbers"])
    return result(instr, product_type(instr, lhs, rhs, 5), sizes)


def _ragged_dot(instr: Instruction) -> Shape:
    lhs, rhs, groups = array(instr, 0), array(instr, 1), array(instr, 2)
    ragged: RaggedDotDimensionNumbers = instr.attrs["ragged_dot_dimension_numbers"]
    numbers = ragged.dot_dimension_numbers
    if len(ragged.lhs_ragged_dimensions) != 1:
        raise broken(instr, 6, f"there must be one ragged dimension, not {len(ragged.lhs_ragged_dimensions)}")
    dim = dimension(instr, ragged.lhs_ragged_dimensions[0], lhs.rank, 6, "the ragged dimension")
    need_kind(instr, groups.element_type, ("signed", "unsigned"), 7, "the group sizes")
    if not 1 <= groups.rank <= lhs.rank:
        raise broken(
            instr, 7, f"the group sizes must have from 1 to {counted(lhs.rank, 'dimension')}, not {brief(groups)}"
        )
    count = groups.dimensions[-1]
    contracting, batch = dim in numbers.lhs_contracting_dimensions, dim in numbers.lhs_batch_dimensions
    group_dims = dimensions(instr, ragged.rhs_group_dimensions, rhs.rank, 8, "rhs_group_dimensions")
    if len(group_dims) != (0 if contracting or batch else 1):
        raise broken(
            instr, 8, f"there must be {0 if contracting or batch else 1} group dimensions, not {len(group_dims)}"
        )
    if group_dims and {*group_dims} & {*numbers.rhs_contracting_dimensions, *numbers.rhs_batch_dimensions}:
        raise broken(instr, 8, "the group dimension must be neither contracting nor batch")
    if group_dims and rhs.dimensions[group_dims[0]] != count:
        raise broken(instr, 8, f"dimension {group_dims[0]} of {brief(rhs)} is not the number of groups, {count}")
    sizes = _sizes(instr, lhs, rhs, numbers)
    if group_dims:
        used = {*numbers.rhs_contracting_dimensions, *numbers.rhs_batch_dimensions}
        place = [d for d in range(rhs.rank) if d not in used].index(group_dims[0])
        del sizes[len(sizes) - (rhs.rank - len(used)) + place]
    elif contracting:
        sizes.insert(0, count)
    return result(instr, product_type(instr, lhs, rhs, 5), sizes)


def _scaled_dot(instr: Instruction) -> Shape:
    lhs, rhs = array(instr, 0), array(instr, 1)
    numbers: DotDimensionNumbers = instr.attrs["dot_dimension_numbers"]
    sizes = _sizes(instr, lhs, rhs, numbers)
    if len(numbers.lhs_contracting_dimensions) != 1:
        raise broken(
            instr, 7, f"there must be one contracting dimension, not {len(numbers.lhs_contracting_dimensions)}"
        )
    for index, shape in ((2, lhs), (3, rhs)):
        scale = array(instr, index)
        need_kind(instr, scale.element_type, ("float",), 6, "a scale")
        fits = scale.rank == shape.rank and all(
            size % part == 0 if part else size == 0 for size, part in zip(shape.dimensions, scale.dimensions)
        )
        if scale.dimensions and not fits:
            raise broken(instr, 6, f"the scale {brief(scale)} does not divide {brief(shape)}")
    if instr.shape.element_type in NOT_ARRAYS:
        return result(instr, wider(lhs.element_type, rhs.element_type), sizes)
    need_kind(instr, instr.shape.element_type, ("float",), 5, "the result")
    return result(instr, instr.shape.element_type, sizes)


_DOT = (
    "The operands are arrays.",
    "Contracting and batch dimensions are different dimensions of their operand.",
    "Both operands have equally many contracting dimensions, and equally many batch dimensions.",
    "Paired dimensions have equal sizes.",
    "The result has any type, but a complex one if the product has. Floats that become integers are rounded to floats "
    "first.",
)


def free_dimensions(x: Instruction) -> tuple[list[int], list[int]]:
    """The dimensions of each operand of a dot that are neither batch nor contracting."""
    lhs, rhs = x.operands[:2]
    return _free(x.attrs["dot_dimension_numbers"], lhs.shape.rank, rhs.shape.rank)


def _free(n: DotDimensionNumbers, lhs_rank: int, rhs_rank: int) -> tuple[list[int], list[int]]:
    left = [d for d in range(lhs_rank) if d not in n.lhs_batch_dimensions and d not in n.lhs_contracting_dimensions]
    right = [d for d in range(rhs_rank) if d not in n.rhs_batch_dimensions and d not in n.rhs_contracting_dimensions]
    return left, right


def _read_dot(x: Instruction) -> list[Read]:
    lhs, rhs = x.operands[:2]
    return list(
        _product_reads(x.attrs["dot_dimension_numbers"], lhs.shape.dimensions, rhs.shape.dimensions, x.shape.dimensions)
    )


def _read_scaled_dot(x: Instruction) -> list[Read]:
    """A scale is read at the block that its operand is read in. A scalar stands for no scale, and is not read."""
    sides, dims = _read_dot(x), x.shape.dimensions
    scales = [
        Read(side.kind, _of_blocks(side.map, o.shape.dimensions), side.box)
        if o.shape.rank
        else Read(side.kind, along((*dims, 0), (), ()), (0,))
        for side, o in zip(sides, x.operands[2:])
    ]
    return [*sides, *scales]


def _of_blocks(m: IndexMap, blocks: tuple[int, ...]) -> IndexMap:
    """The map at whose indices an array of so many blocks is read, where `m` reads what it scales."""
    return m if m.dims == blocks else m.then(_blocks(m.dims, blocks))


@lru_cache(1024)
def _blocks(dims: tuple[int, ...], blocks: tuple[int, ...]) -> IndexMap:
    """Of each index below `dims` the index of its block."""
    sizes = [size // count if count else 1 for size, count in zip(dims, blocks)]
    places = [Coordinate(0, ((1, d, size, count),)) for d, (size, count) in enumerate(zip(sizes, blocks))]
    return index_map(dims, blocks, places)


@lru_cache(1024)
def _product_reads(
    n: DotDimensionNumbers, lhs: tuple[int, ...], rhs: tuple[int, ...], dims: tuple[int, ...]
) -> tuple[Read, ...]:
    left, right = _free(n, len(lhs), len(rhs))
    batch, rank = len(n.lhs_batch_dimensions), len(dims)
    box = tuple([lhs[d] for d in n.lhs_contracting_dimensions])
    sides = (
        (lhs, n.lhs_batch_dimensions, left, batch, n.lhs_contracting_dimensions),
        (rhs, n.rhs_batch_dimensions, right, batch + len(left), n.rhs_contracting_dimensions),
    )
    reads = []
    for own, batches, free, first, contracting in sides:
        to = {d: i for i, d in enumerate(batches)} | {d: first + i for i, d in enumerate(free)}
        to |= {d: rank + i for i, d in enumerate(contracting)}
        places = [(0, 1, to[d]) for d in range(len(own))]
        reads.append(Read(Kind.REDUCED, along(dims + box, own, places), box))
    return (*reads,)


OPS: tuple[Op, ...] = (
    Op(
        "dot",
        (2, 2),
        _dot,
        (Attr("dot_dimension_numbers", "dot_dimension_numbers", (30,), REQUIRED), _PRECISION),
        reads=_read_dot,
        product=True,
        accumulates=True,
        narrow=Narrow.COMPUTED,
        stablehlo=("stablehlo.dot_general",),
        doc="Sums of products over the contracting dimensions, for each index of the batch dimensions.",
        constraints=_DOT,
    ),
    Op(
        "ragged-dot",
        (3, 3),
        _ragged_dot,
        (Attr("ragged_dot_dimension_numbers", "ragged_dot_dimension_numbers", (90,), REQUIRED), _PRECISION),
        narrow=Narrow.COMPUTED,
        doc="A dot whose left operand falls into groups along one dimension, each with a right operand or a result of "
        "its own.",
        constraints=(
            *_DOT,
            "There is one ragged dimension, of the left operand.",
            "The group sizes are integers [groups], with leading batch dimensions if any.",
            "There is one group dimension of the right operand, of that size; none if the ragged dimension is "
            "contracting or batch.",
        ),
    ),
    Op(
        "scaled-dot",
        (4, 4),
        _scaled_dot,
        (Attr("dot_dimension_numbers", "dot_dimension_numbers", (30,), REQUIRED), _PRECISION),
        reads=_read_scaled_dot,
        product=True,
        accumulates=True,
        narrow=Narrow.COMPUTED,
        doc="A dot of operands given in blocks, each with a scale: left, right, left scales, right scales.",
        constraints=(
            *_DOT[:4],
            "The result is float.",
            "A scale is a float scalar, or has its operand's rank and sizes that divide the operand's.",
            "There is one contracting dimension.",
        ),
    ),
)
