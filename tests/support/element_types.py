"""Modules of one expression, and arrays of small types, for tests of element types."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.support.small_modules import module_of
from xla_wasm.hlo import float_codes
from xla_wasm.hlo.ir import Module
from xla_wasm.hlo.types import SMALL_FLOATS, TYPES
from xla_wasm.ops.dtypes import DTYPES, Array
from xla_wasm.ops.sample import shape

BELOW_A_BYTE = ("s1", "s2", "s4", "u1", "u2", "u4")
IN_XLA = tuple(t for t in SMALL_FLOATS if t[:2] not in ("f6", "f4"))
"""Small floats that XLA:CPU of jaxlib 0.10.2 knows and stores as bytes."""


def conversion(x: Array, target: str) -> Module:
    return module_of(lambda b, p: b.op("convert", p, shape=shape(f"{target}[{len(x)}]")), x)


def codes(element_type: str) -> Array:
    """Every value of a type of at most 16 bits, by its code."""
    dtype = DTYPES[element_type]
    count = 65536 if dtype.itemsize == 2 else len(float_codes.values(element_type))
    return np.arange(count).astype(f"u{dtype.itemsize}").view(dtype)


def bits(x: Array) -> Array:
    """The codes, one for all NaNs."""
    found = x.view(f"u{x.dtype.itemsize}").astype(np.int64)
    return np.where(np.isnan(x.astype(np.float64)), -1, found)


def boundaries(element_type: str, source: Any) -> Array:
    """Around every place where rounding changes sides, beyond the greatest value, specials, and random bits."""
    values = codes(element_type).astype(np.float64)
    values = np.unique(values[np.isfinite(values)])
    middle = (values[1:] + values[:-1]) / 2
    middle = np.concatenate([middle, values[-1] * np.array([1.01, 1.03, 1.0625, 1.125, 1.25, 1.5, 2, 4])]).astype(
        source
    )
    near = [
        middle,
        np.nextafter(middle, source(np.inf)),
        np.nextafter(middle, source(-np.inf)),
        -middle,
        middle * source(1 + 2.0**-20),
    ]
    special = np.array([np.inf, -np.inf, np.nan, -np.nan, 0.0, -0.0, 1e-45, -1e-45, 3e38, -3e38], source)
    random = np.random.default_rng(1).integers(0, 2**32, 20000).astype(np.uint32).view(np.float32).astype(source)
    return np.concatenate([*near, special, random, values.astype(source)])


def nearest(element_type: str, x: Array) -> Array:
    """The codes (as of `bits`) of numbers rounded once to a type that has infinities, ties to even, by exact
    comparisons in f64."""
    values = codes(element_type)[: 1 << TYPES[element_type].bits - 1].astype(np.float64)
    values = values[np.isfinite(values)]
    # What lies beyond the greatest number is as far from it as that is from the number before.
    middle = np.append((values[1:] + values[:-1]) / 2, values[-1] + (values[-1] - values[-2]) / 2)
    size = np.abs(x)
    code = np.searchsorted(middle, size)
    code = np.where(np.isin(size, middle), code + code % 2, code) + (np.signbit(x) << TYPES[element_type].bits - 1)
    return np.where(np.isnan(x), -1, code)


def without_nan(element_type: str, x: Array) -> Array:
    """Types without NaN give something unspecified for it."""
    return x[~np.isnan(x)] if float_codes.FORMATS.get(element_type, (0, 0, 0, ""))[3] == "finite" else x


def bounds(element_type: str) -> tuple[int, int]:
    """The least integer of a type, and the first above the greatest."""
    width = TYPES[element_type].bits
    return (-(1 << width - 1), 1 << width - 1) if element_type[0] == "s" else (0, 1 << width)
