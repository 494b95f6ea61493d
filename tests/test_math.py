"""The polynomial functions against wide references: dense samples of every sign and exponent, and the edge cases."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy_builder import NumpyBuilder

from xla_wasm.loop import math_f32, math_f64

Reference = Callable[..., Any]

F32: dict[str, Reference] = dict(math_f32.FUNCTIONS)
F64: dict[str, Reference] = dict(math_f64.FUNCTIONS)

_erf = np.vectorize(math.erf, otypes=[np.float64])
UNARY: dict[str, Reference] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "cosh": np.cosh,
    "cosine": np.cos,
    "erf": _erf,
    "exponential": np.exp,
    "exponential-minus-one": np.expm1,
    "log": np.log,
    "log-plus-one": np.log1p,
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sine": np.sin,
    "sinh": np.sinh,
    "tan": np.tan,
    "tanh": np.tanh,
}
BINARY: dict[str, Reference] = {"atan2": np.arctan2, "power": np.power, "remainder": np.fmod}
C_FUNCTIONS: dict[str, Reference] = {
    "xw_sin_f32": lambda x: np.sin(x.astype(np.float64)),
    "xw_cos_f32": lambda x: np.cos(x.astype(np.float64)),
    "xw_tan_f32": lambda x: np.tan(x.astype(np.float64)),
    "xw_fmod_f32": np.fmod,
    "xw_sin_f64": np.sin,
    "xw_cos_f64": np.cos,
}
F64_INLINE = (
    "cosine",
    "erf",
    "exponential",
    "exponential-minus-one",
    "log",
    "log-plus-one",
    "logistic",
    "rsqrt",
    "sine",
    "tanh",
)


def samples_f32() -> np.ndarray:
    """Every 6007th bit pattern, the ranges in which functions turn, and edges."""
    patterns = np.arange(0, 1 << 32, 6007, dtype=np.uint64).astype(np.uint32).view(np.float32)
    fine = np.concatenate([np.linspace(-12, 12, 200_001), np.linspace(-105, 92, 100_001), np.linspace(-1e5, 1e5, 50_001)])
    turning = [88.72283, 88.72284, -87.33654, -87.33655, -103.97, 89.415985, 89.41599, -88.72284, 17.33, 0.5, 0.49999997, 0.99999994]
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1.1754942e-38, 1.17549435e-38, 3.4028235e38, -3.4028235e38, 102943.0]
    return np.concatenate([patterns, fine.astype(np.float32), np.asarray(turning + edges, np.float32)])


def ulps(got: np.ndarray, want: np.ndarray, dtype: type[np.floating[Any]]) -> np.ndarray:
    """The distance in units of the last place of `want`.

    NaN and infinity must be met; where `want` is below the normal numbers, 0 will do.
    """
    info = np.finfo(dtype)
    rounded = want.astype(dtype)
    spacing = np.ldexp(np.asarray(1.0, want.dtype), np.maximum(np.frexp(want)[1] - 1, info.minexp) - info.nmant)
    error = np.abs(got.astype(want.dtype) - want) / spacing
    error = np.where(np.abs(want) < info.tiny, np.where(got == 0, 0, error), error)
    error = np.where(np.isnan(want), np.where(np.isnan(got), 0, np.inf), error)
    # Where the rounded reference overflows, infinity or a neighbour below it will do.
    near = np.isinf(rounded) & (np.abs(got) >= np.nextafter(info.max, dtype(0))) & (np.sign(got) == np.sign(rounded))
    error = np.where(near, 0, error)
    near = np.isinf(got) & (np.abs(want) >= np.nextafter(info.max, dtype(0))) & (np.sign(got) == np.sign(want))
    return np.where(near, 0, np.where(np.isnan(error), np.inf, error))


def worst(got: np.ndarray, want: np.ndarray, *arguments: np.ndarray) -> tuple[float, str]:
    error = ulps(got, want, got.dtype.type)
    i = int(np.argmax(error))
    return float(error[i]), f"{error[i]:.3f} ulp at {[a[i] for a in arguments]}: {got[i]!r}, not {want[i]!r}"


@pytest.fixture(params=[False, True], ids=["unfused", "fused"])
def builder(request: pytest.FixtureRequest) -> NumpyBuilder:
    return NumpyBuilder(request.param, C_FUNCTIONS)


def apply(table: dict[str, Reference], name: str, builder: NumpyBuilder, dtype: str, *arguments: np.ndarray) -> np.ndarray:
    """The function on arrays."""
    result: np.ndarray = table[name](builder, *(builder.value(a, dtype) for a in arguments)).array
    return result


@pytest.mark.parametrize("name", sorted(UNARY))
def test_f32(builder: NumpyBuilder, name: str) -> None:
    x = samples_f32()
    with np.errstate(all="ignore"):
        got = apply(F32, name, builder, "f32", x)
        want = UNARY[name](x.astype(np.float64))
        error, message = worst(got, want, x)
    assert error <= (2.1 if name == "cosine" else 2.0), message
    if name not in ("cosine", "acos"):
        zeros = (want == 0) & (got == 0)
        assert (np.signbit(want) == np.signbit(got))[zeros].all()


def pairs_f32() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 1 << 32, (2, 200_000), dtype=np.uint32).view(np.float32)
    spread = 2.0 ** (50 * rng.random(200_000) - 20)
    near = np.stack([1 + (rng.random(200_000) - 0.5) * np.minimum(spread, 1), (rng.random(200_000) - 0.5) * spread])
    wide = np.stack([2.0 ** ((rng.random(200_000) - 0.5) * 250), (rng.random(200_000) - 0.5) * 4])
    whole = np.stack([(rng.random(100_000) - 0.5) * 1000, np.floor((rng.random(100_000) - 0.5) * 100)])
    edge = [0.0, 1.0, 2.0, 3.0, 0.5, 1.5, np.inf, 1e-45, 1.17549435e-38, 3.4028235e38, 16777216.0, 16777215.0, 8388607.5]
    edge += [1e10, 0.99999994, 1.0000001, 33.0, 126.0, 128.0, 1e-30]
    edge = [*edge, *(-e for e in edge), np.nan]
    grid = np.stack([g.ravel() for g in np.meshgrid(edge, edge)])
    others = np.concatenate([near, wide, whole, grid], axis=1)
    x, y = np.concatenate([bits, others.astype(np.float32)], axis=1)
    return x, y


@pytest.mark.parametrize("name", sorted(BINARY))
def test_f32_binary(builder: NumpyBuilder, name: str) -> None:
    x, y = pairs_f32()
    with np.errstate(all="ignore"):
        got = apply(F32, name, builder, "f32", x, y)
        want = BINARY[name](x.astype(np.float64), y.astype(np.float64))
        error, message = worst(got, want, x, y)
    assert error <= (0.0 if name == "remainder" else 2.0), message
    same = np.signbit(got) == np.signbit(want)
    assert same[~np.isnan(want)].all()


@pytest.mark.parametrize("name", F64_INLINE)
def test_f64(builder: NumpyBuilder, name: str) -> None:
    rng = np.random.default_rng(2)
    parts = [
        rng.integers(0, 1 << 64, 60_000, dtype=np.uint64).view(np.float64),
        rng.uniform(-40, 40, 60_000),
        rng.uniform(-2, 2, 60_000),
        rng.uniform(-745, 712, 60_000),
        rng.uniform(-3e6, 3e6, 20_000),
        np.arange(-20_000, 20_000) * (math.pi / 2),
        np.asarray([0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 2.0**-1022, 6.0, 22.0, -1.0]),
        np.asarray([709.782712893384, 709.7827128933841, -708.3964185322641]),
    ]
    x = np.concatenate(parts)
    wide = np.longdouble if np.finfo(np.longdouble).nmant >= 63 and name != "erf" else np.float64
    with np.errstate(all="ignore"):
        if name in ("sine", "cosine"):
            x = x[~(np.abs(x) > 3e6)]  # beyond it is the C function
        got = apply(F64, name, builder, "f64", x)
        want = UNARY[name](x.astype(wide))
        if wide is np.longdouble and name in ("sine", "cosine", "tanh", "logistic"):
            want = np.where(np.isfinite(want), want, UNARY[name](x).astype(wide))
        error, message = worst(got, want, x)
    assert error <= (2.2 if wide is np.longdouble else 3.0), message
    zeros = (want == 0) & (got == 0)
    assert (np.signbit(want) == np.signbit(got))[zeros].all()


@pytest.mark.parametrize(("table", "dtype"), [(F32, "f32"), (F64, "f64")])
def test_exact_functions(table: dict[str, Reference], dtype: str) -> None:
    b: Any = NumpyBuilder(False)
    half_down = np.nextafter(np.float32(0.5) if dtype == "f32" else np.float64(0.5), 0)
    x = b.value([2.5, -2.5, half_down, -half_down, 0.5, -0.5, 8388609.0, -0.0, np.inf, np.nan, 1.25], dtype)
    rounded = table["round-nearest-afz"](b, x).array
    np.testing.assert_array_equal(rounded, [3, -3, 0, 0, 1, -1, 8388609, 0, np.inf, np.nan, 1])
    assert np.signbit(rounded[7]) and np.signbit(rounded[3])
    signs = table["sign"](b, x).array
    np.testing.assert_array_equal(signs, [1, -1, 1, -1, 1, -1, 1, 0, 1, np.nan, 1])
    assert np.signbit(signs[7])
    np.testing.assert_array_equal(table["is-finite"](b, x).array, [True] * 8 + [False, False, True])


def test_exact_results() -> None:
    """Values that users expect to be exact."""
    b = NumpyBuilder(True, C_FUNCTIONS)
    one = {"exponential": 0.0, "cosine": 0.0, "cosh": 0.0, "tanh": 20.0, "erf": 5.0, "logistic": 40.0, "cbrt": 1.0, "rsqrt": 1.0}
    for table, dtype in ((F32, "f32"), (F64, "f64")):
        for name, argument in one.items():
            if dtype == "f32" or name in F64_INLINE:
                argument = 7.0 if name == "erf" else argument
                assert apply(table, name, b, dtype, np.asarray([argument]))[0] == 1.0, (name, dtype)
