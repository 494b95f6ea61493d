"""How many trips of a kernel's range one call of it makes, and how many one thread takes at a time.

Engines that compile a module twice, first fast and then well, take the better code from a function's next call on: one that is called once
and computes for a second would do so in the worse code. Pieces of the range are calls of their own.
"""

from __future__ import annotations

from .ir import Block, Func, If, Loop, Val

_STATEMENTS = 1 << 20
"""What a piece executes at least: some hundred microseconds in the better code, beside which a call is nothing."""
_CHUNK = 1 << 14
"""What a chunk executes at least: some microseconds, beside which it costs little to hand it to another thread."""
_CHUNKS = 32
"""Chunks that are enough for threads that are not equally fast."""


def range_of(func: Func) -> Loop | None:
    """The loop over a kernel's range, if it is all that the kernel does and its trips carry nothing to the next."""
    effects = [s for s in func.body.statements if not isinstance(s, Val)]
    if len(effects) != 1 or not isinstance(effects[0], Loop) or not effects[0].ranged or effects[0].carries:
        return None
    return effects[0]


def piece(func: Func) -> int:
    """The trips of a piece; all of them where it is not the range alone that writes."""
    loop = range_of(func)
    return func.trips if loop is None else min(func.trips, _trips_of(loop, _STATEMENTS))


def chunk(func: Func) -> int:
    """The trips of what one thread takes at a time; 0 where the kernel is too small for several. It does not depend on their number."""
    loop = range_of(func)
    if loop is None:
        return 0
    least = _trips_of(loop, _CHUNK)
    most = max(least, _trips_of(loop, _STATEMENTS))
    trips = max(least, min(-(-loop.trips // _CHUNKS), most))
    return trips if 2 * least <= loop.trips else 0


def _trips_of(loop: Loop, statements: int) -> int:
    """The fewest trips that execute so many statements."""
    return -(-statements // max(_executed(loop.body), 1))


def _executed(block: Block) -> int:
    """The statements of a block that are executed, those of loops as often as they make trips."""
    total = len(block.statements)
    for s in block.statements:
        if isinstance(s, Loop):
            total += max(s.trips, 1) * _executed(s.body)
        elif isinstance(s, If):
            total += _executed(s.body)
    return total
