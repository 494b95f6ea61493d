"""Every collective in every group mode, for all element types: compiled modules against the evaluator and XLA:CPU, bit
for bit."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xla_wasm
from tests.support import closeness, seeds, xla_cpu
from tests.support.collective_programs import (
    OPCODES,
    Grid,
    Item,
    Program,
    collective,
    every_collective,
    modes_of,
    reducers,
    values,
)
from tests.support.element_types import Array
from xla_wasm.builder import Builder
from xla_wasm.hlo.attrs import ReplicaGroups
from xla_wasm.hlo.ir import Instruction, Module
from xla_wasm.hlo.types import TYPES
from xla_wasm.ops.dtypes import DTYPES
from xla_wasm.ops.sample import f32, s32, shape
from xla_wasm.reference import evaluate_replicated

GRIDS = [Grid(*g) for g in ((2, 1), (1, 2), (4, 1), (2, 2), (1, 4), (8, 1), (4, 2), (2, 4), (1, 8), (3, 2))]
ELEMENT_TYPES = [name for name in TYPES if name in DTYPES]
DRAWS = range(seeds.count(1, 25))
"""Of groups."""

Results = Sequence[Sequence[Array]]


def same(actual: Results, expected: Results, labels: Sequence[str] | None = None) -> None:
    assert [len(device) for device in actual] == [len(device) for device in expected]
    for d, (ours, theirs) in enumerate(zip(actual, expected)):
        for i, (a, b) in enumerate(zip(ours, theirs)):
            closeness.assert_same(a, b, 0, f"device {d}: {labels[i] if labels else f'result {i}'}")


def alike_where(actual: Results, expected: Results, labels: Sequence[str]) -> None:
    """Devices that must have the same result have the same bits of it."""
    for i, label in enumerate(labels):
        found: dict[bytes, bytes] = {}
        for ours, theirs in zip(actual, expected):
            assert found.setdefault(theirs[i].tobytes(), ours[i].tobytes()) == ours[i].tobytes(), label


def run(module: Module, arguments: Results, grid: Grid, fixed: bool = True) -> Results:
    """Returns the results of the compiled module on each device, which must be the same bits at two runs."""
    if fixed:
        module.replica_count, module.num_partitions = grid.replicas, grid.partitions
    exe = xla_wasm.load(xla_wasm.compile(module))
    once, again = (
        exe.run_replicated(arguments, num_replicas=grid.replicas, num_partitions=grid.partitions) for _ in range(2)
    )
    for ours, theirs in zip(once, again, strict=True):
        assert [a.tobytes() for a in ours] == [b.tobytes() for b in theirs]
    return once


def check(program: Program, fixed: bool = True) -> None:
    grid, arguments, labels = program.grid, program.arguments(), program.labels()
    expected = evaluate_replicated(program.module(), arguments, grid.replicas, grid.partitions)
    actual = run(program.module(), arguments, grid, fixed)
    same(actual, expected, labels)
    alike_where(actual, expected, labels)


@pytest.mark.parametrize("element_type", ["f32", "s32"])
@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_every_operation_and_mode(grid: Grid, element_type: str) -> None:
    for seed in DRAWS:
        check(every_collective(seed, grid, element_type), fixed=seed % 2 == 0)


@pytest.mark.parametrize("element_type", ELEMENT_TYPES)
def test_every_element_type(element_type: str) -> None:
    for seed in DRAWS:
        check(every_collective(seed, Grid(2, 2), element_type))


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_numbers_of_devices_that_are_known_when_it_runs(grid: Grid) -> None:
    for seed in DRAWS:
        check(every_collective(seed, grid, "bf16"), fixed=False)


ON_XLA = [
    (grid, element_type)
    for i, grid in enumerate(g for g in GRIDS if g.size in (2, 4, 8))
    for j, element_type in enumerate(("f32", "s8", "f64", "u32", "pred"))
    if seeds.exhaustive or j in (0, 1 + i % 4)
]


@pytest.mark.parametrize(("grid", "element_type"), ON_XLA, ids=str)
def test_as_xla_has_it(grid: Grid, element_type: str) -> None:
    """In sums of floats, too, XLA:CPU goes by the order of the group."""
    program = every_collective(7, grid, element_type).for_xla()
    module, arguments = program.module(), program.arguments()
    expected = evaluate_replicated(module, arguments, grid.replicas, grid.partitions)
    for x in module.instructions():
        if "replica_groups" in x.attrs:  # its importer mixes up several meshes
            x.attrs["replica_groups"] = ReplicaGroups(x.attrs["replica_groups"].expanded())
    same(xla_cpu.run_replicated(module, arguments, grid.replicas, grid.partitions), expected, program.labels())


# --- programs ---------------------------------------------------------------------------------------------------------


@st.composite
def programs(draw: st.DrawFn) -> tuple[Grid, Module, list[list[Array]]]:
    """A chain of collectives and arithmetic, some of it in a loop or in a branch that each group decides on by
    itself."""
    rng = Random(draw(st.integers(0, 2**32)))
    grid = Grid(draw(st.integers(1, 4)), draw(st.integers(1, 2)))
    element_type = draw(st.sampled_from(["f32", "s32", "bf16", "u8", "c64", "pred"]))
    b = Builder("chain")
    x = b.parameter(0, shape(f"{element_type}[24,3]"))
    for channel in range(1, draw(st.integers(1, 6)) + 1):
        opcode = draw(
            st.sampled_from([o for o in OPCODES if o not in ("ragged-all-to-all", "all-gather", "reduce-scatter")])
        )
        mode = draw(st.sampled_from(modes_of(opcode)))
        # Products of complex numbers grow beyond what f32 holds exactly, and are rounded at other places then.
        reducer = draw(st.sampled_from([r for r in reducers(element_type) if element_type != "c64" or r == "add"]))
        item = collective(rng, opcode, grid, mode, element_type, channel, reducer)
        place = draw(st.sampled_from(["straight", "loop", "branch"]))
        x = {"straight": _straight, "loop": _looped, "branch": _branched}[place](b, item, x)
        if draw(st.booleans()):
            x = b.op("add" if element_type != "pred" else "xor", x, b.op("reverse", x, dimensions=(0,)))
    arguments = [[values(rng.randrange(2**32), element_type, (24, 3))] for _ in range(grid.size)]
    return grid, b.module(x), arguments


def _straight(b: Builder, item: Item, x: Instruction) -> Instruction:
    return item.make(b, {"rows": x})


def _looped(b: Builder, item: Item, x: Instruction) -> Instruction:
    """Three times over."""
    state = x.shape.tuple([shape("s32"), x.shape])
    body, condition = Builder("body"), Builder("condition")
    s = body.parameter(0, state)
    i, y = (body.op("get-tuple-element", s, index=k) for k in (0, 1))
    body.build(body.op("tuple", body.op("add", i, body.constant(shape("s32"), [1])), item.make(body, {"rows": y})))
    counted = condition.op("get-tuple-element", condition.parameter(0, state), index=0)
    test = condition.build(condition.op("compare", counted, condition.constant(shape("s32"), [3]), direction="LT"))
    start = b.op("tuple", b.constant(shape("s32"), [0]), x)
    return b.op("get-tuple-element", b.op("while", start, called=[body.build(), test]), index=1)


def _branched(b: Builder, item: Item, x: Instruction) -> Instruction:
    """In the branch that all take, by what they have in common."""
    first, second = Builder("first"), Builder("second")
    first.build(item.make(first, {"rows": first.parameter(0, x.shape)}))
    second.build(second.op("reverse", second.parameter(0, x.shape), dimensions=(1,)))
    zero = b.op("convert", b.op("multiply", b.op("replica-id"), b.constant(shape("u32"), [0])), shape=shape("s32"))
    return b.op("conditional", zero, x, x, called=[first.build(), second.build()])


@settings(max_examples=seeds.count(40, 100))
@given(programs())
def test_random_programs(drawn: tuple[Grid, Module, list[list[Array]]]) -> None:
    grid, module, arguments = drawn
    expected = evaluate_replicated(module, arguments, grid.replicas, grid.partitions)
    same(run(module, arguments, grid, fixed=False), expected)


RING = """HloModule ring
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
step {
  s = (s32[], f32[5], f32[5], f32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  x = f32[5] get-tuple-element(s), index=1
  moved = f32[5] collective-permute(x), source_target_pairs={{0,1},{1,2},{2,3},{3,0}}
  total = f32[5] get-tuple-element(s), index=2
  more = f32[5] add(total, moved)
  zero = f32[] constant(0)
  own = f32[] reduce(more, zero), dimensions={0}, to_apply=add
  all = f32[] all-reduce(own), replica_groups={}, to_apply=add
  ROOT next = (s32[], f32[5], f32[5], f32[]) tuple(j, moved, more, all)
}
below {
  s = (s32[], f32[5], f32[5], f32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  three = s32[] constant(3)
  few = pred[] compare(i, three), direction=LT
  most = f32[] constant(1000)
  all = f32[] get-tuple-element(s), index=3
  small = pred[] compare(all, most), direction=LT
  ROOT both = pred[] and(few, small)
}
ENTRY main {
  x = f32[5] parameter(0)
  zero = s32[] constant(0)
  nothing = f32[] constant(0)
  s = (s32[], f32[5], f32[5], f32[]) tuple(zero, x, x, nothing)
  w = (s32[], f32[5], f32[5], f32[]) while(s), condition=below, body=step
  i = s32[] get-tuple-element(w), index=0
  total = f32[5] get-tuple-element(w), index=2
  ROOT r = (s32[], f32[5]) tuple(i, total)
}
"""


@pytest.mark.parametrize(("factor", "trips"), [(1, 3), (10, 2), (100, 1)])
def test_a_ring_in_a_loop_that_all_end_together(factor: int, trips: int) -> None:
    arguments = [[f32(factor * np.arange(5) + d)] for d in range(4)]
    module = Module.from_text(RING)
    expected = evaluate_replicated(module, arguments)
    assert all(int(i) == trips for i, _ in expected)
    if trips == 3:
        np.testing.assert_array_equal(expected[2][1], sum(x for (x,) in arguments))
    same(run(module, arguments, Grid(4, 1)), expected)


APART = """HloModule apart
add { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] add(a, b) }
left { x = s32[3] parameter(0) ROOT r = s32[3] all-reduce(x), replica_groups={{0,1},{2,3}}, to_apply=add }
twice {
  x = s32[3] parameter(0)
  y = s32[3] all-reduce(x), replica_groups={{0,1},{2,3}}, to_apply=add
  ROOT z = s32[3] all-reduce(y), replica_groups={{1,0},{3,2}}, to_apply=add
}
ENTRY main {
  x = s32[3] parameter(0)
  which = s32[] parameter(1)
  y = s32[3] conditional(which, x, x), branch_computations={left, twice}
  ROOT all = s32[3] all-reduce(y), replica_groups={{0,1,2,3}}, to_apply=add
}
"""


def test_groups_may_take_different_branches() -> None:
    arguments = [[s32([d, 10 * d, 1]), s32(d // 2)] for d in range(4)]
    module = Module.from_text(APART)
    total = s32([2 * (1 + 2 * 5), 20 * (1 + 2 * 5), 4 + 8])
    same(evaluate_replicated(module, arguments), [[total]] * 4)
    same(run(module, arguments, Grid(4, 1)), [[total]] * 4)


MIXED = """HloModule mixed
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY main {
  x = f32[3] parameter(0)
  y = s32[2] parameter(1)
  z = bf16[1] parameter(2)
  ROOT r = (f32[3], s32[2], bf16[1]) all-reduce(x, y, z), replica_groups={}, to_apply=add
}
"""


def test_one_reducer_for_several_types() -> None:
    arguments = [
        [f32([d, 0.5, -1]), s32([2**24 + d, 1]), np.array([256 if d == 0 else 1], DTYPES["bf16"])] for d in range(4)
    ]
    module = Module.from_text(MIXED)
    expected = [f32([6, 2, -4]), s32([2**26 + 6, 4]), np.array([260], DTYPES["bf16"])]
    same(evaluate_replicated(module, arguments), [expected] * 4)
    same(run(module, arguments, Grid(4, 1)), [expected] * 4)


def test_a_group_of_one_among_devices_without_a_group() -> None:
    """Devices without a group get zeros."""
    text = (
        "HloModule m\nENTRY e { x = f32[2] parameter(0) ROOT r = f32[2] collective-broadcast(x), replica_groups={{1}} }"
    )
    arguments, expected = [[f32([1, 2])], [f32([3, 4])]], [[f32([0, 0])], [f32([3, 4])]]
    same(evaluate_replicated(Module.from_text(text), arguments), expected)
    same(run(Module.from_text(text), arguments, Grid(2, 1)), expected)


_CALLED = (
    "twice { a = f32[] parameter(0) b = f32[] parameter(1) m = f32[] multiply(a, b) ROOT r = f32[] subtract(m, b) }\n"
)
_BRANCHES = """less {
  p = (f32[], f32[]) parameter(0)
  a = f32[] get-tuple-element(p), index=0
  b = f32[] get-tuple-element(p), index=1
  ROOT r = f32[] subtract(a, b)
}
more { p = (f32[], f32[]) parameter(0) ROOT r = f32[] get-tuple-element(p), index=1 }
"""
_LOOP = """again {
  s = (s32[], f32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  a = f32[] get-tuple-element(s), index=1
  b = f32[] get-tuple-element(s), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  c = f32[] add(a, b)
  ROOT t = (s32[], f32[], f32[]) tuple(j, c, b)
}
few {
  s = (s32[], f32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT r = pred[] compare(i, n), direction=LT
}
"""
_REDUCERS = {
    "difference": ("", "ROOT r = f32[] subtract(b, a)"),
    "first": ("", "ROOT r = f32[] copy(a)"),
    "second": ("", "ROOT r = f32[] copy(b)"),
    "constant": ("", "ROOT r = f32[] constant(7)"),
    "call": (_CALLED, "ROOT r = f32[] call(b, a), to_apply=twice"),
    "branches": (
        _BRANCHES,
        "q = pred[] compare(a, b), direction=LT p = (f32[], f32[]) tuple(a, b) "
        "ROOT r = f32[] conditional(q, p, p), true_computation=less, false_computation=more",
    ),
    "loop": (
        _LOOP,
        "z = s32[] constant(0) s = (s32[], f32[], f32[]) tuple(z, a, b) w = (s32[], f32[], f32[]) while(s), "
        "body=again, condition=few "
        "ROOT r = f32[] get-tuple-element(w), index=1",
    ),
}


@pytest.mark.parametrize("name", _REDUCERS)
def test_any_reducer(name: str) -> None:
    """In groups of which the order, the sizes or only at run time the number is known; of a large array by blocks."""
    computations, body = _REDUCERS[name]
    module = Module.from_text(f"""HloModule m
{computations}
reducer {{ a = f32[] parameter(0) b = f32[] parameter(1) {body} }}
ENTRY e {{
  x = f32[2,3] parameter(0)
  y = f32[9001] parameter(1)
  z = f32[0,4] parameter(2)
  one = f32[2,3] all-reduce(x), replica_groups={{{{2,0,3,1}}}}, to_apply=reducer
  two = f32[2,3] all-reduce(x), replica_groups={{{{2,0,3}},{{1}}}}, to_apply=reducer
  three = f32[2,3] all-reduce(x), channel_id=1, replica_groups={{}}, to_apply=reducer
  four = f32[1,3] reduce-scatter(x), dimensions={{0}}, replica_groups={{{{2,0}},{{3,1}}}}, to_apply=reducer
  five = (f32[9001], f32[2,3], f32[0,4]) all-reduce(y, x, z), replica_groups={{{{3,2,1,0}}}}, to_apply=reducer
  ROOT r = (f32[2,3], f32[2,3], f32[2,3], f32[1,3], (f32[9001], f32[2,3], f32[0,4])) tuple(one, two, three, four, five)
}}""")
    arguments = [
        [values(10 * d + i, "f32", dims) for i, dims in enumerate(((2, 3), (9001,), (0, 4)))] for d in range(4)
    ]
    same(run(module, arguments, Grid(4, 1), fixed=False), evaluate_replicated(module, arguments))


AROUND = """HloModule around
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
either { a = pred[] parameter(0) b = pred[] parameter(1) ROOT r = pred[] or(a, b) }
sum { p = f32[2,3] parameter(0) ROOT q = f32[2,3] all-reduce(p), channel_id=5, replica_groups={}, to_apply=add }
swap { p = f32[2,3] parameter(0) ROOT q = f32[2,3] collective-permute(p), source_target_pairs={{0,3},{3,0}} }
same { ROOT p = f32[2,3] parameter(0) }
ENTRY e {
  p = f32[2,3]{0,1} parameter(0)
  twice = f32[2,3] call(p), to_apply=sum
  thrice = f32[2,3] call(twice), to_apply=sum
  numbers = f32[4] constant({1, 2, 3, 4})
  fours = f32[4] all-reduce(numbers), to_apply=add
  unused = f32[2,3] all-reduce(p), to_apply=add
  i = u32[] replica-id()
  two = u32[] constant(2)
  third = pred[] compare(i, two), direction=EQ
  any = pred[] all-reduce(third), to_apply=either
  swapped = f32[2,3] conditional(any, p, p), true_computation=swap, false_computation=same
  gathered = f32[8,3]{0,1} all-gather(p), dimensions={0}
  turned = f32[3,8] transpose(gathered), dimensions={1,0}
  f = f32[] convert(i)
  many = f32[1000] broadcast(f), dimensions={}
  total = f32[1000] all-reduce(many), to_apply=add
  ROOT r = (f32[2,3], f32[4], f32[2,3], f32[3,8]{0,1}, f32[1000]) tuple(thrice, fours, swapped, turned, total)
}
"""


@pytest.mark.parametrize("count", [1, 4])
def test_what_stands_around_them(count: int) -> None:
    """Calls, layouts, constants, conditions that devices agree on, results that nobody needs."""
    text = (
        AROUND if count > 1 else AROUND.replace("{{0,3},{3,0}}", "{{0,0}}").replace("8,3", "2,3").replace("3,8", "3,2")
    )
    arguments = [[values(d, "f32", (2, 3))] for d in range(count)]
    expected = evaluate_replicated(Module.from_text(text), arguments)
    same(run(Module.from_text(text), arguments, Grid(count, 1), fixed=False), expected)
    if count == 1:
        same([xla_wasm.load(xla_wasm.compile(Module.from_text(text))).run(*arguments[0])], expected)
