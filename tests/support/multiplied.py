"""Cases multiplied: functions whose values are known because a law leads from them to those of another function.

A `Function` is an HLO computation on arrays, with arguments and its `meaning`: the results for any arguments, computed
without this computation. At first the meaning is the compiled module itself, as the tests of its operations know it; a
law (`multiplied_laws.py`, `multiplied_jax.py`) makes another computation of it, and another meaning out of the first
one. So laws go one after another, and no other judge is needed: a batch is the stack of single runs, bit for bit
unless a sum's order may change.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import xla_wasm
from tests.programs.hunt_near import difference_from_true
from tests.support.batching import Leaf as _Leaf
from tests.support.batching import Unavailable, like, plain, put_together, taken_apart, unique
from tests.support.closeness import ulp_of
from tests.support.differential import TARGETS
from tests.support.multiplied_bounds import Moved
from tests.support.multiplied_bounds import at as moved_bounds
from xla_wasm.builder import Builder, module
from xla_wasm.errors import LimitError, OptionWarning
from xla_wasm.hlo.ir import Computation, Instruction, Module
from xla_wasm.hlo.signature import parameter_leaves
from xla_wasm.hlo.types import TYPES
from xla_wasm.ops.dtypes import Array
from xla_wasm.ops.exactness import Exactness, exactness
from xla_wasm.ops.reading import record

__all__ = ["Array", "Function", "Unavailable", "Way", "base", "judged"]

Meaning = Callable[[Sequence[Array]], list[Array]]
"""From arguments to the results that are right for them."""

SECONDS = 20
"""Seconds that one run may take."""
MOST_RUNS = 600
"""Runs of the first function that one case may need."""
UNITS = 64
"""Units in the last place of a result's greatest element that sums in another order may differ by without a closer
look."""


@dataclass(frozen=True)
class Batch:
    """Axes of a batch of this size: of arguments, None of those that are the same for all, and of results."""

    size: int
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class Function:
    """A computation from arrays to a tuple of arrays, arguments for it, and what it has to give."""

    computation: Computation
    arguments: tuple[Array, ...]
    meaning: Meaning
    runs: int = 1
    """Runs of the first function that the meaning makes."""
    rounded: bool = False
    """True if the meaning may round elementwise functions otherwise: it is not a compiled module's."""
    batch: Batch | None = None

    @cached_property
    def module(self) -> Module:
        return module("multiplied", self.computation)

    @property
    def parameters(self) -> list[Instruction]:
        return self.computation.parameters

    @property
    def results(self) -> list[Instruction]:
        return self.computation.root.operands

    def derived(self, computation: Computation, arguments: Sequence[Array], meaning: Meaning, runs: int) -> Function:
        """Another function whose meaning needs `runs` times this one's. Unavailable if these are too many."""
        if self.runs * runs > MOST_RUNS:
            raise Unavailable("too many runs")
        return Function(computation, tuple(arguments), meaning, self.runs * runs, self.rounded)


@dataclass(frozen=True)
class Way:
    """The way in which a function is compiled and run."""

    target: str = "simd128"
    weights: tuple[int, ...] = ()
    """Parameters that are set once."""
    state: tuple[tuple[int, int], ...] = ()
    """Parameters that keep what they hold from run to run, and the results that they become."""
    threads: bool = False
    permuted: bool = False
    """True if a batch is run a second time in another order."""
    bounds: Moved = ()
    """Bounds of fast paths that the compiler has elsewhere."""


def contiguous(a: Any) -> Array:
    """The array in row-major order, also one of no dimensions."""
    return np.asarray(a, order="C")


class Compiled:
    """A module compiled as its users would, with results that are remembered: the meaning of a first function."""

    def __init__(self, program: Module, target: str):
        artifact = xla_wasm.compile(program, xla_wasm.Options(**TARGETS[target]))
        self.executable = xla_wasm.load(artifact, timeout=_limit(program))
        self._known: dict[tuple[bytes, ...], list[Array]] = {}

    def __call__(self, arguments: Sequence[Array]) -> list[Array]:
        key = tuple(a.tobytes() for a in arguments)
        if key not in self._known:
            try:
                self._known[key] = list(self.executable.run(*arguments))
            except LimitError:
                raise Unavailable("the function itself does not end") from None
        return self._known[key]


def _limit(program: Module) -> float | None:
    """Seconds that a run may take; None if it has no loop, and so cannot go on for ever."""
    return SECONDS if any(x.opcode == "while" for x in program.instructions()) else None


def base(program: Module, arguments: Sequence[Array], meaning: Meaning, rounded: bool = False) -> Function:
    """The function of a module. Unavailable if it does more than compute arrays from arrays, or differently each
    time."""
    if program.replica_count * program.num_partitions > 1:
        raise Unavailable("the module is for several devices")
    for x in program.instructions():
        if x.attrs.keys() & {"replica_groups", "source_target_pairs"}:
            raise Unavailable(f"the module has {x.opcode}")
        called = x.opcode == "custom-call" and (x.attrs["custom_call_has_side_effect"] or program.callbacks)
        if called or record(x).effect or x.shape.is_dynamic or x.opcode in ("partition-id", "replica-id"):
            raise Unavailable(f"the module has {x.opcode}")
    b = Builder(unique("function"))
    shapes = [shape for p in program.entry.parameters for _, shape in p.shape.leaves()]
    rest = [_Leaf(b.parameter(number, plain(shape)), False) for number, shape in enumerate(shapes)]
    values = [put_together(b, like(p.shape, rest)) for p in program.entry.parameters]
    called = b.op("call", *values, called=[program.entry])
    results = taken_apart(b, called)
    if not results or any(not r.shape.is_array for r in results):
        raise Unavailable("the module has no results that are arrays")
    computation = b.build(b.op("tuple", *results))
    return Function(computation, tuple(map(np.asarray, arguments)), meaning, rounded=rounded)


# --- exactness --------------------------------------------------------------------------------------------------------


_STRUCTURE = frozenset("parameter call fusion while conditional tuple get-tuple-element opt-barrier domain map".split())
_INEXACT = ("float", "complex")


def _is_inexact(x: Instruction) -> bool:
    return any(TYPES[s.element_type].kind in _INEXACT for o in (x, *x.operands) for _, s in o.shape.leaves())


def bitwise(program: Module, target: str, rounded: bool) -> bool:
    """Returns True if the results of a module are the same bits whatever else stands around it (docs/numerics.md):
    without sums of floats, and on relaxed-simd, or if the meaning may round otherwise, without any rounding."""
    loose = rounded or target != "simd128"
    for x in program.instructions():
        if x.opcode in _STRUCTURE or not _is_inexact(x):
            continue
        kind = exactness(x)
        if kind is Exactness.SUMMED and x.called:
            steps = [y for y in x.called[-1].instructions if y.opcode != "parameter" and _is_inexact(y)]
            moved = all(exactness(y) is Exactness.EXACT for y in steps)
            kind = Exactness.EXACT if moved else Exactness.ROUNDED if x.opcode == "scatter" else kind
        if kind in (Exactness.SUMMED, Exactness.UNKNOWN) or (loose and kind is Exactness.ROUNDED):
            return False
    return True


# --- running and judging ----------------------------------------------------------------------------------------------


@dataclass
class Run:
    """The results of one run beside those that are right."""

    what: str
    arguments: list[Array]
    actual: list[Array]
    expected: list[Array]


def runs(f: Function, way: Way, choose: random.Random) -> list[Run]:
    """Compiles a function and runs it in that way."""
    options: dict[str, Any] = dict(TARGETS[way.target])
    if way.threads:
        options["threads"] = True
    names = [name for name, _ in parameter_leaves(f.module)]
    with warnings.catch_warnings(), moved_bounds(way.bounds):
        warnings.simplefilter("ignore", OptionWarning)  # that nothing is large enough for threads
        artifact = xla_wasm.compile(f.module, xla_wasm.Options(weights=way.weights, state=way.state, **options))
    executable = xla_wasm.load(artifact, timeout=_limit(f.module), threads=2 if way.threads else None)
    states = dict(way.state)
    kept = {*way.weights, *states}
    for place in kept:
        executable.set(names[place], f.arguments[place])
    given = [a for i, a in enumerate(f.arguments) if i not in kept]
    found: list[Run] = []
    arguments = [*f.arguments]
    for number in range(3 if states else 1):
        expected = f.meaning(arguments)
        outputs = iter(executable.run(*given))
        places = {result: place for place, result in states.items()}
        actual = [executable.get(names[places[r]]) if r in places else next(outputs) for r in range(len(expected))]
        found.append(Run(f"run {number + 1}" if states else "", [*arguments], actual, expected))
        for place, result in states.items():
            arguments[place] = expected[result]
    if way.permuted and f.batch and not kept:
        found.append(_permuted(f, f.batch, executable, found[0], choose))
    return found


def _permuted(f: Function, batch: Batch, executable: Any, first: Run, choose: random.Random) -> Run:
    """The batch in another order has its results in that order."""
    order = choose.sample(range(batch.size), batch.size)
    arguments = [
        a if axis is None else contiguous(np.take(a, order, axis)) for a, axis in zip(f.arguments, batch.inputs)
    ]
    actual = list(executable.run(*arguments))
    expected = [contiguous(np.take(a, order, axis)) for a, axis in zip(first.actual, batch.outputs, strict=True)]
    return Run("in another order", arguments, actual, expected)


def judged(f: Function, way: Way, choose: random.Random) -> str:
    """Runs a function and returns what is wrong with its results, "" if nothing is."""
    exact = bitwise(f.module, way.target, f.rounded)
    for run in runs(f, way, choose):
        if message := _difference(f, run, exact):
            return ": ".join(filter(None, (run.what, message)))
    return ""


def _difference(f: Function, run: Run, exact: bool) -> str:
    message = ""
    for number, (x, y) in enumerate(zip(run.actual, run.expected, strict=True)):
        if x.dtype != y.dtype or x.shape != y.shape:
            return f"result {number} is {x.dtype}{list(x.shape)}, expected {y.dtype}{list(y.shape)}"
        wrong = differing(x, y, exact)
        if np.any(wrong):
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            message = (
                f"result {number}: {int(np.sum(wrong))} of {wrong.size} elements; at {list(at)} {x[at]}, "
                f"expected {y[at]}"
            )
            break
    if not message or exact:
        return message
    # Rounding may have led further than usual, or decided a comparison: the true values tell.
    return difference_from_true(f.module, run.arguments, run.actual, [run.expected])


def differing(x: Array, y: Array, exact: bool) -> Array:
    """A mask of the elements that differ by more than they may: zeros have one sign if results are exact."""
    with np.errstate(all="ignore"):
        same: Array = (x == y) | ((x != x) & (y != y))
        if x.dtype.kind in "fV" and exact and x.dtype.itemsize > 1:
            same &= (x != 0) | (np.signbit(x) == np.signbit(y))
        if exact or np.all(same) or (x.dtype.kind not in "fcV"):
            return ~same
        wide = np.complex128 if x.dtype.kind == "c" else np.float64
        p, q = x.astype(wide), y.astype(wide)
        scale = np.array(float(np.max(np.abs(q), initial=0, where=np.isfinite(q))))
        return ~(same | (np.abs(p - q) <= UNITS * float(ulp_of(scale, np.zeros(1, x.dtype).real.dtype))))
