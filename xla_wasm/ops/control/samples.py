"""Samples of control flow, calls and tuples."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...builder import Builder
from ...hlo.ir import Computation, Instruction
from ...hlo.shape import Shape
from ..arrays import Array
from ..sample import Maker, Sample, case, f32, function, pred, program, s32, shape


def _state_function(shapes: tuple[str, ...], body: Any) -> Maker:
    """A computation of one tuple parameter, whose elements `body` gets."""

    def make() -> Computation:
        b = Builder("state")
        state = b.parameter(0, Shape.tuple([shape(s) for s in shapes]))
        return b.build(body(b, *(b.op("get-tuple-element", state, index=i) for i in range(len(shapes)))))

    return make


def _loop(shapes: tuple[str, ...], condition: Any, body: Any, args: tuple[Array, ...], expected: tuple[Array, ...], name: str) -> Sample:
    """A while over the tuple of all parameters."""

    def module(b: Builder, *parameters: Instruction) -> Instruction:
        called = [_state_function(shapes, lambda b, *s: b.op("tuple", *body(b, *s)))(), _state_function(shapes, condition)()]
        return b.op("while", b.op("tuple", *parameters), called=called)

    return program("while", args, expected, module, name=name)


def _number(b: Builder, value: int) -> Instruction:
    return b.constant(shape("s32"), [value])


def _below(limit: int) -> Any:
    return lambda b, i, *rest: b.op("compare", i, _number(b, limit), direction="LT")


def _next(b: Builder, i: Instruction) -> Instruction:
    return b.op("add", i, _number(b, 1))


def _conditional(selector: Array, expected: Array, name: str, count: int = 3) -> Sample:
    """Branches that add 1, double and negate."""
    branches: tuple[Maker, ...] = (
        function("f32[2]", lambda b, x: b.op("add", x, b.constant(shape("f32[2]"), [1, 1]))),
        function("f32[2]", lambda b, x: b.op("add", x, x)),
        function("f32[2]", lambda b, x: b.op("negate", x)),
    )
    return program(
        "conditional",
        (selector, f32([1, 2])),
        expected,
        lambda b, s, x: b.op("conditional", s, *[x] * count, called=[make() for make in branches[:count]]),
        name=name,
    )


def _nested_loops(b: Builder, i: Instruction, total: Instruction) -> tuple[Instruction, ...]:
    inner = [
        _state_function(("s32", "s32", "s32"), lambda b, j, n, t: b.op("tuple", _next(b, j), n, b.op("add", t, j)))(),
        _state_function(("s32", "s32", "s32"), lambda b, j, n, t: b.op("compare", j, n, direction="LT"))(),
    ]
    loop = b.op("while", b.op("tuple", _number(b, 0), i, total), called=inner)
    return _next(b, i), b.op("get-tuple-element", loop, index=2)


_SQUARE = function("f32[3]", lambda b, x: b.op("multiply", x, x))


def _square_twice(b: Builder, x: Instruction) -> Instruction:
    square = _SQUARE()
    once = b.op("call", x, called=[square])
    return b.op("add", once, b.op("call", once, called=[square]))


SAMPLES: tuple[Sample, ...] = (
    _loop(("s32", "s32"), _below(5), lambda b, i, t: (_next(b, i), b.op("add", t, i)), (s32(0), s32(0)), (s32(5), s32(10)), "sum"),
    _loop(("s32", "s32"), _below(5), lambda b, i, t: (_next(b, i), b.op("add", t, i)), (s32(9), s32(3)), (s32(9), s32(3)), "no trip"),
    _loop(
        ("s32", "f32[3]", "f32[3]"), _below(3), lambda b, i, x, y: (_next(b, i), y, x),
        (s32(0), f32([1, 2, 3]), f32([4, 5, 6])), (s32(3), f32([4, 5, 6]), f32([1, 2, 3])), "swaps its state",
    ),
    _loop(
        ("s32", "f32[3]", "f32[3]"), _below(4), lambda b, i, x, y: (_next(b, i), b.op("add", x, y), x),
        (s32(0), f32([1, 0, 2]), f32([0, 1, 0])), (s32(4), f32([5, 3, 10]), f32([3, 2, 6])), "Fibonacci",
    ),
    _loop(
        ("s32", "f32[4]", "f32[4]"), _below(4),
        lambda b, i, x, out: (_next(b, i), x, b.op("dynamic-update-slice", out, b.op(
            "multiply", *[b.op("dynamic-slice", x, i, dynamic_slice_sizes=(1,))] * 2), i)),
        (s32(0), f32([1, 2, 3, 4]), f32([0, 0, 0, 0])), (s32(4), f32([1, 2, 3, 4]), f32([1, 4, 9, 16])), "slices, as a scan does",
    ),
    _loop(("s32", "s32"), _below(5), _nested_loops, (s32(0), s32(0)), (s32(5), s32(10)), "nested"),
    _loop(
        ("s32", "f32[2]"), lambda b, i, x: b.op("compare", b.op("reduce", x, b.constant(shape("f32"), [0]), called=[
            function("f32, f32", lambda b, p, q: b.op("add", p, q))()], dimensions=(0,)), b.constant(shape("f32"), [100]), direction="LT"),
        lambda b, i, x: (_next(b, i), b.op("add", x, x)),
        (s32(0), f32([1, 2])), (s32(6), f32([64, 128])), "condition over an array",
    ),
    program(
        "while", (s32(5),), s32(40),
        lambda b, x: b.op("while", x, called=[
            function("s32", lambda b, x: b.op("add", x, x))(),
            function("s32", lambda b, x: b.op("compare", x, _number(b, 30), direction="LT"))()]),
        name="state without a tuple",
    ),
    _conditional(pred(True), f32([2, 3]), "true", 2),
    _conditional(pred(False), f32([2, 4]), "false", 2),
    *(
        _conditional(s32(index), f32(expected), f"index {index}")
        for index, expected in ((0, [2, 3]), (1, [2, 4]), (2, [-1, -2]), (7, [-1, -2]), (-1, [-1, -2]))
    ),
    program(
        "conditional", (pred(False), f32([1]), s32([2, 3])), (s32([5, 6]),),
        lambda b, p, x, y: b.op("conditional", p, x, y, called=[
            function("f32[1]", lambda b, x: b.constant(shape("s32[2]"), [7, 8]))(),
            function("s32[2]", lambda b, y: b.op("add", y, b.constant(shape("s32[2]"), [3, 3])))()]),
        name="arguments of different shapes",
    ),
    case("call", (f32([1, 2, 3]),), f32([1, 4, 9]), called=(_SQUARE,)),
    program("call", (f32([1, 2, 3]),), f32([2, 20, 90]), _square_twice, name="of one computation several times"),
    case("fusion", (f32([1, 2, 3]),), f32([1, 4, 9]), called=(_SQUARE,), kind="kLoop"),
    case("tuple", (f32([1, 2]), s32(3)), (f32([1, 2]), s32(3))),
    case("tuple", (), (), name="empty"),
    case("tuple", (f32(np.zeros((0, 2))), pred(True)), (f32(np.zeros((0, 2))), pred(True)), name="empty array"),
    program("tuple", (f32([1, 2]),), (f32([1, 2]), f32([1, 2])), lambda b, x: b.op("tuple", x, x), name="one value twice"),
    program(
        "tuple", (f32([1, 2]), s32(3)), (f32([1, 2]), s32(3), f32([1, 2])),
        lambda b, x, y: b.op("tuple", b.op("tuple", x, y), x), name="nested",
    ),
    program("get-tuple-element", (f32([1, 2]), s32(3)), s32(3), lambda b, x, y: b.op("get-tuple-element", b.op("tuple", x, y), index=1)),
    case("opt-barrier", (f32([1, np.nan]),), f32([1, np.nan])),
    program(
        "opt-barrier", (f32([1, 2]), s32(3)), (f32([1, 2]), s32(3)),
        lambda b, x, y: b.op("opt-barrier", b.op("tuple", x, y)), name="of a tuple",
    ),
    program("parameter", (f32([1, 2]), s32(3)), f32([1, 2]), lambda b, x, y: x, name="one unused"),
)  # fmt: skip
