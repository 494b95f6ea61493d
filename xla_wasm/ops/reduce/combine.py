"""How the reference evaluator runs a reducer over many lanes at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...hlo.ir import Computation
from ..arrays import Array, wide
from ..elementwise.reference import BINARY

MONOIDS = ("add", "multiply", "maximum", "minimum", "and", "or", "xor")

Combine = Callable[[Sequence[Array], Sequence[Array]], list[Array]]


def monoid(computation: Computation) -> str | None:
    """The opcode, if the computation is one associative and commutative operation on its two parameters."""
    root = computation.root
    if root.opcode not in MONOIDS or len(computation.parameters) != 2:
        return None
    numbers = sorted(o.attrs["parameter_number"] for o in root.operands if o.opcode == "parameter")
    return root.opcode if numbers == [0, 1] else None


def combiner(computation: Computation, call: Any) -> tuple[Combine, bool]:
    """A function (accumulators, elements) -> accumulators over lanes, and whether accumulators are kept wide.

    Sums and products of one operand are kept in f64 and rounded only at the end: the reference is to be nearer to the
    true value than what it judges. Any other computation runs as it is written.
    """
    opcode = monoid(computation)
    if opcode is not None:
        fn = BINARY[opcode]
        return lambda left, right: [fn(wide(left[0]), wide(right[0]))], True

    def run(left: Sequence[Array], right: Sequence[Array]) -> list[Array]:
        result = call.lanes(computation, *left, *right)
        return list(result) if isinstance(result, tuple) else [result]

    return run, False
