"""The number of trips of a kernel's range that one call of it makes, and that one thread takes at a time.

Engines that compile a module twice, first fast and then well, take the better code from a function's next call on: one
that is called once and computes for a second would do so in the worse code. Pieces of the range are calls of their own.
Between them a run can be ended (`target.STOP`), and so it can in the loops inside a trip that take longer than a piece.
"""

from __future__ import annotations

from .ir import Block, Call, Func, If, Loop, Val

STATEMENTS = 1 << 20
"""The least number of statements in a piece: some hundred microseconds in the better code, beside which a call is
nothing."""
_PATIENCE = 1 << 27
"""Statements that a run may execute before it looks whether it is to end: some ten milliseconds."""
_LOOK = 1 << 12
"""The least number of statements between two looks, beside which one is nothing."""
_CHUNK = 1 << 14
"""The least number of statements in a chunk: some microseconds, beside which it costs little to hand it to another
thread."""
_CHUNKS = 32
"""Chunks that are enough for threads that are not equally fast."""


def is_split(func: Func) -> bool:
    """Returns True if a kernel does nothing but the trips of its range: then callers may split it."""
    effects = [s for s in func.body.statements if not isinstance(s, Val)]
    return bool(effects) and all(isinstance(s, Loop) and s.chunked for s in effects)


def piece(func: Func) -> int:
    """The trips of a piece; all of them where it is not the range alone that writes."""
    return min(func.trips, _trips_of(func, STATEMENTS)) if is_split(func) else func.trips


def chunk(func: Func) -> int:
    """The trips of what one thread takes at a time; 0 where the kernel is too small for several. It does not depend on
    their number."""
    if not is_split(func):
        return 0
    least = _trips_of(func, _CHUNK)
    most = max(least, _trips_of(func, STATEMENTS))
    trips = max(least, min(-(-func.trips // _CHUNKS), most))
    return trips if 2 * least <= func.trips else 0


def looks(func: Func) -> set[Loop]:
    """The loops that look in each trip whether the run is to end, of kernels of which one call takes long: the
    outermost of which a trip does not take long, and around what has none, as one loop over many elements, the one
    outside. Callers look between the pieces of a range."""
    found: set[Loop] = set()
    if executed(func.body) * piece(func) > _PATIENCE * max(func.trips, 1):
        _find_looks(func.body, is_split(func), found)
    return found


def _find_looks(block: Block, split: bool, found: set[Loop]) -> None:
    for s in block.control:
        if isinstance(s, If):
            _find_looks(s.body, split, found)
        elif isinstance(s, Loop):
            trip = executed(s.body)
            if s.condition is None and s.trips * trip <= _PATIENCE:
                continue
            before = len(found)
            if trip > _PATIENCE:
                _find_looks(s.body, split, found)
            if len(found) == before and trip >= _LOOK and not (split and s.chunked):
                found.add(s)


def _trips_of(func: Func, statements: int) -> int:
    """The fewest trips of a kernel's range that execute so many statements, if all execute as many."""
    whole = sum(loop.trips * executed(loop.body) for _, loop in func.ranges())
    return -(-statements * func.trips // max(whole, 1))


def executed(block: Block) -> int:
    """The statements of a block that are executed, those of loops as often as they make trips. The block is
    complete."""
    if not block.executed:
        total = len(block.statements)
        for s in block.control:
            if isinstance(s, Loop):
                total += max(s.trips, 1) * executed(s.body)
            elif isinstance(s, If):
                total += executed(s.body)
            elif isinstance(s, Call):
                total += s.cost - 1
        block.executed = total
    return block.executed
