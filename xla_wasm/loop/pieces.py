"""How many trips of a kernel's range one call of it makes.

Engines that compile a module twice, first fast and then well, take the better code from a function's next call on: one that is called once
and computes for a second would do so in the worse code. Pieces of the range are calls of their own.
"""

from __future__ import annotations

from .ir import Block, Func, If, Loop, Val

_STATEMENTS = 1 << 20
"""What a piece executes at least: some hundred microseconds in the better code, beside which a call is nothing."""


def piece(func: Func) -> int:
    """The trips of a piece; all of them where it is not the range alone that writes."""
    effects = [s for s in func.body.statements if not isinstance(s, Val)]
    if len(effects) != 1 or not isinstance(effects[0], Loop) or not effects[0].ranged or effects[0].carries:
        return func.trips
    return min(func.trips, -(-_STATEMENTS // max(_executed(effects[0].body), 1)))


def _executed(block: Block) -> int:
    """The statements of a block that are executed, those of loops as often as they make trips."""
    total = len(block.statements)
    for s in block.statements:
        if isinstance(s, Loop):
            total += max(s.trips, 1) * _executed(s.body)
        elif isinstance(s, If):
            total += _executed(s.body)
    return total
