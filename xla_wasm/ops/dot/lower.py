"""dot as an expression: a sum over the contracted dimensions. The GEMM kernels are in `kernels/gemm.py`."""

from __future__ import annotations

from ...hlo.ir import Instruction
from ...loop.affine import Index
from ...loop.ir import Val
from ...loop.nest import fold
from ...lowering.apply import multiply_add
from ...lowering.elemental import Elemental
from .record import free_dimensions


def _dot(e: Elemental, x: Instruction, index: Index) -> Val:
    b = e.b
    n = x.attrs["dot_dimension_numbers"]
    lhs, rhs = x.operands
    dtype = x.shape.element_type
    left, right = free_dimensions(x)
    batch = len(n.lhs_batch_dimensions)
    fixed_left = dict(zip((*n.lhs_batch_dimensions, *left), index[: batch + len(left)]))
    fixed_right = dict(zip((*n.rhs_batch_dimensions, *right), index[:batch] + index[batch + len(left) :]))
    sizes = tuple(lhs.shape.dimensions[d] for d in n.lhs_contracting_dimensions)

    def step(inner: Index, acc: list[Val]) -> list[Val]:
        at_left = fixed_left | dict(zip(n.lhs_contracting_dimensions, inner))
        at_right = fixed_right | dict(zip(n.rhs_contracting_dimensions, inner))
        p = b.convert(e.value(lhs, tuple(at_left[d] for d in range(lhs.shape.rank))), dtype)
        q = b.convert(e.value(rhs, tuple(at_right[d] for d in range(rhs.shape.rank))), dtype)
        return [multiply_add(b, p, q, acc[0])]

    lanes = b.lanes_at(index)
    return fold(b, sizes, [b.const(dtype, 0)], lanes, step)[0]


ELEMENTAL = {"dot": _dot}
