"""Puts materialized instructions that run over the same indices into one kernel.

Two kinds come together. Siblings and chains over the same dimensions share one loop nest. Rows: reductions over the
last dimensions, what is computed from their results, and what combines those with the rows again (softmax, layer norm)
share the loops over the first dimensions, `rows` of them.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from itertools import pairwise

from ..dataclass import dataclass, field
from ..hlo.ir import Computation, Instruction
from ..hlo.op import Kind
from ..lowering.table import is_expression
from ..ops.reading import reads, record
from .cost import LANES, MAX_GROUP, MAX_MEMBERS, SMALL, STEP
from .fuse import is_reduction, reduces_rows
from .versions import Versions


@dataclass(eq=False, slots=True)
class Group:
    """Instructions of one kernel: `full` are the dimensions of its inner loops, the first `rows` of them the rows'
    loops."""

    members: list[Instruction]
    full: tuple[int, ...] | None
    """None: the one member is a kernel of its own kind."""
    rows: int | None = None
    weight: int = 0
    bit: int = 0
    """The group's members as bits; `before` all that they depend on, however indirectly."""
    before: int = 0
    operands: list[Instruction] = field(default_factory=list)
    """Instructions with buffers that the members read, or have to wait for, each once."""
    reads: dict[Instruction, list[Instruction]] = field(default_factory=dict)
    """The same for each member."""
    kept: list[Instruction] = field(default_factory=list)
    """Values of a row that wait in scratch rows, since several of its loops need them."""

    def alone(self, x: Instruction) -> Group:
        """A group for a member by itself."""
        return Group([x], None, operands=self.reads[x])


def grouped(
    computation: Computation,
    chosen: set[Instruction],
    versions: Versions,
    products: Container[Instruction],
    lasting: Mapping[Instruction, int],
    ordered: Sequence[Instruction],
) -> dict[Instruction, Group]:
    """The group of every materialized instruction. Those that finish a product stay alone.

    What one weight decides, which is its number in `lasting`, is computed with nothing else: `init` does it when that
    weight is set. What the host sees, those in `ordered`, happens in the order of the program.
    """
    reads, weights = _reads(computation, chosen)
    for last, x in pairwise(ordered):
        reads[x] = {**reads[x], last: None}
    number = {x: i for i, x in enumerate(versions.order(chosen, reads))}
    groups: dict[Instruction, Group] = {}
    readers: dict[Instruction, list[Instruction]] = {}
    order: dict[Group, None] = {}
    for x in number:
        full, rows = _space(x) if x not in products else (None, None)
        own = Group([x], full, rows, weights[x], 1 << number[x], 0, list(reads[x]), {x: list(reads[x])})
        for s in own.operands:
            own.before |= groups[s].bit | groups[s].before
        groups[x] = own
        order[own] = None
        if full:
            # What it reads, and what reads the same as it does: those share loads, and values that need no buffer then.
            made_by = [groups[s] for s in own.operands]
            siblings = [groups[y] for s in own.operands if _is_shared(s, x) for y in readers.get(s, [])[-4:]]
            for g in dict.fromkeys(made_by + siblings):
                alike = lasting.get(g.members[0]) == lasting.get(x)
                if alike and (groups[x] is own or g in made_by) and _fits(g, groups[x], groups):
                    _merge(g, groups[x], groups, order, number)
        for s in reads[x]:
            readers.setdefault(s, []).append(x)
    return groups


def _is_shared(s: Instruction, x: Instruction) -> bool:
    """Returns True if it saves time to compute `x` in one kernel with what else reads `s`: the loads of an array, or a
    step where there is little to compute. Many results at once would need all their memory at once."""
    return s.shape.bytes > SMALL or x.shape.size <= 16 * STEP * LANES


def decided_by_one(computation: Computation, weights: Mapping[Instruction, int]) -> dict[Instruction, int]:
    """The number of the one weight, of those with numbers, that decides an array; nothing for others."""
    numbers: dict[Instruction, int] = {}
    for x in computation.instructions if weights else ():
        if x in weights:
            numbers[x] = weights[x]
        elif x.opcode in ("constant", "iota"):
            numbers[x] = 0
        elif x.operands and not _asks_host(x) and all(o in numbers for o in x.operands):
            read = {numbers[o] for o in x.operands} - {0}
            if len(read) <= 1:
                numbers[x] = next(iter(read), 0)
    return {x: number for x, number in numbers.items() if number}


def effects(computation: Computation) -> list[Instruction]:
    """The instructions that the host takes part in, in order; they all have buffers."""
    return [x for x in computation.instructions if _asks_host(x)]


def _asks_host(x: Instruction) -> bool:
    return x.marks.request is not None or bool(x.called) and record(x).control and any(effects(c) for c in x.called)


def _reads(
    computation: Computation, chosen: set[Instruction]
) -> tuple[dict[Instruction, dict[Instruction, None]], dict[Instruction, int]]:
    """For every materialized instruction: the materialized ones its kernel reads, and the operations it holds."""
    reads: dict[Instruction, dict[Instruction, None]] = {}
    weights: dict[Instruction, int] = {}
    for x in computation.instructions:
        own: dict[Instruction, None] = {}
        weight = 1
        for o in x.operands:
            if o in chosen:
                own[o] = None
            else:
                own |= reads[o]
                weight += weights[o]
        reads[x], weights[x] = own, weight
    return reads, weights


def _space(x: Instruction) -> tuple[tuple[int, ...] | None, int | None]:
    """The dimensions that the kernel of `x` runs over, and how many of them are rows."""
    if not x.shape.is_array or x.shape.size == 0:
        return None, None
    if is_reduction(x):
        whole, walked = x.operands[0].shape, x.attrs["dimensions"]
        # A scale of a single number is a reduction that combines nothing.
        walks_rows = walked and whole.size and reduces_rows(x)
        return (whole.dimensions, whole.rank - len(walked)) if walks_rows else (None, None)
    alone = not is_expression(x) or x.literal is not None or record(x).accumulates or _is_gathered(x)
    return (None, None) if alone or any(read.kind is Kind.WHOLE for read in reads(x)) else (x.shape.dimensions, None)


def _is_gathered(x: Instruction) -> bool:
    """Returns True if an array says where elements lie: others of its kernel would be loaded one by one, too."""
    return any(read.kind is Kind.COMPUTED for read in reads(x)) and any(o.shape.rank for o in x.operands[1:])


def split(g: Group, fits: Callable[[Group, list[Instruction]], bool]) -> list[Group]:
    """Returns the groups that take the place of one that does not fit into a kernel: as many of its first members as
    do, then the same of the rest."""
    first = g.alone(g.members[0])
    first.full, first.rows = _space(g.members[0])
    for n, x in enumerate(g.members[1:], 1):
        own = g.alone(x)
        own.full, own.rows = _space(x)
        joined = _joined(first, own)
        more = None if joined is None else _part(g, [*first.members, x], joined)
        if more is None or not fits(more, g.members[n + 1 :]):
            return [first, *split(_part(g, g.members[n:], (None, None)), fits)]
        first = more
    return [first]


def _part(g: Group, members: list[Instruction], space: tuple[tuple[int, ...] | None, int | None]) -> Group:
    """Some members of a group as one of their own."""
    read = dict.fromkeys(s for y in members for s in g.reads[y] if s not in members)
    return Group(members, *space, operands=list(read), reads=g.reads)


def _fits(g: Group, x: Group, groups: dict[Instruction, Group]) -> bool:
    """Returns True if the group `x` may become part of `g`."""
    if g.full is None:
        return False
    if len(g.members) + len(x.members) > MAX_MEMBERS or g.weight + x.weight > MAX_GROUP:
        return False
    # What either reads from elsewhere must not itself wait for the other.
    for one, two in ((g, x), (x, g)):
        if any(groups[s] is not one and groups[s].before & one.bit for s in two.operands):
            return False
    return _joined(g, x) is not None


def _joined(g: Group, x: Group) -> tuple[tuple[int, ...], int | None] | None:
    """The space of both together, if they have one."""
    assert g.full is not None and x.full is not None
    if x.rows is not None:
        if g.full == x.full and g.rows in (None, x.rows):
            return x.full, x.rows
        if g.rows is None and _bare(g.full) == _bare(x.full[: x.rows]) and x.rows:
            return x.full, x.rows
        return None
    if g.full == x.full:
        return g.full, g.rows
    if g.rows and _bare(x.full) == _bare(g.full[: g.rows]):
        return g.full, g.rows
    return None


def _bare(dims: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(d for d in dims if d != 1)


def _merge(
    g: Group, x: Group, groups: dict[Instruction, Group], order: dict[Group, None], number: dict[Instruction, int]
) -> None:
    """Makes the members of `x` part of `g`."""
    joined = _joined(g, x)
    assert joined is not None
    g.full, g.rows = joined
    for y in x.members:
        groups[y] = g
    del order[x]
    g.reads |= x.reads
    g.members = sorted(g.reads, key=number.__getitem__)
    g.weight += x.weight
    g.bit |= x.bit
    g.before = (g.before | x.before) & ~g.bit
    # What waited for a member of either waits for all of both. The groups are in the order of their last members, of
    # which g has the newest now: none waits whose last member comes before the first of g.
    del order[g]
    first = g.bit & -g.bit
    for other in reversed(order):
        if other.bit < first:
            break
        if other.before & g.bit:
            other.before |= g.bit | g.before
    order[g] = None
    g.operands = [s for s in dict.fromkeys((*g.operands, *x.operands)) if s not in g.reads]
