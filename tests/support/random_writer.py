"""Random programs of all operations whose results are exact: those of `random_programs` and the less frequent ones."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from tests.support import random_programs as programs
from tests.support.random_dynamic import counted, dynamic
from tests.support.random_values import (
    COMPLEX,
    FLOATS,
    INTEGERS,
    REAL,
    Draw,
    Program,
    Skip,
    Value,
    is_rounded,
    usual_bound,
    values,
)
from xla_wasm.builder import Builder
from xla_wasm.hlo.attrs import DotDimensionNumbers, RaggedDotDimensionNumbers, TriangularSolveOptions
from xla_wasm.hlo.ir import Module
from xla_wasm.hlo.shape import Layout, Shape
from xla_wasm.ops.dtypes import DTYPES, Array

PARTS = {"f32": "c64", "f64": "c128", "c64": "f32", "c128": "f64"}


def _clamped(p: Program, v: Value, low: float, high: float) -> Value:
    x = p.b.op("clamp", p.b.constant(low, v.dtype), v.x, p.b.constant(high, v.dtype))
    return Value(x, max(abs(low), abs(high)))


def sort(p: Program) -> None:
    """One operand in order, or several by the first and then by the second."""
    v = p.any((*REAL, "pred"), rank=1)
    others = [w for w in p.values if w.dims == v.dims]
    operands = [v] + [p.draw.pick(others) for _ in range(p.draw.integer(0, 2))]
    f = Builder("compare")
    scalars = [f.parameter(2 * i + k, Shape(w.dtype)) for i, w in enumerate(operands) for k in (0, 1)]
    direction = p.draw.pick(("LT", "GT"))
    less = f.compare(scalars[0], scalars[1], direction)
    if len(operands) > 1 and operands[1].dtype not in COMPLEX and p.draw.chance(2):
        second = f.compare(scalars[2], scalars[3], direction)
        less = f.op("select", f.compare(scalars[0], scalars[1], "EQ"), second, less)
    d = p.draw.integer(0, len(v.dims) - 1)
    y = p.b.op(
        "sort",
        *(w.x for w in operands),
        called=[f.build(less)],
        dimensions=(d,),
        is_stable=len(operands) > 1 or p.draw.chance(2),
    )
    for i, w in enumerate(operands):
        p.keep(p.b.get_tuple_element(y, i) if len(operands) > 1 else y, w.bound)


def topk(p: Program) -> None:
    v = p.any(REAL, rank=1)
    y = p.b.op("topk", v.x, k=p.draw.integer(0, v.dims[-1]), largest=p.draw.chance(2))
    p.keep(p.b.get_tuple_element(y, 0), v.bound)
    p.keep(p.b.get_tuple_element(y, 1), 0)


def map_(p: Program) -> None:
    """A computation of several operations on each element."""
    v = p.any((*REAL, *COMPLEX))
    w = p.like(v)
    f = Builder("each")
    x, y = (f.parameter(i, Shape(v.dtype)) for i in range(2))
    if v.dtype in COMPLEX:
        f.op("complex", f.op("imag", f.op("subtract", x, y)), f.op("negate", f.op("real", y)))
    else:
        f.op("maximum", f.op("subtract", x, y), f.op("negate", y))
    p.keep(p.b.op("map", v.x, w.x, called=[f.build()], dimensions=tuple(range(len(v.dims)))), v.bound + w.bound)


def reduce_precision(p: Program) -> None:
    v = p.any(FLOATS)
    if v.bound > 30000:
        raise Skip
    p.keep(
        p.b.op("reduce-precision", v.x, exponent_bits=p.draw.pick((5, 8)), mantissa_bits=p.draw.pick((7, 2, 10))),
        2 * v.bound,
    )


def complex_(p: Program) -> None:
    v = p.any(tuple(PARTS))
    if v.dtype in COMPLEX:
        for part in ("real", "imag"):
            p.keep(p.b.op(part, v.x), v.bound)
        return
    w = p.like(v)
    made = p.keep(p.b.op("complex", v.x, w.x), max(v.bound, w.bound))
    if p.draw.chance(3):
        p.keep(p.b.convert(made.x, p.draw.pick(("c64", "c128"))), made.bound)


def is_finite(p: Program) -> None:
    p.keep(p.b.op("is-finite", p.any(FLOATS).x), 1)


def quotient(p: Program) -> None:
    """A division or a remainder of floats, rounded to a whole number."""
    v = p.any(("f32", "f64"))
    w = _clamped(p, p.like(v), 1, 9)
    if p.draw.chance(2):
        p.keep(p.b.op("remainder", v.x, w.x), 9)
    else:
        p.keep(p.b.op("round-nearest-even", p.b.op("divide", v.x, w.x)), v.bound)


def power(p: Program) -> None:
    v = p.any(("f32", "f64"))
    x, n = _clamped(p, v, -5, 5), _clamped(p, p.like(v), 0, 3)
    p.keep(p.b.op("round-nearest-even", p.b.op("power", x.x, n.x)), 125)


def integer_power(p: Program) -> None:
    """Exponents are small: XLA:CPU gives up after a few squares."""
    v = p.any(INTEGERS[:8])
    p.keep(p.b.op("power", v.x, p.b.op("remainder", p.like(v).x, p.b.full(9, v.x.shape.without_layout()))), 0)


def cholesky(p: Program) -> None:
    """The factor of a product of a triangle of whole numbers with itself."""
    n, dtype = p.draw.pick((1, 2, 3, 5, 9)), p.draw.pick(("f32", "f64", *COMPLEX))
    batch = tuple(p.draw.pick((1, 2, 3)) for _ in range(p.draw.integer(0, 1)))
    factor = np.tril(values(p.draw.integer(0, 9), (*batch, n, n), "f32") // 3)
    factor[..., np.arange(n), np.arange(n)] = 2.0 ** (np.arange(n) % 3)
    product = factor @ np.swapaxes(factor, -1, -2)
    x = p.b.constant(Shape(dtype, product.shape), product.astype(DTYPES[dtype]).reshape(-1).tolist())
    p.keep(p.b.op("cholesky", x, lower=p.draw.chance(2)), 4)


def triangular_solve(p: Program) -> None:
    """Whole numbers from a triangle of whole numbers with ones on its diagonal."""
    v = p.any(("f32", "f64", *COMPLEX), rank=2)
    left = p.draw.chance(2)
    n = v.dims[-2 if left else -1]
    if n > 5 or not prod(v.dims):
        raise Skip
    lower = p.draw.chance(2)
    a = values(p.draw.integer(0, 9), (*v.dims[:-2], n, n), "f32") // 5
    a = np.tril(a, -1) if lower else np.triu(a, 1)
    unit = p.draw.chance(2)
    if not unit:
        a[..., np.arange(n), np.arange(n)] = 1
    x = p.b.constant(Shape(v.dtype, a.shape), a.astype(DTYPES[v.dtype]).reshape(-1).tolist())
    options = TriangularSolveOptions(left, lower, unit, p.draw.pick(("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")))
    p.keep(p.b.op("triangular-solve", x, v.x, triangular_solve_options=options), v.bound * 3.0**n)


def fft(p: Program) -> None:
    """A transform, brought to whole numbers by rounding what no sum of roots of unity comes near."""
    v = p.any(tuple(PARTS), rank=1)
    n = v.dims[-1]
    if not n or v.bound * n > 2**12:
        raise Skip
    kind = "FFT" if v.dtype in COMPLEX else "RFFT"
    y = p.b.op("fft", v.x, fft_type=kind, fft_length=(n,))
    for part in ("real", "imag"):
        x = p.b.op(part, y)
        shape = x.shape.without_layout()
        p.keep(p.b.op("floor", p.b.add(p.b.multiply(x, p.b.full(0.25, shape)), p.b.full(0.0627, shape))), v.bound * n)


def batch_norm(p: Program) -> None:
    v = p.any(("f32", "f64"), rank=1)
    d = p.draw.integer(0, len(v.dims) - 1)
    scale, offset, mean = (p.literal((v.dims[d],), v.dtype) for _ in range(3))
    variance = p.b.full(3, Shape(v.dtype, (v.dims[d],)))
    y = p.b.op("batch-norm-inference", v.x, scale.x, offset.x, mean.x, variance, epsilon=1.0, feature_index=d)
    p.keep(p.b.op("floor", p.b.add(y, p.b.full(0.25, y.shape.without_layout()))), (v.bound + 8) * 8 + 8)


def random_bits(p: Program) -> None:
    state = p.b.constant([p.draw.integer(0, 9), p.draw.integer(0, 9)], "u64")
    shape = Shape(p.draw.pick(("u32", "u64", "u8", "u16")), p.dims(3))
    algorithm = p.draw.pick(("rng_three_fry", "rng_philox"))
    if algorithm == "rng_philox":
        state = p.b.constant([p.draw.integer(0, 9), p.draw.integer(0, 9), 3], "u64")
    declared = Shape.tuple([state.shape.without_layout(), shape])
    y = p.b.op("rng-bit-generator", state, shape=declared, algorithm=algorithm)
    p.keep(p.b.get_tuple_element(y, 0), 0)
    p.keep(p.b.get_tuple_element(y, 1), 0)


def ragged_dot(p: Program) -> None:
    """Rows in groups, each times a matrix of its own."""
    dtype = p.draw.pick(("f32", "s32", "f64", "bf16"))
    m, k, n, groups = p.draw.pick((1, 3, 4, 8)), p.draw.pick((1, 2, 5)), p.draw.pick((1, 4, 5)), p.draw.pick((1, 2, 3))
    x, y = p.literal((m, k), dtype), p.literal((groups, k, n), dtype)
    ends = sorted([0, *(p.draw.integer(0, m) for _ in range(groups - 1)), m])
    sizes = p.b.constant([b - a for a, b in zip(ends, ends[1:])], "s32")
    numbers = RaggedDotDimensionNumbers(DotDimensionNumbers((1,), (1,)), (0,), (0,))
    p.keep(
        p.b.op("ragged-dot", x.x, y.x, sizes, ragged_dot_dimension_numbers=numbers),
        x.bound * y.bound * k if is_rounded(dtype) else 0,
    )


def fusion(p: Program) -> None:
    """A few operations as an earlier compiler fused them."""
    if p.depth > 1 or not p.values:
        raise Skip
    given = [p.any() for _ in range(p.draw.integer(1, 3))]
    inner = Program(p.operations, p.draw, "fused", p.depth + 2)
    inner.values = [Value(inner.b.parameter(i, v.x.shape.without_layout()), v.bound) for i, v in enumerate(given)]
    inner.grow(p.draw.integer(1, 5))
    root = inner.values[-1]
    p.keep(
        p.b.op("fusion", *(v.x for v in given), called=[inner.b.build(root.x)], kind="kLoop", shape=root.x.shape),
        root.bound,
    )


def copied(p: Program) -> None:
    """The same value: a copy, behind a barrier, started and done, or as other bits of the same shape."""
    v = p.any()
    opcode = p.draw.pick(("copy", "opt-barrier", "copy-start", "bitcast", "add-dependency"))
    if opcode == "copy-start":
        x = p.b.op("copy-done", p.b.op("copy-start", v.x))
    elif opcode == "bitcast":
        x = p.b.op("bitcast", v.x, shape=Shape(v.dtype, (prod(v.dims),)))
    elif opcode == "add-dependency":
        x = p.b.op("add-dependency", v.x, p.b.op("after-all"))
    elif opcode == "opt-barrier":
        x = p.b.get_tuple_element(p.b.op("opt-barrier", p.b.op("tuple", v.x, p.any().x)), 0)
    else:
        x = p.b.op("copy", v.x)
    p.keep(x, v.bound)


def stochastic_convert(p: Program) -> None:
    """To integers, which whole numbers are already."""
    v = p.any(("f32", "f64"))
    bits = p.like(v, "u32" if v.dtype == "f32" else "u64")
    shape = Shape(p.draw.pick(("s32", "s8")), v.dims)
    p.keep(p.b.op("stochastic-convert", v.x, bits.x, shape=shape), 0)


def high_product(p: Program) -> None:
    v = p.any(INTEGERS[:8])
    p.keep(p.b.op("mulhi", v.x, p.like(v).x), 0)


def reduce_mixed(p: Program) -> None:
    """Two operands of two types reduced together: a sum, and whether any element was beyond something."""
    v = p.any((*REAL, *COMPLEX), rank=1)
    flags = p.like(v, "pred")
    f = Builder("both")
    scalars = [f.parameter(i, Shape(t)) for i, t in enumerate((v.dtype, "pred", v.dtype, "pred"))]
    f.op("tuple", f.op("add", scalars[0], scalars[2]), f.op("or", scalars[1], scalars[3]))
    dims = p.draw.subset(range(len(v.dims))) or (0,)
    both = p.b.op(
        "reduce", v.x, flags.x, p.b.constant(0, v.dtype), p.b.constant(0, "pred"), called=[f.build()], dimensions=dims
    )
    p.keep(p.b.get_tuple_element(both, 0), v.bound * max(1, prod(v.dims[d] for d in dims)))
    p.keep(p.b.get_tuple_element(both, 1), 1)


MORE: tuple[Callable[[Program], None], ...] = (
    *(
        sort,
        sort,
        topk,
        map_,
        reduce_precision,
        complex_,
        complex_,
        is_finite,
        quotient,
        power,
        integer_power,
        cholesky,
        triangular_solve,
    ),
    *(
        fft,
        batch_norm,
        random_bits,
        ragged_dot,
        dynamic,
        counted,
        counted,
        fusion,
        copied,
        copied,
        stochastic_convert,
        high_product,
        reduce_mixed,
    ),
)
OPERATIONS = (*programs.OPERATIONS, *MORE)


def draw_writer(draw: Draw) -> tuple[Module, list[Array]]:
    """A program and its arguments; parameters have layouts of their own here and there."""
    operations = OPERATIONS if draw.chance(2) else [draw.pick(OPERATIONS) for _ in range(draw.integer(2, 8))]
    p = Program(operations, draw)
    arguments: list[Array] = []
    for i in range(draw.integer(1, 4)):
        dims = p.dims(4) or (4, 5)
        if draw.chance(8):
            dims = (*dims[:-1], 0)
        layout = Layout(draw.permutation(len(dims))) if draw.chance(6) else None
        shape = Shape(draw.type() if draw.chance(2) else draw.pick(("f32", "f32", "s32", "f64")), dims, layout)
        arguments.append(values(draw.integer(0, 9), dims, shape.element_type))
        p.values.append(Value(p.b.parameter(i, shape), usual_bound(shape.element_type)))
    p.grow(draw.integer(1, 14))
    results = [p.values[-1]] + [draw.pick(p.values[::-1]) for _ in range(draw.integer(0, 2))]
    outputs = [*(v.x for v in results), *p.results[-2:]]
    return p.b.module(outputs[0] if len(outputs) == 1 else p.b.op("tuple", *outputs)), arguments
