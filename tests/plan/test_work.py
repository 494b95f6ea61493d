"""Work of kernels: a program whose operations take time linear in an array's length computes four times as much for an
array four times as long. A kernel that computes something again for each of its elements, though once would do, is
right and no test of values sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.support import seeds
from xla_wasm.compiler import trace
from xla_wasm.hlo.ir import Module
from xla_wasm.jax import lower
from xla_wasm.loop.ir import Block, If, Loop
from xla_wasm.options import Options
from xla_wasm.plan.plan import Launch

TIMES = 4
MOST = 5.5
"""Of the work, for `TIMES` the elements."""

Function = Callable[..., Any]


def statements(block: Block) -> int:
    """The statements that a block runs."""
    total = 0
    for s in block.statements:
        if isinstance(s, Loop):
            total += s.trips * statements(s.body)
        elif isinstance(s, If):
            total += statements(s.body)
        else:
            total += 1
    return total


def work(module: Module) -> int:
    """The statements that the kernels of a program run, each once."""
    return sum(statements(step.func.body) for step in trace(module, Options()).plan.entries if isinstance(step, Launch))


def check(f: Function, *dims: tuple[int, ...]) -> None:
    """Asserts that the work grows with each dimension of the arguments as the elements do, `MOST` times for `TIMES` at
    most; dimensions of one size grow together."""
    base = work(lower(f, *(np.zeros(d, np.float32) for d in dims)))
    for size in sorted({n for d in dims for n in d}):
        longer = [np.zeros([n * TIMES if n == size else n for n in d], np.float32) for d in dims]
        more = max(a.size / max(int(np.prod(d)), 1) for a, d in zip(longer, dims)) / TIMES
        assert work(lower(f, *longer)) <= MOST * more * base, f"dimensions of {size}"


def skew(x: Any) -> Any:
    return (((x - x.mean(0)) / x.std(0)) ** 3).mean(0)


def batch_norm(x: Any) -> Any:
    axes = (*range(x.ndim - 1),)
    return (x - x.mean(axes)) / jnp.sqrt(x.var(axes) + 1e-5)


STATISTICS: dict[str, Function] = {
    "var": jnp.var,
    "std": jnp.std,
    "logsumexp": jax.nn.logsumexp,
    "softmax": jax.nn.softmax,
    "standardize": lambda x, axis: (x - x.mean(axis, keepdims=True)) / x.std(axis, keepdims=True),
    "mean and var": lambda x, axis: (x.mean(axis), x.var(axis)),
    "normalize": lambda x, axis: x / jnp.linalg.norm(x, axis=axis, keepdims=True),
    "range": lambda x, axis: (
        (x - x.min(axis, keepdims=True)) / (x.max(axis, keepdims=True) - x.min(axis, keepdims=True))
    ),
    "skew": lambda x, axis: (((x - x.mean(axis, keepdims=True)) / x.std(axis, keepdims=True)) ** 3).mean(axis),
    "first mean": lambda x, axis: x * x.mean(axis).ravel()[0],
    "one sum twice": lambda x, axis: x * (x.sum(axis) * 2).ravel()[-1] + (x.sum(0) * 3).ravel()[3],
}


@pytest.mark.parametrize("name", STATISTICS)
@pytest.mark.parametrize("gradient", [False, True], ids=["value", "gradient"])
def test_statistics(name: str, gradient: bool) -> None:
    f = STATISTICS[name]
    more = seeds.more(((48, 20), 0), ((6, 40, 20), 1))
    for dims, axis in (((48, 20), 1), ((6, 40, 20), 0), ((6, 40, 20), (0, 1)), *more):

        def total(x: Any, axis: Any = axis) -> Any:
            return sum(jnp.sum(jnp.sin(part)) for part in jax.tree.leaves(f(x, axis=axis)))

        check(jax.grad(total) if gradient else lambda x, axis=axis: f(x, axis=axis), dims)


@pytest.mark.parametrize("dims", [(40, 20), (3, 5, 40, 12)])
def test_batch_norm(dims: tuple[int, ...]) -> None:
    check(batch_norm, dims)
    check(jax.grad(lambda x: jnp.sum(jnp.tanh(batch_norm(x)))), dims)


def test_a_vector_as_long_as_there_are_rows() -> None:
    """A function of a vector whose index is a column is computed once, not again by each row."""
    dear = work(lower(lambda x, y: (y * jnp.tanh(x)).sum(1), np.zeros(64, np.float32), np.zeros((64, 64), np.float32)))
    cheap = work(lower(lambda x, y: (y * x).sum(1), np.zeros(64, np.float32), np.zeros((64, 64), np.float32)))
    assert dear < 1.5 * cheap


HOLES = {
    "a tap for each phase": (2, 2, 8, 2, 16, 16),
    "four taps": (2, 4, 8, 2, 16, 16),
    "few features": (2, 4, 16, 2, 16, 3),
    "large strides": (8, 16, 4, 2, 16, 8),
    "sound": (256, 1024, 16, 1, 16, 1),
    "volumes": (4, 8, 4, 3, 8, 8),
}
"""Stride, window, size of the image and its dimensions, channels of it and of the result."""


@pytest.mark.parametrize("case", HOLES)
def test_holes_of_transposed_convolutions_are_not_multiplied(case: str) -> None:
    """It computes no more than a plain convolution with as many products."""
    stride, window, size, rank, inputs, outputs = HOLES[case]
    x = np.zeros((1, *[size] * rank, inputs), np.float32)
    w = np.zeros((*[window] * rank, inputs, outputs), np.float32)
    made = work(lower(lambda x, w: lax.conv_transpose(x, w, (stride,) * rank, "SAME"), x, w))
    y = np.zeros((1, *[size * stride] * rank, inputs), np.float32)
    v = np.zeros((*[window // stride] * rank, inputs, outputs), np.float32)
    numbers = {1: ("NHC", "HIO", "NHC"), 2: ("NHWC", "HWIO", "NHWC"), 3: ("NDHWC", "DHWIO", "NDHWC")}[rank]
    plain = work(
        lower(lambda y, v: lax.conv_general_dilated(y, v, (1,) * rank, "SAME", dimension_numbers=numbers), y, v)
    )
    assert made < 1.2 * plain


@pytest.mark.parametrize("stride, holes", [(4, 5), (7, 8), (9, 8)])
def test_results_between_strides_are_not_computed(stride: int, holes: int) -> None:
    """Of a window of two taps for each result: it computes about as much as a plain convolution of as many results."""
    x, w = np.zeros((1, 64, 16), np.float32), np.zeros((2 * holes, 16, 16), np.float32)
    numbers, padding = ("NHC", "HIO", "NHC"), [(holes, holes)]

    def resampled(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(x, w, (stride,), padding, (holes,), dimension_numbers=numbers)

    y = np.zeros((1, 64 * holes // stride + 1, 16), np.float32)
    plain = lower(
        lambda y, v: lax.conv_general_dilated(y, v, (1,), "SAME", dimension_numbers=numbers), y, np.zeros_like(w[:2])
    )
    assert work(lower(resampled, x, w)) < 3 * work(plain)


@pytest.mark.parametrize("channels, groups, most", [(8, 1, 1.2), (32, 32, 2)], ids=["dense", "depthwise"])
def test_holes_of_gradients_are_not_multiplied(channels: int, groups: int, most: float) -> None:
    """Of a strided convolution: its gradients compute about as much as it does itself."""
    x, w = np.zeros((1, 32, 32, channels), np.float32), np.zeros((4, 4, channels // groups, channels), np.float32)
    g = np.zeros((1, 16, 16, channels), np.float32)

    def convolution(x: Any, w: Any) -> Any:
        labels = ("NHWC", "HWIO", "NHWC")
        return lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=labels, feature_group_count=groups)

    once = work(lower(convolution, x, w))
    for number in (0, 1):
        gradient = lower(lambda x, w, g, number=number: jax.vjp(convolution, x, w)[1](g)[number], x, w, g)
        assert work(gradient) < most * once, number


@pytest.mark.parametrize("seed", range(seeds.count(15, 60)))
def test_chains_of_statistics(seed: int) -> None:
    """Values that are combined with sums and maxima of themselves, whole, in part and reversed."""
    rng = np.random.default_rng(seed)
    elementwise = [jnp.tanh, jnp.exp, jnp.sin, lambda v: v * v, lambda v: -v, lambda v: jnp.sqrt(abs(v) + 1)]
    reductions = [jnp.sum, jnp.max, jnp.mean, jnp.var]
    parts: list[Function] = [
        lambda v: v,
        lambda v: v[::-1],
        lambda v: v.ravel()[0],
        lambda v: v[:1],
        lambda v: jnp.cumsum(v, 0),
    ]
    plan = [
        [int(rng.integers(n)) for n in (len(elementwise), len(reductions), 2, len(elementwise), len(parts), 3)]
        for _ in range(3)
    ]
    last = (0, 1, None)[seed % 3]

    def f(x: Any) -> Any:
        values = [x]
        for first, reduction, axis, then, part, way in plan:
            v = elementwise[first](values[-1])
            s = elementwise[then](reductions[reduction](v, axis=axis, keepdims=True))
            v = (v + parts[part](s), v * s, values[0] - parts[part](s))[way]
            values.append(v)
        return values[-1].sum(last), values[1]

    check(f, (32, 32) if seed % 4 == 3 else (48, 20))
