"""Contestants run the workloads: long-lived processes that are fed JSON lines, each pinned to the same core. This
module also writes the files that they read."""

from __future__ import annotations

import json
import os
import re
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import xla_wasm
from xla_wasm import Artifact, Options
from xla_wasm.target import RELAXED_SIMD, SIMD128

from ..node_host import find_node
from ..onnx_graph import Graph
from .machine import MODES, limits_module
from .workload import Array, Arrays, Workload

HOSTS = Path(__file__).parent / "hosts"
ROOT = Path(__file__).parents[2]
PEERS = ROOT / ".tools" / "peers" / "node_modules"
VERSIONS = {"ort": "onnxruntime-web", "tfjs": "@tensorflow/tfjs-backend-wasm", "jax-js": "@jax-js/jax"}
RESIDENT = 1 << 30
"""Bytes: a process that holds more after it has let go of a workload is ended, and begins anew with the next."""
PATIENCE = 300.0
"""Seconds for one answer."""


class Failure(Exception):
    """A contestant did not do what it was asked."""


Job = dict[str, Any]


@dataclass(frozen=True)
class Contestant:
    """`command` starts its process, `job` writes the files of a workload into a folder and says what `prepare` is told;
    None: no row."""

    name: str
    command: tuple[str, ...]
    job: Callable[[Workload, Path], Job | None]
    peer: bool = False
    first: bool = False
    """It wants channels first."""
    least: float = 0.3
    """Milliseconds of the shortest sample: a loop around a graph has to be long beside a call of its runtime."""


def core() -> int | None:
    """The core that processes are pinned to: the last that this process may use; None where nothing pins."""
    if not hasattr(os, "sched_getaffinity") or not shutil.which("taskset"):
        return None
    return max(os.sched_getaffinity(0))


class Process:
    """A contestant's process, started when it is first needed."""

    def __init__(self, contestant: Contestant) -> None:
        self.contestant = contestant
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: Any = None

    def ask(self, patience: float = PATIENCE, **request: Any) -> Any:
        """The answer to a request; `Failure` if there is none or it is an error, and then the process is new next
        time."""
        process = self._started()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            line = _line(process.stdout, patience)
        except (OSError, TimeoutError) as error:
            self.stop()
            raise Failure(f"{self.contestant.name}: {error or 'no answer'}") from error
        if not line:
            said = self._said()
            self.stop()
            raise Failure(f"{self.contestant.name} ended: {_last(said)}")
        answer = json.loads(line)
        if "error" in answer:
            raise Failure(answer["error"])
        return answer

    def stop(self) -> None:
        """Ends the process, if there is one."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
            self._errors.close()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            pinned = core()
            before = () if pinned is None else ("taskset", "-c", str(pinned))
            self._errors = tempfile.TemporaryFile()
            self._process = subprocess.Popen(
                [*before, *self.contestant.command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                cwd=ROOT,
            )
        return self._process

    def _said(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")[-2000:]


def _last(said: str) -> str:
    """The line that says what happened: an error that a language names, or the last."""
    lines = [line for line in said.splitlines() if line.strip()] or ["it said nothing"]
    return next((line for line in lines if re.match(r"\w*Error\b", line)), lines[-1])


def _line(pipe: Any, patience: float) -> bytes:
    """A whole line, or nothing at the end of the pipe."""
    parts: list[bytes] = []
    end = time.monotonic() + patience
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while not (parts and parts[-1].endswith(b"\n")):
            if not selector.select(max(0.0, end - time.monotonic())):
                raise TimeoutError(f"no answer within {patience:.0f} s")
            part = os.read(pipe.fileno(), 1 << 16)
            if not part:
                return b""
            parts.append(part)
    return b"".join(parts)


# --- files ----------------------------------------------------------------------------------------------------------


def _written(folder: Path, given: Mapping[str, Array]) -> list[Job]:
    """Arrays as files, one for each, and what a host has to know of them."""
    folder.mkdir(parents=True, exist_ok=True)
    entries = []
    for number, (name, array) in enumerate(given.items()):
        path = folder / f"{number}.bin"
        if not path.exists():
            path.write_bytes(np.ascontiguousarray(array).tobytes())
        entries.append({"name": name, "type": array.dtype.name, "shape": array.shape, "path": str(path)})
    return entries


def _arrays(workload: Workload, folder: Path) -> Job:
    inputs, weights = workload.given
    return {"inputs": _written(folder / "inputs", inputs), "weights": _written(folder / "weights", weights)}


def _for_peers(workload: Workload) -> tuple[Arrays, Arrays]:
    """Inputs and weights in the dimension orders of contestants that want channels first, complex numbers as pairs of
    real ones."""
    inputs, weights = (
        {name: _ordered(workload, name, array) for name, array in part.items()} for part in workload.given
    )
    return inputs, weights


def _ordered(workload: Workload, name: str, array: Array) -> Array:
    order = workload.orders.get(name)
    if array.dtype.kind == "c":
        return array.view(np.float32).reshape(*array.shape, 2)
    return array if order is None else np.ascontiguousarray(array.transpose(order))


def compiled(workload: Workload, target: str, tune: str) -> Artifact:
    """The workload's artifact, with its weights as weights or states."""
    from xla_wasm.jax import lower

    module = lower(workload.function, *workload.arguments())
    if workload.kept:
        return xla_wasm.compile(module, Options(target, tune, state={"w": "1"}))
    count = len(workload.given[0])
    names = tuple(range(count, count + len(workload.given[1])))
    return xla_wasm.compile(module, Options(target, tune, weights=names))


def _ours(target: str, tune: str) -> Callable[[Workload, Path], Job]:
    def job(workload: Workload, folder: Path) -> Job:
        artifact = compiled(workload, target, tune)
        path = folder / f"{target}-{tune}.wasm"
        given = _arrays(workload, folder)
        artifact.save(path)
        # The module calls its weights by their paths in the tree of arguments: that of the dict, then their names.
        held = [p["name"] for p in artifact.manifest["parameters"] if p["kind"] != "input"]
        names = {name.partition(".")[2]: name for name in held}
        for entry in given["weights"]:
            entry["name"] = names[entry["name"]]
        states = held if workload.kept else []
        return {"module": str(path), "bytes": path.stat().st_size, "states": states, **given}

    return job


def onnx_models(workload: Workload, form: str = "") -> tuple[bytes, bytes | None]:
    """The workload's graph as a model, and in a loop; models have no loop, since only calls are compared. `form`: of
    its weights."""
    assert workload.onnx is not None
    inputs, weights = _for_peers(workload)
    graph = Graph(weights)
    made = workload.onnx(graph)
    if form:
        graph.store_weights(form)
    nodes = (made,) if isinstance(made, str) else made
    declared = {name: (array.dtype, array.shape) for name, array in inputs.items()}
    results = {f"y{i}": (node, *kind) for i, (node, kind) in enumerate(zip(nodes, _kinds(workload), strict=True))}
    model = graph.model(workload.name, declared, results)
    return model, None if workload.model else graph.repeated(workload.name, declared, results)


def _onnx(workload: Workload, folder: Path) -> Job | None:
    if workload.onnx is None:
        return None
    job: Job = {"inputs": _written(folder / "inputs-first", _for_peers(workload)[0])}
    for name, model in zip(("model", "loop"), onnx_models(workload)):
        if model is not None:
            job[name] = str(folder / f"{name}.onnx")
            (folder / f"{name}.onnx").write_bytes(model)
    return job


def _kinds(workload: Workload) -> list[tuple[Any, list[None]]]:
    """The types and ranks of the results in ONNX, which counts in 64 bits and has complex numbers as pairs."""
    import jax

    found: list[tuple[Any, list[None]]] = []
    for leaf in jax.tree.leaves(jax.eval_shape(workload.function, *workload.arguments())):
        if leaf.dtype.kind == "c":
            found.append((np.dtype(np.float32), [None] * (leaf.ndim + 1)))
        else:
            found.append(
                (np.dtype(np.int64) if workload.counts and leaf.dtype == np.int32 else leaf.dtype, [None] * leaf.ndim)
            )
    return found


def _tfjs(workload: Workload, folder: Path) -> Job | None:
    return None if workload.tfjs is None else {"expression": workload.tfjs, **_arrays(workload, folder)}


def _jaxjs(workload: Workload, folder: Path) -> Job | None:
    if workload.jaxjs is None:
        return None
    inputs, weights = _for_peers(workload)
    given = {
        "inputs": _written(folder / "inputs-first", inputs),
        "weights": _written(folder / "weights-first", weights),
    }
    return {"expression": workload.jaxjs, **given}


def _limits(workload: Workload, folder: Path) -> Job:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "limits.wasm"
    path.write_bytes(limits_module())
    return {"module": str(path), "modes": list(MODES)}


RELAXED, PLAIN, WASMTIME, XLA = "V8 relaxed-simd", "V8 simd128", "wasmtime relaxed-simd", "XLA:CPU"
NARROW = "XLA:CPU, SSE4.2"
OURS = (RELAXED, PLAIN, WASMTIME)


def machine_contestant() -> Contestant:
    """Measures the machine's limits."""
    return Contestant("machine", (str(find_node()), str(HOSTS / "machine.mjs")), _limits)


def our_contestants() -> list[Contestant]:
    """xla_wasm in V8, for both targets, and under wasmtime; and XLA:CPU on one thread, natively, to compare with: with
    all that the processor has, and with vectors as wide as WebAssembly's."""
    node = str(find_node())
    python = (sys.executable, "-m", "benchmarks.suite.python_host")

    def named(workload: Workload, folder: Path) -> Job:
        return {"workload": workload.name}

    ours = (node, str(HOSTS / "ours.mjs"))
    return [
        Contestant(RELAXED, ours, _ours(RELAXED_SIMD, "v8")),
        Contestant(PLAIN, ours, _ours(SIMD128, "v8")),
        Contestant(WASMTIME, (*python, "wasmtime"), _ours(RELAXED_SIMD, "wasmtime")),
        Contestant(XLA, (*python, "xla"), named),
        Contestant(NARROW, (*python, "xla", "--xla_cpu_max_isa=SSE4_2"), named),
    ]


def peers() -> list[Contestant]:
    """The others that are installed."""
    node = str(find_node())
    hosts = {"ort": ("ort.mjs", _onnx), "tfjs": ("tfjs.mjs", _tfjs), "jax-js": ("jax_js.mjs", _jaxjs)}
    return [
        Contestant(
            name, (node, str(HOSTS / script), str(PEERS)), job, True, name != "tfjs", 20.0 if name == "ort" else 0.3
        )
        for name, (script, job) in hosts.items()
        if (PEERS / VERSIONS[name]).is_dir()
    ]


def versions() -> dict[str, str]:
    """The installed peers."""
    found = {name: PEERS / package / "package.json" for name, package in VERSIONS.items()}
    return {name: json.loads(path.read_text())["version"] for name, path in found.items() if path.exists()}
