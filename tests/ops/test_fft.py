"""The Fourier transform: every kind of length, dimensions, errors against f64, tables made when a module starts."""

from __future__ import annotations

from math import log2, prod
from typing import Any

import numpy as np
import pytest

import xla_wasm
from tests.support import xla_cpu
from tests.support.closeness import Array
from tests.support.differential import run
from xla_wasm.builder import Builder
from xla_wasm.ops.dtypes import DTYPES
from xla_wasm.ops.fft.plan import complex_plan, real_plan
from xla_wasm.ops.sample import shape_of
from xla_wasm.passes import pipeline
from xla_wasm.passes.clone import clone
from xla_wasm.plan.build import Setting, plan_module
from xla_wasm.plan.kernel import KernelCache
from xla_wasm.plan.memory import place
from xla_wasm.target import Target

LENGTHS = (
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    12,
    13,
    15,
    20,
    31,
    32,
    37,
    45,
    49,
    62,
    64,
    74,
    97,
    100,
    120,
    128,
    210,
    251,
    256,
    1000,
    1024,
)
"""Of all radices, alone and mixed; with prime factors of their own passes, and larger ones."""

_NUMPY: dict[str, Any] = {"FFT": np.fft.fftn, "IFFT": np.fft.ifftn, "RFFT": np.fft.rfftn, "IRFFT": np.fft.irfftn}


def numbers(dtype: str, *dims: int) -> Array:
    rng = np.random.default_rng(prod(dims))
    x = rng.standard_normal(dims)
    return (x + 1j * rng.standard_normal(dims) if dtype[0] == "c" else x).astype(DTYPES[dtype])


def module(x: Array, kind: str, lengths: tuple[int, ...]) -> Any:
    builder = Builder("m")
    return builder.module(builder.op("fft", builder.parameter(0, shape_of(x)), fft_type=kind, fft_length=lengths))


def check(x: Array, kind: str, lengths: tuple[int, ...]) -> None:
    (result,) = run(module(x, kind, lengths), x)
    axes = tuple(range(x.ndim - len(lengths), x.ndim))
    true = _NUMPY[kind](x.astype(np.complex128 if x.dtype.kind == "c" else np.float64), lengths, axes)
    assert result.shape == true.shape
    off = np.max(np.abs(result - true), initial=0) / np.max(np.abs(true), initial=1e-30) / np.finfo(x.dtype).eps
    assert off <= 1 + log2(prod(lengths)), f"{off} roundings of the greatest element"


def check_all(width: int, dims: tuple[int, ...], axes: int) -> None:
    """All four kinds."""
    whole, real = f"c{2 * width}", f"f{width}"
    lengths = dims[len(dims) - axes :]
    for kind in ("FFT", "IFFT"):
        check(numbers(whole, *dims), kind, lengths)
    check(numbers(real, *dims), "RFFT", lengths)
    check(numbers(whole, *dims[:-1], dims[-1] // 2 + 1), "IRFFT", lengths)


@pytest.mark.parametrize("width", [32, 64])
@pytest.mark.parametrize("length", LENGTHS)
def test_lengths(width: int, length: int) -> None:
    check_all(width, (length,), 1)


@pytest.mark.parametrize("length", [4, 6, 9, 11, 37, 68])
@pytest.mark.parametrize("batch", [(1,), (3,), (2, 9)])
def test_batches(length: int, batch: tuple[int, ...]) -> None:
    """Short sequences are transformed side by side, with some left over."""
    check_all(32, (*batch, length), 1)


@pytest.mark.parametrize(
    "dims", [(4, 6), (3, 5), (16, 16), (7, 37), (64, 9), (2, 3, 4), (3, 37, 2), (1, 4), (4, 1), (1, 1, 1), (33, 20)]
)
@pytest.mark.parametrize("width", [32, 64])
def test_dimensions(dims: tuple[int, ...], width: int) -> None:
    check_all(width, dims, len(dims))
    check_all(width, (2, *dims), len(dims))


def test_zeros_in_imaginary_parts_of_half_a_spectrum() -> None:
    """Only of what is transformed last, as XLA:CPU has it."""
    x = numbers("c64", 3, 4, 4)
    for dims in ((6,), (4, 6), (3, 4, 6), (4, 7)):
        (result,) = run(module(x, "IRFFT", dims), x)
        (expected,) = xla_cpu.run(module(x, "IRFFT", dims), x)
        np.testing.assert_allclose(result, expected, atol=1e-6)


@pytest.mark.parametrize("dims", [(2, 0), (0, 4)])
def test_empty(dims: tuple[int, ...]) -> None:
    x = np.zeros(dims, np.complex64)
    for kind in ("FFT", "IFFT"):
        (result,) = run(module(x, kind, dims[-1:]), x)
        assert result.shape == dims


def test_tables_are_made_when_a_module_starts() -> None:
    """Not by the compiler, and not in every run; one for all dimensions of a length."""
    x = numbers("c64", 16, 16)
    artifact = xla_wasm.compile(module(x, "FFT", (16, 16)))
    canonical = clone(module(x, "FFT", (16, 16)))
    pipeline.run(canonical)
    plan = plan_module(canonical, KernelCache(Target.named("simd128")), lambda plan: place(plan, 4096), Setting())
    assert [step.name for step in plan.entries] == ["fft.fft", "end"]
    assert len(plan.inits[None].steps) == 1
    longer = xla_wasm.compile(module(numbers("c64", 4096), "FFT", (4096,)))
    assert len(longer.wasm) < len(artifact.wasm) + 1000
    executor = xla_wasm.load(artifact)
    np.testing.assert_array_equal(executor.run(x)[0], executor.run(x)[0])


def test_a_chirp_is_made_in_memory_that_constants_lie_in() -> None:
    """Both are needed at the start only."""
    x = numbers("c64", 37)
    weights = np.arange(37, dtype=np.float32).reshape(37, 1)
    builder = Builder("m")
    turned = builder.op("fft", builder.parameter(0, shape_of(x)), fft_type="FFT", fft_length=(37,))
    real = builder.op("real", turned)
    table = builder.op("sine", builder.constant(weights.tolist()))
    result = builder.op("multiply", builder.op("reshape", real, shape=shape_of(weights)), table)
    (actual,) = run(builder.module(result), x)
    np.testing.assert_allclose(actual[:, 0], np.fft.fft(x).real * np.sin(weights[:, 0]), rtol=1e-4, atol=1e-5)


def test_plans() -> None:
    assert complex_plan(48).factors == (4, 4, 3)
    assert complex_plan(7 * 31).m == 0
    prime = complex_plan(1009)
    assert prime.m >= 2017 and prod(prime.factors) == prime.m
    assert real_plan(10).pairs and real_plan(10).n == 5
    assert not real_plan(9).pairs
    for n in range(1, 200):
        plan = complex_plan(n)
        assert prod(plan.factors) == (plan.m or n) and max(plan.factors, default=1) <= 31


@pytest.mark.parametrize("function", ["fftn", "ifftn", "rfftn", "irfftn", "fft2", "irfft"])
def test_rows_in_several_calls(function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call of the C runtime takes a few rows, also of what is transformed along other dimensions first."""
    import jax.numpy as jnp

    from xla_wasm.jax import lower
    from xla_wasm.lowering import kernel_writer

    monkeypatch.setattr(kernel_writer, "_CALL", 1)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 6, 5, 16)).astype(np.float32)
    given = x if function == "rfftn" else (x + 1j * rng.standard_normal(x.shape)).astype(np.complex64)
    axes = (1, 2, 3) if function.endswith("n") else None
    call = getattr(jnp.fft, function)
    module = lower((lambda x: call(x, axes=axes)) if axes else call, given)
    (result,) = run(module, given)
    expected = getattr(np.fft, function)(given, axes=axes) if axes else getattr(np.fft, function)(given)
    np.testing.assert_allclose(result, expected, atol=2e-5 * np.abs(expected).max())


@pytest.mark.parametrize("kind", ["FFT", "IFFT", "RFFT", "IRFFT"])
@pytest.mark.parametrize("length", [8192, 8200])
def test_columns_beyond_the_caches(length: int, kind: str) -> None:
    """Fewer of them are transformed side by side; there are more than that, and a rest."""
    for real, complex_ in (("f32", "c64"), ("f64", "c128")):
        x = numbers(real if kind == "RFFT" else complex_, 2, length, 7)
        check(x, kind, (length, 12 if kind == "IRFFT" else 7))
