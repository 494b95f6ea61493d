"""The hosts in Python: xla_wasm under wasmtime, and XLA:CPU natively on one thread. `python -m
benchmarks.suite.python_host wasmtime`."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from .workload import Array

Job = dict[str, Any]
TYPES = {"bfloat16": ml_dtypes.bfloat16}


def read(entry: Job) -> Array:
    """The array of a file."""
    return np.fromfile(entry["path"], TYPES.get(entry["type"], entry["type"])).reshape(entry["shape"])


class Wasmtime:
    """A kernel is the export `run` and nothing else, with the inputs in place; a call is `Executable.run` into given
    arrays."""

    def __init__(self, job: Job) -> None:
        import xla_wasm

        from ..wasmtime_host import Resident

        artifact = xla_wasm.Artifact.open(job["module"])
        inputs, weights = (
            [read(entry) for entry in job["inputs"]],
            {entry["name"]: read(entry) for entry in job["weights"]},
        )
        exe = xla_wasm.load(artifact)
        for name, array in weights.items():
            exe.set(name, array)
        out = exe.run(*inputs)
        resident = Resident(artifact, inputs, weights)
        self.modes: dict[str, Callable[[], Any]] = {"kernel": resident, "call": lambda: exe.run(*inputs, out=out)}
        self.results = lambda: exe.run(*inputs)


class Xla:
    """Only calls, since XLA's arrays are NumPy's too."""

    def __init__(self, job: Job) -> None:
        import jax

        from .workload import workloads

        workload = workloads()[job["workload"]]
        arguments = jax.device_put(workload.arguments())
        run = jax.jit(workload.function)
        self.modes = {"kernel": lambda: jax.block_until_ready(run(*arguments))}
        self.results = lambda: [np.asarray(leaf) for leaf in jax.tree.leaves(run(*arguments))]


class Host:
    """Answers requests, as hosts/protocol.mjs does."""

    def __init__(self, kind: str) -> None:
        self.make = {"wasmtime": Wasmtime, "xla": Xla}[kind]
        self.ready: Any = None

    def prepare(self, job: Job) -> Job:
        self.ready = self.make(job)
        return {"modes": list(self.ready.modes)}

    def time(self, mode: str, calls: int, samples: int) -> Job:
        work, found = self.ready.modes[mode], []
        for _ in range(samples):
            begin = time.perf_counter()
            for _ in range(calls):
                work()
            found.append((time.perf_counter() - begin) * 1e3 / calls)
        return {"ms": found}

    def results(self, folder: str) -> Job:
        entries = []
        for number, array in enumerate(self.ready.results()):
            path = Path(folder, f"{number}.bin")
            path.write_bytes(np.ascontiguousarray(array).tobytes())
            entries.append({"path": str(path), "type": array.dtype.name})
        return {"results": entries}

    def release(self) -> Job:
        self.ready = None
        pages = int(Path("/proc/self/statm").read_text().split()[1]) if Path("/proc/self/statm").exists() else 0
        return {"resident": pages * os.sysconf("SC_PAGE_SIZE")}


def main() -> None:
    """Answers until standard input ends."""
    host = Host(sys.argv[1])
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(host, request.pop("do"))(**request)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:2000]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
