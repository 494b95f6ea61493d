"""Greater and lesser of numbers, of which one may be a constant: NaN and the signs of zeros as the specification has
them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xla_wasm
from tests.support import seeds
from tests.support.differential import run
from xla_wasm.hlo.ir import Module
from xla_wasm.ops.dtypes import DTYPES
from xla_wasm.reference import evaluate
from xla_wasm.wasm.disasm import disassemble

SPECIAL = (np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 6.0, 1e-42, -1e-42, 3e38)


def program(rng: np.random.Generator) -> tuple[str, str]:
    """A chain of them on one array, with constants that are written as floats, or as integers that are converted."""
    dtype = str(rng.choice(["f32", "f32", "f64", "f16", "bf16"]))
    size = int(rng.integers(1, 40))
    lines = []
    value = "x"
    for i in range(int(rng.integers(1, 4))):
        number = str(rng.choice(["nan", "inf", "-inf", "0", "-0", "1", "-1", "6", "0.5", "1e-42"]))
        if number in ("0", "1", "-1", "6") and rng.integers(0, 2):
            lines += [f"i{i} = s32[] constant({number})", f"c{i} = T[] convert(i{i})"]
        else:
            lines += [f"c{i} = T[] constant({number})"]
        lines += [f"w{i} = T[{size}] broadcast(c{i}), dimensions={{}}"]
        other = "y" if rng.integers(0, 4) == 0 else f"w{i}"
        operands = f"{value}, {other}" if rng.integers(0, 2) else f"{other}, {value}"
        lines += [f"v{i} = T[{size}] {rng.choice(['maximum', 'minimum'])}({operands})"]
        if rng.integers(0, 3) == 0:
            lines[-1] = (
                f"v{i} = T[{size}] clamp(c{i}, {value}, y)"
                if rng.integers(0, 2)
                else f"v{i} = T[{size}] clamp(y, {value}, c{i})"
            )
            lines[-1] = lines[-1].replace(f"c{i}", f"w{i}")
        value = f"v{i}"
    text = "\n  ".join(
        [f"x = T[{size}] parameter(0)", f"y = T[{size}] parameter(1)", *lines, f"ROOT r = T[{size}] copy({value})"]
    )
    return f"HloModule limits\n\nENTRY main {{\n  {text}\n}}\n".replace("T[", f"{dtype}["), dtype


@pytest.mark.parametrize("seed", range(seeds.count(1, 4)))
def test_the_same_as_the_evaluator(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    monkeypatch.setenv("XLA_WASM_VERIFY", "1")
    for _ in range(80):
        text, dtype = program(rng)
        module = Module.from_text(text)
        with np.errstate(all="ignore"):
            arrays: list[Any] = [
                rng.choice(SPECIAL, p.shape.dimensions).astype(DTYPES[dtype]) for p in module.entry.parameters
            ]
            (want,) = (np.asarray(a) for a in evaluate(module, *arrays))
        (got,) = run(module, *arrays, target=str(rng.choice(["simd128", "relaxed-simd"])))
        x, y = np.asarray(got).astype(np.float64), want.astype(np.float64)
        np.testing.assert_array_equal(x, y, text)
        np.testing.assert_array_equal(np.signbit(x)[y == 0], np.signbit(y)[y == 0], text)


def test_a_clip_is_one_instruction_for_each_limit() -> None:
    text = """HloModule clip

ENTRY main {
  x = f32[64] parameter(0)
  zero = s32[] constant(0)
  low = f32[] convert(zero)
  lows = f32[64] broadcast(low), dimensions={}
  high = f32[] constant(6)
  highs = f32[64] broadcast(high), dimensions={}
  above = f32[64] maximum(lows, x)
  ROOT r = f32[64] minimum(highs, above)
}
"""
    code = disassemble(xla_wasm.compile(Module.from_text(text)).wasm)
    assert "f32x4.pmax" in code and "f32x4.pmin" in code
    assert "f32x4.max" not in code and "f32x4.min" not in code
