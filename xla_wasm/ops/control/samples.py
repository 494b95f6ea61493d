"""Samples of control flow, calls and tuples."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...builder import Builder
from ...hlo.ir import Computation, Instruction
from ...hlo.shape import Shape
from ..dtypes import Array
from ..sample import Maker, Sample, array, case, f32, function, pred, program, s32, shape


def _state_function(shapes: tuple[str, ...], body: Any) -> Maker:
    """A computation of one tuple parameter, whose elements `body` gets."""

    def make() -> Computation:
        b = Builder("state")
        state = b.parameter(0, Shape.tuple([shape(s) for s in shapes]))
        return b.build(body(b, *(b.op("get-tuple-element", state, index=i) for i in range(len(shapes)))))

    return make


def _loop(
    shapes: tuple[str, ...],
    condition: Any,
    body: Any,
    args: tuple[Array, ...],
    expected: tuple[Array, ...],
    name: str,
    xla: str = "",
) -> Sample:
    """A while over the tuple of all parameters."""

    def module(b: Builder, *parameters: Instruction) -> Instruction:
        called = [
            _state_function(shapes, lambda b, *s: b.op("tuple", *body(b, *s)))(),
            _state_function(shapes, condition)(),
        ]
        return b.op("while", b.op("tuple", *parameters), called=called)

    return program("while", args, expected, module, name=name, xla=xla)


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


def _nested_state(b: Builder, i: Instruction, x: Instruction) -> Instruction:
    """A state ((i, (), token), (x, i)): only i changes, and its double."""
    inner = Shape.tuple([shape("s32"), Shape.tuple([]), Shape("token")])
    state = Shape.tuple([inner, Shape.tuple([shape("f32[2]"), shape("s32")])])

    def at(b: Builder, value: Instruction, *indices: int) -> Instruction:
        for index in indices:
            value = b.op("get-tuple-element", value, index=index)
        return value

    def body() -> Computation:
        b = Builder("body")
        s = b.parameter(0, state)
        i = _next(b, at(b, s, 0, 0))
        first = b.op("tuple", i, b.op("tuple"), b.op("after-all", at(b, s, 0, 2)))
        return b.build(b.op("tuple", first, b.op("tuple", at(b, s, 1, 0), b.op("add", i, i))))

    def condition() -> Computation:
        b = Builder("condition")
        return b.build(b.op("compare", at(b, b.parameter(0, state), 0, 0), _number(b, 4), direction="LT"))

    start = b.op("tuple", b.op("tuple", i, b.op("tuple"), b.op("after-all")), b.op("tuple", x, i))
    return b.op("while", start, called=[body(), condition()])


def _only_a_token() -> Computation:
    b = Builder("branch")
    b.parameter(0, Shape.tuple([]))
    return b.build(b.op("tuple", b.op("after-all")))


def _copied(done: bool) -> Any:
    def body(b: Builder, x: Instruction) -> Instruction:
        started = b.op("copy-start", x)
        parts = [b.op("get-tuple-element", started, index=i) for i in range(2)]
        return b.op("copy-done", started) if done else b.op("tuple", *parts)

    return body


def _asynchronous(b: Builder, x: Instruction) -> Instruction:
    declared = Shape.tuple([Shape.tuple([x.shape]), x.shape, shape("u32")])
    square = _SQUARE()
    started = b.op("async-start", x, called=[square], shape=declared)
    return b.op("async-done", b.op("async-update", started, called=[square]), called=[square])


def _asynchronous_tuple(b: Builder, x: Instruction) -> Instruction:
    """All that async-start gives, its wrapped computation doing nothing; contexts are zeros."""
    nothing = function("f32[1]", lambda b, x: x)()
    declared = Shape.tuple([Shape.tuple([x.shape]), x.shape, Shape.tuple([shape("s32[2]"), Shape.tuple([])])])
    started = b.op("async-start", x, called=[nothing], shape=declared)
    return b.op("tuple", started, b.op("get-tuple-element", started, index=1))


_TOKENS = "the oracle hands no tokens over"
_CPU = "XLA:CPU takes it only from its own scheduler"


_SQUARE = function("f32[3]", lambda b, x: b.op("multiply", x, x))


def _square_twice(b: Builder, x: Instruction) -> Instruction:
    square = _SQUARE()
    once = b.op("call", x, called=[square])
    return b.op("add", once, b.op("call", once, called=[square]))


def _half_more() -> Computation:
    b = Builder("body")
    t = b.parameter(0, Shape.tuple([shape("s32"), shape("f32[10]")]))
    half = b.op("broadcast", b.constant(shape("f32"), [0.5]), shape=shape("f32[10]"), dimensions=())
    count = b.op("add", b.op("get-tuple-element", t, index=0), b.constant(shape("s32"), [1]))
    return b.build(b.op("tuple", count, b.op("add", b.op("get-tuple-element", t, index=1), half)))


def _below_a_thousand() -> Computation:
    b = Builder("condition")
    t = b.parameter(0, Shape.tuple([shape("s32"), shape("f32[10]")]))
    return b.build(
        b.op("compare", b.op("get-tuple-element", t, index=0), b.constant(shape("s32"), [1000]), direction="LT")
    )


SAMPLES: tuple[Sample, ...] = (
    _loop(("s32", "s32"), _below(5), lambda b, i, t: (_next(b, i), b.op("add", t, i)), (s32(0), s32(0)),
          (s32(5), s32(10)), "sum"),
    _loop(("s32", "s32"), _below(5), lambda b, i, t: (_next(b, i), b.op("add", t, i)), (s32(9), s32(3)),
          (s32(9), s32(3)), "no trip"),
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
        (s32(0), f32([1, 2, 3, 4]), f32([0, 0, 0, 0])), (s32(4), f32([1, 2, 3, 4]), f32([1, 4, 9, 16])),
        "slices, as a scan does",
    ),
    _loop(("s32", "s32"), _below(5), _nested_loops, (s32(0), s32(0)), (s32(5), s32(10)), "nested"),
    _loop(
        ("s32", "f32[2]"), lambda b, i, x: b.op("compare", b.op("reduce", x, b.constant(shape("f32"), [0]), called=[
            function("f32, f32", lambda b, p, q: b.op("add", p, q))()], dimensions=(0,)),
                                                b.constant(shape("f32"), [100]), direction="LT"),
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
    program(
        "while", (array("c64", 1 + 1j),), array("c64", complex(16, -0.0)),
        lambda b, x: b.op("while", x, called=[
            function("c64", lambda b, x: b.op("multiply", x, x))(),
            function("c64", lambda b, x: b.op("compare", b.op("abs", x), b.constant(shape("f32"), [16]),
                                              direction="LT"))()]),
        name="complex state without a tuple",
    ),
    _loop(
        ("s32", "c128[2]", "f32"), lambda b, i, z, x: b.op("compare", i, _number(b, 3), direction="LT"),
        lambda b, i, z, x: (_next(b, i), b.op("multiply", z, b.op("negate", z)),
                            b.op("real", b.constant(shape("c64"), [7 + 1j]))),
        (s32(0), array("c128", [1j, 1 + 1j]), f32(2)), (s32(3), array("c128", [-1, complex(-16, -0.0)]), f32(7)),
        "complex leaves",
    ),
    *(
        program(
            "conditional", (s32(index), array("c64", [1 + 2j])), (array("c64", [expected]), s32(3)),
            lambda b, i, z: b.op("conditional", i, z, b.op("tuple", z, i), called=[
                function("c64[1]", lambda b, z: b.op("tuple", b.op("negate", z), _number(b, 3)))(),
                _state_function(("c64[1]", "s32"), lambda b, z, i: b.op(
                    "tuple", b.op("multiply", z, z), b.op("multiply", _number(b, 3), i)))(),
            ]),
            name=f"complex {name}",
        )
        for index, expected, name in ((0, -1 - 2j, "alone"), (1, -3 + 4j, "in a tuple"))
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
    program("tuple", (f32([1, 2]),), (f32([1, 2]), f32([1, 2])), lambda b, x: b.op("tuple", x, x),
            name="one value twice"),
    program(
        "tuple", (array("c64", [1 + 2j, 3]), s32(3)),
        (array("c64", [1 + 2j, 3]), s32(3), array("c64", [1 + 2j, 3]), f32([2, 0])),
        lambda b, z, y: b.op("tuple", b.op("tuple", z, y), z,
                             b.op("imag", b.op("get-tuple-element", b.op("tuple", y, z), index=1))),
        name="nested, complex",
    ),
    program("parameter", (array("c64", [1 + 2j]), s32(3)), array("c64", [1 + 2j]), lambda b, x, y: x, name="complex"),
    program(
        "tuple", (f32([1, 2]), s32(3)), (f32([1, 2]), s32(3), f32([1, 2])),
        lambda b, x, y: b.op("tuple", b.op("tuple", x, y), x), name="nested",
    ),
    program("get-tuple-element", (f32([1, 2]), s32(3)), s32(3),
            lambda b, x, y: b.op("get-tuple-element", b.op("tuple", x, y), index=1)),
    case("opt-barrier", (f32([1, np.nan]),), f32([1, np.nan])),
    program(
        "opt-barrier", (f32([1, 2]), s32(3)), (f32([1, 2]), s32(3)),
        lambda b, x, y: b.op("opt-barrier", b.op("tuple", x, y)), name="of a tuple",
    ),
    program("parameter", (f32([1, 2]), s32(3)), f32([1, 2]), lambda b, x, y: x, name="one unused"),
    program(
        "after-all", (s32(3),), (s32(3),),
        lambda b, x: b.op("tuple", b.op("after-all"), x, b.op("after-all", b.op("after-all"))), xla=_TOKENS,
    ),
    program("add-dependency", (s32(3),), s32(3), lambda b, x: b.op("add-dependency", x, b.op("after-all")),
            xla=_TOKENS),
    case("domain", (f32([1, 2]),), f32([1, 2]), xla="the oracle's way into XLA:CPU loses it"),
    program(
        "domain", (f32([1, 2]),), (f32([1, 2]), f32([1, 2])),
        lambda b, x: b.op("domain", b.op("tuple", x, x)), name="of a tuple", xla=_CPU,
    ),
    program("copy-start", (f32([1, 2]),), (f32([1, 2]),) * 2, _copied(False), xla=_CPU),
    program("copy-done", (f32([1, 2]),), f32([1, 2]), _copied(True), xla=_CPU),
    *(
        program(opcode, (f32([1, 2, 3]),), f32([1, 4, 9]), _asynchronous, xla=_CPU)
        for opcode in ("async-start", "async-update", "async-done")
    ),
    program("async-start", (f32([5]),), (f32([5]), f32([5]), s32([0, 0]), f32([5])), _asynchronous_tuple,
            name="as a whole", xla=_CPU),
    _loop(
        ("s32", "f32[2]"), _below(3),
        lambda b, i, x: (_next(b, i), b.op("add-dependency", b.op("add", x, x), b.op("after-all"))),
        (s32(0), f32([1, 2])), (s32(3), f32([8, 16])), "token inside", _TOKENS,
    ),
    program("while", (s32(0), f32([1, 2])), (s32(4), f32([1, 2]), s32(8)), _nested_state, name="nested state",
            xla=_TOKENS),
    program(
        "conditional", (pred(True), f32([1, 2])), (f32([1, 2]), f32([2, 4])),
        lambda b, p, x: b.op("conditional", p, x, x, called=[
            function("f32[2]", lambda b, x: b.op("tuple", b.op("after-all"), b.op("tuple", x, b.op("tuple")),
                                                 b.op("add", x, x)))(),
            function("f32[2]", lambda b, x: b.op("tuple", b.op("after-all"), b.op("tuple", x, b.op("tuple")), x))()]),
        name="nested result with a token", xla=_TOKENS,
    ),
    program(
        "conditional", (s32(1),), s32(1), lambda b, i: b.op("add-dependency", i, b.op("get-tuple-element", b.op(
            "conditional", i, b.op("tuple"), b.op("tuple"), called=[_only_a_token(), _only_a_token()]), index=0)),
        name="without data", xla=_TOKENS,
    ),
    program(
        "while", (f32(np.zeros(10)),), (s32(1000), f32(np.full(10, 500))),
        lambda b, x: b.op("while", b.op("tuple", b.constant(shape("s32"), [0]), x),
                          called=[_half_more(), _below_a_thousand()]),
        name="a thousand trips",
    ),
)  # fmt: skip
