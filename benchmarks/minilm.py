"""Times the search page's encoder in Chromium against onnxruntime-web: from import to the first embedding, and runs after that.

    python -m benchmarks.minilm

One thread each, contestants in turns. A first embedding is timed in a browser context of its own, with empty caches, the server being this
machine; what a network adds follows from the bytes. Prints two tables and writes minilm.md. `--serve` leaves the page at an address.
"""

from __future__ import annotations

import argparse
import functools
import gzip
import io
import shutil
import statistics
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from xla_wasm import minilm, pages, report, safetensors, serve

from .__main__ import machine
from .node_host import find_runtime, runtime_version

HERE = Path(__file__).parent
OURS, THEIRS, THEIRS_HALF = "xla_wasm", "onnxruntime-web", "onnxruntime-web, 16-bit weights"
CONTESTANTS = {OURS: "ours", THEIRS: "theirs", THEIRS_HALF: "theirs16"}
LENGTHS = (8, 16, 32, 64, 128)
ARGUMENTS = "--headless --no-sandbox --disable-gpu --disable-quic --disable-dev-shm-usage --no-first-run --disable-background-networking"
PAGE = (HERE / "web" / "minilm.html", HERE / "web" / "minilm.js")
WIDTH, LAYERS, HEADS = 384, 6, 12
EPSILON = 1e-12


def onnx_model(half: bool) -> bytes:
    """The encoder as an ONNX model for one text of any length, without padding and so without a mask; if `half`, matrices with 16 bits."""
    from onnx import TensorProto, checker, helper, numpy_helper

    tensors = safetensors.read(minilm.published() / "model.safetensors")
    weights: dict[str, Any] = {}
    nodes: list[Any] = []

    def node(op: str, *inputs: str, **attributes: Any) -> str:
        name = f"{op}_{len(nodes)}"
        nodes.append(helper.make_node(op, inputs, [name], name, **attributes))
        return name

    def weight(name: str, transposed: bool = False) -> str:
        array = np.frombuffer(tensors[name].data, np.float32).reshape(tensors[name].dimensions)
        weights[name] = array.T if transposed else array
        if not half or array.ndim < 2:
            return name
        weights[name] = weights[name].astype(np.float16)
        return node("Cast", name, to=TensorProto.FLOAT)

    def number(name: str, *values: Any, dtype: Any = np.int64) -> str:
        weights[name] = np.array(values if dtype is np.int64 else values[0], dtype)
        return name

    def dense(name: str, x: str) -> str:
        return node("Add", node("MatMul", x, weight(f"{name}.weight", transposed=True)), weight(f"{name}.bias"))

    def norm(name: str, x: str) -> str:
        return node("LayerNormalization", x, weight(f"{name}.weight"), weight(f"{name}.bias"), axis=-1, epsilon=EPSILON)

    def heads(x: str, order: tuple[int, ...]) -> str:
        return node("Transpose", node("Reshape", x, "split"), perm=order)

    number("split", 1, -1, HEADS, WIDTH // HEADS)
    number("merge", 1, -1, WIDTH)
    for name, value in {"root": np.sqrt(WIDTH // HEADS), "root2": np.sqrt(2), "one": 1, "half": 0.5}.items():
        number(name, value, dtype=np.float32)
    length = node("Shape", "ids", start=1, end=2)
    word, position, kind = (weight(f"embeddings.{name}_embeddings.weight") for name in ("word", "position", "token_type"))
    positions = node("Slice", position, number("begin", 0), length, number("axis", 0))
    kind = node("Slice", kind, "begin", number("first", 1), "axis")
    x = norm("embeddings.LayerNorm", node("Add", node("Add", node("Gather", word, "ids"), kind), positions))
    for i in range(LAYERS):
        layer = f"encoder.layer.{i}"
        q, v = (heads(dense(f"{layer}.attention.self.{part}", x), (0, 2, 1, 3)) for part in ("query", "value"))
        k = heads(dense(f"{layer}.attention.self.key", x), (0, 2, 3, 1))
        scores = node("Softmax", node("Div", node("MatMul", q, k), "root"), axis=-1)
        mixed = node("Reshape", node("Transpose", node("MatMul", scores, v), perm=(0, 2, 1, 3)), "merge")
        x = norm(f"{layer}.attention.output.LayerNorm", node("Add", x, dense(f"{layer}.attention.output.dense", mixed)))
        h = dense(f"{layer}.intermediate.dense", x)
        h = node("Mul", node("Mul", h, node("Add", node("Erf", node("Div", h, "root2")), "one")), "half")
        x = norm(f"{layer}.output.LayerNorm", node("Add", x, dense(f"{layer}.output.dense", h)))
    mean = node("ReduceMean", x, axes=[1], keepdims=0)
    nodes.append(helper.make_node("Div", [mean, node("ReduceL2", mean, axes=[1], keepdims=1)], ["embedding"]))
    graph = helper.make_graph(
        nodes,
        "minilm",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, [1, "length"])],
        [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, [1, WIDTH])],
        [numpy_helper.from_array(np.ascontiguousarray(array), name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    checker.check_model(model)
    return model.SerializeToString()


class _Handler(serve._Handler):
    """The site, and under /benchmark/ the page, onnxruntime-web and its models. Nothing may be kept for the next time."""

    made: dict[str, bytes]

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def send_head(self) -> BinaryIO | None:
        name = self.path.partition("?")[0].removeprefix("/benchmark/")
        if name not in self.made:
            return super().send_head()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", self.guess_type(name))
        self.send_header("Content-Length", str(len(self.made[name])))
        self.end_headers()
        return io.BytesIO(self.made[name])


def contents() -> dict[str, bytes]:
    """What lies under /benchmark/."""
    runtime = find_runtime()
    if runtime is None:
        raise SystemExit("onnxruntime-web is not installed: ./build.sh bench installs it")
    files = [*PAGE] + [runtime.parent / name for name in ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")]
    made = {path.name: path.read_bytes() for path in files} | minilm.files()
    return made | {"minilm.onnx": onnx_model(half=False), "minilm16.onnx": onnx_model(half=True)}


@contextmanager
def server(made: dict[str, bytes]) -> Iterator[str]:
    """Serves the page; gives its address."""
    handler = type("Handler", (_Handler,), {"made": made})
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(handler, directory=str(pages.site()))) as running:
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

    path = shutil.which("chromium")
    if path is None:
        raise SystemExit("there is no chromium: apt-get install chromium")
    first: dict[str, list[float]] = {name: [] for name in CONTESTANTS}
    with sync_playwright() as playwright:
        # A browser for each, since one keeps what it has compiled.
        def run(expression: str) -> Any:
            browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS.split())
            page = browser.new_page()
            page.goto(address)
            result = page.evaluate(f"import('./minilm.js').then((benchmark) => benchmark.{expression})"), browser.version
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
    code = dict.fromkeys(CONTESTANTS, _packed([made[name] for name in runtime])) | {OURS: _packed([*loader, made["minilm.relaxed.wasm"]])}
    weights = {OURS: len(made["minilm.weights"]), THEIRS: len(made["minilm.onnx"]), THEIRS_HALF: len(made["minilm16.onnx"])}
    base = min(measured.first[THEIRS])
    columns = ("from import to the first embedding", "least", "median", "ratio of the least", "code, gzipped", "weights")
    lines = [f"| {' | '.join(columns)} |", "| --- | ---: | ---: | ---: | ---: | ---: |"]
    for name, times in measured.first.items():
        sizes = f"{report.size(code[name])} | {report.size(weights[name])}"
        least, middle = min(times), statistics.median(times)
        lines.append(f"| {name} | {least * 1e3:.0f} ms | {middle * 1e3:.0f} ms | {least / base:.2f} | {sizes} |")
    lines += ["", f"| a run, of tokens | {' | '.join(CONTESTANTS)} | ratio |", "| ---: | ---: | ---: | ---: | ---: |"]
    for length, times_of in measured.steady.items():
        cells = " | ".join(f"{times_of[name] * 1e3:.1f} ms" for name in CONTESTANTS)
        lines.append(f"| {length} | {cells} | {times_of[OURS] / min(times_of[THEIRS], times_of[THEIRS_HALF]):.2f} |")
    where = f"Chromium {measured.chromium}, onnxruntime-web {runtime_version()}, {machine('')['cpu']}, one thread"
    note = f"{where}; the least cosine between two embeddings is {measured.cosine:.7f}."
    return "\n".join([*lines, "", note, ""])


def main(arguments: Sequence[str] | None = None) -> None:
    """Parses the command line, measures, prints and writes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.minilm", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7, help="first embeddings of each contestant (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=4, help="of runs for each contestant and length (default %(default)s)")
    parser.add_argument("--output", type=Path, default=HERE / "minilm.md", help="the file of the results (default benchmarks/minilm.md)")
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
