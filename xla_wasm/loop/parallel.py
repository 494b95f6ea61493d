"""Whether the trips of a kernel's range may run at the same time, as threads have them: proven from the places that each of them
touches.

It trusts no lowering to say so. A kernel of which nothing can be proven runs on one thread.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import gcd

from ..dataclass import dataclass
from .ir import Func, Loop
from .pieces import range_of
from .ranges import Form
from .verify import Access, verify


def is_parallel(func: Func, written: Collection[int], scratch: Collection[int] = (), same: Mapping[int, int] | None = None) -> bool:
    """Whether no trip of the range touches what another one writes.

    `written` and `scratch` are numbers of arguments: the first are shared by all threads, of the others each thread has its own.
    `same`: arguments that lie where an argument with a lower number does.
    """
    loop = range_of(func)
    if loop is None or loop.trips < 2:
        return False
    verified = verify(func)
    if verified.invokes:
        return False
    places: dict[int, list[Access]] = {}
    for access in verified.accesses:
        if len(access.form.pointers) != 1:
            return False
        (number,) = access.form.pointers
        places.setdefault((same or {}).get(number, number), []).append(access)
    for number, accesses in places.items():
        if number in scratch:
            if not _begins_anew(accesses, loop):
                return False
        elif any(a.written for a in accesses):
            if number not in written or not _apart(accesses, loop):
                return False
    return True


def bytes_a_trip(func: Func, number: int) -> int:
    """How many bytes each trip of the range has of argument `number`, behind those of the trip before; 0 if a trip touches others."""
    loop = range_of(func)
    verified = verify(func)
    if loop is None or verified.invokes:
        return 0
    slab = 0
    for access in verified.accesses:
        if number not in access.form.pointers:
            continue
        form = access.facts.opened(access.form, loop)
        own = dict(form.loops).get(loop, 0) * loop.step
        rest = tuple((other, c) for other, c in form.loops if other is not loop)
        bounds = access.facts.form_bounds(Form((), form.const, rest, form.values))
        if len(access.form.pointers) > 1 or own <= 0 or slab not in (0, own) or bounds is None:
            return 0
        slab = own
        if bounds[0] + access.reach[0] < 0 or bounds[1] + access.reach[1] > slab:
            return 0
    return slab


def _trips(access: Access, loop: Loop) -> tuple[int, int]:
    """The first and the last trip of the range in which an access happens."""
    low, high = access.facts.variables[loop]
    return -(-low // loop.step), high // loop.step


def _begins_anew(accesses: list[Access], loop: Loop) -> bool:
    """Whether each trip writes scratch memory, in the same way as others and before it reads any: none needs what another one left there.

    Nobody proves that all that is read was written; the tests fill this memory with nonsense.
    """
    writes = [a.at for a in accesses if a.written]
    if not writes or min(a.at for a in accesses) < min(writes):
        return False
    return all(_trips(a, loop) == (0, loop.trips - 1) for a in accesses if a.written)


@dataclass(frozen=True, slots=True)
class _Place:
    """The bytes of an access in the trips in which it happens, as far as loops leave them that go small distances only."""

    first: int
    last: int
    low: int
    high: int

    @property
    def once(self) -> bool:
        """Whether it is one trip's alone; then the bytes are those of that trip, else those of trip 0."""
        return self.first == self.last


def _apart(accesses: list[Access], loop: Loop) -> bool:
    """Whether the places of one trip's accesses are none of another's.

    Each trip has a slab of its own, of what the range's variable moves on by in a trip; slabs repeat in all larger distances that other
    loops go, which a common divisor stands for. What one trip alone does may lie in its slab, or where no slab of another trip is.
    """
    forms = [(a, a.facts.opened(a.form, loop), _trips(a, loop)) for a in accesses]
    distances = {dict(form.loops).get(loop, 0) * loop.step for _, form, (first, last) in forms if first != last}
    if len(distances) > 1 or distances == {0}:
        return False
    slab = distances.pop() if distances else 0
    period = 0
    places: list[_Place] = []
    for access, form, (first, last) in forms:
        large = [(c, other) for other, c in form.loops if other is not loop and slab and abs(c) * other.step >= abs(slab) * loop.trips]
        period = gcd(period, *(c * other.step for c, other in large))
        small = tuple((other, c) for other, c in form.loops if other is not loop and (c, other) not in large)
        bounds = access.facts.form_bounds(Form((), form.const, small, form.values))
        if bounds is None:
            return False
        at = dict(form.loops).get(loop, 0) * loop.step * first if first == last else 0
        places.append(_Place(first, last, bounds[0] + access.reach[0] + at, bounds[1] + access.reach[1] + at))
    return _in_slabs(places, loop.trips, slab, period) and _one_by_one([p for p in places if p.once], period)


def _in_slabs(places: list[_Place], trips: int, slab: int, period: int) -> bool:
    """Whether each trip's places lie in its slab, or at least in no other's, where places that differ by a period are the same."""
    everywhere = [p for p in places if not p.once]
    if not everywhere:
        return True
    origin = everywhere[0].low
    # Distances of places that are no part of a slab are those of slabs that lie elsewhere.
    for apart in sorted(abs(place.low - origin) for place in everywhere):
        rest = _nearest(apart, period)
        if abs(rest) >= abs(slab):
            period = gcd(period, rest)
    if period and period < abs(slab) * trips:
        return False
    spans = [(start, start + p.high - p.low) for p in everywhere for start in (_nearest(p.low - origin, period),)]
    low, high = min(start for start, _ in spans), max(end for _, end in spans)
    if high - low > abs(slab):
        return False
    for place in places:
        if not place.once:
            continue
        if period and place.high - place.low > period:
            return False
        # Slabs begin less than a period from the first and end less than two from it.
        for shift in range(-2, 3) if period else (0,):
            start = (place.low - origin) % period + shift * period if period else place.low - origin
            for first, last in ((0, place.first - 1), (place.first + 1, trips - 1)):
                if first <= last:
                    ends = slab * first, slab * last
                    if start < max(ends) + high and min(ends) + low < start + place.high - place.low:
                        return False
    return True


def _nearest(number: int, period: int) -> int:
    """Which of the numbers that differ from this one by periods is nearest to 0."""
    return number - (2 * number + period) // (2 * period) * period if period else number


def _one_by_one(places: list[_Place], period: int) -> bool:
    """Whether what different trips alone do lies apart."""
    pairs = [(a, b) for i, a in enumerate(places) for b in places[:i] if a.first != b.first]
    return not pairs or not period and all(a.high <= b.low or b.high <= a.low for a, b in pairs)
