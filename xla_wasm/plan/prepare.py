"""Does when compiling what `init` does with constants: its results become constants themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from .buffer import Buffer
from .memory import live_ranges
from .plan import Init, Launch, Plan, Step

GROWTH = 0.14
"""The part of the constants' bytes by which they may grow."""


def prepare(plan: Plan, memory: Callable[[int, int], bytes], lay: Callable[[Plan], None]) -> None:
    """Turns what the first group of `init` has made into constants; `memory` gives the bytes at an address after it has
    run.

    Constants that nobody else reads go, and kernels that nobody else runs. What is so much larger than what it is made
    of that the file would grow, as a constant that is broadcast, goes on being made by `init`.
    """
    steps = plan.inits.pop(None, Init()).steps
    kept = _kept(plan, steps)
    if kept:
        plan.inits = {None: Init(kept), **plan.inits}
    still_made, needed = set(_written(kept)), _needed(plan)
    for buffer in _written(steps):
        if buffer not in needed:  # what nobody reads any more takes no memory
            buffer.kind = "temporary"
        elif buffer not in still_made:
            buffer.kind, buffer.data = "constant", memory(buffer.address, buffer.bytes)
    for buffer in plan.buffers:
        if buffer.kind == "temporary" and buffer not in needed:  # constants of that group alone were among them
            buffer.data = None
    live_ranges(plan)
    lay(plan)


def _written(steps: Iterable[Step]) -> list[Buffer]:
    return [buffer for step in steps for buffer in step.outputs]


def _needed(plan: Plan) -> set[Buffer]:
    """Returns the buffers that the run and the other groups of `init` read or write, and the results."""
    groups: tuple[Sequence[Step], ...] = (plan.entries, *(init.steps for init in plan.inits.values()))
    return {v.buffer.root() for group in groups for step in group for v in step.arguments} | {
        v.buffer.root() for v in plan.results
    }


def _kept(plan: Plan, steps: list[Launch]) -> list[Launch]:
    """The steps whose results would be too large to store, and those that these need."""
    needed = _needed(plan)
    sources: dict[Buffer, set[Buffer]] = {}
    """Buffers that are made -> the constants that they are made of."""
    for step in steps:
        made_of = {b for buffer in step.inputs for b in sources.get(buffer, {buffer})}
        sources |= dict.fromkeys(_written([step]), made_of)
    shares: dict[Buffer, int] = {}
    for made_of in (made_of for buffer, made_of in sources.items() if buffer in needed):
        for b in made_of:
            shares[b] = shares.get(b, 0) + 1
    excess = {}
    for buffer, made_of in sources.items():
        if buffer in needed:
            excess[buffer] = buffer.bytes - sum(
                b.bytes // shares[b] for b in made_of if b.data is not None and b not in needed
            )
    room = GROWTH * sum(b.bytes for b in plan.buffers if b.data is not None)
    large = set()
    for buffer in sorted(excess, key=lambda b: excess[b]):
        room -= excess[buffer]
        if room < 0:
            large.add(buffer)
    kept: list[Launch] = []
    for step in reversed(steps):
        if large.isdisjoint(_written([step])):
            continue
        kept.insert(0, step)
        # What only `init` reads is made again, too; what the run reads is at hand or kept anyway.
        large |= {b for v in step.arguments for b in (v.buffer.root(),) if b in sources and b not in needed}
    return kept
