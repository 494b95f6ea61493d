"""Frees a module from its layouts: from here on every array inside is row-major, whatever its shape says.

What lies otherwise at the boundary comes in and goes out with its dimensions in the order of memory, and a transpose
stands behind each such parameter and before each such result; so it is with what requests bring and take. A bitcast
becomes the same: the operand in the order of its bytes, read as the result's.
"""

from __future__ import annotations

from math import prod

from ..errors import UnsupportedError
from ..hlo.attrs import PaddingDimension, SliceDimension
from ..hlo.ir import Computation, Instruction, Module
from ..hlo.layout import Tiling, element_bits, is_plain, physical_bounds, physical_elements, prefix_bytes, tilings
from ..hlo.literal import Literal
from ..hlo.shape import Index, Shape
from ..hlo.types import TYPES
from ..ops.request import REQUEST
from .simplify import derived
from .sweep import Emit, appending, sweep


def forget_layouts(module: Module) -> None:
    """Writes layouts, where values depend on them, as transposes of row-major arrays.

    A bitcast that is left changes the element type; so does bitcast-convert between widths of whole bytes, which becomes one.
    """
    for computation in module.computations:
        _bring_into_order(computation)
        sweep(computation, _pass_to_host)
    parameters = module.parameter_shapes or [p.shape for p in module.entry.parameters]
    _enter(module.entry, parameters)
    _leave(module.entry, module.result_shape or module.entry.root.shape)
    module.parameter_shapes = module.result_shape = None


# --- the boundary ---------------------------------------------------------------------------------------------------


def _enter(entry: Computation, declared: list[Shape]) -> None:
    """Gives each parameter the dimensions of its memory, and its users the array that it stands for."""
    shapes = dict(zip(entry.parameters, declared))

    def visit(x: Instruction, emit: Emit) -> Instruction:
        shape = shapes.get(x)
        if shape is None or all(leaf.is_row_major for _, leaf in shape.leaves()):
            return x
        x.shape = _in_memory_order(shape)
        return _transposed_leaves(x, emit(x), shape, True, emit)

    sweep(entry, visit)


def _leave(entry: Computation, declared: Shape) -> None:
    """Ends the entry computation with results that have the dimensions of their memory."""
    if not all(leaf.is_row_major for _, leaf in declared.leaves()):
        entry.root = _transposed_leaves(entry.root, entry.root, declared, False, appending(entry.instructions))


def _pass_to_host(x: Instruction, emit: Emit) -> Instruction:
    """Gives what a request takes and brings the dimensions of its memory there."""
    request = x.attrs.get(REQUEST)
    if request is None:
        return x
    if not all(leaf.is_row_major for leaf in request.operands):
        shown = iter(request.operands)
        x.operands = [_transposed_leaves(x, o, o.shape.with_leaves(shown), False, emit) for o in x.operands]
    given = x.shape.with_leaves(iter(request.results))
    x.shape = _in_memory_order(given)
    return x if all(leaf.is_row_major for leaf in request.results) else _transposed_leaves(x, emit(x), given, True, emit)


def _in_memory_order(shape: Shape) -> Shape:
    """The shape with the dimensions of every array from major to minor."""
    if shape.is_tuple:
        return Shape.tuple([_in_memory_order(s) for s in shape.tuple_shapes])
    if shape.is_row_major:
        return shape.without_layout()
    order = shape.minor_to_major[::-1]
    dynamic = tuple(shape.dynamic[d] for d in order) if shape.is_dynamic else ()
    return Shape(shape.element_type, tuple(shape.dimensions[d] for d in order), None, dynamic)


def _transposed_leaves(x: Instruction, value: Instruction, shape: Shape, inwards: bool, emit: Emit) -> Instruction:
    """`value` with the dimensions of its leaves in logical order (`inwards`), or in that of memory."""
    if shape.is_tuple:
        leaves = []
        for i, inner in enumerate(shape.tuple_shapes):
            part = emit(derived(x, "get-tuple-element", value.shape.tuple_shapes[i], [value], index=i))
            leaves.append(_transposed_leaves(x, part, inner, inwards, emit))
        return emit(derived(x, "tuple", Shape.tuple([leaf.shape for leaf in leaves]), leaves))
    if not shape.is_array or shape.is_row_major:
        return value
    order = shape.minor_to_major[::-1]
    if inwards:
        order = tuple(order.index(d) for d in range(shape.rank))
    dims = tuple(value.shape.dimensions[d] for d in order)
    dynamic = tuple(value.shape.dynamic[d] for d in order) if value.shape.is_dynamic else ()
    return emit(derived(x, "transpose", Shape(shape.element_type, dims, None, dynamic), [value], dimensions=order))


# --- bitcasts -------------------------------------------------------------------------------------------------------


def _bring_into_order(computation: Computation) -> None:
    """Replaces the bitcasts, which depend on the layouts that their operands have been declared with."""
    laid_out = {x: x.operands[0].shape for x in computation.instructions if x.opcode in ("bitcast", "bitcast-convert")}

    def visit(x: Instruction, emit: Emit) -> Instruction:
        if x.opcode == "bitcast" and x.shape.is_array:
            return _Bitcast(x, emit).made_from(laid_out[x])
        if x.opcode == "bitcast-convert" and _shares_bytes(laid_out[x], x.shape):
            return emit(derived(x, "bitcast", x.shape.without_layout(), x.operands))
        return x

    sweep(computation, visit)


def _shares_bytes(source: Shape, target: Shape) -> bool:
    """Whether elements of one width lie in the bytes of elements of another: those of less than a byte take one each inside."""
    widths = [TYPES[shape.element_type].bits for shape in (source, target)]
    return widths[0] != widths[1] and min(widths) >= 8


class _Bitcast:
    """The instructions that a bitcast becomes: index maps that bring the operand into the order of its bytes, a bitcast or
    reshape of dense row-major arrays, and index maps back from the order of the result's bytes."""

    def __init__(self, x: Instruction, emit: Emit):
        self.x = x
        self.emit = emit
        (self.value,) = x.operands

    def made_from(self, source: Shape) -> Instruction:
        """What stands for the bitcast of an array that lies as `source`."""
        target = self.x.shape
        tiled = not (is_plain(source) and is_plain(target))
        if tiled:
            self._refuse_packed(source)
            self._refuse_packed(target)
        self._transpose(source.minor_to_major[::-1])
        if tiled:
            self._resize(physical_bounds(source))
            for tiling in tilings(source):
                self._tile(tiling)
            # Bytes behind the operand's are unspecified: zeros do.
            widths = [TYPES[shape.element_type].bytes for shape in (source, target)]
            count = -(-physical_elements(target) * widths[1] // widths[0])
            self._resize((count,))
            self._reinterpret((count * widths[0] // widths[1],))
            after = tilings(target)
            dims = after[-1].after if after else physical_bounds(target)
            self._resize((prod(dims),))
            self._reinterpret(dims)
            for tiling in reversed(after):
                self._untile(tiling)
            self._resize(tuple(target.dimensions[d] for d in target.minor_to_major[::-1]))
        else:
            self._reinterpret(physical_bounds(target))
        order = target.minor_to_major[::-1]
        self._transpose(tuple(order.index(d) for d in range(target.rank)))
        return self.value

    def _refuse_packed(self, shape: Shape) -> None:
        if element_bits(shape) != 8 * TYPES[shape.element_type].bytes or prefix_bytes(shape):
            raise UnsupportedError(f"{self.x.where}: a bitcast of elements that share bytes, or behind a prefix, is not supported yet")

    def _emit(self, opcode: str, shape: Shape, operands: list[Instruction], **attrs: object) -> Instruction:
        return self.emit(derived(self.x, opcode, shape, operands, **attrs))

    def _transpose(self, order: Index) -> None:
        if order != tuple(range(len(order))):
            shape = self.value.shape
            dims = tuple(shape.dimensions[d] for d in order)
            self.value = self._emit("transpose", shape.with_dimensions(dims), [self.value], dimensions=order)

    def _reinterpret(self, dims: Index) -> None:
        """The same bytes as an array of the result's type once there is no other, of the operand's before."""
        shape = Shape(self.x.shape.element_type, dims)
        if shape.element_type != self.value.shape.element_type:
            # Computations on single elements, such as comparators, have elementwise operations only.
            one = not dims and not self.value.shape.rank and not any(s.element_type in ("c64", "c128") for s in (shape, self.value.shape))
            self.value = self._emit("bitcast-convert" if one else "bitcast", shape, [self.value])
        else:
            self._reshape(dims)

    def _reshape(self, dims: Index) -> None:
        if dims != self.value.shape.dimensions:
            self.value = self._emit("reshape", self.value.shape.with_dimensions(dims), [self.value])

    def _resize(self, dims: Index) -> None:
        """Cuts or pads every dimension at its end; an array that has not as many becomes flat first."""
        shape = self.value.shape
        if len(dims) != shape.rank:
            self._reshape((prod(shape.dimensions),) if len(dims) == 1 else shape.dimensions[shape.rank - len(dims) :])
            shape = self.value.shape
        if any(size > before for size, before in zip(dims, shape.dimensions)):
            scalar = Shape(shape.element_type)
            zero = self._emit("constant", scalar, [], literal=Literal.from_values(scalar, [0]))
            wide = tuple(max(size, before) for size, before in zip(dims, shape.dimensions))
            padding = tuple(PaddingDimension(0, size - before) for size, before in zip(wide, shape.dimensions))
            self.value = self._emit("pad", shape.with_dimensions(wide), [self.value, zero], padding=padding)
        if dims != self.value.shape.dimensions:
            cut = tuple(SliceDimension(0, size, 1) for size in dims)
            self.value = self._emit("slice", shape.with_dimensions(dims), [self.value], slice=cut)

    def _tile(self, tiling: Tiling) -> None:
        """Pads to whole tiles, splits each dimension and moves the parts inside tiles to the minor end."""
        outer, k = tiling.outer, len(tiling.tile)
        rank = len(outer)
        self._reshape((*outer, *tiling.dims))
        self._resize((*outer, *tiling.padded))
        self._reshape((*outer, *(size for pair in zip(tiling.counts, tiling.tile) for size in pair)))
        self._transpose((*range(rank), *(rank + 2 * i for i in range(k)), *(rank + 2 * i + 1 for i in range(k))))

    def _untile(self, tiling: Tiling) -> None:
        outer, k = tiling.outer, len(tiling.tile)
        rank = len(outer)
        self._reshape(tiling.after)
        self._transpose((*range(rank), *(axis for i in range(k) for axis in (rank + i, rank + k + i))))
        self._reshape((*outer, *tiling.padded))
        self._resize((*outer, *tiling.dims))
        self._reshape(tiling.before)
