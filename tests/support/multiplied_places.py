"""Origins of a function's operands, and uses of its results: parts of larger arrays, arrays in another order, arrays
that are put together."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tests.support.multiplied import contiguous
from tests.support.random_values import values
from xla_wasm.builder import Builder
from xla_wasm.hlo.attrs import GatherDimensionNumbers, PaddingDimension, SliceDimension
from xla_wasm.hlo.ir import Instruction
from xla_wasm.hlo.shape import Shape
from xla_wasm.hlo.types import TYPES
from xla_wasm.ops.dtypes import Array

Arrays = tuple[tuple[Array, str], ...]
"""Arrays that become parameters, and their element types where these are not the operand's."""


@dataclass(frozen=True)
class View:
    """An array computed from others."""

    arrays: Arrays
    write: Callable[[Builder, Sequence[Instruction]], Instruction]
    read: Callable[[Sequence[Array]], Array]


@dataclass(frozen=True)
class Place:
    """Arrays computed from a result, and from others."""

    arrays: Arrays
    write: Callable[[Builder, Instruction, Sequence[Instruction]], list[Instruction]]
    read: Callable[[Array, Sequence[Array]], list[Array]]


def whole(a: Array) -> View:
    return View(((a, ""),), lambda b, p: p[0], lambda p: p[0])


def alone() -> Place:
    return Place((), lambda b, x, p: [x], lambda y, p: [y])


def _filled(choose: random.Random, a: Array, dims: Sequence[int]) -> Array:
    """An array of other sizes with the elements of `a`."""
    if not a.size:
        return np.zeros(dims, a.dtype)
    order = np.random.default_rng(choose.randrange(1000)).integers(0, a.size, tuple(dims))
    return np.asarray(a.reshape(-1)[order])


def _sliced(choose: random.Random, a: Array, dtype: str) -> View:
    cuts = []
    for d in a.shape:
        stride = choose.choice((1, 1, 1, 2, 3)) if d else 1
        low, high = choose.choice((0, 1, 4, 7)), choose.choice((0, 1, 3, 8))
        cuts.append((low, low + max(d - 1, 0) * stride + min(d, 1), high, stride))
    large = _filled(choose, a, [limit + high for _, limit, high, _ in cuts])
    part = tuple(slice(low, limit, stride) for low, limit, _, stride in cuts)
    large[part] = a
    dims = tuple(SliceDimension(low, limit, stride) for low, limit, _, stride in cuts)
    return View(((large, ""),), lambda b, p: b.op("slice", p[0], slice=dims), lambda p: p[0][part])


def _transposed(choose: random.Random, a: Array, dtype: str) -> View:
    order = choose.sample(range(a.ndim), a.ndim)
    back = np.argsort(order)
    turned = contiguous(np.transpose(a, back)) if a.ndim else a
    return View(((turned, ""),), lambda b, p: b.transpose(p[0], order), lambda p: contiguous(np.transpose(p[0], order)))


def _reversed(choose: random.Random, a: Array, dtype: str) -> View:
    dims = tuple(d for d in range(a.ndim) if choose.random() < 0.6)
    return View(
        ((contiguous(np.flip(a, dims)), ""),),
        lambda b, p: b.op("reverse", p[0], dimensions=dims),
        lambda p: contiguous(np.flip(p[0], dims)),
    )


def _reshaped(choose: random.Random, a: Array, dtype: str) -> View:
    dims = a.shape
    options = [(a.size,), (1, *dims), (*dims, 1)]
    for d, n in enumerate(dims):
        options += [(*dims[:d], k, n // k, *dims[d + 1 :]) for k in (2, 3, 4, 8) if n and n % k == 0]
    before = choose.choice(options)
    return View(((a.reshape(before), ""),), lambda b, p: b.reshape(p[0], dims), lambda p: p[0].reshape(dims))


def _joined(choose: random.Random, a: Array, dtype: str) -> View:
    if not a.ndim:
        return whole(a)
    d = choose.randrange(a.ndim)
    cut = choose.randint(0, a.shape[d])
    parts = [contiguous(part) for part in np.split(a, [cut], d)]
    return View(
        tuple((part, "") for part in parts),
        lambda b, p: b.concatenate(*p, dimension=d),
        lambda p: np.concatenate(list(p), d),
    )


def _padded(choose: random.Random, a: Array, dtype: str) -> View:
    low = [choose.randint(0, min(2, d)) for d in a.shape]
    high = [choose.randint(0, min(2, d - m)) for d, m in zip(a.shape, low)]
    inside = tuple(slice(m, d - n) for d, m, n in zip(a.shape, low, high))
    value = np.asarray(a.reshape(-1)[0] if a.size else np.zeros((), a.dtype))
    padding = tuple(PaddingDimension(m, n) for m, n in zip(low, high))

    def read(p: Sequence[Array]) -> Array:
        made = np.full(a.shape, p[1], a.dtype)
        made[inside] = p[0]
        return made

    part = contiguous(a[inside]).reshape(a[inside].shape)
    return View(((part, ""), (value, "")), lambda b, p: b.op("pad", *p, padding=padding), read)


def _spread(choose: random.Random, a: Array, dtype: str) -> View:
    """The same along some dimensions."""
    kept = [d for d in range(a.ndim) if choose.random() < 0.5 or not a.shape[d]]
    small = np.array(a[tuple(slice(None) if d in kept else 0 for d in range(a.ndim))])
    wide = [a.shape[d] if d in kept else 1 for d in range(a.ndim)]
    return View(
        ((small, ""),),
        lambda b, p: b.broadcast(p[0], a.shape, kept),
        lambda p: contiguous(np.broadcast_to(p[0].reshape(wide), a.shape)),
    )


def _cut_at(choose: random.Random, a: Array, dtype: str) -> View:
    """A dynamic slice."""
    large = _filled(choose, a, [d + choose.choice((0, 1, 5)) for d in a.shape])
    starts = [np.asarray(choose.randint(-1, big - d + 1), np.int32) for big, d in zip(large.shape, a.shape)]

    def read(p: Sequence[Array]) -> Array:
        clamped = [max(0, min(int(s), big - d)) for s, big, d in zip(p[1:], p[0].shape, a.shape)]
        return contiguous(p[0][tuple(slice(s, s + d) for s, d in zip(clamped, a.shape))]).reshape(a.shape)

    def write(b: Builder, p: Sequence[Instruction]) -> Instruction:
        return b.op("dynamic-slice", *p, dynamic_slice_sizes=a.shape) if a.ndim else p[0]

    return View(((large, ""), *((s, "s32") for s in starts)), write, read)


def _looked_up(choose: random.Random, a: Array, dtype: str) -> View:
    """Rows of a table."""
    if not a.ndim or not a.shape[0]:
        return whole(a)
    count, rest = a.shape[0], a.shape[1:]
    table = _filled(choose, a, (count + choose.choice((0, 2, 5)), *rest))
    rows = np.random.default_rng(choose.randrange(1000)).integers(-1, table.shape[0] + 1, count).astype(np.int32)
    numbers = GatherDimensionNumbers(tuple(range(1, a.ndim)), (0,), (0,), 1)

    def write(b: Builder, p: Sequence[Instruction]) -> Instruction:
        return b.op("gather", *p, gather_dimension_numbers=numbers, slice_sizes=(1, *rest))

    return View(((table, ""), (rows, "s32")), write, lambda p: p[0][np.clip(p[1], 0, p[0].shape[0] - 1)])


def _chosen(choose: random.Random, a: Array, dtype: str) -> View:
    other = _filled(choose, a, a.shape)
    mask = np.asarray(np.random.default_rng(choose.randrange(1000)).integers(0, 2, a.shape), np.bool_)
    return View(((mask, "pred"), (a, ""), (other, "")), lambda b, p: b.select(*p), lambda p: np.where(p[0], p[1], p[2]))


VIEWS = (
    *(_sliced, _sliced, _transposed, _reversed, _reshaped, _joined, _padded, _spread, _cut_at, _looked_up, _chosen),
)


def view(choose: random.Random, a: Array, dtype: str) -> View:
    """Any of these ways to come by an argument like `a`."""
    return choose.choice(VIEWS)(choose, a, dtype)


# --- results ----------------------------------------------------------------------------------------------------------


def _others(choose: random.Random, shape: Shape, dims: Sequence[int]) -> Array:
    return np.asarray(values(choose.randrange(10), tuple(dims), shape.element_type))


def _updated(choose: random.Random, shape: Shape) -> Place:
    """Written into a larger array."""
    dims = shape.dimensions
    large = _others(choose, shape, [d + choose.choice((0, 1, 5, 8)) for d in dims])
    starts = [np.asarray(choose.randint(-1, big - d + 1), np.int32) for big, d in zip(large.shape, dims)]

    def read(y: Array, p: Sequence[Array]) -> list[Array]:
        made = np.array(p[0])
        clamped = [max(0, min(int(s), big - d)) for s, big, d in zip(p[1:], p[0].shape, dims)]
        made[tuple(slice(s, s + d) for s, d in zip(clamped, dims))] = y
        return [made]

    def write(b: Builder, x: Instruction, p: Sequence[Instruction]) -> list[Instruction]:
        return [b.op("dynamic-update-slice", p[0], x, *p[1:])]

    def written(b: Builder, x: Instruction, p: Sequence[Instruction]) -> list[Instruction]:
        return [b.op("dynamic-update-slice", p[0], x, *(b.constant(int(s), "s32") for s in starts))]

    if choose.random() < 0.5:
        return Place(((large, ""),), written, lambda y, p: read(y, [p[0], *starts]))
    return Place(((large, ""), *((s, "s32") for s in starts)), write, read)


def _beside(choose: random.Random, shape: Shape) -> Place:
    """Concatenated with others."""
    if not shape.rank:
        return _updated(choose, shape)
    d = choose.randrange(shape.rank)
    counts = [choose.choice((0, 1, 3, 8)) for _ in range(2)]
    arrays = [_others(choose, shape, (*shape.dimensions[:d], n, *shape.dimensions[d + 1 :])) for n in counts]
    return Place(
        tuple((a, "") for a in arrays),
        lambda b, x, p: [b.concatenate(p[0], x, p[1], dimension=d)],
        lambda y, p: [np.concatenate([p[0], y, p[1]], d)],
    )


def _surrounded(choose: random.Random, shape: Shape) -> Place:
    edges = [tuple(choose.choice((0, 1, 3)) for _ in range(2)) for _ in range(shape.rank)]
    inner = [choose.choice((0, 0, 0, 1)) for _ in range(shape.rank)]
    value = np.asarray(_others(choose, shape, ()))
    padding = tuple(PaddingDimension(m, n, i) for (m, n), i in zip(edges, inner))

    def read(y: Array, p: Sequence[Array]) -> list[Array]:
        spans = [max(0, d + (d - 1) * i) for d, i in zip(y.shape, inner)]
        made = np.full([m + s + n for s, (m, n) in zip(spans, edges)], p[0], y.dtype)
        made[tuple(slice(m, m + s, i + 1) for s, (m, _), i in zip(spans, edges, inner))] = y
        return [made]

    return Place(((value, ""),), lambda b, x, p: [b.op("pad", x, p[0], padding=padding)], read)


def _turned(choose: random.Random, shape: Shape) -> Place:
    """Transposed and reversed, perhaps beside itself."""
    order = choose.sample(range(shape.rank), shape.rank)
    dims = tuple(d for d in range(shape.rank) if choose.random() < 0.4)
    both = choose.random() < 0.5

    def write(b: Builder, x: Instruction, p: Sequence[Instruction]) -> list[Instruction]:
        made = b.op("reverse", b.transpose(x, order), dimensions=dims)
        return [x, made] if both else [made]

    def read(y: Array, p: Sequence[Array]) -> list[Array]:
        made = np.flip(np.transpose(y, order), dims)
        return [y, made] if both else [made]

    return Place((), write, read)


def _in_part(choose: random.Random, shape: Shape) -> Place:
    """Only a part of it is asked for."""
    cuts = []
    for d in shape.dimensions:
        low = choose.randint(0, min(d, 2))
        cuts.append(SliceDimension(low, choose.randint(low, d), choose.choice((1, 1, 2))))
    part = tuple(slice(c.start, c.limit, c.stride) for c in cuts)
    return Place((), lambda b, x, p: [b.op("slice", x, slice=tuple(cuts))], lambda y, p: [y[part]])


def _added_up(choose: random.Random, shape: Shape) -> Place:
    """Summed along a dimension, beside itself: of integers, whose sums are exact."""
    kind = TYPES[shape.element_type]
    if kind.kind not in ("signed", "unsigned") or kind.bits < 8 or not shape.rank:
        return _turned(choose, shape)
    d = choose.randrange(shape.rank)

    def read(y: Array, p: Sequence[Array]) -> list[Array]:
        with np.errstate(all="ignore"):
            return [y, np.add.reduce(y, axis=d, dtype=y.dtype)]

    return Place((), lambda b, x, p: [x, b.reduce(x, 0, "add", [d])], read)


def _flat(choose: random.Random, shape: Shape) -> Place:
    return Place((), lambda b, x, p: [b.reshape(x, (shape.size,))], lambda y, p: [y.reshape(-1)])


PLACES = (_updated, _updated, _beside, _surrounded, _turned, _in_part, _added_up, _flat)


def place(choose: random.Random, shape: Shape) -> Place:
    """Any of these ways to use a result."""
    return choose.choice(PLACES)(choose, shape)
