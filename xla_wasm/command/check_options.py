"""Options of `xla-wasm check`, in records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..dataclass import dataclass, field
from .base import DimOption, InputOption, SeedOption


@dataclass(frozen=True)
class Given:
    """The module's inputs; the others are drawn."""

    inputs: InputOption = field(default_factory=list)
    dim: DimOption = field(default_factory=list)
    seed: SeedOption = 0
    draws: Annotated[
        int | None,
        typer.Option(
            "--draws",
            min=1,
            metavar="N",
            help="Draws of arguments: by default 3, or fewer if they take more than 5 s.",
        ),
    ] = None


@dataclass(frozen=True)
class Search:
    """The search for the instruction that differs, and the file that it is written to."""

    isolate: Annotated[
        bool, typer.Option("--isolate", help="Find the first instruction that differs, in loops and branches too.")
    ] = False
    nan: Annotated[
        bool,
        typer.Option(
            "--nan",
            help="Find where the first NaN or infinity of a result begins, in place of comparing.",
        ),
    ] = False
    reproducer: Annotated[
        Path | None,
        typer.Option(
            "--reproducer", dir_okay=False, metavar="FILE", help="With --isolate: its HLO text, with its inputs beside."
        ),
    ] = None


@dataclass(frozen=True)
class Devices:
    """On how many devices it runs, if the module leaves that open."""

    devices: Annotated[
        int | None, typer.Option("--devices", min=1, help="On how many devices, if MODULE does not say.")
    ] = None
    partitions: Annotated[
        int | None,
        typer.Option("--num-partitions", min=1, help="The number of devices that are partitions of one replica."),
    ] = None
