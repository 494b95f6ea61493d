"""Times models with weights in fewer bits, in Node on one thread: ours beside onnxruntime-web's forms of the same
weights.

    python -m benchmarks.fewer_bits

All forms take turns in one process, then in another where they are loaded in the opposite order, and the least time of
each counts. onnxruntime-web's are those that its own tools make of a model: dynamic quantisation to 8 bits
(MatMulInteger), and blocks of 32 weights in 8 or 4 bits (MatMulNBits). Writes fewer_bits.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import xla_wasm
from xla_wasm import Options
from xla_wasm.command import report
from xla_wasm.jax import lower
from xla_wasm.site import pages

from .markdown import table
from .node_host import find_node
from .onnx_graph import SMALL_FORMS
from .suite.contestants import PEERS, onnx_models
from .suite.machine import describe
from .suite.workload import Workload, workloads

HERE = Path(__file__).parent
MODELS = ("gpt2s_decode", "minilm_s16")
FORMATS = ("f32", "f16", "bf16", "int8", "int4")

Found = dict[str, dict[str, float]]
"""Milliseconds and error by form."""


def _put(folder: Path, file: str, array: Any) -> str:
    (folder / file).write_bytes(np.ascontiguousarray(array).tobytes())
    return file


def job(folder: Path, workload: Workload) -> dict[str, Any]:
    """Writes all forms of a workload, and tells what the script has to know of them."""
    inputs, weights = workload.given
    module = lower(workload.function, *workload.arguments())
    numbers = tuple(range(len(inputs), len(inputs) + len(weights)))
    ours = []
    for name in FORMATS:
        options = Options("relaxed-simd", "v8", weights=numbers, weight_format=name)
        artifact = xla_wasm.compile(module, options)
        artifact.save(folder / f"{name}.wasm")
        ours.append({"name": f"xla_wasm, {name}", "module": f"{name}.wasm"})
    names = {p["name"].partition(".")[2]: p["name"] for p in artifact.manifest["parameters"] if p["kind"] == "weight"}
    theirs = []
    for form in ("", *SMALL_FORMS):
        (folder / f"{form}.onnx").write_bytes(onnx_models(workload, form)[0])
        theirs.append({"name": f"onnxruntime-web, {form or 'f32'}", "model": f"{form}.onnx"})

    def entry(name: str, array: Any) -> dict[str, Any]:
        return {
            "name": name,
            "file": _put(folder, f"{name}.bin", array),
            "type": array.dtype.name,
            "shape": array.shape,
        }

    return {
        "ours": ours,
        "theirs": theirs,
        "inputs": [entry(name, array) for name, array in inputs.items()],
        "weights": [entry(names[name], array) for name, array in weights.items()],
    }


def measured(workload: Workload, seconds: float) -> Found:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        given = job(folder, workload) | {"seconds": seconds / 2, "least": 5}
        loader = (pages.site() / "xla_wasm.js").as_uri()
        command = [find_node(), "--max-old-space-size=8192", HERE / "web" / "fewer_bits.mjs", loader, folder, PEERS]
        found: Found = {}
        for reversed_order in (False, True):
            done = subprocess.run(
                command, input=json.dumps(given | {"reversed": reversed_order}), capture_output=True, text=True
            )
            if done.returncode:
                raise SystemExit(done.stderr)
            for form, figures in json.loads(done.stdout).items():
                found[form] = figures | {"ms": min(figures["ms"], found.get(form, figures)["ms"])}
        return found


def rows(found: Mapping[str, Found]) -> Iterator[list[str]]:
    for model, forms in found.items():
        theirs = {form: figures["ms"] for form, figures in forms.items() if form.startswith("onnxruntime-web")}
        f32 = theirs["onnxruntime-web, f32"]
        small = min(ms for form, ms in theirs.items() if form != "onnxruntime-web, f32")
        for form, figures in forms.items():
            ms = figures["ms"]
            yield [model, form, f"{ms:.2f}", f"{ms / f32:.2f}", f"{ms / small:.2f}", f"{figures['error']:.1e}"]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fewer_bits", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each model (default %(default)s)")
    parser.add_argument("--output", type=Path, default=HERE / "fewer_bits.md")
    options = parser.parse_args(arguments)
    found = {name: measured(workloads()[name], options.seconds) for name in MODELS}
    titles = ["model", "form", ">ms", ">of its f32", ">of its best in 8 or 4 bits", ">error, of the largest number"]
    version = subprocess.run([find_node(), "--version"], capture_output=True, text=True, check=True).stdout.strip()
    options.output.write_text(
        f"{table(titles, rows(found))}\nThe least of many runs in turns, Node on one thread; ratios are to "
        f"onnxruntime-web's times: "
        f"{', '.join(describe(version).values())}\n"
    )
    report.text(options.output.read_text())


if __name__ == "__main__":
    main()
