"""The encoder in Node, against onnxruntime-web: one process runs both in turns, see encoder.mjs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from xla_wasm import Artifact

from .models import Array, Encoder

HERE = Path(__file__).parent
RUNTIME = "onnxruntime-web"


def find_node() -> Path:
    """The Node that build.sh installs, or else the first on PATH; XLA_WASM_NODE names another."""
    installed = sorted(HERE.parent.glob(".tools/node_modules/*/bin/node"))
    found = os.environ.get("XLA_WASM_NODE") or (installed[0] if installed else shutil.which("node"))
    if not found:
        raise SystemExit("benchmarks need Node 24: ./build.sh bench installs it")
    return Path(found)


def find_runtime() -> Path | None:
    """onnxruntime-web as an ES module, if it is installed."""
    path = HERE.parent / ".tools" / "onnxruntime" / "node_modules" / RUNTIME / "dist" / "ort.node.min.mjs"
    return path if path.exists() else None


def runtime_version() -> str:
    """The installed version of onnxruntime-web."""
    path = find_runtime()
    return str(json.loads((path.parents[1] / "package.json").read_text())["version"]) if path else "none"


@dataclass(frozen=True)
class InNode:
    version: str
    seconds: dict[str, float]
    """Least time of each build and of onnxruntime-web."""
    difference: float
    """Between any of the outputs and the first."""
    output: Array


def measure(encoder: Encoder, builds: Mapping[str, Artifact], seconds: float, runs: int, warmup: int) -> InNode:
    """Times the builds, and onnxruntime-web if it is installed."""
    runtime = find_runtime()
    weights = encoder.weights()
    with tempfile.TemporaryDirectory() as folder:
        there = Path(folder)
        (there / "input.f32").write_bytes(encoder.input().tobytes())
        (there / "weights.f32").write_bytes(b"".join(array.tobytes() for array in weights.values()))
        job = {
            "input": str(there / "input.f32"),
            "weights": str(there / "weights.f32"),
            "layout": [{"name": name, "size": array.size} for name, array in weights.items()],
            "builds": {name: str(artifact.save(there / f"{i}.wasm")) for i, (name, artifact) in enumerate(builds.items())},
            "shape": encoder.input().shape,
            "seconds": seconds,
            "runs": runs,
            "warmup": warmup,
        }
        if runtime:
            (there / "encoder.onnx").write_bytes(encoder.onnx())
            job |= {"runtime": runtime.as_uri(), "onnx": str(there / "encoder.onnx")}
        done = subprocess.run([find_node(), HERE / "encoder.mjs"], input=json.dumps(job), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"Node failed:\n{done.stderr[-4000:]}")
    answer = json.loads(done.stdout)
    times = answer["times"]
    return InNode(
        answer["node"],
        {name: entry["milliseconds"] / 1e3 for name, entry in times.items()},
        max(entry["difference"] for entry in times.values()),
        np.array(answer["output"], np.float32).reshape(encoder.input().shape),
    )
