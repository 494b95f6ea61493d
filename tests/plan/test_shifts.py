"""States and carried arrays that shift: the same values, whoever still reads the old ones and whatever the new part is
made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support import seeds
from tests.support.differential import BOTH, check_states, differential
from xla_wasm import Options
from xla_wasm.builder import Builder
from xla_wasm.compiler import trace
from xla_wasm.hlo.attrs import PaddingDimension, SliceDimension
from xla_wasm.hlo.ir import Module
from xla_wasm.hlo.shape import Layout, Shape
from xla_wasm.ops.sample import array, shape
from xla_wasm.plan import moves
from xla_wasm.plan.plan import Copy

SIZES = (1, 3, 4, 5, 8, 17)
ELEMENTS = ("f32", "f32", "f32", "f64", "s32", "u8", "s64", "bf16", "f16", "pred", "s4", "u16", "c64")
COUNT = 2
"""States of a program."""


class Program:
    """Two states and an input of one shape; what comes next is one of them or of what was made of them, shifted in some
    way."""

    def __init__(self, rng: np.random.Generator):
        self.rng, self.b = rng, Builder("shifts")
        self.element = str(rng.choice(ELEMENTS))
        rank = int(rng.integers(1, 4))
        self.dims = tuple(int(n) for n in rng.choice(SIZES, rank))
        self.shape = Shape(self.element, self.dims)
        order = tuple(int(d) for d in rng.permutation(rank)) if rng.integers(0, 6) == 0 else None
        laid = Shape(self.element, self.dims, Layout(order)) if order else self.shape
        self.states = [self.b.parameter(i, laid) for i in range(COUNT)]
        self.values: list[Any] = [*self.states, self.b.parameter(COUNT, self.shape)]

    def module(self) -> tuple[Module, dict[int, int]]:
        """The program, and which leaf of the result each state becomes."""
        rng = self.rng
        made = [self.step(self.b, self.values, state) if rng.integers(0, 3) else state for state in self.states]
        for _ in range(int(rng.integers(0, 4))):
            self.values.append(self.step(self.b, [*self.values, *made], self.pick([*self.values, *made])))
        self.values += made
        results = [*made, *(self.pick(self.values) for _ in range(int(rng.integers(0, 3))))]
        count = len(results)
        if rng.integers(0, 4) == 0:
            results[int(rng.integers(0, count))] = self.pick(self.values)
        order = rng.permutation(count).tolist() if rng.integers(0, 3) == 0 else list(range(count))
        return self.b.module(self.b.op("tuple", *results)), {p: order[p] for p in range(COUNT)}

    def pick(self, values: list[Any]) -> Any:
        return values[int(self.rng.integers(0, len(values)))]

    def step(self, b: Builder, values: list[Any], value: Any, inside: bool = False) -> Any:
        """Returns a value that is made of another one, and perhaps of others."""
        way = int(self.rng.integers(0, 9 if inside else 11))
        if way < 4:
            return self.shifted(b, value, values)
        if way == 4:
            return self.rolled(b, value)
        if way == 5:
            return self.padded(b, value, values)
        if way == 6:
            return self.replaced(b, value, values)
        if way == 7:
            return b.op("reverse", value, dimensions=(int(self.rng.integers(0, len(self.dims))),))
        if way == 8:
            return self.combined(b, value, self.pick(values))
        if way == 9:
            return self.loop(value, self.pick(values))
        return self.branch(value, self.pick(values))

    def combined(self, b: Builder, one: Any, other: Any) -> Any:
        if self.element in ("pred", "s4", "u8", "u16", "c64"):
            mask = b.op("compare", one, other, direction="EQ")
            return b.op("select", mask, b.op("reverse", one, dimensions=(0,)), other)
        return b.op("subtract" if self.element == "s32" else "maximum", one, other)

    def part(self, b: Builder, value: Any, starts: list[int], sizes: list[int]) -> Any:
        limits = tuple(SliceDimension(s, s + n, 1) for s, n in zip(starts, sizes))
        return b.op("slice", value, slice=limits)

    def cut(self, b: Builder, value: Any, d: int, start: int, size: int) -> Any:
        starts, sizes = [0] * len(self.dims), list(self.dims)
        starts[d], sizes[d] = start, size
        return self.part(b, value, starts, sizes)

    def new(self, b: Builder, values: list[Any], d: int, size: int) -> Any:
        """Returns the elements that a shift brings in: a part of any value, perhaps computed, from anywhere."""
        value = self.pick(values)
        if self.rng.integers(0, 4) == 0:
            value = b.op("reverse", value, dimensions=(d,))
        made = self.cut(b, value, d, int(self.rng.integers(0, self.dims[d] - size + 1)), size)
        if self.rng.integers(0, 4) == 0 and self.element not in ("pred", "s4", "c64"):
            other = self.cut(b, self.pick(values), d, int(self.rng.integers(0, self.dims[d] - size + 1)), size)
            made = b.op("maximum", made, other)
        return made

    def amount(self, d: int) -> int:
        n = self.dims[d]
        return min(n, 1 if self.rng.integers(0, 2) else int(self.rng.integers(0, n + 1)))

    def shifted(self, b: Builder, value: Any, values: list[Any]) -> Any:
        d = int(self.rng.integers(0, len(self.dims)))
        k = self.amount(d)
        if self.rng.integers(0, 2):
            parts = [self.cut(b, value, d, k, self.dims[d] - k), self.new(b, values, d, k)]
        else:
            parts = [self.new(b, values, d, k), self.cut(b, value, d, 0, self.dims[d] - k)]
        if self.rng.integers(0, 5) == 0 and k > 1:
            at = int(self.rng.integers(1, k))
            i = next(i for i, p in enumerate(parts) if p.shape.dimensions[d] == k)
            parts[i : i + 1] = [self.new(b, values, d, at), self.new(b, values, d, k - at)]
        return b.op("concatenate", *parts, dimensions=(d,))

    def rolled(self, b: Builder, value: Any) -> Any:
        d = int(self.rng.integers(0, len(self.dims)))
        k = self.amount(d)
        parts = self.cut(b, value, d, k, self.dims[d] - k), self.cut(b, value, d, 0, k)
        return b.op("concatenate", *parts, dimensions=(d,))

    def replaced(self, b: Builder, value: Any, values: list[Any]) -> Any:
        """All of a value but some of its middle."""
        d = int(self.rng.integers(0, len(self.dims)))
        n, k = self.dims[d], self.amount(d)
        at = int(self.rng.integers(0, n - k + 1))
        back = at + k if self.rng.integers(0, 3) else min(k, n - k)
        back = min(back, n - (n - at - k))
        rest = n - at - k
        parts = [
            self.cut(b, value, d, 0, at),
            self.new(b, values, d, k),
            self.cut(b, value, d, min(back, n - rest), rest),
        ]
        return b.op("concatenate", *parts, dimensions=(d,))

    def padded(self, b: Builder, value: Any, values: list[Any]) -> Any:
        low = [int(self.rng.integers(-n, n + 1)) if self.rng.integers(0, 2) else 0 for n in self.dims]
        first = self.part(b, self.pick(values), [0] * len(self.dims), [1] * len(self.dims))
        fill = b.op("reshape", first, shape=Shape(self.element, ()))
        return b.op("pad", value, fill, padding=tuple(PaddingDimension(k, -k, 0) for k in low))

    def loop(self, start: Any, other: Any) -> Any:
        carried = Shape.tuple([shape("s32"), self.shape, self.shape])
        condition, body = Builder("condition"), Builder("body")
        c = condition.parameter(0, carried)
        number = condition.op("get-tuple-element", c, index=0)
        condition_made = condition.build(
            condition.op("compare", number, condition.constant(shape("s32"), [3]), direction="LT")
        )
        p = body.parameter(0, carried)
        i, x, y = (body.op("get-tuple-element", p, index=k) for k in range(3))
        values = [x, y]
        for _ in range(int(self.rng.integers(1, 4))):
            values.append(self.step(body, values, self.pick(values), inside=True))
        pair = [values[-1], self.pick(values)]
        if self.rng.integers(0, 3) == 0:
            pair.reverse()
        made = body.build(body.op("tuple", body.op("add", i, body.constant(shape("s32"), [1])), *pair))
        init = self.b.op("tuple", self.b.constant(shape("s32"), [0]), start, other)
        return self.b.op(
            "get-tuple-element",
            self.b.op("while", init, called=[made, condition_made]),
            index=int(self.rng.integers(1, 3)),
        )

    def branch(self, one: Any, other: Any) -> Any:
        made = []
        for name in ("yes", "no"):
            b = Builder(name)
            p = b.parameter(0, Shape.tuple([self.shape, self.shape]))
            values = [b.op("get-tuple-element", p, index=k) for k in range(2)]
            made.append(b.build(self.step(b, values, values[0], inside=True)))
        pair = self.b.op("tuple", one, other)
        first = self.part(self.b, one, [0] * len(self.dims), [1] * len(self.dims))
        last = self.part(self.b, other, [0] * len(self.dims), [1] * len(self.dims))
        equal = self.b.op("reshape", self.b.op("compare", first, last, direction="EQ"), shape=shape("pred"))
        return self.b.op("conditional", equal, pair, pair, called=made)

    def numbers(self) -> Any:
        low, high = (0, 2) if self.element == "pred" else (0, 9) if self.element[0] == "u" else (-8, 8)
        return array(self.element, self.rng.integers(low, high, self.dims))


def moves_in_place(module: Module, options: Options) -> int:
    """Returns the number of moves within an array that a run makes."""
    steps = [s for s in trace(module, options).plan.entries if isinstance(s, Copy)]
    return sum(target.buffer.root() is source.buffer.root() for target, source in (s.arguments for s in steps))


@pytest.fixture(autouse=True)
def small_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "_LEAST", 1)
    monkeypatch.setenv("XLA_WASM_VERIFY", "1")


@pytest.mark.parametrize("seed", range(seeds.count(2, 40)))
def test_the_same_as_the_evaluator(seed: int) -> None:
    moved = sum(check(np.random.default_rng((seed, i))) for i in range(25))
    assert moved > 2, "the programs have to show what they are for"


@pytest.mark.parametrize("count", [1, 8])
@pytest.mark.parametrize(("start", "padding"), [(0, (0, 1, 1)), (1, (1, 0, 2)), (0, (0, 1, 0))])
def test_interior_padding_of_a_single_column(start: int, padding: tuple[int, int, int], count: int) -> None:
    """There is nothing between its elements: the column lies where it has to, and only what is beside it is written.
    So `lax.associative_scan` puts even and odd elements together."""
    b = Builder("column")
    x = b.parameter(0, shape(f"f32[{count},33,2]"))
    whole = [SliceDimension(0, count), SliceDimension(0, 33)]
    column = b.op("slice", x, slice=(*whole, SliceDimension(start, start + 1)))
    edges = (PaddingDimension(), PaddingDimension(), PaddingDimension(*padding))
    module = b.module(b.op("pad", column, b.constant(0, "f32"), padding=edges))
    differential(module, np.arange(1, 66 * count + 1, dtype=np.float32).reshape(count, 33, 2), targets=BOTH)


def check(rng: np.random.Generator) -> int:
    """Runs a random program three times; how many moves in place it has."""
    program = Program(rng)
    module, state = program.module()
    target = str(rng.choice(BOTH))
    held = [program.numbers() for _ in range(COUNT)]
    check_states(module, held, [[program.numbers()] for _ in range(3)], state, target=target)
    return moves_in_place(module, Options(target=target, state=tuple(state.items())))


@pytest.mark.parametrize("element", ["f32", "u8"])
@pytest.mark.parametrize("dims", [(40, 32), (3, 40, 24), (40, 8, 9), (2, 3, 40, 17)])
def test_pads_that_shift_along_one_dimension(dims: tuple[int, ...], element: str) -> None:
    """Of a dimension before which, and behind which, others stay as they are: what is there is not written again."""
    rng = np.random.default_rng(3)
    for d in range(len(dims)):
        for low in (1, -2):
            b = Builder("m")
            state = b.parameter(0, Shape(element, dims))
            edges = tuple(PaddingDimension(low, -low, 0) if i == d else PaddingDimension() for i in range(len(dims)))
            module = b.module(b.op("pad", state, b.parameter(1, Shape(element, ())), padding=edges))
            held = [array(element, rng.integers(0, 100, dims))]
            for options in ({}, {"threads": True}):
                check_states(module, held, [[array(element, 7)], [array(element, 8)]], ((0, 0),), **options)
