"""Every elementwise operation on every type over many values, compiled for each target.

Integers, comparisons and single IEEE operations are to be exact; transcendental functions within 2 ulp of the true
value.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.support import closeness
from tests.support.differential import run
from tests.support.small_modules import operation
from xla_wasm.builder import Builder
from xla_wasm.hlo.shape import Shape
from xla_wasm.hlo.types import TYPES
from xla_wasm.ops.dtypes import DTYPES, Array
from xla_wasm.ops.elementwise.expand_accurate import ACCURATE
from xla_wasm.ops.sample import shape_of
from xla_wasm.ops.table import OPS
from xla_wasm.reference import evaluate

TARGETS = ("simd128", "relaxed-simd")
INTEGERS = ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64")
FLOATS = ("f32", "f64")
MAX_ULP = 2

EXACT_FLOAT = (
    "abs negate sign ceil floor round-nearest-afz round-nearest-even sqrt is-finite add subtract multiply divide "
    "remainder maximum minimum"
).split()
INTEGER = (
    "abs negate sign not popcnt count-leading-zeros add subtract multiply divide remainder maximum minimum power and "
    "or xor shift-left"
    " shift-right-logical shift-right-arithmetic"
).split()
TRANSCENDENTAL = [*ACCURATE]

targets = pytest.mark.parametrize("target", TARGETS)


def integers(element_type: str, count: int = 600) -> Array:
    """Limits, small numbers, and random ones of every magnitude."""
    info = np.iinfo(DTYPES[element_type])
    rng = np.random.default_rng(1)
    edges = [info.min, info.min + 1, info.max, info.max - 1, *range(max(info.min, -9), 70)]
    bits = rng.integers(0, 2**63, count - len(edges), np.uint64) >> rng.integers(0, 63, count - len(edges)).astype(
        np.uint64
    )
    some = bits.astype(DTYPES[element_type])
    return np.concatenate(
        [
            np.array(edges, DTYPES[element_type]),
            np.where(rng.random(len(some)) < 0.5, some, np.invert(some) if info.min else some),
        ]
    )


def floats(element_type: str, count: int = 6000) -> Array:
    """Special values, random bit patterns, and numbers of moderate size; no denormals."""
    dtype = DTYPES[element_type]
    rng = np.random.default_rng(2)
    info = np.finfo(dtype)
    special = [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        1,
        -1,
        0.5,
        -0.5,
        1.5,
        2.5,
        -2.5,
        info.max,
        -info.max,
        info.tiny,
        -info.tiny,
    ]
    near = [
        s * (b + d * float(info.eps))
        for s in (1, -1)
        for b in (0.5, 1, 2, np.pi / 4, np.pi / 2, np.pi, 8, 88, 709)
        for d in (-1, 0, 1)
    ]
    patterns = rng.integers(0, 2**63, count // 3, np.uint64).astype(f"u{dtype.itemsize}").view(dtype)
    patterns = np.where(np.abs(patterns) < info.tiny, dtype.type(0), patterns)
    patterns = np.where(rng.random(len(patterns)) < 0.5, patterns, -patterns)
    moderate = rng.standard_normal(count // 3) * 10
    small = rng.standard_normal(count // 3) * np.exp2(rng.integers(-30, 7, count // 3))
    return np.concatenate(
        [np.array([*special, *near]).astype(dtype), patterns, moderate.astype(dtype), small.astype(dtype)]
    )


def shuffled(x: Array) -> Array:
    return np.random.default_rng(3).permutation(x)


def results(target: str, opcode: str, *args: Array, **more: Any) -> tuple[list[Array], list[Array], list[Array]]:
    """The compiled result, the reference's and the true one of an operation on parameters."""
    module = operation(opcode, *args, **more)
    return run(module, *args, target=target), evaluate(module, *args), evaluate(module, *args, precision="f64")


def operands(opcode: str, x: Array) -> tuple[Array, ...]:
    return (x,) if OPS[opcode].arity == (1, 1) else (x, shuffled(x))


@targets
@pytest.mark.parametrize(
    ("opcode", "element_type"),
    [(o, t) for o, t in product(INTEGER, INTEGERS) if o != "abs" or TYPES[t].kind == "signed"],
)
def test_integers(opcode: str, element_type: str, target: str) -> None:
    compiled, expected, _ = results(target, opcode, *operands(opcode, integers(element_type)))
    np.testing.assert_array_equal(compiled[0], expected[0])


@targets
@pytest.mark.parametrize("element_type", FLOATS)
@pytest.mark.parametrize("opcode", EXACT_FLOAT)
def test_exact_floats(opcode: str, element_type: str, target: str) -> None:
    compiled, expected, _ = results(target, opcode, *operands(opcode, floats(element_type)))
    closeness.assert_same(compiled[0], expected[0])


def within_ulp(actual: Array, true: Array) -> float:
    """The worst distance in ulp; below the smallest normal number anything as small will do."""
    info = np.finfo(actual.dtype)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        x = actual.astype(true.dtype)
    overflow = (np.abs(true) >= float(info.max)) & np.isinf(x) & (np.sign(x) == np.sign(true))
    finite = np.isfinite(true) & ~overflow
    np.testing.assert_array_equal(x[~finite & ~overflow], true[~finite & ~overflow])
    tiny = finite & (np.abs(true) < info.tiny)
    assert np.all(np.abs(x[tiny]) <= info.tiny)
    chosen = finite & ~tiny
    off = np.abs(x[chosen] - true[chosen]) / closeness.ulp_of(true[chosen].astype(np.float64), actual.dtype)
    return float(np.max(off, initial=0))


@targets
@pytest.mark.parametrize("opcode", TRANSCENDENTAL)
def test_functions_of_f32(opcode: str, target: str) -> None:
    compiled, _, true = results(target, opcode, floats("f32", 30000))
    assert within_ulp(compiled[0], true[0]) <= MAX_ULP


@targets
@pytest.mark.parametrize("opcode", ["power", "atan2"])
def test_functions_of_two_f32(opcode: str, target: str) -> None:
    x = floats("f32", 12000)
    compiled, _, true = results(target, opcode, x, shuffled(x))
    assert within_ulp(compiled[0], true[0]) <= MAX_ULP
    x, y = np.abs(x[np.abs(x) < 50]), np.float32(0.37) * x[np.abs(x) < 50]
    compiled, _, true = results(target, opcode, x, y)
    assert within_ulp(compiled[0], true[0]) <= MAX_ULP


@targets
@pytest.mark.parametrize("element_type", FLOATS)
@pytest.mark.parametrize("exponent", [0, 1, 2, -1, 0.5, -0.5, 3])
def test_powers_by_constants(exponent: float, element_type: str, target: str) -> None:
    """Some of them are computed as something else, with the special results of a power: 0 of -0 by 0.5, infinity of
    -infinity."""
    x = floats(element_type, 3001)
    b = Builder("power")
    p = b.parameter(0, shape_of(x))
    power = b.op("power", p, b.broadcast(b.constant(Shape(element_type), [exponent]), x.shape))
    module = b.module(
        b.op("tuple", power, b.op("divide", b.broadcast(b.constant(Shape(element_type), [1]), x.shape), power))
    )
    actual, inverse = run(module, x, target=target)
    with np.errstate(all="ignore"):
        # A single 0.5 is a square root there, which is -0 of -0.
        wide = np.power(x.astype(np.longdouble), np.full(x.shape, exponent, np.longdouble))
        assert within_ulp(actual, wide.astype(x.dtype)) <= MAX_ULP
    zeros = actual == 0
    np.testing.assert_array_equal(np.signbit(actual[zeros]), np.signbit(wide[zeros]))
    np.testing.assert_array_equal(np.signbit(inverse[zeros]), np.signbit(wide[zeros]))


@targets
@pytest.mark.parametrize("exponent", [1, 2, -1])
def test_powers_of_small_floats_by_constants(exponent: int, target: str) -> None:
    """The same: where a power in f32 gives 0 for what is below its normal numbers, these are exact."""
    b = Builder("power")
    x = np.array([0x0001, 0x8001, 0x7F62, 0xFF62, 0x1E40, 0x3FC0, 0x8000, 0xFF80], np.uint16).view(DTYPES["bf16"])
    power = b.op(
        "power", b.parameter(0, Shape("bf16", x.shape)), b.broadcast(b.constant(Shape("bf16"), [exponent]), x.shape)
    )
    module = b.module(power)
    (result,) = run(module, x, target=target)
    with np.errstate(all="ignore"):
        true = np.power(x.astype(np.float64), float(exponent)).astype(DTYPES["bf16"])
    np.testing.assert_array_equal(result.view(np.uint16), true.view(np.uint16))


@targets
@pytest.mark.parametrize("opcode", TRANSCENDENTAL + ["power", "atan2"])
def test_functions_of_f64(opcode: str, target: str) -> None:
    """Against NumPy's f64, itself within about one ulp."""
    x = floats("f64", 3000)
    compiled, _, true = results(target, opcode, *((x, shuffled(x)) if opcode in ("power", "atan2") else (x,)))
    assert within_ulp(compiled[0], true[0]) <= MAX_ULP + 1


@targets
@pytest.mark.parametrize("direction", ["EQ", "NE", "GE", "GT", "LE", "LT"])
@pytest.mark.parametrize("element_type", INTEGERS + FLOATS)
def test_comparisons(element_type: str, direction: str, target: str) -> None:
    x = floats(element_type, 600) if element_type in FLOATS else integers(element_type)
    y = np.where(np.arange(len(x)) % 3 == 0, x, shuffled(x))
    compiled, expected, _ = results(target, "compare", x, y, direction=direction)
    np.testing.assert_array_equal(compiled[0], expected[0])


@targets
@pytest.mark.parametrize("result", ("pred",) + INTEGERS + FLOATS)
@pytest.mark.parametrize("source", ("pred",) + INTEGERS + FLOATS)
def test_conversions(source: str, result: str, target: str) -> None:
    x = (
        integers("u8").astype(np.bool_)
        if source == "pred"
        else floats(source, 900)
        if source in FLOATS
        else integers(source)
    )
    if source == "f64" and result == "f32":  # XLA and wasm may differ on denormals
        x = x[(np.abs(x) > 1e-37) | ~np.isfinite(x) | (x == 0)]
    compiled, expected, _ = results(target, "convert", x, shape=Shape(result, x.shape))
    closeness.assert_same(compiled[0], expected[0])
