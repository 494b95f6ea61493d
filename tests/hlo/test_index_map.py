"""Index maps against NumPy: an array of positions, moved by NumPy as the map says, holds what the map gives at every
index."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xla_wasm.hlo.index_map import Coordinate, IndexMap, Term, along, identity, index_map, row_major


def positions(m: IndexMap) -> np.ndarray:
    """The row-major position that the map gives at each index, by its definition."""
    strides = [prod(m.dims[k + 1 :]) for k in range(len(m.dims))]
    found = np.zeros(m.domain, np.int64)
    for index in product(*map(range, m.domain)):
        for coordinate, stride, size in zip(m.coordinates, strides, m.dims):
            assert coordinate is not None
            at = coordinate.offset + sum(c * (index[d] // divisor % s) for c, d, divisor, s in coordinate.terms)
            assert 0 <= at < size
            found[index] += at * stride
    return found


@st.composite
def moves(draw: st.DrawFn) -> tuple[IndexMap, np.ndarray]:
    """A chain of movements as one map, from the last result to the first operand; and NumPy's version of it."""
    sizes = st.sampled_from((1, 2, 2, 3, 4, 6))
    dims = tuple(draw(st.lists(sizes, min_size=1, max_size=3)))
    array = np.arange(prod(dims)).reshape(dims)
    total = identity(dims)
    for _ in range(draw(st.integers(0, 5))):
        shape = array.shape
        kind = draw(st.sampled_from(("transpose", "slice", "broadcast", "reverse", "reshape")))
        if kind == "transpose":
            order = draw(st.permutations(range(len(shape))))
            array = array.transpose(order)
            step = along(array.shape, shape, [(0, 1, order.index(d)) for d in range(len(shape))])
        elif kind == "slice":
            starts = [draw(st.integers(0, size - 1)) for size in shape]
            strides = [draw(st.integers(1, 3)) for _ in shape]
            array = array[tuple(slice(a, None, b) for a, b in zip(starts, strides))]
            step = along(array.shape, shape, [(a, b, d) for d, (a, b) in enumerate(zip(starts, strides))])
        elif kind == "broadcast":
            at = draw(st.integers(0, len(shape)))
            size = draw(sizes)
            array = np.broadcast_to(np.expand_dims(array, at), (*shape[:at], size, *shape[at:]))
            step = along(array.shape, shape, [(0, 1, d + (d >= at)) for d in range(len(shape))])
        elif kind == "reverse":
            flipped = [d for d in range(len(shape)) if draw(st.booleans())]
            array = np.flip(array, flipped)
            step = along(
                shape, shape, [(shape[d] - 1, -1, d) if d in flipped else (0, 1, d) for d in range(len(shape))]
            )
        else:
            factors = [f for size in shape for f in {4: (2, 2), 6: draw(st.permutations((2, 3)))}.get(size, (size,))]
            cuts = sorted(draw(st.lists(st.integers(0, len(factors)), max_size=3)))
            to = tuple(prod(factors[a:b]) for a, b in zip([0, *cuts], [*cuts, len(factors)]))
            array = array.reshape(to)
            step = row_major(to, shape)
        if array.size > 500 or array.ndim > 5:
            break
        total = step.then(total)
    else:
        return total, array
    return identity(dims), np.arange(prod(dims)).reshape(dims)


@given(moves())
def test_composed_maps_place_elements_as_numpy_does(case: tuple[IndexMap, np.ndarray]) -> None:
    m, array = case
    if None in m.coordinates:
        return
    assert m.domain == array.shape
    np.testing.assert_array_equal(positions(m), array)
    order = np.array_equal(array.ravel(), np.arange(prod(m.dims)))
    assert m.keeps_order == order
    assert (
        m.one_to_one
        or len(np.unique(array)) < array.size
        or any(abs(t[0]) > 1 for c in m.coordinates if c for t in c.terms)
    )
    if m.one_to_one:
        assert len(np.unique(array)) == array.size
    back = m.inverse()
    if back is not None:
        assert back.domain == m.dims and back.dims == m.domain
        np.testing.assert_array_equal(positions(back).ravel()[array.ravel()], np.arange(array.size))
        assert m.then(back).is_identity and back.then(m).is_identity
        assert back.inverse() == m


@given(st.lists(moves(), min_size=2, max_size=2))
def test_equal_maps_are_equal_data(cases: list[tuple[IndexMap, np.ndarray]]) -> None:
    (m, a), (n, b) = cases
    if (
        None not in (*m.coordinates, *n.coordinates)
        and m.dims == n.dims
        and a.shape == b.shape
        and np.array_equal(a, b)
    ):
        assert m == n


# --- sums of digits, whether or not operations make them
# ----------------------------------------------------------------------

Digits = list[list[int]]
"""The sizes of each dimension's digits, the lowest first."""

digits = st.lists(st.lists(st.sampled_from((2, 2, 3)), max_size=2), max_size=3)


def term(digits: Digits, c: int, d: int, k: int) -> Term:
    return c, d, prod(digits[d][:k]), digits[d][k]


@st.composite
def sums(draw: st.DrawFn, digits: Digits) -> Coordinate:
    """A multiple of each digit, often those that a slice, a reversal or a merge has, and an offset that keeps it from 0
    on."""
    terms = []
    for d, sizes in enumerate(digits):
        step = draw(st.sampled_from((0, 1, 1, -1, 2, 3, 6)))
        for k in range(len(sizes)):
            c = draw(st.integers(-2, 2)) if draw(st.integers(0, 3)) == 0 else step * prod(sizes[:k])
            terms.append(term(digits, c, d, k))
    low, _ = Coordinate(0, tuple(terms)).bounds
    return Coordinate(draw(st.integers(0, 2)) - low, tuple(draw(st.permutations(terms))))


def otherwise(c: Coordinate) -> Coordinate:
    """The same sum, each multiple as two."""
    return Coordinate(c.offset, tuple((part, *rest) for k, *rest in c.terms for part in (k - 1, 1)))  # type: ignore[misc]


def value(c: Coordinate, domain: tuple[int, ...]) -> np.ndarray:
    """The sum at every index."""
    index = np.indices(domain)
    return sum((k * (index[d] // divisor % size) for k, d, divisor, size in c.terms), np.full(domain, c.offset))


def sized(digits: Digits) -> tuple[int, ...]:
    return tuple(map(prod, digits))


@given(st.data(), digits)
def test_a_coordinate_has_one_form_for_each_function(data: st.DataObject, digits: Digits) -> None:
    domain = sized(digits)
    a, b = (data.draw(sums(digits)) for _ in range(2))
    m, n, same = (index_map(domain, (1 << 20,), [c]).coordinates[0] for c in (a, b, otherwise(a)))
    assert m is not None and n is not None
    assert m == same
    assert (m == n) == np.array_equal(value(a, domain), value(b, domain))
    np.testing.assert_array_equal(value(m, domain), value(a, domain))
    assert m.bounds == (value(a, domain).min(), value(a, domain).max())


@st.composite
def maps(draw: st.DrawFn, digits: Digits) -> IndexMap:
    """A map whose coordinates are sums of digits, to an array that has room for them and perhaps more."""
    made = draw(st.lists(sums(digits), max_size=3))
    return index_map(sized(digits), tuple(c.bounds[1] + 1 + draw(st.integers(0, 1)) for c in made), made)


@given(st.data(), digits)
def test_what_a_map_says_of_itself_is_what_its_enumeration_shows(data: st.DataObject, digits: Digits) -> None:
    m = data.draw(maps(digits))
    array = positions(m)
    count, size = array.size, prod(m.dims)
    assert m.position is not None
    np.testing.assert_array_equal(value(m.position, m.domain), array)
    assert m.keeps_order == (count == size and np.array_equal(array.ravel(), np.arange(count)))
    assert m.is_identity == (m.keeps_order and m.domain == m.dims)
    if m.one_to_one:
        assert len(np.unique(array)) == count
    back = m.inverse()
    if back is not None:
        np.testing.assert_array_equal(positions(back).ravel()[array.ravel()], np.arange(size))
    for k, coordinate in enumerate(m.coordinates):
        assert coordinate is not None
        d = m.dimension(coordinate, m.dims[k])
        own = value(coordinate, m.domain)
        same = [
            e for e, n in enumerate(m.domain) if n == m.dims[k] > 1 and np.array_equal(own, np.indices(m.domain)[e])
        ]
        assert same == ([] if d is None else [d])
    # Of each dimension a coordinate takes all or nothing, so that it goes up or down by the same amount from index to
    # index.
    even = all(
        (np.diff(value(c, m.domain), 2, axis=d) == 0).all() for c in m.coordinates if c for d in range(len(m.domain))
    )
    assert even or m.is_split


@given(st.data(), digits)
def test_composed_maps_are_composed_functions(data: st.DataObject, digits: Digits) -> None:
    """Wherever the outer map leads: `then` leaves no coordinate open that takes its dimensions whole."""
    outer = data.draw(maps(digits))
    places = [
        (data.draw(st.integers(0, 2)), data.draw(st.integers(1, 3)), d)
        for d in data.draw(st.permutations(range(len(outer.dims))))
    ]
    inner = along(outer.dims, tuple(a + (outer.dims[d] - 1) * b + 1 for a, b, d in places), places)
    both = outer.then(inner)
    assert (both.domain, both.dims) == (outer.domain, inner.dims)
    np.testing.assert_array_equal(positions(both), positions(inner).ravel()[positions(outer)])


@given(st.data(), digits)
def test_a_reshape_after_a_map_goes_where_both_lead_or_nowhere(data: st.DataObject, digits: Digits) -> None:
    outer = data.draw(maps(digits))
    size = prod(outer.dims)
    first = data.draw(st.sampled_from([n for n in range(1, 13) if size % n == 0]))
    inner = row_major(outer.dims, (first, size // first))
    both = outer.then(inner)
    index = np.unravel_index(positions(outer), inner.dims)
    for own, coordinate in zip(index, both.coordinates):
        if coordinate is not None:
            np.testing.assert_array_equal(value(coordinate, outer.domain), own)
    assert both.unsplit == (None in both.coordinates and np.array_equal(positions(outer).ravel(), np.arange(size)))


@given(st.lists(moves(), min_size=1, max_size=1), st.data())
def test_composition_is_associative(cases: list[tuple[IndexMap, np.ndarray]], data: st.DataObject) -> None:
    ((a, _),) = cases
    order = data.draw(st.permutations(range(len(a.dims))))
    b = along(a.dims, tuple(a.dims[d] for d in order), [(0, 1, d) for d in order])
    c = along(b.dims, b.dims, [(n - 1, -1, d) for d, n in enumerate(b.dims)])
    assert a.then(b).then(c) == a.then(b.then(c))


@given(
    st.lists(st.sampled_from((0, 1, 2, 3)), max_size=3).filter(lambda dims: 0 in dims),
    st.lists(st.integers(0, 3), max_size=3),
)
def test_maps_of_nothing(dims: list[int], to: list[int]) -> None:
    """Reshapes of empty arrays go there and back; an empty slice of something reads nothing twice and not
    everything."""
    domain = tuple(dims)
    there = row_major(domain, (*to, 0))
    back = there.inverse()
    assert there.keeps_order and there.one_to_one and back is not None
    assert (
        there.then(back).is_identity and identity(domain).is_identity and identity(domain).inverse() == identity(domain)
    )
    part = along(domain, tuple(n + 1 for n in dims), [(0, 1, d) for d in range(len(dims))])
    assert not part.keeps_order and part.inverse() is None


@pytest.mark.parametrize("via", [(6,), (2, 3), (3, 2), (1, 6, 1), (2, 1, 3)])
def test_reshapes_there_and_back_come_to_nothing(via: tuple[int, ...]) -> None:
    m = row_major((2, 3), via).then(row_major(via, (2, 3)))
    assert m.is_identity and m.keeps_order


def test_a_reshape_that_splits_no_dimension_alike_has_no_coordinates_but_composes_with_reshapes() -> None:
    m = row_major((2, 3), (3, 2))
    assert m.coordinates == (None, None)
    assert m.keeps_order and m.one_to_one and m.position is None
    assert m.inverse() == row_major((3, 2), (2, 3))


def test_text() -> None:
    assert str(along((4, 5), (9, 5), [(1, 2, 0), (4, -1, 1)])) == "[2*i0 + 1, -i1 + 4]"
    assert str(row_major((6,), (2, 3))) == "[i0//3, i0%3]"
    assert str(index_map((2, 3), (6, 1), row_major((2, 3), (6, 1)).coordinates)) == "[3*i0 + i1, 0]"
