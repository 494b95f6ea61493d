"""Times the workers of examples/worker under workerd, as Miniflare runs it: from the start to the first answer, and
answers after that.

    python -m benchmarks.worker

Prints a table and writes worker.md. The first answer is timed twice: from the request, with a worker that has never
run, and from the start of Miniflare in a Node that runs already, which has workerd's own start in it. Memory is what
the process of workerd grows by, all its isolates included, beside the linear memory that the module states.
"""

from __future__ import annotations

import argparse
import http.client
import json
import runpy
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from xla_wasm import Artifact, HloModule, compile, javascript
from xla_wasm.command import report

from . import markdown
from .node_host import find_node
from .suite.machine import describe as machine

HERE = Path(__file__).parent
ROOT = HERE.parent
EXAMPLES = ROOT / "examples" / "worker"
TOOLS = ROOT / ".tools" / "miniflare"
GOAL = 0.4
"""Seconds that the first answer of the digits may take."""


@dataclass(frozen=True)
class Worker:
    """A worker that runs: its address, the process that started it, and the seconds which that took."""

    url: str
    process: int
    started: float

    def memory(self) -> int:
        """The most bytes that workerd has had of the machine's memory so far."""
        (child,) = Path(f"/proc/{self.process}/task/{self.process}/children").read_text().split()
        fields = dict(line.split(":", 1) for line in Path(f"/proc/{child}/status").read_text().splitlines())
        return int(fields["VmHWM"].split()[0]) * 1024


@contextmanager
def serving(folder: Path, modules: Path | None = None, node: Path | None = None) -> Iterator[Worker]:
    """Serves the worker of a folder, or what a bundler made of it in `modules`."""
    command = [node or find_node(), HERE / "web" / "serve_worker.mjs", TOOLS, folder, *([modules] if modules else [])]
    pipe = subprocess.PIPE
    with tempfile.TemporaryFile("w+") as errors:
        with subprocess.Popen(list(map(str, command)), stdin=pipe, stdout=pipe, stderr=errors, text=True) as process:
            assert process.stdin and process.stdout
            try:
                said = process.stdout.readline()
                if not said:
                    process.wait(30)
                    errors.seek(0)
                    raise RuntimeError(f"the worker of {folder} did not start: {errors.read()[-3000:]}")
                url, milliseconds = said.split()
                yield Worker(url, process.pid, float(milliseconds) / 1e3)
            finally:
                process.stdin.close()
                try:
                    process.wait(30)
                except subprocess.TimeoutExpired:
                    process.kill()


@dataclass
class Times:
    """The measurements of a worker, in seconds and bytes."""

    linear: int
    started: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    grown: list[int] = field(default_factory=list)
    answers: list[float] = field(default_factory=list)


def digits(folder: Path) -> Artifact:
    """The digits worker, built."""
    shutil.copytree(EXAMPLES / "digits", folder)
    artifact = compile(HloModule.from_proto((ROOT / "examples" / "digits" / "digits.hlo.pb").read_bytes()))
    javascript.save(artifact, folder / "model.wasm", kind="worker")
    return artifact


def minilm(folder: Path) -> Artifact:
    """The worker with the large model, built."""
    shutil.copytree(EXAMPLES / "minilm", folder)
    runpy.run_path(str(EXAMPLES / "minilm" / "build.py"))["build"](folder)
    return Artifact.open(folder / "model.wasm")


@dataclass(frozen=True)
class Contestant:
    """A worker, how it is built, and what it is asked."""

    name: str
    build: Callable[[Path], Artifact]
    path: str
    content_type: str
    body: bytes

    def ask(self, connection: http.client.HTTPConnection) -> float:
        """The seconds that an answer takes."""
        began = time.perf_counter()
        connection.request("POST", f"/{self.path}", self.body, {"Content-Type": self.content_type})
        response = connection.getresponse()
        content = response.read()
        if response.status != 200:
            raise RuntimeError(f"{self.name} answers {response.status}: {content.decode()}")
        return time.perf_counter() - began


IMAGE = json.dumps({"image": [(i % 17) / 16 for i in range(64)]}).encode()
CONTESTANTS = (
    Contestant("digits", digits, "", "application/json", IMAGE),
    Contestant("all-MiniLM-L6-v2, a text of 8 tokens", minilm, "embed", "text/plain", b"The weather is lovely today."),
)


def measure(rounds: int, seconds: float, contestants: Sequence[Contestant] = CONTESTANTS) -> dict[str, Times]:
    """Starts each worker `rounds` times, in turns."""
    measured: dict[str, Times] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folders = {contestant.name: Path(temporary) / str(i) for i, contestant in enumerate(contestants)}
        for contestant in contestants:
            measured[contestant.name] = Times(contestant.build(folders[contestant.name]).manifest["pages"] << 16)
        for _ in range(rounds):
            for contestant in contestants:
                times = measured[contestant.name]
                with serving(folders[contestant.name]) as worker:
                    before = worker.memory()
                    connection = http.client.HTTPConnection(urlsplit(worker.url).netloc)
                    times.started.append(worker.started)
                    times.first.append(contestant.ask(connection))
                    times.grown.append(worker.memory() - before)
                    end = time.perf_counter() + seconds / rounds
                    times.answers.append(contestant.ask(connection))
                    while time.perf_counter() < end:
                        times.answers.append(contestant.ask(connection))
                    connection.close()
    return measured


def table(measured: dict[str, Times]) -> str:
    """The figures as Markdown."""
    answers = (">first answer: least", ">median", ">from the start: median", ">a later answer: median")
    columns = ("worker", *answers, ">linear memory", ">process grown by")
    rows = []
    for name, times in measured.items():
        whole = statistics.median(a + b for a, b in zip(times.started, times.first))
        cells = [min(times.first), statistics.median(times.first), whole, statistics.median(times.answers)]
        sizes = [report.size(times.linear), report.size(max(times.grown))]
        rows.append((name, *map(report.duration, cells), *sizes))
    version = json.loads((TOOLS / "node_modules" / "workerd" / "package.json").read_text())["version"]
    return f"{markdown.table(columns, rows)}\nworkerd {version}, {machine('')['cpu']}\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Parses the command line, measures, prints and writes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.worker", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9, help="starts of each worker (default %(default)s)")
    parser.add_argument(
        "--seconds", type=float, default=9, help="of later answers of each, in all (default %(default)s)"
    )
    parser.add_argument(
        "--output", type=Path, default=HERE / "worker.md", help="the file of the results (default benchmarks/worker.md)"
    )
    options = parser.parse_args(arguments)
    measured = measure(options.rounds, options.seconds)
    text = table(measured)
    print(text)
    options.output.write_text(text)
    least = min(measured["digits"].first)
    if least > GOAL:
        raise SystemExit(
            f"the first answer of the digits takes {report.duration(least)}, the goal is {report.duration(GOAL)}"
        )


if __name__ == "__main__":
    main()
