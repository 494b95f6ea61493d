"""Programs on several devices of one process: exchanges, counts of devices, weights and states of each, concurrent
callers."""

from __future__ import annotations

import random
import threading
from typing import Any

import numpy as np
import pytest

import xla_wasm
from tests.support.at_once import at_once
from tests.support.replica_programs import Array, entry, inputs, ready, reduced, same, stepped, steps
from tests.support.scripted_devices import LIES, SHARD_LIES, lies
from xla_wasm import ArgumentError, Artifact, ArtifactError, LimitError, Options
from xla_wasm.host.exchange import EAGER, Group, Port
from xla_wasm.host.grid import Grid
from xla_wasm.host.loopback import Loopback
from xla_wasm.host.manifest import Exchange

# --- programs
# -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("devices", [1, 2, 3, 4, 8, 16])
def test_collectives_in_a_loop_and_in_branches(devices: int) -> None:
    exe = ready(steps(devices))
    for trips in (0, 1, 2, 7):
        x = inputs(devices, seed=trips)
        for _ in range(3):
            same(exe.run_replicated([[np.int32(trips), a] for a in x]), [[a] for a in stepped(x, trips)])


@pytest.mark.parametrize("size", [3, 1 << 14, 1 << 20])
def test_every_run_gives_the_same_bits(size: int) -> None:
    exe = ready(reduced(size))
    x = inputs(4, size)
    first = exe.run_replicated([[a] for a in x])
    assert all(a.tobytes() == first[0][0].tobytes() for (a,) in first)
    np.testing.assert_allclose(first[0][0], sum(x), rtol=1e-4, atol=1e-5)
    for _ in range(5):
        same(exe.run_replicated([[a] for a in x]), first)


def test_results_are_copies() -> None:
    exe = ready(reduced(4))
    first = exe.run_replicated([[np.ones(4, np.float32)]] * 2)
    exe.run_replicated([[np.zeros(4, np.float32)]] * 2)
    same(first, [[np.full(4, 2, np.float32)]] * 2)


def test_replicas_and_partitions() -> None:
    module = entry(
        """r = u32[] replica-id()
        p = u32[] partition-id()
        x = s32[] parameter(0)
        y = s32[] all-reduce(x), channel_id=1, replica_groups={{0},{1}}, to_apply=sum
        ROOT t = (u32[], u32[], s32[]) tuple(r, p, y)"""
    )
    exe = ready(module)
    got = exe.run_replicated([[np.int32(1 << d)] for d in range(6)], num_replicas=2, num_partitions=3)
    assert [[int(v) for v in device] for device in got] == [
        [0, 0, 7],
        [0, 1, 7],
        [0, 2, 7],
        [1, 0, 56],
        [1, 1, 56],
        [1, 2, 56],
    ]
    got = exe.run_replicated([[np.int32(1 << d)] for d in range(4)], num_partitions=2)
    assert [[int(v) for v in device] for device in got] == [[0, 0, 3], [0, 1, 3], [1, 0, 12], [1, 1, 12]]


def test_one_device_exchanges_with_itself() -> None:
    for size in (8, 1 << 18):
        exe = ready(reduced(size))
        x = inputs(1, size)
        same([exe.run(x[0])], [x])
        same(exe.run_replicated([x]), [x])
    gathered = ready(
        entry("x = f32[2,3] parameter(0)\nROOT y = f32[2,3] all-gather(x), dimensions={0}, replica_groups={}")
    )
    x = inputs(2, 3)
    same([gathered.run(np.stack(x))], [[np.stack(x)]])


def test_a_program_that_knows_of_no_devices_runs_on_any_number() -> None:
    exe = ready(entry("x = f32[3] parameter(0)\nROOT y = f32[3] add(x, x)"))
    assert exe.manifest.devices is None
    x = inputs(5, 3)
    same(exe.run_replicated([[a] for a in x]), [[a + a] for a in x])
    same(exe.run_replicated([[a] for a in x[:4]], num_partitions=2), [[a + a] for a in x[:4]])


def test_physical_arrays() -> None:
    module = entry(
        "x = f32[2,3]{0,1} parameter(0)\nROOT y = f32[2,3]{0,1} all-reduce(x), replica_groups={}, to_apply=add"
    )
    exe = ready(module, physical=True)
    x = np.arange(6, dtype=np.float32)
    got = exe.run_replicated([[x.tobytes()], [(10 * x).tobytes()]])
    assert all(device[0].tobytes() == (11 * x).tobytes() for device in got)


def test_functions_of_the_host_are_called_for_each_device() -> None:
    calls: list[tuple[int, int]] = []
    lock = threading.Lock()

    def tick(i: Array, d: Array) -> Array:
        with lock:
            calls.append((int(d), int(i)))
        return i

    exe = ready(steps(3, call=True), Options(host_calls=("tick",)), custom_calls={"tick": tick})
    x = inputs(3)
    same(exe.run_replicated([[np.int32(4), a] for a in x]), [[a] for a in stepped(x, 4)])
    assert sorted(calls) == [(d, i) for d in range(3) for i in range(4)]


# --- the number of devices
# ----------------------------------------------------------------------------------------------

GROUPED = "x = f32[8] parameter(0)\nROOT y = f32[8] all-reduce(x), replica_groups={{0,2},{1,3}}, to_apply=add"


@pytest.mark.parametrize(
    ("module", "options", "count", "how", "message"),
    [
        (reduced(), {}, 0, {}, "runs on 1 to 64 devices, got 0"),
        (reduced(), {}, 65, {}, "runs on 1 to 64 devices, got 65"),
        (reduced(), {}, 4, {"num_replicas": 3}, "a multiple of 3 replicas, got 4"),
        (reduced(), {}, 4, {"num_replicas": 2, "num_partitions": 3}, r"runs on 6 devices \(2 replicas x 3 "
                                                                     r"partitions\), got 4"),
        (reduced(), {}, 4, {"num_partitions": 0}, "num_partitions must be an integer of 1 or more, got 0"),
        (reduced(), {}, 4, {"num_replicas": 2.0}, r"num_replicas must be an integer of 1 or more, got 2\.0"),
        (reduced(), {"num_replicas": 4}, 4, {"num_replicas": 2}, "compiled for num_replicas=4, got num_replicas=2"),
        (reduced(), {"num_replicas": 2, "num_partitions": 2}, 2, {}, r"runs on 4 devices \(2 replicas x 2 "
                                                                     r"partitions\), got 2"),
        (entry(GROUPED), {}, 2, {}, "runs on .*4 .*, got 2"),
        (entry(GROUPED), {}, 1, {}, "got 1"),
    ],
)  # fmt: skip
def test_wrong_numbers_of_devices(
    module: Any, options: dict[str, int], count: int, how: dict[str, Any], message: str
) -> None:
    exe = ready(module, Options(**options))
    with pytest.raises(ArgumentError, match=message):
        exe.run_replicated([inputs(1, 8)] * count, **how)


def test_numbers_that_follow_from_the_arguments() -> None:
    x = inputs(4, 8)
    for options, how in (
        ({}, {}),
        ({"num_replicas": 4}, {}),
        ({"num_replicas": 4}, {"num_partitions": 1}),
        ({}, {"num_partitions": 1}),
        ({}, {"num_replicas": 4, "num_partitions": 1}),
    ):
        same(ready(reduced(8), Options(**options)).run_replicated([[a] for a in x], **how), [[sum(x[1:], x[0])]] * 4)
    pairs = ready(reduced(8)).run_replicated([[a] for a in x], num_replicas=2)  # and so 2 partitions
    same(pairs, [[x[0] + x[2]], [x[1] + x[3]]] * 2)


@pytest.mark.parametrize(
    ("artifact", "message"), lies([*LIES, *SHARD_LIES]), ids=[message for _, _, message in [*LIES, *SHARD_LIES]]
)
def test_manifests_that_lie(artifact: Artifact, message: str) -> None:
    with pytest.raises(ArtifactError, match=message):
        xla_wasm.load(artifact)


def test_a_program_for_several_devices_does_not_run_on_one() -> None:
    exe = ready(reduced(), Options(num_replicas=2))
    for method in (exe.run, exe.profile):
        with pytest.raises(
            ArgumentError, match=r"runs on .*2 .*: call exe\.run_replicated with a list of arguments for each"
        ):
            method(*inputs(1, 8))


def test_wrong_arguments_name_the_device() -> None:
    exe = ready(reduced())
    x = inputs(1, 8)
    with pytest.raises(ArgumentError, match=r"device 1: 'm' takes 1 argument \(x: float32\[8\]\), got 2"):
        exe.run_replicated([x, x * 2, x])
    with pytest.raises(ArgumentError, match=r"device 2: argument 0 \('x'\) must be float32\[8\], got float16"):
        exe.run_replicated([x, x, [x[0].astype(np.float16)]])
    with pytest.raises(ArgumentError, match="timeout must be above zero, got 0"):
        exe.run_replicated([x], timeout=0)
    same(exe.run_replicated([x, x]), [[x[0] + x[0]]] * 2)


# --- weights and states
# -------------------------------------------------------------------------------------------------


def keeping(replicas: int | None = None) -> Any:
    """y = the sum of x * w + s over all; s becomes s + w."""
    module = entry(
        """x = f32[3] parameter(0)
        w = f32[3] parameter(1)
        s = f32[3] parameter(2)
        xw = f32[3] multiply(x, w)
        v = f32[3] add(xw, s)
        y = f32[3] all-reduce(v), replica_groups={}, to_apply=add
        t = f32[3] add(s, w)
        ROOT r = (f32[3], f32[3]) tuple(y, t)"""
    )
    return ready(module, Options(weights=("w",), state=(("s", 1),), num_replicas=replicas))


def of(value: float) -> Array:
    return np.full(3, value, np.float32)


def test_states_and_weights_belong_to_devices() -> None:
    exe = keeping()
    exe.set("w", of(1))
    exe.set("w", of(10), device=1)
    exe.set("s", of(100), device=2)
    assert [float(exe.get("w", device=d)[0]) for d in range(3)] == [1, 10, 1]
    arguments = [[of(d + 1)] for d in range(3)]
    states = [0.0, 0.0, 100.0]
    for _ in range(3):
        total = (1 * 1 + states[0]) + (2 * 10 + states[1]) + (3 * 1 + states[2])
        same(exe.run_replicated(arguments), [[of(total)]] * 3)
        states = [s + w for s, w in zip(states, (1, 10, 1))]
        assert [float(exe.get("s", device=d)[0]) for d in range(3)] == states
    exe.set("s", of(7))
    exe.set("w", of(2))
    same(exe.run_replicated(arguments), [[of(6 * 2 + 3 * 7)]] * 3)
    # A device that is made later gets what was set on all, and one device alone is device 0.
    same(exe.run_replicated([*arguments, [of(1)]]), [[of(6 * 2 + 2 + 3 * 9 + 7)]] * 4)
    same([exe.run(of(1))], [[of(2 + 11)]])
    assert [float(exe.get("s", device=d)[0]) for d in range(4)] == [13, 11, 11, 9]


def test_what_is_set_on_all_goes_before_what_was_set_on_one() -> None:
    exe = keeping()
    exe.set("w", of(5), device=1)
    exe.set("w", of(1))
    assert [float(exe.get("w", device=d)[0]) for d in range(2)] == [1, 1]
    exe.set("w", of(3), device=0)
    assert [float(exe.get("w", device=d)[0]) for d in range(2)] == [3, 1]


def test_a_device_that_lacks_a_weight_is_named() -> None:
    exe = keeping()
    exe.set("w", of(1), device=0)
    with pytest.raises(
        ArgumentError, match=r"device 1: weight 'w' has not been set: call exe\.set\('w', float32\[3\]\) first"
    ):
        exe.run_replicated([[of(1)]] * 2)
    exe.set("w", of(1), device=1)
    same(exe.run_replicated([[of(1)]] * 2), [[of(2)]] * 2)


def test_devices_that_cannot_be() -> None:
    exe = keeping(replicas=2)
    for device in (-1, True, "0"):
        with pytest.raises(ArgumentError, match="has no device"):
            exe.set("w", of(1), device=device)
    free = keeping()
    with pytest.raises(ArgumentError, match="has no device 64: it runs on 1 to 64 devices"):
        free.set("w", of(1), device=64)
    with pytest.raises(ArgumentError, match="has no device 99"):
        free.get("s", device=99)


def test_random_numbers_go_on_from_run_to_run() -> None:
    exe = ready(
        entry("a = f32[] constant(0)\nb = f32[] constant(1)\nROOT r = f32[64] rng(a, b), distribution=rng_uniform")
    )
    first, second = (exe.run_replicated([[]] * 2) for _ in range(2))
    same([first[0]], [first[1]])
    assert first[0][0].tobytes() != second[0][0].tobytes()


# --- memory, limits, callers
# --------------------------------------------------------------------------------------------


def test_memory_limit() -> None:
    module = reduced()
    size = ready(module).manifest.memory_bytes
    exe = ready(module, memory_limit=3 * size)
    x = inputs(4, 8)
    with pytest.raises(LimitError, match=f"4 devices need {4 * size} bytes of memory, the limit is {3 * size}"):
        exe.run_replicated([[a] for a in x])
    same(exe.run_replicated([[a] for a in x[:3]]), [[x[0] + x[1] + x[2]]] * 3)
    same([exe.run(x[0])], [[x[0]]])


def test_fuel_and_time_count_over_a_whole_run() -> None:
    x = inputs(2)
    for limit in ({"fuel": 2_000_000}, {"timeout": 20.0}):
        exe = ready(steps(2), **limit)
        for _ in range(3):  # each run begins anew
            same(exe.run_replicated([[np.int32(200), a] for a in x]), [[a] for a in stepped(x, 200)])
    exe = ready(steps(2), fuel=20_000)
    same(exe.run_replicated([[np.int32(2), a] for a in x]), [[a] for a in stepped(x, 2)])
    with pytest.raises(LimitError, match="used up its fuel of 20000"):
        exe.run_replicated([[np.int32(200), a] for a in x])


def test_profile() -> None:
    exe = ready(steps(2))
    profiles = exe.profile_replicated([[np.int32(3), a] for a in inputs(2)])
    assert len(profiles) == 2
    for profiled in profiles:
        names = [name for name, _ in profiled]
        assert {"s", "y", "w"} <= set(names) <= set(exe.manifest.steps) and all(seconds >= 0 for _, seconds in profiled)
    alone = ready(reduced()).profile(*inputs(1, 8))
    assert [name for name, _ in alone][-1] == "end"


def test_callers_take_turns() -> None:
    exe = ready(steps(3))
    other = ready(reduced())
    x = inputs(3)

    def work(seed: int) -> None:
        for trip in range(15):
            y = inputs(3, seed=100 * seed + trip)
            same(exe.run_replicated([[np.int32(trip), a] for a in y]), [[a] for a in stepped(y, trip)])
            z = inputs(2, 8, seed=seed)
            same(other.run_replicated([[a] for a in z]), [[z[0] + z[1]]] * 2)
            same([other.run(z[1])], [[z[1]]])

    at_once(work, range(5))
    same(exe.run_replicated([[np.int32(2), a] for a in x]), [[a] for a in stepped(x, 2)])


def test_threads_are_used_again() -> None:
    exe = ready(reduced())
    exe.run_replicated([inputs(1, 8)] * 4)
    before = threading.active_count()
    for _ in range(50):
        exe.run_replicated([inputs(1, 8)] * 4)
        ready(reduced()).run_replicated([inputs(1, 8)] * 3)
    assert threading.active_count() <= before


# --- the transport itself
# -----------------------------------------------------------------------------------------------


class Sheet:
    """Memory with one exchange in it."""

    def __init__(self, devices: int, sizes: list[int], channel: int, buffered: bool, blocks: bool) -> None:
        sent, at = [], 8 * devices
        for size in sizes:
            sent.append((at, size, size if blocks else 0))
            at += size * (devices if blocks else 1)
        received = []
        for size in sizes:
            received.append((at, size))
            at += size * devices
        self.data = np.zeros(at, np.uint8)
        self.numbers = self.data[: 8 * devices].view(np.int32)
        request = Exchange(
            "x", "test", channel, buffered, (0, devices), (4 * devices, devices), tuple(sent), tuple(received)
        )
        self.request = request
        self.port = Port(request, memoryview(self.data), self.data.ctypes.data, self)

    def block(self, i: int, j: int) -> Array:
        at, size, stride = self.request.sends[i]
        return self.data[at + j * stride : at + j * stride + size]

    def row(self, i: int, k: int) -> Array:
        at, size = self.request.receives[i]
        return self.data[at + k * size : at + (k + 1) * size]


@pytest.mark.parametrize("seed", range(12))
def test_any_pattern_of_exchanges(seed: int) -> None:
    """Drawn senders and receivers, sizes and channels, some buffered; every block arrives where it should, once."""
    rng = random.Random(seed)
    devices = rng.randint(1, 6)
    plan = []
    for number in range(25):
        sizes = [rng.choice([0, 4, 100, EAGER // 2, EAGER + 1, 3 * EAGER]) for _ in range(rng.randint(1, 3))]
        pairs = {(s, r) for s in range(devices) for r in range(devices) if rng.random() < rng.choice([0.2, 0.6, 1])}
        plan.append((sizes, rng.randint(0, 2), rng.random() < 0.3, rng.random() < 0.5, pairs, number))
    group = Group(Grid(devices, 1), 30.0)

    def device(d: int) -> None:
        random_sleep = random.Random(100 * seed + d)
        try:
            for sizes, channel, buffered, blocks, pairs, number in plan:
                sheet = Sheet(devices, sizes, channel, buffered, blocks)
                order = random.Random(number * devices + d).sample(range(devices), devices)
                sheet.numbers[:devices] = [r if (d, r) in pairs else -1 for r in order]
                sheet.numbers[devices:] = [s if (s, d) in pairs else -1 for s in order]
                for i in range(len(sizes)):
                    for j, r in enumerate(order):
                        sheet.block(i, j)[:] = (number * 7 + d * 31 + i * 3 + (r if blocks else 0)) % 251 + 1
                if random_sleep.random() < 0.1:
                    threading.Event().wait(0.002)
                group.endpoints[d].exchange(sheet.port)
                for i in range(len(sizes)):
                    sheet.block(i, 0)[:] = 0  # it may be overwritten now
                    for k, s in enumerate(order):
                        expected = (
                            (number * 7 + s * 31 + i * 3 + (d if blocks else 0)) % 251 + 1 if (s, d) in pairs else 0
                        )
                        assert (sheet.row(i, k) == expected).all(), (d, number, i, s)
        except BaseException as error:
            group.fail(d, str(error))
            raise

    at_once(device, range(devices))


def one_way(channel: int, value: int, to: int, sender: int, buffered: bool, size: int = 4) -> Sheet:
    sheet = Sheet(2, [size], channel, buffered, False)
    sheet.numbers[:] = [to, -1, sender, -1]
    sheet.block(0, 0)[:] = value
    return sheet


@pytest.mark.parametrize("size", [4, 2 * EAGER])
def test_buffered_sends_do_not_wait(size: int) -> None:
    """One device sends three times before the other receives, on two channels and in another order; a channel keeps its
    order."""
    group = Group(Grid(2, 1), 10.0)
    for channel, value in ((0, 1), (1, 2), (0, 3)):
        sheet = one_way(channel, value, 1, -1, True, size)
        group.endpoints[0].exchange(sheet.port)
        sheet.block(0, 0)[:] = 99
    got = []
    for channel in (1, 0, 0):
        sheet = one_way(channel, 0, -1, 0, True, size)
        group.endpoints[1].exchange(sheet.port)
        got.append(int(sheet.row(0, 0)[0]))
        assert (sheet.row(0, 0) == got[-1]).all()
    assert got == [2, 1, 3]


def test_a_device_alone() -> None:
    loopback = Loopback()
    for value in (5, 6):
        loopback.exchange(one_way(3, value, 0, -1, True).port)
    for value in (5, 6):
        sheet = one_way(3, 0, -1, 0, True)
        loopback.exchange(sheet.port)
        assert sheet.row(0, 0).tolist() == [value] * 4
    with pytest.raises(xla_wasm.ExchangeError, match="waits in test 'x' for itself"):
        loopback.exchange(one_way(3, 0, -1, 0, True).port)
    with pytest.raises(xla_wasm.ExchangeError, match="does not receive it"):
        loopback.exchange(one_way(3, 1, 0, -1, False).port)


def test_exchanges_that_cannot_be() -> None:
    group = Group(Grid(2, 1), 10.0)
    for to, sender in ((2, -1), (-1, 7)):
        for exchange in (group.endpoints[0].exchange, Loopback().exchange):
            with pytest.raises(ArtifactError, match=r"test 'x' names device [27], and there (is one|are 2)"):
                exchange(one_way(0, 1, to, sender, False).port)
    group.endpoints[0].exchange(one_way(0, 1, 1, -1, True, 8).port)
    with pytest.raises(ArtifactError, match=r"gets blocks of \[8\] bytes where it has room for \[4\]"):
        group.endpoints[1].exchange(one_way(0, 0, -1, 0, True, 4).port)


def test_large_blocks_are_read_where_they_lie() -> None:
    """A sender of much waits until it is read, and what is read is what is there by then: nobody has copied it."""
    group = Group(Grid(2, 1), 10.0)
    sheet = one_way(0, 1, 1, -1, False, 4 * EAGER)
    sender = threading.Thread(target=group.endpoints[0].exchange, args=(sheet.port,))
    sender.start()
    sender.join(0.1)
    assert sender.is_alive()
    sheet.block(0, 0)[:] = 2
    receiver = one_way(0, 0, -1, 0, False, 4 * EAGER)
    group.endpoints[1].exchange(receiver.port)
    sender.join(10)
    assert not sender.is_alive() and (receiver.row(0, 0) == 2).all()
