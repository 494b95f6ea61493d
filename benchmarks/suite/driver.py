"""Times the contestants of a workload in turns, round by round, and checks what each gives."""

from __future__ import annotations

import math
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import check
from .contestants import RESIDENT, ROOT, Contestant, Failure, Job, Process, core
from .machine import MODES
from .workload import Array, Workload

OK, WRONG, FAILED, NONE = "ok", "wrong", "failed", "none"
LEAST_ROUNDS = 3
SCRATCH = ROOT / "dist" / "benchmarks"
"""The folder of inputs and modules while they are measured: 2 GB for the largest."""


@dataclass(frozen=True)
class Effort:
    """Rounds of all contestants; seconds that each has in a round for each way of being timed, and before the first to
    warm up."""

    rounds: int = 6
    seconds: float = 0.12
    warmup: float = 0.6
    limit: float = 30.0
    """Seconds of a row's rounds, after which there are no more of them than `LEAST_ROUNDS`."""


@dataclass
class Entry:
    """A contestant in one row."""

    process: Process
    status: str = OK
    message: str = ""
    error: float | None = None
    bytes: int | None = None
    calls: dict[str, tuple[int, int]] = field(default_factory=dict)
    """For each mode, calls in a sample and samples in a round."""
    samples: dict[str, list[float]] = field(default_factory=dict)
    """Milliseconds of a call."""
    less: dict[str, list[float]] = field(default_factory=dict)
    """The part of those that is not the work's: the time of one trip of a loop, beside samples of many trips."""

    def summary(self) -> Job:
        """Returns the facts that are kept of the entry: status, message, error, bytes, and times in seconds."""
        ways = {"min": min, "median": statistics.median}
        times = {
            mode: {name: max(0.0, way(ms) - way(self.less[mode])) / 1e3 for name, way in ways.items()}
            for mode, ms in self.samples.items()
            if ms
        }
        # JSON has no infinity, which is what is said where a NaN, a shape or an integer differs.
        error = self.error if self.error is not None and math.isfinite(self.error) else None
        # Below the first line is where it happened: places of this machine.
        kept = {
            "status": self.status,
            "message": self.message.strip().partition("\n")[0],
            "error": error,
            "bytes": self.bytes,
            **times,
        }
        return {name: value for name, value in kept.items() if value not in (None, "")}


class Driver:
    """Processes of the contestants and of what measures the machine, from row to row."""

    def __init__(self, machine: Contestant, contestants: Sequence[Contestant], effort: Effort) -> None:
        self.effort = effort
        self._processes = [Process(contestant) for contestant in contestants]
        self._machine = Entry(Process(machine))
        SCRATCH.mkdir(parents=True, exist_ok=True)
        self._folder = tempfile.TemporaryDirectory(dir=SCRATCH)

    def close(self) -> None:
        """Ends all processes."""
        for process in (*self._processes, self._machine.process):
            process.stop()
        self._folder.cleanup()

    def row(self, workload: Workload) -> Job:
        """Everything about one row, as JSON has it."""
        self._calibrate_machine(workload)
        with tempfile.TemporaryDirectory(dir=self._folder.name) as name:
            folder = Path(name)
            expected = workload.expected()
            entries = [self._prepared(process, workload, folder, expected) for process in self._processes]
            began = time.monotonic()
            for number in range(self.effort.rounds):
                if number >= LEAST_ROUNDS and time.monotonic() - began > self.effort.limit:
                    break
                self._round(self._machine)
                for entry in entries:
                    self._round(entry)
            for entry in entries:
                # Many runs later: one must not leave anything behind that changes the next.
                self._check(entry, workload, folder, expected)
            summaries = {entry.process.contestant.name: entry.summary() for entry in entries}
            for entry in entries:
                _release(entry)
            workload.forget()
        row = {name: getattr(workload, name) for name in ("unit", "work", "bound", "tolerance", "model")}
        return {**row, "core": core(), "machine": self._limits(), "contestants": summaries}

    def _prepared(self, process: Process, workload: Workload, folder: Path, expected: Sequence[Array]) -> Entry:
        entry = Entry(process)
        contestant = process.contestant
        try:
            job = contestant.job(workload, folder)
            if job is None:
                entry.status = NONE
                return entry
            entry.bytes = job.get("bytes")
            modes = process.ask(do="prepare", job=job)["modes"]
            self._check(entry, workload, folder, expected)
            for mode in modes if entry.status == OK else ():
                self._calibrate(entry, mode)
        except Exception as error:  # whatever a contestant does, the others are timed
            entry.status, entry.message = FAILED, str(error) or type(error).__name__
        return entry

    def _check(self, entry: Entry, workload: Workload, folder: Path, expected: Sequence[Array]) -> None:
        """Compares what the contestant gives now; its error is the largest so far."""
        if entry.status != OK:
            return
        contestant = entry.process.contestant
        there = folder / f"results-{contestant.name.replace(' ', '-').replace(':', '-')}"
        there.mkdir(exist_ok=True)
        try:
            results = entry.process.ask(do="results", folder=str(there))["results"]
        except Failure as error:
            entry.status, entry.message, entry.samples = FAILED, str(error), {}
            return
        found = check.error(results, expected, workload.result_order if contestant.first else None)
        shutil.rmtree(there)
        entry.error = max(found, entry.error or 0.0)
        if not found <= workload.tolerance:
            entry.status, entry.samples = WRONG, {}

    def _calibrate_machine(self, workload: Workload) -> None:
        if self._machine.status != OK:
            raise SystemExit(f"the machine's limits cannot be measured: {self._machine.message}")
        process = self._machine.process
        if not self._machine.calls:
            folder = Path(self._folder.name, "machine")
            job = process.contestant.job(workload, folder)
            for mode in process.ask(do="prepare", job=job)["modes"]:
                self._calibrate(self._machine, mode)
        self._machine.samples = {mode: [] for mode in self._machine.calls}

    def _calibrate(self, entry: Entry, mode: str) -> None:
        """Warms up, and finds how many calls make a sample that the clock can tell, and how many samples a round has
        time for."""
        end = time.monotonic() + self.effort.warmup
        calls, ms = 1, 0.0
        while True:
            ms = _sample(entry, mode, calls)
            if ms * calls < entry.process.contestant.least:
                calls *= 2
            elif time.monotonic() >= end:
                break
        samples = round(self.effort.seconds * 1e3 / (ms * calls)) if ms else 1
        entry.calls[mode] = calls, max(1, min(100, samples))
        entry.samples[mode], entry.less[mode] = [], []

    def _round(self, entry: Entry) -> None:
        if entry.status != OK:
            return
        try:
            for mode, (calls, samples) in entry.calls.items():
                answer = entry.process.ask(do="time", mode=mode, calls=calls, samples=samples)
                entry.samples[mode] += answer["ms"]
                entry.less[mode] += answer.get("less") or [0.0]
        except Failure as error:
            entry.status, entry.message, entry.samples = FAILED, str(error), {}

    def _limits(self) -> Job:
        """The best and the median rate of each limit, in units of work per second."""
        rates = {mode: [MODES[mode] / ms * 1e3 for ms in samples] for mode, samples in self._machine.samples.items()}
        return {mode: {"max": max(found), "median": statistics.median(found)} for mode, found in rates.items() if found}


def _sample(entry: Entry, mode: str, calls: int) -> float:
    answer = entry.process.ask(do="time", mode=mode, calls=calls, samples=1)
    return float(answer["ms"][0]) - float(*answer.get("less", [0.0]))


def _release(entry: Entry) -> None:
    """Lets go of the workload; a process that keeps much of it, or does not answer, is ended."""
    if entry.status == NONE:
        return
    try:
        if entry.process.ask(do="release")["resident"] > RESIDENT:
            entry.process.stop()
    except Failure:
        entry.process.stop()
