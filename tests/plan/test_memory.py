"""The memory plan, checked by brute force: every byte of memory knows what was last written there."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xla_wasm
from tests.support import seeds
from tests.support.memory_walk import check, planned
from tests.support.random_programs import draw_program
from tests.support.random_values import Draw
from tests.support.whole_programs import PROGRAMS, lowered
from xla_wasm.hlo.ir import Module
from xla_wasm.hlo.literal import Literal
from xla_wasm.ops.dtypes import Array
from xla_wasm.passes.clone import clone
from xla_wasm.reference import evaluate


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    module, _ = lowered(name)
    check(planned(module))


SPREAD = "b = f32[6,8] broadcast(y), dimensions={1}"
AS_BITS = [
    "a = s32[6,8] bitcast-convert(x)",
    "c = s32[8] bitcast-convert(y)",
    "b = s32[6,8] broadcast(c), dimensions={1}",
]
SPLIT = ["a = f32[3,2,8] reshape(x)", "b = f32[3,2,8] broadcast(y), dimensions={2}"]
OVERWRITTEN = {
    "beside what is spread": ([SPREAD, "ROOT r = f32[6,8] add(x, b)"], True),
    "as other bits": ([*AS_BITS, "ROOT r = s32[6,8] add(a, b)"], True),
    "in another shape": ([*SPLIT, "ROOT r = f32[3,2,8] add(a, b)"], True),
    "also backwards": (["b = f32[6,8] reverse(x), dimensions={1}", "ROOT r = f32[6,8] add(x, b)"], False),
    "also upside down": (["b = f32[6,8] reverse(x), dimensions={0}", "ROOT r = f32[6,8] add(x, b)"], False),
    "for narrower elements": ([SPREAD, "a = f32[6,8] add(x, b)", "ROOT r = bf16[6,8] convert(a)"], False),
}
"""A kernel that reads x, of six rows, and y, of one, in some way; and True if its result may lie where x lies."""


@pytest.mark.parametrize("case", OVERWRITTEN)
def test_a_result_lies_where_an_input_is_read_as_it_is_written(case: str) -> None:
    lines, expected = OVERWRITTEN[case]
    less = "less { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = pred[] compare(a, b), direction=LT }"
    before = [
        "p = f32[6,8] parameter(0)",
        "y = f32[8] parameter(1)",
        "x = f32[6,8] sort(p), dimensions={0}, to_apply=less",
    ]
    module = Module.from_text("\n".join(["HloModule m", less, "ENTRY e {", *before, *lines, "}"]))
    plan = planned(module)
    check(plan)
    (x,) = (s.arguments[0].buffer for s in plan.entries if s.name == "x")
    assert (plan.results[0].buffer.root() is x.root()) == expected, str(plan)
    rng = np.random.default_rng(0)
    arguments = [rng.standard_normal(shape, np.float32) for shape in ((6, 8), (8,))]
    (found,) = xla_wasm.load(xla_wasm.compile(module)).run(*arguments)
    np.testing.assert_array_equal(found, evaluate(module, *arguments)[0], strict=True)


@pytest.mark.parametrize("name", ["digits_train_sgd", "transformer_tanh_gelu", "lstm_forward"])
def test_programs_with_weights(name: str) -> None:
    module, args = lowered(name)
    check(planned(module, weights=tuple(range(len(args) - 1))))


def test_state() -> None:
    module, args = lowered("digits_train_adam")
    shapes = [(a.shape, a.dtype) for a in args]
    leaves = [shape.without_layout() for _, shape in module.entry.root.shape.leaves()]
    entry = [shape.without_layout() for p in module.entry.parameters for _, shape in p.shape.leaves()]
    state: dict[int, int] = {}
    for i, shape in enumerate(entry):
        free = [r for r, leaf in enumerate(leaves) if leaf == shape and r not in state.values()]
        if free:
            state[i] = free[0]
    assert len(state) > len(shapes) / 2
    check(planned(module, state=state), state)


@settings(max_examples=seeds.count(20, 100))
@given(st.data())
def test_random_programs(data: st.DataObject) -> None:
    module, arguments = draw_program(Draw(lambda low, high: data.draw(st.integers(low, high))))
    weights = tuple(i for i in range(len(arguments)) if data.draw(st.booleans()))
    check(planned(module, weights=weights))


def hardened(module: Module, arguments: Sequence[Array], which: Collection[int]) -> Module:
    """The module with constants in the place of some parameters."""
    module = clone(module)
    others = 0
    for p in module.entry.parameters:
        number = p.attrs["parameter_number"]
        if number in which and p.shape.is_array:
            p.opcode, p.shape = "constant", p.shape.without_layout()
            p.attrs = {"literal": Literal(p.shape, np.ascontiguousarray(arguments[number]).tobytes())}
        else:
            p.attrs["parameter_number"] = others
            others += 1
    return module


@pytest.mark.parametrize("name", PROGRAMS)
def test_constants_that_come_one_by_one(name: str) -> None:
    """Every second argument is a constant: of a file, each packed before the next comes, or too small for that."""
    module, args = lowered(name)
    leaves = jax.tree.leaves(args)
    plain = [i for i, p in enumerate(module.entry.parameters) if p.shape.is_array]
    if len(leaves) == len(module.entry.parameters) == len(plain):
        ways = [(1, plain[::2]), (256, plain[1:])]
        every = [*ways, (256, plain[::2]), (1, plain[1:])]
        for poured, which in every if seeds.exhaustive else [ways[len(plain) % 2]]:
            check(planned(hardened(module, leaves, which), poured=poured))


@settings(max_examples=seeds.count(20, 100))
@given(st.data())
def test_random_constants_and_weights(data: st.DataObject) -> None:
    module, arguments = draw_program(Draw(lambda low, high: data.draw(st.integers(low, high))))
    kinds = [data.draw(st.sampled_from("icw")) for _ in arguments]
    module = hardened(module, arguments, [i for i, kind in enumerate(kinds) if kind == "c"])
    rest = [kind for kind in kinds if kind != "c"]
    check(
        planned(
            module,
            tuple(i for i, kind in enumerate(rest) if kind == "w"),
            poured=data.draw(st.sampled_from([1, 17, 65])),
        )
    )


PRODUCTS = """HloModule products
ENTRY e {{
  x = f32[{m},{k}] parameter(0)
{lines}
}}
"""


def random_products(rng: random.Random) -> tuple[str, list[tuple[int, int]], list[str]]:
    """A program of matrices that products, lookups, sums and each other read: its text, their shapes, and what each of
    them is."""
    m, k, n = rng.choice([1, 5, 8]), rng.randint(1, 33), rng.randint(1, 33)
    shapes = [rng.choice([(k, n), (n, k)]) for _ in range(rng.randint(1, 6))]
    lines = [f"w{i} = f32[{a},{b}] parameter({i + 1})" for i, (a, b) in enumerate(shapes)]
    made = []
    for i in range(len(shapes)):
        for _ in range(rng.choice([1, 1, 2])):
            w, dims = f"w{i}", shapes[i]
            if rng.random() < 0.4:
                j = rng.randrange(len(shapes))
                other, name = f"w{j}", f"c{len(lines)}"
                if shapes[j] != dims:
                    lines.append(f"t{len(lines)} = f32[{dims[0]},{dims[1]}] transpose({other}), dimensions={{1,0}}")
                    other = f"t{len(lines) - 1}"
                lines.append(f"{name} = f32[{dims[0]},{dims[1]}] {rng.choice(['add', 'multiply'])}({w}, {other})")
                w = name
            side = dims.index(k)
            name = f"d{len(lines)}"
            if rng.random() < 0.2:
                lines.append(
                    f"{name} = f32[{m},{n}] slice({w}), slice={{[0:{m}], [0:{n}]}}"
                    if dims[0] >= m and dims == (k, n)
                    else ""
                )
                if not lines[-1]:
                    lines.pop()
                    continue
            else:
                lines.append(
                    f"{name} = f32[{m},{n}] dot(x, {w}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{{side}}}"
                )
            made.append(name)
    if not made:
        return random_products(rng)
    while len(made) > 1:
        name = f"s{len(lines)}"
        lines.append(f"{name} = f32[{m},{n}] add({made.pop()}, {made.pop()})")
        made.append(name)
    lines.append(f"ROOT r = f32[{m},{n}] negate({made[0]})")
    kinds = [rng.choice("ccw") for _ in shapes]
    return PRODUCTS.format(m=m, k=k, lines="\n".join("  " + line for line in lines)), [(m, k), *shapes], kinds


@pytest.mark.parametrize("seed", range(seeds.count(15, 60)))
def test_what_comes_one_by_one_gives_what_lies_there(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs with constants and weights, set in any order and again, against the same with all as arguments; and
    their plans."""
    rng = random.Random(seed)
    text, shapes, kinds = random_products(rng)
    module = Module.from_text(text)
    numbers = np.random.default_rng(seed)
    values = [numbers.integers(-4, 5, shape).astype(np.float32) for shape in shapes]
    (want,) = xla_wasm.load(xla_wasm.compile(module)).run(*values)
    inside = hardened(module, values, [i + 1 for i, kind in enumerate(kinds) if kind == "c"])
    names = [f"w{i}" for i, kind in enumerate(kinds) if kind == "w"]
    check(planned(inside, tuple(range(1, 1 + len(names))), poured=64))
    least, sidecar = rng.choice([1, 64, 512]), rng.random() < 0.5
    for where in ("compiler.SIDECAR_BYTES", "assemble.assemble.SIDECAR_BYTES", "compiler.BROUGHT_BYTES"):
        monkeypatch.setattr(f"xla_wasm.{where}", least)
    exe = xla_wasm.load(xla_wasm.compile(inside, xla_wasm.Options(sidecar=sidecar, weights=tuple(names))))
    for _ in range(2):
        rng.shuffle(names)
        for name in names:
            exe.set(name, values[int(name[1:]) + 1])
        np.testing.assert_array_equal(exe.run(values[0])[0], want)


def test_memory_of_weights() -> None:
    """Weights that are packed take no more memory than their packed form, the largest of them, and what lives in a
    run."""
    lines = [
        f"w{i} = f32[256,256] parameter({i + 1})\n  p{i} = f32[4,256] dot({'x' if i == 0 else f't{i - 1}'}, w{i}), "
        f"lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n  t{i} = f32[4,256] tanh(p{i})"
        for i in range(8)
    ]
    lines.append("ROOT r = f32[4,256] copy(t7)")
    module = Module.from_text(PRODUCTS.format(m=4, k=256, lines="\n".join("  " + line for line in lines)))
    weights = 8 * 256 * 256 * 4
    largest, live = weights // 8, 3 * 4 * 256 * 4
    values = [np.zeros(shape, np.float32) for shape in [(4, 256), *[(256, 256)] * 8]]
    named = xla_wasm.Options(weights=tuple(f"w{i}" for i in range(8)))
    constant = hardened(module, values, range(1, 9))
    for made, options in ((module, named), (constant, xla_wasm.Options(sidecar=True)), (constant, xla_wasm.Options())):
        manifest = xla_wasm.compile(made, options).manifest
        assert manifest["peak_bytes"] < weights + largest + live + 20_000, options


def test_a_fault_is_found() -> None:
    """Any two buffers that hold something at once, put in the same place, must not pass."""
    module, _ = lowered("lstm_gradient")
    plan = planned(module)
    check(plan)
    temporaries = [b for b in plan.buffers if b.kind == "temporary" and b.merged is None and b.first >= 0 and b.bytes]
    rng = random.Random(0)
    pairs = [(a, b) for a in temporaries for b in temporaries if a is not b and a.first < b.first <= a.last]
    assert pairs
    missed = 0
    for a, b in rng.sample(pairs, 40):
        kept, b.address = b.address, a.address
        try:
            check(plan)
            missed += 1
        except AssertionError:
            pass
        b.address = kept
    assert missed <= 4, "lifetimes are upper bounds, but most clashes are real"
