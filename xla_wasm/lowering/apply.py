"""Computations on single elements (reducers, comparators, the bodies of map and scatter) as loop values."""

from __future__ import annotations

from typing import Any

from ..errors import UnsupportedError
from ..hlo.ir import Computation, Instruction
from ..loop.builder import Builder
from ..loop.ir import Val
from ..ops.elementwise import record as elementwise
from ..ops.elementwise.lower import ELEMENTWISE
from .source import misplaced

_RENAMED = (
    "reshape",
    "broadcast",
    "transpose",
    "copy",
    "reverse",
    "slice",
    "dynamic-slice",
    "gather",
    "opt-barrier",
    "domain",
)
"""Operations that give the one element of their operand back, if that and the result have one element."""

_OTHERS = (
    "parameter",
    "constant",
    "iota",
    "tuple",
    "get-tuple-element",
    "call",
    "fusion",
    "map",
    "reduce",
    "conditional",
    "concatenate",
)
_OPCODES = frozenset(
    (*(op.opcode for op in elementwise.OPS), *_RENAMED, *_OTHERS, "pad", "dynamic-update-slice", "get-dimension-size")
)


def multiply_add(b: Builder, x: Val, y: Val, total: Val) -> Val:
    """The next sum of a product's terms; of predicates, whether any pair of them holds."""
    return b.or_(total, b.and_(x, y)) if x.dtype == "pred" else b.fma(x, y, total)


def applies(computation: Computation) -> bool:
    """Returns True if `apply` can run a computation: every array in it has one element, and nothing in it loops."""
    for x in computation.instructions:
        if x.opcode not in _OPCODES or not all(applies(c) for c in x.called):
            return False
        if any(shape.size != 1 for _, shape in x.shape.leaves()):
            return False
    return True


def apply(b: Builder, computation: Computation, arguments: list[Any]) -> Any:
    """The value of a computation's root: a `Val`, or for a tuple a list. All of its operations are computed, those of
    every branch too: none of them has effects, and none traps."""
    values: dict[Instruction, Any] = {}
    for x in computation.instructions:
        if any(shape.size != 1 for _, shape in x.shape.leaves()) or x.opcode not in _OPCODES:
            raise UnsupportedError(
                f"{x.where}: not supported inside a computation applied to single elements ('{computation.name}')"
            )
        operands = [values[o] for o in x.operands]
        if x.opcode == "parameter":
            values[x] = _received(b, x, arguments[x.attrs["parameter_number"]])
        elif x.opcode in ELEMENTWISE:
            values[x] = ELEMENTWISE[x.opcode](b, x, *operands)
        else:
            values[x] = _value(b, x, operands)
    return values[computation.root]


def _received(b: Builder, x: Instruction, value: Any) -> Any:
    """A parameter; floats may come in another precision."""
    return b.convert(value, x.shape.element_type) if isinstance(value, Val) else value


def _value(b: Builder, x: Instruction, operands: list[Any]) -> Any:
    """The value of what is not elementwise."""
    opcode, attrs = x.opcode, x.attrs
    if opcode == "constant":
        return b.const(x.shape.element_type, attrs["literal"].splat_value())
    if opcode == "iota":
        return b.const(x.shape.element_type, 0)
    if opcode == "tuple":
        return operands
    if opcode == "get-tuple-element":
        return operands[0][attrs["index"]]
    if opcode in ("call", "fusion", "map"):
        return apply(b, x.called[0], operands)
    if opcode == "conditional":
        return _conditional(b, x, operands)
    if opcode == "dynamic-update-slice":
        return operands[1]
    if opcode == "pad":
        return operands[0] if all(p.edge_padding_low == 0 for p in attrs["padding"]) else operands[1]
    # Static sizes are constants by now, and reductions of one element what their computations give.
    assert opcode == "concatenate" or opcode in _RENAMED, misplaced(x)
    return operands[0]


def _conditional(b: Builder, x: Instruction, operands: list[Any]) -> Any:
    """Selects among the results of all branches; the last one is that of every index out of range."""
    selector, *arguments = operands
    results = [apply(b, branch, [argument]) for branch, argument in zip(x.called, arguments)]
    if selector.dtype == "pred":
        return selected(b, selector, results[0], results[1])
    chosen = results[-1]
    for i, result in reversed(list(enumerate(results[:-1]))):
        chosen = selected(b, b.eq(selector, b.const(selector.dtype, i)), result, chosen)
    return chosen


def selected(b: Builder, condition: Val, x: Any, y: Any) -> Any:
    """`select` on values and on lists of them."""
    return [selected(b, condition, v, w) for v, w in zip(x, y)] if isinstance(x, list) else b.select(condition, x, y)


def flattened(value: Any) -> list[Val]:
    """The leaves of a value."""
    return [leaf for part in value for leaf in flattened(part)] if isinstance(value, list) else [value]
