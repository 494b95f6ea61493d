"""`xla-wasm serve` and `xla-wasm serve-model`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from . import report
from .base import AnyPath, Engine
from .interrupt import ends_at_once
from .opening import read
from .serve_options import Address, Files, Limits

ReadyOption = Annotated[
    bool, typer.Option("--json", help="Print one line of JSON, for programs, when it can be asked: url, pid.")
]


def serve(
    port: Annotated[int, typer.Option("--port", "-p", min=0, max=65535, help="Port; 0 takes a free one.")] = 8000,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    open_browser: Annotated[
        bool | None,
        typer.Option(
            "--open/--no-open", help="Open the page in a browser. By default it does, unless --json is given."
        ),
    ] = None,
    write: Annotated[
        Path | None,
        typer.Option(
            "--write", file_okay=False, metavar="DIR", help="Write the pages there as static files and serve nothing."
        ),
    ] = None,
    allow_host: Annotated[
        list[str],
        typer.Option(
            "--allow-host",
            metavar="NAME",
            help="A name, beside localhost and --host, by which browsers come. Repeatable.",
        ),
    ] = [],  # noqa: B006
    as_json: ReadyOption = False,
) -> None:
    """Serves the pages: draw digits and train on them, compile HLO in the browser, search by meaning, train on several
    workers."""
    from ..site import pages
    from ..site.serve import make_server

    if write is not None:
        left_out = pages.write(write)
        if as_json:
            report.print_json({"folder": str(write), "left_out": left_out})
        for missing in left_out if not as_json else ():
            report.console().print(Text.assemble(("left out ", "bold"), missing))
        return
    server = make_server(host, port, names=allow_host)
    url = f"http://{f'[{host}]' if ':' in host else host}:{server.server_address[1]}/"
    if as_json:
        report.print_ready({"url": url, "pid": os.getpid()})
    else:
        report.console().print(Text.assemble((url, "bold"), "   Ctrl-C ends"))
    if open_browser or (open_browser is None and not as_json):
        import webbrowser

        webbrowser.open(url)
    with server:
        server.serve_forever()


def serve_model(
    path: AnyPath,
    *,
    address: Address,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes.")] = 1,
    files: Files,
    engine: Engine,
    limits: Limits,
    access_log: Annotated[bool, typer.Option("--access-log", help="Print a line for each request.")] = False,
    as_json: ReadyOption = False,
) -> None:
    """Serves a module or a compiled artifact over HTTP: POST / runs it. Needs the extra 'server'; see docs/serving.md.

    SIGTERM and Ctrl-C end it when what it has begun is answered.
    """
    with ends_at_once():
        from .serving import serve_model

    code = serve_model(read(path), engine, files, limits, address, workers, access_log, as_json)
    raise typer.Exit(code)
