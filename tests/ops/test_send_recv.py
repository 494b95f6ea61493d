"""Send and recv between devices: who gets what, in loops too, and that nobody waits for ever."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xla_wasm
from tests.support.hostio_cases import IN_LOOP, X, Y, compare_all, module, replicated, transfer
from xla_wasm import ArgumentError, RunError
from xla_wasm.check.draws import Draw, Drawing
from xla_wasm.errors import ExchangeError, VerifyError
from xla_wasm.hlo.shape import Shape
from xla_wasm.hlo.types import ARRAY_TYPES
from xla_wasm.ops.hostio.transfers import Order
from xla_wasm.reference import evaluate_replicated


@pytest.mark.parametrize("done_first", [False, True])
@pytest.mark.parametrize(("channel", "replicas", "partitions"), [(0, 4, 1), (3, 1, 4), (0, 4, 2), (3, 2, 4)])
def test_pairs_are_replicas_without_a_channel_and_partitions_with_one(
    channel: int, replicas: int, partitions: int, done_first: bool
) -> None:
    m = module(transfer("{{0,1},{1,2},{3,0}}", channel, done_first=done_first) + "\n ROOT r = f32[3] copy(y)")
    arguments = [[X * 10**d] for d in range(replicas * partitions)]
    results = replicated(m, arguments, replicas, partitions)
    sources = {1: 0, 2: 1, 0: 3}
    for d, (result,) in enumerate(results):
        replica, partition = divmod(d, partitions)
        source = sources.get(replica if channel == 0 else partition)
        from_device = (
            source
            if source is None
            else source * partitions + partition
            if channel == 0
            else replica * partitions + source
        )
        np.testing.assert_array_equal(result, X * 0 if from_device is None else X * 10**from_device)


@pytest.mark.parametrize("done_first", [False, True])
def test_without_pairs_it_goes_to_the_other_one(done_first: bool) -> None:
    m = module(transfer(None, 1, done_first=done_first) + "\n ROOT r = f32[3] subtract(x, y)")
    exe = xla_wasm.load(xla_wasm.compile(m))
    np.testing.assert_array_equal(exe.run(X), [X - X])
    np.testing.assert_array_equal(xla_wasm.evaluate(m, X), [X - X])
    for replicas, partitions in ((2, 1), (1, 2)):
        compare_all([r for (r,) in replicated(m, [[X], [Y]], replicas, partitions)], [X - Y, Y - X])
    with pytest.raises(ArgumentError):
        exe.run_replicated([[X]] * 3)
    fixed = module(transfer(None, 1) + "\n ROOT r = f32[3] subtract(x, y)", header=", replica_count=2")
    compare_all([r for (r,) in replicated(fixed, [[X], [Y]], 2, 1)], [X - Y, Y - X])


@pytest.mark.parametrize("dtype", ARRAY_TYPES)
def test_every_element_type_between_devices(dtype: str) -> None:
    m = module(transfer("{{0,1},{1,0}}", 0, f"{dtype}[2,3]") + f"\n ROOT r = {dtype}[2,3] copy(y)", f"x: {dtype}[2,3]")
    a, b = Drawing().item(Draw(), 0, None, [Shape(dtype, (2, 3))] * 2)
    compare_all([r for (r,) in replicated(m, [[a], [b]], 2, 1)], [b, a])


def test_tuples_and_dynamic_dimensions_between_devices() -> None:
    data = "(f32[<=4], (s32[], c64[2]))"
    m = module(
        f"""x = {data} tuple(a, p)
        {transfer("{{0,1}}", 0, data)}
        ROOT r = {data} copy(y)""",
        "a: f32[<=4]; p: (s32[], c64[2])",
    )
    number = np.array([1 + 2j, 3j], np.complex64)
    arguments = [[np.arange(size, dtype=np.float32), np.int32(size), number] for size in (3, 1)]
    first, second = replicated(m, arguments, 2, 1)
    compare_all(second, arguments[0])
    compare_all(first, [np.zeros(0, np.float32), np.int32(0), 0 * number])


PIPELINED = """body {
  s = (s32[], f32[3], (f32[3], u32[], token[])) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  total = f32[3] get-tuple-element(s), index=1
  begun = (f32[3], u32[], token[]) get-tuple-element(s), index=2
  done = (f32[3], token[]) recv-done(begun), channel_id=0
  came = f32[3] get-tuple-element(done), index=0
  sum = f32[3] add(total, came)
  k = token[] after-all()
  v = (f32[3], u32[], token[]) recv(k), channel_id=0, frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,0}}}
  out = (f32[3], u32[], token[]) send(sum, k), channel_id=0, frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,0}}}
  end = token[] send-done(out), channel_id=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT t = (s32[], f32[3], (f32[3], u32[], token[])) tuple(j, sum, v)
}

condition {
  s = (s32[], f32[3], (f32[3], u32[], token[])) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT
}

"""  # noqa: E501


def test_a_receipt_that_begins_before_a_loop_and_ends_in_it() -> None:
    """As XLA pipelines transfers: each trip ends what the one before has begun."""
    pairs = "frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,0}}}"
    m = module(
        f"""v = (f32[3], u32[], token[]) recv(t), channel_id=0, {pairs}
        o = (f32[3], u32[], token[]) send(x, t), channel_id=0, {pairs}
        n = token[] send-done(o), channel_id=0
        zero = s32[] constant(0)
        s = (s32[], f32[3], (f32[3], u32[], token[])) tuple(zero, x, v)
        w = (s32[], f32[3], (f32[3], u32[], token[])) while(s), condition=condition, body=body
        total = f32[3] get-tuple-element(w), index=1
        begun = (f32[3], u32[], token[]) get-tuple-element(w), index=2
        d = (f32[3], token[]) recv-done(begun), channel_id=0
        came = f32[3] get-tuple-element(d), index=0
        ROOT r = f32[3] subtract(total, came)""",
        more=PIPELINED,
    )
    totals = [X, Y]
    for _ in range(3):
        totals = [totals[0] + totals[1], totals[1] + totals[0]]
    compare_all([r for (r,) in replicated(m, [[X], [Y]], 2, 1)], [totals[0] - totals[1], totals[1] - totals[0]])


def test_a_device_waits_no_sooner_than_it_must() -> None:
    """Each receipt is listed before the send that the other device waits for; outfeeds keep their order all the
    same."""
    pairs = 'frontend_attributes={_xla_send_recv_source_target_pairs="{{0,1},{1,0}}"}'
    lines = []
    for i in range(3):
        lines += [
            f"v{i} = (f32[3], u32[], token[]) recv(t), channel_id={i + 1}, {pairs}",
            f"d{i} = (f32[3], token[]) recv-done(v{i}), channel_id={i + 1}",
            f"y{i} = f32[3] get-tuple-element(d{i}), index=0",
            f"p{i} = token[] outfeed(y{i}, t), outfeed_shape=f32[3]",
            f"q{i} = token[] outfeed(x, t), outfeed_shape=f32[3]",
        ]
    lines += [f"s{i} = (f32[3], u32[], token[]) send(x, t), channel_id={i + 1}, {pairs}" for i in range(3)]
    m = module("\n".join([*lines, "ROOT r = f32[3] negate(x)"]))
    outs: list[list[Any]] = [[], []]
    exe = xla_wasm.load(xla_wasm.compile(m))
    exe.run_replicated([[X], [Y]], num_partitions=2, timeout=20, outfeed=outs)
    np.testing.assert_array_equal(outs, [[Y, X] * 3, [X, Y] * 3])
    again: list[list[Any]] = [[], []]
    evaluate_replicated(m, [[X], [Y]], 1, 2, outfeed=again)
    np.testing.assert_array_equal(again, outs)


def test_feeds_of_several_devices() -> None:
    exe = xla_wasm.load(xla_wasm.compile(IN_LOOP))
    outs: list[list[Any]] = [[], []]
    feeds = [[X, Y], [Y, Y]]
    results = exe.run_replicated([[np.int32(2), X], [np.int32(2), Y]], infeed=feeds, outfeed=outs)
    compare_all([r for (r,) in results], [-(2 * X + Y), -(3 * Y)])
    assert [len(out) for out in outs] == [3, 3]
    with pytest.raises(ArgumentError, match="infeed must be a list with an entry for each of 2 devices, got 1 entry"):
        exe.run_replicated([[np.int32(2), X]] * 2, infeed=[feeds], outfeed=outs)
    with pytest.raises(RunError, match="device 1.*infeed 'f' takes item 1 of this run"):
        exe.run_replicated([[np.int32(2), X]] * 2, infeed=[[X, X], [X]], outfeed=outs)
    exe.run_replicated([[np.int32(2), X]] * 2, infeed=[[X, X]] * 2, outfeed=outs)


@pytest.mark.parametrize("pairs", ["0,1", "{{0,1}", "{{0}}", "{{0,1},{0,2}}", "{{0,2},{1,2}}", "{{0,-1}}"])
def test_pairs_that_are_none(pairs: str) -> None:
    m = module(transfer(pairs, 1) + "\n ROOT r = f32[3] copy(y)")
    with pytest.raises(VerifyError, match="_xla_send_recv_source_target_pairs"):
        xla_wasm.compile(m)


def test_a_receipt_that_nothing_starts() -> None:
    m = module(
        "d = (f32[3], token[]) recv-done(v), channel_id=4\n ROOT y = f32[3] get-tuple-element(d), index=0",
        "v: (f32[3], u32[], token[])",
    )
    with pytest.raises(VerifyError, match="recv-done 'd': the module has no recv on channel 4"):
        xla_wasm.compile(m)


def test_receipts_that_nobody_sends_to() -> None:
    """Alone, and around a circle in which each device waits for what it would send on."""
    lone = """v = (f32[3], u32[], token[]) recv(t), channel_id=1
    d = (f32[3], token[]) recv-done(v), channel_id=1
    ROOT y = f32[3] get-tuple-element(d), index=0"""
    m = module(lone, "")
    for alone in (xla_wasm.load(xla_wasm.compile(m)).run, lambda: xla_wasm.evaluate(m)):
        with pytest.raises(ExchangeError, match="recv-done 'd'"):
            alone()
    pairs = 'frontend_attributes={_xla_send_recv_source_target_pairs="{{0,1},{1,0}}"}'
    circle = lone.replace("ROOT ", "").replace("channel_id=1\n    d", f"channel_id=1, {pairs}\n    d")
    circle += (
        f"\ns = (f32[3], u32[], token[]) send(y, t), channel_id=1, {pairs}\nn = token[] send-done(s), channel_id=1"
    )
    circle += "\nROOT r = f32[3] negate(y)"
    m = module(circle, "")
    exe = xla_wasm.load(xla_wasm.compile(m))
    for together in (
        lambda: exe.run_replicated([[], []], num_partitions=2, timeout=1),
        lambda: evaluate_replicated(m, [[], []], 1, 2),
    ):
        with pytest.raises(ExchangeError, match="recv-done 'd'"):
            together()


@pytest.mark.parametrize("seed", range(30))
def test_the_order_that_devices_run_in(seed: int) -> None:
    """Random computations: what needs no receipt stands before the first one, and all else keeps its order where it
    must."""
    rng = np.random.default_rng(seed)
    lines, tokens, arrays = [], ["t"], ["x"]
    for i in range(30):
        token, array, kind = (
            str(rng.choice(tokens)),
            str(rng.choice(arrays)),
            rng.choice(["recv", "send", "outfeed", "add", "infeed"]),
        )
        if kind == "recv":
            lines += [f"v{i} = (f32[3], u32[], token[]) recv({token}), channel_id={i + 1}"]
            lines += [f"d{i} = (f32[3], token[]) recv-done(v{i}), channel_id={i + 1}"]
        elif kind == "send":
            lines += [f"s{i} = (f32[3], u32[], token[]) send({array}, {token}), channel_id={1 + i % 3}"]
            lines += [f"k{i} = token[] send-done(s{i}), channel_id={1 + i % 3}"]
        elif kind == "outfeed":
            lines += [f"k{i} = token[] outfeed({array}, {token}), outfeed_shape=f32[3]"]
        elif kind == "infeed":
            lines += [f"d{i} = (f32[3], token[]) infeed({token})"]
        else:
            lines += [f"a{i} = f32[3] add({array}, {rng.choice(arrays)})"]
        if kind in ("recv", "infeed"):
            lines += [
                f"a{i} = f32[3] get-tuple-element(d{i}), index=0",
                f"k{i} = token[] get-tuple-element(d{i}), index=1",
            ]
        arrays += [f"a{i}"] if kind in ("recv", "infeed", "add") else []
        tokens += [f"k{i}"] if kind != "add" else []
    computation = module("\n".join([*lines, "ROOT r = f32[3] negate(x)"])).entry
    order = Order().of(computation)
    place = {x: i for i, x in enumerate(order)}
    assert sorted(order, key=computation.instructions.index) == computation.instructions
    assert all(place[o] < place[x] for x in order for o in x.operands)
    hosts = [x for x in computation.instructions if x.opcode in ("infeed", "outfeed")]
    assert sorted(hosts, key=place.__getitem__) == hosts
    for channel in range(1, 4):
        sends = [x for x in computation.instructions if x.opcode == "send" and x.attrs["channel_id"] == channel]
        assert sorted(sends, key=place.__getitem__) == sends
    needs: dict[Any, bool] = {}
    last: dict[Any, bool] = {}
    for x in computation.instructions:
        chain = "host" if x in hosts else (x.opcode, x.attrs.get("channel_id"))
        needs[x] = x.opcode == "recv-done" or any(needs[o] for o in x.operands) or last.get(chain, False)
        if x in hosts or x.opcode in ("send", "recv", "send-done"):
            last[chain] = needs[x]
    free = [place[x] for x in order if not needs[x]]
    waits = [place[x] for x in order if x.opcode == "recv-done"]
    assert not waits or max(free) < min(waits)
