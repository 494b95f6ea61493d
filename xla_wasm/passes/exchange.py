"""Products that are read through a transpose alone exchange their sides, so that they come out as they are read.

The gradient of a layer's weights arrives as such a transpose: what updates the weights then finishes the product.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ..hlo.attrs import DotDimensionNumbers
from ..hlo.ir import Instruction, Module
from ..ops.dot.record import free_dimensions
from ..writing.writer import Writer
from .rewrite import rewrite_computation


def exchange_sides(module: Module) -> None:
    """Exchanges the sides of products of which nothing but a transpose reads the result."""
    for computation in module.computations:
        if any(_exchanged(x) for x in computation.instructions):
            rewrite_computation(computation, {"transpose": partial(_transpose, computation.uses())})


def _transpose(uses: Mapping[Instruction, int], w: Writer, x: Instruction) -> Instruction:
    (o,) = x.operands
    n = _exchanged(x)
    if n is None or uses.get(o) != 1:
        return x
    return w.again(o, *o.operands[::-1], shape=x.shape, dot_dimension_numbers=n)


def _exchanged(x: Instruction) -> DotDimensionNumbers | None:
    """Returns the dimension numbers of the product that has its sides exchanged and is `x`, a transpose of a product;
    None for anything else."""
    if x.opcode != "transpose" or x.operands[0].opcode != "dot":
        return None
    (o,) = x.operands
    n: DotDimensionNumbers = o.attrs["dot_dimension_numbers"]
    batch, left = len(n.lhs_batch_dimensions), len(free_dimensions(o)[0])
    order = (*range(batch), *range(batch + left, o.shape.rank), *range(batch, batch + left))
    if x.attrs["dimensions"] != order:
        return None
    return DotDimensionNumbers(
        n.rhs_contracting_dimensions, n.lhs_contracting_dimensions, n.rhs_batch_dimensions, n.lhs_batch_dimensions
    )
