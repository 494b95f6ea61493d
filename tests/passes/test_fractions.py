"""log(1 + x) of x from 0 to 1: where it is known, that it is exact enough, and that an element has one value wherever
it is computed."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.closeness import allclose
from tests.support.differential import differential, run
from xla_wasm.hlo.ir import Module
from xla_wasm.passes import pipeline
from xla_wasm.reference import evaluate

SOFTPLUS = """HloModule softplus

ENTRY main {{
  x = {0}[{1}] parameter(0)
  a = {0}[{1}] abs(x)
  n = {0}[{1}] negate(a)
  e = {0}[{1}] exponential({2})
  l = {0}[{1}] log-plus-one({3})
  ROOT r = ({0}[{1}], {0}[{1}]) tuple(l, e)
}}
"""


@pytest.mark.parametrize(
    ("dtype", "power", "operand", "known"),
    [("f32", "n", "e", True), ("f32", "a", "e", False), ("f32", "n", "n", False), ("f64", "n", "e", False)],
)
def test_where_it_is_known(dtype: str, power: str, operand: str, known: bool) -> None:
    module = Module.from_text(SOFTPLUS.format(dtype, 9, power, operand))
    for rewrite in pipeline.PASSES:
        if rewrite.__name__ == "mark_fractions":
            rewrite(module)
    assert any(x.marks.fraction for x in module.entry.instructions) is known


@pytest.mark.parametrize("target", ["simd128", "relaxed-simd"])
def test_it_is_exact(target: str) -> None:
    """Against the logarithm of the exponential as the module itself gives it; of every magnitude, with an end that
    fills no vector."""
    rng = np.random.default_rng(0)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3e38, 87.3, 87.4, 103.9, 104.0, 1e-8]
    x = np.concatenate(
        [special, rng.normal(0, 10, 40_000), np.exp(rng.normal(-8, 5, 10_000)), rng.uniform(-0.8, 0.8, 10_000)]
    ).astype(np.float32)
    module = Module.from_text(SOFTPLUS.format("f32", len(x), "n", "e"))
    found, e = run(module, x, target=target)
    true = np.log1p(e.astype(np.float64))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(x))
    assert not np.signbit(found[~np.isnan(x)]).any()
    off = np.abs(found - true) / np.spacing(np.maximum(true, 2.0**-126).astype(np.float32))
    assert np.nanmax(off) <= 1.7
    np.testing.assert_allclose(found, evaluate(module, x)[0], rtol=4e-7, atol=2e-38)


def test_others_keep_their_range() -> None:
    """A kernel of the same loops over a value from outside is another kernel: its values may be anything."""
    text = """HloModule two

ENTRY main {
  x = f32[64,64] parameter(0)
  y = f32[64,64] parameter(1)
  a = f32[64,64] abs(x)
  n = f32[64,64] negate(a)
  e = f32[64,64] exponential(n)
  d = f32[64,64] dot(e, e), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  l = f32[64,64] log-plus-one(e)
  m = f32[64,64] log-plus-one(y)
  p = f32[64,64] dot(l, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = (f32[64,64], f32[64,64], f32[64,64], f32[64,64]) tuple(d, l, m, p)
}
"""
    rng = np.random.default_rng(1)
    x, y = rng.normal(0, 3, (64, 64)).astype(np.float32), np.exp(rng.normal(0, 20, (64, 64))).astype(np.float32)
    differential(text, x, y, near=allclose(1e-5))
