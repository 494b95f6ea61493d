"""`xla-wasm run`."""

from __future__ import annotations

from typing import Annotated

import typer

from ..dataclass import dataclass, field
from ..errors import ArgumentError
from . import report
from .base import (
    AnyPath,
    DimOption,
    Engine,
    InputOption,
    JsonOption,
    SeedOption,
    SetOption,
    check_standard_input,
)
from .interrupt import ends_at_once
from .opening import read

_WAIT = 60.0
"""Seconds that a device waits in one exchange, if nothing else is said."""


@dataclass(frozen=True)
class Given:
    """The inputs of a run."""

    inputs: InputOption = field(default_factory=list)
    settings: SetOption = field(default_factory=list)
    dim: DimOption = field(default_factory=list)
    random_inputs: Annotated[
        bool, typer.Option("--random-inputs", help="Make up what --input and --set do not give.")
    ] = False
    seed: SeedOption = 0


@dataclass(frozen=True)
class Repeats:
    """The number of runs, and how they run."""

    iterations: Annotated[
        int, typer.Option("--iterations", "-n", min=1, help="Run so many times and print the times.")
    ] = 1
    threads: Annotated[
        int | None,
        typer.Option(
            "--threads",
            min=1,
            help="The number of threads that share the work; by default all processors, if it is compiled for threads.",
        ),
    ] = None
    profile: Annotated[bool, typer.Option("--profile", help="Print how long each step takes.")] = False


@dataclass(frozen=True)
class Feeds:
    """Files of what comes and goes during a run."""

    infeed: Annotated[
        list[str], typer.Option("--infeed", metavar="X.NPY", help="An item for infeed, or .npz. Repeatable.")
    ] = field(default_factory=list)
    outfeed: Annotated[str | None, typer.Option("--outfeed", metavar="DIR", help="Folder for what outfeed gives.")] = (
        None
    )
    recv: Annotated[
        list[str], typer.Option("--recv", metavar="NAME=X.NPY", help="An item for a recv of that name. Repeatable.")
    ] = field(default_factory=list)
    send: Annotated[
        list[str], typer.Option("--send", metavar="NAME=DIR", help="Folder for what that send gives. Repeatable.")
    ] = field(default_factory=list)


@dataclass(frozen=True)
class Devices:
    """On how many devices it runs, and how they find each other."""

    replicated: Annotated[
        bool, typer.Option("--replicated", help="Run on several devices: threads, or with mpiexec processes.")
    ] = False
    devices: Annotated[
        int | None, typer.Option("--devices", min=1, help="With --replicated: how many, if MODULE does not say.")
    ] = None
    partitions: Annotated[
        int | None,
        typer.Option(
            "--num-partitions", min=1, help="With --replicated: how many of them are partitions of one replica."
        ),
    ] = None
    mpi: Annotated[bool, typer.Option("--mpi", help="With --replicated: use MPI even if no mpiexec is recognised.")] = (
        False
    )
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            help="How long a run may take. With --replicated: how long a device waits for others in one exchange, by "
            "default 60.",
        ),
    ] = None


def run(
    path: AnyPath,
    *,
    given: Given,
    repeats: Repeats,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            metavar="DIR",
            help="Folder for the results, each a .npy file of its name; or one file, .npz or .npy, or - for standard "
            "output.",
        ),
    ] = None,
    engine: Engine,
    feeds: Feeds,
    devices: Devices,
    as_json: JsonOption = False,
) -> None:
    """Runs a module or a compiled artifact under wasmtime and prints the results.

    With --replicated it runs on several devices, and {rank} in the names of files and folders stands for the number of
    the device, which is replica * partitions + partition:

    xla-wasm run M --replicated --devices 4 -i 'x.{rank}.npy' --output 'out.{rank}'

    mpiexec -n 4 xla-wasm run M --replicated -i 'x.{rank}.npy' --output 'out.{rank}'
    """
    from ..host import launch

    if not devices.replicated and (devices.devices or devices.partitions or devices.mpi):
        raise ArgumentError("--devices, --num-partitions and --mpi are about runs on several devices: add --replicated")
    check_standard_input(str(path), *given.inputs, *given.settings)
    mpi = devices.mpi
    if devices.replicated:
        mpi = mpi or launch.rank() is not None
        launch.supervise()

    with ends_at_once():
        from ..check.draws import Drawing
        from ..hlo.ir import Module
        from ..host.executor import load
        from .inputs import compiled_with
        from .running import Files, Several, run

    wait = _WAIT if devices.timeout is None else devices.timeout
    several = Several(devices.devices, devices.partitions, mpi, wait) if devices.replicated else None
    source, threads = read(path, given.dim), repeats.threads
    drawing = Drawing(source if isinstance(source, Module) else None) if given.random_inputs else None
    files = Files(
        given.inputs,
        given.settings,
        output,
        feeds.infeed,
        feeds.outfeed,
        feeds.recv,
        feeds.send,
        drawing,
        given.seed,
    )
    with report.progress(f"preparing {path.name}"):
        artifact = compiled_with(source, engine, files.of(0).settings, threads is not None and threads > 1)
        exe = load(artifact, threads=threads, timeout=None if devices.replicated else devices.timeout)
    run(exe, files, repeats.iterations, repeats.profile, several, as_json)
