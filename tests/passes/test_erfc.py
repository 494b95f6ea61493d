"""erfc, which is found in XLA's expansion of it and computed in fewer operations; what only resembles it is computed as
it is written."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xla_wasm
from tests.support.hlo_modules import lowered
from xla_wasm.hlo.ir import Module
from xla_wasm.jax import lower
from xla_wasm.passes.pipeline import run
from xla_wasm.target import TARGETS

Function = Callable[[Any], Any]

FUNCTIONS: dict[str, Function] = {
    "erfc": jax.scipy.special.erfc,
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "its gradient": jax.grad(lambda x: jnp.sum(jax.nn.gelu(x, approximate=False))),
    "of a row and its argument": lambda x: jax.scipy.special.erfc(x[None] * 2) * x + x,
    "twice": lambda x: jax.scipy.special.erfc(x) - jax.scipy.special.erfc(-x),
    "in a loop": lambda x: jax.lax.fori_loop(0, 3, lambda i, y: jax.scipy.special.erfc(y), x),
    "normal distribution": lambda x: jax.scipy.stats.norm.cdf(x),
    "of one number": lambda x: jax.scipy.special.erfc(x[3]),
}


def points() -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(0)
    ends = [0, -0.0, 1e-45, -1e-40, math.inf, -math.inf, math.nan, 3e38, -3e38, 9.19, 9.3, -1, 1, 2]
    return np.concatenate([rng.uniform(-9.19, 9.19, 20_000), ends, rng.uniform(-2, 2, 5_001)]).astype(np.float32)


def divisions(module: Module) -> int:
    copy = Module.from_proto(module.to_proto())
    run(copy)
    return sum(x.opcode == "divide" for x in copy.instructions())


@pytest.mark.parametrize("target", TARGETS)
def test_values(target: str) -> None:
    """As near as the rounding of the square allows, which XLA's own expansion has too."""
    x = points()
    (y,) = xla_wasm.load(xla_wasm.compile(lower(FUNCTIONS["erfc"], x), xla_wasm.Options(target=target))).run(x)
    true = np.array([math.erfc(v) for v in x.astype(float)])
    bound = np.spacing(np.abs(true).astype(np.float32)).astype(float) * (8 + np.minimum(x, 10).astype(float) ** 2)
    np.testing.assert_array_equal(np.isnan(y), np.isnan(x))
    assert np.all((np.abs(y - true) <= np.maximum(bound, 2.0**-125)) | np.isnan(x))
    assert y[x == 0].tolist() == [1, 1]
    assert y[x == math.inf] == 0
    assert y[x == -math.inf] == 2


@pytest.mark.parametrize("name", FUNCTIONS)
def test_programs(name: str) -> None:
    x = points()
    f = FUNCTIONS[name]
    module = lower(f, x)
    assert divisions(module) < module.to_text().count(" divide(")
    (ours,) = xla_wasm.load(xla_wasm.compile(module)).run(x)
    with np.errstate(all="ignore"):
        (true,) = xla_wasm.evaluate(module, x)
    np.testing.assert_allclose(ours, true, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_it_is_found_in_each_format(dtype: str) -> None:
    """The formats are of our reader, and of jaxlib's HLO."""
    x = jax.ShapeDtypeStruct((5, 7), dtype)
    for module in (lower(jax.scipy.special.erfc, x), Module.from_proto(lowered(jax.scipy.special.erfc, x))):
        assert divisions(module) == 1


def test_of_64_bits_it_stays() -> None:
    with jax.enable_x64(True):
        module = lower(jax.scipy.special.erfc, jax.ShapeDtypeStruct((5,), "float64"))
    assert divisions(module) == 3


def changed(text: str, number: int) -> str | None:
    """The program with one thing changed: a constant, the operands of a difference, a quotient or a choice, or a
    function."""
    lines = text.splitlines()
    old = line = lines[number]
    if " constant(" in line:
        head, value = line.split("constant(")
        line = f"{head}constant({float(value.rstrip(')')) * 1.25 + 0.5})"
    else:
        for a, b in (
            ("direction=LT", "direction=LE"),
            (" abs(", " negate("),
            (" negate(", " abs("),
            (" exponential(", " tanh("),
        ):
            if a in line:
                line = line.replace(a, b)
                break
        else:
            for opcode in (" subtract(", " divide("):
                if opcode in line:
                    head, rest = line.split(opcode)
                    p, q = rest.split(")")[0].split(", ")
                    line = f"{head}{opcode}{q}, {p})"
            if " select(" in line:
                head, rest = line.split(" select(")
                p, q, r = rest.split(")")[0].split(", ")
                line = f"{head} select({p}, {r}, {q})"
    if line == old:
        return None
    lines[number] = line
    return "\n".join(lines)


def test_what_resembles_it_is_computed_as_it_is_written() -> None:
    x = np.linspace(-4, 4, 203, dtype=np.float32)
    module = lower(FUNCTIONS["erfc"], x)
    for instruction in module.instructions():
        instruction.metadata = None
    text = module.to_text(large_constants=True)
    tried = 0
    for number in range(len(text.splitlines())):
        other = changed(text, number)
        if other is None:
            continue
        tried += 1
        given = xla_wasm.HloModule.from_text(other)
        (ours,) = xla_wasm.load(xla_wasm.compile(given)).run(x)
        with np.errstate(all="ignore"):
            (true,) = xla_wasm.evaluate(given, x, precision="f64")
        np.testing.assert_allclose(
            ours, true, rtol=1e-4, atol=1e-4 * np.nanmax(np.abs(true[np.isfinite(true)])), err_msg=other
        )
    assert tried > 40
