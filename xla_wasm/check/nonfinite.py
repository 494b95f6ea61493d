"""Finds where a NaN or an infinity of a result begins: the first instruction that has it and whose operands have not.

The values are those of compiled code. The search goes back from the result, from operand to operand, by the elements
that have it where an operation works element by element; so a NaN that a `select` passes over is none of its concern.
It follows loops trip by trip, and branches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

import numpy as np

from ..dataclass import dataclass, field
from ..errors import UnsupportedError
from ..hlo.ir import Computation, Instruction, Module
from ..hlo.shape import Shape
from ..hlo.signature import parameter_leaves
from ..ops.dtypes import Array, Value, flattened, nested
from ..ops.exactness import is_constant
from ..ops.hostio.reference import HostSide
from ..ops.hostio.transfers import Starts
from ..ops.reading import record
from ..options import Options
from .compare import is_float
from .excerpt import Excerpt, Run, compiled, excerpt, holds_arrays
from .steps import Path, Steps, Values, can_run, chosen_branch, prepared


class Kind(Enum):
    """A kind of value that is no finite number."""

    NAN = "NaN"
    INFINITY = "infinity"

    def within(self, array: Array) -> Array | None:
        """Returns a mask of the elements of this kind; None if there is none."""
        if not (is_float(array.dtype) or array.dtype.kind == "c"):
            return None
        where: Array = (np.isnan if self is Kind.NAN else np.isinf)(array)
        return where if where.any() else None


@dataclass(frozen=True, slots=True)
class Origin:
    """The instruction in which it begins. A parameter has it from the caller, a constant from the program."""

    kind: Kind
    instruction: Instruction
    path: Path
    """Inside what it was met, outermost first."""
    count: int
    size: int
    at: tuple[int, ...]
    """The first element that has it."""
    operands: tuple[str, ...] = ()
    """The elements of the operands there, of an operation that works element by element."""
    cause: Origin | None = None
    """The origin of an infinity of which this NaN is made."""
    parameter: str = ""
    """The name of a parameter."""

    @property
    def lines(self) -> list[str]:
        """A line for this origin, and one for its cause."""
        place = f"at {list(self.at)}" if self.at else ""
        extent = f"{self.count:,} of {self.size:,} elements, first {place}" if self.size > 1 else ""
        if self.parameter:
            text = f"{self.kind.value} comes in with argument '{self.parameter}'"
        else:
            of = f" of {', '.join(self.operands)}" if self.operands else ""
            text = f"{self.kind.value} begins in {self.instruction.where}{of}"
        inside = f"inside {' > '.join(self.path)}" if self.path else ""
        line = "; ".join(filter(None, (text, inside, extent)))
        return [line, *(self.cause.lines if self.cause else ())]


@dataclass(slots=True)
class _Frame:
    """A computation that was run on some arguments."""

    where: dict[tuple[Instruction, int, Kind], Array] = field(default_factory=dict)
    """The elements of each leaf of a value that are of a kind, where there are any."""
    begun: dict[tuple[Instruction, int, Kind], tuple[str, ...]] = field(default_factory=dict)
    """The elements of the operands where operations that work element by element begin it."""
    entered: dict[Instruction, list[Value]] = field(default_factory=dict)
    """The operands of loops and branches."""


_Incoming = tuple[int, int]
"""A parameter's number, and a leaf of it."""


def find_origin(
    module: Module,
    arrays: Sequence[Array],
    run: Run,
    notify: Callable[[str], None] = lambda text: None,
    host: HostSide | None = None,
    kinds: Sequence[Kind] = tuple(Kind),
) -> Origin | None:
    """Returns the origin of the first NaN of the module's results on these flattened arguments, or else of the first
    infinity; None if there is none of `kinds`, or only infinities of constants and of arguments.

    Raises UnsupportedError for modules with dynamic parameters.
    """
    plain, arguments = prepared(module, arrays)
    names = [name for name, _ in parameter_leaves(module)]
    flat = iter(arguments)
    with np.errstate(all="ignore"):
        search = _Origins(run, notify, Starts(plain.instructions()), host)
        return search.of_results(plain.entry, [nested(p.shape, flat) for p in plain.entry.parameters], names, kinds)


def explain(module: Module, arrays: Sequence[Array], target: str, nan: bool, infinity: bool) -> str:
    """Says where a NaN or an infinity of the results begins, in a line or more; "" as `find_origin` returns None."""
    kinds = [kind for kind, wanted in ((Kind.NAN, nan), (Kind.INFINITY, infinity)) if wanted]
    found = find_origin(module, arrays, compiled(Options(target=target)), kinds=kinds)
    return "" if found is None else "\n".join(found.lines)


class _Origins(Steps[None]):
    def __init__(self, run: Run, notify: Callable[[str], None], starts: Starts, host: HostSide | None):
        super().__init__(run, notify, starts, host)
        self._frame = _Frame()
        self._parts: dict[Computation, Excerpt] = {}

    def of_results(
        self, entry: Computation, args: list[Value], names: Sequence[str], kinds: Sequence[Kind]
    ) -> Origin | None:
        frame = self._ran(entry, args, ())
        for kind in kinds:
            for leaf in range(_arrays(entry.root.shape)):
                if (entry.root, leaf, kind) in frame.where:
                    found = self._back(frame, entry.root, leaf, kind, ())
                    if isinstance(found, Origin):
                        return found
                    if found is not None and kind is Kind.NAN:
                        return self._of_argument(frame, entry, found, names)
        return None

    def _of_argument(self, frame: _Frame, entry: Computation, found: _Incoming, names: Sequence[str]) -> Origin:
        number, leaf = found
        x = next(p for p in entry.parameters if p.attrs["parameter_number"] == number)
        before = sum(_arrays(p.shape) for p in entry.parameters if p.attrs["parameter_number"] < number)
        return self._origin(frame, x, leaf, Kind.NAN, (), parameter=names[before + leaf])

    # --- forwards -----------------------------------------------------------------------------------------------

    def _ran(self, computation: Computation, args: Sequence[Value], path: Path) -> _Frame:
        """Runs a computation, and notes what is not finite."""
        self._frame = frame = _Frame()
        for x in computation.parameters:
            self._note(x, args[x.attrs["parameter_number"]], {})
        self.computation(computation, args, path)
        return frame

    def look(self, x: Instruction, batch: list[Instruction], values: Values, is_compiled: bool, path: Path) -> None:
        self._note(x, values[x], values)

    def failed(self, x: Instruction, values: Values, error: Exception, path: Path) -> None:
        if not isinstance(error, UnsupportedError):
            raise error

    def control(self, x: Instruction, values: Values, path: Path) -> None:
        operands = self._frame.entered[x] = [values[o] for o in x.operands]
        if can_run(x):
            part = excerpt(x.name, [x], [x])
            values[x] = part.split(self.run(part.module, part.arguments(values.__getitem__)))[x]
        else:
            values[x] = self.evaluator.run(x, operands)
        self._note(x, values[x], values)

    def _note(self, x: Instruction, value: Value, values: Values) -> None:
        for leaf, array in enumerate(map(np.asarray, flattened(value))):
            for kind in Kind:
                where = kind.within(array)
                if where is None:
                    continue
                self._frame.where[x, leaf, kind] = where
                if record(x).elementwise and all(values[o].shape in ((), array.shape) for o in x.operands):
                    at = tuple(np.argwhere(where)[0])
                    self._frame.begun[x, leaf, kind] = tuple(
                        str(values[o][at if values[o].shape else ()]) for o in x.operands
                    )

    # --- and back -----------------------------------------------------------------------------------------------

    def _back(self, frame: _Frame, x: Instruction, leaf: int, kind: Kind, path: Path) -> Origin | _Incoming | None:
        """Returns the source from which a leaf of a value has it: an origin, a parameter of the computation, or None
        for an infinite constant, and where it is gone when instructions are compiled by themselves."""
        where = frame.where.get((x, leaf, kind))
        while where is not None:
            if x.opcode == "parameter":
                return x.attrs["parameter_number"], leaf
            if x.opcode == "tuple":
                x, leaf = _element(x, leaf)
            elif x.opcode == "get-tuple-element":
                leaf += sum(_arrays(s) for s in x.operands[0].shape.tuple_shapes[: x.attrs["index"]])
                (x,) = x.operands
            elif x.opcode == "while":
                found = self._loop(x, frame.entered[x][0], leaf, kind, path)
                if not isinstance(found, int):
                    return found
                (x,), leaf = x.operands, found
            elif x.opcode == "conditional":
                chosen = chosen_branch(x, np.asarray(frame.entered[x][0]))
                inside = (*path, f"{x.name}, branch {chosen}")
                called = x.called[chosen]
                inner = self._back(
                    self._ran(called, [frame.entered[x][1 + chosen]], inside), called.root, leaf, kind, inside
                )
                if inner is None or isinstance(inner, Origin):
                    return inner
                x, leaf = x.operands[1 + chosen], inner[1]
            else:
                source = self._source(frame, x, kind, where)
                if source is None:
                    if kind is Kind.INFINITY and is_constant(x):
                        return None
                    return self._origin(frame, x, leaf, kind, path)
                x, leaf, where = source
                continue
            where = frame.where.get((x, leaf, kind))
        return None

    def _source(
        self, frame: _Frame, x: Instruction, kind: Kind, where: Array | None
    ) -> tuple[Instruction, int, Array] | None:
        """The operand from which an instruction has it, with its leaf and elements."""
        for operand in x.operands:
            for leaf in range(_arrays(operand.shape)):
                there = frame.where.get((operand, leaf, kind))
                if there is None:
                    continue
                if not record(x).elementwise or where is None or there.shape != where.shape:
                    return operand, leaf, there
                if (both := there & where).any():
                    return operand, leaf, both
        return None

    def _origin(self, frame: _Frame, x: Instruction, leaf: int, kind: Kind, path: Path, parameter: str = "") -> Origin:
        where = frame.where[x, leaf, kind]
        cause = None
        if kind is Kind.NAN and not parameter:
            source = self._source(frame, x, Kind.INFINITY, where)
            found = source and self._back(frame, source[0], source[1], Kind.INFINITY, path)
            cause = found if isinstance(found, Origin) else None
        at = tuple(int(i) for i in np.argwhere(where)[0])
        operands = frame.begun.get((x, leaf, kind), ())
        return Origin(kind, x, path, int(where.sum()), where.size, at, operands, cause, parameter)

    def _loop(self, x: Instruction, start: Value, leaf: int, kind: Kind, path: Path) -> Origin | int | None:
        """As `_back`, but for the leaf of the state that the loop begins with."""
        body = x.called[0]
        seen = [_kinds(start)]
        state = start
        while bool(self._value(x.called[1], state)):
            state = self._value(body, state)
            seen.append(_kinds(state))
            self.notify(" > ".join((*path, f"{x.name}, trip {len(seen) - 1}")))
        last = len(seen) - 1
        while True:
            trip = next((t for t in range(last + 1) if (leaf, kind) in seen[t]), last)
            if trip == 0:
                return leaf
            state = start
            for _ in range(trip - 1):
                state = self._value(body, state)
            inside = (*path, f"{x.name}, trip {trip - 1}")
            found = self._back(self._ran(body, [state], inside), body.root, leaf, kind, inside)
            if not isinstance(found, tuple):
                return found
            leaf, last = found[1], trip - 1

    def _value(self, computation: Computation, state: Value) -> Value:
        """The result of a loop's body or condition."""
        part = self._parts.get(computation)
        inner = [x for x in computation.instructions if x.opcode != "parameter"]
        if part is None:
            arrays = all(holds_arrays(x.shape) for x in (computation.root, *computation.parameters))
            if not inner or not arrays:
                return self.evaluator(computation, state)
            part = self._parts[computation] = excerpt(computation.name, inner, [computation.root])
        values = dict.fromkeys(computation.parameters, state)
        return part.split(self.run(part.module, part.arguments(values.__getitem__)))[computation.root]


def _arrays(shape: Shape) -> int:
    """The number of arrays of a shape."""
    return sum(not leaf.is_token for _, leaf in shape.leaves())


def _element(x: Instruction, leaf: int) -> tuple[Instruction, int]:
    """The operand of a tuple that has a leaf of it, and the number of the leaf there."""
    for operand in x.operands:
        count = _arrays(operand.shape)
        if leaf < count:
            return operand, leaf
        leaf -= count
    raise AssertionError("a tuple has its leaves from its operands")


def _kinds(state: Value) -> frozenset[tuple[int, Kind]]:
    """The leaves of a loop's state that are not finite, with what they have."""
    return frozenset(
        (leaf, kind)
        for leaf, array in enumerate(flattened(state))
        for kind in Kind
        if kind.within(np.asarray(array)) is not None
    )
