"""Contents of kernels: a program for each rule by which an instruction gets a buffer, and properties of the kernels of
any program."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support import seeds
from tests.support.differential import differential
from tests.support.random_family import draw_family
from tests.support.random_values import Draw
from xla_wasm import Options
from xla_wasm.compiler import trace
from xla_wasm.hlo.ir import Computation, Instruction, Module
from xla_wasm.plan import fuse
from xla_wasm.plan.fusion import Fusion
from xla_wasm.plan.group import Group
from xla_wasm.plan.kernel import computed
from xla_wasm.plan.plan import Ask, Jump, Launch

_ADD = """add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
"""
_HEAVY = [f"v{i} = f32[8] {'abs' if i % 2 else 'negate'}(v{i - 1})" for i in range(1, fuse.MAX_OPERATIONS + 49)]

RULES: dict[str, tuple[str, set[str]]] = {
    "_is_result": ("ROOT r = f32[8] negate(v0)", {"r"}),
    "_is_read_whole": ("n = f32[] constant(2)\n  a = f32[8] negate(v0)\n  ROOT r = (f32[8], f32[]) tuple(a, n)", {"n"}),
    "_is_no_expression": ("k = f32[8] constant({1,2,3,4,5,6,7,8})\n  ROOT r = f32[8] add(v0, k)", {"v0", "k"}),
    "_is_there": ("a = f32[8] negate(v0)\n  b = u8[32] bitcast(a)\n  ROOT r = u8[32] not(b)", {"b"}),
    "_accumulates": (
        "z = f32[] constant(0)\n  w = f32[3,8] broadcast(v0), dimensions={1}\n"
        "  s = f32[3] reduce(w, z), dimensions={1}, to_apply=add\n  ROOT r = f32[3] negate(s)",
        {"s"},
    ),
    "_is_read_often": ("e = f32[8] exponential(v0)\n  ROOT r = f32[5,8] broadcast(e), dimensions={1}", {"e"}),
    "_is_shared": (
        "z = f32[] constant(0)\n  w = f32[6,8] broadcast(v0), dimensions={1}\n  e = f32[6,8] exponential(w)\n"
        "  b = f32[8] reduce(e, z), dimensions={0}, to_apply=add\n  t = f32[8,6] transpose(e), dimensions={1,0}\n"
        "  ROOT r = (f32[8], f32[8,6]) tuple(b, t)",
        {"e"},
    ),
    "_is_stored": ("stored = bf16[8] convert(v0)\n  ROOT r = f32[8] convert(stored)", {"stored"}),
    "_is_heavy": ("\n  ".join([*_HEAVY[:-1], f"ROOT {_HEAVY[-1]}"]), {"v47"}),
}
"""Rule -> a program as the passes leave it, and what has a buffer for no other reason."""


def module_of(body: str) -> Module:
    return Module.from_text(f"HloModule m\n{_ADD}ENTRY main {{\n  v0 = f32[8] parameter(0)\n  {body}\n}}\n")


def entry(body: str) -> Computation:
    """The program, in which `stored` is a part of how a weight is stored."""
    made = module_of(body).entry
    for x in made.instructions:
        if x.name == "stored":
            x.mark(weight_format="bf16")
    return made


def names(instructions: set[Instruction]) -> set[str]:
    return {x.name for x in instructions}


def test_each_rule_has_a_program() -> None:
    assert list(RULES) == [rule.__name__ for rule in fuse.RULES]


@pytest.mark.parametrize("name", RULES)
def test_rules(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    body, reason = RULES[name]
    buffered = names(fuse.buffered(entry(body)))
    monkeypatch.setattr(fuse, "RULES", tuple(rule for rule in fuse.RULES if rule.__name__ != name))
    assert buffered - names(fuse.buffered(entry(body))) == reason


@pytest.mark.parametrize(
    ("name", "kept", "changed"),
    [
        ("_is_there", ["a", "r"], ["a", "b r"]),
        ("_is_read_often", ["e", "r"], ["e r"]),
        ("_is_shared", ["w e", "b.1", "t"], ["w e b.1", "w e t"]),
        ("_is_heavy", None, None),
    ],
)
def test_kernels_change_with_a_rule(
    name: str, kept: list[str] | None, changed: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the other rules' programs, what no kernel can compute gets its buffer later: see `Fusion.fit_kernel`."""
    before = kernels(RULES[name][0])
    monkeypatch.setattr(fuse, "RULES", tuple(rule for rule in fuse.RULES if rule.__name__ != name))
    after = kernels(RULES[name][0])
    assert (before, after) == (kept, changed) if kept else (len(before), len(after)) == (2, 1)


def test_a_number_has_no_buffer_however_many_kernels_need_it() -> None:
    """They compute less if they know it: a clip is two instructions then, and many otherwise."""
    count = fuse.MAX_PLACES + 8
    lines = [f"r{i} = f32[8] maximum(r{i - 1}, many)" for i in range(1, count)]
    results = ", ".join(f"r{i}" for i in range(count))
    body = [
        "zero = f32[] constant(0)",
        "many = f32[8] broadcast(zero), dimensions={}",
        "r0 = f32[8] maximum(v0, many)",
        *lines,
        f"ROOT r = ({', '.join(['f32[8]'] * count)}) tuple({results})",
    ]
    assert not {"zero", "many"} & names(fuse.buffered(entry("\n  ".join(body))))
    # Four numbers in turns are an array, which lies somewhere, and so does what is made of it for many.
    body[:2] = ["four = f32[4] constant({1,2,3,4})", "many = f32[8] pad(four, four0), padding=0_4"]
    body.insert(1, "four0 = f32[] constant(0)")
    assert {"four", "many"} <= names(fuse.buffered(entry("\n  ".join(body))))


def test_a_broadcast_of_one_element_has_none_either() -> None:
    """The element lies in memory, whatever its value."""
    count = fuse.MAX_PLACES + 8
    lines = "\n  ".join(f"r{i} = f32[8] maximum(r{i - 1}, many)" for i in range(1, count))
    results = ", ".join(f"r{i}" for i in range(count))
    module = Module.from_text(f"""HloModule one
ENTRY main {{
  p = f32[] parameter(0)
  v = f32[8] parameter(1)
  e = f32[] exponential(p)
  many = f32[8] broadcast(e), dimensions={{}}
  r0 = f32[8] maximum(v, many)
  {lines}
  ROOT r = ({", ".join(["f32[8]"] * count)}) tuple({results})
}}""")
    assert "many" not in names(fuse.buffered(module.entry))
    differential(module, np.float32(0.5), np.arange(8, dtype=np.float32))


def kernels(body: str) -> list[str]:
    """Returns the names of the instructions in each kernel, constants aside, in the order in which kernels run."""
    steps = trace(module_of(body), Options(), names=True).plan.entries
    return [" ".join(x.name for x in s.holds if x.opcode != "constant") for s in steps if isinstance(s, Launch)]


# --- any program ------------------------------------------------------------------------------------------------------


def check_kernels(computation: Computation) -> None:
    """Every value that is needed is computed by a kernel, from what lies in buffers, and no two kernels wait for each
    other."""
    fusion = Fusion(computation)
    groups = list(dict.fromkeys(fusion.groups[x] for x in computation.instructions if x in fusion.buffered))
    assert computation.root in fusion.buffered
    assert sorted(x.name for g in groups for x in g.members) == sorted(x.name for x in fusion.buffered)
    before: dict[Group, set[Group]] = {}
    for g in groups:
        members = set(g.members)
        inner = computed(g.members, lambda y, own=members: y in fusion.buffered and y not in own)  # type: ignore[misc]
        read = {o for x in inner for o in x.operands if o not in inner}
        assert members <= set(inner) and read <= fusion.buffered
        assert read <= fusion.outside
        before[g] = {fusion.groups[o] for o in read} - {g}
    done: set[Group] = set()
    while len(done) < len(groups):
        ready = [g for g in groups if g not in done and before[g] <= done]
        assert ready, "kernels wait for each other in a circle"
        done.update(ready)


def check_order(module: Module) -> None:
    """Outside of loops and branches, a step reads what a parameter, a constant or a step before it has written."""
    plan = trace(module, Options()).plan
    if any(isinstance(s, Jump | Ask) for s in plan.entries):
        return
    written = {v.buffer.root() for v in plan.parameters} | {b.root() for b in plan.buffers if b.data is not None}
    written |= {v.buffer.root() for init in plan.inits.values() for s in init.steps for v in s.arguments[: s.written]}
    for step in plan.entries:
        scratch = {v.buffer.root() for v in step.arguments if v.buffer.name == "row"}
        read = {v.buffer.root() for v in step.arguments[step.written :] if v.size} - scratch
        assert read <= written, f"{step} reads what nobody has written"
        written |= {v.buffer.root() for v in step.arguments[: step.written]}
    assert {v.buffer.root() for v in plan.results if v.size} <= written


@settings(max_examples=seeds.count(20, 100), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_kernels_of_random_programs(data: st.DataObject) -> None:
    module, _ = draw_family(Draw(lambda low, high: data.draw(st.integers(low, high))))
    for computation in trace(module, Options()).module.computations:
        # Computations of reductions and the like are parts of kernels.
        if any(x.shape.is_tuple or x.shape.rank for x in computation.instructions):
            check_kernels(computation)
    check_order(module)
