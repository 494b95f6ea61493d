"""Asynchronous instructions in HLO text: async-start, -update and -done, and their short forms such as add-start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ..ir import Computation, Instruction
from ..kinds.kind import Part
from ..shape import Shape
from .attributes import Spelling, spelling
from .lexer import Lexer

_OWN = ("all-gather", "all-reduce", "collective-permute", "copy", "recv", "send")
"""Operations with opcodes of their own for the parts, which have no short forms."""
_THREAD = "async_execution_thread"


def sugar(opcode: str) -> tuple[str, str]:
    """The operation and the step (start, update or done) of a short form; the opcode itself and "" if it is none."""
    for step in ("start", "update", "done"):
        wrapped = opcode.removesuffix("-" + step)
        if (
            wrapped != opcode
            and wrapped not in _OWN
            and not wrapped.startswith("async")
            and spelling(wrapped) is not None
        ):
            return wrapped, step
    return opcode, ""


class Async:
    """Ties the steps of asynchronous operations together."""

    def __init__(self, lexer: Lexer, add: Callable[[Computation], None]):
        self.lexer = lexer
        self.add = add
        self.started: set[Computation] = set()
        self.start_of: dict[Instruction, Instruction] = {}
        """Step -> the async-start of its operation."""

    def words(self, step: str, wrapped: Spelling) -> Spelling:
        """Returns the words that the text of a step may have: a short form's start all that the wrapped operation
        has."""
        base = spelling("async-start")
        assert base is not None
        thread = {_THREAD: base.parts[_THREAD]}
        if step == "start":
            return Spelling(
                {**wrapped.parts, **thread, "output_to_operand_aliasing": base.parts["output_to_operand_aliasing"]},
                (),
                wrapped.called,
                False,
            )
        if step:
            return Spelling(
                {**{k: Part(False, p.read) for k, p in wrapped.parts.items()}, **thread},
                (),
                tuple(c.rstrip("*?") + "?" for c in wrapped.called),
                False,
            )
        return Spelling({**wrapped.parts, **thread}, wrapped.attributes, wrapped.called, False)

    def finish(self, instruction: Instruction, step: str, raw: dict[str, Any], begin: int) -> Instruction:
        """The async instruction that a complete one is or stands for."""
        if step == "start":
            instruction = self._wrapped(instruction, raw)
        elif step:
            self._check_step(instruction, step, instruction.opcode, raw, begin)
            instruction.opcode, instruction.called, instruction.attrs = f"async-{step}", [], _generic(instruction.attrs)
        elif instruction.opcode != "async-start":
            self._check_step(instruction, instruction.opcode.removeprefix("async-"), "", raw, begin)
            started = self.start_of[instruction].called[0]
            if instruction.called and instruction.called[0] is not started:
                self._fail(f"'{started.name}' was started, not '{instruction.called[0].name}'", begin)
            instruction.called = []
        if instruction.opcode == "async-start":
            self._check_start(instruction, begin)
        self._hand_down(instruction)
        return instruction

    def _hand_down(self, instruction: Instruction) -> None:
        """XLA gives the wrapped operation what every step says of itself; the last one counts."""
        wrapped = self.start_of[instruction].called[0].root
        wrapped.metadata = instruction.metadata or wrapped.metadata
        wrapped.frontend_attributes = instruction.frontend_attributes or wrapped.frontend_attributes
        wrapped.unknown = instruction.unknown or wrapped.unknown
        if "backend_config" in instruction.attrs:
            wrapped.attrs["backend_config"] = instruction.attrs["backend_config"]

    def _wrapped(self, instruction: Instruction, raw: dict[str, Any]) -> Instruction:
        """async-start around a computation of the one operation that was written."""
        operands, shape, aliased = instruction.operands, instruction.shape, "output_to_operand_aliasing"
        parameters = []
        for number, operand in enumerate(operands):
            name = f"async_param.{number}" if number else "async_param"
            attrs: dict[str, Any] = {"parameter_number": number, "parameter_replication": ()}
            parameters.append(Instruction(name, "parameter", operand.shape, attrs=attrs))
        start = Instruction(instruction.name, "async-start", shape, operands)
        start.metadata, start.unknown = instruction.metadata, instruction.unknown
        start.frontend_attributes = instruction.frontend_attributes
        start.control_predecessors, instruction.control_predecessors = instruction.control_predecessors, []
        start.attrs = {
            **_generic(instruction.attrs),
            _THREAD: raw.get(_THREAD, ""),
            "output_to_operand_aliasing": () if aliased in instruction.attrs else raw.get(aliased, ()),
        }
        instruction.name = instruction.opcode
        instruction.operands = list(parameters)
        instruction.unknown = b""
        parts = shape.tuple_shapes
        instruction.shape = parts[1] if len(parts) > 1 else shape
        inner = Computation("async_wrapped", [*parameters, instruction], instruction)
        inner.execution_thread = start.attrs[_THREAD]
        self.add(inner)
        start.called = [inner]
        return start

    def _check_start(self, start: Instruction, begin: int) -> None:
        parts = start.shape.tuple_shapes
        if len(parts) < 2 or not parts[0].is_tuple:
            self._fail("the result of async-start is ((operands), result, context...)", begin)
        called = start.called[0]
        if called in self.started:
            self._fail(f"computation '{called.name}' is called by another async-start", begin)
        self.started.add(called)
        self.start_of[start] = start
        called.execution_thread = called.execution_thread or start.attrs[_THREAD]

    def _check_step(self, instruction: Instruction, step: str, wrapped: str, raw: dict[str, Any], begin: int) -> None:
        """An update or done takes what one start or update gives."""
        source = instruction.operands[0] if len(instruction.operands) == 1 else None
        if source is None or source.opcode not in ("async-start", "async-update"):
            self._fail("the one operand of an async-update or async-done is an async-start or async-update", begin)
        if step == "update" and not _equal(instruction.shape, source.shape):
            self._fail("an async-update has the shape of its operand", begin)
        start = self.start_of[instruction] = self.start_of[source]
        root = start.called[0].root.opcode
        if wrapped and wrapped != root:
            self._fail(f"{root} was started, not {wrapped}", begin)
        if _THREAD in raw and raw[_THREAD] != (start.attrs[_THREAD] or "main"):
            self._fail(f"the thread of the start is {start.attrs[_THREAD] or 'main'!r}, not {raw[_THREAD]!r}", begin)

    def _fail(self, message: str, begin: int) -> NoReturn:
        self.lexer.error(message, begin)


def _generic(attrs: dict[str, Any]) -> dict[str, Any]:
    """The attributes that any opcode may have, taken out."""
    return {key: attrs.pop(key) for key in ("sharding", "backend_config") if key in attrs}


def _equal(a: Shape, b: Shape) -> bool:
    return a.without_layout() == b.without_layout()
