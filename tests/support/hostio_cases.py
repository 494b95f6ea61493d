"""Modules that talk with their host or with other devices, and what runs them twice: by the evaluator and compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import xla_wasm
from tests.support import closeness
from xla_wasm.hlo.ir import Module
from xla_wasm.reference import evaluate_replicated

Array = np.ndarray[Any, Any]

X = np.array([1, 2, 3], np.float32)
Y = np.array([10, 20, 30], np.float32)


def module(body: str, parameters: str = "x: f32[3]", more: str = "", header: str = "") -> Module:
    """A module of one computation, after those in `more`; `body` is its instructions, a line each, and `t` is a
    token."""
    listed = [
        f"  {name} = {shape} parameter({i})"
        for i, (name, shape) in enumerate(p.split(": ") for p in parameters.split("; ") if p)
    ]
    lines = [*listed, "  t = token[] after-all()", *("  " + line.strip() for line in body.strip().split("\n"))]
    return Module.from_text(f"HloModule m{header}\n\n{more}\nENTRY e {{\n" + "\n".join(lines) + "\n}\n")


def flat(items: Sequence[Any]) -> list[Array]:
    return [a for item in items for a in (item if isinstance(item, tuple) else (item,))]


def run(
    m: Module, *args: Any, outfeed: bool = False, send: Sequence[str] = (), **given: Any
) -> tuple[list[Array], list[Any], dict[str, list[Any]]]:
    """Results, what came out and what was sent, by the compiled module: all must be what the evaluator makes of
    them."""
    seen = []
    exe = xla_wasm.load(xla_wasm.compile(m))
    for call in (lambda **ends: xla_wasm.evaluate(m, *args, **ends), lambda **ends: exe.run(*args, **ends)):
        out: list[Any] = []
        sent: dict[str, list[Any]] = {name: [] for name in send}
        ends = given | ({"outfeed": out} if outfeed else {}) | ({"send": sent} if send else {})
        seen.append((call(**ends), out, sent))
    (results, out, sent), (other_results, other_out, other_sent) = seen
    compare_all(other_results, results)
    compare_all(flat(other_out), flat(out))
    for name in send:
        compare_all(flat(other_sent[name]), flat(sent[name]))
    assert [isinstance(item, tuple) for item in out] == [isinstance(item, tuple) for item in other_out]
    return seen[1]


def compare_all(actual: Sequence[Array], expected: Sequence[Array]) -> None:
    assert len(actual) == len(expected)
    for i, (a, b) in enumerate(zip(actual, expected)):
        closeness.assert_same(a, b, 0, f"array {i}")


def transfer(pairs: str | None, channel: int, shape: str = "f32[3]", done_first: bool = False) -> str:
    """x goes over a channel, and comes in as `y`."""
    carried = f', frontend_attributes={{_xla_send_recv_source_target_pairs="{pairs}"}}' if pairs is not None else ""
    done = f"d = ({shape}, token[]) recv-done(v), channel_id={channel}\n y = {shape} get-tuple-element(d), index=0"
    send = (
        f"s = ({shape}, u32[], token[]) send(x, t), channel_id={channel}{carried}\n n = token[] send-done(s), "
        f"channel_id={channel}"
    )
    begin = f"v = ({shape}, u32[], token[]) recv(t), channel_id={channel}{carried}\n"
    return begin + ("\n".join([done, send]) if done_first else "\n".join([send, done]))


def replicated(m: Module, arguments: Sequence[Sequence[Any]], replicas: int, partitions: int) -> list[list[Array]]:
    """Returns the results of each device: the compiled module and the evaluator must agree."""
    exe = xla_wasm.load(xla_wasm.compile(m))
    results = exe.run_replicated(arguments, num_replicas=replicas, num_partitions=partitions, timeout=20)
    for device, expected in zip(results, evaluate_replicated(m, arguments, replicas, partitions), strict=True):
        compare_all(device, expected)
    return results


LOOP = """body {
  s = (s32[], f32[3], token[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[3] get-tuple-element(s), index=1
  k = token[] get-tuple-element(s), index=2
  f = (f32[3], token[]) infeed(k)
  a = f32[3] get-tuple-element(f), index=0
  l = token[] get-tuple-element(f), index=1
  y = f32[3] add(x, a)
  o = token[] outfeed(y, l), outfeed_shape=f32[3]
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT t = (s32[], f32[3], token[]) tuple(j, y, o)
}

condition {
  s = (s32[], f32[3], token[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(4)
  ROOT c = pred[] compare(i, n), direction=LT
}

"""
IN_LOOP = module(
    """s = (s32[], f32[3], token[]) tuple(n, x, t)
    w = (s32[], f32[3], token[]) while(s), condition=condition, body=body
    k = token[] get-tuple-element(w), index=2
    y = f32[3] get-tuple-element(w), index=1
    o = token[] outfeed(y, k), outfeed_shape=f32[3]
    ROOT r = f32[3] negate(y)""",
    "n: s32[]; x: f32[3]",
    LOOP,
)

TURNED = """f = (f32[2,3]{0,1:T(2,2)}, token[]) infeed(t)
    a = f32[2,3] get-tuple-element(f), index=0
    g = (f32[2,3], s4[4]) tuple(a, x)
    o = token[] outfeed(g, t), outfeed_shape=(f32[2,3]{0,1}, s4[4]{0:E(4)})
    ROOT r = f32[3,2] transpose(a), dimensions={1,0}"""
