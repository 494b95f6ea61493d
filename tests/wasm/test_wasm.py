"""The wasm package: encoder, checker and disassembler, each held against wasmtime's own."""

from __future__ import annotations

import math
import random
import struct
import time
from functools import cache
from typing import Any

import pytest
import wasmtime
from hypothesis import given, settings
from hypothesis import strategies as st

from xla_wasm.errors import ArtifactError
from xla_wasm.wasm import CODE, Func, Module, Opcode, custom_section, opcodes, sleb, uleb
from xla_wasm.wasm.binary import read_module
from xla_wasm.wasm.disasm import disassemble, disassemble_func
from xla_wasm.wasm.encoding import Reader, sections, sleb32, sleb64
from xla_wasm.wasm.module import custom
from xla_wasm.wasm.validate import validate

OPCODES = opcodes()

TYPES = ("i32", "i64", "f32", "f64", "v128")
OFF = (
    "memory64",
    "multi_memory",
    "tail_call",
    "exceptions",
    "gc",
    "function_references",
    "wide_arithmetic",
    "stack_switching",
)


@cache
def engine() -> wasmtime.Engine:
    """An engine with the features that the opcode table covers, and no others."""
    config = wasmtime.Config()
    for feature in ("threads", "reference_types", "simd", "relaxed_simd", "bulk_memory", "multi_value"):
        setattr(config, f"wasm_{feature}", True)
    for feature in OFF:
        if hasattr(wasmtime.Config, f"wasm_{feature}"):
            setattr(config, f"wasm_{feature}", False)
    return wasmtime.Engine(config)


def accepted_by_wasmtime(wasm: bytes) -> bool:
    try:
        wasmtime.Module.validate(engine(), wasm)
    except wasmtime.WasmtimeError:
        return False
    return True


def accepted(wasm: bytes) -> bool:
    try:
        validate(wasm)
    except ArtifactError:
        return False
    return True


def run(module: Module, name: str, *arguments: Any) -> Any:
    """Export and call a function."""
    module.export_func(name, name)
    wasm = module.encode()
    validate(wasm)
    store = wasmtime.Store()
    function: Any = wasmtime.Instance(store, wasmtime.Module(store.engine, wasm), []).exports(store)[name]
    return function(store, *arguments)


# Encoding


@pytest.mark.parametrize("n", [0, 1, 63, 64, 127, 128, 16383, 16384, 65535, 65536, 2**31, 2**32 - 1])
def test_leb_round_trip(n: int) -> None:
    assert Reader(uleb(n)).unsigned() == n
    for value in (n, -n, -n - 1):
        assert Reader(sleb(value)).signed(34) == value
        assert len(sleb(value)) == next(k for k in range(1, 9) if -(1 << 7 * k - 1) <= value < 1 << 7 * k - 1)


def test_constants_take_both_ranges() -> None:
    assert sleb32(2**32 - 1) == sleb32(-1) == b"\x7f"
    assert sleb64(2**64 - 1) == sleb64(-1)
    for encode, value in ((sleb32, 2**32), (sleb32, -(2**31) - 1), (sleb64, 2**64), (uleb, -1)):
        with pytest.raises(ValueError):
            encode(value)


@given(st.binary(max_size=12))
def test_reader_agrees_with_itself(data: bytes) -> None:
    """Whatever decodes is in range; everything else is an ArtifactError."""
    for bits in (32, 64):
        try:
            assert 0 <= Reader(data).unsigned(bits) < 1 << bits
        except ArtifactError:
            pass
        try:
            assert -(1 << bits - 1) <= Reader(data).signed(bits) < 1 << bits - 1
        except ArtifactError:
            pass


def test_table_is_consistent() -> None:
    assert len(set(CODE.values())) == len(CODE) == len(OPCODES)
    count = {
        prefix: sum(op.code[0] == prefix and len(op.code) > 1 for op in OPCODES.values())
        for prefix in (0xFC, 0xFD, 0xFE)
    }
    assert count == {0xFC: 18, 0xFD: 256, 0xFE: 67}
    assert CODE["i32x4.relaxed_dot_i8x16_i7x16_add_s"] == b"\xfd\x93\x02"


def test_immediates_come_in_two_forms() -> None:
    one, other = Func("f"), Func("f")
    one.op("i8x16.shuffle", *range(16))
    other.op("i8x16.shuffle", bytes(range(16)))
    one.op("f32.const", 1.5)
    other.op("f32.const", struct.pack("<f", 1.5))
    one.op("memory.fill")
    other.op("memory.fill", 0)
    other_code = bytes(other.code)
    other.code.clear()
    other.raw(other_code)
    assert one.code == other.code
    for name, value in (("v128.const", b"short"), ("i8x16.shuffle", [1, 2]), ("f64.const", b"1234")):
        with pytest.raises(ValueError):
            one.op(name, value)


# Modules


def sample_immediates(op: Opcode) -> list[Any]:
    values: list[Any] = []
    for kind in op.immediates:
        if kind == "memarg":
            values += [op.align, 8]
        elif kind.startswith("lane"):
            values.append(int(kind[5:]) - 1)
        elif kind == "shuffle":
            values += range(16, 32)
        elif kind == "v128":
            values.append(bytes(range(16)))
        elif kind in ("f32", "f64"):
            values.append(1.5)
        elif kind in ("i32", "i64"):
            values.append(-5)
        else:
            values.append(0)
    return [] if all(kind in ("memory", "zero", "table") for kind in op.immediates) else values


def zero(func: Func, kind: str) -> None:
    if kind == "v128":
        func.op("v128.const", bytes(16))
    elif kind in ("funcref", "externref"):
        func.op("ref.null", kind)
    else:
        func.op(f"{kind}.const", 0)


def with_everything() -> Module:
    """A module in which every index space has an entry."""
    module = Module()
    module.memory(1, 2)
    module.data(16, b"active")
    module.passive(b"passive")
    module.global_("i32", True, 7)
    module.slot("callee")
    callee = Func("callee", ("i32", "f32"), ("i32",))
    callee.op("local.get", 0)
    module.add(callee)
    return module


PLAIN = [op for op in OPCODES.values() if not op.contextual]


@pytest.mark.parametrize("op", PLAIN, ids=lambda op: op.name)
def test_every_plain_opcode(op: Opcode) -> None:
    """Encoded with the operands of its signature, each opcode is valid here and in wasmtime, and prints as what it
    was."""
    module = with_everything()
    func = Func("f", (), op.results)
    for kind in op.params:
        zero(func, kind)
    func.op(op.name, *sample_immediates(op))
    module.add(func)
    wasm = module.encode(names=True)
    validate(wasm)
    wasmtime.Module.validate(engine(), wasm)
    assert same_module(wasm, bytes(wasmtime.wat2wasm(disassemble(wasm))))
    wrong = Func("f", (), ("externref",))
    wrong.code = bytearray(func.code)
    other = with_everything()
    other.add(wrong)
    assert not accepted(other.encode())


def same_module(a: bytes, b: bytes) -> bool:
    """Equal apart from custom sections, and the data count, which assemblers leave out when nothing refers to it."""

    def parts(wasm: bytes) -> list[tuple[int, bytes]]:
        return [(i, part.take(part.end - part.pos)) for i, part in sections(wasm) if i not in (0, 12)]

    return parts(a) == parts(b)


def control_module() -> Module:
    """Blocks, branches, calls and tables in one module."""
    module = with_everything()
    f = Func("control", ("i32",), ("i32",))
    total, vector = f.local("i32"), f.local("v128")
    f.local("v128")
    f.local("f64")
    f.op("block")
    f.op("loop")
    f.op("local.get", 0)
    f.op("i32.eqz")
    f.op("br_if", 1)
    f.op("local.get", 0)
    f.op("local.get", total)
    f.op("i32.add")
    f.op("local.set", total)
    f.op("local.get", 0)
    f.op("i32.const", -1)
    f.op("i32.add")
    f.op("local.set", 0)
    f.op("br", 0)
    f.op("end")
    f.op("end")
    f.op("local.get", total)
    f.op("if", "i32")
    f.op("local.get", total)
    f.op("f32.const", 2.5)
    f.call("callee")
    f.op("else")
    f.op("i32.const", 2**32 - 9)
    f.op("end")
    f.op("local.set", total)
    f.op("block")
    f.op("block")
    f.op("block")
    f.op("local.get", total)
    f.op("br_table", [0, 1], 2)
    f.op("end")
    f.op("unreachable")
    f.op("end")
    f.op("nop")
    f.op("end")
    f.op("local.get", total)
    f.op("f32.const", 1.0)
    f.op("i32.const", module.slot("callee"))
    f.call_indirect(("i32", "f32"), ("i32",))
    f.op("v128.const", b"\1" * 16)
    f.op("local.tee", vector)
    f.op("i32x4.extract_lane", 0)
    f.op("global.set", 0)
    f.op("i32.const", 0)
    f.op("local.get", vector)
    f.op("v128.store32_lane", 2, 64, 3)
    f.op("i32.const", 0)
    f.op("i32.const", 0)
    f.op("i32.const", 3)
    f.op("memory.init", 1)
    f.op("data.drop", 1)
    f.op("global.get", 0)
    f.op("drop")
    f.op("ref.func", 0)
    f.op("ref.is_null")
    f.op("i32.add")
    f.op("i32.const", 2)
    f.op("i32.const", 1)
    f.op("select.t", "i32")
    f.op("i32.const", 0)
    f.op("i32.const", 1)
    f.op("select")
    module.add(f)
    return module


def test_control_flow_runs() -> None:
    assert run(control_module(), "control", 10) == 55
    assert run(control_module(), "control", 0) == -9


def test_encode_is_deterministic_and_compact() -> None:
    assert control_module().encode(True) == control_module().encode(True)
    body = next(f for f in control_module().functions if f.name == "control")
    assert isinstance(body, Func)
    assert body.body()[:7] == b"\3\1\x7f\2\x7b\1\x7c"  # runs of equal locals
    assert read_module(control_module().encode()).types == [(("i32", "f32"), ("i32",)), (("i32",), ("i32",))]


def test_calls_by_symbol() -> None:
    module = Module()
    even, odd = Func("even", ("i32",), ("i32",)), Func("odd", ("i32",), ("i32",))
    for func, other, at_zero in ((even, "odd", 1), (odd, "even", 0)):
        func.op("local.get", 0)
        func.op("if", "i32")
        func.op("local.get", 0)
        func.op("i32.const", 1)
        func.op("i32.sub")
        func.call(other)
        func.op("else")
        func.op("i32.const", at_zero)
        func.op("end")
        module.add(func)
    assert run(module, "even", 7) == 0
    assert "call $odd" in disassemble_func(even)


def test_missing_symbols() -> None:
    module = Module()
    func = Func("f")
    func.call("nowhere")
    module.add(func)
    module.slot("slotted")
    assert module.missing() == ["nowhere", "slotted"]
    with pytest.raises(ValueError, match="f calls 'nowhere'"):
        module.encode()
    with pytest.raises(ValueError, match="two functions are called f"):
        module.add(Func("f"))
    with pytest.raises(KeyError):
        func.op("local.get")  # an immediate is missing


def test_imports_and_shared_memory() -> None:
    module = Module()
    module.import_func("env", "log", "log", ("i32",), ())
    module.import_memory("env", "memory", 1, 4, shared=True)
    func = Func("run")
    func.op("i32.const", 3)
    func.call("log")
    module.add(func)
    module.export_func("run", "run")
    wasm = module.encode()
    validate(wasm)
    wasmtime.Module.validate(engine(), wasm)
    assert [i.name for i in wasmtime.Module(engine(), wasm).imports] == ["log", "memory"]
    assert same_module(wasm, bytes(wasmtime.wat2wasm(disassemble(wasm))))
    with pytest.raises(ValueError, match="before functions"):
        module.import_func("env", "late", "late", (), ())


def test_custom_sections() -> None:
    wasm = with_everything().encode(names=True) + custom("xla_wasm", b"{}") + custom("empty", b"")
    assert custom_section(wasm, "xla_wasm") == b"{}"
    assert custom_section(wasm, "empty") == b""
    assert custom_section(wasm, "other") is None
    for damaged in (b"", b"\0asm", b"<html>not found", wasm[:-3], wasm[:8] + b"\0\xff\xff\xff\xff\x0f"):
        with pytest.raises(ArtifactError):
            custom_section(damaged, "other")


# Checker and disassembler


WAT = [
    """(module (func (result i32) (block (result i32) (unreachable) (br 0))))""",
    """(module (func (param i32) (result i32 i64) (local i64) local.get 0 (if (param) (result i32 i64)
         (then i32.const 1 i64.const 2) (else i32.const 3 local.get 1))))""",
    """(module (func (result f32) (return (f32.const nan:0x200001)) (drop) (i32.add) (f32.convert_i32_s)))""",
    """(module (func (param i64) local.get 0 (loop (param i64) (result i64) br 0) drop) (type (func (param i64) (result i64))))""",  # noqa: E501
    """(module (table 4 8 funcref) (table 2 externref) (func $a) (func $b (param externref)
         (table.set 1 (i32.const 0) (local.get 0)) (drop (table.grow 1 (ref.null extern) (i32.const 1)))
         (table.fill 0 (i32.const 0) (ref.func $a) (i32.const 2)) (table.copy 0 0 (i32.const 0) (i32.const 1) (i32.const 1))
         (table.init 0 1 (i32.const 0) (i32.const 0) (i32.const 1)) (elem.drop 1) (drop (table.get 0 (i32.const 1))))
         (elem (i32.const 1) $a $b) (elem func $a) (elem declare func $b) (elem (table 1) (i32.const 0) externref (ref.null extern)))""",  # noqa: E501
    """(module (import "m" "g" (global i32)) (import "m" "f" (func $f (param v128))) (memory 1 1) (data (global.get 0) "a\\00\\"\\\\b")
         (global $x (mut f64) (f64.const -0x1.8p-1070)) (global v128 (v128.const i8x16 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16))
         (global funcref (ref.func $f)) (start $main) (func $main (call $f (v128.load offset=3 align=1 (i32.const 0)))
         (global.set $x (f64.const -inf))) (export "a b" (func $f)) (export "memory" (memory 0)))""",  # noqa: E501
    """(module (memory 1 1 shared) (func (param i32) (result i64) (drop (i32.atomic.rmw16.cmpxchg_u offset=2 (local.get 0)
         (i32.const 1) (i32.const 2))) (atomic.fence) (memory.atomic.wait64 (local.get 0) (i64.const 0) (i64.const -1)) drop
         (i64.atomic.load32_u (local.get 0))))""",  # noqa: E501
    """(module (func (param i32) (result i32) (block $a (result i32) (block $b (result i32) (br_table $a $b 1 (i32.const 7)
         (local.get 0))) (i32.const 1) (i32.add))))""",  # noqa: E501
    """(module (func (result v128) (i8x16.shuffle 0 31 2 3 4 5 6 7 8 9 10 11 12 13 14 15 (v128.const i64x2 1 2)
         (f32x4.relaxed_madd (v128.const f32x4 1 nan inf -0) (v128.const i64x2 3 4) (v128.const i64x2 5 6)))))""",
]


@pytest.mark.parametrize("text", WAT)
def test_samples_from_text(text: str) -> None:
    wasm = bytes(wasmtime.wat2wasm(text))
    assert accepted(wasm) == accepted_by_wasmtime(wasm) == True  # noqa: E712
    again = bytes(wasmtime.wat2wasm(disassemble(wasm)))
    assert same_module(wasm, again)
    assert disassemble(again) == disassemble(wasm)


def test_disassembly_reads_well() -> None:
    text = disassemble(control_module().encode(names=True))
    assert "  (func $callee (;0;) (type 0) (param i32 f32) (result i32)\n    local.get 0\n  )\n" in text
    assert "    if (result i32)\n      local.get 1\n      f32.const 2.5\n      call $callee\n    else\n" in text
    assert "v128.store32_lane offset=64 3" in text
    wasm = control_module().encode(names=True)
    assert same_module(wasm, bytes(wasmtime.wat2wasm(text)))
    assert "call $other_name" in disassemble(wasm, {0: "other name"})


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1))
@settings(max_examples=60)
def test_float_literals_keep_their_bits(single: int, double: int) -> None:
    module = Module()
    func = Func("f", (), ("f32", "f64"))
    func.op("f32.const", struct.pack("<I", single))
    func.op("f64.const", struct.pack("<Q", double))
    module.add(func)
    wasm = module.encode()
    assert same_module(wasm, bytes(wasmtime.wat2wasm(disassemble(wasm))))


INVALID = [
    "(func (result i32))",
    "(func (result i32) (i64.const 0))",
    "(func i32.add)",
    "(func (i32.const 0))",
    "(func (if (result i32) (i32.const 1) (then (i32.const 1))) drop)",
    "(func (local.set 0 (i32.const 1)))",
    "(func (param i32) (local.set 0 (f32.const 1)))",
    "(func (br 1 (i32.const 1)) (br 7))",
    "(func (call 9))",
    "(func (drop (i32.load (i32.const 0))))",
    "(memory 1) (func (drop (i32.load align=8 (i32.const 0))))",
    "(memory 1) (func (drop (i32.atomic.load align=2 (i32.const 0))))",
    "(func (drop (f32x4.extract_lane 4 (v128.const i64x2 0 0))))",
    "(func (unreachable) (i32.add (f32.const 1)) (drop))",
    "(func (drop (select (ref.null func) (ref.null func) (i32.const 0))))",
    "(func (drop (ref.func 0)))",
    "(global i32 (i32.const 1)) (func (global.set 0 (i32.const 1)))",
    "(func (call_indirect (i32.const 0)))",
    "(memory 65537)",
    "(memory 2 1)",
    "(memory 1) (memory 1)",
    '(func) (export "a" (func 0)) (export "a" (func 0))',
    "(func (param i32)) (start 0)",
    "(global i32 (f32.const 1))",
    '(data (i32.const 0) "a")',
    "(func (result i32) (block (br_table 0 1 (i32.const 1) (i32.const 2))) (i32.const 1))",
    "(table 1 externref) (func $f) (elem (i32.const 0) $f)",
]


@pytest.mark.parametrize("fields", INVALID)
def test_invalid_modules_are_refused(fields: str) -> None:
    wasm = bytes(wasmtime.wat2wasm(f"(module {fields})"))
    assert not accepted_by_wasmtime(wasm)
    with pytest.raises(ArtifactError):
        validate(wasm)


@cache
def corpus() -> tuple[bytes, ...]:
    return (control_module().encode(True), *(bytes(wasmtime.wat2wasm(text)) for text in WAT), all_plain())


def all_plain() -> bytes:
    """Every plain opcode in one function, so that mutations turn each into others."""
    module = with_everything()
    func = Func("all")
    for op in PLAIN:
        for kind in op.params:
            zero(func, kind)
        func.op(op.name, *sample_immediates(op))
        for _ in op.results:
            func.op("drop")
    module.add(func)
    return module.encode()


def body_ranges(wasm: bytes) -> list[tuple[int, int]]:
    return [(body.code.pos, body.code.end) for body in read_module(wasm).bodies if body.code.end > body.code.pos]


@given(st.data())
@settings(max_examples=600)
def test_mutated_bodies_judged_as_by_wasmtime(data: st.DataObject) -> None:
    wasm = bytearray(data.draw(st.sampled_from(corpus())))
    start, end = data.draw(st.sampled_from(body_ranges(bytes(wasm))))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(start, end - 1))
        wasm[at] = data.draw(st.sampled_from(bytes(op.code[0] for op in OPCODES.values())) | st.integers(0, 255))
    assert accepted(bytes(wasm)) == accepted_by_wasmtime(bytes(wasm)), wasm.hex()


@given(st.data())
@settings(max_examples=300)
def test_random_instruction_sequences(data: st.DataObject) -> None:
    """Well-formed instructions in random order, which reach the typing rules rather than the decoder."""
    rng = random.Random(data.draw(st.integers(0, 2**32)))
    names = list(OPCODES)
    module = with_everything()
    func = Func("f", ("i32", "f32"), ("i32",) if rng.random() < 0.5 else ())
    func.local("v128")
    func.local("i64")
    openers = 0
    if rng.random() < 0.5:
        func.op("unreachable")
    for _ in range(rng.randrange(1, 8)):
        op = (
            OPCODES[rng.choice(names)]
            if rng.random() < 0.5
            else OPCODES[rng.choice(["select", "drop", "i32.add", "br", "br_if", "local.tee"])]
        )
        if op.name in ("block", "loop", "if"):
            func.op(op.name, rng.choice([None, *TYPES]))
            openers += 1
        elif op.name == "end":
            openers -= 1
            func.op("end")
        elif op.name in ("br_table",):
            func.op(op.name, [rng.randrange(3), rng.randrange(3)], rng.randrange(3))
        elif op.name == "select.t":
            func.op(op.name, rng.choice(TYPES))
        elif op.name == "ref.null":
            func.op(op.name, rng.choice(["funcref", "externref"]))
        elif op.contextual and op.immediates and op.immediates[0] in ("local", "global", "label", "func", "type"):
            func.op(op.name, rng.randrange(3))
        elif not op.contextual and rng.random() < 0.5:
            for kind in op.params:
                zero(func, kind)
            func.op(op.name, *sample_immediates(op))
        else:
            func.op(op.name, *sample_immediates(op))
    for _ in range(openers):
        func.op("end")
    module.add(func)
    wasm = module.encode()
    assert accepted(wasm) == accepted_by_wasmtime(wasm), disassemble_func(func)


@given(st.data())
@settings(max_examples=300)
def test_damaged_modules_never_crash(data: st.DataObject) -> None:
    wasm = bytearray(data.draw(st.sampled_from(corpus())))
    for _ in range(data.draw(st.integers(1, 4))):
        wasm[data.draw(st.integers(0, len(wasm) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(wasm[: data.draw(st.integers(0, len(wasm)))]) if data.draw(st.booleans()) else bytes(wasm)
    for use in (validate, disassemble, lambda w: custom_section(w, "xla_wasm")):
        try:
            use(damaged)
        except ArtifactError:
            pass


def test_op_is_fast() -> None:
    """A compile appends about 100,000 instructions; a microsecond each would be felt."""
    func = Func("f")
    best = math.inf
    for _ in range(5):
        start = time.thread_time()
        for _ in range(10_000):
            func.op("v128.load", 4, 16)
        best = min(best, time.thread_time() - start)
    assert best < 0.05
