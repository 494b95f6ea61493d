"""Printing of the command line and the examples: tables, sizes, times."""

from __future__ import annotations

import json
import math
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table

from ..errors import ArgumentError, visible


class _Console(Console):
    """A console that shows control characters, in whatever is printed, instead of obeying them."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else visible(text), style, control)


def console() -> Console:
    """The console of standard output. Piped output is read by programs and by grep, so it is not folded at 80 columns.

    Markup is off: names of instructions and shapes have brackets of their own.
    """
    return _Console(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else 160)


def quiet_console() -> Console:
    """A console that prints nothing, where facts are printed as JSON instead."""
    return _Console(quiet=True)


def error_console() -> Console:
    """The console of standard error, where a message is one line however long."""
    return _Console(highlight=False, markup=False, emoji=False, stderr=True, soft_wrap=True)


def text(content: str) -> None:
    """Prints text as it is, but for control characters."""
    print(visible(content))


def print_json(facts: Any, error: bool = False) -> None:
    """Prints facts for programs, on standard output, or on standard error if a result goes to standard output."""
    print(json.dumps(facts, indent=2, allow_nan=False), file=sys.stderr if error else sys.stdout)


def print_ready(facts: Any) -> None:
    """Prints facts as one line of JSON at once: a server is ready, and goes on."""
    print(json.dumps(facts, allow_nan=False), flush=True)


def binary_output() -> BinaryIO:
    """Standard output for the bytes of a file. ArgumentError if it is a terminal, which would obey them."""
    if sys.stdout.isatty():
        raise ArgumentError(
            "standard output is a terminal, and this is no text: send it on, as in  > FILE  or  | PROGRAM"
        )
    return sys.stdout.buffer


def plain(value: Any) -> Any:
    """Numbers, or an array of NumPy's, as JSON has them: NaN and the infinities are strings, complex numbers pairs."""
    if hasattr(value, "dtype"):
        kind = value.dtype.kind
        value = (
            value.astype("f8" if kind == "f" else "c16" if kind == "c" else "i8").tolist()
            if kind in "fcV"
            else value.tolist()
        )
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, complex):
        return [plain(value.real), plain(value.imag)]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


@contextmanager
def progress(what: str) -> Iterator[None]:
    """Says what is at work, and for how long, on a standard error that is a terminal, once it has taken a second."""
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()

    def tell() -> None:
        began = time.monotonic()
        if done.wait(1):
            return
        while True:
            sys.stderr.write(f"\r{visible(what).splitlines()[0][:60]} ... {time.monotonic() - began:.0f} s\x1b[K")
            sys.stderr.flush()
            if done.wait(0.5):
                break
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()


class _Table(Table):
    """A table whose rows become lists of what is in them, a line for each column, where the console is too narrow for
    the words in the columns. A column beside names is folded instead."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        least = Measurement.get(console, options.update(width=_NO_BOUND), self).minimum
        if len(self.columns) < 3 or least <= options.max_width:
            yield from super().__rich_console__(console, options)
            return
        for row in zip(*(column.cells for column in self.columns), strict=True):
            listed = table("", "")
            listed.show_header = False
            for column, cell in zip(self.columns, row, strict=True):
                if cell:
                    listed.add_row(column.header, cell)
            yield listed
            yield ""


_NO_BOUND = 1 << 20


def table(*columns: str) -> Table:
    """A plain table; a column whose title begins with `>` holds numbers."""
    made = _Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        made.add_column(
            column.removeprefix(">"), justify="right" if column.startswith(">") else "left", overflow="fold"
        )
    return made


def size(count: int) -> str:
    """A number of bytes, as in "43.8 KB" (1 KB is 1000 bytes)."""
    if count < 10_000:
        return f"{count:,} bytes"
    return f"{count / 1000:.1f} KB" if count < 1_000_000 else f"{count / 1e6:.1f} MB"


def duration(seconds: float) -> str:
    """A time, as in "1.25 s", "3.10 ms" or "8.2 us"."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"
