"""The changes that a loop makes to its state. Of one that only counts, the number of its trips, and so its result,
follows from its start.

An integer of the state that grows by a constant in every trip is its start plus so many times that, wrapped to its
width. The loop ends when one of them, compared with a constant, is no longer on the right side of it, be it by wrapping
around.
"""

from __future__ import annotations

from ...hlo.ir import Computation, Instruction
from ...hlo.literal import Literal
from ...hlo.types import is_integral, limits, wrap
from ...writing.writer import Writer

_MIRRORED = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE", "EQ": "EQ", "NE": "NE"}


def unchanged(loop: Instruction) -> list[int]:
    """The elements of the state that the body gives back as it got them, or as the constant that they were."""
    after, before = loop.called[0].root.elements, loop.operands[0].elements
    return [i for i, x in enumerate(after) if _is_element(x, i) or (before and _same_constant(x, before[i]))]


def _same_constant(x: Instruction, y: Instruction) -> bool:
    p, q = x.literal, y.literal
    return p is not None and q is not None and x.shape.is_array and bytes(p.data) == bytes(q.data)


def _is_element(x: Instruction, i: int, of_tuple: bool = True) -> bool:
    """Returns True if `x` is element `i` of the state as a computation gets it."""
    if not of_tuple:
        return x.opcode == "parameter"
    return x.opcode == "get-tuple-element" and x.attrs["index"] == i and x.operands[0].opcode == "parameter"


def counted(w: Writer, loop: Instruction) -> list[Instruction] | None:
    """The elements of the state that a loop leaves behind (one, if the state is no tuple) where it only counts and
    starts from a constant; each is an element that it began with, or a new constant. None for any other loop."""
    body, condition = loop.called
    of_tuple = loop.shape.is_tuple
    first, last = (x.elements if of_tuple else [x] for x in (loop.operands[0], body.root))
    if not first or not last:
        return None
    steps = [_step(x, i, of_tuple) for i, x in enumerate(last)]
    starts = [_integer(x) for x in first]
    if any(step is None or (step and start is None) for step, start in zip(steps, starts)):
        return None
    trips = _trips(condition, starts, steps, of_tuple)
    if trips is None:
        return None
    results = []
    for x, start, step in zip(first, starts, steps):
        if step and start is not None:
            number = wrap(start + trips * step, x.shape.element_type)
            x = w.clone(x, literal=Literal.from_values(x.shape, [number]))
        results.append(x)
    return results


def _integer(x: Instruction) -> int | None:
    """The value of an integer scalar constant."""
    return int(x.number) if x.number is not None and is_integral(x.shape.element_type) else None


def _step(x: Instruction, i: int, of_tuple: bool) -> int | None:
    """Returns the number that a trip adds to element `i` of the state, whose next value is `x`; None if unknown."""
    if _is_element(x, i, of_tuple):
        return 0
    if x.opcode not in ("add", "subtract"):
        return None
    for element, other in (x.operands, x.operands[::-1]) if x.opcode == "add" else (x.operands,):
        number = _integer(other)
        if number is not None and _is_element(element, i, of_tuple):
            return number if x.opcode == "add" else -number
    return None


def _trips(condition: Computation, starts: list[int | None], steps: list[int | None], of_tuple: bool) -> int | None:
    """Returns the number of trips before the condition first fails; None if that is unknown, or it never fails."""
    root = condition.root
    if root.opcode != "compare":
        return None
    left, right = root.operands
    direction: str = root.attrs["direction"]
    for x, other, side in ((left, right, direction), (right, left, _MIRRORED[direction])):
        bound = _integer(other)
        i = x.attrs.get("index", 0)
        if bound is None or not _is_element(x, i, of_tuple) or starts[i] is None:
            continue
        start, step = starts[i], steps[i]
        assert start is not None and step is not None
        return trips_until(start, step, side, bound, x.shape.element_type)
    return None


def trips_until(start: int, step: int, direction: str, bound: int, dtype: str) -> int | None:
    """The least t for which start + t * step, wrapped, is not on the side of `bound` that `direction` says."""
    least, greatest = limits(dtype)
    # The numbers where the loop ends: one range, or for EQ all but one number.
    ends = {
        "LT": (bound, greatest),
        "LE": (bound + 1, greatest),
        "GT": (least, bound),
        "GE": (least, bound - 1),
        "NE": (bound, bound),
    }
    if direction == "EQ":
        return 0 if start != bound else 1 if step % (greatest - least + 1) else None
    low, high = ends[direction]
    if low > high:
        return None
    size = greatest - least + 1
    return _first(step % size, size, (low - start) % size, (low - start) % size + high - low)


def _first(step: int, size: int, low: int, high: int) -> int | None:
    """The least t with low <= t * step % size <= high, where 0 <= low < size; `high` may be `size` or more, and
    includes 0 then."""
    if low == 0 or high >= size:
        return 0
    if step == 0:
        return None
    if 2 * step > size:
        # The other way around: steps stay shorter than half the round, so that there are few rounds of rounds.
        return _first(size - step, size, size - high, size - low)
    # How many times around, in steps of what is left of `size`: none, if a multiple of the step lies there before that.
    turns = _first(-size % step, step, low % step, low % step + high - low)
    return None if turns is None else -(-(low + turns * size) // step)
