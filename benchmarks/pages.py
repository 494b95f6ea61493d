"""Times the demo pages in Chromium, served by this machine: the playground, search by meaning, and Generate.

    python -m benchmarks.pages

Each visit of the playground and of search begins in a browser of its own with empty caches; a second visit follows in
the same browser. One visit of the playground comes over a line of 10 Mbit/s. Times count from the navigation, unless
the table says otherwise. Generate is trained once for 300 steps. Prints a table and writes pages.md. `./build.sh site`
makes the files of Pyodide and of the search page's model first.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from xla_wasm.command import report
from xla_wasm.site import minilm, pages
from xla_wasm.site.serve import make_server

from . import markdown
from .suite.machine import describe as machine

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page, Playwright

HERE = Path(__file__).parent
WAIT = 600_000
"""Milliseconds that anything may take, on a machine that others use."""
EDITED = "HloModule edited\n\nENTRY main {\n  x = f32[3] parameter(0)\n  ROOT y = f32[3] add(x, x)\n}\n"
QUERY = "feline naps"
PROMPT = "ROMEO."
STEPS = 300


@dataclass
class Measured:
    """Seconds of each round by what they are of, and the figures of Generate."""

    chromium: str = ""
    times: dict[str, list[float]] = field(default_factory=dict)
    loss: float = 0.0
    """After the last step of the training, in nats a character."""
    training: float = 0.0
    """Seconds of all steps, from the click on Start."""
    rate: float = 0.0
    """Characters a second while it writes and is not trained."""

    def note(self, what: str, seconds: float) -> None:
        """Adds the time of one round."""
        self.times.setdefault(what, []).append(seconds)


FIRST_PICTURE = "Playground: the example is there, compiled and run"
FIRST_EDITED = "Playground: an edited module has been compiled and run"
SLOW = "Playground, at 10 Mbit/s: the compiler is there"
SECOND_PICTURE = "Playground, second visit: the example is there, compiled and run"
SECOND_EDITED = "Playground, second visit: an edited module has been compiled and run"
MODEL = "Search: the model and the vectors are there"
SECOND_MODEL = "Search, second visit: the model and the vectors are there"
ANSWER = "Search: the first answer, from the question on"
RATE, DELAY = 10e6 / 8, 0.02
"""Bytes a second of a slow line, and seconds that it takes each way."""
GOALS = {SLOW: 8.0, FIRST_PICTURE: 2.0, FIRST_EDITED: 12.0, SECOND_EDITED: 4.0, ANSWER: 3.0}
"""Seconds."""


@contextmanager
def served() -> Iterator[str]:
    """Serves the pages; gives the address."""
    with make_server("127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@contextmanager
def slowed(address: str) -> Iterator[str]:
    """Passes on what a server sends as a slow line does, over however many connections; gives the address."""
    host, _, port = address.removeprefix("http://").rpartition(":")
    loop = asyncio.new_event_loop()
    free = 0.0

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, rate: float) -> None:
        nonlocal free
        try:
            while data := await reader.read(1 << 14):
                if rate:
                    free = max(free, loop.time()) + len(data) / rate
                    await asyncio.sleep(free - loop.time())
                writer.write(data)
                await writer.drain()
        except ConnectionError:  # the page is gone
            pass
        finally:
            writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(2 * DELAY)
        server = await asyncio.open_connection(host, int(port))
        await asyncio.gather(pump(reader, server[1], 0), pump(server[0], writer, RATE))

    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    # In that thread: this one has a loop of Playwright's.
    line = asyncio.run_coroutine_threadsafe(asyncio.start_server(connected, "127.0.0.1", 0), loop).result()
    try:
        yield f"http://127.0.0.1:{line.sockets[0].getsockname()[1]}"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def wait_for(page: Page, selector: str) -> None:
    """Ends at the next frame after it is there; Playwright's own way looks twice a second."""
    page.wait_for_function("(selector) => document.querySelector(selector)", arg=selector, timeout=WAIT)


def slow_playground(page: Page, address: str) -> float:
    """Seconds until the compiler is there."""
    begin = time.perf_counter()
    page.goto(f"{address}/demo/playground/", wait_until="commit")
    wait_for(page, "body[data-ready=true]")
    return time.perf_counter() - begin


def playground(page: Page, address: str) -> tuple[float, float]:
    """Seconds until the example has run, and until an edited module has."""
    begin = time.perf_counter()
    page.goto(f"{address}/demo/playground/", wait_until="commit")
    wait_for(page, "body[data-state=compiled][data-run=done]")
    picture = time.perf_counter() - begin
    wait_for(page, "body[data-ready=true]")
    page.locator("#source").fill(EDITED)
    page.locator("#compile").click()
    page.locator("#says", has_text=re.compile("^Compiled in ")).wait_for(timeout=WAIT)
    wait_for(page, "body[data-state=compiled][data-run=done]")
    return picture, time.perf_counter() - begin


def search(page: Page, address: str) -> tuple[float, float]:
    """Seconds until the model is there, and from then until the first answer."""
    begin = time.perf_counter()
    page.goto(f"{address}/demo/search/", wait_until="commit")
    wait_for(page, "body[data-ready=true]")
    ready = time.perf_counter()
    page.locator("#query").fill(QUERY)
    wait_for(page, "#results.ranked")
    return ready - begin, time.perf_counter() - ready


def generate(page: Page, address: str, steps: int, measured: Measured) -> None:
    """Trains from random weights, then has it write."""
    page.goto(f"{address}/demo/generate/")
    wait_for(page, "body[data-ready=true]")
    begin = time.perf_counter()
    page.locator("#start").click()
    while not page.locator("#step").count() or _number(page, "#step") < steps:
        if time.perf_counter() - begin > WAIT / 1e3:
            raise SystemExit(f"Generate has not made {steps} steps in {WAIT / 1e3:.0f} s")
        page.wait_for_timeout(50)
    measured.training = time.perf_counter() - begin
    page.locator("#start").click()
    wait_for(page, "body[data-training=paused]")
    measured.loss = _number(page, "#loss-value")
    page.locator("#prompt").fill(PROMPT)
    page.locator("#write").click()
    wait_for(page, "body[data-training=paused]")
    measured.rate = _number(page, "#rate")


def _number(page: Page, place: str) -> float:
    return float(re.sub(r"[^\d.]", "", page.locator(place).inner_text()) or "0")


@contextmanager
def context(playwright: Playwright, measured: Measured) -> Iterator[BrowserContext]:
    """A context of a browser of its own, since a browser keeps what it has compiled."""
    from .chromium import launch

    browser: Browser = launch(playwright)
    measured.chromium = browser.version
    try:
        yield browser.new_context()
    finally:
        browser.close()


def measure(rounds: int, steps: int = STEPS) -> Measured:
    """Drives the pages in Chromium."""
    from playwright.sync_api import sync_playwright

    measured = Measured()
    with sync_playwright() as playwright, served() as address:
        with context(playwright, measured) as opened:  # the server compiles modules when they are first asked for
            for name in ("playground", "search", "generate"):
                page = opened.new_page()
                page.goto(f"{address}/demo/{name}/")
                wait_for(page, "body[data-ready=true]")
                page.close()
        for _ in range(rounds):
            with context(playwright, measured) as opened:
                for names in ((FIRST_PICTURE, FIRST_EDITED), (SECOND_PICTURE, SECOND_EDITED)):
                    page = opened.new_page()
                    for name, seconds in zip(names, playground(page, address)):
                        measured.note(name, seconds)
                    page.close()
            with context(playwright, measured) as opened, slowed(address) as slow:
                measured.note(SLOW, slow_playground(opened.new_page(), slow))
            with context(playwright, measured) as opened:
                for name in (MODEL, SECOND_MODEL):
                    page = opened.new_page()
                    ready, answer = search(page, address)
                    measured.note(name, ready)
                    if name is MODEL:
                        measured.note(ANSWER, answer)
                    page.close()
        with context(playwright, measured) as opened:
            generate(opened.new_page(), address, steps, measured)
    return measured


def table(measured: Measured, steps: int, busy: float) -> str:
    """The figures as Markdown. `busy` is how many processes wanted a core when it began."""
    rows = []
    for name, times in measured.times.items():
        goal = f"{GOALS[name]:g} s" if name in GOALS else ""
        rows.append((name, report.duration(min(times)), report.duration(statistics.median(times)), goal))
    rows.append((f"Generate: {steps} steps of training", report.duration(measured.training), "", "120 s"))
    rows.append((f"Generate: the loss after {steps} steps, in nats a character", f"{measured.loss:.2f}", "", "2.2"))
    rows.append(("Generate: characters a second when it only writes", f"{measured.rate:,.0f}", "", "at least 200"))
    where = f"Chromium {measured.chromium}, {machine('')['cpu']}"
    note = f"On average {busy:.1f} processes wanted one of the {os.cpu_count()} cores in the minute before it began"
    note += ": others used the machine, and an idle one is faster" * (busy > 0.5)
    return f"{markdown.table(('what', '>least, or the figure', '>median', '>goal'), rows)}\n{where}. {note}.\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Parses the command line, measures, prints and writes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--rounds", type=int, default=3, help="first visits of the playground and of search (default %(default)s)"
    )
    parser.add_argument("--steps", type=int, default=STEPS, help="of Generate's training (default %(default)s)")
    parser.add_argument(
        "--output", type=Path, default=HERE / "pages.md", help="the file of the results (default benchmarks/pages.md)"
    )
    options = parser.parse_args(arguments)
    minilm.published()  # says what to install
    if not (pages.pyodide() / "pyodide.mjs").is_file():
        raise SystemExit(f"{pages.pyodide()} has no Pyodide: ./build.sh site makes it")
    busy = os.getloadavg()[0]
    text = table(measure(options.rounds, options.steps), options.steps, busy)
    print(text)
    options.output.write_text(text)


if __name__ == "__main__":
    main()
