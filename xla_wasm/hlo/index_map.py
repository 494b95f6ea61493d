"""Index maps: which element of an operand stands at each index of a result, as data.

A coordinate of the operand is an offset plus multiples of digits of the result's index. A digit of dimension d is
`index[d] // divisor % size`: the whole dimension in the maps of transposes, slices, broadcasts and reversals, a part of
it where a reshape splits the dimension. So the maps of reshapes compose with all others whose dimensions split alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from math import prod

from ..dataclass import dataclass

Dims = tuple[int, ...]
Term = tuple[int, int, int, int]
"""(coefficient, dimension, divisor, size): `coefficient * (index[dimension] // divisor % size)`."""


_KEPT = 4096
"""Maps that are kept: a program has many instructions and few shapes."""


@dataclass(frozen=True, slots=True)
class Coordinate:
    """`offset` plus the sum of `terms`: one coordinate of an operand's index."""

    offset: int = 0
    terms: tuple[Term, ...] = ()

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest value."""
        low = high = self.offset
        for c, _, _, size in self.terms:
            low, high = (low, high + c * (size - 1)) if c > 0 else (low + c * (size - 1), high)
        return low, high


@dataclass(frozen=True)
class IndexMap:
    """From each index below `domain` to an index of an array of `dims`.

    A coordinate is None where it is no such sum: it depends on values, or a dimension does not split as the map would
    need. Equal maps are equal data. Build maps with `index_map`, which brings the coordinates into their normal form.
    """

    domain: Dims
    dims: Dims
    coordinates: tuple[Coordinate | None, ...]
    unsplit: bool = False
    """A reshape between dimensions that do not split alike: every element in row-major order, though no digits say
    so."""

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.domain, self.dims, self.coordinates))

    @cached_property
    def position(self) -> Coordinate | None:
        """The row-major position of the element."""
        strides = row_major_strides(self.dims)
        offset, terms = 0, list[Term]()
        for size, stride, coordinate in zip(self.dims, strides, self.coordinates):
            if coordinate is None:
                return None
            if size != 1:
                offset += coordinate.offset * stride
                terms += [(c * stride, d, divisor, size) for c, d, divisor, size in coordinate.terms]
        return _normal(offset, terms)

    @cached_property
    def keeps_order(self) -> bool:
        """True if it reads every element once, in row-major order: a reshape."""
        if self.unsplit or prod(self.domain) != prod(self.dims):
            return self.unsplit
        return not prod(self.dims) or self.position == _linear(self.domain)

    @cached_property
    def is_split(self) -> bool:
        """True if a coordinate takes a part of a dimension, or is unknown: an index may need a division then."""
        return any(c is None or any(t[2] != 1 or t[3] != self.domain[t[1]] for t in c.terms) for c in self.coordinates)

    @property
    def is_identity(self) -> bool:
        """True if it gives every index itself."""
        return self.domain == self.dims and self.keeps_order

    @cached_property
    def one_to_one(self) -> bool:
        """True if it reads no element twice."""
        if self.unsplit or None in self.coordinates:
            return self.unsplit
        read: dict[int, list[tuple[int, int]]] = {}
        for coordinate in self.coordinates:
            reach = 0
            for c, d, divisor, size in sorted(coordinate.terms if coordinate else (), key=lambda t: abs(t[0])):
                if abs(c) <= reach:
                    return False
                reach += abs(c) * (size - 1)
                read.setdefault(d, []).append((divisor, size))
        return all(_covers(read.get(d, []), size) for d, size in enumerate(self.domain))

    def dimension(self, coordinate: Coordinate | None, size: int) -> int | None:
        """The dimension of the index, of this size, that a coordinate is, place for place; None if it is none."""
        if coordinate is None or coordinate.offset or len(coordinate.terms) != 1:
            return None
        ((c, d, divisor, length),) = coordinate.terms
        return d if c == divisor == 1 and length == size == self.domain[d] else None

    def then(self, inner: IndexMap) -> IndexMap:
        """The map that applies `inner` to the indices that this one gives: `inner.domain` is `self.dims`."""
        return _composed(self, inner)

    def _then(self, inner: IndexMap) -> IndexMap:
        made: list[Coordinate | None] = []
        for coordinate in inner.coordinates:
            total: Coordinate | None = coordinate and Coordinate(coordinate.offset)
            for c, d, divisor, size in coordinate.terms if coordinate else ():
                own = self.coordinates[d]
                if own is not None and (divisor, size) != (1, inner.domain[d]):
                    own = _digit(own, divisor, size)
                if own is None or total is None:
                    total = None
                    break
                terms = [(c * k, *rest) for k, *rest in own.terms]
                total = Coordinate(total.offset + c * own.offset, (*total.terms, *terms))  # type: ignore[arg-type]
            made.append(total)
        if (None in made or 0 in inner.dims) and self.keeps_order and inner.keeps_order:
            return row_major(self.domain, inner.dims)
        return index_map(self.domain, inner.dims, made)

    def inverse(self) -> IndexMap | None:
        """The map back, if this one reads every element once."""
        if self.unsplit:
            return row_major(self.dims, self.domain)
        found: list[list[Term]] = [[] for _ in self.domain]
        offsets = [0] * len(self.domain)
        for k, (coordinate, size) in enumerate(zip(self.coordinates, self.dims)):
            if coordinate is None:
                return None
            # A digit with a negative coefficient counts down.
            down = sum(-c * (s - 1) for c, _, _, s in coordinate.terms if c < 0)
            if coordinate.offset != down or not _covers([(abs(c), s) for c, _, _, s in coordinate.terms], size):
                return None
            for c, d, divisor, s in coordinate.terms:
                found[d].append((divisor if c > 0 else -divisor, k, abs(c), s))
                offsets[d] += divisor * (s - 1) if c < 0 else 0
        if not self.one_to_one:
            return None
        return index_map(self.dims, self.domain, [Coordinate(o, tuple(t)) for o, t in zip(offsets, found)])

    def __str__(self) -> str:
        return f"[{', '.join('?' if c is None else self._text(c) for c in self.coordinates)}]"

    def _text(self, coordinate: Coordinate) -> str:
        parts = []
        for c, d, divisor, size in coordinate.terms:
            digit = (
                f"i{d}"
                + (f"//{divisor}" if divisor > 1 else "")
                + (f"%{size}" if divisor * size < self.domain[d] else "")
            )
            parts.append(digit if c == 1 else f"-{digit}" if c == -1 else f"{c}*{digit}")
        if coordinate.offset or not parts:
            parts.append(str(coordinate.offset))
        return " + ".join(parts).replace("+ -", "- ")


@lru_cache(_KEPT)
def _composed(outer: IndexMap, inner: IndexMap) -> IndexMap:
    return outer._then(inner)


def index_map(domain: Dims, dims: Dims, coordinates: Iterable[Coordinate | None]) -> IndexMap:
    """The map with these coordinates in normal form: no digit of size 1, equal digits added up, neighbouring ones
    joined."""
    return IndexMap(domain, dims, tuple([c and _normal(c.offset, c.terms) for c in coordinates]))


Place = tuple[int, int, int] | int | None
"""A coordinate along one dimension of an index: (offset, stride, dimension); a constant; or unknown."""


def along(domain: Dims, dims: Dims, places: Sequence[Place]) -> IndexMap:
    """The map whose coordinates are these."""
    return _along(domain, dims, tuple(places))


@lru_cache(_KEPT)
def _along(domain: Dims, dims: Dims, places: tuple[Place, ...]) -> IndexMap:
    made: list[Coordinate | None] = []
    for place in places:
        if isinstance(place, tuple):
            offset, stride, d = place
            made.append(Coordinate(offset, ((stride, d, 1, domain[d]),) if domain[d] != 1 else ()))
        else:
            made.append(None if place is None else Coordinate(place))
    return IndexMap(domain, dims, tuple(made))


@lru_cache(_KEPT)
def identity(dims: Dims) -> IndexMap:
    """Every index to itself."""
    return along(dims, dims, [(0, 1, d) for d in range(len(dims))])


@lru_cache(_KEPT)
def row_major(domain: Dims, dims: Dims) -> IndexMap:
    """The map of a reshape from `dims` to `domain`, which have the same number of elements."""
    if 0 in dims:
        return IndexMap(domain, dims, (None,) * len(dims), True)
    whole = _linear(domain)
    made = tuple([_digit(whole, stride, size) for stride, size in zip(row_major_strides(dims), dims)])
    return IndexMap(domain, dims, made, None in made)


@lru_cache(_KEPT)
def row_major_strides(dims: Dims) -> Dims:
    """Element strides of an array whose elements lie in row-major order without gaps."""
    strides, stride = [], 1
    for size in reversed(dims):
        strides.append(stride)
        stride *= size
    return tuple(reversed(strides))


def _linear(domain: Dims) -> Coordinate:
    """The row-major position of an index."""
    return _normal(0, [(stride, d, 1, size) for d, (stride, size) in enumerate(zip(row_major_strides(domain), domain))])


def _covers(digits: list[tuple[int, int]], size: int) -> bool:
    """Returns True if digits, each a divisor and a size, make up 0..size-1 exactly."""
    reach = 1
    for divisor, s in sorted(digits):
        if divisor != reach:
            return False
        reach *= s
    return reach == size


def _normal(offset: int, terms: Iterable[Term]) -> Coordinate:
    total: dict[tuple[int, int, int], int] = {}
    for c, d, divisor, size in terms:
        if size != 1:
            total[d, divisor, size] = total.get((d, divisor, size), 0) + c
    made: list[Term] = []
    for (d, divisor, size), c in sorted(total.items()):
        if not c:
            continue
        if made:
            low, before, start, length = made[-1]
            if before == d and start * length == divisor and low * length == c:
                made[-1] = (low, d, start, length * size)
                continue
        made.append((c, d, divisor, size))
    return Coordinate(offset, tuple(made))


def _digit(value: Coordinate, divisor: int, size: int) -> Coordinate | None:
    """`value // divisor % size`, if the digits of `value` split there."""
    low, high = list[Term](), list[Term]()
    for c, d, start, length in value.terms:
        if c % divisor == 0:
            high.append((c // divisor, d, start, length))
            continue
        cut = divisor // c if c > 0 and divisor % c == 0 else 0
        if cut and length > cut and length % cut == 0:
            low.append((c, d, start, cut))
            high.append((1, d, start * cut, length // cut))
        else:
            low.append((c, d, start, length))
    least, most = Coordinate(value.offset % divisor, tuple(low)).bounds
    if least < 0 or most >= divisor:
        return None
    quotient = _normal(value.offset // divisor, high)
    least, most = quotient.bounds
    if least >= 0 and most < size:
        return quotient
    kept = list[Term]()
    for c, d, start, length in quotient.terms:
        if c % size:
            cut = size // c if c > 0 and size % c == 0 else 0
            kept.append((c, d, start, cut if cut and length % cut == 0 else length))
    rest = _normal(quotient.offset % size, kept)
    least, most = rest.bounds
    return rest if least >= 0 and most < size else None
