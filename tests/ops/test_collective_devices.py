"""Numbers of devices: where they come from, and what fits them; devices of the evaluator that miss each other or
fail."""

from __future__ import annotations

import numpy as np
import pytest

import xla_wasm
from tests.support.element_types import Array
from xla_wasm.errors import ArgumentError, ExchangeError, VerifyError
from xla_wasm.hlo.ir import Module
from xla_wasm.ops.sample import f32
from xla_wasm.reference import evaluate, evaluate_replicated

_ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }\n"


def all_reduce(attributes: str = "replica_groups={}", head: str = "") -> Module:
    return Module.from_text(
        f"HloModule m{head}\n{_ADD}ENTRY e {{ p = f32[2] parameter(0) ROOT r = f32[2] all-reduce(p), {attributes}, "
        f"to_apply=add }}"
    )


_X = f32([1, 2])


def test_numbers_of_devices_come_from_the_call_or_from_the_module() -> None:
    own = "HloModule m\nENTRY e { r = u32[] replica-id() p = u32[] partition-id() ROOT t = (u32[], u32[]) tuple(r, p) }"

    def places(text: str, count: int, *given: int | None) -> list[tuple[int, ...]]:
        return [
            tuple(int(x) for x in device)
            for device in evaluate_replicated(Module.from_text(text), [[]] * count, *given)
        ]

    assert places(own, 4) == [(0, 0), (1, 0), (2, 0), (3, 0)]
    assert places(own, 4, 2, 2) == places(own, 4, 2) == places(own, 4, None, 2) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert places(own.replace("m\n", "m, replica_count=2, num_partitions=2\n"), 4) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    partitions = "HloModule m\nENTRY e { ROOT p = u32[] partition-id() }"
    assert places(partitions, 3) == [(0,), (1,), (2,)]
    with pytest.raises(
        ArgumentError,
        match="m is to run as 2 replicas with 2 partitions each, on 4 devices, but there are arguments for 3",
    ):
        places(own, 3, 2, 2)
    with pytest.raises(ArgumentError, match="num_replicas=3 does not fit m, which states 2"):
        places(own.replace("m\n", "m, replica_count=2\n"), 3, 3)


def test_groups_must_fit_the_devices() -> None:
    with pytest.raises(
        ArgumentError, match="all-reduce 'r' names replica 1, but there is one replica: run it on more devices"
    ):
        evaluate(all_reduce("replica_groups={{0,1}}"), _X)
    with pytest.raises(
        ArgumentError, match="all-reduce 'r' has groups of 2 replicas, but there are 3: run it on fewer devices"
    ):
        evaluate_replicated(all_reduce("replica_groups={{0,1}}"), [[_X]] * 3)
    for groups, fault in (
        ("{{0,1},{1}}", "in two groups"),
        ("{{0,2}}", "device 1 is in none of the replica_groups, but 2 is"),
        ("{}, channel_id=1, use_global_device_ids=true", "replica_groups lists the devices"),
    ):
        with pytest.raises(VerifyError, match=fault):
            xla_wasm.compile(all_reduce(f"replica_groups={groups}"))
    with pytest.raises(VerifyError, match="its groups leave out replica 2, but there are 4 replicas"):
        xla_wasm.compile(all_reduce("replica_groups={{0,1}}", ", replica_count=4"))
    with pytest.raises(VerifyError, match="its groups name replica 3, but there are 2 replicas"):
        xla_wasm.compile(all_reduce("replica_groups={{0,1,2,3}}", ", replica_count=2"))
    with pytest.raises(ArgumentError, match="all-gather 'r': on these devices its result has the shape"):
        gather = "HloModule m\nENTRY e { p = f32[2] parameter(0) ROOT r = f32[4] all-gather(p), dimensions={0} }"
        evaluate_replicated(Module.from_text(gather), [[_X]] * 3)


def refused(text: str, count: int, num_partitions: int | None = None) -> str:
    """The error of compiling this, or of running it on so many devices."""
    with pytest.raises(xla_wasm.XlaWasmError) as caught:
        exe = xla_wasm.load(xla_wasm.compile(Module.from_text(text)))
        x = [f32(np.zeros(leaf.dimensions)) for leaf in exe.parameters]
        exe.run_replicated([x] * count, num_partitions=num_partitions)
    return f"{type(caught.value).__name__}: {caught.value}"


def test_shapes_must_fit_the_devices() -> None:
    """Whenever their numbers become known: by other operations, by the groups, or when it runs."""

    def program(root: str, before: str = "") -> str:
        return f"HloModule m\n{_ADD}ENTRY e {{ p = f32[2] parameter(0) {before} ROOT r = {root} }}"

    def gather(groups: str) -> str:
        return program(f"f32[8] all-gather(p), dimensions={{0}}, channel_id=1, replica_groups={groups}")

    assert "runs on 4 devices" in refused(gather("{}"), 2)
    assert "runs on 4 devices" in refused(gather("{}"), 8, 4)
    assert "compiled for num_partitions=2" in refused(gather("{{0,1}}"), 4, 4)
    assert "of 4 devices, which 3 replicas cannot make up" in refused(gather("{{0,1,2}}"), 6)
    assert "of groups of 4 devices, but its groups have 2" in refused(
        gather("{{0,1}}").replace("m\n", "m, replica_count=2\n"), 2
    )
    listed = program(
        "f32[2] all-reduce(p), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=add"
    )
    assert "runs on 2 devices" in refused(listed, 4)
    parts = program("f32[1] reduce-scatter(p), dimensions={0}, replica_groups={{0,1},{2}}, to_apply=add")
    assert "its groups must all have 2 devices" in refused(parts, 3)
    assert "all-to-all 'r' names device" in refused(program("f32[2] all-to-all(p), dimensions={0}"), 3)
    runs = program("f32[2] ragged-all-to-all(p, p, n, n, n, n)", "n = s32[2] constant({0, 0})")
    assert "ragged-all-to-all 'r' names device" in refused(runs, 3)
    two = program(
        "f32[2] all-reduce(q), replica_groups={{0,1,2}}, to_apply=add",
        "q = f32[2] all-reduce(p), replica_groups={{0,1}}, to_apply=add",
    )
    assert "all-reduce 'q' is one of 2 replicas, all-reduce 'r' of 3" in refused(two, 3)


ASTRAY = """HloModule astray
%s
other { ROOT x = f32[2] parameter(0) }
ENTRY main {
  x = f32[2] parameter(0)
  i = u32[] replica-id()
  n = s32[] convert(i)
  ROOT r = f32[2] conditional(n, x, x), branch_computations={one, other}
}
"""


def test_devices_that_miss_each_other_are_named() -> None:
    ends = (
        ASTRAY
        % "one { x = f32[2] parameter(0) ROOT r = f32[2] collective-permute(x), source_target_pairs={{0,1},{1,0}} }"
    )
    expected = r"device 0 \(replica 0, partition 0\) waits in collective-permute 'r' for device 1, which ended its run"
    with pytest.raises(ExchangeError, match=expected):
        evaluate_replicated(Module.from_text(ends), [[_X]] * 2)
    crossed = ends.replace("ROOT r = f32[2] cond", "c = f32[2] cond").replace(
        "{one, other}\n", "{one, other}\n  ROOT r = f32[2] all-reduce(c), to_apply=add\n"
    )
    expected = "device 0 .* waits in collective-permute 'r' for device 1, which waits in all-reduce 'r' for device 0"
    with pytest.raises(ExchangeError, match=expected):
        evaluate_replicated(Module.from_text(crossed.replace("other {", _ADD + "other {")), [[_X]] * 2)


def test_the_error_of_one_device_ends_all() -> None:
    with pytest.raises(ArgumentError, match="device 2: parameter 'p' is f32.2.: expected dtype float32, got float16"):
        evaluate_replicated(all_reduce(), [[_X], [_X], [_X.astype(np.float16)], [_X]])

    def fails(x: Array) -> Array:
        raise KeyError("mine")

    text = 'HloModule m\nENTRY e { p = f32[2] parameter(0) ROOT r = f32[2] custom-call(p), custom_call_target="f" }'
    with pytest.raises(KeyError) as caught:
        evaluate_replicated(Module.from_text(text), [[_X]] * 2, custom_calls={"f": fails})
    assert caught.value.__notes__ == ["on device 0"]


def test_true_values_of_sums() -> None:
    arguments = [[f32([1e8, 1])], [f32([1, 2.0**-30])], [f32([-1e8, 0])]]
    (rounded, *_), (exact, *_) = (
        evaluate_replicated(all_reduce(), arguments, precision=p)[0] for p in ("native", "f64")
    )  # type: ignore[arg-type]
    assert rounded.tolist() == [0, 1] and exact.tolist() == [1, 1 + 2.0**-30]
