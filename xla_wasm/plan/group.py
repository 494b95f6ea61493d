"""Puts materialized instructions that run over the same indices into one kernel.

Two kinds come together. Siblings and chains over the same dimensions share one loop nest. Rows: reductions over the last
dimensions, what is computed from their results, and what combines those with the rows again (softmax, layer norm) share
the loops over the first dimensions, `rows` of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..hlo.ir import Computation, Instruction
from ..ops.lowering import ELEMENTAL, ELEMENTWISE, KERNELS
from ..ops.request import REQUEST

_MAX_MEMBERS = 12
_MAX_OPERATIONS = 160
"""A kernel must stay a small function: engines compile large ones badly."""


_ALONE = ("parameter", "constant", "get-tuple-element", "reduce-window", "dot", "convolution", "gather", "bitcast")
"""Operations whose kernel is nobody else's."""


@dataclass(eq=False, slots=True)
class Group:
    """Instructions of one kernel: `full` are the dimensions of its inner loops, the first `rows` of them the rows' loops."""

    members: list[Instruction]
    full: tuple[int, ...] | None
    """None: the one member is a kernel of its own kind."""
    rows: int | None = None
    weight: int = 0
    bit: int = 0
    """The group's members as bits; `before` all that they depend on, however indirectly."""
    before: int = 0
    operands: list[Instruction] = field(default_factory=list)
    """Materialized instructions that the members read, each once."""


def grouped(computation: Computation, chosen: set[Instruction], products: set[Instruction]) -> dict[Instruction, Group]:
    """The group of every materialized instruction. Those that finish a product stay alone."""
    reads, weights = _reads(computation, chosen)
    number = {x: i for i, x in enumerate(x for x in computation.instructions if x in chosen)}
    # What the host sees happens in the order of the program.
    last: Instruction | None = None
    for x in effects(computation):
        if last is not None:
            reads[x] = {**reads[x], last: None}
        last = x
    groups: dict[Instruction, Group] = {}
    readers: dict[Instruction, list[Group]] = {}
    order: list[Group] = []
    for x in number:
        full, rows = _space(x) if x not in products else (None, None)
        own = Group([x], full, rows, weights[x], 1 << number[x], 0, list(reads[x]))
        for s in own.operands:
            own.before |= groups[s].bit | groups[s].before
        target = None
        if full is not None and len(full):
            near = dict.fromkeys([groups[s] for s in own.operands] + [g for s in own.operands for g in readers.get(s, [])[-4:]])
            target = next((g for g in near if _fits(g, own, groups)), None)
        if target is None:
            groups[x] = own
            order.append(own)
        else:
            _merge(target, own, order)
            groups[x] = target
        for s in own.operands:
            readers.setdefault(s, []).append(groups[x])
    return groups


def effects(computation: Computation) -> list[Instruction]:
    """The instructions that the host takes part in, in order; they all have buffers."""
    return [x for x in computation.instructions if _asks_host(x)]


def _asks_host(x: Instruction) -> bool:
    if x.opcode in ("while", "conditional"):
        return any(effects(c) for c in x.called)
    return REQUEST in x.attrs


def _reads(computation: Computation, chosen: set[Instruction]) -> tuple[dict[Instruction, dict[Instruction, None]], dict[Instruction, int]]:
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
    if x.opcode == "reduce":
        dims, reduced = x.operands[0].shape.dimensions, x.attrs["dimensions"]
        rows = len(dims) - len(reduced)
        if sorted(reduced) == list(range(rows, len(dims))) and reduced and x.operands[0].shape.size:
            return dims, rows
        return None, None
    if x.opcode in KERNELS or x.opcode in _ALONE:
        return None, None
    if x.opcode in ELEMENTWISE or x.opcode in ELEMENTAL:
        return x.shape.dimensions, None
    return None, None


def _fits(g: Group, x: Group, groups: dict[Instruction, Group]) -> bool:
    """Whether the new group `x` of one instruction may become part of `g`."""
    if g.full is None or x.full is None or len(g.members) >= _MAX_MEMBERS or g.weight + x.weight > _MAX_OPERATIONS:
        return False
    # What x reads from elsewhere must not itself wait for g.
    for s in x.operands:
        other = groups[s]
        if other is not g and other.before & g.bit:
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


def _merge(g: Group, x: Group, order: list[Group]) -> None:
    joined = _joined(g, x)
    assert joined is not None
    g.full, g.rows = joined
    g.members += x.members
    g.weight += x.weight
    gained = x.before & ~g.bit
    for other in order:
        if other.before & g.bit:
            other.before |= gained
    g.before |= gained
    g.bit |= x.bit
    # What already waited for a member of g waits for all of it.
    for other in order:
        if other is not g and other.before & g.bit:
            other.before |= g.bit
    g.operands = list(dict.fromkeys(s for s in (*g.operands, *x.operands) if s not in g.members))
