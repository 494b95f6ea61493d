"""`python -m benchmarks`: what is measured, and what becomes of it."""

from __future__ import annotations

import argparse
import fnmatch
import subprocess
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from xla_wasm.command import report

from ..node_host import find_node
from . import compile_time, document
from .contestants import OURS, ROOT, Contestant, core, machine_contestant, our_contestants, peers
from .driver import FAILED, WRONG, Driver, Effort
from .results import Results, stamp, under
from .table import COLUMNS, cells, troubles
from .workload import Workload, workloads

RESULTS = ROOT / "benchmarks" / "results.json"
QUICK_RESULTS = ROOT / "dist" / "benchmarks" / "quick.json"
FULL, QUICK = Effort(), Effort(rounds=3, seconds=0.06, warmup=0.25)


def chosen(patterns: Sequence[str], quick: bool) -> list[Workload]:
    """The workloads that a pattern matches, or that have it in their names; with no pattern all, or all of the quick
    form."""
    known = workloads()

    def matches(name: str, pattern: str) -> bool:
        return name == pattern if pattern in known else fnmatch.fnmatch(name, pattern) or pattern in name

    if not patterns:
        return [w for w in known.values() if w.quick or not quick]
    return [w for w in known.values() if any(matches(w.name, p) for p in patterns)]


def main(arguments: Sequence[str] | None = None, contestants: Sequence[Contestant] | None = None) -> int:
    """Parses the command line, measures, writes; above 0 if something of ours was wrong or failed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Times xla_wasm beside other ways to compute in WebAssembly."
    )
    parser.add_argument(
        "--filter",
        action="append",
        default=[],
        metavar="PATTERN",
        help="only workloads with such names; may be repeated",
    )
    parser.add_argument(
        "--quick", action="store_true", help="fewer workloads and rounds, into dist/: less than 5 minutes"
    )
    parser.add_argument(
        "--fresh", action="store_true", help="measure again what is there from the same machine and sources"
    )
    parser.add_argument("--list", action="store_true", help="only list the workloads")
    parser.add_argument(
        "--write", action="store_true", help="only write the documents, from the results that are there"
    )
    parser.add_argument("--rounds", type=int, help="of all contestants in turns")
    parser.add_argument("--seconds", type=float, help="of each contestant in a round, for each way of being timed")
    parser.add_argument("--warmup", type=float, help="seconds of each contestant before the first round")
    parser.add_argument("--output", type=Path, help="the file of the results (default benchmarks/results.json)")
    options = parser.parse_args(arguments)
    console = report.console()
    selected = chosen(options.filter, options.quick)
    if options.list:
        for workload in selected:
            console.print(f"{workload.name:<32} {workload.unit}{'  quick' if workload.quick else ''}")
        return 0
    results = Results(options.output or (QUICK_RESULTS if options.quick else RESULTS))
    if options.write:
        document.write(results.rows, results.compiled.get("modules", {}))
        return 0
    given = {name: getattr(options, name) for name in ("rounds", "seconds", "warmup")}
    effort = replace(
        QUICK if options.quick else FULL, **{name: value for name, value in given.items() if value is not None}
    )
    node = subprocess.run([find_node(), "--version"], capture_output=True, text=True, check=True).stdout.strip()
    circumstances = stamp(effort, node)
    if core() is None:
        console.print("nothing pins processes to a core here: figures are less certain")
    driver = Driver(
        machine_contestant(), contestants if contestants is not None else [*our_contestants(), *peers()], effort
    )
    order = list(workloads())
    bad: set[str] = set()
    try:
        for number, workload in enumerate(selected, 1):
            if not options.fresh and results.has(workload.name, circumstances):
                continue
            began = time.monotonic()
            row = driver.row(workload)
            results.put(workload.name, {**row, **circumstances}, order)
            spent = time.monotonic() - began
            text = " | ".join(cells(workload.name, row))
            console.print(f"[{number}/{len(selected)}] {text}  ({spent:.0f} s)", markup=False, soft_wrap=True)
            bad |= {name for name in OURS if row["contestants"].get(name, {}).get("status") in (WRONG, FAILED)}
            for line in troubles(workload.name, row):
                console.print(f"    {line}", markup=False, soft_wrap=True)
    finally:
        driver.close()
    if results.path == RESULTS and not circumstances["peers"]:
        console.print("no peers are installed, so the documents stay as they are: ./build.sh bench installs them")
    elif results.path == RESULTS:
        if not options.filter and (options.fresh or not under(results.compiled, circumstances)):
            results.compiled = {"modules": compile_time.measured(), **circumstances}
            results.save()
        document.write(results.rows, results.compiled.get("modules", {}))
    # The last column is for documents: lines of terminals are short.
    table = report.table(*COLUMNS[:-1])
    for workload in selected:
        table.add_row(*cells(workload.name, results.rows[workload.name])[:-1])
    console.print(table)
    return len(bad)
