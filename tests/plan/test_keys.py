"""Kernels by what they compute: what shares one is alike, in every test (`plan.verify.VerifiedCache`)."""

from __future__ import annotations

from typing import Any

import pytest

import xla_wasm
from xla_wasm.hlo.ir import Module
from xla_wasm.loop.verify import KernelError
from xla_wasm.plan import kernel

TWICE = """HloModule m
ENTRY e {
  x = f32[8] parameter(0)
  y = f32[8] parameter(1)
  a = f32[8] add(x, x)
  b = f32[8] subtract(y, y)
  ROOT t = (f32[8], f32[8]) tuple(a, b)
}
"""


def test_a_key_that_lacks_something(monkeypatch: pytest.MonkeyPatch) -> None:
    own_key = kernel._own_key

    def lacking(x: Any, cache: Any) -> Any:
        return own_key(x, cache)[1:]

    xla_wasm.compile(Module.from_text(TWICE))
    monkeypatch.setattr(kernel, "_own_key", lacking)
    with pytest.raises(KernelError, match=r"kernel of add 'a' is that of subtract 'b', too, whose code differs"):
        xla_wasm.compile(Module.from_text(TWICE))


def test_lanes_go_by_what_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by what an array is computed from: a conditional with 64 bits inside gives one of 32."""
    text = """HloModule m
wide {
  x = s32[8] parameter(0)
  w = s64[8] convert(x)
  v = s64[8] multiply(w, w)
  ROOT r = s32[8] convert(v)
}
same {
  ROOT x = s32[8] parameter(0)
}
ENTRY e {
  p = pred[] parameter(0)
  x = s32[8] parameter(1)
  c = s32[8] conditional(p, x, x), true_computation=wide, false_computation=same
  a = s32[8] negate(x)
  b = s32[8] negate(c)
  ROOT t = (s32[8], s32[8]) tuple(a, b)
}
"""
    monkeypatch.setenv("XLA_WASM_VERIFY", "1")
    plan = xla_wasm.compiler.trace(Module.from_text(text), xla_wasm.Options()).plan
    assert sum(name.startswith("negate") for name in plan.funcs) == 1
