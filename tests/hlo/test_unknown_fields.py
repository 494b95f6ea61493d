"""Fields of a later XLA inside messages of all kinds: read past, kept, and written back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import xla_wasm
from tests.support.hlo_modules import all_modules
from xla_wasm.errors import UnsupportedError
from xla_wasm.hlo.attrs import Metadata, SliceDimension
from xla_wasm.hlo.ir import Computation, Instruction, Module
from xla_wasm.hlo.proto.schema import MESSAGES
from xla_wasm.hlo.proto.wire import decode, encode
from xla_wasm.hlo.shape import Layout, Shape

F32 = Shape("f32")
LATER = bytes([0xC2, 0x3E, 2, 1, 2])
"""Field 1000 of wire type 2."""


def grown(message: str, data: bytes, place: str) -> bytes:
    """A message with an unknown field added to itself and, along `place`, to the (first) message in each field."""
    table = MESSAGES[message]
    step, _, rest = place.partition(".")
    if step:
        fields = decode(table, data)
        inner, value = table.inner[step], fields[step]
        many = isinstance(value, list)
        new = grown(inner, bytes(value[0] if many else value), rest)
        fields[step] = [new, *value[1:]] if many else new
        data = encode(table, fields)
    return data + LATER


@pytest.mark.parametrize(
    ("opcode", "place"),
    [
        ("reduce-window", "window.dimensions"),
        ("pad", "padding_config.dimensions"),
        ("convolution", "convolution_dimension_numbers"),
        ("convolution", "precision_config"),
        ("gather", "gather_dimension_numbers"),
        ("slice", "slice_dimensions"),
        ("constant", "literal.shape.layout"),
        ("custom-call", "operand_shapes_with_layout"),
        ("custom-call", "frontend_attributes.map"),
        ("negate", "shape.layout.tiles"),
        ("tuple", "shape.tuple_shapes"),
        ("negate", "metadata"),
    ],
)
def test_unknown_fields_inside_messages_of_instructions_are_kept(opcode: str, place: str) -> None:
    tiled = Shape("f32", (4, 4), Layout((1, 0), ((2, 2),)))
    x = Instruction("x", "parameter", tiled, attrs={"parameter_number": 0}, metadata=Metadata(op_name="o"))
    samples = {i.opcode: i for data in all_modules().values() for i in Module.from_proto(data).instructions()}
    samples |= {"negate": Instruction("n", "negate", tiled, [x], metadata=x.metadata)}
    samples |= {"tuple": Instruction("t", "tuple", Shape.tuple([tiled]), [x])}
    subject = samples[opcode]
    if opcode == "custom-call":
        subject.frontend_attributes = {"a": "b"}
        subject.attrs.update(constrain_layout=True, operand_layout_constraints=(tiled,))
    used = [
        Instruction(f"p{i}", "parameter", o.shape, attrs={"parameter_number": i})
        for i, o in enumerate(subject.operands)
    ]
    subject.operands, subject.name = used, "subject"
    entry = Computation("e", [*used, subject])
    plain = Module("m", [*subject.called, entry], entry).to_proto()

    def with_subject(change: Callable[[bytes], bytes]) -> bytes:
        fields = decode(MESSAGES["HloModuleProto"], plain)
        last = decode(MESSAGES["HloComputationProto"], fields["computations"][-1])
        last["instructions"][-1] = change(last["instructions"][-1])
        fields["computations"][-1] = encode(MESSAGES["HloComputationProto"], last)
        return encode(MESSAGES["HloModuleProto"], fields)

    data = with_subject(lambda item: grown("HloInstructionProto", item, place))
    read = Module.from_proto(data)
    written = read.to_proto()
    wanted = place.count(".") + 2  # one in the instruction and one a level
    assert data.count(LATER) == written.count(LATER) == Module.from_proto(written).to_proto().count(LATER) == wanted
    assert read.to_text() == Module.from_proto(plain).to_text()
    if place.partition(".")[0] not in ("shape", "metadata", "frontend_attributes"):
        with pytest.raises(UnsupportedError, match="does not know"):
            xla_wasm.compile(read)
    # What is changed after reading is written as it is now.
    changed = read.entry.root
    if opcode == "slice":
        changed.attrs["slice"] = tuple(SliceDimension(0, 1) for _ in changed.attrs["slice"])
        again = Module.from_proto(read.to_proto())
        assert again.entry.root.attrs["slice"] == changed.attrs["slice"] and again.to_proto().count(LATER) == 1


@pytest.mark.parametrize(
    "place",
    [
        "input_output_alias.entries",
        "buffer_donor.entries",
        "frontend_attributes.map",
        "host_program_shape.parameters.layout",
    ],
)
def test_unknown_fields_inside_messages_of_modules_are_kept(place: str) -> None:
    x = Instruction("x", "parameter", F32, attrs={"parameter_number": 0})
    entry = Computation("e", [x, Instruction("y", "negate", F32, [x])])
    module = Module("m", [entry], entry)
    module.input_output_alias, module.buffer_donor = [((), 0, (), "may-alias")], [(0, ())]
    module.frontend_attributes = {"a": "b"}
    read = Module.from_proto(grown("HloModuleProto", module.to_proto(), place))
    written = read.to_proto()
    assert written.count(LATER) == Module.from_proto(written).to_proto().count(LATER) == place.count(".") + 2
    assert (
        read.input_output_alias == module.input_output_alias and read.frontend_attributes == module.frontend_attributes
    )
    read.input_output_alias[0] = ((), 0, (), "must-alias")
    read.buffer_donor.clear()
    read.frontend_attributes["a"] = "c"
    read.result_shape = Shape("f32", F32.dimensions)
    again = Module.from_proto(read.to_proto())
    assert (
        again.input_output_alias == read.input_output_alias
        and not again.buffer_donor
        and again.frontend_attributes == {"a": "c"}
    )
