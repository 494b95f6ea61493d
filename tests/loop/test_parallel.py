"""Kernels that may have the trips of their range at the same time: `loop.parallel` against kernels written by hand, and
their values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from tests.support import seeds
from xla_wasm.loop.affine import Affine
from xla_wasm.loop.builder import Builder
from xla_wasm.loop.ir import Func
from xla_wasm.loop.parallel import is_parallel
from xla_wasm.target import Target

Write = Callable[[Builder, Affine], None]


def kernel(write: Write, trips: int = 64) -> Func:
    return in_turn((trips, write))


def in_turn(*loops: tuple[int, Write]) -> Func:
    """A kernel whose range is so many trips of one loop after the other."""
    b = Builder("k", 3, 4, Target.named("simd128"), frozenset((0, 2)))
    for trips, write in loops:
        with b.loop(trips, chunked=True) as i:
            write(b, i)
    return b.func()


def value(b: Builder, i: Affine, buffer: int = 1) -> object:
    return b.load(buffer, i, "f32")


def put(b: Builder, at: Affine, source: Affine, target: int = 0, buffer: int = 1) -> None:
    b.store(target, at, b.load(buffer, source, "f32"), "f32")


def rows(step: int, width: int) -> Write:
    """A row of `width` elements, `step` apart."""

    def write(b: Builder, i: Affine) -> None:
        with b.loop(width) as j:
            put(b, i * step + j, i * step + j)

    return write


def columns(height: int, stride: int, width: int = 1) -> Write:
    """A column, or some side by side, of `height` elements that lie `stride` apart."""

    def write(b: Builder, i: Affine) -> None:
        with b.loop(height) as j, b.loop(width) as k:
            put(b, i * width + j * stride + k, i)

    return write


def last(at: int, where: int = 63) -> Write:
    """One element in each trip, and in one of them another."""

    def write(b: Builder, i: Affine) -> None:
        put(b, i, i)
        with b.when(b.eq(b.index_value(i), b.const("s32", where))):
            put(b, Affine(at), i)

    return write


def both(first: Write, second: Write) -> Write:
    def write(b: Builder, i: Affine) -> None:
        first(b, i)
        second(b, i)

    return write


def clamped(b: Builder, i: Affine) -> None:
    """Two rows of four, where they are not beyond the end."""
    with b.loop(2) as j:
        row = b.index_value(i * 2 + j)
        held = b.lt(b.bitcast(row, "u32"), b.const("u32", 127))
        place = Affine(0, (), ((b.min(b.max(row, b.const("s32", 0)), b.const("s32", 126)), 1),))
        with b.when(held), b.loop(4) as k:
            put(b, place * 4 + k, i)


def through_scratch(b: Builder, i: Affine) -> None:
    put(b, Affine(5), i, target=2)
    put(b, i, Affine(5), buffer=2)


def from_the_trip_before(b: Builder, i: Affine) -> None:
    put(b, i, Affine(5), buffer=2)
    put(b, Affine(5), i, target=2)


def begun_once(b: Builder, i: Affine) -> None:
    with b.when(b.eq(b.index_value(i), b.const("s32", 0))):
        put(b, Affine(5), i, target=2)
    put(b, i, Affine(5), buffer=2)


APART: dict[str, Write] = {
    "elements": lambda b, i: put(b, i, i),
    "rows": rows(8, 8),
    "rows with gaps": rows(8, 5),
    "backwards": lambda b, i: put(b, Affine(63) - i, i),
    "columns": columns(10, 64),
    "wide columns": columns(10, 256, 4),
    "columns with gaps": columns(10, 80),
    "an element behind the last": last(64),
    "an element far behind": last(1000),
    "another element of the same trip": last(63),
    "an element behind the last column": both(columns(10, 64), last(640)),
    "a clamp": clamped,
    "scratch memory": through_scratch,
    "what it reads elsewhere": lambda b, i: put(b, i, i * 0),
}
NOT_APART: dict[str, Write] = {
    "one place": lambda b, i: put(b, i * 0, i),
    "rows that overlap": rows(8, 9),
    "columns that run into each other": columns(10, 60),
    "columns wider than their distance": columns(10, 100, 4),
    "the next trip's element": last(12, where=11),
    "an element of the first": last(0),
    "an element of the last column": both(columns(10, 64), last(639, where=62)),
    "what the trip before wrote": lambda b, i: put(b, i + 1, i, buffer=0),
    "a place read from memory": lambda b, i: put(b, Affine(0, (), ((b.load(1, i, "s32"), 1),)), i),
    "scratch memory of the trip before": from_the_trip_before,
    "scratch memory of the first trip": begun_once,
}


@pytest.mark.parametrize("name", APART)
def test_apart(name: str) -> None:
    assert is_parallel(kernel(APART[name]), {0}, {2})


@pytest.mark.parametrize("name", NOT_APART)
def test_not_apart(name: str) -> None:
    assert not is_parallel(kernel(NOT_APART[name]), {0}, {2})


def test_in_place() -> None:
    """An operand that lies in the result's memory may be read where the same trip writes, and nowhere else."""
    here, beside = kernel(lambda b, i: put(b, i, i)), kernel(lambda b, i: put(b, i, i + 1))
    assert is_parallel(here, {0}, {2}, {1: 0})
    assert is_parallel(beside, {0}, {2})
    assert not is_parallel(beside, {0}, {2}, {1: 0})


def test_what_outlives_a_run_is_no_scratch_memory() -> None:
    assert not is_parallel(kernel(through_scratch), {0})


def moved(write: Write, rows: int) -> Write:
    """The same, so many trips later."""
    return lambda b, i: write(b, i + rows)


def test_loops_in_turn() -> None:
    """A first, a last and other rows are written in loops of their own, with places that continue each other."""
    assert is_parallel(in_turn((1, rows(8, 8)), (6, moved(rows(8, 4), 1)), (2, moved(rows(8, 8), 7))), {0}, {2})
    assert is_parallel(in_turn((2, through_scratch), (6, moved(through_scratch, 2))), {0}, {2})
    assert not is_parallel(in_turn((1, rows(8, 8)), (6, rows(8, 4))), {0}, {2}), (
        "the second loop writes the first row again"
    )
    assert not is_parallel(in_turn((2, rows(8, 8)), (6, moved(rows(8, 4), 1))), {0}, {2})
    assert not is_parallel(
        in_turn((2, through_scratch), (6, lambda b, i: put(b, i + 2, Affine(5), buffer=2))), {0}, {2}
    )


def test_more_than_the_range() -> None:
    b = Builder("k", 2, 4, Target.named("simd128"), frozenset((0,)))
    with b.loop(64, chunked=True) as i:
        put(b, i, i)
    put(b, Affine(64), Affine(64))
    assert not is_parallel(b.func(), {0})


# --- random kernels -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Access:
    """An access of a random kernel: to argument 0, as many elements, at an affine place of the trip in the range; in
    one trip of its loop only, or in all."""

    stores: bool
    width: int
    const: int
    outer: int
    inner: tuple[tuple[int, int], ...]
    """(trips, what each moves on by) of the loops around."""
    only: int | None

    def elements(self, trip: int, first: int) -> Iterator[int]:
        """The elements in a trip of the loop whose first trip is so late in the range."""
        if self.only not in (None, trip):
            return
        places = np.array([self.const + self.outer * (first + trip)])
        for trips, step in self.inner:
            places = np.add.outer(places, np.arange(trips) * step).ravel()
        for place in places:
            yield from range(int(place), int(place) + self.width)

    def write(self, b: Builder, i: Affine, first: int) -> None:
        place = (i + first) * self.outer + self.const
        if self.only is not None:
            with b.when(b.eq(b.index_value(i), b.const("s32", self.only))):
                self.inside(b, place, self.inner)
        else:
            self.inside(b, place, self.inner)

    def inside(self, b: Builder, at: Affine, inner: tuple[tuple[int, int], ...]) -> None:
        if inner:
            (trips, step), *rest = inner
            with b.loop(trips) as j:
                self.inside(b, at + j * step, tuple(rest))
            return
        pointer = b.pointer(0)
        if self.stores:
            value = b.const("f32", 1.0)
            b.store_lanes(pointer, at, b.splat(value, 4), "f32") if self.width == 4 else b.store(0, at, value, "f32")
        else:
            value = b.load_lanes(pointer, at, "f32", pure=False) if self.width == 4 else b.load(0, at, "f32")
            b.store_lanes(b.pointer(2), Affine(0), value, "f32") if self.width == 4 else b.store(
                2, Affine(0), value, "f32"
            )


def drawn(rng: np.random.Generator, trips: int) -> list[Access]:
    """Accesses whose places are near those of one pattern, so that many kernels are just apart, and many just not."""
    base = tuple((int(rng.integers(2, 5)), int(rng.integers(-9, 10))) for _ in range(rng.integers(0, 3)))
    outer = int(rng.integers(-9, 10)) * int(rng.choice([1, 1, 2, 4]))
    accesses = []
    for n in range(rng.integers(1, 4)):
        only = int(rng.integers(0, trips)) if rng.random() < 0.25 else None
        inner = (
            base
            if rng.random() < 0.7
            else tuple((int(rng.integers(2, 4)), int(rng.integers(-40, 41))) for _ in range(rng.integers(0, 2)))
        )
        accesses.append(
            Access(
                n == 0 or rng.random() < 0.6,
                int(rng.choice([1, 4])),
                200 + int(rng.integers(0, 12)) + int(rng.choice([0, 0, 40])),
                outer if only is None and rng.random() < 0.95 else int(rng.choice([0, outer])),
                inner,
                only,
            )
        )
    return accesses


@dataclass(frozen=True)
class Part:
    """One loop of the range: where its first trip is there, how many it has, and what each of them does."""

    first: int
    trips: int
    accesses: list[Access]

    def write(self, b: Builder, i: Affine) -> None:
        for access in self.accesses:
            access.write(b, i, self.first)

    def touched(self, stored: bool) -> list[set[int]]:
        """The elements that each trip touches, or only those that it stores."""
        chosen = [a for a in self.accesses if a.stores or not stored]
        return [{e for a in chosen for e in a.elements(trip, self.first)} for trip in range(self.trips)]


def clash(parts: list[Part]) -> bool:
    """Returns true if a trip touches an element that another one writes, by trying them all."""
    touched, written = ([trip for part in parts for trip in part.touched(stored)] for stored in (False, True))
    return any(t & w for p, t in enumerate(touched) for q, w in enumerate(written) if p != q)


def drawn_parts(rng: np.random.Generator) -> list[Part]:
    """A range of one loop or several, which mostly do the same, or a part of it."""
    accesses = drawn(rng, 2)
    parts: list[Part] = []
    for trips in rng.integers(1, 5, int(rng.choice([1, 1, 2, 3]))):
        first = parts[-1].first + parts[-1].trips if parts else 0
        chance = rng.random()
        own = accesses if chance < 0.5 else accesses[:1] if chance < 0.8 else drawn(rng, int(trips))
        parts.append(Part(first + (int(rng.integers(-1, 2)) if parts and rng.random() < 0.1 else 0), int(trips), own))
    return parts


def test_random_kernels() -> None:
    """Kernels that are said to be parallel have no clash. A parallel one that is not found costs time only, but more
    than half are found."""
    found = apart = 0
    for seed in range(seeds.count(750, 60_000)):
        rng = np.random.default_rng(seed)
        parts = drawn_parts(rng)
        said, known = is_parallel(in_turn(*((part.trips, part.write) for part in parts)), {0}, {2}), not clash(parts)
        assert known or not said, f"seed {seed}: {parts}"
        if sum(part.trips for part in parts) > 1:
            found += said
            apart += known
    assert 2 * found > apart
