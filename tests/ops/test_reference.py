"""The reference evaluator itself: arguments, precision, lanes, order of folds; and numerics that samples do not
show."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xla_wasm.jax
from tests.support import xla_cpu
from tests.support.small_modules import operation
from xla_wasm import HloModule
from xla_wasm.builder import Builder
from xla_wasm.errors import ArgumentError, UnsupportedError, XlaWasmError
from xla_wasm.hlo.attrs import ScatterDimensionNumbers, Window, WindowDimension
from xla_wasm.hlo.shape import Shape
from xla_wasm.hlo.types import TYPES
from xla_wasm.ops.dtypes import DTYPES, Array
from xla_wasm.ops.sample import f32, function, reducer, s32, shape
from xla_wasm.ops.sort.reference import merge_order
from xla_wasm.ops.table import OPS
from xla_wasm.reference import EVALUATE, evaluate


def _add_module() -> Any:
    b = Builder("sum")
    return b.module(b.op("add", b.parameter(0, shape("f32[2]")), b.parameter(1, shape("f32[2]"))))


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((f32([1, 2]),), "takes 2 arrays"),
        ((f32([1, 2]), f32([1, 2]), f32([1, 2])), "takes 2 arrays"),
        ((f32([1, 2]), f32([1, 2, 3])), r"parameter '\S+' is f32\[2\]: expected shape \(2,\), got \(3,\)"),
        ((f32([1, 2]), s32([1, 2])), r"parameter '\S+' is f32\[2\]: expected dtype float32, got int32"),
    ],
)
def test_arguments_are_checked(args: tuple[Array, ...], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        evaluate(_add_module(), *args)


def test_unknown_operations_are_named() -> None:
    b = Builder("unknown")
    module = b.module(
        b.op("custom-call", b.parameter(0, shape("f32[2]")), shape=shape("f32[2]"), custom_call_target="nothing")
    )
    with pytest.raises(UnsupportedError, match="custom-call"):
        evaluate(module, f32([1, 2]))


def test_modules_are_verified() -> None:
    module = HloModule.from_text(
        "ENTRY e { x = c64[3] parameter(0) ROOT r = s32[] dot(x, x), lhs_contracting_dims={0}, "
        "rhs_contracting_dims={0} }"
    )
    with pytest.raises(XlaWasmError, match="dot"):
        evaluate(module, np.ones(3, np.complex64))


def test_results_do_not_share_memory_with_arguments() -> None:
    b = Builder("identity")
    module = b.module(b.parameter(0, shape("f32[2]")))
    x = f32([1, 2])
    (y,) = evaluate(module, x)
    y[0] = 5
    assert x[0] == 1


def test_tuple_parameters_are_flattened() -> None:
    b = Builder("tuples")
    state = b.parameter(0, Shape.tuple([shape("f32[2]"), Shape.tuple([shape("s32")])]))
    module = b.module(
        b.op("tuple", b.op("get-tuple-element", state, index=1), b.op("get-tuple-element", state, index=0))
    )
    y, x = evaluate(module, f32([1, 2]), s32(3))
    assert y == 3 and x.tolist() == [1, 2]


def test_f64_precision_holds_what_f32_would_round() -> None:
    b = Builder("small")
    x = b.parameter(0, shape("f32"))
    module = b.module(
        b.op("subtract", b.op("add", x, b.constant(shape("f32"), [1e8])), b.constant(shape("f32"), [1e8]))
    )
    assert evaluate(module, f32(1))[0] == 0
    (true,) = evaluate(module, f32(1), precision="f64")
    assert true == 1 and true.dtype == np.float64


def test_f64_precision_keeps_bit_patterns() -> None:
    b = Builder("bits")
    x = b.parameter(0, shape("f32[1]"))
    bits = b.op("bitcast-convert", x, shape=shape("u32[1]"))
    module = b.module(b.op("tuple", bits, b.op("bitcast-convert", bits, shape=shape("f32[1]"))))
    bits_, back = evaluate(module, f32([1.5]), precision="f64")
    assert bits_.tolist() == [0x3FC00000] and back.tolist() == [1.5]


def test_lanes_of_computations_that_are_not_elementwise() -> None:
    def looped(b: Builder, x: Any, y: Any) -> Any:
        called = [
            function("f32", lambda b, v: b.op("add", v, v))(),
            function("f32", lambda b, v: b.op("compare", v, b.constant(shape("f32"), [10]), direction="LT"))(),
        ]
        return b.op("while", b.op("add", x, y), called=called)

    b = Builder("map")
    x = b.parameter(0, shape("f32[3]"))
    module = b.module(b.op("map", x, x, called=[function("f32, f32", looped)()], dimensions=(0,)))
    assert evaluate(module, f32([1, 3, 20]))[0].tolist() == [16, 12, 40]


def test_a_long_chain_is_walked_without_recursion() -> None:
    b = Builder("chain")
    value = b.parameter(0, shape("s32"))
    one = b.constant(shape("s32"), [1])
    for _ in range(3000):
        value = b.op("add", value, one)
    assert evaluate(b.module(value), s32(4))[0] == 3004


def test_sums_are_more_exact_than_f32() -> None:
    b = Builder("sum")
    x, zero = b.parameter(0, shape("f32[100000]")), b.constant(shape("f32"), [0])
    module = b.module(b.op("reduce", x, zero, called=[reducer("add", "f32")()], dimensions=(0,)))
    values = np.random.default_rng(0).random(100000).astype(np.float32)
    assert evaluate(module, values)[0] == np.float32(values.astype(np.float64).sum())


def test_prefix_sums_of_a_window_are_exact() -> None:
    b = Builder("prefix")
    x, zero = b.parameter(0, shape("f32[300]")), b.constant(shape("f32"), [0])
    window = Window((WindowDimension(300, padding_low=299),))
    module = b.module(b.op("reduce-window", x, zero, called=[reducer("add", "f32")()], window=window))
    values = np.random.default_rng(0).random(300).astype(np.float32)
    np.testing.assert_array_equal(evaluate(module, values)[0], np.cumsum(values.astype(np.float64)).astype(np.float32))


@pytest.mark.parametrize("length", [1, 2, 3, 7, 8, 33])
def test_merge_order_is_a_stable_sort(length: int) -> None:
    values = np.random.default_rng(length).integers(0, 5, (4, length))
    order = merge_order(length, 4, lambda i, j: values.reshape(-1)[i] < values.reshape(-1)[j])
    np.testing.assert_array_equal(order, np.argsort(values, 1, kind="stable"))


def _rng(shape_: tuple[int, ...], dtype: Any) -> Any:
    return lambda key: jax.lax.rng_bit_generator(key, shape_, dtype)


JAX_FUNCTIONS = {
    "sort": (lambda x: jnp.sort(x, 0), [f32([[3, np.nan, -0.0], [1, 2, 0.0], [2, -np.inf, 7]])]),
    "argsort": (lambda x: jnp.argsort(x), [s32([3, 1, 3, 2, 1, 3, 0])]),
    "top_k": (lambda x: jax.lax.top_k(x, 3), [f32([[1, 5, 5, 2], [0, -1, -2, 4]])]),
    "fft": (lambda x: jnp.abs(jnp.fft.rfft(x)), [f32([1, 2, 0, -1, 3])]),
    "philox": (_rng((5,), jnp.uint32), [np.array([1, 2, 3, 4], np.uint32)]),
}


@pytest.mark.parametrize("name", JAX_FUNCTIONS)
def test_jax_functions_agree_with_xla(name: str) -> None:
    fn, args = JAX_FUNCTIONS[name]
    module = xla_wasm.jax.lower(fn, *args)
    for actual, expected in zip(evaluate(module, *args), xla_cpu.run(module, *args), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-6)
        assert actual.dtype == expected.dtype


def test_solvers_agree_with_numpy() -> None:
    def solve(a: Any, b: Any) -> Any:
        factor = jax.lax.linalg.cholesky(a)
        return factor, jax.lax.linalg.triangular_solve(factor, b, left_side=True, lower=True)

    rng = np.random.default_rng(0)
    half = rng.standard_normal((2, 4, 4)).astype(np.float32)
    a, b = half @ half.swapaxes(1, 2) + np.eye(4, dtype=np.float32), rng.standard_normal((2, 4, 3)).astype(np.float32)
    factor, x = evaluate(xla_wasm.jax.lower(solve, a, b, platform="tpu"), a, b)
    np.testing.assert_allclose(factor, np.linalg.cholesky(a), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.tril(factor) @ x, b, rtol=1e-4, atol=1e-4)


def test_small_floats_are_rounded_after_every_operation() -> None:
    x = np.arange(1, 9, dtype=np.float32)

    def fn(x: Any) -> Any:
        y = x.astype(jnp.bfloat16)
        return (
            (y / 3 * 7).astype(jnp.float32),
            (y.astype(jnp.float16) / 3).astype(jnp.float32),
            y.sum().astype(jnp.float32),
        )

    module = xla_wasm.jax.lower(fn, x)
    # without excess precision, which XLA may keep inside a fusion
    third = (x / 3).astype(jnp.bfloat16).astype(np.float32)
    a, b, c = evaluate(module, x)
    np.testing.assert_array_equal(a, (third * 7).astype(jnp.bfloat16).astype(np.float32))
    np.testing.assert_array_equal(b, (x / 3).astype(np.float16).astype(np.float32))
    assert c == 36


# --- whole families ---------------------------------------------------------------------------------------------------


def test_every_operation_is_evaluated_or_it_is_said_why_not() -> None:
    assert set(OPS) == {*EVALUATE, "parameter"}


def _applied(opcode: str, *args: Array, **more: Any) -> list[Array]:
    return evaluate(operation(opcode, *args, **more), *args)


INTEGERS = [t.name for t in TYPES.values() if t.kind in ("signed", "unsigned")]


def _limits(element_type: str) -> tuple[Array, Array]:
    """Limits and their neighbours, all pairs of them."""
    type_ = TYPES[element_type]
    low, high = (
        (-(1 << (type_.bits - 1)), (1 << (type_.bits - 1)) - 1)
        if type_.kind == "signed"
        else (0, (1 << type_.bits) - 1)
    )
    some = sorted({v for v in (low, low + 1, -1, 0, 1, 2, 3, high // 3, high - 1, high) if low <= v <= high})
    x, y = np.meshgrid(np.array(some, object), np.array(some, object))
    return x.ravel(), y.ravel()


def _exact(opcode: str, x: int, y: int, low: int, bits: int) -> int:
    quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) if y else -1
    results = {
        "add": x + y,
        "subtract": x - y,
        "multiply": x * y,
        "mulhi": x * y >> bits,
        "divide": quotient,
        "remainder": x - quotient * y if y else x,
        "maximum": max(x, y),
        "minimum": min(x, y),
        "and": x & y,
        "or": x | y,
        "xor": x ^ y,
        "shift-left": x << (y & ((1 << bits) - 1)) if y & ((1 << bits) - 1) < bits else 0,
        "shift-right-logical": (x & ((1 << bits) - 1)) >> (y & ((1 << bits) - 1)),
        "shift-right-arithmetic": _signed(x, bits) >> (y & ((1 << bits) - 1)),
    }
    wrapped = results[opcode] & ((1 << bits) - 1)
    return _signed(wrapped, bits) if low < 0 else wrapped


def _signed(x: int, bits: int) -> int:
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> (bits - 1) else x


@pytest.mark.parametrize("element_type", INTEGERS)
@pytest.mark.parametrize(
    "opcode",
    "add subtract multiply mulhi divide remainder maximum minimum and or xor shift-left shift-right-logical "
    "shift-right-arithmetic".split(),
)
def test_integers_of_every_width(opcode: str, element_type: str) -> None:
    x, y = _limits(element_type)
    dtype, bits = DTYPES[element_type], TYPES[element_type].bits
    low = -1 if TYPES[element_type].kind == "signed" else 0
    expected = [_exact(opcode, int(a), int(b), low, bits) for a, b in zip(x, y)]
    to_dtype = [np.array([int(v) for v in values], np.int64 if low else np.uint64).astype(dtype) for values in (x, y)]
    (actual,) = _applied(opcode, *to_dtype)
    assert [int(v) for v in actual] == expected


@pytest.mark.parametrize("element_type", INTEGERS)
def test_bits_are_counted_in_every_width(element_type: str) -> None:
    x, _ = _limits(element_type)
    dtype, bits = DTYPES[element_type], TYPES[element_type].bits
    values = np.array([int(v) for v in x], np.int64 if TYPES[element_type].kind == "signed" else np.uint64).astype(
        dtype
    )
    masked = [int(v) & ((1 << bits) - 1) for v in x]
    wrap = (lambda n: _signed(n, bits)) if TYPES[element_type].kind == "signed" else lambda n: n & ((1 << bits) - 1)
    assert [int(v) for v in _applied("popcnt", values)[0]] == [wrap(v.bit_count()) for v in masked]
    assert [int(v) for v in _applied("count-leading-zeros", values)[0]] == [wrap(bits - v.bit_length()) for v in masked]


MONOIDS = {
    "add": ("f32", "s32", "bf16", "s4", "pred", "c64"),
    "multiply": ("f32", "u8", "c64"),
    "maximum": ("f32", "s8", "u4", "pred"),
    "minimum": ("f16", "u64", "s2"),
    "and": ("pred", "s16"),
    "or": ("pred", "u8"),
    "xor": ("s64",),
}


@pytest.mark.parametrize(("opcode", "element_type"), [(o, t) for o, types in MONOIDS.items() for t in types])
@pytest.mark.parametrize("seed", range(3))
def test_windows_of_one_operation_are_those_of_any_reducer(opcode: str, element_type: str, seed: int) -> None:
    """The quick way against one window element after the other."""
    rng = np.random.default_rng(seed)
    dims = tuple(rng.integers(1, 7, 2))
    window = Window(
        tuple(
            WindowDimension(
                size=int(rng.integers(1, 6)),
                stride=int(rng.integers(1, 4)),
                padding_low=int(rng.integers(-1, 4)),
                padding_high=int(rng.integers(5, 9)),
                window_dilation=int(rng.integers(1, 4)),
                base_dilation=int(rng.integers(1, 4)),
            )
            for _ in dims
        )
    )
    x = rng.integers(0, 2 if element_type in ("pred", "s2") else 4, dims).astype(DTYPES[element_type])
    init = np.array(1).astype(DTYPES[element_type])

    def plain(b: Builder, p: Any, q: Any) -> Any:
        return b.op(opcode, p, q)

    def behind_a_tuple(b: Builder, p: Any, q: Any) -> Any:
        return b.op("get-tuple-element", b.op("tuple", b.op(opcode, p, q)), index=0)

    quick, slow = (
        _applied("reduce-window", x, init, called=[function(f"{element_type}, {element_type}", body)()], window=window)[
            0
        ]
        for body in (plain, behind_a_tuple)
    )
    np.testing.assert_array_equal(quick, slow)


def test_sums_of_negative_zeros() -> None:
    x = f32([-0.0, -0.0, -0.0])
    window = Window((WindowDimension(2),))
    (sums,) = _applied("reduce-window", x, f32(-0.0), called=[reducer("add", "f32")()], window=window)
    assert np.signbit(sums).all()


def test_wide_windows_and_long_reductions_take_no_time() -> None:
    x = np.random.default_rng(0).integers(0, 9, 60_000).astype(np.int32)
    window = Window((WindowDimension(60_000, padding_low=59_999),))
    (sums,) = _applied("reduce-window", x, s32(0), called=[reducer("add", "s32")()], window=window)
    np.testing.assert_array_equal(sums, np.cumsum(x))

    def later(b: Builder, v: Any, i: Any, w: Any, j: Any) -> Any:
        take = b.op("compare", w, v, direction="GT")
        return b.op("tuple", b.op("select", take, w, v), b.op("select", take, j, i))

    y = np.random.default_rng(1).permutation(200_000).astype(np.float32)
    place = np.arange(len(y), dtype=np.int32)
    called = [function("f32, s32, f32, s32", later)()]
    best, at = _applied("reduce", y, place, f32(-1), s32(-1), called=called, dimensions=(0,))
    assert best == y.max() and at == y.argmax()


def test_loops_and_branches_over_many_lanes() -> None:
    """3 n + 1 or n / 2 until 1: every lane takes its own number of trips."""

    def step(b: Builder, n: Any) -> Any:
        double = b.op("multiply", n, b.constant(shape("s32"), [3]))
        return b.op("add", double, b.constant(shape("s32"), [1]))

    def half(b: Builder, n: Any) -> Any:
        return b.op("divide", n, b.constant(shape("s32"), [2]))

    def body(b: Builder, t: Any) -> Any:
        n, count = (b.op("get-tuple-element", t, index=i) for i in (0, 1))
        odd = b.op("and", n, b.constant(shape("s32"), [1]))
        then = b.op("conditional", odd, n, n, called=[function("s32", half)(), function("s32", step)()])
        return b.op("tuple", then, b.op("add", count, b.constant(shape("s32"), [1])))

    def going(b: Builder, t: Any) -> Any:
        return b.op("compare", b.op("get-tuple-element", t, index=0), b.constant(shape("s32"), [1]), direction="NE")

    def trips(b: Builder, n: Any) -> Any:
        inner = []
        for part in (body, going):
            c = Builder(part.__name__)
            inner.append(c.build(part(c, c.parameter(0, Shape.tuple([shape("s32")] * 2)))))
        return b.op(
            "get-tuple-element", b.op("while", b.op("tuple", n, b.constant(shape("s32"), [0])), called=inner), index=1
        )

    def count(n: int) -> int:
        done = 0
        while n != 1:
            n, done = 3 * n + 1 if n % 2 else n // 2, done + 1
        return done

    x = np.arange(1, 3000, dtype=np.int32).reshape(-1, 1)
    (result,) = _applied("map", x, called=[function("s32", trips)()], dimensions=(0, 1))
    np.testing.assert_array_equal(result, np.array([count(int(n)) for n in x.ravel()], np.int32).reshape(x.shape))


@pytest.mark.parametrize(("addends", "total"), [(1, 1024), (2, 256)])
def test_small_floats_are_rounded_at_every_step_of_a_reduction_but_sums(addends: int, total: float) -> None:
    """The windows of 32 that XLA makes of a long reduction give exact sums here, one long window only if sums are held
    in f32."""

    def sums(b: Builder, x: Any, y: Any) -> Any:
        return b.op("add", x, y) if addends == 1 else b.op("add", b.op("add", x, y), b.constant(shape("bf16"), [0]))

    x, zero = np.ones(1024, DTYPES["bf16"]), np.zeros((), DTYPES["bf16"])
    called = [function("bf16, bf16", sums)()]
    assert _applied("reduce", x, zero, called=called, dimensions=(0,))[0] == 1024
    window = Window((WindowDimension(1024, padding_low=1),))
    assert _applied("reduce-window", x, zero, called=called, window=window)[0].tolist() == [total, total]


def test_small_floats_are_rounded_at_every_update_of_a_scatter() -> None:
    numbers = ScatterDimensionNumbers((), (0,), (0,), 1)
    x, indices, updates = np.zeros(1, DTYPES["bf16"]), np.zeros((512, 1), np.int32), np.ones(512, DTYPES["bf16"])
    (result,) = _applied(
        "scatter", x, indices, updates, called=[reducer("add", "bf16")()], scatter_dimension_numbers=numbers
    )
    assert result.tolist() == [256]


def test_iota_of_no_elements_but_a_huge_dimension() -> None:
    b = Builder("iota")
    module = b.module(b.op("iota", shape=shape("s32[1000000000000,0]"), iota_dimension=0))
    assert evaluate(module)[0].shape == (1000000000000, 0)


def test_scatter_into_nothing() -> None:
    numbers = ScatterDimensionNumbers((1,), (0,), (0,), 1)
    x, indices, updates = np.zeros((0, 2), np.float32), np.zeros((3, 1), np.int32), np.ones((3, 2), np.float32)
    (result,) = _applied(
        "scatter", x, indices, updates, called=[reducer("add", "f32")()], scatter_dimension_numbers=numbers
    )
    assert result.shape == (0, 2)
