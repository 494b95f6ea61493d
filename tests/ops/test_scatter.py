"""Scatters of single elements, whose places are computed in lanes, and those beside them that are taken one by one."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.differential import BOTH, differential, run
from xla_wasm.builder import Builder
from xla_wasm.hlo.attrs import ScatterDimensionNumbers, SliceDimension
from xla_wasm.hlo.ir import Instruction, Module
from xla_wasm.hlo.shape import Shape
from xla_wasm.ops.dtypes import Array
from xla_wasm.ops.sample import array, shape

TYPES = ("f32", "f32", "f32", "s32", "u32", "bf16", "s8", "u16", "pred", "f64", "s64")
INDICES = ("s32", "s32", "s32", "u32", "s8", "u8", "s16", "s64", "u64")
REDUCERS = ("add", "set", "maximum", "subtract", "long", "turned", "arrays")


def _reducer(name: str, dtype: str, count: int = 1) -> object:
    """Returns the computation that combines elements of `count` operands with their updates; "long" has more operations
    than are written out for each lane, "arrays" computes with arrays, as only loops do."""
    f = Builder("combine")
    old, *others = (f.parameter(n, Shape(dtype)) for n in range(2 * count))
    if count > 1:  # each result is of its own operand and of the next one's update
        *kept, new = (
            f.op("xor" if dtype == "pred" else "subtract", a, b) for a, b in zip([old, *others], others[::-1])
        )
        return f.build(f.op("tuple", *[new, *kept][:count]))
    (new,) = others
    if name == "set":
        return f.build(new)
    if dtype == "pred":
        return f.build(f.op({"maximum": "or", "subtract": "xor"}.get(name, "and"), old, new))
    if name == "arrays":
        both = f.op("concatenate", f.reshape(new, (1,)), f.reshape(old, (1,)), dimensions=(0,))
        both = f.op("subtract", both, f.op("reverse", both, dimensions=(0,)))
        return f.build(f.reshape(f.op("slice", both, slice=(SliceDimension(0, 1),)), ()))
    if name == "long":
        for _ in range(6):
            old = f.op("subtract", new, old)
        return f.build(old)
    return f.build(f.op("subtract", new, old) if name == "turned" else f.op(name, old, new))


def _literal(rng: np.random.Generator, dtype: str, dims: tuple[int, ...]) -> Array:
    made = rng.integers(0 if dtype[0] in "up" else -2, 3, dims)
    return made % 2 == 0 if dtype == "pred" else array(dtype, made)


def random_scatter(seed: int) -> tuple[Module, list[Array]]:
    """A scatter along one to three dimensions, most of which set one element with each update, and its arguments."""
    rng = np.random.default_rng(seed)
    dtype, index_type = str(rng.choice(TYPES)), str(rng.choice(INDICES))
    dims = tuple(int(rng.integers(1, 8)) for _ in range(rng.integers(1, 4)))
    if rng.random() < 0.03:
        dims = (0, *dims[1:])
    mapped = tuple(int(d) for d in rng.permutation(len(dims)))
    if rng.random() < 0.15:  # the others start at 0
        mapped = mapped[: rng.integers(0, len(mapped))]
    batch = (*(int(rng.integers(1, 4)) for _ in range(rng.integers(0, 2))), int(rng.choice([1, 5, 8, 9, 16, 31, 100])))
    if rng.random() < 0.05:
        batch = batch[1:]
    batching: tuple[int, ...] = ()
    if (
        batch and rng.random() < 0.4
    ):  # dimensions of the batch that are the operand's too, each at any place among the others
        batching = tuple(int(d) for d in rng.permutation(len(batch))[: rng.integers(1, len(batch) + 1)])
    inputs = tuple(int(d) for d in rng.permutation(len(dims) + len(batching))[: len(batching)])
    others = tuple(d for d in range(len(dims) + len(batching)) if d not in inputs)
    sizes = dict(zip(inputs, (batch[d] for d in batching))) | dict(zip(others, dims))
    dims = tuple(sizes[d] for d in range(len(sizes)))
    mapped = tuple(others[d] for d in mapped)
    windows = tuple(d for d in others if rng.random() < 0.25)
    inserted = tuple(d for d in others if d not in windows)
    vector = int(rng.integers(0, len(batch) + 1))
    spread = int(rng.choice([0, 0, 2, 100]))
    columns = [np.asarray(rng.integers(-spread, max(dims[d], 1) + spread, batch)) for d in mapped]
    places = np.stack(columns, vector) if mapped else np.zeros((*batch[:vector], 0, *batch[vector:]), int)
    info = np.iinfo(array(index_type, 0).dtype)
    places = np.clip(places, info.min, info.max).astype(info.dtype)
    if rng.random() < 0.2:
        places[rng.random(places.shape) < 0.1] = rng.choice(np.array([info.min, info.max], info.dtype))
    large = rng.random() < 0.2
    update_dims = (
        *batch,
        *(int(rng.integers(1, dims[d] + 1)) if large and dims[d] else min(dims[d], 1) for d in windows),
    )
    count = int(rng.choice([1, 1, 1, 2, 3]))
    pairs = sorted((d, place + (place >= vector)) for d, place in zip(inputs, batching))
    numbers = ScatterDimensionNumbers(
        tuple(range(len(batch), len(update_dims))),
        inserted,
        mapped,
        vector,
        input_batching_dims=tuple(d for d, _ in pairs),
        scatter_indices_batching_dims=tuple(place for _, place in pairs),
    )
    types = (*[dtype] * count, index_type, *[dtype] * count)
    shapes = (*[dims] * count, places.shape, *[update_dims] * count)
    arguments = [places if n == count else _literal(rng, dtype, dims) for n, dims in enumerate(shapes)]
    b = Builder("scatter")
    operands = [
        b.parameter(n, shape(f"{t}[{','.join(map(str, dims))}]")) for n, (t, dims) in enumerate(zip(types, shapes))
    ]
    x, i, u = operands[:count], _seen(rng, b, operands[count], index_type), _seen(rng, b, operands[-1], dtype)
    if dtype == index_type and rng.random() < 0.3 and update_dims == batch and len(dims) == 1:
        u = b.op("add", u, b.op("reshape", i, shape=u.shape))  # the same values in lanes and one by one
    reducer = _reducer(str(rng.choice(REDUCERS)), dtype, count)
    updates = [*operands[count + 1 : -1], u]
    return b.module(b.op("scatter", *x, i, *updates, called=[reducer], scatter_dimension_numbers=numbers)), arguments


def _seen(rng: np.random.Generator, b: Builder, x: Instruction, dtype: str) -> Instruction:
    """A value as it is, or computed on the way."""
    way = rng.integers(0, 4)
    if way == 1 and dtype != "pred":
        return b.op("add", x, x)
    if way == 2 and x.shape.rank:
        return b.op("reverse", x, dimensions=(0,))
    return x


@pytest.mark.parametrize("size", [7, 8, 9, 33])
@pytest.mark.parametrize("threads", [False, True])
def test_one_place_for_all_batches(size: int, threads: bool) -> None:
    """The place is the same in all lanes: `jax.vmap(lambda x, v: x.at[i].add(v))` with one `i`."""
    rng = np.random.default_rng(size)
    b = Builder("rows")
    x, i, u = (b.parameter(n, shape(t)) for n, t in enumerate((f"f32[{size},40]", "s32[1]", f"f32[{size}]")))
    places = b.op("broadcast", i, shape=shape(f"s32[{size},1]"), dimensions=(1,))
    numbers = ScatterDimensionNumbers((), (1,), (1,), 1, input_batching_dims=(0,), scatter_indices_batching_dims=(0,))
    module = b.module(b.op("scatter", x, places, u, called=[_reducer("add", "f32")], scatter_dimension_numbers=numbers))
    for place in (3, 40, -1):
        arguments = (_literal(rng, "f32", (size, 40)), np.int32([place]), _literal(rng, "f32", (size,)))
        differential(module, *arguments, targets=BOTH, threads=threads)


@pytest.mark.parametrize("size", [7, 8, 9, 16, 17, 33])
@pytest.mark.parametrize("reducer", ["add", "set", "maximum", "turned"])
def test_batches_along_the_lanes(reducer: str, size: int) -> None:
    """Each update goes to the row of its own number: `jax.vmap(lambda x, i, v: x.at[i].set(v))`."""
    rng = np.random.default_rng(size)
    b = Builder("rows")
    x, i, u = (b.parameter(n, shape(t)) for n, t in enumerate((f"f32[{size},4]", f"s32[{size}]", f"f32[{size}]")))
    numbers = ScatterDimensionNumbers((), (1,), (1,), 1, input_batching_dims=(0,), scatter_indices_batching_dims=(0,))
    scatter = b.op("scatter", x, i, u, called=[_reducer(reducer, "f32")], scatter_dimension_numbers=numbers)
    arguments = (_literal(rng, "f32", (size, 4)), rng.integers(0, 4, size, np.int32), _literal(rng, "f32", (size,)))
    differential(b.module(scatter), *arguments, targets=BOTH)


@pytest.mark.parametrize(("operand", "indices", "updates"), [("5", "1", ""), ("0", "9,1", "9"), ("2,0", "9,1", "9,2")])
def test_shapes_without_lanes(operand: str, indices: str, updates: str) -> None:
    """A single place, and an operand in which no place is."""
    b = Builder("rows")
    types = f"f32[{operand}]", f"s32[{indices}]", f"f32[{updates}]"
    x, i, u = (b.parameter(n, shape(t)) for n, t in enumerate(types))
    windows = tuple(range(indices.count(","), u.shape.rank))
    numbers = ScatterDimensionNumbers(windows, (x.shape.rank - 1,), (x.shape.rank - 1,), indices.count(","))
    scatter = b.op("scatter", x, i, u, called=[_reducer("add", "f32")], scatter_dimension_numbers=numbers)
    arguments = [np.ones(o.shape.dimensions, np.float32) for o in (x, i, u)]
    differential(b.module(scatter), arguments[0], arguments[1].astype(np.int32), arguments[2], targets=BOTH)


@pytest.mark.parametrize("seed", range(120))
def test_random_scatters(seed: int) -> None:
    module, arguments = random_scatter(seed)
    differential(module, *arguments, targets=[BOTH[seed % 2]])


def test_additions_keep_their_order() -> None:
    """Sums of floats that depend on the order of their terms."""
    jax = pytest.importorskip("jax")
    from xla_wasm.jax import lower

    rng = np.random.default_rng(1)
    x = (rng.standard_normal(4099) * 10.0 ** rng.integers(-6, 7, 4099)).astype(np.float32)
    i = rng.integers(-9, 9, 4099).astype(np.int32)
    expected = np.zeros(7, np.float32)
    for place, value in zip(i, x):
        if -7 <= place < 7:
            expected[place] += value
    module = lower(lambda x, i: jax.numpy.zeros(7, np.float32).at[i].add(x), x, i)
    differential(module, x, i, targets=BOTH, expected=[expected])


def test_other_elements_keep_their_bits() -> None:
    """An element that no update reaches is not touched, a signalling NaN included, nor is it by an update that is
    dropped."""
    b = Builder("drop")
    x, i, u = b.parameter(0, shape("f32[4]")), b.parameter(1, shape("s32[16]")), b.parameter(2, shape("f32[16]"))
    numbers = ScatterDimensionNumbers((), (0,), (0,), 1)
    module = b.module(b.op("scatter", x, i, u, called=[_reducer("add", "f32")], scatter_dimension_numbers=numbers))
    bits = np.array([0x7F800001, 0xFFFFFFFF, 0x80000000, 0x3F800000], np.uint32)
    places = np.array([4, -1, 2**31 - 1, -(2**31)] * 4, np.int32)
    (actual,) = run(module, bits.view(np.float32), places, np.ones(16, np.float32))
    np.testing.assert_array_equal(actual.view(np.uint32), bits)
