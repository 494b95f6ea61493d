"""Products and batch normalisation beyond the samples: random shapes against f64, and what is refused."""

from __future__ import annotations

import re
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import xla_wasm
from tests.support import closeness, xla_cpu
from tests.support.differential import run
from tests.support.small_modules import operation
from xla_wasm.hlo.attrs import DotDimensionNumbers, RaggedDotDimensionNumbers
from xla_wasm.hlo.ir import Module
from xla_wasm.jax import lower
from xla_wasm.ops.dtypes import DTYPES, Array
from xla_wasm.reference import evaluate


def distance(a: Array, true: Array) -> float:
    """The greatest error; NaN is infinitely far off."""
    return float(np.max(np.nan_to_num(np.abs(a - true), nan=np.inf, posinf=np.inf)))


@pytest.mark.parametrize(("mean", "spread"), [(0, 1), (100, 1), (3000, 0.1), (1e6, 10)])
@pytest.mark.parametrize("dims", [(64, 7), (5, 9, 8, 3), (4096, 2)])
def test_batch_norm_is_as_exact_as_xla(mean: float, spread: float, dims: tuple[int, ...]) -> None:
    """Also where the mean is so large that the mean of the squares says nothing about the variance."""
    rng = np.random.default_rng(1)
    x = (mean + spread * rng.standard_normal(dims)).astype(np.float32)
    scale, offset = (rng.standard_normal(dims[-1]).astype(np.float32) for _ in range(2))
    module = operation("batch-norm-training", x, scale, offset, epsilon=1e-3, feature_index=len(dims) - 1)
    true = evaluate(module, x, scale, offset, precision="f64")
    ours, judge = run(module, x, scale, offset), xla_cpu.run(module, x, scale, offset)
    for a, b, c in zip(ours, judge, true, strict=True):
        assert distance(a, c) <= closeness.within(distance(b, c), c, np.float32)
    # a deviation of one is worth this much of the mean's precision
    assert distance(ours[0], true[0]) <= 1e-6 * (4 + mean / spread / 8) * np.max(np.abs(true[0]))


def test_batch_norm_grad_is_as_exact_as_xla() -> None:
    rng = np.random.default_rng(2)
    x = (50 + rng.standard_normal((6, 8, 8, 5))).astype(np.float32)
    dy = rng.standard_normal(x.shape).astype(np.float32)
    args = (x, rng.standard_normal(5).astype(np.float32), x.mean((0, 1, 2)), x.var((0, 1, 2)), dy)
    module = operation("batch-norm-grad", *args, epsilon=1e-3, feature_index=3)
    true = evaluate(module, *args, precision="f64")
    for a, b, c in zip(run(module, *args), xla_cpu.run(module, *args), true, strict=True):
        assert distance(a, c) <= closeness.within(distance(b, c), c, np.float32)


@pytest.mark.parametrize("seed", range(12))
def test_ragged_dot_like_jax(seed: int) -> None:
    """Random dimension numbers; JAX masks the operands."""
    from jax import lax
    from jax import numpy as jnp

    rng = np.random.default_rng(seed)
    sizes = {d: int(rng.integers(1, 5)) for d in "bcxmykjgn"}
    kind = ("m", "k", "b")[seed % 3]
    lhs, rhs = rng.permutation([*"bcxmykj"]), rng.permutation([*"bckjn", *("g" if kind == "m" else "")])
    left, right = [*lhs], [*rhs]
    batch, contracted = [*rng.permutation([*"bc"])], [*rng.permutation([*"kj"])]
    numbers = DotDimensionNumbers(
        *(tuple(side.index(d) for d in dims) for dims in (contracted, batch) for side in (left, right)),
    )
    prefix = batch[: batch.index("b")] if kind == "b" else batch
    if kind == "k":
        prefix = [*batch, *contracted[: contracted.index("k")]]
    if kind == "m":
        prefix = [*batch, *(d for d in left[: left.index("m")] if d in "xy")]
    x, y = (rng.integers(-4, 5, [sizes[d] for d in side]).astype(np.float32) for side in (left, right))
    listed = [sizes[d] for d in prefix] if rng.integers(2) else []
    groups = rng.integers(0, 1 + sizes[kind], [*listed, sizes["g"]]).astype(np.int32)
    groups = np.where(np.cumsum(groups, -1) <= sizes[kind], groups, 0).astype(np.int32)
    ragged = RaggedDotDimensionNumbers(numbers, (left.index(kind),), (right.index("g"),) if kind == "m" else ())
    module = operation("ragged-dot", x, y, groups, ragged_dot_dimension_numbers=ragged)
    judge = lax.ragged_dot_general(
        jnp.asarray(x), jnp.asarray(y), jnp.asarray(groups),
        lax.RaggedDotDimensionNumbers(
            ((numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions),
             (numbers.lhs_batch_dimensions, numbers.rhs_batch_dimensions)),
            ragged.lhs_ragged_dimensions, ragged.rhs_group_dimensions,
        ),
    )  # fmt: skip
    (result,), (expected,) = run(module, x, y, groups), evaluate(module, x, y, groups)
    np.testing.assert_array_equal(expected, np.asarray(judge))
    np.testing.assert_array_equal(result, expected)


def test_a_sparse_convolution_takes_all_elements() -> None:
    text = """HloModule m
ENTRY e {
  x = f32[1,4,2] parameter(0)
  k = f32[2,2,3] parameter(1)
  ROOT c = f32[1,3,3] convolution(x, k), window={size=2}, dim_labels=b0f_0io->b0f%s
}
"""
    x, k = (np.arange(size, dtype=np.float32).reshape(dims) for size, dims in ((8, (1, 4, 2)), (12, (2, 2, 3))))
    sparse = ", sparsity_config={rhs={sparsity=3x4 dimension=0 stride=1}}"
    np.testing.assert_array_equal(*(run(Module.from_text(text % attribute), x, k) for attribute in (sparse, "")))


RENAMED = {
    "rows split after it": """
  d = T[8,N] dot(x, w), LAST
  r = T[2,4,N] reshape(d)
  ROOT s = T[2,4,N] multiply(r, r)""",
    "all in a row after it": """
  d = T[8,N] dot(x, w), LAST
  ROOT r = T[M] reshape(d)""",
    "all in a row for an operation": """
  d = T[8,N] dot(x, w), LAST
  r = T[M] reshape(d)
  s = T[M] multiply(r, r)
  ROOT t = T[8,N] reshape(s)""",
    "its right side as well": """
  a = T[7,N] negate(w)
  f = T[K] reshape(a)
  g = T[K] multiply(f, f)
  h = T[7,N] reshape(g)
  ROOT d = T[8,N] dot(x, h), LAST""",
}


@pytest.mark.parametrize("what", RENAMED)
@pytest.mark.parametrize("dtype", ["f32", "f64", "s32"])
@pytest.mark.parametrize("n", [3, 12, 17, 20, 28, 33, 50])
def test_columns_that_fill_no_panel(n: int, dtype: str, what: str) -> None:
    """Divisions of indices in reshapes beside a product know that the last panel ends before its width."""
    body = "x = T[8,7] parameter(0)\n  w = T[7,N] parameter(1)" + RENAMED[what]
    words = {"LAST": "lhs_contracting_dims={1}, rhs_contracting_dims={0}", "T": dtype, "M": 8 * n, "K": 7 * n, "N": n}
    body = re.sub(rf"\b({'|'.join(words)})\b", lambda word: str(words[word[0]]), body)
    module = Module.from_text(f"HloModule m\nENTRY e {{\n  {body}\n}}\n")
    rng = np.random.default_rng(n)
    args = [rng.integers(-5, 6, p.shape.dimensions).astype(DTYPES[dtype]) for p in module.entry.parameters]
    np.testing.assert_array_equal(run(module, *args)[0], evaluate(module, *args)[0], strict=True)


@pytest.mark.parametrize("result", ["s32", "u8", "s64", "pred"])
@pytest.mark.parametrize(
    ("product", "operands"),
    [
        *(
            (product, (a, b))
            for product in ("dot", "convolution")
            for a, b in [("bf16", "bf16"), ("f16", "f16"), ("f32", "f32"), ("f64", "f64"), ("bf16", "f32")]
        ),
        ("dot", ("s32", "f32")),
    ],
)
def test_products_of_floats_may_give_integers(product: str, operands: tuple[str, str], result: str) -> None:
    """The product is rounded to the wider type of its operands, then converted, where it is out of range too."""
    a, b = operands
    attributes = {
        "dot": "lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "convolution": "window={size=3}, dim_labels=b0f_0io->b0f",
    }[product]
    left, right, out = {"dot": ("[5,7]", "[7,3]", "[5,3]"), "convolution": ("[2,9,4]", "[3,4,3]", "[2,7,3]")}[product]
    text = f"HloModule m\nENTRY e {{\n x = {a}{left} parameter(0)\n y = {b}{right} parameter(1)\n"
    module = Module.from_text(f"{text} ROOT r = {result}{out} {product}(x, y), {attributes}\n}}")
    rng = np.random.default_rng(3)
    arrays = []
    for element_type, dims in zip(operands, (left, right)):
        # Sums have more bits than bf16: what rounding to that makes of them are other integers.
        values = rng.integers(-99, 99, [int(d) for d in dims[1:-1].split(",")]) * (1 if element_type == "s32" else 0.25)
        arrays.append(values.astype(DTYPES[element_type]))
    if a != "s32":
        arrays[0].flat[:3] = np.inf, np.nan, -np.inf
    (expected,) = xla_cpu.run(module, *arrays)
    for got in (run(module, *arrays)[0], evaluate(module, *arrays)[0]):
        np.testing.assert_array_equal(got, expected)


def test_what_finishes_a_product_along_many_paths() -> None:
    """2 ** 60 ways lead from the result to the product: each instruction on them is looked at once."""

    def doubled(a: Any, b: Any) -> Any:
        x = jnp.maximum(a @ b, 0)
        for _ in range(60):
            x = x * jnp.float32(0.5) + x * jnp.float32(0.5)
        return x

    a, b = np.ones((8, 16), np.float32), np.ones((16, 12), np.float32)
    (result,) = xla_wasm.load(xla_wasm.compile(lower(doubled, a, b))).run(a, b)
    assert (result == 16).all()
