"""Weights in parts: a table of which `init` makes something smaller, row by row, is never in memory as a whole."""

from __future__ import annotations

from math import lcm

from ..dataclass import replace
from ..loop.parallel import bytes_a_trip
from .buffer import Buffer, View
from .plan import Init, Launch, Plan

PART = 8 << 20
"""Bytes of a part, about."""


def bring_in_parts(plan: Plan) -> None:
    """Has hosts bring large weights in parts, each to the same place, where the first steps of their group take them
    part by part."""
    for buffer in plan.weights:
        if buffer.staged and buffer.bytes >= 2 * PART:
            _divide(plan.inits[buffer], buffer)


def _divide(init: Init, weight: Buffer) -> None:
    steps = init.steps
    reading = [step for step in steps if any(view.buffer.root() is weight for view in step.arguments)]
    others = [step for step in steps if step not in reading]
    made = {view.buffer.root() for step in others for view in step.arguments[: step.written]}
    if any(view.buffer.root() in made for step in reading for view in step.arguments):
        return
    lengths = [_bytes_a_trip(step, weight) for step in reading]
    if not all(lengths) or not all(
        _follows(step, earlier) for i, step in enumerate(reading) for earlier in reading[:i]
    ):
        return
    unit = lcm(*lengths)
    weight.part = max(PART // unit, 1) * unit
    init.parts = [
        [_part(step, weight, start, length) for step, length in zip(reading, lengths)]
        for start in range(0, weight.bytes, weight.part)
    ]
    init.steps = others


def _bytes_a_trip(step: Launch, buffer: Buffer) -> int:
    """Returns the number of bytes of a buffer that each trip of a step reads behind those of the trip before, and no
    others; 0 if that is not so."""
    numbers = [number for number, view in enumerate(step.arguments) if view.buffer.root() is buffer]
    found = {bytes_a_trip(step.func, number) for number in numbers}
    return found.pop() if len(found) == 1 else 0


def _follows(step: Launch, earlier: Launch) -> bool:
    """Returns True if a step reads of what an earlier one has made no more, in as many trips, than these have made."""
    made = {view.buffer.root() for view in earlier.arguments[: earlier.written]}
    for buffer in {view.buffer.root() for view in step.arguments} & made:
        read, written = _bytes_a_trip(step, buffer), _bytes_a_trip(earlier, buffer)
        if not 0 < read <= written or step.func.trips != earlier.func.trips:
            return False
    return True


def _part(step: Launch, weight: Buffer, start: int, length: int) -> Launch:
    """A step for the part of a weight that begins at byte `start`, which lies where the first one did."""
    arguments = [_earlier(view, start) if view.buffer.root() is weight else view for view in step.arguments]
    last = min(start + weight.part, weight.bytes)
    return replace(step, arguments=arguments, trips=(start // length, min(-(-last // length), step.func.trips)))


def _earlier(view: View, start: int) -> View:
    """The array as if it began so many bytes earlier."""
    return replace(view, offset=view.offset - start * view.size // view.bytes)
