"""Values that lie across the loops of a kernel are read in tiles: the same bits as element by element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support import seeds
from tests.support.differential import TUNED, differential, run_with_state
from xla_wasm.builder import Builder
from xla_wasm.hlo.attrs import SliceDimension
from xla_wasm.hlo.ir import Module
from xla_wasm.loop.tiling import Tile
from xla_wasm.ops.dtypes import DTYPES
from xla_wasm.ops.sample import shape
from xla_wasm.plan import elements
from xla_wasm.reference import evaluate

TYPES = ("f32", "f32", "f64", "bf16", "f16", "s32", "s8", "u16", "s64", "pred", "c64", "f8e4m3fn")


def program(rng: np.random.Generator) -> tuple[Module, list[np.ndarray[Any, Any]], dict[str, Any]]:
    """An expression of values that are read as they lie, transposed, reversed and in parts, perhaps in the place of an
    argument."""
    rank = int(rng.integers(2, 5))
    greatest = (70, 20, 9)[rank - 2]
    square = rng.integers(0, 3) > 0
    n = int(rng.choice([*range(1, 34), 64, 66])) if rank == 2 else int(rng.integers(1, greatest + 1))
    dims = [n] * rank if square else [int(rng.integers(1, greatest + 1)) for _ in range(rank)]
    element_type = str(rng.choice(TYPES))
    b = Builder("tiles")
    arguments: list[np.ndarray[Any, Any]] = []

    def parameter(sizes: list[int]) -> Any:
        data = rng.integers(-90, 90, sizes) if element_type != "pred" else rng.integers(0, 2, sizes)
        array = np.asarray(data).astype(DTYPES[element_type])
        if element_type in ("f32", "f64") and array.size and rng.integers(0, 3) == 0:
            array.flat[0], array.flat[-1] = np.nan, -0.0
        arguments.append(array)
        return b.parameter(len(arguments) - 1, shape(f"{element_type}[{','.join(map(str, sizes))}]"))

    first = parameter(dims)
    shared = [first]

    def seen() -> Any:
        """A value with the dimensions of the result, from what lies in memory in some order, direction or part."""
        order = rng.permutation(rank).tolist()
        fits = [v for v in shared if [v.shape.dimensions[d] for d in order] == dims]
        way = int(rng.integers(0, 4))
        if fits and way:
            value = fits[int(rng.integers(0, len(fits)))]
            if way == 1:
                value = b.op("reverse", value, dimensions=(int(rng.integers(0, rank)),))
        else:
            sizes = [0] * rank
            for place, d in enumerate(order):
                sizes[d] = dims[place]
            starts = rng.integers(0, 3, rank).tolist()
            steps = rng.choice([1, 1, 1, 2], rank).tolist()
            value = parameter([s + (size - 1) * step + 1 for s, size, step in zip(starts, sizes, steps)])
            cut = tuple(
                SliceDimension(s, s + (size - 1) * step + 1, step) for s, size, step in zip(starts, sizes, steps)
            )
            value = b.op("slice", value, slice=cut)
            if rng.integers(0, 2):
                shared.append(value)
        return b.op("transpose", value, dimensions=tuple(order))

    both = {"pred": "xor"}.get(element_type, "add")
    out = seen()
    for _ in range(int(rng.integers(0, 3))):
        out = b.op(
            both, out, seen() if rng.integers(0, 3) else first if list(first.shape.dimensions) == dims else seen()
        )
    if rng.integers(0, 4) == 0:
        turned = rng.permutation(rank).tolist()
        out = b.op("transpose", out, dimensions=tuple(turned))
    leaves = [out]
    if rng.integers(0, 3) == 0:
        leaves.append(b.op(both, seen(), seen()))
    if rng.integers(0, 4) == 0:
        leaves.append(b.op("concatenate", seen(), seen(), dimensions=(int(rng.integers(0, rank)),)))
    options: dict[str, Any] = {"target": str(rng.choice(["simd128", "relaxed-simd"]))}
    if out.shape.dimensions == first.shape.dimensions and rng.integers(0, 2):
        options["state"] = ((0, 0),)
    return b.module(b.op("tuple", *leaves)), arguments, options


@pytest.mark.parametrize("seed", range(seeds.count(2, 8)))
def test_the_same_bits_as_element_by_element(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    monkeypatch.setenv("XLA_WASM_VERIFY", "1")
    turned = 0
    original = Tile.load
    for _ in range(60):
        module, arrays, options = program(rng)
        counts: list[bool] = []

        def counted(self: Tile, *args: Any, counts: list[bool] = counts) -> Any:
            value = original(self, *args)
            counts.append(value is not None)
            return value

        with monkeypatch.context() as patch, np.errstate(all="ignore"):
            patch.setattr(Tile, "load", counted)
            made = run_with_state(module, arrays, options)
            others = tuple(s for s in elements.STRATEGIES if s is not elements.in_tiles)
            patch.setattr(elements, "STRATEGIES", others)
            assert made == run_with_state(module, arrays, options), module.to_text()
        turned += any(counts)
        if "state" not in options:
            wanted = [np.asarray(a) for a in evaluate(module, *arrays)]
            for data, want in zip(made, wanted, strict=True):
                got = np.frombuffer(data, want.dtype).reshape(want.shape)
                same = (got == want) | ((got != got) & (want != want))
                assert same.all(), module.to_text()
    assert turned > 8, "the programs have to show what they are for"


BESIDE = {
    "places known at run time": """
  b = f32[50,60] parameter(1)
  v = s32[] parameter(2)
  s = f32[33,40] dynamic-slice(b, v, v), dynamic_slice_sizes={33,40}
  t = f32[40,33] transpose(s), dimensions={1,0}""",
    "parts of complex numbers": """
  b = c64[33,40] parameter(1)
  v = s32[] parameter(2)
  s = f32[33,40] imag(b)
  t = f32[40,33] transpose(s), dimensions={1,0}""",
}


@pytest.mark.parametrize("what", BESIDE)
def test_what_lies_across_beside_a_tile(what: str) -> None:
    """Such values are read one by one in tiles that others make."""
    text = f"""HloModule m
ENTRY main {{
  a = f32[33,40] parameter(0)
  u = f32[40,33] transpose(a), dimensions={{1,0}}{BESIDE[what]}
  ROOT r = f32[40,33] add(u, t)
}}"""
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((33, 40)).astype(np.float32), rng.standard_normal((50, 60)).astype(np.float32)
    if what == "parts of complex numbers":
        b = (b[:33, :40] + 1j * b[17:, 20:]).astype(np.complex64)
    differential(text, a, b, np.int32(7), targets=TUNED)
