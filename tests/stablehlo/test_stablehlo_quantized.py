# ruff: noqa: E501
"""Quantised types in StableHLO: what is stored goes in and comes out, and computes as a plain model of the specification in NumPy does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.support.closeness import assert_all, equal
from tests.support.differential import run
from xla_wasm import HloModule, evaluate
from xla_wasm.errors import ParseError, UnsupportedError
from xla_wasm.hlo.verify import verify
from xla_wasm.mlir.bytecode_entries import _from_text
from xla_wasm.mlir.tree import Quantized

FLOATS = {"f32": np.float32, "f64": np.float64, "f16": np.float16}


@dataclass(frozen=True)
class Q:
    """A quantised type; `scales` and `points` are lists if it has an axis."""

    scales: Any
    points: Any = 0
    storage: str = "i8"
    expressed: str = "f32"
    axis: int | None = None
    low: int | None = None
    high: int | None = None

    @property
    def dtype(self) -> Any:
        return np.dtype(("u" if self.storage[0] == "u" else "") + f"int{self.storage.lstrip('ui')}")

    def bounds(self) -> tuple[int, int]:
        info = np.iinfo(self.dtype)
        return (info.min if self.low is None else self.low, info.max if self.high is None else self.high)

    def __str__(self) -> str:
        bounds = "" if self.low is None else f"<{self.low}:{self.high}>"
        if self.axis is None:
            return f"!quant.uniform<{self.storage}{bounds}:{self.expressed}, {self.scales!r}:{self.points}>"
        pairs = ", ".join(f"{scale!r}:{point}" for scale, point in zip(self.scales, self.points))
        return f"!quant.uniform<{self.storage}{bounds}:{self.expressed}:{self.axis}, {{{pairs}}}>"

    def along(self, values: Any, rank: int, dtype: Any) -> Any:
        array = np.asarray(values, dtype)
        return array if self.axis is None else array.reshape([-1 if d == self.axis else 1 for d in range(rank)])

    def numbers(self, x: Any) -> Any:
        """Returns the numbers that stored integers stand for."""
        dtype = FLOATS[self.expressed]
        wide = x.astype(np.int64) - self.along(self.points, x.ndim, np.int64)
        return wide.astype(dtype) * self.along(self.scales, x.ndim, dtype)

    def stored(self, x: Any) -> Any:
        """Returns the integers that are stored for numbers."""
        dtype = FLOATS[self.expressed]
        low, high = self.bounds()
        assert x.dtype == dtype
        moved = x / self.along(self.scales, x.ndim, dtype) + self.along(self.points, x.ndim, dtype)
        rounded = np.rint(np.clip(moved, dtype(low), dtype(high)))
        return np.clip(np.where(np.isnan(rounded), 0, rounded).astype(np.float64), low, high).astype(self.dtype)


def tensor(dims: tuple[int, ...], element: Any) -> str:
    return f"tensor<{''.join(f'{d}x' for d in dims)}{element}>"


def function(op: str, inputs: list[str], *outputs: str) -> HloModule:
    """A module of one operation on %0, %1 and so on."""
    arguments = ", ".join(f"%{i}: {kind}" for i, kind in enumerate(inputs))
    types = ", ".join(outputs)
    count = f":{len(outputs)}" if len(outputs) > 1 else ""
    names = ", ".join(f"%r#{i}" for i in range(len(outputs))) if len(outputs) > 1 else "%r"
    module = HloModule.from_stablehlo(
        f"func.func @main({arguments}) -> ({types}) {{ %r{count} = {op} : ({', '.join(inputs)}) -> ({types}) return {names} : {types} }}"
    )
    verify(module)
    return module


def every(q: Q, dims: tuple[int, ...], seed: int = 0) -> Any:
    low, high = q.bounds()
    return np.random.default_rng(seed).integers(low, high, dims, endpoint=True).astype(q.dtype)


FLOAT_VALUES = np.array(
    [0.0, -0.0, 0.25, 0.75, 1.25, -0.25, -1.75, 1e9, -1e9, np.inf, -np.inf, np.nan, 3.3, -7.1, 63.4, 200.0], np.float32
)
TYPES = [
    Q(0.5),
    Q(0.5, 1),
    Q(0.5, -128),
    Q(0.1, 3, low=-127, high=127),
    Q(1.0, 0, low=-8, high=7),
    Q(0.3, 7, "u8"),
    Q(0.003, -5, "i16"),
    Q(0.5, 100, "i32"),
    Q(0.25, 2, "i8", "f64"),
    Q(0.25, 2, "i8", "f16"),
]


@pytest.mark.parametrize("q", TYPES, ids=str)
def test_quantize_and_dequantize(q: Q) -> None:
    x = FLOAT_VALUES.astype(FLOATS[q.expressed])
    quantize = function("stablehlo.uniform_quantize %0", [tensor(x.shape, q.expressed)], tensor(x.shape, q))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(evaluate(quantize, x)[0], q.stored(x))
    stored = every(q, (40,))
    dequantize = function("stablehlo.uniform_dequantize %0", [tensor((40,), q)], tensor((40,), q.expressed))
    (actual,) = evaluate(dequantize, stored)
    assert actual.dtype == FLOATS[q.expressed]
    np.testing.assert_array_equal(actual, q.numbers(stored))


def test_ties_are_rounded_with_the_zero_point() -> None:
    module = function("stablehlo.uniform_quantize %0", ["tensor<4xf32>"], tensor((4,), Q(1.0, 1)))
    assert evaluate(module, np.array([0.5, 1.5, -0.5, 126.5], np.float32))[0].tolist() == [2, 2, 0, 127]


AXIS = Q([0.5, 0.1, 2.0], [0, -3, 5], axis=1)


def test_scales_along_an_axis() -> None:
    stored = every(AXIS, (4, 3, 2))
    dequantize = function("stablehlo.uniform_dequantize %0", [tensor((4, 3, 2), AXIS)], tensor((4, 3, 2), "f32"))
    np.testing.assert_array_equal(evaluate(dequantize, stored)[0], AXIS.numbers(stored))
    x = np.random.default_rng(1).normal(0, 40, (4, 3, 2)).astype(np.float32)
    quantize = function("stablehlo.uniform_quantize %0", [tensor(x.shape, "f32")], tensor(x.shape, AXIS))
    np.testing.assert_array_equal(evaluate(quantize, x)[0], AXIS.stored(x))
    other = Q(0.7, 4, "u8")
    again = function("stablehlo.uniform_quantize %0", [tensor((4, 3, 2), AXIS)], tensor((4, 3, 2), other))
    np.testing.assert_array_equal(evaluate(again, stored)[0], other.stored(AXIS.numbers(stored)))


A, B, C = Q(0.5, 1), Q(0.25, -3), Q(0.75, 2)
BINARY: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "remainder": np.fmod,
}
UNARY: dict[str, Callable[..., Any]] = {
    "abs": np.abs,
    "negate": np.negative,
    "floor": np.floor,
    "ceil": np.ceil,
    "sqrt": np.sqrt,
    "sign": np.sign,
    "round_nearest_even": np.rint,
}


@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str) -> None:
    x, y = every(A, (300,)), every(B, (300,), 1)
    module = function(f'"stablehlo.{name}"(%0, %1)', [tensor((300,), A), tensor((300,), B)], tensor((300,), C))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(evaluate(module, x, y)[0], C.stored(BINARY[name](A.numbers(x), B.numbers(y))))


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    x = np.arange(-128, 128).astype(np.int8)
    module = function(f'"stablehlo.{name}"(%0)', [tensor((256,), A)], tensor((256,), C))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(evaluate(module, x)[0], C.stored(UNARY[name](A.numbers(x))))


def test_compare_select_and_clamp() -> None:
    x, y = every(A, (300,)), every(B, (300,), 1)
    kinds = [tensor((300,), A), tensor((300,), B)]
    compare = function(
        '"stablehlo.compare"(%0, %1) {comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type SIGNED>}',
        kinds,
        tensor((300,), "i1"),
    )
    np.testing.assert_array_equal(evaluate(compare, x, y)[0], A.numbers(x) < B.numbers(y))
    select = function('"stablehlo.select"(%0, %1, %2)', [tensor((300,), "i1"), *kinds], tensor((300,), C))
    flags = x % 3 == 0
    np.testing.assert_array_equal(
        evaluate(select, flags, x, y)[0], C.stored(np.where(flags, A.numbers(x), B.numbers(y)))
    )
    clamp = function('"stablehlo.clamp"(%0, %1, %2)', [tensor((), A), kinds[1], tensor((), A)], tensor((300,), C))
    low, high = np.int8(-20), np.int8(10)
    np.testing.assert_array_equal(
        evaluate(clamp, low, y, high)[0], C.stored(np.clip(B.numbers(y), A.numbers(low), A.numbers(high)))
    )


DOT = "contracting_dims = [1] x [0]"


@pytest.mark.parametrize("right", [B, Q([0.5, 0.25, 1.0, 2.0], [0, 0, 0, 0], axis=1)], ids=str)
def test_products(right: Q) -> None:
    x, y, wide = every(A, (5, 6)), every(right, (6, 4), 1), Q(4.0, 1, "i32")
    expected = A.numbers(x) @ right.numbers(y)  # exact: small multiples of powers of two
    both = function(
        f"stablehlo.dot_general %0, %1, {DOT}", [tensor((5, 6), A), tensor((6, 4), right)], tensor((5, 4), wide)
    )
    np.testing.assert_array_equal(evaluate(both, x, y)[0], wide.stored(expected))
    hybrid = function(
        f"stablehlo.dot_general %0, %1, {DOT}", [tensor((5, 6), "f32"), tensor((6, 4), right)], tensor((5, 4), "f32")
    )
    np.testing.assert_array_equal(evaluate(hybrid, A.numbers(x), y)[0], expected)


def test_convolution() -> None:
    kernel = Q([0.5, 0.25], [0, 0], axis=2)
    x, k = every(A, (1, 8, 3)), every(kernel, (3, 3, 2), 1)
    op = "stablehlo.convolution(%0, %1) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [1], pad = [[1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}"
    result = Q(8.0, -2)
    module = function(op, [tensor(x.shape, A), tensor(k.shape, kernel)], tensor((1, 8, 2), result))
    padded = np.pad(A.numbers(x), ((0, 0), (1, 1), (0, 0)))
    expected = sum(padded[:, i : i + 8] @ kernel.numbers(k)[i] for i in range(3))
    np.testing.assert_array_equal(evaluate(module, x, k)[0], result.stored(expected.astype(np.float32)))


MOVED: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "reshape": ("stablehlo.reshape %0", lambda x: x.reshape(2, 6)),
    "transpose": ("stablehlo.transpose %0, dims = [1, 0]", lambda x: x.T),
    "slice": ("stablehlo.slice %0 [1:4, 0:3:2]", lambda x: x[1:4, 0:3:2]),
    "reverse": ("stablehlo.reverse %0, dims = [0]", lambda x: x[::-1]),
    "broadcast": ("stablehlo.broadcast_in_dim %0, dims = [1, 2]", lambda x: np.broadcast_to(x, (2, 4, 3))),
    "concatenate": ("stablehlo.concatenate %0, %0, dim = 1", lambda x: np.concatenate([x, x], 1)),
}


@pytest.mark.parametrize("name", MOVED)
def test_what_moves_keeps_the_integers(name: str) -> None:
    op, move = MOVED[name]
    x = every(A, (4, 3))
    expected = move(x)
    inputs = ", ".join([tensor(x.shape, A)] * op.count("%0"))

    def text(result: str) -> str:
        return f"func.func @main(%0: {tensor(x.shape, A)}) -> {result} {{ %r = {op} : ({inputs}) -> {result} return %r : {result} }}"

    np.testing.assert_array_equal(evaluate(HloModule.from_stablehlo(text(tensor(expected.shape, A))), x)[0], expected)
    with pytest.raises(ParseError, match="another quantised type"):
        HloModule.from_stablehlo(text(tensor(expected.shape, B)))


def test_an_axis_moves_with_the_dimensions() -> None:
    """Broadcast, transposed, and then computed with."""
    last, first = Q([0.5, 2.0, 0.25], [1, 0, -4], axis=2), Q([0.5, 2.0, 0.25], [1, 0, -4], axis=0)
    row = Q([0.5, 2.0, 0.25], [1, 0, -4], axis=0)
    text = f"""func.func @main(%a: {tensor((3,), row)}) -> {tensor((3, 2, 2), "f32")} {{
      %0 = stablehlo.broadcast_in_dim %a, dims = [2] : ({tensor((3,), row)}) -> {tensor((2, 2, 3), last)}
      %1 = stablehlo.transpose %0, dims = [2, 0, 1] : ({tensor((2, 2, 3), last)}) -> {tensor((3, 2, 2), first)}
      %2 = stablehlo.uniform_dequantize %1 : ({tensor((3, 2, 2), first)}) -> {tensor((3, 2, 2), "f32")}
      return %2 : {tensor((3, 2, 2), "f32")}
    }}"""
    x = np.array([7, -7, 100], np.int8)
    expected = np.broadcast_to(row.numbers(x)[:, None, None], (3, 2, 2))
    np.testing.assert_array_equal(evaluate(HloModule.from_stablehlo(text), x)[0], expected)


def test_regions_constants_and_functions() -> None:
    """A sum in quantised steps, a loop, and a call."""
    kind, scalar = tensor((4,), A), tensor((), A)
    text = f"""
    func.func private @twice(%x: {kind}) -> {kind} {{ %0 = stablehlo.add %x, %x : {kind} return %0 : {kind} }}
    func.func @main(%a: {kind}) -> ({scalar}, {kind}) {{
      %z = stablehlo.constant() {{value = dense<1> : tensor<i8>}} : () -> {scalar}
      %0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0] : ({kind}, {scalar}) -> {scalar}
      %1 = func.call @twice(%a) : ({kind}) -> {kind}
      %n = stablehlo.constant dense<0> : tensor<i32>
      %k = stablehlo.constant dense<2> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %2:2 = stablehlo.while(%i = %n, %x = %1) : tensor<i32>, {kind}
      cond {{ %c = stablehlo.compare LT, %i, %k : (tensor<i32>, tensor<i32>) -> tensor<i1> stablehlo.return %c : tensor<i1> }}
      do {{ %j = stablehlo.add %i, %one : tensor<i32> %y = func.call @twice(%x) : ({kind}) -> {kind} stablehlo.return %j, %y : tensor<i32>, {kind} }}
      return %0, %2#1 : {scalar}, {kind}
    }}"""
    text = text.replace("%z = stablehlo.constant()", '%z = "stablehlo.constant"()')
    module = HloModule.from_stablehlo(text)
    verify(module)
    x = np.array([3, 20, -7, 2], np.int8)
    total, moved = evaluate(module, x)
    assert total == A.stored(A.numbers(x).sum(dtype=np.float32))
    np.testing.assert_array_equal(moved, A.stored(A.numbers(x) * np.float32(8)))
    assert_all(run(module, x), (total, moved), equal)


@pytest.mark.parametrize(
    ("op", "inputs", "output", "message"),
    [
        (
            "stablehlo.uniform_dequantize %0",
            ["tensor<4x!quant.uniform<i8:f32, 0.0>>"],
            "tensor<4xf32>",
            "scales are positive",
        ),
        (
            "stablehlo.uniform_dequantize %0",
            ["tensor<4x!quant.uniform<i8:f32:0, {0.5, 0.25}>>"],
            "tensor<4xf32>",
            "2 scales along dimension 0",
        ),
        (
            "stablehlo.uniform_dequantize %0",
            ["tensor<4x!quant.uniform<i8:f32:3, {0.5, 0.25}>>"],
            "tensor<4xf32>",
            "2 scales along dimension 3",
        ),
        (
            "stablehlo.uniform_dequantize %0",
            ["tensor<4x!quant.uniform<i8:f32, 0.5:200>>"],
            "tensor<4xf32>",
            "no range from -128 to 127",
        ),
        (
            "stablehlo.uniform_dequantize %0",
            ["tensor<4x!quant.uniform<i8<-200:5>:f32, 0.5>>"],
            "tensor<4xf32>",
            "no range from -200 to 5",
        ),
        (
            "stablehlo.uniform_dequantize %0",
            ["tensor<4x!quant.uniform<i8:f32, 0.5>>"],
            "tensor<4xf64>",
            "gives f32, not f64",
        ),
        (
            "stablehlo.uniform_quantize %0",
            ["tensor<4xf64>"],
            "tensor<4x!quant.uniform<i8:f32, 0.5>>",
            "numbers of f64 cannot",
        ),
        (
            "stablehlo.uniform_dequantize %0",
            ["tensor<4x!quant.uniform<i8:i32, 0.5>>"],
            "tensor<4xi32>",
            "i8 cannot stand for i32",
        ),
    ],
)
def test_ill_formed_types(op: str, inputs: list[str], output: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        function(op, inputs, output)


def test_other_operations_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match="stablehlo.custom_call on quantised types"):
        function('"stablehlo.custom_call"(%0) {call_target_name = "f"}', [tensor((4,), A)], tensor((4,), A))
    with pytest.raises(UnsupportedError, match="stablehlo.popcnt on quantised types"):
        function('"stablehlo.popcnt"(%0)', [tensor((4,), A)], tensor((4,), A))


def test_bytecode_of_stablehlo_has_the_types_as_text() -> None:
    assert _from_text("type", "!quant.uniform<u8:f32, 0.5:3>") == Quantized("ui8", "f32", (0.5,), (3,), 0, 255)
