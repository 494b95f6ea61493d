"""Damaged protos: whatever the bytes, reading and verifying end soon, and raise nothing but our own errors."""

from __future__ import annotations

import struct
from functools import cache

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.hlo_modules import lowered_modules, text_modules
from tests.support.seeds import count
from xla_wasm.errors import XlaWasmError
from xla_wasm.hlo.ir import Module
from xla_wasm.hlo.proto.schema import MESSAGES
from xla_wasm.hlo.proto.wire import encode
from xla_wasm.hlo.verify import verify

FAST = settings(
    max_examples=count(400, 1200),
    deadline=5000,
    suppress_health_check=list(HealthCheck),
    database=None,
    derandomize=True,
)


@cache
def seeds() -> list[bytes]:
    """Small modules that between them use most fields."""
    found = [*lowered_modules().values(), *text_modules().values()]
    return [data for data in found if len(data) < 16_000]


def read_constants(module: Module) -> None:
    for instruction in module.instructions():
        literal = instruction.attrs.get("literal")
        if literal is not None and literal.shape.is_array and literal.shape.size < 1 << 16:
            literal.values()


def check(data: bytes) -> None:
    try:
        module = Module.from_proto(data)
    except XlaWasmError:
        return
    read_constants(module)
    for step in (verify, Module.to_text, Module.to_proto):
        try:
            step(module)
        except XlaWasmError:
            pass


positions = st.integers(0, 1 << 20)


@FAST
@given(st.integers(0, 100), positions)
def test_truncated(seed: int, place: int) -> None:
    data = seeds()[seed % len(seeds())]
    check(data[: place % len(data)])


@FAST
@given(st.integers(0, 100), st.lists(st.tuples(positions, st.integers(0, 7)), min_size=1, max_size=6))
def test_flipped_bits(seed: int, flips: list[tuple[int, int]]) -> None:
    data = bytearray(seeds()[seed % len(seeds())])
    for place, bit in flips:
        data[place % len(data)] ^= 1 << bit
    check(bytes(data))


@FAST
@given(st.integers(0, 100), positions, st.binary(max_size=12), st.integers(0, 12))
def test_spliced(seed: int, place: int, piece: bytes, drop: int) -> None:
    data = seeds()[seed % len(seeds())]
    place %= len(data)
    check(data[:place] + piece + data[place + drop :])


@FAST
@given(st.binary(max_size=300))
def test_random_bytes(data: bytes) -> None:
    check(data)
    check(b"\x1a" + bytes([min(len(data), 127)]) + data[:127])


numbers = st.one_of(st.integers(-3, 8), st.integers(-(2**63), 2**63 - 1))
shape_fields = st.fixed_dictionaries(
    {"element_type": st.integers(0, 40), "dimensions": st.lists(numbers, max_size=4)},
    optional={"layout": st.binary(max_size=6), "is_dynamic_dimension": st.lists(st.booleans(), max_size=4)},
)
opcodes = st.sampled_from(
    "parameter constant add dot convolution reduce reduce-window gather scatter slice pad iota broadcast transpose "
    "reshape while "
    "conditional call fusion custom-call tuple get-tuple-element sort all-reduce all-gather dynamic-slice fft compare "
    "concatenate".split()
)
WRITERS = MESSAGES["HloInstructionProto"].writers
attributes = st.lists(
    st.tuples(st.sampled_from(sorted(WRITERS)), numbers, st.lists(numbers, max_size=4), st.binary(max_size=16)),
    max_size=6,
)


@FAST
@given(
    st.lists(
        st.tuples(opcodes, shape_fields, st.lists(st.integers(0, 4), max_size=4), attributes), min_size=1, max_size=5
    )
)
def test_well_formed_nonsense(
    rows: list[tuple[str, dict[str, object], list[int], list[tuple[str, int, list[int], bytes]]]],
) -> None:
    """Messages that decode, with fields of any value in instructions that have no use for them."""
    instructions = []
    for number, (opcode, shape, operands, extra) in enumerate(rows):
        fields: dict[str, object] = {"opcode": opcode, "shape": encode(MESSAGES["ShapeProto"], shape), "id": number}
        fields["operand_ids"] = [operand for operand in operands if operand < number]
        data = encode(MESSAGES["HloInstructionProto"], fields)
        for name, value, values, blob in extra:
            for item in (values, [blob]) if WRITERS[name][2] else (value, blob):
                try:
                    data += encode(MESSAGES["HloInstructionProto"], {name: item})
                    break
                except (TypeError, AttributeError, ValueError, OverflowError, struct.error):
                    pass  # not what this field holds
        instructions.append(data)
    computation = encode(
        MESSAGES["HloComputationProto"], {"name": "e", "instructions": instructions, "root_id": len(rows) - 1}
    )
    check(encode(MESSAGES["HloModuleProto"], {"name": "m", "computations": [computation]}))
