"""The paths of Node and of onnxruntime-web."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

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
    path = HERE.parent / ".tools" / "peers" / "node_modules" / RUNTIME / "dist" / "ort.node.min.mjs"
    return path if path.exists() else None


def runtime_version() -> str:
    """The installed version of onnxruntime-web."""
    path = find_runtime()
    return str(json.loads((path.parents[1] / "package.json").read_text())["version"]) if path else "none"
