"""The costs of plans, which grow with the size of the program, and no faster."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest

from tests.support.differential import BOTH, differential
from tests.support.memory_walk import check, planned
from xla_wasm.hlo.ir import Module
from xla_wasm.plan import memory
from xla_wasm.plan.buffer import Buffer
from xla_wasm.plan.kernel import KernelCache
from xla_wasm.plan.plan import Plan
from xla_wasm.target import Target


def concatenation(parts: int, dims: tuple[int, ...], dimension: int) -> Module:
    """Of parameters, every third one as it is, the others negated."""
    one, whole = (",".join(map(str, d)) for d in (dims, result_of(parts, dims, dimension)))
    lines = [f"p{i} = f32[{one}] parameter({i})" for i in range(parts)]
    lines += [f"n{i} = f32[{one}] negate(p{i})" for i in range(parts) if i % 3]
    names = ", ".join(f"n{i}" if i % 3 else f"p{i}" for i in range(parts))
    lines.append(f"ROOT r = f32[{whole}] concatenate({names}), dimensions={{{dimension}}}")
    return Module.from_text("\n  ".join(["HloModule parts\nENTRY e {", *lines]) + "\n}\n")


def result_of(parts: int, dims: tuple[int, ...], dimension: int) -> tuple[int, ...]:
    return tuple(size * parts if d == dimension else size for d, size in enumerate(dims))


@pytest.mark.parametrize(("dims", "dimension"), [((3,), 0), ((2, 3), 0), ((8, 1), 1), ((9, 2, 17), 1), ((33, 2, 2), 2)])
@pytest.mark.parametrize("parts", [64, 65, 200])
def test_concatenations_of_many_parts(parts: int, dims: tuple[int, ...], dimension: int) -> None:
    rng = np.random.default_rng(parts)
    arrays = [rng.normal(size=dims).astype(np.float32) for _ in range(parts)]
    module = concatenation(parts, dims, dimension)
    check(planned(module))
    differential(module, *arrays, targets=BOTH)


@pytest.mark.parametrize("parts", [5, 64, 300])
def test_a_concatenation_in_a_loop_and_of_constants(parts: int) -> None:
    """Parts that a loop changes, parts that it does not, and parts of no elements."""
    sizes = [i % 3 for i in range(parts)]
    whole = sum(sizes)
    lines = [f"p{i} = f32[{size}] {'slice(x), slice={[0:' + str(size) + ']}'}" for i, size in enumerate(sizes)]
    lines[1::2] = [
        f"p{i} = f32[{sizes[i]}] constant({{{','.join(['1', '2'][: sizes[i]])}}})" for i in range(1, parts, 2)
    ]
    text = f"""HloModule parts
more {{ p = (s32[], f32[2], f32[{whole}]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)
  ROOT m = pred[] compare(i, n), direction=LT }}
body {{ p = (s32[], f32[2], f32[{whole}]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[2] get-tuple-element(p), index=1
  old = f32[{whole}] get-tuple-element(p), index=2
  {chr(10).join(lines)}
  new = f32[{whole}] concatenate({", ".join(f"p{i}" for i in range(parts))}), dimensions={{0}}
  sum = f32[{whole}] add(old, new)
  y = f32[2] add(x, x)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT t = (s32[], f32[2], f32[{whole}]) tuple(j, y, sum) }}
ENTRY e {{ x = f32[2] parameter(0)
  zero = f32[] constant(0)
  zeros = f32[{whole}] broadcast(zero), dimensions={{}}
  none = s32[] constant(0)
  start = (s32[], f32[2], f32[{whole}]) tuple(none, x, zeros)
  w = (s32[], f32[2], f32[{whole}]) while(start), condition=more, body=body
  ROOT r = f32[{whole}] get-tuple-element(w), index=2 }}
"""
    differential(text, np.array([3, 5], np.float32), targets=BOTH)


def test_parts_that_are_alike_share_a_kernel() -> None:
    plans = [planned(concatenation(parts, (3,), 0)) for parts in (384, 1536)]
    assert all(len(step.arguments) <= 65 for plan in plans for step in plan.entries)
    few, many = ([f for f in plan.funcs if f.startswith("concatenate")] for plan in plans)
    assert len(few) == len(many) == 3, "as many as there are ways in which every third of 64 is taken"


def place_one_by_one(buffers: list[Buffer], start: int) -> list[int]:
    """The addresses, by comparing each buffer with all that have their place."""
    placed: list[tuple[int, int, Buffer]] = []
    addresses = {}
    for b in sorted(buffers, key=lambda b: -b.bytes):
        at = start
        for other, end, a in sorted(placed, key=lambda entry: (entry[0], entry[1], entry[2].first, entry[2].last)):
            if other >= at + b.padded:
                break
            apart = a.staged and b.staged and a.staged != b.staged
            if a.first <= b.last and b.first <= a.last and at < end and not apart:
                at = end
        placed.append((at, at + b.padded, b))
        addresses[b] = at
    return [addresses[b] for b in buffers]


def empty_plan(buffers: list[Buffer]) -> Plan:
    return Plan([], buffers, [], [], {})


@pytest.mark.parametrize("seed", range(20))
def test_places_are_those_of_the_plain_search(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_RUN", 1 + seed % 5)
    rng = np.random.default_rng(seed)
    buffers = []
    for _ in range(150):
        first = int(rng.integers(0, 40))
        last = first + int(rng.integers(0, 40) if rng.integers(0, 3) else 60)
        staged = int(rng.integers(0, 4)) if seed % 2 else 0
        buffers.append(Buffer(int(rng.integers(1, 9)) * 50, "temporary", first=first, last=last, staged=staged))
    memory.place(empty_plan(buffers), 128)
    assert [b.address for b in buffers] == place_one_by_one(buffers, 128)


@pytest.mark.parametrize("lives", ["to the end", "for two steps"])
def test_placing_buffers_takes_time_with_their_number(lives: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By how often it looks at buffers one by one."""
    looked: list[int] = []
    monkeypatch.setattr(memory, "_RUN", 32)
    for number in (500, 2000):
        looks = count()

        class Run(memory._Run):
            def __getattribute__(self, name: str, looks: count[int] = looks) -> object:
                if name == "entries":
                    next(looks)
                return super().__getattribute__(name)

        monkeypatch.setattr(memory, "_Run", Run)
        ends = [number if lives == "to the end" else i + 1 for i in range(number)]
        memory.place(empty_plan([Buffer(64, "temporary", first=i, last=end) for i, end in enumerate(ends)]), 64)
        looked.append(next(looks))
        monkeypatch.setattr(memory, "_Run", Run.__base__)
    assert looked[1] < 8 * looked[0]


def test_kernels_have_names_of_their_own() -> None:
    cache, names = KernelCache(Target("simd128", ("simd128",), "portable")), set[str]()
    for base in ("add", "add", "add.2", "add", "copy", "copy", "add.2", "add"):
        names.add(cache.builder(base, 1, 4).func().name)
    assert len(names) == 8 and "copy" not in names
