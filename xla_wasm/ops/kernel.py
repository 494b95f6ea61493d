"""What the lowering of an operation works with: arrays in buffers, and the kernel that it writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..hlo.ir import Instruction
from ..loop.affine import ZERO, Affine, Index, is_dense
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

    def store(self, x: Instruction, index: Index, value: Val, leaf: int = 0) -> None:
        """Writes the element of `x` (of its tuple leaf, if it has several) at `index`."""
        target = self.outputs[x][leaf]
        self.b.store(target.number, target.position(index), value, target.dtype)
