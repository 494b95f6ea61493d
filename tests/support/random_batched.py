"""Random programs with batches: dimensions as long as a few vectors, beside places that are known at run time only.

An index mixes here what loops count, what values say and constants: places are computed from iotas, gathers, sorts and
sums, with batching dimensions or none, and what lies there is turned, padded, summed, sorted and multiplied. A third of
them are functions of JAX of one example, in `jax.vmap`, and their gradients. All numbers are whole, and exact.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.support import random_family as family
from tests.support import random_programs as programs
from tests.support import random_writer as writer
from tests.support.random_values import COMPLEX, INTEGERS, Draw, Program, Skip, Value, is_rounded, usual_bound, values
from xla_wasm.builder import Builder
from xla_wasm.hlo.attrs import GatherDimensionNumbers, ScatterDimensionNumbers, SliceDimension
from xla_wasm.hlo.ir import Module
from xla_wasm.hlo.shape import Shape
from xla_wasm.hlo.types import TYPES
from xla_wasm.ops.dtypes import Array

BATCHES = (8, 9, 16, 17, 33, 40, 65, 12, 24, 32)
MOST_ELEMENTS = 1500
INDICES = ("s32", "s32", "u8", "s64", "u32", "s8", "s16", "u16")


def draw_batched(draw: Draw) -> tuple[Module, list[Array]]:
    """A program of the family and its arguments."""
    return draw_mapped(draw) if draw.chance(3) else _drawn(draw)


# --- programs in HLO --------------------------------------------------------------------------------------------------


class Batched(Program):
    """A program of which one size is that of a batch."""

    most_elements = MOST_ELEMENTS

    def __init__(self, draw: Draw):
        super().__init__(OPERATIONS if draw.chance(2) else [draw.pick(OPERATIONS) for _ in range(4)] + [gather], draw)
        n, m = draw.pick(BATCHES), draw.pick((3, 4, 5, 2, 8))
        self.sizes = (n, m, n, m, 1, draw.pick((2, 8, 16, 7)))
        self.arguments: list[Array] = []

    def parameter(self, dims: tuple[int, ...], dtype: str) -> Value:
        self.arguments.append(values(self.draw.integer(0, 9), dims, dtype))
        return self.keep(self.b.parameter(len(self.arguments) - 1, Shape(dtype, dims)), usual_bound(dtype))


def _drawn(draw: Draw) -> tuple[Module, list[Array]]:
    p = Batched(draw)
    n, m, *_ = p.sizes
    dtype = draw.type() if draw.chance(2) else draw.pick(("f32", "f32", "s32", "f64", "s8", "bf16", "pred", "u16"))
    for _ in range(draw.integer(1, 3)):
        p.parameter(draw.pick(((n, m), (m, n), (n,), (n, m, 2), (m, n, 3), (2, m, n), (n, 1), (2, n))), dtype)
    for _ in range(draw.integer(1, 2)):
        p.parameter(draw.pick(((n,), (n, 1), (1, n), (n, 2), ())), draw.pick(INDICES))
    p.grow(draw.integer(2, 10))
    known = len(p.values)
    # What is placed is read by something: a gather alone would be the whole kernel.
    p.attempt(draw.pick(READERS))
    results = [p.values[-1], *([draw.pick(p.values[::-1])] if draw.chance(2) or len(p.values) == known else [])]
    return p.b.module(results[0].x if len(results) == 1 else p.b.op("tuple", *(v.x for v in results))), p.arguments


def _fitted(p: Program, v: Value, dims: tuple[int, ...]) -> Value:
    """A value brought to other dimensions by repeating it along those that it has not, and cutting or reversing the
    others; a literal where it does not fit."""
    if v.dims == dims:
        return v
    if prod(v.dims) == prod(dims):
        return Value(p.b.reshape(v.x, dims), v.bound)
    free = list(range(len(dims)))
    kept: list[int] = []
    for size in v.dims:
        at = next((d for d in free if dims[d] <= size and (not kept or d > kept[-1])), -1)
        if at < 0:
            return p.literal(dims, v.dtype)
        kept.append(at)
        free.remove(at)
    bounds = tuple(
        SliceDimension(start := p.draw.integer(0, size - dims[d]), start + dims[d], 1) for size, d in zip(v.dims, kept)
    )
    x = p.b.op("slice", v.x, slice=bounds)
    return Value(p.b.broadcast(x, dims, kept) if len(kept) < len(dims) else x, v.bound)


def places(p: Program, dims: tuple[int, ...], limit: int) -> Value:
    """An array of integers that say where: below a limit mostly, since what lies outside is read and written in a way
    of its own."""
    v = _integers(p, dims)
    if p.draw.chance(4) or TYPES[v.dtype].bits < 8:
        return v
    last = p.b.constant(max(0, min(limit, 100) - 1), v.dtype)
    return Value(p.b.op("clamp", p.b.constant(0, v.dtype), v.x, last), v.bound)


def _integers(p: Program, dims: tuple[int, ...]) -> Value:
    """An array of integers: of what lies there already, of what is counted, or of both."""
    found = [v for v in p.values if v.dtype in INTEGERS and v.dims and TYPES[v.dtype].bits >= 8]
    way = p.draw.integer(0, 8)
    if not found or way == 0 or prod(dims) == 0:
        return p.literal(dims, p.draw.pick(INDICES))
    v = _fitted(p, p.draw.pick(found[::-1]), dims)
    b = p.b
    if way == 1 and dims:
        axes = [b.iota(Shape(v.dtype, dims), p.draw.integer(0, len(dims) - 1)) for _ in range(p.draw.integer(1, 2))]
        x = b.op(p.draw.pick(("add", "subtract", "multiply", "xor")), axes[0], axes[-1]) if axes[1:] else axes[0]
        return Value(b.op(p.draw.pick(("add", "subtract", "add", "maximum")), x, v.x), 0)
    if way == 2:
        return Value(b.op("remainder", v.x, b.full(p.draw.pick((5, 3, 8)), Shape(v.dtype, dims))), 0)
    if way == 3 and dims:
        return Value(b.op("reverse", v.x, dimensions=(p.draw.integer(0, len(dims) - 1),)), 0)
    if way == 4 and dims:
        order = p.draw.permutation(len(dims))
        turned = tuple(dims[order.index(d)] for d in range(len(dims)))
        return Value(b.transpose(_fitted(p, v, turned).x, order), 0)
    if way == 5 and dims:
        d = p.draw.integer(0, len(dims) - 1)
        more = b.broadcast(v.x, (*dims, 3), range(len(dims)))
        steps = b.iota(Shape(v.dtype, (*dims, 3)), len(dims) if p.draw.chance(2) else d)
        return Value(
            b.reduce(b.add(more, steps), b.constant(0, v.dtype), p.draw.pick(("add", "maximum")), (len(dims),)), 0
        )
    if way == 6 and dims:
        # Places of places: along the batch's own dimension.
        own = _fitted(p, p.draw.pick(found[::-1]), dims)
        d = p.draw.integer(0, len(dims) - 1)
        others = tuple(e for e in range(len(dims)) if e != d)
        numbers = GatherDimensionNumbers((), (d,), (d,), len(dims), others, others)
        return Value(b.op("gather", own.x, v.x, gather_dimension_numbers=numbers, slice_sizes=(1,) * len(dims)), 0)
    if way == 7 and dims:
        counted = b.iota(Shape(v.dtype, dims), d := p.draw.integer(0, len(dims) - 1))
        f = Builder("compare")
        one, other, *_ = [f.parameter(i, Shape(v.dtype)) for i in range(4)]
        called = f.build(f.compare(one, other, p.draw.pick(("LT", "GT"))))
        both = b.op("sort", v.x, counted, called=[called], dimensions=(d,), is_stable=True)
        return Value(b.get_tuple_element(both, p.draw.integer(0, 1)), 0)
    return v


def _parts(p: Program, v: Value) -> tuple[tuple[int, ...], tuple[int, ...], list[tuple[str, int]], tuple[int, ...]]:
    """Draws how an array is read: its batching dimensions, those in which places lie, the meanings of the dimensions of
    the indices (batching dimensions of the array, or sizes of their own), and these dimensions."""
    rank = len(v.dims)
    batching = tuple(d for d in range(rank) if v.dims[d] and not p.draw.chance(3 if v.dims[d] > 7 else 2))
    if len(batching) == rank:
        free = p.draw.integer(0, rank - 1)
        batching = tuple(d for d in batching if d != free)
    rest = [d for d in range(rank) if d not in batching]
    mapped = p.draw.subset(rest) or (rest[0],)
    mapped = tuple(mapped[i] for i in p.draw.permutation(len(mapped)))
    own = [p.draw.pick((8, 9, 16, 17, 33, 1, 2)) for _ in range(p.draw.integer(0, 1) if batching else 1)]
    labels = [("batch", d) for d in batching] + [("own", size) for size in own]
    labels = [labels[i] for i in p.draw.permutation(len(labels))]
    return batching, mapped, labels, tuple(v.dims[at] if kind == "batch" else at for kind, at in labels)


def _vectors(p: Program, v: Value, mapped: tuple[int, ...], batch: tuple[int, ...]) -> tuple[Value, int]:
    """Index vectors, and the dimension in which each of them lies."""
    limit = max(v.dims[d] for d in mapped)
    if len(mapped) == 1 and p.draw.chance(2):
        return places(p, batch, limit), len(batch)
    vector = p.draw.integer(0, len(batch))
    if p.draw.chance(2):
        return places(p, (*batch[:vector], len(mapped), *batch[vector:]), limit), vector
    single = (*batch[:vector], 1, *batch[vector:])
    parts = [places(p, batch, v.dims[d]) for d in mapped]
    dtype = p.draw.pick([part.dtype for part in parts])
    same = [part.x if part.dtype == dtype else p.b.convert(part.x, dtype) for part in parts]
    joined = [p.b.reshape(x, single) for x in same]
    return Value(p.b.op("concatenate", *joined, dimensions=(vector,)) if joined[1:] else joined[0], 0), vector


def _pairs(labels: list[tuple[str, int]], vector: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    pairs = sorted((d, at + (at >= vector)) for at, (kind, d) in enumerate(labels) if kind == "batch")
    return tuple(d for d, _ in pairs), tuple(at for _, at in pairs)


def gather(p: Program) -> None:
    v = p.any(rank=1)
    batching, mapped, labels, batch = _parts(p, v)
    sizes = tuple(
        1 if d in batching else p.draw.pick((1, 1, 2)) if d in mapped else p.draw.integer(min(1, size), size)
        for d, size in enumerate(v.dims)
    )
    if prod(batch) * prod(sizes) > 2 * p.most_elements or any(a > b for a, b in zip(sizes, v.dims)):
        raise Skip
    collapsed = tuple(d for d in sorted(mapped) if sizes[d] == 1 and not p.draw.chance(3))
    indices, vector = _vectors(p, v, mapped, batch)
    count = len(v.dims) - len(collapsed) - len(batching)
    offsets = tuple(sorted(p.draw.permutation(count + len(batch))[:count]))
    numbers = GatherDimensionNumbers(offsets, collapsed, mapped, vector, *_pairs(labels, vector))
    p.keep(p.b.op("gather", v.x, indices.x, gather_dimension_numbers=numbers, slice_sizes=sizes), v.bound)


def scatter(p: Program) -> None:
    v = p.any(rank=1)
    batching, mapped, labels, batch = _parts(p, v)
    inserted = tuple(d for d in range(len(v.dims)) if d not in batching and v.dims[d] and not p.draw.chance(3))
    sizes = [
        p.draw.integer(min(1, size), min(size, 3))
        for d, size in enumerate(v.dims)
        if d not in inserted and d not in batching
    ]
    windows = tuple(sorted(p.draw.permutation(len(sizes) + len(batch))[: len(sizes)]))
    window_sizes, batch_sizes = iter(sizes), iter(batch)
    dims = tuple(next(window_sizes) if d in windows else next(batch_sizes) for d in range(len(sizes) + len(batch)))
    if prod(dims) > 2 * p.most_elements:
        raise Skip
    indices, vector = _vectors(p, v, mapped, batch)
    same = [w for w in p.values if w.dtype == v.dtype]
    twice = p.draw.chance(5)
    updates = [_fitted(p, p.draw.pick(same[::-1]), dims) for _ in range(1 + twice)]
    operands = [v, *([p.like(v)] if twice else [])]
    f = Builder("combine")
    scalars = [f.parameter(i, Shape(v.dtype)) for i in range(2 * len(operands))]
    old, new = scalars[: len(operands)], scalars[len(operands) :]
    opcodes = (
        ("or", "set") if v.dtype == "pred" else ("add", "set") if v.dtype in COMPLEX else ("add", "maximum", "set")
    )
    made = []
    for x, y in zip(old, new):
        opcode = p.draw.pick(opcodes)
        made.append(y if opcode == "set" else f.op(opcode, x, y))
    called = f.build(made[0] if not twice else f.op("tuple", *made))
    numbers = ScatterDimensionNumbers(windows, inserted, mapped, vector, *_pairs(labels, vector))
    inputs = [*(w.x for w in operands), indices.x, *(u.x for u in updates)]
    y = p.b.op("scatter", *inputs, called=[called], scatter_dimension_numbers=numbers)
    for i, (w, u) in enumerate(zip(operands, updates)):
        p.keep(p.b.get_tuple_element(y, i) if twice else y, w.bound + u.bound * prod(batch))


def _number_at(p: Program) -> Value:
    """One number out of an array of integers."""
    v = p.any(INTEGERS, rank=1)
    if 0 in v.dims:
        raise Skip
    counted = [p.b.constant(p.draw.integer(0, size - 1), "s32") for size in v.dims]
    x = p.b.op("dynamic-slice", v.x, *counted, dynamic_slice_sizes=(1,) * len(v.dims))
    return Value(p.b.reshape(x, ()), v.bound)


def _starts(p: Program, v: Value) -> list[Any]:
    """The start of a part of `v` along each dimension, in one type: computed, or constant."""
    starts = [_number_at(p).x if p.draw.chance(2) else p.index(size).x for size in v.dims]
    return [s if s.shape.element_type == "s64" else p.b.convert(s, "s64") for s in starts]


def part(p: Program) -> None:
    """A dynamic slice."""
    v = p.any(rank=1)
    sizes = tuple(p.draw.pick((size, size, max(size // 2, min(1, size)), min(1, size))) for size in v.dims)
    p.keep(p.b.op("dynamic-slice", v.x, *_starts(p, v), dynamic_slice_sizes=sizes), v.bound)


def update(p: Program) -> None:
    """A dynamic update."""
    v = p.any(rank=1)
    sizes = tuple(p.draw.pick((size, max(size // 2, min(1, size)), min(1, size))) for size in v.dims)
    new = _fitted(p, p.draw.pick([w for w in p.values if w.dtype == v.dtype][::-1]), sizes)
    p.keep(p.b.op("dynamic-update-slice", v.x, new.x, *_starts(p, v)), max(v.bound, new.bound))


def more_places(p: Program) -> None:
    """Places that several take."""
    v = p.any(rank=1)
    made = places(p, v.dims[: p.draw.integer(1, len(v.dims))], v.dims[-1])
    p.keep(made.x, max(made.bound, 100 if is_rounded(made.dtype) else 0))


READERS: tuple[Callable[[Program], None], ...] = (
    *(family.reduce, family.cumulative, family.with_itself, family.rotate, family.shift, family.merge, family.chain),
    *(family.chain, family.reduce, programs.reduce_two, programs.reduce_window, programs.dot, programs.concatenate),
    *(programs.pad, programs.transpose, programs.reverse, programs.binary, programs.select, writer.sort),
    *(writer.topk, programs.convolution, programs.function, programs.compare, programs.convert),
)
OPERATIONS: tuple[Callable[[Program], None], ...] = (
    *(gather, gather, gather, gather, scatter, scatter, scatter, part, part, update, update, more_places, more_places),
    *(programs.while_, programs.while_, programs.iota, programs.broadcast, programs.reshape),
    *READERS,
)


# --- functions of JAX -------------------------------------------------------------------------------------------------


Step = Callable[[Any, Any], Any]
"""From an example, and places of its own, to the next one, of any shape."""
EXAMPLES = ((5,), (8,), (4, 3), (3, 9), (1,), (17,), (2, 8))
DTYPES = ("float32", "float32", "float64", "int32", "int8", "int64", "uint8", "bfloat16", "bool")


def _need(condition: bool) -> None:
    if not condition:
        raise Skip


def _turn(i: Any, x: Any) -> Any:
    """A scalar place, with what the example itself says of it."""
    return (i + jnp.abs(x.reshape(-1)[0]).astype(i.dtype)) % 7


def _looked_up(draw: Draw) -> Step:
    kind, number = draw.integer(0, 8), draw.integer(-2, 5)

    def step(x: Any, i: Any) -> Any:
        n = x.shape[0]
        one = _turn(i[0], x) if number % 2 else i[0]
        all = (i + number) % n if number > 2 else i
        if kind == 0:
            return x[one]
        if kind == 1:
            return x[all]
        if kind == 2:
            return jnp.take(x, all, axis=x.ndim - 1, mode=("clip", "fill", "wrap")[number % 3], fill_value=1)
        if kind == 3:
            return lax.dynamic_slice_in_dim(x, one, max(1, n // 2), 0)
        if kind == 4:
            _need(x.ndim == 2)
            return x[all, i[::-1] % x.shape[1]]
        if kind == 5:
            return jnp.roll(x, one, 0)
        if kind == 6:
            order = jnp.argsort(x, axis=0) if number % 2 else (jnp.arange(x.size).reshape(x.shape) + one) % n
            return jnp.take_along_axis(x, order, 0)
        if kind == 7:
            return lax.dynamic_index_in_dim(x, one, x.ndim - 1, keepdims=bool(number % 2))
        return x[i[all % i.shape[0]] % n]

    return step


def _written(draw: Draw) -> Step:
    kind, number = draw.integer(0, 6), draw.integer(-2, 5)

    def step(x: Any, i: Any) -> Any:
        n = x.shape[0]
        one = _turn(i[0], x) if number % 2 else i[0]
        new = x[(i + 1) % n]
        if kind == 0:
            return x.at[one].set(x[0] if number > 2 else x.dtype.type(1))
        if kind == 1:
            return x.at[i].set(new, mode="drop")
        if kind in (2, 3):
            _need(x.dtype != bool)
            return x.at[(i + number) % n if kind == 2 else i].add(new)
        if kind == 4:
            return lax.dynamic_update_slice_in_dim(x, jnp.flip(x[: max(1, n // 2)], 0), one, 0)
        if kind == 5:
            _need(x.dtype != bool)
            return jax.ops.segment_sum(x, (jnp.arange(n) + one) % 4, 5)
        _need(x.dtype != bool)
        return x.at[i].max(new, mode="drop") if not jnp.issubdtype(x.dtype, jnp.floating) else x.at[i % n].multiply(-1)

    return step


def _read(draw: Draw) -> Step:
    kind, number = draw.integer(0, 11), draw.integer(0, 5)

    def step(x: Any, i: Any) -> Any:
        number_of = jnp.issubdtype(x.dtype, jnp.number)
        if kind == 0:
            _need(number_of)
            return jnp.cumsum(x, 0).astype(x.dtype)
        if kind == 1:
            return jnp.sort(x, 0)
        if kind == 2:
            _need(number_of)
            return jnp.sum(x, number % x.ndim, dtype=x.dtype, keepdims=bool(number % 2))
        if kind == 3:
            return jnp.concatenate([x, jnp.flip(x, 0)], 0)
        if kind == 4:
            return jnp.pad(x, [(number % 3, 1)] + [(0, number % 2)] * (x.ndim - 1))
        if kind == 5:
            return x.T
        if kind == 6:
            _need(number_of and x.ndim == 2)
            return x @ jnp.swapaxes(x, 0, 1)
        if kind == 7:
            _need(number_of and x.ndim == 1)
            return jnp.convolve(x, x[: 1 + number % 3], ("same", "full", "valid")[number % 3])
        if kind == 8:
            _need(number_of)
            for k in range(12):
                x = -x if k % 2 else jnp.where(x > number - 2, x - 1, x + 1)
            return x
        if kind == 9:
            _need(x.dtype != bool)
            window = (min(2, x.shape[0]),) + (1,) * (x.ndim - 1)
            return lax.reduce_window(x, x.dtype.type(0), lax.add, window, (1,) * x.ndim, ("VALID", "SAME")[number % 2])
        if kind == 10:
            _need(x.dtype != bool)
            return lax.top_k(x, min(3, x.shape[-1]))[number % 2].astype(x.dtype)
        return jnp.where(jnp.arange(x.shape[0]).reshape(-1, *(1,) * (x.ndim - 1)) == i[0], x, x.dtype.type(1))

    return step


def _repeated(draw: Draw) -> Step:
    """A loop, each turn of which finds its place."""
    kind, trips = draw.integer(0, 3), draw.integer(1, 4)
    inner = draw.pick((_written, _looked_up))(draw)

    def step(x: Any, i: Any) -> Any:
        def turn(k: Any, c: Any) -> Any:
            y = _within(inner(c, (i + k) % 5))
            return y if y.shape == c.shape and y.dtype == c.dtype else c.at[(i + k) % c.shape[0]].set(c[0])

        if kind == 0:
            return lax.fori_loop(0, trips, turn, x)
        if kind == 1:
            return lax.scan(lambda c, k: (turn(k, c), c[k % c.shape[0]]), x, i)[trips % 2]
        if kind == 2:
            return lax.cond(i[0] > 2, lambda c: turn(1, c), lambda c: c, x)
        return lax.fori_loop(0, i[0] % 4, turn, lax.stop_gradient(x))

    return step


def _within(x: Any) -> Any:
    """Numbers so small that the next sums and products of them are exact, too."""
    return (
        lax.clamp(x.dtype.type(-3), x, x.dtype.type(3))
        if jnp.issubdtype(x.dtype, jnp.signedinteger) or jnp.issubdtype(x.dtype, jnp.floating)
        else x
    )


def draw_mapped(draw: Draw) -> tuple[Module, list[Array]]:
    """A function of one example mapped over batches, or a gradient of it, lowered to HLO, and its arguments."""
    with jax.enable_x64(True):
        return _mapped(draw)


def _mapped(draw: Draw) -> tuple[Module, list[Array]]:
    dtype, example = draw.pick(DTYPES), draw.pick(EXAMPLES)
    steps = [draw.pick((_looked_up, _written, _read, _repeated))(draw) for _ in range(draw.integer(1, 4))]
    batch = (
        tuple(draw.pick(BATCHES) for _ in range(1))
        if not draw.chance(3)
        else (draw.pick((2, 3, 8)), draw.pick((8, 9, 16)))
    )
    shared, turned, back = draw.chance(5), draw.chance(4), draw.chance(4)
    derived = draw.integer(0, 3) if "float" in dtype and dtype != "bfloat16" else 0

    def one(x: Any, i: Any) -> Any:
        for step in steps:
            try:
                y = step(x, i)
            except Skip:
                continue
            if y.ndim in (1, 2) and 0 < y.size <= 64:
                x = _within(y)
            elif y.ndim == 0:
                x = _within(x + y if x.dtype != bool else x ^ y)
        return x

    def mapped(x: Any, i: Any) -> Any:
        f = one
        for _ in batch[1:]:
            f = jax.vmap(f, (0, 0))
        last = turned and len(batch) == 1
        return jax.vmap(f, (-1 if last else 0, None if shared else 0), -1 if back and len(batch) == 1 else 0)(x, i)

    def loss(x: Any, i: Any) -> Any:
        y = mapped(x, i)
        weights = (jnp.arange(y.size) % 3 + 1).astype(y.dtype).reshape(y.shape)
        return jnp.sum(y * weights * (y if derived == 3 else y.dtype.type(1)))

    rng = np.random.default_rng(draw.integer(0, 99))
    dims = (*example, *batch) if turned and len(batch) == 1 else (*batch, *example)
    places_dims = (*(batch[1:] if shared else batch), draw.pick((3, 1, 9)))
    outside = draw.chance(3)
    low = 0 if dtype in ("uint8", "bool") else -3
    x = jnp.asarray(rng.integers(low, 2 if dtype == "bool" else 4, dims), dtype)
    i = jnp.asarray(
        rng.integers(-2 * outside, example[0] + 2 * outside, places_dims),
        ("int32", "int32", "int64", "int8")[draw.integer(0, 3)],
    )
    return jax_program(jax.grad(loss) if derived else mapped, mapped, x, i)


def jax_program(f: Callable[..., Any], plain: Callable[..., Any], *arguments: jax.Array) -> tuple[Module, list[Array]]:
    """The module of a function and those of its arguments that it takes; of the `plain` one where `f` is a derivative
    that JAX does not know, as those of some writes and loops."""
    try:
        lowered = jax.jit(f).lower(*arguments)
    except (NotImplementedError, ValueError):
        lowered = jax.jit(plain).lower(*arguments)
    module = Module.from_proto(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())  # type: ignore[union-attr]
    kept = lowered._lowering.compile_args["kept_var_idx"]
    return module, [np.asarray(a) for k, a in enumerate(arguments) if k in kept]
