"""XlaBuilder's collectives on several devices: against the numbers of the cases, by the evaluator, compiled, and by
XLA:CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

import xla_wasm
from tests.support import closeness, xla_cpu
from xla_wasm.builder import XlaBuilder
from xla_wasm.hlo.attrs import IotaGroups, ReplicaGroups
from xla_wasm.hlo.ir import Computation, Instruction, Module
from xla_wasm.hlo.shape import Shape
from xla_wasm.hlo.verify import verify
from xla_wasm.ops.dtypes import TYPES_OF, Array
from xla_wasm.ops.sample import f32, s32, u32
from xla_wasm.reference import evaluate_replicated


@dataclass(frozen=True)
class Case:
    """A program, and what goes in and comes out on each device. `xla`: whether XLA:CPU and the way to it take it."""

    name: str
    args: Sequence[Sequence[Array]]
    expected: Sequence[Sequence[Array]]
    body: Callable[..., Instruction]
    partitions: int = 1
    xla: bool = True

    def module(self) -> Module:
        b = XlaBuilder(self.name)
        return b.module(
            self.body(b, *(b.Parameter(i, Shape(TYPES_OF[a.dtype].name, a.shape)) for i, a in enumerate(self.args[0])))
        )


def _add(what: str = "Add") -> Computation:
    b = XlaBuilder("reducer")
    return b.Build(getattr(b, what)(b.Parameter(0, Shape("f32")), b.Parameter(1, Shape("f32"))))


def _each(*arrays: Array) -> list[list[Array]]:
    return [[x] for x in arrays]


_X = [f32([[1, 2], [3, 4]]) + 10 * np.float32(d) for d in range(4)]
_TWO, _FOUR = _each(*_X[:2]), _each(*_X)
_PAIRS = ((0, 1), (2, 3))
_COLUMNS = ReplicaGroups(iota=IotaGroups(2, 2, (2, 2), (1, 0)))


def _replica_and_partition(b: XlaBuilder) -> Instruction:
    return b.Tuple([b.ReplicaId(), b.PartitionID()])


def _ragged(b: XlaBuilder, *xs: Instruction) -> Instruction:
    return b.RaggedAllToAll(*xs, ((0, 1),))


CASES = (
    Case("ids", [[]] * 4, [[u32(d // 2), u32(d % 2)] for d in range(4)], _replica_and_partition, 2, xla=False),
    Case("CrossReplicaSum", _FOUR, _each(*[f32([[64, 68], [72, 76]])] * 4), lambda b, x: b.CrossReplicaSum(x)),
    Case("CrossReplicaSum", _FOUR, _each(*[_X[0] + _X[1]] * 2, *[_X[2] + _X[3]] * 2), lambda b, x: b.CrossReplicaSum(x, _PAIRS)),  # noqa: E501
    Case("AllReduce", _FOUR, _each(_X[2], _X[3], _X[2], _X[3]), lambda b, x: b.AllReduce(x, _add("Max"), _COLUMNS)),
    Case(
        "AllReduce", _FOUR, _each(_X[3], _X[2], _X[2], _X[3]),
        lambda b, x: b.AllReduce(x, _add("Max"), ((0, 3), (1, 2)), 1, use_global_device_ids=True), 2,
    ),
    Case("AllGather", _TWO, _each(*[np.concatenate(_X[:2], 1)] * 2), lambda b, x: b.AllGather(x, 1, 2)),
    Case("AllGather", _TWO, [[np.concatenate(_X[:2])] * 2] * 2, lambda b, x: b.AllGather(b.Tuple([x, x]), 0, 2)),
    Case(
        "ReduceScatter", _FOUR, _each(f32([[12], [16]]), f32([[14], [18]]), f32([[52], [56]]), f32([[54], [58]])),
        lambda b, x: b.ReduceScatter(x, _add(), 1, 2, _PAIRS),
    ),
    Case("AllToAll", _TWO, _each(f32([[1, 2], [11, 12]]), f32([[3, 4], [13, 14]])), lambda b, x: b.AllToAll(x, 0, 0, 2, ((0, 1),))),  # noqa: E501
    Case("AllToAll", _TWO, _each(f32([[1, 2, 11, 12]]), f32([[3, 4, 13, 14]])), lambda b, x: b.AllToAll(x, 0, 1, 2, ((0, 1),))),  # noqa: E501
    Case("AllToAll", _TWO, _each(f32([[1], [3], [11], [13]]), f32([[2], [4], [12], [14]])), lambda b, x: b.AllToAll(x, 1, 0, 2, ((0, 1),))),  # noqa: E501
    Case(
        "RaggedAllToAll",
        [[s32([1, 2, 2]), s32([0, 1]), s32([1, 2]), s32([0] * 4), s32([0, 0]), s32([1, 1])],
         [s32([3, 4, 0]), s32([0, 1]), s32([1, 1]), s32([0] * 4), s32([1, 2]), s32([2, 1])]],
        _each(s32([1, 3, 0, 0]), s32([2, 2, 4, 0])), _ragged, xla=False,
    ),
    Case(
        "CollectiveBroadcast", _FOUR, _each(_X[2], 0 * _X[0], _X[2], 0 * _X[0]),
        lambda b, x: b.CollectiveBroadcast(x, ((2, 0),)), xla=False,
    ),
    Case("CollectivePermute", _FOUR, _each(0 * _X[0], _X[0], _X[1], _X[2]), lambda b, x: b.CollectivePermute(x, [(0, 1), (1, 2), (2, 3)])),  # noqa: E501
    Case(
        "CollectivePermute", _FOUR, _each(_X[1], _X[0], _X[3], _X[2]),
        lambda b, x: b.CollectivePermute(x, [(0, 1), (1, 0)], channel_id=3), 2,
    ),
)  # fmt: skip

each_case = pytest.mark.parametrize("case", CASES, ids=[f"{i}-{c.name}" for i, c in enumerate(CASES)])


def check(case: Case, results: Sequence[Sequence[Array]]) -> None:
    for d, (ours, theirs) in enumerate(zip(results, case.expected, strict=True)):
        for a, b in zip(ours, theirs, strict=True):
            closeness.assert_same(a, b, 0, f"device {d}")


@each_case
def test_reference(case: Case) -> None:
    module = case.module()
    verify(module)
    check(case, evaluate_replicated(module, case.args, num_partitions=case.partitions))


@each_case
def test_compiled(case: Case) -> None:
    exe = xla_wasm.load(xla_wasm.compile(case.module()))
    check(case, exe.run_replicated(case.args, num_partitions=case.partitions))


@pytest.mark.parametrize("case", [c for c in CASES if c.xla], ids=lambda c: c.name)
def test_xla(case: Case) -> None:
    check(case, xla_cpu.run_replicated(case.module(), case.args, partitions=case.partitions))
