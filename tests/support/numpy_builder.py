"""A loop builder that computes on NumPy arrays: what wasm would give for the same calls, with `fma` unfused or
fused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from xla_wasm.ops.dtypes import DTYPES

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Value:
    """An array with the HLO name of its type."""

    array: Array
    dtype: str


def _round_to_odd_sum(x: Array, y: Array) -> Array:
    """x + y in f64, the last bit forced to 1 when inexact: rounding that to f32 is rounding the exact sum."""
    s = x + y
    t = s - x
    error = (x - (s - t)) + (y - t)
    bits = s.view(np.int64)
    even = (bits & 1) == 0
    toward = np.where((error > 0) == (s > 0), bits + 1, bits - 1)
    fix = np.isfinite(s) & (error != 0) & even
    return np.where(fix, toward, bits).view(np.float64)


def _two_product(x: Array, y: Array) -> tuple[Array, Array]:
    """The product of f64 and its rounding error, by Dekker's splitting."""
    high = x * y

    def halves(v: Array) -> tuple[Array, Array]:
        t = v * 134217729.0
        h = t - (t - v)
        return h, v - h

    (xh, xl), (yh, yl) = halves(x), halves(y)
    return high, ((xh * yh - high) + xh * yl + xl * yh) + xl * yl


def _fused(x: Array, y: Array, z: Array) -> Array:
    """x * y + z with one rounding: exact for f32; for f64 within a hair of it away from the ends of the range."""
    if x.dtype == np.float32:
        wide = [np.asarray(v, np.float64) for v in np.broadcast_arrays(x, y, z)]
        return _round_to_odd_sum(wide[0] * wide[1], wide[2]).astype(np.float32)
    plain = x * y + z
    high, low = _two_product(x, y)
    s = high + z
    t = s - high
    error = (high - (s - t)) + (z - t)
    exact = s + (error + low)
    usable = np.isfinite(exact) & (np.abs(high) > 1e-280) & (np.abs(x) < 1e290) & (np.abs(y) < 1e290)
    return np.where(usable, exact, plain)


def _make(array: Array, dtype: str) -> Value:
    assert array.dtype == DTYPES[dtype], (array.dtype, dtype)
    return Value(array, dtype)


def _of_one(operation: Callable[..., Any]) -> Callable[..., Value]:
    """A method that applies a function of NumPy to an array."""

    def method(self: NumpyBuilder, x: Value) -> Value:
        return _make(operation(x.array), x.dtype)

    return method


def _of_two(operation: Callable[..., Any], dtype: str = "") -> Callable[..., Value]:
    """A method that applies a function of NumPy to two arrays of a type; the result has that type or another."""

    def method(self: NumpyBuilder, x: Value, y: Value) -> Value:
        assert x.dtype == y.dtype, (x.dtype, y.dtype)
        return _make(operation(x.array, y.array), dtype or x.dtype)

    return method


class NumpyBuilder:
    """`fused` selects the kind of fma; `functions` are the C symbols that `call` and `slow_path` may use."""

    def __init__(self, fused: bool, functions: dict[str, Callable[..., Any]] | None = None) -> None:
        self.fused = fused
        self.functions = functions or {}

    def value(self, array: Any, dtype: str) -> Value:
        return Value(np.asarray(array, DTYPES[dtype]), dtype)

    def const(self, dtype: str, number: float | int | bool) -> Value:
        if dtype in ("u32", "s32", "u64", "s64"):
            width = int(dtype[1:])
            return self.bits(dtype, int(number) & ((1 << width) - 1))
        return Value(np.asarray([number], np.float64).astype(DTYPES[dtype]), dtype)

    def bits(self, dtype: str, pattern: int) -> Value:
        unsigned = np.uint64 if "64" in dtype else np.uint32
        return Value(np.asarray([pattern], unsigned).view(DTYPES[dtype]), dtype)

    neg = _of_one(np.negative)
    abs = _of_one(np.abs)
    sqrt = _of_one(np.sqrt)
    floor = _of_one(np.floor)
    ceil = _of_one(np.ceil)
    trunc = _of_one(np.trunc)
    nearest = _of_one(np.rint)
    not_ = _of_one(np.invert)

    add = _of_two(np.add)
    sub = _of_two(np.subtract)
    mul = _of_two(np.multiply)
    div = _of_two(np.divide)
    copysign = _of_two(np.copysign)
    and_ = _of_two(np.bitwise_and)
    or_ = _of_two(np.bitwise_or)
    xor = _of_two(np.bitwise_xor)

    eq = _of_two(np.equal, "pred")
    ne = _of_two(np.not_equal, "pred")
    lt = _of_two(np.less, "pred")
    le = _of_two(np.less_equal, "pred")
    gt = _of_two(np.greater, "pred")
    ge = _of_two(np.greater_equal, "pred")

    def min(self, x: Value, y: Value) -> Value:
        least = np.minimum(x.array, y.array)
        negative = np.signbit(x.array) | np.signbit(y.array)
        return _make(np.where((least == 0) & negative, -np.abs(least), least), x.dtype)

    def max(self, x: Value, y: Value) -> Value:
        greatest = np.maximum(x.array, y.array)
        positive = ~np.signbit(x.array) | ~np.signbit(y.array)
        return _make(np.where((greatest == 0) & positive, np.abs(greatest), greatest), x.dtype)

    def pmin(self, x: Value, y: Value) -> Value:
        return _make(np.where(y.array < x.array, y.array, x.array), x.dtype)

    def pmax(self, x: Value, y: Value) -> Value:
        return _make(np.where(x.array < y.array, y.array, x.array), x.dtype)

    def fma(self, x: Value, y: Value, z: Value) -> Value:
        assert x.dtype == y.dtype == z.dtype
        return _make(_fused(x.array, y.array, z.array), x.dtype) if self.fused else self.add(self.mul(x, y), z)

    def fnma(self, x: Value, y: Value, z: Value) -> Value:
        return self.fma(self.neg(x), y, z)

    def bitcast(self, x: Value, dtype: str) -> Value:
        return Value(np.ascontiguousarray(x.array).view(DTYPES[dtype]), dtype)

    def convert(self, x: Value, dtype: str) -> Value:
        if x.dtype[0] == "f" and dtype[0] in "su":
            info = np.iinfo(dtype.replace("s", "int").replace("u", "uint"))
            whole = np.trunc(np.nan_to_num(x.array.astype(np.longdouble), nan=0.0, posinf=np.inf, neginf=-np.inf))
            return Value(np.clip(whole, info.min, info.max).astype(DTYPES[dtype]), dtype)
        return Value(x.array.astype(DTYPES[dtype]), dtype)

    def andnot(self, x: Value, y: Value) -> Value:
        return self.and_(x, self.not_(y))

    def _shift(self, operation: Callable[..., Any], x: Value, amount: int, kind: str) -> Value:
        width = x.dtype[1:]
        integer = self.bitcast(x, kind + width).array
        return self.bitcast(Value(operation(integer, integer.dtype.type(amount)), kind + width), x.dtype)

    def shl(self, x: Value, amount: int) -> Value:
        return self._shift(np.left_shift, x, amount, "u")

    def shr_s(self, x: Value, amount: int) -> Value:
        return self._shift(np.right_shift, x, amount, "s")

    def shr_u(self, x: Value, amount: int) -> Value:
        return self._shift(np.right_shift, x, amount, "u")

    def select(self, condition: Value, x: Value, y: Value) -> Value:
        assert condition.dtype == "pred" and x.dtype == y.dtype
        return _make(np.where(condition.array, x.array, y.array), x.dtype)

    def call(self, symbol: str, *args: Value) -> Value:
        result = self.functions[symbol](*(a.array for a in args))
        return Value(np.asarray(result).astype(DTYPES[args[0].dtype]), args[0].dtype)

    def slow_path(self, mask: Value, fast: Value, symbol: str, *args: Value) -> Value:
        return self.select(mask, self.call(symbol, *args), fast)
