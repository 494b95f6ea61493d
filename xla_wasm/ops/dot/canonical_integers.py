"""Products of integers: in which type their operands and their sums are taken.

One instruction multiplies eight numbers of s16 and adds the products in pairs, to four sums of s32. That is exact
modulo 2**32, and so is every integer result of at most 32 bits. So operands whose numbers fit into s16, whatever their
type, are multiplied as such.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ...hlo.attrs import PaddingDimension
from ...hlo.ir import Instruction
from ...hlo.types import BYTES, PAIRED, TYPES, limits
from ...writing.writer import Writer

_PRODUCTS = 4096
"""Products below which converting the operands takes longer than it gains."""
_LENGTH = 8
"""Products in a sum below which the same holds."""
_DEPTH = 8
"""Instructions that are looked through for the range of a number."""
_VALUES = 64
"""Elements of a constant that are looked at."""

_INTEGERS = ("signed", "unsigned")

Range = tuple[int, int]


def product_types(x: Instruction) -> tuple[str, str]:
    """The type of the operands of a dot or a convolution, and that of its sums, which are converted to its result."""
    dtype = x.shape.element_type
    if TYPES[dtype].kind not in _INTEGERS or TYPES[dtype].bits > 32:
        return dtype, dtype
    sums = dtype if TYPES[dtype].bits == 32 else "s32"
    length = _length(x)
    grouped = max(x.attrs.get(count, 1) for count in ("feature_group_count", "batch_group_count")) > 1
    if grouped or length < _LENGTH or x.shape.size * length < _PRODUCTS or not all(map(_fits, x.operands)):
        return sums, sums
    return PAIRED, "s32"


def narrowed(w: Writer, x: Instruction, dtype: str) -> Instruction:
    """An operand whose numbers fit into bytes as these, of `dtype` where they do that; any other one as it is."""
    if x.shape.element_type in BYTES:
        return x
    least, greatest = _range(x, _DEPTH)
    for byte in sorted(BYTES, key=lambda byte: byte != dtype):
        low, high = limits(byte)
        if low <= least and greatest <= high:
            is_converted = x.opcode == "convert" and x.operands[0].shape.element_type == byte
            return x.operands[0] if is_converted and TYPES[x.shape.element_type].bits > 8 else w.convert(x, byte)
    return x


def even(w: Writer, x: Instruction, dimension: int) -> Instruction:
    """An operand with a zero more along a dimension of odd length."""
    if x.shape.dimensions[dimension] % 2 == 0:
        return x
    sides = [PaddingDimension(0, int(d == dimension)) for d in range(x.shape.rank)]
    return w.pad(x, w.scalar(x.shape.element_type, 0), sides)


def _length(x: Instruction) -> int:
    """Returns the number of products in a sum of a product that has results."""
    if x.opcode == "dot":
        return prod(
            x.operands[0].shape.dimensions[d] for d in x.attrs["dot_dimension_numbers"].lhs_contracting_dimensions
        )
    kernel = x.operands[1].shape
    return kernel.size // kernel.dimensions[x.attrs["dim_labels"].kernel_output_feature_dimension]


def _fits(x: Instruction) -> bool:
    """Returns True if the numbers of an array of integers or pred fit into s16."""
    low, high = limits(PAIRED)
    least, greatest = _range(x, _DEPTH)
    return low <= least and greatest <= high


def _range(x: Instruction, depth: int) -> Range:
    """The least and the greatest number that an array of integers or pred may have, as far as its instructions tell."""
    dtype = x.shape.element_type
    whole = (0, 1) if dtype == "pred" else limits(dtype)
    if not depth or dtype == "pred":
        return whole
    found = _computed(x, depth - 1)
    # What leaves the range of its type is wrapped, and may be anything.
    return found if found is not None and whole[0] <= found[0] and found[1] <= whole[1] else whole


def _computed(x: Instruction, depth: int) -> Range | None:
    """The same, without wrapping; None if nothing is known."""
    if x.literal is not None:
        if x.shape.size > _VALUES:
            value = x.literal.splat_value()
            return None if value is None else (value, value)
        values = x.literal.values()
        return min(values), max(values)
    if x.opcode in _VIEWS or (
        x.opcode == "convert" and TYPES[x.operands[0].shape.element_type].kind in (*_INTEGERS, "pred")
    ):
        return _range(x.operands[0], depth)
    if x.opcode == "negate":
        low, high = _range(x.operands[0], depth)
        return -high, -low
    if x.opcode not in _CORNERS:
        return None
    (a, b), (c, d) = (_range(o, depth) for o in x.operands)
    corners = [_CORNERS[x.opcode](p, q) for p in (a, b) for q in (c, d)]
    return min(corners), max(corners)


_VIEWS = ("broadcast", "reshape", "transpose", "slice", "reverse", "copy")
_CORNERS: dict[str, Callable[[int, int], int]] = {
    "add": lambda p, q: p + q,
    "subtract": lambda p, q: p - q,
    "multiply": lambda p, q: p * q,
    "minimum": min,
    "maximum": max,
}
"""Functions of two numbers that are least and greatest where each of them is one or the other."""
