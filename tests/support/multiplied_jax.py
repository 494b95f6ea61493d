"""Functions of JAX, and the laws of its transformations: a vmapped function, or the gradient of one, gives the stack of
what it gives for single elements; tangents and cotangents are linear, and fit one another."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import xla_wasm
from tests.programs.hunt_near import difference_from_true
from tests.support.differential import TARGETS
from tests.support.multiplied import Array, Batch, Compiled, Function, Unavailable, Way, base
from tests.support.multiplied_laws import axes_of, elements, stacked
from tests.support.multiplied_sizes import SIZES
from tests.support.random_jax import draw_function
from tests.support.random_values import Draw
from xla_wasm.hlo.ir import Module

Fun = Callable[..., Any]


# --- functions --------------------------------------------------------------------------------------------------------


def _scattered(name: str) -> Fun:
    return lambda x, i, v: getattr(x.at[i], name)(v)


def _scattered_several(name: str) -> Fun:
    one = _scattered(name)
    return lambda x, i, v: one(x, i, v[: i.size] if v.size >= i.size else v[:1])


def _image(x: Any) -> Any:
    return x.reshape(1, 1, *x.shape)


def _convolved(x: Any, k: Any) -> Any:
    return lax.conv_general_dilated(_image(x), _image(k), (1, 1), "SAME")[0, 0]


def _pooled(x: Any) -> Any:
    return lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (1, 2), "SAME")


def _weighed(x: Any, w: Any) -> Any:
    return jax.nn.softmax(x @ w, -1)


def _squared(f: Fun) -> Fun:
    return lambda *a: jnp.sum(f(*a) ** 2)


def _walked(x: Any, v: Any) -> Any:
    return lax.scan(lambda c, r: (jnp.maximum(c * 0.5, r), c + r), v, x)


def _searched(x: Any, v: Any) -> Any:
    return jnp.searchsorted(jnp.sort(x), v)


def _while_less(x: Any, i: Any) -> Any:
    return lax.while_loop(lambda c: c[0] < i % 5, lambda c: (c[0] + 1, c[1] * 2 - c[0]), (0, x))[1]


def _branch(x: Any, i: Any) -> Any:
    return lax.switch(i % 3, [lambda x: x + 1, lambda x: x * 2, lambda x: -x], x)


M, V, R, S, AT, IS, P = "matrix vector row scalar index indices pred".split()
CATALOGUE: tuple[tuple[str, tuple[str, ...], Fun], ...] = (
    *((f"at.{name}", (V, AT, S), _scattered(name)) for name in ("set", "add", "mul", "max", "min")),
    *((f"at.{name} of rows", (M, AT, R), _scattered(name)) for name in ("set", "add")),
    *((f"at.{name} of several", (V, IS, V), _scattered_several(name)) for name in ("set", "add", "max")),
    ("at both indices", (M, AT, AT, S), lambda x, i, j, v: x.at[i, j].set(v)),
    ("at a column", (M, AT, S), lambda x, i, v: x.at[:, i].add(v)),
    ("at, dropped", (V, AT, S), lambda x, i, v: x.at[i + 1].set(v, mode="drop")),
    ("element", (V, AT), lambda x, i: x[i]),
    ("row", (M, AT), lambda x, i: x[i]),
    ("column", (M, AT), lambda x, i: x[:, i]),
    ("elements", (V, IS), lambda x, i: x[i]),
    ("rows", (M, IS), lambda x, i: jnp.take(x, i, 0)),
    ("along", (M,), lambda x: jnp.take_along_axis(x, jnp.argsort(x, 1), 1)),
    ("dynamic slice", (M, AT, AT), lambda x, i, j: lax.dynamic_slice(x, (i, j), (max(1, x.shape[0] // 2), 1))),
    ("dynamic update", (M, R, AT), lambda x, v, i: lax.dynamic_update_slice(x, v[None], (i, i * 0))),
    ("dynamic update of one", (V, S, AT), lambda x, v, i: lax.dynamic_update_slice(x, v[None], (i,))),
    ("segments", (V, IS), lambda x, i: jax.ops.segment_sum(x[: i.size], i[: x.size], 5)),
    ("one hot", (IS, V), lambda i, v: jax.nn.one_hot(i, v.size) * v),
    ("argmax", (M,), lambda x: (jnp.argmax(x, 0), jnp.argmin(x, 1))),
    ("top k", (V,), lambda x: lax.top_k(x, min(3, x.size))),
    ("sort", (M,), lambda x: (jnp.sort(x, 0), jnp.argsort(x, 1))),
    ("sort by keys", (V, V), lambda x, y: lax.sort((x[: y.size], y[: x.size]), num_keys=1)),
    ("search", (V, S), _searched),
    ("running sums", (M,), lambda x: (jnp.cumsum(x, 0), jnp.cumsum(x, 1), lax.cummax(x, 0))),
    ("sums", (M,), lambda x: (x.sum(0), x.sum(1), x.sum(), x.max(0), x.min(1))),
    ("moments", (M,), lambda x: (x.mean(0), x.var(1), jax.nn.standardize(x))),
    ("softmax", (M,), lambda x: (jax.nn.softmax(x), jax.nn.log_softmax(x, 0), jax.nn.logsumexp(x))),
    ("product", (M, R), lambda x, v: x @ v),
    ("outer", (V, V), jnp.outer),
    ("square", (M,), lambda x: (x @ x.T, x.T @ x)),
    ("layer", (M,), lambda x: jax.nn.relu(x @ x.T - 1) @ x),
    ("weighed", (M,), lambda x: _weighed(x, x.T)),
    ("correlation", (V, V), lambda x, k: jnp.convolve(x, k[:3], "same")),
    ("convolution", (M, M), lambda x, k: _convolved(x, k[:3, :3])),
    ("pooling", (M,), _pooled),
    ("average", (M,), lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 3), (1, 1), "VALID")),
    ("spectrum", (V,), lambda x: (jnp.fft.rfft(x).real, jnp.fft.fft(x).imag)),
    ("factor", (M,), lambda x: jnp.linalg.cholesky(x @ x.T / 8 + 3 * jnp.eye(x.shape[0]))),
    ("solution", (M,), lambda x: jnp.linalg.solve(x @ x.T / 8 + 3 * jnp.eye(x.shape[0]), x)),
    ("choice", (P, V, V), lambda p, x, y: jnp.where(p, x[: y.size], y[: x.size])),
    ("mask", (M, S), lambda x, s: jnp.where(x > s, x, 0)),
    ("polynomial", (V, S), lambda x, s: jnp.polyval(x, s)),
    ("distances", (M, R), lambda x, v: jnp.sum((x - v) ** 2, 1)),
    ("roll", (V, AT), jnp.roll),
    ("turned", (M,), lambda x: (jnp.flip(x), x.T, jnp.rot90(x), jnp.tile(x, 2))),
    ("padded", (M, S), lambda x, s: jnp.pad(x, 2, constant_values=s)),
    ("walk", (M, R), _walked),
    ("while", (V, AT), _while_less),
    ("branch", (V, AT), _branch),
    ("loop", (V, AT), lambda x, n: lax.fori_loop(0, 4, lambda k, c: c.at[(k + n) % c.size].add(1), x)),
    ("bits", (IS,), lambda i: (lax.population_count(i), i << 3, i // 3, i % 5, lax.clz(i))),
    ("narrow", (M,), lambda x: (x.astype(jnp.bfloat16) @ x.astype(jnp.bfloat16).T, x.astype(jnp.int8))),
    ("gradient of a layer", (M,), jax.grad(_squared(lambda x: jnp.tanh(x @ x.T)))),
    ("gradient of rows", (M, IS), jax.grad(_squared(lambda x, i: jnp.take(x, i, 0)))),
    ("gradient of an element", (V, AT), jax.grad(_squared(lambda x, i: x[i]))),
    ("gradient of pooling", (M,), jax.grad(_squared(_pooled))),
    ("gradient of a convolution", (M, M), jax.grad(_squared(lambda x, k: _convolved(x, k[:3, :3])), (0, 1))),
    ("gradient of a maximum", (M,), jax.grad(_squared(lambda x: x.max(1)))),
    ("gradient of a walk", (M, R), jax.grad(lambda x, v: jnp.sum(_walked(x, v)[1] ** 2))),
    ("gradient of running sums", (M,), jax.grad(_squared(lambda x: jnp.cumsum(x, 1)))),
)
"""Functions that are often vmapped: name, arguments, function."""


QUADRATIC = frozenset(("square", "outer", "correlation", "convolution", "gradient of a convolution"))
"""Functions that long arguments make very large or slow."""
LONG = (130, 257, 1030, 4100)


def _argument(kind: str, choose: random.Random, dims: tuple[int, int], dtype: str) -> Array:
    rng = np.random.default_rng(choose.randrange(1000))
    if kind in (AT, IS):
        return rng.integers(0, min(dims), () if kind == AT else (choose.choice(SIZES),)).astype(np.int32)
    if kind == P:
        return np.asarray(rng.integers(0, 2), np.bool_)
    shape = {M: dims, V: dims[:1], R: dims[1:], S: ()}[kind]
    return rng.integers(-6, 7, shape).astype(dtype)


@lru_cache(256)
def catalogued(number: int) -> tuple[str, Fun, tuple[Array, ...]]:
    """A function of the catalogue with arguments: small whole numbers, so that most sums are exact."""
    choose = random.Random(f"catalogue {number}")
    name, kinds, f = CATALOGUE[number % len(CATALOGUE)]
    dims = (choose.choice(SIZES), choose.choice((2, 3, *SIZES)))
    if name not in QUADRATIC and choose.random() < 0.2:
        dims = (choose.choice((2, 3, 4, 8)), choose.choice(LONG)) if M in kinds else (choose.choice(LONG), dims[1])
    dtype = choose.choice(("float32", "float32", "float32", "int32")) if "gradient" not in name else "float32"
    return name, f, tuple(_argument(k, choose, dims, dtype) for k in kinds)


@lru_cache(256)
def drawn(number: int) -> tuple[str, Fun, tuple[Array, ...]]:
    """A random function with arguments."""
    rng = random.Random(f"function {number}")
    with jax.enable_x64(True):
        f, arguments = draw_function(Draw(rng.randint), (1, 2, 3, *SIZES))
        return "", f, tuple(np.asarray(a) for a in arguments)


JAX_FEEDS: dict[str, Callable[[int], tuple[str, Fun, tuple[Array, ...]]]] = {"catalogue": catalogued, "jax": drawn}


def lowered(f: Fun, arguments: Sequence[Array]) -> Module:
    """The module of a function with all of its arguments. Unavailable if JAX refuses it."""
    with jax.enable_x64(True):
        try:
            stage = jax.jit(f, keep_unused=True).lower(*arguments)
        except Exception as error:
            raise Unavailable(f"JAX: {type(error).__name__}") from None
        hlo: Any = stage.compiler_ir("hlo")
        return Module.from_proto(hlo.as_serialized_hlo_module_proto())


@lru_cache(256)
def function(feed: str, number: int, target: str) -> Function:
    """The function itself."""
    _, f, arguments = JAX_FEEDS[feed](number)
    module = lowered(f, arguments)
    base(module, arguments, lambda arguments: [])
    return base(module, arguments, Compiled(module, target))


# --- laws -------------------------------------------------------------------------------------------------------------


def vmapped(feed: str, number: int, target: str, choose: random.Random, size: int) -> Function:
    """A vmapped function gives the stack of what it gives for single elements."""
    _, f, arguments = JAX_FEEDS[feed](number)
    return _vmapped(function(feed, number, target), jax.vmap, f, arguments, choose, size)


def gradients(feed: str, number: int, target: str, choose: random.Random, size: int) -> Function:
    """The gradient of a sum over a vmapped function is the stack of gradients."""
    _, f, arguments = JAX_FEEDS[feed](number)
    if arguments[0].dtype not in (np.float32, np.float64):
        raise Unavailable("no gradient")

    def value(*args: Any) -> Any:
        leaves = [v for v in jax.tree.leaves(f(*args)) if jnp.issubdtype(v.dtype, jnp.floating)]
        return sum(jnp.sum(v.astype(jnp.float32) ** 2) for v in leaves) / 4

    def mapped(g: Fun, axes: Any, outputs: Any) -> Fun:
        return jax.grad(lambda *args: jnp.sum(jax.vmap(value, axes, 0)(*args)))

    module = lowered(jax.grad(value), arguments)
    single = base(module, arguments, Compiled(module, target))
    return _vmapped(single, mapped, value, arguments, choose, size, argument=0)


def _vmapped(
    single: Function,
    transform: Fun,
    f: Fun,
    arguments: Sequence[Array],
    choose: random.Random,
    size: int,
    argument: int | None = None,
) -> Function:
    """A function transformed over a batch; `argument`: its result is the batch's gradient for that one."""
    axes = axes_of(arguments, choose)
    if argument is not None and axes[argument] is None:
        axes[argument] = 0
    if size * sum(r.shape.size for r in single.results) > 1 << 19:
        raise Unavailable("too many elements")
    given, distinct = stacked(arguments, axes, size, choose)
    outputs: tuple[int, ...]
    if argument is not None:
        outputs = (axes[argument] or 0,)
        module = lowered(transform(f, tuple(axes), 0), given)
    else:
        at = choose.choice((0, 0, 0, 1, -1))
        least = min(r.shape.rank for r in single.results)
        at = at if at <= least else 0
        outputs = tuple(at % (r.shape.rank + 1) for r in single.results)
        module = lowered(transform(f, tuple(axes), at), given)
    meaning = elements(single.meaning, axes, outputs, size)
    made = base(module, given, meaning)
    return Function(made.computation, made.arguments, meaning, distinct, False, Batch(size, tuple(axes), outputs))


JAX_LAWS: dict[str, Callable[[str, int, str, random.Random, int], Function]] = {
    "vmapped": vmapped,
    "gradients": gradients,
}


def tangents(feed: str, number: int, way: Way, choose: random.Random, size: int) -> str:
    """Tangents are linear, and <J v, u> = <v, J^T u>. Returns what is wrong, "" if nothing is."""
    _, f, arguments = JAX_FEEDS[feed](number)
    places = [i for i, a in enumerate(arguments) if a.dtype in (np.float32, np.float64)]
    if not places:
        raise Unavailable("no tangents")
    if size:
        axes = axes_of(arguments, choose)
        arguments = tuple(stacked(arguments, axes, size, choose)[0])
        single = f
        f = jax.vmap(lambda *args: single(*args), tuple(axes))
    rest = [a for i, a in enumerate(arguments) if i not in places]

    def of(*inputs: Any) -> list[Any]:
        given, fixed = iter(inputs), iter(rest)
        leaves = jax.tree.leaves(f(*(next(given) if i in places else next(fixed) for i in range(len(arguments)))))
        return [v for v in leaves if v.dtype in (jnp.float32, jnp.float64)]

    inputs = [arguments[i] for i in places]
    rng = np.random.default_rng(choose.randrange(1000))

    def like(a: Any) -> Array:
        return rng.integers(-3, 4, a.shape).astype(a.dtype)

    with jax.enable_x64(True):
        try:
            outputs = jax.eval_shape(of, *inputs)
        except Exception as error:
            raise Unavailable(f"JAX: {type(error).__name__}") from None
    if not outputs:
        raise Unavailable("no tangents")
    u, v, w = [like(a) for a in outputs], [like(a) for a in inputs], [like(a) for a in inputs]
    n = len(inputs)
    forward = lowered(lambda *a: jax.jvp(of, a[:n], a[n:])[1], [*inputs, *v])
    backward = lowered(lambda *a: jax.vjp(of, *a[:n])[1]([*a[n:]]), [*inputs, *u])
    run = _runner(forward, way.target)
    both = [(p + 2 * q).astype(p.dtype) for p, q in zip(v, w)]
    calls = [[*inputs, *t] for t in (v, w, both)]
    first, second, third = (run(call) for call in calls)
    back_call = [*inputs, *u]
    back = _runner(backward, way.target)(back_call)
    left, scale = _inner(first, u)
    right, other = _inner(back, v)
    message = ""
    slack = 1e-3 if any(a.dtype == np.float32 for a in (*inputs, *u)) else 1e-9
    if np.isfinite(left) and np.isfinite(right) and abs(left - right) > slack * (scale + other) + 1e-30:
        message = f"<J v, u> is {left}, <v, J^T u> is {right}"
    for x, y, z in zip(first, second, third):
        wanted, size_ = x.astype(np.float64) + 2.0 * y, np.abs(x).astype(np.float64) + 2.0 * np.abs(y)
        wrong = np.isfinite(wanted) & (np.abs(z - wanted) > slack * np.max(size_, initial=0, where=np.isfinite(size_)))
        if np.any(wrong):
            message = message or f"J(v + 2w) is {z[wrong][0]}, J v + 2 J w is {wanted[wrong][0]}"
    if not message:
        return ""
    # One of them is wrong, unless it is JAX that breaks the law, or rounding.
    for call, result in zip(calls, (first, second, third)):
        if told := difference_from_true(forward, call, result, []):
            return f"{message}; tangents: {told}\n{forward.to_text()}"
    told = difference_from_true(backward, back_call, back, [])
    return f"{message}; cotangents: {told}\n{backward.to_text()}" if told else ""


def _runner(module: Module, target: str) -> Callable[[Sequence[Array]], list[Array]]:
    executable = xla_wasm.load(xla_wasm.compile(module, xla_wasm.Options(**TARGETS[target])))
    return lambda arguments: list(executable.run(*arguments))


def _inner(a: Sequence[Array], b: Sequence[Array]) -> tuple[float, float]:
    """The inner product of lists of arrays, and of their magnitudes."""
    with np.errstate(all="ignore"):
        terms = [x.astype(np.float64) * y.astype(np.float64) for x, y in zip(a, b, strict=True)]
        return float(sum(np.sum(t) for t in terms)), float(sum(np.sum(np.abs(t)) for t in terms))
