"""dot as batched products of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...hlo.attrs import DotDimensionNumbers
from ...hlo.ir import Instruction
from ...hlo.types import PAIRED
from ...writing.writer import Rule, Writer
from .canonical_integers import even, narrowed, product_types
from .record import free_dimensions
from .stored import is_widening

_ROW = 16
"""Elements of a row that is worth the vectors along it."""


def _dot(w: Writer, x: Instruction) -> Instruction:
    """Operands become [batch..., m, k] and [batch..., k, n] by index maps; the result gets its dimensions back.
    Integers of at most 16 bits are multiplied in pairs (`canonical_integers.py`).

    Products read their left side along k where it lies and pack their right side anyway, so a left side that would have
    to be transposed changes places with a right side that would not. So does a single row: the other side is read once,
    and transposing it would take longer than the product does.
    """
    n = x.attrs["dot_dimension_numbers"]
    lhs, rhs = x.operands
    dtype, sums = product_types(x)
    left, right = free_dimensions(x)
    contracted, other = n.lhs_contracting_dimensions, n.rhs_contracting_dimensions
    swapped = _trailing(rhs, other) and (_is_row(lhs, left, contracted) or not _trailing(lhs, contracted))
    batches, other_batches = n.lhs_batch_dimensions, n.rhs_batch_dimensions
    if swapped:
        lhs, rhs, left, right, contracted, other, batches, other_batches = (
            rhs,
            lhs,
            right,
            left,
            other,
            contracted,
            other_batches,
            batches,
        )
    rank = len(batches)
    canonical = canonical_numbers(rank)
    if (
        not swapped
        and n == canonical
        and lhs.shape.rank == rhs.shape.rank == rank + 2
        and lhs.shape.element_type == rhs.shape.element_type == dtype
        and x.shape.element_type == sums
        and not (dtype == PAIRED and lhs.shape.dimensions[-1] % 2)
    ):
        return x

    a, c = _narrowest(lhs), _narrowest(rhs)
    if dtype == PAIRED:
        a, c = narrowed(w, a, "u8"), narrowed(w, c, "s8")  # few engines have to make up for these
    a = arranged(w, a, batches, left, contracted)
    c = arranged(w, c, other_batches, other, right)
    if dtype == PAIRED:
        a, c = even(w, a, rank + 1), even(w, c, rank)
    a, c = (w.convert(side, dtype, weight_format=o.marks.weight_format) for side, o in ((a, lhs), (c, rhs)))
    product = w.op(
        "dot", a, c, dtype=sums, dot_dimension_numbers=canonical, precision_config=x.attrs.get("precision_config")
    )
    free = [*(lhs.shape.dimensions[d] for d in left), *(rhs.shape.dimensions[d] for d in right)]
    product = w.convert(product, x.shape.element_type)
    whole = w.reshape(product, (*product.shape.dimensions[:rank], *free))
    if not swapped:
        return whole
    return w.transpose(
        whole, (*range(rank), *range(rank + len(left), rank + len(free)), *range(rank, rank + len(left)))
    )


def arranged(w: Writer, x: Instruction, batches: Sequence[int], *parts: Sequence[int]) -> Instruction:
    """An operand with its batch dimensions first, then one dimension of each part."""
    sizes = tuple(prod(x.shape.dimensions[d] for d in part) for part in parts)
    moved = w.transpose(x, (*batches, *(d for part in parts for d in part)))
    return w.reshape(moved, (*moved.shape.dimensions[: len(batches)], *sizes))


def canonical_numbers(batches: int) -> DotDimensionNumbers:
    """Returns the dimension numbers of a product of [batch..., m, k] and [batch..., k, n]."""
    return DotDimensionNumbers((batches + 1,), (batches,), tuple(range(batches)), tuple(range(batches)))


def _narrowest(x: Instruction) -> Instruction:
    """Returns the operand of a conversion that changes no number; any other instruction itself."""
    return x.operands[0] if is_widening(x) else x


def _is_row(x: Instruction, free: Sequence[int], contracted: Sequence[int]) -> bool:
    """Returns True if an operand is one row of several vectors."""
    dims = x.shape.dimensions
    return all(dims[d] == 1 for d in free) and prod(dims[d] for d in contracted) >= _ROW


def _trailing(x: Instruction, dims: tuple[int, ...]) -> bool:
    """Returns True if these dimensions are the last ones of an operand where it lies in memory, seen through transposes
    and conversions."""
    while x.opcode == "transpose" or is_widening(x):
        if x.opcode == "transpose":
            dims = tuple(x.attrs["dimensions"][d] for d in dims)
        x = x.operands[0]
    return dims == tuple(range(x.shape.rank - len(dims), x.shape.rank))


CANONICAL: dict[str, Rule] = {"dot": _dot}
