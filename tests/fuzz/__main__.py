"""Fuzzes all targets, or some: `python -m tests.fuzz --seconds 600`, or `./build.sh fuzz --seconds 600`."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.paths import ROOT

from .seeds import CORPUS, FINDINGS
from .targets import TARGETS
from .worker import name_of


@dataclass
class Report:
    """The results of one target."""

    target: str
    executions: int = 0
    outcomes: int = 0
    faults: list[tuple[str, bytes]] = field(default_factory=list)
    new: list[bytes] = field(default_factory=list)


def fuzz(target: str, seed: int, seconds: float, keep: int = 0) -> Report:
    """Fuzzes one target in a process, and in another one where that dies."""
    report = Report(target)
    with tempfile.TemporaryDirectory() as folder:
        current = Path(folder) / "current"
        command = [sys.executable, "-m", "tests.fuzz.worker", target, str(seed), str(seconds), str(current), str(keep)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=seconds + 120
            )
            out, code, errors = done.stdout, done.returncode, done.stderr
        except subprocess.TimeoutExpired as error:
            out, code, errors = (error.stdout or b"").decode(), -1, "it did not end"
        for line in out.splitlines():
            said = json.loads(line)
            if "fault" in said:
                report.faults.append((said["fault"], bytes.fromhex(said["input"])))
            elif "new" in said:
                report.new.append(bytes.fromhex(said["new"]))
            else:
                report.executions, report.outcomes = said["executions"], said["outcomes"]
        if code:
            content = current.read_bytes() if current.exists() else b""
            data = content[8 : 8 + int.from_bytes(content[:8], "little")]
            report.faults.append((f"the process ended with {code}: {errors.strip()[-300:]}", data))
    return report


def reports(targets: Iterable[str], seed: int, seconds: float, jobs: int, keep: int = 0) -> list[Report]:
    """Of each target, `seconds` being shared by all of them."""
    targets = list(targets)
    each = seconds * jobs / len(targets)
    with ThreadPoolExecutor(jobs) as threads:
        return list(threads.map(lambda target: fuzz(target, seed, each, keep), targets))


def save(folder: Path, target: str, data: bytes) -> Path:
    """Writes an input; where."""
    path = folder / target / name_of(data)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def main(arguments: Sequence[str] | None = None) -> int:
    """Parses the command line, fuzzes, prints and writes what was found; the exit code."""
    parser = argparse.ArgumentParser(prog="./build.sh fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="in all (default %(default)s)")
    parser.add_argument(
        "--target", action="append", choices=list(TARGETS), help="one of them (repeatable; default all)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers (default %(default)s)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time (default %(default)s)"
    )
    parser.add_argument(
        "--keep", type=int, default=0, help="write so many inputs of each target with new outcomes to the corpus"
    )
    options = parser.parse_args(arguments)
    faults = executions = 0
    for report in reports(options.target or TARGETS, options.seed, options.seconds, options.jobs, options.keep):
        executions += report.executions
        counts = f"{report.executions:>9,} executions, {report.outcomes:>4} outcomes, {len(report.faults)} faults"
        print(f"{report.target:<17} {counts}", flush=True)
        for data in report.new:
            save(CORPUS, report.target, data)
        for fault, data in report.faults:
            faults += 1
            path = save(FINDINGS, report.target, data)
            print(f"  {fault}\n    {path}")
    print(f"{'all':<17} {executions:>9,} executions, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
