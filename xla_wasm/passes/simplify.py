"""Simplifications that never make a program slower: index maps that cancel or merge, tuples that are taken apart at once.

A rule takes an instruction whose operands are simplified already and returns what to use in its place: an existing
instruction, a new one, or itself. What a rule returns computes the same values; `remove_dead` sweeps up the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..hlo.attrs import PaddingDimension, SliceDimension
from ..hlo.ir import Computation, Instruction, Module
from ..hlo.types import TYPES
from .clean import SIDE_EFFECTS

Rule = Callable[[Instruction], Instruction]
_APART = SIDE_EFFECTS | {"parameter", "custom-call"}
"""Operations of which equal ones are not the same."""


def simplify(module: Module) -> None:
    """Applies the rules in one sweep, operands first, and shares equal instructions."""
    for computation in module.computations:
        simplify_computation(computation)


def derived(x: Instruction, opcode: str, shape: Any, operands: list[Instruction], **attrs: Any) -> Instruction:
    """A new instruction in the place of `x`, with its name and origin."""
    return Instruction(x.name, opcode, shape, operands, attrs, [], x.metadata)


def simplify_computation(computation: Computation) -> None:
    """The same sweep through one computation."""
    result: list[Instruction] = []
    replaced: dict[Instruction, Instruction] = {}
    seen: dict[Any, Instruction] = {}
    placed: set[Instruction] = set()

    def place(x: Instruction) -> None:
        # A rule may have made operands too.
        for o in x.operands:
            if o not in placed:
                place(o)
        placed.add(x)
        result.append(x)

    for x in computation.instructions:
        x.operands = [replaced.get(o, o) for o in x.operands]
        y = x
        rule = _RULES.get(y.opcode)
        while rule is not None:
            z = rule(y)
            if z is y:
                break
            y = z
            rule = _RULES.get(y.opcode) if y not in placed else None
        if y not in placed:
            key = _key(y)
            if key is not None:
                y = seen.setdefault(key, y)
            if y not in placed:
                place(y)
        if y is not x:
            replaced[x] = y
    computation.root = replaced.get(computation.root, computation.root)
    computation.instructions = result


def _key(x: Instruction) -> Any:
    """What an instruction computes, or None if equal ones must stay apart."""
    if x.called or x.opcode in _APART:
        return None
    shape = x.shape.without_layout()
    if x.opcode == "constant":
        literal = x.attrs["literal"]
        return ("constant", shape, bytes(literal.data)) if x.shape.size <= 64 and x.shape.is_array else None
    attrs = tuple((name, value) for name, value in x.attrs.items() if name not in ("sharding", "backend_config"))
    try:
        key = (x.opcode, shape, tuple(x.operands), attrs)
        hash(key)
    except TypeError:
        return None
    return key


def same_shape(x: Instruction, y: Instruction) -> bool:
    return x.shape.dimensions == y.shape.dimensions and x.shape.element_type == y.shape.element_type


def _reshape(x: Instruction) -> Instruction:
    (o,) = x.operands
    if same_shape(x, o):
        return o
    if o.opcode == "reshape":
        return derived(x, "reshape", x.shape.without_layout(), o.operands)
    if o.opcode == "broadcast" and o.operands[0].shape.size == 1:
        inner = o.operands[0]
        scalar = inner if inner.shape.rank == 0 else derived(x, "reshape", inner.shape.with_dimensions(()), [inner])
        return derived(x, "broadcast", x.shape.without_layout(), [scalar], dimensions=())
    return x


def _broadcast(x: Instruction) -> Instruction:
    (o,) = x.operands
    if same_shape(x, o) and x.attrs["dimensions"] == tuple(range(x.shape.rank)):
        return o
    if o.shape.size == x.shape.size and x.attrs["dimensions"] == tuple(sorted(x.attrs["dimensions"])):
        return derived(x, "reshape", x.shape.without_layout(), [o])
    if o.shape.size == 1 and o.shape.rank:
        scalar = derived(x, "reshape", o.shape.with_dimensions(()), [o])
        return derived(x, "broadcast", x.shape.without_layout(), [_reshape(scalar)], dimensions=())
    if o.opcode == "broadcast":
        dims = tuple(x.attrs["dimensions"][d] for d in o.attrs["dimensions"])
        return derived(x, "broadcast", x.shape.without_layout(), o.operands, dimensions=dims)
    if o.opcode == "reshape" and 1 in o.shape.dimensions:
        # A reshape that only adds dimensions of size 1 is part of the broadcast.
        inner = o.operands[0]
        kept = [d for d, size in enumerate(o.shape.dimensions) if size != 1]
        if tuple(o.shape.dimensions[d] for d in kept) == inner.shape.dimensions:
            return derived(x, "broadcast", x.shape.without_layout(), [inner], dimensions=tuple(x.attrs["dimensions"][d] for d in kept))
    return x


def _transpose(x: Instruction) -> Instruction:
    (o,) = x.operands
    permutation = x.attrs["dimensions"]
    if permutation == tuple(range(len(permutation))):
        return o
    if o.opcode == "transpose":
        inner = o.attrs["dimensions"]
        return derived(x, "transpose", x.shape.without_layout(), o.operands, dimensions=tuple(inner[p] for p in permutation))
    if o.opcode == "broadcast" and o.operands[0].shape.rank == 0:
        return derived(x, "broadcast", x.shape.without_layout(), o.operands, dimensions=())
    moved = [p for p in permutation if o.shape.dimensions[p] != 1]
    if moved == sorted(moved):
        return derived(x, "reshape", x.shape.without_layout(), [o])
    return x


def _slice(x: Instruction) -> Instruction:
    (o,) = x.operands
    if same_shape(x, o):
        return o
    if o.opcode == "broadcast" and o.operands[0].shape.rank == 0:
        return derived(x, "broadcast", x.shape.without_layout(), o.operands, dimensions=())
    if o.opcode == "slice":
        merged = tuple(_composed(outer, inner) for outer, inner in zip(x.attrs["slice"], o.attrs["slice"]))
        return derived(x, "slice", x.shape.without_layout(), o.operands, slice=merged)
    return x


def _composed(outer: SliceDimension, inner: SliceDimension) -> SliceDimension:
    """One dimension of a slice of a slice."""
    start = inner.start + outer.start * inner.stride
    last = inner.start + (outer.limit - 1) * inner.stride
    return SliceDimension(start, last + 1 if outer.limit > outer.start else start, outer.stride * inner.stride)


def _pad(x: Instruction) -> Instruction:
    if same_shape(x, x.operands[0]) and all(p == PaddingDimension() for p in x.attrs["padding"]):
        return x.operands[0]
    return x


def _concatenate(x: Instruction) -> Instruction:
    parts = [o for o in x.operands if o.shape.size]
    if len(parts) == 1 and same_shape(x, parts[0]):
        return parts[0]
    if parts and len(parts) < len(x.operands):
        return derived(x, "concatenate", x.shape, parts, dimensions=x.attrs["dimensions"])
    return x


def _same_if_equal(x: Instruction) -> Instruction:
    return x.operands[0] if same_shape(x, x.operands[0]) else x


def _get_tuple_element(x: Instruction) -> Instruction:
    (o,) = x.operands
    return o.operands[x.attrs["index"]] if o.opcode == "tuple" else x


def _reduce(x: Instruction) -> Instruction:
    if not x.attrs["dimensions"] or all(x.operands[0].shape.dimensions[d] == 1 for d in x.attrs["dimensions"]):
        root = x.called[0].root
        if len(x.operands) == 2 and root.opcode in ("add", "multiply", "maximum", "minimum") and len(root.operands) == 2:
            operand, init = x.operands
            shape = x.shape.without_layout()
            flat = derived(x, "reshape", shape, [operand])
            wide = derived(x, "broadcast", shape, [init], dimensions=())
            if {o.opcode for o in root.operands} == {"parameter"} and root.operands[0] is not root.operands[1]:
                return derived(x, root.opcode, shape, [wide, _reshape(flat)])
    return x


def _without_neutral(neutral: int) -> Rule:
    """x + 0, x - 0, x | 0, x * 1 of integers."""

    def rule(x: Instruction) -> Instruction:
        if TYPES[x.shape.element_type].kind not in ("signed", "unsigned"):
            return x
        left, right = x.operands
        if _is_splat(right, neutral):
            return left
        return right if x.opcode != "subtract" and _is_splat(left, neutral) else x

    return rule


def _is_splat(x: Instruction, value: int) -> bool:
    """Whether every element is this number, as one constant says."""
    if x.opcode == "broadcast":
        x = x.operands[0]
    return x.opcode == "constant" and x.shape.rank == 0 and x.attrs["literal"].values() == [value]


def _part(number: int) -> Rule:
    """A part of a complex number that is made of its parts."""

    def rule(x: Instruction) -> Instruction:
        (o,) = x.operands
        if o.opcode == "complex":
            return o.operands[number]
        return o if number == 0 and same_shape(x, o) else x

    return rule


def _complex(x: Instruction) -> Instruction:
    re, im = x.operands
    if re.opcode == "real" and im.opcode == "imag" and re.operands == im.operands and same_shape(x, re.operands[0]):
        return re.operands[0]
    return x


_RULES: dict[str, Rule] = {
    "real": _part(0),
    "imag": _part(1),
    "complex": _complex,
    "add": _without_neutral(0),
    "subtract": _without_neutral(0),
    "or": _without_neutral(0),
    "multiply": _without_neutral(1),
    "reshape": _reshape,
    "broadcast": _broadcast,
    "transpose": _transpose,
    "slice": _slice,
    "pad": _pad,
    "concatenate": _concatenate,
    "convert": _same_if_equal,
    "copy": _same_if_equal,
    "dynamic-slice": _same_if_equal,
    "get-tuple-element": _get_tuple_element,
    "reduce": _reduce,
}
