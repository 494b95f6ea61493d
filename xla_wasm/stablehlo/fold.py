"""Integers that follow from constants and static sizes: what programs with symbolic sizes compute shapes from."""

from __future__ import annotations

from collections.abc import Callable

from ..hlo.ir import Instruction
from ..hlo.types import TYPES, wrap

MOST = 1024
"""The most elements of an array that is folded: shapes have one for each dimension."""
_MOST_STEPS = 1 << 16

Integers = tuple[int, ...]


def _divide(a: int, b: int) -> int:
    if b == 0:
        return -1
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


_BINARY: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": _divide,
    "remainder": lambda a, b: a - b * _divide(a, b) if b else a,
    "maximum": max,
    "minimum": min,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "power": lambda a, b: a**b if 0 <= b < 64 else int(a == 1),
}
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "EQ": lambda a, b: a == b,
    "NE": lambda a, b: a != b,
    "GE": lambda a, b: a >= b,
    "GT": lambda a, b: a > b,
    "LE": lambda a, b: a <= b,
    "LT": lambda a, b: a < b,
}
_UNARY: dict[str, Callable[[int], int]] = {
    "negate": lambda a: -a,
    "abs": abs,
    "sign": lambda a: (a > 0) - (a < 0),
    "not": lambda a: ~a,
    "convert": lambda a: a,
}


class Folder:
    """Folds instructions of one computation, each once."""

    def __init__(self) -> None:
        self.known: dict[Instruction, Integers | None] = {}

    def integers(self, x: Instruction) -> Integers | None:
        """The elements of an array of integers or truth values in row-major order; None where they are known at run time only."""
        pending = [x]
        for _ in range(_MOST_STEPS):
            if not pending:
                break
            y = pending[-1]
            missing = [] if y in self.known or not _may_fold(y) or _called(y) else [o for o in y.operands if o not in self.known]
            if missing:
                pending += missing
                continue
            pending.pop()
            if y not in self.known:
                self.known[y] = _fold(y, [self.known.get(o) for o in y.operands]) if _may_fold(y) else None
        return self.known.get(x)


def _may_fold(x: Instruction) -> bool:
    shape = x.shape
    return (
        shape.is_array and TYPES[shape.element_type].kind in ("signed", "unsigned", "pred") and not shape.is_dynamic and shape.size <= MOST
    )


def _called(x: Instruction) -> Instruction | None:
    """What a call, or an element of its result, is in the function: its arguments are constants there if they are known."""
    if x.opcode == "call":
        return x.called[0].root
    if x.opcode == "get-tuple-element" and x.operands[0].opcode == "call":
        elements = x.operands[0].called[0].root.elements
        return elements[x.attrs["index"]] if elements else None
    return None


def _fold(x: Instruction, operands: list[Integers | None]) -> Integers | None:
    inner = _called(x)
    if inner is not None:
        return Folder().integers(inner)
    if x.opcode == "constant":
        return tuple([int(v) for v in x.attrs["literal"].values()])
    given = [o for o in operands if o is not None]
    if len(given) < len(operands):
        return None
    made = _arithmetic(x, given)
    return _moved(x, given) if made is None else made


def _arithmetic(x: Instruction, given: list[Integers]) -> Integers | None:
    kind, opcode = x.shape.element_type, x.opcode
    found: list[int]
    if opcode in _BINARY:
        found = [_BINARY[opcode](a, b) for a, b in zip(*given)]
    elif opcode in _UNARY:
        found = [int(_UNARY[opcode](a) != 0) if opcode == "convert" and kind == "pred" else _UNARY[opcode](a) for (a,) in zip(*given)]
    elif opcode == "compare":
        found = [int(_COMPARE[x.attrs["direction"]](a, b)) for a, b in zip(*given)]
    elif opcode in ("select", "clamp"):
        spread = [part * x.shape.size if len(part) == 1 else part for part in given]
        if opcode == "select":
            found = [a if choice else b for choice, a, b in zip(*spread)]
        else:
            found = [min(max(a, low), high) for low, a, high in zip(*spread)]
    else:
        return None
    return tuple([v & 1 for v in found] if kind == "pred" else [wrap(v, kind) for v in found])


def _moved(x: Instruction, given: list[Integers]) -> Integers | None:
    """Elements in other places: what shapes are put together with."""
    opcode, rank = x.opcode, x.shape.rank
    if opcode in ("reshape", "bitcast"):
        return given[0]
    if opcode == "iota" and rank == 1:
        return tuple(range(x.shape.size))
    if opcode == "broadcast" and len(given[0]) == 1:
        return given[0] * x.shape.size
    if opcode == "concatenate" and x.attrs["dimensions"] == (0,):
        return tuple([v for part in given for v in part])
    if opcode == "slice" and rank == 1:
        (bounds,) = x.attrs["slice"]
        return given[0][bounds.start : bounds.limit : bounds.stride]
    if opcode == "reverse" and rank == 1:
        return given[0][::-1] if x.attrs["dimensions"] else given[0]
    if opcode == "dynamic-slice" and rank == 1:
        start = min(max(given[1][0], 0), len(given[0]) - x.shape.size)
        return given[0][start : start + x.shape.size]
    return None
