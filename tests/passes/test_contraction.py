"""A product that is added with one rounding: where, and that an element has the same value wherever it is computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xla_wasm
from tests.support import seeds
from tests.support.closeness import equal
from tests.support.differential import BOTH, differential
from xla_wasm import Options
from xla_wasm.hlo.ir import Module
from xla_wasm.passes import pipeline
from xla_wasm.wasm.disasm import disassemble

CASES = {
    "ROOT r = f32[9] add(m, z)": True,
    "ROOT r = f32[9] add(z, m)": True,
    "ROOT r = f32[9] subtract(m, z)": False,
    "ROOT r = f32[9] subtract(z, m)": False,
    "ROOT r = f32[9] add(m, m)": False,
    "n = f32[9] multiply(y, z)\n  ROOT r = f32[9] add(m, n)": False,
    "n = f32[9] multiply(y, z)\n  o = f32[9] negate(n)\n  p = f32[9] reverse(o), dimensions={0}\n  ROOT r = f32[9] "
    "add(m, p)": False,
    "a = f32[9] add(m, z)\n  ROOT r = (f32[9], f32[9]) tuple(a, m)": False,
    "a = f32[9] add(m, z)\n  b = f32[9] negate(m)\n  ROOT r = f32[9] add(a, b)": False,
}


def module(body: str) -> Module:
    return Module.from_text(
        f"HloModule m\n\nENTRY main {{\n  x = f32[9] parameter(0)\n  y = f32[9] parameter(1)\n  z = f32[9] "
        f"parameter(2)\n"
        f"  m = f32[9] multiply(x, y)\n  {body}\n}}\n"
    )


@pytest.mark.parametrize("body", CASES)
def test_where_products_are_added_with_one_rounding(body: str) -> None:
    fused = "relaxed_madd" in disassemble(xla_wasm.compile(module(body), Options(target="relaxed-simd")).wasm)
    assert fused is CASES[body]


@pytest.mark.parametrize("body", CASES)
def test_simd128_does_not_know_of_it(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with_notes = xla_wasm.compile(module(body)).wasm
    monkeypatch.setattr(pipeline, "PASSES", tuple(p for p in pipeline.PASSES if p.__name__ != "contract"))
    assert with_notes == xla_wasm.compile(module(body)).wasm


def program(rng: np.random.Generator) -> tuple[str, list[tuple[int, ...]], tuple[int, ...]]:
    """Sums with products that several kernels compute anew: a part of a row, all of it, and the place of its greatest
    element."""
    rank = int(rng.integers(1, 4))
    dims = tuple(int(rng.integers(1, (80, 40, 12)[rank - 1])) for _ in range(rank))
    dtype = str(rng.choice(["f32", "f32", "f64"]))
    reduced = tuple(sorted(rng.choice(rank, int(rng.integers(1, rank + 1)), replace=False).tolist()))
    kept = [d for d in range(rank) if d not in reduced]
    whole, rest = ",".join(map(str, dims)), ",".join(str(dims[d]) for d in kept)
    turned = rng.permutation(rank).tolist()
    other = ",".join(str(dims[d]) for d in turned)
    scaled = rng.integers(0, 2)
    text = f"""HloModule sums

max {{ a = T[] parameter(0)
  b = T[] parameter(1)
  ROOT c = T[] maximum(a, b) }}
either {{ a = pred[] parameter(0)
  b = pred[] parameter(1)
  ROOT c = pred[] or(a, b) }}

ENTRY main {{
  x = T[{whole}] parameter(0)
  y = T[{"" if scaled else whole}] parameter(1)
  z = T[{whole}] parameter(2)
  w = T[{whole}] {"broadcast(y), dimensions={}" if scaled else "reverse(y), dimensions={0}"}
  m = T[{whole}] multiply(x, w)
  s = T[{whole}] add({"m, z" if rng.integers(0, 2) else "z, m"})
  low = T[] constant(-inf)
  no = pred[] constant(false)
  g = T[{rest}] reduce(s, low), dimensions={{{",".join(map(str, reduced))}}}, to_apply=max
  wide = T[{whole}] broadcast(g), dimensions={{{",".join(map(str, kept))}}}
  e = pred[{whole}] compare(s, wide), direction=EQ
  found = pred[{rest}] reduce(e, no), dimensions={{{",".join(map(str, reduced))}}}, to_apply=either
  t = T[{other}] transpose(s), dimensions={{{",".join(map(str, turned))}}}
  ROOT r = (pred[{rest}], T[{whole}], T[{other}], T[{rest}]) tuple(found, s, t, g)
}}
""".replace("T[", f"{dtype}[")
    return text, [dims, () if scaled else dims, dims], tuple(turned)


@pytest.mark.parametrize("seed", range(seeds.count(2, 6)))
def test_an_element_has_one_value(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    monkeypatch.setenv("XLA_WASM_VERIFY", "1")
    ways: set[bool] = set()
    for _ in range(40):
        text, sizes, turned = program(rng)
        dtype = np.float64 if "f64[" in text else np.float32
        arrays: list[Any] = [np.asarray(rng.normal(size=size)).astype(dtype) for size in sizes]
        w = arrays[1] if not sizes[1] else arrays[1][::-1]
        product = arrays[0] * w
        if rng.integers(0, 2):
            arrays[2] = -product  # the sum is what the product's rounding lost
        exe = xla_wasm.load(xla_wasm.compile(Module.from_text(text), Options(target="relaxed-simd")))
        found, s, t, g = exe.run(*arrays)
        assert np.all(found), text
        np.testing.assert_array_equal(np.transpose(s, turned), t, text)
        twice = product + arrays[2]
        if dtype is np.float32:
            once = (arrays[0].astype(np.float64) * w.astype(np.float64) + arrays[2].astype(np.float64)).astype(
                np.float32
            )
            both = once != twice
            ways |= {bool(way) for way in np.unique((s == once)[both])}
        np.testing.assert_allclose(s, twice, rtol=1e-5, atol=1e-5)
        assert np.all(np.isin(np.ravel(g), np.ravel(s))), text
    assert len(ways) == 1, "either all are rounded once, or all twice"


def test_what_cancels_exactly_still_does() -> None:
    """A complex number times its conjugate has no imaginary part, as NumPy has it."""
    text = """HloModule m

ENTRY main {
  x = c64[300] parameter(0)
  re = f32[300] real(x)
  im = f32[300] imag(x)
  minus = f32[300] negate(im)
  y = c64[300] complex(re, minus)
  z = c64[300] multiply(x, y)
  ROOT r = f32[300] imag(z)
}
"""
    rng = np.random.default_rng(1)
    x = (rng.normal(size=300) + 1j * rng.normal(size=300)).astype(np.complex64)
    differential(text, x, targets=BOTH, expected=[0], near=equal)
