"""Times what xla_wasm makes against the machine's peak and against onnxruntime-web, and how long making it takes.

One thread, contestants in turns, the least of many runs; compile times are medians. Prints a table and writes results.md and results.json.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from xla_wasm import report

from . import markdown
from .suite import Effort, Row, Sizes, compiling_time, running

COLUMNS = ("what", "where", "build", ">time", "rate", "ratio", "goal")


def cells(row: Row) -> tuple[str, ...]:
    """The row as text, column by column."""
    return row.what, row.where, row.build, row.time, row.rate, row.relation, row.verdict


def machine(node: str) -> dict[str, str]:
    """What the figures were measured on."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.processor())
    return {"cpu": model, "python": platform.python_version(), "wasmtime": version("wasmtime"), "node": node.removeprefix("v")}


def main(arguments: Sequence[str] | None = None, sizes: Sizes | None = None) -> None:
    """Parses the command line, measures, prints and writes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    default = Effort()
    parser.add_argument("--seconds", type=float, default=default.seconds, help="for each contestant (default %(default)s)")
    parser.add_argument("--runs", type=int, default=default.runs, help="at least, of each contestant (default %(default)s)")
    parser.add_argument("--warmup", type=int, default=default.warmup, help="runs in Node before its clock starts (default %(default)s)")
    parser.add_argument("--compiles", type=int, default=default.compiles, help="processes for each compile time (default %(default)s)")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent, help="folder of the results (default benchmarks/)")
    options = parser.parse_args(arguments)
    effort = Effort(options.seconds, options.runs, options.warmup, options.compiles)

    rows, node = running(sizes or Sizes(), effort)
    rows += compiling_time(sizes or Sizes(), effort)
    where = machine(node)
    table = report.table(*COLUMNS)
    for row in rows:
        table.add_row(*cells(row))
    console = report.console()
    console.print(table)
    console.print()
    on = ", ".join(f"{name} {value}" for name, value in where.items())
    console.print(on, style="dim")
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "results.md").write_text(f"{markdown.table(COLUMNS, map(cells, rows))}\n{on}\n")
    (options.output / "results.json").write_text(json.dumps({"machine": where, "rows": [asdict(row) for row in rows]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
