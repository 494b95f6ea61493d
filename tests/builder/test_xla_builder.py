"""XlaBuilder: every operation against the numbers of its cases, by the reference evaluator and compiled; errors; the
page's examples."""

from __future__ import annotations

import doctest
import inspect
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, get_type_hints

import numpy as np
import pytest

import hatch_build
import xla_wasm
from tests.support import closeness
from tests.support.closeness import allclose, assert_all, equal
from tests.support.differential import run
from tests.support.paths import ROOT
from tests.support.processes import output
from tests.support.xla_builder_cases import ADD, CASES, DOUBLE, F32, LT, S32, Array, Body, Case
from xla_wasm.builder import XlaBuilder
from xla_wasm.errors import ArgumentError, VerifyError
from xla_wasm.hlo import attrs
from xla_wasm.hlo.attrs import ConvolutionDimensionNumbers, DotDimensionNumbers, PrecisionConfig, ResultAccuracy
from xla_wasm.hlo.ir import Computation, Instruction, Module
from xla_wasm.hlo.shape import Layout, Shape
from xla_wasm.hlo.verify import verify
from xla_wasm.ops.dtypes import TYPES_OF
from xla_wasm.reference import evaluate

PAGE = (ROOT / "docs" / "builder.md").read_text(encoding="utf-8")
NAMES = {c.name for c in CASES}
"""The operations of XLA's interface."""


def public(part: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(part, inspect.isfunction) if name[0].isupper()}


def test_every_operation_has_a_case() -> None:
    assert public(XlaBuilder) == NAMES
    assert all(getattr(XlaBuilder, name).__name__ == name for name in NAMES)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_operation_stands_in_the_page(name: str) -> None:
    """With its parameters, unless its sentence has these, and its sentence."""
    method = getattr(XlaBuilder, name)
    _, *parameters = inspect.signature(method).parameters.values()
    call = ", ".join(p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in parameters)
    about = " ".join(inspect.getdoc(method).split())
    called, page = f"`{name}({call})`", " ".join(PAGE.split())
    assert (f"### {name} {about}" if f"`{name}(" in about else f"### {name} {called} {about}") in page or (
        f"| {called} | {about} |" in page
    )


def test_the_stub_has_signatures_and_types() -> None:
    scope: dict[str, Any] = {"__package__": XlaBuilder.__module__.rpartition(".")[0]}
    exec(compile(hatch_build.builder_stub(), "xla.pyi", "exec", dont_inherit=True), scope)
    for name in NAMES:
        method, shown = getattr(XlaBuilder, name), getattr(scope["XlaBuilder"], name)
        assert get_type_hints(shown) == get_type_hints(inspect.unwrap(method)) != {}, name
        assert (inspect.signature(shown), inspect.getdoc(shown)) == (inspect.signature(method), inspect.getdoc(method))


each_case = pytest.mark.parametrize("case", CASES, ids=[f"{i}-{c.name}" for i, c in enumerate(CASES)])


def check_run(case: Case, run: Callable[..., Sequence[Array]], leaves: Sequence[Shape]) -> None:
    """Results and what comes out to the host."""
    given = case.host.arguments()
    check(case, run(*case.args, **given), leaves)
    if case.host.outfeed:
        out, expected = given["outfeed"], case.host.outfeed
        assert [isinstance(item, tuple) for item in out] == [isinstance(item, tuple) for item in expected]
        assert_all(out, expected, equal)


def check(case: Case, results: Sequence[Array], shapes: Sequence[Shape]) -> None:
    assert [(TYPES_OF[r.dtype].name, r.shape) for r in results] == [(s.element_type, s.dimensions) for s in shapes]
    for result, expected in zip(results, case.expected or ()):
        if expected.dtype.kind == "c":
            np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-6)
        else:
            closeness.assert_same(result, expected, case.ulp, case.name)


@each_case
def test_reference(case: Case) -> None:
    module = case.module()
    verify(module)
    leaves = [shape for _, shape in module.entry.root.shape.leaves() if shape.is_array]
    assert case.expected is None or len(case.expected) == len(leaves)
    check_run(case, partial(evaluate, module), leaves)


@each_case
def test_compiled(case: Case) -> None:
    """Every function of the builder, through the compiler and wasmtime."""
    module = case.module()
    leaves = [shape for _, shape in module.entry.root.shape.leaves() if shape.is_array]
    check_run(case, xla_wasm.load(xla_wasm.compile(module)).run, leaves)


# what is built


def built(body: Body, *shapes: Shape) -> Computation:
    b = XlaBuilder("main")
    return b.Build(body(b, *(b.Parameter(i, shape) for i, shape in enumerate(shapes))))


def opcodes(computation: Computation) -> list[str]:
    return [i.opcode for i in computation.instructions if i.opcode != "parameter"]


def test_broadcasts_are_inserted_where_they_are_needed() -> None:
    v, m = Shape("f32", (3,)), Shape("f32", (2, 3))
    assert opcodes(built(lambda b, x, y: b.Add(x, y), m, m)) == ["add"]
    assert opcodes(built(lambda b, x, y: b.Add(x, y, (0, 1)), m, m)) == ["add"]
    assert opcodes(built(lambda b, x, y: b.Add(x, y), m, F32)) == ["broadcast", "add"]
    assert opcodes(built(lambda b, x, y: b.Gt(x, y, (1,)), v, m)) == ["broadcast", "compare"]
    row = Shape("f32", (1, 3))
    assert opcodes(built(lambda b, x, y: b.Add(x, y), row, m)) == ["reshape", "broadcast", "add"]
    column = Shape("f32", (2, 1))
    assert opcodes(built(lambda b, x, y: b.Add(x, y), row, column)) == ["reshape", "broadcast"] * 2 + ["add"]
    assert built(lambda b, x, y: b.Add(x, y), Shape("f32", (1,)), Shape("f32", (0,))).root.shape == Shape("f32", (0,))


def test_dynamic_dimensions_are_kept() -> None:
    dynamic = Shape("f32", (4, 3), None, (True, False))
    assert str(built(lambda b, x, y: b.Add(x, y), dynamic, F32).root.shape) == "f32[<=4,3]"
    assert str(built(lambda b, x: b.Broadcast(x, (2,)), dynamic).root.shape) == "f32[2,<=4,3]"
    wide = Shape("f32", (4, 1), None, (True, False))
    assert str(built(lambda b, x: b.BroadcastInDim(x, (4, 3), (0, 1)), wide).root.shape) == "f32[<=4,3]"
    assert str(built(lambda b, x, n: b.SetDimensionSize(x, n, 1), dynamic, S32).root.shape) == "f32[<=4,<=3]"
    static = built(lambda b, x: b.SetDimensionSize(x, b.Constant(4, "s32"), 0), dynamic)
    assert str(static.root.shape) == "f32[4,3]"


def test_attributes_reach_the_instruction() -> None:
    x = Shape("f32", (4, 3))
    root = built(lambda b, p, q: b.EqTotalOrder(p, q), x, x).root
    assert root.attrs == {"direction": "EQ", "type": "TOTALORDER"}
    root = built(lambda b, p: b.Sin(p, ResultAccuracy("highest")), x).root
    assert root.attrs["result_accuracy"] == ResultAccuracy("highest")
    root = built(lambda b, p, q: b.CompositeCall(ADD, [p, q], "my.sum", "{}", 3), F32, F32).root
    expected = {"composite.name": "my.sum", "composite.attributes": "{}", "composite.version": "3"}
    assert root.attrs["is_composite"] and root.frontend_attributes == expected
    root = built(lambda b, p, q: b.Dot(p, q, "HIGHEST"), Shape("f32", (3,)), Shape("f32", (3,))).root
    assert root.attrs["precision_config"] == PrecisionConfig(("highest", "highest"))
    root = built(lambda b, p: b.Sort(p, LT), x).root
    assert root.attrs == {"dimensions": (1,), "is_stable": False}
    root = built(lambda b, p: b.Outfeed(p, Shape("f32", (4, 3), Layout((0, 1))), "c"), x).root
    assert root.attrs == {"outfeed_shape": Shape("f32", (4, 3), Layout((0, 1))), "outfeed_config": b"c"}


def test_collectives_of_several_devices() -> None:
    x = Shape("f32", (4, 6))
    pairs = ((0, 1), (2, 3))
    assert str(built(lambda b, p: b.AllGather(p, 1, 2, pairs), x).root.shape) == "f32[4,12]"
    assert str(built(lambda b, p: b.AllGather(b.Tuple([p, p]), 0, 2, pairs), x).root.shape) == "(f32[8,6], f32[8,6])"
    assert str(built(lambda b, p: b.ReduceScatter(p, ADD, 1, 2, pairs), x).root.shape) == "f32[4,3]"
    assert str(built(lambda b, p: b.AllToAll(p, 0, 0, 2, pairs), x).root.shape) == "f32[4,6]"
    moved = built(lambda b, p: b.AllToAll(p, 0, 1, 2, pairs, Layout((0, 1))), x)
    assert opcodes(moved) == ["all-to-all", "reshape", "transpose", "reshape"]
    assert str(moved.root.shape) == "f32[2,12]" and moved.instructions[1].attrs["constrain_layout"]
    permuted = built(
        lambda b, p, q, i: b.CollectivePermute([p, q, i, i], [(0, 1)], inplace=True), x, x, Shape("s32", (2,))
    )
    assert permuted.root.shape == x


def test_an_all_to_all_between_dimensions_puts_blocks_side_by_side() -> None:
    """The instructions that follow the exchange put blocks side by side: of two devices, device 0 received rows 0 and 1
    from itself, 2 and 3 from device 1."""
    received = np.arange(12, dtype=np.float32).reshape(4, 3)
    moved = built(lambda b, p: b.AllToAll(p, 0, 1, 2, ((0, 1),)), Shape("f32", (4, 3)))
    exchange = moved.instructions[1]
    exchange.opcode, exchange.attrs = "copy", {}
    module = Module("m", [moved], moved)
    (result,) = evaluate(module, received)
    np.testing.assert_array_equal(result, np.concatenate([received[:2], received[2:]], 1))


# errors

_OUTSIDE = ConvolutionDimensionNumbers(0, 1, (7,), 1, 0, (2,), 0, 1, (2,))


def _cube(b: XlaBuilder) -> Instruction:
    return b.Constant([[[1]]])


MISTAKES: tuple[tuple[str, Body], ...] = (
    ("f32[2,3] and f32[3] differ in rank, which needs broadcast_dimensions", lambda b, m, v, i: b.Add(m, v)),
    ("broadcast_dimensions (2,) are not increasing dimensions of f32[2,3]", lambda b, m, v, i: b.Add(m, v, (2,))),
    ("differ in rank, which cannot use (0, 1)", lambda b, m, v, i: b.Add(m, v, (0, 1))),
    ("broadcast_dimensions (1, 0) of operands of equal rank", lambda b, m, v, i: b.Add(m, m, (1, 0))),
    ("sizes differ: f32[2,3] and f32[3] in dimension 0", lambda b, m, v, i: b.Lt(m, v, (0,))),
    ("add 'add': (C2) the operands' types differ: f32[3] and s32[3]", lambda b, m, v, i: b.Add(v, i, (0,))),
    ("(C2) the operand must be of type signed or unsigned, not f32", lambda b, m, v, i: b.PopulationCount(v)),
    ("operand 'tuple' must be an array, not (f32[3])", lambda b, m, v, i: b.Add(b.Tuple([v]), v)),
    ("operand 3 is no value of a builder; Constant makes one", lambda b, m, v, i: b.Add(v, 3)),
    ("was not made by the builder of 'main'", lambda b, m, v, i: b.Neg(ADD.root)),
    ("(0, 2) are not consecutive dimensions of f32[2,3]", lambda b, m, v, i: b.Collapse(m, (0, 2))),
    ("(1, 0) are not consecutive dimensions", lambda b, m, v, i: b.Collapse(m, (1, 0))),
    ("(C2) f32[2,3] has 6 elements, f32[4] has 4", lambda b, m, v, i: b.Reshape(m, (4,))),
    ("cannot become (2, 4) by dimensions (1,)", lambda b, m, v, i: b.BroadcastInDim(v, (2, 4), (1,))),
    ("1 start, 2 limits and 1 stride for rank 2", lambda b, m, v, i: b.Slice(m, (0,), (1, 1))),
    (
        "padding must be SAME, VALID or pairs, not 'FULL'",
        lambda b, m, v, i: b.ReduceWindow(v, b.Constant(0), ADD, (2,), None, "FULL"),
    ),
    ("padding must be SAME, VALID or pairs, not 'SOME'", lambda b, m, v, i: b.Conv(_cube(b), _cube(b), None, "SOME")),
    ("padding must be SAME, VALID or pairs, not 'NONE'", lambda b, m, v, i: b.Conv(m, m, None, "NONE")),
    (
        "(C4) 1 input features in 2 groups",
        lambda b, m, v, i: b.ConvWithGeneralPadding(_cube(b), _cube(b), None, [(0, 0)], 2),
    ),
    (
        "the spatial dimensions (7,) and (2,) do not fit",
        lambda b, m, v, i: b.ConvGeneral(_cube(b), _cube(b), None, "SAME", _OUTSIDE),
    ),
    (
        "(C4) contracting dimensions 0 of f32[2,3] and 0 of f32[3]",
        lambda b, m, v, i: b.DotGeneral(m, v, DotDimensionNumbers((0,), (0,))),
    ),
    (
        "dot: operand 3 is no value of a builder",
        lambda b, m, v, i: b.DotGeneral(v, 3, DotDimensionNumbers((0,), (0,)), None, "f64"),
    ),
    ("2 strides for 1 dimension", lambda b, m, v, i: b.ReduceWindow(v, b.Constant(0), ADD, (2,), (1, 1))),
    (
        "strides must be positive, not (0,)",
        lambda b, m, v, i: b.ReduceWindow(v, b.Constant(0), ADD, (2,), (0,), "SAME"),
    ),
    ("'function' must take (s32[], s32[])", lambda b, m, v, i: b.Reduce(i, b.Constant(0, "s32"), ADD)),
    ("(C2) dimension 5 lies outside of the 2 dimensions", lambda b, m, v, i: b.Sort(m, LT, 5)),
    ("the operands must have dimensions; Mul", lambda b, m, v, i: b.Dot(v, b.Constant(1))),
    ("the predicate must be pred[], not f32[3]", lambda b, m, v, i: b.Conditional(v, v, DOUBLE, v, DOUBLE)),
    ("number 1 of 'main' is taken", lambda b, m, v, i: b.Parameter(1, F32)),
    ("a group of 2 devices for 3 shards", lambda b, m, v, i: b.AllGather(v, 0, 3, ((0, 1),))),
    ("dimension 0 of f32[3] cannot be split into 2", lambda b, m, v, i: b.ReduceScatter(v, ADD, 0, 2)),
    ("the operands of a sum must be of one type", lambda b, m, v, i: b.CrossReplicaSum([v, i])),
    ("(C2) outfeed_shape is f32[2], the operand f32[3]", lambda b, m, v, i: b.Outfeed(v, Shape("f32", (2,)))),
    ("parameters are numbered [0, 1, 2, 4]", lambda b, m, v, i: [b.Parameter(4, F32), b.Build()][0]),
    ("a value does not fit the element type", lambda b, m, v, i: b.Constant(300, "s8")),
)


@pytest.mark.parametrize(("message", "body"), MISTAKES, ids=[m[:30] for m, _ in MISTAKES])
def test_errors_name_the_call(message: str, body: Body) -> None:
    b = XlaBuilder("main")
    m, v, i = (
        b.Parameter(0, Shape("f32", (2, 3))),
        b.Parameter(1, Shape("f32", (3,))),
        b.Parameter(2, Shape("s32", (3,))),
    )
    with pytest.raises((VerifyError, ArgumentError)) as caught:
        body(b, m, v, i)
    text = str(caught.value)
    line = body.__code__.co_firstlineno
    assert text.startswith(f"{__file__}:{line}: "), text
    assert message in text, text


# the page


def shown(value: Any, b: XlaBuilder) -> str:
    """A value as the page shows it: computed by the reference, and compiled."""
    if not isinstance(value, Instruction):
        return str(value)
    module = b.module(value)
    results = evaluate(module)
    compiled = run(module)
    assert_all(results, compiled, allclose(1e-06))
    leaves = [f"{s.without_layout()} {r.tolist()}" for (_, s), r in zip(value.shape.leaves(), results)]
    return f"({', '.join(leaves)})" if value.shape.is_tuple else leaves[0]


def test_the_examples_of_the_page_hold() -> None:
    base: dict[str, Any] = {name: getattr(attrs, name) for name in dir(attrs) if name.endswith("Numbers")}
    count = 0
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.S):
        if ">>>" not in block:
            exec(block, base)
            continue
        scope = base | {"b": XlaBuilder("example")}
        for example in doctest.DocTestParser().get_examples(block):
            if not example.want:
                exec(example.source, scope)
                continue
            value = eval(example.source, scope)
            assert shown(value, scope["b"]) == example.want.strip(), example.source
            count += 1
    assert count > 60
    assert base["result"].tolist() == [1, 3, 5, 7]


def test_the_builder_needs_the_standard_library_only() -> None:
    code = "import sys, xla_wasm.builder; print([m for m in ('numpy', 'wasmtime', 'jax') if m in sys.modules])"
    assert output([sys.executable, "-c", code], ROOT).strip() == "[]"
