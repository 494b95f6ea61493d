"""Commands (artifacts of kind "command") run under wasmtime in this process, each in a folder of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import wasmtime

import xla_wasm
from tests.support.bodies import Array, load_npy, npy
from xla_wasm import Options
from xla_wasm.artifact import Artifact
from xla_wasm.hlo.ir import Module
from xla_wasm.hlo.types import TYPES
from xla_wasm.host.arrays import dtype_of

MODULE_NAME = "m.wasm"
"""The name of the program, which is the first of its arguments."""
TWO = """HloModule two

ENTRY e {
  a = f32[2,3] parameter(0)
  b = s32[3] parameter(1)
  c = f32[3] convert(b)
  d = f32[2,3] broadcast(c), dimensions={1}
  sum = f32[2,3] add(a, d)
  bits = s32[3] negate(b)
  ROOT r = (f32[2,3], s32[3]) tuple(sum, bits)
}
"""
"""A program of two inputs and two results; these are the inputs and one of the results."""
A = np.arange(6, dtype=np.float32).reshape(2, 3) / 8
B = np.array([1, -2, 1000], np.int32)
SUM = A + B.astype(np.float32)


@dataclass(frozen=True)
class Outcome:
    """The end of a run: exit code, output, error output, and the folder in which it ran."""

    code: int
    out: bytes
    err: str
    folder: Path

    @property
    def json(self) -> Any:
        """Returns the value of the output, read as JSON; the run must have ended with exit code 0."""
        import json

        assert self.code == 0, self.err
        return json.loads(self.out)

    def array(self, name: str) -> Array:
        """An array that was written."""
        assert self.code == 0, self.err
        return load_npy((self.folder / name).read_bytes())


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


def run(
    artifact: Artifact, folder: Path, *args: str, files: Mapping[str, bytes | Array] | None = None, stdin: bytes = b""
) -> Outcome:
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
    config.stdin_file, config.stdout_file, config.stderr_file = (
        str(ends[name]) for name in ("stdin", "stdout", "stderr")
    )
    store.set_wasi(config)
    code = 0
    try:
        linker.instantiate(store, _compiled(artifact.wasm)).exports(store)["_start"](store)
    except wasmtime.ExitTrap as exit:
        code = exit.code
    del store
    return Outcome(code, ends["stdout"].read_bytes(), ends["stderr"].read_text(errors="replace"), folder)


def as_bytes(array: Array) -> bytes:
    """The elements in row-major order, as they are."""
    return np.ascontiguousarray(array).tobytes()


def names(text: str) -> tuple[list[str], list[str]]:
    """Of the inputs and of the results of a program."""
    manifest = xla_wasm.compile(Module.from_text(text)).manifest
    return [p["name"] for p in manifest["parameters"]], [r["name"] for r in manifest["results"]]


def samples(element_type: str, count: int) -> np.ndarray[Any, Any]:
    """Values of a type, special ones among them, as the codes that lie in memory."""
    rng = np.random.default_rng(len(element_type) + TYPES[element_type].bits)
    dtype, element = dtype_of(element_type), TYPES[element_type]
    if element.kind == "pred":
        return rng.integers(0, 2, count).astype(bool)
    if element.kind in ("signed", "unsigned"):
        bits = element.bits
        low, high = (-(1 << bits - 1), 1 << bits - 1) if element.kind == "signed" else (0, 1 << bits)
        wide = [int(rng.integers(0, 1 << 32)) << 32 | int(rng.integers(0, 1 << 32)) for _ in range(count)]
        numbers = [low, high - 1, 0, *(low + w % (high - low) for w in wide)][:count]
        holder = np.array(numbers, np.int64 if element.kind == "signed" else np.uint64)
        return holder.astype(dtype)
    if element.bits <= 8:
        return np.resize(np.arange(1 << element.bits, dtype=np.uint8), count).view(dtype)
    raw = rng.integers(0, 256, (count, dtype.itemsize), np.uint8).view(dtype)[:, 0].copy()
    values = rng.standard_normal(count) * 10.0 ** rng.integers(-3, 4, count)
    raw[: count // 2] = (
        (values[: count // 2] + 1j * values[::-1][: count // 2]).astype(dtype)
        if dtype.kind == "c"
        else values[: count // 2].astype(dtype)
    )
    raw[:4] = np.array([0.0, -0.0, np.inf, np.nan]).astype(dtype)
    return raw
