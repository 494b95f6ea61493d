"""The elemental style: an HLO instruction as a function from an output index to a value.

`Elemental.value(x, index)` walks from an instruction through what was fused into it down to buffers, turning indices
on the way. Reductions open loops where they are met; what belongs to an outer loop lands there by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..dataclass import dataclass, field
from ..hlo.ir import Computation, Instruction
from ..hlo.types import REAL_OF, TYPES
from ..loop.affine import Affine, Index, linearize
from ..loop.builder import Builder
from ..loop.ir import Val
from ..loop.tiling import Tile
from ..ops.elementwise.lower import ELEMENTWISE
from .apply import apply, flattened
from .source import Scratch, Source, load, misplaced

Lower = Callable[["Elemental", Instruction, Index], Any]
"""The value of an instruction at an index."""


@dataclass(slots=True)
class Elemental:
    """Evaluates instructions inside one kernel.

    `sources` are the instructions that lie in buffers. `known` holds values given from outside, such as a GEMM's
    accumulator, with the index they stand for.
    """

    b: Builder
    sources: dict[Instruction, Source]
    lowerings: Mapping[str, Lower]
    """Lowerings of the operations that are not elementwise: `lowering.table.ELEMENTAL`."""
    scratch: dict[Instruction, Scratch] = field(default_factory=dict)
    known: dict[Instruction, tuple[Index, Val]] = field(default_factory=dict)
    memo: dict[tuple[Instruction, Index], Any] = field(default_factory=dict)
    row: Index | None = None
    row_depth: int = 0
    """In a row kernel, the index of the row and the blocks open there: reductions are computed once there and nowhere
    else."""
    reads: dict[int, set[tuple[Affine, int]]] = field(default_factory=dict)
    """The elements of each source that have been read: positions, and the bytes of an element."""
    tile: Tile | None = None
    """The tile in which elements are computed, where the kernel goes by tiles."""

    def value(self, x: Instruction, index: Index) -> Any:
        """The element of `x` at `index`; a list of values for an instruction with a tuple result, and of a complex
        number."""
        key = (x, index)
        found = self.memo.get(key)
        if found is not None and self._alive(found):
            return found
        result = self._compute(x, index)
        self.memo[key] = result
        return result

    def _alive(self, value: Any) -> bool:
        return (value[0] if isinstance(value, list) else value).block in self.b.stack

    def _compute(self, x: Instruction, index: Index) -> Any:
        known = self.known.get(x)
        if known is not None:
            if known[0] != index:
                raise misplaced(x)
            return known[1]
        source = self.sources.get(x)
        if source is not None:
            return self.load(source, source.position(index), source.dtype)
        scratch = self.scratch.get(x)
        if scratch is None or index[: scratch.rows] != self.row:
            # No scratch row, or another row's element: the scratch row holds `x` at the kernel's own row and nowhere
            # else.
            if x.opcode == "reduce" and self.row is not None and len(self.b.stack) > self.row_depth:
                # Inside the loops of the row: its value there would be another for each element.
                raise misplaced(x)
            return self.expression(x, index)
        position = linearize(index[scratch.rows :], x.shape.dimensions[scratch.rows :])
        if scratch.filled:
            return self.b.load(scratch.number, position, x.shape.element_type)
        value = self.expression(x, index)
        self.b.pin(value)
        scratch.touched = True
        self.b.store(scratch.number, position, value, x.shape.element_type)
        return value

    def load(self, source: Source, position: Affine, dtype: str) -> Any:
        """The element at a position of a source, which it may hold as another type than its own."""
        self.reads.setdefault(source.number, set()).add((position, TYPES[dtype].bytes))
        across = (
            self.tile.load(self.b, source.number, position, dtype)
            if self.tile is not None and dtype not in REAL_OF
            else None
        )
        return load(self.b, source.number, position, dtype) if across is None else across

    def expression(self, x: Instruction, index: Index) -> Any:
        """The value of `x` from those of its operands."""
        elementwise = ELEMENTWISE.get(x.opcode)
        if elementwise is not None:
            fused = self.fused(x)
            operands = [self.value(o, index if o.shape.rank == len(index) else ()) for o in fused or x.operands]
            return self.b.contracted(*operands) if fused else elementwise(self.b, x, *operands)
        lower = self.lowerings.get(x.opcode)
        if lower is None:
            raise misplaced(x)
        return lower(self, x, index)

    def fused(self, x: Instruction) -> list[Instruction] | None:
        """The factors of the product that an addition takes with one rounding, and what they are added to."""
        i = x.marks.contracted if self.b.target.fused else None
        if i is None or x.operands[i] in self.sources or x.operands[i] in self.known:
            return None
        return [*x.operands[i].operands, x.operands[1 - i]]

    def apply(self, computation: Computation, arguments: list[Val]) -> list[Val]:
        """The results of a scalar computation, such as a reducer, on values: one per leaf of its root."""
        return flattened(apply(self.b, computation, arguments))
