"""The uses that a module makes of its arguments, as far as they matter for drawing them: which elements are indices,
and into how many places; which say how often a loop runs; which must be ordinary numbers.

Indices are followed back from the operations that take them, through what moves, converts and adds to them, to the
parameters (and to what hosts feed). What an element is used for is an interval; where a value is lost, its argument is
drawn by its type alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any

import numpy as np

from ..dataclass import replace
from ..errors import XlaWasmError
from ..hlo.ir import Computation, Instruction, Module, callees
from ..hlo.signature import parameter_leaves
from ..host.arrays import Array
from ..ops.hostio.transfers import Starts, host_name
from ..passes.manual import per_device
from ..reference import Evaluator
from .use import Range, Use, Uses, between, both, integers, leaf_count, unbounded
from .use_rules import IDENTITIES, SINKS, THROUGH, limited

MOST_TRIPS = 8
"""Trips of a loop whose number arguments decide."""
_MOST_KNOWN = 1 << 14
"""Elements of values that are computed from constants."""
_UNKNOWN = frozenset(
    "while conditional call fusion infeed recv recv-done rng rng-bit-generator rng-get-and-update-state custom-call "
    "partition-id replica-id after-all".split()
)
"""Operations whose value does not follow from constants, or is not looked into."""


def uses_of(module: Module) -> tuple[dict[str, Use], dict[tuple[str, ...], Uses]]:
    """The uses of the module's inputs by name, and of what hosts feed by `feed_key`."""
    names = [name for name, _ in parameter_leaves(module)]
    divided = per_device(module).module
    entry, search = divided.entry, _Search(Starts(divided.instructions()))
    found = search.back(entry, [None] * leaf_count(entry.root.shape), list)
    leaves = [leaf for p in entry.parameters for _, leaf in p.shape.leaves()]
    own = [use for leaf, use in zip(leaves, (use for uses in found for use in uses)) if not leaf.is_token]
    return {name: use for name, use in zip(names, own, strict=True) if use is not None}, search.fed


Known = list[Array | None]
"""The elements of each leaf of a value, where they are constants."""


def feed_key(name: str | None, leaves: Iterable[Any]) -> tuple[str, ...]:
    """The key of what hosts feed to a transfer of a name, or to the infeed: with the types and dimensions of its
    arrays."""
    return (name or "", *(f"{leaf.element_type}{list(leaf.dimensions)}" for leaf in leaves))


class _Search:
    def __init__(self, starts: Starts) -> None:
        self.fed: dict[tuple[str, ...], Uses] = {}
        self._starts = starts
        self._matters: dict[Computation, bool] = {}
        self._evaluator = Evaluator(precise=False)

    def back(self, computation: Computation, root: Uses, known: Callable[[], Sequence[Known]]) -> list[Uses]:
        """The uses of a computation's parameters, given those of its root; `known` gives what is known of the
        parameters."""
        parameters = computation.parameters
        if not any(root) and not self._has_sinks(computation):
            return [[None] * leaf_count(p.shape) for p in parameters]
        body = _Body(self, known())
        body.add(computation.root, root)
        for x in reversed(computation.instructions):
            body.visit(x)
        return [body.uses(p) for p in parameters]

    def feed(self, x: Instruction, uses: Uses) -> None:
        """Notes what an item is used for, if it comes from a host."""
        start = None if x.opcode == "infeed" else self._starts.of(x)
        if start is None or start.attrs["is_host_transfer"]:
            leaves = [leaf for _, leaf in x.shape.tuple_shapes[0].leaves()]
            key = feed_key(None if start is None else host_name(start), leaves)
            own = uses[: len(leaves)]
            self.fed[key] = [both(a, b) for a, b in zip(self.fed.get(key, own), own)]

    def _has_sinks(self, computation: Computation) -> bool:
        """Returns True if anything in a computation tells the use of its operands."""
        found = self._matters.get(computation)
        if found is None:
            inside = [*callees(computation.instructions), computation]
            found = any(x.opcode in SINKS or x.opcode == "while" for c in inside for x in c.instructions)
            self._matters[computation] = found
        return found

    def evaluated(self, x: Instruction, operands: list[Any]) -> Array | None:
        """The value of an instruction whose operands are known."""
        try:
            with np.errstate(all="ignore"):
                return np.asarray(self._evaluator.run(x, operands))
        except XlaWasmError:
            return None


class _Body:
    """A computation, walked from its end to its beginning."""

    def __init__(self, search: _Search, known: Sequence[Known]) -> None:
        self.search = search
        self.given = known
        self._uses: dict[Instruction, Uses] = {}
        self._known: dict[Instruction, Known] = {}

    def uses(self, x: Instruction) -> Uses:
        """Returns the uses of the leaves of an instruction that have been found so far."""
        return self._uses.get(x) or [None] * leaf_count(x.shape)

    def add(self, x: Instruction, uses: Sequence[Use | None]) -> None:
        """Adds to what an instruction is used for."""
        if any(uses):
            self._uses[x] = [both(a, b) for a, b in zip(self.uses(x), uses, strict=True)]

    def visit(self, x: Instruction) -> None:
        """Tells the operands of an instruction what they are used for, all that use it being told."""
        uses = self.uses(x)
        if x.opcode in SINKS:
            for operand, told in SINKS[x.opcode](x):
                self.add(operand, told)
        if x.opcode in ("infeed", "recv-done"):
            self.search.feed(x, uses)
        if x.opcode in _CALLS:
            _CALLS[x.opcode](self, x, uses)
        elif any(uses):
            route = _ROUTES.get(x.opcode)
            if route is not None:
                route(self, x, uses)
            elif x.shape.is_array and uses[0] is not None and x.opcode in THROUGH and not uses[0].free:
                for operand, use in zip(x.operands, THROUGH[x.opcode](x, uses[0], self.number)):
                    if use is not None and operand.shape.is_array:
                        self.add(operand, [use])
            self._pass_range(x, max((use.range for use in uses if use is not None), default=Range.ALL))

    def _pass_range(self, x: Instruction, least: Range) -> None:
        """Operands have the range of the result, at most."""
        if least and x.opcode not in ("tuple", "get-tuple-element", "parameter"):
            for operand in x.operands:
                self.limit(operand, least)

    def limit(self, x: Instruction, least: Range) -> None:
        """Limits the numbers of all leaves of an instruction."""
        self.add(x, limited(x, least))

    # --- constants ---

    def known(self, x: Instruction) -> Known:
        """The leaves of an instruction, as far as they follow from constants."""
        found = self._known.get(x)
        if found is None:
            pending = [x]
            while pending:  # without recursion: chains are long
                y = pending[-1]
                missing = [o for o in y.operands if o not in self._known] if y not in self._known else []
                if missing and y.opcode not in _UNKNOWN:
                    pending += missing
                else:
                    pending.pop()
                    if y not in self._known:
                        self._known[y] = self._find(y)
            found = self._known[x]
        return found

    def later(self, *values: Instruction) -> Callable[[], list[Known]]:
        """Returns a function that gives the known elements of some values: most are never asked for."""
        return lambda: [self.known(x) for x in values]

    def number(self, x: Instruction) -> Array | None:
        """The elements of an array, as far as they follow from constants."""
        return self.known(x)[0] if x.shape.is_array else None

    def _find(self, x: Instruction) -> Known:
        if x.opcode == "parameter":
            number = x.attrs["parameter_number"]
            return self.given[number] if number < len(self.given) else [None] * leaf_count(x.shape)
        if x.opcode == "tuple":
            return [leaf for o in x.operands for leaf in self._known[o]]
        if x.opcode == "get-tuple-element":
            return self._known[x.operands[0]][_leaves_at(x)]
        if x.opcode in IDENTITIES:
            return self._known[x.operands[0]]
        nothing: Known = [None] * leaf_count(x.shape)
        arrays = x.shape.is_array and not x.shape.is_dynamic and all(o.shape.is_array for o in x.operands)
        if x.opcode in _UNKNOWN or x.called or not arrays or prod(x.shape.dimensions) > _MOST_KNOWN:
            return nothing
        operands = [self._known[o][0] for o in x.operands]
        if any(o is None for o in operands):
            return nothing
        return [self.search.evaluated(x, operands)]


def _element(body: _Body, x: Instruction, uses: Uses) -> None:
    whole: Uses = [None] * leaf_count(x.operands[0].shape)
    whole[_leaves_at(x)] = uses
    body.add(x.operands[0], whole)


def _elements(body: _Body, x: Instruction, uses: Uses) -> None:
    at = 0
    for operand in x.operands:
        count = leaf_count(operand.shape)
        body.add(operand, uses[at : at + count])
        at += count


def _whole(body: _Body, x: Instruction, uses: Uses) -> None:
    body.add(x.operands[0], uses)


def _sorted(body: _Body, x: Instruction, uses: Uses) -> None:
    for operand, use in zip(x.operands, uses):
        if use is not None:
            body.add(operand, [use.like(operand.shape)])


_ROUTES: dict[str, Callable[[_Body, Instruction, Uses], None]] = {
    "get-tuple-element": _element,
    "tuple": _elements,
    "sort": _sorted,
    **dict.fromkeys(IDENTITIES, _whole),
}


# --- computations -----------------------------------------------------------------------------------------------------


def _called(body: _Body, x: Instruction, uses: Uses) -> None:
    found = body.search.back(x.called[0], uses, body.later(*x.operands))
    for operand, own in zip(x.operands, found):
        body.add(operand, own)


def _branches(body: _Body, x: Instruction, uses: Uses) -> None:
    for computation, operand in zip(x.called, x.operands[1:]):
        for own in body.search.back(computation, uses, body.later(operand)):
            body.add(operand, own)
    least = max((use.range for use in uses if use is not None), default=Range.ALL)
    if least:
        body.limit(x.operands[0], least)


def _loop(body: _Body, x: Instruction, uses: Uses) -> None:
    inside, condition = x.called
    initial = body.known(x.operands[0])
    steps = _steps(body.search, inside)
    constant: Known = [value if step is _KEPT else None for value, step in zip(initial, steps)]
    (state,) = body.search.back(condition, [unbounded(condition.root.shape, Range.ORDINARY)], lambda: [constant])
    endless = all(step is _KEPT for use, step in zip(state, steps) if use is not None)
    trips = _never if endless else _trips
    for at, use in trips(body.search, condition, steps, initial, constant):
        state[at] = both(state[at], use)
    leaves = [leaf for _, leaf in x.shape.leaves()]
    state = [both(a, b) for a, b in zip(state, uses)]
    for _ in range(3):  # what steers the loop may be computed from the rest of the state
        carried = [
            None if use is None or step is _KEPT else use.only_range(leaf)
            for use, step, leaf in zip(state, steps, leaves)
        ]
        wanted = [both(a, None if step is _KEPT else b) for a, b, step in zip(carried, uses, steps)]
        (own,) = body.search.back(inside, wanted, lambda: [constant])
        before = [use.range if use else Range.ALL for use in state]
        state = [both(a, b) for a, b in zip(state, own)]
        if before == [use.range if use else Range.ALL for use in state]:
            break
    body.add(x.operands[0], state)


_FALSE = {
    "LT": (0, MOST_TRIPS),
    "LE": (1, MOST_TRIPS),
    "EQ": (1, MOST_TRIPS),
    "NE": (0, 0),
    "GE": (-MOST_TRIPS, -1),
    "GT": (-MOST_TRIPS, 0),
}
"""Direction of a comparison -> the least and greatest of some differences for which it is false."""
_KEPT, _ANY = "kept", "any"
Step = int | str
"""The number that a trip adds to a leaf of the state; _KEPT: it stays; _ANY: something else happens to it."""


def _steps(search: _Search, inside: Computation) -> list[Step]:
    """Returns the step of each leaf of the state."""
    body = _Body(search, [])
    (parameter,) = inside.parameters
    if inside.root is parameter:
        return [_KEPT] * leaf_count(parameter.shape)
    if inside.root.opcode != "tuple":
        return [_ANY] * leaf_count(parameter.shape)
    steps: list[Step] = []
    for x in inside.root.operands:
        at, count = len(steps), leaf_count(x.shape)
        if _leaf_of(x, parameter) == at:
            steps += [_KEPT] * count
        elif count == 1 and x.opcode in ("add", "subtract") and not x.shape.rank:
            own = [o for o in x.operands if _leaf_of(o, parameter) == at]
            value = [integers(body.number(o)) for o in x.operands if o not in own]
            good = len(own) == 1 and len(value) == 1 and value[0] is not None and x.operands[0] is own[0]
            by = int(value[0]) if good and value[0] is not None else 0
            steps.append((by if x.opcode == "add" else -by) if by else _ANY)
        else:
            steps += [_ANY] * count
    return steps


def _leaf_of(x: Instruction, parameter: Instruction) -> int | None:
    """The number of the first leaf of the parameter that an instruction is, moved and converted; None if it is none."""
    while x.opcode in ("convert", "reshape", "bitcast", *IDENTITIES):
        x = x.operands[0]
    at = 0
    while x.opcode == "get-tuple-element":
        at += _leaves_at(x).start
        x = x.operands[0]
    return at if x is parameter else None


def _trips(
    search: _Search, condition: Computation, steps: list[Step], initial: Known, constant: Known
) -> list[tuple[int, Use]]:
    """Uses of leaves of the state that let the loop end soon: of a counter that is compared with a limit, and of what
    that limit is computed from."""
    body = _Body(search, [constant])
    (parameter,) = condition.parameters
    found: list[tuple[int, Use]] = []
    pending = [condition.root]
    while pending:
        x = pending.pop()
        if x.opcode == "and" or x.opcode in IDENTITIES:
            pending += x.operands
        if x.opcode in ("fusion", "call"):
            inner = x.called[0].root
            if any(o.opcode not in ("parameter", "constant") for o in inner.operands):
                continue
            given = x.operands
            x = inner.on(given[o.attrs["parameter_number"]] if o.opcode == "parameter" else o for o in inner.operands)
        if x.opcode != "compare" or x.operands[0].shape.rank:
            continue
        for counter, limit, way in _sides(x):
            at = _leaf_of(counter, parameter)
            if at is None or steps[at] is _KEPT:
                continue
            known, first = integers(body.number(limit)), integers(initial[at])
            step = steps[at]
            up = step > 0 if isinstance(step, int) else way in ("LT", "LE", "NE")
            exact = way == "NE"  # only a counter on the right side of its limit gets there, if no step is beyond it
            far = MOST_TRIPS * abs(step) if isinstance(step, int) else MOST_TRIPS
            far = 0 if exact and far != MOST_TRIPS else far
            begin = _interval(known, far, not up) if known is not None else (0, far // 2 if exact and up else far)
            if exact and not up and known is None:
                begin = (far // 2, far)
            if first is not None:
                end = _interval(first, far, up)
            else:
                end = (0, far) if not exact else (far // 2, far) if up else (0, far // 2)
            if first is None:
                found.append((at, replace(between(counter.shape, *begin), strict=True)))
            if known is None:
                body.add(limit, [replace(between(limit.shape, *end), strict=True)])
            break
    for x in reversed(condition.instructions):
        body.visit(x)
    found += [(at, use) for at, use in enumerate(body.uses(parameter)) if use is not None]
    return found


def _never(
    search: _Search, condition: Computation, steps: list[Step], initial: Known, constant: Known
) -> list[tuple[int, Use]]:
    """Uses of leaves of the state with which a loop does not begin: its condition never changes."""
    body = _Body(search, [constant])
    (parameter,) = condition.parameters
    root = condition.root
    at = _leaf_of(root, parameter)
    if at is not None:
        return [(at, replace(between(root.shape, 0, 0), strict=True))]
    if root.opcode != "compare":
        return []
    for counter, limit, way in _sides(root):
        at, known = _leaf_of(counter, parameter), integers(body.number(limit))
        if at is not None and known is not None:
            first, last = _FALSE[way]
            ends = (int(known) + first, int(known) + last)
            return [(at, replace(between(counter.shape, *ends), strict=True))]
    return []


def _sides(x: Instruction) -> list[tuple[Instruction, Instruction, str]]:
    """A comparison read from either side: an operand, the other, and the direction."""
    left, right = x.operands
    way = x.attrs["direction"]
    return [(left, right, way), (right, left, way.translate(str.maketrans("LG", "GL")))]


def _interval(end: Any, far: int, up: bool) -> tuple[int, int]:
    """The numbers that are at most `far` above or below an end."""
    return (int(end), int(end) + far) if up else (int(end) - far, int(end))


_CALLS: dict[str, Callable[[_Body, Instruction, Uses], None]] = {
    "call": _called,
    "fusion": _called,
    "conditional": _branches,
    "while": _loop,
}


def _leaves_at(x: Instruction) -> slice:
    """The leaves of its operand that a get-tuple-element takes."""
    parts = x.operands[0].shape.tuple_shapes
    first = sum(map(leaf_count, parts[: x.attrs["index"]]))
    return slice(first, first + leaf_count(parts[x.attrs["index"]]))
