"""Times programs at three sizes, each four times the one before, beside XLA:CPU.

    python -m benchmarks.growth

The exponent is that of the time in the size from the smallest to the largest: 1 where time grows as the size does, 2
where it grows as its square. A loop that copies the table which each trip updates in one place has 2 where XLA:CPU has
1. Ours are the export `run` alone. Contestants, checks and turns are those of the suite (`python -m benchmarks`).
Writes growth.md.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from xla_wasm.command import report

from .markdown import table
from .node_host import find_node
from .suite.contestants import RELAXED, WASMTIME, XLA, machine_contestant, our_contestants
from .suite.driver import OK, Driver, Effort
from .suite.growing import FACTOR, Program, programs
from .suite.machine import describe
from .suite.table import KERNEL, least, number, troubles

HERE = Path(__file__).parent
COLUMNS = {RELAXED: "V8", WASMTIME: "wasmtime", XLA: "XLA:CPU"}
GOAL = 0.1
"""The most that an exponent of ours should be above XLA:CPU's."""
Rows = Sequence[Mapping[str, Any]]
"""The suite's rows of a program, one for each size."""


def exponent(times: Sequence[float]) -> float:
    """The power of the size that the time grows with, from the first of equally spaced sizes to the last."""
    return math.log(times[-1] / times[0]) / math.log(FACTOR) / (len(times) - 1)


def _times(rows: Rows, name: str) -> list[float] | None:
    """Seconds at each size, if the contestant was right at all of them."""
    found = [least(row["contestants"].get(name), KERNEL) for row in rows]
    return None if None in found else [seconds for seconds in found if seconds is not None]


def excess(rows: Rows) -> float | None:
    """The larger of our exponents above XLA:CPU's, or below it."""
    ours, theirs = [_times(rows, name) for name in (RELAXED, WASMTIME)], _times(rows, XLA)
    known = [exponent(times) for times in ours if times]
    return max(known) - exponent(theirs) if theirs and known else None


def cells(program: Program, rows: Rows) -> Iterator[str]:
    """The program's row of the table."""
    yield program.title
    yield " / ".join(program.sizes)
    for name in COLUMNS:
        times = _times(rows, name)
        states = {row["contestants"][name]["status"] for row in rows} - {OK}
        yield " / ".join(number(seconds * 1e3) for seconds in times) if times else ", ".join(states).upper()
        yield f"{exponent(times):.2f}" if times else ""
    over = excess(rows)
    yield "" if over is None else f"{over:+.2f}"


def document(found: Sequence[tuple[Program, Rows]]) -> str:
    """The table, and what is wrong or grows faster than it should."""
    titles = [title for name in COLUMNS.values() for title in (f">{name}, ms", ">exponent")]
    lines = [table(["program", "sizes", *titles, ">beyond XLA:CPU's"], (tuple(cells(*each)) for each in found))]
    for program, rows in found:
        for workload, row in zip(program.workloads, rows):
            lines += [f"{line}\n" for line in troubles(workload.name, row)]
    beyond = [program.title for program, rows in found if (excess(rows) or 0.0) > GOAL]
    text = f"These exponents are more than {GOAL} above XLA:CPU's: {'; '.join(beyond)}." if beyond else ""
    lines.append(text or f"No exponent is more than {GOAL} above XLA:CPU's.")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and writes; above 0 if something of ours was wrong or failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--filter", action="append", default=[], metavar="TEXT", help="only programs with such titles")
    for name, kind in (("rounds", int), ("seconds", float), ("warmup", float)):
        parser.add_argument(f"--{name}", type=kind, help="as of python -m benchmarks")
    parser.add_argument("--output", type=Path, default=HERE / "growth.md")
    options = parser.parse_args(arguments)
    chosen = [p for p in programs() if not options.filter or any(text in p.title for text in options.filter)]
    if not chosen:
        parser.error("no program has such a title")
    given = {name: getattr(options, name) for name in ("rounds", "seconds", "warmup")}
    effort = replace(Effort(), **{name: value for name, value in given.items() if value is not None})
    driver = Driver(machine_contestant(), [c for c in our_contestants() if c.name in COLUMNS], effort)
    node = subprocess.run([find_node(), "--version"], capture_output=True, text=True, check=True).stdout.strip()
    console, found, bad = report.console(), list[tuple[Program, Rows]](), 0
    try:
        for program in chosen:
            found.append((program, [driver.row(workload) for workload in program.workloads]))
            console.print(" | ".join(cells(*found[-1])), markup=False, soft_wrap=True)
            bad += sum(row["contestants"][n]["status"] != OK for row in found[-1][1] for n in (RELAXED, WASMTIME))
            machine = ", ".join(describe(node).values())
            options.output.write_text(f"{document(found)}\n\nThe least of many runs: {machine}\n")
    finally:
        driver.close()
    report.text(options.output.read_text())
    return bad


if __name__ == "__main__":
    sys.exit(main())
