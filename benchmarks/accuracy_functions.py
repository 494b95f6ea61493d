"""The true values that benchmarks/accuracy.py compares with, and the arguments of functions that cannot be tried on
all.

They are those of the reference evaluator, in a wider type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xla_wasm.ops.elementwise import reference as elementwise
from xla_wasm.ops.table import OPS

Array = np.ndarray[Any, Any]


def erf_series(x: Array) -> Array:
    """2/sqrt(pi) e^(-a^2) (a + 2a^3/3 + 4a^5/15 + ...), 1 from 6.5 on: no cancellation. a^2 is exact in two parts."""
    a = np.minimum(np.abs(x), 6.5)
    head = a.astype(np.float32).astype(a.dtype)
    rest = a - head
    term = a * np.exp(-head * head) * np.exp(-rest * (2 * head + rest)) / np.sqrt(np.arctan(x.dtype.type(1)))
    total = term.copy()
    n = 0
    while np.any(term > total * np.finfo(x.dtype).eps / 8):
        n += 1
        term = term * (2 * a * a / (2 * n + 1))
        total += term
    return np.copysign(np.where(a < 6.5, total, np.where(np.isnan(a), a, 1)), x)


UNARY: dict[str, Callable[[Array], Array]] = {
    o: fn for o, fn in elementwise.UNARY.items() if "result_accuracy" in OPS[o].defaults
}
BINARY: dict[str, Callable[[Array, Array], Array]] = {o: fn for o, fn in elementwise.BINARY.items() if OPS[o].cost > 1}
ALL = (*UNARY, *BINARY)


def wider(dtype: np.dtype[Any]) -> Any:
    """The type that judges `dtype`."""
    return np.float64 if dtype == np.float32 else np.longdouble


def reference(opcode: str, type_: str) -> Callable[..., Array]:
    """The function on arrays of the wider type."""
    if type_ == "f64" and opcode == "erf":
        return erf_series  # NumPy has none
    return UNARY.get(opcode) or BINARY[opcode]


def samples(opcode: str, dtype: np.dtype[Any], count: int, seed: int) -> list[Array]:
    """One array for each argument: bit patterns, magnitudes spread evenly by exponent, ranges in which functions turn,
    edges."""
    rng = np.random.default_rng(seed)
    if opcode in UNARY:
        return [_mixed(rng, dtype, count)]
    x, y = _mixed(rng, dtype, count), rng.permutation(_mixed(rng, dtype, count))
    third = count // 3
    if opcode == "power":
        # Exponents for which the power is a number: random ones are nearly all infinite, 0 or 1.
        with np.errstate(all="ignore"):
            x[:third] = np.abs(x[:third])
            room = np.log2(float(np.finfo(dtype).max)) / np.abs(np.log2(x[:third].astype(np.float64)))
            y[:third] = (room * rng.uniform(-1.05, 1.05, third)).astype(dtype)
            y[third : 2 * third] = rng.integers(-300, 300, third).astype(dtype)
    else:
        # Arguments of one magnitude.
        y[:third] = (x[:third] * rng.uniform(0.25, 4, third) * rng.choice([-1, 1], third)).astype(dtype)
    return [x, y]


def _mixed(rng: np.random.Generator, dtype: np.dtype[Any], count: int) -> Array:
    bits, most = (32, 150) if dtype == np.float32 else (64, 1080)
    part = count // 8
    patterns = rng.integers(0, 1 << bits, 2 * part, np.dtype(f"u{dtype.itemsize}")).view(dtype)
    spread = np.exp2(rng.uniform(-60, 14, 2 * part)) * rng.choice([-1, 1], 2 * part)
    small = rng.uniform(-2, 2, part)
    moderate = rng.uniform(-1, 1, part) * np.log(float(np.finfo(dtype).max)) * 1.05
    near_one = (1 + np.exp2(rng.uniform(-np.finfo(dtype).nmant, 0, part)) * rng.choice([-1, 1], part)) * rng.choice(
        [-1, 1], part
    )
    quarters = (rng.integers(-(1 << 22), 1 << 22, part // 2) * (np.pi / 4)).astype(dtype)
    powers = np.exp2(rng.integers(-most, most, part // 4).astype(np.float64)) * rng.uniform(0.999, 1.001, part // 4)
    edges = np.array(
        [
            0,
            1,
            2,
            0.5,
            3,
            8,
            np.inf,
            np.nan,
            np.finfo(dtype).tiny,
            np.finfo(dtype).max,
            np.finfo(dtype).smallest_subnormal,
        ]
    )
    parts = [np.concatenate([edges, -edges]), patterns, spread, small, moderate, near_one, quarters, powers]
    with np.errstate(over="ignore"):
        mixed = np.concatenate([p.astype(dtype) for p in parts])
    rest = count - len(mixed)
    return np.concatenate([mixed, rng.integers(-4096, 4096, rest).astype(dtype)])


def checked(opcode: str, type_: str, at: tuple[float, ...]) -> str:
    """The distance of the reference from mpmath's value at `at`, in ulp of `type_`; empty without mpmath."""
    try:
        import mpmath
    except ImportError:
        return ""
    mp = mpmath.mp
    mp.prec = 2400
    others: dict[str, Callable[..., Any]] = {
        "exponential": mp.exp,
        "exponential-minus-one": mp.expm1,
        "log-plus-one": mp.log1p,
        "logistic": lambda x: 1 / (1 + mp.exp(-x)),
        "sine": mp.sin,
        "cosine": mp.cos,
        "rsqrt": lambda x: 1 / mp.sqrt(x),
        "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
        "remainder": lambda x, y: mp.sign(x) * mp.fmod(abs(x), abs(y)),
        "divide": lambda x, y: x / y,
    }
    exact = others.get(opcode) or getattr(mp, opcode)
    dtype: np.dtype[Any] = np.dtype(np.float32 if type_ == "f32" else np.float64)
    wide = wider(dtype)
    value = reference(opcode, type_)(*(np.array([a], wide) for a in at))[0]
    # A long double as the sum of two doubles, of a size that doubles hold.
    mantissa, scale = np.frexp(value)
    head = float(mantissa)
    known = mp.ldexp(mp.mpf(head) + mp.mpf(float(mantissa - wide(head))), int(scale))
    true = exact(*map(mp.mpf, at))
    exponent = max(int(mp.floor(mp.log(abs(true), 2))), int(np.finfo(dtype).minexp))
    return f"{float(abs(known - true) / mp.mpf(2) ** (exponent - np.finfo(dtype).nmant)):.0e}"
