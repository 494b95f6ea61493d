"""Elementwise functions of a million elements, and what training does with every parameter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..onnx_graph import Graph
from .workload import NS, Array, Workload, arrays, normal

TITLE = "Elementwise functions"
MILLION = 1 << 20
ROOT, CUBE = 0.7978845608028654, 0.044715


def _gelu(x: Any) -> Any:
    import jax.numpy as jnp

    return 0.5 * x * (1 + jnp.tanh(ROOT * (x + CUBE * x * x * x)))


def _gelu_onnx(g: Graph) -> str:
    half, one, root, cube = (g.constant(f"is_{value}", np.float32(value)) for value in (0.5, 1, ROOT, CUBE))
    cubed = g.node("Mul", g.node("Mul", g.node("Mul", "x", "x"), "x"), cube)
    inner = g.node("Mul", g.node("Add", "x", cubed), root)
    return g.node("Mul", g.node("Mul", "x", half), g.node("Add", g.node("Tanh", inner), one))


RATE, FIRST, SECOND, TINY = 1e-3, 0.9, 0.999, 1e-8


def _adam(p: Any, grad: Any, m: Any, v: Any) -> Any:
    import jax.numpy as jnp

    m = FIRST * m + (1 - FIRST) * grad
    v = SECOND * v + (1 - SECOND) * grad * grad
    return p - RATE * (m / (1 - FIRST**10)) / (jnp.sqrt(v / (1 - SECOND**10)) + TINY), m, v


def _adam_onnx(g: Graph) -> tuple[str, ...]:
    def scaled(x: str, by: float) -> str:
        return g.node("Mul", x, g.constant(f"by_{by}", np.float32(by)))

    m = g.node("Add", scaled("m", FIRST), scaled("grad", 1 - FIRST))
    v = g.node("Add", scaled("v", SECOND), scaled(g.node("Mul", "grad", "grad"), 1 - SECOND))
    root = g.node("Add", g.node("Sqrt", scaled(v, 1 / (1 - SECOND**10))), g.constant("tiny", np.float32(TINY)))
    return g.node("Sub", "p", g.node("Div", scaled(m, RATE / (1 - FIRST**10)), root)), m, v


def _adam_script(ref: str) -> str:
    """In JavaScript; jax-js wants `.ref` wherever a value is used again."""
    m, v = (
        f"m{ref}.mul({FIRST}).add(grad{ref}.mul({1 - FIRST}))",
        f"v{ref}.mul({SECOND}).add(grad{ref}.mul(grad{ref}).mul({1 - SECOND}))",
    )
    root = f"v1{ref}.mul({1 / (1 - SECOND**10)})"
    root = f"np.sqrt({root})" if ref else f"{root}.sqrt()"
    return f"((m1, v1) => [p.sub(m1{ref}.mul({RATE / (1 - FIRST**10)}).div({root}.add({TINY}))), m1, v1])({m}, {v})"


def _adam_inputs(rng: np.random.Generator) -> dict[str, Array]:
    p, grad, m, v = rng.standard_normal((4, MILLION), np.float32)
    return {"p": p, "grad": grad, "m": m, "v": v * v}


def workloads() -> Iterator[Workload]:
    import jax.numpy as jnp

    x = arrays(x=normal(MILLION))
    yield Workload(
        "gelu_chain_1M",
        NS,
        MILLION,
        _gelu,
        x,
        onnx=_gelu_onnx,
        tfjs=f"x.mul(0.5).mul(x.mul(x).mul(x).mul({CUBE}).add(x).mul({ROOT}).tanh().add(1))",
        jaxjs=f"x.ref.mul(0.5).mul(np.tanh(x.ref.mul(x.ref).mul(x.ref).mul({CUBE}).add(x.ref).mul({ROOT})).add(1))",
        quick=True,
    )
    for name, ours, exact, node in (("exp", jnp.exp, np.exp, "Exp"), ("tanh", jnp.tanh, np.tanh, "Tanh")):
        yield Workload(
            f"{name}_1M",
            NS,
            MILLION,
            ours,
            x,
            onnx=lambda g, node=node: g.node(node, "x"),
            tfjs=f"tf.{name}(x)",
            jaxjs=f"np.{name}(x)",
            reference=lambda x, exact=exact: exact(x.astype(np.float64)),
            quick=name == "exp",
        )
    yield Workload(
        "adam_1M", NS, MILLION, _adam, _adam_inputs, onnx=_adam_onnx, tfjs=_adam_script(""), jaxjs=_adam_script(".ref")
    )
