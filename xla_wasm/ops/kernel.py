"""What the lowering of an operation writes that is a kernel of its own: the kernel and its memory."""

from __future__ import annotations

from math import prod

from ..dataclass import dataclass, field
from ..hlo.ir import Instruction
from ..hlo.types import TYPES
from ..loop.affine import Index, row_major_strides
from ..loop.builder import Builder
from ..loop.ir import Val
from .elemental import Elemental
from .source import Source, misplaced, store


@dataclass(slots=True)
class Kernel:
    """A kernel while its body is written: `outputs` are the arrays that it fills."""

    b: Builder
    e: Elemental
    outputs: dict[Instruction, tuple[Source, ...]]
    """One array per result leaf of each root."""
    placed: frozenset[Instruction] = frozenset()
    """Operands that the result holds already, where they belong."""
    scratch_bytes: list[int | bytes] = field(default_factory=list)
    """The sizes of what `scratch` gave, and the first contents of what `persistent` gave, in order."""

    def scratch(self, dtype: str, dims: tuple[int, ...]) -> Source:
        """Memory of the kernel's own, with undefined content."""
        self.scratch_bytes.append(max(1, prod(dims)) * TYPES[dtype].bytes)
        return Source(self.b.scratch_pointer(), dtype, dims, row_major_strides(dims))

    def persistent(self, dtype: str, dims: tuple[int, ...], content: bytes) -> Source:
        """Memory of this one instruction that keeps its content between runs; it starts with `content`."""
        self.scratch_bytes.append(content)
        return Source(self.b.scratch_pointer(), dtype, dims, row_major_strides(dims))

    def whole(self, x: Instruction) -> Source:
        """An operand that a routine reads by its address: it must lie in a buffer, in row-major order."""
        source = self.e.sources.get(x)
        if source is None or not source.dense:
            raise misplaced(x)
        return source

    def address(self, source: Source) -> Val:
        """Where an array starts, for `Builder.invoke`."""
        pointer = self.b.pointer(source.number)
        return self.b.add(pointer, self.b.const("u32", source.offset * TYPES[source.dtype].bytes)) if source.offset else pointer

    def store(self, x: Instruction, index: Index, value: Val | list[Val], leaf: int = 0) -> None:
        """Writes the element of `x` (of its tuple leaf, if it has several) at `index`."""
        target = self.outputs[x][leaf]
        store(self.b, target.number, target.position(index), value, target.dtype)
