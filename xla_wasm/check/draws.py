"""Arguments that are made up for a module: random arrays that reach what the module does with them (`uses.py`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from functools import cached_property
from math import gcd
from typing import Any
from zlib import crc32

import ml_dtypes
import numpy as np

from ..dataclass import dataclass
from ..hlo.ir import Instruction, Module
from ..hlo.shape import Shape
from ..hlo.types import TYPES, limits
from ..host.arrays import Array, dtype_of
from ..host.leaf import Leaf
from ..ops.dtypes import Value, accepted, flattened, nested
from ..ops.hostio.reference import HostSide
from .use import Range, Use, Uses
from .uses import feed_key, uses_of

_OFTEN = 4
"""The number of elements for each value, where values repeat."""
_RARE = 8
"""One in so many elements is special, or an index outside."""
_USUAL = 10
"""Integers of unknown use are below."""
_LARGE = 1024.0
"""The largest of the special numbers: sums and squares of such are no infinities."""


class Kind(Enum):
    """The kinds of arrays: a fault that one hides, another may show."""

    ORDINARY = "ordinary numbers, indices inside their bounds"
    REPEATED = "repeated and sorted numbers and indices"
    EXTREME = "special numbers, indices outside their bounds"
    MIXED = "a mixture"


KINDS = (Kind.ORDINARY, Kind.REPEATED, Kind.EXTREME)
"""The kinds of the first draws; all others are mixtures."""


ATTEMPTS = 4
"""Times that a draw is tried: what programs refuse, or does not end, is drawn otherwise."""


@dataclass(frozen=True, slots=True)
class Draw:
    """One set of arguments of a device. Equal draws of a module are equal arrays."""

    number: int = 0
    seed: int = 0
    device: int = 0
    attempt: int = 0
    """It counts from 0. First, sizes of dynamic dimensions are as the kind says, equal for equal bounds; then the same
    part of each bound; then the bounds. Numbers that steer loops are positive in attempt 1, and above 1 in attempt 2.
    """

    @property
    def kind(self) -> Kind:
        """The kind of its arrays."""
        return KINDS[self.number] if self.number < len(KINDS) else Kind.MIXED

    def __str__(self) -> str:
        return f"draw {self.number + 1} ({self.kind.value})"

    def generator(self, name: str, shared: bool = False) -> np.random.Generator:
        """A generator for one array; if `shared`, the same for all devices."""
        device = 0 if shared else self.device
        return np.random.default_rng((self.seed, self.number, self.attempt, device, crc32(name.encode())))


class Drawing:
    """Draws arrays for a module; for an artifact, which has no module any more, by their types alone."""

    def __init__(self, module: Module | None = None) -> None:
        self._module = module

    @cached_property
    def _uses(self) -> tuple[dict[str, Use], dict[tuple[str, ...], Uses]]:
        return ({}, {}) if self._module is None else uses_of(self._module)

    @property
    def steers(self) -> bool:
        """True if inputs, or what hosts feed, decide how often a loop runs, or must be ordinary for another reason."""
        uses = [*self._uses[0].values(), *(use for own in self._uses[1].values() for use in own)]
        return any(use is not None and use.range is Range.ORDINARY for use in uses)

    def input(self, draw: Draw, name: str, of: Leaf | Shape) -> Array:
        """An array for the input, the weight or the state of that name."""
        bounds = of.dimensions
        dynamic = [s is not None for s in of.sizes] if isinstance(of, Leaf) else of.dynamic
        made = _array(draw, name, of.element_type, bounds, self._uses[0].get(name))
        if not any(dynamic):
            return made
        return made[tuple(slice(_size(draw, b, bounds) if free else b) for b, free in zip(bounds, dynamic))].copy()

    def item(self, draw: Draw, number: int, name: str | None, leaves: Sequence[Leaf | Shape]) -> list[Array]:
        """The arrays of an item that a host feeds, the one of that number; `name` is that of a transfer, None the
        infeed."""
        uses = self._uses[1].get(feed_key(name, leaves)) or [None] * len(leaves)
        return [
            _array(draw, f"{name or ''} {number} {i}", leaf.element_type, leaf.dimensions, use)
            for i, (leaf, use) in enumerate(zip(leaves, uses))
        ]


class MadeUpHost(HostSide):
    """A host that feeds random arrays, whatever is asked for, and keeps both what it has fed and what has come out."""

    def __init__(self, drawing: Drawing, draw: Draw) -> None:
        super().__init__()
        self._drawing, self._draw = drawing, draw
        self.fed: dict[str | None, list[tuple[Array, ...]]] = {}
        self.came: list[tuple[Instruction, list[Array]]] = []
        """The items that came out, each with its instruction."""

    def next(self, instr: Instruction, name: str | None, shape: Shape, precise: bool) -> Value:
        """An item of random arrays; dynamic dimensions have the size of their bounds."""
        leaves = [leaf for _, leaf in shape.leaves()]
        items = self.fed.setdefault(name, [])
        arrays = self._drawing.item(self._draw, len(items), name, leaves)
        items.append(tuple(arrays))
        return nested(shape, iter([accepted(instr.where, leaf, x, precise) for leaf, x in zip(leaves, arrays)]))

    def give(self, instr: Instruction, name: str | None, value: Value) -> None:
        """Keeps it."""
        self.came.append((instr, [np.array(array) for array in flattened(value)]))


def _size(draw: Draw, bound: int, bounds: Iterable[int]) -> int:
    """The size of a dynamic dimension: first the bound, then sizes between, then the other end; zero, too."""
    if draw.attempt > 1 or draw.kind is Kind.ORDINARY or not bound:
        return bound
    if draw.attempt:
        parts = gcd(*bounds)
        return bound // parts * int(draw.generator("sizes", True).integers(1, parts + 1))
    rng = draw.generator(f"size {bound}", True)
    if draw.kind is Kind.EXTREME:
        return int(rng.integers(0, 2))
    return int(rng.integers(1, bound + 1))


def _array(draw: Draw, name: str, element_type: str, dims: tuple[int, ...], use: Use | None) -> Array:
    if use is not None and use.low.shape != dims:  # those of one device, where these are of all
        use = use.like(Shape(element_type, dims))
    allowed = use.range if use is not None else Range.ALL
    rng = draw.generator(name, allowed is Range.ORDINARY)
    kind = draw.kind
    if kind is Kind.MIXED:
        kind = KINDS[int(rng.integers(0, len(KINDS)))]
    element = TYPES[element_type]
    if element.kind == "pred":
        share = 0.5 if kind is Kind.ORDINARY else float(rng.choice([0.125, 0.5, 0.875]))
        values = np.asarray(rng.random(dims) < share)
        if use is not None:
            values = np.where(use.bounded, np.clip(values, use.low, use.high) != 0, values)
        return values.astype(dtype_of(element_type))
    if element.kind in ("signed", "unsigned"):
        return _integers(rng, kind, element_type, dims, use, allowed).astype(dtype_of(element_type))
    values = _floats(rng, kind, element_type, dims, use, allowed)
    if allowed is Range.ORDINARY and draw.attempt in (1, 2) and values.dtype.kind == "f":
        values = np.abs(values) + values.dtype.type(draw.attempt - 1)
    return values


def _integers(
    rng: np.random.Generator, kind: Kind, element_type: str, dims: tuple[int, ...], use: Use | None, allowed: Range
) -> Array:
    least, most = limits(element_type)
    most = min(most, (1 << 63) - 1)
    bits = TYPES[element_type].bits
    usual = (least, most) if bits < 8 else (0, _USUAL - 1)
    low, high = (np.broadcast_to(np.int64(end), dims) for end in usual)
    bounded: Array = np.zeros(dims, bool)
    if use is not None:
        bounded = use.bounded
        low = np.where(bounded, np.clip(use.low, least, most), low)
        high = np.where(bounded, np.clip(use.high, least, most), high)
    high = np.maximum(low, high)
    if kind is not Kind.EXTREME:
        part = _parts(rng, dims) if kind is Kind.REPEATED else rng.random(dims)
        values = low + np.floor(part * (high - low + 1.0)).astype(np.int64)
        return _sorted(rng, np.minimum(values, high), low, high) if kind is Kind.REPEATED else np.minimum(values, high)
    values = np.asarray(rng.integers(low, high, endpoint=True))
    if allowed is Range.ORDINARY or (use is not None and use.strict):
        return values
    span = high - low + 1
    beside = [low - 1, high + 1, low - span, high + span, np.full(dims, least), np.full(dims, most)]
    if bits == 64 and not least:
        beside.append(np.full(dims, -1))  # the greatest of 64 bits
    beside += [np.full(dims, n) for n in (-1, 0, 1)] if least else []
    other = np.choose(rng.integers(0, len(beside), dims), [np.broadcast_to(x, dims) for x in beside])
    if not (bits == 64 and not least):
        other = np.clip(other, least, most)
    return np.where(_some(rng, dims), other, values)


def _floats(
    rng: np.random.Generator, kind: Kind, element_type: str, dims: tuple[int, ...], use: Use | None, allowed: Range
) -> Array:
    dtype = dtype_of(element_type)
    if dtype.kind == "c":
        part = f"f{TYPES[element_type].bits // 2}"
        least = max(allowed, Range.FINITE)  # an infinite part makes products that are not specified
        real, imaginary = (_floats(rng, kind, part, dims, None, least) for _ in range(2))
        return np.asarray(real + 1j * imaginary).astype(dtype)
    values = rng.standard_normal(dims)
    if kind is Kind.REPEATED and allowed is not Range.ORDINARY:
        # No multiples of a fraction: sums of such are often equal or 0, where a last bit decides what comes of them.
        values = values.reshape(-1)[np.floor(_parts(rng, dims) * values.size).astype(np.int64)]
        values = _sorted(rng, np.where(_some(rng, dims), np.copysign(0.0, values), values))
    if element_type == "f8e8m0fnu":
        values = np.exp2(values)
    if use is not None and use.bounded.any():
        inside = use.low + rng.random(dims) * (use.high - use.low + 1.0)
        inside = np.where(use.low == use.high, use.low, inside)
        outside = kind is Kind.EXTREME and not use.strict and allowed is not Range.ORDINARY
        far = np.where(rng.random(dims) < 0.5, use.low - 1.5, use.high + 2.5)
        values = np.where(use.bounded, np.where(_some(rng, dims) & outside, far, inside), values)
    made = np.asarray(values).astype(dtype)
    if kind is not Kind.EXTREME or allowed is Range.ORDINARY or (use is not None and use.strict):
        return made
    info = ml_dtypes.finfo(dtype)
    special: list[Any] = [0.0, -0.0, info.smallest_subnormal, -info.smallest_subnormal, info.smallest_normal]
    special += [-1.0, 1.0, 0.5, min(float(info.max), _LARGE), -min(float(info.max), _LARGE)]
    special += [np.nan, np.inf, -np.inf] if allowed is Range.ALL else []
    chosen = np.array([float(x) for x in special]).astype(dtype)
    if element_type == "f8e8m0fnu":
        chosen = np.array([0.5, 1.0, 2.0, 2.0**-127, 2.0**127]).astype(dtype)
    return np.where(_some(rng, dims), chosen[rng.integers(0, len(chosen), dims)], made).astype(dtype)


def _some(rng: np.random.Generator, dims: tuple[int, ...]) -> Array:
    """A mask of a few elements; of one of them if there are no more."""
    mask = np.asarray(rng.random(dims) < 1 / _RARE)
    if mask.size and not mask.any():
        mask.reshape(-1)[rng.integers(0, mask.size)] = True
    return mask


def _parts(rng: np.random.Generator, dims: tuple[int, ...]) -> Array:
    """Numbers from [0, 1), each several times, and 0 and nearly 1 among them."""
    size = int(np.prod(dims))
    few = np.append(rng.random(max(size // _OFTEN, 1)), [0.0, np.nextafter(1.0, 0.0)])
    return np.asarray(few[rng.integers(0, len(few), dims)])


def _sorted(rng: np.random.Generator, values: Array, *bounds: Array) -> Array:
    """The values, of three arrays two in order: along the longest dimension that has the same bounds throughout."""
    same = [d for d in range(values.ndim) if all((x == x.take([0], d)).all() for x in bounds if x.size)]
    if not same or not values.size or rng.random() < 1 / 3:
        return values
    axis = max(same, key=lambda d: values.shape[d])
    rows = np.sort(values, axis)
    return rows if rng.random() < 0.8 else np.flip(rows, axis)
