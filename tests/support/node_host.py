"""Node for tests: finds the ones there are, and runs artifacts in them through web/xla_wasm.js."""

from __future__ import annotations

import base64
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.paths import ROOT
from tests.support.processes import output
from xla_wasm.artifact import Artifact
from xla_wasm.host.arrays import dtype_of

RUNNER = ROOT / "tests" / "js" / "run_artifact.mjs"
PROBE = (
    f"import({json.dumps((ROOT / 'web' / 'features.js').as_uri())}).then(f => console.log(process.version, "
    f"f.supports('relaxed-simd')))"
)


@cache
def nodes() -> dict[str, tuple[Path, bool]]:
    """Every Node that can be found, by version, with whether it has relaxed SIMD: `XLA_WASM_NODE`, `.tools/`, all of
    PATH."""
    candidates = [Path(os.environ["XLA_WASM_NODE"])] if "XLA_WASM_NODE" in os.environ else []
    candidates += sorted(ROOT.glob(".tools/**/bin/node"))
    candidates += [Path(found) for place in os.get_exec_path() if (found := shutil.which("node", path=place))]
    candidates += [ROOT / ".venv" / "bin" / "node"]
    found: dict[str, tuple[Path, bool]] = {}
    for path in candidates:
        if path.exists():
            version, relaxed = output([path, "-e", PROBE]).split()
            found.setdefault(version, (path, relaxed == "true"))
    return found


def node_for(target: str) -> Path:
    """A Node that runs the target: the oldest for simd128, since it must run on any."""
    fit = {version: path for version, (path, relaxed) in nodes().items() if relaxed or target != "relaxed-simd"}
    if not fit:
        pytest.fail(f"no Node that runs {target}: ./build.sh test installs one, or name it with XLA_WASM_NODE")
    return fit[min(fit, key=lambda version: [int(part) for part in version[1:].split(".")])]


def encode(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    """An array as JSON: its raw row-major bytes."""
    return {"data": base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()}


def run_in_node(
    artifact: Artifact,
    calls: Sequence[Sequence[np.ndarray[Any, Any]]],
    folder: Path,
    weights: dict[str, Any] | None = None,
) -> list[list[np.ndarray[Any, Any]]]:
    """Runs the artifact on each list of arrays in one Node process; the results of each call."""
    path = artifact.save(folder / "module.wasm")
    job = {
        "wasm": str(path),
        "set": {name: encode(np.asarray(array)) for name, array in (weights or {}).items()},
        "calls": [[encode(array) for array in arrays] for arrays in calls],
    }
    node = node_for(artifact.manifest["target"])
    said = output([node, RUNNER], input=json.dumps(job), timeout=600)
    leaves = [leaf for leaf in artifact.manifest["results"] if leaf["kind"] == "output"]
    return [
        [
            np.frombuffer(base64.b64decode(data), dtype_of(leaf["element_type"])).reshape(leaf["dimensions"]).copy()
            for data, leaf in zip(results, leaves, strict=True)
        ]
        for results in json.loads(said)
    ]


def in_node(artifact: Artifact, inputs: list[Any], held: dict[str, Any]) -> list[np.ndarray[Any, Any]]:
    """Runs the artifact once in Node, as a host of `differential`."""
    with tempfile.TemporaryDirectory() as folder:
        return run_in_node(artifact, [[np.asarray(a) for a in inputs]], Path(folder), held)[0]
