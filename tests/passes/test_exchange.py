"""Products that are read through a transpose alone, and exchange their sides."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.support.closeness import equal
from tests.support.differential import BOTH, EACH, differential
from xla_wasm import Options
from xla_wasm.compiler import stages
from xla_wasm.hlo.ir import Module
from xla_wasm.jax import lower
from xla_wasm.passes.exchange import exchange_sides

MODULE = """HloModule m
ENTRY e {{
  x = f32[3,5,4,6] parameter(0)
  w = f32[3,5,7] parameter(1)
  d = f32[3,4,6,7] dot(x, w), {sides}
  {rest}
}}
"""
SIDES = "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_contracting_dims={1}"
TURNED = "t = f32[3,7,4,6] transpose(d), dimensions={0,3,1,2}"


@pytest.mark.parametrize(
    ("rest", "exchanged"),
    [
        (f"ROOT {TURNED}", True),
        (f"{TURNED}\n  ROOT n = f32[3,7,4,6] negate(t)", True),
        ("ROOT t = f32[3,7,6,4] transpose(d), dimensions={0,3,2,1}", False),
        ("ROOT t = f32[7,3,4,6] transpose(d), dimensions={3,0,1,2}", False),
        (f"{TURNED}\n  ROOT r = (f32[3,7,4,6], f32[3,4,6,7]) tuple(t, d)", False),
        (f"{TURNED}\n  ROOT n = f32[3,4,6,7] negate(d)", False),
        (f"{TURNED}\n  ROOT n = f32[3,4,6,7] transpose(t), dimensions={{0,2,3,1}}", True),
    ],
    ids=[
        "transposed",
        "and negated",
        "its rows, too",
        "its batches, too",
        "read twice",
        "read by nobody",
        "transposed twice",
    ],
)
def test_what_is_exchanged(rest: str, exchanged: bool) -> None:
    module = Module.from_text(MODULE.format(sides=SIDES, rest=rest))
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-4, 5, dims).astype(np.float32) for dims in ((3, 5, 4, 6), (3, 5, 7)))
    differential(module, x, w, targets=BOTH, near=equal)
    exchange_sides(module)
    dots = [x.operands[0].name for x in module.entry.instructions if x.opcode == "dot"]
    assert ("w" in dots) is exchanged, module.to_text()
    differential(module, x, w, targets=["simd128"], near=equal)


TYPES = ("float32", "float64", "bfloat16", "float16", "int32", "int8", "uint8", "complex64")


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("sides", [((0,), (0,)), ((0,), (1,)), ((1,), (0,)), ((1,), (1,))], ids=str)
def test_the_same_bits_as_the_transpose_of_the_product(sides: Any, dtype: str) -> None:
    """Whichever dimensions are contracted; the sums go in one order."""
    rng = np.random.default_rng(len(dtype))
    with jax.enable_x64(True):
        dims = [tuple(9 if d in side else size for d in (0, 1)) for side, size in zip(sides, (5, 12))]
        x, w = (jnp.asarray(rng.integers(0, 5, d)).astype(dtype) for d in dims)
        product = lower(lambda x, w: lax.dot_general(x, w, (sides, ((), ()))), x, w)
        turned = lower(lambda x, w: lax.dot_general(x, w, (sides, ((), ()))).T, x, w)
    expected = [np.asarray(a).T for a in differential(product, np.asarray(x), np.asarray(w), targets=["simd128"])]
    differential(turned, np.asarray(x), np.asarray(w), targets=EACH, expected=expected, near=equal)


def test_the_gradient_of_weights_is_updated_where_they_lie() -> None:
    """The product of a step of training writes the weights themselves."""

    def step(x: Any, y: Any, w: Any) -> Any:
        loss, gradient = jax.value_and_grad(lambda w: jnp.mean((x @ w - y) ** 2))(w)
        return loss, w - 0.1 * gradient

    x, y, w = (np.ones(dims, np.float32) for dims in ((16, 24), (16, 40), (24, 40)))
    plan = stages(lower(step, x, y, w), Options(state={"w": "1"}))["plan"]
    (update,) = [step for step in re.split(r"\n +\d+ ", plan) if "product 24x16x40" in step]
    assert re.search(r"out f32\[24,40\] in w.*\n.*\n.*\n +in  f32\[24,40\] in w.* may be overwritten", update), plan
