"""Building by hand: shapes are inferred, defaults filled in, and every numbered constraint of every operation is
enforced."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.broken_cases import BAD, FIRST
from tests.support.operation_cases import ADD, DOT, GOOD, build, function, shape, shapes
from xla_wasm.builder import Builder, module
from xla_wasm.errors import ArgumentError, UnsupportedError, VerifyError
from xla_wasm.hlo.attrs import PaddingDimension
from xla_wasm.hlo.literal import Literal
from xla_wasm.hlo.proto.module import from_proto, to_proto
from xla_wasm.hlo.shape import Shape
from xla_wasm.hlo.verify import verify
from xla_wasm.ops import docs
from xla_wasm.ops.table import FAMILIES, OPS


@pytest.mark.parametrize(("opcode", "operands", "result", "keywords"), GOOD, ids=[case[0] for case in GOOD])
def test_shapes_are_inferred(opcode: str, operands: str, result: str, keywords: dict[str, Any]) -> None:
    built = build(opcode, operands, **keywords)
    assert built.shape.without_layout() == shape(result)
    assert all(attr.name in built.attrs for attr in OPS[opcode].attrs)


@pytest.mark.parametrize(("opcode", "operands", "result", "keywords"), GOOD, ids=[case[0] for case in GOOD])
def test_they_survive_the_proto(opcode: str, operands: str, result: str, keywords: dict[str, Any]) -> None:
    b = Builder("main")
    keywords = {**keywords, "shape": shape(result)}
    original = b.module(
        b.op(opcode, *(b.parameter(number, s) for number, s in enumerate(shapes(operands))), **keywords)
    )
    again = from_proto(to_proto(original))
    verify(again)
    old, new = original.entry.root, again.entry.root
    assert new.shape.without_layout() == old.shape
    assert {k: v for k, v in new.attrs.items() if v != old.attrs[k]} == {}


def test_every_rule_has_a_case() -> None:
    assert {(op.opcode, rule + 1) for op in OPS.values() for rule in range(len(op.constraints))} == BAD.keys()
    with_shape_inference = {op.opcode for op in OPS.values() if op.opcode not in ("parameter", "iota", "constant")}
    unary_and_binary = {
        op.opcode
        for op in FAMILIES["elementwise"].ops
        if op.constraints[0].endswith((" an array.", " of equal sizes."))
    }
    assert with_shape_inference - unary_and_binary <= {case[0] for case in GOOD}


@pytest.mark.parametrize(("opcode", "rule"), BAD, ids=[f"{opcode} C{rule}" for opcode, rule in BAD])
def test_rules_are_enforced(opcode: str, rule: int) -> None:
    operands, changes = BAD[opcode, rule]
    with pytest.raises(VerifyError, match=rf"^{opcode} '{opcode}(\.\d+)?': \(C{rule}\) "):
        build(opcode, operands, **{**FIRST.get(opcode, {}), **changes})


def test_results_are_bounded() -> None:
    with pytest.raises(VerifyError, match=r"dot 'dot': the result has more than 2\^40 elements"):
        build("dot", "f32[1048576,4] f32[4,2097152]", **DOT)
    with pytest.raises(VerifyError, match=r"pad 'pad': the result has a dimension of size"):
        build("pad", "f32[4] f32[]", padding=(PaddingDimension(0, 0, 1 << 62),))


def test_constants() -> None:
    b = Builder("main")
    assert b.constant(2.5).attrs["literal"].values() == [2.5]
    assert b.constant([[1, 2, 3], [4, 5, 6]], "s8").shape == Shape("s8", (2, 3))
    assert b.constant([], "f32").shape == Shape("f32", (0,))
    assert b.constant(Shape("pred", (2,)), [True, False]).attrs["literal"].values() == [True, False]
    assert b.constant(Literal.from_values(Shape("u8"), [7])).shape == Shape("u8")
    assert b.full(1, Shape("s32", (2, 2))).opcode == "broadcast" and b.full(1, Shape("s32")).opcode == "constant"
    with pytest.raises(ArgumentError, match="differ in length"):
        b.constant([[1], [1, 2]])


def test_helpers() -> None:
    b = Builder("main")
    x = b.parameter(0, Shape("f32", (4, 3)), "x")
    y = b.parameter(1, Shape("f32", (3, 5)))
    assert (x.name, y.name, b.iota(Shape("s32", (3,))).shape) == ("x", "parameter", Shape("s32", (3,)))
    assert b.dot(x, y).shape == Shape("f32", (4, 5))
    assert b.dot(x, x, ([1], [1]), element_type="f64").shape == Shape("f64", (4, 4))
    assert b.reduce(x, 0, "add", [0]).shape == Shape("f32", (3,))
    assert b.reduce(x, b.constant(1), ADD).shape == Shape("f32")
    assert b.concatenate(x, x, dimension=1).shape == Shape("f32", (4, 6))
    assert b.bitcast_convert(x, "u8").shape == Shape("u8", (4, 3, 4))
    assert b.bitcast_convert(b.bitcast_convert(x, "u8"), "f32").shape == x.shape
    assert b.and_(b.compare(x, x, "LT"), b.is_finite(x)).opcode == "and"
    assert b.convert(x, "bf16").shape == Shape("bf16", (4, 3))
    assert [b.tanh(x).name, b.tanh(x).name, b.op("tanh", x, name="y").name, b.op("tanh", x, name="y").name] == [
        "tanh",
        "tanh.1",
        "y",
        "y.1",
    ]
    verify(b.module(b.tanh(x)))


def test_mistakes() -> None:
    b = Builder("main")
    x = b.parameter(0, Shape("f32", (4,)))
    with pytest.raises(AttributeError, match="no operation 'frobnicate'"):
        b.frobnicate(x)
    with pytest.raises(UnsupportedError, match="the opcode is unknown"):
        b.op("frobnicate", x)
    with pytest.raises(ArgumentError, match="it has no attribute axis, color"):
        b.op("reverse", x, color=1, axis=0, dimensions=(0,))
    with pytest.raises(ArgumentError, match="its shape must be given"):
        b.custom_call(x, custom_call_target="f")
    with pytest.raises(VerifyError, match=r"declared as f32\[3\], but it is f32\[4\]"):
        b.op("negate", x, shape=Shape("f32", (3,)))
    with pytest.raises(VerifyError, match="attribute dimensions is missing"):
        b.op("reverse", x)
    with pytest.raises(VerifyError, match="its shape has a dimension of size -1"):
        b.parameter(1, Shape("f32", (-1,)))
    with pytest.raises(ArgumentError, match="has no instructions"):
        Builder("empty").build()
    assert [i.opcode for i in b.build().instructions] == ["parameter"]


def test_modules_hold_what_they_call() -> None:
    inner = function("f32[3]", 0)
    b = Builder("outer")
    outer = b.build(b.call(b.parameter(0, Shape("f32", (3,))), called=[inner]))
    b = Builder("main")
    x = b.parameter(0, Shape("f32", (3,)))
    entry = b.build(b.call(b.call(x, called=[inner]), called=[outer]))
    built = module("name", entry)
    assert (built.name, built.computations, built.entry) == ("name", [inner, outer, entry], entry)
    verify(built)


def test_the_page_is_up_to_date() -> None:
    assert docs.PATH.read_text() == docs.page()
    assert all(line.endswith(".") for op in OPS.values() for line in (op.doc, *op.constraints))
