"""Index maps that cancel or merge: a view of a view is one, if one operation has the map of both, and the simplest that
has it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ...hlo.attrs import PaddingDimension, SliceDimension
from ...hlo.index_map import IndexMap
from ...hlo.ir import Instruction
from ...writing.writer import Rule, Writer, operand_if_alike
from ..reading import reads, record
from ..table import RECORDS


def _view(w: Writer, x: Instruction) -> Instruction:
    (o,), m = x.operands, reads(x)[0].map
    merged = _having(w, x, m.then(reads(o)[0].map), o.operands[0]) if record(o).view else None
    return merged or _having(w, x, m, o) or x


def _having(w: Writer, x: Instruction, m: IndexMap, o: Instruction) -> Instruction | None:
    """Returns an instruction that reads `o` through this map in the place of `x`; None if none does, or `x` is it."""
    if m.is_identity:
        return o if o.shape.element_type == x.shape.element_type else None
    if o.shape.size == 1 and not m.keeps_order:
        # A broadcast of a scalar stays one.
        return w.broadcast(w.reshape(o, ()), x.shape.dimensions) if x.operands[0].shape.rank else None
    opcode, attrs = _operation(m)
    if not opcode or x.operands[0] is o and x.opcode == opcode:
        return None
    return w.op(opcode, o, shape=x.shape.without_layout(), **attrs)


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
    if m.domain != m.dims or strides is None:
        return None
    return "reverse", {"dimensions": tuple(d for d, (_, stride) in enumerate(strides) if stride < 0)}


def _pad(w: Writer, x: Instruction) -> Instruction:
    return operand_if_alike(w, x) if all(p == PaddingDimension() for p in x.attrs["padding"]) else x


_MOST_PARTS = 64
"""Parts of a concatenation that takes over those of others: of many in a row each would have all before it."""


def _concatenate(w: Writer, x: Instruction) -> Instruction:
    """Without the parts that have no element, and of the parts of concatenations along the same dimension."""
    dimensions = x.attrs["dimensions"]
    parts = [o for o in x.operands if o.shape.size]
    if len(parts) == 1:
        return parts[0]
    inner = [
        part
        for o in parts
        for part in (o.operands if o.opcode == "concatenate" and o.attrs["dimensions"] == dimensions else (o,))
    ]
    if len(inner) <= _MOST_PARTS:
        parts = inner
    return w.concatenate(parts, *dimensions) if parts and parts != x.operands else x


SIMPLIFY: dict[str, Rule] = {
    **dict.fromkeys((op.opcode for op in RECORDS.values() if op.view), _view),
    "pad": _pad,
    "concatenate": _concatenate,
}
