"""Facts that decide a kernel's speed, a line for each loop: trips, lanes, how it reads and writes memory, what it
calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from .arithmetic import is_float
from .ir import Barrier, Block, Call, Func, If, Loop, Store, Val
from .pieces import piece


def facts(func: Func) -> str:
    """The loops of a kernel, indented as they nest, each with the accesses and calls that stand directly in it."""
    used, most = _used(func.body), piece(func)
    lines = [f"kernel {func.name}({func.pointers} pointers){_accesses(func.body, used)}"]

    def write(block: Block, indent: str) -> None:
        for s in block.statements:
            if isinstance(s, Loop):
                lines.append(f"{indent}{_head(s, most)}{_accesses(s.body, used)}")
                write(s.body, indent + "  ")
            elif isinstance(s, If):
                lines.append(f"{indent}if{_accesses(s.body, used)}")
                write(s.body, indent + "  ")

    write(func.body, "  ")
    return "\n".join(lines) + "\n"


def _head(loop: Loop, most: int) -> str:
    count = "repeat" if loop.condition is not None else f"{'chunked ' if loop.chunked else ''}loop {loop.trips}"
    if loop.chunked and most < loop.trips:
        count += f" in calls of {most}"
    lanes = f" x {loop.lanes} lanes" if loop.lanes > 1 else f" by {loop.step}" if loop.step > 1 else ""
    return f"{count}{lanes}" + (f", {len(loop.carries)} carried" if loop.carries else "")


def _accesses(block: Block, used: set[Val]) -> str:
    """Loads and stores by type, lanes and kind, calls, and divisions of integers, in the order in which they come
    first."""
    present = [s for s in block.statements if not isinstance(s, Val) or s in used]
    apart = {
        load
        for s in present
        if isinstance(s, Val) and s.op == "pack"
        for load in map(_loaded, s.args)
        if load is not None
    }
    found: dict[str, Counter[str]] = {"loads": Counter(), "stores": Counter(), "calls": Counter(), "divides": Counter()}
    for s in present:
        if isinstance(s, Store):
            found["stores"][f"{_type(s.dtype, s.value.lanes if s.stride else 1)}{_strided(s.stride)}"] += 1
        elif isinstance(s, Call):
            found["calls"][s.symbol] += 1
        elif isinstance(s, Val):
            _count(s, apart, found)
    parts = [
        f"{what} {', '.join(_times(n, kind) for kind, n in kinds.items())}" for what, kinds in found.items() if kinds
    ]
    return f": {'; '.join(parts)}" if parts else ""


def _count(x: Val, apart: set[Val], found: dict[str, Counter[str]]) -> None:
    if x.op in ("load", "load_splat", "load_vector", "load_strided"):
        if x not in apart:
            kind = " splat" if x.op == "load_splat" else _strided(x.imm[1]) if x.lanes > 1 else ""
            found["loads"][f"{_type(x.dtype, x.lanes)}{kind}"] += 1
    elif x.op == "pack" and any(_loaded(a) for a in x.args):
        found["loads"][f"{_type(x.dtype, x.lanes)} lane by lane"] += 1
    elif x.op in ("call", "slow_path"):
        found["calls"][f"{x.imm}{' rarely' if x.op == 'slow_path' else ''}"] += 1
    elif x.op in ("div", "rem") and not is_float(x.dtype):
        found["divides"][_type(x.dtype, x.lanes)] += 1


def _loaded(x: Val) -> Val | None:
    """The load that a lane is, or is narrowed from."""
    while x.op == "wrap":
        (x,) = x.args
    return x if x.op == "load" else None


def _type(dtype: str, lanes: int) -> str:
    return f"{dtype}x{lanes}" if lanes > 1 else dtype


def _strided(stride: int) -> str:
    return f" stride {stride}" if stride not in (0, 1) else ""


def _times(count: int, what: str) -> str:
    return what if count == 1 else f"{count} {what}"


def _used(root: Block) -> set[Val]:
    """The values that something stored, called or tested needs: no others are emitted."""
    used: set[Val] = set()
    pending = list(_needed(root))
    while pending:
        x = pending.pop()
        if x not in used:
            used.add(x)
            pending.extend(x.args)
    return used


def _needed(block: Block) -> Iterator[Val]:
    for s in block.statements:
        if isinstance(s, Store):
            yield from (s.address, s.value)
        elif isinstance(s, Loop):
            yield from _needed(s.body)
            for carry in s.carries:
                yield carry.init
                if carry.next is not None:
                    yield carry.next
            if s.condition is not None:
                yield s.condition
        elif isinstance(s, Barrier):
            yield from (value for _, value in s.values)
        elif isinstance(s, Call):
            yield from s.args
        elif isinstance(s, If):
            yield from _needed(s.body)
            yield s.condition
