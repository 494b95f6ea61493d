"""The polynomial functions against wide references: dense samples of every sign and exponent, and the edge cases."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from benchmarks.accuracy_functions import BINARY as BINARY_VALUES
from benchmarks.accuracy_functions import UNARY as UNARY_VALUES
from benchmarks.accuracy_functions import reference
from tests.support.numpy_builder import NumpyBuilder
from xla_wasm.loop.math import CALLED, FUNCTIONS, function

Reference = Callable[..., Any]

UNARY = sorted({*FUNCTIONS["f32"]} & {*UNARY_VALUES})
BINARY = sorted({*FUNCTIONS["f32"]} & {*BINARY_VALUES})
F64_INLINE = sorted({*UNARY} - {*CALLED})
C_FUNCTIONS: dict[str, Reference] = {
    "xw_sin_f32": lambda x: np.sin(x.astype(np.float64)),
    "xw_cos_f32": lambda x: np.cos(x.astype(np.float64)),
    "xw_tan_f32": lambda x: np.tan(x.astype(np.float64)),
    "xw_fmod_f32": np.fmod,
    "xw_sin_f64": np.sin,
    "xw_cos_f64": np.cos,
}

# Where exhaustive or dense searches met the largest errors, unfused and fused, of these or of earlier versions.
WORST_F32: dict[str, tuple[float, ...]] = {
    "acos": (-0.500880361, -0.500427961),
    "acosh": (1.03111219, 1.03087676, 1.06291389, 1.02865505),
    "asin": (0.535418749, -0.838416338, 0.500546455),
    "asinh": (1.16690028, 1.12686324, -0.357111782),
    "atan": (1.0718658, 1.71932435, 1.0044415),
    "atanh": (0.181472152, 0.221610874),
    "cbrt": (1.24920643e-38,),
    "cosh": (4.53606796, 4.55985785, 6.90254259),
    "cosine": (0.0880735517, 0.00513035059, 0.292556345),
    "erf": (0.0273800306, 0.00691269897, 0.224017695),
    "exponential": (-0.00145170081, -0.0295780003),
    "exponential-minus-one": (0.381712973, 0.381541848),
    "log": (0.706616342, 1.56143236),
    "log-plus-one": (0.419910043, 0.417296737),
    "logistic": (-1.10576379, -1.1153928),
    "rsqrt": (1.93784353e-34,),
    "sine": (7.74192333, 4.71751928, 356.645203),
    "sinh": (1.10584676, 1.75764918),
    "tan": (133.982315, 35913.9023, 45841.3359, 43029.6094),
    "tanh": (0.518485785, 0.51936686, 0.125219017),
}
WORST_F32_BINARY: dict[str, tuple[tuple[float, float], ...]] = {
    "atan2": ((-6.6200395, 6.364036), (1.0000026, 0.9214842), (11.163835, 89.13523), (-1.713384, 27.378868)),
    "power": (
        (float.fromhex("0x1.fffff4p-1"), float.fromhex("0x1.f3129ap+8")),
        (float.fromhex("0x1.02ec9ap+0"), float.fromhex("-0x1.0f039p+0")),
    ),
}
WORST_F64: dict[str, tuple[float, ...]] = {
    "cosine": (0.074927021399375057, 0.14718542356353428, 0.15528560560586546, 9.335596292608948),
    "erf": (0.20928583019919078,),
    "exponential": (-0.051728740137370444, -0.00089998377817729347, 38.79680010181838),
    "exponential-minus-one": (0.35532056824802216, 0.39335065629233901, 0.34724054235560825, 0.39897073812972783),
    "log": (0.7061318237324143,),
    "log-plus-one": (0.4758309743942419,),
    "logistic": (-1.0996898258480905, -1.1034135071256901),
    "rsqrt": (1.0070772391688267,),
    "sine": (1.6552368687228136, 1.6401581555669993, 1.693899802809371),
    "tanh": (4.1587781871130645, 3.120027245615198, 0.2578125, 0.25781249999999994, 0.48, 0.16),
}


def samples_f32() -> np.ndarray:
    """Every 6007th bit pattern, the ranges in which functions turn, and edges."""
    patterns = np.arange(0, 1 << 32, 6007, dtype=np.uint64).astype(np.uint32).view(np.float32)
    fine = np.concatenate(
        [np.linspace(-12, 12, 200_001), np.linspace(-105, 92, 100_001), np.linspace(-1e5, 1e5, 50_001)]
    )
    turning = [
        88.72283,
        88.72284,
        -87.33654,
        -87.33655,
        -103.97,
        89.415985,
        89.41599,
        -88.72284,
        17.33,
        0.5,
        0.49999997,
        0.99999994,
    ]
    edges = [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        1e-45,
        -1e-45,
        1.1754942e-38,
        1.17549435e-38,
        3.4028235e38,
        -3.4028235e38,
        102943.0,
    ]
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


def apply(name: str, builder: Any, dtype: str, *arguments: np.ndarray) -> np.ndarray:
    """The function on arrays."""
    result: Any = function(builder, name, *(builder.value(a, dtype) for a in arguments))
    array: np.ndarray = result.array
    return array


@pytest.mark.parametrize("name", UNARY)
def test_f32(builder: NumpyBuilder, name: str) -> None:
    x = np.concatenate([samples_f32(), np.asarray(WORST_F32.get(name, ()), np.float32)])
    with np.errstate(all="ignore"):
        got = apply(name, builder, "f32", x)
        want = reference(name, "f32")(x.astype(np.float64))
        error, message = worst(got, want, x)
    assert error <= 2.0, message
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
    edge = [
        0.0,
        1.0,
        2.0,
        3.0,
        0.5,
        1.5,
        np.inf,
        1e-45,
        1.17549435e-38,
        3.4028235e38,
        16777216.0,
        16777215.0,
        8388607.5,
    ]
    edge += [1e10, 0.99999994, 1.0000001, 33.0, 126.0, 128.0, 1e-30]
    edge = [*edge, *(-e for e in edge), np.nan]
    grid = np.stack([g.ravel() for g in np.meshgrid(edge, edge)])
    others = np.concatenate([near, wide, whole, grid], axis=1)
    x, y = np.concatenate([bits, others.astype(np.float32)], axis=1)
    return x, y


@pytest.mark.parametrize("name", BINARY)
def test_f32_binary(builder: NumpyBuilder, name: str) -> None:
    x, y = np.concatenate(
        [pairs_f32(), np.asarray(WORST_F32_BINARY.get(name, ()), np.float32).reshape(-1, 2).T], axis=1
    )
    with np.errstate(all="ignore"):
        got = apply(name, builder, "f32", x, y)
        want = reference(name, "f32")(x.astype(np.float64), y.astype(np.float64))
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
        np.asarray(WORST_F64.get(name, ())),
    ]
    x = np.concatenate(parts)
    wide = np.longdouble if np.finfo(np.longdouble).nmant >= 63 else np.float64
    with np.errstate(all="ignore"):
        if name in ("sine", "cosine"):
            x = x[~(np.abs(x) > 3e6)]  # beyond it is the C function
        got = apply(name, builder, "f64", x)
        true = reference(name, "f64")
        want = true(x.astype(wide))
        want = np.where(np.isfinite(want), want, true(x).astype(wide))
        error, message = worst(got, want, x)
    # Where NumPy has no wider type, the reference is rounded too.
    assert error <= (2.0 if wide is np.longdouble else 3.0), message
    zeros = (want == 0) & (got == 0)
    assert (np.signbit(want) == np.signbit(got))[zeros].all()


@pytest.mark.parametrize("dtype", FUNCTIONS)
def test_rounding(dtype: str) -> None:
    b = NumpyBuilder(False)
    half_down = np.nextafter(np.float32(0.5) if dtype == "f32" else np.float64(0.5), 0)
    x = np.asarray([2.5, -2.5, half_down, -half_down, 0.5, -0.5, 8388609.0, -0.0, np.inf, np.nan, 1.25])
    rounded = apply("round-nearest-afz", b, dtype, x)
    np.testing.assert_array_equal(rounded, [3, -3, 0, 0, 1, -1, 8388609, 0, np.inf, np.nan, 1])
    assert np.signbit(rounded[7]) and np.signbit(rounded[3])


def test_exact_results() -> None:
    """Values that users expect to be exact."""
    b = NumpyBuilder(True, C_FUNCTIONS)
    one = {
        "exponential": 0.0,
        "cosine": 0.0,
        "cosh": 0.0,
        "tanh": 20.0,
        "erf": 5.0,
        "logistic": 40.0,
        "cbrt": 1.0,
        "rsqrt": 1.0,
    }
    for dtype in FUNCTIONS:
        for name, argument in one.items():
            if dtype == "f32" or name in F64_INLINE:
                argument = 7.0 if name == "erf" else argument
                assert apply(name, b, dtype, np.asarray([argument]))[0] == 1.0, (name, dtype)
