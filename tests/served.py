"""Served models in this process: HLO text or artifacts as ASGI applications, and requests to them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import httpx
import numpy as np

import xla_wasm
from xla_wasm.artifact import Artifact
from xla_wasm.server.app import Application
from xla_wasm.server.engine import Engine
from xla_wasm.server.metrics import Metrics
from xla_wasm.server.model import Model, Source
from xla_wasm.server.settings import Settings

T = TypeVar("T")
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
    """What the work gives, with a client of the application on one event loop."""

    async def run() -> T:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://model", timeout=60) as client:
            return await work(client)

    return asyncio.run(run())


def ask(app: Application, method: str = "POST", path: str = "/", **request: Any) -> httpx.Response:
    """One request."""
    return together(app, lambda client: client.request(method, path, **request))


def error(response: httpx.Response, status: int) -> dict[str, Any]:
    """What an error says, which must have the form of all errors."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    content: dict[str, Any] = response.json()["error"]
    assert content["status"] == status and content["message"]
    assert set(content) <= {"status", "message", "field", "expected", "given"}
    return content
