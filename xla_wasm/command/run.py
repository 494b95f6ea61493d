"""`xla-wasm run`."""

from __future__ import annotations

from typing import Annotated

import typer

from ..errors import ArgumentError
from ..target import PORTABLE, SIMD128
from . import report
from .base import (
    AnyPath,
    DimOption,
    InputOption,
    JsonOption,
    SeedOption,
    SetOption,
    TargetOption,
    TuneOption,
    check_standard_input,
)
from .opening import read


def run(
    path: AnyPath,
    inputs: InputOption = [],  # noqa: B006
    settings: SetOption = [],  # noqa: B006
    dim: DimOption = [],  # noqa: B006
    random_inputs: Annotated[
        bool, typer.Option("--random-inputs", help="Make up what --input and --set do not give.")
    ] = False,
    seed: SeedOption = 0,
    iterations: Annotated[
        int, typer.Option("--iterations", "-n", min=1, help="Run so many times and print the times.")
    ] = 1,
    threads: Annotated[
        int | None,
        typer.Option(
            "--threads",
            min=1,
            help="How many threads share the work; by default all processors, if it is compiled for threads.",
        ),
    ] = None,
    profile: Annotated[bool, typer.Option("--profile", help="Print how long each step takes.")] = False,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            metavar="DIR",
            help="Folder for the results, each a .npy file of its name; or one file, .npz or .npy, or - for standard "
            "output.",
        ),
    ] = None,
    target: TargetOption = SIMD128,
    tune: TuneOption = PORTABLE,
    infeed: Annotated[
        list[str], typer.Option("--infeed", metavar="X.NPY", help="An item for infeed, or .npz. Repeatable.")
    ] = [],  # noqa: B006
    outfeed: Annotated[
        str | None, typer.Option("--outfeed", metavar="DIR", help="Folder for what outfeed gives.")
    ] = None,
    recv: Annotated[
        list[str], typer.Option("--recv", metavar="NAME=X.NPY", help="An item for a recv of that name. Repeatable.")
    ] = [],  # noqa: B006
    send: Annotated[
        list[str], typer.Option("--send", metavar="NAME=DIR", help="Folder for what that send gives. Repeatable.")
    ] = [],  # noqa: B006
    replicated: Annotated[
        bool, typer.Option("--replicated", help="Run on several devices: threads, or with mpiexec processes.")
    ] = False,
    devices: Annotated[
        int | None, typer.Option("--devices", min=1, help="With --replicated: how many, if MODULE does not say.")
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--num-partitions", min=1, help="With --replicated: how many of them are partitions of one replica."
        ),
    ] = None,
    mpi: Annotated[
        bool, typer.Option("--mpi", help="With --replicated: use MPI even if no mpiexec is recognised.")
    ] = False,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            help="With --replicated: how long a device waits for others in one exchange.",
        ),
    ] = 60.0,
    as_json: JsonOption = False,
) -> None:
    """Runs a module or a compiled artifact under wasmtime and prints the results.

    With --replicated it runs on several devices, and {rank} in the names of files and folders stands for the number of
    the device, which is replica * partitions + partition:

    xla-wasm run M --replicated --devices 4 -i 'x.{rank}.npy' --output 'out.{rank}'

    mpiexec -n 4 xla-wasm run M --replicated -i 'x.{rank}.npy' --output 'out.{rank}'
    """
    from ..host import launch

    if not replicated and (devices or partitions or mpi):
        raise ArgumentError("--devices, --num-partitions and --mpi are about runs on several devices: add --replicated")
    check_standard_input(str(path), *inputs, *settings)
    if replicated:
        mpi = mpi or launch.rank() is not None
        launch.supervise()

    from ..host.executor import load
    from .inputs import compiled_with
    from .running import Files, Several, run

    several = Several(devices, partitions, mpi, timeout) if replicated else None
    files = Files(inputs, settings, output, infeed, outfeed, recv, send, random_inputs, seed)
    source = read(path, dim)
    with report.progress(f"preparing {path.name}"):
        artifact = compiled_with(source, (target, tune), files.of(0).settings, threads is not None and threads > 1)
        exe = load(artifact, threads=threads)
    run(exe, files, iterations, profile, several, as_json)
