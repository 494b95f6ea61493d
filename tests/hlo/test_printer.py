"""HLO text as XLA's own parser reads it."""

from __future__ import annotations

import pytest

from tests.support.hlo_modules import NAMES, all_modules, as_text, blocks, from_text, text_modules
from xla_wasm.errors import ParseError, VerifyError
from xla_wasm.hlo.ir import Computation, Instruction, Module
from xla_wasm.hlo.kinds.table import KINDS
from xla_wasm.hlo.op import REQUIRED
from xla_wasm.hlo.shape import Layout, Shape
from xla_wasm.hlo.text.attributes import spelling
from xla_wasm.hlo.text.lexer import Lexer
from xla_wasm.hlo.text.shapes import Shapes
from xla_wasm.hlo.verify import verify
from xla_wasm.ops.table import OPS


@pytest.mark.parametrize("name", NAMES)
def test_xla_reads_it(name: str) -> None:
    data = all_modules()[name]
    text = Module.from_proto(data).to_text()
    again = from_text(text)
    assert blocks(as_text(data, metadata=False)) == blocks(as_text(again, metadata=False))
    assert as_text(data, metadata=False).split("\n")[0] == as_text(again, metadata=False).split("\n")[0]
    assert Module.from_proto(again).to_text().count(" = ") == text.count(" = ")


def test_form() -> None:
    text = Module.from_proto(text_modules()["windows"]).to_text()
    assert text.startswith(
        "HloModule m, entry_computation_layout={(f32[4,6]{1,0})->(f32[4,4]{1,0}, c64[4,4]{1,0})}\n\n"
    )
    assert "window={size=2x2 stride=1x2 rhs_reversal=1x0}, to_apply=add" in text
    assert "operand_precision={high,default}, algorithm=dot_bf16_bf16_f32_x3" in text
    assert "direction=GE\n" in text and "select=ge" in text and "scatter=add" in text
    assert "constant({1, 2})" in text


def test_large_constants_are_elided() -> None:
    module = Module.from_proto(from_text("ENTRY e { ROOT c = s32[11] constant({1,2,3,4,5,6,7,8,9,10,11}) }"))
    assert "constant({...})" in module.to_text(large_constants=False)
    assert "9, 10, 11})" in module.to_text()


def test_names_that_text_cannot_hold() -> None:
    """Clashes, words of the grammar and odd characters become names that parse."""
    shape = Shape("f32", (2,))
    chain = [Instruction("f32", "parameter", shape, attrs={"parameter_number": 0})]
    for name in ("f32", "ROOT", "7 up", "", "é", "true", "a b", "a_b", "constant"):
        chain.append(Instruction(name, "negate", shape, [chain[-1]]))
    entry = Computation("ENTRY", chain)
    text = Module("", [entry], entry).to_text()
    assert len(Module.from_proto(from_text(text)).entry.instructions) == len(chain)


@pytest.mark.parametrize("name", ["ENTRY", "HloModule", "ROOT", "true", "nan", "replicated", "devices"])
def test_words_of_the_grammar_stay_names(name: str) -> None:
    x = Instruction("x", "parameter", Shape("f32", (2,)), attrs={"parameter_number": 0})
    called = Computation(name, [x, Instruction(name, "negate", x.shape, [x])])
    y = Instruction("y", "parameter", x.shape, attrs={"parameter_number": 0})
    entry = Computation("entry", [y, Instruction("call", "call", x.shape, [y], called=[called])])
    text = Module(name, [called, entry], entry).to_text()
    for read in (Module.from_text(text), Module.from_proto(from_text(text))):
        assert [read.name, read.computations[0].name, read.computations[0].root.name] == [name] * 3


def test_index_types_and_split_configurations_of_layouts() -> None:
    layout = Layout(
        (1, 0),
        ((8,),),
        split_configs=((0, (1, 2)), (1, (3,))),
        index_primitive_type="u32",
        pointer_primitive_type="u16",
    )
    scalar = Layout((), index_primitive_type="u8")
    x = Instruction("x", "parameter", Shape("f32", (4, 4), layout), attrs={"parameter_number": 0})
    y = Instruction("y", "parameter", Shape("f32", (), scalar), attrs={"parameter_number": 1})
    entry = Computation("entry", [x, y, Instruction("z", "negate", x.shape, [x])])
    text = Module("m", [entry], entry).to_text()
    assert "{1,0:T(8)#(u32)*(u16)SC(0:1,2)(1:3)}" in text and "f32[]{:#(u8)}" in text
    for read in (
        Module.from_text(text),
        Module.from_proto(from_text(text)),
        Module.from_proto(Module.from_text(text).to_proto()),
    ):
        assert [i.shape.layout for i in read.entry.parameters] == [layout, scalar]


def test_payloads_of_metadata() -> None:
    text = (
        'HloModule m\n\nENTRY e { ROOT x = f32[] parameter(0), metadata={op_name="o" '
        'metadata_payload="a\\"\\001\\377"} }'
    )
    own, theirs = (
        Module.from_text(text),
        Module.from_proto(from_text(text)),
    )  # the bytes themselves; a number and the module's list
    expected = 'metadata={op_name="o" metadata_payload="a\\"\\001\\377"}'
    for module in (own, theirs, Module.from_proto(theirs.to_proto()), Module.from_proto(from_text(own.to_text()))):
        assert expected in module.to_text()


def test_origin_recovery_table() -> None:
    inner = 'HloModule r\nENTRY rc { ROOT p = f32[5] parameter(0), metadata={op_name=\\"x\\"} }'
    table = f'{{ {{"a" {{0}}}} : {{"b" {{1,2}}}} {{"c"}} : {{"d"}}, "{inner}" {{}} : {{"e"}} }}'
    text = f"HloModule m, origin_recovery_table={table}\nENTRY e {{ ROOT x = f32[] parameter(0) }}"
    own, theirs = Module.from_text(text), Module.from_proto(from_text(text))
    printed = own.to_text()
    for shown in ('{"a" {0}} : {"b" {1,2}}\n', '{"c"} : {"d"},\n', '{""} : {"e"}\n', 'op_name=\\"x\\"'):
        assert shown in printed
    assert Module.from_text(printed).to_text() == printed and sorted(theirs.to_text()) == sorted(
        printed
    )  # jaxlib sorts the rows
    assert sorted(Module.from_proto(from_text(printed)).to_text()) == sorted(printed)
    for broken in ('{{"a"}}', '{{"a"} {"b"}}', '{{"a"} : {"b"}, "HloModule"}', '{{"a"} : {"b"},}'):
        with pytest.raises(ParseError):
            Module.from_text(text.replace(table, broken))


def test_strings() -> None:
    """Quotes, control characters and UTF-8 in names of operations and in configurations."""
    module = Module.from_proto(text_modules()["calls"])
    call = next(i for i in module.instructions() if i.opcode == "custom-call")
    call.attrs["backend_config"] = bytes(range(256))
    call.attrs["custom_call_target"] = 'tab\t "quoted" \\ Zürich'
    call.frontend_attributes = {"k": "{unbalanced", "l": '{"s": "}"}'}
    again = next(i for i in Module.from_proto(from_text(module.to_text())).instructions() if i.opcode == "custom-call")
    assert again.attrs["backend_config"] == call.attrs["backend_config"]
    assert again.attrs["custom_call_target"] == call.attrs["custom_call_target"]
    assert again.frontend_attributes == call.frontend_attributes


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_empty_values_are_read_as_they_are_written(kind: str) -> None:
    """A value that says nothing is read as it is written, also where its kind writes nothing: for every attribute of
    the kind."""
    owners = [(op, attr) for op in OPS.values() for attr in op.attrs if attr.kind == kind and attr.text]
    found = KINDS[kind]
    if found.absent in (None, REQUIRED):
        assert found.unwritten is REQUIRED, "there is no such value: None is no attribute at all"
        return
    for op, attr in owners:
        printed = found.print(attr.name, found.absent, Instruction("x", op.opcode, Shape("f32")))
        words = spelling(op.opcode)
        assert words is not None
        lexer = Lexer(printed)
        raw = {}
        while printed and lexer.pos < len(printed):
            key = lexer.key("an attribute")
            raw[key] = words.parts[key].read(lexer, Shapes(lexer))
            lexer.take(",")
        (own,) = (item for item in words.attributes if item.name == attr.name)
        assert all(key in raw or not words.parts[key].required for key in own.keys), (op.opcode, attr.name, printed)
        if own.build is not None:
            value = own.build(raw)
        else:
            value = raw.get(attr.name, own.default)
        assert value == found.absent or (attr.name not in raw and attr.default is not REQUIRED), (op.opcode, attr.name)


def test_pad_of_a_scalar() -> None:
    """Its padding is written as nothing, and read from nothing."""
    text = "HloModule m\n\nENTRY e {\n  x = f32[] parameter(0)\n  ROOT p = f32[] pad(x, x)\n}\n"
    module = Module.from_text(text)
    assert module.entry.root.attrs["padding"] == ()
    assert "ROOT p = f32[] pad(x, x)\n" in module.to_text()
    vector = (
        text.replace("f32[]", "f32[1]").replace("ROOT", "z = f32[] constant(0)\n  ROOT").replace("(x, x)", "(x, z)")
    )
    with pytest.raises(VerifyError, match="padding has 0 elements for 1 dimension"):
        verify(Module.from_text(vector))


def test_a_broadcast_of_nothing_is_printed() -> None:
    """A module that no verifier has seen has a text, too: an error shows it."""
    lost = Instruction("lost", "broadcast", Shape("f32"), attrs={"dimensions": ()})
    entry = Computation("e", [lost], lost)
    assert "lost = f32[] broadcast()" in Module("m", [entry], entry).to_text()
