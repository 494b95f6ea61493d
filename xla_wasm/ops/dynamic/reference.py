"""NumPy semantics of dimension sizes; dimensions whose size is known only at run time are not evaluated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import UnsupportedError
from ...hlo.ir import Instruction
from ..arrays import Value


def _get_dimension_size(instr: Instruction, operands: list[Value], call: Any) -> Value:
    shape, (dim,) = instr.operands[0].shape, instr.attrs["dimensions"]
    if shape.is_dynamic and shape.dynamic[dim]:
        raise UnsupportedError(f"the reference evaluator does not know dynamic sizes: {instr.where}")
    return np.int32(shape.dimensions[dim])


EVALUATE: dict[str, Callable[[Instruction, list[Value], Any], Value]] = {"get-dimension-size": _get_dimension_size}
