"""Broadcasts that stretch dimensions, and movements whose sizes are operands."""

from __future__ import annotations

from ...errors import ParseError, counted
from ...hlo.attrs import PaddingDimension, SliceDimension
from ...hlo.infer import flags
from ...hlo.ir import Instruction
from ...hlo.shape import Index, Shape
from ...mlir.tree import Op
from ...mlir.values import integers, where
from ...writing.writer import Writer
from ..stablehlo import Mapper, Rule


def broadcast_in_dim(e: Writer, x: Instruction, places: Index, dims: Index) -> Instruction:
    """The array in the shape of `dims`: dimension i goes to `places[i]`, stretched if it is 1. HLO's broadcast only
    adds dimensions."""
    if len(places) != x.shape.rank or any(not 0 <= p < len(dims) for p in places) or len(set(places)) != len(places):
        raise ParseError(f"broadcast_dimensions {places} do not lead {x.shape} to {counted(len(dims), 'dimension')}")
    kept = [d for d, p in enumerate(places) if not (x.shape.dimensions[d] == 1 and dims[p] != 1)]
    if len(kept) < x.shape.rank:
        dynamic = tuple([flags(x.shape)[d] for d in kept])
        sizes = tuple([x.shape.dimensions[d] for d in kept])
        x = e.op("reshape", x, shape=Shape(x.shape.element_type, sizes, None, dynamic if any(dynamic) else ()))
        places = tuple([places[d] for d in kept])
    order = sorted(range(len(places)), key=lambda d: places[d])
    if order != list(range(len(places))):
        x = e.op("transpose", x, dimensions=tuple(order))
        places = tuple([places[d] for d in order])
    if x.shape.dimensions == dims and not x.shape.is_dynamic:
        return x
    spread = [d in places and flags(x.shape)[places.index(d)] for d in range(len(dims))]
    return e.op(
        "broadcast",
        x,
        shape=Shape(x.shape.element_type, dims, None, tuple(spread) if any(spread) else ()),
        dimensions=places,
    )


def _broadcast_in_dim(e: Mapper, op: Op, operands: list[Instruction]) -> list[Instruction]:
    return [
        broadcast_in_dim(e, operands[0], integers(op.attributes["broadcast_dimensions"]), e.need_shape(op).dimensions)
    ]


def _dynamic_broadcast_in_dim(e: Mapper, op: Op, operands: list[Instruction]) -> list[Instruction]:
    x, sizes = operands
    shape = e.sized(op, sizes)
    spread = broadcast_in_dim(e, x, integers(op.attributes["broadcast_dimensions"]), shape.dimensions)
    return [e.with_sizes(spread, shape, sizes)]


def _broadcast(e: Mapper, op: Op, operands: list[Instruction]) -> list[Instruction]:
    """New dimensions in front."""
    (x,), sizes = operands, integers(op.attributes["broadcast_sizes"])
    shape = Shape(x.shape.element_type, sizes + x.shape.dimensions)
    return [e.op("broadcast", x, shape=shape, dimensions=tuple(range(len(sizes), shape.rank)))]


def _dynamic_reshape(e: Mapper, op: Op, operands: list[Instruction]) -> list[Instruction]:
    x, sizes = operands
    shape = e.sized(op, sizes)
    if not shape.is_dynamic:
        return [e.op("reshape", x, shape=shape)]
    scalars = [e.reshape(e.op("slice", sizes, slice=(SliceDimension(d, d + 1),)), ()) for d in range(shape.rank)]
    if sizes.shape.element_type != "s32":
        scalars = [e.op("convert", s, dtype="s32") for s in scalars]
    return [e.op("dynamic-reshape", x, *scalars, shape=shape)]


def _dynamic_pad(e: Mapper, op: Op, operands: list[Instruction]) -> list[Instruction]:
    x, value, *edges = operands
    low, high, interior = (e.need_integers(op, edge, "the widths of its padding") for edge in edges)
    return [e.op("pad", x, value, padding=tuple([PaddingDimension(*p) for p in zip(low, high, interior, strict=True)]))]


def _real_dynamic_slice(e: Mapper, op: Op, operands: list[Instruction]) -> list[Instruction]:
    x, first, last, step = operands
    start, stride = (e.need_integers(op, bound, "where it starts and its strides") for bound in (first, step))
    limit = e.integers(last)
    if limit is None:
        return [_open_slice(e, op, operands, start, stride)]
    return [e.op("slice", x, slice=tuple([SliceDimension(*b) for b in zip(start, limit, stride, strict=True)]))]


def _open_slice(e: Mapper, op: Op, operands: list[Instruction], start: Index, stride: Index) -> Instruction:
    """A slice whose end only a run knows: up to the greatest one, with the size that is left."""
    x, first, last, _ = operands
    ranges = e.ranges(last)
    if ranges is None or any(s != 1 for s, (low, high) in zip(stride, ranges) if low != high):
        e.need_integers(op, last, "its bounds")
    limit = [high for _, high in ranges or ()]
    bounds = tuple([SliceDimension(*b) for b in zip(start, limit, stride, strict=True)])
    sizes = tuple([len(range(b.start, b.limit, b.stride)) for b in bounds])
    dynamic = tuple([low != high for low, high in ranges or ()])
    made = e.op("slice", x, shape=Shape(x.shape.element_type, sizes), slice=bounds)
    return e.with_sizes(made, Shape(x.shape.element_type, sizes, None, dynamic), e.sub(last, first))


def _reshape(e: Mapper, op: Op, operands: list[Instruction]) -> list[Instruction]:
    shape = e.need_shape(op)
    if shape.size != operands[0].shape.size:
        raise ParseError(f"{where(op)}: {operands[0].shape} and {shape} have different numbers of elements")
    return [e.op("reshape", operands[0], shape=shape)]


STABLEHLO: dict[str, Rule] = {
    "stablehlo.broadcast_in_dim": _broadcast_in_dim,
    "stablehlo.dynamic_broadcast_in_dim": _dynamic_broadcast_in_dim,
    "stablehlo.broadcast": _broadcast,
    "stablehlo.reshape": _reshape,
    "stablehlo.dynamic_reshape": _dynamic_reshape,
    "stablehlo.dynamic_pad": _dynamic_pad,
    "stablehlo.real_dynamic_slice": _real_dynamic_slice,
}
