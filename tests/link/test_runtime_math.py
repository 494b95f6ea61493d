"""The C runtime's mathematics, run in wasm: within 1 ulp in f64 and 0.51 ulp in f32, on dense, huge and special
arguments."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import wasmtime

from xla_wasm.link import Linker, runtime_functions
from xla_wasm.wasm import Func, Module

LONG = np.longdouble
HAS_LONG = np.finfo(LONG).nmant >= 63
BASE = 1 << 17
COUNT = 1 << 15
inf, nan = math.inf, math.nan


@cache
def runner(symbol: str) -> Callable[..., np.ndarray]:
    """The function over arrays: a loop in wasm around a call of it."""
    params, (result,) = runtime_functions()[symbol]
    size, kind = (8, np.float64) if result == "f64" else (4, np.float32)
    module = Module()
    top = 1024

    def alloc(count: int, align: int, content: bool) -> int:
        nonlocal top
        address = (top + align - 1) & -align
        top = address + count
        return address

    loop = Func("run", ("i32", "i32"))  # offset, its end
    loop.op("loop")
    loop.op("local.get", 0)
    for i in range(len(params)):
        loop.op("local.get", 0)
        loop.op(f"{result}.load", 2, BASE + i * size * COUNT)
    loop.call(symbol)
    loop.op(f"{result}.store", 2, BASE + 2 * size * COUNT)
    loop.op("local.get", 0)
    loop.op("i32.const", size)
    loop.op("i32.add")
    loop.op("local.tee", 0)
    loop.op("local.get", 1)
    loop.op("i32.lt_u")
    loop.op("br_if", 0)
    loop.op("end")
    module.add(loop)
    Linker(module, alloc).need_missing()
    assert top < BASE
    module.memory((BASE + 24 * COUNT) // 65536 + 1)
    module.export_func("run", "run")
    module.export_memory("memory")
    engine = wasmtime.Engine()
    store = wasmtime.Store(engine)
    exports = wasmtime.Instance(store, wasmtime.Module(engine, module.encode()), []).exports(store)
    memory: Any = exports["memory"]
    run: Any = exports["run"]

    def call(*arguments: Any) -> np.ndarray:
        columns = np.broadcast_arrays(*(np.asarray(a, kind).ravel() for a in arguments))
        parts = []
        for start in range(0, columns[0].size, COUNT):
            chunk = [c[start : start + COUNT] for c in columns]
            for i, c in enumerate(chunk):
                memory.write(store, c.tobytes(), BASE + i * size * COUNT)
            run(store, 0, size * chunk[0].size)
            at = BASE + 2 * size * COUNT
            parts.append(np.frombuffer(bytes(memory.read(store, at, at + size * chunk[0].size)), kind))
        return np.concatenate(parts)

    return call


def worst_ulp(got: np.ndarray, want: Any) -> float:
    """The largest error in units of the last place of the expected value, which is of higher precision."""
    want = np.asarray(want)
    with np.errstate(over="ignore"):
        rounded = want.astype(got.dtype)
    plain = np.isfinite(rounded)
    np.testing.assert_array_equal(got[~plain], rounded[~plain])
    got, want, rounded = got[plain], want[plain], rounded[plain]
    unit = np.abs(np.spacing(np.abs(rounded))).astype(want.dtype)
    return float(np.max(np.abs(got.astype(want.dtype) - want) / unit))


def f64_samples(low: float, high: float, count: int = 60000, seed: int = 0) -> np.ndarray:
    """Half uniform, half over all magnitudes up to the bounds."""
    rng = np.random.default_rng(seed)
    uniform = rng.uniform(low, high, count // 2)
    sized = np.exp2(rng.uniform(-60, math.log2(max(abs(low), abs(high))), count // 2)) * rng.choice(
        [-1.0, 1.0], count // 2
    )
    return np.concatenate([uniform, sized[(sized >= low) & (sized <= high)]])


def huge_f64(count: int = 60000) -> np.ndarray:
    """All magnitudes of f64, subnormals included."""
    bits = np.random.default_rng(1).integers(0, 0x7FF0000000000000, count, dtype=np.uint64)
    x = bits.view(np.float64)
    return x * np.where(np.arange(count) % 2, 1, -1)


needs_long = pytest.mark.skipif(not HAS_LONG, reason="long double is no wider than f64 here")


def near_multiples() -> np.ndarray:
    """The doubles around multiples of pi/2, where reduction cancels most."""
    k = np.concatenate([np.arange(1, 20000), np.random.default_rng(2).integers(1, 2**50, 20000)]).astype(LONG)
    near = (k * (LONG(math.pi) / 2 + LONG(6.123233995736766e-17))).astype(np.float64)
    return np.concatenate([near, np.nextafter(near, inf), np.nextafter(near, -inf)])


@needs_long
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_trigonometry_f64(name: str) -> None:
    run, reference = runner(f"xw_{name}_f64"), getattr(np, name)
    # The double that comes closest of all to a multiple of pi/2.
    worst = np.array(
        [6381956970095103 * 2.0**797, math.pi / 2, math.pi, 2.0**20, 2.0**20 - 2.0**-33, sys.float_info.max]
    )
    for x in (f64_samples(-10, 10), f64_samples(-3e6, 3e6), huge_f64(), near_multiples(), worst, -worst):
        assert worst_ulp(run(x), reference(x.astype(LONG))) < 1


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_trigonometry_f32(name: str) -> None:
    """Against f64, over every 997th of all f32 values."""
    x = np.arange(0, 0x7F800000, 997, dtype=np.uint32).view(np.float32)
    x = np.concatenate([x, -x])
    with np.errstate(all="ignore"):
        want = getattr(np, name)(x.astype(np.float64))
    assert worst_ulp(runner(f"xw_{name}_f32")(x), want) <= 0.51


@pytest.mark.parametrize("width", ["f32", "f64"])
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_trigonometry_special(name: str, width: str) -> None:
    run = runner(f"xw_{name}_{width}")
    assert np.isnan(run([inf, -inf, nan])).all()
    zeros = run([0.0, -0.0])
    assert zeros.tolist() == ([1, 1] if name == "cos" else [0, 0])
    assert name == "cos" or np.signbit(zeros).tolist() == [False, True]


RANGES: dict[str, list[tuple[float, float]]] = {
    "exp": [(-1, 1), (-750, 712)],
    "expm1": [(-1, 1), (-60, 712)],
    "sinh": [(-1, 1), (-50, 50), (-712, 712)],
    "cosh": [(-1, 1), (-50, 50), (-712, 712)],
    "tanh": [(-1, 1), (-30, 30)],
    "log": [(0.5, 2), (0, 1e300)],
    "log1p": [(-0.999999, 1), (-0.5, 1e300)],
    "asinh": [(-1, 1), (-1e9, 1e9), (-1e300, 1e300)],
    "acosh": [(1, 1.01), (1, 100), (1, 1e10), (1, 1e300)],
    "atanh": [(-1, 1)],
    "atan": [(-1, 1), (-50, 50), (-1e20, 1e20)],
    "asin": [(-1, 1)],
    "acos": [(-1, 1)],
    "cbrt": [(-10, 10), (-1e300, 1e300)],
}


@needs_long
@pytest.mark.parametrize("name", RANGES)
def test_functions_f64(name: str) -> None:
    arc = {
        "asinh": "arcsinh",
        "acosh": "arccosh",
        "atanh": "arctanh",
        "atan": "arctan",
        "asin": "arcsin",
        "acos": "arccos",
    }
    reference = getattr(np, arc.get(name, name))
    run = runner(f"xw_{name}_f64")
    bound = 1 if name == "log" else 0.85
    with np.errstate(all="ignore"):
        for low, high in RANGES[name]:
            x = f64_samples(low, high)
            assert worst_ulp(run(x), reference(x.astype(LONG))) < bound
        x = huge_f64(20000)
        x = x[~np.isnan(reference(x))]
        if x.size:
            assert worst_ulp(run(x), reference(x.astype(LONG))) < bound


SPECIAL: list[tuple[str, float, float]] = [
    ("exp", -inf, 0), ("exp", inf, inf), ("exp", 0, 1), ("exp", 710, inf), ("exp", -746, 0), ("expm1", -inf, -1), ("expm1", inf, inf),  # noqa: E501
    ("expm1", -0.0, -0.0), ("log", 0, -inf), ("log", -0.0, -inf), ("log", -1, nan), ("log", inf, inf), ("log", -inf, nan), ("log", 1, 0),  # noqa: E501
    ("log1p", -1, -inf), ("log1p", -2, nan), ("log1p", inf, inf), ("log1p", -0.0, -0.0), ("sinh", -0.0, -0.0), ("sinh", -inf, -inf),  # noqa: E501
    ("cosh", 0, 1), ("cosh", -inf, inf), ("tanh", -0.0, -0.0), ("tanh", inf, 1), ("tanh", -inf, -1), ("asinh", -0.0, -0.0),  # noqa: E501
    ("asinh", -inf, -inf), ("acosh", 1, 0), ("acosh", 0.5, nan), ("acosh", inf, inf), ("atanh", 1, inf), ("atanh", -1, -inf),  # noqa: E501
    ("atanh", 2, nan), ("atanh", -0.0, -0.0), ("atan", inf, math.pi / 2), ("atan", -0.0, -0.0), ("asin", 1, math.pi / 2),  # noqa: E501
    ("asin", -1, -math.pi / 2), ("asin", 1.5, nan), ("asin", -0.0, -0.0), ("acos", 1, 0), ("acos", -1, math.pi), ("acos", 0, math.pi / 2),  # noqa: E501
    ("acos", -1.5, nan), ("cbrt", -0.0, -0.0), ("cbrt", -inf, -inf), ("cbrt", -27, -3), ("cbrt", 5e-324, 2.0**-358),
]  # fmt: skip


@pytest.mark.parametrize(("name", "x", "want"), SPECIAL)
def test_special_values(name: str, x: float, want: float) -> None:
    got = runner(f"xw_{name}_f64")([x])[0]
    assert got == pytest.approx(want, rel=3e-16, abs=0, nan_ok=True)
    assert math.isnan(want) or math.copysign(1, got) == math.copysign(1, want)
    assert math.isnan(runner(f"xw_{name}_f64")([nan])[0])


@needs_long
def test_atan2() -> None:
    rng = np.random.default_rng(3)
    run = runner("xw_atan2_f64")
    pairs = [rng.normal(size=(2, 40000)), np.stack([huge_f64(40000), rng.permutation(huge_f64(40000))])]
    scale = np.exp2(rng.integers(-1020, 1000, 40000))
    pairs.append(rng.normal(size=(2, 40000)) * scale)
    for y, x in pairs:
        with np.errstate(all="ignore"):
            want = np.arctan2(y.astype(LONG), x.astype(LONG))
        assert worst_ulp(run(y, x), want) < 0.85
    special = np.array([0.0, -0.0, 1, -1, inf, -inf, nan, 5e-324, 1.7e308])
    y, x = (grid.ravel() for grid in np.meshgrid(special, special))
    np.testing.assert_array_max_ulp(run(y, x), np.arctan2(y, x), 1)
    numbers = ~(np.isnan(x) | np.isnan(y))
    np.testing.assert_array_equal(np.signbit(run(y, x))[numbers], np.signbit(np.arctan2(y, x))[numbers])


@needs_long
def test_pow() -> None:
    rng = np.random.default_rng(4)
    run = runner("xw_pow_f64")
    cases = [
        (np.exp2(rng.uniform(-10, 10, 40000)), rng.uniform(-100, 100, 40000)),
        (1 + rng.uniform(-1e-6, 1e-6, 40000), rng.uniform(-1e9, 1e9, 40000)),
        (np.exp2(rng.uniform(-1070, 1020, 40000)), rng.uniform(-2, 2, 40000)),
        (-np.exp2(rng.uniform(-5, 5, 40000)), rng.integers(-60, 60, 40000).astype(float)),
        (1 + rng.uniform(-0.5, 1, 40000), rng.uniform(-1700, 1000, 40000)),
    ]
    for x, y in cases:
        with np.errstate(all="ignore"):
            want = np.power(x.astype(LONG), y.astype(LONG))
        assert worst_ulp(run(x, y), want) < 0.9


@pytest.mark.parametrize("width", ["f32", "f64"])
def test_pow_special(width: str) -> None:
    """Every pair of the interesting values as C's own pow has it."""
    kind = np.float64 if width == "f64" else np.float32
    special = np.array(
        [
            0,
            -0.0,
            1,
            -1,
            2,
            -2,
            0.5,
            -0.5,
            3,
            -3,
            1.5,
            -1.5,
            inf,
            -inf,
            nan,
            1e30,
            -1e30,
            1e-30,
            5e-324,
            9007199254740993,
        ],
        kind,
    )
    x, y = (grid.ravel() for grid in np.meshgrid(special, special))
    got = runner(f"xw_pow_{width}")(x, y)
    with np.errstate(all="ignore"):
        want = np.power(x, y)
    np.testing.assert_array_max_ulp(got, want, 1)
    np.testing.assert_array_equal(np.signbit(got)[~np.isnan(want)], np.signbit(want)[~np.isnan(want)])


def test_pow_f32() -> None:
    rng = np.random.default_rng(6)
    x, y = np.exp2(rng.uniform(-20, 20, 40000)).astype(np.float32), rng.uniform(-8, 8, 40000).astype(np.float32)
    with np.errstate(all="ignore"):
        assert worst_ulp(runner("xw_pow_f32")(x, y), np.power(x.astype(np.float64), y.astype(np.float64))) <= 0.51


@pytest.mark.parametrize(("width", "kind", "bits"), [("f32", np.float32, np.uint32), ("f64", np.float64, np.uint64)])
def test_fmod(width: str, kind: Any, bits: Any) -> None:
    """Bit for bit as C's fmod, on all magnitudes and special values."""
    rng = np.random.default_rng(7)
    top = np.iinfo(bits).max
    x, y = (rng.integers(0, top, 20000, dtype=bits, endpoint=True).view(kind) for _ in range(2))
    with np.errstate(all="ignore"):
        close = (y * rng.uniform(1, 100, y.size)).astype(kind)
    special = np.array(
        [
            0,
            -0.0,
            1,
            -1,
            5.5,
            -5.5,
            inf,
            -inf,
            nan,
            np.finfo(kind).tiny,
            np.finfo(kind).smallest_subnormal,
            np.finfo(kind).max,
        ],
        kind,
    )
    sx, sy = (grid.ravel() for grid in np.meshgrid(special, special))
    for a, b in (
        (x, y),
        (close, y),
        (rng.uniform(-1e6, 1e6, 20000).astype(kind), rng.uniform(0, 9, 20000).astype(kind)),
        (sx, sy),
    ):
        with np.errstate(all="ignore"):
            want = np.fmod(a, b)
        got = runner(f"xw_fmod_{width}")(a, b)
        np.testing.assert_array_equal(got, want)
        numbers = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got)[numbers], np.signbit(want)[numbers])
