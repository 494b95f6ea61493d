"""The work of `xla-wasm run`, on one device, on several threads, or as one of several processes over MPI."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from rich.console import Console

from ..check.draws import Draw, Drawing
from ..dataclass import dataclass, field
from ..errors import ArgumentError, XlaWasmError, counted
from ..files import make_folder, writing
from ..hlo.shape import Shape
from ..host import mpi
from ..host.arrays import Array
from ..host.executor import Executable
from ..host.grid import check_alone
from . import report
from .filefeeds import FileFeeds
from .inputs import arguments, held_values
from .opening import STDIN

RANK = "{rank}"
"""Stands for the number of a device in the names of files and folders."""
MOST_SHOWN = 20
"""Items that have come out, as rows of the table."""
_SHOWN_WHOLE = 16
"""Elements of an array that is shown whole."""
_LONGEST_NAME = 200
"""Characters of a file's name."""
_MOST_LISTED = 4
"""Files that a line names."""


@dataclass(frozen=True)
class Files:
    """Files of inputs and outputs: the options of the command, names with RANK in them or not."""

    inputs: Sequence[str] = ()
    settings: Sequence[str] = ()
    output: str | None = None
    infeed: Sequence[str] = ()
    outfeed: str | None = None
    recv: Sequence[str] = ()
    send: Sequence[str] = ()
    drawing: Drawing | None = None
    """Draws what no file gives."""
    seed: int = 0
    device: int = 0

    def of(self, device: int) -> Files:
        """Returns the files of one device, with its number for RANK. Made-up inputs differ from device to device."""

        def named(text: str) -> str:
            return text.replace(RANK, str(device))

        lists = (tuple(map(named, texts)) for texts in (self.inputs, self.settings, self.infeed, self.recv, self.send))
        inputs, settings, infeed, recv, send = lists
        output, outfeed = (None if text is None else named(text) for text in (self.output, self.outfeed))
        return Files(inputs, settings, output, infeed, outfeed, recv, send, self.drawing, self.seed, device)

    @property
    def draw(self) -> Draw:
        """The draw of what no file gives."""
        return Draw(0, self.seed, self.device)

    def check_outputs(self, results: Sequence[str]) -> None:
        """Raises an error if what comes out would overwrite what else comes out, or what goes in. `results` are the
        names of the results."""
        if self.output == STDIN:
            report.binary_output()
            return
        files = self.result_files(results)
        taken: dict[str, str] = {} if self.output is None else {os.path.realpath(self.output): "--output"}
        folders = [("--outfeed", self.outfeed), *(("--send", pair.rpartition("=")[2]) for pair in self.send)]
        for option, folder in folders:
            if folder is None:
                continue
            other = taken.setdefault(os.path.realpath(folder), option)
            if option != other or folders.count((option, folder)) > 1:
                raise ArgumentError(
                    f"{option} {folder}: {other} writes into this folder, too: give each a folder of its own"
                )
        written = {os.path.realpath(path): "--output" for path in files}
        for text in (*self.inputs, *self.infeed, *self.settings, *self.recv):
            for path in (text, *(text[at + 1 :] for at, c in enumerate(text) if c == "=")):
                real = os.path.realpath(path)
                folder, name = os.path.split(real)
                writer = written.get(real) or (taken.get(folder) if re.fullmatch(r"\d+\.np[yz]", name) else None)
                if writer is not None and os.path.isfile(path):
                    where = self.output if real in written else folder
                    raise ArgumentError(
                        f"{writer} {where} would overwrite {path}, which is read: choose another folder"
                    )

    def result_files(self, names: Sequence[str]) -> list[Path]:
        """Returns the files that results of these names go to: a file for each in the folder, or all in one that is
        called .npy or .npz."""
        if self.output is None or self.output == STDIN:
            return []
        output = Path(self.output)
        if output.suffix not in (".npy", ".npz") or output.is_dir():
            return [output / f"{name}.npy" for name in file_names(names)]
        if output.suffix == ".npy" and len(names) != 1:
            raise ArgumentError(
                f"--output {output}: there are {counted(len(names), 'result')}, and a .npy file holds one: name a "
                f"folder, or an .npz file"
            )
        return [output]

    def check_several(self) -> None:
        """Several devices must not write into the same folder."""
        for option, folder in (
            ("--output", self.output),
            ("--outfeed", self.outfeed),
            *(("--send", pair) for pair in self.send),
        ):
            if folder is not None and RANK not in folder:
                raise ArgumentError(
                    f"{option} {folder}: each device writes its own; put {RANK} into the name, as in {folder}.{RANK}"
                )


@dataclass(frozen=True)
class Several:
    """The settings of a program on several devices."""

    devices: int | None
    partitions: int | None
    mpi: bool
    """True if each device is a process of an MPI job, and not a thread."""
    timeout: float


@dataclass
class _Part:
    """The data of one device of this process."""

    device: int
    files: Files
    arrays: list[Array]
    feeds: FileFeeds
    results: list[Array] = field(default_factory=list)


def run(
    exe: Executable,
    files: Files,
    iterations: int,
    profile: bool,
    several: Several | None,
    as_json: bool = False,
) -> None:
    """Runs the module, prints its results, and writes them where the files say."""
    comm = _communicator(profile) if several and several.mpi else None
    try:
        _run(exe, files, iterations, profile, several, comm, as_json)
    except (XlaWasmError, OSError) as error:
        if comm is not None and comm.Get_size() > 1:  # else the other processes would wait for this one
            mpi.end_job(comm, f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error), 2)
        raise


def file_names(names: Sequence[str]) -> list[str]:
    """Names for files, all different, also on disks where the case of letters makes no difference: what is no letter,
    digit, dot, dash or underscore becomes its code, since names come from anywhere and must not lead to other folders.
    """
    made: list[str] = []
    taken: set[str] = set()
    for i, name in enumerate(names):
        safe = quote(name.encode("utf-8", "replace"), safe="").replace("~", "%7E")
        safe = f"%2E{safe[1:]}" if safe.startswith(".") else safe
        if not safe or len(safe) > _LONGEST_NAME:
            safe = f"result.{i}"
        while safe.lower() in taken:
            safe += f".{i}"
        taken.add(safe.lower())
        made.append(safe)
    return made


def _run(
    exe: Executable,
    files: Files,
    iterations: int,
    profile: bool,
    several: Several | None,
    comm: Any,
    as_json: bool,
) -> None:
    count = _count(exe, several, comm.Get_size() if comm else None)
    if count > 1:
        files.check_several()
        if files.output == STDIN or any(
            text == STDIN or text.endswith(f"={STDIN}") for text in (*files.inputs, *files.settings)
        ):
            raise ArgumentError(
                f"standard input and output are for runs on one device: name files, with {RANK} in their names"
            )
    devices = range(count) if comm is None else [comm.Get_rank()]
    parts = [_part(exe, files.of(d) if several else files, d) for d in devices]
    _set_values(exe, files, devices)
    call = _caller(exe, parts, several, comm)
    with report.progress(f"running {exe.manifest.name}"):
        for part, results in zip(parts, call()):
            part.results = results
    console = report.error_console() if files.output == STDIN else report.console()
    first = comm is None or comm.Get_rank() == 0
    facts: dict[str, Any] = {}
    rows = [(str(part.device), *row) for part in parts for row in _rows(exe, part)]
    rows = rows if comm is None else [row for own in comm.allgather(rows) for row in own]
    if as_json:
        facts["results"] = [fact for part in parts for fact in _facts(exe, part, several is not None)]
    elif first:
        table = report.table(*(["device"] if several else []), "result", "type", "value")
        for row in rows:
            table.add_row(*row[0 if several else 1 :])
        console.print(table)
    for part in parts:
        said, wrote = _write(exe, part)
        facts.setdefault("files", []).extend(wrote)
        for line in [] if as_json else said:
            console.print(line)
    if iterations > 1:
        with report.progress(f"running {exe.manifest.name} {iterations} times"):
            times = _times(call, iterations)
        facts["seconds"] = times
        if first and not as_json:
            console.print(_times_line(times, iterations))
    if profile:
        profiles = _profiles(exe, parts, several)
        facts["profile"] = [[{"step": name, "seconds": seconds} for name, seconds in steps] for steps in profiles]
        if not as_json:
            _print_profile(console, profiles)
    if as_json and first:
        facts = (
            facts
            if comm is None
            else {**facts, "results": [x for own in comm.allgather(facts["results"]) for x in own]}
        )
        report.print_json(facts, error=files.output == STDIN)
    elif as_json:
        comm.allgather(facts["results"])


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
        try:
            check_alone(exe.manifest)
        except ArgumentError as error:
            wanted = str(error).partition(": ")[0]
            raise ArgumentError(
                f"{wanted}: add --replicated, and --devices N where the module does not say how many"
            ) from None
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
        raise ArgumentError(
            f"--replicated: '{exe.manifest.name}' runs on any number of devices; say how many with --devices"
        )
    return several.devices or fixed or 1


def _part(exe: Executable, files: Files, device: int) -> _Part:
    feeds = FileFeeds(
        exe.manifest,
        [Path(path) for path in files.infeed],
        Path(files.outfeed) if files.outfeed is not None else None,
        files.recv,
        files.send,
        files.drawing,
        files.draw,
    )
    files.check_outputs([leaf.name for leaf in exe.results if leaf.kind == "output"])
    return _Part(device, files, arguments(exe.parameters, files.inputs, files.drawing, files.draw), feeds)


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
    rows += [
        (label, f"{array.dtype.name}[{','.join(map(str, array.shape))}]", _summary(array))
        for label, array in came[:MOST_SHOWN]
    ]
    if len(came) > MOST_SHOWN:
        rows.append((f"and {len(came) - MOST_SHOWN} more", "", ""))
    return rows


def _facts(exe: Executable, part: _Part, several: bool) -> list[dict[str, Any]]:
    """The same for a program that reads them."""
    own: dict[str, Any] = {"device": part.device} if several else {}
    outputs = [leaf for leaf in exe.results if leaf.kind == "output"]
    facts = [
        {**own, "name": leaf.name, "type": str(leaf), **_value(array)} for leaf, array in zip(outputs, part.results)
    ]
    came = [(label, array) for label, arrays in part.feeds.came for array in arrays]
    return facts + [
        {**own, "name": label, "type": f"{a.dtype.name}[{','.join(map(str, a.shape))}]", **_value(a)}
        for label, a in came
    ]


def _value(array: Array) -> dict[str, Any]:
    if array.size <= _SHOWN_WHOLE:
        return {"value": report.plain(array)}
    return {name: report.plain(number) for name, number in _statistics(array).items()}


def _statistics(array: Array) -> dict[str, Any]:
    """The least, the greatest and the mean of an array's finite elements, of complex ones the mean; and how many are
    not finite, if any."""
    wide = array if array.dtype.kind == "c" else array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    names = ("mean",) if wide.dtype.kind == "c" else ("min", "max", "mean")
    found: dict[str, Any] = {name: getattr(finite, name)() for name in names if finite.size}
    nans = int(np.isnan(wide).sum())
    counts = {"nan": nans, "inf": wide.size - finite.size - nans}
    return found | {name: count for name, count in counts.items() if count}


def _write(exe: Executable, part: _Part) -> tuple[list[str], list[str]]:
    """Writes the results, and what came out on the way into folders; what to say of it, and the files of results."""
    output, said = part.files.output, []
    names = [leaf.name for leaf in exe.results if leaf.kind == "output"]
    paths = part.files.result_files(names)
    if output == STDIN:
        stream = report.binary_output()
        _save(stream, names, part.results)
        stream.flush()
    elif output is not None:
        whole = paths == [Path(output)]
        make_folder(Path(output).parent if whole else Path(output))
        if whole:
            with writing(output) as file:
                _save(file, names, part.results, paths[0].suffix == ".npz")
        else:
            for path, array in zip(paths, part.results):
                with writing(path) as file:
                    np.save(file, array)
        where = output if whole else f"{Path(output)}/"
        said.append(
            f"{counted(len(part.results), 'result')} written to {where}"
            + ("" if whole or not paths else f": {_listed(paths)}")
        )
    return [*said, *part.feeds.write()], list(map(str, paths))


def _listed(paths: Sequence[Path]) -> str:
    more = f" and {len(paths) - _MOST_LISTED:,} more" if len(paths) > _MOST_LISTED else ""
    return ", ".join(path.name for path in paths[:_MOST_LISTED]) + more


def _save(file: Any, names: Sequence[str], arrays: Sequence[Array], archive: bool | None = None) -> None:
    """Arrays as an .npz file, or the only one as .npy; by default whichever suits their number."""
    if archive or (archive is None and len(arrays) != 1):
        np.savez(file, **dict(zip(file_names(names), arrays)))  # type: ignore[arg-type]
    else:
        np.save(file, arrays[0])


def _set_values(exe: Executable, files: Files, devices: Sequence[int]) -> None:
    """Sets weights and states from the files of `--set`, and weights that it leaves out to drawn values, or says that
    they are missing."""
    held = {leaf.name: leaf for leaf in exe.parameters if leaf.kind != "input"}
    left = {leaf.name: leaf for leaf in exe.parameters if leaf.kind == "weight"}
    for device in devices if any(RANK in setting for setting in files.settings) else [None]:
        settings = files.settings if device is None else files.of(device).settings
        for name, array in held_values(held, settings).items():
            exe.set(name, array, device)
            left.pop(name, None)
    if not left:
        return
    if files.drawing is None:
        first = next(iter(left.values()))
        if len(left) == 1:
            raise ArgumentError(
                f"a weight is missing: --set {first.name}=FILE, of type {first}; --random-inputs makes it up"
            )
        raise ArgumentError(
            f"{len(left)} weights are missing, {first.name} ({first}) the first: --set {first.name}=FILE for each, or "
            f"--set FILE for "
            "an .npz or a safetensors file that has them by name; --random-inputs makes them up"
        )
    for leaf in left.values():
        whole = Shape(leaf.element_type, leaf.shards.dimensions) if leaf.shards else leaf
        exe.set(leaf.name, files.drawing.input(files.draw, leaf.name, whole))


def _times(call: Callable[[], object], iterations: int) -> list[float]:
    """The seconds of each run, the fastest first."""
    times = []
    for _ in range(iterations):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return sorted(times)


def _times_line(times: Sequence[float], iterations: int) -> str:
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
    if array.size <= _SHOWN_WHOLE:
        return str(np.array2string(array, precision=6, separator=", ", max_line_width=10**6).replace("\n", " "))
    found = _statistics(array)
    counts = [f"{found.pop(name)} {shown}" for name, shown in (("nan", "NaN"), ("inf", "infinite")) if name in found]
    numbers = ", ".join(f"{name} {number:.6g}" for name, number in found.items())
    return "; ".join([numbers + " of finite ones" * bool(counts and numbers), *counts]).removeprefix("; ")
