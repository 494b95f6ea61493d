"""What the lowering of an operation works with: arrays in buffers, and the kernel that it writes."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

from ..hlo.ir import Instruction
from ..hlo.types import TYPES
from ..loop.affine import ZERO, Affine, Index, is_dense, row_major_strides
from ..loop.builder import Builder
from ..loop.ir import Val

if TYPE_CHECKING:
    from .elemental import Elemental


class NeedsBuffer(Exception):
    """An instruction cannot be part of a kernel's expression as it is used there: it needs a buffer of its own."""

    def __init__(self, instruction: Instruction):
        super().__init__(instruction.name)
        self.instruction = instruction


@dataclass(frozen=True, slots=True)
class Source:
    """An array in a buffer of the kernel: element strides by dimension and the first element's position."""

    number: int
    dtype: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    def position(self, index: Index) -> Affine:
        position = Affine(self.offset) if self.offset else ZERO
        for i, stride in zip(index, self.strides):
            if stride:
                position = position + i * stride
        return position

    @property
    def dense(self) -> bool:
        """Whether the elements lie in row-major order without gaps."""
        return is_dense(self.dims, self.strides)


@dataclass(slots=True)
class Scratch:
    """A value kept for one row of a row kernel: written when first computed, read from then on.

    `rows` is the number of leading dimensions that the row's loops run over.
    """

    number: int
    rows: int
    filled: bool = False
    touched: bool = False


@dataclass(slots=True)
class Kernel:
    """A kernel while its body is written: `outputs` are the arrays that it fills."""

    b: Builder
    e: Elemental
    outputs: dict[Instruction, tuple[Source, ...]]
    """One array per result leaf of each root."""
    scratch_bytes: list[int] = field(default_factory=list)
    """The sizes of what `scratch` gave, in order."""

    def scratch(self, dtype: str, dims: tuple[int, ...]) -> Source:
        """Memory of the kernel's own, with undefined content."""
        self.scratch_bytes.append(max(1, prod(dims)) * TYPES[dtype].bytes)
        return Source(self.b.scratch_pointer(), dtype, dims, row_major_strides(dims))

    def whole(self, x: Instruction) -> Source:
        """An operand that a routine reads by its address: it must lie in a buffer, in row-major order."""
        source = self.e.sources.get(x)
        if source is None or not source.dense:
            raise NeedsBuffer(x)
        return source

    def address(self, source: Source) -> Val:
        """Where an array starts, for `Builder.invoke`."""
        pointer = self.b.pointer(source.number)
        return self.b.add(pointer, self.b.const("u32", source.offset * TYPES[source.dtype].bytes)) if source.offset else pointer

    def store(self, x: Instruction, index: Index, value: Val, leaf: int = 0) -> None:
        """Writes the element of `x` (of its tuple leaf, if it has several) at `index`."""
        target = self.outputs[x][leaf]
        self.b.store(target.number, target.position(index), value, target.dtype)
