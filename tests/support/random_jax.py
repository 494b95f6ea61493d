"""Random functions of JAX: pieces of numerical code put one after the other, and transformed as JAX's users do.

A piece is a function of JAX on an array; what is drawn beforehand fixes everything about it. The transformations are
gradients, Hessians, Jacobians in either direction, vmaps, and loops over the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.support.random_values import Draw, Skip
from xla_wasm.hlo.ir import Module
from xla_wasm.ops.dtypes import Array

Piece = Callable[[Any, Any], Any]
"""From the array so far and the argument beside it to the next array."""

FLOATS = ("float32", "float32", "float32", "float64", "bfloat16", "float16")
OTHERS = (
    "int32",
    "uint8",
    "int8",
    "int64",
    "uint32",
    "int16",
    "bool",
    "complex64",
    "int4",
    "uint16",
    "complex128",
    "float8_e4m3fn",
    "uint64",
)
SIZES = (1, 2, 3, 4, 5, 7, 8, 9)
MOST_ELEMENTS = 200


def _number(x: Any) -> bool:
    return jnp.issubdtype(x.dtype, jnp.number)


def _inexact(x: Any) -> bool:
    return jnp.issubdtype(x.dtype, jnp.inexact)


def _real(x: Any) -> bool:
    return jnp.issubdtype(x.dtype, jnp.floating)


def _complex(x: Any) -> bool:
    return jnp.issubdtype(x.dtype, jnp.complexfloating)


def _need(condition: bool) -> None:
    if not condition:
        raise Skip


def _axis(draw: Draw) -> Callable[[Any], int]:
    number = draw.integer(0, 11)

    def axis(x: Any) -> int:
        _need(x.ndim > 0)
        return number % x.ndim

    return axis


# --- pieces: each draws what it needs and gives a function
# ---------------------------------------------------------------


FUNCTIONS = (
    *(
        jnp.sin,
        jnp.tanh,
        jnp.exp,
        jax.nn.sigmoid,
        jax.nn.softplus,
        jnp.cos,
        jnp.square,
        jnp.abs,
        jnp.sign,
        jnp.floor,
        jax.nn.relu,
    ),
    *(jax.nn.gelu, jax.nn.silu, jnp.log1p, jnp.sqrt, jnp.arctan, lax.erf, jnp.cbrt, jnp.expm1, jnp.sinh),
)
REDUCTIONS = (
    *(jnp.sum, jnp.max, jnp.mean, jnp.min, jnp.prod, jnp.var, jnp.argmax, jax.nn.logsumexp, jnp.any, jnp.all, jnp.std),
    *(jnp.linalg.norm, jnp.median, jnp.ptp),
)
ALONG = (jax.nn.softmax, jax.nn.log_softmax, jax.nn.standardize, jnp.cumsum, jnp.cumprod, lax.cummax, lax.cumlogsumexp)


def _unary(draw: Draw) -> Piece:
    f = draw.pick(FUNCTIONS)

    def apply(x: Any, y: Any) -> Any:
        if not _inexact(x):
            return jnp.negative(x) if _number(x) else ~x
        if f in (jnp.exp, jnp.square, jnp.sinh, jnp.expm1):
            return f(x / 8 if not _complex(x) else x * 0.125)
        if f in (jnp.log1p, jnp.sqrt):
            return f(jnp.abs(x) + 1).astype(x.dtype)
        if _complex(x):
            return x * (1 - 2j)
        return f(x)

    return apply


def _binary(draw: Draw) -> Piece:
    f = draw.pick(
        (jnp.add, jnp.multiply, jnp.subtract, jnp.maximum, jnp.minimum, jnp.arctan2, jnp.hypot, jnp.divide, jnp.where)
    )
    turned = draw.chance(3)

    def apply(x: Any, y: Any) -> Any:
        z = (
            x.T
            if turned and x.ndim and x.shape == x.T.shape
            else jnp.resize(y, x.shape).astype(x.dtype)
            if y.size
            else x
        )
        if x.dtype == bool:
            return x ^ z
        if f is jnp.where:
            return jnp.where(jnp.abs(x) > jnp.abs(z), x, z)
        if f is jnp.divide:
            return x / (jnp.abs(z) + 1) if _inexact(x) else x // jnp.maximum(z, 1) if _number(x) else x
        if f in (jnp.arctan2, jnp.hypot):
            return f(x, jnp.abs(z) + 1).astype(x.dtype) if _real(x) else x + z
        if f in (jnp.maximum, jnp.minimum) and _complex(x):
            return x - z
        return f(x, z)

    return apply


def _reduction(draw: Draw) -> Piece:
    f = draw.pick(REDUCTIONS)
    axis, keep = _axis(draw), draw.chance(2)

    def apply(x: Any, y: Any) -> Any:
        a = axis(x)
        _need(x.shape[a] > 0)
        if f in (jnp.any, jnp.all):
            return f(x > 0 if not _complex(x) else x != 0, axis=a, keepdims=keep).astype(x.dtype)
        if f is jnp.argmax:
            return f(x.real, axis=a).astype(x.dtype)
        if not _real(x) or f in (jnp.sum, jnp.mean):
            return jnp.sum(x, a, keepdims=keep).astype(x.dtype)
        if f is jnp.std:
            return jnp.sqrt(jnp.var(x, a, keepdims=keep) + 1)
        if f is jnp.linalg.norm:
            return jnp.sqrt(jnp.sum(x * x, a, keepdims=keep) + 1)
        return f(x, axis=a, keepdims=keep).astype(x.dtype)

    return apply


def _normalised(draw: Draw) -> Piece:
    f, axis = draw.pick(ALONG), _axis(draw)
    turned = draw.chance(3)

    def apply(x: Any, y: Any) -> Any:
        a = axis(x)
        if f in (jnp.cumsum, jnp.cumprod):
            z = x if f is jnp.cumsum or not _inexact(x) else x / 4
            return f(z, a).astype(x.dtype)
        _need(_real(x) and x.shape[a] > 0)
        if f in (lax.cummax, lax.cumlogsumexp):
            return f(x, a, reverse=turned)
        if f is jax.nn.standardize:
            return f(x, a, epsilon=0.5)
        return f(x, a)

    return apply


def _pairwise(draw: Draw) -> Piece:
    """A function of the differences or products of all pairs, as distances and kernels are."""
    f = draw.pick((lambda d: jnp.exp(-(d * d) / 8), jnp.tanh, jnp.sin, jnp.square, jnp.abs, lambda d: 1 / (1 + d * d)))
    product, summed = draw.chance(3), draw.integer(0, 3)

    def apply(x: Any, y: Any) -> Any:
        _need(_real(x) and x.ndim > 0 and x.size <= 64)
        v = x if x.ndim <= 2 else x.reshape(x.shape[0], -1)
        d = v[:, None] * v[None] / 8 if product else v[:, None] - v[None]
        if v.ndim == 2 and summed % 2:
            d = d.sum(-1)
        k = f(d).astype(x.dtype)
        return (k, k.sum(0), k.sum(0) + k.sum(1), k @ v if k.ndim == 2 else k)[summed]

    return apply


def _both_ways(draw: Draw) -> Piece:
    """A dear function of a square, reduced along rows and along columns, or beside its transpose, and combined."""
    f = draw.pick((jnp.sin, jnp.tanh, jax.nn.sigmoid, lambda x: jnp.exp(x / 8), jnp.arctan))
    g, h = (draw.pick((jnp.sum, jnp.max, jnp.mean, jax.nn.softmax, jnp.cumsum, jnp.flip)) for _ in range(2))
    turned = draw.chance(3)

    def apply(x: Any, y: Any) -> Any:
        _need(_real(x) and x.ndim >= 2 and x.shape[0] == x.shape[1] > 0)
        z = f(x).astype(x.dtype)
        w = jnp.swapaxes(z, 0, 1) if turned else z
        first, second = g(z, axis=0), h(w, axis=1)
        return first + second

    return apply


def _moved(draw: Draw) -> Piece:
    kind, number, axis = draw.integer(0, 9), draw.integer(0, 6), _axis(draw)

    def apply(x: Any, y: Any) -> Any:
        a = axis(x)
        n = x.shape[a]
        ways: list[Callable[[], Any]] = [
            lambda: x.T,
            lambda: jnp.flip(x, a),
            lambda: jnp.roll(x, number, a),
            lambda: lax.slice_in_dim(x, min(number, n), n, 1 + number % 2, a),
            lambda: jnp.moveaxis(x, a, 0),
            lambda: jnp.concatenate([x, jnp.flip(x, a)], a),
            lambda: jnp.pad(x, [(number % 3 * (d == a), 1 * (d == a)) for d in range(x.ndim)]),
            lambda: x.reshape(-1),
            lambda: jnp.repeat(x, 1 + number % 3, a),
            lambda: jnp.expand_dims(x, a),
        ]
        return ways[kind]()

    return apply


def _ordered(draw: Draw) -> Piece:
    kind, axis, k = draw.integer(0, 4), _axis(draw), draw.integer(1, 4)

    def apply(x: Any, y: Any) -> Any:
        a = axis(x)
        _need(not _complex(x) and x.shape[a] > 0 and x.dtype.itemsize > 0)
        if kind == 0:
            return jnp.sort(x, a)
        if kind == 1:
            return jnp.take_along_axis(x, jnp.argsort(x, a), a)
        if kind == 2:
            _need(x.dtype != bool)
            return lax.top_k(x, min(k, x.shape[-1]))[0]
        if kind == 3:
            keys, values = lax.sort((x, jnp.flip(x, a)), dimension=a, num_keys=1)
            return keys + values if x.dtype != bool else keys ^ values
        return jnp.argsort(jnp.argsort(x, a), a).astype(x.dtype)

    return apply


def _indexed(draw: Draw) -> Piece:
    kind, axis, number = draw.integer(0, 6), _axis(draw), draw.integer(-2, 6)
    places = [draw.integer(-1, 5) for _ in range(draw.integer(1, 5))]

    def apply(x: Any, y: Any) -> Any:
        a = axis(x)
        n = x.shape[a]
        _need(n > 0)
        at = jnp.array(places)
        computed = jnp.abs(jnp.sum(y.real.astype(jnp.float32))).astype(jnp.int32) % 7 - 1 + number
        if kind == 0:
            return jnp.take(x, at, a, mode="clip")
        if kind == 1:
            return lax.dynamic_slice_in_dim(x, computed, max(1, n // 2), a)
        if kind == 2:
            return lax.dynamic_update_slice_in_dim(
                x, lax.slice_in_dim(x, 0, max(1, n // 2), axis=a) * x.dtype.type(2), computed, a
            )
        if kind == 3:
            return x.at[at % n if x.ndim else ()].add(x.dtype.type(1)) if _number(x) else x
        if kind == 4:
            return x.at[at].set(x[(at + 1) % x.shape[0]], mode="drop") if x.shape[0] else x
        if kind == 5:
            return jax.ops.segment_sum(x, jnp.arange(x.shape[0]) % 3, 4) if _number(x) else x
        return x.at[at].max(x[0], mode="drop") if x.shape[0] and not _complex(x) and _number(x) else x

    return apply


def _product(draw: Draw) -> Piece:
    kind, axis = draw.integer(0, 5), _axis(draw)

    def apply(x: Any, y: Any) -> Any:
        a = axis(x)
        _need(_number(x) and x.size <= 100)
        z = x * x.dtype.type(0.25) if _inexact(x) else x
        if kind == 0:
            return jnp.tensordot(z, x, ((a,), (a,)))
        if kind == 1:
            return jnp.einsum("...i,...i->...", z, x)
        if kind == 2:
            _need(x.ndim >= 2)
            return z @ jnp.swapaxes(x, -1, -2)
        if kind == 3:
            _need(x.ndim == 1)
            return jnp.outer(z, x) + x
        if kind == 4:
            _need(x.ndim == 1 and x.size > 0)
            return jnp.convolve(z, x[:3], "same")
        _need(x.ndim >= 2)
        return jnp.einsum("...ij,...ik->...jk", z, x)

    return apply


def _loop(draw: Draw) -> Piece:
    kind, trips, axis = draw.integer(0, 5), draw.integer(0, 4), _axis(draw)
    inner = _pieces(draw, 2, (_unary, _binary, _moved, _normalised))

    def body(x: Any, y: Any) -> Any:
        z = inner(x, y)
        return z.astype(x.dtype) if z.shape == x.shape else x * x.dtype.type(1)

    def apply(x: Any, y: Any) -> Any:
        if kind == 0:
            return lax.fori_loop(0, trips, lambda i, c: body(c, y), x)
        if kind == 1:
            _need(x.ndim > 1)
            c, ys = lax.scan(
                lambda c, r: (body(c, y) + r if _number(x) else c ^ r, c * r),
                x[0] if x.shape[0] else jnp.zeros(x.shape[1:], x.dtype),
                x,
            )
            return ys if trips % 2 else c
        if kind == 2:
            return lax.cond(jnp.sum(y.real) > trips, lambda v: body(v, y), lambda v: v * v.dtype.type(1), x)
        if kind == 3:
            _need(x.ndim > 0 and x.shape[0] > 0)
            return lax.map(lambda r: inner(r, y), x)
        if kind == 4:
            _need(x.ndim > 0 and not _complex(x) and x.shape[axis(x)] > 0)
            return lax.associative_scan(jnp.maximum if x.dtype != bool else jnp.logical_or, x, axis=axis(x))
        return lax.switch(trips % 3, [lambda v: v, lambda v: body(v, y), lambda v: -v if _number(v) else v], x)

    return apply


def _while(draw: Draw) -> Piece:
    """A loop whose end depends on what it computes: no gradient goes backwards through it."""
    limit = draw.integer(0, 5)

    def apply(x: Any, y: Any) -> Any:
        _need(_real(x) and x.size > 0)
        return lax.while_loop(
            lambda c: c[0] < limit, lambda c: (c[0] + 1, jnp.tanh(c[1]) + c[1] / 2), (0, lax.stop_gradient(x))
        )[1]

    return apply


def _linear(draw: Draw) -> Piece:
    kind = draw.integer(0, 5)

    def apply(x: Any, y: Any) -> Any:
        _need(x.ndim >= 2 and x.dtype in (jnp.float32, jnp.float64) and x.shape[-1] <= 5 and 0 < x.size)
        n = x.shape[-1]
        square = jnp.swapaxes(x, -1, -2) @ x / 64 + jnp.eye(n, dtype=x.dtype) * 3
        if kind == 0:
            return jnp.linalg.cholesky(square)
        if kind == 1:
            return jnp.linalg.solve(square, jnp.swapaxes(x, -1, -2))
        if kind == 2:
            return lax.linalg.triangular_solve(square, x, left_side=False, lower=True)
        if kind == 3:
            return jnp.linalg.det(square)
        if kind == 4:
            return jnp.linalg.inv(square)
        return jnp.linalg.slogdet(square)[1]

    return apply


def _spectrum(draw: Draw) -> Piece:
    kind = draw.integer(0, 2)

    def apply(x: Any, y: Any) -> Any:
        _need(x.ndim > 0 and x.dtype in (jnp.float32, jnp.float64) and x.shape[-1] > 0)
        if kind == 0:
            return jnp.abs(jnp.fft.rfft(x)) ** 2 / 16
        if kind == 1:
            return jnp.fft.ifft(jnp.fft.fft(x)).real.astype(x.dtype)
        return jnp.fft.irfft(jnp.fft.rfft(x) * 2, x.shape[-1]).astype(x.dtype)

    return apply


def _window(draw: Draw) -> Piece:
    kind, size, stride, padding = (
        draw.integer(0, 3),
        draw.integer(1, 3),
        draw.integer(1, 2),
        draw.pick(("VALID", "SAME")),
    )

    def apply(x: Any, y: Any) -> Any:
        _need(_real(x) and x.ndim >= 2 and min(x.shape) >= size)
        window, strides = (1,) * (x.ndim - 1) + (size,), (1,) * (x.ndim - 1) + (stride,)
        if kind == 0:
            return lax.reduce_window(x, x.dtype.type(0), lax.add, window, strides, padding)
        if kind == 1:
            return lax.reduce_window(x, x.dtype.type(-np.inf), lax.max, window, strides, padding)
        image = x.reshape(1, 1, -1, x.shape[-1])
        kernel = (
            jnp.resize(y.real, (2, 1, size, size)).astype(x.dtype) if y.size else jnp.ones((2, 1, size, size), x.dtype)
        )
        _need(min(image.shape[2:]) >= size)
        return lax.conv_general_dilated(
            image, kernel / 4, (stride, 1), padding, rhs_dilation=(1, 1 + (kind == 3 and padding == "SAME"))
        )[0]

    return apply


def _narrowed(draw: Draw) -> Piece:
    dtype, back = (
        draw.pick(("bfloat16", "float16", "int8", "float8_e5m2", "float64", "int32", "uint8", "float8_e4m3fn")),
        draw.chance(2),
    )

    def apply(x: Any, y: Any) -> Any:
        if _complex(x) or (_inexact(x) and "float" not in dtype):
            return x.real if _complex(x) else jnp.round(jnp.clip(x, 0, 100)).astype(x.dtype)
        return x.astype(dtype).astype(x.dtype) if back else x.astype(dtype)

    return apply


PIECES = (
    *(
        _unary,
        _unary,
        _unary,
        _binary,
        _binary,
        _binary,
        _reduction,
        _reduction,
        _reduction,
        _normalised,
        _normalised,
        _moved,
        _moved,
    ),
    *(
        _moved,
        _ordered,
        _ordered,
        _indexed,
        _indexed,
        _product,
        _product,
        _loop,
        _loop,
        _while,
        _linear,
        _spectrum,
        _window,
        _narrowed,
    ),
    *(_pairwise, _pairwise, _both_ways, _both_ways),
)


def _pieces(draw: Draw, most: int, kinds: tuple[Callable[[Draw], Piece], ...]) -> Piece:
    """Several pieces one after the other; what does not fit is left out, and what is too large is cut."""
    drawn = [draw.pick(kinds)(draw) for _ in range(draw.integer(1, most))]
    kept = [draw.chance(4) for _ in drawn]

    def apply(x: Any, y: Any) -> Any:
        for piece, keep in zip(drawn, kept):
            try:
                z = piece(x, y)
            except Skip:
                continue
            if z.size > MOST_ELEMENTS or z.ndim > 5:
                continue
            x = (
                z + x.astype(z.dtype)
                if keep and z.shape == x.shape and _number(z) and not (_complex(x) and not _complex(z))
                else z
            )
        return x

    return apply


def _scalar(f: Piece) -> Piece:
    return lambda x, y: jnp.sum(jnp.real(f(x, y)).astype(jnp.promote_types(jnp.real(x).dtype, jnp.float32)) ** 2) / 4


def _transformed(draw: Draw, f: Piece, differentiable: bool) -> Piece:
    """The function, or what JAX derives of it."""
    ways: list[Callable[[Piece], Piece]] = [
        lambda f: f,
        lambda f: lambda x, y: jax.vmap(f, (0, None))(x, y) if x.ndim and x.shape[0] else f(x, y),
        lambda f: lambda x, y: jax.vmap(f, (-1, None), -1)(x, y) if x.ndim > 1 and x.shape[-1] else f(x, y),
    ]
    if differentiable:
        g = _scalar(f)
        ways += [
            lambda f: lambda x, y: jax.grad(g)(x, y),
            lambda f: lambda x, y: jax.value_and_grad(g, (0, 1))(x, y),
            *[lambda f: lambda x, y: jax.hessian(g)(x, y) if x.size <= 16 else jax.grad(g)(x, y)] * 4,
            lambda f: lambda x, y: jax.jvp(f, (x, y), (jnp.ones_like(x), y)),
            lambda f: lambda x, y: jax.jacfwd(f)(x, y) if x.size <= 32 else jax.grad(g)(x, y),
            lambda f: (
                lambda x, y: (
                    jax.jacrev(lambda x: jnp.real(f(x, y)).reshape(-1)[:20])(x) if x.size <= 64 else jax.grad(g)(x, y)
                )
            ),
            lambda f: (
                lambda x, y: jax.vmap(jax.grad(g), (0, None))(x, y) if x.ndim > 1 and x.shape[0] else jax.grad(g)(x, y)
            ),
            lambda f: lambda x, y: jax.grad(lambda x: jnp.sum(jax.grad(g)(x, y) ** 2))(x),
            lambda f: lambda x, y: jax.grad(lambda x: jax.checkpoint(g)(x, y))(x),
            lambda f: lambda x, y: jax.linearize(lambda x: f(x, y), x)[1](jnp.ones_like(x)),
        ]
    return draw.pick(ways)(f)


def _argument(draw: Draw, dtype: str, dims: tuple[int, ...]) -> Any:
    """Multiples of a quarter for floats, so that equal elements occur and most comparisons are clear."""
    rng = np.random.default_rng(draw.integer(0, 9))
    if dtype == "bool":
        return rng.integers(0, 2, dims).astype(bool)
    low = 0 if dtype[0] == "u" else -6
    numbers = rng.integers(low, 7, dims)
    if "complex" in dtype:
        return jnp.asarray((numbers + 1j * rng.integers(-6, 7, dims)) / 4, dtype)
    return jnp.asarray(numbers / 4 if "float" in dtype else numbers, dtype)


def draw_jax(draw: Draw) -> tuple[Module, list[Array]]:
    """A function lowered to HLO, and its arguments."""
    with jax.enable_x64(True):
        return _drawn(draw)


def _drawn(draw: Draw) -> tuple[Module, list[Array]]:
    f, (x, y) = draw_function(draw)
    lowered = jax.jit(f).lower(x, y)
    hlo: Any = lowered.compiler_ir("hlo")
    module = Module.from_proto(hlo.as_serialized_hlo_module_proto())
    kept = lowered._lowering.compile_args["kept_var_idx"]
    return module, [np.asarray(a) for i, a in enumerate((x, y)) if i in kept]


def draw_function(draw: Draw, sizes: Sequence[int] = SIZES) -> tuple[Piece, tuple[Any, Any]]:
    """A function of two arrays whose dimensions have such sizes, and arguments."""
    floating = not draw.chance(4)
    dtype = draw.pick(FLOATS) if floating else draw.pick(OTHERS)
    few = draw.chance(2)
    rank = draw.integer(1, 2) if few else draw.integer(0, 3)
    n = draw.pick(sizes[1 : 6 - rank] if few else sizes)
    dims = (n,) * rank if few or draw.chance(2) else tuple(draw.pick(sizes) for _ in range(rank))
    if draw.chance(20):
        dims = (*dims[:-1], 0)
    dims = dims if prod(dims) <= MOST_ELEMENTS else dims[:2]
    x = _argument(draw, dtype, dims)
    y = _argument(draw, dtype, (draw.pick(sizes),))
    return _transformed(draw, _pieces(draw, 3 if few else 7, PIECES), floating), (x, y)
