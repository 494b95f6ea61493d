"""Times the search page's encoder in Chromium against onnxruntime-web: from import to the first embedding, and runs
after that.

    python -m benchmarks.minilm

One thread each, contestants in turns. A first embedding is timed in a browser context of its own, with empty caches,
the server being this machine; what a network adds follows from the bytes. Prints two tables and writes minilm.md.
`--serve` leaves the page at an address.
"""

from __future__ import annotations

import argparse
import functools
import gzip
import io
import statistics
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from xla_wasm import safetensors
from xla_wasm.command import report
from xla_wasm.site import minilm, pages, serve

from . import markdown
from .node_host import find_runtime, runtime_version
from .suite.machine import describe as machine

HERE = Path(__file__).parent
OURS, THEIRS, THEIRS_HALF = "xla_wasm", "onnxruntime-web", "onnxruntime-web, 16-bit weights"
CONTESTANTS = {OURS: "ours", THEIRS: "theirs", THEIRS_HALF: "theirs16"}
LENGTHS = (8, 16, 32, 64, 128)
PAGE = (HERE / "web" / "minilm.html", HERE / "web" / "minilm.js")
WIDTH, LAYERS, HEADS = 384, 6, 12
_PUBLISHED = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "output": "attention.output.dense",
    "norm1": "attention.output.LayerNorm",
    "up": "intermediate.dense",
    "down": "output.dense",
    "norm2": "output.LayerNorm",
}
"""Names of a block's layers in the published weights."""


def onnx_model(half: bool) -> bytes:
    """The encoder as an ONNX model for one text of any length, without padding and so without a mask; if `half`,
    matrices with 16 bits."""
    from onnx import TensorProto

    from .onnx_graph import EncoderBlocks, Graph

    tensors = safetensors.read(minilm.published() / "model.safetensors")
    graph = Graph({})
    blocks = EncoderBlocks(graph, WIDTH, HEADS)
    node = graph.node

    def weight(name: str, transposed: bool = False) -> str:
        array = np.frombuffer(tensors[name].data, np.float32).reshape(tensors[name].dimensions)
        array = array.T if transposed else array
        if not half or array.ndim < 2:
            return graph.constant(name, array)
        return node("Cast", graph.constant(name, array.astype(np.float16)), to=TensorProto.FLOAT)

    def norm(name: str, x: str) -> str:
        return blocks.norm(x, weight(f"{name}.weight"), weight(f"{name}.bias"))

    for name, index in {"begin": 0, "axis": 0, "first": 1}.items():
        graph.constant(name, np.array([index], np.int64))
    length = node("Shape", "ids", start=1, end=2)
    word, position, kind = (
        weight(f"embeddings.{name}_embeddings.weight") for name in ("word", "position", "token_type")
    )
    positions = node("Slice", position, "begin", length, "axis")
    kind = node("Slice", kind, "begin", "first", "axis")
    x = norm("embeddings.LayerNorm", node("Add", node("Add", node("Gather", word, "ids"), kind), positions))
    for i in range(LAYERS):
        prefix = f"encoder.layer.{i}."

        def block_dense(layer: str, x: str, prefix: str = prefix) -> str:
            name = prefix + _PUBLISHED[layer]
            return blocks.dense(x, weight(f"{name}.weight", transposed=True), weight(f"{name}.bias"))

        def block_norm(layer: str, x: str, prefix: str = prefix) -> str:
            return norm(prefix + _PUBLISHED[layer], x)

        x = blocks.block(x, block_dense, block_norm)
    mean = node("ReduceMean", x, "first", keepdims=0)
    embedding = node("Div", mean, node("ReduceL2", mean, "first", keepdims=1))
    return graph.model("minilm", {"ids": (np.int64, [1, "length"])}, {"embedding": (embedding, np.float32, [1, WIDTH])})


class _Handler(serve._Handler):
    """The site, and under /benchmark/ the page, onnxruntime-web and its models. Nothing may be kept for the next
    time."""

    made: dict[str, bytes]
    policy = ""  # onnxruntime-web has ways of its own to load its parts

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def found(self) -> BinaryIO | None:
        name = self.path.partition("?")[0].removeprefix("/benchmark/")
        if name not in self.made:
            return super().found()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", self.guess_type(name))
        self.send_header("Content-Length", str(len(self.made[name])))
        self.end_headers()
        return io.BytesIO(self.made[name])


def contents() -> dict[str, bytes]:
    """Returns the files below /benchmark/ by name. Exits if onnxruntime-web is not installed."""
    runtime = find_runtime()
    if runtime is None:
        raise SystemExit("onnxruntime-web is not installed: ./build.sh bench installs it")
    files = [*PAGE] + [
        runtime.parent / name
        for name in ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
    ]
    made = {path.name: path.read_bytes() for path in files} | minilm.files()
    return made | {"minilm.onnx": onnx_model(half=False), "minilm16.onnx": onnx_model(half=True)}


@contextmanager
def server(made: dict[str, bytes]) -> Iterator[str]:
    """Serves the page; gives its address."""
    handler = type("Handler", (_Handler,), {"made": made})
    with serve._Server(("127.0.0.1", 0), functools.partial(handler, directory=str(pages.site())), set()) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}/benchmark/minilm.html"
        running.shutdown()


@dataclass(frozen=True)
class Measured:
    """Seconds: of every first embedding by contestant, and the least of a run by length and contestant."""

    chromium: str
    first: dict[str, list[float]]
    steady: dict[int, dict[str, float]]
    cosine: float
    """Between the embeddings of any contestant and ours, the least."""


def measure(address: str, rounds: int, seconds: float, lengths: Sequence[int] = LENGTHS) -> Measured:
    """Drives the page in Chromium."""
    from playwright.sync_api import sync_playwright

    from .chromium import launch

    first: dict[str, list[float]] = {name: [] for name in CONTESTANTS}
    with sync_playwright() as playwright:
        # A browser for each, since one keeps what it has compiled.
        def run(expression: str) -> Any:
            browser = launch(playwright)
            page = browser.new_page()
            page.goto(address)
            result = (
                page.evaluate(f"import('./minilm.js').then((benchmark) => benchmark.{expression})"),
                browser.version,
            )
            browser.close()
            return result

        for _ in range(rounds):
            for name, key in CONTESTANTS.items():
                first[name].append(run(f"first('{key}')")[0] / 1e3)
        result, version = run(f"steady({[*CONTESTANTS.values()]}, {list(lengths)}, {seconds})")
    names = {key: name for name, key in CONTESTANTS.items()}
    steady = {entry["length"]: {names[key]: ms / 1e3 for key, ms in entry["milliseconds"].items()} for entry in result}
    return Measured(version, first, steady, min(entry["cosine"] for entry in result))


def _packed(files: Sequence[bytes]) -> int:
    return sum(len(gzip.compress(content)) for content in files)


def tables(measured: Measured, made: dict[str, bytes]) -> str:
    """The figures as Markdown."""
    runtime = ["ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm"]
    loader = [path.read_bytes() for path in sorted(pages.site().glob("*.js"))]
    code = dict.fromkeys(CONTESTANTS, _packed([made[name] for name in runtime])) | {
        OURS: _packed([*loader, made["minilm.relaxed.wasm"]])
    }
    weights = {
        OURS: len(made["minilm.weights"]),
        THEIRS: len(made["minilm.onnx"]),
        THEIRS_HALF: len(made["minilm16.onnx"]),
    }
    base = min(measured.first[THEIRS])
    columns = (
        "from import to the first embedding",
        ">least",
        ">median",
        ">ratio of the least",
        ">code, gzipped",
        ">weights",
    )
    rows = []
    for name, times in measured.first.items():
        least, middle = min(times), statistics.median(times)
        spent = (f"{least * 1e3:.0f} ms", f"{middle * 1e3:.0f} ms", f"{least / base:.2f}")
        rows.append((name, *spent, report.size(code[name]), report.size(weights[name])))
    first = markdown.table(columns, rows)
    rows = []
    for length, times_of in measured.steady.items():
        cells = (f"{times_of[name] * 1e3:.1f} ms" for name in CONTESTANTS)
        rows.append((str(length), *cells, f"{times_of[OURS] / min(times_of[THEIRS], times_of[THEIRS_HALF]):.2f}"))
    steady = markdown.table((">a run, of tokens", *(f">{name}" for name in CONTESTANTS), ">ratio"), rows)
    where = f"Chromium {measured.chromium}, onnxruntime-web {runtime_version()}, {machine('')['cpu']}, one thread"
    note = f"{where}; the least cosine between two embeddings is {measured.cosine:.7f}."
    return f"{first}\n{steady}\n{note}\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Parses the command line, measures, prints and writes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.minilm", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--rounds", type=int, default=7, help="first embeddings of each contestant (default %(default)s)"
    )
    parser.add_argument(
        "--seconds", type=float, default=4, help="of runs for each contestant and length (default %(default)s)"
    )
    parser.add_argument(
        "--output", type=Path, default=HERE / "minilm.md", help="the file of the results (default benchmarks/minilm.md)"
    )
    parser.add_argument("--serve", action="store_true", help="leave the page at an address instead")
    options = parser.parse_args(arguments)
    made = contents()
    with server(made) as address:
        if options.serve:
            print(address, flush=True)
            threading.Event().wait()
        text = tables(measure(address, options.rounds, options.seconds), made)
    print(text)
    options.output.write_text(text)


if __name__ == "__main__":
    main()
