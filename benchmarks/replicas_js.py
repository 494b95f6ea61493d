"""Times collectives between two devices that are workers: threads of Node, and in Chromium by shared memory and by
messages.

    python -m benchmarks.replicas_js

A program repeats one collective on an array that lies in its memory already. Contestants take turns, round after round,
and the least time of each counts. In Chromium one of them is an all-reduce written by hand, a loop over a
SharedArrayBuffer. Prints a table and writes replicas_js.json, {"transport": {"operation": {"bytes": milliseconds}}},
which `python -m benchmarks.replicas` puts beside its own figures.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import xla_wasm
from xla_wasm import javascript
from xla_wasm.command import report
from xla_wasm.site import pages
from xla_wasm.site.collectives import OPCODES, Collective
from xla_wasm.site.serve import make_server

from .chromium import launch
from .node_host import find_node
from .replicas import DEVICES, SIZES

HERE = Path(__file__).parent
NODE, SHARED, MESSAGES, PLAIN = "Node, shared", "Chromium, shared", "Chromium, messages", "Chromium, plain JS"
GOAL = 0.5
"""All-reduce of the largest size takes at most so much of what the plain loop takes."""

Times = dict[str, dict[str, dict[str, float]]]
"""Milliseconds by contestant, operation and bytes."""


def programs(folder: Path, opcodes: Sequence[str], sizes: Sequence[int]) -> list[dict[str, Any]]:
    """Compiles the programs into the folder; what the script needs to know of them."""
    made = []
    for opcode in opcodes:
        for size in sizes:
            collective = Collective(opcode, DEVICES, size)
            file = f"{collective.name}.wasm"
            xla_wasm.compile(collective.module(), collective.options).save(folder / file)
            made.append({"opcode": opcode, "bytes": size, "url": file, "times": max(10, min(2000, (64 << 20) // size))})
    return made


def in_node(folder: Path, job: dict[str, Any]) -> Times:
    """Returns the times in Node, which always has shared memory."""
    job = job | {"transports": ["shared"], "programs": [p | {"url": str(folder / p["url"])} for p in job["programs"]]}
    command = [find_node(), HERE / "web" / "replicas_node.mjs", (pages.site() / "xla_wasm.js").as_uri()]
    done = subprocess.run(command, input=json.dumps(job), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return {NODE: json.loads(done.stdout)["shared"]}


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serves the folder as an isolated page needs it; gives its address."""
    with make_server("127.0.0.1", 0, folder) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def in_chromium(folder: Path, job: dict[str, Any]) -> Times:
    """Returns the times in Chromium: with shared memory, with messages, and of the plain loop."""
    from playwright.sync_api import sync_playwright

    javascript.copy_loader(folder)
    for name in ("replicas.js", "plain.js"):
        shutil.copyfile(HERE / "web" / name, folder / name)
    (folder / "index.html").write_text("<!doctype html><title>Collectives</title>")
    script = """(job) => Promise.all([import('/xla-wasm/xla_wasm.js'), import('/replicas.js')])
        .then(([api, { measure }]) => measure(api, job))"""
    with served(folder) as address, sync_playwright() as playwright:
        browser = launch(playwright)
        page = browser.new_page()
        page.set_default_timeout(0)
        page.goto(f"{address}/index.html")
        if not page.evaluate("crossOriginIsolated"):
            raise SystemExit("the page is not isolated")
        found = page.evaluate(script, job | {"transports": ["shared", "messages"], "plain": "/plain.js"})
        browser.close()
    return {SHARED: found["shared"], MESSAGES: found["messages"], PLAIN: found["plain"]}


def table(times: Times, opcodes: Sequence[str], sizes: Sequence[int]) -> tuple[list[str], list[list[str]]]:
    """Titles and rows."""
    rows = []
    for opcode in opcodes:
        for size in sizes:
            cells = (by.get(opcode, {}).get(str(size)) for by in times.values())
            rows.append(
                [opcode, f"{size // 1024} KiB", *("" if ms is None else report.duration(ms / 1e3) for ms in cells)]
            )
    return ["operation", ">of", *(f">{name}" for name in times)], rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Parses the command line, measures, prints and writes."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.replicas_js", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--seconds", type=float, default=60, help="of rounds in each engine (default %(default)s)")
    parser.add_argument("--opcodes", nargs="+", default=OPCODES, choices=OPCODES, help="default: all")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="bytes (default %(default)s)")
    parser.add_argument("--output", type=Path, default=HERE, help="folder of the results (default benchmarks/)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        job = {
            "devices": DEVICES,
            "programs": programs(folder, options.opcodes, options.sizes),
            "seconds": options.seconds,
        }
        times = in_node(folder, job) | in_chromium(folder, job)
    columns, rows = table(times, options.opcodes, options.sizes)
    shown = report.table(*columns)
    for row in rows:
        shown.add_row(*row)
    report.console().print(shown)
    if "all-reduce" in options.opcodes:
        size = str(max(options.sizes))
        ratio = times[SHARED]["all-reduce"][size] / times[PLAIN]["all-reduce"][size]
        met = "met" if ratio <= GOAL else "MISSED"
        print(f"all-reduce of {size} bytes takes {ratio:.2f} of the plain loop's time; at most {GOAL}: {met}")
    rounded = {
        name: {opcode: {size: round(ms, 5) for size, ms in by.items()} for opcode, by in ops.items()}
        for name, ops in times.items()
    }
    (options.output / "replicas_js.json").write_text(json.dumps(rounded, indent=1) + "\n")


if __name__ == "__main__":
    main()
