"""Notes which reductions look for the greatest or least of a row and its place, as argmax does. In a kernel it is too
late to look at the places: where they lie in a buffer, the kernel of any others is the same."""

from __future__ import annotations

from itertools import product

from ..hlo.index_map import identity
from ..hlo.ir import Computation, Instruction, Module
from ..hlo.types import TYPES, limits
from ..ops.reading import reads, record

# How two numbers lie to each other: a before b, and what is not a number.
_LESS, _EQUAL, _GREATER, _A_NONE, _B_NONE, _BOTH_NONE = range(6)

_HOLDS = {"LT": (_LESS,), "LE": (_LESS, _EQUAL), "EQ": (_EQUAL,), "GE": (_GREATER, _EQUAL), "GT": (_GREATER,)}
_MIRRORED = {_LESS: _GREATER, _GREATER: _LESS, _A_NONE: _B_NONE, _B_NONE: _A_NONE}


def mark_searches(module: Module) -> None:
    """Marks each reduction of an array and its elements' places that gives the first of the best elements."""
    for x in module.having("reduce"):
        if (opcode := _search(x)) is not None:
            x.mark(best=opcode)


def _search(x: Instruction) -> str | None:
    """The operation, maximum or minimum, that gives the better of two numbers in such a reduction, where a NaN goes
    before all numbers; None of any other."""
    if len(x.operands) != 4 or len(x.attrs["dimensions"]) != 1:
        return None
    operand, places = x.operands[:2]
    dtype, (d,) = operand.shape.element_type, x.attrs["dimensions"]
    kind, count = TYPES[dtype].kind, operand.shape.dimensions[d]
    ordered = kind in ("float", "signed", "unsigned") and dtype != "u64"
    if not ordered or not count or not _are_places(places, d):
        return None
    opcodes = ("maximum", "minimum")
    return next((opcode for opcode in opcodes if _looks_for(x.called[0], kind == "float", opcode == "maximum")), None)


def _are_places(x: Instruction, d: int) -> bool:
    """Returns True if each element of an array is its own place along a dimension."""
    count, map = x.shape.dimensions[d], identity(x.shape.dimensions)
    while TYPES[x.shape.element_type].kind in ("signed", "unsigned") and count - 1 <= limits(x.shape.element_type)[1]:
        if x.opcode == "iota":
            return map.dimension(map.coordinates[x.attrs["iota_dimension"]], count) == d
        if record(x).view:
            map = map.then(reads(x)[0].map)
        elif x.opcode != "convert":
            return False
        x = x.operands[0]
    return False


def _looks_for(reducer: Computation, none: bool, greatest: bool) -> bool:
    """Returns True if a reducer of (a, i) and (b, j) gives the better one, and of equal ones that which is first: tried
    in every order that two numbers and two places can have. It may be made of comparisons, of logic and of choices
    only, so there is nothing else to try."""
    for numbers, places in product(range(6 if none else 3), range(3)):
        made = _outcome(reducer, numbers, places)
        if made is None:
            return False
        left = numbers in (_GREATER if greatest else _LESS, _A_NONE)
        right = numbers in (_LESS if greatest else _GREATER, _B_NONE)
        # Of two equal numbers either is the value; and the first place comes first.
        wanted = (
            {("a", "i")} if left else {("b", "j")} if right else {("a", "i"), ("b", "i")} if places == _LESS else None
        )
        if wanted is not None and made not in wanted:
            return False
    return True


def _outcome(reducer: Computation, numbers: int, places: int) -> tuple[str, str] | None:
    """Returns the parameters that a reducer chooses, a number's and a place's, where its numbers and places have this
    order; None if it does anything else than choose."""
    made: dict[Instruction, str | bool] = {}
    for x in reducer.instructions:
        if x.opcode == "tuple" and x is reducer.root:
            value, at = (made[o] for o in x.operands)
            return (
                (value, at)
                if value in ("a", "b") and at in ("i", "j") and isinstance(value, str) and isinstance(at, str)
                else None
            )
        found = _chosen(x, [made[o] for o in x.operands], numbers, places)
        if found is None:
            return None
        made[x] = found
    return None


def _chosen(x: Instruction, operands: list[str | bool], numbers: int, places: int) -> str | bool | None:
    """Returns the parameter that an instruction of a reducer gives, or True or False for a condition; None for anything
    else."""
    if x.opcode == "parameter":
        return "aibj"[x.attrs["parameter_number"]]
    if x.opcode == "select" and isinstance(operands[0], bool):
        return operands[1] if operands[0] else operands[2]
    if x.opcode == "not" and isinstance(operands[0], bool):
        return not operands[0]
    if x.opcode in ("and", "or", "xor") and all(isinstance(o, bool) for o in operands):
        p, q = operands
        return bool(p and q if x.opcode == "and" else p or q if x.opcode == "or" else p != q)
    if x.opcode in ("minimum", "maximum") and {*operands} <= {"i", "j"}:
        p, q = operands
        return p if (_order(p, q, numbers, places) == _LESS) == (x.opcode == "minimum") else q
    if (
        x.opcode == "compare"
        and x.attrs.get("type") != "TOTALORDER"
        and ({*operands} <= {"a", "b"} or {*operands} <= {"i", "j"})
    ):
        order = _order(operands[0], operands[1], numbers, places)
        direction = x.attrs["direction"]
        return order != _EQUAL if direction == "NE" else order in _HOLDS[direction]
    return None


def _order(p: str | bool, q: str | bool, numbers: int, places: int) -> int:
    """Returns the order of two parameters, such as _LESS."""
    if p == q:
        none = p == "a" and numbers in (_A_NONE, _BOTH_NONE) or p == "b" and numbers in (_B_NONE, _BOTH_NONE)
        return _BOTH_NONE if none else _EQUAL
    order = numbers if p in ("a", "b") else places
    return order if p in ("a", "i") else _MIRRORED.get(order, order)
