"""Makes arrays of dynamic sizes static: each has the size of its bounds, and the actual sizes go beside it as s32 scalars.

Sizes that are known stay numbers. Where a value with dynamic dimensions passes into or out of a computation that is called,
it becomes a tuple of itself and its sizes. The entry takes the sizes of its dynamic parameters as parameters behind all
others, and gives those of its results as elements behind all others: in the order of the leaves, and for each leaf in the
order of its dimensions in memory, from major to minor.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import UnsupportedError
from ..hlo.attrs import PaddingDimension
from ..hlo.ir import Computation, Instruction, Module
from ..hlo.literal import Literal
from ..hlo.shape import Shape
from ..ops.custom.built_in import IDENTITIES
from ..ops.dynamic import pad_indexing, pad_movement, pad_products, pad_reduce, pad_reshape
from ..ops.dynamic.padded import Extent, Padded, Rule, Size, SizeWriter, is_whole, static, whole
from ..ops.dynamic.record import SIZES
from ..ops.hostio.transfers import is_between_devices
from ..ops.reading import record
from ..ops.request import REQUEST
from ..ops.writer import walk

_FAMILIES = (pad_movement, pad_reshape, pad_reduce, pad_products, pad_indexing)
RULES: dict[str, Rule] = {opcode: rule for family in _FAMILIES for opcode, rule in family.RULES.items()}
"""opcode -> how it is written where a part of its operands counts."""


def pad_dynamic(module: Module) -> None:
    """Leaves no dynamic dimension in the module."""
    done: list[Computation] = []
    for computation in module.computations:
        added: list[Computation] = []
        _Body(computation, added).rewrite(computation is module.entry)
        done += [*added, computation]
    module.computations = done


class _Body:
    """One computation while it is rewritten."""

    def __init__(self, computation: Computation, added: list[Computation]):
        self.computation = computation
        self.writer = SizeWriter(computation.root, [], added)
        self.shapes = {x: x.shape for x in computation.instructions}
        """As they were: instructions that stay become static themselves."""
        self.sizes: dict[Instruction, list[Instruction]] = {}
        """Of the entry's dynamic parameters."""

    def rewrite(self, entry: bool) -> None:
        w, computation = self.writer, self.computation
        if entry:
            self._hide_sizes()
        padded = walk(computation.instructions, self._visit, {})
        w.x = computation.root
        computation.root = packed(w, padded[w.x], self.shapes[w.x])
        computation.instructions = w.made

    def _hide_sizes(self) -> None:
        """Makes the parameters that hold the sizes of the entry's dynamic parameters, in order."""
        number = len(self.computation.parameters)
        for p in self.computation.parameters:
            self.writer.x = p
            count = _count(p.shape)
            self.sizes[p] = [self.writer.op("parameter", shape=Shape("s32"), parameter_number=number + i) for i in range(count)]
            number += count

    def _visit(self, x: Instruction, operands: list[Padded]) -> Padded:
        self.writer.x = x
        made = self._parameter(x) if x.opcode == "parameter" else self._instruction(x, operands)
        assert made.value.shape.without_layout() == static(self.shapes[x]), f"{x.where} became {made.value.shape}"
        return made

    def _parameter(self, x: Instruction) -> Padded:
        w, shape = self.writer, x.shape
        w.keep(x)
        if not shape.is_dynamic:
            return Padded(x, whole(shape))
        if x in self.sizes:
            x.shape = static(shape)
            return Padded(x, _extent(shape, iter(self.sizes[x])))
        x.shape = packed_shape(shape)
        return unpacked(w, x, shape)

    # --- instructions -----------------------------------------------------------------------------------------------

    def _instruction(self, x: Instruction, operands: list[Padded]) -> Padded:
        w = self.writer
        shapes = [self.shapes[o] for o in x.operands]
        x.operands = [o.value for o in operands]
        extents = [o.extent for o in operands]
        if record(x).control:
            return self._control(x, operands, shapes)
        if REQUEST in x.attrs:
            return self._request(x, operands, shapes)
        if x.opcode == "recv" or is_between_devices(x):
            return self._transfer(x, operands, shapes)
        if x.opcode == "custom-call" and (x.shape.is_dynamic or any(s.is_dynamic for s in shapes)):
            return _custom_call(w, x, extents)
        if x.opcode == "constant":
            return self._kept(x, _constant_extent(x.attrs["literal"]))
        if x.opcode == "tuple":
            return self._kept(x, tuple(extents))
        if x.opcode == "get-tuple-element":
            return self._kept(x, extents[0][x.attrs["index"]])
        rule = RULES.get(x.opcode)
        if x.opcode not in SIZES and all(is_whole(o.shape, e) for o, e in zip(x.operands, extents)):
            if x.shape.is_dynamic and rule is None:
                raise UnsupportedError(f"{x.where}: {x.opcode} with a result of dynamic dimensions is not supported")
            return self._kept(x, whole(x.shape))
        if rule is None:
            raise UnsupportedError(f"{x.where}: {x.opcode} of arrays with dynamic dimensions is not supported")
        return rule(w, x, extents)

    def _request(self, x: Instruction, operands: list[Padded], shapes: list[Shape]) -> Padded:
        """The host gets sizes behind all else, and gives them so."""
        w, shape = self.writer, x.shape
        x.operands = [*x.operands, *(w.scalar_of(size) for o, s in zip(operands, shapes) for size in _sizes(s, o.extent))]
        if not shape.is_dynamic:
            return self._kept(x, whole(shape))
        x.shape = packed_shape(shape)
        w.keep(x)
        return unpacked(w, x, shape)

    def _transfer(self, x: Instruction, operands: list[Padded], shapes: list[Shape]) -> Padded:
        """Another device gets an array with its sizes, and gives it so."""
        if x.opcode not in ("send", "recv-done") or not x.shape.is_dynamic:
            return self._kept(x, whole(x.shape))
        w, (data, *others) = self.writer, x.shape.tuple_shapes
        if x.opcode == "send":
            x.operands[0] = packed(w, operands[0], shapes[0])
        x.shape = Shape.tuple([packed_shape(data), *others])
        w.keep(x)
        moved, *rest = w.elements(x)
        own = operands[0] if x.opcode == "send" else unpacked(w, moved, data)
        return Padded(w.tuple([own.value, *rest]), (own.extent, *map(whole, others)))

    def _kept(self, x: Instruction, extent: Extent) -> Padded:
        """The instruction itself, static."""
        x.shape = static(x.shape) if x.shape.is_dynamic else x.shape
        self.writer.keep(x)
        return Padded(x, extent)

    def _control(self, x: Instruction, operands: list[Padded], shapes: list[Shape]) -> Padded:
        """The computations called have been rewritten already: they take and give sizes where their types say so."""
        w, shape = self.writer, x.shape
        x.operands = [packed(w, o, s) for o, s in zip(operands, shapes)]
        x.shape = packed_shape(shape)
        w.keep(x)
        return unpacked(w, x, shape) if shape.is_dynamic else Padded(x, whole(shape))


# --- values that pass between computations --------------------------------------------------------------------------


def packed_shape(shape: Shape) -> Shape:
    """The type of a value together with its sizes."""
    return Shape.tuple([static(shape), *[Shape("s32")] * _count(shape)]) if shape.is_dynamic else shape


def packed(w: SizeWriter, padded: Padded, shape: Shape) -> Instruction:
    """A value of that type, with its sizes if there are dynamic dimensions."""
    if not shape.is_dynamic:
        return padded.value
    return w.tuple([padded.value, *map(w.scalar_of, _sizes(shape, padded.extent))])


def unpacked(w: SizeWriter, x: Instruction, shape: Shape) -> Padded:
    """The same, taken apart."""
    value, *sizes = w.elements(x)
    return Padded(value, _extent(shape, iter(sizes)))


def _count(shape: Shape) -> int:
    return sum(sum(leaf.dynamic) for _, leaf in shape.leaves())


def _sizes(shape: Shape, extent: Extent) -> Iterator[Size]:
    """The sizes of the dynamic dimensions, in order."""
    if shape.is_tuple:
        for inner, part in zip(shape.tuple_shapes, extent):
            yield from _sizes(inner, part)
    else:
        yield from (size for size, flag in zip(extent, shape.dynamic) if flag)


def _extent(shape: Shape, sizes: Iterator[Instruction]) -> Extent:
    """The extent of a value whose dynamic dimensions have these sizes."""
    if shape.is_tuple:
        return tuple(_extent(inner, sizes) for inner in shape.tuple_shapes)
    flags = shape.dynamic or (False,) * shape.rank
    return tuple(next(sizes) if flag else bound for flag, bound in zip(flags, shape.dimensions))


# --- constants and custom calls -------------------------------------------------------------------------------------


def _constant_extent(literal: Literal) -> Extent:
    if literal.shape.is_tuple:
        return tuple(map(_constant_extent, literal.elements))
    return literal.dynamic_sizes or literal.shape.dimensions


def _custom_call(w: SizeWriter, x: Instruction, extents: list[Extent]) -> Padded:
    """The calls by which XLA's own passes go from dynamic to static arrays and back, and those that stand for their operand."""
    target = x.attrs["custom_call_target"]
    if target == "PadToStatic" and x.shape.is_tuple and len(x.shape.tuple_shapes) == 1 + x.operands[0].shape.rank:
        value = w.tuple([x.operands[0], *map(w.scalar_of, extents[0])])
        return Padded(value, whole(x.shape))
    if target == "SliceToDynamic" and x.shape.is_array and len(x.operands) == 1 + x.shape.rank == 1 + x.operands[0].shape.rank:
        array, *given = x.operands
        flags = x.shape.dynamic or (False,) * x.shape.rank
        sizes = [w.clamped(w.size_of(o), bound) if flag else bound for o, bound, flag in zip(given, x.shape.dimensions, flags)]
        behind = [PaddingDimension(0, bound - size) for bound, size in zip(x.shape.dimensions, array.shape.dimensions)]
        if any(p.edge_padding_high for p in behind):
            array = w.pad(array, w.scalar(array.shape.element_type, 0), behind)
        return Padded(array, tuple(sizes))
    if target in IDENTITIES and len(x.operands) == 1:
        return Padded(x.operands[0], extents[0])
    raise UnsupportedError(f"{x.where}: custom-call '{target}' of arrays with dynamic dimensions is not supported")
