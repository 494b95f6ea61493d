"""The disassembler: a module as WAT, the text format of WebAssembly, which assembles back to an equivalent module."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..lines import Lines
from .binary import (
    FUNC,
    GLOBAL,
    MEMORY,
    TABLE,
    TYPE_NAMES,
    Binary,
    Body,
    Expression,
    GlobalType,
    Limits,
    TableType,
    function_names,
    read_instructions,
    read_module,
)
from .encoding import Reader
from .func import Func
from .opcodes import Opcode

_PLAIN = frozenset("!#$%&'*+-./0123456789:<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ\\^_`abcdefghijklmnopqrstuvwxyz|~")
_KINDS = {FUNC: "func", TABLE: "table", MEMORY: "memory", GLOBAL: "global"}


def disassemble(wasm: bytes, names: Mapping[int, str] | None = None) -> str:
    """The module as text; function names come from `names` (by index) or the module's name section."""
    return str(printed(wasm, names))


def printed(wasm: bytes, names: Mapping[int, str] | None = None) -> Lines[int]:
    """The module as text, with the lines of each function that has a body, by its index."""
    module = read_module(wasm)
    return _Printer(module, function_names(module) if names is None else names).module()


def disassemble_func(func: Func) -> str:
    """One function under construction as text, with the symbols of its calls."""
    symbols = list(dict.fromkeys(symbol for _, symbol in func.calls))
    body = func.body(symbols.index)
    reader = Reader(body)
    runs = tuple((reader.unsigned(), TYPE_NAMES[reader.u8()]) for _ in range(reader.unsigned()))
    printer = _Printer(Binary(), dict(enumerate(symbols)))
    head = f"(func ${_identifier(func.name)}" + _signature(func.params, func.results)
    return "\n".join(printer.body_lines(head, Body(runs, reader), 0)) + "\n"


class _Printer:
    def __init__(self, module: Binary, names: Mapping[int, str]) -> None:
        self.m = module
        self.names: dict[int, str] = {}
        taken: set[str] = set()
        for index, name in sorted(names.items()):
            identifier = _identifier(name)
            if identifier in taken:  # two names may differ in nothing that an identifier can hold
                identifier += f"#{index}"
            taken.add(identifier)
            self.names[index] = "$" + identifier

    def module(self) -> Lines[int]:
        m, lines = self.m, Lines[int]()
        lines.add("(module")
        for i, (params, results) in enumerate(m.types):
            lines.add(f"  (type (;{i};) (func{_signature(params, results)}))")
        counts = dict.fromkeys(_KINDS, 0)
        for item in m.imports:
            what = self.describe(item.kind, counts[item.kind], item.what)
            counts[item.kind] += 1
            lines.add(f"  (import {_string(item.module.encode())} {_string(item.name.encode())} {what})")
        for kind, space in ((TABLE, m.tables), (MEMORY, m.memories)):
            for i, entry in enumerate(space):
                if i >= counts[kind]:
                    lines.add(f"  {self.describe(kind, i, entry)}")
        for i, initial in enumerate(m.initials):
            index = counts[GLOBAL] + i
            lines.add(f"  {self.describe(GLOBAL, index, m.globals[index])[:-1]} {self.expression(initial)})")
        for name, kind, index in m.exports:
            lines.add(
                f"  (export {_string(name.encode())} ({_KINDS[kind]} "
                f"{self.function(index) if kind == FUNC else index}))"
            )
        if m.start is not None:
            lines.add(f"  (start {self.function(m.start)})")
        lines.add(self.element_lines())
        for i, body in enumerate(m.bodies):
            index = counts[FUNC] + i
            lines.add(self.body_lines(self.describe(FUNC, index, m.functions[index])[:-1], body, 1), index)
        for i, data in enumerate(m.data):
            place = "" if data.offset is None else f" (memory {data.memory}) (offset {self.expression(data.offset)})"
            lines.add(f"  (data (;{i};){place} {_string(data.content)})")
        lines.add(")")
        for title, content in m.customs:
            if title != "name":
                lines.add(f";; custom section {_string(title.encode())}, {len(content)} bytes")
        return lines

    def describe(self, kind: int, index: int, what: Any) -> str:
        """A definition or the description in an import: "(memory (;0;) 1 1)"."""
        if kind == FUNC:
            name = self.names.get(index, "")
            signature = _signature(*self.m.types[what]) if what < len(self.m.types) else ""
            return f"(func {name}{' ' if name else ''}(;{index};) (type {what}){signature})"
        if isinstance(what, TableType):
            return f"(table (;{index};) {_limits(what.limits)} {what.kind})"
        if isinstance(what, GlobalType):
            return f"(global (;{index};) {f'(mut {what.kind})' if what.mutable else what.kind})"
        return f"(memory (;{index};) {_limits(what)})"

    def element_lines(self) -> Iterator[str]:
        for i, element in enumerate(self.m.elements):
            mode = " declare" if element.declared else ""
            if element.table is not None:
                table = f" (table {element.table})" if element.table else ""
                mode = f"{table} (offset {self.expression(element.offset)})"
            if element.functions is not None:
                items = " ".join(["func", *map(self.function, element.functions)])
            else:
                items = " ".join([element.kind, *(f"(item {self.expression(item)})" for item in element.expressions)])
            yield f"  (elem (;{i};){mode} {items})"

    def function(self, index: int) -> str:
        return self.names.get(index, str(index))

    def expression(self, expression: Expression) -> str:
        return " ".join(f"({self.instruction(op, immediates)})" for op, immediates in expression)

    def body_lines(self, head: str, body: Body, depth: int) -> Iterator[str]:
        yield "  " * depth + head
        depth += 1
        for count, kind in body.runs:
            yield "  " * depth + f"(local {' '.join([kind] * count)})"
        outer = depth
        lines = []
        for op, immediates in read_instructions(Reader(body.code.data, body.code.pos, body.code.end)):
            if op.name in ("end", "else"):
                depth -= 1
            if depth < outer:  # the final end, which the closing parenthesis stands for
                break
            lines.append("  " * depth + self.instruction(op, immediates))
            if op.name in ("block", "loop", "if", "else"):
                depth += 1
        yield from lines
        yield "  " * (outer - 1) + ")"

    def instruction(self, op: Opcode, immediates: Sequence[Any]) -> str:
        """One instruction without indentation."""
        if op.name == "select.t":
            return f"select (result {' '.join(immediates[0])})"
        if op.name == "table.init":  # the text has the table first
            return f"table.init {immediates[1]} {immediates[0]}"
        if op.name == "call_indirect":
            return f"call_indirect {immediates[1]} (type {immediates[0]})"
        words = [op.name]
        for kind, value in zip(op.immediates, immediates, strict=True):
            words.append(self.immediate(kind, value, op))
        return " ".join(word for word in words if word)

    def immediate(self, kind: str, value: Any, op: Opcode) -> str:
        if kind in ("memory", "zero"):
            return ""
        if kind == "func":
            return self.function(value)
        if kind == "block":
            return "" if value is None else f"(result {value})" if isinstance(value, str) else f"(type {value})"
        if kind == "labels":
            return " ".join(map(str, (*value[0], value[1])))
        if kind == "memarg":
            align, offset = value
            words = [f"offset={offset}"] if offset else []
            return " ".join(words + ([f"align={1 << align}"] if align != op.align else []))
        if kind == "heap":
            return "func" if value == "funcref" else "extern"
        if kind == "f32":
            return _float(value, 8, 23, struct.unpack("<f", value)[0])
        if kind == "f64":
            return _float(value, 11, 52, struct.unpack("<d", value)[0])
        if kind == "v128":
            return "i32x4 " + " ".join(f"0x{lane:08x}" for lane in struct.unpack("<4I", value))
        if kind == "shuffle":
            return " ".join(map(str, value))
        return str(value)


def _float(raw: bytes, exponent_bits: int, fraction_bits: int, value: float) -> str:
    """A float literal that gives back the same bits."""
    bits = int.from_bytes(raw, "little")
    fraction = bits & (1 << fraction_bits) - 1
    if bits >> fraction_bits & (1 << exponent_bits) - 1 != (1 << exponent_bits) - 1:
        return min(repr(value), value.hex(), key=len)
    sign = "-" if bits >> fraction_bits + exponent_bits else ""
    return f"{sign}nan:0x{fraction:x}" if fraction else f"{sign}inf"


def _signature(params: Sequence[str], results: Sequence[str]) -> str:
    text = f" (param {' '.join(params)})" if params else ""
    return text + (f" (result {' '.join(results)})" if results else "")


def _limits(limits: Limits) -> str:
    words = [str(limits.least)]
    if limits.most is not None:
        words.append(str(limits.most))
    return " ".join(words + (["shared"] if limits.shared else []))


def _identifier(name: str) -> str:
    return "".join(c if c in _PLAIN else "_" for c in name) or "_"


def _string(content: bytes) -> str:
    return '"' + "".join(chr(b) if 0x20 <= b < 0x7F and b not in b'"\\' else f"\\{b:02x}" for b in content) + '"'
