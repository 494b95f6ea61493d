"""Index maps against NumPy: an array of positions, moved by NumPy as the map says, holds what the map gives at every index."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xla_wasm.hlo.index_map import IndexMap, along, identity, index_map, row_major


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
            step = along(shape, shape, [(shape[d] - 1, -1, d) if d in flipped else (0, 1, d) for d in range(len(shape))])
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
    assert m.one_to_one or len(np.unique(array)) < array.size or any(abs(t[0]) > 1 for c in m.coordinates if c for t in c.terms)
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
    if None not in (*m.coordinates, *n.coordinates) and m.dims == n.dims and a.shape == b.shape and np.array_equal(a, b):
        assert m == n


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
