"""The hosts in Python: xla_wasm under wasmtime, and XLA:CPU natively on one thread, with flags of XLA. `python -m
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

        def results() -> list[Array]:
            """Of a call that finds all states as they were given."""
            for entry in job["weights"] if job["states"] else ():
                exe.set(entry["name"], read(entry))
            return [*exe.run(*inputs), *map(exe.get, job["states"])]

        for name, array in weights.items():
            exe.set(name, array)
        out = exe.run(*inputs)
        resident = Resident(artifact, inputs, weights)
        self.modes: dict[str, Callable[[], Any]] = {"kernel": resident, "call": lambda: exe.run(*inputs, out=out)}
        self.results = results


class Xla:
    """Only calls, since XLA's arrays are NumPy's too. States are donated from call to call."""

    def __init__(self, job: Job) -> None:
        import jax

        from .workload import find

        self._workload = workload = find(job["workload"])
        self._arguments = jax.device_put(workload.arguments())
        self._run = jax.jit(workload.function, donate_argnums=len(self._arguments) - 1 if workload.kept else ())
        self.modes = {"kernel": lambda: jax.block_until_ready(self._called())}
        if not workload.kept:
            workload.forget()

    def _called(self) -> Any:
        made = self._run(*self._arguments)
        if self._workload.kept:
            self._arguments = (*self._arguments[:-1], made[1])
        return made

    def results(self) -> list[Array]:
        import jax

        if self._workload.kept:
            self._arguments = jax.device_put(self._workload.arguments())
        return [np.asarray(leaf) for leaf in jax.tree.leaves(self._called())]


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
    if flags := sys.argv[2:]:
        os.environ["XLA_FLAGS"] = " ".join(flags)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(host, request.pop("do"))(**request)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:2000]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
