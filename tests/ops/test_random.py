"""Random numbers: bits as XLA gives them, and sequences that go on from run to run."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import xla_wasm
from tests.support import xla_cpu
from tests.support.differential import run
from xla_wasm.builder import Builder
from xla_wasm.compiler import stages
from xla_wasm.hlo.ir import Instruction, Module
from xla_wasm.hlo.shape import Shape
from xla_wasm.ops.random.lower import FIRST_STATE
from xla_wasm.ops.sample import function, shape

Array = np.ndarray[Any, Any]

ALGORITHMS = (("rng_three_fry", 2), ("rng_philox", 2), ("rng_philox", 3), ("rng_default", 2), ("rng_default", 3))
DIMS: tuple[tuple[int, ...], ...] = ((), (0,), (5,), (3, 4), (3, 5, 5), (130,))


def _generator(algorithm: str, words: int, element_type: str, dims: tuple[int, ...]) -> Module:
    b = Builder("m")
    declared = Shape.tuple([Shape("u64", (words,)), Shape(element_type, dims)])
    return b.module(
        b.op("rng-bit-generator", b.parameter(0, Shape("u64", (words,))), shape=declared, algorithm=algorithm)
    )


@pytest.mark.parametrize(("algorithm", "words"), ALGORITHMS)
@pytest.mark.parametrize("element_type", ["u32", "u64", "u8"])
def test_bits_are_those_of_xla(algorithm: str, words: int, element_type: str) -> None:
    random = np.random.default_rng(0)
    states = [random.integers(0, 2**64, words, np.uint64), np.full(words, 2**64 - 1, np.uint64)]
    # Where the counter carries from its low word into the next, within a vector.
    states.append(np.array([5, 2**32 - 2, 2**64 - 1][:words], np.uint64))
    for dims in DIMS:
        module = _generator(algorithm, words, element_type, dims)
        exe = xla_wasm.load(xla_wasm.compile(module))
        for state in states:
            expected = xla_cpu.run(module, state)
            for results in (exe.run(state), xla_wasm.evaluate(module, state)):
                for actual, wanted in zip(results, expected, strict=True):
                    np.testing.assert_array_equal(actual, wanted, f"{dims} {state}", strict=True)


@pytest.mark.parametrize(
    "element_type", ["s32", "s64", "s16", "u16", "f32", "f64", "f16", "bf16", "f8e5m2", "s4", "u4"]
)
def test_bits_of_other_types(element_type: str) -> None:
    state = np.array([11, 12], np.uint64)
    module = _generator("rng_default", 2, element_type, (21,))
    for actual, wanted in zip(run(module, state), xla_wasm.evaluate(module, state), strict=True):
        assert actual.dtype == wanted.dtype
        # An array of u4 or s4 has a byte for each; only the low half of it counts.
        mask = 15 if element_type in ("s4", "u4") and actual.dtype != np.uint64 else 255
        np.testing.assert_array_equal(actual.view(np.uint8) & mask, wanted.view(np.uint8) & mask)


def test_words_are_made_four_at_a_time() -> None:
    loops = stages(_generator("rng_philox", 3, "u32", (4096,)))["wat"]
    assert "i64x2.extmul_high_i32x4_u" in loops and "i64x2.mul" not in loops


def _drawn(
    element_type: str, low: float, high: float, dims: tuple[int, ...], distribution: str = "rng_uniform", times: int = 1
) -> Module:
    b = Builder("m")
    bounds = [b.constant(shape(element_type), [value]) for value in (low, high)]
    draws = [b.op("rng", *bounds, shape=Shape(element_type, dims), distribution=distribution) for _ in range(times)]
    return b.module(b.op("tuple", *draws))


def test_runs_differ_and_instances_do_not() -> None:
    module = _drawn("f32", 0, 1, (50,), times=2)
    artifact = xla_wasm.compile(module)
    exe, other = xla_wasm.load(artifact), xla_wasm.load(artifact)
    runs = [exe.run() for _ in range(3)]
    again = [other.run() for _ in range(3)]
    numbers: Array = np.array(runs).reshape(-1)
    assert len(np.unique(numbers)) == numbers.size == 300
    np.testing.assert_array_equal(numbers, np.array(again).reshape(-1))
    np.testing.assert_array_equal(runs[0], xla_wasm.evaluate(module))


def test_concurrent_runs_differ_too() -> None:
    exe = xla_wasm.load(xla_wasm.compile(_drawn("u64", 0, 2**63, ())))
    with ThreadPoolExecutor(8) as pool:
        drawn = list(pool.map(lambda _: int(exe.run()[0]), range(200)))
    assert len(set(drawn)) == 200


@pytest.mark.parametrize("element_type", ["f16", "bf16", "f32", "f64"])
def test_distributions_of_floats(element_type: str) -> None:
    count = 20_000
    for compiled in (True, False):
        uniform, normal = (
            _drawn(element_type, -2, 6, (count,)),
            _drawn(element_type, 3, 0.5, (count // 2, 2), "rng_normal"),
        )
        results = [run(m) if compiled else xla_wasm.evaluate(m) for m in (uniform, normal)]
        (u,), (n,) = [[np.asarray(x).astype(np.float64) for x in r] for r in results]
        assert u.min() >= -2 and u.max() <= 6 and abs(u.mean() - 2) < 0.1 and abs(u.std() - 8 / 12**0.5) < 0.05
        histogram = np.histogram(u, 16, (-2, 6))[0]
        assert histogram.min() > count / 16 * 0.85 and histogram.max() < count / 16 * 1.15
        assert abs(n.mean() - 3) < 0.02 and abs(n.std() - 0.5) < 0.01 and abs((((n - 3) / 0.5) ** 4).mean() - 3) < 0.3
        assert np.isfinite(n).all() and abs(np.mean((n[:, 0] - 3) * (n[:, 1] - 3))) < 0.03


@pytest.mark.parametrize("element_type", ["s4", "u4", "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"])
def test_integers_take_every_value_of_the_range(element_type: str) -> None:
    low = 1 if element_type[0] == "u" else -3
    module = _drawn(element_type, low, 7, (4000,))
    (drawn,) = run(module)
    values, counts = np.unique(drawn.astype(np.int64), return_counts=True)
    np.testing.assert_array_equal(values, range(low, 7))
    assert counts.min() > 4000 / len(values) * 0.8
    np.testing.assert_array_equal(drawn.astype(np.int64), xla_wasm.evaluate(module)[0].astype(np.int64))


def test_wide_ranges() -> None:
    for element_type, low, high in (("s32", -(2**31), 2**31 - 1), ("s64", -(2**63), 2**63 - 1), ("u64", 0, 2**64 - 1)):
        module = _drawn(element_type, low, high, (1000,))
        (drawn,) = run(module)
        assert int(drawn.max()) - int(drawn.min()) > (high - low) * 0.95
        np.testing.assert_array_equal(drawn, xla_wasm.evaluate(module)[0])


def test_what_is_not_defined_is_refused() -> None:
    for element_type, distribution in (("s32", "rng_normal"), ("c64", "rng_uniform")):
        with pytest.raises(xla_wasm.UnsupportedError, match=f"XLA defines no {distribution} of {element_type}"):
            xla_wasm.compile(_drawn(element_type, 0, 1, (2,), distribution))


def _sum_in_a_loop(b: Builder, start: Instruction, make: Callable[[Builder], Instruction]) -> Instruction:
    """A while of three trips over (i, x[3]) that puts what `make` gives at x[i]."""

    def at(b: Builder, s: Instruction, i: int) -> Instruction:
        return b.op("get-tuple-element", s, index=i)

    element_type = start.shape.element_type
    state = Shape.tuple([Shape("s32"), Shape(element_type, (3,))])
    body, condition = Builder("body"), Builder("condition")
    s = body.parameter(0, state)
    drawn = body.op("reshape", make(body), shape=Shape(element_type, (1,)))
    moved = body.op("dynamic-update-slice", at(body, s, 1), drawn, at(body, s, 0))
    step = body.op("tuple", body.op("add", at(body, s, 0), body.constant(Shape("s32"), [1])), moved)
    t = condition.parameter(0, state)
    test = condition.op("compare", at(condition, t, 0), condition.constant(Shape("s32"), [3]), direction="LT")
    called = [body.build(step), condition.build(test)]
    return b.op("while", b.op("tuple", b.constant(Shape("s32"), [0]), start), called=called)


def test_every_trip_of_a_loop_draws_anew() -> None:
    b = Builder("m")

    def draw(b: Builder) -> Instruction:
        return b.op(
            "rng",
            b.constant(Shape("f32"), [0]),
            b.constant(Shape("f32"), [1]),
            shape=Shape("f32"),
            distribution="rng_uniform",
        )

    module = b.module(_sum_in_a_loop(b, b.constant(Shape("f32", (3,)), [0, 0, 0]), draw))
    exe = xla_wasm.load(xla_wasm.compile(module))
    _, first = exe.run()
    _, second = exe.run()
    assert len(np.unique([first, second])) == 6
    np.testing.assert_array_equal(first, xla_wasm.evaluate(module)[1])


def test_the_state_advances_in_a_loop_and_stays_between_runs() -> None:
    b = Builder("m")

    def low(b: Builder) -> Instruction:
        return b.op("slice", b.op("rng-get-and-update-state", delta=5), slice=[_FIRST])

    from xla_wasm.hlo.attrs import SliceDimension

    _FIRST = SliceDimension(0, 1, 1)
    module = b.module(_sum_in_a_loop(b, b.constant(Shape("u64", (3,)), [0, 0, 0]), low))
    exe = xla_wasm.load(xla_wasm.compile(module))
    np.testing.assert_array_equal(exe.run()[1], FIRST_STATE + np.array([0, 5, 10], np.uint64))
    np.testing.assert_array_equal(exe.run()[1], FIRST_STATE + np.array([15, 20, 25], np.uint64))
    np.testing.assert_array_equal(xla_wasm.evaluate(module)[1], FIRST_STATE + np.array([0, 5, 10], np.uint64))


def test_each_instruction_has_a_state_of_its_own() -> None:
    b = Builder("m")
    states = [b.op("rng-get-and-update-state", delta=delta) for delta in (1, -(2**40), 2**62, 1)]
    low = b.op("rng-get-and-update-state", shape=Shape("u64", (1,)), delta=-1)
    artifact = xla_wasm.compile(b.module(b.op("tuple", *states, low)))
    assert artifact.manifest["stateful"]
    exe = xla_wasm.load(artifact)
    for i in range(5):
        results = exe.run()
        for result, delta in zip(results, (1, -(2**40), 2**62, 1, -1), strict=True):
            state = (FIRST_STATE + i * delta) % 2**128
            np.testing.assert_array_equal(result, np.array([state % 2**64, state >> 64], np.uint64)[: len(result)])


def test_only_the_branch_that_runs_advances() -> None:
    def branch() -> Any:
        return function("s32", lambda b, x: b.op("rng-get-and-update-state", delta=1))()

    b = Builder("m")
    p, x = b.parameter(0, Shape("pred")), b.constant(Shape("s32"), [0])
    exe = xla_wasm.load(xla_wasm.compile(b.module(b.op("conditional", p, x, x, called=[branch(), branch()]))))
    counts = [int(exe.run(np.array(taken))[0][0]) - FIRST_STATE for taken in (True, True, False, True, False)]
    assert counts == [0, 1, 0, 2, 1]


def test_a_call_draws_anew_wherever_it_stands() -> None:
    draw = function(
        "f32, f32", lambda b, low, high: b.op("rng", low, high, shape=Shape("f32", (4,)), distribution="rng_uniform")
    )()
    b = Builder("m")
    bounds = b.constant(Shape("f32"), [0]), b.constant(Shape("f32"), [1])
    x, y = (b.op("call", *bounds, called=[draw]) for _ in range(2))
    results = run(b.module(b.op("tuple", x, y)))
    assert len(np.unique(results)) == 8


# --- jax.random
# -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("implementation", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_jax_random(implementation: str) -> None:
    import jax
    import jax.numpy as jnp

    r = jax.random

    def everything(seed: Any) -> list[Any]:
        keys = r.split(r.key(seed, impl=implementation), 12)
        return [
            r.key_data(keys),
            r.key_data(r.fold_in(keys[0], seed)),
            r.bits(keys[1], (5, 3)),
            r.bits(keys[2], (7,), jnp.uint8),
            r.bits(keys[3], (7,), jnp.uint16),
            r.uniform(keys[4], (33,)),
            r.uniform(keys[5], (9,), jnp.bfloat16),
            r.randint(keys[6], (11,), -5, 1000),
            r.permutation(keys[7], 17),
            r.bernoulli(keys[8], 0.3, (20,)),
            jax.vmap(lambda key: r.bits(key, (3,)))(keys[9:]),
            r.choice(keys[10], 10, (4,), replace=False),
            jax.lax.scan(lambda key, _: (r.split(key)[0], r.uniform(key, (2,))), keys[11], None, length=3)[1],
        ]

    seed = np.int32(42)
    expected = jax.jit(everything)(seed)
    hlo: Any = jax.jit(everything).lower(seed).compiler_ir("hlo")
    module = Module.from_proto(hlo.as_serialized_hlo_module_proto())
    actual = run(module, seed)
    for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
        np.testing.assert_array_equal(a, np.asarray(e), f"result {i}")
