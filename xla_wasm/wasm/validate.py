"""The checker: whether a module is valid WebAssembly, by the algorithm of the specification's appendix.

It knows what `opcodes` knows: the core language with bulk memory, reference types, multi-value, SIMD, relaxed SIMD and
threads; one memory at most.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..dataclass import dataclass
from ..errors import ArtifactError
from .binary import (
    FUNC,
    GLOBAL,
    MEMORY,
    TABLE,
    Binary,
    Body,
    Element,
    Expression,
    Limits,
    Signature,
    read_instruction,
    read_module,
)
from .encoding import Reader
from .opcodes import Opcode

_REFERENCES = ("funcref", "externref")
_ANY = ""  # the type of a value that unreachable code takes from below its stack
_MAX_PAGES = 65536
_MAX_TABLE = 10_000_000


def validate(wasm: bytes) -> None:
    """Raise ArtifactError unless the module is valid."""
    module = read_module(wasm)
    _Checker(module).run()


@dataclass(slots=True)
class _Frame:
    """An open block."""

    opener: str
    params: tuple[str, ...]
    results: tuple[str, ...]
    height: int
    unreachable: bool = False

    @property
    def label(self) -> tuple[str, ...]:
        """The types that a branch to it carries."""
        return self.params if self.opener == "loop" else self.results


class _Checker:
    """The module-level rules."""

    def __init__(self, module: Binary) -> None:
        self.module = module
        self.declared: set[int] = set()

    def run(self) -> None:
        m = self.module
        for index in m.functions:
            self.inside(index, m.types, "type")
        for table in m.tables:
            self.limits(table.limits, _MAX_TABLE if table.limits.most is None else 2**32)
            _require(table.limits.least <= _MAX_TABLE, "a table is too large")
        for memory in m.memories:
            self.limits(memory, _MAX_PAGES)
            _require(not memory.shared or memory.most is not None, "a shared memory needs a maximum")
        _require(len(m.memories) <= 1, "more than one memory")
        first = m.imported(GLOBAL)
        for i, initial in enumerate(m.initials):
            self.constant(initial, m.globals[first + i].kind, first)
        self.exports()
        if m.start is not None:
            self.inside(m.start, m.functions, "function")
            _require(m.types[m.functions[m.start]] == ((), ()), "the start function has parameters or results")
        for element in m.elements:
            self.element(element)
        for data in m.data:
            if data.offset is not None:
                self.inside(data.memory, m.memories, "memory")
                self.constant(data.offset, "i32", len(m.globals))
        first = m.imported(FUNC)
        for i, body in enumerate(m.bodies):
            _Function(self, m.types[m.functions[first + i]], body).run()

    @staticmethod
    def inside(index: int, space: list[Any], what: str) -> None:
        if index >= len(space):
            raise ArtifactError(f"invalid WebAssembly: {what} index {index} is out of range")

    @staticmethod
    def limits(limits: Limits, bound: int) -> None:
        _require(
            limits.least <= bound and (limits.most is None or limits.least <= limits.most <= bound),
            "limits are out of range",
        )

    def exports(self) -> None:
        m = self.module
        names: set[str] = set()
        spaces: dict[int, tuple[list[Any], str]] = {
            FUNC: (m.functions, "function"),
            TABLE: (m.tables, "table"),
            MEMORY: (m.memories, "memory"),
            GLOBAL: (m.globals, "global"),
        }
        for name, kind, index in m.exports:
            self.inside(index, *spaces[kind])
            _require(name not in names, f"two exports are called {name!r}")
            names.add(name)
            if kind == FUNC:
                self.declared.add(index)

    def constant(self, expression: Expression, kind: str, visible: int) -> None:
        """A constant expression of a type, which sees the first `visible` globals."""
        _require(len(expression) == 1, "a constant expression has one instruction")
        op, immediates = expression[0]
        m = self.module
        if op.name == "global.get":
            _require(immediates[0] < visible, "global index is out of range")
            source = m.globals[immediates[0]]
            _require(not source.mutable, "a constant expression reads a mutable global")
            result = source.kind
        elif op.name == "ref.func":
            self.inside(immediates[0], m.functions, "function")
            self.declared.add(immediates[0])
            result = "funcref"
        elif op.name == "ref.null":
            result = immediates[0]
        else:
            _require(op.name.endswith(".const"), f"{op.name} is not constant")
            result = op.results[0]
        _require(result == kind, f"a constant is {result} where {kind} is needed")

    def element(self, element: Element) -> None:
        m = self.module
        if element.table is not None:
            self.inside(element.table, m.tables, "table")
            _require(m.tables[element.table].kind == element.kind, "an element segment does not fit its table")
            self.constant(element.offset, "i32", len(m.globals))
        for index in element.functions or ():
            self.inside(index, m.functions, "function")
            self.declared.add(index)
        for expression in element.expressions:
            self.constant(expression, element.kind, len(m.globals))


class _Function:
    """The checker of one body: a stack of value types, and a stack of open blocks."""

    def __init__(self, checker: _Checker, signature: Signature, body: Body) -> None:
        self.checker = checker
        self.module = checker.module
        self.locals = list(signature[0])
        for count, kind in body.runs:
            self.locals += [kind] * count
        _require(len(self.locals) <= 50_000, "too many locals")
        self.reader = Reader(body.code.data, body.code.pos, body.code.end)
        self.values: list[str] = []
        self.frames: list[_Frame] = [_Frame("func", (), signature[1], 0)]

    def run(self) -> None:
        """Walk the body; it must close its outermost block at its very end."""
        reader = self.reader
        while self.frames:
            op, immediates = read_instruction(reader)
            if op.contextual:
                _CONTEXTUAL[op.name](self, *immediates)
            else:
                if op.immediates:
                    self.check(op, immediates)
                for kind in reversed(op.params):
                    self.pop(kind)
                self.values += op.results
        if not reader.done():
            raise self.fail("instructions behind the end")

    def fail(self, message: str) -> ArtifactError:
        return ArtifactError(f"invalid WebAssembly at byte {self.reader.pos}: {message}")

    def need(self, condition: bool, message: str) -> None:
        if not condition:
            raise self.fail(message)

    def get(self, index: int, space: list[Any], what: str) -> Any:
        if index >= len(space):
            raise self.fail(f"{what} index {index} is out of range")
        return space[index]

    # the stacks

    def pop(self, kind: str = _ANY) -> str:
        """Take a value of a type, or of any type."""
        frame = self.frames[-1]
        if len(self.values) == frame.height:
            if frame.unreachable:
                return kind
            raise self.fail(f"the stack is empty where {kind or 'a value'} is needed")
        actual = self.values.pop()
        if actual != kind and actual and kind:
            raise self.fail(f"{actual} where {kind} is needed")
        return actual or kind

    def pops(self, kinds: tuple[str, ...]) -> list[str]:
        return [self.pop(kind) for kind in reversed(kinds)][::-1]

    def unreachable(self) -> None:
        """Notes that what follows cannot run: its stack takes on whatever types it needs."""
        frame = self.frames[-1]
        del self.values[frame.height :]
        frame.unreachable = True

    def enter(self, opener: str, params: tuple[str, ...], results: tuple[str, ...]) -> None:
        self.frames.append(_Frame(opener, params, results, len(self.values)))
        self.values += params

    def leave(self) -> _Frame:
        frame = self.frames[-1]
        self.pops(frame.results)
        self.need(len(self.values) == frame.height, "values are left over at the end of a block")
        return self.frames.pop()

    def target(self, depth: int) -> tuple[str, ...]:
        self.need(depth < len(self.frames), f"label {depth} is out of range")
        return self.frames[-1 - depth].label

    # immediates of instructions with a fixed signature

    def check(self, op: Opcode, immediates: tuple[Any, ...]) -> None:
        m = self.module
        for kind, value in zip(op.immediates, immediates, strict=True):
            if kind == "memarg":
                self.need(bool(m.memories), "there is no memory")
                exact = ".atomic." in op.name
                self.need(value[0] == op.align if exact else value[0] <= op.align, "the alignment is not natural")
            elif kind == "memory":
                self.need(bool(m.memories), "there is no memory")
            elif kind.startswith("lane"):
                self.need(value < int(kind[5:]), "the lane is out of range")
            elif kind == "shuffle":
                self.need(max(value) < 32, "a shuffled lane is out of range")
            elif kind == "data":
                self.need(value < (m.data_count or 0), "data segment is out of range, or the data count is missing")
            elif kind == "elem":
                self.get(value, m.elements, "element segment")
            elif kind == "table":
                self.get(value, m.tables, "table")
        if op.name == "table.init":
            self.need(
                m.elements[immediates[0]].kind == m.tables[immediates[1]].kind, "the segment does not fit the table"
            )

    # instructions whose signature depends on the context

    def block_type(self, kind: str | int | None) -> Signature:
        if kind is None:
            return (), ()
        if isinstance(kind, str):
            return (), (kind,)
        signature: Signature = self.get(kind, self.module.types, "type")
        return signature

    def do_unreachable(self) -> None:
        self.unreachable()

    def do_nop(self) -> None:
        pass

    def do_block(self, kind: str | int | None) -> None:
        params, results = self.block_type(kind)
        self.pops(params)
        self.enter("block", params, results)

    def do_loop(self, kind: str | int | None) -> None:
        params, results = self.block_type(kind)
        self.pops(params)
        self.enter("loop", params, results)

    def do_if(self, kind: str | int | None) -> None:
        params, results = self.block_type(kind)
        self.pop("i32")
        self.pops(params)
        self.enter("if", params, results)

    def do_else(self) -> None:
        frame = self.leave()
        self.need(frame.opener == "if", "else without if")
        self.enter("else", frame.params, frame.results)

    def do_end(self) -> None:
        frame = self.leave()
        self.need(frame.opener != "if" or frame.params == frame.results, "an if without else changes the types")
        self.values += frame.results

    def do_br(self, depth: int) -> None:
        self.pops(self.target(depth))
        self.unreachable()

    def do_br_if(self, depth: int) -> None:
        self.pop("i32")
        kinds = self.target(depth)
        self.pops(kinds)
        self.values += kinds

    def do_br_table(self, labels: tuple[tuple[int, ...], int]) -> None:
        self.pop("i32")
        depths, default = labels
        arity = len(self.target(default))
        for depth in dict.fromkeys(depths):
            kinds = self.target(depth)
            self.need(len(kinds) == arity, "labels of br_table differ in arity")
            self.values += self.pops(kinds)
        self.pops(self.target(default))
        self.unreachable()

    def do_return(self) -> None:
        self.pops(self.frames[0].results)
        self.unreachable()

    def apply(self, signature: Signature) -> None:
        self.pops(signature[0])
        self.values += signature[1]

    def do_call(self, index: int) -> None:
        self.apply(self.module.types[self.get(index, self.module.functions, "function")])

    def do_call_indirect(self, index: int, table: int) -> None:
        self.need(self.get(table, self.module.tables, "table").kind == "funcref", "the table does not hold functions")
        signature = self.get(index, self.module.types, "type")
        self.pop("i32")
        self.apply(signature)

    def do_drop(self) -> None:
        self.pop()

    def do_select(self) -> None:
        self.pop("i32")
        kind = self.pop(self.pop())
        self.need(kind not in _REFERENCES, "select of references needs its type")
        self.values.append(kind)

    def do_typed_select(self, kinds: tuple[str, ...]) -> None:
        self.need(len(kinds) == 1, "select has one type")
        self.pop("i32")
        self.pops(kinds * 2)
        self.values += kinds

    def do_local_get(self, index: int) -> None:
        self.values.append(self.get(index, self.locals, "local"))

    def do_local_set(self, index: int) -> None:
        self.pop(self.get(index, self.locals, "local"))

    def do_local_tee(self, index: int) -> None:
        self.do_local_set(index)
        self.do_local_get(index)

    def do_global_get(self, index: int) -> None:
        self.values.append(self.get(index, self.module.globals, "global").kind)

    def do_global_set(self, index: int) -> None:
        target = self.get(index, self.module.globals, "global")
        self.need(target.mutable, "the global cannot be set")
        self.pop(target.kind)

    def table_kind(self, index: int) -> str:
        kind: str = self.get(index, self.module.tables, "table").kind
        return kind

    def do_table_get(self, index: int) -> None:
        self.apply((("i32",), (self.table_kind(index),)))

    def do_table_set(self, index: int) -> None:
        self.apply((("i32", self.table_kind(index)), ()))

    def do_table_grow(self, index: int) -> None:
        self.apply(((self.table_kind(index), "i32"), ("i32",)))

    def do_table_fill(self, index: int) -> None:
        self.apply((("i32", self.table_kind(index), "i32"), ()))

    def do_table_copy(self, to: int, source: int) -> None:
        self.need(self.table_kind(to) == self.table_kind(source), "the tables differ in type")
        self.apply((("i32", "i32", "i32"), ()))

    def do_ref_null(self, kind: str) -> None:
        self.values.append(kind)

    def do_ref_is_null(self) -> None:
        kind = self.pop()
        self.need(kind == _ANY or kind in _REFERENCES, f"{kind} where a reference is needed")
        self.values.append("i32")

    def do_ref_func(self, index: int) -> None:
        self.get(index, self.module.functions, "function")
        self.need(index in self.checker.declared, "a function whose reference is taken must be declared")
        self.values.append("funcref")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ArtifactError(f"invalid WebAssembly: {message}")


_CONTEXTUAL: dict[str, Callable[..., None]] = {
    "unreachable": _Function.do_unreachable,
    "nop": _Function.do_nop,
    "block": _Function.do_block,
    "loop": _Function.do_loop,
    "if": _Function.do_if,
    "else": _Function.do_else,
    "end": _Function.do_end,
    "br": _Function.do_br,
    "br_if": _Function.do_br_if,
    "br_table": _Function.do_br_table,
    "return": _Function.do_return,
    "call": _Function.do_call,
    "call_indirect": _Function.do_call_indirect,
    "drop": _Function.do_drop,
    "select": _Function.do_select,
    "select.t": _Function.do_typed_select,
    "local.get": _Function.do_local_get,
    "local.set": _Function.do_local_set,
    "local.tee": _Function.do_local_tee,
    "global.get": _Function.do_global_get,
    "global.set": _Function.do_global_set,
    "table.get": _Function.do_table_get,
    "table.set": _Function.do_table_set,
    "table.grow": _Function.do_table_grow,
    "table.fill": _Function.do_table_fill,
    "table.copy": _Function.do_table_copy,
    "ref.null": _Function.do_ref_null,
    "ref.is_null": _Function.do_ref_is_null,
    "ref.func": _Function.do_ref_func,
}
