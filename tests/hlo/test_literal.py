"""Constant values: types, layouts, laziness, damage."""

from __future__ import annotations

import time
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from xla_wasm.errors import ArgumentError, ParseError
from xla_wasm.hlo import float_codes
from xla_wasm.hlo.literal import Literal
from xla_wasm.hlo.proto.schema import MESSAGES
from xla_wasm.hlo.proto.shapes import write_shape
from xla_wasm.hlo.proto.wire import encode
from xla_wasm.hlo.shape import Layout, Shape
from xla_wasm.hlo.text.literal_text import literal_text

SMALL: dict[str, Any] = {name: getattr(ml_dtypes, f"float{name[1]}_{name[2:]}") for name in float_codes.FORMATS}
_NUMPY = (
    "s8 int8,s16 int16,s32 int32,s64 int64,u8 uint8,u16 uint16,u32 uint32,u64 uint64,f16 float16,f32 float32,f64 "
    "float64"
)
DTYPES: dict[str, Any] = {name: getattr(np, dtype) for name, dtype in (row.split() for row in _NUMPY.split(","))}
DTYPES |= {"pred": np.bool_, "c64": np.complex64, "c128": np.complex128, "bf16": ml_dtypes.bfloat16, **SMALL}
DTYPES |= {"s4": ml_dtypes.int4, "u4": ml_dtypes.uint4, "s2": ml_dtypes.int2, "u2": ml_dtypes.uint2}


def sample(name: str, size: int) -> np.ndarray[Any, Any]:
    values = np.random.default_rng(7).integers(-3, 4, size)
    if name == "f8e8m0fnu":
        return np.exp2(values).astype(DTYPES[name])
    if name[0] in "up":
        values = abs(values)
    if name in ("s2", "s1"):
        values = values.clip(-2, 1)
    wide = values * 1000003 if name in ("s32", "s64", "u32", "u64") else values
    return wide.astype(DTYPES[name])


@pytest.mark.parametrize("layout", [(2, 1, 0), (0, 1, 2), (1, 2, 0)])
@pytest.mark.parametrize("name", sorted(DTYPES))
def test_every_type_and_layout(name: str, layout: tuple[int, ...]) -> None:
    array = sample(name, 24).reshape(2, 3, 4)
    shape = Shape(name, (2, 3, 4), Layout(layout))
    values = (
        array.astype(np.complex128 if name[0] == "c" else np.int64 if name[0] in "su" else np.float64).ravel().tolist()
    )
    literal = Literal.from_values(shape, values)
    physical = np.frombuffer(literal.data, array.dtype)
    assert (physical == array.transpose(layout[::-1]).ravel()).all()
    assert (np.frombuffer(literal.row_major(), array.dtype) == array.ravel()).all()
    assert literal.values() == values
    again = Literal.from_proto(literal.to_proto())
    assert again == literal and hash(again) == hash(literal)
    assert again.values() == values
    assert again.with_layout(Layout((2, 1, 0))).data == literal.row_major()
    assert Literal.from_proto(again.to_proto()).to_proto() == literal.to_proto()


@pytest.mark.parametrize("name", sorted(float_codes.FORMATS))
def test_small_floats(name: str) -> None:
    """Every code, and rounding of values between, beyond and beside them, as ml_dtypes has it."""
    dtype = SMALL[name]
    count = 256 if ml_dtypes.finfo(dtype).bits == 8 else 1 << ml_dtypes.finfo(dtype).bits
    expected = np.arange(count, dtype=np.uint8).view(dtype).astype(np.float64)
    table = np.array(float_codes.values(name))
    np.testing.assert_array_equal(table, expected)
    np.testing.assert_array_equal(np.signbit(table[~np.isnan(table)]), np.signbit(expected[~np.isnan(expected)]))
    finite = np.sort(expected[np.isfinite(expected)])
    middles = ((finite[1:] + finite[:-1]) / 2).astype(
        np.float32
    )  # ml_dtypes goes through f32, so no closer to the middle than that
    beside = [np.nextafter(middles, np.float32(toward)) for toward in (np.inf, -np.inf)]
    beyond = np.array([finite[-1] * 1.03, finite[-1] * 1.07, finite[-1] * 1.2, 1e30, np.inf, np.nan], np.float32)
    numbers = np.concatenate([finite, middles, *beside, beyond])
    if name == "f8e8m0fnu":
        numbers = numbers[~(numbers < 2.0**-126)]  # f32 itself grows coarse there
    else:
        numbers = np.concatenate([numbers, -numbers])
    for number in numbers.tolist():
        code = float_codes.encode(name, number)
        with np.errstate(all="ignore"):
            theirs = np.float64(number).astype(dtype)
        ours = np.uint8(code).view(dtype)
        if name in ("f4e2m1fn", "f6e3m2fn", "f6e2m3fn") and np.isnan(number):
            continue  # there is no NaN to turn into
        assert (np.isnan(ours) and np.isnan(theirs)) or ours == theirs, (number, code, theirs)


def test_varint_integers_are_decoded_when_asked_for() -> None:
    values = [0, 1, -1, 127, 128, -128, 2**31 - 1, -(2**31)]
    literal = Literal.from_proto(Literal.from_values(Shape("s32", (8,)), values).to_proto())
    assert literal._data is None
    assert literal.values() == values
    assert literal._data is not None


def test_floats_are_not_copied() -> None:
    array = np.arange(100_000, dtype=np.float32)
    data = Literal(Shape("f32", (100_000,)), array.tobytes()).to_proto()
    literal = Literal.from_proto(memoryview(data))
    assert isinstance(literal.data, memoryview) and literal.data.obj is data
    assert literal.row_major() is literal.data


@pytest.mark.parametrize("name", sorted(DTYPES))
def test_splat(name: str) -> None:
    one = sample(name, 1).tolist()[0]
    value = one if isinstance(one, (bool, int, complex)) else float(one)
    if name[0] in "us" and not isinstance(value, int):
        value = int(value)
    other = 1 if value != 1 else 0 if name != "f8e8m0fnu" else 2
    for size in (1, 2, 100_003):
        shape = Shape(name, (size,))
        same = Literal.from_values(shape, [value] * size)
        assert same.splat_value() == value
        assert Literal.from_proto(same.to_proto()).splat_value() == value
        if size > 1:
            for place in (0, size // 2, size - 1):
                values = [value] * size
                values[place] = other
                mixed = Literal.from_values(shape, values)
                assert mixed.splat_value() is None
                assert Literal.from_proto(mixed.to_proto()).splat_value() is None
    assert Literal.from_values(Shape(name, (0,)), []).splat_value() is None


def test_splat_is_bitwise() -> None:
    assert Literal.from_values(Shape("f32", (2,)), [0.0, -0.0]).splat_value() is None
    assert str(Literal.from_values(Shape("f32", (2,)), [-0.0, -0.0]).splat_value()) == "-0.0"


def literal_proto(shape: Shape, **more: Any) -> bytes:
    return encode(MESSAGES["LiteralProto"], {"shape": write_shape(shape), **more})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no shape"),
        (literal_proto(Shape("f32", (2,))), "missing"),
        (literal_proto(Shape("f32", (2,)), f32s=b"abcd"), "2 elements needed, 1 found"),
        (literal_proto(Shape("f32", (2,)), f32s=b"abcde"), "inside an element"),
        (literal_proto(Shape("f32", (2,)), s32s=b"\x01\x02"), "missing"),
        (literal_proto(Shape("s32", (2,)), s32s=b"\x01"), "2 elements needed, 1 found"),
        (literal_proto(Shape("s32", (2,)), s32s=b"\x01\x81"), "inside a varint"),
        (literal_proto(Shape("s32", (1,)), s32s=b"\x80" * 11 + b"\x01"), "longer than 10"),
        (literal_proto(Shape("s32", (1 << 59,)), s32s=b"\x01"), "elements needed"),
        (literal_proto(Shape("f32", (-(2**63),)), f32s=b"abcd"), "must be known"),
        (literal_proto(Shape("f32", (1,)), f32s=b"abcd", dynamic_sizes=[1, 2]), "dynamic sizes"),
        (literal_proto(Shape.tuple([Shape("f32")])), "0 elements"),
        (
            literal_proto(Shape.tuple([Shape("f32")]), tuple_literals=[literal_proto(Shape("f32", (0,)))]),
            "an element is",
        ),
    ],
)
def test_damage(data: bytes, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        Literal.from_proto(data)


def test_unpacked_and_chunked_numbers() -> None:
    shape = write_shape(Shape("s32", (4,)))
    data = (
        encode(MESSAGES["LiteralProto"], {"shape": shape})
        + b"\x20\x05\x22\x02\x80\x01\x20"
        + b"\xff" * 9
        + b"\x01\x22\x01\x07"
    )
    assert Literal.from_proto(data).values() == [5, 128, -1, 7]
    floats = encode(MESSAGES["LiteralProto"], {"shape": write_shape(Shape("f32", (2,)))})
    floats += b"\x45" + np.float32(1.5).tobytes() + b"\x42\x04" + np.float32(-2).tobytes()
    assert Literal.from_proto(floats).values() == [1.5, -2.0]
    wide = encode(MESSAGES["LiteralProto"], {"shape": write_shape(Shape("pred", (3,))), "preds": b"\x00\x80\x01\x02"})
    assert Literal.from_proto(wide).values() == [False, True, True]


def test_values_that_do_not_fit() -> None:
    for name, value in (("s8", 128), ("u32", -1), ("s4", 8), ("u2", 4), ("s32", 1.5), ("f32", "x")):
        with pytest.raises(ArgumentError):
            Literal.from_values(Shape(name, (1,)), [value])
    with pytest.raises(ArgumentError, match="2 values needed"):
        Literal.from_values(Shape("f32", (2,)), [1.0])
    assert Literal.from_values(Shape("f32", (2,)), [1e39, -1e39]).values() == [float("inf"), -float("inf")]
    assert Literal.from_values(Shape("f16", (1,)), [1e39]).values() == [float("inf")]


def test_big_literals_are_fast() -> None:
    array = (np.random.default_rng(1).integers(-(2**31), 2**31, 500_000)).astype(np.int32)
    ids = np.random.default_rng(1).integers(0, 30_000, 500_000).astype(np.int32)
    for values in (array, ids):
        data = Literal(Shape("s32", values.shape), values.tobytes()).to_proto()
        start = time.thread_time()
        assert bytes(Literal.from_proto(data).data) == values.tobytes()
        assert time.thread_time() - start < 10
    matrix = np.arange(1 << 20, dtype=np.float32).reshape(1 << 19, 2)
    start = time.thread_time()
    literal = Literal(Shape("f32", matrix.shape, Layout((0, 1))), matrix.T.tobytes())
    assert bytes(literal.row_major()) == matrix.tobytes()
    assert time.thread_time() - start < 10


@pytest.mark.parametrize(
    ("shape", "values", "text"),
    [
        (Shape("f32"), [0.1], "0.1"),
        (Shape("f32", (4,)), [1e-30, 16777216.0, float("inf"), -0.0], "{1e-30, 16777216, inf, -0.0}"),
        (Shape("f64", (2,)), [1 / 3, 1e22], "{0.3333333333333333, 1e+22}"),
        (Shape("bf16", (2,)), [0.1, 3.0], "{0.1, 3}"),
        (Shape("f16", (2,)), [0.1, 65504.0], "{0.1, 6.55e+04}"),
        (Shape("f8e4m3fn", (1,)), [0.1], "{0.1}"),
        (Shape("c64", (1,)), [1 - 2j], "{(1, -2)}"),
        (Shape("pred"), [True], "true"),
        (Shape("pred", (2,)), [True, False], "{1, 0}"),
        (Shape("s32", (2, 1, 2)), [1, 2, 3, -4], "{ { { 1, 2 } }, { { 3, -4 } } }"),
        (Shape("f32", (0, 3)), [], "{}"),
        (Shape("f32", (2, 0)), [], "{ {}, {} }"),
        (Shape("s32", (11,)), list(range(11)), "{...}"),
    ],
)
def test_text(shape: Shape, values: list[Any], text: str) -> None:
    assert literal_text(Literal.from_values(shape, values), False) == text
