"""The product of a sparse matrix, as JAX's BCSR arrays have it on the CPU."""

from __future__ import annotations

from ...hlo.attrs import GatherDimensionNumbers, ScatterDimensionNumbers, Window, WindowDimension
from ...hlo.ir import Computation, Instruction
from ...hlo.shape import Shape
from ...writing.writer import Rule, Writer


def _csr_product(e: Writer, x: Instruction) -> Instruction:
    """A matrix of compressed rows (values, where each row begins, columns) by a vector or a matrix.

    What is the row of a value is the number of rows that have ended before it. Those behind the last row, as padding
    is, are of a row that there is not, which the scatter leaves out.
    """
    values, starts, columns, right = x.operands
    (count,), rest = values.shape.dimensions, right.shape.dimensions[1:]
    if not count:
        return e.full(x.shape.element_type, x.shape.dimensions, 0)
    kind = starts.shape.element_type
    ends = e.slice_dim(starts, 0, 1, starts.shape.dimensions[0])
    ended = _scatter_add(e, e.full(kind, (count,), 0), ends, e.full(kind, ends.shape.dimensions, 1))
    window = Window((WindowDimension(count, padding_low=count - 1),))
    rows = e.op("reduce-window", ended, e.scalar(kind, 0), called=[_sum(e, kind)], window=window)
    read = e.op(
        "gather",
        right,
        columns,
        gather_dimension_numbers=GatherDimensionNumbers(tuple(range(1, 1 + len(rest))), (0,), (0,), 1),
        slice_sizes=(1, *rest),
    )
    products = e.mul(e.broadcast(values, (count, *rest), (0,)), read)
    return _scatter_add(e, e.full(x.shape.element_type, x.shape.dimensions, 0), rows, products)


def _sum(e: Writer, kind: str) -> Computation:
    return e.computation("sum", [Shape(kind)] * 2, lambda inner, a, b: inner.add(a, b))


def _scatter_add(e: Writer, into: Instruction, places: Instruction, updates: Instruction) -> Instruction:
    """Adds rows at places along the first dimension."""
    numbers = ScatterDimensionNumbers(tuple(range(1, into.shape.rank)), (0,), (0,), 1)
    called = [_sum(e, into.shape.element_type)]
    return e.op("scatter", into, places, updates, called=called, scatter_dimension_numbers=numbers)


SPARSE: dict[str, Rule] = {"cpu_csr_sparse_dense_ffi": _csr_product}
"""target -> rule."""
