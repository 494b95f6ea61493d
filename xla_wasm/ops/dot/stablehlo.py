"""The product of matrices and vectors that says nothing of dimensions."""

from __future__ import annotations

from ...hlo.attrs import DotDimensionNumbers, PrecisionConfig
from ...hlo.ir import Instruction
from ...mlir.tree import Op
from ...mlir.values import word
from ..stablehlo import Mapper, Rule


def _dot(e: Mapper, op: Op, operands: list[Instruction]) -> list[Instruction]:
    """The last dimension of the left with the first one of the right."""
    left, right = operands
    given = op.attributes.get("precision_config", ())
    precision = PrecisionConfig(tuple([word(v).lower() for v in given]))
    numbers = DotDimensionNumbers((left.shape.rank - 1,), (0,))
    shape = e.result_shape(op)
    dtype = shape.element_type if shape is not None else left.shape.element_type
    return [e.op("dot", left, right, dtype=dtype, dot_dimension_numbers=numbers, precision_config=precision)]


STABLEHLO: dict[str, Rule] = {"stablehlo.dot": _dot}
