"""The command `xla-wasm check`: the compiled module against the reference evaluator, and which instruction is to
blame."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .. import files, reference
from ..command import report
from ..command.inputs import filled, given_inputs
from ..command.running import Files
from ..compiler import compile
from ..dataclass import dataclass, replace
from ..errors import ArgumentError, LimitError, RunError, UnsupportedError, counted, visible
from ..hlo.ir import Instruction, Module
from ..host.arrays import Array
from ..host.executor import Executable, load
from ..options import Options
from ..target import PORTABLE, SIMD128
from . import compare
from .draws import ATTEMPTS, KINDS, Draw, Drawing, MadeUpHost
from .excerpt import Verdict, compiled, grown_tolerance, tolerance_in
from .isolate import Finding, isolate
from .nonfinite import Origin, find_origin

if TYPE_CHECKING:
    from ..command.check_options import Devices, Given, Search

Growth = Callable[[], Callable[[int, Array], compare.Tolerance]]

SHOWN = 8
"""Elements that differ, shown both ways."""
_MOST_TRIPS = 5_000
"""After so many trips of its loops, a program that arguments steer is tried with others."""
_MOST_SECONDS = 5.0
"""A draw that nobody asked for is not begun if all would take longer."""


def check(
    console: Console,
    module: Module,
    options: Options,
    own: Given,
    tolerance: float | None,
    search: Search,
    grid: Devices,
    facts: dict[str, Any] | None = None,
) -> bool:
    """Prints how results compare on several draws of arguments and, if they are searched, the first instruction that
    differs. Returns whether all agree. Each device has arguments of its own. `facts` gets the same as what JSON has.
    """
    facts = {} if facts is None else facts
    trial = _Trial(module, options, own, grid)
    if (search.isolate or search.nan) and trial.devices > 1:
        raise UnsupportedError(
            f"{module.name} runs on {counted(trial.devices, 'device')}, and {'--nan' if search.nan else '--isolate'} "
            "runs single instructions on one; without it, check shows on which devices results differ"
        )
    if search.nan:
        return _is_finite(console, module, options, trial, Draw(0, own.seed), facts)
    compared = _Comparison(module, tolerance)
    wanted = (own.draws or len(KINDS)) if trial.draws_any else 1
    began, first, failed = time.perf_counter(), None, False
    for number in range(wanted):
        took = time.perf_counter() - began
        if own.draws is None and number and took / number * (number + 1) > _MOST_SECONDS:
            break
        draw = Draw(number, own.seed)
        given = trial.given(draw)
        try:
            agree = compared.add(draw, *trial.run(given), trial.growth(given))
        except RunError as error:
            if not search.isolate:
                raise RunError(f"{error} ({draw})") if number else error from None
            console.print(Text.assemble(("the compiled module does not run to its end: ", "bold red"), str(error)))
            facts["error"] = str(error)
            agree, failed = False, True
        if first is None or not agree:
            first = given
        if failed or (search.isolate and not agree):
            break
    took = time.perf_counter() - began
    agree = not failed and compared.agree
    if not failed:
        compared.print(console, facts)
        done = len(compared.draws)
        if wanted > done and agree:
            console.print(
                f"{done} of {counted(wanted, 'draw')}, for {took / done:.1f} s each; --draws {wanted} takes all"
            )
    facts["agree"] = agree
    assert first is not None
    if not search.isolate:
        if not agree:
            console.print("--isolate finds the first instruction that differs")
        return agree
    host = MadeUpHost(trial.drawing, first.draws[0])
    return _isolated(console, module, options, first.inputs[0], host, agree, search.reproducer, facts)


@dataclass(frozen=True, slots=True)
class _Arguments:
    """The arguments of a draw, and the results that the evaluator gives for them."""

    draws: list[Draw]
    """One for each device."""
    inputs: list[list[Array]]
    hosts: list[MadeUpHost]
    expected: list[list[Array]]


class _Trial:
    """A module, compiled, and the inputs that are given for it."""

    def __init__(self, module: Module, options: Options, own: Given, grid: Devices) -> None:
        self._module, self._own = module, own
        self._partitions = grid.partitions
        self._artifact = compile(module, options)
        self._exe: Executable | None = load(self._artifact)
        self.drawing = Drawing(module)
        self.devices = grid.devices or max(_least(self._exe), grid.partitions or 1)
        files = map(Files(own.inputs).of, range(self.devices))
        self._leaves = self._exe.parameters
        self._found = [given_inputs(self._leaves, own.inputs) for own in files]
        feeds = any(request.kind in ("infeed", "recv") for request in self._exe.manifest.transfers.values())
        self._drawn = [leaf for leaf in self._leaves if any(leaf.name not in found for found in self._found)]
        self.draws_any = feeds or bool(self._drawn)
        """True if one draw differs from another: not all arguments are given."""

    def given(self, draw: Draw) -> _Arguments:
        """The arguments of a draw. Where the program refuses their sizes, or does not end, they are drawn again."""
        again = any(leaf.sizes for leaf in self._drawn) or (self.draws_any and self.drawing.steers)
        for attempt in range(ATTEMPTS):
            last = not again or attempt == ATTEMPTS - 1
            own = [replace(draw, device=d, attempt=attempt) for d in range(self.devices)]
            inputs = [filled(self._leaves, found, self.drawing, x) for found, x in zip(self._found, own)]
            hosts = [MadeUpHost(self.drawing, x) for x in own]
            try:
                expected = reference.evaluate_with(
                    self._module,
                    inputs,
                    hosts,
                    num_partitions=self._partitions,
                    most_trips=None if last else _MOST_TRIPS,
                )
            except (ArgumentError, LimitError, RunError, ValueError):
                if last:
                    raise
            else:
                return _Arguments(own, inputs, hosts, expected)
        raise AssertionError("the last attempt gives arguments or raises")

    def run(self, given: _Arguments) -> tuple[list[tuple[str, str]], list[Array], list[Array]]:
        """Names and types of the results and of what goes to hosts, their arrays, and what is expected."""
        exe = self._exe or load(self._artifact)
        self._exe = None if _keeps_states(self._module) else exe
        came: list[list[Array]] = [[] for _ in given.hosts]
        fed = [_as_fed(exe, host, own) for host, own in zip(given.hosts, came)]
        if self.devices == 1:
            actual = [exe.run(*given.inputs[0], **fed[0])]
        else:
            together: dict[str, Any] = {end: [own[end] for own in fed] for end in fed[0]}
            actual = exe.run_replicated(given.inputs, num_partitions=self._partitions, **together)
        leaves, outputs = [], []
        for d, host in enumerate(given.hosts):
            of = f"device {d}: " if self.devices > 1 else ""
            put_out = [(x.name, a) for x, arrays in host.came for a in arrays]
            leaves += [(f"{of}{leaf.name}", str(leaf)) for leaf in exe.results]
            leaves += [(f"{of}{x} (to the host)", f"{a.dtype}{list(a.shape)}") for x, a in put_out]
            outputs += [*given.expected[d], *(a for _, a in put_out)]
        return leaves, [x for own, more in zip(actual, came) for x in (*own, *more)], outputs

    def growth(self, given: _Arguments) -> Growth | None:
        """Returns a function that gives the tolerances for the results of a draw, as far as rounding errors grow on
        their way through the module; None where the evaluator needs more than arguments."""
        if self.devices > 1 or self._exe is None or self._exe.manifest.transfers:
            return None
        return lambda: grown_tolerance(self._module, given.inputs[0], given.expected[0])


def _keeps_states(module: Module) -> bool:
    """Returns True if an instance goes on from its last run, where the evaluator begins anew."""
    return any(x.opcode in ("rng", "rng-get-and-update-state") for x in module.instructions())


def _is_finite(
    console: Console, module: Module, options: Options, trial: _Trial, draw: Draw, facts: dict[str, Any]
) -> bool:
    """Prints where the first NaN or infinity of a result begins. Returns True if there is none."""
    given = trial.given(draw)
    with console.status("running instruction by instruction") as status:
        found = find_origin(
            module,
            given.inputs[0],
            compiled(options),
            lambda text: status.update(Text(f"running instruction by instruction: {text}")),
            given.hosts[0],
        )
    facts["finite"] = found is None
    if found is None:
        console.print("no result has a NaN or an infinity that an instruction began")
        return True
    begun = facts["begins"] = []
    origin: Origin | None = found
    while origin is not None:
        x = origin.instruction
        table = report.table(f"{origin.kind.value} begins", "")
        _add_instruction(table, x, origin.path, origin.operands)
        if origin.parameter:
            table.add_row("comes in with", f"argument '{origin.parameter}'")
        table.add_row("elements", f"{origin.count:,} of {origin.size:,}, first at {list(origin.at)}")
        console.print(table)
        begun.append(
            {
                "kind": origin.kind.value,
                "instruction": x.name,
                "opcode": x.opcode,
                "where": x.where,
                "inside": [*origin.path],
                "elements": origin.count,
                "first_at": [*origin.at],
                "made_of": [*origin.operands],
            }
        )
        origin = origin.cause
    return False


def _isolated(
    console: Console,
    module: Module,
    options: Options,
    arguments: list[Array],
    host: MadeUpHost,
    agree: bool,
    reproducer: Path | None,
    facts: dict[str, Any],
) -> bool:
    """Prints the first instruction that differs, and writes the reproducer. Returns false, or `agree` if none does."""
    with console.status("isolating") as status:
        found = isolate(
            module,
            arguments,
            compiled(options),
            lambda text: status.update(Text(f"isolating: {text}")),
            host,
        )
    if found is None:
        reason = "every instruction agrees, too" if agree else "rounding errors grow on their way through the module"
        console.print(f"no instruction differs, by itself or with those around it: {reason}")
        return agree
    _print_finding(console, found)
    x = found.instruction
    facts["first_difference"] = {
        "instruction": x.name,
        "opcode": x.opcode,
        "where": x.where,
        "inside": list(found.path),
        "note": found.note,
    }
    if found.verdict is not None:
        facts["first_difference"]["extent"] = _extent(found.verdict)
    if reproducer is not None:
        files = write_reproducer(found, reproducer, options)
        facts["files"] = [str(path) for path in (reproducer, *files)]
        console.print(
            Text.assemble((str(reproducer), "bold"), f"  shows it alone: {_command(reproducer, files, options)}"),
            soft_wrap=True,
        )
    return False


def _least(exe: Executable) -> int:
    """The fewest devices that the program runs on."""
    devices = exe.manifest.devices
    return max(
        exe.manifest.sharded or 1,
        *((devices.least, (devices.replicas or 1) * (devices.partitions or 1)) if devices else (1,)),
    )


def _as_fed(exe: Executable, host: MadeUpHost, came: list[Array]) -> dict[str, Any]:
    """Returns the arguments of a run for its transfers: the items that the evaluation was fed, and functions that
    append to `came` the arrays that the run hands to its host."""

    def take(value: Array | tuple[Array, ...]) -> None:
        came.extend(value if isinstance(value, tuple) else (value,))

    ends: dict[str, Any] = {}
    for request in exe.manifest.transfers.values():
        if request.kind == "infeed":
            ends["infeed"] = host.fed.get(None, [])
        elif request.kind == "outfeed":
            ends["outfeed"] = take
        else:
            ends.setdefault(request.kind, {})[request.target] = (
                take if request.kind == "send" else host.fed.get(request.target, [])
            )
    return ends


@dataclass(frozen=True, slots=True)
class _Compared:
    """A result in one draw."""

    draw: Draw
    worst: compare.Difference
    count: int
    elements: int
    allowed: float
    """The usual difference, relative to the result's largest value."""
    grown: bool
    """True if the difference is larger, and rounding errors explain it."""


class _Comparison:
    """Results of all draws beside what is expected."""

    def __init__(self, module: Module, tolerance: float | None) -> None:
        self._usual, self._tolerance = tolerance_in(module), tolerance
        self._results: dict[tuple[str, int], tuple[str, list[_Compared]]] = {}
        self.draws: dict[Draw, bool] = {}
        """The draws so far, each with True if all its results agree."""

    @property
    def agree(self) -> bool:
        """True if the results of all draws agree."""
        return all(self.draws.values())

    def add(
        self,
        draw: Draw,
        leaves: Sequence[tuple[str, str]],
        actual: Sequence[Array],
        expected: Sequence[Array],
        growth: Growth | None,
    ) -> bool:
        """Compares the results of a draw, named and typed. Returns True if they agree. Where they do not by the usual
        tolerance, `growth` says whether rounding explains it."""
        agree = len(actual) == len(expected)
        seen: dict[str, int] = {}
        grown: Callable[[int, Array], compare.Tolerance] | None = None
        for i, ((name, type_), a, b) in enumerate(zip(leaves, actual, expected)):
            if (a.dtype, a.shape) != (b.dtype, b.shape):
                raise RunError(
                    f"result '{name}' is {a.dtype}{list(a.shape)}, but the evaluator gives {b.dtype}{list(b.shape)}"
                )
            allowed = self._usual(a.dtype) if self._tolerance is None else compare.Tolerance(self._tolerance)
            count = int(np.count_nonzero(compare.differing(a, b, allowed)))
            more = False
            if count and allowed.relative and self._tolerance is None and growth is not None:
                grown = grown or growth()
                fewer = int(np.count_nonzero(compare.differing(a, b, grown(i, b))))
                more, count = not fewer, fewer
            agree &= not count
            key = (name, seen.setdefault(name, 0))
            seen[name] += 1
            found = self._results.setdefault(key, (type_, []))[1]
            found.append(_Compared(draw, compare.difference(a, b), count, a.size, float(allowed.relative), more))
        self.draws[draw] = agree
        return agree

    def print(self, console: Console, facts: dict[str, Any]) -> None:
        """Prints each result in the draw in which it is worst, and which draws differ."""
        table = report.table("result", "type", ">worst abs", ">worst rel", ">worst ulp", "worst at", ">differing", "")
        several = len(self.draws) > 1
        for (name, _), (type_, found) in self._results.items():
            x = max(found, key=lambda own: (own.count, own.worst.relative))
            facts.setdefault("results", []).append(
                {
                    "name": name,
                    "type": type_,
                    "worst_absolute": report.plain(float(x.worst.absolute)),
                    "worst_relative": report.plain(float(x.worst.relative)),
                    "worst_ulp": None if x.worst.ulp is None else int(x.worst.ulp),
                    "worst_at": None if x.worst.at is None else [int(i) for i in x.worst.at],
                    "differing": x.count,
                    "elements": x.elements,
                    "allowed_relative": report.plain(x.allowed),
                    "rounding_grows": x.grown,
                    "draw": x.draw.number + 1,
                }
            )
            at = "" if x.worst.at is None else str(list(x.worst.at))
            ulp = "" if x.worst.ulp is None else str(x.worst.ulp)
            where = f" in draw {x.draw.number + 1}" if several else ""
            verdict = Text("ok, rounding errors grow" if x.grown else "ok", "green")
            if x.count:
                verdict = Text(f"differs{where} (allowed {x.allowed:.1e})", "bold red")
            numbers = (f"{x.worst.absolute:.2e}", f"{x.worst.relative:.1e}", ulp, at)
            table.add_row(name, type_, *numbers, f"{x.count:,} of {x.elements:,}", verdict)
        console.print(table)
        for draw, agree in self.draws.items() if several else ():
            if not agree:
                console.print(Text.assemble((str(draw), "bold"), f", seed {draw.seed}, differs"))
        facts["draws"] = [
            {"number": draw.number + 1, "kind": draw.kind.value, "agree": agree} for draw, agree in self.draws.items()
        ]
        if several and self.agree:
            console.print(f"{counted(len(self.draws), 'draw')} of arguments agree")


def _print_finding(console: Console, found: Finding) -> None:
    x = found.instruction
    table = report.table("first difference", "")
    _add_instruction(table, x, found.path)
    if found.company:
        table.add_row("only with", ", ".join(f"{y.name} ({y.opcode})" for y in found.company))
    if found.verdict is not None:
        table.add_row("differs", _extent(found.verdict))
    if found.note:
        table.add_row("note", found.note)
    console.print(table)
    if found.verdict is not None:
        _print_values(console, found.verdict)


def _add_instruction(table: Table, x: Instruction, path: Sequence[str], elements: Sequence[str] = ()) -> None:
    """Adds what is known of an instruction, with `elements` of its operands."""
    table.add_row("instruction", Text(x.name, "bold"))
    table.add_row("opcode", x.opcode)
    if path:
        table.add_row("inside", " > ".join(path))
    if x.metadata and x.metadata.op_name:
        table.add_row("op_name", x.metadata.op_name)
    if x.metadata and x.metadata.source_file:
        table.add_row("source", f"{x.metadata.source_file}:{x.metadata.source_line}")
    table.add_row("result", str(x.shape.without_layout()))
    for i, operand in enumerate(x.operands):
        there = f": {elements[i]} there" if elements else ""
        table.add_row("operand", f"{operand.name} {operand.shape.without_layout()}{there}")


def _extent(verdict: Verdict) -> str:
    worst = compare.difference(verdict.actual, verdict.expected)
    ulp = "" if worst.ulp is None else f", {worst.ulp:,} ulp"
    return (
        f"{verdict.count:,} of {verdict.actual.size:,} elements; at worst by {worst.absolute:.3g}, "
        f"{worst.relative:.2g} of the scale{ulp}"
    )


def _print_values(console: Console, verdict: Verdict) -> None:
    table = report.table("at", ">compiled", ">reference")
    for index in np.argwhere(verdict.where)[:SHOWN]:
        at = tuple(int(i) for i in index)
        table.add_row(str(list(at)), str(verdict.actual[at]), str(verdict.expected[at]))
    if verdict.count > SHOWN:
        table.add_row("...", "", "")
    console.print(table)


def write_reproducer(found: Finding, path: Path, options: Options) -> list[Path]:
    """Writes the module as HLO text and its arguments beside it; returns the files of the arguments."""
    files.make_folder(path.parent)
    beside = [path.with_suffix(f".{i}.npy") for i in range(len(found.arguments))]
    extent = _extent(found.verdict) if found.verdict is not None else found.note
    where = found.instruction.where.replace("\n", " ")
    head = [f"// {where}: {extent}", f"// {_command(path, beside, options)}"]
    files.write(path, "\n".join([*map(visible, head), "", found.excerpt.module.to_text()]))
    for name, array in zip(beside, found.arguments):
        with files.writing(name) as file:
            np.save(file, array)
    return beside


def _command(path: Path, files: Sequence[Path], options: Options) -> str:
    words = ["xla-wasm check", str(path), *(f"--input {file}" for file in files)]
    if options.target != SIMD128:
        words.append(f"--target {options.target}")
    if options.tune != PORTABLE:
        words.append(f"--tune {options.tune}")
    return " ".join(words)
