"""Integers that follow from constants and sizes, or the ranges in which they lie: programs with symbolic sizes compute
shapes from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..hlo.ir import Instruction
from ..hlo.types import TYPES, limits

MOST = 1024
"""The most elements of an array that is folded: shapes have one for each dimension."""
_MOST_STEPS = 1 << 16

Range = tuple[int, int]
"""The least and the greatest value; equal if the value is known."""
Ranges = tuple[Range, ...]
Integers = tuple[int, ...]


def exact(ranges: Ranges | None) -> Integers | None:
    """The values, if all are known."""
    if ranges is None or any(low != high for low, high in ranges):
        return None
    return tuple([low for low, _ in ranges])


def _corners(compute: Callable[[int, int], int], a: Range, b: Range) -> Range:
    found = [compute(x, y) for x in a for y in b]
    return min(found), max(found)


def _divide(a: int, b: int) -> int:
    """The quotient toward zero; HLO's -1 where the divisor is 0."""
    if b == 0:
        return -1
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _quotient(a: Range, b: Range) -> Range | None:
    return _corners(_divide, a, b) if b[0] > 0 or b[1] < 0 or b[0] == b[1] else None


def _remainder(a: Range, b: Range) -> Range | None:
    if a[0] == a[1] and b[0] == b[1]:
        value = a[0] - b[0] * _divide(a[0], b[0]) if b[0] else a[0]
        return value, value
    return (0, min(a[1], b[1] - 1)) if a[0] >= 0 and b[0] > 0 else None


def _known(compute: Callable[[int, int], int]) -> Callable[[Range, Range], Range | None]:
    """An operation on values that are known."""

    def of_ranges(a: Range, b: Range) -> Range | None:
        return (compute(a[0], b[0]),) * 2 if a[0] == a[1] and b[0] == b[1] else None

    return of_ranges


def _logical(compute: Callable[[int, int], int]) -> Callable[[Range, Range], Range | None]:
    """The same, and of truth values also where they are not."""

    def of_ranges(a: Range, b: Range) -> Range | None:
        return (
            (compute(a[0], b[0]), compute(a[1], b[1])) if 0 <= min(a + b) <= max(a + b) <= 1 else _known(compute)(a, b)
        )

    return of_ranges


_BINARY: dict[str, Callable[[Range, Range], Range | None]] = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "subtract": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "multiply": lambda a, b: _corners(lambda x, y: x * y, a, b),
    "divide": _quotient,
    "remainder": _remainder,
    "maximum": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "minimum": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "and": _logical(lambda a, b: a & b),
    "or": _logical(lambda a, b: a | b),
    "xor": _known(lambda a, b: a ^ b),
    "power": _known(lambda a, b: a**b if 0 <= b < 64 else int(a == 1)),
}
_ORDER: dict[str, Callable[[Range, Range], bool]] = {
    "LT": lambda a, b: a[1] < b[0],
    "LE": lambda a, b: a[1] <= b[0],
    "GT": lambda a, b: a[0] > b[1],
    "GE": lambda a, b: a[0] >= b[1],
    "EQ": lambda a, b: a[0] == a[1] == b[0] == b[1],
    "NE": lambda a, b: a[1] < b[0] or b[1] < a[0],
}
"""True if a comparison is true whatever the values."""
_OPPOSITE = {"LT": "GE", "LE": "GT", "GT": "LE", "GE": "LT", "EQ": "NE", "NE": "EQ"}
_UNARY: dict[str, Callable[[Range], Range]] = {
    "negate": lambda a: (-a[1], -a[0]),
    "abs": lambda a: (0 if a[0] <= 0 <= a[1] else min(abs(a[0]), abs(a[1])), max(abs(a[0]), abs(a[1]))),
    "sign": lambda a: ((a[0] > 0) - (a[0] < 0), (a[1] > 0) - (a[1] < 0)),
    "not": lambda a: (~a[1], ~a[0]),
    "convert": lambda a: a,
}


class Folder:
    """Folds instructions of one computation, each once."""

    def __init__(self, sizes: Mapping[tuple[Instruction, int], int], parameters: Mapping[Instruction, Ranges]) -> None:
        """`sizes` are the least ones of dynamic dimensions, `parameters` the ranges of integers, of those of which they
        are known."""
        self.sizes, self.parameters = sizes, parameters
        self.known: dict[Instruction, Ranges | None] = {}

    def ranges(self, x: Instruction) -> Ranges | None:
        """The ranges of the elements of an array of integers or truth values, in row-major order; None where nothing is
        known."""
        pending = [x]
        for _ in range(_MOST_STEPS):
            if not pending:
                break
            y = pending[-1]
            missing = (
                []
                if y in self.known or not _may_fold(y) or _called(y)
                else [o for o in y.operands if o not in self.known]
            )
            if missing:
                pending += missing
                continue
            pending.pop()
            if y not in self.known:
                self.known[y] = self._fold(y, [self.known.get(o) for o in y.operands]) if _may_fold(y) else None
        return self.known.get(x)

    def _fold(self, x: Instruction, operands: list[Ranges | None]) -> Ranges | None:
        inner = _called(x)
        if inner is not None:
            return Folder(self.sizes, self.parameters).ranges(inner)
        if x.opcode == "parameter":
            return self.parameters.get(x)
        if x.opcode == "constant":
            return tuple([(int(v), int(v)) for v in x.attrs["literal"].values()])
        if x.opcode == "get-dimension-size":
            (source,), (d,) = x.operands, x.attrs["dimensions"]
            return ((self.sizes.get((source, d), 0), source.shape.dimensions[d]),)
        given = [o for o in operands if o is not None]
        if len(given) < len(operands):
            return None
        made = _arithmetic(x, given)
        return _moved(x, given) if made is None else made


def _may_fold(x: Instruction) -> bool:
    shape = x.shape
    return (
        shape.is_array
        and TYPES[shape.element_type].kind in ("signed", "unsigned", "pred")
        and not shape.is_dynamic
        and shape.size <= MOST
    )


def _called(x: Instruction) -> Instruction | None:
    """Returns the instruction in the called function that a call, or an element of its result, stands for; None for any
    other. Arguments that are known are constants there."""
    if x.opcode == "call":
        return x.called[0].root
    if x.opcode == "get-tuple-element" and x.operands[0].opcode == "call":
        elements = x.operands[0].called[0].root.elements
        return elements[x.attrs["index"]] if elements else None
    return None


def _arithmetic(x: Instruction, given: list[Ranges]) -> Ranges | None:
    opcode, kind = x.opcode, x.shape.element_type
    if opcode in _BINARY:
        found = [_BINARY[opcode](a, b) for a, b in zip(*given)]
    elif opcode == "convert" and kind == "pred":
        found = [(1, 1) if a[0] > 0 or a[1] < 0 else (0, 0) if a == (0, 0) else (0, 1) for (a,) in zip(*given)]
    elif opcode in _UNARY:
        found = [_UNARY[opcode](a) for (a,) in zip(*given)]
    elif opcode == "compare":
        direction = x.attrs["direction"]
        found = [
            (1, 1) if _ORDER[direction](a, b) else (0, 0) if _ORDER[_OPPOSITE[direction]](a, b) else (0, 1)
            for a, b in zip(*given)
        ]
    elif opcode in ("select", "clamp"):
        found = [
            _chosen(opcode, *row) for row in zip(*[part * x.shape.size if len(part) == 1 else part for part in given])
        ]
    else:
        return None
    return _fitting(found, kind)


def _chosen(opcode: str, a: Range, b: Range, c: Range) -> Range:
    if opcode == "select":
        return b if a[0] else c if not a[1] else (min(b[0], c[0]), max(b[1], c[1]))
    return min(max(b[0], a[0]), c[0]), min(max(b[1], a[1]), c[1])


def _fitting(found: list[Range | None], kind: str) -> Ranges | None:
    """The ranges, if no value in them wraps."""
    if kind == "pred":
        return (
            tuple([(a[0] & 1, a[1] & 1) if a[0] == a[1] else (0, 1) for a in found if a is not None])
            if None not in found
            else None
        )
    least, most = limits(kind)
    fitting = [a for a in found if a is not None and least <= a[0] <= a[1] <= most]
    return tuple(fitting) if len(fitting) == len(found) else None


def _moved(x: Instruction, given: list[Ranges]) -> Ranges | None:
    """Elements in other places: what shapes are put together with."""
    opcode, rank = x.opcode, x.shape.rank
    if opcode in ("reshape", "bitcast"):
        return given[0]
    if opcode == "iota" and rank == 1:
        return tuple([(i, i) for i in range(x.shape.size)])
    if opcode == "broadcast" and len(given[0]) == 1:
        return given[0] * x.shape.size
    if opcode == "concatenate" and x.attrs["dimensions"] == (0,):
        return tuple([v for part in given for v in part])
    if opcode == "slice" and rank == 1:
        (bounds,) = x.attrs["slice"]
        return given[0][bounds.start : bounds.limit : bounds.stride]
    if opcode == "reverse" and rank == 1:
        return given[0][::-1] if x.attrs["dimensions"] else given[0]
    if opcode == "dynamic-slice" and rank == 1 and given[1][0][0] == given[1][0][1]:
        start = min(max(given[1][0][0], 0), len(given[0]) - x.shape.size)
        return given[0][start : start + x.shape.size]
    return None
