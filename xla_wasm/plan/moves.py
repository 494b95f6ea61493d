"""Arrays most of which are another array's elements, some places further: a cache that shifts, and all that is placed
likewise.

In row-major order such elements keep their distances, along whichever dimensions they move: one move of memory brings
all of them to their places, and what lies between them is written afterwards. Such a move may be within one buffer.
"""

from __future__ import annotations

from collections.abc import Callable

from ..dataclass import dataclass
from ..hlo.index_map import IndexMap, identity
from ..hlo.ir import Instruction
from ..hlo.op import Kind
from ..ops.reading import reads, record
from .buffer import View

_PLACING = ("concatenate", "pad")
"""Operations whose kernels leave out what is there already (`KernelWriter.placed`)."""
_LEAST = 1024
"""Bytes that are worth a step more."""
_MOST_AGAIN = 4
"""One part of so many of the array is the most that may be read beside what moves, and so be put aside."""

Available = Callable[[Instruction], View | None]


@dataclass(frozen=True, slots=True)
class Move:
    """Operands whose elements lie in `source` as they have to lie in the result. Positions count elements in row-major
    order."""

    source: View
    operands: frozenset[Instruction]
    origin: int
    """The place of the first of them in the source; behind it lie `count` elements with the last of them."""
    target: int
    """The place of the first of them in the result."""
    count: int


def find_move(x: Instruction, available: Available) -> Move | None:
    """Returns the move from an array of the same size that makes most of `x`, which places its operands, or None."""
    if x.opcode not in _PLACING or x.shape.bytes < _LEAST:
        return None
    found: dict[tuple[View, int], list[tuple[Instruction, int, int, int]]] = {}
    """The operands that keep their distance from an array: their sizes, first positions and ends."""
    uses: dict[Instruction, int] = {}
    for o in x.operands:
        uses[o] = uses.get(o, 0) + 1
    for o, read in zip(x.operands, reads(x)):
        source, origin = _origin(o, available) if read.kind is Kind.PLACED and uses[o] == 1 else (None, None)
        region = _region(read.map, origin) if origin is not None else None
        if source is None or region is None or source.buffer.bytes != x.shape.bytes:
            continue
        size, target, end, further = region
        found.setdefault((source, further), []).append((o, size, target, end))
    sizes = {key: sum(size for _, size, _, _ in parts) for key, parts in found.items()}
    best = max(sizes, key=lambda key: sizes[key], default=None)
    if best is None or 2 * sizes[best] < x.shape.size:
        return None
    operands, _, targets, ends = zip(*found[best])
    target = min(targets)
    return Move(best[0], frozenset(operands), target - best[1], target, max(ends) - target)


def is_small_part(o: Instruction, x: Instruction) -> bool:
    """Returns True if an operand that is computed from what moves is worth being put aside."""
    return o.shape.size * _MOST_AGAIN <= x.shape.size


def _origin(x: Instruction, available: Available) -> tuple[View | None, IndexMap]:
    """The array in which the elements of `x` lie, None if they lie in none, and where in it."""
    origin = identity(x.shape.dimensions)
    while (view := available(x)) is None:
        if not record(x).view:
            return None, origin
        origin = origin.then(reads(x)[0].map)
        (x,) = x.operands
    return view, origin


def _region(placed: IndexMap, origin: IndexMap) -> tuple[int, int, int, int] | None:
    """Returns the number of elements that are placed inside of the result, the positions of the first and behind the
    last, and their distance from those in the source; None if that differs, or there are none."""
    to, at = placed.position, origin.position
    if to is None or at is None or to.terms != at.terms:
        return None
    size, first, last = 1, list[int](), list[int]()
    for d, (coordinate, length, bound) in enumerate(zip(placed.coordinates, placed.domain, placed.dims)):
        if coordinate is None or any(term != (1, d, 1, length) for term in coordinate.terms):
            return None
        first.append(max(0, -coordinate.offset))
        last.append(min(length, bound - coordinate.offset) - 1)
        size *= max(0, last[d] + 1 - first[d])
    if not size:
        return None
    low, high = (to.offset + sum(c * corner[d] for c, d, *_ in to.terms) for corner in (first, last))
    return size, low, high + 1, to.offset - at.offset
