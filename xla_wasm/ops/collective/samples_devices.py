"""Samples of what several devices do together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...builder import Builder
from ...hlo.attrs import IotaGroups, MeshGroups, ReplicaGroups, SliceDimension
from ...hlo.ir import Instruction
from ...hlo.shape import Shape
from ..dtypes import Array
from ..sample import DeviceSample, among, array, f32, function, reducer, s32, shape, u32

_ADD = (reducer("add", "f32"),)
_TWO = (f32([1, 10]), f32([2, 20]))
_FOUR = (*_TWO, f32([3, 30]), f32([4, 40]))
_NO_BROADCAST = "XLA:CPU has no collective-broadcast"
_NO_RAGGED = "XLA:CPU crashes on ragged-all-to-all"
_SINGLE = "the importer takes a single operand"
_PAIR = "XLA makes such pairs itself; its importer stops at them"


def _groups(*groups: tuple[int, ...]) -> ReplicaGroups:
    return ReplicaGroups(groups)


_IOTA = ReplicaGroups(iota=IotaGroups(2, 2, (2, 2), (1, 0)))
"""{{0,2},{1,3}}"""
_MESH = ReplicaGroups(mesh=MeshGroups((("x", 2), ("y", 2)), ((0, 0, 0),)))
"""The same: devices that differ along x."""


def _all(x: Any, count: int) -> tuple[Array, ...]:
    return (x,) * count


def _several(opcode: str, **attrs: Any) -> Callable[..., Instruction]:
    """One operation of several operands whose results are a tuple."""

    def body(b: Builder, *xs: Instruction) -> Instruction:
        called = [make() for make in _ADD] if "reduce" in opcode else []
        return b.op(opcode, *xs, called=called, **attrs)

    return body


def _pair(opcode: str, declared: Shape | None, **attrs: Any) -> Callable[..., Instruction]:
    def body(b: Builder, *xs: Instruction) -> Instruction:
        called = [make() for make in _ADD] if "reduce" in opcode else []
        return b.op(f"{opcode}-done", b.op(f"{opcode}-start", *xs, called=called, shape=declared, **attrs))

    return body


def _wrapped(b: Builder, x: Instruction) -> Instruction:
    """A reduce-scatter inside of an async-start."""
    inner = Builder("wrapped")
    operand = inner.parameter(0, shape("f32[2]"))
    made = inner.op(
        "reduce-scatter",
        operand,
        called=[make() for make in _ADD],
        shape=shape("f32[1]"),
        dimensions=(0,),
        replica_groups=_groups((1, 0)),
    )
    declared = Shape.tuple([Shape.tuple([shape("f32[2]")]), shape("f32[1]"), shape("u32")])
    called = inner.build(made)
    return b.op("async-done", b.op("async-start", x, called=[called], shape=declared), called=[called])


def _place(b: Builder, *starts: int) -> Instruction:
    return b.op("tuple", *(b.constant(shape("s32"), [start]) for start in starts))


def _block(b: Builder, x: Instruction, y: Instruction) -> Instruction:
    """Elements 1 and 2 of x to the end of y, where they would stand out otherwise."""
    return b.op(
        "collective-permute",
        x,
        y,
        _place(b, 1),
        _place(b, 9),
        shape=shape("f32[3]"),
        source_target_pairs=((0, 1),),
        slice_sizes=(2,),
    )


def _blocks(b: Builder, x: Instruction, y: Instruction) -> Instruction:
    """The first element to the next device's end and the last one to the previous one's beginning."""
    firsts, lasts = b.op("tuple", _place(b, 0), _place(b, 2)), b.op("tuple", _place(b, 2), _place(b, 0))
    pairs = ((0, 1), (1, 0), (0, 1), (1, 0))
    return b.op(
        "collective-permute", x, y, firsts, lasts, shape=shape("f32[3]"), source_target_pairs=pairs, slice_sizes=(1, 1)
    )


def _blocks_of_two(b: Builder, x: Instruction, y: Instruction) -> Instruction:
    arrays = Shape.tuple([shape("f32[3]"), shape("f32[3]")])
    declared = Shape.tuple([arrays, arrays, shape("u32"), shape("u32")])
    places = b.op("tuple", _place(b, 0), _place(b, 1))
    started = b.op(
        "collective-permute-start", b.op("tuple", x, y), b.op("tuple", y, x), places, places, shape=declared,
        source_target_pairs=((0, 1),), slice_sizes=(1, 2),
    )  # fmt: skip
    return b.op("collective-permute-done", started)


def _quarters(b: Builder, x: Instruction) -> Instruction:
    """Four operands cut out of one, and what comes in one below the other."""
    parts = [b.op("slice", x, slice=(SliceDimension(0, 4), SliceDimension(4 * i, 4 * i + 4))) for i in range(4)]
    moved = b.op("all-to-all", *parts, replica_groups=_groups((0, 1, 2, 3)))
    return b.op("concatenate", *(b.op("get-tuple-element", moved, index=i) for i in range(4)), dimensions=(0,))


def _id(opcode: str) -> Callable[[Builder], Instruction]:
    return lambda b: b.op(opcode)


_WIDE = tuple(f32(np.arange(64).reshape(4, 16) + 1000 * d) for d in range(4))
_SIX = tuple(f32(np.arange(6).reshape(2, 3) + 10 * d) for d in range(2))
_LAST = (function("f32, f32", lambda b, x, y: b.op("add", b.op("multiply", x, b.constant(shape("f32"), [10])), y)),)
_THREE = (f32([1, 2, 3]), f32([4, 5, 6]))
_NINES = f32([9, 9, 9])
_MOVED = Shape.tuple([shape("f32[2]"), shape("f32[2]"), shape("u32"), shape("u32")])
_RING = ((0, 1), (1, 2), (2, 3), (3, 0))

REPLICATED: tuple[DeviceSample, ...] = (
    among("replica-id", ((),) * 4, (u32(0), u32(0), u32(1), u32(1)), _id("replica-id"), name="of 2 x 2", partitions=2),
    among("replica-id", ((),) * 3, (u32(0), u32(1), u32(2)), _id("replica-id"), name="of 3"),
    among("partition-id", ((),) * 4, (u32(0), u32(1), u32(0), u32(1)), _id("partition-id"), name="of 2 x 2",
          partitions=2),
    # one after another: who is in a group, in each notation and mode
    among("all-reduce", _TWO, _all(f32([3, 30]), 2), name="of all", called=_ADD),
    among("all-reduce", (f32([1, 2.5]), f32([3, 5.25])), _all(f32([4, 7.75]), 2), name="worked example", called=_ADD),
    among("all-reduce", _FOUR, (f32([8, 80]), f32([2, 20]), f32([8, 80]), f32([8, 80])), name="in unequal groups",
          called=_ADD, replica_groups=_groups((3, 0, 2), (1,))),
    among("all-reduce", _FOUR, (f32([4, 40]), f32([6, 60])) * 2, name="in groups of an iota", called=_ADD,
          replica_groups=_IOTA),
    among("all-reduce", _FOUR, (f32([4, 40]), f32([6, 60])) * 2, name="in groups along an axis", called=_ADD,
          replica_groups=_MESH),
    among("all-reduce", _FOUR, (f32([4, 40]), f32([6, 60])) * 2, name="cross-replica", partitions=2, called=_ADD,
          replica_groups=_groups((0, 1))),
    among("all-reduce", _FOUR, _all(f32([10, 100]), 4), name="cross-replica-and-partition", partitions=2, called=_ADD,
          channel_id=1, replica_groups=_groups((0, 1))),
    among("all-reduce", _FOUR, (*_all(f32([3, 30]), 2), *_all(f32([7, 70]), 2)), name="of each replica's partitions",
          partitions=2, called=_ADD, channel_id=1, replica_groups=_groups((0,), (1,))),
    among("all-reduce", _FOUR, _all(f32([5, 50]), 4), name="of flattened ids", partitions=2, called=_ADD, channel_id=1,
          use_global_device_ids=True, replica_groups=_groups((0, 3), (1, 2))),
    among("all-reduce", tuple((x, x[:1]) for x in _TWO), _all((f32([3, 30]), f32([3])), 2), _several("all-reduce"),
          name="of two arrays"),
    among("all-reduce", _FOUR, _all(f32([3124, 31240]), 4), name="in the order of the group", called=_LAST,
          replica_groups=_groups((2, 0, 1, 3)), xla="it knows single operations only"),
    among("all-reduce-start", _TWO, _all(f32([3, 30]), 2), _pair("all-reduce", None), name="and done", xla=_PAIR),
    among("all-reduce-done", _TWO, _all(f32([3, 30]), 2), _pair("all-reduce", None), name="after start", xla=_PAIR),
    # parts put together
    among("all-gather", (f32([1, 2.5]), f32([3, 5.25])), _all(f32([1, 2.5, 3, 5.25]), 2), name="worked example",
          shape=shape("f32[4]"), dimensions=(0,), replica_groups=_groups((0, 1))),
    among("all-gather", _SIX, _all(f32([[10, 11, 12, 0, 1, 2], [13, 14, 15, 3, 4, 5]]), 2),
          name="along the last dimension", shape=shape("f32[2,6]"), dimensions=(1,), replica_groups=_groups((1, 0))),
    among("all-gather", _FOUR, _all(f32([3, 30, 4, 40, 1, 10, 2, 20]), 4), name="cross-replica-and-partition",
          partitions=2, shape=shape("f32[8]"), dimensions=(0,), channel_id=1, replica_groups=_groups((1, 0))),
    among("all-gather", _FOUR, (f32([1, 10, 3, 30]), f32([2, 20, 4, 40])) * 2, name="of flattened ids", partitions=2,
          shape=shape("f32[4]"), dimensions=(0,), channel_id=1, use_global_device_ids=True, replica_groups=_MESH),
    among("all-gather", tuple((x, x[:1]) for x in _TWO), _all((f32([1, 10, 2, 20]), f32([1, 2])), 2),
          _several("all-gather", shape=Shape.tuple([shape("f32[4]"), shape("f32[2]")]), dimensions=(0,)),
          name="of two arrays"),
    among("all-gather-start", _TWO, _all(f32([1, 10, 2, 20]), 2),
          _pair("all-gather", Shape.tuple([shape("f32[2]"), shape("f32[4]")]), dimensions=(0,)), name="and done",
          xla=_PAIR),
    among("all-gather-done", _TWO, _all(f32([1, 10, 2, 20]), 2),
          _pair("all-gather", Shape.tuple([shape("f32[2]"), shape("f32[4]")]), dimensions=(0,)), name="after start",
          xla=_PAIR),
    among("reduce-scatter", (f32([1, 2.25]), f32([3, 5.25])), (f32([4]), f32([7.5])), name="worked example",
          shape=shape("f32[1]"), dimensions=(0,), called=_ADD, replica_groups=_groups((0, 1))),
    among("reduce-scatter", _TWO, (f32([30]), f32([3])), _wrapped, name="in an async wrapper", xla=_PAIR),
    among("reduce-scatter", _FOUR, (f32([3]), f32([30]), f32([7]), f32([70])), name="of each replica's partitions",
          partitions=2,
          shape=shape("f32[1]"), dimensions=(0,), called=_ADD, channel_id=1, replica_groups=_groups((0,), (1,))),
    among("reduce-scatter", tuple((x, 2 * x) for x in _TWO), ((f32([3]), f32([6])), (f32([30]), f32([60]))),
          _several("reduce-scatter", shape=Shape.tuple([shape("f32[1]")] * 2), dimensions=(0,)), name="of two arrays",
          xla=_SINGLE),
    # parts sent around
    among("all-to-all", _WIDE, tuple(f32(np.concatenate([w[:, 4 * d : 4 * d + 4] for w in _WIDE])) for d in range(4)),
          _quarters, name="worked example"),
    among("all-to-all", _TWO, (f32([20, 10]), f32([2, 1])), name="in another order", dimensions=(0,),
          replica_groups=_groups((1, 0))),
    among("all-to-all", _SIX, (f32([[0, 1, 2], [10, 11, 12]]), f32([[3, 4, 5], [13, 14, 15]])), name="of all",
          dimensions=(0,), xla="XLA:CPU wants the groups listed"),
    among("all-to-all", _FOUR, (f32([1, 2]), f32([10, 20]), f32([3, 4]), f32([30, 40])), name="cross-partition",
          partitions=2, dimensions=(0,), channel_id=1, replica_groups=_groups((0, 1))),
    among("all-to-all", tuple((x, 2 * x) for x in _TWO), ((f32([1, 10]), f32([2, 20])), (f32([2, 20]), f32([4, 40]))),
          _several("all-to-all", replica_groups=_groups((0, 1))), name="of a tuple"),
    among("collective-permute", (*_FOUR,), (f32([4, 40]), *_FOUR[:3]), name="in a ring", source_target_pairs=_RING),
    among("collective-permute", (f32([1, 2]), f32([3, 4]), f32([5, 6]), f32([7, 8])),
          (f32([0, 0]), f32([1, 2]), f32([3, 4]), f32([0, 0])),
          name="worked example", source_target_pairs=((0, 1), (1, 2))),
    among("collective-permute", _FOUR, (f32([2, 20]), f32([0, 0]), f32([4, 40]), f32([0, 0])), name="cross-partition",
          partitions=2, channel_id=1, source_target_pairs=((1, 0),)),
    among("collective-permute", tuple((x, s32([d])) for d, x in enumerate(_TWO)),
          ((_TWO[1], s32([1])), (_TWO[0], s32([0]))),
          _several("collective-permute", shape=Shape.tuple([shape("f32[2]"), shape("s32[1]")]),
                   source_target_pairs=((0, 1), (1, 0))),
          name="of two arrays", xla=_SINGLE),
    among("collective-permute", tuple((x, _NINES) for x in _THREE), (_NINES, f32([9, 2, 3])), _block, name="in place",
          xla=_SINGLE),
    among("collective-permute", tuple((x, _NINES) for x in _THREE), (f32([6, 9, 4]), f32([3, 9, 1])), _blocks,
          name="of two blocks", xla=_SINGLE),
    among("collective-permute-start", tuple((x, _NINES) for x in _THREE),
          ((_NINES, _THREE[0]), (f32([1, 9, 9]), f32([4, 9, 9]))),
          _blocks_of_two, name="in place of two arrays", xla=_PAIR),
    among("collective-permute-start", _TWO, (f32([0, 0]), _TWO[0]),
          _pair("collective-permute", _MOVED, source_target_pairs=((0, 1),)), name="and done", xla=_PAIR),
    among("collective-permute-done", _TWO, (_TWO[1], f32([0, 0])),
          _pair("collective-permute", _MOVED, source_target_pairs=((1, 0),)), name="after start", xla=_PAIR),
    among("collective-broadcast", (f32([1, 2]), f32([3, 4]), f32([5, 6]), f32([7, 8])),
          (*_all(f32([3, 4]), 2), *_all(f32([0, 0]), 2)),
          name="worked example", replica_groups=_groups((1, 0)), xla=_NO_BROADCAST),
    among("collective-broadcast", _FOUR, (*_all(_FOUR[1], 2), *_all(_FOUR[3], 2)), name="cross-partition", partitions=2,
          channel_id=1, replica_groups=_groups((1, 0)), xla=_NO_BROADCAST),
    among("collective-broadcast", tuple((x, s32([d])) for d, x in enumerate(_TWO)), _all((_TWO[0], s32([0])), 2),
          _several("collective-broadcast"), name="of two arrays", xla=_NO_BROADCAST),
    among(
        "ragged-all-to-all",
        ((s32([1, 2, 2]), s32([0] * 4), s32([0, 1]), s32([1, 2]), s32([0, 0]), s32([1, 1])),
         (s32([3, 4, 0]), s32([0] * 4), s32([0, 1]), s32([1, 1]), s32([1, 2]), s32([2, 1]))),
        (s32([1, 3, 0, 0]), s32([2, 2, 4, 0])), name="worked example", replica_groups=_groups((0, 1)), xla=_NO_RAGGED,
    ),
    among(
        "ragged-all-to-all",
        ((s32([1, 2, 3]), s32([9] * 4),
          *[array("s64", [[2, 0], [1, 1]]), array("s64", [[1, 1], [2, 0]]), array("s64", [[0, 3], [0, 0]])],
          array("s64", [[1, 1], [1, 0]])),
         (s32([4, 5, 6]), s32([8] * 4),
          *[array("s64", [[0, 0], [2, 0]]), array("s64", [[1, 0], [1, 1]]), array("s64", [[1, 0], [3, 2]])],
          array("s64", [[2, 0], [1, 1]]))),
        (s32([3, 4, 9, 1]), s32([2, 3, 4, 6])), name="of several runs of rows", replica_groups=_groups((0, 1)),
        xla=_NO_RAGGED,
    ),
)  # fmt: skip
