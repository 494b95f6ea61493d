"""dot as an expression: a sum over the contracted dimension. The GEMM kernels are in `kernels/gemm.py`."""

from __future__ import annotations

from collections.abc import Callable

from ...hlo.ir import Instruction
from ...loop.affine import Index
from ...loop.ir import Val
from ...loop.nest import fold
from ...lowering.apply import multiply_add
from ...lowering.elemental import Elemental


def _dot(e: Elemental, x: Instruction, index: Index) -> Val:
    """Of [batch..., m, k] and [batch..., k, n] (`ops.dot.canonical`)."""
    *batch, m, n = index
    sizes = x.operands[0].shape.dimensions[-1:]
    return sum_of_products(e, x, e.b.lanes_at(index), sizes, lambda inner: ((*batch, m, *inner), (*batch, *inner, n)))


def sum_of_products(
    e: Elemental, x: Instruction, lanes: int, sizes: tuple[int, ...], at: Callable[[Index], tuple[Index, Index]]
) -> Val:
    """An element of the product `x`: a sum over `sizes`, of which `at` gives the indices in both operands."""
    b, dtype = e.b, x.shape.element_type

    def step(inner: Index, total: list[Val]) -> list[Val]:
        p, q = (b.convert(e.value(o, index), dtype) for o, index in zip(x.operands, at(inner)))
        return [multiply_add(b, p, q, total[0])]

    return fold(b, sizes, [b.const(dtype, 0)], lanes, step)[0]


ELEMENTAL = {"dot": _dot}
