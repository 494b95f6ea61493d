"""Data movement: index maps inside expressions, and kernels that write their result region by region."""

from __future__ import annotations

from typing import Any

from ...hlo.ir import Instruction
from ...loop.affine import Index, linearize
from ...loop.ir import Val
from ...loop.nest import nest
from ..elemental import Elemental
from ..kernel import Kernel
from ..reading import reads
from ..source import misplaced, place
from .record import OPS


def _view(e: Elemental, x: Instruction, index: Index) -> Any:
    """The operand's element at the index that the operation's map gives."""
    (read,), (operand,) = reads(x), x.operands
    source = e.sources.get(operand)
    if source is not None and source.dense and read.map.keeps_order:
        return e.load(source, linearize(index, x.shape.dimensions) + source.offset, source.dtype)
    mapped = place(read.map, index)
    if mapped is None:
        raise misplaced(operand)
    return e.value(operand, mapped)


def _bitcast(e: Elemental, x: Instruction, index: Index) -> Any:
    """Other elements in the same dense bytes (`ops.movement.bitcast` leaves no other bitcast)."""
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


def concatenate_kernel(k: Kernel, x: Instruction) -> None:
    """Each operand fills its region of the result, but for those that are there."""
    d = x.attrs["dimensions"][0]
    start = 0
    for operand in x.operands:
        if operand.shape.size and operand not in k.placed:
            shift = start

            def body(index: Index, operand: Instruction = operand, shift: int = shift) -> None:
                k.store(x, (*index[:d], index[d] + shift, *index[d + 1 :]), k.e.value(operand, index))

            nest(k.b, operand.shape.dimensions, body)
        start += operand.shape.dimensions[d]


def pad_kernel(k: Kernel, x: Instruction) -> None:
    """The padding value where the operand does not reach, then the operand over it, if it is not there."""
    operand, value = x.operands
    padding = x.attrs["padding"]
    dims = operand.shape.dimensions
    fill = k.e.value(value, ())
    if x.shape.size == 0:
        return
    # Positions along each dimension that take an operand element: first operand index, count, first result index.
    spans = []
    for size, out, p in zip(dims, x.shape.dimensions, padding):
        step = p.interior_padding + 1
        first = max(0, -(p.edge_padding_low // step)) if p.edge_padding_low < 0 else 0
        at = p.edge_padding_low + first * step
        count = max(0, min(size - first, -((at - out) // step))) if at < out else 0
        spans.append((first, count, at, step))
    empty = any(count == 0 for _, count, _, _ in spans)
    if empty or any(step > 1 for *_, step in spans):
        nest(k.b, x.shape.dimensions, lambda index: k.store(x, index, fill))
    else:
        # Only the border: around dimension d, inside the operand's span of the dimensions before it.
        for d, (_, count, at, _) in enumerate(spans):
            for low, high in ((0, at), (at + count, x.shape.dimensions[d])):
                if low >= high:
                    continue
                sizes = (*(s[1] for s in spans[:d]), high - low, *x.shape.dimensions[d + 1 :])
                shifts = (*(s[2] for s in spans[:d]), low, *(0 for _ in x.shape.dimensions[d + 1 :]))

                def border(index: Index, shifts: tuple[int, ...] = shifts) -> None:
                    k.store(x, tuple(i + s for i, s in zip(index, shifts)), fill)

                nest(k.b, sizes, border)
    if not empty and operand not in k.placed:

        def body(index: Index) -> None:
            inner = tuple(i + first for i, (first, *_) in zip(index, spans))
            k.store(x, tuple(i * step + at for i, (_, _, at, step) in zip(index, spans)), k.e.value(operand, inner))

        nest(k.b, tuple(count for _, count, _, _ in spans), body)


ELEMENTAL = {
    **dict.fromkeys((op.opcode for op in OPS if op.view), _view),
    "bitcast": _bitcast,
    "iota": _iota,
    "constant": _constant,
}
KERNELS = {"concatenate": concatenate_kernel, "pad": pad_kernel}
