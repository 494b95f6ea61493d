"""Notes which products may be added with one rounding: what a target makes of it is for the kernels to say."""

from __future__ import annotations

from ..hlo.ir import Computation, Instruction, Module
from ..ops.reading import record


def contract(module: Module) -> None:
    """Marks the additions that take a product which nothing else reads."""
    for computation in module.computations:
        _contract(computation)


def _contract(computation: Computation) -> None:
    """The other operand must be no product: in a difference of two, as the imaginary part of a number times its
    conjugate, one would be rounded and the other not, and what cancels would not. Subtractions are left as they are for
    the same reason: they are where programs mean what cancels."""
    uses = computation.uses()
    for x in computation.instructions:
        if x.opcode == "add" and x.shape.element_type in ("f32", "f64"):
            for i, (product, other) in enumerate((x.operands, x.operands[::-1])):
                if product.opcode == "multiply" and uses[product] == 1 and not _is_product(other):
                    x.mark(contracted=i)
                    break


def _is_product(x: Instruction) -> bool:
    """Returns True if a value is a product, or one seen through indices and signs."""
    while record(x).view or x.opcode in ("negate", "copy", "abs"):
        x = x.operands[0]
    return x.opcode == "multiply"
