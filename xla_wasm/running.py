"""What `xla-wasm run` does, on one device, on several threads, or as one of several processes over MPI."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from . import mpi, report
from .dataclass import dataclass, field
from .errors import ArgumentError, XlaWasmError
from .filefeeds import FileFeeds
from .files import writing
from .host.arrays import Array
from .host.executor import Executable
from .inputs import arguments, load_array, random_array

RANK = "{rank}"
"""Stands for the number of a device in the names of files and folders."""
MOST_SHOWN = 20
"""Items that have come out, as rows of the table."""


@dataclass(frozen=True)
class Files:
    """Where the data come from and go to: the options of the command, names with RANK in them or not."""

    inputs: Sequence[str] = ()
    settings: Sequence[str] = ()
    output: str | None = None
    infeed: Sequence[str] = ()
    outfeed: str | None = None
    recv: Sequence[str] = ()
    send: Sequence[str] = ()
    random: bool = False
    seed: int = 0

    def of(self, device: int) -> Files:
        """Those of one device. What is made up differs from device to device."""

        def named(text: str) -> str:
            return text.replace(RANK, str(device))

        lists = (tuple(map(named, texts)) for texts in (self.inputs, self.settings, self.infeed, self.recv, self.send))
        inputs, settings, infeed, recv, send = lists
        output, outfeed = (None if text is None else named(text) for text in (self.output, self.outfeed))
        return Files(inputs, settings, output, infeed, outfeed, recv, send, self.random, self.seed + device)

    def check_outputs(self) -> None:
        """What comes out must not overwrite what else comes out, nor what goes in."""
        taken: dict[str, str] = {}
        folders = [("--output", self.output), ("--outfeed", self.outfeed), *(("--send", pair.rpartition("=")[2]) for pair in self.send)]
        for option, folder in folders:
            if folder is None:
                continue
            other = taken.setdefault(os.path.realpath(folder), option)
            if option != other or folders.count((option, folder)) > 1:
                raise ArgumentError(f"{option} {folder}: {other} writes into this folder, too, and the files have the same names")
        for file in (*self.inputs, *self.infeed, *(pair.rpartition("=")[2] for pair in (*self.settings, *self.recv))):
            folder, name = os.path.split(os.path.realpath(file))
            if folder in taken and re.fullmatch(r"\d+\.np[yz]", name):
                raise ArgumentError(f"{taken[folder]} {folder} would overwrite {file}, which is read: choose another folder")

    def check_several(self) -> None:
        """Several devices must not write into the same folder."""
        for option, folder in (("--output", self.output), ("--outfeed", self.outfeed), *(("--send", pair) for pair in self.send)):
            if folder is not None and RANK not in folder:
                raise ArgumentError(f"{option} {folder}: each device writes its own; put {RANK} into the name, as in {folder}.{RANK}")


@dataclass(frozen=True)
class Several:
    """How a program runs on several devices."""

    devices: int | None
    partitions: int | None
    mpi: bool
    """Whether each device is a process of an MPI job, and not a thread."""
    timeout: float


@dataclass
class _Part:
    """What one device of this process runs on."""

    device: int
    files: Files
    arrays: list[Array]
    feeds: FileFeeds
    results: list[Array] = field(default_factory=list)


def run(exe: Executable, files: Files, iterations: int, profile: bool, several: Several | None) -> None:
    """Runs the module, prints its results, and writes them where the files say."""
    comm = _communicator(profile) if several and several.mpi else None
    try:
        _run(exe, files, iterations, profile, several, comm)
    except (XlaWasmError, OSError) as error:
        if comm is not None and comm.Get_size() > 1:  # else the other processes would wait for this one
            mpi.end_job(comm, f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error), 2)
        raise


def _run(exe: Executable, files: Files, iterations: int, profile: bool, several: Several | None, comm: Any) -> None:
    count = _count(exe, several, comm.Get_size() if comm else None)
    if count > 1:
        files.check_several()
    devices = range(count) if comm is None else [comm.Get_rank()]
    _set_values(exe, files, devices)
    parts = [_part(exe, files.of(d) if several else files, d) for d in devices]
    call = _caller(exe, parts, several, comm)
    for part, results in zip(parts, call()):
        part.results = results
    console = report.console()
    rows = [(str(part.device), *row) for part in parts for row in _rows(exe, part)]
    rows = rows if comm is None else [row for own in comm.allgather(rows) for row in own]
    first = comm is None or comm.Get_rank() == 0
    if first:
        table = report.table(*(["device"] if several else []), "result", "type", "value")
        for row in rows:
            table.add_row(*row[0 if several else 1 :])
        console.print(table)
    for part in parts:
        _write(console, part)
    if iterations > 1:
        times = _times(call, iterations)
        if first:
            console.print(times)
    if profile:
        _print_profile(console, _profiles(exe, parts, several))


def _communicator(profile: bool) -> Any:
    if profile:
        raise ArgumentError("--profile is for threads: run it without mpiexec, with --devices")
    log = logging.getLogger(mpi.__name__)
    log.setLevel(logging.INFO)
    log.addHandler(logging.StreamHandler())
    return mpi.world()


def _count(exe: Executable, several: Several | None, ranks: int | None) -> int:
    """The number of devices."""
    if several is None:
        return 1
    devices = exe.manifest.devices
    fixed = devices.least if devices and devices.least == devices.most else exe.manifest.sharded
    if devices and devices.replicas and devices.partitions:
        fixed = devices.replicas * devices.partitions
    if ranks is not None:
        if several.devices not in (None, ranks):
            raise ArgumentError(f"--devices {several.devices}: MPI has started {ranks} processes, and each is a device")
        return ranks
    if several.devices is None and fixed is None:
        raise ArgumentError(f"--replicated: '{exe.manifest.name}' runs on any number of devices; say how many with --devices")
    return several.devices or fixed or 1


def _part(exe: Executable, files: Files, device: int) -> _Part:
    feeds = FileFeeds(
        exe.manifest,
        [Path(path) for path in files.infeed],
        Path(files.outfeed) if files.outfeed is not None else None,
        files.recv,
        files.send,
        files.seed if files.random else None,
    )
    files.check_outputs()
    return _Part(device, files, arguments(exe.parameters, [Path(p) for p in files.inputs], files.random, files.seed), feeds)


def _caller(exe: Executable, parts: list[_Part], several: Several | None, comm: Any) -> Callable[[], list[list[Array]]]:
    """A function that runs the parts."""
    if several is None:
        return lambda: [exe.run(*parts[0].arrays, **parts[0].feeds.ends())]
    if comm is not None:
        options = {"comm": comm, "timeout": several.timeout, "num_partitions": several.partitions}
        return lambda: [mpi.run(exe, parts[0].arrays, **options, **parts[0].feeds.ends())]
    return lambda: exe.run_replicated([part.arrays for part in parts], **_options(parts, several))


def _options(parts: list[_Part], several: Several) -> dict[str, Any]:
    ends = [part.feeds.ends() for part in parts]
    feeds = {kind: [end[kind] for end in ends] for kind in ends[0]}
    return {"num_partitions": several.partitions, "timeout": several.timeout, **feeds}


def _rows(exe: Executable, part: _Part) -> list[tuple[str, str, str]]:
    """The results of a device and what came out on the way, for a table."""
    outputs = [leaf for leaf in exe.results if leaf.kind == "output"]
    rows = [(leaf.name, str(leaf), _summary(array)) for leaf, array in zip(outputs, part.results)]
    came = [(label, array) for label, arrays in part.feeds.came for array in arrays]
    rows += [(label, f"{array.dtype.name}[{','.join(map(str, array.shape))}]", _summary(array)) for label, array in came[:MOST_SHOWN]]
    if len(came) > MOST_SHOWN:
        rows.append((f"and {len(came) - MOST_SHOWN} more", "", ""))
    return rows


def _write(console: Console, part: _Part) -> None:
    """Writes the results into their folder, and what came out on the way into others."""
    if part.files.output is not None:
        folder = Path(part.files.output)
        folder.mkdir(parents=True, exist_ok=True)
        for i, array in enumerate(part.results):
            with writing(folder / f"{i}.npy") as file:
                np.save(file, array)
        console.print(f"{len(part.results)} results written to {folder}/")
    for said in part.feeds.write():
        console.print(said)


def _set_values(exe: Executable, files: Files, devices: Sequence[int]) -> None:
    """Sets weights and states from the files of `--set`, and the weights that it leaves out to random values."""
    leaves = {leaf.name: leaf for leaf in exe.parameters if leaf.kind != "input"}
    left = dict(leaves)
    for setting in files.settings:
        each = list(devices) if RANK in setting else [None]
        for device in each:
            name, separator, path = setting.replace(RANK, str(device)).rpartition("=")
            if not separator or name not in leaves or not Path(path).is_file():
                known = ", ".join(leaves) or "there is none"
                raise ArgumentError(f"--set {setting}: expected NAME=X.NPY with the name of a weight or state ({known}) and a file")
            exe.set(name, load_array(Path(path), leaves[name].element_type, prod(leaves[name].dimensions)), device)
            left.pop(name, None)
    rng = np.random.default_rng(files.seed)
    for leaf in left.values():
        if files.random and leaf.kind == "weight":
            exe.set(leaf.name, random_array(rng, leaf.element_type, leaf.shards.dimensions if leaf.shards else leaf.dimensions))


def _times(call: Callable[[], object], iterations: int) -> str:
    times = []
    for _ in range(iterations):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    times.sort()
    return (
        f"{iterations} runs: fastest {report.duration(times[0])}, median {report.duration(times[len(times) // 2])}, "
        f"mean {report.duration(sum(times) / len(times))}, slowest {report.duration(times[-1])}"
    )


def _profiles(exe: Executable, parts: list[_Part], several: Several | None) -> list[list[tuple[str, float]]]:
    if several is None:
        return [exe.profile(*parts[0].arrays, **parts[0].feeds.ends())]
    return exe.profile_replicated([part.arrays for part in parts], **_options(parts, several))


def _print_profile(console: Console, profiles: list[list[tuple[str, float]]]) -> None:
    for device, steps in enumerate(profiles):
        total = sum(seconds for _, seconds in steps)
        table = report.table("step" if len(profiles) == 1 else f"step on device {device}", ">time", ">share")
        for name, seconds in sorted(steps, key=lambda step: -step[1]):
            table.add_row(name, report.duration(seconds), f"{seconds / (total or 1):.1%}")
        table.add_row("all", report.duration(total), "")
        console.print(table)


def _summary(array: Array) -> str:
    if array.size <= 16:
        return str(np.array2string(array, precision=6, separator=", ", max_line_width=10**6).replace("\n", " "))
    if array.dtype.kind == "c":
        return f"mean {array.mean():.6g}"
    wide = array.astype(np.float64)
    return f"min {wide.min():.6g}, max {wide.max():.6g}, mean {wide.mean():.6g}"
