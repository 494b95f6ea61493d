"""Random gathers, with dimensions of the batch that are the operand's too: by themselves, and on the way to what reads
them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.differential import BOTH, differential
from xla_wasm.builder import Builder
from xla_wasm.hlo.attrs import GatherDimensionNumbers
from xla_wasm.hlo.ir import Module
from xla_wasm.ops.dtypes import Array
from xla_wasm.ops.sample import array, shape

TYPES = ("f32", "f32", "s32", "bf16", "s8", "u16", "pred", "f64", "s64")
INDICES = ("s32", "s32", "u32", "s8", "u8", "s64", "u64")


def random_gather(seed: int) -> tuple[Module, list[Array]]:
    """A gather of slices of one element or more, read as it is or by something else, and its arguments."""
    rng = np.random.default_rng(seed)
    dtype, index_type = str(rng.choice(TYPES)), str(rng.choice(INDICES))
    batch = tuple(int(rng.choice([1, 2, 3, 5, 8, 9, 17])) for _ in range(rng.integers(0, 3)))
    batching = [int(d) for d in rng.permutation(len(batch))[: rng.integers(0, len(batch) + 1)]]
    others = [int(rng.integers(1, 10)) for _ in range(rng.integers(1, 4))]
    order = rng.permutation(len(batching) + len(others))
    dims = tuple(([batch[d] for d in batching] + others)[k] for k in order)
    inputs = {int(np.flatnonzero(order == k)[0]): d for k, d in enumerate(batching)}
    """Batching dimensions of the operand, and those of the batch that they are."""
    free = [d for d in range(len(dims)) if d not in inputs]
    mapped = tuple(int(d) for d in rng.permutation(free)[: rng.integers(0, len(free) + 1)])
    collapsed = tuple(d for d in free if rng.random() < (0.6 if d in mapped else 0.2))
    single = rng.random() < 0.5
    sizes = tuple(
        1 if d in inputs or d in collapsed or single and d in mapped else int(rng.integers(1, dims[d] + 1))
        for d in range(len(dims))
    )
    vector = int(rng.integers(0, len(batch) + 1))
    kept = len(free) - len(collapsed)
    offsets = tuple(sorted(int(d) for d in rng.permutation(kept + len(batch))[:kept]))
    spread = int(rng.choice([0, 3]))
    info = np.iinfo(array(index_type, 0).dtype)
    columns = [rng.integers(-spread, dims[d] + spread, batch) for d in mapped]
    places = np.stack(columns, vector) if mapped else np.zeros((*batch[:vector], 0, *batch[vector:]), int)
    places = np.clip(places, info.min, info.max).astype(info.dtype)
    if rng.random() < 0.2:
        places[rng.random(places.shape) < 0.1] = rng.choice(np.array([info.min, info.max], info.dtype))
    numbers = GatherDimensionNumbers(
        offsets,
        collapsed,
        mapped,
        vector,
        operand_batching_dims=tuple(sorted(inputs)),
        start_indices_batching_dims=tuple(d + (d >= vector) for _, d in sorted(inputs.items())),
    )
    made = rng.integers(0 if dtype[0] in "up" else -9, 10, dims)
    arguments = [made % 2 == 0 if dtype == "pred" else array(dtype, made), places]
    b = Builder("gather")
    types = (dtype, index_type)
    x, i = (b.parameter(n, shape(f"{types[n]}[{','.join(map(str, a.shape))}]")) for n, a in enumerate(arguments))
    if dtype != "pred" and rng.random() < 0.3:
        x = b.op("add", x, x)
    y = b.op("gather", x, i, gather_dimension_numbers=numbers, slice_sizes=sizes)
    way = rng.integers(0, 5)
    if way == 1 and y.shape.rank:
        y = b.op("transpose", y, dimensions=tuple(int(d) for d in rng.permutation(y.shape.rank)))
    if way == 2 and y.shape.rank and dtype != "pred":
        y = b.reduce(y, 0, "maximum", [int(rng.integers(0, y.shape.rank))])
    if way == 3:
        y = b.op("negate" if dtype != "pred" else "not", y)
    return b.module(y), arguments


@pytest.mark.parametrize("seed", range(100))
def test_random_gathers(seed: int) -> None:
    module, arguments = random_gather(seed)
    differential(module, *arguments, targets=[BOTH[seed % 2]])


@pytest.mark.parametrize("dtype", ["f32", "s8", "f64"])
@pytest.mark.parametrize("size", [3, 4, 5, 8, 9, 33])
def test_batches_along_the_lanes(dtype: str, size: int) -> None:
    """Each row is looked up in at its own place: `jax.vmap(lambda x, i: x[i])`."""
    rng = np.random.default_rng(size)
    b = Builder("rows")
    x, i = b.parameter(0, shape(f"{dtype}[{size},4]")), b.parameter(1, shape(f"s32[{size}]"))
    numbers = GatherDimensionNumbers((), (1,), (1,), 1, operand_batching_dims=(0,), start_indices_batching_dims=(0,))
    module = b.module(b.op("gather", x, i, gather_dimension_numbers=numbers, slice_sizes=(1, 1)))
    arguments = array(dtype, rng.integers(-9, 9, (size, 4))), rng.integers(-1, 5, size, np.int32)
    differential(module, *arguments, targets=BOTH)
