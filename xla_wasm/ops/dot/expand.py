"""ragged-dot as a loop of products, one for each group; scaled-dot as a dot of operands that are scaled first; products
of floats that give integers as products that give floats."""

from __future__ import annotations

from ...hlo.attrs import DotDimensionNumbers, RaggedDotDimensionNumbers
from ...hlo.infer import KIND, wider
from ...hlo.ir import Instruction
from ...hlo.types import TYPES
from ...writing.writer import Index, Rule, Writer

Span = tuple[Instruction, Instruction]
"""The begin and the end of a group along the ragged dimension; s32, with the prefix dimensions."""


def ragged_prefix(numbers: RaggedDotDimensionNumbers, lhs_rank: int, side: int = 0) -> tuple[str, int, Index]:
    """Returns the mode of the groups (batch, contracting or free), and of operand `side` the ragged dimension and the
    dimensions before it.

    Group sizes may differ along the batch dimensions and along the dimensions of the ragged one's kind that precede it.
    """
    n = numbers.dot_dimension_numbers
    batch = (n.lhs_batch_dimensions, n.rhs_batch_dimensions)
    contracted = (n.lhs_contracting_dimensions, n.rhs_contracting_dimensions)
    (ragged,) = numbers.lhs_ragged_dimensions
    if ragged in batch[0]:
        place = batch[0].index(ragged)
        return "batch", batch[side][place], batch[side][:place]
    if ragged in contracted[0]:
        place = contracted[0].index(ragged)
        return "contracting", contracted[side][place], (*batch[side], *contracted[side][:place])
    free = [d for d in range(lhs_rank) if d not in batch[0] and d not in contracted[0]]
    return "free", ragged, (*batch[0], *free[: free.index(ragged)])


def _ragged_dot(e: Writer, x: Instruction) -> Instruction:
    lhs, rhs, sizes = x.operands
    ragged: RaggedDotDimensionNumbers = x.attrs["ragged_dot_dimension_numbers"]
    numbers = ragged.dot_dimension_numbers
    dtype = x.shape.element_type
    mode, dim, prefix = ragged_prefix(ragged, lhs.shape.rank)
    if mode == "batch":
        return e.dot(lhs, rhs, numbers, dtype)
    groups = sizes.shape.dimensions[-1]
    length = lhs.shape.dimensions[dim]
    prefix_dims = tuple(lhs.shape.dimensions[d] for d in prefix)
    table = _clamped(e, sizes, length)
    if sizes.shape.rank == 1:
        table = e.broadcast(table, (*prefix_dims, groups), (len(prefix),))
    begin = e.full("s32", prefix_dims, 0)
    out = e.full(dtype, x.shape.dimensions, 0)
    single = (*prefix_dims, 1)

    def step(e: Writer, i: Instruction, *state: Instruction) -> list[Instruction]:
        begin, out, table, lhs, rhs = state
        zero = e.scalar("s32", 0)
        size = e.reshape(e.dynamic_slice(table, [*(zero for _ in prefix), i], single), prefix_dims)
        end = e.binary("minimum", e.add(begin, size), length)
        span = (begin, end)
        if mode == "free":
            product = e.dot(lhs, *_of_group(e, rhs, numbers, ragged.rhs_group_dimensions[0], i), dtype)
            order = _result_order(numbers, lhs.shape.rank)
            live = _inside(e, span, product.shape.dimensions, tuple(order.index(d) for d in prefix), order.index(dim))
            out = e.select(live, product, out)
        else:
            _, other, other_prefix = ragged_prefix(ragged, lhs.shape.rank, 1)
            left = e.select(_inside(e, span, lhs.shape.dimensions, prefix, dim), lhs, 0)
            right = e.select(_inside(e, span, rhs.shape.dimensions, other_prefix, other), rhs, 0)
            product = e.dot(left, right, numbers, dtype)
            update = e.reshape(product, (1, *product.shape.dimensions))
            out = e.dynamic_update_slice(out, update, [i, *(zero for _ in product.shape.dimensions)])
        return [end, out, table, lhs, rhs]

    return e.for_(groups, [begin, out, table, lhs, rhs], step)[1]


def _clamped(e: Writer, sizes: Instruction, length: int) -> Instruction:
    """Group sizes as s32 of at most the whole length, so that no sum of them overflows."""
    dtype = sizes.shape.element_type
    wide = e.convert(sizes, "u64" if dtype.startswith("u") else "s64")
    return e.convert(e.binary("maximum", e.binary("minimum", wide, length), 0), "s32")


def _of_group(
    e: Writer, rhs: Instruction, numbers: DotDimensionNumbers, group: int, i: Instruction
) -> tuple[Instruction, DotDimensionNumbers]:
    """The right operand of group `i`, and the dimension numbers without the group dimension."""
    dims = rhs.shape.dimensions
    zero = e.scalar("s32", 0)
    part = e.dynamic_slice(
        rhs, [i if d == group else zero for d in range(len(dims))], (*dims[:group], 1, *dims[group + 1 :])
    )
    contracted, batch = (
        tuple(d - (d > group) for d in listed)
        for listed in (numbers.rhs_contracting_dimensions, numbers.rhs_batch_dimensions)
    )
    shifted = DotDimensionNumbers(numbers.lhs_contracting_dimensions, contracted, numbers.lhs_batch_dimensions, batch)
    return e.reshape(part, (*dims[:group], *dims[group + 1 :])), shifted


def _result_order(numbers: DotDimensionNumbers, rank: int) -> list[int]:
    """The dimensions of the left operand in the order in which a product has them."""
    batch = numbers.lhs_batch_dimensions
    return [*batch, *(d for d in range(rank) if d not in batch and d not in numbers.lhs_contracting_dimensions)]


def _inside(e: Writer, span: Span, dims: Index, prefix: Index, dim: int) -> Instruction:
    """Returns a mask of the elements of an array of `dims` that belong to the group; `prefix` are the array's prefix
    dimensions."""
    place = e.iota("s32", dims, dim)
    low, high = (e.broadcast(bound, dims, prefix) for bound in span)
    return e.binary("and", e.compare("GE", place, low), e.compare("LT", place, high))


def _scaled_dot(e: Writer, x: Instruction) -> Instruction:
    lhs, rhs, lhs_scale, rhs_scale = x.operands
    dtype = x.shape.element_type
    left, right = (_scaled(e, e.convert(o, dtype), scale) for o, scale in ((lhs, lhs_scale), (rhs, rhs_scale)))
    return e.dot(left, right, x.attrs["dot_dimension_numbers"], dtype)


def _scaled(e: Writer, operand: Instruction, scale: Instruction) -> Instruction:
    """Each block of the operand times its scale; a scalar stands for no scale at all."""
    if not scale.shape.dimensions:
        return operand
    dims = operand.shape.dimensions
    split: list[int] = []
    kept: list[int] = []
    for size, blocks in zip(dims, scale.shape.dimensions):
        kept.append(len(split))
        split += [blocks, size // blocks if blocks else 1]
    spread = e.broadcast(e.convert(scale, operand.shape.element_type), tuple(split), tuple(kept))
    return e.mul(operand, e.reshape(spread, dims))


def in_factors(e: Writer, x: Instruction) -> Instruction:
    """A product of floats that gives integers, and one of numbers that gives pred, is one in the type of its factors,
    and is converted, as XLA:CPU has it. Any other stays."""
    given = [o.shape.element_type for o in x.operands[:2]]
    kind, floats = KIND[x.shape.element_type], "float" in map(KIND.__getitem__, given)
    from_floats = floats and kind in ("signed", "unsigned")
    is_nonzero = kind == "pred" and given != ["pred", "pred"]
    if not from_floats and not is_nonzero:
        return x
    factors = wider(*given) if floats else max(given, key=lambda name: TYPES[name].bits)
    return e.convert(e.again(x, *x.operands, dtype=factors), x.shape.element_type)


EXPAND: dict[str, Rule] = {"ragged-dot": _ragged_dot, "scaled-dot": _scaled_dot, "dot": in_factors}
