"""Served models: as ASGI applications in this process with requests to them, and as processes of the command."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import httpx
import numpy as np
import pytest

import xla_wasm
from tests.support.paths import ROOT
from xla_wasm.artifact import Artifact
from xla_wasm.server.app import Application
from xla_wasm.server.engine import Engine
from xla_wasm.server.metrics import Metrics
from xla_wasm.server.model import Model, Source
from xla_wasm.server.settings import Settings

T = TypeVar("T")
ROWS = """HloModule rows
ENTRY e {
  x = f32[<=8,3] parameter(0)
  two = f32[] constant(2)
  twos = f32[<=8,3] broadcast(two), dimensions={}
  ROOT r = f32[<=8,3] multiply(x, twos)
}
"""
"""Doubles up to eight rows."""
Array = np.ndarray[Any, Any]
JSON = {"Content-Type": "application/json"}


def compiled(text: str, **options: Any) -> Artifact:
    """HLO text, compiled."""
    return xla_wasm.compile(xla_wasm.HloModule.from_text(text), xla_wasm.Options(**options))


@contextmanager
def serving(model: str | Artifact, values: Mapping[str, Array] | None = None, **settings: Any) -> Iterator[Application]:
    """The application that serves a model."""
    artifact = compiled(model) if isinstance(model, str) else model
    chosen = Settings(**settings)
    made = Model(Source(artifact, values or {}), chosen)
    metrics = Metrics(made.manifest.memory_bytes)
    engine = Engine(made, chosen, metrics)
    yield Application(made, chosen, engine, metrics)
    engine.abandon()


Client = httpx.AsyncClient


def together(app: Application, work: Callable[[Client], Awaitable[T]]) -> T:
    """Returns the result of the work, with a client of the application on one event loop."""

    async def run() -> T:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://model", timeout=60) as client:
            return await work(client)

    return asyncio.run(run())


def ask(app: Application, method: str = "POST", path: str = "/", **request: Any) -> httpx.Response:
    """One request."""
    return together(app, lambda client: client.request(method, path, **request))


def error(response: httpx.Response, status: int) -> dict[str, Any]:
    """Returns the error of a response with this status, which must have the form of all errors."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    content: dict[str, Any] = response.json()["error"]
    assert content["status"] == status and content["message"]
    assert set(content) <= {"status", "message", "field", "expected", "given"}
    return content


class Gate:
    """Holds runs of a model back until it is opened."""

    def __init__(self, app: Application, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened = threading.Event()
        self.sizes: list[int] = []
        run = app._model.run

        def gated(arrays: Any) -> list[Array]:
            self.sizes.append(arrays[0].shape[0])
            assert self.opened.wait(60)
            return run(arrays)

        monkeypatch.setattr(app._model, "run", gated)


async def until(condition: Callable[[], bool]) -> None:
    """Waits for what other tasks and threads do."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.001)


def command(*arguments: object) -> list[str]:
    """The command line of a server."""
    return [sys.executable, "-m", "xla_wasm", "serve-model", *map(str, arguments)]


@contextmanager
def server(*arguments: object, code: int | None = 0) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server on a free port, and its address. In the end it gets SIGTERM if it still runs, and must end with that
    code."""
    process = subprocess.Popen(
        command(*arguments, "--port", 0), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        line = process.stdout.readline()
        assert line.startswith("http"), line + process.stderr.read()
        yield process, line.split()[0]
        with suppress(ProcessLookupError):
            process.terminate()
        assert process.wait(60) == code or code is None, process.stderr.read()
        assert "Traceback" not in process.stderr.read()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()
