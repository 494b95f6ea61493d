"""The values of a kernel that get a local: those used more than once, or in another block, or pinned. The rest stay on
the stack.

What a loop carries keeps one local through a trip, where each new value is the only one that needs the value before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..dataclass import dataclass, field
from .ir import Barrier, Block, Call, Carry, Func, If, Loop, Store, Val

_MAX_DEPTH = 40
"""The greatest depth of a stack expression, beyond which its parts get locals."""

_REMATERIALIZED = ("const", "induction", "carry", "result")
"""Operations that are written anew at each use, or have the local of a loop."""


@dataclass(slots=True)
class Uses:
    """The values that a kernel's effects need: how often each is used, and which are kept in a local where they
    stand."""

    counts: dict[Val, int] = field(default_factory=dict)
    kept: set[Val] = field(default_factory=set)
    in_place: dict[Val, Carry] = field(default_factory=dict)
    """Values that go straight to the local of what a loop carries, where they stand."""


def count_uses(func: Func) -> Uses:
    """Counts the uses of every value that a store, a call, a condition or a loop needs."""
    found = Uses()
    counts, kept = found.counts, found.kept
    used: list[tuple[Block, Sequence[Val]]] = []
    """Blocks, and values that something in them uses."""
    depths: dict[Val, int] = {}
    deep: set[Val] = set()
    blocks = [func.body]
    loops: list[Loop] = []
    while blocks:
        block = blocks.pop()
        for statement in block.statements:
            if isinstance(statement, Val):
                depth = 0
                for arg in statement.args:
                    below = depths.get(arg, 0)
                    if below >= depth:
                        depth = below + 1
                if depth <= _MAX_DEPTH:
                    depths[statement] = depth
                else:
                    deep.add(statement)
            elif isinstance(statement, Store):
                used.append((block, (statement.address, statement.value)))
            elif isinstance(statement, Loop):
                blocks.append(statement.body)
                loops.append(statement)
                for carry in statement.carries:
                    assert carry.next is not None, "a carried value has no next value"
                    used += (block, (carry.init,)), (statement.body, (carry.next,))
                if statement.condition is not None:
                    used.append((statement.body, (statement.condition,)))
            elif isinstance(statement, Barrier):
                used.append((block, [val for _, val in statement.values]))
            elif isinstance(statement, Call):
                used.append((block, statement.args))
            elif isinstance(statement, If):
                blocks.append(statement.body)
                used.append((block, (statement.condition,)))
    for block, values in used:  # which grows on the way
        for val in values:
            count = counts[val] = counts.get(val, 0) + 1
            if val.op in _REMATERIALIZED:
                continue
            if count == 1:
                used.append((val.block, val.args))
            if count > 1 or val.block is not block or val.pinned or val in deep:
                kept.add(val)
    for loop in loops:
        _find_in_place(loop, found)
    return found


def _find_in_place(loop: Loop, found: Uses) -> None:
    """Follows what each carry of a loop holds from barrier to barrier."""
    barriers = [dict(statement.values) for statement in loop.body.control if isinstance(statement, Barrier)]
    mentions = Counter(val for values in barriers for val in values.values())
    nexts = {carry: carry.next for carry in loop.carries if carry.next is not None}
    held = {carry: carry.value for carry in loop.carries}
    for values in (*barriers, nexts):
        for carry, val in values.items():
            before = held[carry]
            if val is before:
                continue
            held[carry] = val
            only_use = before in val.args and found.counts[before] - mentions[before] == 1
            if only_use and val in found.kept and val.block is loop.body and val not in found.in_place:
                found.in_place[val] = carry
