"""Frees a module from its layouts: from here on every array inside is row-major, whatever its shape says.

What lies otherwise at the boundary comes in and goes out with its dimensions in the order of memory, and a transpose
stands behind each such parameter and before each such result; so it is with what requests bring and take. A bitcast
becomes the same (`ops/movement/expand_bitcast.py`).
"""

from __future__ import annotations

from ..hlo.ir import Computation, Instruction, Module
from ..hlo.shape import Shape
from ..ops.movement.expand_bitcast import BITCAST
from ..writing.writer import Writer
from .rewrite import rewrite, rewrite_computation


def normalize_layouts(module: Module) -> None:
    """Writes layouts, where values depend on them, as transposes of row-major arrays.

    A bitcast that is left changes the element type; so does bitcast-convert between widths of whole bytes, which
    becomes one.
    """
    declared = {x: x.operands[0].shape for x in module.having(*BITCAST)}
    bitcasts = {opcode: lambda w, x, rule=rule: rule(w, x, declared[x]) for opcode, rule in BITCAST.items()}
    rewrite(module, {**bitcasts, "custom-call": _pass_to_host})
    parameters = module.parameter_shapes or [p.shape for p in module.entry.parameters]
    _enter(module.entry, parameters)
    _leave(module.entry, module.result_shape or module.entry.root.shape)
    module.parameter_shapes = module.result_shape = None


def _enter(entry: Computation, declared: list[Shape]) -> None:
    """Gives each parameter the dimensions of its memory, and its users the array that it stands for."""

    def rule(w: Writer, x: Instruction) -> Instruction:
        shape = declared[x.attrs["parameter_number"]]
        if all(leaf.is_row_major for _, leaf in shape.leaves()):
            return x
        x.shape = _in_memory_order(shape)
        return _transposed_leaves(w, w.keep(x), shape, True)

    rewrite_computation(entry, {"parameter": rule})


def _leave(entry: Computation, declared: Shape) -> None:
    """Ends the entry computation with results that have the dimensions of their memory."""
    if not all(leaf.is_row_major for _, leaf in declared.leaves()):
        w = Writer(entry.root, entry.instructions, suffixed=False)
        entry.root = _transposed_leaves(w, entry.root, declared, False)


def _pass_to_host(w: Writer, x: Instruction) -> Instruction:
    """Transposes the operands and the results of a request, so that the host sees them in the order of their memory."""
    request = x.marks.request
    if request is None:
        return x
    if not all(leaf.is_row_major for leaf in request.operands):
        shown = iter(request.operands)
        x.operands = [_transposed_leaves(w, o, o.shape.with_leaves(shown), False) for o in x.operands]
    given = x.shape.with_leaves(iter(request.results))
    x.shape = _in_memory_order(given)
    return x if all(leaf.is_row_major for leaf in request.results) else _transposed_leaves(w, w.keep(x), given, True)


def _in_memory_order(shape: Shape) -> Shape:
    """The shape with the dimensions of every array from major to minor."""
    if shape.is_tuple:
        return Shape.tuple([_in_memory_order(s) for s in shape.tuple_shapes])
    if shape.is_row_major:
        return shape.without_layout()
    order = shape.minor_to_major[::-1]
    dynamic = tuple(shape.dynamic[d] for d in order) if shape.is_dynamic else ()
    return Shape(shape.element_type, tuple(shape.dimensions[d] for d in order), None, dynamic)


def _transposed_leaves(w: Writer, value: Instruction, shape: Shape, inwards: bool) -> Instruction:
    """`value` with the dimensions of its leaves in logical order (`inwards`), or in that of memory."""
    if shape.is_tuple:
        return w.tuple(
            [_transposed_leaves(w, w.element(value, i), inner, inwards) for i, inner in enumerate(shape.tuple_shapes)]
        )
    if not shape.is_array or shape.is_row_major:
        return value
    order = shape.minor_to_major[::-1]
    return w.transpose_back(value, order) if inwards else w.transpose(value, order)
