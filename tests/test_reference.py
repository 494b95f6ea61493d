"""The reference evaluator itself: arguments, precision, lanes, order of folds; and numerics that samples do not show."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest

import xla_wasm.jax
from xla_wasm.builder import Builder
from xla_wasm.errors import ArgumentError, UnsupportedError
from xla_wasm.hlo.attrs import Window, WindowDimension
from xla_wasm.hlo.shape import Shape
from xla_wasm.ops.sample import f32, function, reducer, s32, shape
from xla_wasm.ops.sort.reference import merge_order
from xla_wasm.reference import evaluate

Array = np.ndarray[Any, Any]


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
    module = b.module(b.op("custom-call", b.parameter(0, shape("f32[2]")), shape=shape("f32[2]"), custom_call_target="nothing"))
    with pytest.raises(UnsupportedError, match="custom-call"):
        evaluate(module, f32([1, 2]))


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
    module = b.module(b.op("tuple", b.op("get-tuple-element", state, index=1), b.op("get-tuple-element", state, index=0)))
    y, x = evaluate(module, f32([1, 2]), s32(3))
    assert y == 3 and x.tolist() == [1, 2]


def test_f64_precision_holds_what_f32_would_round() -> None:
    b = Builder("small")
    x = b.parameter(0, shape("f32"))
    module = b.module(b.op("subtract", b.op("add", x, b.constant(shape("f32"), [1e8])), b.constant(shape("f32"), [1e8])))
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
    for actual, expected in zip(evaluate(module, *args), oracle.run(module, *args), strict=True):
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
        return (y / 3 * 7).astype(jnp.float32), (y.astype(jnp.float16) / 3).astype(jnp.float32), y.sum().astype(jnp.float32)

    module = xla_wasm.jax.lower(fn, x)
    # without excess precision, which XLA may keep inside a fusion
    third = (x / 3).astype(jnp.bfloat16).astype(np.float32)
    a, b, c = evaluate(module, x)
    np.testing.assert_array_equal(a, (third * 7).astype(jnp.bfloat16).astype(np.float32))
    np.testing.assert_array_equal(b, (x / 3).astype(np.float16).astype(np.float32))
    assert c == 36
