"""Products: of matrices and vectors that say nothing of dimensions, of groups of rows, and in Einstein's notation."""

from __future__ import annotations

from ...errors import ParseError, UnsupportedError, counted
from ...hlo.attrs import DotDimensionNumbers, PrecisionConfig, RaggedDotDimensionNumbers
from ...hlo.ir import Instruction
from ...mlir.tree import Op
from ...mlir.values import integers, precisions, where, word
from ..stablehlo import Mapper, Rule


def _dot(e: Mapper, op: Op, operands: list[Instruction]) -> list[Instruction]:
    """The last dimension of the left with the first one of the right."""
    left, right = operands
    numbers = DotDimensionNumbers((left.shape.rank - 1,), (0,))
    return [_product(e, op, left, right, numbers)]


def _product(e: Mapper, op: Op, left: Instruction, right: Instruction, numbers: DotDimensionNumbers) -> Instruction:
    dtype = _element_type(e, op, left)
    return e.op(
        "dot",
        left,
        right,
        dtype=dtype,
        dot_dimension_numbers=numbers,
        precision_config=PrecisionConfig(precisions(op.attributes)),
    )


def _element_type(e: Mapper, op: Op, left: Instruction) -> str:
    """Returns the element type of the result, which may be wider than the operands'."""
    shape = e.result_shape(op)
    return shape.element_type if shape is not None else left.shape.element_type


def _ragged_dot(e: Mapper, op: Op, operands: list[Instruction]) -> list[Instruction]:
    """The rows of the left fall into groups, each with a matrix of its own on the right."""
    given = op.attributes
    sides = [
        integers(given.get(f"{s}_{what}_dimensions", ()))
        for what in ("contracting", "batching")
        for s in ("lhs", "rhs")
    ]
    rows, groups = (integers(given.get(name, ())) for name in ("lhs_ragged_dimensions", "rhs_group_dimensions"))
    numbers = RaggedDotDimensionNumbers(DotDimensionNumbers(*sides), rows, groups)
    dtype = _element_type(e, op, operands[0])
    return [
        e.op(
            "ragged-dot",
            *operands,
            dtype=dtype,
            ragged_dot_dimension_numbers=numbers,
            precision_config=PrecisionConfig(precisions(given)),
        )
    ]


def _einsum(e: Mapper, op: Op, operands: list[Instruction]) -> list[Instruction]:
    """`ab,bc->ac`: what only one operand has and the result lacks is summed first."""
    sides, result = _labels(op, operands)
    both = set(sides[0]) & set(sides[1])
    left, right = (_summed(e, x, labels, both | set(result)) for x, labels in zip(operands, sides))
    a, b = ([label for label in labels if label in both or label in result] for labels in sides)
    batch = [label for label in a if label in both and label in result]
    summed = [label for label in a if label in both and label not in result]
    numbers = DotDimensionNumbers(
        *(tuple([side.index(label) for label in labels]) for labels in (summed, batch) for side in (a, b))
    )
    made = _product(e, op, left, right, numbers)
    order = [*batch, *(label for side in (a, b) for label in side if label not in both)]
    return [e.transpose(made, tuple([order.index(label) for label in result]))]


def _unary_einsum(e: Mapper, op: Op, operands: list[Instruction]) -> list[Instruction]:
    """`ab->b`: sums, and another order of the dimensions."""
    (labels,), result = _labels(op, operands)
    (x,) = operands
    order = [label for label in labels if label in result]
    return [e.transpose(_summed(e, x, labels, set(result)), tuple([order.index(label) for label in result]))]


def _labels(op: Op, operands: list[Instruction]) -> tuple[list[str], str]:
    """The letters of the dimensions of each operand and of the result."""
    config = word(op.attributes["einsum_config"]).replace(" ", "")
    left, arrow, result = config.partition("->")
    sides = left.split(",")
    if not arrow or len(sides) != len(operands) or not set(result) <= set(left):
        raise ParseError(f"{where(op)}: {config!r} says nothing of {counted(len(operands), 'operand')} and a result")
    if not all(set(side) <= _LETTERS and len(set(side)) == len(side) for side in (*sides, result)):
        raise UnsupportedError(
            f"{where(op)}: {config!r} has an ellipsis, or a letter twice in one array, which is not supported"
        )
    for side, x in zip(sides, operands):
        if len(side) != x.shape.rank:
            raise ParseError(f"{where(op)}: {side!r} stands for {x.shape} in {config!r}")
    return sides, result


_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


def _summed(e: Mapper, x: Instruction, labels: str, kept: set[str]) -> Instruction:
    """The array without the dimensions whose letters are not kept."""
    dims = tuple([d for d, label in enumerate(labels) if label not in kept])
    return e.reduce(x, e.scalar(x.shape.element_type, 0), dims, "add") if dims else x


STABLEHLO: dict[str, Rule] = {
    "stablehlo.dot": _dot,
    "stablehlo.einsum": _einsum,
    "stablehlo.unary_einsum": _unary_einsum,
    "chlo.ragged_dot": _ragged_dot,
}
