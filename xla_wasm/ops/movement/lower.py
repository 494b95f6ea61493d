"""Data movement: index maps inside expressions, and kernels that write their result region by region."""

from __future__ import annotations

from math import prod
from typing import Any

from ...dataclass import dataclass
from ...hlo.index_map import Dims
from ...hlo.ir import Instruction
from ...loop.affine import Index, linearize
from ...loop.ir import Val
from ...loop.nest import nest, scalar_nest
from ...lowering.elemental import Elemental
from ...lowering.kernel_writer import KernelWriter
from ...lowering.source import misplaced, place
from ..reading import reads
from .record import OPS


def _view(e: Elemental, x: Instruction, index: Index) -> Any:
    """The operand's element at the index that the operation's map gives."""
    (read,), (operand,) = reads(x), x.operands
    source = e.sources.get(operand)
    if source is not None and read.map.keeps_order:
        assert source.dense, "arrays in buffers are"
        return e.load(source, linearize(index, x.shape.dimensions), source.dtype)
    mapped = place(read.map, index)
    if mapped is None:
        raise misplaced(operand)
    return e.value(operand, mapped)


def _bitcast(e: Elemental, x: Instruction, index: Index) -> Any:
    """Other elements in the same dense bytes (`ops.movement.expand_bitcast` leaves no other bitcast)."""
    operand = x.operands[0]
    source = e.sources.get(operand)
    if source is None or not source.dense:
        raise misplaced(operand)
    return e.load(source, linearize(index, x.shape.dimensions), x.shape.element_type)


def _iota(e: Elemental, x: Instruction, index: Index) -> Val:
    dtype = x.shape.element_type
    value = e.b.index_value(index[x.attrs["iota_dimension"]])
    return e.b.convert(value, dtype)


def _constant(e: Elemental, x: Instruction, index: Index) -> Val:
    value = x.attrs["literal"].splat_value()
    if value is None:
        raise misplaced(x)
    return e.b.const(x.shape.element_type, value)


_ROW = 16
"""Elements of a row of the result from which it is written row by row; of shorter ones all first parts come first, then
all second ones."""


def _rows(dims: Dims) -> int:
    """Returns the number of a result's first dimensions that lie outside of rows."""
    return next((d for d in range(len(dims)) if prod(dims[d + 1 :]) < _ROW), 0)


def concatenate_kernel(k: KernelWriter, x: Instruction) -> None:
    """Each operand fills its region of the result, but for those that are there: row by row, where rows are long."""
    d = x.attrs["dimensions"][0]
    dims = x.shape.dimensions
    outer = d if d <= _rows(dims) else 0

    def row(index: Index) -> None:
        start = 0
        for operand in x.operands:
            if operand not in k.placed:
                shift = start

                def body(inner: Index, operand: Instruction = operand, shift: int = shift) -> None:
                    k.store(x, (*inner[:d], inner[d] + shift, *inner[d + 1 :]), k.e.value(operand, inner))

                if outer == d < _rows(dims):
                    with k.b.loop(operand.shape.dimensions[d], chunked=True) as i:
                        nest(k.b, operand.shape.dimensions[d + 1 :], body, done=(*index, i))
                else:
                    nest(k.b, operand.shape.dimensions[outer:], body, done=index)
            start += operand.shape.dimensions[d]

    scalar_nest(k.b, dims[:outer], row, chunked=True)


@dataclass(frozen=True, slots=True)
class _Span:
    """Along one dimension the elements of a pad's result that an operand's element takes."""

    first: int
    """Of the operand the first that is taken."""
    count: int
    at: int
    """The first index in the result."""
    step: int
    size: int
    """Of the result."""

    @property
    def borders(self) -> tuple[tuple[int, int], ...]:
        """The elements of the result before and behind, as far as there are any."""
        return tuple(((low, high) for low, high in ((0, self.at), (self.at + self.count, self.size)) if low < high))


def _spans(x: Instruction) -> list[_Span]:
    spans = []
    for size, out, p in zip(x.operands[0].shape.dimensions, x.shape.dimensions, x.attrs["padding"]):
        step = p.interior_padding + 1
        first = max(0, -(p.edge_padding_low // step)) if p.edge_padding_low < 0 else 0
        at = p.edge_padding_low + first * step
        count = max(0, min(size - first, -((at - out) // step))) if at < out else 0
        spans.append(_Span(first, count, at, step if count > 1 else 1, out))
    return spans


def pad_kernel(k: KernelWriter, x: Instruction) -> None:
    """The padding value where the operand does not reach, and the operand, if it is not there: row by row, where rows
    are long."""
    operand, value = x.operands
    dims = x.shape.dimensions
    fill = k.e.value(value, ())
    spans = _spans(x)
    if any(s.count == 0 for s in spans):
        nest(k.b, dims, lambda index: k.store(x, index, fill), chunked=True)
        return
    rows = _rows(dims)
    moves = operand not in k.placed  # else its elements lie side by side in each dimension, so steps are 1

    def level(index: Index, inner: Index) -> None:
        """Writes what lies at an index of the first dimensions; `inner` is the operand's."""
        d = len(index)
        if d == rows or spans[d].step > 1:
            part(index, inner)
            return
        s = spans[d]

        def border(low: int, high: int) -> None:
            with k.b.loop(high - low, chunked=True) as i:
                nest(k.b, dims[d + 1 :], lambda place: k.store(x, place, fill), done=(*index, i + low))

        if s.at:
            border(0, s.at)
        if moves or any(further.borders for further in spans[d + 1 :]):
            with k.b.loop(s.count, chunked=s.size > 1) as i:
                level((*index, i + s.at), (*inner, i + s.first))
        if s.at + s.count < s.size:
            border(s.at + s.count, s.size)

    def part(index: Index, inner: Index) -> None:
        """As `level`, without rows."""
        own, sizes = spans[len(index) :], dims[len(index) :]
        if any(s.step > 1 for s in own):
            nest(k.b, sizes, lambda place: k.store(x, place, fill), done=index)
        else:
            # Only the border: around dimension d, inside the operand's span of the dimensions before it.
            for d, s in enumerate(own):
                for low, high in s.borders:
                    shifts = (*(before.at for before in own[:d]), low, *(0 for _ in own[d + 1 :]))

                    def border(place: Index, shifts: tuple[int, ...] = shifts) -> None:
                        k.store(x, (*index, *(i + shift for i, shift in zip(place, shifts))), fill)

                    nest(k.b, (*(before.count for before in own[:d]), high - low, *sizes[d + 1 :]), border)
        if moves:

            def body(place: Index) -> None:
                taken = (*inner, *(i + s.first for i, s in zip(place, own)))
                k.store(x, (*index, *(i * s.step + s.at for i, s in zip(place, own))), k.e.value(operand, taken))

            nest(k.b, tuple([s.count for s in own]), body)

    level((), ())


ELEMENTAL = {
    **dict.fromkeys((op.opcode for op in OPS if op.view), _view),
    "bitcast": _bitcast,
    "iota": _iota,
    "constant": _constant,
}
KERNELS = {"concatenate": concatenate_kernel, "pad": pad_kernel}
