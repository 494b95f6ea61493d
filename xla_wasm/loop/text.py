"""Loop IR as text: every statement and every field that the emitter reads. Equal texts are equal code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .ir import Barrier, Block, Call, Func, If, Loop, Store, Val
from .ops import OPS


def to_text(func: Func) -> str:
    """A kernel, one statement a line. Constants and the multiples of loop variables stand where they are used."""
    names = Names(func)
    lines = [
        f"kernel {func.name}({func.pointers} pointers), {func.trips} trips{', guarded' if func.body.guarded else ''}"
    ]
    for depth, line in _statements(func.body, names, 1):
        lines.append("  " * depth + line)
    return "\n".join(lines) + "\n"


class Names:
    """The names of values and loops in the text."""

    def __init__(self, func: Func):
        self.values: dict[Val, str] = {}
        self.loops: dict[Block, str] = {}
        self._number(func.body)

    def _number(self, block: Block) -> None:
        for s in block.statements:
            if isinstance(s, Val):
                self.of(s)
            elif isinstance(s, Loop):
                self.loops[s.body] = f"i{len(self.loops) + 1}"
                for carry in s.carries:
                    self.of(carry.value)
                self._number(s.body)
                for carry in s.carries:
                    self.values[carry.result] = self.of(carry.value) + "'"
            elif isinstance(s, If):
                self._number(s.body)

    def of(self, val: Val) -> str:
        """A constant as its type and bits, a multiple of a loop's variable as that, any other value by a name."""
        if val.op == "const":
            return f"{typed(val)}:{val.imm:#x}"
        if val.op == "induction":
            return f"{val.imm}*{self.loops.get(val.block, '?')}"
        name = self.values.get(val)
        if name is None:
            name = self.values[val] = f"p{val.imm}" if val.op == "pointer" else f"v{len(self.values)}"
        return name

    def list(self, values: tuple[Val, ...] | list[Val]) -> str:
        """Several, for a line of text."""
        return ", ".join(map(self.of, values))

    def definition(self, val: Val) -> str:
        """The line that defines a value."""
        pinned = ", pinned" if val.pinned else ""
        return f"{self.of(val)}: {typed(val)} = {val.op}({self.list(val.args)}){_immediate(val)}{pinned}"


def typed(val: Val) -> str:
    """The type and, of a vector, the number of lanes."""
    return val.dtype if val.lanes == 1 else f"{val.dtype}x{val.lanes}"


def _immediate(val: Val) -> str:
    kind = OPS[val.op].immediate if val.op in OPS else ""
    imm: Any = val.imm
    if kind == "carry" or imm is None:
        return ""
    if kind == "place":
        offset, stride = imm
        return f" +{offset} by {stride}"
    return f" from {imm}" if kind == "type" else f" {imm}"


def _statements(block: Block, names: Names, depth: int) -> Iterator[tuple[int, str]]:
    for s in block.statements:
        if isinstance(s, Val):
            if s.op != "const":
                yield depth, names.definition(s)
        elif isinstance(s, Store):
            yield depth, f"store {s.dtype} [{names.of(s.address)} +{s.offset} by {s.stride}] = {names.of(s.value)}"
        elif isinstance(s, Loop):
            yield from _loop(s, names, depth)
        elif isinstance(s, Barrier):
            held = ", ".join(f"{names.of(carry.value)} = {names.of(val)}" for carry, val in s.values)
            yield depth, f"barrier of {names.loops.get(s.loop.body, '?')}: {held}"
        elif isinstance(s, Call):
            yield depth, f"invoke {s.symbol}({names.list(s.args)})"
        else:
            yield depth, f"if {names.of(s.condition)}{', guarded' if s.body.guarded else ''}"
            yield from _statements(s.body, names, depth + 1)


def _loop(loop: Loop, names: Names, depth: int) -> Iterator[tuple[int, str]]:
    lanes = f", {loop.lanes} lanes" if loop.lanes > 1 else ""
    multiples = f", multiples {', '.join(map(str, loop.inductions))}" if loop.inductions else ""
    count = (
        f"{loop.trips} trips by {loop.step}{lanes}{multiples}"
        if loop.condition is None
        else f"while {names.of(loop.condition)}"
    )
    yield (
        depth,
        f"{'chunked ' if loop.chunked else ''}loop {names.loops[loop.body]}: "
        f"{count}{', guarded' if loop.body.guarded else ''}",
    )
    for c in loop.carries:
        yield depth + 1, f"carry {names.of(c.value)}: {typed(c.value)} = {names.of(c.init)}"
    yield from _statements(loop.body, names, depth + 1)
    for c in loop.carries:
        following = names.of(c.next) if c.next is not None else "?"
        yield depth + 1, f"next {names.of(c.value)} = {following} -> {names.of(c.result)}"
