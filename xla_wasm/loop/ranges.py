"""Ranges of a kernel's values: addresses as affine forms of loop variables, and bounds of numbers known at run time.

Bounds are exact for loop variables. A number of the program's is bounded by its type, by what clamps it, and by the
conditions under which a place is reached.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..dataclass import dataclass
from ..hlo.types import TYPES
from .ir import Block, Loop, Val
from .ops import COMPUTED

Bounds = tuple[int, int]
"""The least and the greatest number."""


def type_bounds(dtype: str) -> Bounds:
    """The bounds of the numbers that a type has; of a small float those of its bits."""
    if dtype[0] == "s":
        half = 1 << (TYPES[dtype].bits - 1)
        return -half, half - 1
    return 0, (1 << TYPES[dtype].bits) - 1


@dataclass(frozen=True, slots=True)
class Form:
    """`pointer + const + sum(coefficient * loop variable) + sum(coefficient * value)`, modulo 2**32."""

    pointers: tuple[int, ...] = ()
    const: int = 0
    loops: tuple[tuple[Loop, int], ...] = ()
    values: tuple[tuple[Val, int], ...] = ()

    def plus(self, other: Form, factor: int = 1) -> Form:
        """The sum with a multiple of another form."""
        if factor != 1 and other.pointers:
            raise ValueError("a multiple of an address")
        loops, values = dict(self.loops), dict(self.values)
        for loop, c in other.loops:
            loops[loop] = loops.get(loop, 0) + c * factor
        for value, c in other.values:
            values[value] = values.get(value, 0) + c * factor
        return Form(
            self.pointers + other.pointers,
            self.const + other.const * factor,
            tuple((loop, c) for loop, c in loops.items() if c),
            tuple((value, c) for value, c in values.items() if c),
        )


class Facts:
    """The facts known at one place: the loops that are open with the bounds of their variables, and values with their
    bounds."""

    def __init__(self, loops: Mapping[Block, Loop], variables: Mapping[Loop, Bounds], values: Mapping[Val, Bounds]):
        self.loops = loops
        self.variables = variables
        self.values = values
        self._bounds: dict[Val, Bounds] = {}

    def inside(self, loop: Loop) -> Facts:
        """The facts in a loop's body."""
        variables = (
            self.variables
            if loop.condition is not None
            else {**self.variables, loop: (0, (loop.trips - 1) * loop.step)}
        )
        return Facts({**self.loops, loop.body: loop}, variables, self.values)

    # --- affine forms -------------------------------------------------------------------------------------------

    def form(self, val: Val, lane: int = 0) -> Form:
        """A 32-bit value, or one lane of a vector of them, as an affine form."""
        op = val.op
        if op == "pointer":
            return Form((val.imm,))
        if val in self.values:
            return Form(values=((val, 1),))
        if op == "const":
            number = _number(val)
            return Form(const=number - (1 << 32) if number >> 31 == 1 else number)
        if op == "ramp":
            return Form(const=val.imm * lane)
        if op == "induction" and val.block in self.loops:
            return Form(loops=((self.loops[val.block], val.imm),)) if val.imm else Form()
        if op in ("add", "sub") and TYPES[val.dtype].bits == 32:
            return self.form(val.args[0], lane).plus(self.form(val.args[1], lane), 1 if op == "add" else -1)
        if op == "mul" and TYPES[val.dtype].bits == 32:
            x, y = (self.form(a, lane) for a in val.args)
            if x == Form(const=x.const):
                x, y = y, x
            if y == Form(const=y.const):
                return Form().plus(x, y.const)
        if op == "splat" or (op == "bitcast" and val.imm in ("s32", "u32") and val.dtype in ("s32", "u32")):
            return self.form(val.args[0], lane)
        if op == "lane":
            form = self.form(val.args[0], val.imm)
            # A vector that is not known has other numbers in its other lanes.
            return form if all(value.lanes == 1 for value, _ in form.values) else Form(values=((val, 1),))
        return Form(values=((val, 1),))

    def opened(self, form: Form, loop: Loop) -> Form:
        """The form with values replaced by what they are computed from, where that depends on a loop's variable: clamps
        that hold a number within bounds are left out where the bounds are known anyway."""
        found = Form(form.pointers, form.const, form.loops)
        for value, c in form.values:
            inner = self._affine(value)
            found = found.plus(
                inner if any(other is loop for other, _ in inner.loops) else Form(values=((value, 1),)), c
            )
        return found

    def _affine(self, val: Val) -> Form:
        op = val.op
        if val.lanes > 1 or TYPES[val.dtype].bits != 32:
            return Form(values=((val, 1),))
        if op in ("min", "max"):
            for x, y in (val.args, val.args[::-1]):
                (x_low, x_high), (y_low, y_high) = self.bounds(x), self.bounds(y)
                if x_high <= y_low if op == "min" else x_low >= y_high:
                    return self._affine(x)
        if op == "bitcast":
            return self._affine(val.args[0])
        if op in ("add", "sub"):
            return self._affine(val.args[0]).plus(self._affine(val.args[1]), 1 if op == "add" else -1)
        if op == "mul" and any(a.op == "const" for a in val.args):
            x, y = val.args if val.args[1].op == "const" else val.args[::-1]
            return Form().plus(self._affine(x), _number(y))
        return Facts(self.loops, self.variables, {}).form(val)

    def form_bounds(self, form: Form) -> Bounds | None:
        """The bounds of a form without its pointer; None where a loop's variable is unknown."""
        low = high = form.const
        for bounds, c in [(self.variables.get(loop), c) for loop, c in form.loops] + [
            (self.bounds(v), c) for v, c in form.values
        ]:
            if bounds is None:
                return None
            ends = bounds[0] * c, bounds[1] * c
            low, high = low + min(ends), high + max(ends)
        return low, high

    # --- numbers ------------------------------------------------------------------------------------------------

    def bounds(self, val: Val) -> Bounds:
        """The bounds of a value in every lane, as a number of its type."""
        known, pending = self._bounds, [val]
        while pending:
            x = pending[-1]
            missing = [] if x in known or x.op in _OPAQUE else [a for a in x.args if a not in known]
            if missing:
                pending += missing
                continue
            pending.pop()
            if x not in known:
                known[x] = self._bounded(x)
        return known[val]

    def _bounded(self, val: Val) -> Bounds:
        low, high = self._computed(val)
        least, most = type_bounds(val.dtype)
        # What leaves the type's range comes back at its other end.
        found = (low, high) if least <= low and high <= most else (least, most)
        if val in self.values:
            low, high = self.values[val]
            found = max(found[0], low), min(found[1], high)
        return found

    def _computed(self, val: Val) -> Bounds:
        op, full = val.op, type_bounds(val.dtype)
        if val.dtype in COMPUTED:
            return full
        if op == "const":
            return (_number(val),) * 2
        if op == "induction":
            if val.block not in self.loops:
                return full
            # What else is known of it says only that it is itself.
            return self.form_bounds(Facts(self.loops, self.variables, {}).form(val)) or full
        if op == "ramp":
            return min(0, val.imm * (val.lanes - 1)), max(0, val.imm * (val.lanes - 1))
        if not val.args or op in _OPAQUE or any(a.dtype in COMPUTED for a in val.args):
            return full
        ranges = [self.bounds(a) for a in val.args]
        low, high = ranges[0]
        if op in ("splat", "lane", "splat_lane", "convert", "bitcast", "wrap", "extend_low", "extend_high"):
            return low, high
        if op in ("pack", "shuffle"):
            return min(r[0] for r in ranges), max(r[1] for r in ranges)
        if op == "select":
            return min(r[0] for r in ranges[1:]), max(r[1] for r in ranges[1:])
        if len(ranges) == 2:
            return _pair(op, val, ranges[0], ranges[1], full)
        return full

    def divides(self, x: Val, y: Val) -> bool:
        """Returns True if an integer division of x by y never traps: y is not 0, and not -1 where x may be the least
        number of a register."""
        low, high = self.bounds(y)
        zero, minus = low <= 0 <= high, low <= -1 <= high
        least = type_bounds(x.dtype)[0]
        minus = minus and TYPES[x.dtype].bits >= 32 and self.bounds(x)[0] == least
        if not (zero or minus):
            return True
        y = _plain(y)
        if y.op != "select":
            return False
        condition, given, divisor = (_plain(v) for v in y.args)
        if not self.divides(x, given):
            return False
        # What the condition excludes where the divisor is taken.
        excluded = [_plain(v) for v in _terms("or", condition)]
        zero = zero and not any(_tests(c, divisor, 0) for c in excluded)
        minus = minus and not any(
            all(_tests(t, divisor, -1) or _tests(t, _plain(x), least) for t in map(_plain, _terms("and", c)))
            for c in excluded
        )
        return not (zero or minus)

    # --- conditions ---------------------------------------------------------------------------------------------

    def where(self, condition: Val, holds: bool = True) -> Facts:
        """Returns the facts that are known where a scalar condition holds, or where it does not."""
        variables, values = dict(self.variables), dict(self.values)
        self._learn(condition, holds, variables, values)
        return Facts(self.loops, variables, values)

    def _learn(self, c: Val, holds: bool, variables: dict[Loop, Bounds], values: dict[Val, Bounds]) -> None:
        if c.op == "not":
            self._learn(c.args[0], not holds, variables, values)
        elif c.op == ("and" if holds else "or"):
            for arg in c.args:
                self._learn(arg, holds, variables, values)
        elif c.op in _OPPOSITE and not any(a.dtype in COMPUTED for a in c.args):
            x, y = c.args
            op = c.op if holds else _OPPOSITE[c.op]
            self._meet(x, op, self.bounds(y), variables, values)
            self._meet(y, _MIRRORED[op], self.bounds(x), variables, values)

    def _meet(self, x: Val, op: str, other: Bounds, variables: dict[Loop, Bounds], values: dict[Val, Bounds]) -> None:
        """Learns of `x` that it compares so with something of these bounds."""
        low, high = self.bounds(x)
        if op == "eq":
            low, high = max(low, other[0]), min(high, other[1])
        elif op in ("lt", "le"):
            high = min(high, other[1] - (op == "lt"))
        elif op in ("gt", "ge"):
            low = max(low, other[0] + (op == "gt"))
        elif other[0] == other[1] and x.op == "induction" and x.imm > 0 and x.block in self.loops:
            step = x.imm * self.loops[x.block].step
            low, high = low + step * (low == other[0]), high - step * (high == other[0])
        if low > high or (low, high) == self.bounds(x) or x.op == "const":
            return
        if x.op == "induction" and x.block in self.loops:
            loop = self.loops[x.block]
            if x.imm > 0:
                variables[loop] = -(-low // x.imm), high // x.imm
            return
        values[x] = low, high
        if x.op == "bitcast":
            (y,) = x.args
            if TYPES[y.dtype].bits == TYPES[x.dtype].bits and low >= 0 and high <= type_bounds(y.dtype)[1]:
                values[y] = low, high


def _pair(op: str, val: Val, x: Bounds, y: Bounds, full: Bounds) -> Bounds:
    """The bounds of an operation on two numbers."""
    if op == "add":
        return x[0] + y[0], x[1] + y[1]
    if op == "sub":
        return x[0] - y[1], x[1] - y[0]
    if op == "mul":
        ends = [p * q for p in x for q in y]
        return min(ends), max(ends)
    if op == "min":
        return min(x[0], y[0]), min(x[1], y[1])
    if op == "max":
        return max(x[0], y[0]), max(x[1], y[1])
    if op == "and":
        most = [b[1] for b in (x, y) if b[0] >= 0]
        return (0, min(most)) if most else full
    if op == "or" and x[0] >= 0 and y[0] >= 0:
        return 0, (1 << max(x[1], y[1]).bit_length()) - 1
    if y[0] == y[1] and y[0] > 0:
        if op == "div":
            return _quotient(x[0], y[0]), _quotient(x[1], y[0])
        if op == "rem":
            return (0 if x[0] >= 0 else 1 - y[0]), min(y[0] - 1, max(x[1], 0))
    if op in ("shr_s", "shr_u") and y[0] == y[1] and 0 <= y[0] < 32 and (op == "shr_s" or x[0] >= 0):
        return x[0] >> y[0], x[1] >> y[0]
    if op == "shr_u" and y[0] == y[1] and 0 < y[0] < TYPES[val.dtype].bits >= 32:
        return 0, (1 << (TYPES[val.dtype].bits - y[0])) - 1
    if op == "shl" and y[0] == y[1] and 0 <= y[0] < 32:
        return x[0] << y[0], x[1] << y[0]
    return full


def _plain(val: Val) -> Val:
    """The scalar in all lanes of a vector, if it has one."""
    while val.op == "splat":
        (val,) = val.args
    return val


def _terms(op: str, val: Val) -> list[Val]:
    """The conditions that `op` joins."""
    val = _plain(val)
    return [t for a in val.args for t in _terms(op, a)] if val.op == op else [val]


def _tests(condition: Val, val: Val, number: int) -> bool:
    """Returns True if a condition is that a value is this number."""
    if condition.op != "eq":
        return False
    x, y = map(_plain, condition.args)
    return x is val and y.op == "const" and _number(y) == number


def _quotient(x: int, y: int) -> int:
    return x // y if x >= 0 else -(-x // y)


def _number(const: Val) -> int:
    """The number of a constant's pattern."""
    bits = TYPES[const.dtype].bits
    pattern: int = const.imm & ((1 << bits) - 1)
    return pattern - (1 << bits) if const.dtype[0] == "s" and pattern >> (bits - 1) else pattern


_OPAQUE = ("load", "load_splat", "load_vector", "load_strided", "call", "slow_path")
"""Operations whose result may be anything that its type has."""
_OPPOSITE = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}
_MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}
