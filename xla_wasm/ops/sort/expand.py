"""topk in terms of sort, where k is not small."""

from __future__ import annotations

from ...hlo.ir import Instruction
from ...hlo.shape import Shape
from ...hlo.types import TYPES
from ...writing.writer import Rule, Writer

_SHORT = 32
"""Shorter rows are sorted."""
_SHARE = 4
"""The best are found without a sort where the row is at least so many times longer."""
_PAIRS = 32
"""The comparisons that take as long as the sort needs for an element: the best are compared with one another."""


def _topk(e: Writer, x: Instruction) -> Instruction:
    (operand,), count = x.operands, x.attrs["k"]
    small = TYPES[operand.shape.element_type].kind == "float" and TYPES[operand.shape.element_type].bits < 32
    if not small and (count == 0 or _is_walked(count, operand.shape.dimensions[-1])):
        return x
    return top_k(e, operand, count, x.attrs["largest"])


def _is_walked(count: int, length: int) -> bool:
    """Returns True if walks over a row find its best sooner than a sort."""
    return length >= max(_SHORT, _SHARE * count, count * count // _PAIRS)


def top_k(e: Writer, operand: Instruction, count: int, largest: bool = True) -> Instruction:
    """The tuple of the best values of the last dimension, best first in total order, and their indices (s32)."""
    dtype, dims = operand.shape.element_type, operand.shape.dimensions
    if TYPES[dtype].kind == "float" and TYPES[dtype].bits < 32:
        values, places = e.elements(top_k(e, e.convert(operand, "f32"), count, largest))
        return e.tuple([e.convert(values, dtype), places])
    if _is_walked(count, dims[-1]):
        return e.op("topk", operand, k=count, largest=largest, is_stable=True)

    def before(c: Writer, p: Instruction, q: Instruction, *_: Instruction) -> Instruction:
        return c.compare("GT" if largest else "LT", p, q, "TOTALORDER" if TYPES[dtype].kind == "float" else "")

    last = len(dims) - 1
    both = [operand, e.iota("s32", dims, last)]
    comparator = e.computation("before", [Shape(o.shape.element_type) for o in both for _ in range(2)], before)
    ordered = e.op("sort", *both, called=[comparator], dimensions=(last,), is_stable=True)
    return e.tuple([e.slice_dim(o, last, 0, count) for o in e.elements(ordered)])


EXPAND: dict[str, Rule] = {"topk": _topk}
