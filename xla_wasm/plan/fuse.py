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
    once: bool
    """True if it is read at one place, each element once and in order."""
    own: list[Read]
    """The reads of its own operands."""
    edges: list[tuple[Instruction, int, Read]]
    times: float
    """The times each element would be computed, were the instruction part of all kernels that read it."""
    kernels: int
    places: int
    weight: int
    """The operations that the heaviest of these kernels has by now."""


Rule = Callable[[Instruction, Readers], bool]


def _is_result(x: Instruction, readers: Readers) -> bool:
    """Callers read it."""
    return readers.root


def _is_read_whole(x: Instruction, readers: Readers) -> bool:
    """A reader needs it in memory: control flow, tuples, routines that work on addresses, other views of the same
    bytes."""
    return any(read.kind is Kind.WHOLE for _, _, read in readers.edges)


def _is_no_expression(x: Instruction, readers: Readers) -> bool:
    """Its elements are not computed one by one: a parameter, control flow, a kernel of its own kind, a constant that is
    no splat."""
    return x.literal.splat_value() is None if x.literal is not None else not is_expression(x)


def _is_there(x: Instruction, readers: Readers) -> bool:
    """It is in memory already: a leaf of a tuple, or the bytes of its operand as another type."""
    return any(read.kind is Kind.WHOLE for read in readers.own)


def _accumulates(x: Instruction, readers: Readers) -> bool:
    """It computes an element from many, and more than once if a loop around it does not follow its own."""
    return record(x).accumulates and not _is_finished(x, readers)


def _is_finished(x: Instruction, readers: Readers) -> bool:
    """Its loops end where it is read, in a kernel that takes each element once. Reductions along rows have groups
    instead."""
    return readers.once and is_reduction(x) and not reduces_rows(x)


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
    return readers.times > 1 and not recompute(x, readers.times, readers.kernels)


def _is_stored(x: Instruction, readers: Readers) -> bool:
    """It is a weight as it is stored, of which elements are looked up, or its scales."""
    return x.marks.weight_format != "" and not is_widening(x)


def _is_heavy(x: Instruction, readers: Readers) -> bool:
    """The kernel that would compute it is large enough, or would have its code too often."""
    return readers.weight > MAX_OPERATIONS or readers.places > MAX_PLACES


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


Places = dict[tuple[Instruction, tuple[IndexMap, ...]], float]
"""The places of an instruction's elements, were it part of all that read it: by kernel, at an index that these maps
give from the kernel's, and the share of all its elements."""


def _seen_through(read: Read, places: Places) -> Places:
    """Returns the places of an operand's elements if its reader is computed at `places`."""
    if read.map.keeps_order:
        return places
    m = read.map
    share = prod(m.domain) / prod(m.dims) if read.kind is Kind.MAP and m.one_to_one else 1.0
    return {(kernel, (*maps, m)): part * share for (kernel, maps), part in places.items()}


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
    own_reads: dict[Instruction, list[Read]] = {}
    for x in computation.instructions:
        own_reads[x] = reads(x) if x.operands else []
        for number, (o, read) in enumerate(zip(x.operands, own_reads[x])):
            edges[o].append((x, number, read))
    chosen: dict[Instruction, _Chosen] = {}
    products: set[Instruction] = set()
    """Kernels that have a product."""
    for x in reversed(computation.instructions):
        users = dict.fromkeys([u for u, _, _ in edges[x]])
        own: Places = {}
        for number, (u, _, read) in enumerate(edges[x]):
            seen = _seen_through(read, chosen[u].places)
            if number == 1:
                own = {**own}  # the first may be what the user has
            if number:
                own.update(seen)
            else:
                own = seen
        kernels: dict[Instruction, float] = {}
        for (kernel, _), share in own.items():
            kernels[kernel] = kernels.get(kernel, 0) + share
        times = sum([max(share, 1) for share in kernels.values()])
        heaviest = max([chosen[u].weight for u in users], default=0)
        once = [maps for _, maps in own] == [()]
        readers = Readers(x is computation.root, once, own_reads[x], edges[x], times, len(kernels), len(own), heaviest)
        choice = chosen[x] = _Chosen(own, 1 + heaviest)
        left = any(chosen[u].role is _LEFT or record(u).product and u.operands[0] is x for u in users)
        chained = (
            bool(users)
            and len(kernels) == 1
            and all(chosen[u].role in (_BUFFER, _CHAINED) and follows(u, x) for u in users)
        )
        if (
            left
            and (_is_strided(x) or all(u.operands[0] is x and reads_converted(u) for u in users))
            and not _is_read_whole(x, readers)
        ):
            # A product reads its left side through strides, and bytes, or a matrix that it reads once, as what it is
            # converted from.
            choice.role = _LEFT
        elif left or any(rule(x, readers) for rule in RULES):
            if record(x).product and chained and not products.issuperset(kernels):
                # One product in a kernel, whose elements are finished on its accumulators.
                products.update(kernels)
            else:
                choice.role, choice.places, choice.weight = _BUFFER, {(x, ()): 1.0}, 1
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
