"""Products of an array that has grown by a few elements, as keys and values of a cache do, become products of its
parts.

The array need not be copied to where it has room for what is new: each part is read where it lies.
"""

from __future__ import annotations

from ..hlo.attrs import DotDimensionNumbers
from ..hlo.ir import Computation, Instruction, Module
from ..hlo.types import PRODUCT_TYPES
from ..ops.dot.record import free_dimensions
from ..writing.writer import Writer
from .rewrite import rewrite_computation

_LEAST = 4096
"""Elements that are worth a product more."""
_PART = 8
"""The largest part is all but one of so many of an array that has grown. Products of equal parts are worse than one of
them all."""
_FEW = 4
"""The least ratio of the array's elements to the result's: what is computed of its parts is copied, or added up,
too."""


def split_products(module: Module) -> None:
    """Splits the products of arrays that nothing else reads."""
    for computation in module.computations:
        if any(x.opcode == "dot" for x in computation.instructions) and any(
            x.opcode == "concatenate" for x in computation.instructions
        ):
            rewrite_computation(computation, {"dot": _Splitting(computation).dot})


class _Splitting:
    """The rule for one computation."""

    def __init__(self, computation: Computation):
        self.uses = computation.uses()

    def dot(self, w: Writer, x: Instruction) -> Instruction:
        for side in (0, 1):
            dim, parts = self.grown(w, x, side)
            if parts:
                return _split(w, x, side, dim, parts)
        return x

    def grown(self, w: Writer, x: Instruction, side: int) -> tuple[int, list[Instruction]]:
        """The parts of an operand that has grown along a dimension, and that dimension; no parts of any other
        operand."""
        o, order = x.operands[side], tuple(range(x.operands[side].shape.rank))
        while o.opcode == "transpose" and self.uses.get(o) == 1:
            o, order = o.operands[0], tuple([o.attrs["dimensions"][d] for d in order])
        size = o.shape.size
        if (
            o.opcode != "concatenate"
            or self.uses.get(o) != 1
            or size < max(_LEAST, _FEW * x.shape.size)
            or x.shape.element_type not in PRODUCT_TYPES
        ):
            return 0, []
        if size - max(part.shape.size for part in o.operands) > size // _PART:
            return 0, []
        dim = order.index(o.attrs["dimensions"][0])
        n: DotDimensionNumbers = x.attrs["dot_dimension_numbers"]
        if dim in (n.lhs_batch_dimensions, n.rhs_batch_dimensions)[side]:
            return 0, []
        return dim, [w.transpose(part, order) for part in o.operands]


def _split(w: Writer, x: Instruction, side: int, dim: int, parts: list[Instruction]) -> Instruction:
    """The product with these parts, which lie one behind another along a dimension, for an operand."""
    n: DotDimensionNumbers = x.attrs["dot_dimension_numbers"]
    other = x.operands[1 - side]
    contracted, others = n.lhs_contracting_dimensions, n.rhs_contracting_dimensions
    if side:
        contracted, others = others, contracted
    made, start = [], 0
    for part in parts:
        length = part.shape.dimensions[dim]
        beside = other
        if dim in contracted:
            beside = w.slice_dim(other, others[contracted.index(dim)], start, start + length)
        lhs, rhs = (beside, part) if side else (part, beside)
        made.append(_product(w, x, lhs, rhs))
        start += length
    if dim not in contracted:
        left, right = free_dimensions(x)
        place = len(n.lhs_batch_dimensions) + (len(left) + right.index(dim) if side else left.index(dim))
        return w.concatenate(made, place)
    total = made[0]
    for more in made[1:]:
        total = w.add(total, more)
    return total


def _product(w: Writer, x: Instruction, lhs: Instruction, rhs: Instruction) -> Instruction:
    """The product of these operands for those of `x`; elementwise where it sums nothing up, so that it finishes another
    one."""
    n: DotDimensionNumbers = x.attrs["dot_dimension_numbers"]
    dtype = x.shape.element_type
    made = w.op("dot", lhs, rhs, dtype=dtype, dot_dimension_numbers=n, precision_config=x.attrs["precision_config"])
    if any(lhs.shape.dimensions[d] != 1 for d in n.lhs_contracting_dimensions):
        return made
    dims, (left, right) = made.shape.dimensions, free_dimensions(made)
    batch = len(n.lhs_batch_dimensions)

    def spread(
        o: Instruction, batches: tuple[int, ...], free: list[int], contracted: tuple[int, ...], first: int
    ) -> Instruction:
        order = (*batches, *free)
        turned = w.transpose(w.convert(o, dtype), (*order, *contracted))
        places = (*range(batch), *range(first, first + len(free)))
        return w.broadcast(w.reshape(turned, tuple([o.shape.dimensions[d] for d in order])), dims, places)

    a = spread(lhs, n.lhs_batch_dimensions, left, n.lhs_contracting_dimensions, batch)
    return w.mul(a, spread(rhs, n.rhs_batch_dimensions, right, n.rhs_contracting_dimensions, batch + len(left)))
