"""Weights that are stored in fewer bits than the program has them in.

Each weight for which the caller has named a format passes through it right behind its parameter. What computes the
stored form depends on that weight alone, so `init` does it, once; `dequantize.py` beside this has products read what is
stored.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from ..hlo.index_map import IndexMap
from ..hlo.ir import Computation, Instruction, Module
from ..hlo.signature import leaf_of
from ..hlo.types import limits
from ..ops.control.simplify_counting import unchanged
from ..ops.dot.stored import AS_IT_IS, BLOCK, NIBBLE
from ..ops.reading import reads, record
from ..writing.writer import Index, Writer

WEIGHT_TYPES = ("f32", "bf16", "f16")
"""The types of weights that are stored in other formats."""

OF_16_BITS = ("bf16", "f16")
"""Types of weights that are stored as they are where the caller has named no format."""

INT8 = "int8"
INT4 = "int4"
INT4_BY_INT8 = "int4 by int8"
"""As INT4, but few rows that are multiplied by it are rounded to 8 bits, in blocks as it is: for engines that multiply
bytes at once."""
IN_BLOCKS = (INT4, INT4_BY_INT8)
"""Formats with a scale for each block of numbers."""

INT8_MOST = 127
"""The greatest number of a weight in 8 bits; the least is its negative."""

INT4_LEAST, INT4_MOST = limits(NIBBLE)
"""The numbers of a weight in 4 bits: that of the greatest magnitude in a block becomes the least of them."""

F16_INFINITE = 65520.0
"""The least number that f16 has only as infinity."""

LEAST = 1e-30
"""The greatest magnitude is taken for this where it is less: its reciprocal stays far from infinity."""

Place = tuple[Instruction, Index]
"""A leaf of a parameter of the entry."""


def store_weights(module: Module) -> None:
    """Has every weight that has a format pass through it.

    Vectors stay as they are: biases and scales are few and count much.
    """
    formats = {(p, index): name for p in module.entry.parameters for index, name in p.marks.stored_leaves}
    if not formats:
        return
    summed = _Summed(module)
    entry, stored = module.entry, dict[Instruction, Instruction]()
    users: dict[Instruction, list[Instruction]] = {}
    for x in entry.instructions:
        for o in x.operands:
            users.setdefault(o, []).append(x)
    users.setdefault(entry.root, []).append(entry.root)
    written: list[Instruction] = []
    for x in entry.instructions:
        x.operands = [stored.get(o, o) for o in x.operands]
        written.append(x)
        name = formats.get(leaf_of(x)) if x.shape.is_array else None
        if name is not None and x.shape.element_type in WEIGHT_TYPES and x.shape.rank > 1 and x.shape.size:
            dims = summed.of(leaf_of(x))
            if name in IN_BLOCKS and not (
                len(dims) == 1 and x.shape.dimensions[min(dims)] % BLOCK == 0 and _are_factors(x, users)
            ):
                name = INT8
            w, type_ = Writer(x, written, module.computations), x.shape.element_type
            if name == AS_IT_IS:
                made = w.convert(x, "f32", weight_format=name)
            else:
                made = _through(w, x if type_ == "f32" else w.convert(x, "f32"), name, dims)
            stored[x] = made if type_ == "f32" else w.convert(made, type_)
    entry.instructions = written
    # Reductions that were made come before what calls them.
    module.computations.remove(entry)
    module.computations.append(entry)


def _through(w: Writer, x: Instruction, name: str, dims: frozenset[int]) -> Instruction:
    """A weight of f32 as its format gives it back. `dims` are those along which it is summed, so that one scale serves
    them."""
    if name in IN_BLOCKS:
        return _in_blocks(w, x, name, min(dims))
    sums = tuple(sorted(dims)) or (x.shape.rank - 1,)

    def spread(a: Instruction) -> Instruction:
        a.mark(weight_format=name)  # it is a part of the stored form
        return w.broadcast(a, x.shape.dimensions, tuple(d for d in range(x.shape.rank) if d not in sums))

    def greatest() -> Instruction:
        return w.reduce(w.unary("abs", x), w.scalar("f32", 0.0), sums, "maximum")

    if name != INT8:
        made = w.convert(w.convert(x, name), "f32", weight_format=name)
        if name == "bf16" or not dims:
            return made
        # The kernels of products know no f16 that is not finite.
        most = greatest()
        scale = w.select(
            w.compare("LT", most, F16_INFINITE), w.like(most, w.scalar("f32", 1.0)), w.scalar("f32", math.nan)
        )
        return w.mul(made, spread(scale))
    scale = spread(w.mul(w.binary("maximum", greatest(), LEAST), 1 / INT8_MOST))
    whole = w.convert(w.unary("round-nearest-even", w.div(x, scale)), "s8")
    return w.mul(w.convert(whole, "f32", weight_format=name), scale)


def _in_blocks(w: Writer, x: Instruction, name: str, dim: int) -> Instruction:
    """A weight as 4 bits and a scale for each block along `dim` give it back.

    What is greatest in magnitude becomes -8, so that all sixteen numbers are used; what would be 8 then becomes 7.
    """
    dims = x.shape.dimensions
    split = (*dims[:dim], dims[dim] // BLOCK, BLOCK, *dims[dim + 1 :])
    blocks = w.reshape(x, split)
    least = w.reduce(blocks, w.scalar("f32", math.inf), (dim + 1,), "minimum")
    most = w.reduce(blocks, w.scalar("f32", -math.inf), (dim + 1,), "maximum")
    extreme = w.select(w.compare("GT", most, w.unary("negate", least)), most, least)
    small = w.compare("LT", w.unary("abs", extreme), LEAST)
    scale = w.select(small, w.like(extreme, LEAST), w.mul(extreme, 1 / INT4_LEAST))
    scale.mark(weight_format=name)
    kept = tuple(d for d in range(len(split)) if d != dim + 1)
    scaled = w.mul(blocks, w.broadcast(w.div(w.like(scale, 1.0), scale), split, kept))
    whole = w.convert(w.binary("minimum", w.unary("round-nearest-even", scaled), INT4_MOST), NIBBLE)
    small_numbers = w.convert(w.reshape(whole, dims), "f32", weight_format=name)
    return w.mul(small_numbers, w.reshape(w.broadcast(scale, split, kept), dims))


def _are_factors(x: Instruction, users: Mapping[Instruction, Sequence[Instruction]]) -> bool:
    """Returns True if all that the `users` of an array do with its numbers, seen through moves, is to multiply others
    by them in dots."""
    return all(_are_factors(y, users) if _moves(y) else y.opcode == "dot" for y in users.get(x, ()))


def _moves(x: Instruction) -> bool:
    """Returns True if an instruction moves an array, or widens one of 16 bits."""
    return record(x).view or (x.opcode == "convert" and x.shape.element_type == "f32")


class _Summed:
    """Along which dimensions the leaves of the entry's parameters are summed by products, seen back through moves and
    loops."""

    def __init__(self, module: Module):
        self.found: dict[Place, frozenset[int]] = {}
        self.entry = module.entry
        self.loops: dict[Computation, tuple[Instruction, Computation]] = {}
        """The loop that a computation is the body of, and the computation that it stands in."""
        for computation in module.computations:
            for x in computation.instructions:
                if x.opcode == "while":
                    self.loops[x.called[0]] = x, computation
        for computation in module.computations:
            for x in computation.instructions:
                for o, read in zip(x.operands, reads(x)) if record(x).product else ():
                    self.follow(computation, o, fed(read.map, range(x.shape.rank, len(read.map.domain))))

    def of(self, place: Place) -> frozenset[int]:
        return self.found.get(place, frozenset())

    def follow(self, computation: Computation, x: Instruction, dims: frozenset[int]) -> None:
        """Notes `dims` of an array at the leaf that it is moved from, if it is."""
        while x.opcode != "parameter":
            if record(x).view:
                dims = fed(reads(x)[0].map, dims)
            elif x.opcode == "get-tuple-element" and computation in self.loops:
                loop, computation = self.loops[computation]
                index, initial = x.attrs["index"], loop.operands[0].elements
                if index not in unchanged(loop) or not initial:
                    return
                x = initial[index]
                continue
            elif x.opcode not in ("dynamic-slice", "convert", "get-tuple-element"):
                return
            x = x.operands[0]
            if x.opcode == "get-tuple-element" and computation is self.entry:
                break
        if computation is self.entry:
            place = leaf_of(x)
            self.found[place] = self.of(place) | dims


def fed(map: IndexMap, dims: Iterable[int]) -> frozenset[int]:
    """The dimensions of an operand whose coordinates `dims` of the index decide, or may decide."""
    chosen = frozenset(dims)
    return frozenset(
        j for j, c in enumerate(map.coordinates) if c is None or any(d in chosen for _, d, _, _ in c.terms)
    )
