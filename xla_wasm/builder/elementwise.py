"""XlaBuilder's elementwise operations, constants and index ramps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ..hlo.attrs import ResultAccuracy
from ..hlo.ir import Instruction
from ..hlo.op import records
from ..hlo.shape import Shape
from ..hlo.types import TYPES, default_comparison
from .core import Core


class _Unary(Protocol):
    def __call__(self, operand: Instruction) -> Instruction: ...


class _Function(Protocol):
    def __call__(self, operand: Instruction, result_accuracy: ResultAccuracy | None = None) -> Instruction: ...


class _Binary(Protocol):
    def __call__(self, lhs: Instruction, rhs: Instruction, broadcast_dimensions: Sequence[int] = ()) -> Instruction: ...


# what type checkers see of the methods made below: descriptors that give the protocols above
class _UnaryMethod(Protocol):
    def __get__(self, b: Any, owner: Any = None) -> _Unary: ...


class _FunctionMethod(Protocol):
    def __get__(self, b: Any, owner: Any = None) -> _Function: ...


class _BinaryMethod(Protocol):
    def __get__(self, b: Any, owner: Any = None) -> _Binary: ...


def _unary(opcode: str) -> _UnaryMethod:
    def method(b: Core, operand: Instruction) -> Instruction:
        return b.op(opcode, operand)

    return _documented(method, records()[opcode].doc)


def _function(opcode: str) -> _FunctionMethod:
    def method(b: Core, operand: Instruction, result_accuracy: ResultAccuracy | None = None) -> Instruction:
        return b.op(opcode, operand, result_accuracy=result_accuracy)

    return _documented(method, records()[opcode].doc)


def _binary(opcode: str) -> _BinaryMethod:
    def method(b: Core, lhs: Instruction, rhs: Instruction, broadcast_dimensions: Sequence[int] = ()) -> Instruction:
        return b.op(opcode, *b._matched(opcode, lhs, rhs, broadcast_dimensions))

    return _documented(method, records()[opcode].doc)


def _comparison(direction: str, total: bool = False) -> _BinaryMethod:
    def method(b: Core, lhs: Instruction, rhs: Instruction, broadcast_dimensions: Sequence[int] = ()) -> Instruction:
        x, y = b._matched("compare", lhs, rhs, broadcast_dimensions)
        by_bits = total and TYPES[x.shape.element_type].kind == "float"
        return b.op(
            "compare",
            x,
            y,
            direction=direction,
            type="TOTALORDER" if by_bits else default_comparison(x.shape.element_type),
        )

    words = {
        "EQ": "are equal",
        "NE": "differ",
        "GE": "are at least",
        "GT": "are greater than",
        "LE": "are at most",
        "LT": "are less than",
    }
    pair = "both" if direction in ("EQ", "NE") else "the first"
    other = "" if pair == "both" else " the second"
    order = ", in the order -NaN < -Inf < ... < -0 < +0 < ... < Inf < NaN" if total else ""
    return _documented(method, f"True where elements of {pair} {words[direction]}{other}{order}.")


def _documented(method: Any, doc: str) -> Any:
    method.__doc__ = doc
    return method


class Elementwise(Core):
    """Operations on one element of each operand."""

    Abs = _unary("abs")
    Cbrt = _function("cbrt")
    Ceil = _unary("ceil")
    Clz = _unary("count-leading-zeros")
    Cos = _function("cosine")
    Cosh = _function("cosh")
    Erf = _function("erf")
    Exp = _function("exponential")
    Expm1 = _function("exponential-minus-one")
    Floor = _unary("floor")
    Imag = _unary("imag")
    IsFinite = _unary("is-finite")
    Log = _function("log")
    Log1p = _function("log-plus-one")
    Logistic = _function("logistic")
    Neg = _unary("negate")
    Not = _unary("not")
    PopulationCount = _unary("popcnt")
    Real = _unary("real")
    Round = _unary("round-nearest-afz")
    RoundNearestAfz = _unary("round-nearest-afz")
    RoundNearestEven = _unary("round-nearest-even")
    Rsqrt = _function("rsqrt")
    Sign = _unary("sign")
    Sin = _function("sine")
    Sqrt = _function("sqrt")
    Tan = _function("tan")
    Tanh = _function("tanh")

    Add = _binary("add")
    And = _binary("and")
    Atan2 = _binary("atan2")
    Complex = _binary("complex")
    Div = _binary("divide")
    Max = _binary("maximum")
    Min = _binary("minimum")
    Mul = _binary("multiply")
    Or = _binary("or")
    Pow = _binary("power")
    Rem = _binary("remainder")
    ShiftLeft = _binary("shift-left")
    ShiftRightArithmetic = _binary("shift-right-arithmetic")
    ShiftRightLogical = _binary("shift-right-logical")
    Sub = _binary("subtract")
    Xor = _binary("xor")

    Eq = _comparison("EQ")
    Ge = _comparison("GE")
    Gt = _comparison("GT")
    Le = _comparison("LE")
    Lt = _comparison("LT")
    Ne = _comparison("NE")
    EqTotalOrder = _comparison("EQ", total=True)
    GeTotalOrder = _comparison("GE", total=True)
    GtTotalOrder = _comparison("GT", total=True)
    LeTotalOrder = _comparison("LE", total=True)
    LtTotalOrder = _comparison("LT", total=True)
    NeTotalOrder = _comparison("NE", total=True)

    def Constant(self, literal: Any, element_type: Any = "f32") -> Instruction:
        """A Literal; or a number or nested sequences of numbers, and an element type; or a Shape and flat values.

        >>> b.Constant([[1, 2], [3, 4]], "s32")
        s32[2,2] [[1, 2], [3, 4]]
        """
        return self.constant(literal, element_type)

    def Iota(self, shape: Shape, iota_dimension: int) -> Instruction:
        """Every element its own index along one dimension.

        >>> b.Iota(Shape("s32", (2, 3)), 1)
        s32[2,3] [[0, 1, 2], [0, 1, 2]]
        """
        return self.iota(shape, iota_dimension)

    def Clamp(self, min: Instruction, operand: Instruction, max: Instruction) -> Instruction:
        """The operand moved into the bounds: min(max(operand, low), high). The bounds may be scalars.

        >>> b.Clamp(b.Constant(0, "s32"), b.Constant([-1, 5, 9], "s32"), b.Constant(6, "s32"))
        s32[3] [0, 5, 6]
        """
        return self.op("clamp", min, operand, max)

    def Select(self, pred: Instruction, on_true: Instruction, on_false: Instruction) -> Instruction:
        """Elements of the second operand where the first is true, else of the third. The first may be a scalar.

        >>> v = b.Constant([[1, 2], [3, 4]], "s32"), b.Constant([[100, 200], [300, 400]], "s32")
        >>> b.Select(b.Constant([[True, False], [False, True]], "pred"), *v)
        s32[2,2] [[1, 200], [300, 4]]
        """
        return self.op("select", pred, on_true, on_false)

    def ConvertElementType(self, operand: Instruction, new_element_type: str) -> Instruction:
        """Elements in another type: floats truncate to integers and saturate, integers wrap.

        >>> b.ConvertElementType(b.Constant([0, 1, -2], "s32"), "f32")
        f32[3] [0.0, 1.0, -2.0]
        >>> b.ConvertElementType(b.Constant([1.75, -1.75, 300]), "s8")
        s8[3] [1, -1, 127]
        """
        self._array("convert", operand)
        return self.convert(operand, new_element_type)

    def BitcastConvertType(self, operand: Instruction, new_element_type: str) -> Instruction:
        """The bits as another type; a narrower type adds a last dimension, a wider one takes it away.

        >>> b.BitcastConvertType(b.Constant([1, -2]), "u32")
        u32[2] [1065353216, 3221225472]
        >>> b.BitcastConvertType(b.Constant([0x04030201], "u32"), "u8")
        u8[1,4] [[1, 2, 3, 4]]
        """
        self._array("bitcast-convert", operand)
        return self.bitcast_convert(operand, new_element_type)

    def ReducePrecision(self, operand: Instruction, exponent_bits: int, mantissa_bits: int) -> Instruction:
        """Elements rounded to what a float with that many bits of exponent and mantissa holds.

        >>> b.ReducePrecision(b.Constant([65519, 65520, 1.00048828125]), 5, 10)
        f32[3] [65504.0, inf, 1.0]
        """
        return self.op("reduce-precision", operand, exponent_bits=exponent_bits, mantissa_bits=mantissa_bits)
