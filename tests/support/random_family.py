"""Random programs of one family: values that are read through several index maps by several kinds of reader.

A few values are shared: functions that are not cheap, results of reductions and products, slices, parameters, the state
of a loop. Each is read straight, transposed, reversed, sliced, padded, merged and split, reduced along this dimension
and that, updated in place, multiplied with itself, and what comes of it is brought to one shape and combined. Sizes
coincide often, since that is where a wrong index goes unnoticed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from tests.support import random_programs as programs
from tests.support.random_values import (
    ALL,
    COMPLEX,
    REAL,
    Draw,
    Program,
    Skip,
    Value,
    exact,
    is_rounded,
    usual_bound,
    values,
)
from xla_wasm.builder import scalar_computation
from xla_wasm.hlo.attrs import (
    DotDimensionNumbers,
    GatherDimensionNumbers,
    PaddingDimension,
    SliceDimension,
    Window,
    WindowDimension,
)
from xla_wasm.hlo.ir import Module
from xla_wasm.hlo.shape import Shape
from xla_wasm.hlo.types import TYPES
from xla_wasm.ops.dtypes import Array

MOST_ELEMENTS = 1200
GREATEST = (33, 10, 5)
"""Sizes of a square array of two, three and four dimensions go up to these."""


class Family(Program):
    """A program that reads its shared values more often than others, and whose sizes coincide."""

    most_elements = MOST_ELEMENTS

    def __init__(self, draw: Draw):
        # What many read in many ways gets a buffer, and with it the wrong indices go: half the programs have one value,
        # a square, that is read in a few ways, and the others few kinds of readers.
        self.narrow = draw.chance(2)
        kinds = (
            [reduce, reduce, draw.pick(SHAPELY)]
            if self.narrow
            else [draw.pick(READERS) for _ in range(draw.integer(0, 4))]
        )
        super().__init__(kinds or READERS, draw)
        rank = draw.integer(2, 4)
        n = draw.integer(1, GREATEST[rank - 2])
        self.sizes = (n, n, n, n, n, 1, n + 1, *((33, 3, 0) if draw.chance(3) else (2, 8)))
        self.large = not self.narrow and draw.chance(12)
        if not self.narrow and draw.chance(10):
            long = draw.pick((40, 70, 130, 300))
            self.sizes = (n, long, *self.sizes)
            self.main = self._within(draw.pick(((long,), (long, 3), (4, long), (long, 5), (2, long, 2))))
        elif not self.narrow and draw.chance(3):
            self.main = self._within(tuple(draw.pick(self.sizes) for _ in range(rank)))
        else:
            self.main = (n,) * rank
        self.arguments: list[Array] = []
        self.shared: list[Value] = []

    def _within(self, dims: tuple[int, ...]) -> tuple[int, ...]:
        """The dimensions, the last ones made smaller until there are not too many elements."""
        made: list[int] = []
        for size in dims:
            made.append(
                size
                if prod(made) * size <= self.most_elements
                else max(1, self.most_elements // max(1, prod(made)) // 2)
            )
        return tuple(made)

    def any(self, types: Sequence[str] = ALL, rank: int = 0) -> Value:
        found = [v for v in self.shared if v.dtype in types and len(v.dims) >= rank]
        return self.draw.pick(found[::-1]) if found and not self.draw.chance(4) else super().any(types, rank)

    def parameter(self, dims: tuple[int, ...], dtype: str) -> Value:
        shape = Shape(dtype, dims)
        self.arguments.append(values(self.draw.integer(0, 9), dims, dtype))
        return self.keep(self.b.parameter(len(self.arguments) - 1, shape), usual_bound(dtype))


# --- what is shared ---------------------------------------------------------------------------------------------------


def _from_row(p: Family, dtype: str) -> Value:
    """Fewer dimensions, repeated along the rest."""
    kept = p.draw.subset(range(len(p.main))) or (p.draw.integer(0, len(p.main) - 1),)
    row = p.parameter(tuple(p.main[d] for d in kept), dtype)
    return p.keep(p.b.broadcast(row.x, p.main, kept), row.bound)


def _outer(p: Family, dtype: str) -> Value:
    """Two rows combined to a whole array, as distances and masks are."""
    return _combined(p, _from_row(p, dtype), _from_row(p, dtype))


def _of_larger(p: Family, dtype: str) -> Value:
    """A part of a larger parameter, at a place that is known or not."""
    extra = tuple(p.draw.integer(0, 2) for _ in p.main)
    whole = p.parameter(tuple(size + e for size, e in zip(p.main, extra)), dtype)
    if p.draw.chance(2):
        bounds = tuple(SliceDimension(start := p.draw.integer(0, e), start + size, 1) for size, e in zip(p.main, extra))
        return p.keep(p.b.op("slice", whole.x, slice=bounds), whole.bound)
    starts = [p.parameter((), "s32").x for _ in p.main]
    return p.keep(p.b.op("dynamic-slice", whole.x, *starts, dynamic_slice_sizes=p.main), whole.bound)


def _product(p: Family, dtype: str) -> Value:
    """A matrix times a matrix, whose rows are merged dimensions."""
    if dtype == "pred":
        raise Skip
    k = p.draw.pick((1, 2, 3, 4, 5, 17, 33)) if not p.draw.chance(12) else p.draw.pick((70, 1030))
    x, y = p.parameter((prod(p.main[:-1]), k), dtype), p.parameter((k, p.main[-1]), dtype)
    most = (exact(dtype) / k) ** 0.5
    x, y = near(p, x, min(3, most)), near(p, y, min(3, most))
    z = p.b.dot(x.x, y.x)
    bound = x.bound * y.bound * k * (1 + (dtype in COMPLEX)) if is_rounded(dtype) else 0
    return p.keep(p.b.reshape(z, p.main) if z.shape.dimensions != p.main else z, bound)


def _sums(p: Family, dtype: str) -> Value:
    """Returns an array that is reduced from one with one more dimension."""
    at = p.draw.integer(0, len(p.main))
    x = p.parameter((*p.main[:at], p.draw.pick((1, 2, 3, 5)), *p.main[at:]), dtype)
    return reduced(p, x, (at,))


def _state(p: Family, dtype: str) -> Value:
    """Returns a value that a loop leaves."""
    v = _plain(p, dtype)
    inner = p.operations
    p.operations = (*programs.OPERATIONS[:15], *SHAPELY)
    try:
        programs.while_(p)
    finally:
        p.operations = inner
    found = [w for w in p.values if w.dims == p.main and w.dtype == v.dtype]
    return found[-1]


def _plain(p: Family, dtype: str) -> Value:
    return p.parameter(p.main, dtype)


def _ramp(p: Family, dtype: str) -> Value:
    if dtype == "pred":
        raise Skip
    return p.keep(
        p.b.iota(Shape(dtype, p.main), p.draw.integer(0, len(p.main) - 1)), max(p.main) if is_rounded(dtype) else 0
    )


def _literal(p: Family, dtype: str) -> Value:
    v = p.literal(p.main, dtype)
    return p.keep(v.x, v.bound)


def _taken(p: Family, dtype: str) -> Value:
    """Rows at computed places."""
    table = p.parameter((p.draw.pick(p.sizes[:7]), *p.main[1:]), dtype)
    places = p.parameter((p.main[0],), p.draw.pick(("s32", "u8", "s64")))
    numbers = GatherDimensionNumbers(tuple(range(1, len(p.main))), (0,), (0,), 1)
    sizes = (1, *p.main[1:])
    if not table.dims[0]:
        raise Skip
    return p.keep(p.b.op("gather", table.x, places.x, gather_dimension_numbers=numbers, slice_sizes=sizes), table.bound)


SOURCES: tuple[Callable[[Family, str], Value], ...] = (
    *(_plain, _plain, _plain, _from_row, _outer, _outer, _of_larger, _product, _sums, _state, _ramp, _literal, _taken),
)


def _source(p: Family, dtype: str) -> Value:
    """A value of the main shape, perhaps through a function that is not cheap, perhaps made of an earlier one."""
    early = [v for v in p.values if v.dims == p.main and v.dtype == dtype]
    v = p.draw.pick(early[::-1]) if early and p.draw.chance(2) else p.draw.pick(SOURCES)(p, dtype)
    for _ in range(p.draw.pick((1, 1, 2, 0))):
        known = len(p.values)
        p.attempt(lambda _, v=v: dear(p, v))  # type: ignore[misc]
        v = p.values[-1] if len(p.values) > known else v
    return v


def chain(p: Program) -> None:
    """Many cheap operations one after the other, each on what came before and an earlier value."""
    v = p.any(tuple(t for t in REAL if exact(t) > 100))
    w = p.like(v)
    if is_rounded(v.dtype):
        v, w = near(p, v, 8), near(p, w, 8)
    x = v.x
    for _ in range(p.draw.integer(5, 40)):
        # The bound stays: of two numbers within it the greater one, or the lesser.
        x = p.b.op(p.draw.pick(("maximum", "minimum")), x, p.b.op("negate", p.b.op("maximum", x, w.x)))
    p.keep(x, max(v.bound, w.bound))


def dear(p: Program, v: Value) -> None:
    """A function that costs much: one of the table, or a division of integers; several cheap ones cost as much."""
    if v.dtype in COMPLEX or v.dtype == "pred":
        p.keep(p.b.op("not" if v.dtype == "pred" else "negate", v.x), v.bound)
    elif is_rounded(v.dtype) and exact(v.dtype) > 100:
        programs.dear_function(p, v)
    elif is_rounded(v.dtype):
        p.keep(p.b.op("abs", p.b.op("negate", v.x)), v.bound)
    elif TYPES[v.dtype].bits < 4:
        p.keep(p.b.op("not", v.x), 0)
    else:
        divisor = p.b.full(p.draw.pick((3, 7, 5)), v.x.shape.without_layout())
        p.keep(p.b.op(p.draw.pick(("divide", "remainder")), v.x, divisor), 0)


# --- how it is read ---------------------------------------------------------------------------------------------------


def near(p: Program, v: Value, most: float) -> Value:
    """`v`, clamped where it might be larger."""
    if not is_rounded(v.dtype) or v.bound <= most:
        return v
    if most < 1 or v.dtype in COMPLEX:
        raise Skip
    most = float(min(int(most), 100))
    return Value(p.b.op("clamp", p.b.constant(-most, v.dtype), v.x, p.b.constant(most, v.dtype)), most)


def limits(dtype: str) -> tuple[int, int]:
    """The least and the greatest number of a type of integers."""
    bits, signed = TYPES[dtype].bits, TYPES[dtype].kind == "signed"
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)


def reduced(p: Program, v: Value, dims: Sequence[int]) -> Value:
    """`v` reduced over dimensions; sums of what is small enough for them to be exact."""
    opcodes = (
        ("and", "or") if v.dtype == "pred" else ("add",) if v.dtype in COMPLEX else ("add", "add", "maximum", "minimum")
    )
    opcode = p.draw.pick(opcodes)
    count = max(1, prod(v.dims[d] for d in dims))
    if opcode == "add":
        v = near(p, v, exact(v.dtype) // count)
    low, high = (-v.bound, v.bound) if is_rounded(v.dtype) else limits(v.dtype)
    neutral = {"and": 1, "or": 0, "add": 0, "maximum": low, "minimum": high}[opcode]
    start = (
        p.scalar(v.dtype)
        if p.draw.chance(5)
        else Value(p.b.constant(neutral, v.dtype), abs(neutral) if is_rounded(v.dtype) else 0)
    )
    bound = v.bound * count + start.bound if opcode == "add" else max(v.bound, start.bound)
    return p.keep(p.b.reduce(v.x, start.x, opcode, dims), bound)


def reduce(p: Program) -> None:
    """A reduction along one dimension or several; perhaps repeated along what it lost, as in softmax."""
    v = p.any(rank=1)
    rank = len(v.dims)
    dims = (p.draw.integer(0, rank - 1),) if p.draw.chance(2) else p.draw.subset(range(rank)) or (rank - 1,)
    w = reduced(p, v, dims)
    if p.draw.chance(3):
        kept = [d for d in range(rank) if d not in dims]
        if len(kept) > 1 and p.draw.chance(3) and len({v.dims[d] for d in kept}) == 1:
            kept = kept[::-1]
            order = p.draw.permutation(len(kept))
            w = Value(p.b.op("transpose", w.x, dimensions=order), w.bound)
            kept = sorted(kept)
        p.keep(p.b.broadcast(w.x, v.dims, kept), w.bound)


def cumulative(p: Program) -> None:
    """Sums or maxima of all prefixes or suffixes along a dimension."""
    v = p.any(rank=1)
    d = p.draw.integer(0, len(v.dims) - 1)
    size = v.dims[d]
    if not size or v.dtype == "pred":
        raise Skip
    opcode = "add" if v.dtype in COMPLEX else p.draw.pick(("add", "maximum"))
    if opcode == "add":
        v = near(p, v, exact(v.dtype) // size)
    low = p.draw.pick((size - 1, 0))
    window = Window(
        tuple(
            WindowDimension(size, 1, low, size - 1 - low) if i == d else WindowDimension(1) for i in range(len(v.dims))
        )
    )
    init = p.b.constant(0, v.dtype)
    called = [scalar_computation(opcode, v.dtype)]
    p.keep(p.b.op("reduce-window", v.x, init, called=called, window=window), v.bound * (size if opcode == "add" else 1))


def with_itself(p: Program) -> None:
    """A product of a value with itself, turned or not, or with another of its shape."""
    v = p.any(rank=2)
    if v.dtype == "pred":
        raise Skip
    w = p.like(v)
    if p.draw.chance(2):
        w = v
    rank = len(v.dims)
    c = p.draw.integer(0, rank - 1)
    matching = [d for d in range(rank) if w.dims[d] == v.dims[c]]
    e = p.draw.pick(matching)
    batch = [(d, d) for d in range(rank) if d not in (c, e) and not p.draw.chance(3)]
    free = [v.dims[d] for d in range(rank) if d != c] + [
        w.dims[d] for d in range(rank) if d != e and d not in [b for _, b in batch]
    ]
    if prod(free) > 2 * p.most_elements:
        raise Skip
    most = (exact(v.dtype) / max(1, v.dims[c]) / (1 + (v.dtype in COMPLEX))) ** 0.5
    v, w = near(p, v, most), near(p, w, most)
    numbers = DotDimensionNumbers((c,), (e,), tuple(b for b, _ in batch), tuple(b for _, b in batch))
    bound = v.bound * w.bound * max(1, v.dims[c]) * (1 + (v.dtype in COMPLEX)) if is_rounded(v.dtype) else 0
    p.keep(p.b.op("dot", v.x, w.x, dot_dimension_numbers=numbers), bound)


def rotate(p: Program) -> None:
    """Two parts of a value in the other order."""
    v = p.any(rank=1)
    d = p.draw.integer(0, len(v.dims) - 1)
    at = p.draw.integer(0, v.dims[d])
    parts = []
    for start, limit in ((at, v.dims[d]), (0, at)):
        bounds = tuple(
            SliceDimension(start, limit, 1) if i == d else SliceDimension(0, size, 1) for i, size in enumerate(v.dims)
        )
        parts.append(p.b.op("slice", v.x, slice=bounds))
    p.keep(p.b.op("concatenate", *parts, dimensions=(d,)), v.bound)


def shift(p: Program) -> None:
    """A value moved along dimensions, with something else where it came from."""
    v = p.any(rank=1)
    fill = p.scalar(v.dtype)
    moves = tuple(p.draw.pick((0, 1, -1, 2)) if size > 1 else 0 for size in v.dims)
    p.keep(
        p.b.op("pad", v.x, fill.x, padding=tuple(PaddingDimension(m, -m, 0) for m in moves)), max(v.bound, fill.bound)
    )


def _every_other(p: Program) -> None:
    """Elements spread out with others between them, or every second one."""
    v = p.any(rank=1)
    d = p.draw.integer(0, len(v.dims) - 1)
    if p.draw.chance(2):
        bounds = tuple(
            SliceDimension(min(1, size - 1) if i == d and size else 0, size, 2 if i == d else 1)
            for i, size in enumerate(v.dims)
        )
        p.keep(p.b.op("slice", v.x, slice=bounds), v.bound)
        return
    fill = p.scalar(v.dtype)
    padding = tuple(PaddingDimension(0, int(i == d), int(i == d)) for i in range(len(v.dims)))
    p.keep(p.b.op("pad", v.x, fill.x, padding=padding), max(v.bound, fill.bound))


def merge(p: Program) -> None:
    """Neighbouring dimensions merged, after a transpose or not; perhaps split again in another order."""
    v = p.any(rank=2)
    x = v.x
    if p.draw.chance(2):
        x = p.b.op("transpose", x, dimensions=p.draw.permutation(len(v.dims)))
    dims = x.shape.dimensions
    d = p.draw.integer(0, len(dims) - 2)
    merged = (*dims[:d], dims[d] * dims[d + 1], *dims[d + 2 :])
    x = p.b.reshape(x, merged)
    p.keep(x, v.bound)
    if p.draw.chance(2):
        p.keep(p.b.reshape(x, (*dims[:d], dims[d + 1], dims[d], *dims[d + 2 :])), v.bound)


SHAPELY = (programs.transpose, programs.reverse, rotate, shift, _every_other, reduce)
READERS: tuple[Callable[[Program], None], ...] = (
    *(reduce, reduce, reduce, reduce, reduce, reduce, programs.transpose, programs.transpose, programs.transpose),
    *(
        programs.reverse,
        programs.reverse,
        programs.slice_,
        programs.slice_,
        programs.pad,
        programs.pad,
        shift,
        rotate,
    ),
    *(_every_other, merge, merge, cumulative, with_itself, with_itself, programs.broadcast, programs.reshape),
    *(programs.concatenate, programs.dynamic_slice, programs.dynamic_slice, programs.gather, programs.gather),
    *(
        programs.dynamic_update_slice,
        programs.dynamic_update_slice,
        programs.scatter,
        programs.reduce,
        programs.reduce_two,
    ),
    *(
        programs.reduce_window,
        programs.select_and_scatter,
        programs.dot,
        programs.dot,
        programs.convolution,
        programs.unary,
    ),
    *(
        programs.binary,
        programs.binary,
        programs.compare,
        programs.select,
        programs.convert,
        programs.function,
        programs.while_,
    ),
    *(programs.conditional, programs.call, programs.clamp, chain),
)


# --- what is made of it -----------------------------------------------------------------------------------------------


def _fitted(p: Family, v: Value, dims: tuple[int, ...]) -> Value:
    """A value brought to other dimensions: reshaped, repeated, cut and padded."""
    if v.dims == dims:
        return v
    x = v.x
    if prod(v.dims) == prod(dims) and p.draw.chance(2):
        return p.keep(p.b.reshape(x, dims), v.bound)
    if len(v.dims) < len(dims):
        places = tuple(sorted(p.draw.permutation(len(dims))[: len(v.dims)]))
        sizes = list(dims)
        for d, size in zip(places, v.dims):
            sizes[d] = size
        if prod(sizes) > 2 * p.most_elements:
            raise Skip
        x = p.b.broadcast(x, sizes, places)
    elif len(v.dims) > len(dims):
        over = len(v.dims) - len(dims)
        first = p.draw.integer(0, len(dims))
        return _fitted(p, reduced(p, v, tuple(range(first, first + over))), dims)
    if x.shape.dimensions != dims:
        fill = p.scalar(v.dtype)
        low = [p.draw.integer(min(0, n - size), max(0, n - size)) for size, n in zip(x.shape.dimensions, dims)]
        padding = tuple(PaddingDimension(a, n - size - a, 0) for a, size, n in zip(low, x.shape.dimensions, dims))
        return p.keep(p.b.op("pad", x, fill.x, padding=padding), max(v.bound, fill.bound))
    return p.keep(x, v.bound)


def _combined(p: Family, v: Value, w: Value) -> Value:
    """Two values of one shape and type as one."""
    if v.dtype == "pred":
        return p.keep(p.b.op(p.draw.pick(("xor", "and", "or")), v.x, w.x), 1)
    opcode = p.draw.pick(
        ("add", "subtract")
        if v.dtype in COMPLEX
        else ("add", "add", "subtract", "add", "subtract", "maximum", "minimum")
    )
    half = exact(v.dtype) // 2
    if opcode in ("add", "subtract"):
        v, w = near(p, v, half), near(p, w, half)
        return p.keep(p.b.op(opcode, v.x, w.x), v.bound + w.bound)
    return p.keep(p.b.op(opcode, v.x, w.x), max(v.bound, w.bound))


def _combine(p: Family, fresh: list[Value]) -> None:
    """Everything new brought together, by shapes as they are or in the main one."""
    if p.narrow and fresh:
        dims = min((v.dims for v in fresh), key=len)
    else:
        dims = p.main if p.draw.chance(2) or not fresh else p.draw.pick(fresh).dims
    total: Value | None = None
    for v in fresh:
        if v.dims != dims and p.draw.chance(2 if p.narrow else 3):
            continue
        known = len(p.values)

        def join(_: Program, v: Value = v, total: Value | None = total) -> None:
            fitted = _fitted(p, v, dims)
            if total is not None and fitted.dtype != total.dtype:
                fitted = programs.convert_to(p, fitted, total.dtype)
            if total is not None:
                _combined(p, total, fitted)
            else:
                p.keep(fitted.x, fitted.bound)

        p.attempt(join)
        total = p.values[-1] if len(p.values) > known else total


def draw_family(draw: Draw) -> tuple[Module, list[Array]]:
    """A program of the family and its arguments."""
    p = Family(draw)
    dtype = draw.type() if draw.chance(2) else "f32"
    p.parameter(p.main if draw.chance(2) else p.main[-1:], dtype)
    results = []
    for _ in range(1 if p.narrow else draw.integer(6, 12) if p.large else draw.pick((1, 1, 2, 3))):
        try:
            shared = _source(p, dtype)
        except Skip:
            shared = p.values[-1]
        p.shared.append(shared)
        known = len(p.values) - draw.integer(0, 1)
        for _ in range(draw.integer(1, 5)):
            start = len(p.values)
            p.grow(1)
            p.shared += p.values[start:][: int(not p.narrow and draw.chance(5))]
        _combine(p, p.values[known:])
        results.append(p.values[-1])
    results = results[::-1][: 14 if p.large else draw.pick((1, 1, 2, 3))]
    if not p.narrow and draw.chance(3):
        results += [draw.pick(p.values[::-1]) for _ in range(draw.integer(1, 2))]
    root = results[0].x if len(results) == 1 else p.b.op("tuple", *(v.x for v in results))
    return p.b.module(root), p.arguments
