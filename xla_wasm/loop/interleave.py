"""Vectors side by side in loops whose elements take a long chain of operations, or few operations.

A processor looks a few dozen operations ahead. Where one element's chain is about as long, it sees little that does not
wait, and the loop takes the time of the chain. So such loops take several vectors in a trip, each operation for all of
them before the next: what stands beside an operation then never waits for it. V8 keeps that order. Cranelift puts what
a store needs right before it, whatever the order.

Where elements take few operations, those of the loop are as many: an addition of arrays in the caches takes 0.77 of the
time, a clip 0.63.
"""

from __future__ import annotations

from .ir import Block, Func, If, Loop, Store, Val

_TOGETHER = (4, 2)
"""The numbers of vectors that a trip may take, the most first."""
_CHAIN = 10
"""Operations one after another from which on it pays."""
_SHORT = 16
"""Statements up to which what a trip takes by itself is a large part: the end of the loop, addresses, and V8's look at
its stack."""
_STATEMENTS = 200
"""The most that a body may have afterwards: all of it is code."""
_SLOW = {"div": 3, "sqrt": 3}
"""Operations that take several times as long as others."""
_LOADS = ("load", "load_vector", "load_strided", "load_splat")
Straight = Val | Store
"""The statements of such a loop."""
_FREE = ("bitcast", "const", "splat", "induction", "carry", "result")


def interleave(func: Func) -> None:
    """Changes the innermost loops along lanes."""
    _walk(func, func.body)


def _walk(func: Func, block: Block) -> None:
    for statement in block.statements:
        if isinstance(statement, If):
            _walk(func, statement.body)
        elif isinstance(statement, Loop):
            if (
                statement.lanes > 1
                and statement.condition is None
                and _straight(statement.body)
                and (_longest(statement.body) >= _CHAIN or _is_short(statement))
            ):
                _widen(statement)
                _order(statement.body)
            else:
                _walk(func, statement.body)


def _straight(body: Block) -> bool:
    """Returns True if it only loads, computes and stores, and reads nothing that it writes: such loads are pinned."""
    return all(
        isinstance(s, Store) or isinstance(s, Val) and not (s.pinned and s.op in _LOADS) for s in body.statements
    )


def _statements(body: Block) -> list[Straight]:
    return [s for s in body.statements if isinstance(s, Val | Store)]


def _heights(body: Block) -> dict[Straight, int]:
    """For each statement the length of the chain that waits for it."""
    heights: dict[Straight, int] = {}
    for statement in reversed(_statements(body)):
        height = heights.setdefault(statement, 0)
        if isinstance(statement, Store):
            args: tuple[Val, ...] = statement.value, statement.address
        else:
            args = statement.args
            height += 0 if statement.op in _FREE else _SLOW.get(statement.op, 1)
        for arg in args:
            if arg.block is body:
                heights[arg] = max(heights.get(arg, 0), height)
    return heights


def _is_short(loop: Loop) -> bool:
    return not loop.carries and len(_statements(loop.body)) <= _SHORT


def _longest(body: Block) -> int:
    return max(_heights(body).values(), default=0)


def _order(body: Block) -> None:
    """Orders statements so that what the most waits for comes first, and of equals each vector in turn."""
    heights = _heights(body)
    order = sorted(_statements(body), key=lambda s: -heights[s])
    body.statements[:] = order
    for statement in heights:
        if isinstance(statement, Val) and statement.lanes > 1 and statement.op not in (*_FREE, *_LOADS):
            statement.pinned = True


def _widen(loop: Loop) -> None:
    """Takes several vectors in a trip, if the loop carries nothing: what does has several already."""
    body = loop.body
    most = _STATEMENTS // len(body.statements)
    count = next((n for n in _TOGETHER if n <= most and loop.trips % n == 0), 1)
    if count == 1 or loop.carries:
        return
    slopes = _slopes(loop)
    if slopes is None:
        return
    statements = _statements(body)
    for k in range(1, count):
        _copy(loop, statements, slopes, k * loop.step)
    loop.trips //= count
    loop.step *= count


def _slopes(loop: Loop) -> dict[Val, int] | None:
    """By how much each address grows with the loop's variable; None where the variable is more than a part of
    addresses, or of one that a value of the body is a part of, too, or where one falls."""
    body = loop.body
    slopes = {val: c for c, val in loop.inductions.items()}
    for s in _statements(body):
        if isinstance(s, Val) and s.op == "add" and s.lanes == 1 and any(a in slopes for a in s.args):
            if all(a in slopes or a.block is not body for a in s.args):
                slopes[s] = sum(slopes.get(a, 0) for a in s.args)
    for s in _statements(body):
        values = (s.value,) if isinstance(s, Store) else () if s.op in _LOADS or s in slopes else s.args
        if any(v in slopes for v in values):
            return None
    return slopes if all(c >= 0 for c in slopes.values()) else None


def _copy(loop: Loop, statements: list[Straight], slopes: dict[Val, int], shift: int) -> None:
    """The statements again, for the elements that lie `shift` further."""
    body = loop.body
    copies: dict[Val, Val] = {}
    for s in statements:
        if isinstance(s, Store):
            offset = s.offset + slopes.get(s.address, 0) * shift
            address, value = (copies.get(x, x) for x in (s.address, s.value))
            body.statements.append(Store(address, offset, value, s.dtype, s.stride))
            continue
        if s in slopes:
            continue
        args, imm = tuple(copies.get(a, a) for a in s.args), s.imm
        if s.op in _LOADS:
            imm = (imm[0] + slopes.get(args[0], 0) * shift, *imm[1:])
        # What is the same in all trips stands outside of the loop, so this is another value.
        copies[s] = copy = Val(s.op, args, s.dtype, s.lanes, imm, body)
        copy.pinned = s.pinned
        body.statements.append(copy)
