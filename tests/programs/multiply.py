"""Cases multiplied: functions of all kinds, made into larger ones by laws that say what these give, and compiled and
run in all ways.

    python -m tests.programs.multiply --seed 1 --count 100000 --jobs 2
    python -m tests.programs.multiply --feed samples --law batched --count 2000
    python -m tests.programs.multiply --folder cases/ --count 2000

Each seed is a function of a feed, compiled for a target, and four cases of it: one or more laws with a size for each,
and perhaps weights, a state, threads, or bounds of fast paths that lie elsewhere. Any seeds are a fair sample of all. A
finding is printed with its seed, the laws that are needed for it, and the smallest module that was found for it.
`tests/support/multiplied.py` explains the judgement.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from types import FrameType

import numpy as np

import xla_wasm
from tests.programs.hunt_reduce import fewer_instructions
from tests.support import multiplied_bounds, multiplied_feeds, multiplied_jax
from tests.support.batching import written_out
from tests.support.differential import TARGETS
from tests.support.multiplied import Array, Compiled, Function, Unavailable, Way, base, bitwise, differing, judged
from tests.support.multiplied_laws import LARGE, LAWS, SIZES, following
from tests.support.multiplied_sizes import SIZES as NEW_SIZES
from tests.support.multiplied_sizes import resized
from xla_wasm.builder import module as module_of
from xla_wasm.errors import LimitError, UnsupportedError, XlaWasmError
from xla_wasm.hlo.ir import Module
from xla_wasm.reference import evaluate

FEEDS = {"samples": 8, "catalogue": 4, "jax": 3, "golden": 3, "writer": 3, "family": 2, "programs": 0.2}
"""Feeds, and how often one is drawn beside the others."""
FIRST = {"batched": 8, "resized": 3, "placed": 2, "scanned": 2, "iterated": 1, "branched": 1, "doubled": 1}
FIRST_OF_JAX = {"vmapped": 8, "gradients": 3, "tangents": 3} | FIRST
"""Laws, and how often one comes first."""
THEN = {"batched": 4, "placed": 3, "scanned": 2, "iterated": 1, "branched": 1, "doubled": 1}
"""Laws that may follow."""
WAYS = ("simd128", "simd128", "relaxed-simd", "relaxed-simd for v8")
SECONDS = 60
"""Seconds that one case may take."""
CASES = 4
"""Cases of one seed, which have one function."""
MOST_ATTEMPTS = 10
"""Draws for one case: many laws do not apply to many functions."""
SECONDS_TO_REDUCE = 30


@dataclass(frozen=True)
class Step:
    """One law, with the seed of its choices and a size; 0 where it has none."""

    law: str
    seed: int
    size: int

    def __str__(self) -> str:
        return f"{self.law} {self.size}" if self.size else self.law


@dataclass(frozen=True)
class Plan:
    """A case: everything about it."""

    feed: str
    number: int
    steps: tuple[Step, ...]
    seed: int
    target: str = "simd128"
    weights: bool = False
    state: bool = False
    threads: bool = False
    permuted: bool = True
    bounds: multiplied_bounds.Moved = ()

    def __str__(self) -> str:
        flags = [name for name in ("weights", "state", "threads") if getattr(self, name)]
        flags += [multiplied_bounds.described(self.bounds)] if self.bounds else []
        return ", ".join([f"{self.feed} {self.number}", *map(str, self.steps), self.target, *flags])


@dataclass(frozen=True)
class Finding:
    """A fault of a case."""

    kind: str
    message: str


@dataclass
class Tally:
    """Counts of what was done."""

    cases: Counter[str] = field(default_factory=Counter)
    unavailable: Counter[str] = field(default_factory=Counter)
    findings: Counter[str] = field(default_factory=Counter)
    told: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        for name in ("cases", "unavailable", "findings"):
            getattr(self, name).update(getattr(other, name))


# --- cases ------------------------------------------------------------------------------------------------------------


@cache
def _folder(path: str) -> multiplied_feeds.Feed:
    return multiplied_feeds.folder(Path(path))


def _weighted(choose: random.Random, weights: Mapping[str, float]) -> str:
    return choose.choices(list(weights), list(weights.values()))[0]


def _number(feed: str, choose: random.Random, folder: str) -> int:
    """A function of a feed; of samples, each operation as often as any other."""
    if feed == "samples":
        numbers = choose.choice(multiplied_feeds.samples_by_operation())
        return choose.choice(numbers)
    if feed == "folder":
        return choose.randrange(_folder(folder).count)
    if feed in multiplied_jax.JAX_FEEDS:
        return choose.randrange(1 << 12)  # some come again, with other laws
    return choose.randrange(min(multiplied_feeds.feeds()[feed].count, 1 << 16))


def _size(law: str, choose: random.Random, large: bool) -> int:
    if law == "resized":
        return choose.choice((0, *NEW_SIZES))
    if law == "tangents":
        return choose.choice((0, 0, 3, 9))
    if law in ("batched", "vmapped", "gradients"):
        return choose.choice(LARGE if large else (*SIZES, *SIZES, *LARGE[:2], choose.choice(LARGE)))
    return choose.choice(SIZES) if law == "scanned" else 0


def drawn_function(seed: int, attempt: int, feeds: Sequence[str], folder: str = "") -> Plan:
    """The function of a seed, of `feeds` if there are any, and its target: the first attempt, or a later one."""
    choose = random.Random(f"{seed} {attempt}")
    feed = _weighted(choose, {name: FEEDS.get(name, 1) for name in feeds or FEEDS})
    return Plan(feed, _number(feed, choose, folder), (), 0, choose.choice(WAYS))


def drawn(function: Plan, seed: str, laws: Sequence[str]) -> Plan:
    """A case of a function: laws, of which the first is one of `laws` if there are any, and the way to run it."""
    choose = random.Random(seed)
    first = FIRST_OF_JAX if function.feed in multiplied_jax.JAX_FEEDS else FIRST
    chosen = {name: weight for name, weight in first.items() if not laws or name in laws}
    if not chosen:
        raise Unavailable(f"{function.feed} has no such law")
    threads = choose.random() < 0.12
    names = [_weighted(choose, chosen)]
    while len(names) < 3 and choose.random() < 0.35 and names[0] != "tangents":
        names.append(_weighted(choose, THEN))
    steps = tuple(Step(name, choose.randrange(1 << 30), _size(name, choose, threads)) for name in names)
    return replace(
        function,
        steps=steps,
        seed=choose.randrange(1 << 30),
        weights=choose.random() < 0.15,
        state=choose.random() < 0.15,
        threads=threads,
        permuted=choose.random() < 0.3,
        bounds=_bounds(choose),
    )


def _bounds(choose: random.Random) -> multiplied_bounds.Moved:
    """As they are, or half of them where small cases take the paths of large ones, or a few anywhere."""
    kind = choose.random()
    return (
        multiplied_bounds.some(choose, 0.5, True)
        if kind < 0.2
        else multiplied_bounds.some(choose, 0.1)
        if kind < 0.35
        else ()
    )


def _first(plan: Plan, folder: str) -> Function:
    if plan.feed in multiplied_jax.JAX_FEEDS:
        return multiplied_jax.function(plan.feed, plan.number, plan.target)
    feed = _folder(folder) if plan.feed == "folder" else multiplied_feeds.feeds()[plan.feed]
    return feed.function(plan.number, plan.target)


def _resized(f: Function, choose: random.Random, size: int, target: str, last: bool) -> Function:
    module, arguments = resized(f.module, [*f.arguments], choose, size)
    if last:  # no law tells its values
        return base(module, arguments, lambda arguments: evaluate(module, *arguments), rounded=True)
    return base(module, arguments, Compiled(module, target))


def built(plan: Plan, folder: str = "") -> Function:
    """The function of a case. Raises Unavailable."""
    f: Function | None = None
    for place, step in enumerate(plan.steps):
        choose = random.Random(step.seed)
        if step.law in multiplied_jax.JAX_LAWS:
            f = multiplied_jax.JAX_LAWS[step.law](plan.feed, plan.number, plan.target, choose, step.size)
            continue
        f = f or _first(plan, folder)
        if step.law == "resized":
            f = _resized(f, choose, step.size, plan.target, place == len(plan.steps) - 1)
        else:
            f = LAWS[step.law](f, choose, step.size)
    return f or _first(plan, folder)


def way_of(plan: Plan, f: Function) -> Way:
    """The way to run a case: which arguments are weights and states."""
    choose = random.Random(plan.seed)
    weights = [i for i in range(len(f.arguments)) if plan.weights and choose.random() < 0.5]
    state = [(p, r) for p, r in (following(f, choose) if plan.state else ()) if p not in weights]
    return Way(plan.target, tuple(weights), tuple(state), plan.threads, plan.permuted, plan.bounds)


def outcome(plan: Plan, folder: str = "") -> Finding | None:
    """Builds, compiles and runs a case. Raises Unavailable."""
    try:
        with np.errstate(all="ignore"):
            choose = random.Random(plan.seed)
            if plan.steps and plan.steps[0].law == "tangents":
                step = plan.steps[0]
                way = Way(plan.target)
                message = multiplied_jax.tangents(plan.feed, plan.number, way, random.Random(step.seed), step.size)
            else:
                f = built(plan, folder)
                message = judged(f, way_of(plan, f), choose)
    except Unavailable:
        raise
    except Exception as error:
        return Finding(_kind(error), _place(error))
    return Finding("wrong value", message) if message else None


def _kind(error: Exception) -> str:
    if isinstance(error, LimitError):
        return "no end"
    if isinstance(error, UnsupportedError):
        return "not supported"
    return "error" if isinstance(error, XlaWasmError) else "internal error"


def _place(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    at = next((f for f in frames[::-1] if "xla_wasm/" in f.filename or "tests/" in f.filename), frames[-1])
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__} in {Path(at.filename).name}:{at.name}: {text}"


class _Late(BaseException):
    """Not an Exception, which what is judged might catch."""


def _stop(number: int, frame: FrameType | None) -> None:
    raise _Late(f"no end after {SECONDS} s")


def timed(plan: Plan, folder: str = "") -> Finding | None:
    """`outcome`, with an end: a case that takes too long is a finding."""
    signal.signal(signal.SIGALRM, _stop)
    signal.alarm(SECONDS)
    try:
        return outcome(plan, folder)
    except _Late as late:
        return Finding("no end", str(late))
    finally:
        signal.alarm(0)


# --- findings made small ----------------------------------------------------------------------------------------------


def _simpler(plan: Plan) -> Iterator[Plan]:
    for i in range(len(plan.steps)):
        yield replace(plan, steps=plan.steps[:i] + plan.steps[i + 1 :])
    yield from (
        other
        for other in (
            replace(plan, weights=False),
            replace(plan, state=False),
            replace(plan, threads=False),
            replace(plan, permuted=False),
            replace(plan, bounds=()),
            *(replace(plan, bounds=plan.bounds[:i] + plan.bounds[i + 1 :]) for i in range(len(plan.bounds))),
        )
        if other != plan
    )
    if plan.target != "simd128":
        yield replace(plan, target="simd128")
    for i, step in enumerate(plan.steps):
        for size in sorted(s for s in {*SIZES, *LARGE} if 0 < s < step.size):
            yield replace(plan, steps=(*plan.steps[:i], replace(step, size=size), *plan.steps[i + 1 :]))


def least(plan: Plan, kind: str, folder: str = "") -> Plan:
    """The simplest case that fails in the same way."""
    end = time.monotonic() + SECONDS_TO_REDUCE
    changed = True
    while changed and time.monotonic() < end:
        changed = False
        for candidate in _simpler(plan):
            try:
                found = timed(candidate, folder)
            except Unavailable:
                continue
            if found and found.kind == kind:
                plan, changed = candidate, True
                break
    return plan


def _fails(
    module: Module, arguments: list[Array], target: str, kind: str, bounds: multiplied_bounds.Moved = ()
) -> bool:
    """Returns True if a module fails in that way by itself: a value is wrong if the evaluator gives another."""
    try:
        expected = evaluate(module, *arguments)
    except Exception:
        return False
    try:
        with multiplied_bounds.at(bounds):
            artifact = xla_wasm.compile(module, xla_wasm.Options(**TARGETS[target]))
        actual = xla_wasm.load(artifact).run(*arguments)
    except Exception as error:
        return _kind(error) == kind
    exact = bitwise(module, target, True)
    wrong = any(np.any(differing(x, np.asarray(y), exact)) for x, y in zip(actual, expected, strict=True))
    return wrong and kind == "wrong value"


def shown(plan: Plan, kind: str, folder: str = "") -> str:
    """The module of a case and its arguments; made smaller, if it fails without the law, too."""
    if plan.steps and plan.steps[0].law == "tangents":
        return ""
    try:
        f = built(plan, folder)
    except Exception:
        return ""
    try:
        computation = written_out(f.computation)
    except Unavailable:  # it calls what has an effect
        computation = f.computation
    module, arguments = module_of("multiplied", computation), [*f.arguments]
    way = way_of(plan, f)
    if not (way.weights or way.state or way.threads) and _fails(module, arguments, plan.target, kind, plan.bounds):
        module, arguments = fewer_instructions(
            module, arguments, lambda m, a: _fails(m, a, plan.target, kind, plan.bounds), SECONDS_TO_REDUCE
        )
    lines = [f"// {way}"]
    lines += [
        f"// argument {i}: {a.dtype}{list(a.shape)} {a.tolist() if a.size <= 100 else '...'}"
        for i, a in enumerate(arguments)
    ]
    return "\n".join([*lines, module.to_text(large_constants=module_is_small(module))])


def module_is_small(module: Module) -> bool:
    return all(x.shape.size <= 200 for x in module.instructions() if x.opcode == "constant")


# --- many cases -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Request:
    """Seeds to be tried, and among what."""

    seeds: tuple[int, ...]
    feeds: tuple[str, ...] = ()
    laws: tuple[str, ...] = ()
    folder: str = ""
    reduce: bool = True


def tried(request: Request) -> Tally:
    """Tries the cases of some seeds."""
    os.environ.setdefault("XLA_WASM_VERIFY", "1")  # every kernel is checked
    tally = Tally()
    for seed in request.seeds:
        function = _available(seed, request, tally)
        if function is None:
            continue
        for case in range(CASES):
            for attempt in range(MOST_ATTEMPTS):
                try:
                    plan = drawn(function, f"{seed} {case} {attempt}", request.laws)
                    found = timed(plan, request.folder)
                except Unavailable as error:
                    tally.unavailable[str(error)] += 1
                    continue
                tally.cases.update(_names(plan))
                if found:
                    tally.findings[found.kind] += 1
                    tally.told.append(_told(seed, plan, found, request))
                break
    return tally


def _available(seed: int, request: Request, tally: Tally) -> Plan | None:
    """The function of a seed, which the laws may take."""
    for attempt in range(MOST_ATTEMPTS):
        function = drawn_function(seed, attempt, request.feeds, request.folder)
        try:
            with np.errstate(all="ignore"):
                _first(function, request.folder)
            return function
        except Unavailable as error:
            tally.unavailable[str(error)] += 1
        except Exception as error:
            tally.findings[_kind(error)] += 1
            tally.told.append(_told(seed, function, Finding(_kind(error), _place(error)), request))
            return None
    return None


def _names(plan: Plan) -> list[str]:
    """The names under which a case is counted."""
    names = ["cases", f"feed {plan.feed}", f"target {plan.target}", *{f"law {step.law}" for step in plan.steps}]
    return names + [f"way {name}" for name in ("weights", "state", "threads", "bounds") if getattr(plan, name)]


def _told(seed: int, plan: Plan, found: Finding, request: Request) -> str:
    again = f"python -m tests.programs.multiply --seed {seed} --count 1"
    again += "".join(f" --feed {name}" for name in request.feeds if name != "folder")
    again += "".join(f" --law {name}" for name in request.laws)
    again += f" --folder {request.folder}" if request.folder else ""
    lines = [f"seed {seed}: {found.kind}: {plan}: {found.message}", f"  again: {again}"]
    if request.reduce:
        small = least(plan, found.kind, request.folder)
        lines += [f"  with less: {small}", shown(small, found.kind, request.folder)]
    return "\n".join(lines)


def _blocks(seeds: range, size: int) -> Iterator[tuple[int, ...]]:
    rest = iter(seeds)
    while block := tuple(islice(rest, size)):
        yield block


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="the first seed (1)")
    parser.add_argument("--count", type=int, default=1000, help="how many seeds (1000), of four cases each")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no more cases after so long")
    parser.add_argument("--feed", action="append", default=[], choices=list(FEEDS), help="one feed; may be repeated")
    parser.add_argument(
        "--law", action="append", default=[], choices=list(FIRST_OF_JAX), help="the first law; may be repeated"
    )
    parser.add_argument("--folder", default="", help="a folder of modules, as a feed beside those named by --feed")
    parser.add_argument("--jobs", type=int, default=1, help="processes (1)")
    parser.add_argument("--as-found", action="store_true", help="do not make findings smaller")
    options = parser.parse_args()
    feeds = (*options.feed, *(["folder"] if options.folder else []))
    start = told = time.monotonic()
    whole = Tally()
    requests = (
        Request(block, feeds, tuple(options.law), options.folder, not options.as_found)
        for block in _blocks(range(options.seed, options.seed + options.count), 20)
    )
    for tally in _results(requests, options.jobs, start + options.seconds):
        whole.add(tally)
        for text in tally.told:
            print(text, flush=True)
        now = time.monotonic()
        if now - told > 30:
            told = now
            done = whole.cases["cases"]
            print(f"... {done} cases, {done / (now - start):.1f} a second, {_sum(whole.findings)} findings", flush=True)
    seconds = time.monotonic() - start
    done = whole.cases.pop("cases", 0)
    print(f"{done} cases in {seconds:.0f} s, {done / seconds:.1f} a second; {_sum(whole.findings)} findings")
    for name, count in sorted(whole.cases.items()):
        print(f"{count:8} {name}")
    for kind, count in whole.findings.most_common():
        print(f"{count:8} findings: {kind}")
    print(f"{_sum(whole.unavailable)} draws that gave no case, most of all:")
    for reason, count in whole.unavailable.most_common(15):
        print(f"{count:8} {reason}")
    sys.exit(bool(whole.findings))


def _sum(counts: Counter[str]) -> int:
    return sum(counts.values())


def _results(requests: Iterator[Request], jobs: int, end: float) -> Iterator[Tally]:
    """The tally of each request, in the order in which they are done."""
    if jobs == 1:
        for request in requests:
            if time.monotonic() > end:
                return
            yield tried(request)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        pending = [pool.submit(tried, request) for request in islice(requests, 2 * jobs)]
        while pending:
            yield pending.pop(0).result()
            if time.monotonic() < end:
                pending += [pool.submit(tried, request) for request in islice(requests, 1)]


if __name__ == "__main__":
    main()
