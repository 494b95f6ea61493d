"""Random programs that update arrays where they lie: loops, branches and states whose arrays change in part.

A few arrays of one element type are carried through loops, conditionals and calls. A statement makes a new version of
one of them, out of parts of any version of any of them that there was, so that old versions are read after an update,
before it, and beside it; versions change places, return beside each other, and come from parameters, constants and
each other. Some of the programs are functions of JAX of the same kind, in `jax.vmap`, and their gradients. All
numbers are whole, and exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.support.random_batched import jax_program
from tests.support.random_values import COMPLEX, Draw, values
from xla_wasm.builder import Builder
from xla_wasm.hlo.attrs import GatherDimensionNumbers, PaddingDimension, ScatterDimensionNumbers, SliceDimension
from xla_wasm.hlo.ir import Computation, Instruction, Module
from xla_wasm.hlo.shape import Shape
from xla_wasm.hlo.types import TYPES
from xla_wasm.ops.dtypes import Array

DIMS = ((5, 3), (8, 9), (130,), (33, 5), (4, 4), (7,), (300,), (6, 3, 4), (16, 16), (65,), (2, 9, 5), (3, 40), (64,))
TYPES_DRAWN = ("f32", "s32", "u8", "f64", "c64", "pred", "f32", "s16", "bf16", "s64")
SAME_WIDTH = {"f32": "s32", "s32": "u32", "u8": "s8", "f64": "s64", "s16": "u16", "bf16": "u16", "s64": "u64"}
S32 = Shape("s32")
_ALL = PaddingDimension(0, 0, 0)
LIMIT = 64
"""The number modulo which floats are kept after each sum of two."""


def draw_updates(draw: Draw) -> tuple[Module, list[Array]]:
    """A program of the family and its arguments."""
    return draw_updating_function(draw) if draw.chance(8) else _drawn(draw)


# --- programs in HLO --------------------------------------------------------------------------------------------------


class Scope:
    """A computation that grows: the latest version of each array, all versions that it has had, and numbers."""

    def __init__(self, draw: Draw, name: str, dtype: str, tells: bool, depth: int = 0):
        self.draw = draw
        self.b = Builder(name)
        self.dtype = dtype
        self.tells = tells
        """True if the host gets versions in between."""
        self.depth = depth
        self.arrays: list[Instruction] = []
        self.versions: list[Instruction] = []
        self.numbers: list[Instruction] = []

    def begin(self, arrays: Sequence[Instruction], numbers: Sequence[Instruction]) -> None:
        self.arrays, self.versions, self.numbers = [*arrays], [*arrays], [*numbers]

    def put(self, k: int, made: Instruction) -> None:
        """The next version of array `k`."""
        self.arrays[k] = made
        self.versions.append(made)

    def grow(self, least: int, most: int) -> None:
        for _ in range(self.draw.integer(least, most)):
            self.draw.pick(STATEMENTS if self.depth < 2 else SIMPLE)(self)
            if self.tells and self.draw.chance(2):
                put_out(self)

    def inner(self, name: str) -> Scope:
        return Scope(self.draw, name, self.dtype, self.tells, self.depth + 1)

    # --- what is read -----------------------------------------------------------------------------------------------

    def version(self) -> Instruction:
        return self.draw.pick(self.arrays if self.draw.chance(2) else self.versions[::-1])

    def constant(self, number: int) -> Instruction:
        return self.b.constant(number, "s32")

    def number(self) -> Instruction:
        """A place: constant, counted, or what an element says."""
        way = self.draw.integer(0, 5)
        if way == 0 or not self.numbers:
            return self.constant(self.draw.integer(0, 5))
        x = self.draw.pick(self.numbers[::-1])
        if way == 1:
            return self.b.add(x, self.constant(self.draw.integer(1, 3)))
        if way == 2:
            return self.b.subtract(self.constant(self.draw.integer(2, 6)), x)
        if way == 3:
            return self.b.op("remainder", x, self.constant(self.draw.integer(2, 3)))
        if way == 4:
            return self.told(self.version())
        return x

    def told(self, v: Instruction) -> Instruction:
        """The number that one element of a version is, at most 7."""
        x = self.element(v)
        if self.dtype in COMPLEX:
            x = self.b.op("real", x)
        if x.shape.element_type != "s32":
            x = self.b.convert(x, "s32")
        return self.b.op("clamp", self.constant(-1), x, self.constant(7))

    def element(self, v: Instruction) -> Instruction:
        """One element, at a place that does not depend on others."""
        at = [self.draw.pick([self.constant(self.draw.integer(0, 5)), *self.numbers]) for _ in v.shape.dimensions]
        x = self.b.op("dynamic-slice", v, *at, dynamic_slice_sizes=(1,) * len(at))
        return self.b.reshape(x, ())

    def starts(self, dims: Sequence[int], sizes: Sequence[int]) -> list[Instruction]:
        return [
            self.constant(0) if size == whole and self.draw.integer(0, 3) else self.number()
            for whole, size in zip(dims, sizes)
        ]

    def sizes(self, dims: Sequence[int]) -> tuple[int, ...]:
        """The updates of a part: single elements, rows, columns, blocks."""
        way = self.draw.integer(0, 3)
        if way == 0:
            return (1, *dims[1:])
        if way == 1:
            return (1,) * len(dims)
        if way == 2:
            return (*dims[:-1], 1)
        return tuple(self.draw.integer(1, min(size, 9)) if self.draw.chance(2) else size for size in dims)

    def part(self, sizes: tuple[int, ...], depth: int = 0) -> Instruction:
        """An array of these sizes, made of parts of any versions."""
        b, draw = self.b, self.draw
        v = self.version()
        dims = v.shape.dimensions
        if len(dims) != len(sizes) or any(size > whole for size, whole in zip(sizes, dims)):
            x = self.element(v)
            return b.broadcast(x, sizes) if sizes else x
        way = draw.integer(0, 8 if depth < 2 else 2)
        if way <= 1:
            return b.op("dynamic-slice", v, *self.starts(dims, sizes), dynamic_slice_sizes=sizes)
        if way == 2:
            first = [draw.integer(0, whole - size) for size, whole in zip(sizes, dims)]
            return b.op("slice", v, slice=tuple(SliceDimension(s, s + n, 1) for s, n in zip(first, sizes)))
        if way <= 4:
            return self.sum(self.part(sizes, depth + 1), self.part(sizes, depth + 1))
        if way == 5:
            return b.op("reverse", self.part(sizes, depth + 1), dimensions=(draw.integer(0, len(sizes) - 1),))
        if way == 6:
            if self.dtype in COMPLEX:
                return b.broadcast(self.element(v), sizes)
            least = False if self.dtype == "pred" else 0
            total = b.reduce(v, least, "or" if self.dtype == "pred" else "maximum", range(1, len(dims)))
            return b.broadcast(total, sizes, (0,)) if sizes[0] == dims[0] else self.part(sizes, depth + 1)
        if way == 7:
            return self.rows(v, sizes)
        test = b.compare(self.number(), self.number(), draw.pick(("LT", "EQ", "GE")))
        test = b.broadcast(test, sizes) if draw.chance(2) else test
        return b.op("select", test, self.part(sizes, depth + 1), self.part(sizes, depth + 1))

    def rows(self, v: Instruction, sizes: tuple[int, ...]) -> Instruction:
        """Looked up, row by row."""
        rank = len(sizes)
        numbers = GatherDimensionNumbers(tuple(range(1, rank)), (0,), (0,), 1)
        return self.b.op(
            "gather", v, self.places(sizes[0]), gather_dimension_numbers=numbers, slice_sizes=(1, *sizes[1:])
        )

    def places(self, count: int) -> Instruction:
        """Index vectors of one number each, some of them alike or outside."""
        b, draw = self.b, self.draw
        shape = Shape("s32", (count, 1))
        way = draw.integer(0, 3)
        if way == 0:
            return b.constant(shape, values(draw.integer(0, 9) * 2, (count,), "s32").tolist())
        counted = b.iota(shape, 0)
        x = b.broadcast(self.number(), (count, 1))
        if way == 3:
            return b.op("abs", b.subtract(x, counted))
        x = b.add(counted, x)
        return b.op("remainder", x, b.full(draw.integer(2, 9), shape)) if way == 2 else x

    def sum(self, x: Instruction, y: Instruction) -> Instruction:
        """Two arrays in one, no greater than they may be."""
        b, draw = self.b, self.draw
        if self.dtype == "pred":
            return b.op(draw.pick(("xor", "or", "and")), x, y)
        if self.dtype in COMPLEX:
            total = b.op(draw.pick(("add", "subtract")), x, y)
            return b.op("complex", *(self.limited(b.op(part, total)) for part in ("real", "imag")))
        total = b.op(draw.pick(("add", "subtract", "maximum")), x, y)
        return self.limited(total) if TYPES[self.dtype].kind == "float" else total

    def limited(self, x: Instruction, limit: int = LIMIT) -> Instruction:
        low, high = (self.b.constant(sign * limit, x.shape.element_type) for sign in (-1, 1))
        return self.b.op("clamp", low, x, high)

    # --- computations of all arrays ---------------------------------------------------------------------------------

    def enter(self, name: str, shape: Shape, count: int) -> Scope:
        """A computation of one tuple: `count` arrays, then numbers."""
        scope = self.inner(name)
        p = scope.b.parameter(0, shape)
        parts = [scope.b.get_tuple_element(p, k) for k in range(len(shape.tuple_shapes))]
        scope.begin(parts[:count], parts[count:])
        return scope

    def outs(self, before: Sequence[Instruction]) -> list[Instruction]:
        """The version that each array becomes: its latest, another one, or one that it had."""
        result = [*self.arrays]
        for k, x in enumerate(result):
            if self.draw.chance(6):
                result[k] = self.draw.pick([v for v in self.versions if v.shape == x.shape])
        way = self.draw.integer(0, 5)
        alike = [k for k, x in enumerate(result) if x.shape == before[0].shape]
        if way >= 4 and len(alike) > 1:  # swapped, or rotated
            turned = [result[k] for k in (*alike[1:], alike[0])]
            for k, x in zip(alike, turned):
                result[k] = x
        return result

    def take(self, made: Instruction, arrays: Sequence[int]) -> None:
        for k, at in enumerate(arrays):
            self.put(at, self.b.get_tuple_element(made, k))


def update(p: Scope) -> None:
    k = p.draw.integer(0, len(p.arrays) - 1)
    v = p.arrays[k]
    dims = v.shape.dimensions
    sizes = p.sizes(dims)
    p.put(k, p.b.op("dynamic-update-slice", v, p.part(sizes), *p.starts(dims, sizes)))


def seen(p: Scope) -> None:
    """An update of an array in another shape, another order, or as other bits."""
    k = p.draw.integer(0, len(p.arrays) - 1)
    v, b = p.arrays[k], p.b
    dims = v.shape.dimensions
    way = p.draw.integer(0, 2)
    if way == 1 and len(dims) > 1:
        order = p.draw.permutation(len(dims))
        x = b.transpose(v, order)
    elif way == 2 and p.dtype in SAME_WIDTH:
        x = b.bitcast_convert(v, SAME_WIDTH[p.dtype])
    else:
        n = next(d for d in (2, 3, 5, 1) if v.shape.dimensions and prod(dims) % d == 0)
        x = b.reshape(v, (prod(dims),) if len(dims) > 1 and p.draw.chance(2) else (n, prod(dims) // n))
    sizes = p.sizes(x.shape.dimensions)
    small = p.part(sizes)
    if x.shape.element_type != p.dtype:
        small = b.bitcast_convert(small, x.shape.element_type)
    x = b.op("dynamic-update-slice", x, small, *p.starts(x.shape.dimensions, sizes))
    if x.shape.element_type != p.dtype:
        x = b.bitcast_convert(x, p.dtype)
    elif way == 1 and len(dims) > 1:
        x = b.transpose(x, [order.index(d) for d in range(len(dims))])
    else:
        x = b.reshape(x, dims)
    p.put(k, x)


def swap(p: Scope) -> None:
    """Two parts of an array change places."""
    k = p.draw.integer(0, len(p.arrays) - 1)
    v = p.arrays[k]
    dims = v.shape.dimensions
    sizes = (1, *dims[1:]) if p.draw.chance(2) else (1,) * len(dims)
    one, other = p.starts(dims, sizes), p.starts(dims, sizes)
    x, y = (p.b.op("dynamic-slice", v, *at, dynamic_slice_sizes=sizes) for at in (one, other))
    first = p.b.op("dynamic-update-slice", v, y, *one)
    if p.draw.chance(3):
        p.versions.append(first)
    p.put(k, p.b.op("dynamic-update-slice", first, x, *other))


def shift(p: Scope) -> None:
    """Rows move by one or more, as far as there is room for them: in what was there, in something else, or around."""
    k = p.draw.integer(0, len(p.arrays) - 1)
    v, b = p.arrays[k], p.b
    n, *rest = v.shape.dimensions
    if n < 2:
        return
    rows, up = p.draw.integer(1, min(n - 1, 3)), p.draw.integer(0, 1)
    x = p.draw.pick([v, v, *(w for w in p.versions if w.shape == v.shape)])
    way = p.draw.integer(0, 3)
    if way == 2:
        moved = (rows, -rows) if up else (-rows, rows)
        p.put(k, b.op("pad", x, p.element(p.version()), padding=(PaddingDimension(*moved, 0), *[_ALL] * len(rest))))
        return

    def part(y: Instruction, start: int, stop: int) -> Instruction:
        bounds = (SliceDimension(start, stop, 1), *(SliceDimension(0, size, 1) for size in rest))
        return b.op("slice", y, slice=bounds)

    kept = part(x, 0, n - rows) if up else part(x, rows, n)
    if p.draw.chance(2):
        kept = p.sum(kept, p.part((n - rows, *rest)))
    if way == 3:
        other = part(x, n - rows, n) if up else part(x, 0, rows)
        if p.draw.chance(2):
            other = p.part((rows, *rest))
        p.put(k, b.concatenate(*((other, kept) if up else (kept, other))))
        return
    start = p.constant(rows if up else 0)
    p.put(k, b.op("dynamic-update-slice", v, kept, start, *(p.constant(0) for _ in rest)))


def scatter(p: Scope) -> None:
    """Rows of one array, or of two at once, set or summed at several places."""
    k = p.draw.integer(0, len(p.arrays) - 1)
    alike = [j for j, v in enumerate(p.arrays) if v.shape == p.arrays[k].shape and j != k]
    which = [k, p.draw.pick(alike)] if alike and p.draw.chance(4) else [k]
    dims = p.arrays[k].shape.dimensions
    count = p.draw.pick((1, 3, 8, 9, 2))
    rank = len(dims)
    f = Builder("combine")
    scalars = [f.parameter(i, Shape(p.dtype)) for i in range(2 * len(which))]
    made, updates = [], []
    for old, new in zip(scalars[: len(which)], scalars[len(which) :]):
        opcodes = ("set", "or") if p.dtype == "pred" else ("set",) if p.dtype in COMPLEX else ("set", "add", "maximum")
        opcode = p.draw.pick(opcodes)
        made.append(new if opcode == "set" else f.op(opcode, old, new))
        x = p.part((count, *dims[1:]))
        small = opcode == "add" and TYPES[p.dtype].kind == "float"
        updates.append(p.limited(x, 1) if small else x)
    if p.dtype == "bf16" and "add" in {m.opcode for m in made}:
        return
    called = f.build(made[0] if len(which) == 1 else f.op("tuple", *made))
    numbers = ScatterDimensionNumbers(tuple(range(1, rank)), (0,), (0,), 1)
    operands = [p.arrays[j] for j in which]
    y = p.b.op("scatter", *operands, p.places(count), *updates, called=[called], scatter_dimension_numbers=numbers)
    for i, j in enumerate(which):
        p.put(j, y if len(which) == 1 else p.b.get_tuple_element(y, i))


def whole(p: Scope) -> None:
    """All elements of an array anew."""
    k = p.draw.integer(0, len(p.arrays) - 1)
    v = p.arrays[k]
    dims = v.shape.dimensions
    other = p.draw.pick([w for w in p.versions if w.shape == v.shape])
    way = p.draw.integer(0, 4)
    if way == 0:
        p.put(k, p.sum(v, other))
    elif way == 1:
        here = p.b.compare(p.b.iota(Shape("s32", dims), 0), p.b.broadcast(p.number(), dims), p.draw.pick(("EQ", "LT")))
        p.put(k, p.b.op("select", here, p.part(dims, 1), v))
    elif way == 2:
        p.put(k, p.b.op("reverse", other, dimensions=(0,)))
    elif way == 3 and len(dims) == 2 and dims[0] == dims[1]:
        p.put(k, p.b.transpose(other, (1, 0)))
    else:
        p.put(k, other)  # an array becomes a version of another


def exchange(p: Scope) -> None:
    """Two arrays change places."""
    pairs = [(i, j) for j, y in enumerate(p.arrays) for i, x in enumerate(p.arrays[:j]) if x.shape == y.shape]
    if pairs:
        i, j = p.draw.pick(pairs)
        p.arrays[i], p.arrays[j] = p.arrays[j], p.arrays[i]


def noted(p: Scope) -> None:
    """A number that an array said then."""
    p.numbers.append(p.told(p.version()))


def put_out(p: Scope) -> None:
    """The host gets a version, or a part of one."""
    x = p.version()
    if p.draw.chance(2):
        x = p.part(p.sizes(x.shape.dimensions))
    p.b.op("outfeed", x, p.b.op("after-all"), outfeed_shape=x.shape)


def _chosen(p: Scope) -> list[int]:
    """The numbers of most arrays."""
    return [k for k in range(len(p.arrays)) if p.draw.integer(0, 3)] or [0]


def _given(p: Scope) -> tuple[list[int], Instruction]:
    """The numbers of arrays that a computation gets, and the tuple of these and of what goes with them."""
    order = _chosen(p)
    given = [p.arrays[k] for k in order]
    if p.draw.chance(4):  # one that it had, beside the one that it has
        k = p.draw.integer(0, len(given) - 1)
        given[k] = p.draw.pick([v for v in p.versions if v.shape == given[k].shape])
    return order, p.b.op("tuple", *given, *p.numbers[-2:])


def loop(p: Scope) -> None:
    order = _chosen(p)
    given = [p.arrays[k] for k in order]
    extra: list[Instruction] = []
    if p.draw.chance(2):  # further arrays that are only read, or become versions of the others
        extra = [p.draw.pick(given if p.draw.chance(2) else p.versions) for _ in range(p.draw.integer(1, 2))]
    _loop(p, order, extra, p.draw.integer(0, 2) > 0)


def sweep(p: Scope) -> None:
    """A loop that makes an array anew, part by part, out of what it was before the loop."""
    k = p.draw.integer(0, len(p.arrays) - 1)
    _loop(p, [k], [p.arrays[k]], True)


def _loop(p: Scope, order: list[int], extra: list[Instruction], read_only: bool) -> None:
    given, numbers = [p.arrays[k] for k in order], p.numbers[-2:]
    trips = p.draw.integer(1, 6 if p.depth == 0 else 3)
    state = p.b.op("tuple", *given, *extra, *numbers, p.constant(0))
    count = len(given) + len(extra)
    body = p.enter("body", state.shape, count)
    before = [*body.arrays]
    own, i = [*body.numbers], body.numbers[-1]
    body.numbers += [i, i]
    if read_only:
        del body.arrays[len(given) :]
    body.grow(1, 4 if p.depth == 0 else 2)
    if p.depth == 0 and p.draw.chance(3):
        sweep(body)  # what it makes is most likely the array's next value
    outs = [*body.outs(before), *(before[len(given) :] if read_only else [])]
    kept = [body.told(body.version()) if p.draw.chance(4) else x for x in own[:-1]]
    called = body.b.build(body.b.op("tuple", *outs, *kept, body.b.add(i, body.constant(1))))
    made = p.b.while_(state, _condition(p, state.shape, count, trips), called)
    p.take(made, order)
    if extra and p.draw.chance(2):
        p.versions.append(p.b.get_tuple_element(made, len(given)))


def _condition(p: Scope, shape: Shape, count: int, trips: int) -> Computation:
    c = p.enter("condition", shape, count)
    last = c.numbers[-1]
    go_on = c.b.compare(last, c.constant(trips), "LT")
    if p.draw.chance(3):
        c.numbers = [last]
        other = c.b.compare(c.told(c.version()), c.constant(p.draw.integer(-1, 7)), "NE")
        go_on = c.b.op("and", go_on, c.b.op("or", other, c.b.compare(last, c.constant(1), "LT")))
    return c.b.build(go_on)


def branch(p: Scope) -> None:
    order, state = _given(p)
    ways = p.draw.integer(2, 3)
    which = p.number()
    if ways == 2:
        which = p.b.compare(which, p.number(), p.draw.pick(("LT", "EQ")))
    called = []
    for k in range(ways):
        c = p.enter(f"branch{k}", state.shape, len(order))
        before = [*c.arrays]
        c.grow(0, 2)
        called.append(c.b.build(c.b.op("tuple", *c.outs(before))))
    p.take(p.b.op("conditional", which, *[state] * ways, called=called), order)


def called(p: Scope) -> None:
    order, state = _given(p)
    c = p.enter("called", state.shape, len(order))
    before = [*c.arrays]
    c.grow(1, 2)
    root = c.b.op("tuple", *c.outs(before))
    p.take(p.b.op("call", state, called=[c.b.build(root)], shape=root.shape), order)


SIMPLE: tuple[Callable[[Scope], None], ...] = (update, update, update, swap, scatter, shift, seen, whole, exchange)
STATEMENTS = (*SIMPLE, update, scatter, swap, noted, loop, sweep, branch, branch, called)


def _drawn(draw: Draw) -> tuple[Module, list[Array]]:
    dtype, dims = draw.pick(TYPES_DRAWN), draw.pick(DIMS)
    p = Scope(draw, "main", dtype, draw.chance(10))
    arguments: list[Array] = []

    def parameter(shape: Shape) -> Instruction:
        arguments.append(values(draw.integer(0, 9), shape.dimensions, shape.element_type))
        return p.b.parameter(len(arguments) - 1, shape)

    arrays = [parameter(Shape(dtype, dims))]
    for _ in range(draw.integer(0, 2)):
        way = draw.integer(0, 6)
        turned = draw.pick((dims[::-1], (prod(dims),), dims[1:] or (9,), (2, *dims))) if way == 6 else dims
        other = Shape(dtype, turned)
        if way == 0:
            arrays.append(p.b.full(0, other))
        elif way == 1:
            arrays.append(p.b.constant(other, values(draw.integer(0, 9), dims, dtype).reshape(-1).tolist()))
        elif way == 2:
            arrays.append(draw.pick(arrays))  # one array, carried twice
        else:
            arrays.append(parameter(other))
    p.begin(arrays, [])
    if draw.chance(2):
        at = parameter(S32)
        p.numbers.append(p.b.op("clamp", p.constant(0), at, p.constant(9)))
    p.grow(0, 1)
    loop(p)
    p.grow(0, 1)
    if draw.chance(3):
        loop(p)
    results = [x for x in p.arrays if not draw.chance(6)] or p.arrays[:1]
    results += [draw.pick(p.versions) for _ in range(draw.integer(0, 2))]
    if draw.chance(3):
        v = p.version()
        results.append(p.sum(v, draw.pick([w for w in p.versions if w.shape == v.shape])))
    return p.b.module(results[0] if len(results) == 1 else p.b.op("tuple", *results)), arguments


# --- functions of JAX -------------------------------------------------------------------------------------------------


Step = Callable[[list[Any], Any, Any], None]
"""Changes a list of arrays of one example, at a count of the loop, by numbers of the example's own."""
EXAMPLES = ((5, 3), (9,), (17,), (4, 4), (33,), (2, 3, 3), (40,))
BATCHES = (2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 33)


def _place(draw: Draw) -> Callable[[list[Any], Any, Any], Any]:
    way, number, which = draw.integer(0, 4), draw.integer(0, 4), draw.integer(0, 2)

    def place(xs: list[Any], t: Any, at: Any) -> Any:
        n = xs[0].shape[0]
        if way == 0:
            return (t + number) % n
        if way == 1:
            return at[number % at.shape[0]] % n
        if way == 2:
            return at[t % at.shape[0]]
        if way == 3:
            x = lax.stop_gradient(xs[which % len(xs)]).reshape(-1)[number % xs[0].size]
            return jnp.clip(jnp.abs(jnp.real(x).astype(jnp.int32)), 0, n)
        return jnp.where(at[0] < t, t, n - 1 - t)

    return place


def _within(x: Any) -> Any:
    """Numbers so small that all sums of them are exact."""
    return lax.clamp(x.dtype.type(-LIMIT), x, x.dtype.type(LIMIT)) if jnp.issubdtype(x.dtype, jnp.floating) else x


def _plus(x: Any, y: Any) -> Any:
    return x ^ y if x.dtype == bool else _within(x + y)


def _step(draw: Draw, depth: int = 0) -> Step:
    way, k, j = draw.integer(0, 11 if depth < 2 else 7), draw.integer(0, 2), draw.integer(0, 2)
    one, other = _place(draw), _place(draw)
    trips, inner = draw.integer(1, 3), [_step(draw, depth + 1) for _ in range(draw.integer(1, 2))] if way > 7 else []

    def step(xs: list[Any], t: Any, at: Any) -> None:
        a, b = k % len(xs), j % len(xs)
        x, y, n = xs[a], xs[b], xs[a].shape[0]
        p, q = one(xs, t, at), other(xs, t, at)
        if way == 0:
            xs[a] = x.at[p].set(_plus(y[q], y[(q + 1) % n]))
        elif way == 1:
            xs[a] = x.at[p].set(y[q], mode="drop" if trips > 1 else "clip")
        elif way == 2:
            xs[a] = x.at[p].set(x[q]).at[q].set(x[p])
        elif way == 3:
            size = max(1, n // 2)
            part = lax.dynamic_slice_in_dim(y, q, size)
            xs[a] = lax.dynamic_update_slice_in_dim(x, jnp.flip(part, 0) if trips > 1 else part, p, 0)
            xs[b] = xs[b].at[0].set(x[-1])
        elif way == 4:
            xs[a], xs[b] = y.at[p].set(x[0]), x
        elif way == 5:
            xs[a] = x.at[1:].set(_plus(y[:-1], x[p]))
        elif way == 6:
            rows = (jnp.arange(n) * trips + p) % n
            xs[a] = x.at[rows[: 1 + n // 2]].set(y[rows][: 1 + n // 2] if trips > 1 else x[q])
        elif way == 7:
            xs[a] = jnp.where(p < q, x.at[q].set(y[0]), y)
        elif way in (8, 9):

            def turn(i: Any, c: Any) -> Any:
                return tuple(_all(inner, c, i + (t if trips > 1 else 0), at))

            xs[:] = lax.fori_loop(0, trips, turn, tuple(xs))
        elif way == 10:
            changed = [lambda *c: c, lambda *c: tuple(_all(inner, c, t, at)), lambda *c: (c[-1], *c[:-1])]
            xs[:] = lax.switch(jnp.clip(p, 0, trips), changed[: trips + 1], *xs)
        else:
            xs[:] = lax.cond(p < q, lambda *c: tuple(_all(inner, c, t, at)), lambda *c: c, *xs)

    return step


def _all(steps: Sequence[Step], arrays: Sequence[Any], t: Any, at: Any) -> list[Any]:
    xs = [*arrays]
    for step in steps:
        step(xs, t, at)
    return xs


def draw_updating_function(draw: Draw) -> tuple[Module, list[Array]]:
    """A function of one example in `jax.vmap`, or a gradient of it, lowered to HLO, and its arguments."""
    with jax.enable_x64(True):
        return _mapped(draw)


def _mapped(draw: Draw) -> tuple[Module, list[Array]]:
    dtype = draw.pick(("float32", "int32", "float64", "uint8", "bool", "int16"))
    example, count, trips = draw.pick(EXAMPLES), draw.integer(1, 3), draw.integer(1, 5)
    steps = [_step(draw) for _ in range(draw.integer(1, 4))]
    batch = draw.pick(BATCHES) if draw.chance(2) else 0
    derived, way, shared = draw.chance(3) and "float" in dtype, draw.integer(0, 3), draw.chance(4)

    def one(x: Any, at: Any) -> Any:
        xs = [x if k == 0 else jnp.zeros_like(x) if k == 1 else jnp.flip(x, 0) for k in range(count)]

        def turn(t: Any, c: Any) -> Any:
            return tuple(_all(steps, c, t, at))

        if way == 0:
            return lax.fori_loop(0, trips, turn, tuple(xs))
        if way == 1:
            return lax.scan(lambda c, t: (turn(t, c), c[0][t % x.shape[0]]), tuple(xs), jnp.arange(trips))
        if way == 2 and not derived:
            return lax.while_loop(
                lambda c: (c[0] < trips) & (jnp.sum(jnp.abs(c[1][0]).astype(jnp.float32)) < 50),
                lambda c: (c[0] + 1, turn(c[0], c[1])),
                (0, tuple(xs)),
            )
        return lax.scan(lambda c, t: (turn(t, c), c[-1]), tuple(xs), jnp.arange(trips)), x

    def mapped(x: Any, at: Any) -> Any:
        return jax.vmap(one, (0, None if shared else 0))(x, at) if batch else one(x, at)

    def loss(x: Any, at: Any) -> Any:
        return sum(jnp.sum((jnp.arange(y.size) % 3 + 1).reshape(y.shape) * y) for y in jax.tree.leaves(mapped(x, at)))

    rng = np.random.default_rng(draw.integer(0, 99))
    before = (batch,) if batch else ()
    low, high = (0, 2) if dtype == "bool" else (0 if dtype == "uint8" else -4, 5)
    x = jnp.asarray(rng.integers(low, high, (*before, *example)), dtype)
    places_dims = (*(() if shared else before), draw.pick((3, 1)))
    at = jnp.asarray(rng.integers(0, example[0] + 1, places_dims), "int32")
    return jax_program(jax.grad(loss) if derived else mapped, mapped, x, at)
