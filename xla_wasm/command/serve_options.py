"""Options of `xla-wasm serve-model`, in records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..dataclass import dataclass, field
from .base import SetOption


@dataclass(frozen=True)
class Address:
    """The address of a server."""

    port: Annotated[int, typer.Option("--port", "-p", min=0, max=65535, help="Port; 0 takes a free one.")] = 8000
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; 0.0.0.0 takes requests from other machines.")
    ] = "127.0.0.1"


@dataclass(frozen=True)
class Files:
    """Files and texts with weights and states."""

    weights: Annotated[
        Path | None,
        typer.Option(
            "--weights",
            exists=True,
            dir_okay=False,
            metavar="FILE",
            help="Weights by name: a .safetensors or .npz file.",
        ),
    ] = None
    settings: SetOption = field(default_factory=list)


@dataclass(frozen=True)
class Limits:
    """Options that become the settings of the server."""

    max_concurrency: Annotated[
        int | None,
        typer.Option(
            "--max-concurrency", min=1, help="Runs at once, in each process. By default one for each processor."
        ),
    ] = None
    queue: Annotated[
        int, typer.Option("--queue", min=0, help="Requests that wait beside those; more are answered with 429.")
    ] = 256
    batch_deadline: Annotated[
        float | None,
        typer.Option(
            "--batch-deadline", min=0, metavar="MS", help="Run requests together: how long the first waits for more."
        ),
    ] = None
    run_timeout: Annotated[
        float, typer.Option("--run-timeout", metavar="SECONDS", help="The time that a run may take.")
    ] = 60.0
    body_timeout: Annotated[
        float, typer.Option("--body-timeout", metavar="SECONDS", help="The time that a body may take to arrive.")
    ] = 30.0
    max_body: Annotated[
        int | None,
        typer.Option(
            "--max-body", min=0, metavar="BYTES", help="The largest body. By default what the inputs can need."
        ),
    ] = None
    grace: Annotated[
        float,
        typer.Option(
            "--grace", min=0, metavar="SECONDS", help="The time for requests that have begun, when it is told to end."
        ),
    ] = 30.0
    reuse: Annotated[
        bool,
        typer.Option(
            "--reuse-instances", help="Let instances serve one request after another: faster with large weights."
        ),
    ] = False
