"""Compile time of a serialized HLO module, in fresh processes so that nothing is left from an earlier run."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import xla_wasm

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Compiled:
    seconds: float
    """From reading the module to having written the artifact; of the process on its core, without Python's start and
    imports."""
    instructions: int
    """Of all computations of the module."""
    bytes: int
    """Of the artifact."""
    weights: int
    """Bytes of the module's constants, which are part of the artifact."""


def compile_file(path: Path) -> Compiled:
    """Compiles with default options into a temporary file."""
    compiler = xla_wasm.compile
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        module = xla_wasm.HloModule.from_proto(path.read_bytes())
        compiler(module).save(Path(folder, "module.wasm"))
        seconds = time.process_time() - began
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
    instructions = list(module.instructions())
    return Compiled(
        seconds, len(instructions), size, sum(i.shape.bytes for i in instructions if i.opcode == "constant")
    )


def measure(path: Path, runs: int) -> Compiled:
    """The run of median time, each in a process of its own."""
    found = []
    for _ in range(runs):
        done = subprocess.run(
            [sys.executable, "-m", __name__, path.resolve()], cwd=ROOT, capture_output=True, text=True, check=True
        )
        found.append(Compiled(**json.loads(done.stdout)))
    middle = statistics.median_low(c.seconds for c in found)
    return next(c for c in found if c.seconds == middle)


if __name__ == "__main__":
    print(json.dumps(asdict(compile_file(Path(sys.argv[1])))))
