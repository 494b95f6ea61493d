"""Running sums: as near as sums in f64 that are rounded at the end, however they are walked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xla_wasm
from tests.support import seeds
from xla_wasm import Options
from xla_wasm.builder import Builder
from xla_wasm.hlo.attrs import Window, WindowDimension
from xla_wasm.hlo.ir import Module
from xla_wasm.ops.dtypes import DTYPES
from xla_wasm.ops.sample import reducer, shape
from xla_wasm.ops.window import lower_cumulative as cumulative
from xla_wasm.reference import evaluate


def values(rng: np.random.Generator, sizes: list[int]) -> np.ndarray[Any, Any]:
    """Numbers that cancel, of all magnitudes, zeros of one sign, and now and then what is not finite."""
    kind = int(rng.integers(0, 5))
    if kind == 0:
        return np.full(sizes, -0.0)
    if kind == 1:
        return rng.normal(size=sizes) * 10.0 ** rng.integers(-6, 7, sizes)
    if kind == 2:
        return rng.choice([1e8, -1e8, 1.0, 0.5], sizes)
    made = np.asarray(rng.normal(size=sizes))
    if kind == 3 and made.size:
        made.flat[rng.integers(0, made.size)] = rng.choice([np.inf, -np.inf, np.nan])
    return made


def program(rng: np.random.Generator) -> tuple[Module, list[np.ndarray[Any, Any]], Options]:
    rank = int(rng.integers(1, 4))
    dims = [int(rng.integers(0, (300, 60, 20)[rank - 1])) if rng.integers(0, 4) else 1 for _ in range(rank)]
    d = int(rng.integers(0, rank))
    dims[d] = int(rng.choice([*range(1, 34), 64, 100]))
    element_type = str(rng.choice(["f32", "f32", "f32", "f32", "f64", "bf16", "c64", "s32"]))
    b = Builder("running")
    x = b.parameter(0, shape(f"{element_type}[{','.join(map(str, dims))}]"))
    init = b.parameter(1, shape(element_type))
    value = x
    way = int(rng.integers(0, 5))
    if way == 0:
        value = b.op("reverse", x, dimensions=(d,))
    elif way == 1 and len(set(dims)) == 1:
        value = b.op("transpose", x, dimensions=tuple(rng.permutation(rank).tolist()))
    elif way == 2:
        value = b.op("add", x, b.op("reverse", x, dimensions=(int(rng.integers(0, rank)),)))
    size = max(dims[d], 1) + int(rng.integers(0, 3))
    pads = (size - 1, 0) if rng.integers(0, 2) else (0, size - 1)
    window = Window(tuple(WindowDimension(size, 1, *pads) if i == d else WindowDimension(1, 1) for i in range(rank)))
    sums = b.op("reduce-window", value, init, called=[reducer("add", element_type)()], window=window)
    after = b.op("add", sums, x) if element_type != "c64" and rng.integers(0, 2) else sums
    arrays = []
    for sizes in (dims, []):
        data = values(rng, sizes) if element_type not in ("s32",) else rng.integers(-99, 99, sizes)
        arrays.append(
            np.asarray(data + (1j * values(rng, sizes) if element_type == "c64" else 0)).astype(DTYPES[element_type])
        )
    if rng.integers(0, 2):
        arrays[1] = np.array(rng.choice([0.0, -0.0])).astype(DTYPES[element_type])
    return b.module(b.op("tuple", sums, after)), arrays, Options(target=str(rng.choice(["simd128", "relaxed-simd"])))


def near(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any], scale: float, text: str) -> None:
    """Within a rounding of each number, and of the last places of f64 of all that was added."""
    if want.dtype.kind == "c":
        near(got.real, want.real, scale, text)
        near(got.imag, want.imag, scale, text)
        return
    eps = (
        float(np.finfo(np.float32).eps)
        if want.dtype.itemsize == 4
        else 2.0**-52
        if want.dtype.itemsize == 8
        else 2.0**-7
    )
    x, y = got.astype(np.float64), want.astype(np.float64)
    # Numbers whose sum is beyond the type's are those of f64 on the way.
    special = ~np.isfinite(y)
    np.testing.assert_array_equal(x[special], y[special], text)
    zero = (x == 0) & (y == 0)
    np.testing.assert_array_equal(np.signbit(x[zero]), np.signbit(y[zero]), text)
    np.testing.assert_array_less(np.abs(x - y)[~special], (eps * np.abs(y) + 2.0**-46 * scale + 1e-45)[~special], text)


@pytest.mark.parametrize("seed", range(seeds.count(2, 8)))
def test_as_near_as_sums_in_f64(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    monkeypatch.setenv("XLA_WASM_VERIFY", "1")
    calls: list[int] = []
    prefixes = cumulative._prefixes

    def spied(*args: Any) -> None:
        calls.append(1)
        prefixes(*args)

    monkeypatch.setattr(cumulative, "_prefixes", spied)
    for _ in range(60):
        with np.errstate(all="ignore"):
            module, arrays, options = program(rng)
        with np.errstate(all="ignore"):
            results = xla_wasm.load(xla_wasm.compile(module, options)).run(*arrays)
            wanted = [np.asarray(a) for a in evaluate(module, *arrays)]
            scale = float(
                np.sum(np.abs(arrays[0], where=np.isfinite(arrays[0]), out=np.zeros(arrays[0].shape)))
            ) + float(np.abs(arrays[1]))
        if wanted[0].dtype.kind == "i":
            assert all(np.array_equal(got, want) for got, want in zip(results, wanted, strict=True)), module.to_text()
            continue
        if not np.isfinite(scale) or wanted[0].dtype.itemsize == 2:
            scale = (1 + (scale if np.isfinite(scale) else 0)) * (2.0**34 if wanted[0].dtype.itemsize == 2 else 1e3)
        for got, want in zip(results, wanted, strict=True):
            with np.errstate(all="ignore"):
                near(np.asarray(got), want, scale, module.to_text())
    assert len(calls) > 8, "the programs have to show what they are for"
