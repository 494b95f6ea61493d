"""The command `xla-wasm`. Commands print to standard output, errors to standard error in one line.

Exit codes: 0 done; 1 `check` found a difference; 2 the input or the command line is wrong; 130 interrupted.
"""

from __future__ import annotations

import io
import sys
import warnings
from typing import Annotated, NoReturn, TextIO

import typer
from rich.text import Text

from .. import __version__
from ..errors import OptionWarning, XlaWasmError
from . import report
from .about import layout, ops
from .base import app
from .check import check
from .compile import compile_module
from .completion import completion
from .dump import convert, dump
from .inspect import inspect
from .records import with_records
from .run import run
from .serve import serve, serve_model
from .words import in_words, placed

__all__ = ["app", "main"]

app.command("compile")(with_records(compile_module))
for command in (run, check, inspect, dump, convert, layout, ops, serve, serve_model, completion):
    app.command(command.__name__.replace("_", "-"))(with_records(command))


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"xla-wasm {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Runs the command line; a mistake of the user's ends in one line and exit code 2, never in a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names have characters that not every terminal has
    warnings.showwarning = _warn
    try:
        app()
    except XlaWasmError as error:
        _fail(placed(in_words(str(error))))
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))


_python_shows = warnings.showwarning


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Shows what an option does not do in one line, and other warnings as Python does."""
    if issubclass(category, OptionWarning):
        report.error_console().print(Text.assemble(("warning: ", "bold yellow"), in_words(str(message))))
    else:
        _python_shows(message, category, filename, lineno, file, line)


def _fail(message: str) -> NoReturn:
    report.error_console().print(Text.assemble(("error: ", "bold red"), message))
    sys.exit(2)
