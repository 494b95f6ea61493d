"""Transposes of what convolutions give sink below what is computed from it, to where the next convolution takes them
back.

A convolution's own form has the features last. A program that has them first, as NCHW, would go back and forth around
each convolution: bias, activation, residual and pooling follow in the order of the convolution instead, and finish its
sums in registers.
"""

from __future__ import annotations

from typing import TypeVar

from ..hlo.attrs import Window
from ..hlo.ir import Instruction, Module
from ..hlo.shape import Shape
from ..ops.table import RECORDS
from ..writing.writer import Rule, Writer
from .rewrite import rewrite_computation

T = TypeVar("T")


def sink_transposes(module: Module) -> None:
    """One sweep through each computation that has convolutions."""
    for computation in module.computations:
        if any(x.opcode == "convolution" for x in computation.instructions):
            rewrite_computation(computation, _Sinking().rules)


class _Sinking:
    """The rules for one computation."""

    def __init__(self) -> None:
        self.images: set[Instruction] = set()
        """Values that were computed in the order of a convolution and have become a transpose of it."""
        self.rules: dict[str, Rule] = {
            **{op.opcode: self.elementwise for op in RECORDS.values() if op.elementwise},
            "pad": self.pad,
            "reduce-window": self.reduce_window,
            "reduce": self.reduce,
        }

    def order(self, x: Instruction) -> tuple[int, ...] | None:
        """The order of dimensions in which `x` is an image transposed; None if it is none."""
        if x.opcode != "transpose":
            return None
        (o,) = x.operands
        is_image = o.opcode == "convolution" or o.marks.interleaved or o in self.images
        return x.attrs["dimensions"] if is_image else None

    def sunk(
        self, w: Writer, x: Instruction, order: tuple[int, ...], *operands: Instruction, **attrs: object
    ) -> Instruction:
        """`x` computed before the transpose, from these operands."""
        dims = tuple([x.shape.dimensions[order.index(d)] for d in range(len(order))])
        made = w.again(x, *operands, shape=Shape(x.shape.element_type, dims), **attrs)
        self.images.add(made)
        return w.transpose(made, order)

    def elementwise(self, w: Writer, x: Instruction) -> Instruction:
        order = next((found for found in map(self.order, x.operands) if found is not None), None)
        if (
            order is None
            or not x.shape.is_array
            or any(o.shape.rank and o.shape.dimensions != x.shape.dimensions for o in x.operands)
        ):
            return x
        operands = [_before(w, o, order) for o in x.operands]
        held = [o for o in operands if o is not None]
        return self.sunk(w, x, order, *held) if len(held) == len(operands) else x

    def pad(self, w: Writer, x: Instruction) -> Instruction:
        order = self.order(x.operands[0])
        if order is None:
            return x
        padding = _back(x.attrs["padding"], order)
        return self.sunk(w, x, order, x.operands[0].operands[0], x.operands[1], padding=padding)

    def reduce_window(self, w: Writer, x: Instruction) -> Instruction:
        order = self.order(x.operands[0])
        if order is None or len(x.operands) != 2:
            return x
        window = Window(_back(x.attrs["window"].dimensions, order))
        return self.sunk(w, x, order, x.operands[0].operands[0], x.operands[1], window=window)

    def reduce(self, w: Writer, x: Instruction) -> Instruction:
        order = self.order(x.operands[0])
        if order is None or len(x.operands) != 2:
            return x
        gone = [order[d] for d in sorted(x.attrs["dimensions"])]
        if gone != sorted(gone):
            return x  # the order of its steps would be another
        left = [order[d] for d in range(len(order)) if d not in x.attrs["dimensions"]]
        image = x.operands[0].operands[0]
        dims = tuple([image.shape.dimensions[d] for d in sorted(left)])
        shape = Shape(x.shape.element_type, dims)
        made = w.again(x, image, x.operands[1], shape=shape, dimensions=tuple(gone))
        return w.transpose(made, tuple([sorted(left).index(d) for d in left]))


def _back(each: tuple[T, ...], order: tuple[int, ...]) -> tuple[T, ...]:
    """Returns the items for the dimensions of a transpose's operand, from those for the dimensions of its result."""
    return tuple([each[order.index(d)] for d in range(len(order))])


def _before(w: Writer, o: Instruction, order: tuple[int, ...]) -> Instruction | None:
    """An operand as it is before a transpose; None if that would take another transpose."""
    if not o.shape.rank:
        return o
    if o.opcode == "transpose" and o.attrs["dimensions"] == order:
        return o.operands[0]
    if o.opcode != "broadcast":
        return None
    dims = [order[d] for d in o.attrs["dimensions"]]
    (source,) = o.operands
    source = w.transpose(source, tuple(sorted(range(len(dims)), key=dims.__getitem__)))
    shape = Shape(o.shape.element_type, tuple([o.shape.dimensions[order.index(d)] for d in range(len(order))]))
    return w.op("broadcast", source, shape=shape, dimensions=tuple(sorted(dims)))
