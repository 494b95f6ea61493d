"""Elementwise operations and movement on arrays of which a part counts."""

from __future__ import annotations

from collections.abc import Sequence

from ...hlo.attrs import PaddingDimension
from ...hlo.ir import Instruction
from ...hlo.types import TYPES
from ..table import OPS
from .pad_arrays import Extent, Padded, Rule, Size, SizeWriter, is_known

# --- elementwise ----------------------------------------------------------------------------------------------------


def _elementwise(w: SizeWriter, x: Instruction, extents: list[Extent]) -> Padded:
    """Scalars, as the bounds of a clamp may be, go together with anything."""
    dims = x.shape.dimensions
    arrays = [extent for o, extent in zip(x.operands, extents) if o.shape.dimensions]
    sizes = tuple(w.common([extent[d] for extent in arrays], bound) for d, bound in enumerate(dims))
    operands = [_stretched(w, o, extent, sizes) if o.shape.dimensions else o for o, extent in zip(x.operands, extents)]
    return Padded(w.clone(x, operands), sizes)


def _stretched(w: SizeWriter, a: Instruction, own: Extent, sizes: Sequence[Size]) -> Instruction:
    """An array whose dimensions of one element, where it goes together with more, repeat it."""
    dims = a.shape.dimensions
    for d, bound in enumerate(dims):
        if own[d] is sizes[d] or is_known(own[d], bound) or isinstance(own[d], int) and own[d] != 1:
            continue
        first = w.reshape(w.slice_dim(a, d, 0, 1), (*dims[:d], *dims[d + 1 :]))
        repeated = w.broadcast(first, dims, tuple(k for k in range(len(dims)) if k != d))
        single = w.compare("EQ", w.scalar_of(own[d]), 1)
        a = w.select(w.broadcast(single, dims), repeated, a)
    return a


def _bitcast(w: SizeWriter, x: Instruction, extents: list[Extent]) -> Padded:
    """Between types of different widths the last dimension appears or goes."""
    (o,), (extent,) = x.operands, extents
    before, after = o.shape.dimensions, x.shape.dimensions
    if before == after:
        return Padded(w.clone(x), extent)
    if TYPES[o.shape.element_type].bits > TYPES[x.shape.element_type].bits and after[:-1] == before:
        return Padded(w.clone(x), (*extent, after[-1]))
    if after == before[:-1] and is_known(extent[-1], before[-1]):
        return Padded(w.clone(x), extent[:-1])
    raise w.refuse("these dynamic dimensions cannot be followed through a bitcast")


# --- movement -------------------------------------------------------------------------------------------------------


def _broadcast(w: SizeWriter, x: Instruction, extents: list[Extent]) -> Padded:
    sizes: list[Size] = list(x.shape.dimensions)
    for d, size in zip(x.attrs["dimensions"], extents[0]):
        sizes[d] = size
    return Padded(w.clone(x), tuple(sizes))


def _transpose(w: SizeWriter, x: Instruction, extents: list[Extent]) -> Padded:
    return Padded(w.clone(x), tuple(extents[0][d] for d in x.attrs["dimensions"]))


def _reverse(w: SizeWriter, x: Instruction, extents: list[Extent]) -> Padded:
    """Reversed, what counts stands at the end; it is brought to the front again."""
    value, dims = w.clone(x), x.shape.dimensions
    for d in x.attrs["dimensions"]:
        if not is_known(extents[0][d], dims[d]):
            behind = [PaddingDimension(0, dims[d] if k == d else 0) for k in range(len(dims))]
            longer = w.pad(value, w.scalar(x.shape.element_type, 0), behind)
            start = w.scalar_of(w.minus(dims[d], extents[0][d]))
            value = w.dynamic_slice(longer, [start if k == d else w.scalar("s32", 0) for k in range(len(dims))], dims)
    return Padded(value, extents[0])


def _slice(w: SizeWriter, x: Instruction, extents: list[Extent]) -> Padded:
    """A limit beyond the size is the size."""
    sizes = []
    for size, bound, s in zip(extents[0], x.operands[0].shape.dimensions, x.attrs["slice"]):
        reach = w.minus(w.plus(s.limit if is_known(size, bound) else w.least(size, s.limit), s.stride - 1), s.start)
        sizes.append(w.most(w.over(reach, s.stride), 0))
    return Padded(w.clone(x), tuple(sizes))


def _pad(w: SizeWriter, x: Instruction, extents: list[Extent]) -> Padded:
    """The padding follows what counts: it takes the place of all that does not."""
    a, value = x.operands
    sizes = []
    for size, bound, p in zip(extents[0], x.shape.dimensions, x.attrs["padding"]):
        between = w.times(w.most(w.minus(size, 1), 0), p.interior_padding)
        sizes.append(w.clamped(w.plus(w.plus(size, between), p.edge_padding_low + p.edge_padding_high), bound))
    live = w.live(a.shape.dimensions, extents[0])
    if live is not None:
        a = w.select(live, a, w.broadcast(value, a.shape.dimensions))
    return Padded(w.clone(x, [a, value]), tuple(sizes))


def _concatenate(w: SizeWriter, x: Instruction, extents: list[Extent]) -> Padded:
    """Each part is laid over the end of the one before it, where that stops counting."""
    (dim,) = x.attrs["dimensions"]
    dims = x.shape.dimensions
    sizes = [w.agreed([e[d] for e in extents], bound) if d != dim else 0 for d, bound in enumerate(dims)]
    offsets: list[Size] = [0]
    for extent in extents:
        offsets.append(w.plus(offsets[-1], extent[dim]))
    sizes[dim] = offsets[-1]
    value = w.clone(x)
    if not all(isinstance(o, int) for o in offsets[:-1]):
        value = w.full(x.shape.element_type, dims, 0)
        for part, offset in zip(x.operands, offsets):
            value = w.dynamic_update_slice(
                value, part, [w.scalar_of(offset if d == dim else 0) for d in range(len(dims))]
            )
    elif not all(is_known(e[dim], o.shape.dimensions[dim]) for e, o in zip(extents[:-1], x.operands)):
        parts = [w.slice_dim(o, dim, 0, e[dim]) for e, o in zip(extents[:-1], x.operands)]
        value = w.concatenate([*parts, x.operands[-1]], dim)
        missing = dims[dim] - value.shape.dimensions[dim]
        behind = [PaddingDimension(0, missing if d == dim else 0) for d in range(len(dims))]
        value = w.pad(value, w.scalar(x.shape.element_type, 0), behind)
    return Padded(value, tuple(sizes))


# --- sizes and tuples -----------------------------------------------------------------------------------------------


def _get_dimension_size(w: SizeWriter, x: Instruction, extents: list[Extent]) -> Padded:
    return Padded(w.scalar_of(extents[0][x.attrs["dimensions"][0]]), ())


def _set_dimension_size(w: SizeWriter, x: Instruction, extents: list[Extent]) -> Padded:
    """A dimension that the result has as a static one has all of its elements again."""
    (dim,) = x.attrs["dimensions"]
    bound = x.shape.dimensions[dim]
    sizes = list(extents[0])
    sizes[dim] = w.clamped(w.size_of(x.operands[1]), bound) if x.shape.dynamic and x.shape.dynamic[dim] else bound
    return Padded(x.operands[0], tuple(sizes))


def _same(w: SizeWriter, x: Instruction, extents: list[Extent]) -> Padded:
    return Padded(x.operands[0], extents[0])


RULES: dict[str, Rule] = {
    **{opcode: _elementwise for opcode, op in OPS.items() if op.elementwise},
    **{opcode: _same for opcode, op in OPS.items() if op.identity},
    "map": _elementwise,
    "copy": _same,
    "bitcast": _bitcast,
    "bitcast-convert": _bitcast,
    "broadcast": _broadcast,
    "transpose": _transpose,
    "reverse": _reverse,
    "slice": _slice,
    "pad": _pad,
    "concatenate": _concatenate,
    "get-dimension-size": _get_dimension_size,
    "set-dimension-size": _set_dimension_size,
}
