"""Structure: tokens at the boundary, what is inlined, and what needs no other device."""

from __future__ import annotations

import numpy as np

import xla_wasm
from tests.support.differential import run
from xla_wasm.hlo.ir import Module

X = np.array([1, 2, 4], np.float32)

TOKENS = """HloModule m

ENTRY e {
  t = token[] parameter(0)
  p = (f32[3], (token[], ()), s32[]) parameter(1)
  x = f32[3] get-tuple-element(p), index=0
  n = (token[], ()) get-tuple-element(p), index=1
  u = token[] get-tuple-element(n), index=0
  i = s32[] get-tuple-element(p), index=2
  a = token[] after-all(t, u)
  y = f32[3] add-dependency(x, a)
  z = f32[3] add(y, y)
  ROOT r = (token[], f32[3], (), (token[], s32[])) tuple(a, z, empty, pair)
}
""".replace("  ROOT", "  empty = () tuple()\n  pair = (token[], s32[]) tuple(a, i)\n  ROOT")


def test_hosts_see_no_tokens() -> None:
    module = Module.from_text(TOKENS)
    artifact = xla_wasm.compile(module)
    assert [(p["name"], p["element_type"]) for p in artifact.manifest["parameters"]] == [("p.0", "f32"), ("p.2", "s32")]
    assert [r["name"] for r in artifact.manifest["results"]] == ["result.1", "result.3.1"]
    for results in (xla_wasm.load(artifact).run(X, 7), xla_wasm.evaluate(module, X, np.int32(7))):
        np.testing.assert_array_equal(results[0], 2 * X)
        assert len(results) == 2 and results[1] == 7


def test_a_module_of_tokens_alone() -> None:
    text = "HloModule m\n\nENTRY e {\n  t = token[] parameter(0)\n  ROOT a = token[] after-all(t, t)\n}\n"
    module = Module.from_text(text)
    assert run(module) == xla_wasm.evaluate(module) == []


def test_layouts_beside_tokens() -> None:
    text = """HloModule m, entry_computation_layout={(token[], f32[2,3]{0,1})->(f32[2,3]{0,1}, token[])}

ENTRY e {
  t = token[] parameter(0)
  x = f32[2,3]{0,1} parameter(1)
  y = f32[2,3]{0,1} negate(x)
  ROOT r = (f32[2,3]{0,1}, token[]) tuple(y, t)
}
"""
    artifact = xla_wasm.compile(Module.from_text(text))
    assert artifact.manifest["parameters"][0]["minor_to_major"] == [0, 1]
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(xla_wasm.load(artifact).run(x), [-x])


def test_state_and_weights_are_counted_without_tokens() -> None:
    options = xla_wasm.Options(weights=(0,), state=(("p.2", "result.3.1"),))
    exe = xla_wasm.load(xla_wasm.compile(Module.from_text(TOKENS), options))
    exe.set("p.0", X)
    exe.set("p.2", 5)
    np.testing.assert_array_equal(exe.run(), [2 * X])
    assert exe.get("p.2") == 5


ASYNC = """HloModule m

inner {
  a = f32[3] parameter(0)
  b = f32[3] parameter(1)
  s = f32[3] subtract(a, b)
  ROOT r = (f32[3], (f32[3])) tuple(s, one)
}

outer {
  a = f32[3] parameter(0)
  b = f32[3] parameter(1)
  ROOT c = (f32[3], (f32[3])) call(b, a), to_apply=inner
}

ENTRY e {
  x = f32[3] parameter(0)
  y = f32[3] parameter(1)
  start = ((f32[3], f32[3]), (f32[3], (f32[3])), s32[], (u32[], token[])) async-start(x, y), calls=outer
  update = ((f32[3], f32[3]), (f32[3], (f32[3])), s32[], (u32[], token[])) async-update(start)
  done = (f32[3], (f32[3])) async-done(update)
  n = (f32[3]) get-tuple-element(done), index=1
  c = s32[] get-tuple-element(start), index=2
  ROOT r = ((f32[3]), s32[]) tuple(n, c)
}
""".replace(
    "  ROOT r = (f32[3], (f32[3])) tuple(s, one)",
    "  one = (f32[3]) tuple(s)\n  ROOT r = (f32[3], (f32[3])) tuple(s, one)",
)


def test_async_wrappers_of_calls_and_tuples() -> None:
    module = Module.from_text(ASYNC)
    for results in (run(module, X, X * X), xla_wasm.evaluate(module, X, X * X)):
        np.testing.assert_array_equal(results[0], X * X - X)
        assert results[1] == 0


def test_a_composite_call_is_its_computation() -> None:
    text = """HloModule m

square {
  a = f32[3] parameter(0)
  ROOT s = f32[3] multiply(a, a)
}

ENTRY e {
  x = f32[3] parameter(0)
  ROOT c = f32[3] call(x), to_apply=square, is_composite=true, frontend_attributes={composite.name="square"}
}
"""
    np.testing.assert_array_equal(run(text, X), [X * X])


def _with(body: str, header: str = "") -> Module:
    add = "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] add(a, b)\n}\n\n"
    return Module.from_text(f"HloModule m{header}\n\n{add}ENTRY e {{\n  x = f32[4] parameter(0)\n  {body}\n}}\n")


def test_replicas_that_exchange_nothing_compile() -> None:
    module = _with("ROOT r = f32[4] negate(x)", ", replica_count=4")
    np.testing.assert_array_equal(run(module, np.ones(4, np.float32)), [-np.ones(4)])


def test_a_loop_of_side_effects_without_state() -> None:
    """A while over nothing runs for as long as its condition, which asks the host, says so."""
    text = """HloModule m

body {
  s = () parameter(0)
  ROOT r = () tuple()
}

condition {
  s = () parameter(0)
  ROOT c = pred[] custom-call(), custom_call_target="more", custom_call_has_side_effect=true
}

ENTRY e {
  x = f32[3] parameter(0)
  s = () tuple()
  w = () while(s), condition=condition, body=body
  ROOT y = f32[3] negate(x)
}
"""
    answers = [True, True, False]
    artifact = xla_wasm.compile(Module.from_text(text), xla_wasm.Options(host_calls=("more",)))
    np.testing.assert_array_equal(xla_wasm.load(artifact, custom_calls={"more": lambda: answers.pop(0)}).run(X), [-X])
    assert not answers
