"""Whole programs around linear algebra, sorting, Fourier transforms and random numbers."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, nn, random
from jax.flatten_util import ravel_pytree
from jax.scipy import linalg

from tests.support.programs import Program, Random, Tree, mlp, mlp_params, program

# Linear algebra


def _definite(r: Random, *dims: int) -> np.ndarray:
    """Symmetric matrices whose eigenvalues are about 1 to 4."""
    x = r.normal(*dims, dims[-1], scale=dims[-1] ** -0.5)
    return np.asarray(x @ np.swapaxes(x, -1, -2) + np.eye(dims[-1]), np.float32)


def _square(r: Random, *dims: int) -> np.ndarray:
    """Matrices that are far enough from singular."""
    return np.asarray(r.normal(*dims, dims[-1], scale=0.3) + 1.5 * np.eye(dims[-1])[::-1], np.float32)


@program
def flow_with_slogdet() -> Program:
    """A normalising flow: invertible mixing of channels and affine couplings. The likelihood of a batch and its
    gradient."""

    def likelihood(params: Tree, x: Any) -> Any:
        total = jnp.zeros(x.shape[0])
        for layer in params:
            x = x @ layer["mix"].T
            total = total + jnp.linalg.slogdet(layer["mix"])[1]
            kept, moved = jnp.split(x, 2, -1)
            scale, shift = jnp.split(mlp(layer["net"], kept), 2, -1)
            scale = jnp.tanh(scale)
            x = jnp.concatenate([moved * jnp.exp(scale) + shift, kept], -1)
            total = total + scale.sum(-1)
        return (total - 0.5 * jnp.sum(x * x, -1) - x.shape[-1] / 2 * np.log(2 * np.pi)).mean()

    r = Random(201)
    layers = [{"mix": _square(r, 6), "net": mlp_params(r, 3, 16, 6)} for _ in range(2)]
    return Program(
        lambda *args: (likelihood(*args), ravel_pytree(jax.grad(likelihood)(*args))[0]), (layers, r.normal(48, 6))
    )


@program
def flow_inverted() -> Program:
    def sample(params: Tree, z: Any) -> Any:
        for layer in params:
            moved, kept = jnp.split(z, 2, -1)
            scale, shift = jnp.split(mlp(layer["net"], kept), 2, -1)
            moved = (moved - shift) * jnp.exp(-jnp.tanh(scale))
            z = jnp.linalg.solve(layer["mix"], jnp.concatenate([kept, moved], -1).T).T
        return z, [jnp.linalg.inv(layer["mix"]) for layer in params]

    r = Random(202)
    layers = [{"mix": _square(r, 6), "net": mlp_params(r, 3, 16, 6)} for _ in range(2)]
    return Program(sample, (layers, r.normal(12, 6)))


@program
def solving() -> Program:
    def fn(a: Any, b: Any, spd: Any) -> Any:
        factor = jnp.linalg.cholesky(spd)
        lower = linalg.solve_triangular(factor, b[0], lower=True)
        return (
            jnp.linalg.solve(a, b),
            jnp.linalg.det(a),
            jnp.linalg.inv(spd),
            factor,
            lower,
            linalg.cho_solve((factor, True), b[0]),
        )

    r = Random(203)
    return Program(fn, (_square(r, 3, 7), r.normal(3, 7, 2), _definite(r, 7)))


@program
def solving_gradient() -> Program:
    def loss(a: Any, b: Any, spd: Any) -> Any:
        x = jnp.linalg.solve(a, b)
        return jnp.sum(x * x) + jnp.sum(jnp.log(jnp.diagonal(jnp.linalg.cholesky(spd), axis1=-2, axis2=-1)))

    r = Random(204)
    return Program(
        jax.value_and_grad(loss, argnums=(0, 1, 2)), (_square(r, 2, 5), r.normal(2, 5, 3), _definite(r, 2, 5))
    )


@program
def solving_complex_doubles() -> Program:
    def fn(re: Any, im: Any) -> Any:
        a = re + 1j * im + 2 * jnp.eye(5)
        spd = a @ jnp.conj(a.T) + jnp.eye(5)
        x = jnp.linalg.solve(a, a[:, :2])
        return x.real, x.imag, jnp.abs(jnp.linalg.det(a)), jnp.linalg.cholesky(spd).real, jnp.linalg.slogdet(a)[1]

    r = Random(205)
    return Program(fn, (r.normal(5, 5).astype(np.float64), r.normal(5, 5).astype(np.float64)), x64=True)


@program
def gaussian_process() -> Program:
    """Mean and variance at new points, and the likelihood with its gradient by the kernel's parameters."""

    def kernel(p: Tree, a: Any, b: Any) -> Any:
        distance = jnp.sum((a[:, None] - b[None]) ** 2, -1) / jnp.exp(2 * p["scale"])
        return jnp.exp(2 * p["height"] - 0.5 * distance)

    def fit(p: Tree, x: Any, y: Any) -> tuple[Any, Any]:
        factor = linalg.cholesky(kernel(p, x, x) + jnp.exp(2 * p["noise"]) * jnp.eye(x.shape[0]), lower=True)
        return factor, linalg.cho_solve((factor, True), y)

    def likelihood(p: Tree, x: Any, y: Any) -> Any:
        factor, weights = fit(p, x, y)
        return 0.5 * y @ weights + jnp.sum(jnp.log(jnp.diag(factor))) + 0.5 * len(x) * np.log(2 * np.pi)

    def run(p: Tree, x: Any, y: Any, new: Any) -> Any:
        factor, weights = fit(p, x, y)
        across = kernel(p, x, new)
        half = linalg.solve_triangular(factor, across, lower=True)
        variance = jnp.exp(2 * p["height"]) - jnp.sum(half * half, 0)
        return across.T @ weights, variance, jax.value_and_grad(likelihood)(p, x, y)

    r = Random(206)
    params = {"scale": np.float32(0.1), "height": np.float32(0.2), "noise": np.float32(-1.0)}
    x = r.normal(24, 2)
    return Program(run, (params, x, np.sin(x).sum(-1) + r.normal(24, scale=0.1), r.normal(9, 2)))


@program
def kalman_filter() -> Program:
    def run(a: Any, h: Any, q: Any, noise: Any, seen: Any) -> Any:
        def step(state: Any, y: Any) -> Any:
            mean, cov = state
            mean, cov = a @ mean, a @ cov @ a.T + q
            innovation = h @ cov @ h.T + noise
            gain = linalg.cho_solve(linalg.cho_factor(innovation), h @ cov).T
            mean = mean + gain @ (y - h @ mean)
            return (mean, cov - gain @ h @ cov), mean

        start = (jnp.zeros(a.shape[0], a.dtype), jnp.eye(a.shape[0], dtype=a.dtype))
        return lax.scan(step, start, seen)

    r = Random(207)
    args = (
        np.float32(0.9 * np.eye(4) + r.normal(4, 4, scale=0.05)),
        r.normal(2, 4),
        np.float32(0.1 * np.eye(4)),
        _definite(r, 2),
        r.normal(10, 2),
    )
    return Program(run, args)


# Searches and sorts


@program
def nearest_neighbours() -> Program:
    def fn(points: Any, labels: Any, queries: Any) -> Any:
        distances = jnp.sum(queries**2, -1)[:, None] - 2 * queries @ points.T + jnp.sum(points**2, -1)
        nearest, which = lax.top_k(-distances, 5)
        votes = nn.one_hot(labels[which], 4).sum(1)
        return -nearest, which, jnp.argmax(votes, -1)

    r = Random(211)
    return Program(fn, (r.normal(60, 8), r.integers(4, 60), r.normal(11, 8)))


@program
def sorts() -> Program:
    def fn(x: Any, ids: Any) -> Any:
        order = jnp.argsort(x, axis=-1, descending=True)
        keys = lax.sort((ids, x[0, : ids.shape[0]], jnp.arange(ids.shape[0])), num_keys=2)
        parts = (
            jnp.median(x, 1),
            jnp.quantile(x, jnp.array([0.1, 0.75]), axis=1),
            jnp.searchsorted(jnp.sort(x[0]), x[1]),
        )
        return (
            jnp.sort(x, 0),
            order,
            jnp.take_along_axis(x, order, -1),
            keys,
            parts,
            jnp.unique(ids, size=9, return_counts=True),
        )

    r = Random(212)
    return Program(fn, (r.normal(5, 23), r.integers(7, 19)))


@program
def nucleus_sampling() -> Program:
    """The next token among those that make up 90 % of the probability."""

    def fn(logits: Any, noise: Any) -> Any:
        best, which = lax.top_k(logits, 20)
        mass = jnp.cumsum(nn.softmax(best), -1)
        kept = jnp.where(mass - nn.softmax(best) < 0.9, best, -jnp.inf)
        choice = jnp.argmax(kept + noise, -1)
        return jnp.take_along_axis(which, choice[:, None], -1)[:, 0], jnp.sum(jnp.isfinite(kept), -1)

    r = Random(213)
    return Program(fn, (r.normal(4, 50, scale=2), -np.log(-np.log(r.rng.random((4, 20)))).astype(np.float32)))


# Fourier transforms


@program
def fft_convolution() -> Program:
    def fn(x: Any, kernel: Any) -> Any:
        size = x.shape[-1] + kernel.shape[-1] - 1
        direct = jax.vmap(lambda row: jnp.convolve(row, kernel, mode="full"))(x)
        return jnp.fft.irfft(jnp.fft.rfft(x, size) * jnp.fft.rfft(kernel, size), size), direct

    r = Random(221)
    return Program(fn, (r.normal(3, 50), r.dense(15)))


@program
def fft_filter_of_images() -> Program:
    def fn(x: Any, width: Any) -> Any:
        fy, fx = jnp.fft.fftfreq(x.shape[-2])[:, None], jnp.fft.rfftfreq(x.shape[-1])
        spectrum = jnp.fft.rfft2(x)
        smooth = jnp.fft.irfft2(spectrum * jnp.exp(-2 * (np.pi * width) ** 2 * (fx**2 + fy**2)), s=x.shape[-2:])
        return smooth, jnp.abs(spectrum) ** 2, jnp.fft.fftshift(jnp.abs(jnp.fft.fft(x, axis=0)), 0)

    return Program(fn, (Random(222).normal(2, 12, 15), np.float32(0.7)))


@program
def fft_gradient() -> Program:
    def loss(x: Any, mask: Any) -> Any:
        return jnp.sum(jnp.abs(jnp.fft.fft(x) * mask) ** 2) + jnp.sum(jnp.fft.ifft(jnp.fft.fft(x) * mask).real ** 3)

    r = Random(223)
    return Program(jax.grad(loss, argnums=(0, 1)), (r.normal(4, 24), np.abs(r.normal(24))))


# Random numbers


def _keyed(impl: str, draw: Any, count: int = 1, x64: bool = False) -> Program:
    """`draw` of a key that the seed makes, or of several."""

    def fn(seed: Any) -> Any:
        key = random.fold_in(random.key(7, impl=impl), seed)
        return draw(key) if count == 1 else draw(*random.split(key, count))

    return Program(fn, (np.int32(11),), x64=x64, exact=True)


def _exact(*keys: Any) -> Any:
    """Returns results that are made of bits by exact operations."""
    a, b, c, d, e, f, g = keys
    data = jnp.arange(20.0).reshape(10, 2)
    return (
        random.uniform(a, (5, 7)),
        random.uniform(a, (9,), minval=-2, maxval=6),
        random.randint(b, (11,), -5, 1000),
        random.bernoulli(c, 0.3, (4, 5)),
        random.permutation(d, 17),
        random.permutation(d, data, axis=0),
        random.choice(e, 30, (6,)),
        random.choice(e, data, (4,), replace=False),
        random.rademacher(f, (9,)),
        random.key_data(random.split(g, (2, 2))),
        random.key_data(random.clone(g)),
    )


def _bits(key: Any) -> Any:
    return tuple(random.bits(key, (3, 5), dtype) for dtype in (jnp.uint8, jnp.uint16, jnp.uint32, jnp.uint64))


def _bits64(key: Any) -> Any:
    wide = random.uniform(key, (4, 3), jnp.float64), random.randint(key, (5,), -(2**40), 2**60, jnp.int64)
    return *_bits(key), *wide, random.uniform(key, (6,), jnp.bfloat16), random.uniform(key, (6,), jnp.float16)


@program
def threefry_exact() -> Program:
    return _keyed("threefry2x32", _exact, 7)


@program
def rbg_exact() -> Program:
    return _keyed("rbg", _exact, 7)


@program
def unsafe_rbg_exact() -> Program:
    return _keyed("unsafe_rbg", _exact, 7)


@program
def threefry_bits() -> Program:
    return _keyed("threefry2x32", _bits64, x64=True)


@program
def rbg_bits() -> Program:
    return _keyed("rbg", _bits64, x64=True)


def _continuous(*keys: Any) -> Any:
    a, b, c, d, e, f, g, h = keys
    return (
        random.normal(a, (3, 7)),
        random.truncated_normal(b, -1.0, 2.0, (8,)),
        random.exponential(c, (6,)),
        random.laplace(d, (6,)),
        random.cauchy(e, (6,)),
        random.gumbel(f, (6,)),
        random.logistic(g, (6,)),
        random.weibull_min(h, 1.5, 2.0, (5,)),
        random.rayleigh(a, 1.2, (5,)),
        random.maxwell(b, (5,)),
        random.pareto(c, 2.0, (5,)),
        random.lognormal(d, 0.5, (5,)),
        random.double_sided_maxwell(e, 0.0, 1.0, (5,)),
        random.multivariate_normal(f, jnp.zeros(3), jnp.array([[2.0, 0.3, 0], [0.3, 1, 0.2], [0, 0.2, 1.5]]), (4,)),
    )


def _approximate(impl: str, draw: Any, count: int) -> Program:
    made = _keyed(impl, draw, count)
    return Program(made.fn, made.args)


@program
def threefry_continuous() -> Program:
    return _approximate("threefry2x32", _continuous, 8)


@program
def rbg_continuous() -> Program:
    return _approximate("rbg", _continuous, 8)


def _by_rejection(*keys: Any) -> Any:
    """Returns results of functions that try again until a candidate is accepted, and of those that compare sums with a
    draw."""
    a, b, c, d, e, f = keys
    return (
        random.gamma(a, jnp.array([0.4, 1.0, 2.5, 30.0])),
        random.beta(b, 2.0, 0.7, (5,)),
        random.dirichlet(c, jnp.array([0.5, 2.0, 3.0]), (3,)),
        random.categorical(d, jnp.log(jnp.array([0.1, 0.2, 0.7])), shape=(9,)),
        random.ball(e, 3, shape=(4,)),
        random.binomial(f, 12, 0.4, (6,)),
        random.geometric(a, 0.3, (6,)),
    )


@program
def threefry_rejection() -> Program:
    return _approximate("threefry2x32", _by_rejection, 6)


@program
def threefry_poisson() -> Program:
    """Of one rate each: several rates together draw until the last of them is accepted, which rounding may decide."""
    return _approximate("threefry2x32", lambda a, b: (random.poisson(a, 4.0, (5, 3)), random.poisson(b, 25.0, (9,))), 2)


@program
def rbg_rejection() -> Program:
    return _approximate("rbg", _by_rejection, 6)


@program
def dropout_train_step() -> Program:
    """Masks from a key that the state carries, which the next step splits again."""

    def step(params: Tree, raw: Any, x: Any, y: Any) -> Any:
        key, mask_key, noise_key = random.split(random.wrap_key_data(raw, impl="threefry2x32"), 3)

        def loss(params: Tree) -> Any:
            h = nn.relu((x + 0.1 * random.normal(noise_key, x.shape)) @ params["a"])
            h = jnp.where(random.bernoulli(mask_key, 0.8, h.shape), h / 0.8, 0)
            return jnp.mean((h @ params["b"] - y) ** 2)

        value, grads = jax.value_and_grad(loss)(params)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), random.key_data(key), value

    r = Random(231)
    params = {"a": r.dense(6, 24), "b": r.dense(24, 2)}
    return Program(step, (params, np.array([3, 4], np.uint32), r.normal(8, 6), r.normal(8, 2)))
