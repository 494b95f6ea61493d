"""Laws of `multiplied.py` for any computation of arrays: each makes a function of another one, and its meaning of that
one's."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np

from tests.support import multiplied_places as places
from tests.support.batching import Batching, Leaf, Unavailable, leaves, plain, taken_apart, unique
from tests.support.multiplied import Array, Batch, Function, Meaning, contiguous
from xla_wasm.builder import Builder
from xla_wasm.hlo.ir import Instruction
from xla_wasm.hlo.shape import Shape

Law = Callable[[Function, random.Random, int], Function]
"""From a function, choices and a size (where the law has one) to another function. Raises Unavailable."""

SIZES = (1, 3, 8, 9, 17, 33)
LARGE = (64, 65, 257, 1030)
"""Sizes whose arguments repeat after a few, for kernels that are long enough to be shared among threads."""
MOST_DISTINCT = 33
MOST_ELEMENTS = 1 << 19


def varied(a: Array, number: int, seed: int) -> Array:
    """Another argument like `a`: its elements in another order, or another number. The first one is `a`."""
    if not number or not a.size:
        return a
    if a.size > 1:
        if a.ndim >= 2 and a.shape[-1] == a.shape[-2] and a.dtype.kind in "fc" and seed % 3 == 0:
            return (a * a.dtype.type(2.0 ** (number % 7))).astype(a.dtype)  # what it is, as positive definite, stays
        order = np.random.default_rng([seed, number]).permutation(a.size)
        return a.reshape(-1)[order].reshape(a.shape)
    if a.dtype == bool:
        return a ^ (number % 2 == 1)
    with np.errstate(all="ignore"):
        return (a + np.asarray(number % 5).astype(a.dtype)).astype(a.dtype)


def _called(b: Builder, f: Function, arguments: Sequence[Instruction]) -> list[Instruction]:
    return taken_apart(b, b.op("call", *arguments, called=[f.computation]))


def _shape(a: Array, like: Instruction) -> Shape:
    return Shape(like.shape.element_type, a.shape)


# --- batches ----------------------------------------------------------------------------------------------------------


def axes_of(arguments: Sequence[Array], choose: random.Random) -> list[int | None]:
    """The axis of the batch for each argument; None of those that are the same for all."""
    if not arguments:
        raise Unavailable("no arguments")
    axes: list[int | None] = [
        choose.choice((0, 0, 0, choose.randint(0, a.ndim))) if choose.random() < 0.7 else None for a in arguments
    ]
    if all(axis is None for axis in axes):
        axes[choose.randrange(len(axes))] = 0
    return axes


def stacked(
    arguments: Sequence[Array], axes: Sequence[int | None], size: int, choose: random.Random
) -> tuple[list[Array], int]:
    """Arguments for a batch, and how many different elements it has."""
    if size * sum(a.size for a in arguments) > MOST_ELEMENTS:
        raise Unavailable("too many elements")
    distinct = min(size, MOST_DISTINCT if size in SIZES else 5)
    seed = choose.randrange(1000)
    made = [
        a if axis is None else np.stack([varied(a, k % distinct, seed + i) for k in range(size)], axis)
        for i, (a, axis) in enumerate(zip(arguments, axes))
    ]
    return made, distinct


def elements(meaning: Meaning, axes: Sequence[int | None], outputs: Sequence[int], size: int) -> Meaning:
    """The meaning of a batch: the stack of what a function gives for each element."""

    def stack(arguments: Sequence[Array]) -> list[Array]:
        rows = [
            meaning([a if axis is None else contiguous(np.take(a, k, axis)) for a, axis in zip(arguments, axes)])
            for k in range(size)
        ]
        return [np.stack(column, axis) for column, axis in zip(zip(*rows), outputs, strict=True)]

    return stack


def batched(f: Function, choose: random.Random, size: int) -> Function:
    """The function on a batch is the stack of what it gives for each element."""
    axes = axes_of(f.arguments, choose)
    try:
        return _batched(f, choose, size, axes)
    except Unavailable:  # perhaps because of an initial value, which would have to be one for all
        few = [None if not a.ndim else axis for a, axis in zip(f.arguments, axes)]
        if few == axes or all(axis is None for axis in few):
            raise
        return _batched(f, choose, size, few)


def _batched(f: Function, choose: random.Random, size: int, axes: Sequence[int | None]) -> Function:
    if size * sum(r.shape.size for r in f.results) > MOST_ELEMENTS:
        raise Unavailable("too many elements")
    arguments, distinct = stacked(f.arguments, axes, size, choose)
    t = Batching(Builder(unique("batched")), size, choose)
    given: list[Leaf] = []
    for number, (p, a, axis) in enumerate(zip(f.parameters, arguments, axes)):
        x = t.b.parameter(number, _shape(a, p))
        given.append(Leaf(x if not axis else t.moved(x, axis, 0), axis is not None))
    results = leaves(t.run(f.computation, given))
    outputs = tuple(choose.choice((0, 0, choose.randint(0, r.shape.rank))) for r in f.results)
    root = t.b.op("tuple", *(t.moved(t.full(r), 0, axis) for r, axis in zip(results, outputs)))

    meaning = elements(f.meaning, axes, outputs, size)
    made = f.derived(t.b.build(root), arguments, meaning, distinct)
    return Function(made.computation, made.arguments, meaning, made.runs, f.rounded, Batch(size, tuple(axes), outputs))


# --- loops and branches -----------------------------------------------------------------------------------------------


def _state(b: Builder, shapes: Sequence[Shape]) -> list[Instruction]:
    return taken_apart(b, b.parameter(0, Shape.tuple([*shapes])))


def _loop(
    b: Builder, trips: Instruction, start: Sequence[Instruction], step: Callable[..., Sequence[Instruction]]
) -> list[Instruction]:
    """The state after so many trips: `step(b, i, trips, *state)` gives the next one."""
    begin = b.op("tuple", b.constant(0, "s32"), trips, *start)
    shapes = [plain(s) for s in begin.shape.tuple_shapes]
    inner = Builder(unique("condition"))
    i, limit, *_ = _state(inner, shapes)
    condition = inner.build(inner.compare(i, limit, "LT"))
    inner = Builder(unique("body"))
    i, limit, *state = _state(inner, shapes)
    after = step(inner, i, limit, *state)
    body = inner.build(inner.op("tuple", inner.add(i, inner.constant(1, "s32")), limit, *after))
    return taken_apart(b, b.while_(begin, condition, body))[2:]


def scanned(f: Function, choose: random.Random, size: int) -> Function:
    """A loop over the rows of its arguments gives the stack of what the function gives for each row."""
    if not f.arguments:
        raise Unavailable("no arguments")
    rows = [choose.random() < 0.6 for _ in f.arguments]
    rows[choose.randrange(len(rows))] = True
    total = sum(a.size for a in f.arguments) + sum(r.shape.size for r in f.results)
    if size not in SIZES or size * total > MOST_ELEMENTS:
        raise Unavailable("too many elements")
    seed = choose.randrange(1000)
    backwards, known = choose.random() < 0.3, choose.random() < 0.7
    arguments = [
        np.stack([varied(a, k, seed + i) for k in range(size)]) if s else a
        for i, (a, s) in enumerate(zip(f.arguments, rows))
    ]
    b = Builder(unique("scanned"))
    given = [b.parameter(i, _shape(a, p)) for i, (a, p) in enumerate(zip(arguments, f.parameters))]
    trips = b.constant(size, "s32") if known else b.parameter(len(given), Shape("s32"))
    outs = [b.full(0, Shape(r.shape.element_type, (size, *r.shape.dimensions))) for r in f.results]

    def step(e: Builder, i: Instruction, limit: Instruction, *state: Instruction) -> list[Instruction]:
        at = e.subtract(e.subtract(limit, i), e.constant(1, "s32")) if backwards else i
        zero = e.constant(0, "s32")
        values = []
        for x, s in zip(state, rows):
            dims = x.shape.dimensions[1:]
            if s:
                cut = e.op("dynamic-slice", x, at, *[zero] * len(dims), dynamic_slice_sizes=(1, *dims))
                x = e.reshape(cut, dims)
            values.append(x)
        results = _called(e, f, values)
        made = [e.reshape(r, (1, *r.shape.dimensions)) for r in results]
        kept = state[len(rows) :]
        updated = [
            e.op("dynamic-update-slice", out, row, at, *[zero] * (row.shape.rank - 1)) for out, row in zip(kept, made)
        ]
        return [*state[: len(rows)], *updated]

    root = b.op("tuple", *_loop(b, trips, [*given, *outs], step)[len(given) :])

    def meaning(arguments: Sequence[Array]) -> list[Array]:
        found = [f.meaning([np.asarray(a[k]) if s else a for a, s in zip(arguments, rows)]) for k in range(size)]
        return [np.stack(column) for column in zip(*found)]

    extra = [] if known else [np.asarray(size, np.int32)]
    return f.derived(b.build(root), [*arguments, *extra], meaning, size)


def _following(f: Function, choose: random.Random) -> dict[int, int]:
    """Parameters and the results of their shape that follow them."""
    pairs: dict[int, int] = {}
    for i, p in enumerate(f.parameters):
        free = [r for r, x in enumerate(f.results) if plain(x.shape) == plain(p.shape) and r not in pairs.values()]
        if free:
            pairs[i] = choose.choice(free)
    return pairs


def iterated(f: Function, choose: random.Random, size: int) -> Function:
    """A function on its own results, in a loop or written one after another, is its values' values."""
    pairs = _following(f, choose)
    if not pairs:
        raise Unavailable("no result has the shape of an argument")
    trips, looped = choose.choice((2, 3)), choose.random() < 0.6
    b = Builder(unique("iterated"))
    given = [b.parameter(i, plain(p.shape)) for i, p in enumerate(f.parameters)]

    def step(e: Builder, values: Sequence[Instruction]) -> tuple[list[Instruction], list[Instruction]]:
        results = _called(e, f, values)
        return [results[pairs[i]] if i in pairs else v for i, v in enumerate(values)], results

    if looped:
        outs = [b.full(0, plain(r.shape)) for r in f.results]

        def body(e: Builder, i: Instruction, limit: Instruction, *state: Instruction) -> list[Instruction]:
            values, results = step(e, state[: len(given)])
            return [*values, *results]

        results = _loop(b, b.constant(trips, "s32"), [*given, *outs], body)[len(given) :]
    else:
        values = given
        for _ in range(trips):
            values, results = step(b, values)
    root = b.op("tuple", *results)

    def meaning(arguments: Sequence[Array]) -> list[Array]:
        values = [*arguments]
        for _ in range(trips):
            results = f.meaning(values)
            values = [results[pairs[i]] if i in pairs else v for i, v in enumerate(values)]
        return results

    return f.derived(b.build(root), f.arguments, meaning, trips)


def _others(f: Function, choose: random.Random) -> tuple[list[Array], list[int]]:
    """Further arguments, and for each of the function's own which argument takes its place in another call."""
    more: list[Array] = []
    which = []
    seed = choose.randrange(1000)
    for i, a in enumerate(f.arguments):
        if choose.random() < 0.6:
            which.append(len(f.arguments) + len(more))
            more.append(varied(a, 1 + choose.randrange(4), seed + i))
        else:
            which.append(i)
    return more, which


def _second(
    b: Builder, f: Function, choose: random.Random
) -> tuple[list[Instruction], list[Array], list[int], list[int]]:
    """Parameters for two calls, their arguments, and which of them each call takes."""
    more, which = _others(f, choose)
    arguments = [*f.arguments, *more]
    origin = {place: i for i, place in enumerate(which)}
    given = [
        b.parameter(i, plain(f.parameters[i if i < len(f.parameters) else origin[i]].shape))
        for i in range(len(arguments))
    ]
    return given, arguments, [*range(len(f.arguments))], which


def branched(f: Function, choose: random.Random, size: int) -> Function:
    """A branch of a conditional gives what the function gives for the arguments of that branch."""
    b = Builder(unique("branched"))
    given, arguments, *calls = _second(b, f, choose)
    boolean = choose.random() < 0.5
    which = b.parameter(len(given), Shape("pred" if boolean else "s32"))
    called = []
    for _ in calls:
        inner = Builder(unique("branch"))
        values = _state(inner, [plain(p.shape) for p in f.parameters])
        called.append(inner.build(inner.op("tuple", *_called(inner, f, values))))
    operands = [b.op("tuple", *(given[i] for i in places)) for places in calls]
    root = b.op("tuple", *taken_apart(b, b.op("conditional", which, *operands, called=called)))

    def meaning(arguments: Sequence[Array]) -> list[Array]:
        number = int(arguments[-1])
        chosen = (0 if number else 1) if boolean else (number if 0 <= number < 2 else 1)
        return f.meaning([arguments[i] for i in calls[chosen]])

    number = np.asarray(choose.randint(0, 1), np.bool_) if boolean else np.asarray(choose.randint(-1, 3), np.int32)
    return f.derived(b.build(root), [*arguments, number], meaning, 1)


def doubled(f: Function, choose: random.Random, size: int) -> Function:
    """Two calls in one program give what each gives."""
    b = Builder(unique("doubled"))
    given, arguments, *calls = _second(b, f, choose)
    root = b.op("tuple", *(r for places in calls for r in _called(b, f, [given[i] for i in places])))

    def meaning(arguments: Sequence[Array]) -> list[Array]:
        return [r for places in calls for r in f.meaning([arguments[i] for i in places])]

    return f.derived(b.build(root), arguments, meaning, 2)


# --- parts of larger arrays -------------------------------------------------------------------------------------------


def placed(f: Function, choose: random.Random, size: int) -> Function:
    """The function of slices, transposes and the like of other arrays is its value for what these are; and its results
    may be parts of others."""
    b = Builder(unique("placed"))
    arguments: list[Array] = []

    def parameter(a: Array, dtype: str) -> Instruction:
        arguments.append(a)
        return b.parameter(len(arguments) - 1, Shape(dtype, a.shape))

    seen: list[Callable[[Sequence[Array]], Array]] = []
    values = []
    for a, p in zip(f.arguments, f.parameters):
        view = places.view(choose, a, p.shape.element_type) if choose.random() < 0.6 else places.whole(a)
        first = len(arguments)
        instructions = [parameter(x, dtype or p.shape.element_type) for x, dtype in view.arrays]
        values.append(view.write(b, instructions))
        seen.append(lambda all, view=view, first=first: view.read(all[first : first + len(view.arrays)]))  # type: ignore[misc]
    outs: list[Instruction] = []
    written: list[Callable[[Array, Sequence[Array]], list[Array]]] = []
    for r in _called(b, f, values):
        place = places.place(choose, r.shape) if choose.random() < 0.6 else places.alone()
        first = len(arguments)
        extra = [parameter(x, dtype or r.shape.element_type) for x, dtype in place.arrays]
        outs += place.write(b, r, extra)
        written.append(
            lambda y, all, place=place, first=first: place.read(y, all[first : first + len(place.arrays)])  # type: ignore[misc]
        )
    root = b.op("tuple", *outs)

    def meaning(arguments: Sequence[Array]) -> list[Array]:
        results = f.meaning([read(arguments) for read in seen])
        return [z for y, write in zip(results, written, strict=True) for z in write(y, arguments)]

    return f.derived(b.build(root), arguments, meaning, 1)


LAWS: dict[str, Law] = {
    "batched": batched,
    "scanned": scanned,
    "iterated": iterated,
    "branched": branched,
    "doubled": doubled,
    "placed": placed,
}


def following(f: Function, choose: random.Random) -> tuple[tuple[int, int], ...]:
    """Parameters and results for a state."""
    return tuple(pair for pair in _following(f, choose).items() if choose.random() < 0.7)
