"""The exactness of an operation's result, by which its compiled value is judged."""

from __future__ import annotations

from enum import Enum

from ..hlo.ir import Instruction
from .reading import record


class Exactness(Enum):
    """The difference that two right results of the same operands may have."""

    EXACT = "exact"
    """Nothing: values are moved, chosen, or computed without rounding."""
    ROUNDED = "rounded"
    """Each element by the rounding of one function."""
    SUMMED = "summed"
    """Each element by the order in which its terms are added up."""
    UNKNOWN = "unknown"
    """As far as the type of the result lets it."""


_SUMMED = frozenset(("scatter", "scan", "ragged-dot", "scaled-dot"))
"""Beside what accumulates by its record."""
_EXACT = frozenset(
    "concatenate pad gather dynamic-slice dynamic-update-slice select copy bitcast tuple get-tuple-element "
    "bitcast-convert iota constant sort topk rng-bit-generator abs negate sign real imag is-finite maximum minimum "
    "clamp ceil floor round-nearest-even round-nearest-afz compare and or xor not shift-left shift-right-arithmetic "
    "shift-right-logical mulhi popcnt count-leading-zeros".split()
)
"""Beside views."""
_OF_PARTS = frozenset(("abs", "sign"))
"""Rounded where the operand is complex."""


def exactness(x: Instruction) -> Exactness:
    """Returns the exactness of an instruction's result."""
    about = record(x)
    if about.accumulates or x.opcode in _SUMMED:
        return Exactness.SUMMED
    of_complex = bool(x.operands) and x.operands[0].shape.element_type in ("c64", "c128")
    if (about.view or x.opcode in _EXACT) and not (of_complex and x.opcode in _OF_PARTS):
        return Exactness.EXACT
    return Exactness.ROUNDED if about.elementwise else Exactness.UNKNOWN


def is_structure(x: Instruction) -> bool:
    """Returns True if an instruction only hands values and tokens on: it computes nothing."""
    return record(x).identity or x.opcode in ("tuple", "get-tuple-element", "after-all")


def is_constant(x: Instruction) -> bool:
    """Returns True if this is a constant, or one that is spread or converted."""
    while x.operands and (record(x).view or x.opcode == "convert"):
        x = x.operands[0]
    return not x.operands and x.opcode in ("constant", "iota")
