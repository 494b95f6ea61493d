"""Samples of what devices do together: on one, and (`REPLICATED`) on several."""

from __future__ import annotations

from typing import Any

from ...builder import Builder
from ...hlo.attrs import ReplicaGroups
from ...hlo.ir import Instruction
from ...hlo.shape import Shape
from ..sample import Sample, case, f32, program, reducer, s32, shape, u32
from .samples_devices import REPLICATED

_X = f32([[1, 2], [3, 4]])
_ALONE = ReplicaGroups(((0,),))
_ADD = (reducer("add", "f32"),)
_NOT_ON_CPU = "XLA:CPU has no such operation"
_PAIR = "XLA makes such pairs itself; its importer stops at them"


def _pair(start: str, done: str, declared: Shape | None, **attrs: Any) -> Sample:
    """An operation that is started and then waited for."""

    def body(b: Builder, x: Instruction) -> Instruction:
        called = [make() for make in _ADD] if start == "all-reduce-start" else []
        return b.op(done, b.op(start, x, called=called, shape=declared, **attrs))

    return program(start, (_X,), _X, body, xla=_PAIR)


def _done(start: str, done: str, declared: Shape | None, **attrs: Any) -> Sample:
    sample = _pair(start, done, declared, **attrs)
    return program(done, sample.args, sample.expected, sample.body, xla=_PAIR)


def _two(b: Builder, x: Instruction, y: Instruction) -> Instruction:
    return b.op("all-reduce", x, y, called=[make() for make in _ADD], replica_groups=_ALONE)


_STARTED = Shape.tuple([shape("f32[2,2]"), shape("f32[2,2]")])
_MOVED = Shape.tuple([shape("f32[2,2]"), shape("f32[2,2]"), shape("u32"), shape("u32")])
_SELF = ((0, 0),)

SAMPLES: tuple[Sample, ...] = (
    case("partition-id", (), u32(0)),
    case("replica-id", (), u32(0)),
    case("all-reduce", (_X,), _X, called=_ADD),
    program("all-reduce", (_X, f32([5])), (_X, f32([5])), _two, name="of two arrays"),
    case("all-gather", (_X,), _X, shape=shape("f32[2,2]"), dimensions=(1,)),
    case("reduce-scatter", (_X,), _X, shape=shape("f32[2,2]"), dimensions=(0,), called=_ADD),
    case("all-to-all", (_X,), _X, dimensions=(0,), replica_groups=_ALONE),
    case("all-to-all", (_X,), (_X,), replica_groups=_ALONE, name="of a tuple",
         xla="hands over a tuple of one as an array"),
    case("collective-permute", (_X,), _X, source_target_pairs=_SELF),
    case("collective-permute", (_X,), 0 * _X, source_target_pairs=(), name="nothing comes in", xla="needs a pair"),
    case("collective-broadcast", (_X,), _X, replica_groups=_ALONE, xla=_NOT_ON_CPU),
    case(
        "ragged-all-to-all", (s32([1, 2, 3]), s32([9, 8, 7, 6]), s32([1]), s32([2]), s32([2]), s32([2])),
        s32([9, 8, 2, 3]), replica_groups=_ALONE, xla=_NOT_ON_CPU,
    ),
    case(
        "ragged-all-to-all",
        (_X, f32([[10, 20], [30, 40], [50, 60]]), s32([[1, 0, 0]]), s32([[1, 0, 2]]), s32([[0, 3, 1]]),
         s32([[1, 0, 2]])),
        f32([[3, 4], [1, 2], [3, 4]]), replica_groups=_ALONE, name="several runs of rows", xla=_NOT_ON_CPU,
    ),
    _pair("all-reduce-start", "all-reduce-done", None),
    _done("all-reduce-start", "all-reduce-done", None),
    _pair("all-gather-start", "all-gather-done", _STARTED, dimensions=(0,)),
    _done("all-gather-start", "all-gather-done", _STARTED, dimensions=(0,)),
    _pair("collective-permute-start", "collective-permute-done", _MOVED, source_target_pairs=_SELF),
    _done("collective-permute-start", "collective-permute-done", _MOVED, source_target_pairs=_SELF),
)  # fmt: skip

__all__ = ["REPLICATED", "SAMPLES"]
