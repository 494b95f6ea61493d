"""A bitcast as index maps: the operand in the order of its bytes, read as the result's."""

from __future__ import annotations

from math import prod

from ...errors import UnsupportedError
from ...hlo.attrs import PaddingDimension
from ...hlo.ir import Instruction
from ...hlo.layout import Tiling, element_bits, is_plain, physical_bounds, physical_elements, prefix_bytes, tilings
from ...hlo.shape import Index, Shape
from ...hlo.types import REAL_OF, TYPES
from ...writing.writer import Writer


def bitcast(w: Writer, x: Instruction, source: Shape) -> Instruction:
    """Returns the instruction that replaces the bitcast of an array with the layout of `source`; else `x` itself."""
    return _Bitcast(w, x).made_from(source) if x.shape.is_array else x


def bitcast_convert(w: Writer, x: Instruction, source: Shape) -> Instruction:
    """The same between widths of whole bytes; others have an expansion."""
    return w.bitcast(x.operands[0], x.shape.element_type, x.shape.dimensions) if _shares_bytes(source, x.shape) else x


def _shares_bytes(source: Shape, target: Shape) -> bool:
    """Returns True if elements of one width lie in the bytes of elements of another: those of less than a byte take one
    each inside."""
    widths = [TYPES[shape.element_type].bits for shape in (source, target)]
    return widths[0] != widths[1] and min(widths) >= 8


class _Bitcast:
    """The instructions that a bitcast becomes: index maps that bring the operand into the order of its bytes, a bitcast
    or reshape of dense row-major arrays, and index maps back from the order of the result's bytes."""

    def __init__(self, w: Writer, x: Instruction):
        self.w = w
        self.x = x
        (self.value,) = x.operands

    def made_from(self, source: Shape) -> Instruction:
        """Returns the instruction that replaces the bitcast of an array with the layout of `source`."""
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
        return self.w.transpose_back(self.value, target.minor_to_major[::-1])

    def _refuse_packed(self, shape: Shape) -> None:
        if element_bits(shape) != 8 * TYPES[shape.element_type].bytes or prefix_bytes(shape):
            raise UnsupportedError(
                f"{self.x.where}: a bitcast of elements that share bytes, or behind a prefix, is not supported yet"
            )

    def _transpose(self, order: Index) -> None:
        self.value = self.w.transpose(self.value, order)

    def _reinterpret(self, dims: Index) -> None:
        """The same bytes as an array of the result's type once there is no other, of the operand's before."""
        before, after = self.value.shape, self.x.shape.element_type
        if after == before.element_type:
            self._reshape(dims)
        elif not dims and not before.rank and not any(t in REAL_OF for t in (after, before.element_type)):
            # Computations on single elements, such as comparators, have elementwise operations only.
            self.value = self.w.bitcast_convert(self.value, after)
        else:
            self.value = self.w.bitcast(self.value, after, dims)

    def _reshape(self, dims: Index) -> None:
        self.value = self.w.reshape(self.value, dims)

    def _resize(self, dims: Index) -> None:
        """Cuts or pads every dimension at its end; an array that has not as many becomes flat first."""
        shape = self.value.shape
        if len(dims) != shape.rank:
            self._reshape((prod(shape.dimensions),) if len(dims) == 1 else shape.dimensions[shape.rank - len(dims) :])
            shape = self.value.shape
        if any(size > before for size, before in zip(dims, shape.dimensions)):
            padding = [PaddingDimension(0, max(size - before, 0)) for size, before in zip(dims, shape.dimensions)]
            self.value = self.w.pad(self.value, self.w.scalar(shape.element_type, 0), padding)
        if dims != self.value.shape.dimensions:
            self.value = self.w.slice(self.value, (0,) * len(dims), dims)

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


BITCAST = {"bitcast": bitcast, "bitcast-convert": bitcast_convert}
"""opcode -> rule on an instruction and the shape that its operand has been declared with."""
