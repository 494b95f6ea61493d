"""Scans, whose operands and results StableHLO counts in groups."""

from __future__ import annotations

from ...errors import ParseError, counted
from ...hlo.ir import Instruction
from ...mlir.tree import Op
from ...mlir.values import flag, integer, integers, where
from ..stablehlo import Mapper, Rule


def _scan(e: Mapper, op: Op, operands: list[Instruction]) -> list[Instruction]:
    """The arrays that are walked over come first, then the first values of what is carried."""
    given = op.attributes
    arrays, carries = integers(given["operandSegmentSizes"])
    if arrays + carries != len(operands) or min(arrays, carries) < 0:
        raise ParseError(
            f"{where(op)}: {counted(arrays, 'array')} and {carries} first values are not "
            f"{counted(len(operands), 'operand')}"
        )
    made = e.op(
        "scan",
        *operands,
        called=[e.region(op)],
        dimensions=(integer(given["dimension"]),),
        num_carries=carries,
        is_reverse=flag(given, "is_reverse"),
        is_associative=flag(given, "is_associative") if "is_associative" in given else None,
    )
    return e.results(made)


STABLEHLO: dict[str, Rule] = {"chlo.scan": _scan}
