"""Maximum, minimum and clamp with bounds that are constants: the special numbers, and the instructions that they
take."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import xla_wasm
from tests.support.differential import BOTH, differential
from xla_wasm.builder import Builder
from xla_wasm.compiler import trace
from xla_wasm.hlo.ir import Module
from xla_wasm.hlo.shape import Shape
from xla_wasm.loop.text import to_text
from xla_wasm.ops.dtypes import DTYPES

NUMBERS = (-np.inf, -3.0, -1e-40, -0.0, 0.0, 1e-40, 2.0, np.inf, np.nan)


def bounded(dtype: str, size: int, opcode: str, bound: float, first: bool) -> Module:
    b = Builder("bounded")
    x = b.parameter(0, Shape(dtype, (size,)))
    number = b.op("broadcast", b.constant(Shape(dtype, ()), [bound]), shape=Shape(dtype, (size,)), dimensions=())
    if opcode == "clamp":
        return b.module(b.op("clamp", *((number, x, x) if first else (x, x, number))))
    return b.module(b.op(opcode, *((number, x) if first else (x, number))))


@pytest.mark.parametrize("target", BOTH)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("opcode", ["maximum", "minimum", "clamp"])
def test_every_bound_meets_every_number(opcode: str, dtype: str, target: str) -> None:
    x = np.array([*NUMBERS, *NUMBERS], DTYPES[dtype])
    for bound, first in product(NUMBERS, (False, True)):
        differential(bounded(dtype, x.size, opcode, bound, first), x, targets=[target])


@pytest.mark.parametrize(
    "opcode, bound, chosen",
    [
        ("maximum", 2.0, "pmax"),
        ("maximum", 0.0, "pmax"),
        ("minimum", 6.0, "pmin"),
        ("minimum", -0.0, "min"),
        ("maximum", np.nan, "max"),
    ],
)
def test_a_bound_that_is_a_number_takes_the_short_instruction(opcode: str, bound: float, chosen: str) -> None:
    (func,) = trace(bounded("f32", 8, opcode, bound, True), xla_wasm.Options()).plan.funcs.values()
    text = to_text(func)
    assert f" {chosen}(" in text
    assert chosen[0] != "p" or f" {chosen[1:]}(" not in text
