"""A program for every operation of XlaBuilder, and the numbers that it must give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from xla_wasm.builder import XlaBuilder
from xla_wasm.hlo.attrs import (
    ConvolutionDimensionNumbers,
    DotDimensionNumbers,
    GatherDimensionNumbers,
    PaddingDimension,
    PrecisionConfig,
    ReplicaGroups,
    ResultAccuracy,
    ScatterDimensionNumbers,
)
from xla_wasm.hlo.ir import Computation, Instruction, Module
from xla_wasm.hlo.literal import Literal
from xla_wasm.hlo.shape import Layout, Shape
from xla_wasm.ops.dtypes import TYPES_OF, Array
from xla_wasm.ops.sample import Host, f32, f64, inf, nan, pred, s8, s32, u8, u32, u64

Body = Callable[..., Instruction]
c64 = partial(np.array, dtype=np.complex64)
F32, S32 = Shape("f32"), Shape("s32")


def function(body: Body, *shapes: Shape) -> Computation:
    b = XlaBuilder("function")
    return b.Build(body(b, *(b.Parameter(i, shape) for i, shape in enumerate(shapes))))


ADD, MAX = function(XlaBuilder.Add, F32, F32), function(XlaBuilder.Max, F32, F32)
LT, GE = function(XlaBuilder.Lt, F32, F32), function(XlaBuilder.Ge, F32, F32)
DOUBLE = function(lambda b, x: b.Add(x, x), F32)
NEGATE = function(lambda b, x: b.Neg(x), F32)
BELOW_100 = function(lambda b, x: b.Lt(x, b.Constant(100)), F32)
RUNNING_SUM = function(lambda b, x, total: b.Tuple([b.Add(total, x)] * 2), F32, F32)
# the greater value and its index, of two such pairs
ARGMAX = function(
    lambda b, x, i, y, j: b.Tuple([b.Select(b.Ge(x, y), x, y), b.Select(b.Ge(x, y), i, j)]), *[F32, S32, F32, S32]
)
LT_FIRST = function(lambda b, x, y, i, j: b.Lt(x, y), F32, F32, S32, S32)


@dataclass(frozen=True)
class Case:
    """A program of one operation, its arguments and its flattened result; `expected` None: only its shapes are certain.
    `ulp` is for floats, `host` what the host gives and gets."""

    name: str
    args: tuple[Array, ...]
    body: Body
    expected: tuple[Array, ...] | None
    ulp: float = 0
    host: Host = Host()

    def module(self) -> Module:
        b = XlaBuilder(self.name)
        return b.module(
            self.body(b, *(b.Parameter(i, Shape(TYPES_OF[a.dtype].name, a.shape)) for i, a in enumerate(self.args)))
        )


CASES: list[Case] = []


def case(
    name: str,
    args: Array | Sequence[Array],
    expected: Array | Sequence[Array] | None,
    body: Body | None = None,
    ulp: float = 0,
    **more: Any,
) -> None:
    many = (args,) if isinstance(args, np.ndarray) else tuple(args)
    results = (expected,) if isinstance(expected, np.ndarray) else expected and tuple(expected)
    CASES.append(Case(name, many, body or getattr(XlaBuilder, name), results, ulp, **more))


# elementwise, one operand

case("Abs", f32([-2.5, -0.0, 7]), f32([2.5, 0, 7]))
case("Abs", s32([-3, 4, -(2**31)]), s32([3, 4, -(2**31)]))
case("Abs", c64([3 + 4j]), f32([5]))
case("Cbrt", f32([-8, 27, 0]), f32([-2, 3, 0]), ulp=2)
case("Ceil", f32([-1.5, 1.2, 3]), f32([-1, 2, 3]))
case("Clz", s32([0, 1, -1, 256]), s32([32, 31, 0, 23]))
case("Cos", f32([0, np.pi, 1]), f32([1, -1, 0.5403023]), ulp=2)
case("Cos", f32([0]), f32([1]), lambda b, x: b.Cos(x, ResultAccuracy("highest")), ulp=2)
case("Cosh", f32([0, 1, -1]), f32([1, 1.5430806, 1.5430806]), ulp=4)
case("Erf", f32([0, 1, -inf]), f32([0, 0.8427008, -1]), ulp=4)
case("Exp", f32([0, 1, -inf]), f32([1, 2.7182817, 0]), ulp=2)
case("Exp", f64([1]), f64([2.718281828459045]), ulp=2)
case("Expm1", f32([0, 1e-10, 1]), f32([0, 1e-10, 1.7182817]), ulp=2)
case("Floor", f32([-1.5, 1.2, 3]), f32([-2, 1, 3]))
case("Imag", c64([1 + 2j, -3j]), f32([2, -3]))
case("IsFinite", f32([1, inf, nan]), pred([1, 0, 0]))
case("Log", f32([1, np.e, 0]), f32([0, 1, -inf]), ulp=2)
case("Log1p", f32([0, 1e-10, 1]), f32([0, 1e-10, 0.6931472]), ulp=2)
case("Logistic", f32([0, inf, 1]), f32([0.5, 1, 0.7310586]), ulp=2)
case("Neg", f32([1, -2, 0]), f32([-1, 2, -0.0]))
case("Not", s32([0, -1, 5]), s32([-1, 0, -6]))
case("Not", pred([0, 1]), pred([1, 0]))
case("PopulationCount", u32([0, 7, 2**32 - 1]), u32([0, 3, 32]))
case("Real", c64([1 + 2j, 3j]), f32([1, 0]))
case("Round", f32([2.5, -2.5, 0.4]), f32([3, -3, 0]))
case("RoundNearestAfz", f32([2.5, -2.5, 0.49999997]), f32([3, -3, 0]))
case("RoundNearestEven", f32([2.5, -2.5, 3.5]), f32([2, -2, 4]))
case("Rsqrt", f32([4, 0.25, 0]), f32([0.5, 2, inf]), ulp=1)
case("Sign", f32([-2.5, -0.0, 7, nan]), f32([-1, -0.0, 1, nan]))
case("Sign", s32([-9, 0, 9]), s32([-1, 0, 1]))
case("Sin", f32([0, np.pi / 2, 1e10]), f32([0, 1, -0.48750603]), ulp=2)
case("Sqrt", f32([4, 2, -1]), f32([2, 1.4142135, nan]))
case("Tan", f32([0, 1, -1]), f32([0, 1.5574077, -1.5574077]), ulp=4)
case("Tanh", f32([0, 1, 100]), f32([0, 0.7615942, 1]), ulp=4)

# elementwise, two operands: alike, with a scalar, and with dimensions to broadcast

case("Add", (f32([1, 2]), f32([10, 20])), f32([11, 22]))
case("Add", (s32([2**31 - 1]), s32([1])), s32([-(2**31)]))
case("Add", (f32([[1, 2], [3, 4]]), f32(10)), f32([[11, 12], [13, 14]]))
case("Add", (f32(10), f32([[1, 2], [3, 4]])), f32([[11, 12], [13, 14]]))
case(
    "Add",
    (f32([[1, 2, 3], [4, 5, 6]]), f32([10, 20, 30])),
    f32([[11, 22, 33], [14, 25, 36]]),
    lambda b, x, y: b.Add(x, y, (1,)),
)
case(
    "Add",
    (f32([10, 20]), f32([[1, 2, 3], [4, 5, 6]])),
    f32([[11, 12, 13], [24, 25, 26]]),
    lambda b, x, y: b.Add(x, y, (0,)),
)
case("Add", (f32([[1], [2]]), f32([[10, 20, 30]])), f32([[11, 21, 31], [12, 22, 32]]))
case(
    "Add",
    (f32([[[1, 2]], [[3, 4]]]), f32([[10], [20]])),
    f32([[[11, 12], [21, 22]], [[13, 14], [23, 24]]]),
    lambda b, x, y: b.Add(x, y, (1, 2)),
)
case("And", (s32([12, -1]), s32([10, 7])), s32([8, 7]))
case("And", (pred([1, 1, 0]), pred(1)), pred([1, 1, 0]))
case("Atan2", (f32([0, 1, -1]), f32([-1, 1, 0])), f32([np.pi, np.pi / 4, -np.pi / 2]), ulp=2)
case("Complex", (f32([1, 2]), f32(3)), c64([1 + 3j, 2 + 3j]))
case("Div", (f32([1, -7]), f32([4, 2])), f32([0.25, -3.5]))
case("Div", (s32([-7, 7, -(2**31)]), s32([2, 0, -1])), s32([-3, -1, -(2**31)]))
case("Max", (f32([1, nan, -0.0]), f32([2, 1, 0])), f32([2, nan, 0]))
case("Min", (f32([1, nan, -0.0]), f32([2, 1, 0])), f32([1, nan, -0.0]))
case(
    "Mul",
    (f32([[1, 2], [3, 4]]), f32([10, 100])),
    f32([[10, 20], [300, 400]]),
    lambda b, x, y: b.Mul(x, y, broadcast_dimensions=(0,)),
)
case("Or", (s32([12, 1]), s32(2)), s32([14, 3]))
case("Pow", (f32([2, 9, nan]), f32([10, 0.5, 0])), f32([1024, 3, 1]), ulp=2)
case("Rem", (f32([-5.5, 7]), f32([2, inf])), f32([-1.5, 7]))
case("Rem", (s32([-7, 7]), s32([2, 0])), s32([-1, 7]))
case("ShiftLeft", (s32([1, 1, 3]), s32([4, 32, 31])), s32([16, 0, -(2**31)]))
case("ShiftRightArithmetic", (s32([-8, -8, 8]), s32([1, 32, 40])), s32([-4, -1, 0]))
case("ShiftRightLogical", (s32([-8, -8]), s32([28, 32])), s32([15, 0]))
case("Sub", (f32(1), f32([1, 3])), f32([0, -2]))
case("Xor", (s32([12, -1]), s32([10, 7])), s32([6, -8]))

_ORDER = f32([-nan, -inf, -0.0, 0, 1, nan])
for _name, _plain, _total in (
    ("Eq", [0, 0, 1, 1, 0, 0], [0, 0, 0, 1, 0, 0]),
    ("Ne", [1, 1, 0, 0, 1, 1], [1, 1, 1, 0, 1, 1]),
    ("Ge", [0, 0, 1, 1, 1, 0], [0, 0, 0, 1, 1, 1]),
    ("Gt", [0, 0, 0, 0, 1, 0], [0, 0, 0, 0, 1, 1]),
    ("Le", [0, 1, 1, 1, 0, 0], [1, 1, 1, 1, 0, 0]),
    ("Lt", [0, 1, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0]),
):
    case(_name, (np.copysign(_ORDER, f32([-1, -1, -1, 1, 1, 1])), f32(0)), pred(_plain))
    case(_name + "TotalOrder", (np.copysign(_ORDER, f32([-1, -1, -1, 1, 1, 1])), f32(0)), pred(_total))
case("Lt", (u8([1, 200]), u8(100)), pred([1, 0]))
case("LtTotalOrder", (s32([-1, 200]), s32(100)), pred([1, 0]))
case("Eq", (c64([1 + 1j, 2]), c64([1 + 1j, 3])), pred([1, 0]))

case("Constant", (), s32([[1, 2], [3, 4]]), lambda b: b.Constant([[1, 2], [3, 4]], "s32"))
case("Constant", (), f32([1.5, 2]), lambda b: b.Constant(Literal.from_values(Shape("f32", (2,)), [1.5, 2])))
case("Iota", (), s32([[0, 0], [1, 1]]), lambda b: b.Iota(Shape("s32", (2, 2)), 0))
case("Iota", (), f32([[0, 1, 2]]), lambda b: b.Iota(Shape("f32", (1, 3)), 1))
case("Clamp", (s32(0), s32([-1, 5, 9]), s32(6)), s32([0, 5, 6]))
case("Clamp", (f32([8, 0]), f32([5, nan]), f32([2, 1])), f32([2, nan]))
case(
    "Select", (pred([[1, 0], [0, 1]]), s32([[1, 2], [3, 4]]), s32([[100, 200], [300, 400]])), s32([[1, 200], [300, 4]])
)
case("Select", (pred(0), f32([1, 2]), f32([3, 4])), f32([3, 4]))
case(
    "ConvertElementType", f32([1.75, -1.75, 300, nan]), s8([1, -1, 127, 0]), lambda b, x: b.ConvertElementType(x, "s8")
)
case("ConvertElementType", s32([0, 1, -2]), f32([0, 1, -2]), lambda b, x: b.ConvertElementType(x, "f32"))
case("BitcastConvertType", f32([1, -2]), u32([0x3F800000, 0xC0000000]), lambda b, x: b.BitcastConvertType(x, "u32"))
case("BitcastConvertType", u32([0x04030201]), u8([[1, 2, 3, 4]]), lambda b, x: b.BitcastConvertType(x, "u8"))
case("BitcastConvertType", u8([[1, 2, 3, 4]]), u32([0x04030201]), lambda b, x: b.BitcastConvertType(x, "u32"))
case("ReducePrecision", f32([65519, 65520, 3e-5]), f32([65504, inf, 0]), lambda b, x: b.ReducePrecision(x, 5, 10))

# movement

case("Broadcast", f32([1, 2, 3]), f32([[1, 2, 3], [1, 2, 3]]), lambda b, x: b.Broadcast(x, (2,)))
case("BroadcastInDim", f32([1, 2]), f32([[1, 1, 1], [2, 2, 2]]), lambda b, x: b.BroadcastInDim(x, (2, 3), (0,)))
case("BroadcastInDim", f32([[1], [2]]), f32([[1, 1, 1], [2, 2, 2]]), lambda b, x: b.BroadcastInDim(x, (2, 3), (0, 1)))
case("BroadcastInDim", f32([[1, 2]]), f32([[[1, 2]], [[1, 2]]]), lambda b, x: b.BroadcastInDim(x, (2, 1, 2), (0, 2)))
case("BroadcastInDim", f32([5]), f32([5]), lambda b, x: b.BroadcastInDim(x, (1,), (0,)))

_BLOCK = s32([[[10 * i + j, 10 * i + j + 5, 10 * i + j + 6] for j in range(2)] for i in range(1, 5)])
case("Collapse", _BLOCK, _BLOCK.reshape(24), lambda b, x: b.Collapse(x, (0, 1, 2)))
case("Collapse", _BLOCK, _BLOCK.reshape(8, 3), lambda b, x: b.Collapse(x, (0, 1)))
case("Collapse", _BLOCK, _BLOCK.reshape(4, 6), lambda b, x: b.Collapse(x, (1, 2)))
case("Collapse", f32([[1, 2]]), f32([[1, 2]]), lambda b, x: b.Collapse(x, (1,)))
case("Reshape", s32([[1, 2, 3], [4, 5, 6]]), s32([[1, 2], [3, 4], [5, 6]]), lambda b, x: b.Reshape(x, (3, 2)))
case("Reshape", s32([[7]]), s32(7), lambda b, x: b.Reshape(Shape("s32"), x))
case("Reshape", s32([1, 2]), s32([[1], [2]]), lambda b, x: b.Reshape(operand=x, dimensions=(2, 1)))
case("Reshape", s32([1, 2]), s32([[1], [2]]), lambda b, x: b.Reshape(shape=Shape("s32", (2, 1)), operand=x))
case("Transpose", s32([[1, 2, 3], [4, 5, 6]]), s32([[1, 4], [2, 5], [3, 6]]), lambda b, x: b.Transpose(x, (1, 0)))
case("Rev", s32([[1, 2, 3], [4, 5, 6]]), s32([[6, 5, 4], [3, 2, 1]]), lambda b, x: b.Rev(x, (0, 1)))
case("Slice", f32([0, 1, 2, 3, 4]), f32([2, 3]), lambda b, x: b.Slice(x, (2,), (4,)))
case(
    "Slice",
    f32([[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]),
    f32([[1, 2], [7, 8]]),
    lambda b, x: b.Slice(x, (0, 1), (4, 3), (2, 1)),
)
case("DynamicSlice", (f32([0, 1, 2, 3, 4]), s32(2)), f32([2, 3]), lambda b, x, i: b.DynamicSlice(x, [i], (2,)))
case(
    "DynamicSlice",
    (f32([[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]), s32(9), s32(1)),
    f32([[7, 8], [10, 11]]),
    lambda b, x, i, j: b.DynamicSlice(x, [i, j], (2, 2)),
)
case(
    "DynamicUpdateSlice",
    (f32([0, 1, 2, 3, 4]), f32([5, 6]), s32(2)),
    f32([0, 1, 5, 6, 4]),
    lambda b, x, update, i: b.DynamicUpdateSlice(x, update, [i]),
)
case(
    "DynamicUpdateSlice",
    (f32([[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]), f32([[12, 13], [14, 15], [16, 17]]), s32(1), s32(1)),
    f32([[0, 1, 2], [3, 12, 13], [6, 14, 15], [9, 16, 17]]),
    lambda b, x, update, i, j: b.DynamicUpdateSlice(x, update, [i, j]),
)
case("ConcatInDim", (f32([2, 3]), f32([4, 5]), f32([6, 7])), f32([2, 3, 4, 5, 6, 7]), lambda b, *x: b.ConcatInDim(x, 0))
case(
    "Concatenate",
    (f32([[1], [2]]), f32([[3, 4], [5, 6]])),
    f32([[1, 3, 4], [2, 5, 6]]),
    lambda b, *x: b.Concatenate(x, 1),
)
case(
    "Pad",
    (f32([[1, 2], [3, 4]]), f32(0)),
    f32([[0, 1, 0, 2], [0, 3, 0, 4], [0, 0, 0, 0]]),
    lambda b, x, v: b.Pad(x, v, [(0, 1, 0), PaddingDimension(1, 0, 1)]),
)
case("Pad", (f32([1, 2, 3, 4]), f32(0)), f32([2, 3, 4, 0]), lambda b, x, v: b.Pad(x, v, [(-1, 1, 0)]))
case(
    "Gather",
    (f32([[1, 2], [3, 4], [5, 6]]), s32([2, 0, 9])),
    f32([[5, 6], [1, 2], [5, 6]]),
    lambda b, x, i: b.Gather(x, i, GatherDimensionNumbers((1,), (0,), (0,), 1), (1, 2)),
)
_ROWS = ScatterDimensionNumbers((), (0,), (0,), 1)
case(
    "Scatter",
    (f32([1, 2, 3]), s32([2, 0, 9, 2]), f32([10, 20, 30, 40])),
    f32([21, 2, 53]),
    lambda b, x, i, u: b.Scatter(x, i, u, ADD, _ROWS),
)
case(
    "Scatter",
    (f32([1, 2, 3]), s32([0, 1, 2]), s32([2, 0]), f32([5, -5]), s32([7, 8])),
    (f32([1, 2, 5]), s32([0, 1, 7])),
    lambda b, x, j, i, u, v: b.Scatter([x, j], i, [u, v], ARGMAX, _ROWS, unique_indices=True),
)
case("GetDimensionSize", f32([[1, 2, 3], [4, 5, 6]]), s32(3), lambda b, x: b.GetDimensionSize(x, 1))
case(
    "SetDimensionSize",
    (f32([1, 2, 3]), s32(2)),
    f32(3),
    lambda b, x, n: b.Reduce(b.SetDimensionSize(x, n, 0), b.Constant(0), ADD),
)
case("SetDimensionSize", f32([1, 2]), f32([1, 2]), lambda b, x: b.SetDimensionSize(x, b.Constant(2, "s32"), 0))
case(
    "DynamicReshape",
    (f32([1, 2, 3, 4]), s32(2), s32(2)),
    f32(10),
    lambda b, x, m, n: b.Reduce(b.DynamicReshape(x, [m, n], (2, 2), (False, True)), b.Constant(0), ADD),
)

# reductions, windows, sorts

_CUBE = f32(np.tile([[1, 2, 3], [4, 5, 6]], (4, 1, 1)))
case("Reduce", f32([10, 11, 12, 13]), f32(46), lambda b, x: b.Reduce(x, b.Constant(0), ADD))
case("Reduce", _CUBE, f32([[5, 7, 9]] * 4), lambda b, x: b.Reduce(x, b.Constant(0), ADD, (1,)))
case("Reduce", _CUBE, f32([20, 28, 36]), lambda b, x: b.Reduce(x, b.Constant(0), ADD, (0, 1)))
case("Reduce", _CUBE, f32(84), lambda b, x: b.Reduce(x, b.Constant(0), ADD, (0, 1, 2)))
case(
    "Reduce",
    (f32([[3, 9, 1], [4, 2, 8]]), s32([[0, 1, 2], [0, 1, 2]])),
    (f32([9, 8]), s32([1, 2])),
    lambda b, x, i: b.Reduce([x, i], [b.Constant(-inf), b.Constant(0, "s32")], ARGMAX, (1,)),
)
_POWERS = f32([10000, 1000, 100, 10, 1])
case(
    "ReduceWindow",
    _POWERS,
    f32([11100, 1110, 111]),
    lambda b, x: b.ReduceWindow(x, b.Constant(0), ADD, (3,), (1,), "VALID"),
)
case(
    "ReduceWindow",
    _POWERS,
    f32([11000, 11100, 1110, 111, 11]),
    lambda b, x: b.ReduceWindow(x, b.Constant(0), ADD, (3,), (1,), "SAME"),
)
case(
    "ReduceWindow",
    _POWERS,
    f32([11000, 1110, 11]),
    lambda b, x: b.ReduceWindow(x, b.Constant(0), ADD, (3,), (2,), "SAME"),
)
case(
    "ReduceWindow",
    _POWERS,
    f32([10100, 1010, 101]),
    lambda b, x: b.ReduceWindow(x, b.Constant(0), ADD, (2,), None, "VALID", None, (2,)),
)
case(
    "ReduceWindow",
    f32([1, 2]),
    f32([1, 2, 2]),
    lambda b, x: b.ReduceWindow(x, b.Constant(0), ADD, (2,), None, [(0, 1)], (2,)),
)
case(
    "SelectAndScatter",
    (f32([[7, 2, 5, 3, 10, 2], [3, 8, 9, 3, 4, 2], [1, 5, 7, 5, 6, 1], [0, 6, 2, 7, 2, 8]]), f32([[2, 6], [3, 1]])),
    f32([[0, 0, 0, 0, 6, 0], [0, 0, 2, 0, 0, 0], [0, 0, 3, 0, 0, 0], [0, 0, 0, 0, 0, 1]]),
    lambda b, x, source: b.SelectAndScatter(x, GE, (2, 3), (2, 3), "VALID", source, b.Constant(0), ADD),
)
case("Map", (f32([1, 2, 3]), f32([10, 20, 30])), f32([11, 22, 33]), lambda b, *x: b.Map(x, ADD, (0,)))
case("Map", f32([[1], [2]]), f32([[2], [4]]), lambda b, x: b.Map(x, DOUBLE, (0, 1)))
case("Scan", f32([1, 2, 3, 4]), (f32([1, 3, 6, 10]), f32(10)), lambda b, x: b.Scan(x, b.Constant(0), RUNNING_SUM, 0))
case(
    "Scan",
    f32([1, 2, 3, 4]),
    (f32([10, 9, 7, 4]), f32(10)),
    lambda b, x: b.Scan([x], [b.Constant(0)], RUNNING_SUM, 0, is_reverse=True, is_associative=True),
)
case("Sort", f32([[3, 1, 2], [9, 8, 7]]), f32([[1, 2, 3], [7, 8, 9]]), lambda b, x: b.Sort(x, LT))
case("Sort", f32([[3, 1], [2, 8]]), f32([[2, 1], [3, 8]]), lambda b, x: b.Sort(x, LT, 0))
case(
    "Sort",
    (f32([2, 1, 2, 1]), s32([0, 1, 2, 3])),
    (f32([1, 1, 2, 2]), s32([1, 3, 0, 2])),
    lambda b, x, i: b.Sort([x, i], LT_FIRST, 0, is_stable=True),
)
case("TopK", f32([3, 9, 1, 9]), (f32([9, 9, 3]), s32([1, 3, 0])), lambda b, x: b.TopK(x, 3))
case("TopK", f32([[3, 9, 1], [4, 6, 5]]), (f32([[1], [4]]), s32([[2], [0]])), lambda b, x: b.TopK(x, 1, largest=False))

# linear algebra

case("Dot", (f32([1, 2, 3]), f32([4, 5, 6])), f32(32))
case("Dot", (f32([[1, 2], [3, 4]]), f32([5, 6])), f32([17, 39]))
case("Dot", (f32([[1, 2], [3, 4]]), f32([[5, 6], [7, 8]])), f32([[19, 22], [43, 50]]))
case("Dot", (s8([100, 100]), s8([2, 2])), s32(400), lambda b, x, y: b.Dot(x, y, "HIGHEST", "s32"))
case(
    "DotGeneral",
    (f32([[1, 2, 3], [4, 5, 6]]), f32([[1, 1, 1], [2, 2, 2]])),
    f32([[6, 12], [15, 30]]),
    lambda b, x, y: b.DotGeneral(x, y, DotDimensionNumbers((1,), (1,)), PrecisionConfig(("highest", "default"))),
)
case(
    "DotGeneral",
    (f32([[[1, 2], [3, 4]], [[5, 6], [7, 8]]]), f32([[[1, 0], [0, 1]], [[1, 0], [0, 1]]])),
    f32([[[1, 2], [3, 4]], [[5, 6], [7, 8]]]),
    lambda b, x, y: b.DotGeneral(x, y, DotDimensionNumbers((2,), (1,), (0,), (0,))),
)
case(
    "ScaledDot",
    (f32([[1, 2, 3, 4]]), f32([[2, 10]]), f32([[1], [1], [1], [1]]), f32([[1], [3]])),
    f32([[216]]),
    lambda b, x, sx, y, sy: b.ScaledDot(x, sx, y, sy, DotDimensionNumbers((1,), (0,)), None, "f32"),
)

_SIGNAL, _TAPS = f32([[[1, 2, 3, 4]]]), f32([[[1, 10]]])
_LAST = ConvolutionDimensionNumbers(0, 2, (1,), 1, 2, (0,), 0, 2, (1,))
_IMAGE = f32(np.arange(1, 17).reshape(1, 1, 4, 4))
case("Conv", (_SIGNAL, _TAPS), f32([[[21, 32, 43]]]), lambda b, x, k: b.Conv(x, k, (1,), "VALID"))
case("Conv", (_SIGNAL, _TAPS), f32([[[21, 32, 43, 4]]]), lambda b, x, k: b.Conv(x, k, (1,), "SAME"))
case("Conv", (_SIGNAL, _TAPS), f32([[[21, 43]]]), lambda b, x, k: b.Conv(x, k, (2,), "same"))
case(
    "Conv",
    (_IMAGE, f32(np.ones((1, 1, 3, 3)))),
    f32([[[[14, 24, 30, 22], [33, 54, 63, 45], [57, 90, 99, 69], [46, 72, 78, 54]]]]),
    lambda b, x, k: b.Conv(x, k, None, "SAME"),
)
case(
    "Conv",
    (f32([[[1, 2], [3, 4]]]), f32([[[10]], [[100]]])),
    f32([[[10, 20], [300, 400]]]),
    lambda b, x, k: b.Conv(x, k, None, "VALID", feature_group_count=2),
)
case(
    "Conv",
    (f32([[[1, 2]], [[3, 4]]]), f32([[[10]], [[100]]])),
    f32([[[10, 20], [300, 400]]]),
    lambda b, x, k: b.Conv(x, k, None, "VALID", batch_group_count=2, precision_config="HIGH"),
)
case(
    "ConvWithGeneralPadding",
    (_SIGNAL, _TAPS),
    f32([[[10, 21, 32]]]),
    lambda b, x, k: b.ConvWithGeneralPadding(x, k, (1,), [(1, -1)]),
)
case(
    "ConvWithGeneralDimensions",
    (f32([[[1], [2], [3]]]), f32([[[1]], [[10]]])),
    f32([[[21], [32]]]),
    lambda b, x, k: b.ConvWithGeneralDimensions(x, k, (1,), "VALID", _LAST),
)
case(
    "ConvGeneral",
    (f32([[[1], [2], [3]]]), f32([[[1]], [[10]]])),
    f32([[[10], [32]]]),
    lambda b, x, k: b.ConvGeneral(x, k, (2,), [(1, 0)], _LAST),
)
for _options, _numbers in (
    ({"padding": "VALID", "lhs_dilation": (2,)}, [1, 20, 2, 30, 3, 40]),
    ({"padding": [(1, 1)], "lhs_dilation": (2,)}, [10, 1, 20, 2, 30, 3, 40, 4]),
    ({"padding": "VALID", "rhs_dilation": (2,)}, [31, 42]),
    ({"padding": "SAME", "rhs_dilation": (2,)}, [20, 31, 42, 3]),
    ({"padding": "VALID", "window_reversal": (True,)}, [12, 23, 34]),
):
    case(
        "ConvGeneralDilated",
        (_SIGNAL, _TAPS),
        f32([[_numbers]]),
        lambda b, x, k, _options=_options: b.ConvGeneralDilated(x, k, None, **_options),
    )

case("Cholesky", f32([[4, 0], [6, 13]]), f32([[2, 0], [3, 2]]), lambda b, x: b.Cholesky(x, True), ulp=2)
case("Cholesky", f32([[4, 6], [0, 13]]), f32([[2, 3], [0, 2]]), lambda b, x: b.Cholesky(x, lower=False), ulp=2)
case(
    "TriangularSolve",
    (f32([[2, 0], [3, 4]]), f32([[2], [11]])),
    f32([[1], [2]]),
    lambda b, x, y: b.TriangularSolve(x, y, True, True, False),
    ulp=2,
)
case(
    "TriangularSolve",
    (f32([[9, 3], [0, 9]]), f32([[1, 5]])),
    f32([[1, 2]]),
    lambda b, x, y: b.TriangularSolve(x, y, left_side=False, lower=False, unit_diagonal=True),
    ulp=2,
)
case(
    "TriangularSolve",
    (f32([[2, 0], [3, 4]]), f32([[8], [8]])),
    f32([[1], [2]]),
    lambda b, x, y: b.TriangularSolve(x, y, True, True, False, "TRANSPOSE"),
    ulp=2,
)
case("Fft", f32([1, 2, 3, 4]), c64([10, -2 + 2j, -2]), lambda b, x: b.Fft(x, "RFFT", (4,)))
case("Fft", c64([10, -2 + 2j, -2]), f32([1, 2, 3, 4]), lambda b, x: b.Fft(x, "IRFFT", (4,)), ulp=4)
case("Fft", c64([1, 2, 3, 4]), c64([10, -2 + 2j, -2, -2 - 2j]), lambda b, x: b.Fft(x, "FFT", (4,)))
case("Fft", c64([10, -2 + 2j, -2, -2 - 2j]), c64([1, 2, 3, 4]), lambda b, x: b.Fft(x, "IFFT", (4,)))
case(
    "BatchNormTraining",
    (f32([[1, 4], [3, 8]]), f32([1, 10]), f32([0, 1])),
    (f32([[-1, -9], [1, 11]]), f32([2, 6]), f32([1, 4])),
    lambda b, *x: b.BatchNormTraining(*x, epsilon=0, feature_index=1),
    ulp=4,
)
case(
    "BatchNormInference",
    (f32([[1, 4], [3, 8]]), f32([1, 10]), f32([0, 1]), f32([2, 6]), f32([0.75, 3.75])),
    f32([[-1, -9], [1, 11]]),
    lambda b, *x: b.BatchNormInference(*x, 0.25, 1),
    ulp=4,
)
case(
    "BatchNormGrad",
    (f32([[1], [3]]), f32([2]), f32([2]), f32([1]), f32([[1], [4]])),
    (f32([[0], [0]]), f32([3]), f32([5])),
    lambda b, *x: b.BatchNormGrad(*x, 0, 1),
    ulp=4,
)

# structure, control flow, random numbers, host

case("Parameter", f32([1, 2]), f32([1, 2]), lambda b, x: x)
case("Tuple", (f32([1, 2]), s32(3)), (f32([1, 2]), s32(3)), lambda b, *x: b.Tuple(x))
case("GetTupleElement", (f32([1, 2]), s32(3)), s32(3), lambda b, *x: b.GetTupleElement(b.Tuple(x), 1))
case("Call", (f32(1), f32(2)), f32(3), lambda b, *x: b.Call(ADD, x))
case("CompositeCall", (f32(1), f32(2)), f32(3), lambda b, *x: b.CompositeCall(ADD, x, "my.sum", "{n = 1 : i64}", 1))
case("While", f32(3), f32(192), lambda b, x: b.While(BELOW_100, DOUBLE, x))
case("While", f32(300), f32(300), lambda b, x: b.While(BELOW_100, DOUBLE, x))
for _index, _result in ((0, 6.0), (1, -4.0), (7, -4.0), (-1, -4.0)):
    case(
        "Conditional",
        (s32(_index), f32(3), f32(4)),
        f32(_result),
        lambda b, i, x, y: b.Conditional(i, [DOUBLE, NEGATE], [x, y]),
    )
for _choice, _result in ((1, 6.0), (0, -4.0)):
    case(
        "Conditional",
        (pred(_choice), f32(3), f32(4)),
        f32(_result),
        lambda b, p, x, y: b.Conditional(p, x, DOUBLE, y, NEGATE),
    )
case(
    "Conditional",
    (s32(0), f32(3)),
    f32(6),
    lambda b, i, x: b.Conditional(branch_index=i, branch_computations=[DOUBLE], branch_operands=[x]),
)
case("OptimizationBarrier", (f32(1), s32(2)), (f32(1), s32(2)), lambda b, *x: b.OptimizationBarrier(b.Tuple(x)))
case("RngUniform", (f32(-1), f32(1)), None, lambda b, low, high: b.RngUniform(low, high, Shape("f32", (5,))))
case("RngNormal", (f32(0), f32(1)), None, lambda b, mu, sigma: b.RngNormal(mu, sigma, Shape("f32", (5,))))
case(
    "RngBitGenerator",
    u64([0, 0]),
    (u64([0, 1]), u64([0x99BA4EFE6B200159])),
    lambda b, state: b.RngBitGenerator("RNG_THREE_FRY", state, Shape("u64", (1,))),
)
case("AfterAll", f32(1), f32(1), lambda b, x: b.op("add-dependency", x, b.AfterAll([b.AfterAll([]), b.AfterAll([])])))
_FED = Host(infeed=[f32([1, 2]), (s32(3), f32([4, 5]))])
case("Infeed", (), f32([1, 2]), lambda b: b.Infeed(Shape("f32", (2,)), "config"), host=_FED)
case(
    "Infeed",
    (),
    (f32([1, 2]), s32(3), f32([4, 5])),
    lambda b: b.Tuple([b.Infeed(Shape("f32", (2,))), b.Infeed(Shape.tuple([S32, Shape("f32", (2,))]))]),
    host=_FED,
)
case(
    "Outfeed",
    f32([1, 2]),
    (),
    lambda b, x: b.Outfeed(x, Shape("f32", (2,)), b"config"),
    host=Host(outfeed=[f32([1, 2])]),
)
case(
    "Outfeed",
    f32([[1, 2]]),
    (),
    lambda b, x: b.Outfeed(b.Tuple([x, b.Neg(x)]), Shape.tuple([Shape("f32", (1, 2), Layout((0, 1)))] * 2)),
    host=Host(outfeed=[(f32([[1, 2]]), f32([[-1, -2]]))]),
)
# to the device itself, where there is no other
case("Send", f32([1, 2]), f32([1, 2]), lambda b, x: b.Tuple([b.Send(x, 1), b.Recv(Shape("f32", (2,)), 1)]))
case(
    "Recv",
    (f32([1, 2]), s32(3)),
    (f32([1, 2]), s32(3)),
    lambda b, x, n: [b.Send(b.Tuple([x, n]), 5), b.Recv(Shape.tuple([Shape("f32", (2,)), S32]), 5)][1],
)

# collectives, on one device

_ONE = ((0,),)
case("ReplicaId", (), u32(0))
case("PartitionID", (), u32(0))
case("PartitionID", (), u32(0), lambda b: b.PartitionID(Shape("u32")))
case("CrossReplicaSum", f32([1, 2]), f32([1, 2]))
case("CrossReplicaSum", (f32([1, 2]), f32(3)), (f32([1, 2]), f32(3)), lambda b, *x: b.CrossReplicaSum(b.Tuple(x), _ONE))
case(
    "AllReduce",
    f32([1, 2]),
    f32([1, 2]),
    lambda b, x: b.AllReduce(x, MAX, ReplicaGroups(_ONE), 1, use_global_device_ids=True),
)
case(
    "AllReduce",
    f32([[1, 2]]),
    f32([[1, 2]]),
    lambda b, x: b.AllReduce(x, MAX, shape_with_layout=Shape("f32", (1, 2), Layout((0, 1)))),
)
case("AllGather", f32([1, 2]), f32([1, 2]), lambda b, x: b.AllGather(x, 0, 1, _ONE))
case("ReduceScatter", f32([1, 2]), f32([1, 2]), lambda b, x: b.ReduceScatter(x, ADD, 0, 1, _ONE))
case("AllToAll", f32([[1, 2]]), f32([[1, 2]]), lambda b, x: b.AllToAll(x, 1, 1, 1, _ONE))
case("AllToAll", f32([[1, 2]]), f32([[1, 2]]), lambda b, x: b.AllToAll(x, 1, 0, 1, _ONE))
case(
    "RaggedAllToAll",
    (f32([1, 2]), s32([0]), s32([1]), f32([7, 8, 9]), s32([1]), s32([1])),
    f32([7, 1, 9]),
    lambda b, *x: b.RaggedAllToAll(*x, _ONE),
)
case("CollectiveBroadcast", f32([1, 2]), f32([1, 2]), lambda b, x: b.CollectiveBroadcast(x, _ONE))
case("CollectivePermute", f32([1, 2]), f32([1, 2]), lambda b, x: b.CollectivePermute(x, [(0, 0)]))
case("Build", f32(1), f32(2), lambda b, x: b.Call(DOUBLE, [x]))
