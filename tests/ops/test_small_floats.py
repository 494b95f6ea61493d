"""Every conversion of floats of at most 16 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support import xla_cpu
from tests.support.differential import run
from tests.support.element_types import IN_XLA, bits, boundaries, bounds, codes, conversion, nearest, without_nan
from tests.support.small_modules import module_of
from xla_wasm.builder import Builder
from xla_wasm.hlo.ir import Instruction
from xla_wasm.hlo.shape import Shape
from xla_wasm.hlo.types import SMALL_FLOATS, TYPES
from xla_wasm.ops.dtypes import DTYPES
from xla_wasm.ops.sample import shape, shape_of
from xla_wasm.reference import evaluate


@pytest.mark.parametrize("target", ["f32", "f64"])
@pytest.mark.parametrize("element_type", SMALL_FLOATS)
def test_every_small_float_widens_exactly(element_type: str, target: str) -> None:
    x = codes(element_type)
    (actual,) = run(conversion(x, target), x)
    expected = x.astype(actual.dtype)
    np.testing.assert_array_equal(actual, expected)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(actual[number]), np.signbit(expected[number]))


@pytest.mark.parametrize("element_type", SMALL_FLOATS)
def test_every_small_float_comes_back(element_type: str) -> None:
    x = codes(element_type)
    module = module_of(
        lambda b, p: b.op("convert", b.op("convert", p, shape=shape(f"f32[{len(x)}]")), shape=shape_of(x)), x
    )
    for target in ("simd128", "relaxed-simd"):
        np.testing.assert_array_equal(bits(run(module, x, target=target)[0]), bits(x))


@pytest.mark.parametrize("element_type", SMALL_FLOATS)
def test_f32_rounds_as_ml_dtypes_does(element_type: str) -> None:
    x = without_nan(element_type, boundaries(element_type, np.float32))
    (actual,) = run(conversion(x, element_type), x)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(bits(actual), bits(x.astype(DTYPES[element_type])))


@pytest.mark.parametrize("source", [np.float32, np.float64])
@pytest.mark.parametrize("element_type", IN_XLA)
def test_floats_round_as_on_xla(element_type: str, source: Any) -> None:
    x = boundaries(element_type, source)
    x = x[(np.abs(x) >= 2.0**-126) | (x == 0) | np.isnan(x)]  # XLA:CPU flushes subnormals of f32 on the way
    module = conversion(x, element_type)
    if (element_type, source) == ("f16", np.float64):
        expected = nearest(element_type, x)  # XLA:CPU rounds once where the processor can, elsewhere by way of f32
    else:
        expected = bits(xla_cpu.run(module, x)[0])
    np.testing.assert_array_equal(bits(run(module, x)[0]), expected)


@pytest.mark.parametrize("size", [1, 2, 3, None])
@pytest.mark.parametrize("element_type", ["f16", "f8e5m2", "f8e4m3", "f8e3m4"])
def test_f64_rounds_once_in_vectors_and_in_scalars(element_type: str, size: int | None) -> None:
    """Right beside the middle of two neighbours, where a rounding to f32 would make it a tie. bf16 alone goes by way of
    f32."""
    values = codes(element_type).astype(np.float64)
    values = np.unique(values[np.isfinite(values)])
    middle = (values[1:] + values[:-1]) / 2
    x = np.concatenate([np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf), middle])
    for part in [x] if size is None else [x[i : i + size] for i in range(0, len(x), len(x) // 7)]:
        expected = nearest(element_type, part)
        small, wide = shape(f"{element_type}[{len(part)}]"), shape(f"f32[{len(part)}]")

        def body(b: Builder, p: Instruction, small: Shape = small, wide: Shape = wide) -> Instruction:
            rounded = b.op("convert", p, shape=small)
            return b.op("tuple", rounded, b.op("negate", b.op("convert", rounded, shape=wide)))

        module = module_of(body, part)
        targets = [run(module, part, target=target) for target in ("simd128", "relaxed-simd")]
        for rounded, negated in (evaluate(module, part), *targets):
            np.testing.assert_array_equal(bits(rounded), expected)
            np.testing.assert_array_equal(negated, -rounded.astype(np.float32))


@pytest.mark.parametrize("element_type", ["f16", "bf16"])
def test_a_constant_of_f64_rounds_as_an_argument_does(element_type: str) -> None:
    x = np.array(
        [
            1 + 2.0**-11 + 2.0**-40,
            1 + 2.0**-8 + 2.0**-40,
            -1 - 2.0**-11 - 2.0**-40,
            65519.99999999999,
            2.0**-25 * (1 + 2.0**-40),
        ]
    )
    wanted = bits(run(conversion(x, element_type), x)[0])
    form = shape(element_type)
    module = module_of(
        lambda b: b.op("tuple", *(b.op("convert", b.constant(shape("f64"), [number]), shape=form) for number in x))
    )
    for results in (run(module), evaluate(module)):
        np.testing.assert_array_equal(bits(np.array(results)), wanted)


@pytest.mark.parametrize("element_type", SMALL_FLOATS)
def test_f64_rounds_as_in_the_evaluator(element_type: str) -> None:
    x = without_nan(element_type, boundaries(element_type, np.float64))
    module = conversion(x, element_type)
    np.testing.assert_array_equal(bits(run(module, x)[0]), bits(evaluate(module, x)[0]))


@pytest.mark.parametrize("source", ["s8", "u8", "s16", "s32", "u32", "s64", "u64", "s4", "u2", "pred"])
@pytest.mark.parametrize("element_type", ["f16", "bf16", "f8e5m2", "f8e4m3fn", "f8e8m0fnu", "f6e3m2fn", "f4e2m1fn"])
def test_integers_round_by_way_of_f32(element_type: str, source: str) -> None:
    low, high = (0, 2) if source == "pred" else bounds(source)
    rng = np.random.default_rng(2)
    numbers = [*range(max(low, -300), min(high, 70000), 7), *(int(low + (high - low) * f) for f in rng.random(500))]
    x = (
        np.array([n for n in numbers if low <= n < high], object)
        .astype(np.int64 if low < 0 else np.uint64)
        .astype(DTYPES[source])
    )
    (actual,) = run(conversion(x, element_type), x)
    with np.errstate(over="ignore"):
        expected = x.astype(np.float32).astype(DTYPES[element_type])
    np.testing.assert_array_equal(bits(actual), bits(expected))


@pytest.mark.parametrize("target", ["s32", "u8", "s64", "s16", "s4", "u2", "s1", "pred", "f16", "bf16", "f8e4m3fn"])
@pytest.mark.parametrize("element_type", SMALL_FLOATS)
def test_small_floats_to_other_types(element_type: str, target: str) -> None:
    x = codes(element_type)
    module = conversion(x, target)
    (actual,), (expected,) = run(module, x), evaluate(module, x)
    if TYPES[target].kind == "float":
        np.testing.assert_array_equal(bits(actual), bits(expected))
    else:
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("element_type", ["f16", "bf16", "f8e5m2", "f8e4m3fn"])
@pytest.mark.parametrize(
    ("exponent_bits", "mantissa_bits"), [(5, 10), (5, 3), (4, 3), (8, 7), (8, 0), (3, 0), (1, 2), (11, 20)]
)
def test_every_reduction_of_precision(element_type: str, exponent_bits: int, mantissa_bits: int) -> None:
    x = codes(element_type)
    module = module_of(
        lambda b, p: b.op("reduce-precision", p, exponent_bits=exponent_bits, mantissa_bits=mantissa_bits), x
    )
    expected = bits(xla_cpu.run(module, x)[0])
    np.testing.assert_array_equal(bits(run(module, x)[0]), expected)
    np.testing.assert_array_equal(bits(evaluate(module, x)[0]), expected)


@pytest.mark.parametrize("element_type", [name for name in SMALL_FLOATS if TYPES[name].format.special == "finite"])
@pytest.mark.parametrize("source", ["f32", "f64", "f16", "bf16", "f8e5m2"])
def test_nan_of_either_sign_becomes_minus_zero_where_there_is_none(source: str, element_type: str) -> None:
    x = np.copysign([np.nan, np.nan, 1, 0, 0], [1, -1, -1, 1, -1]).astype(DTYPES[source])
    module = conversion(x, element_type)
    for result in (evaluate(module, x)[0], *run(module, x)):
        values = result.astype(np.float32)
        assert np.abs(values).tolist() == [0, 0, 1, 0, 0]
        assert np.signbit(values).tolist() == [True, True, True, False, True]
