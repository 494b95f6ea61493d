"""Random products with batch dimensions, of sizes on both sides of those at which a product takes another path."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from tests.support.differential import TARGETS, differential
from xla_wasm.builder import Builder
from xla_wasm.hlo.attrs import DotDimensionNumbers
from xla_wasm.hlo.ir import Instruction, Module
from xla_wasm.hlo.shape import Shape
from xla_wasm.ops.dtypes import Array
from xla_wasm.ops.sample import array

TYPES = ("f32", "f32", "f32", "bf16", "f16", "s8", "s8", "u8", "s16", "s32", "f64", "pred")
LEFT, RIGHT, DEPTHS = (
    (1, 1, 2, 3, 5, 8, 17, 33, 65),
    (1, 1, 3, 4, 7, 16, 17, 31, 64, 130),
    (1, 2, 7, 16, 33, 64, 130, 600),
)
MOST = 400_000
"""Multiplications of a product at most."""


def random_product(seed: int) -> tuple[Module, list[Array]]:
    """A dot of two arrays whose dimensions lie in any order, either as it is given or computed on the way, and its
    arguments: integers so small that every order of the sums gives the same."""
    rng = np.random.default_rng(seed)
    dtypes = [str(rng.choice(TYPES))] * 2
    element = {"s8": "s32", "u8": "s32", "s16": "s32", "bf16": str(rng.choice(["bf16", "f32"]))}.get(
        dtypes[0], dtypes[0]
    )
    if dtypes[0] in ("s8", "u8") and rng.random() < 0.5:
        dtypes[1] = str(rng.choice(["s8", "u8"]))
    batch = [int(rng.choice([2, 3, 5, 8])) for _ in range(rng.integers(1, 3))]
    while True:
        m, n, k = int(rng.choice(LEFT)), int(rng.choice(RIGHT)), int(rng.choice(DEPTHS))
        if prod(batch) * m * n * k <= MOST:
            break
    b = Builder("product")
    arguments, operands, batch_dims, depths = [], [], [], []
    for number, (dtype, size) in enumerate(zip(dtypes, (m, n))):
        sizes = [*batch, size, k]
        order = [int(d) for d in rng.permutation(len(sizes))] if rng.random() < 0.5 else [*range(len(sizes))]
        dims = tuple(sizes[d] for d in order)
        made = rng.integers(0 if dtype[0] in "up" else -2, 3, dims)
        arguments.append(made % 2 == 0 if dtype == "pred" else array(dtype, made))
        x = b.parameter(number, Shape(dtype, dims))
        operands.append(_seen(rng, b, x, element))
        batch_dims.append(tuple(order.index(d) for d in range(len(batch))))
        depths.append((order.index(len(batch) + 1),))
    numbers = DotDimensionNumbers(*depths, *batch_dims)
    y = b.op("dot", *operands, shape=Shape(element, (*batch, m, n)), dot_dimension_numbers=numbers)
    if rng.random() < 0.3 and element != "pred":
        y = b.op("maximum", y, b.full(0, y.shape))
    return b.module(y), arguments


def _seen(rng: np.random.Generator, b: Builder, x: Instruction, element: str) -> Instruction:
    """An operand as it is, widened or computed."""
    way = rng.integers(0, 5)
    if way == 0 and element != x.shape.element_type:
        return b.op("convert", x, shape=Shape(element, x.shape.dimensions))
    if way == 1 and x.shape.element_type != "pred":
        return b.op("negate", x)
    return x


@pytest.mark.parametrize("seed", range(120))
def test_random_products(seed: int) -> None:
    module, arguments = random_product(seed)
    differential(module, *arguments, targets=[[*TARGETS][seed % len(TARGETS)]])
