"""Programs of libraries that raise errors by way of Python functions, with their checks left on: equinox, diffrax,
optimistix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optimistix
import pytest

import xla_wasm
from xla_wasm import Options, RunError
from xla_wasm.jax import lower

CONTROLLED = diffrax.PIDController(rtol=1e-5, atol=1e-7)


def checked(x: Any) -> Any:
    return jnp.sqrt(eqx.error_if(x, jnp.any(x < 0), "x must not be negative"))


def adaptive(y: Any) -> Any:
    term = diffrax.ODETerm(lambda t, y, args: jnp.stack([y[1], -y[0]]))
    return diffrax.diffeqsolve(term, diffrax.Tsit5(), 0.0, 3.0, 0.01, y, stepsize_controller=CONTROLLED).ys


def stiff(y: Any) -> Any:
    """Robertson's reactions."""

    def rates(t: Any, y: Any, args: Any) -> Any:
        slow, fast, back = 0.04 * y[0], 3e7 * y[1] ** 2, 1e4 * y[1] * y[2]
        return jnp.stack([back - slow, slow - back - fast, fast])

    solver = diffrax.Kvaerno5()
    return diffrax.diffeqsolve(
        diffrax.ODETerm(rates), solver, 0.0, 10.0, 2e-4, y, stepsize_controller=CONTROLLED, max_steps=1000
    ).ys


def root(y: Any) -> Any:
    return optimistix.root_find(lambda x, y: x**3 + x - y, optimistix.Newton(1e-5, 1e-5), jnp.zeros_like(y), y).value


def fitted(a: Any) -> Any:
    residuals = lambda p, a: jnp.stack([p[0] - a[0], 10 * (p[1] - p[0] ** 2)])  # noqa: E731
    return optimistix.least_squares(
        residuals, optimistix.LevenbergMarquardt(1e-5, 1e-5), jnp.array([0.0, 0.5]), a
    ).value


def least(a: Any) -> Any:
    valley = lambda p, a: (1 - p[0]) ** 2 + a[0] * (p[1] - p[0] ** 2) ** 2  # noqa: E731
    return optimistix.minimise(valley, optimistix.BFGS(1e-5, 1e-5), jnp.array([-1.0, 1.0]), a, max_steps=500).value


PROGRAMS: dict[str, tuple[Callable[[Any], Any], list[float], bool]] = {
    "error_if": (checked, [1, 4], True),
    "diffrax adaptive": (adaptive, [1, 2], True),
    "diffrax stiff": (stiff, [1, 0, 0], True),
    "diffrax gradient": (jax.grad(lambda y: adaptive(y).sum()), [1, 2], False),
    "optimistix root": (root, [1, 10], True),
    "optimistix least squares": (fitted, [1], True),
    "optimistix minimum": (least, [10], True),
    "optimistix gradient of a root": (jax.grad(lambda y: root(y).sum()), [1, 10], True),
}
"""Program -> the function, an argument, and whether it can call Python."""


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("callbacks", ["host", "trap"])
def test_programs_with_their_checks(name: str, callbacks: str) -> None:
    f, values, calls = PROGRAMS[name]
    x = np.array(values, np.float32)
    artifact = xla_wasm.compile(lower(f, x), Options(callbacks=callbacks))
    assert bool(artifact.manifest["requests"]) == calls
    np.testing.assert_allclose(xla_wasm.load(artifact).run(x)[0], jax.jit(f)(x), rtol=2e-3, atol=1e-6)


def test_a_check_that_fails_says_why() -> None:
    exe = xla_wasm.load(xla_wasm.compile(lower(checked, np.ones(2, np.float32))))
    with pytest.raises(RunError, match="x must not be negative"):
        exe.run(np.array([-1, 1], np.float32))
    np.testing.assert_array_equal(exe.run(np.array([4, 9], np.float32))[0], [2, 3])
