"""Dimension maps that `passes/shardwise.py` derives from readings: an operation on blocks gives a block of its result
on whole arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support import seeds
from tests.support.operation_instances import READING, Instance, bits, instances, sampled
from tests.support.random_family import draw_family
from tests.support.random_values import Draw
from tests.support.random_writer import draw_writer
from xla_wasm.hlo.ir import Instruction
from xla_wasm.hlo.op import Op
from xla_wasm.hlo.shape import Shape
from xla_wasm.ops.dtypes import Array
from xla_wasm.passes.shardwise import Map, dimension_maps, fit


def cut(shape: Shape, sizes: dict[int, range]) -> Shape:
    """The shape of a block, or of a tuple of blocks."""
    if shape.is_tuple:
        return Shape.tuple([cut(s, sizes) for s in shape.tuple_shapes])
    return replace(
        shape, dimensions=tuple(len(sizes[d]) if d in sizes else size for d, size in enumerate(shape.dimensions))
    )


def block(array: Array, ranges: dict[int, range]) -> Array:
    return array[
        tuple(slice(ranges[d].start, ranges[d].stop) if d in ranges else slice(None) for d in range(array.ndim))
    ]


def on_blocks(instance: Instance, maps: Sequence[Map], ranges: dict[int, range]) -> list[Array]:
    """Returns the results of the operation on the blocks of its operands that belong to these ranges of its result's
    dimensions."""
    x = instance.x
    own = [{d: ranges[place] for d, place in enumerate(to) if place in ranges} for to in maps]
    operands = [Instruction(o.name, "parameter", cut(o.shape, r), []) for o, r in zip(x.operands, own)]
    local = Instruction(x.name, x.opcode, cut(x.shape, ranges), operands, dict(x.attrs), x.called)
    leaf = next(s for _, s in local.shape.leaves())
    fit(local, x, leaf.dimensions)
    return Instance(local, tuple(block(a, r) for a, r in zip(instance.operands, own))).results()


def check(instance: Instance, rng: np.random.Generator) -> int:
    """Cuts along each dimension that allows it, and along all of them; how many there are."""
    maps = dimension_maps(instance.x)
    if maps is None or len({s.dimensions for _, s in instance.x.shape.leaves()}) != 1:
        return 0
    places = sorted({place for to in maps for place in to if place is not None and instance.dims[place] > 1})
    whole = instance.results()
    for chosen in [*([place] for place in places), *([places] if len(places) > 1 else [])]:
        ranges = {}
        for d in chosen:
            size = int(rng.integers(1, instance.dims[d]))
            start = int(rng.integers(0, instance.dims[d] - size + 1))
            ranges[d] = range(start, start + size)
        for part, result in zip(on_blocks(instance, maps, ranges), whole, strict=True):
            wanted = block(result, ranges)
            assert part.shape == wanted.shape and (bits(part) == bits(wanted)).all(), f"{instance.x}: blocks {ranges}"
    return len(places)


UNCUT = ("gather", "scatter", "pad", "dynamic-update-slice")
"""The first two no device carries out on blocks; samples of the others leave no dimension of several elements alone."""


@pytest.mark.parametrize("op", READING, ids=lambda op: op.opcode)
def test_operations_on_blocks(op: Op) -> None:
    count = sum(
        check(instance, np.random.default_rng(i + n)) for i, instance in enumerate(sampled(op.opcode)) for n in range(3)
    )
    assert bool(count) == (op.opcode not in UNCUT)


@settings(max_examples=seeds.count(25, 100), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_random_operations_on_blocks(data: st.DataObject) -> None:
    module, arguments = data.draw(st.sampled_from((draw_writer, draw_family)))(
        Draw(lambda low, high: data.draw(st.integers(low, high)))
    )
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    for instance in instances(module, arguments):
        check(instance, rng)
