"""Random programs that ask for the best of rows: every type, in every order that may mislead a search, read in several
ways."""

from __future__ import annotations

import numpy as np

from xla_wasm.builder import Builder
from xla_wasm.hlo.attrs import SliceDimension
from xla_wasm.hlo.ir import Instruction, Module
from xla_wasm.ops.dtypes import Array
from xla_wasm.ops.sample import array, shape

TYPES = ("f32", "f32", "f32", "f64", "s32", "u32", "s64", "u64", "s8", "u8", "s16", "u16", "pred", "bf16", "f16")
ORDERS = ("random", "rising", "falling", "equal", "few", "periodic", "columns", "extreme", "negative")


def _numbers(rng: np.random.Generator, order: str, rows: int, length: int, k: int) -> Array:
    place, period = np.arange(length), max(1, 4 * k)
    made = {
        "random": lambda: rng.integers(-(10**6), 10**6, (rows, length)),
        "rising": lambda: place - length // 2,
        "falling": lambda: length // 2 - place,
        "equal": lambda: np.full(length, rng.integers(-3, 4)),
        "few": lambda: rng.integers(-2, 3, (rows, length)),
        "periodic": lambda: place % period,
        "columns": lambda: place % period * length + place,
        "extreme": lambda: rng.choice([-(2**62), 2**62, 0, 1, -1], (rows, length)),
        "negative": lambda: -1 - rng.integers(0, 10**6, (rows, length)),
    }[order]()
    return np.array(np.broadcast_to(made, (rows, length)))


def _elements(rng: np.random.Generator, dtype: str, numbers: Array) -> Array:
    """The numbers in a type, and where it has them NaNs of both signs, infinities and both zeros among them."""
    target = array(dtype, 0).dtype
    if dtype == "pred":
        return numbers % 2 == 0
    if dtype[0] in "su":
        info = np.iinfo(target)
        share = np.clip(numbers, info.min, info.max).astype(target)
        some = rng.random(numbers.shape) < 0.02 * rng.integers(0, 2)
        return np.where(some, rng.choice(np.array([info.min, info.max], target), numbers.shape), share)
    with np.errstate(over="ignore"):
        made = numbers.astype(np.float64).astype(target)
    some = rng.random(numbers.shape) < rng.choice([0, 0, 0.01, 0.3, 1])
    special = np.array([np.nan, np.copysign(np.nan, -1), np.inf, -np.inf, 0.0, -0.0]).astype(target)
    return np.where(some, rng.choice(special, numbers.shape), made).astype(target)


def _read(
    rng: np.random.Generator, b: Builder, p: Instruction, rows: int, length: int, dtype: str
) -> tuple[Instruction, int]:
    """The parameter seen in some way, and how long its rows are then."""
    way = rng.integers(0, 6)
    if way == 1:
        return b.op("reverse", p, dimensions=(1,)), length
    if way == 2 and length > 40:
        first = int(rng.integers(1, 9))
        return b.op("slice", p, slice=(SliceDimension(0, rows, 1), SliceDimension(first, length, 1))), length - first
    if way == 3 and length > 80:
        return b.op("slice", p, slice=(SliceDimension(0, rows, 1), SliceDimension(0, length, 2))), -(-length // 2)
    if way == 4 and dtype != "pred":
        return b.op("negate", p), length
    if way == 5:
        return b.op("select", b.op("compare", p, p, direction="EQ"), p, p), length
    return p, length


def random_topk(seed: int) -> tuple[Module, list[Array]]:
    """A program with one topk, and its arguments."""
    rng = np.random.default_rng(seed)
    dtype = str(rng.choice(TYPES))
    rows, length = (
        int(rng.integers(1, 4)),
        int(rng.choice([rng.integers(1, 100), rng.integers(32, 700), rng.integers(700, 5000)])),
    )
    k = int(min(length, rng.choice([1, 2, rng.integers(1, 20), rng.integers(1, max(2, length // 4)), length])))
    x = _elements(rng, dtype, _numbers(rng, str(rng.choice(ORDERS)), rows, length, k))
    b = Builder("best")
    p = b.parameter(0, shape(f"{dtype}[{rows},{length}]"))
    seen, length = _read(rng, b, p, rows, length, dtype)
    best = b.op("topk", seen, k=min(k, length), largest=bool(rng.integers(0, 2)))
    return b.module(best), [x]
