"""NumPy semantics of control flow and of what only structures a module. A token is None."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import LimitError
from ...hlo.ir import Instruction
from ...hlo.shape import Shape
from ..dtypes import DTYPES, Value


def _first(instr: Instruction, operands: list[Value], call: Any) -> Value:
    return operands[0]


def _tuple(instr: Instruction, operands: list[Value], call: Any) -> Value:
    return tuple(operands)


def _get_tuple_element(instr: Instruction, operands: list[Value], call: Any) -> Value:
    return operands[0][instr.attrs["index"]]


def _call(instr: Instruction, operands: list[Value], call: Any) -> Value:
    return call(instr.called[0], *operands)


def _while(instr: Instruction, operands: list[Value], call: Any) -> Value:
    body, condition = instr.called
    state = operands[0]
    while bool(call(condition, state)):
        if call.trips_left is not None:
            call.trips_left -= 1
            if call.trips_left < 0:
                raise LimitError(f"{instr.where}: the program takes too many trips")
        state = call(body, state)
    return state


def _conditional(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """A pred picks branch 0 when true; an index outside the branches picks the last one."""
    selector, count = operands[0], len(instr.called)
    if selector.dtype == bool:
        branch = 0 if selector else 1
    else:
        branch = int(selector) if 0 <= int(selector) < count else count - 1
    return call(instr.called[branch], operands[1 + branch])


def _token(instr: Instruction, operands: list[Value], call: Any) -> Value:
    return None


def _barrier(instr: Instruction, operands: list[Value], call: Any) -> Value:
    return operands[0] if len(operands) == 1 else tuple(operands)


def _context(shape: Shape) -> Value:
    """Returns the context that a backend would keep between start and done: zeros."""
    if shape.is_tuple:
        return tuple(_context(s) for s in shape.tuple_shapes)
    return None if shape.is_token else np.zeros(shape.dimensions, DTYPES[shape.element_type])


def _copy_start(instr: Instruction, operands: list[Value], call: Any) -> Value:
    return (operands[0], operands[0], _context(instr.shape.tuple_shapes[2]))


def _async_start(instr: Instruction, operands: list[Value], call: Any) -> Value:
    return (tuple(operands), call(instr.called[0], *operands), *(_context(s) for s in instr.shape.tuple_shapes[2:]))


EVALUATE: dict[str, Callable[[Instruction, list[Value], Any], Value]] = {
    "tuple": _tuple,
    "get-tuple-element": _get_tuple_element,
    "call": _call,
    "fusion": _call,
    "while": _while,
    "conditional": _conditional,
    "after-all": _token,
    "add-dependency": _first,
    "domain": _first,
    "opt-barrier": _barrier,
    "copy-start": _copy_start,
    "copy-done": lambda instr, operands, call: operands[0][0],
    "async-start": _async_start,
    "async-update": _first,
    "async-done": lambda instr, operands, call: operands[0][1],
}


LANEWISE = ("parameter", "tuple", "get-tuple-element", "call", "fusion", "while", "conditional")
