"""Chooses which instructions get a buffer; all others are computed inside the kernels that read them.

An instruction gets a buffer if one of the rules holds, which are asked in their order. What they go by is how its
readers read it, as the records of their operations say, and the costs of `plan.cost`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ..dataclass import dataclass
from ..hlo.index_map import IndexMap
from ..hlo.ir import Computation, Instruction
from ..hlo.op import Kind, Read
from ..lowering.table import has_kernel, is_expression
from ..ops.dot.stored import is_widening, reads_converted
from ..ops.reading import reads, record
from .cost import MAX_OPERATIONS, MAX_PLACES, RECOMPUTED, UNKNOWN, operations_left, recompute


@dataclass(slots=True)
class Readers:
    """The readers of an instruction, each with the number of the operand and how it reads that."""

    root: bool
    whole: bool
    """True if one of them reads it whole."""
    reads_whole: bool
    """True if it reads an operand so itself."""
    edges: list[tuple[Instruction, int, Read]]
    places: Places
    """The places of its elements, were it part of all kernels that read it."""
    weight: int
    """The operations that the heaviest of these kernels has by now."""


Rule = Callable[[Instruction, Readers], bool]


def _is_result(x: Instruction, readers: Readers) -> bool:
    """Callers read it."""
    return readers.root


def _is_read_whole(x: Instruction, readers: Readers) -> bool:
    """A reader needs it in memory: control flow, tuples, routines that work on addresses, other views of the same
    bytes."""
    return readers.whole


def _is_no_expression(x: Instruction, readers: Readers) -> bool:
    """Its elements are not computed one by one: a parameter, control flow, a kernel of its own kind, a constant that is
    no splat."""
    return x.literal.splat_value() is None if x.literal is not None else not is_expression(x)


def _is_there(x: Instruction, readers: Readers) -> bool:
    """It is in memory already: a leaf of a tuple, or the bytes of its operand as another type."""
    return readers.reads_whole


def _accumulates(x: Instruction, readers: Readers) -> bool:
    """It computes an element from many, and more than once if a loop around it does not follow its own."""
    return record(x).accumulates and not _is_finished(x, readers)


def _is_finished(x: Instruction, readers: Readers) -> bool:
    """Its loops end where it is read, in a kernel that takes each element once. Reductions along rows have groups
    instead."""
    return readers.places.once and is_reduction(x) and not reduces_rows(x)


def is_reduction(x: Instruction) -> bool:
    """Returns True if each element is computed from those along some dimensions of an operand."""
    about = record(x)
    return about.accumulates and not about.product and about.reads(x)[0].kind is Kind.REDUCED


def reduces_rows(x: Instruction) -> bool:
    """Returns True if a reduction walks the last dimensions, so that its loops stand inside those over its result."""
    rank, gone = x.operands[0].shape.rank, x.attrs["dimensions"]
    return sorted(gone) == list(range(rank - len(gone), rank))


def _is_read_often(x: Instruction, readers: Readers) -> bool:
    """A reader would compute its elements more than once, each time for more than loading them costs."""
    return not _renames_memory(x) and not all(_computes_once(x, *edge) for edge in readers.edges)


def _is_shared(x: Instruction, readers: Readers) -> bool:
    """Several kernels, or one at several places, would compute it, for more than writing it once and loading it
    costs."""
    times = readers.places.times
    return times > 1 and not recompute(x, times, len(readers.places.kernels))


def _is_stored(x: Instruction, readers: Readers) -> bool:
    """It is a weight as it is stored, of which elements are looked up, or its scales."""
    return x.marks.weight_format != "" and not is_widening(x)


def _is_heavy(x: Instruction, readers: Readers) -> bool:
    """The kernel that would compute it is large enough, or would have its code too often. A number that is known has
    none, and kernels that know it compute less."""
    if _is_known_number(x):
        return False
    return readers.weight > MAX_OPERATIONS or len(readers.places.shares) > MAX_PLACES and not is_one_number(x)


def is_one_number(x: Instruction) -> bool:
    """Returns True of a broadcast of one element: kernels have no need of it in memory."""
    return x.opcode == "broadcast" and x.operands[0].shape.size == 1


RULES: tuple[Rule, ...] = (
    _is_result,
    _is_read_whole,
    _is_no_expression,
    _is_there,
    _accumulates,
    _is_read_often,
    _is_shared,
    _is_stored,
    _is_heavy,
)
"""Reasons for a buffer."""


def _has_reason(x: Instruction, readers: Readers) -> bool:
    for rule in RULES:
        if rule(x, readers):
            return True
    return False


def _computes_once(x: Instruction, reader: Instruction, number: int, read: Read) -> bool:
    """Returns True if a reader that computes `x` itself computes about as many elements as `x` has, or hardly
    anything."""
    if read.kind is Kind.PLACED or x.shape.size == 1:
        return True
    if read.kind is Kind.MAP:
        return read.map.one_to_one
    if record(reader).product:
        # The right side is packed, element by element; that of a convolution may be read by a loop of its own instead.
        return number == 1 and (reads(reader)[0].kind is Kind.REDUCED or operations_left(x, RECOMPUTED) >= 0)
    if read.kind is Kind.REDUCED and not has_kernel(reader):
        return True
    return read.kind in (Kind.COMPUTED, Kind.REDUCED) and operations_left(x, UNKNOWN) >= 0


def _renames_memory(x: Instruction) -> bool:
    """Returns True if `x` only renames indices of what lies in a buffer, so that reading through it costs nothing."""
    while record(x).view:
        (x,) = x.operands
    return not record(x).cost


def _is_known_number(x: Instruction) -> bool:
    """Returns True if all elements are one number that is known."""
    while record(x).view:
        (x,) = x.operands
    return x.literal is not None and x.literal.splat_value() is not None


class Places:
    """The places where kernels compute an instruction's elements: by kernel, at an index that these maps give from the
    kernel's, and the share of all its elements."""

    __slots__ = ("shares", "kernels", "times", "once")

    def __init__(self, shares: dict[tuple[Instruction, tuple[IndexMap, ...]], float]):
        self.shares = shares
        self.kernels: dict[Instruction, float] = {}
        for (kernel, _), share in shares.items():
            self.kernels[kernel] = self.kernels.get(kernel, 0) + share
        self.times = sum([max(share, 1) for share in self.kernels.values()])
        """The times each element is computed."""
        self.once = [maps for _, maps in shares] == [()]
        """True if there is one place, with each element once and in order."""

    def seen_through(self, read: Read) -> Places:
        """Returns the places of an operand's elements if its reader is computed at these."""
        m = read.map
        if m.keeps_order:
            return self
        share = prod(m.domain) / prod(m.dims) if read.kind is Kind.MAP and m.one_to_one else 1.0
        return Places({(kernel, (*maps, m)): part * share for (kernel, maps), part in self.shares.items()})


def _all_of(places: list[Places]) -> Places:
    """The places that several readers make, as one."""
    first, *others = dict.fromkeys(places) or (_NOWHERE,)
    return Places({k: v for p in (first, *others) for k, v in p.shares.items()}) if others else first


_NOWHERE = Places({})


@dataclass(slots=True)
class _Chosen:
    """A choice for one instruction: whether it gets a buffer, or else what becomes of it."""

    places: Places
    weight: int
    """Instructions from here to the buffer that it is computed for, along the longest way."""
    role: str = ""
    """`_BUFFER`, `_LEFT` or `_CHAINED`; else it is computed wherever it is read."""


_BUFFER = "gets a buffer"
_LEFT = "is part of a product's left side, which is read through strides or as what it is converted from"
_CHAINED = "is computed where its only kernel computes the element"


def buffered(computation: Computation) -> set[Instruction]:
    """The instructions of a computation that get buffers."""
    edges: dict[Instruction, list[tuple[Instruction, int, Read]]] = {x: [] for x in computation.instructions}
    whole: set[Instruction] = set()
    reads_whole: set[Instruction] = set()
    for x in computation.instructions:
        for number, (o, read) in enumerate(zip(x.operands, reads(x) if x.operands else ())):
            edges[o].append((x, number, read))
            if read.kind is Kind.WHOLE:
                whole.add(o)
                reads_whole.add(x)
    chosen: dict[Instruction, _Chosen] = {}
    products: set[Instruction] = set()
    """Kernels that have a product."""
    for x in reversed(computation.instructions):
        places, heaviest, left, chained = list[Places](), 0, False, bool(edges[x])
        for u, number, read in edges[x]:
            user = chosen[u]
            places.append(user.places.seen_through(read))
            heaviest = max(heaviest, user.weight)
            left = left or user.role is _LEFT or not number and record(u).product
            chained = chained and user.role in (_BUFFER, _CHAINED) and follows(u, x)
        own = _all_of(places)
        chained = chained and len(own.kernels) == 1
        readers = Readers(x is computation.root, x in whole, x in reads_whole, edges[x], own, heaviest)
        choice = chosen[x] = _Chosen(own, 1 + heaviest)
        if (
            left
            and (_is_strided(x) or all(u.operands[0] is x and reads_converted(u) for u, _, _ in edges[x]))
            and not readers.whole
        ):
            # A product reads its left side through strides, and bytes, or a matrix that it reads once, as what it is
            # converted from.
            choice.role = _LEFT
        elif left or _has_reason(x, readers):
            if record(x).product and chained and not products.issuperset(own.kernels):
                # One product in a kernel, whose elements are finished on its accumulators.
                products.update(own.kernels)
            else:
                choice.role, choice.places, choice.weight = _BUFFER, Places({(x, ()): 1.0}), 1
        elif chained:
            choice.role = _CHAINED
    return {x for x, choice in chosen.items() if choice.role is _BUFFER}


def follows(user: Instruction, x: Instruction) -> bool:
    """Returns True if a reader takes each element of `x` once, in the same order."""
    about = record(user)
    in_order = about.elementwise or about.view and about.reads(user)[0].map.keeps_order
    return in_order and user.shape.size == x.shape.size


def _is_strided(x: Instruction) -> bool:
    """Returns True if `x` renames indices in a way that strides, which are not negative, can follow."""
    return record(x).view and all(c is None or all(t[0] > 0 for t in c.terms) for c in reads(x)[0].map.coordinates)
