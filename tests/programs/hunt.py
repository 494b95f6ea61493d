"""A hunt for wrong values and internal errors: random programs, compiled and run, judged by the reference evaluator and
by XLA:CPU.

    python -m tests.programs.hunt family --seed 1 --count 100000
    python -m tests.programs.hunt writer --seed 1 --count 20000
    python -m tests.programs.hunt jax --seed 1 --count 20000
    python -m tests.programs.hunt batched --seed 1 --count 20000
    python -m tests.programs.hunt updates --seed 1 --count 20000

Each seed is one program, so a hunt goes on where it ended with the next seed. A failure is printed with its seed and
its kind, and the smallest case that was found for it is written to the folder `--out`, as HLO text with its arguments.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import numpy as np

from tests.programs.hunt_near import difference_from_true
from tests.programs.hunt_reduce import Choices, fewer_choices, fewer_instructions
from tests.programs.hunt_xla import Xla
from tests.support import differential
from tests.support.random_batched import draw_batched
from tests.support.random_family import draw_family
from tests.support.random_jax import draw_jax
from tests.support.random_updates import draw_updates
from tests.support.random_values import Draw
from tests.support.random_writer import draw_writer
from xla_wasm.errors import OptionWarning, UnsupportedError, XlaWasmError
from xla_wasm.hlo.ir import Module
from xla_wasm.hlo.signature import parameter_leaves, result_leaves
from xla_wasm.loop import pieces
from xla_wasm.lowering import kernel_writer
from xla_wasm.ops.dtypes import Array
from xla_wasm.passes import reductions
from xla_wasm.plan import moves, order
from xla_wasm.reference import evaluate
from xla_wasm.target import PORTABLE, TUNES

TARGETS = ("simd128", "relaxed-simd")
SECONDS = 20
"""Seconds that one program may take."""
ROUGHLY = 0.02
"""The tolerance for what is left of a program when instructions are taken away: it need not be exact any more."""
MOST_REDUCED = 3
"""Failures of one kind and one place that are made small; more are only told."""


@dataclass(frozen=True)
class Case:
    """A program, its arguments and how it is compiled. Its results are exact (or, with a tolerance, right to within
    that share of their greatest element), or as near to the true ones as rounding lets them be."""

    module: Module
    arguments: list[Array]
    target: str = "simd128"
    weights: tuple[int, ...] = ()
    state: tuple[tuple[int, int], ...] = ()
    """Parameters that keep what they hold from run to run, and the results that they become."""
    exact: bool = True
    tolerance: float = 0
    tune: str = PORTABLE
    threads: bool = False
    moves: bool = False
    """True if small parts of arrays are moved by copies, and kernels for small states, too, as for large ones."""


@dataclass(frozen=True)
class Failure:
    """A failure: its kind, its place (for errors), and the message."""

    kind: str
    place: str
    message: str


def draw_case(kind: str, choose: Callable[[int, int], int], target: str = "") -> Case:
    """The case that choices give."""
    draw = Draw(choose)
    drawn = draw.pick(TARGETS)
    weigh = draw.chance(4)
    module, arguments = DRAW[kind](draw)
    weights = draw.subset(range(len(arguments))) if weigh else ()
    state = _state(draw, module, weights) if draw.chance(4) else ()
    tune, threads, moved = draw.pick(TUNES), draw.chance(6), draw.chance(2)
    return Case(
        module, arguments, target or drawn, weights, state, kind != "jax", tune=tune, threads=threads, moves=moved
    )


def _state(draw: Draw, module: Module, weights: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Pairs of parameters and results that are alike."""
    before, after = (
        [shape.without_layout() for _, shape in leaves(module)] for leaves in (parameter_leaves, result_leaves)
    )
    pairs: list[tuple[int, int]] = []
    for i, shape in enumerate(before):
        free = [r for r, other in enumerate(after) if other == shape and r not in [taken for _, taken in pairs]]
        if free and i not in weights and draw.chance(2):
            pairs.append((i, draw.pick(free)))
    return tuple(pairs)


DRAW: dict[str, Callable[[Draw], tuple[Module, list[Array]]]] = {
    "family": draw_family,
    "writer": draw_writer,
    "jax": draw_jax,
    "batched": draw_batched,
    "updates": draw_updates,
}


XLA = Xla()
UNJUDGED: Counter[str] = Counter()
"""Reasons for which XLA:CPU gave no results, counted."""


# --- judging ----------------------------------------------------------------------------------------------------------


def judge(case: Case, memory: bool = False, xla: bool = False) -> Failure | None:
    """Compiles and runs a case, and returns its failure; None if nothing is wrong. Its results are compared with those
    of the evaluator, given `xla` with those of XLA:CPU too; `memory` also checks its accesses to memory."""
    try:
        expected = evaluated(case)
    except Exception as error:
        return _failure("evaluator", error)
    try:
        actual = run(case)
    except UnsupportedError as error:
        return _failure("not supported", error)
    except Exception as error:
        return _failure("error" if isinstance(error, XlaWasmError) else "internal error", error)
    told = len(expected) > len(result_leaves(case.module))
    judged = xla and not told and not case.module.entry.root.shape.is_dynamic
    second = XLA.run(case.module, case.arguments) if judged else []
    if isinstance(second, str):
        UNJUDGED[re.sub("[0-9]+", "0", second)[:60]] += 1
        second = []
    if not case.exact:
        message = difference_from_true(case.module, case.arguments, actual, [second] if second else [])
    else:
        message = difference(actual, expected, case.tolerance)
    if message:
        return Failure("wrong value", "", message)
    if memory and (failure := _walk(case)):
        return failure
    message = difference(actual, second, case.tolerance) if second and case.exact else ""
    return Failure("XLA:CPU differs", "", message) if message else None


def evaluated(case: Case) -> list[Array]:
    """The results of the evaluator, and what goes to the host."""
    outfeed: list[Any] = []
    return [*evaluate(case.module, *case.arguments, outfeed=outfeed), *outfeed]


def run(case: Case) -> list[Array]:
    """The results of the compiled module when it runs for the second time, on memory that holds what the first run
    left, and what this run puts out. Threads share the smallest kernels, too."""
    options: dict[str, Any] = {"target": case.target, "tune": case.tune, "threads": case.threads}
    outfeed: list[Any] = []
    with ExitStack() as changed:
        if case.threads:
            for module, name, least in ((pieces, "_CHUNK", 1), (kernel_writer, "_CALL", 1), (reductions, "_LEAST", 4)):
                changed.enter_context(patch.object(module, name, least))
        if case.moves:
            changed.enter_context(patch.object(moves, "_LEAST", 1))
            changed.enter_context(patch.object(order, "SMALL", 0))
        changed.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore", OptionWarning)  # none is shared
        return [
            *differential.run(
                case.module,
                *case.arguments,
                weights=case.weights,
                state=case.state,
                times=2,
                outfeed=outfeed,
                **options,
            ),
            *outfeed,
        ]


def difference(actual: list[Array], expected: list[Array], tolerance: float = 0) -> str:
    """Returns the first difference of results that is more than this share of the greatest element, in words; ""
    without one."""
    if len(actual) != len(expected):
        return f"{len(actual)} results and items put out, expected {len(expected)}"
    for number, (found, wanted) in enumerate(zip(actual, expected)):
        if found.dtype != wanted.dtype or found.shape != wanted.shape:
            return f"result {number} is {found.dtype}{list(found.shape)}, expected {wanted.dtype}{list(wanted.shape)}"
        same = (found == wanted) | ((found != found) & (wanted != wanted))
        if tolerance and not np.all(same):
            x, y = (a.astype(np.complex128 if a.dtype.kind == "c" else np.float64) for a in (found, wanted))
            with np.errstate(all="ignore"):
                same |= abs(x - y) <= tolerance * np.max(abs(y), initial=0, where=np.isfinite(y))
        if not np.all(same):
            at = tuple(int(i) for i in np.argwhere(~same)[0])
            return (
                f"result {number}: {int(np.sum(~same))} of {same.size} elements; at {list(at)} {found[at]}, "
                f"expected {wanted[at]}"
            )
    return ""


def _walk(case: Case) -> Failure | None:
    """The memory plan, walked step by step."""
    from tests.support.memory_walk import check, planned

    try:
        state = dict(case.state)
        check(planned(case.module, case.weights, state), state)
    except Exception as error:
        return _failure("memory", error)
    return None


def _failure(kind: str, error: Exception) -> Failure:
    frames = traceback.extract_tb(error.__traceback__)
    at = next((f for f in frames[::-1] if "xla_wasm" in f.filename), frames[-1])
    return Failure(
        kind, f"{type(error).__name__} in {Path(at.filename).name}:{at.name}", " ".join(str(error).split())[:300]
    )


class _Late(BaseException):
    """Not an Exception, which what is judged might catch."""


def _stop(number: int, frame: FrameType | None) -> None:
    raise _Late(f"no end after {SECONDS} s")


# --- hunting ----------------------------------------------------------------------------------------------------------


class Hunt:
    """Judges one case after the other, and makes those that fail small."""

    def __init__(self, options: argparse.Namespace):
        self.options = options
        self.found: Counter[tuple[str, str]] = Counter()
        self.undrawn = 0
        self.seed = 0

    def outcome(self, case: Case) -> Failure | None:
        memory, xla = (bool(n) and self.seed % n == 0 for n in (self.options.memory, self.options.xla))
        signal.alarm(SECONDS)
        try:
            return judge(case, memory, xla)
        except _Late as late:
            return Failure("no end", "", str(late))
        finally:
            signal.alarm(0)

    def drawn(self, choose: Choices) -> Case:
        return draw_case(self.options.kind, choose, self.options.target)

    def one(self, seed: int) -> None:
        self.seed = seed
        choices = Choices(f"{self.options.kind} {seed}")
        try:
            case = self.drawn(choices)
        except Exception as error:
            print(
                f"seed {seed}: nothing drawn: {type(error).__name__} {' '.join(str(error).split())[:200]}", flush=True
            )
            self.undrawn += 1
            return
        failure = self.outcome(case)
        if failure is None:
            return
        key = (failure.kind, failure.place)
        self.found[key] += 1
        print(f"seed {seed}: {failure.kind}: {failure.place} {failure.message}", flush=True)
        if self.found[key] <= self.options.reduce:
            self.write(seed, failure, *self.reduced(choices.made, key))

    def reduced(self, made: list[int], key: tuple[str, str]) -> tuple[Case, Failure | None]:
        """The smallest case that fails in the same way."""

        def same(case: Case) -> bool:
            failure = self.outcome(case)
            return failure is not None and (failure.kind, failure.place) == key

        def fails(made: list[int]) -> bool:
            try:
                return same(self.drawn(Choices(again=made)))
            except Exception:  # choices that give no program
                return False

        least = self.drawn(Choices(again=fewer_choices(made, fails, self.options.seconds_to_reduce)))

        def roughly(module: Module, arguments: list[Array]) -> Case:
            return replace(least, module=module, arguments=arguments, weights=(), state=(), tolerance=ROUGHLY)

        def fails_too(module: Module, arguments: list[Array]) -> bool:
            try:
                return same(roughly(module, arguments))
            except Exception:
                return False

        if fails_too(least.module, least.arguments):
            module, arguments = fewer_instructions(
                least.module, least.arguments, fails_too, self.options.seconds_to_reduce
            )
            least = roughly(module, arguments)
        return least, self.outcome(least)

    def write(self, seed: int, first: Failure, case: Case, failure: Failure | None) -> None:
        failure = failure or first
        path = (
            Path(self.options.out) / f"{self.options.kind}-{seed}-{failure.kind.replace(' ', '-').replace(':', '')}.hlo"
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [
            f"// {failure.kind}: {failure.place} {failure.message}",
            f"// target {case.target}, tune {case.tune}, threads {case.threads}, moves {case.moves}",
            f"// weights {list(case.weights)}, state {list(case.state)}",
        ]
        lines += [f"// argument {i}: {a.dtype} {a.tolist()}" for i, a in enumerate(case.arguments)]
        path.write_text("\n".join(lines) + "\n" + case.module.to_text())
        print(f"  {path}: {len(list(case.module.entry.instructions))} instructions", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=sorted(DRAW))
    parser.add_argument("--seed", type=int, default=1, help="of the first program (1)")
    parser.add_argument("--count", type=int, default=1000, help="how many programs (1000)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--target", choices=TARGETS, default="", help="one target; else either by chance")
    parser.add_argument("--out", default="dist/hunt", help="the folder for what is found (dist/hunt)")
    parser.add_argument(
        "--memory", type=int, default=0, metavar="N", help="walk through the memory plan of every Nth program, too"
    )
    parser.add_argument("--xla", type=int, default=0, metavar="N", help="have every Nth program judged by XLA:CPU, too")
    parser.add_argument(
        "--reduce", type=int, default=MOST_REDUCED, help=f"how many failures of a kind are made small ({MOST_REDUCED})"
    )
    parser.add_argument("--seconds-to-reduce", type=float, default=30, help="time for that, twice (30)")
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, _stop)
    os.environ.setdefault("XLA_WASM_VERIFY", "1")  # every kernel is checked
    hunt = Hunt(options)
    start = told = time.monotonic()
    done = 0
    for seed in range(options.seed, options.seed + options.count):
        hunt.one(seed)
        done += 1
        now = time.monotonic()
        if now - told > 30:
            told = now
            print(
                f"... to seed {seed}: {done / (now - start):.1f} a second, {sum(hunt.found.values())} failures",
                flush=True,
            )
        if now - start > options.seconds:
            break
    failures = f"{sum(hunt.found.values())} failures, {hunt.undrawn} not drawn"
    print(f"{done} programs of {options.kind}, seeds {options.seed} to {options.seed + done - 1}: {failures}")
    for reason, count in UNJUDGED.most_common():
        print(f"{count:6} not judged by XLA:CPU: {reason}")
    for (kind, place), count in hunt.found.most_common():
        print(f"{count:6} {kind} {place}")
    XLA.close()
    sys.exit(bool(hunt.found))


if __name__ == "__main__":
    main()
