"""The division of a plan's kernels among threads, once its buffers have their places: which of them, and in what
chunks."""

from __future__ import annotations

from collections.abc import Sequence

from ..dataclass import dataclass
from ..loop.parallel import is_parallel
from ..loop.pieces import chunk
from ..target import MOST_THREADS
from .buffer import ALIGNMENT, Buffer
from .plan import Launch, Step

MOST_CHUNKS = (1 << 20) - MOST_THREADS
"""Below the most that 20 bits of a ticket can count, as each thread may take one that is not there."""
STACK = 32768
"""Bytes of the stack of a thread's C functions."""


@dataclass(frozen=True, slots=True)
class Part:
    """The division of one kernel's step: the trips of its range in a chunk, and for each of its last arguments the
    place in a thread's own memory."""

    trips: int
    scratch: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Own:
    """The memory of a thread other than 0, of so many bytes: a word that says whether it computes, a stack up to
    `arguments`, there the arguments of a kernel, then the memory that kernels have for themselves."""

    bytes: int
    arguments: int


def share(steps: Sequence[Step]) -> tuple[list[Part | None], Own]:
    """Returns the division of each step, None if thread 0 does it alone, and the memory of each other thread."""
    known: dict[tuple[object, ...], bool] = {}
    shared = [_part(step, known) for step in steps]
    pointers = max((len(s.arguments) for s, part in zip(steps, shared) if part and part.scratch), default=0)
    arguments = ALIGNMENT + STACK
    first = arguments + -(-4 * pointers // ALIGNMENT) * ALIGNMENT
    size = first
    placed: list[Part | None] = []
    for step, part in zip(steps, shared):
        if part is None or not isinstance(step, Launch) or not step.scratch:
            placed.append(part)
            continue
        at, places = first, list[int]()
        for view in step.arguments[-step.scratch :]:
            places.append(at)
            at += view.buffer.padded
        size = max(size, at)
        placed.append(Part(part.trips, tuple(places)))
    return placed, Own(size, arguments)


def _part(step: Step, known: dict[tuple[object, ...], bool]) -> Part | None:
    """Returns the division of a step, None if thread 0 does it alone; the places of its scratch memory come later."""
    if not isinstance(step, Launch) or step.trips:
        return None
    func, trips = step.func, chunk(step.func)
    if not trips or -(-func.trips // trips) > MOST_CHUNKS:
        return None
    count = len(step.arguments) - step.scratch
    same: dict[int, int] = {}
    firsts: dict[Buffer, int] = {}
    for k, view in enumerate(step.arguments[:count]):
        root = view.buffer.root()
        first = firsts.setdefault(root, k)
        if first == k:
            continue
        if step.arguments[first].address == view.address:
            same[k] = first
        elif any(v.buffer.root() is root for v in step.arguments[: step.written]):
            return None  # one array lies across what is written of another
    key = (func.name, step.written, step.scratch, tuple(same.items()))
    if key not in known:
        known[key] = is_parallel(func, range(step.written), range(count, len(step.arguments)), same)
    return Part(trips, (0,) * step.scratch) if known[key] else None


def chunk_blocks(step: Launch, part: Part) -> list[int]:
    """Returns the words that follow a step's arguments: how many bytes of them are the same for all threads, and the
    places of the others, up to a 0."""
    return [4 * (len(step.arguments) - step.scratch), *part.scratch, 0] if part.scratch else []


def block_words(step: Step) -> int:
    """The most words of `chunk_blocks`."""
    return step.scratch + 2 if isinstance(step, Launch) and step.scratch else 0
