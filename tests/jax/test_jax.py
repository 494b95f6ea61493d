"""xla_wasm.jax.lower: parameters, names, shapes without arrays."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xla_wasm
from tests.support.closeness import assert_all, equal
from xla_wasm.errors import ArgumentError
from xla_wasm.hlo.ir import Module
from xla_wasm.hlo.signature import PARAMETER_NAMES, RESULT_NAMES
from xla_wasm.jax import lower
from xla_wasm.reference import evaluate

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def names(module: Module, key: str) -> list[str]:
    return json.loads(module.frontend_attributes[key])


def test_unused_arguments_are_kept() -> None:
    module = lower(lambda used, unused: used + 1, X, np.int32(5))
    assert [str(p.shape.without_layout()) for p in module.entry.parameters] == ["f32[2,3]", "s32[]"]
    assert names(module, PARAMETER_NAMES) == ["used", "unused"]
    assert names(module, RESULT_NAMES) == ["result"]
    np.testing.assert_array_equal(evaluate(module, X, np.int32(5))[0], X + 1)


def test_pytree_paths_become_names() -> None:
    params = {"dense": {"kernel": X.T, "bias": np.zeros(2, np.float32)}, "layers": [X, X]}

    def fn(params: Any, x: Any, *, scale: Any) -> Any:
        y = x @ params["dense"]["kernel"] + params["dense"]["bias"]
        return {"y": y * scale, "sums": (params["layers"][0].sum(), params["layers"][1].sum())}

    module = lower(fn, params, X, scale=np.float32(2))
    assert names(module, PARAMETER_NAMES) == [
        "params.dense.bias",
        "params.dense.kernel",
        "params.layers.0",
        "params.layers.1",
        "x",
        "scale",
    ]
    assert names(module, RESULT_NAMES) == ["sums.0", "sums.1", "y"]
    results = evaluate(module, np.zeros(2, np.float32), X.T, X, X, X, np.float32(2))
    np.testing.assert_array_equal(results[2], X @ X.T * 2)


def test_names_survive_serialization() -> None:
    module = lower(lambda a, b: (a, b), X, X)
    again = Module.from_proto(module.to_proto())
    assert names(again, PARAMETER_NAMES) == ["a", "b"] and names(again, RESULT_NAMES) == ["0", "1"]


def test_positional_names() -> None:
    assert names(lower(lambda *xs: sum(xs), X, X), PARAMETER_NAMES) == ["xs.0", "xs.1"]
    assert names(lower(partial(jnp.add, X), X), PARAMETER_NAMES)
    assert names(lower(lambda x: x, {"a.b": X, "a": {"b": X}}), PARAMETER_NAMES) == ["x.a.b", "x.a.b_2"]


def test_dataclasses_and_attributes() -> None:
    @jax.tree_util.register_dataclass
    @dataclass
    class State:
        count: Any
        mean: Any

    module = lower(lambda state: State(state.count + 1, state.mean), State(np.int32(1), X))
    assert names(module, PARAMETER_NAMES) == ["state.count", "state.mean"]
    assert names(module, RESULT_NAMES) == ["count", "mean"]


def test_shapes_stand_for_arrays() -> None:
    module = lower(lambda x: x * 2, jax.ShapeDtypeStruct((2, 3), np.float32))
    np.testing.assert_array_equal(evaluate(module, X)[0], X * 2)


def test_jitted_functions_and_closed_over_arrays() -> None:
    weights = np.arange(3, dtype=np.float32)
    module = lower(jax.jit(lambda x, unused: x @ weights), X, X)
    assert len(module.entry.parameters) == 2
    np.testing.assert_array_equal(evaluate(module, X, X)[0], X @ weights)


def test_donated_arguments_alias_results() -> None:
    module = lower(lambda x, y: x + y, X, X, donate_argnums=(0,))
    assert module.input_output_alias == [((), 0, (), "may-alias")]


def scaled(x: Any, n: int, flag: bool = False) -> Any:
    return x * n if flag else x + n


@pytest.mark.parametrize(
    "fn, args, named, static",
    [
        (scaled, (3, True), {}, {"static_argnums": (1, 2)}),
        (scaled, (3, True), {}, {"static_argnums": [1, -1]}),
        (scaled, (3,), {"flag": True}, {"static_argnames": ("n", "flag")}),
        (scaled, (), {"n": 3, "flag": True}, {"static_argnums": (1, 2)}),
        (jax.jit(scaled, static_argnums=(1, 2)), (3, True), {}, {"static_argnums": (1, 2)}),
        (lambda *all: all[0] * all[1], (3,), {}, {"static_argnums": 1}),
    ],
)
def test_static_arguments(fn: Any, args: Any, named: Any, static: Any) -> None:
    """They are no parameters."""
    module = lower(fn, X, *args, **named, **static)
    assert [parameter.shape.dimensions for parameter in module.entry.parameters] == [X.shape]
    np.testing.assert_array_equal(evaluate(module, X)[0], X * 3)


class Doubling:
    """A class with a jitted method, of which the object itself is static."""

    @partial(jax.jit, static_argnums=(0, 2))
    def scaled(self, x: Any, n: int, unused: Any) -> Any:
        return x * n


def test_static_arguments_of_jitted_functions_are_known() -> None:
    for module in (
        lower(jax.jit(scaled, static_argnums=(1, 2)), X, 3, True),
        lower(jax.jit(scaled, static_argnames=("n", "flag")), X, n=3, flag=True),
        lower(jax.jit(scaled, static_argnums=(1, 2)), X, 3, flag=True),
    ):
        assert names(module, PARAMETER_NAMES) == ["x"]
        np.testing.assert_array_equal(evaluate(module, X)[0], X * 3)
    module = lower(Doubling().scaled, X, 3, np.int32(1))
    assert names(module, PARAMETER_NAMES) == ["x", "unused"]
    np.testing.assert_array_equal(evaluate(module, X, np.int32(1))[0], X * 3)


def test_shards_have_no_static_arguments() -> None:
    with pytest.raises(ArgumentError, match="jax.shard_map has no static arguments"):
        lower(scaled, X, 3, static_argnums=1, mesh={"x": 2}, in_specs=jax.P("x"), out_specs=jax.P("x"))


def test_64_bit_types() -> None:
    with jax.enable_x64(True):
        module = lower(lambda x: x + 1, X.astype(np.float64))
    assert module.entry.root.shape.element_type in ("f64", "tuple")
    assert evaluate(module, X.astype(np.float64))[0].dtype == np.float64


def test_evaluates_as_jax_does() -> None:
    def fn(x: Any) -> Any:
        return jax.nn.softmax(x @ x.T), jnp.argmax(x, 1)

    probabilities, best = evaluate(lower(fn, X), X)
    expected = fn(X)
    np.testing.assert_allclose(probabilities, expected[0], rtol=1e-6)
    np.testing.assert_array_equal(best, expected[1])


def test_without_jax_the_error_says_what_to_install() -> None:
    code = "import sys; sys.modules['jax'] = None\nimport xla_wasm.jax\nxla_wasm.jax.lower(abs, 1)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "XlaWasmError" in result.stderr and "pip install jax" in result.stderr


def test_is_reached_from_the_package() -> None:
    assert xla_wasm.jax.lower is lower


def test_results_are_row_major() -> None:
    """As `jax.jit` gives them, whatever layout JAX's HLO has at the root."""
    module = lower(lambda x: {"turned": x.T, "both": (x, x.sum(0))}, X)
    artifact = xla_wasm.compile(Module.from_proto(module.to_proto()))
    assert [r["minor_to_major"] for r in artifact.manifest["results"]] == [[1, 0], [0], [1, 0]]
    given = xla_wasm.load(artifact).run(X)
    assert_all(given, (X, X.sum(0), X.T), equal)
