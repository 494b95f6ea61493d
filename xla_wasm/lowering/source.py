"""Arrays in the buffers of a kernel: where their elements lie, and how these are loaded and stored."""

from __future__ import annotations

from typing import Any

from ..dataclass import dataclass
from ..hlo.index_map import IndexMap
from ..hlo.ir import Instruction
from ..hlo.types import REAL_OF, TYPES
from ..loop.affine import ZERO, Affine, Index, delinearize, digit, is_dense, linearize
from ..loop.builder import Builder
from ..loop.ir import Val


def misplaced(x: Instruction) -> AssertionError:
    """The internal error that a kernel is to compute an instruction where it cannot; `plan.fit` should have seen it."""
    return AssertionError(f"{x.where}: planned inside a kernel that cannot compute it there")


@dataclass(frozen=True, slots=True)
class Source:
    """An array in a buffer of the kernel, which begins with its first element: element strides by dimension."""

    number: int
    dtype: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]

    def position(self, index: Index) -> Affine:
        position = ZERO
        for i, stride in zip(index, self.strides):
            if stride:
                position = position + i * stride
        return position

    @property
    def dense(self) -> bool:
        """True if the elements lie in row-major order without gaps."""
        return is_dense(self.dims, self.strides)


def place(m: IndexMap, index: Index) -> Index | None:
    """Returns the index that a map leads to, or None if that would need a division at run time."""
    made = []
    for coordinate in m.coordinates:
        total: Affine | None = None if coordinate is None else Affine(coordinate.offset) if coordinate.offset else ZERO
        for c, d, divisor, size in coordinate.terms if coordinate else ():
            part = index[d] if divisor == 1 and size == m.domain[d] else digit(index[d], divisor, size)
            total = None if total is None or part is None else total + part * c
        if total is None:
            return delinearize(linearize(index, m.domain), m.dims) if m.keeps_order else None
        made.append(total)
    return tuple(made)


"""The type of the two parts of complex numbers, which lie one after the other. As a value a number is the list of
both."""


def load(b: Builder, number: int, position: Affine, dtype: str) -> Val | list[Val]:
    """The element at a position of a buffer, of any type."""
    part = REAL_OF.get(dtype)
    if part is None:
        return b.load(number, position, dtype)
    if _contiguous(b, position, part) and number not in b.written:
        # Two vectors hold both parts of as many numbers as a vector has lanes.
        base = b.pointer(number)
        low, high = (b.load_lanes(base, position * 2 + k * b.lanes, part) for k in range(2))
        return [b.shuffle(low, high, tuple(range(k, 2 * b.lanes, 2))) for k in range(2)]
    return [b.load(number, position * 2 + k, part) for k in range(2)]


def store(b: Builder, number: int, position: Affine, value: Val | list[Val], dtype: str) -> None:
    """Writes the element at a position of a buffer, of any type."""
    part = REAL_OF.get(dtype)
    if part is None or not isinstance(value, list):
        assert isinstance(value, Val)
        b.store(number, position, value, dtype)
        return
    # Both are there before either is written: they may lie where an operand lay.
    pinned = [pin(b, v) for v in value]
    if _contiguous(b, position, part):
        re, im = (b.splat(v, b.lanes) for v in pinned)
        base, half = b.pointer(number), b.lanes // 2
        for k in range(2):
            lanes = tuple(i + side * b.lanes for i in range(k * half, (k + 1) * half) for side in range(2))
            b.store_lanes(base, position * 2 + k * b.lanes, b.shuffle(re, im, lanes), part)
    else:
        for k, v in enumerate(pinned):
            b.store(number, position * 2 + k, v, part)


def pin(b: Builder, value: Any) -> Any:
    """A value computed where it stands; of a complex number both parts."""
    if isinstance(value, list):
        return [pin(b, v) for v in value]
    return value if value.op in ("const", "result", "carry") else b.pin(value)


def _contiguous(b: Builder, position: Affine, part: str) -> bool:
    """Returns True if complex numbers that lie one after the other run along whole vectors."""
    return (
        b.vector is not None
        and position.coefficient(b.vector) == 1
        and not position.values
        and b.lanes * TYPES[part].bytes == 16
    )


@dataclass(slots=True)
class Scratch:
    """A value kept for one row of a row kernel: written when first computed, read from then on.

    `rows` is the number of leading dimensions that the row's loops run over.
    """

    number: int
    rows: int
    filled: bool = False
    touched: bool = False
