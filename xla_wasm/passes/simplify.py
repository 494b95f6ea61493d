"""Simplifications that never make a program slower: index maps that cancel or merge, tuples that are taken apart at once.

A rule takes an instruction whose operands are simplified already and returns what to use in its place: an existing
instruction, a new one, or itself. What a rule returns computes the same values; `remove_dead` sweeps up the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ..hlo.attrs import PaddingDimension, SliceDimension
from ..hlo.index_map import IndexMap
from ..hlo.ir import Computation, Instruction, Module
from ..hlo.types import TYPES
from ..ops.reading import record
from ..ops.table import RECORDS

Rule = Callable[[Instruction], Instruction]


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
    if x.called or record(x).effect or x.opcode in ("parameter", "custom-call"):
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


def _view(x: Instruction) -> Instruction:
    """Index maps that cancel or merge: a view of a view is one, if one operation has the map of both, and the simplest that has it."""
    (o,) = x.operands
    m = record(x).reads(x)[0].map
    if record(o).view:
        merged = _having(x, m.then(record(o).reads(o)[0].map), o.operands[0])
        if merged is not None:
            return merged
    return _having(x, m, o) or x


def _having(x: Instruction, m: IndexMap, o: Instruction) -> Instruction | None:
    """What stands in the place of `x` where that reads `o` through this map; None if no one operation does."""
    if m.is_identity:
        return o if o.shape.element_type == x.shape.element_type else None
    if o.shape.size == 1 and not m.keeps_order:
        if not x.operands[0].shape.rank:
            return None  # it is a broadcast of a scalar, and stays one
        if o.shape.rank:
            o = derived(x, "reshape", o.shape.with_dimensions(()), [o])
        return derived(x, "broadcast", x.shape.without_layout(), [o], dimensions=())
    opcode, attrs = _operation(m)
    if not opcode or x.operands[0] is o and x.opcode == opcode:
        return None
    return derived(x, opcode, x.shape.without_layout(), [o], **attrs)


@lru_cache(4096)
def _operation(m: IndexMap) -> tuple[str, dict[str, Any]]:
    """The simplest operation that has this map, and its attributes; no opcode if there is none."""
    if m.keeps_order:
        return "reshape", {}
    forms = (_as_broadcast, _as_transpose, _as_slice, _as_reverse) if 0 not in m.domain else ()
    return next(filter(None, (form(m) for form in forms)), ("", {}))


def _dimensions(m: IndexMap) -> list[int] | None:
    """The dimension of the index that each coordinate is, whole; dimensions of size 1 go where one is left."""
    left = [d for d, size in enumerate(m.domain) if size == 1]
    found = []
    for coordinate, size in zip(m.coordinates, m.dims):
        if size == 1 and left:
            found.append(left.pop(0))
        elif (d := m.dimension(coordinate, size)) is not None:
            found.append(d)
        else:
            return None
    return found


def _as_broadcast(m: IndexMap) -> tuple[str, dict[str, Any]] | None:
    dims = _dimensions(m)
    return ("broadcast", {"dimensions": tuple(dims)}) if dims is not None and dims == sorted(dims) else None


def _as_transpose(m: IndexMap) -> tuple[str, dict[str, Any]] | None:
    dims = _dimensions(m)
    if dims is None or sorted(dims) != list(range(len(m.domain))):
        return None
    return "transpose", {"dimensions": tuple(dims.index(d) for d in range(len(dims)))}


def _strides(m: IndexMap) -> list[tuple[int, int]] | None:
    """Offset and stride of each coordinate, if each goes along its own dimension."""
    found = []
    for d, coordinate in enumerate(m.coordinates):
        if coordinate is None or d >= len(m.domain) or any(t[1:] != (d, 1, m.domain[d]) for t in coordinate.terms):
            return None
        if not coordinate.terms and m.domain[d] != 1:
            return None
        found.append((coordinate.offset, coordinate.terms[0][0] if coordinate.terms else 1))
    return found if len(found) == len(m.domain) else None


def _as_slice(m: IndexMap) -> tuple[str, dict[str, Any]] | None:
    strides = _strides(m)
    if strides is None or any(stride < 1 for _, stride in strides):
        return None
    ends = [start + (size - 1) * stride + 1 for (start, stride), size in zip(strides, m.domain)]
    return "slice", {"slice": tuple(SliceDimension(start, end, stride) for (start, stride), end in zip(strides, ends))}


def _as_reverse(m: IndexMap) -> tuple[str, dict[str, Any]] | None:
    strides = _strides(m)
    if m.domain != m.dims or strides is None or any(at not in ((0, 1), (n - 1, -1)) for at, n in zip(strides, m.dims)):
        return None
    return "reverse", {"dimensions": tuple(d for d, (_, stride) in enumerate(strides) if stride < 0)}


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
                return derived(x, root.opcode, shape, [wide, _view(flat)])
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


_RULES: dict[str, Rule] = {
    "real": _same_if_equal,
    "add": _without_neutral(0),
    "subtract": _without_neutral(0),
    "or": _without_neutral(0),
    "multiply": _without_neutral(1),
    **dict.fromkeys((op.opcode for op in RECORDS.values() if op.view), _view),
    "pad": _pad,
    "concatenate": _concatenate,
    "convert": _same_if_equal,
    "dynamic-slice": _same_if_equal,
    "get-tuple-element": _get_tuple_element,
}
