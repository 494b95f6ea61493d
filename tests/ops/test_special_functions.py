"""The functions of CHLO that are long in other operations: as exact as XLA's expansions of them, and where these are
exact, the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support import closeness
from tests.support.stablehlo_files import bytecode_of, parsed, to_hlo
from xla_wasm import HloModule, evaluate
from xla_wasm.ops.dtypes import DTYPES

INF, NAN = float("inf"), float("nan")
EDGES = (
    0.0,
    -0.0,
    INF,
    -INF,
    NAN,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.0,
    -2.0,
    8.0,
    1e-30,
    -1e-30,
    1e30,
    3.0,
    -3.0,
    0.999999,
    100.0,
    -100.5,
)
UNARY = ("erfc", "erf_inv", "lgamma", "digamma", "bessel_i1e", "square", "is_inf", "is_pos_inf", "is_neg_inf", "conj")
BINARY = ("zeta", "polygamma", "next_after")
TYPES = {"f32": "f32", "f64": "f64", "bf16": "bf16", "f16": "f16"}


def program(name: str, kind: str, operands: int, count: int) -> bytes:
    """A function of that many arrays."""
    array = f"tensor<{count}x{kind}>"
    result = f"tensor<{count}xi1>" if name.startswith("is_") else array
    names = ["%a", "%b"][:operands]
    listed = ", ".join(f"{n}: {array}" for n in names)
    kinds = ", ".join([array] * operands)
    body = f"%0 = chlo.{name} {', '.join(names)} : {kinds} -> {result}\nreturn %0 : {result}"
    return bytecode_of(parsed(f"func.func @main({listed}) -> {result} {{\n{body}\n}}"))


def both(data: bytes, *arrays: Any) -> tuple[Any, Any]:
    """Returns the results of the program as we read it, and those of XLA's own expansion of it in the same
    evaluator."""
    with np.errstate(all="ignore"):
        (mine,) = evaluate(HloModule.from_stablehlo(data), *arrays)
        (theirs,) = evaluate(HloModule.from_proto(to_hlo(data)), *arrays)
    return mine, theirs


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", UNARY)
def test_of_one_number(name: str, kind: str) -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate(
        [EDGES, rng.uniform(-1, 1, 300), rng.normal(0, 10, 300), rng.uniform(0, 40, 100), np.arange(-12, 13) / 2]
    )
    array = values.astype(DTYPES[kind])
    closeness.assert_same(*both(program(name, kind, 1, len(array)), array), 0, name)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", BINARY)
def test_of_two_numbers(name: str, kind: str) -> None:
    rng = np.random.default_rng(0)
    a = np.concatenate(
        [np.repeat(EDGES, len(EDGES)), rng.uniform(1, 8, 300), rng.integers(0, 8, 300), rng.normal(0, 3, 100)]
    )
    b = np.concatenate([np.tile(EDGES, len(EDGES)), rng.uniform(0, 9, 600), rng.normal(0, 3, 100)])
    arrays = [x.astype(DTYPES[kind]) for x in (a, b)]
    closeness.assert_same(*both(program(name, kind, 2, len(a)), *arrays), 0, name)


INVERSE = ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "sinh", "tan", "erf")


@pytest.mark.parametrize("name", INVERSE)
def test_what_hlo_has_is_one_instruction(name: str) -> None:
    module = HloModule.from_stablehlo(program(name, "f32", 1, 3))
    assert [x.opcode for x in module.entry.instructions] == ["parameter", name]
    array = np.array([0.25, 0.5, 0.75], np.float32) + (name == "acosh")
    closeness.assert_same(*both(program(name, "f32", 1, 3), array), 4, name)


def test_broadcasting_operations() -> None:
    text = """func.func @main(%a: tensor<3x1xf32>, %b: tensor<4xf32>) -> (tensor<3x4xf32>, tensor<3x4xi1>) {
      %0 = chlo.broadcast_add %a, %b : (tensor<3x1xf32>, tensor<4xf32>) -> tensor<3x4xf32>
      %1 = chlo.broadcast_compare %a, %b {comparison_direction = #chlo<comparison_direction LT>} : (tensor<3x1xf32>, tensor<4xf32>) -> tensor<3x4xi1>
      return %0, %1 : tensor<3x4xf32>, tensor<3x4xi1>
    }"""  # noqa: E501
    a, b = np.arange(3, dtype=np.float32)[:, None], np.arange(4, dtype=np.float32)
    total, less = evaluate(HloModule.from_stablehlo(bytecode_of(parsed(text))), a, b)
    np.testing.assert_array_equal(total, a + b)
    np.testing.assert_array_equal(less, a < b)
