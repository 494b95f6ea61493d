"""Products of sizes on both sides of those at which their kernels take another way, with batches and without, in each
type and for each target: whole numbers, so that every order of the sums gives the same."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

from tests.support import seeds
from tests.support.closeness import equal
from tests.support.differential import TARGETS, differential
from xla_wasm.builder import Builder
from xla_wasm.hlo.attrs import ConvolutionDimensionNumbers, Window, WindowDimension
from xla_wasm.hlo.ir import Module
from xla_wasm.hlo.shape import Shape
from xla_wasm.kernels import Gemm, Tile
from xla_wasm.kernels.tiles import chain_of, packs_panels, takes_quads, unpacks
from xla_wasm.ops.dtypes import Array
from xla_wasm.ops.sample import array
from xla_wasm.plan import product as lowering
from xla_wasm.reference import evaluate
from xla_wasm.target import Target

BLOCK = 32
"""Numbers of 4 bits with one scale."""


def dot(
    m: int, n: int, k: int, left: str = "f32", right: str = "", batch: tuple[int, ...] = (), **options: Any
) -> tuple[Module, list[Array], dict[str, Any]]:
    """A product of [batch.., m, k] and [batch.., k, n], of which `turned` is the number of one that lies the other way;
    `wide` has the right side in this type, which is converted. `format`: that of the right side, a weight."""
    rng, lead, turned = np.random.default_rng(m + n + k), len(batch), options.pop("turned", None)
    wide, sums = options.pop("wide", None), {"s8": "s32", "u8": "s32", "s16": "s32", "bf16": "f32"}.get(left, left)
    b = Builder("m")
    given, operands = [], []
    for i, (dtype, dims) in enumerate(((left, (m, k)), (wide or right or left, (k, n)))):
        made = rng.integers(0 if dtype == "u8" else -2, 3, (*batch, *dims))
        if i and "format" in options:
            made[..., ::BLOCK, :] = -8  # of which the scale of a block is a power of two
        given.append(np.ascontiguousarray(np.swapaxes(made, -1, -2)) if turned == i else made)
        given[i] = array(dtype, given[i])
        operand = b.parameter(i, Shape(dtype, given[i].shape), "xw"[i])
        operands.append(b.convert(operand, left) if i and wide else operand)
    sides = ((lead + (turned != 0),), (lead + (turned == 1),))
    y = b.dot(*operands, sides, (range(lead), range(lead)), element_type=sums)
    if "format" in options:
        options |= {"weights": ("w",), "weight_format": {"w": options.pop("format")}}
    return b.module(y), given, options


def convolution(
    image: tuple[int, ...], window: tuple[int, ...], outputs: int, dtype: str = "f32", dilation: int = 1, **options: Any
) -> tuple[Module, list[Array], dict[str, Any]]:
    """A convolution of [batch, spatial.., features]."""
    rng, rank, groups = np.random.default_rng(prod(image)), len(window), options.pop("groups", 1)
    spatial = tuple(range(1, rank + 1))
    labels = ConvolutionDimensionNumbers(0, rank + 1, spatial, rank, rank + 1, tuple(range(rank)), 0, rank + 1, spatial)
    given = [array(dtype, rng.integers(-2, 3, dims)) for dims in (image, (*window, image[-1] // groups, outputs))]
    b = Builder("m")
    x, y = (b.parameter(i, Shape(dtype, a.shape)) for i, a in enumerate(given))
    attrs: dict[str, Any] = {
        "window": Window(tuple(WindowDimension(size, window_dilation=dilation) for size in window)),
        "dim_labels": labels,
        "feature_group_count": groups,
    }
    shape = Builder("m").op("convolution", x, y, **attrs).shape
    sums = "s32" if dtype in ("s8", "s16") else dtype
    return b.module(b.op("convolution", x, y, shape=shape.with_element_type(sums), **attrs)), given, options


CASES: dict[str, tuple[tuple[Module, list[Array], dict[str, Any]], str]] = {
    "a part of k before a span": (dot(300, 192, 1100, weights=("w",)), "part -span"),
    "the same of pixels": (convolution((1, 15, 20, 1100), (1, 1), 192, weights=(1,)), "part -span"),
    "the same of pixels of two images": (convolution((2, 10, 15, 1100), (1, 1), 192, weights=(1,)), "part -span"),
    "parts in each batch": (dot(260, 20, 1100, batch=(2,)), "part batches"),
    "parts in two batch dimensions, of bf16": (dot(259, 9, 1028, "bf16", batch=(1, 2)), "part batches"),
    "rows too few for parts": (dot(256, 20, 1100, batch=(2,)), "chain batches -part"),
    "sums too short for parts": (dot(260, 20, 1024, batch=(2,)), "batches -chain -part"),
    "no parts of a length": (dot(260, 20, 1031, batch=(2,)), "chain batches -part"),
    "no parts of one column": (dot(300, 1, 1100, batch=(2,)), "chain batches -part"),
    "no parts of two columns": (dot(300, 2, 1100, batch=(2,)), "chain batches -part"),
    "no parts of f16 weights": (dot(300, 24, 1100, format="f16"), "chain packs -part"),
    "no parts of weights in blocks": (dot(300, 24, 1056, format="int4"), "chain unpacks -part"),
    "nor in batches": (dot(33, 24, 1056, batch=(2,), format="int4"), "chain unpacks batches -part"),
    "no parts of rows that share the right side": (convolution((2, 302, 400), (3,), 8), "chain batches -part"),
    "spans": (dot(64, 128, 24, turned=1, weights=("w",)), "span"),
    "no spans in batches": (dot(64, 128, 24, turned=1, batch=(3,), weights=("w",)), "batches -span"),
    "nor of groups": (convolution((1, 1, 66, 16), (1, 3), 256, groups=2), "batches -span"),
    "groups enough without spans": (dot(1100, 544, 3), "-span"),
    "spans of bytes": (dot(64, 256, 64, "s8"), "span quads packs"),
    "of bytes in batches": (dot(33, 128, 64, "u8", "s8", batch=(2,)), "quads batches -span"),
    "a column of f64": (dot(37, 1, 40, "f64", batch=(2,)), "in-place batches"),
    "packed from f64 along k": (dot(9, 24, 40, batch=(2,), wide="f64", turned=1), "batches"),
    "packed from f64 along n": (dot(9, 21, 40, batch=(2,), wide="f64"), "batches"),
    "bytes with runs too short": (convolution((2, 12, 20, 22), (1, 3), 24, "s8", dilation=2), "batches -quads"),
    "bytes with runs just long enough": (convolution((2, 12, 20, 32), (1, 3), 24, "s8", dilation=2), "quads batches"),
    "bytes of seven rows": (dot(7, 24, 64, "s8", batch=(2,)), "batches -quads"),
    "bytes from beyond the caches": (dot(1, 600, 640, "s8", "u8"), "stripes -quads"),
    "the same in batches": (dot(1, 600, 640, "s8", batch=(2,)), "stripes batches -quads"),
    "of more rows": (dot(9, 600, 640, "s8", batch=(2,)), "quads batches -stripes"),
    "two streams": (dot(3, 24, 3001, batch=(2,)), "streams batches chain"),
    "stripes in batches": (dot(1, 200, 600, batch=(3,), weights=("w",)), "stripes batches"),
    "stripes of two rows": (dot(2, 264, 600, batch=(2,), turned=1, weights=("w",)), "stripes batches"),
    "read in place by few": (dot(9, 104, 800, batch=(2,)), "in-place streams batches"),
    "read in place by as many as do": (dot(128, 32, 20, batch=(2,)), "in-place batches"),
    "read in place by one more": (dot(129, 32, 20, batch=(2,)), "batches -in-place"),
    "six rows in place": (dot(6, 32, 40, batch=(2,)), "in-place batches -lines"),
    "seven rows in place": (dot(7, 32, 40, batch=(2,)), "in-place lines batches"),
    "two over in place": (dot(14, 32, 40, batch=(2,)), "in-place lines batches"),
    "three over in place": (dot(15, 32, 40, batch=(2,)), "in-place batches -lines"),
    "the most rows in lines": (dot(32, 32, 40, batch=(2,)), "in-place lines batches"),
    "more rows": (dot(37, 32, 40, batch=(2,)), "in-place batches -lines"),
    "half a line in place": (dot(7, 40, 40, batch=(2,)), "batches -lines"),
    "lines of f64": (dot(8, 24, 40, "f64", batch=(3,)), "in-place lines batches"),
    "no lines of integers": (dot(8, 32, 40, "s32", batch=(2,)), "in-place batches -lines"),
    "rows a page apart": (dot(9, 1024, 258, batch=(2,)), "in-place ahead batches -lines"),
    "less than a page apart": (dot(8, 1008, 258, batch=(2,)), "in-place lines batches -ahead"),
    "rows of f64 a page apart": (dot(7, 512, 260, "f64"), "in-place ahead -lines"),
    "a tile of rows": (dot(2, 1024, 258), "in-place -ahead"),
    "rows of f64 less than a page apart": (dot(7, 504, 260, "f64"), "in-place lines -ahead"),
    "as large as the caches": (dot(12, 128, 512), "in-place -ahead"),
    "larger than these": (dot(12, 128, 516), "in-place ahead"),
    "half a line": (dot(12, 136, 516), "-ahead"),
    "columns": (dot(9, 21, 40, batch=(2,), turned=1), "in-place ahead batches"),
    "columns of a row": (dot(1, 24, 8, batch=(2,), turned=1), "in-place ahead batches"),
    "columns of f64": (dot(9, 21, 41, "f64", batch=(2,), turned=1), "in-place ahead batches"),
    "columns of integers": (dot(9, 21, 41, "s32", batch=(2,), turned=1), "in-place ahead batches"),
    "columns for as many rows as stay near": (dot(512, 24, 1024, turned=1), "in-place ahead"),
    "columns for more": (dot(513, 24, 1024, turned=1), "-in-place -ahead"),
    "bf16 side by side in batches": (dot(5, 24, 37, "bf16", batch=(3,)), "batches"),
    "bf16 in rows": (dot(9, 2, 70, "bf16", batch=(3,)), "batches -packs"),
    "bf16 that is converted along k": (dot(9, 24, 70, wide="bf16", batch=(3,), turned=1), "packs batches"),
}  # fmt: skip
"""The program of each, and the ways that its product takes together for some target; those with a minus for none."""


def ways(g: Gemm, tile: Tile, target: Target) -> set[str]:
    """The ways that a product takes."""
    taken = {
        "part": tile.part,
        "ahead": tile.ahead,
        "lines": tile.first,
        "chain": chain_of(g) and not tile.part,
        "packs": packs_panels(g, tile) and not g.k_stride,
        "unpacks": unpacks(g),
        "streams": tile.streams > 1,
        "stripes": tile.stripes > 1,
        "in-place": g.k_stride,
        "quads": takes_quads(g, tile, target),
        "span": tile.span,
        "batches": g.outer,
    }
    return {name for name, is_taken in taken.items() if is_taken}


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """The ways of the products that are lowered."""
    found: list[set[str]] = []
    write = lowering.gemm_kernel

    def spied(b: Any, g: Gemm, tile: Tile, *rest: Any) -> None:
        found.append(ways(g, tile, b.target))
        write(b, g, tile, *rest)

    monkeypatch.setattr(lowering, "gemm_kernel", spied)
    return found


@pytest.mark.parametrize("case", CASES)
def test_bounds(case: str, taken: list[set[str]]) -> None:
    (module, given, options), wanted = CASES[case]
    expected = [np.asarray(a) for a in evaluate(module, *given)]
    ways = list(TARGETS) if seeds.exhaustive else [list(TARGETS)[list(CASES).index(case) % len(TARGETS)]]
    differential(module, *given, targets=ways, expected=expected, near=equal, **options)
    differential(
        module, *given, targets=["relaxed-simd for v8"], expected=expected, near=equal, threads=True, **options
    )
    absent = {word[1:] for word in wanted.split() if word[0] == "-"}
    assert any({word for word in wanted.split() if word[0] != "-"} <= found for found in taken), taken
    assert not any(absent & found for found in taken), taken
