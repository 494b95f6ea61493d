"""Custom calls in the evaluator: a function that the caller gives, or the operations that the target's expansion
writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import ArgumentError, UnsupportedError, counted
from ...hlo.ir import Computation, Instruction
from ...hlo.op import REQUIRED
from ...hlo.strings import filled
from ...host.arrays import narrowed
from ...writing.writer import Writer
from ..dtypes import DTYPES, Value, fits, nested
from ..linalg.reference import ROUTINES
from ..table import OPS
from . import callback
from . import expand_registry as registry


def _custom_call(instr: Instruction, operands: list[Value], call: Any) -> Value:
    target = instr.attrs["custom_call_target"]
    function = call.custom_calls.get(callback.function_name(instr) if callback.is_callback(instr) else target)
    if function is not None:
        return _of_function(instr, function(*(leaf for value in operands for leaf in _leaves(value))))
    if target == callback.ASSERTION:
        raise ArgumentError(filled(callback.config_of(instr), [leaf for value in operands for leaf in _leaves(value)]))
    if callback.is_callback(instr) and callback.has_results(instr):
        name = callback.function_name(instr)
        how = f"pass one, evaluate(..., custom_calls={{{name!r}: function}})"
        raise UnsupportedError(f"{instr.where}: the program calls a Python function, which is not here: {how}")
    if target in ROUTINES:
        return ROUTINES[target](instr, operands, call)
    rule = registry.find(target)
    if rule is None:
        raise UnsupportedError(
            f"{instr.where}: the custom call target {target!r} is unknown: register an expansion with "
            f"xla_wasm.custom_call({target!r}), or pass a function, evaluate(..., custom_calls={{{target!r}: "
            f"function}})"
        )
    known = call.expansions.get(instr)
    if known is None:
        known = call.expansions[instr] = _expanded(instr, rule)
    return call(known, *operands)


def _leaves(value: Value) -> list[Value]:
    return (
        [leaf for part in value for leaf in _leaves(part)]
        if isinstance(value, tuple)
        else []
        if value is None
        else [value]
    )


def _of_function(instr: Instruction, given: Any) -> Value:
    """Returns the arrays of a function as a custom call's value. Raises ArgumentError if they are not as declared."""
    results = list(given) if isinstance(given, (tuple, list)) else [] if given is None else [given]
    leaves = [s for _, s in instr.shape.leaves() if not s.is_token]
    results = [
        narrowed(np.asarray(array), shape.element_type, f"{instr.where}: what the function gave")
        for array, shape in zip(results, leaves)
    ] + results[len(leaves) :]
    for array, shape in zip(results, leaves):
        if not fits(array.shape, shape) or array.dtype != DTYPES[shape.element_type]:
            raise ArgumentError(
                f"{instr.where}: the function gave {array.dtype}{list(array.shape)} where {shape} is declared"
            )
    if len(results) != len(leaves):
        raise ArgumentError(
            f"{instr.where}: the function gave {counted(len(results), 'array')}, {len(leaves)} are declared"
        )
    return nested(instr.shape, iter(results))


def _expanded(instr: Instruction, rule: Callable[[Writer, Instruction], Instruction]) -> Computation:
    """A computation of the operands that is the call's expansion."""
    parameters = [
        Instruction(f"{instr.name}.{i}", "parameter", o.shape, [], {"parameter_number": i})
        for i, o in enumerate(instr.operands)
    ]
    # What decides the expansion may be a constant among the operands.
    constants = [o for o in instr.operands if o.opcode == "constant"]
    operands = [o if o.opcode == "constant" else p for o, p in zip(instr.operands, parameters)]
    copy = Instruction(instr.name, instr.opcode, instr.shape, operands, dict(instr.attrs), instr.called, instr.metadata)
    copy.frontend_attributes = instr.frontend_attributes
    made: list[Instruction] = []
    computations: list[Computation] = []
    root = rule(Writer(copy, made, computations), copy)
    for x in [*made, *(x for c in computations for x in c.instructions)]:
        # A rule writes only the attributes that matter to it.
        for attr in OPS[x.opcode].attrs:
            if attr.default is not REQUIRED:
                x.attrs.setdefault(attr.name, attr.default)
    return Computation(instr.name, [*parameters, *dict.fromkeys(constants), *made], root)


EVALUATE: dict[str, Callable[[Instruction, list[Value], Any], Value]] = {"custom-call": _custom_call}
