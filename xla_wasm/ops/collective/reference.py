"""NumPy semantics of the exchange between devices where there is one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import UnsupportedError
from ...hlo.ir import Instruction
from ...hlo.shape import Shape
from ..arrays import DTYPES, Value


def _zeros(shape: Shape) -> Value:
    return tuple(_zeros(s) for s in shape.tuple_shapes) if shape.is_tuple else np.zeros(shape.dimensions, DTYPES[shape.element_type])


def _number(instr: Instruction, operands: list[Value], call: Any) -> Value:
    return np.uint32(0)


def _declared(instr: Instruction, value: Value, shape: Shape) -> Value:
    """A value that a group of one device gives: it must have the declared shape."""
    leaves = list(value) if isinstance(value, tuple) else [value]
    declared = [s for _, s in shape.leaves()]
    groups = instr.attrs["replica_groups"].expanded() if "replica_groups" in instr.attrs else ()
    if (
        any(len(group) > 1 for group in groups)
        or len(leaves) != len(declared)
        or any(v.shape != s.dimensions for v, s in zip(leaves, declared))
    ):
        raise UnsupportedError(f"the reference evaluator runs one device, {instr.where} needs more")
    return value


def _own(operands: list[Value], shape: Shape) -> Value:
    return tuple(operands) if shape.is_tuple else operands[0]


def _same(instr: Instruction, operands: list[Value], call: Any) -> Value:
    return _declared(instr, _own(operands, instr.shape), instr.shape)


def _reaches(instr: Instruction) -> bool:
    """Whether this device sends to itself."""
    if "source_target_pairs" in instr.attrs:
        return (0, 0) in instr.attrs["source_target_pairs"]
    groups = instr.attrs["replica_groups"].expanded()
    return not groups or any(0 in group for group in groups)


def _sent(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """The operands, or zeros where nothing comes in."""
    return _same(instr, operands, call) if _reaches(instr) else _zeros(instr.shape)


def _begun(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """(operands, results, contexts ...)"""
    first, second, *contexts = instr.shape.tuple_shapes
    sent = "source_target_pairs" not in instr.attrs or _reaches(instr)
    result = _declared(instr, _own(operands, second), second) if sent else _zeros(second)
    return (_own(operands, first), result, *(_zeros(s) for s in contexts))


def _ended(instr: Instruction, operands: list[Value], call: Any) -> Value:
    return operands[0][1]


def _unchanged(instr: Instruction, operands: list[Value], call: Any) -> Value:
    return operands[0]


def _ragged_all_to_all(instr: Instruction, operands: list[Value], call: Any) -> Value:
    source, target, *numbers = operands
    _declared(instr, target, instr.shape)
    result = target.copy()
    for start, size, place in zip(*(n.reshape(-1).tolist() for n in numbers[:3])):
        result[place : place + size] = source[start : start + size]
    return result


EVALUATE: dict[str, Callable[[Instruction, list[Value], Any], Value]] = {
    "partition-id": _number,
    "replica-id": _number,
    "all-reduce": _same,
    "all-reduce-start": _same,
    "all-reduce-done": _unchanged,
    "all-gather": _same,
    "all-gather-start": _begun,
    "all-gather-done": _ended,
    "reduce-scatter": _same,
    "all-to-all": _same,
    "ragged-all-to-all": _ragged_all_to_all,
    "collective-broadcast": _sent,
    "collective-permute": _sent,
    "collective-permute-start": _begun,
    "collective-permute-done": _ended,
}
