"""Frees a module from its layouts: from here on every array inside is row-major, whatever its shape says."""

from __future__ import annotations

from ..hlo.ir import Computation, Instruction, Module
from ..hlo.shape import Shape
from ..hlo.types import TYPES
from .simplify import derived


def forget_layouts(module: Module) -> None:
    """Writes the bitcasts, whose meaning hangs on layouts, as transposes and reshapes around one of dense row-major bytes.

    A bitcast that is left changes the element type; so does bitcast-convert between widths, which becomes one.
    """
    for computation in module.computations:
        if any(x.opcode in ("bitcast", "bitcast-convert") for x in computation.instructions):
            _rewrite(computation)


def _rewrite(computation: Computation) -> None:
    replaced: dict[Instruction, Instruction] = {}
    result: list[Instruction] = []
    for x in computation.instructions:
        laid_out = [o.shape for o in x.operands]
        x.operands = [replaced.get(o, o) for o in x.operands]
        made = [x]
        if x.opcode == "bitcast" and x.shape.is_array:
            made = _bitcast(x, laid_out[0])
        elif x.opcode == "bitcast-convert" and TYPES[x.shape.element_type].bits != TYPES[laid_out[0].element_type].bits:
            made = [derived(x, "bitcast", x.shape.without_layout(), x.operands)]
        result += made
        if made[-1] is not x:
            replaced[x] = made[-1]
    computation.root = replaced.get(computation.root, computation.root)
    computation.instructions = result


def _bitcast(x: Instruction, source: Shape) -> list[Instruction]:
    """The operand in the order of its bytes, under its new shape, and back from the order of the result's bytes."""
    (o,) = x.operands
    made: list[Instruction] = []
    before, after = source.minor_to_major[::-1], x.shape.minor_to_major[::-1]
    if not source.is_row_major:
        dims = tuple(source.dimensions[d] for d in before)
        o = derived(x, "transpose", source.with_dimensions(dims), [o], dimensions=before)
        made.append(o)
    opcode = "reshape" if source.element_type == x.shape.element_type else "bitcast"
    o = derived(x, opcode, x.shape.with_dimensions(tuple(x.shape.dimensions[d] for d in after)), [o])
    made.append(o)
    if not x.shape.is_row_major:
        back = tuple(after.index(d) for d in range(len(after)))
        made.append(derived(x, "transpose", x.shape.without_layout(), [o], dimensions=back))
    return made
