"""Commands (artifacts of kind "command") run under wasmtime in this process, each in a folder of its own."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import wasmtime

import xla_wasm
from xla_wasm import Options
from xla_wasm.artifact import Artifact
from xla_wasm.hlo.ir import Module

Array = np.ndarray[Any, Any]
MODULE_NAME = "m.wasm"
"""What the program is told that it is called."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    code: int
    out: bytes
    err: str
    folder: Path

    @property
    def json(self) -> Any:
        """What was printed, as JSON."""
        import json

        assert self.code == 0, self.err
        return json.loads(self.out)

    def array(self, name: str) -> Array:
        """An array that was written."""
        assert self.code == 0, self.err
        return loaded((self.folder / name).read_bytes())


@cache
def _engine() -> wasmtime.Engine:
    config = wasmtime.Config()
    config.consume_fuel = True
    return wasmtime.Engine(config)


@cache
def _compiled(wasm: bytes) -> wasmtime.Module:
    return wasmtime.Module(_engine(), wasm)


def command(module: Module | str, **options: Any) -> Artifact:
    """A module, or its text, as a command."""
    if isinstance(module, str):
        module = Module.from_text(module)
    return xla_wasm.compile(module, Options(kind="command", **options))


def identity(shape: str) -> str:
    """A program that gives back its argument."""
    return f"HloModule m\n\nENTRY e {{\n  ROOT x = {shape} parameter(0)\n}}\n"


def run(artifact: Artifact, folder: Path, *args: str, files: Mapping[str, bytes | Array] | None = None, stdin: bytes = b"") -> Outcome:
    """Runs a command with files in its folder. A run that does not end, or traps, is an error of the test."""
    folder.mkdir(exist_ok=True)
    for name, content in (files or {}).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else npy(content))
    ends = {name: folder.parent / f"{folder.name}.{name}" for name in ("stdin", "stdout", "stderr")}
    ends["stdin"].write_bytes(stdin)
    store = wasmtime.Store(_engine())
    store.set_fuel(20_000_000_000)
    linker = wasmtime.Linker(_engine())
    linker.define_wasi()
    config = wasmtime.WasiConfig()
    config.argv = [MODULE_NAME, *args]
    config.preopen_dir(str(folder), ".")
    config.stdin_file, config.stdout_file, config.stderr_file = (str(ends[name]) for name in ("stdin", "stdout", "stderr"))
    store.set_wasi(config)
    code = 0
    try:
        linker.instantiate(store, _compiled(artifact.wasm)).exports(store)["_start"](store)
    except wasmtime.ExitTrap as exit:
        code = exit.code
    del store
    return Outcome(code, ends["stdout"].read_bytes(), ends["stderr"].read_text(errors="replace"), folder)


def npy(array: Array) -> bytes:
    """The bytes of a .npy file."""
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


def npz(deflated: bool = False, **arrays: Array) -> bytes:
    """The bytes of a .npz file."""
    content = io.BytesIO()
    (np.savez_compressed if deflated else np.savez)(content, **arrays)  # type: ignore[arg-type]
    return content.getvalue()


def loaded(content: bytes) -> Array:
    """The array of a .npy file; of types that NumPy lacks the bytes."""
    array: Array = np.load(io.BytesIO(content))
    return array


def as_bytes(array: Array) -> bytes:
    """The elements in row-major order, as they are."""
    return np.ascontiguousarray(array).tobytes()
