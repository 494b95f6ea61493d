"""The kernel of an operation that has one of its own, and its memory, for the lowering that writes it."""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt, prod

from ..dataclass import dataclass, field
from ..hlo.index_map import row_major_strides
from ..hlo.ir import Instruction
from ..hlo.types import TYPES
from ..loop.affine import ZERO, Affine, Index
from ..loop.builder import Builder
from ..loop.ir import Touch, Val
from .elemental import Elemental
from .source import Source, misplaced, store

_CALL = 1 << 14
"""Operations that are worth a call of their own."""


@dataclass(slots=True)
class KernelWriter:
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
        """Returns the address where an array starts, for `Builder.invoke`."""
        return self.b.pointer(source.number)

    def invoke_each(
        self,
        symbol: str,
        arrays: Sequence[Source | int],
        count: int,
        *numbers: int,
        shared: Sequence[Source] = (),
        divided: Sequence[Source] = (),
        together: int = 1,
        work: int = 0,
    ) -> None:
        """Calls a C function that does the same for `count` items, each a part of all arrays but those that are
        `shared` and scratch memory that is not `divided`: `symbol(arrays, count, numbers)`. Several calls for some
        items each are a range that callers may split.

        The function takes `together` items side by side. `work`: about how many operations an item takes.
        """
        b = self.b
        written = {output.number for outputs in self.outputs.values() for output in outputs}
        whole = {source.number for source in shared} | set(range(b.pointers - len(self.scratch_bytes), b.pointers))
        whole -= {source.number for source in divided}
        size = max(
            (prod(s.dims) // max(count, 1) for s in arrays if isinstance(s, Source) and s.number not in whole),
            default=1,
        )
        work = work or size * max(1, isqrt(size))
        most = together * -(-_CALL // max(1, work * together))
        groups, rest = divmod(count, most)

        def call(items: int, first: Affine) -> None:
            args: list[Val | int] = []
            touches = []
            for k, s in enumerate(arrays):
                if isinstance(s, int):
                    args.append(s)
                    continue
                element = TYPES[s.dtype].bytes
                own = prod(s.dims) if s.number in whole else prod(s.dims) // count
                at = ZERO if s.number in whole else first * own
                address, offset = b.address(b.pointer(s.number), at, element)
                args.append(b.add(address, b.const("u32", offset)) if offset else address)
                is_scratch = s.number in whole and s not in shared
                touches.append(
                    Touch(k, own * (1 if s.number in whole else items) * element, s.number in written or is_scratch)
                )
            b.invoke(symbol, *args, items, *numbers, touches=tuple(touches), cost=items * work)

        if groups:
            with b.loop(groups, chunked=count > most) as i:
                call(most, i * most)
        if rest:
            with b.loop(1, chunked=count > most) as i:
                call(rest, (i + groups) * most)

    def store(self, x: Instruction, index: Index, value: Val | list[Val], leaf: int = 0) -> None:
        """Writes the element of `x` (of its tuple leaf, if it has several) at `index`."""
        target = self.outputs[x][leaf]
        store(self.b, target.number, target.position(index), value, target.dtype)
