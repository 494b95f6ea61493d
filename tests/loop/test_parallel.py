"""Kernels that may have the trips of their range at the same time: `loop.parallel` against kernels written by hand, and
their values."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import wasmtime

from tests.support import seeds
from xla_wasm.loop.affine import Affine
from xla_wasm.loop.builder import Builder
from xla_wasm.loop.emit import emit
from xla_wasm.loop.ir import Func, Touch
from xla_wasm.loop.parallel import bytes_a_trip, is_parallel
from xla_wasm.target import Target
from xla_wasm.wasm import Module
from xla_wasm.wasm.func import Func as WasmFunc

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
            put(b, i * step + j, i)

    return write


def columns(height: int, stride: int, width: int = 1) -> Write:
    """A column, or some side by side, of `height` elements that lie `stride` apart."""

    def write(b: Builder, i: Affine) -> None:
        with b.loop(height) as j, b.loop(width) as k:
            put(b, i * width + j * stride + k, i)

    return write


def last(at: int, where: int = 63, height: int = 1, stride: int = 0) -> Write:
    """One element in each trip, and in one of them another, or as many as `height` that lie `stride` apart."""
    return both(lambda b, i: put(b, i, i), only(where, at, height, stride))


def only(where: int, at: int, height: int = 1, stride: int = 0, width: int = 1) -> Write:
    """In one trip alone so many elements, or rows of `width`, that lie `stride` apart."""

    def write(b: Builder, i: Affine) -> None:
        with b.when(b.eq(b.index_value(i), b.const("s32", where))), b.loop(height) as j, b.loop(width) as k:
            put(b, j * stride + k + at, i)

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


def never(b: Builder, i: Affine) -> None:
    """A condition between the numbers that it compares."""
    with b.when(b.eq(b.index_value(i * 4), b.const("s32", 2))):
        put(b, Affine(0), i)


def by_function(touches: tuple[Touch, ...], step: int) -> Write:
    """A function that writes the number of the trip, `step` bytes further in each."""

    def write(b: Builder, i: Affine) -> None:
        address = b.add(b.pointer(0), b.bitcast(b.index_value(i * step), "u32")) if step else b.pointer(0)
        b.invoke("write_number", address, b.index_value(i), touches=touches)

    return write


def where_a_number_says(b: Builder, i: Affine) -> None:
    """A store of which it is known at run time only to which buffer it goes."""
    base = b.select(b.lt(b.index_value(i), b.const("s32", 40)), b.pointer(0), b.pointer(2))
    b.store_at(base, Affine(), b.load(1, i, "f32"), "f32")


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
    "an element of another slab's rest": both(rows(8, 5), only(63, 6)),
    "elements between columns": both(columns(10, 80), only(63, 64, 10, 80)),
    "elements between columns, backwards": both(
        lambda b, i: columns(10, 80)(b, Affine(63) - i), only(63, 79 + 9 * 80, 10, -80)
    ),
    "two trips' elements behind the columns": both(columns(10, 80), both(only(9, 66, 10, 80), only(10, 67, 10, 80))),
    "two trips' elements behind all": both(last(64), only(62, 65)),
    "two trips' elements and no others": both(only(1, 64), only(0, 65)),
    "an element before all others": both(lambda b, i: put(b, i + 64, i), only(63, 5)),
    "two elements of one trip": both(last(64), only(63, 65)),
    "what no trip does": never,
    "what no trip does, nor anything else": both(only(3, 64), never),
    "a clamp": clamped,
    "a function": by_function((Touch(0, 4, True),), 4),
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
    "elements that run back to the first": last(1000, height=2, stride=-1000),
    "an element of two trips": both(last(64), only(62, 64)),
    "elements of two trips behind the columns": both(columns(10, 80), both(only(9, 66, 5, 80), only(10, 66, 5, 80))),
    "elements between columns that reach the next": both(columns(10, 80), only(63, 64, 161, 1)),
    "elements between columns of two trips": both(columns(10, 80), both(only(9, 64, 4, 80), only(10, 142, 4, 80))),
    "an element of a column, backwards": both(
        lambda b, i: columns(10, 64)(b, Affine(63) - i), only(63, 9 * 64 + 1, 9, -64)
    ),
    "elements of two trips, two of one beside one of the other": both(
        columns(10, 80), both(only(10, 65, 4, 80, 2), only(9, 66, 5, 80))
    ),
    "an element before all columns": both(columns(10, 80), both(only(9, 1000), only(10, 1000))),
    "two steps": both(lambda b, i: put(b, i, i), lambda b, i: put(b, i * 2, i)),
    "an element of the last column": both(columns(10, 64), last(639, where=62)),
    "what the trip before wrote": lambda b, i: put(b, i + 1, i, buffer=0),
    "a place read from memory": lambda b, i: b.store(
        0, Affine(0, (), ((b.load(1, i, "s32"), 1),)), b.index_value(i), "s32"
    ),
    "scratch memory of the trip before": from_the_trip_before,
    "scratch memory of the first trip": begun_once,
    "scratch memory that nobody writes": lambda b, i: put(b, i, Affine(5), buffer=2),
    "a function that writes one place": by_function((Touch(0, 4, True),), 0),
    "a function of which nothing is known": by_function((), 0),
    "a buffer that is known at run time": where_a_number_says,
}


GIVEN = (np.arange(4096, dtype=np.int32) * 7 % 32).tobytes()
"""Argument 1: places near the first."""
Order = Sequence[tuple[int, int, int]]
"""Calls: the thread, and the trips from which on and up to which it makes."""


def runner(func: Func, same: bool = False) -> Callable[[Order, bytes], bytes]:
    """Returns a function of calls, by two threads with scratch memory of their own, and of the bytes of argument 1,
    which returns those that the kernel leaves in argument 0. If `same`, both arguments lie in one place."""
    write_number = WasmFunc("write_number", ("i32", "i32"), ())
    write_number.op("local.get", 0)
    write_number.op("local.get", 1)
    write_number.op("i32.store", 2, 0)
    module = Module()
    module.memory(1)
    module.export_memory("memory")
    module.add(write_number)
    module.add(emit(func))
    module.export_func("run", func.name)
    store = wasmtime.Store()
    exports = wasmtime.Instance(store, wasmtime.Module(store.engine, module.encode()), []).exports(store)
    memory: Any = exports["memory"]
    call: Any = exports["run"]
    first, second, scratch = 8192, 32768, 128

    def run(order: Order, given: bytes) -> bytes:
        memory.write(store, bytes(range(1, 256)) * 16, 0)
        memory.write(store, np.arange(4096, dtype=np.int32).tobytes(), first)
        memory.write(store, given, first if same else second)
        for thread in range(2):
            arguments = (first, first if same else second, scratch + 64 * thread)
            memory.write(store, struct.pack("<3I", *arguments), 16 * thread)
        for thread, begin, end in order:
            call(store, 16 * thread, begin, end)
        return bytes(memory.read(store, first, first + 16384))

    return run


def results(func: Func, same: bool = False) -> list[bytes]:
    """Returns the results of a kernel with all trips in turn, and with two threads that take them in other orders."""
    run, trips = runner(func, same), range(func.trips)
    orders = [
        [(0, 0, func.trips)],
        [(k % 2, k, k + 1) for k in reversed(trips)],
        [(1, k, k + 1) for k in trips[1::2]] + [(0, k, k + 1) for k in trips[::2]],
    ]
    return [run(order, GIVEN) for order in orders]


@pytest.mark.parametrize("name", APART)
def test_apart(name: str) -> None:
    func = kernel(APART[name])
    assert is_parallel(func, {0}, {2})
    in_turn, *others = results(func)
    assert others == [in_turn] * 2


@pytest.mark.parametrize("name", NOT_APART)
def test_not_apart(name: str) -> None:
    func = kernel(NOT_APART[name])
    assert not is_parallel(func, {0}, {2})
    assert len(set(results(func))) > 1


@pytest.mark.parametrize("places", ["the same place", "the place beside"])
def test_in_place(places: str) -> None:
    """An operand that lies in the result's memory may be read where the same trip writes, and nowhere else."""
    distance = int(places == "the place beside")
    func = kernel(lambda b, i: put(b, i, i + distance))
    assert is_parallel(func, {0}, {2})
    assert is_parallel(func, {0}, {2}, {1: 0}) == (len(set(results(func, same=True))) == 1) == (not distance)


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
    b.store(0, Affine(64), b.add(b.load(0, Affine(64), "s32"), b.const("s32", 1)), "s32")
    func = b.func()
    assert not is_parallel(func, {0})
    assert len(set(results(func))) > 1


def test_what_is_read_before_all_trips() -> None:
    b = Builder("k", 3, 4, Target.named("simd128"), frozenset((0, 2)))
    before = b.load(0, Affine(5), "f32")
    with b.loop(64, chunked=True) as i:
        put(b, i, i)
        b.store(0, i + 64, before, "f32")
    func = b.func()
    assert not is_parallel(func, {0}, {2})
    assert len(set(results(func))) > 1


def summed(b: Builder, at: Affine, first: Affine, second: Affine) -> None:
    b.store(0, at, b.add(*(b.load(1, place, "f32") for place in (first, second))), "f32")


def either(b: Builder, i: Affine) -> None:
    base = b.select(b.lt(b.index_value(i), b.const("s32", 9)), b.pointer(1), b.pointer(0))
    b.store(0, i, b.load_at(base, i + 1, "f32", pure=False), "f32")


READS: dict[str, tuple[Write, int]] = {
    "elements": (lambda b, i: put(b, i, i), 4),
    "rows": (lambda b, i: summed(b, i, i * 8, i * 8 + 7), 32),
    "a row and its first element": (lambda b, i: summed(b, i, i * 8, i * 8), 32),
    "an element of the next row": (lambda b, i: summed(b, i, i * 8, i * 8 + 8), 0),
    "an element of the row before": (lambda b, i: summed(b, i, i * 8, i * 8 - 1), 0),
    "elements backwards": (lambda b, i: put(b, i, Affine(63) - i), 0),
    "one element": (lambda b, i: put(b, i, Affine(5)), 0),
    "rows of two lengths": (lambda b, i: summed(b, i, i * 8, i * 4), 0),
    "a place that another buffer has": (
        lambda b, i: put(b, i, Affine(0, (), ((b.load(0, i, "s32"), 2),))),
        0,
    ),
    "a buffer that is known at run time": (either, 0),
}


@pytest.mark.parametrize("name", READS)
def test_bytes_of_a_trip(name: str) -> None:
    """A trip reads what stands in these bytes, and what stands elsewhere changes nothing."""
    write, size = READS[name]
    func = kernel(write)
    assert bytes_a_trip(func, 1) == size
    run = runner(func)

    def alone(size: int) -> bool:
        for trip in range(func.trips):
            own = slice(trip * size, (trip + 1) * size)
            rest = bytearray(len(GIVEN))
            rest[own] = GIVEN[own]
            call = [(0, trip, trip + 1)]
            if run(call, bytes(rest)) != run(call, GIVEN):
                return False
        return True

    assert alone(size) if size else not alone(4) and not alone(32)


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


def drawn_columns(rng: np.random.Generator, trips: int) -> list[Access]:
    """Accesses that mostly run along the same columns, some of them in one trip alone."""
    base = tuple(
        (int(rng.integers(2, 5)), int(rng.choice([-1, 1]) * rng.integers(5, 40))) for _ in range(rng.integers(1, 3))
    )
    outer = int(rng.choice([-8, -4, -4, -2, -1, 1, 2, 4, 4, 8]))
    accesses = []
    for n in range(rng.integers(1, 5)):
        only = int(rng.integers(0, trips)) if rng.random() < 0.4 else None
        chance = rng.random()
        inner = (
            base
            if chance < 0.7
            else tuple(b for b in base if rng.random() < 0.5)
            if chance < 0.9
            else ((2, int(rng.integers(-40, 41))),)
        )
        const = 400 + int(rng.integers(0, 5)) * int(rng.choice([1, 4, 8]))
        accesses.append(
            Access(
                n == 0 or rng.random() < 0.7,
                int(rng.choice([1, 4])),
                const,
                outer if only is None or rng.random() < 0.5 else 0,
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
    draw = drawn if rng.random() < 0.5 else drawn_columns
    accesses = draw(rng, 2)
    parts: list[Part] = []
    for trips in rng.integers(1, 5, int(rng.choice([1, 1, 2, 3]))):
        first = parts[-1].first + parts[-1].trips if parts else 0
        chance = rng.random()
        own = accesses if chance < 0.5 else accesses[:1] if chance < 0.8 else draw(rng, int(trips))
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
