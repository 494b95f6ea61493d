"""`lower` reads the StableHLO that JAX writes itself: values where jaxlib's conversion to HLO is wrong or ends the
process, and names and source lines as that conversion gives them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import xla_wasm
from xla_wasm import HloModule
from xla_wasm.jax import lower

X = np.arange(300, dtype=np.int32)
NUMBERS = lax.GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,))


def run(f: Any, *args: Any) -> Any:
    (result,) = xla_wasm.load(xla_wasm.compile(lower(f, *args))).run(*args)
    return result.tolist()


def test_constant_unsigned_indices_with_the_top_bit() -> None:
    index = np.array([200], np.uint8)
    assert run(lambda x: lax.gather(x, jnp.asarray(index), NUMBERS, (1,), mode="clip"), X) == 200
    assert run(lambda x: lax.dynamic_slice_p.bind(x, jnp.asarray(index[0]), slice_sizes=(2,)), X) == [200, 201]


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [([np.inf, 1], "float4_e2m1fn", [6, 1]), ([0, 2], "float8_e8m0fnu", [np.nan, 2])],
)
def test_constants_of_small_floats(values: list[float], dtype: str, expected: list[float]) -> None:
    def f(x: Any) -> Any:
        return jnp.asarray(np.array(values, np.float32)).astype(dtype).astype(jnp.float32) + x

    np.testing.assert_array_equal(run(f, np.float32(0)), expected)


def test_a_constant_divided_by_zero() -> None:
    assert run(lambda x: lax.div(jnp.asarray(np.int32(5)), jnp.asarray(np.int32(0))) + x, np.int32(0)) == -1
    assert run(lambda x: lax.rem(jnp.asarray(np.int32(5)), jnp.asarray(np.int32(0))) + x, np.int32(0)) == 5


def test_sinh_and_cosh() -> None:
    x = np.array([35.34991, -7.3, 88.9, 1e-4], np.float32)
    for f, true in ((jnp.sinh, np.sinh), (jnp.cosh, np.cosh)):
        exact = true(x.astype(np.float64))
        assert np.max(np.abs(run(f, x) - exact) / np.spacing(exact.astype(np.float32))) < 1.6


def inner(x: Any) -> Any:
    return jnp.sin(x) * 2


def outer(p: Any, x: Any) -> Any:
    def step(c: Any, row: Any) -> Any:
        return c + jax.jit(inner)(row), jnp.sum(c)

    total, sums = lax.scan(step, x[0], x)
    return total @ p["w"], jnp.argmax(sums), jax.pure_callback(np.sort, jax.ShapeDtypeStruct((3,), np.float32), x[:, 0])


def test_names_and_lines_are_those_of_jaxlib() -> None:
    """Of all operations but those that jaxlib has folded into others."""
    args = {"w": np.ones((4, 2), np.float32)}, np.ones((3, 4), np.float32)
    hlo = jax.jit(outer).lower(*args).compiler_ir("hlo").as_serialized_hlo_module_proto()
    places = []
    for module in (lower(outer, *args), HloModule.from_proto(hlo)):
        found = {(x.opcode, x.metadata) for x in module.instructions() if x.metadata is not None}
        places.append(
            {
                (opcode, m.op_name, Path(m.source_file).name, m.source_line)
                for opcode, m in found
                if opcode not in ("constant", "parameter", "broadcast", "tuple", "get-tuple-element", "reshape")
            }
        )
        assert [p.metadata.op_name for p in module.entry.parameters if p.metadata] == ["p['w']", "x"]
        names = {x.name.rpartition(".")[0] for x in module.instructions()}
        assert {"p__w__", "x", "dot_general", "sin", "pure_callback", "while"} <= names
    assert places[0] == places[1]
    assert {("sine", "sin", "test_lower_stablehlo.py"), ("while", "jit(outer)/while", "test_lower_stablehlo.py")} <= {
        place[:3] for place in places[0]
    }
