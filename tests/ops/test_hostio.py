"""Infeed, outfeed, and sends and receipts of the host: what passes, and in which order, against the reference
evaluator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import xla_wasm
from tests.support.hostio_cases import IN_LOOP, TURNED, Array, X, Y, compare_all, flat, module, run
from xla_wasm import ArgumentError, Options, RunError
from xla_wasm.check.draws import Draw, Drawing
from xla_wasm.hlo.shape import Shape
from xla_wasm.hlo.types import ARRAY_TYPES
from xla_wasm.ops.dtypes import DTYPES

FED = """f = ((f32[3], s32[]), token[]) infeed(t)
    d = (f32[3], s32[]) get-tuple-element(f), index=0
    a = f32[3] get-tuple-element(d), index=0
    b = s32[] get-tuple-element(d), index=1
    c = f32[] convert(b)
    e = f32[3] broadcast(c), dimensions={}
    g = f32[3] multiply(a, e)
    ROOT r = f32[3] add(g, x)"""


def test_an_item_is_the_leaves_of_a_tuple() -> None:
    (result,), _, _ = run(module(FED), X, infeed=[(Y, np.int32(2))])
    np.testing.assert_array_equal(result, 2 * Y + X)


@pytest.mark.parametrize("dtype", ARRAY_TYPES)
def test_every_element_type(dtype: str) -> None:
    """In by infeed and recv, out by outfeed and send, alone and within a tuple."""
    m = module(
        f"""f = ({dtype}[2,3], token[]) infeed(t)
        a = {dtype}[2,3] get-tuple-element(f), index=0
        k = token[] get-tuple-element(f), index=1
        v = ({dtype}[2,3], u32[], token[]) recv(k), channel_id=1, is_host_transfer=true
        w = ({dtype}[2,3], token[]) recv-done(v), channel_id=1, is_host_transfer=true
        b = {dtype}[2,3] get-tuple-element(w), index=0
        l = token[] get-tuple-element(w), index=1
        s = ({dtype}[2,3], u32[], token[]) send(a, l), channel_id=2, is_host_transfer=true
        n = token[] send-done(s), channel_id=2, is_host_transfer=true
        c = {dtype}[3,2] transpose(b), dimensions={{1,0}}
        g = ({dtype}[2,3], {dtype}[3,2]) tuple(a, c)
        o = token[] outfeed(g, n), outfeed_shape=({dtype}[2,3], {dtype}[3,2])
        p = token[] outfeed(c, o), outfeed_shape={dtype}[3,2]
        ROOT r = ({dtype}[2,3], {dtype}[3,2]) tuple(a, c)""",
        "",
    )
    a, b = Drawing().item(Draw(), 0, None, [Shape(dtype, (2, 3))] * 2)
    results, out, sent = run(m, infeed=[a], recv={"channel_1": [b]}, outfeed=True, send=["channel_2"])
    compare_all(results, [a, b.T])
    compare_all([*out[0], out[1], *sent["channel_2"]], [a, b.T, b.T, a])


def test_tuples_of_tuples_are_flat_for_the_host() -> None:
    m = module(
        """f = ((f32[], (s8[2], (pred[])), ()), token[]) infeed(t)
        d = (f32[], (s8[2], (pred[])), ()) get-tuple-element(f), index=0
        o = token[] outfeed(d, t), outfeed_shape=(f32[], (s8[2], (pred[])), ())
        i = (s8[2], (pred[])) get-tuple-element(d), index=1
        ROOT r = s8[2] get-tuple-element(i), index=0""",
        "",
    )
    item = (np.float32(3), np.array([1, 2], np.int8), np.bool_(True))
    _, out, _ = run(m, infeed=[item], outfeed=True)
    compare_all(flat(out), [np.asarray(a) for a in item])


def test_nothing_is_no_item() -> None:
    m = module(
        """f = ((), token[]) infeed(t)
        d = () get-tuple-element(f), index=0
        o = token[] outfeed(d, t), outfeed_shape=()
        s = ((), u32[], token[]) send(d, o), channel_id=1, is_host_transfer=true
        v = ((), u32[], token[]) recv(o), channel_id=2, is_host_transfer=true
        w = ((), token[]) recv-done(v), channel_id=2, is_host_transfer=true
        ROOT r = f32[3] negate(x)"""
    )
    (result,), _, _ = run(m, X)
    np.testing.assert_array_equal(result, -X)
    assert not xla_wasm.compile(m).manifest["requests"]


# --- order
# ---------------------------------------------------------------------------------------------------------------


def test_tokens_order_what_data_does_not() -> None:
    """Outfeeds and infeeds in a chain, the results of some of them unused."""
    m = module(
        """o = token[] outfeed(x, t), outfeed_shape=f32[3]
        f = (f32[3], token[]) infeed(o)
        k = token[] get-tuple-element(f), index=1
        n = f32[3] negate(x)
        p = token[] outfeed(n, k), outfeed_shape=f32[3]
        g = (f32[3], token[]) infeed(p)
        l = token[] get-tuple-element(g), index=1
        b = f32[3] get-tuple-element(g), index=0
        h = (f32[3], token[]) infeed(l)
        i = token[] get-tuple-element(h), index=1
        q = token[] outfeed(b, i), outfeed_shape=f32[3]
        ROOT r = f32[3] add(b, x)"""
    )
    events: list[Any] = []

    def items() -> Iterator[Array]:
        for i in range(3):
            events.append(i)
            yield Y + i

    (result,) = xla_wasm.load(xla_wasm.compile(m)).run(X, infeed=items(), outfeed=lambda a: events.append(a.tolist()))
    np.testing.assert_array_equal(result, Y + 1 + X)
    assert events == [[1, 2, 3], 0, [-1, -2, -3], 1, 2, [11, 21, 31]]
    run(m, X, infeed=[Y, Y + 1, Y + 2], outfeed=True)


def test_one_source_for_all_infeeds_and_one_for_each_name() -> None:
    m = module(
        """f = (f32[3], token[]) infeed(t)
        g = (s32[], token[]) infeed(t)
        v = (f32[3], u32[], token[]) recv(t), channel_id=1, is_host_transfer=true, frontend_attributes={_xla_host_transfer_rendezvous="a"}
        w = (f32[3], u32[], token[]) recv(t), channel_id=2, is_host_transfer=true, frontend_attributes={_xla_host_transfer_rendezvous="b"}
        p = (f32[3], token[]) recv-done(w), channel_id=2, is_host_transfer=true
        q = (f32[3], token[]) recv-done(v), channel_id=1, is_host_transfer=true
        a = f32[3] get-tuple-element(f), index=0
        b = s32[] get-tuple-element(g), index=0
        c = f32[3] get-tuple-element(p), index=0
        d = f32[3] get-tuple-element(q), index=0
        ROOT r = (f32[3], s32[], f32[3], f32[3]) tuple(a, b, c, d)""",  # noqa: E501
        "",
    )
    results, _, _ = run(m, infeed=[X, np.int32(7)], recv={"a": [X + 1], "b": [X + 2]})
    compare_all(results, [X, np.int32(7), X + 2, X + 1])
    assert [(r["kind"], r["name"], r["target"]) for r in xla_wasm.compile(m).manifest["requests"]] == [
        *(("infeed", "f", ""), ("infeed", "g", "")),
        *(("recv", "p", "b"), ("recv", "q", "a")),
    ]


def test_in_a_loop() -> None:
    items = [Y * (i + 1) for i in range(4)]
    (result,), out, _ = run(IN_LOOP, np.int32(0), X, infeed=items, outfeed=True)
    sums = X + np.cumsum(items, 0)
    np.testing.assert_array_equal(out, [*sums, sums[-1]])
    np.testing.assert_array_equal(result, -sums[-1])
    run(IN_LOOP, np.int32(4), X, infeed=[], outfeed=True)


def test_a_loop_that_nothing_but_the_host_sees() -> None:
    """Two loops, one in the other, whose state stays what it was; neither they nor the outfeed may go."""
    more = """inner {
  s = (s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  k = token[] after-all()
  f = (s32[], token[]) infeed(k)
  a = s32[] get-tuple-element(f), index=0
  o = token[] outfeed(a, k), outfeed_shape=s32[]
  ROOT t = (s32[]) tuple(i)
}

more {
  s = (s32[]) parameter(0)
  k = token[] after-all()
  f = (pred[], token[]) infeed(k)
  ROOT a = pred[] get-tuple-element(f), index=0
}

outer {
  s = (s32[]) parameter(0)
  ROOT w = (s32[]) while(s), condition=more, body=inner
}

"""
    m = module(
        "s = (s32[]) tuple(n)\n w = (s32[]) while(s), condition=more, body=outer\n ROOT r = s32[] negate(n)",
        "n: s32[]",
        more,
    )
    numbers = [np.int32(i) for i in range(3)]
    yes, no = np.bool_(True), np.bool_(False)
    items = [yes, yes, numbers[0], yes, numbers[1], no, yes, no, yes, yes, numbers[2], no, no]
    (result,), out, _ = run(m, np.int32(5), infeed=items, outfeed=True)
    assert result == -5
    assert out == [0, 1, 2]


def test_a_loop_whose_condition_asks_the_host_in_a_branch() -> None:
    more = """asked {
  s = (s32[]) parameter(0)
  k = token[] after-all()
  f = (pred[], token[]) infeed(k)
  ROOT a = pred[] get-tuple-element(f), index=0
}

never {
  s = (s32[]) parameter(0)
  ROOT a = pred[] constant(false)
}

same {
  ROOT s = (s32[]) parameter(0)
}

goes {
  s = (s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  zero = s32[] constant(0)
  p = pred[] compare(i, zero), direction=GT
  ROOT c = pred[] conditional(p, s, s), true_computation=asked, false_computation=never
}

"""
    m = module(
        "s = (s32[]) tuple(n)\n w = (s32[]) while(s), condition=goes, body=same\n ROOT r = s32[] negate(n)",
        "n: s32[]",
        more,
    )
    feed = iter([np.bool_(True), np.bool_(True), np.bool_(False), np.bool_(True)])
    xla_wasm.load(xla_wasm.compile(m)).run(np.int32(5), infeed=feed)
    assert len(list(feed)) == 1


def test_in_a_branch() -> None:
    more = """fed {
  x = f32[3] parameter(0)
  k = token[] after-all()
  f = (f32[3], token[]) infeed(k)
  ROOT a = f32[3] get-tuple-element(f), index=0
}

told {
  x = f32[3] parameter(0)
  k = token[] after-all()
  o = token[] outfeed(x, k), outfeed_shape=f32[3]
  ROOT n = f32[3] negate(x)
}

"""
    m = module(
        "ROOT c = f32[3] conditional(p, x, x), true_computation=fed, false_computation=told",
        "p: pred[]; x: f32[3]",
        more,
    )
    (result,), out, _ = run(m, np.bool_(True), X, infeed=[Y], outfeed=True)
    np.testing.assert_array_equal(result, Y)
    assert not out
    (result,), out, _ = run(m, np.bool_(False), X, infeed=[], outfeed=True)
    np.testing.assert_array_equal(result, -X)
    np.testing.assert_array_equal(out, [X])


def test_in_a_call_that_is_made_twice() -> None:
    more = """fed {
  k = token[] parameter(0)
  f = (f32[3], token[]) infeed(k)
  a = f32[3] get-tuple-element(f), index=0
  l = token[] get-tuple-element(f), index=1
  o = token[] outfeed(a, l), outfeed_shape=f32[3]
  ROOT r = (f32[3], token[]) tuple(a, o)
}

"""
    m = module(
        """c = (f32[3], token[]) call(t), to_apply=fed
        k = token[] get-tuple-element(c), index=1
        d = (f32[3], token[]) call(k), to_apply=fed
        a = f32[3] get-tuple-element(c), index=0
        b = f32[3] get-tuple-element(d), index=0
        ROOT r = f32[3] subtract(a, b)""",
        "",
        more,
    )
    (result,), out, _ = run(m, infeed=[X, Y], outfeed=True)
    np.testing.assert_array_equal(result, X - Y)
    np.testing.assert_array_equal(out, [X, Y])


# --- layouts, dynamic dimensions
# -------------------------------------------------------------------------------------------


def test_layouts_are_the_hosts() -> None:
    m = module(TURNED, "x: s4[4]")
    a, x = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([1, -2, 3, -4], DTYPES["s4"])
    (result,), out, _ = run(m, x, infeed=[a], outfeed=True)
    compare_all([result, *out[0]], [a.T, a, x])
    exe = xla_wasm.load(xla_wasm.compile(m), physical=True)
    # Tiles of 2 by 2 over the three columns of two elements.
    tiled = np.array([0, 3, 1, 4, 2, 5, 0, 0], np.float32)
    raw: list[Any] = []
    (result,) = exe.run(x.astype(np.int8).view(np.uint8), infeed=[tiled.tobytes()], outfeed=raw)
    np.testing.assert_array_equal(result.view(np.float32), a.T.reshape(-1))
    columns, packed = raw[0]
    np.testing.assert_array_equal(columns.view(np.float32), [0, 3, 1, 4, 2, 5])
    np.testing.assert_array_equal(packed, [0xE1, 0xC3])
    with pytest.raises(
        ArgumentError,
        match=r"infeed 'f', item 0 of this run: the array must be the 32 bytes of f32\[2,3\]\{0,1:T\(2,2\)\}, got 24",
    ):
        exe.run(np.zeros(4, np.uint8), infeed=[bytes(24)], outfeed=raw)


def test_dynamic_dimensions() -> None:
    """An array of any size up to its bound comes in, and what is computed from it goes out in its size."""
    m = module(
        """f = (f32[<=4,2]{0,1}, token[]) infeed(t)
        a = f32[<=4,2] get-tuple-element(f), index=0
        b = f32[<=4,2] add(a, a)
        g = (f32[<=4,2], f32[3]) tuple(b, x)
        o = token[] outfeed(g, t), outfeed_shape=(f32[<=4,2]{0,1}, f32[3])
        v = ((f32[<=4]), u32[], token[]) recv(o), channel_id=1, is_host_transfer=true
        w = ((f32[<=4]), token[]) recv-done(v), channel_id=1, is_host_transfer=true
        c = (f32[<=4]) get-tuple-element(w), index=0
        d = f32[<=4] get-tuple-element(c), index=0
        s = (f32[<=4], u32[], token[]) send(d, o), channel_id=2, is_host_transfer=true
        n = token[] send-done(s), channel_id=2, is_host_transfer=true
        zero = f32[] constant(0)
        ROOT r = f32[2] reduce(b, zero), dimensions={0}, to_apply=add""",
        more="add {\n  p = f32[] parameter(0)\n  q = f32[] parameter(1)\n  ROOT r = f32[] add(p, q)\n}\n",
    )
    for size in (0, 1, 3, 4):
        a = np.arange(2 * size, dtype=np.float32).reshape(size, 2)
        d = np.arange(4 - size, dtype=np.float32)
        (result,), out, sent = run(m, X, infeed=[a], recv={"channel_1": [d]}, outfeed=True, send=["channel_2"])
        np.testing.assert_array_equal(result, 2 * a.sum(0))
        compare_all([*out[0], *sent["channel_2"]], [2 * a, X, d])
    exe = xla_wasm.load(xla_wasm.compile(m))
    with pytest.raises(
        ArgumentError, match=r"infeed 'f', item 0 of this run: the array must be float32\[<=4,2\], got float32\[5,2\]"
    ):
        exe.run(X, infeed=[np.zeros((5, 2), np.float32)], outfeed=[], recv={"channel_1": []}, send={"channel_2": []})


def test_dynamic_dimensions_of_a_custom_call() -> None:
    m = module('ROOT y = f32[<=3] custom-call(x), custom_call_target="shorter"', "x: f32[<=3]")
    functions = {"shorter": lambda a: a[1:]}
    exe = xla_wasm.load(xla_wasm.compile(m, Options(host_calls=("shorter",))), custom_calls=functions)
    for size in (1, 2, 3):
        for results in (exe.run(X[:size]), xla_wasm.evaluate(m, X[:size], custom_calls=functions)):
            np.testing.assert_array_equal(results, [X[1:size]])


def test_weights_and_state_beside_feeds() -> None:
    m = module(
        """f = (f32[3], token[]) infeed(t)
        a = f32[3] get-tuple-element(f), index=0
        s = f32[3] add(a, k)
        y = f32[3] multiply(s, w)
        o = token[] outfeed(y, t), outfeed_shape=f32[3]
        ROOT r = (f32[3], f32[3]) tuple(y, s)""",
        "w: f32[3]; k: f32[3]",
    )
    exe = xla_wasm.load(xla_wasm.compile(m, Options(weights=("w",), state=(("k", 1),))))
    exe.set("w", Y)
    exe.set("k", np.zeros(3, np.float32))
    out: list[Any] = []
    feed = iter([X, X, X])
    for i in range(3):
        np.testing.assert_array_equal(exe.run(infeed=feed, outfeed=out), [(i + 1) * X * Y])
    np.testing.assert_array_equal(out, [X * Y, 2 * X * Y, 3 * X * Y])
    with pytest.raises(RunError, match="its feed has ended"):
        exe.run(infeed=feed, outfeed=out)
    np.testing.assert_array_equal(exe.get("k"), 3 * X)  # a run that could not begin has changed nothing
