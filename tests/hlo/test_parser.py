"""HLO text is read as XLA's own parser reads it."""

from __future__ import annotations

import time

import numpy as np
import pytest

import xla_wasm
from tests.support.hlo_modules import NAMES, all_modules, as_text, blocks, from_text, text_modules
from tests.support.text_cases import CASES, entry, unary
from xla_wasm.errors import ParseError, UnsupportedError, VerifyError
from xla_wasm.hlo.ir import Module
from xla_wasm.hlo.proto.container import is_text, read_module
from xla_wasm.hlo.text.lexer import HloTextError
from xla_wasm.hlo.text.shapes import parse_shape
from xla_wasm.hlo.verify import verify


@pytest.mark.parametrize("name", sorted(CASES))
def test_forms(name: str) -> None:
    """Our proto prints like XLA's, and so does what XLA and we make of our own print."""
    text = CASES[name]
    expected = as_text(from_text(text))
    module = Module.from_text(text)
    assert as_text(module.to_proto()) == expected
    printed = module.to_text()
    assert blocks(as_text(from_text(printed))) == blocks(expected)
    assert Module.from_text(printed).to_text() == printed


@pytest.mark.parametrize("name", NAMES)
def test_what_xla_prints(name: str) -> None:
    """Lowered, compiled and hand-written modules: text to proto gives what XLA's parser gives, and nothing is lost on
    the way."""
    text = as_text(all_modules()[name])
    expected = from_text(text)
    module = Module.from_text(text)
    assert as_text(module.to_proto()) == as_text(expected)
    assert Module.from_proto(module.to_proto()).to_text() == module.to_text()
    assert as_text(Module.from_text(module.to_text()).to_proto()) == as_text(expected)


NEGATE = "t { x = f32[] parameter(0) ROOT r = f32[] negate(x) }\n"
CHOICE = "  ROOT a = f32[] conditional(i, x, x), branch_computations={t, t}\n}\n"

BROKEN = {
    "layout without order": (unary("f32[]{}", "f32[] negate(a)"), 4, 12, "an opcode"),
    "unknown opcode": (unary("f32[]", "f32[] frobnicate(a)"), 5, 18, "no opcode frobnicate"),
    "unknown operand": (unary("f32[]", "f32[] negate(b)"), 5, 25, "'b'"),
    "unknown attribute": (unary("f32[]", "f32[] negate(a), calls=a"), 5, 29, "no attribute calls"),
    "attribute twice": (unary("f32[]", "f32[] abs(a), sharding={manual}, sharding={manual}"), 5, 45, "twice"),
    "missing attribute": (unary("f32[2]", "f32[2] slice(a)"), 5, 3, "slice="),
    "operands": (unary("f32[]", "f32[] add(a)"), 5, 3, "2 operands"),
    "operand shape": (unary("f32[2]", "f32[2] abs(f32[3] a)"), 5, 23, "f32[3]"),
    "two roots": (entry("ROOT a = f32[] constant(1)", "ROOT b = f32[] constant(1)"), 5, 3, "one ROOT"),
    "name twice": (entry("a = f32[] constant(1)", "a = f32[] constant(1)"), 5, 3, "taken"),
    "no blank": (entry("a= f32[] constant(1)"), 4, 3, "an instruction"),
    "row too short": (entry("a = f32[2,2] constant({{1,2},{3}})"), 4, 34, "f32"),
    "row too long": (entry("a = f32[2] constant({1,2,3})"), 4, 28, "'}'"),
    "range": (entry("a = f16[2] constant({1, 65520})"), 4, 27, "range"),
    "payload": (entry("a = f16[] constant(nan(0x400))"), 4, 22, "payload"),
    "word": (entry("a = s32[] constant(true)"), 4, 22, "s32"),
    "point": (entry("a = s32[] constant(1.5)"), 4, 22, "s32"),
    "comment": ("HloModule m\n/* open\nENTRY e { a = f32[] constant(1) }", 2, 1, "a computation"),
    "string": (unary("f32[]", 'f32[] custom-call(a), custom_call_target="x'), 5, 53, "a string"),
    "brace": (unary("f32[]", "f32[] abs(a), backend_config={{"), 5, 41, "never closed"),
    "group": (unary("f32[]", "f32[] all-gather(a), dimensions={}, replica_groups=[2,2]<=[5]"), 5, 63, "[number, size]"),
    "direction": (unary("f32[]", "pred[] compare(a, a), direction=XX"), 5, 44, "EQ or NE"),
    "called later": (
        unary("f32[]", "f32[] call(a), to_apply=later") + "later { p = f32[] parameter(0) }",
        5,
        36,
        "'later'",
    ),
    "parameters": (entry("a = f32[] parameter(1)"), 3, 9, "numbered"),
    "empty": ("", 1, 1, "a computation"),
    "async": (unary("f32[]", "f32[] async-done(a)"), 5, 3, "async-start"),
    "newer": (unary("f32[4]", "(f32[2], s32[2]) topk(a), k=2, is_stable=true"), 5, 43, "is_stable"),
    "entry layout": (
        entry("a = f32[] parameter(0)", header="HloModule m, entry_computation_layout={(f32[], f32[])->f32[]}"),
        1,
        14,
        "entry_computation_layout",
    ),
    "infeed": (entry("t = token[] after-all()", "ROOT a = f32[2] infeed(t)"), 5, 3, "a tuple"),
    "infeed of nothing": (entry("t = token[] after-all()", "ROOT a = () infeed(t)"), 5, 3, "a tuple"),
    "selector": (
        f"HloModule m\n{NEGATE}ENTRY e {{\n  i = s32[2] parameter(0)\n  x = f32[] parameter(1)\n{CHOICE}",
        6,
        3,
        "s32[2]",
    ),
    "unsigned selector": (
        f"HloModule m\n{NEGATE}ENTRY e {{\n  i = u32[] parameter(0)\n  x = f32[] parameter(1)\n{CHOICE}",
        6,
        3,
        "u32[]",
    ),
    "operand layout": (
        unary("f32[2,3]", 'f32[2] custom-call(a), custom_call_target="f", operand_layout_constraints={f32[3,2]{1,0}}'),
        5,
        3,
        "f32[3,2]",
    ),
    "operand type": (
        unary("f32[2]", 'f32[2] custom-call(a), custom_call_target="f", operand_layout_constraints={s32[2]{0}}'),
        5,
        3,
        "s32[2]",
    ),
    "another computation is done": (
        "HloModule m\n"
        + NEGATE
        + NEGATE.replace("t {", "u {")
        + entry(
            "x = f32[] parameter(0)",
            "s = ((f32[]), f32[], s32[]) async-start(x), calls=t",
            "ROOT d = f32[] async-done(s), calls=u",
        )[12:],
        8,
        3,
        "'t' was started, not 'u'",
    ),
    "no dimensions of a broadcast": (unary("f32[2]", "f32[3,2] broadcast(a)"), 5, 3, "dimensions="),
    "declared result": ("HloModule m\nENTRY e (a: f32[]) -> f32[2] { a = f32[] parameter(0) }", 2, 7, "f32[2]"),
}


@pytest.mark.parametrize("name", sorted(BROKEN))
def test_errors_have_a_place(name: str) -> None:
    """The message has the line, and a caret below the place."""
    text, line, column, message = BROKEN[name]
    with pytest.raises(HloTextError) as caught:
        Module.from_text(text)
    error = caught.value
    first, shown, caret = str(error).split("\n")
    assert message in first and first.startswith(f"line {error.line}, column {error.column}: ")
    assert (error.line, error.column) == (line, column)
    assert shown == (text.split("\n")[line - 1])
    assert caret == " " * (column - 1) + "^"


def test_long_lines_are_cut() -> None:
    text = "HloModule m\nENTRY e { a = f32[2000] constant({" + "1, " * 1999 + "x}) }"
    with pytest.raises(HloTextError) as caught:
        Module.from_text(text)
    _, shown, caret = str(caught.value).split("\n")
    assert len(shown) <= 120 and shown[len(caret) - 1] == "x"


def test_left_out_constants() -> None:
    """They can be looked at, but neither verified nor compiled."""
    module = Module.from_text(entry("ROOT a = f32[20] constant({...})"))
    assert module.entry.root.attrs["literal"].elided and "constant({...})" in module.to_text()
    with pytest.raises(VerifyError, match="large constants"):
        verify(module)


def test_text_runs() -> None:
    module = Module.from_text(CASES["inferred shapes"])
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((3, 4), np.float32)
    (result,) = xla_wasm.load(xla_wasm.compile(module)).run(a, b)
    np.testing.assert_array_equal(result, np.where(-a < a, -a, a))


def test_sparse_layouts_are_unsupported() -> None:
    with pytest.raises(UnsupportedError, match="line 4.*sparse"):
        Module.from_text(entry("a = f32[2,2]{1,0:D(C,D)} parameter(0)"))


def test_shapes_by_themselves() -> None:
    shape = parse_shape(" f32[3,<=5]{1,0:T(2,2)} ")
    assert str(shape) == "f32[3,<=5]{1,0:T(2,2)}" and shape.layout is not None and shape.layout.tiles == ((2, 2),)
    assert str(parse_shape("f32[2]{0:T(*,128)}")) == "f32[2]{0:T(*,128)}"
    for text in ("f32", "f32[2]x", "f33[2]", "f32[-1]", "f32[2]{1}", "(" * 200):
        with pytest.raises(ParseError):
            parse_shape(text)


def test_files_tell_what_they_are() -> None:
    text = entry("ROOT a = f32[] constant(1)")
    proto = from_text(text)
    for data in (text, text.encode(), b"\xef\xbb\xbf// c\n" + text.encode(), b"e {\n a = f32[] constant(1) }", proto):
        assert read_module(data).entry.root.opcode == "constant"
    assert not is_text(proto) and not is_text(b"module @m {") and not is_text(b"hello there\n")
    assert not any(is_text(data) for data in text_modules().values())
    with pytest.raises(ParseError, match="UTF-8"):
        read_module(b"HloModule m // \xff\n")
    with pytest.raises(ParseError, match="surrogate"):
        Module.from_text("HloModule m // \ud800")


def test_nesting_is_bounded() -> None:
    deep = 5000
    for text in (
        unary("f32[]", "f32[] " + "negate(" * deep + "a" + ")" * deep),
        entry("a = " + "(" * deep + ")" * deep + " parameter(0)"),
        unary("f32[]", "f32[] call(a), to_apply=" + "{ROOT p = f32[] call(), to_apply=" * deep),
        unary("f32[]", "f32[] abs(a), sharding=" + "{" * deep),
        unary("f32[]", "f32[] abs(a), origin={" + "(" * deep),
        entry(f"a = f32[{','.join('1' * 200)}] constant(" + "{" * deep + ")"),
        unary("f32[]", 'f32[] custom-call(a), custom_call_target="t", literal=' + "(" * deep),
    ):
        with pytest.raises(ParseError):
            Module.from_text(text)


def test_time_is_linear() -> None:
    """A long program, a long constant, a long tuple of constants, and texts that make careless expressions
    backtrack."""
    start = time.thread_time()
    lines = ["a.0 = f32[8,8]{1,0} parameter(0)"]
    lines += [
        f'a.{i} = f32[8,8]{{1,0}} add(a.{i - 1}, a.0), metadata={{op_name="jit(f)/add.{i}"}}' for i in range(1, 20_000)
    ]
    assert len(Module.from_text(entry(*lines)).entry.instructions) == 20_000
    rows = ", ".join("{" + ", ".join(["1.25", "-3e5"] * 50) + "}" for _ in range(2000))
    assert (
        Module.from_text(entry(f"a = f32[2000,100] constant({{{rows}}})")).entry.root.attrs["literal"].values()[1]
        == -3e5
    )
    count = 3000
    tuples = f"a = ({', '.join(['s32[2]'] * count)}) constant(({', '.join(['{1, 2}'] * count)}))"
    assert len(Module.from_text(entry(tuples)).entry.root.attrs["literal"].elements) == count
    for text in (
        "/* " * 50_000,
        " " * 200_000 + "x",
        '"' * 100_000,
        "a" * 200_000,
        "HloModule m, x={" + "{" * 100_000,
        "ENTRY e {" + "\\" * 9999,
    ):
        with pytest.raises(ParseError):
            Module.from_text(text)
    assert time.thread_time() - start < 20


def test_a_signature_without_parameters_is_kept() -> None:
    """The parameters are those of the entry computation then, also in the proto, and the program runs."""
    text = CASES["entry layout without parameters"]
    module = Module.from_proto(from_text(text))
    assert "entry_computation_layout={()->f32[]}" in module.to_text()
    assert from_text(module.to_text()) and as_text(module.to_proto()) == as_text(from_text(text))
    (result,) = xla_wasm.load(xla_wasm.compile(module)).run(np.float32(2))
    assert result == -2
