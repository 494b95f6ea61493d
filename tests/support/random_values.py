"""Tools to draw random programs: choices, values that know how large they may be, and a computation that grows.

Floats hold small whole numbers. `Draw` makes every choice; hypothesis or a seed is behind it. Every value carries a
bound on its magnitude, so that sums and products stay exact in any order; where that cannot be, an operation is passed
over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeVar

import ml_dtypes
import numpy as np

from xla_wasm.builder import Builder
from xla_wasm.hlo.ir import Instruction
from xla_wasm.hlo.shape import Shape
from xla_wasm.hlo.types import TYPES
from xla_wasm.ops.dtypes import DTYPES, Array

T = TypeVar("T")

SMALL_FLOATS = tuple(name for name, t in TYPES.items() if t.kind == "float" and t.bits <= 16 and name != "f8e8m0fnu")
"""Without the type that has neither zero nor negative numbers."""
FLOATS = ("f32", "f64", *SMALL_FLOATS)
INTEGERS = ("s32", "u8", "s8", "u32", "s64", "s16", "u16", "u64", "s4", "u4", "s2", "u2", "s1", "u1")
COMPLEX = ("c64", "c128")
USUAL = ("f32", "f64", "s32", "u8", "s8", "u32", "s64", "s16", "u16", "u64", "pred")
REAL = (*FLOATS, *INTEGERS)
ALL = (*USUAL, *(t for t in (*REAL, *COMPLEX) if t not in USUAL))
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 16, 17)
MOST_ELEMENTS = 600


class Draw:
    """Choices out of small ranges; the first alternatives are the simplest."""

    def __init__(self, integer: Callable[[int, int], int]):
        self.integer = integer

    def pick(self, items: Sequence[T]) -> T:
        return items[self.integer(0, len(items) - 1)]

    def chance(self, one_in: int) -> bool:
        return self.integer(1, one_in) == one_in

    def permutation(self, count: int) -> tuple[int, ...]:
        rest = list(range(count))
        return tuple(rest.pop(self.integer(0, len(rest) - 1)) for _ in range(count))

    def subset(self, items: Sequence[T]) -> tuple[T, ...]:
        return tuple(x for x in items if self.chance(2))

    def type(self) -> str:
        """An element type, most likely a usual one."""
        return self.pick(ALL) if self.chance(3) else self.pick(USUAL)


@dataclass(frozen=True, slots=True)
class Value:
    """An array and a bound on the magnitude of its elements (0 for types that wrap)."""

    x: Instruction
    bound: float

    @property
    def dtype(self) -> str:
        return self.x.shape.element_type

    @property
    def dims(self) -> tuple[int, ...]:
        return self.x.shape.dimensions


class Skip(Exception):
    """A drawn operation has no exact result or no sensible shape."""


def is_float(dtype: str) -> bool:
    return TYPES[dtype].kind == "float"


def is_rounded(dtype: str) -> bool:
    """Returns true if the type holds whole numbers exactly up to a limit only."""
    return TYPES[dtype].kind in ("float", "complex")


def exact(dtype: str) -> float:
    """Up to where whole numbers, and their sums in any order, are exact in a type (f32 with room for a few more
    sums)."""
    if not is_rounded(dtype) or dtype in ("f32", "f64", *COMPLEX):
        return 2.0**20
    info = ml_dtypes.finfo(DTYPES[dtype])
    return min(2.0 ** (info.nmant + 1), float(info.max) // 1)


def usual_bound(dtype: str) -> int:
    """Returns the greatest magnitude of made-up values of a type."""
    return 8 if exact(dtype) > 100 else 2


class Program:
    """A computation that grows by random operations, each a function that appends to a program or raises Skip."""

    sizes: Sequence[int] = SIZES
    most_elements = MOST_ELEMENTS

    def __init__(self, operations: Sequence[Callable[[Program], None]], draw: Draw, name: str = "main", depth: int = 0):
        self.operations = operations
        self.draw = draw
        self.b = Builder(name)
        self.depth = depth
        self.values: list[Value] = []
        self.results: list[Instruction] = []
        """Further results beside values: arrays with dynamic dimensions."""

    def keep(self, x: Instruction, bound: float) -> Value:
        if bound > exact(x.shape.element_type) or prod(x.shape.dimensions) > 4 * self.most_elements:
            raise Skip
        value = Value(x, bound)
        self.values.append(value)
        return value

    def attempt(self, operation: Callable[[Program], None]) -> None:
        """Appends an operation, or nothing where it does not fit."""
        mark, known, results = len(self.b.instructions), len(self.values), len(self.results)
        try:
            operation(self)
        except Skip:
            del self.b.instructions[mark:], self.values[known:], self.results[results:]

    def grow(self, count: int) -> None:
        """Appends up to `count` random operations."""
        for _ in range(count):
            self.attempt(self.draw.pick(self.operations))

    # --- operands -----------------------------------------------------------------------------------------------

    def any(self, types: Sequence[str] = ALL, rank: int = 0) -> Value:
        """One of the values, most likely a late one."""
        found = [v for v in self.values if v.dtype in types and len(v.dims) >= rank]
        if not found:
            raise Skip
        return found[-1 - min(self.draw.integer(0, len(found) - 1), self.draw.integer(0, len(found) - 1))]

    def like(self, v: Value, dtype: str = "") -> Value:
        """A value of the same dimensions (and type, if not given): another one, a broadcast scalar, or a constant."""
        dtype = dtype or v.dtype
        found = [w for w in self.values if w.dims == v.dims and w.dtype == dtype]
        if found and not self.draw.chance(4):
            return self.draw.pick(found[::-1])
        scalars = [w for w in self.values if not w.dims and w.dtype == dtype]
        s = self.draw.pick(scalars) if scalars and self.draw.chance(2) else self.scalar(dtype)
        return Value(self.b.broadcast(s.x, v.dims), s.bound) if v.dims else s

    def scalar(self, dtype: str) -> Value:
        number = self.draw.pick((0, 1, 2, 3, -1, -2, 5)) if dtype != "pred" else self.draw.pick((0, 1))
        if TYPES[dtype].kind == "unsigned":
            number = abs(number)
        if exact(dtype) < 100:
            number = max(-2, min(2, number))
        if TYPES[dtype].bits < 8 and not is_rounded(dtype) and dtype != "pred":
            info = ml_dtypes.iinfo(DTYPES[dtype])
            number = max(int(info.min), min(int(info.max), number))
        return Value(self.b.constant(number, dtype), abs(number))

    def index(self, limit: int) -> Value:
        """A scalar index, perhaps out of range."""
        found = [v for v in self.values if not v.dims and v.dtype in INTEGERS]
        if found and self.draw.chance(2):
            return self.draw.pick(found)
        dtype = self.draw.pick(("s32", "u32", "s64"))
        low = 0 if dtype == "u32" else -2
        return Value(self.b.constant(self.draw.integer(low, limit + 2), dtype), 0)

    def dims(self, most_rank: int = 4) -> tuple[int, ...]:
        sizes = tuple(self.draw.pick(self.sizes) for _ in range(self.draw.integer(0, most_rank)))
        return sizes if prod(sizes) <= self.most_elements else sizes[:2]

    def literal(self, dims: tuple[int, ...], dtype: str) -> Value:
        """A constant array of varied values."""
        data = values(self.draw.integer(0, 9), dims, dtype)
        return Value(self.b.constant(Shape(dtype, dims), data.reshape(-1).tolist()), usual_bound(dtype))


def values(seed: int, dims: tuple[int, ...], dtype: str) -> Array:
    """An array of small numbers that are exact in every type."""
    rng = np.random.default_rng(seed)
    if dtype == "pred":
        return rng.integers(0, 2, dims).astype(np.bool_)
    bound = usual_bound(dtype)
    if dtype in COMPLEX:
        return (rng.integers(-bound, bound + 1, dims) + 1j * rng.integers(-bound, bound + 1, dims)).astype(
            DTYPES[dtype]
        )
    if is_float(dtype):
        return rng.integers(-bound, bound + 1, dims).astype(DTYPES[dtype])
    if TYPES[dtype].bits < 8:
        info = ml_dtypes.iinfo(DTYPES[dtype])
        return rng.integers(int(info.min), int(info.max) + 1, dims).astype(np.int8).astype(DTYPES[dtype])
    info = np.iinfo(DTYPES[dtype])
    small = rng.integers(0 if info.min == 0 else -9, 10, dims)
    wild = rng.integers(info.min, info.max, dims, DTYPES[dtype], endpoint=True)
    return (
        np.where(rng.random(dims) < 0.9, small, wild).astype(DTYPES[dtype]) if seed % 2 else small.astype(DTYPES[dtype])
    )
