"""Modules read from protos and written back."""

from __future__ import annotations

import struct
import time
from typing import Any

import jax
import jax.export
import pytest

from tests.support import hlo_modules
from tests.support.hlo_modules import NAMES, all_modules, as_text, blocks, lowered, without_frames, zeros
from tests.support.samples import SAMPLES
from xla_wasm.errors import ParseError, UnsupportedError
from xla_wasm.hlo import attrs
from xla_wasm.hlo.ir import Computation, Instruction, Module
from xla_wasm.hlo.kinds.table import KINDS
from xla_wasm.hlo.proto.schema import MESSAGES
from xla_wasm.hlo.proto.shapes import read_shape, write_shape
from xla_wasm.hlo.proto.wire import UNKNOWN, decode, encode, fields, put_varint
from xla_wasm.hlo.shape import UNBOUNDED, Layout, Shape
from xla_wasm.ops.sample import Sample
from xla_wasm.ops.table import OPS

INSTRUCTION = MESSAGES["HloInstructionProto"]


@pytest.mark.parametrize("name", NAMES)
def test_round_trip(name: str) -> None:
    """XLA prints what we write as it prints what we read; and our own reading loses nothing either."""
    data = all_modules()[name]
    module = Module.from_proto(data)
    written = module.to_proto()
    assert without_frames("\n".join(blocks(as_text(data)))) == without_frames("\n".join(blocks(as_text(written))))
    assert Module.from_proto(written).to_proto() == written
    assert as_text(data).split("\n")[0] == as_text(written).split("\n")[0]


def test_every_kind_of_the_records_exists() -> None:
    for op in OPS.values():
        for attr in op.attrs:
            assert attr.kind in KINDS, (op.opcode, attr)
            assert all(number in INSTRUCTION.by_number for number in attr.fields), (op.opcode, attr)
    assert {*KINDS} == {attr.kind for op in OPS.values() for attr in op.attrs}


@pytest.mark.parametrize("name", [n for n in NAMES if not n.startswith("text")])
def test_nothing_of_a_module_is_unknown(name: str) -> None:
    module = Module.from_proto(all_modules()[name])
    left = {(i.opcode, number) for i in module.instructions() for number, _, value in fields(i.unknown) if len(value)}
    assert not left


def find(module: Module, name: str) -> Instruction:
    return next(i for c in reversed(module.computations) for i in c.instructions if i.name.split(".")[0] == name)


def test_attributes() -> None:
    module = Module.from_proto(hlo_modules.text_modules()["collectives"])
    groups = {name: find(module, name).attrs["replica_groups"].expanded() for name in "rixy"}
    assert groups == {"r": ((0, 1), (2, 3)), "i": ((0, 2), (1, 3)), "x": ((0, 2), (1, 3)), "y": ((0, 1), (2, 3))}
    assert find(module, "r").attrs["channel_id"] == 3
    assert find(module, "g").attrs["channel_id"] is None
    assert find(module, "c").attrs["source_target_pairs"] == ((0, 1), (1, 0))

    module = Module.from_proto(hlo_modules.text_modules()["calls"])
    call = find(module, "k")
    assert call.attrs["backend_config"] == b"{a = 1 : i32}"
    assert call.frontend_attributes == {"u": "v", "w": '{"x":1}'}
    assert call.metadata is not None and call.metadata.op_name == 'n"m'
    assert call.where == "custom-call 'k' (op_name 'n\"m', f.py:7)" or call.where.startswith("custom-call 'k.")
    assert find(module, "l").control_predecessors == [find(module, "q")]
    assert find(module, "u").attrs["result_accuracy"] == attrs.ResultAccuracy("", 0.5, 0.25, 3)

    module = Module.from_proto(hlo_modules.text_modules()["windows"])
    assert find(module, "w").attrs["window"].dimensions[1] == attrs.WindowDimension(2, stride=2)
    assert find(module, "d").attrs["precision_config"] == attrs.PrecisionConfig(
        ("high", "default"), "dot_bf16_bf16_f32_x3"
    )
    compare = next(i for i in module.instructions() if i.opcode == "compare")
    assert (compare.attrs["direction"], compare.attrs["type"]) == ("GE", "FLOAT")

    module = Module.from_proto(hlo_modules.text_modules()["host"])
    assert module.input_output_alias == [((1,), 1, (), "must-alias")]
    assert module.buffer_donor == [(0, ())]
    assert module.parameter_shapes is not None and module.parameter_shapes[1].dynamic == (True,)
    assert find(module, "u").shape.layout == Layout((0,), ((2,),), 0, 1)


def test_source_of_a_jax_instruction_is_known() -> None:
    module = Module.from_proto(lowered(lambda x: x + 1, zeros(3)))
    metadata = find(module, "add").metadata
    assert metadata is not None and metadata.source_file.endswith("test_proto.py") and metadata.source_line > 0


def test_called_computations_of_while() -> None:
    module = Module.from_proto(hlo_modules.lowered_modules()["scan"])
    loop = next(i for i in module.instructions() if i.opcode == "while")
    body, condition = loop.called
    assert condition.root.shape == Shape("pred", (), Layout(()))
    assert body.root.shape.without_layout() == loop.shape.without_layout()


def test_schedule_becomes_the_order() -> None:
    module = Module.from_proto(hlo_modules.compiled_modules()["mixture"])
    assert module.is_scheduled
    raw = decode(MESSAGES["HloModuleProto"], module.to_proto())
    assert len(decode(MESSAGES["HloScheduleProto"], raw["schedule"])["sequences"]) > 0


def test_mesh_groups() -> None:
    """Sub-axes in any order, explicit devices, a transposed iota."""
    mesh = attrs.MeshGroups((("x", 4), ("y", 2)), ((0, 1, 2),))
    assert mesh.expanded() == ((0, 4), (1, 5), (2, 6), (3, 7))
    assert attrs.MeshGroups((("x", 4), ("y", 2)), ((0, 2, 2), (1, 0, 0))).expanded() == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert attrs.MeshGroups((("x", 4), ("y", 2)), ((1, 0, 0), (0, 2, 2))).expanded() == ((0, 2, 1, 3), (4, 6, 5, 7))
    assert attrs.MeshGroups((("x", 2), ("y", 2)), ((1, 0, 0),), device_ids=(3, 1, 2, 0)).expanded() == ((3, 1), (2, 0))
    assert attrs.MeshGroups((("x", 2), ("y", 2)), ((1, 0, 0),), (), (2, 2), (1, 0)).expanded() == ((0, 2), (1, 3))
    assert attrs.MeshGroups((("x", 8),), ((0, 4, 2), (0, 1, 2))).expanded() == ((0, 4, 1, 5), (2, 6, 3, 7))


def test_containers() -> None:
    data = hlo_modules.lowered_modules()["gradient"]
    expected = Module.from_proto(data).to_proto()
    hlo = encode(MESSAGES["HloProto"], {"hlo_module": data})
    with_assignment = encode(MESSAGES["HloProto"], {"hlo_module": data, "buffer_assignment": b"\x0a\x02\x08\x01"})
    snapshot = encode(MESSAGES["HloSnapshot"], {"hlo": hlo, "arguments": [b""], "execution_platform": "cpu"})
    unoptimized = encode(MESSAGES["HloUnoptimizedSnapshot"], {"hlo_module": data, "partitions": [b""], "version": 1})
    for holder in (data, bytearray(data), memoryview(data), hlo, with_assignment, snapshot, unoptimized):
        assert Module.from_proto(holder).to_proto() == expected


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (b"", ParseError, "empty"),
        (b"HloModule m\nENTRY e {}", UnsupportedError, "HLO text"),
        (b"module @jit_f {", UnsupportedError, "StableHLO"),
        (b"\x1f\x8b\x08\x00", ParseError, "gzip"),
        (b"\x00asm\x01\x00\x00\x00", ParseError, "WebAssembly"),
        (b"\x08\x01", ParseError, "no HLO module"),
        (b"not a module", ParseError, "no HLO module"),
    ],
)
def test_other_bytes_are_named(data: bytes, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Module.from_proto(data)


def test_stablehlo_and_jax_export_are_named() -> None:
    exported = jax.export.export(jax.jit(lambda x: x + 1))(zeros(3))
    flatbuffer = (
        struct.pack("<IIHHHH", 16, 0, 12, 8, 4, 0) + bytes(64) + exported.mlir_module_serialized
    )  # as serialize() lays it out
    with pytest.raises(UnsupportedError, match="jax.export"):
        Module.from_proto(flatbuffer)
    with pytest.raises(UnsupportedError, match="MLIR bytecode"):
        Module.from_proto(exported.mlir_module_serialized)
    with pytest.raises(UnsupportedError, match="MLIR text"):
        Module.from_proto(exported.mlir_module().encode())
    with pytest.raises(ParseError, match="bytes, not str"):
        Module.from_proto("HloModule")  # type: ignore[arg-type]


F32 = Shape("f32", (2,))


def instruction(name: str, opcode: str, number: int, **more: Any) -> bytes:
    return encode(INSTRUCTION, {"name": name, "opcode": opcode, "shape": write_shape(F32), "id": number, **more})


def computation(*instructions: bytes, **more: Any) -> bytes:
    return encode(MESSAGES["HloComputationProto"], {"name": "e", "instructions": instructions, **more})


def module(*computations: bytes, **more: Any) -> bytes:
    return encode(MESSAGES["HloModuleProto"], {"name": "m", "computations": computations, **more})


X = instruction("x", "parameter", 0)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (module(computation(X, root_id=5)), "root does not exist"),
        (module(computation(X), entry_computation_id=3), "entry computation '' does not exist"),
        (module(computation(X), computation(X)), "two computations"),
        (module(computation(X, X)), "its id 0 is that of 'x' too"),
        (module(computation(X, instruction("y", "negate", 1, operand_ids=[2]))), "operand is missing"),
        (module(computation(X, instruction("y", "negate", 1, operand_ids=[1]))), "operand is missing"),
        (
            module(computation(X, instruction("y", "call", 1, operand_ids=[0], called_computation_ids=[0]))),
            "called computation is missing",
        ),
        (
            module(computation(X, instruction("y", "negate", 1, operand_ids=[0], control_predecessor_ids=[9]))),
            "control predecessor 9",
        ),
        (module(computation(instruction("x", "parameter", 0, parameter_number=1))), "numbered"),
        (module(computation(X, instruction("y", "parameter", 1))), "numbered"),
        (module(computation(encode(INSTRUCTION, {"opcode": "parameter"}))), "no shape"),
        (module(computation(instruction("i", "iota", 0))), "exactly one dimension"),
        (module(computation(X), host_program_shape=b""), "host_program_shape"),
        (module(computation(X), schedule=b"\x0a\x06\x12\x04\x0a\x02\x00\x01"), "schedule"),
        (module(computation(instruction("r", "rng", 0, distribution=9))), "enum value 9"),
    ],
)
def test_broken_graphs(data: bytes, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        Module.from_proto(data)


def test_old_forms() -> None:
    """Ids without a computation in them, unpacked numbers, comparisons that were opcodes, deprecated replica groups."""
    less = instruction("y", "less-than", 8) + bytes([0xA0, 0x02, 7, 0xA0, 0x02, 7])  # operand_ids 36, twice, not packed
    read = Module.from_proto(module(computation(instruction("x", "parameter", 7), less, root_id=8)))
    assert read.entry.root.opcode == "compare" and len(read.entry.root.operands) == 2
    assert (read.entry.root.attrs["direction"], read.entry.root.attrs["type"]) == ("LT", "FLOAT")
    group = encode(MESSAGES["ReplicaGroup"], {"replica_ids": [1, 0]})
    reduce = instruction("r", "all-to-all", 1, operand_ids=[0], replica_groups=[group])
    read = Module.from_proto(module(computation(X, reduce, root_id=1)))
    assert read.entry.root.attrs["replica_groups"].expanded() == ((1, 0),)


def test_unknown_things_are_kept() -> None:
    later = bytes([0xC2, 0x3E, 2, 1, 2])  # field 1000 of wire type 2
    odd = instruction("y", "quantum-add", 1, operand_ids=[0], dimensions=[3]) + later
    data = module(computation(X + later, odd, root_id=1) + later) + later
    read = Module.from_proto(data)
    assert read.unknown == later and read.entry.unknown == later and read.entry.instructions[0].unknown == later
    again = Module.from_proto(read.to_proto())
    assert again.entry.root.opcode == "quantum-add"
    assert decode(INSTRUCTION, again.entry.root.unknown) == {"dimensions": [3], UNKNOWN: later}


def test_shapes() -> None:
    inner = Shape("s32", (3, 4), Layout((0, 1), ((8, 128), (2, UNBOUNDED)), 4, 5, 3, 16), (True, False))
    shape = Shape.tuple([inner, Shape("token"), Shape("buffer", tuple_shapes=(Shape("f32", (), Layout(())),))])
    assert read_shape(write_shape(shape)) == shape
    deep = write_shape(F32)
    for _ in range(100):
        deep = encode(MESSAGES["ShapeProto"], {"element_type": 13, "tuple_shapes": [deep]})
    for bad, message in (
        (deep, "nested deeper"),
        (b"\x10\x63", "element type 99"),
        (b"\x10\x0b\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "size -1"),
        (encode(MESSAGES["ShapeProto"], {"element_type": 11, "dimensions": [2**40, 2**40]}), "more elements"),
        (encode(MESSAGES["ShapeProto"], {"element_type": 11, "dimensions": [1] * 300}), "300 dimensions"),
        (
            encode(MESSAGES["ShapeProto"], {"element_type": 11, "dimensions": [1], "layout": b"\x0a\x01\x01"}),
            "no permutation",
        ),
    ):
        with pytest.raises(ParseError, match=message):
            read_shape(bad)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x0a", "end inside"),
        (b"\x0a\x05ab", "end inside"),
        (b"\x0a\x02\xff\xfe", "not UTF-8"),
        (b"\x08\x01", "wire type 0"),
        (b"\x0b", "wire type 3"),
        (b"\x0c", "wire type 4"),
        (b"\x00\x01", "number 0"),
        (b"\x28" + b"\x80" * 11 + b"\x01", "longer than 10 bytes"),
        (b"\x28" + b"\x80" * 4, "end inside"),
        (b"\xff" * 40, "longer than 10 bytes"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "end inside"),
    ],
)
def test_broken_wire_data(data: bytes, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        decode(MESSAGES["HloModuleProto"], data)


def test_scalars_on_the_wire() -> None:
    """Negative numbers, several packed chunks, unpacked elements, fixed-width numbers, presence."""
    layout = MESSAGES["LayoutProto"]
    assert decode(layout, b"\x0a\x02\x01\x02\x08\x03\x0a\x01\x80"[:-3] + b"\x0a\x02\x80\x01") == {
        "minor_to_major": [1, 2, 3, 128]
    }
    for value in (0, 1, -1, 127, 128, 2**31, -(2**31), 2**63 - 1, -(2**63)):
        pad = MESSAGES["SliceDimensions"]
        data = encode(pad, {"start": value})
        assert decode(pad, data) == ({"start": value} if value else {})
    assert encode(MESSAGES["Tolerance"], {"atol": -0.0}) == b"\x09" + struct.pack("<d", -0.0)
    assert decode(MESSAGES["Tolerance"], b"\x09" + struct.pack("<d", 0.5)) == {"atol": 0.5}
    assert encode(INSTRUCTION, {"cross_program_prefetch_index": 0}) == b"\x80\x05\x00"
    twice = decode(INSTRUCTION, b"\x1a\x02\x10\x0b\x1a\x02\x18\x03")
    assert read_shape(twice["shape"]) == Shape("f32", (3,))


def test_hostile_sizes_take_no_time() -> None:
    """Things that would be quadratic if they were done naively."""
    many = bytearray()
    for number in (1000, 3):  # unknown fields; pieces of one shape
        for _ in range(100_000):
            put_varint(many, number << 3 | 2)
            many += b"\x00"
    start = time.thread_time()
    assert len(decode(INSTRUCTION, bytes(many))[UNKNOWN]) == 300_000
    long = b"\x0a" + b"\x80\x80\x80\x01" + b"\x80" * (1 << 21)
    with pytest.raises(ParseError, match="varint"):
        decode(MESSAGES["LayoutProto"], long)
    assert time.thread_time() - start < 20


def test_reading_speed() -> None:
    """A generous bound on a slow machine; about 10 microseconds per instruction on a usual one."""
    x = Instruction("x", "parameter", F32, attrs={"parameter_number": 0})
    chain = [x]
    for number in range(20_000):
        chain.append(Instruction(f"add.{number}", "add", F32, [chain[-1], x]))
    entry = Computation("e", chain)
    data = Module("big", [entry], entry).to_proto()
    start = time.thread_time()
    assert len(Module.from_proto(data).entry.instructions) == 20_001
    assert time.thread_time() - start < 10


def test_a_configuration_may_be_text() -> None:
    """A `backend_config` that is a str is written as UTF-8 and read as bytes."""
    module = Module.from_proto(hlo_modules.text_modules()["calls"])
    find(module, "k").attrs["backend_config"] = "größe"
    assert find(Module.from_proto(module.to_proto()), "k").attrs["backend_config"] == "größe".encode()


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_samples_are_written(sample: Sample) -> None:
    assert Module.from_proto(sample.module().to_proto()).to_text().count(" = ") > 0
