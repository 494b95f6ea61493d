"""A proof that the trips of a kernel's range may run at the same time, as threads have them, made from the places that
each of them touches.

It trusts no lowering to say so. A kernel of which nothing can be proven runs on one thread.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from math import gcd

from ..dataclass import dataclass, replace
from .ir import Func, Loop
from .pieces import is_split
from .ranges import Bounds, Form
from .verify import Access, verify


def is_parallel(
    func: Func, written: Collection[int], scratch: Collection[int] = (), same: Mapping[int, int] | None = None
) -> bool:
    """Returns True if no trip of the range touches what another one writes.

    `written` and `scratch` are numbers of arguments: the first are shared by all threads, of the others each thread has
    its own. `same`: arguments that lie where an argument with a lower number does.
    """
    if not is_split(func) or func.trips < 2:
        return False
    verified = verify(func)
    if verified.opaque:
        return False
    places: dict[int, list[Access]] = {}
    for access in verified.accesses:
        if len(access.form.pointers) != 1:
            return False
        (number,) = access.form.pointers
        places.setdefault((same or {}).get(number, number), []).append(access)
    for number, accesses in places.items():
        if number not in scratch and not any(a.written for a in accesses):
            continue
        placed = _chunked(func, accesses)
        if placed is None or not (
            _begins_anew(placed) if number in scratch else number in written and _apart(placed, func.trips)
        ):
            return False
    return True


def bytes_a_trip(func: Func, number: int) -> int:
    """Returns the number of bytes that each trip of the range has of argument `number`, behind those of the trip
    before; 0 if a trip touches others."""
    verified = verify(func)
    if not is_split(func) or verified.opaque:
        return 0
    slab = 0
    for access in _chunked(func, [a for a in verified.accesses if number in a.form.pointers]) or []:
        bounds = access.bounds(access.others)
        if bounds is None or len(access.form.pointers) > 1 or access.distance <= 0 or slab not in (0, access.distance):
            return 0
        slab = access.distance
        if bounds[0] < 0 or bounds[1] > slab:
            return 0
    return slab


@dataclass(frozen=True, slots=True)
class _ChunkedAccess:
    """An access, its place as a form of the number of a trip of the range."""

    access: Access
    loop: Loop
    """The loop of the range in which it stands."""
    form: Form
    distance: int
    """Bytes from its place to that in the next trip."""
    first: int
    last: int
    """The trips in which it happens."""
    whole: bool
    """True if these are all trips of its loop."""

    @property
    def others(self) -> tuple[tuple[Loop, int], ...]:
        """The other loops of the form."""
        return tuple((other, c) for other, c in self.form.loops if other is not self.loop)

    def bounds(self, loops: tuple[tuple[Loop, int], ...]) -> Bounds | None:
        """The first byte and the one after the last, as these loops leave them, in a trip of the number 0; None if they
        are unknown."""
        found = self.access.facts.form_bounds(Form((), self.form.const, loops, self.form.values))
        return found and (found[0] + self.access.reach[0], found[1] + self.access.reach[1])


def _chunked(func: Func, accesses: Iterable[Access]) -> list[_ChunkedAccess] | None:
    """Accesses by the trips of the range; None if one of them stands before all trips."""
    firsts = {loop: first for first, loop in func.ranges()}
    found = []
    for access in accesses:
        if not access.loops:
            return None
        loop = access.loops[0]
        form = access.facts.opened(access.form, loop)
        distance = dict(form.loops).get(loop, 0) * loop.step
        low, high = access.facts.variables[loop]
        first, last = -(-low // loop.step), high // loop.step
        shifted = replace(form, const=form.const - distance * firsts[loop])
        whole = (first, last) == (0, loop.trips - 1)
        found.append(_ChunkedAccess(access, loop, shifted, distance, firsts[loop] + first, firsts[loop] + last, whole))
    return found


def _begins_anew(accesses: list[_ChunkedAccess]) -> bool:
    """Returns True if each trip writes scratch memory, in the same way as others and before it reads any: none needs
    what another one left there.

    Nobody proves that all that is read was written; the tests fill this memory with nonsense.
    """
    for loop in {a.loop: None for a in accesses}:
        own = [a for a in accesses if a.loop is loop]
        writes = [a.access.at for a in own if a.access.written]
        if (
            not writes
            or min(a.access.at for a in own) < min(writes)
            or not all(a.whole for a in own if a.access.written)
        ):
            return False
    return True


@dataclass(frozen=True, slots=True)
class _Place:
    """The bytes of an access in the trips in which it happens, as far as loops leave them that go small distances
    only."""

    first: int
    last: int
    low: int
    high: int
    extent: Bounds
    """The bytes in all trips, whatever distances loops go."""

    @property
    def once(self) -> bool:
        """True if it is one trip's alone; then the bytes are those of that trip, else those of trip 0."""
        return self.first == self.last


def _apart(accesses: list[_ChunkedAccess], trips: int) -> bool:
    """Returns True if the places of one trip's accesses are none of another's.

    Each trip has a slab of its own, of what it moves on by; slabs repeat in all larger distances that other loops go,
    which a common divisor stands for. What one trip alone does may lie in its slab, or where no slab of another trip
    is.
    """
    distances = {a.distance for a in accesses if a.first != a.last}
    if len(distances) > 1 or distances == {0}:
        return False
    slab = distances.pop() if distances else 0
    period = 0
    places: list[_Place] = []
    for a in accesses:
        large = [(other, c) for other, c in a.others if slab and abs(c) * other.step >= abs(slab) * trips]
        period = gcd(period, *(c * other.step for other, c in large))
        bounds, extent = a.bounds(tuple(one for one in a.others if one not in large)), a.bounds(a.others)
        if bounds is None or extent is None:
            return False
        at = a.distance * a.first if a.first == a.last else 0
        ends = a.distance * a.first, a.distance * a.last
        places.append(
            _Place(a.first, a.last, bounds[0] + at, bounds[1] + at, (extent[0] + min(ends), extent[1] + max(ends)))
        )
    return _in_slabs(places, trips, slab, period) and _one_by_one([p for p in places if p.once], period)


def _in_slabs(places: list[_Place], trips: int, slab: int, period: int) -> bool:
    """Returns True if each trip's places lie in its slab, or at least in no other's, where places that differ by a
    period are the same."""
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
        if not place.once or all(place.high <= p.extent[0] or p.extent[1] <= place.low for p in everywhere):
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
    """Returns the number nearest to 0 of those that differ from this one by periods."""
    return number - (2 * number + period) // (2 * period) * period if period else number


def _one_by_one(places: list[_Place], period: int) -> bool:
    """Returns True if what different trips alone do lies apart."""
    pairs = [(a, b) for i, a in enumerate(places) for b in places[:i] if a.first != b.first]
    return not pairs or not period and all(a.high <= b.low or b.high <= a.low for a, b in pairs)
