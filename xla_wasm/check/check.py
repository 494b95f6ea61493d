"""The command `xla-wasm check`: the compiled module against the reference evaluator, and which instruction is to
blame."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.text import Text

from .. import files, reference
from ..command import report
from ..command.inputs import MadeUpHost, arguments
from ..command.running import Files
from ..compiler import compile
from ..errors import RunError, UnsupportedError, counted, visible
from ..hlo.ir import Module
from ..host.arrays import Array
from ..host.executor import Executable, load
from ..options import Options
from ..target import PORTABLE, SIMD128
from . import compare
from .excerpt import Verdict, compiled, tolerance_in
from .isolate import Finding, isolate

if TYPE_CHECKING:
    from ..command.check_options import Devices, Given, Search

SHOWN = 8
"""Elements that differ, shown both ways."""


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
    """Prints how results compare and, if they are searched, the first instruction that differs. Returns whether all
    agree. Each device has random arguments of its own. `facts` gets the same as what JSON has.
    """
    find, reproducer, seed, partitions = search.isolate, search.reproducer, own.seed, grid.partitions
    facts = {} if facts is None else facts
    exe = load(compile(module, options))
    count = grid.devices or max(_least(exe), partitions or 1)
    if find and count > 1:
        raise UnsupportedError(
            f"{module.name} runs on {counted(count, 'device')}, and --isolate judges single "
            "instructions on one; without it, check shows on which "
            "devices results differ"
        )
    sources = map(Files(own.inputs, seed=seed).of, range(count))
    given = [arguments(exe.parameters, own.inputs, True, own.seed) for own in sources]
    hosts = [MadeUpHost(seed + d) for d in range(count)]
    expected = reference.evaluate_with(module, given, hosts, num_partitions=partitions)
    came: list[list[Array]] = [[] for _ in hosts]
    fed = [_as_fed(exe, host, own) for host, own in zip(hosts, came)]
    try:
        if count == 1:
            actual = [exe.run(*given[0], **fed[0])]
        else:
            together: dict[str, Any] = {end: [own[end] for own in fed] for end in fed[0]}
            actual = exe.run_replicated(given, num_partitions=partitions, **together)
    except RunError as error:
        if not find:
            raise
        console.print(Text.assemble(("the compiled module does not run to its end: ", "bold red"), str(error)))
        facts["error"] = str(error)
        agree = False
    else:
        leaves, outputs = [], []
        for d, host in enumerate(hosts):
            of = f"device {d}: " if count > 1 else ""
            put_out = [(x.name, a) for x, arrays in host.came for a in arrays]
            leaves += [(f"{of}{leaf.name}", str(leaf)) for leaf in exe.results]
            leaves += [(f"{of}{x} (to the host)", f"{a.dtype}{list(a.shape)}") for x, a in put_out]
            outputs += [*expected[d], *(a for _, a in put_out)]
        found_all = [x for own, more in zip(actual, came) for x in (*own, *more)]
        agree = _print_results(console, module, leaves, found_all, outputs, tolerance, facts)
    facts["agree"] = agree
    if not find:
        if not agree:
            console.print("--isolate finds the first instruction that differs")
        return agree
    return _isolated(console, module, options, given[0], agree, reproducer, facts)


def _isolated(
    console: Console,
    module: Module,
    options: Options,
    arguments: list[Array],
    agree: bool,
    reproducer: Path | None,
    facts: dict[str, Any],
) -> bool:
    """Prints the first instruction that differs, and writes the reproducer. Returns false, or `agree` if none does."""
    with console.status("isolating") as status:
        found = isolate(module, arguments, compiled(options), lambda text: status.update(Text(f"isolating: {text}")))
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


def _print_results(
    console: Console,
    module: Module,
    leaves: Sequence[tuple[str, str]],
    actual: Sequence[Array],
    expected: Sequence[Array],
    tolerance: float | None,
    facts: dict[str, Any],
) -> bool:
    table = report.table("result", "type", ">worst abs", ">worst rel", ">worst ulp", "worst at", ">differing", "")
    agree, usual = len(actual) == len(expected), tolerance_in(module)
    for (name, type_), a, b in zip(leaves, actual, expected):
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            raise RunError(
                f"result '{name}' is {a.dtype}{list(a.shape)}, but the evaluator gives {b.dtype}{list(b.shape)}"
            )
        worst = compare.difference(a, b)
        allowed = usual(a.dtype) if tolerance is None else compare.Tolerance(tolerance)
        count = int(np.count_nonzero(compare.differing(a, b, allowed)))
        agree &= not count
        facts.setdefault("results", []).append(
            {
                "name": name,
                "type": type_,
                "worst_absolute": report.plain(float(worst.absolute)),
                "worst_relative": report.plain(float(worst.relative)),
                "worst_ulp": None if worst.ulp is None else int(worst.ulp),
                "worst_at": None if worst.at is None else [int(i) for i in worst.at],
                "differing": count,
                "elements": a.size,
                "allowed_relative": report.plain(float(allowed.relative)),
            }
        )
        at = "" if worst.at is None else str(list(worst.at))
        ulp = "" if worst.ulp is None else str(worst.ulp)
        verdict = Text(f"differs (allowed {allowed.relative:.1e})", "bold red") if count else Text("ok", "green")
        table.add_row(
            name, type_, f"{worst.absolute:.2e}", f"{worst.relative:.1e}", ulp, at, f"{count:,} of {a.size:,}", verdict
        )
    console.print(table)
    return agree


def _print_finding(console: Console, found: Finding) -> None:
    x = found.instruction
    table = report.table("first difference", "")
    table.add_row("instruction", Text(x.name, "bold"))
    table.add_row("opcode", x.opcode)
    if found.path:
        table.add_row("inside", " > ".join(found.path))
    if x.metadata and x.metadata.op_name:
        table.add_row("op_name", x.metadata.op_name)
    if x.metadata and x.metadata.source_file:
        table.add_row("source", f"{x.metadata.source_file}:{x.metadata.source_line}")
    table.add_row("result", str(x.shape.without_layout()))
    for operand in x.operands:
        table.add_row("operand", f"{operand.name} {operand.shape.without_layout()}")
    if found.company:
        table.add_row("only with", ", ".join(f"{y.name} ({y.opcode})" for y in found.company))
    if found.verdict is not None:
        table.add_row("differs", _extent(found.verdict))
    if found.note:
        table.add_row("note", found.note)
    console.print(table)
    if found.verdict is not None:
        _print_values(console, found.verdict)


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
