"""Kernels by what they compute: what shares one is alike, in every test (`plan.verify.VerifiedCache`)."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import xla_wasm
from xla_wasm.hlo.ir import Module
from xla_wasm.jax import lower
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


def test_products_of_what_is_computed_from_wider_types() -> None:
    """Random bits of 64 bits inside a branch, as dropout has them, make no operand of a product wide."""
    key = jax.random.key_data(jax.random.key(0))

    def f(p: Any, x: Any, w: Any) -> Any:
        def dropped(x: Any) -> Any:
            return x * jax.random.uniform(jax.random.wrap_key_data(key), (8, 16))

        y = jax.lax.cond(p, dropped, lambda x: x, x)
        return y @ w, w.T @ y.T

    x, w = np.ones((8, 16), np.float32), np.ones((16, 8), np.float32)
    exe = xla_wasm.load(xla_wasm.compile(lower(f, np.bool_(True), x, w)))
    for p in (True, False):
        for got, expected in zip(exe.run(np.bool_(p), x, w), jax.jit(f)(p, x, w)):
            np.testing.assert_allclose(got, expected, rtol=1e-5)
