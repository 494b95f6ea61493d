"""Reductions of windows that are whole prefixes or suffixes of one dimension (cumsum and its kin), and reductions that
round at every step."""

from __future__ import annotations

from ...dataclass import dataclass
from ...hlo.ir import Computation, Instruction
from ..reduce.monoids import MONOIDS, monoids


@dataclass(frozen=True, slots=True)
class Cumulative:
    """The walk along `dim`, from its end where `reverse`."""

    dim: int
    reverse: bool


def cumulative(x: Instruction) -> Cumulative | None:
    """Returns the running reduction that a reduce-window is, if every result is the reduction of all elements up to its
    own place, or from it on."""
    found: Cumulative | None = None
    for d, (w, size) in enumerate(zip(x.attrs["window"].dimensions, x.operands[0].shape.dimensions)):
        if w.size == 1 and w.stride == 1 and w.base_dilation == 1 and not (w.padding_low or w.padding_high):
            continue
        if found is not None or w.stride != 1 or w.window_dilation != 1 or w.base_dilation != 1 or w.size < size:
            return None
        if (w.padding_low, w.padding_high) not in ((w.size - 1, 0), (0, w.size - 1)):
            return None
        found = Cumulative(d, not w.padding_low)
    if found is not None and found.reverse and not _symmetric(x.called[0]):
        # The results go through the reducer in another order then.
        return None
    return found


def _symmetric(computation: Computation) -> bool:
    """Returns True if a reducer of one operand, by the look of it, gives the same when its parameters change places."""
    if len(computation.parameters) != 2 or any(x.called for x in computation.instructions):
        return False
    numbers: dict[object, int] = {}
    return _number(computation, (0, 1), numbers) == _number(computation, (1, 0), numbers)


def _number(computation: Computation, names: tuple[int, int], numbers: dict[object, int]) -> int:
    """A number for the expression of the root: equal ones get the same, the order of operands aside where it does not
    matter."""
    own: dict[Instruction, int] = {}
    for x in computation.instructions:
        parts = [own[o] for o in x.operands]
        attrs: object = sorted((k, repr(v)) for k, v in x.attrs.items() if k != "sharding")
        if x.opcode == "parameter":
            attrs = names[x.attrs["parameter_number"]]
        elif x.opcode == "constant":
            attrs = bytes(x.attrs["literal"].data)
        elif (x.opcode == "abs" or _compares_itself(x)) and x.operands[0].opcode == "subtract":
            # a - b and b - a have the same magnitude, and if one is NaN, so is the other. The -1 says that the numbers
            # are those of a difference: whether it is NaN is not whether a is unequal to b.
            parts = [-1, *sorted(own[o] for o in x.operands[0].operands)]
        elif x.opcode in MONOIDS or (x.opcode == "compare" and x.attrs["direction"] in ("EQ", "NE")):
            parts.sort()
        key = (x.opcode, x.shape.without_layout(), repr(attrs), x.marks, tuple(parts))
        own[x] = numbers.setdefault(key, len(numbers))
    return own[computation.root]


def _compares_itself(x: Instruction) -> bool:
    """Returns True if a comparison depends on nothing but whether its operand is NaN."""
    return x.opcode == "compare" and x.operands[0] is x.operands[1]


def stepwise(x: Instruction) -> bool:
    """Returns True if a reduction of small floats rounds at each step, as it is written; any other is held in f32 and
    rounds once: sums, products, and what runs along a dimension."""
    return monoids(x.called[-1]) is None and not (x.opcode == "reduce-window" and cumulative(x) is not None)
