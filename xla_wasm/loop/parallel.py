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
    accesses = _accesses(func)
    if accesses is None:
        return False
    places: dict[int, list[Access]] = {}
    for access in accesses:
        (number,) = access.form.pointers
        places.setdefault((same or {}).get(number, number), []).append(access)
    for number, own in places.items():
        if number not in scratch and not any(a.written for a in own):
            continue
        placed = _chunked(func, own)
        if placed is None or not (_begins_anew(placed) if number in scratch else number in written and _apart(placed)):
            return False
    return True


def bytes_a_trip(func: Func, number: int) -> int:
    """Returns the number of bytes that each trip of the range has of argument `number`, behind those of the trip
    before; 0 if a trip touches others."""
    slab = 0
    for access in _chunked(func, [a for a in _accesses(func) or () if number in a.form.pointers]) or ():
        bounds = access.bounds(access.others)
        if bounds[0] < 0 or bounds[1] > access.distance or slab not in (0, access.distance):
            return 0
        slab = access.distance
    return slab


def _accesses(func: Func) -> list[Access] | None:
    """The accesses of a kernel that does nothing but the trips of its range; None if it does more, or if nobody knows
    which arguments it touches."""
    verified = verify(func)
    if not is_split(func) or verified.opaque or not all(a.form.pointers for a in verified.accesses):
        return None
    return verified.accesses


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

    def bounds(self, loops: tuple[tuple[Loop, int], ...]) -> Bounds:
        """The first byte and the one after the last, as these loops leave them, in a trip of the number 0."""
        found = self.access.facts.form_bounds(Form((), self.form.const, loops, self.form.values))
        assert found, "the verifier lets no address have the variable of a loop without a count"
        return found[0] + self.access.reach[0], found[1] + self.access.reach[1]


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
        if first > last:
            continue  # its condition never holds
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


def _apart(accesses: list[_ChunkedAccess]) -> bool:
    """Returns True if the places of one trip's accesses are none of another's.

    Each trip has a slab of its own, of what it moves on by; slabs repeat in all larger distances that other loops go,
    which a common divisor stands for. What one trip alone does may lie in its slab, or where no slab of another trip
    is.
    """
    repeated = [a for a in accesses if a.first != a.last]
    distances = {a.distance for a in repeated}
    if len(distances) > 1 or distances == {0}:
        return False
    slab = distances.pop() if distances else 0
    # The trips that have slabs; one before or after them may touch what lies beyond.
    begin = min((a.first for a in repeated), default=0)
    trips = range(begin, max((a.last + 1 for a in repeated), default=0))
    period = 0
    places: list[_Place] = []
    for a in accesses:
        large = [(other, c) for other, c in a.others if slab and abs(c) * other.step >= abs(slab) * len(trips)]
        period = gcd(period, *(c * other.step for other, c in large))
        bounds, extent = a.bounds(tuple(one for one in a.others if one not in large)), a.bounds(a.others)
        at = a.distance * a.first if a.first == a.last else 0
        ends = a.distance * a.first, a.distance * a.last
        places.append(
            _Place(a.first, a.last, bounds[0] + at, bounds[1] + at, (extent[0] + min(ends), extent[1] + max(ends)))
        )
    return _in_slabs(places, trips, slab, period) and _one_by_one([p for p in places if p.once], period)


def _in_slabs(places: list[_Place], trips: range, slab: int, period: int) -> bool:
    """Returns True if the places of each of these trips lie in its slab, and what a trip does alone at least in no
    other's, where places that differ by a period are the same."""
    everywhere = [p for p in places if not p.once]
    if not everywhere:
        return True
    origin = everywhere[0].low
    # Distances of places that are no part of a slab are those of slabs that lie elsewhere.
    for apart in sorted(abs(place.low - origin) for place in everywhere):
        rest = _nearest(apart, period)
        if abs(rest) >= abs(slab):
            period = gcd(period, rest)
    if period and period < abs(slab) * len(trips):
        return False
    spans = [(start, start + p.high - p.low) for p in everywhere for start in (_nearest(p.low - origin, period),)]
    low, high = min(start for start, _ in spans), max(end for _, end in spans)
    if high - low > abs(slab):
        return False
    # The slabs in the order in which they lie in memory.
    ordered = trips if slab > 0 else trips[::-1]
    first = origin + low + slab * ordered[0]
    for place in places:
        if not place.once or all(_disjoint(place.extent, p.extent) for p in everywhere):
            continue
        start, size = place.low - first, place.high - place.low
        for at in (start % period, start % period - period) if period else (start,):
            met = range(max((at - high + low) // abs(slab) + 1, 0), min(-(-(at + size) // abs(slab)), len(trips)))
            if any(ordered[k] != place.first for k in met[:2]):
                return False
    return True


def _disjoint(a: Bounds, b: Bounds) -> bool:
    return a[1] <= b[0] or b[1] <= a[0]


def _nearest(number: int, period: int) -> int:
    """Returns the number nearest to 0 of those that differ from this one by periods."""
    return number - (2 * number + period) // (2 * period) * period if period else number


def _one_by_one(places: list[_Place], period: int) -> bool:
    """Returns True if what different trips alone do lies apart."""
    for i, a in enumerate(places):
        for b in places[:i]:
            if a.first == b.first or _disjoint(a.extent, b.extent):
                continue
            # Where both repeat, one has to lie between those of the other.
            behind = (b.low - a.low) % period if period else 0
            if behind < a.high - a.low or behind + b.high - b.low > period:
                return False
    return True
