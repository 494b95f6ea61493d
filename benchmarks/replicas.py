"""Times collectives between two devices: threads under wasmtime, processes over MPI, and what they are compared with.

    python -m benchmarks.replicas

Contestants take turns, round after round, and the least time of each counts; so a busy machine matters less. A program
repeats one collective on arrays that lie in its memory already, and so does mpi4py's Allreduce. Prints the tables and
writes them into docs/replicas.md. If replicas_js.json (from `python -m benchmarks.replicas_js`) is there, its
transports are further columns: {"transport": {"all-reduce": {"4096": milliseconds, ...}, ...}, ...}.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import xla_wasm
from xla_wasm.command import report
from xla_wasm.host.executor import Executable
from xla_wasm.site.collectives import OPCODES, Collective

from . import markdown
from .suite.machine import describe as machine

HERE = Path(__file__).parent
DOCUMENT = HERE.parent / "docs" / "replicas.md"
BEGIN, END = "<!-- written by benchmarks.replicas -->", "<!-- end -->"
"""Between these the tables stand in the document."""
DEVICES = 2
SIZES = (4 << 10, 64 << 10, 1 << 20, 4 << 20)
THREADS, MPI = "threads", "MPI"
ALLREDUCE, ROUND_TRIP = "mpi4py's Allreduce", "condition variable"
GOALS = ((SIZES[0], ROUND_TRIP, 10.0), (SIZES[-1], ALLREDUCE, 1.0))
"""All-reduce of so many bytes takes at most so many times as long as that."""

Times = dict[tuple[str, str, int], float]
"""Seconds by contestant, operation and bytes."""


def repeats(size: int) -> int:
    """Returns the number of collectives of `size` bytes in one run: enough for its beginning and end not to count."""
    return max(64, min(200, (64 << 20) // size))


def load(opcode: str, size: int) -> Executable:
    """A program of that collective, with its array set."""
    collective = Collective(opcode, DEVICES, size)
    exe = xla_wasm.load(xla_wasm.compile(collective.module(), collective.options))
    (x,) = (p for p in exe.parameters if p.name == "x")
    exe.set("x", np.linspace(-1, 1, x.dimensions[0], dtype=np.float32))
    return exe


def timed(work: Callable[[], object], times: int) -> float:
    """Seconds of one of so many."""
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) / times


class RoundTrips:
    """Two threads that hand a turn to each other under a condition variable."""

    def __init__(self) -> None:
        self._turn = 0
        self._condition = threading.Condition()

    def _side(self, side: int, times: int) -> None:
        for _ in range(times):
            with self._condition:
                while self._turn != side:
                    self._condition.wait()
                self._turn = 1 - side
                self._condition.notify()

    def __call__(self, times: int) -> None:
        other = threading.Thread(target=self._side, args=(1, times))
        other.start()
        self._side(0, times)
        other.join()


class Ranks:
    """A job of MPI processes that do what they are told; in between they wait for it in a pipe, and leave the cores to
    others."""

    def __init__(self, folder: Path, sizes: Sequence[int]) -> None:
        self._pipes = [folder / str(rank) for rank in range(DEVICES)]
        self._answers = folder / "answers"
        for path in (*self._pipes, self._answers):
            os.mkfifo(path)
        launcher = Path(sys.executable).with_name("mpiexec")
        command = [
            str(launcher),
            "-n",
            str(DEVICES),
            sys.executable,
            "-m",
            "benchmarks.replicas",
            "--worker",
            str(folder),
        ]
        self._job = subprocess.Popen([*command, "--sizes", *map(str, sizes)], cwd=HERE.parent)
        self._ends = [path.open("w") for path in self._pipes]
        self._heard = self._answers.open()

    def time(self, what: str, size: int) -> float:
        for end in self._ends:
            end.write(json.dumps([what, size]) + "\n")
            end.flush()
        return float(json.loads(self._heard.readline()))

    def close(self) -> None:
        for end in self._ends:
            end.close()
        if self._job.wait(60):
            raise SystemExit(f"the MPI job ended with {self._job.returncode}")


@contextmanager
def ranks(sizes: Sequence[int]) -> Iterator[Ranks]:
    """The job, ended afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        made = Ranks(Path(folder), sizes)
        try:
            yield made
        finally:
            made.close()


def work(folder: Path, sizes: Sequence[int]) -> None:
    """Runs a process of the job: it times the collectives that it reads line by line, and rank 0 writes the seconds of
    each to `answers`."""
    from mpi4py import MPI as library

    from xla_wasm.host import mpi

    comm = library.COMM_WORLD
    programs = {(opcode, size): load(opcode, size) for opcode in OPCODES for size in sizes}
    buffers = {size: (np.ones(size // 4, np.float32), np.empty(size // 4, np.float32)) for size in sizes}

    def reduce(size: int) -> None:
        for _ in range(repeats(size)):
            comm.Allreduce(*buffers[size])

    with (folder / str(comm.rank)).open() as orders, (folder / "answers").open("w") as answers:
        for line in orders:
            what, size = json.loads(line)
            comm.Barrier()
            if what == ALLREDUCE:
                seconds = timed(lambda size=size: reduce(size), repeats(size))
            else:
                seconds = timed(
                    lambda key=(what, size): mpi.run(programs[key], [np.int32(repeats(key[1]))]), repeats(size)
                )
            if comm.rank == 0:
                answers.write(json.dumps(seconds) + "\n")
                answers.flush()


def measure(sizes: Sequence[int], seconds: float) -> Times:
    """The least times of all contestants over rounds that go on for so long."""
    programs = {(opcode, size): load(opcode, size) for opcode in OPCODES for size in sizes}
    trips = RoundTrips()
    best: Times = {}

    def least(key: tuple[str, str, int], taken: float) -> None:
        best[key] = min(best.get(key, float("inf")), taken)

    with ranks(sizes) as job:
        end, rounds = time.monotonic() + seconds, 0
        while rounds < 2 or time.monotonic() < end:
            for (opcode, size), exe in programs.items():
                given = [[np.int32(repeats(size))]] * DEVICES
                least(
                    (THREADS, opcode, size),
                    timed(lambda exe=exe, given=given: exe.run_replicated(given), repeats(size)),
                )
                least((MPI, opcode, size), job.time(opcode, size))
                if opcode == "all-reduce":
                    least((ALLREDUCE, opcode, size), job.time(ALLREDUCE, size))
                    least((ROUND_TRIP, opcode, size), timed(lambda: trips(200), 200))
            rounds += 1
    return best


Table = tuple[Sequence[str], list[list[str]]]
"""Titles and rows."""


def tables(times: Times, sizes: Sequence[int], others: dict[str, dict[str, dict[str, float]]]) -> list[Table]:
    """All collectives by transport, then all-reduce and what it is compared with."""
    show = report.duration
    rows = []
    for opcode in OPCODES:
        for size in sizes:
            more = (by.get(opcode, {}).get(str(size)) for by in others.values())
            cells = [show(times[transport, opcode, size]) for transport in (THREADS, MPI)]
            rows.append([opcode, f"{size // 1024} KiB", *cells, *("" if ms is None else show(ms / 1e3) for ms in more)])
    compared = []
    for size in sizes:
        ours = times[THREADS, "all-reduce", size]
        for peer in (ALLREDUCE, ROUND_TRIP):
            theirs = times[peer, "all-reduce", size]
            goal = next((f"at most {most:g}" for bytes_, other, most in GOALS if (bytes_, other) == (size, peer)), "")
            compared.append([f"{size // 1024} KiB", show(ours), peer, show(theirs), f"{ours / theirs:.2f}", goal])
    return [
        (("operation", ">of", f">{THREADS}", f">{MPI}", *(f">{name}" for name in others)), rows),
        ((">all-reduce of", f">{THREADS}", "against", ">takes", ">ratio", "goal"), compared),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Parses the command line, measures, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="how long the rounds go on")
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=list(SIZES), help="bytes; some of xla_wasm.site.collectives.SIZES"
    )
    parser.add_argument("--output", type=Path, default=DOCUMENT, help="the document that the tables are written into")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker:
        work(options.worker, options.sizes)
        return
    js = HERE / "replicas_js.json"
    others: dict[str, Any] = json.loads(js.read_text()) if js.exists() else {}
    text = ""
    for columns, rows in tables(measure(options.sizes, options.seconds), options.sizes, others):
        table = report.table(*columns)
        for row in rows:
            table.add_row(*row)
        report.console().print(table)
        text += markdown.table(columns, rows) + "\n"
    cpu = machine("")["cpu"]
    text += f"{DEVICES} devices on {os.cpu_count()} cores of {cpu}; the least of many rounds in which all take turns.\n"
    markdown.replace_between(options.output, BEGIN, END, f"\n{text}\n")


if __name__ == "__main__":
    main()
