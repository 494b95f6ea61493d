"""Values with their sizes, where they pass between computations, devices and the host: a value with dynamic dimensions
is a tuple of itself and its sizes, in the order of the leaves, and for each leaf in the order of its dimensions."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...hlo.ir import Instruction
from ...hlo.shape import Shape
from ..hostio.transfers import is_between_devices
from ..reading import record
from .pad_arrays import Extent, Padded, Size, SizeWriter, static, whole


def packed_shape(shape: Shape) -> Shape:
    """The type of a value together with its sizes."""
    return Shape.tuple([static(shape), *[Shape("s32")] * count(shape)]) if shape.is_dynamic else shape


def packed(w: SizeWriter, padded: Padded, shape: Shape) -> Instruction:
    """A value of that type, with its sizes if there are dynamic dimensions."""
    if not shape.is_dynamic:
        return padded.value
    return w.tuple([padded.value, *map(w.scalar_of, _sizes(shape, padded.extent))])


def unpacked(w: SizeWriter, x: Instruction, shape: Shape) -> Padded:
    """The same, taken apart."""
    if not shape.is_dynamic:
        return Padded(x, whole(shape))
    value, *sizes = w.elements(x)
    return Padded(value, extent_of(shape, iter(sizes)))


def count(shape: Shape) -> int:
    """Returns the number of sizes of a value."""
    return sum(sum(leaf.dynamic) for _, leaf in shape.leaves())


def _sizes(shape: Shape, extent: Extent) -> Iterator[Size]:
    """The sizes of the dynamic dimensions, in order."""
    if shape.is_tuple:
        for inner, part in zip(shape.tuple_shapes, extent):
            yield from _sizes(inner, part)
    else:
        yield from (size for size, flag in zip(extent, shape.dynamic) if flag)


def extent_of(shape: Shape, sizes: Iterator[Instruction]) -> Extent:
    """The extent of a value whose dynamic dimensions have these sizes."""
    if shape.is_tuple:
        return tuple(extent_of(inner, sizes) for inner in shape.tuple_shapes)
    flags = shape.dynamic or (False,) * shape.rank
    return tuple(next(sizes) if flag else bound for flag, bound in zip(flags, shape.dimensions))


# --- instructions that pass values on -------------------------------------------------------------------------------

Passing = Callable[[SizeWriter, Instruction, list[Padded], list[Shape]], Padded]
"""From an instruction on static operands, these operands with their extents, and the shapes that they are declared
with."""


def passing(x: Instruction) -> Passing | None:
    """The rule of an instruction that passes values on; None for any other."""
    if record(x).control:
        return _control
    if x.marks.request:
        return _request
    return _transfer if x.opcode == "recv" or is_between_devices(x) else None


def received(w: SizeWriter, x: Instruction) -> Padded:
    """An instruction that gives a value with its sizes, where its type says so."""
    shape = x.shape
    x.shape = packed_shape(shape)
    return unpacked(w, w.keep(x), shape)


def _control(w: SizeWriter, x: Instruction, operands: list[Padded], shapes: list[Shape]) -> Padded:
    """The computations called have been rewritten already: they take and give sizes where their types say so."""
    x.operands = [packed(w, o, s) for o, s in zip(operands, shapes)]
    return received(w, x)


def _request(w: SizeWriter, x: Instruction, operands: list[Padded], shapes: list[Shape]) -> Padded:
    """The host gets sizes behind all else, and gives them so."""
    x.operands = [*x.operands, *(w.scalar_of(size) for o, s in zip(operands, shapes) for size in _sizes(s, o.extent))]
    return received(w, x)


def _transfer(w: SizeWriter, x: Instruction, operands: list[Padded], shapes: list[Shape]) -> Padded:
    """Another device gets an array with its sizes, and gives it so."""
    sends = x.opcode == "send"
    if not (sends or x.opcode == "recv-done") or not x.shape.is_dynamic:
        return w.kept(x, whole(x.shape))
    data, *others = x.shape.tuple_shapes
    if sends:
        x.operands[0] = packed(w, operands[0], shapes[0])
    x.shape = Shape.tuple([packed_shape(data), *others])
    moved, *rest = w.elements(w.keep(x))
    own = operands[0] if sends else unpacked(w, moved, data)
    return Padded(w.tuple([own.value, *rest]), (own.extent, *map(whole, others)))
