"""Times artifacts on one thread and on two: in Node beside onnxruntime-web, in Chromium, and under wasmtime.

    python -m benchmarks.threads

One artifact, compiled for threads, is loaded twice, and both take turns; so do the artifact without threads, and
onnxruntime-web, once with one thread and once with two, in rounds of ten runs each. The least time of each counts; what
threads cost is the median over the rounds. Where memory bounds a run, its time differs by a tenth with the pages that
the memory happens to get, so all are loaded several times. A loop whose small kernel is cut into chunks, and the same
loop whose kernel is left to one thread, tell what a fork and a join cost. Writes threads.md.
"""

from __future__ import annotations

import argparse
import functools
import json
import operator
import shutil
import statistics
import subprocess
import tempfile
import time
import timeit
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import numpy as np

import xla_wasm
from xla_wasm import Options, javascript
from xla_wasm.command import report
from xla_wasm.errors import OptionWarning
from xla_wasm.jax import lower
from xla_wasm.loop import pieces
from xla_wasm.site import pages

from .chromium import launch
from .markdown import table
from .node_host import find_node
from .replicas_js import served
from .suite.contestants import PEERS, onnx_models
from .suite.machine import describe
from .suite.workload import Workload, arrays, families, normal

HERE = Path(__file__).parent
NODE, CHROMIUM, WASMTIME = "Node", "Chromium", "wasmtime"
GOALS = {"matmul_512": 1.9, "gemv_4096": 1.6, "add_1M": 1.8, "minilm_s128": 1.7, "mobilenetv2": 1.6, "resnet18": 1.7}
"""The goals: workload -> how many times as fast two threads should be as one."""
FORKED, ALONE = "forked", "alone"
FORKS = 20_000
"""The trips of a loop over a kernel of 8 numbers: in FORKED each is a chunk, in ALONE one thread computes all."""

Times = dict[str, dict[str, list[float]]]
"""Milliseconds by workload, contestant and round."""


def workloads() -> Iterator[Workload]:
    """Yields the workloads of the table that are measured here, and a sum of two arrays."""
    known = {w.name: w for family in families().values() for w in family}
    for name in GOALS:
        if name == "add_1M":
            made = arrays(x=normal(1 << 20), y=normal(1 << 20))
            yield Workload(
                name,
                "GB/s",
                12 << 20,
                lambda x, y: x + y,
                made,
                onnx=lambda g: g.node("Add", "x", "y"),
                tfjs=None,
                jaxjs=None,
            )
        else:
            yield known[name]


def loops() -> Iterator[Workload]:
    """The two loops that tell what a fork and a join cost."""

    def run(x: Any) -> Any:
        return jax.lax.fori_loop(0, FORKS, lambda i, y: y * 0.5 + i, x)

    for name in (FORKED, ALONE):
        yield Workload(name, "forks", FORKS, run, arrays(x=normal(8)), onnx=None, tfjs=None, jaxjs=None)


def written(folder: Path, workload: Workload, tune: str) -> dict[str, Any]:
    """Puts the artifact and its arrays into the folder; what the scripts have to know of them."""
    inputs, weights = workload.given
    numbers = tuple(range(len(inputs), len(inputs) + len(weights)))
    module = lower(workload.function, *workload.arguments())
    chunk = 1 if workload.name == FORKED else pieces._CHUNK
    with mock.patch.object(pieces, "_CHUNK", chunk), warnings.catch_warnings():
        warnings.simplefilter("ignore", OptionWarning)  # ALONE has nothing to share.
        artifact = xla_wasm.compile(module, Options("relaxed-simd", tune, weights=numbers, threads=True))
    artifact.save(folder / f"{workload.name}.wasm")
    plain = xla_wasm.compile(module, Options("relaxed-simd", tune, weights=numbers))
    plain.save(folder / f"{workload.name}.plain.wasm")
    names = {p["name"].partition(".")[2]: p["name"] for p in artifact.manifest["parameters"] if p["kind"] == "weight"}

    def put(name: str, array: Any) -> str:
        file = f"{workload.name}.{name}.bin"
        (folder / file).write_bytes(np.ascontiguousarray(array, np.float32).tobytes())
        return file

    return {
        "name": workload.name,
        "inputs": [put(name, array) for name, array in inputs.items()],
        "weights": [(names[name], put(name, array)) for name, array in weights.items()],
    }


def for_peer(folder: Path, workload: Workload) -> dict[str, Any]:
    """The same for onnxruntime-web, which wants channels first."""
    if workload.onnx is None:
        return {}
    (folder / f"{workload.name}.onnx").write_bytes(onnx_models(workload)[0])
    feeds = []
    for name, array in workload.given[0].items():
        order = workload.orders.get(name)
        first = np.ascontiguousarray(array if order is None else array.transpose(order))
        file = f"{workload.name}.{name}.first.bin"
        (folder / file).write_bytes(first.tobytes())
        feeds.append((name, file, first.shape))
    return {"onnx": f"{workload.name}.onnx", "feeds": feeds}


def in_node(folder: Path, job: dict[str, Any]) -> Times:
    """One process for each number of threads of onnxruntime-web, which cannot change it; both time ours."""
    found: Times = {}
    for threads in (1, 2):
        command = [find_node(), HERE / "web" / "threads_node.mjs", (pages.site() / "xla_wasm.js").as_uri(), folder]
        command += [PEERS] if (PEERS / "onnxruntime-web").is_dir() else []
        done = subprocess.run(command, input=json.dumps(job | {"peerThreads": threads}), capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        for name, times in json.loads(done.stdout).items():
            known = found.setdefault(name, {})
            for contestant, rounds in times.items():
                known.setdefault(contestant, []).extend(rounds)
    return found


def in_chromium(folder: Path, job: dict[str, Any]) -> Times:
    """In a worker of a page, as pages should run."""
    from playwright.sync_api import sync_playwright

    javascript.copy_loader(folder)
    shutil.copyfile(HERE / "web" / "threads.js", folder / "threads.js")
    (folder / "index.html").write_text("<!doctype html><title>Threads</title>")
    (folder / "worker.js").write_text(
        "import * as api from '/xla-wasm/xla_wasm.js'; import { measure } from '/threads.js';"
        "const read = async (name) => (await fetch('/' + name)).arrayBuffer();"
        "onmessage = async ({ data }) => postMessage(await measure(api, read, data));"
    )
    script = """(job) => new Promise((resolve, reject) => {
      const worker = new Worker('/worker.js', { type: 'module' });
      worker.onmessage = ({ data }) => resolve(data);
      worker.onerror = ({ message }) => reject(new Error(message));
      worker.postMessage(job);
    })"""
    with served(folder) as address, sync_playwright() as playwright:
        page = launch(playwright).new_page()
        page.goto(f"{address}/index.html")
        return page.evaluate(script, job)  # type: ignore[no-any-return]


def under_wasmtime(folder: Path, job: dict[str, Any]) -> Times:
    found: Times = {}
    for work in job["works"]:
        times = found[work["name"]] = {}
        for _ in range(job["loads"]):
            _race(_loaded(folder, work), times, job["seconds"] / job["loads"], job["least"])
    return found


def _loaded(folder: Path, work: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """A run of each of our contestants; web/threads.js does the same."""
    runs: dict[str, Callable[[], object]] = {}
    for contestant, file, threads in (("plain", ".plain.wasm", None), ("ours 1", ".wasm", 1), ("ours 2", ".wasm", 2)):
        exe = xla_wasm.load(folder / f"{work['name']}{file}", threads=threads)
        shapes = {p.name: p.dimensions for p in exe.parameters}
        for name, file in work["weights"]:
            exe.set(name, np.fromfile(folder / file, np.float32).reshape(shapes[name]))
        inputs = [exe.input(p.name) for p in exe.parameters if p.kind == "input"]
        for place, file in zip(inputs, work["inputs"], strict=True):
            place[...] = np.fromfile(folder / file, np.float32).reshape(place.shape)
        runs[contestant] = functools.partial(exe.run, *inputs, out=[exe.output(r.name) for r in exe.results])
    return runs


def _race(runs: dict[str, Callable[[], object]], times: dict[str, list[float]], seconds: float, least: int) -> None:
    """Runs them in turns, and adds to `times` the milliseconds of the fastest run of each in each round."""
    end, rounds = time.perf_counter() + seconds, 0
    while rounds < least or time.perf_counter() < end:
        rounds += 1
        for name, run in runs.items():
            times.setdefault(name, []).append(1e3 * min(timeit.repeat(run, number=1, repeat=10)))


def rows(found: dict[str, Times]) -> Iterator[list[str]]:
    for name, goal in GOALS.items():
        cells = [name]
        for engine in (NODE, CHROMIUM, WASMTIME):
            times = found[engine][name]
            one, two = min(times["ours 1"]), min(times["ours 2"])
            cells += [f"{one:.3f}", f"{two:.3f}", f"{one / two:.2f}"]
        peer = [found[NODE][name].get(f"onnxruntime-web {threads}") for threads in (1, 2)]
        cells += [f"{min(times):.3f}" if times else "-" for times in peer]
        yield [*cells, f"{goal}"]


def fork_rows(found: dict[str, Times]) -> Iterator[list[str]]:
    """Microseconds of a fork and a join: what the forked loop takes more than the other."""
    for engine in (NODE, CHROMIUM, WASMTIME):
        forked, alone = found[engine][FORKED], found[engine][ALONE]
        yield [engine, *(f"{1e3 * (min(forked[f'ours {n}']) - min(alone[f'ours {n}'])) / FORKS:.2f}" for n in (2, 1))]


def cost_rows(found: dict[str, Times]) -> Iterator[list[str]]:
    """Yields table rows: the time on one thread of an artifact for threads beyond one without, in percent."""
    for name in GOALS:
        cells = [name]
        for engine in (NODE, CHROMIUM, WASMTIME):
            times = found[engine][name]
            ratio = statistics.median(map(operator.truediv, times["ours 1"], times["plain"]))
            cells.append(f"{100 * (ratio - 1):+.1f}%")
        yield cells


def _node_version() -> str:
    return subprocess.run([find_node(), "--version"], capture_output=True, text=True, check=True).stdout.strip()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.threads", description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each workload in each engine")
    parser.add_argument("--loads", type=int, default=4, help="of each artifact")
    parser.add_argument("--output", type=Path, default=HERE / "threads.md")
    options = parser.parse_args(arguments)
    found: dict[str, Times] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for tune in ("v8", "wasmtime"):
            works = [
                written(folder, w, tune) | (for_peer(folder, w) if tune == "v8" else {})
                for w in [*workloads(), *loops()]
            ]
            job = {"works": works, "seconds": options.seconds, "loads": options.loads, "least": 2}
            if tune == "v8":
                found |= {NODE: in_node(folder, job), CHROMIUM: in_chromium(folder, job)}
            else:
                found[WASMTIME] = under_wasmtime(folder, job)
    titles = ["ms"] + [
        f">{engine}, {what}" for engine in (NODE, CHROMIUM, WASMTIME) for what in ("one", "two", "ratio")
    ]
    text = table([*titles, ">onnxruntime-web, one", ">two", ">goal of the ratio"], rows(found))
    forks = table(["a fork and a join, us", ">a helper spins", ">no helper"], fork_rows(found))
    costs = table(["for threads, on one", *(f">{engine}" for engine in (NODE, CHROMIUM, WASMTIME))], cost_rows(found))
    options.output.write_text(
        f"{text}\n{forks}\n{costs}\nThe least of many runs in turns, of costs the median over rounds; two threads on "
        f"two CPUs: {', '.join(describe(_node_version()).values())}\n"
    )
    report.text(options.output.read_text())


if __name__ == "__main__":
    main()
