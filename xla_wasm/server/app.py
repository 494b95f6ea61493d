"""The routes of a served model, as an ASGI application."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from . import formats, page
from .accept import best
from .bodies import Bodies
from .engine import Engine, shutting_down
from .metrics import CONTENT_TYPE, Metrics
from .model import Model, signature
from .openapi import describe
from .problems import Problem, encoded
from .settings import Settings

_log = logging.getLogger(__name__)
_HTML = "text/html"
_UNCOUNTED = ("/healthz", "/metrics")
"""Routes that machines ask all the time: counting them would hide the others."""


class Application:
    """The ASGI application. It counts what it answers, and leaves no request without an answer."""

    def __init__(self, model: Model, settings: Settings, engine: Engine, metrics: Metrics) -> None:
        self.engine = engine
        self.metrics = metrics
        self._model = model
        self._reader = formats.Reader(model.inputs, settings.max_body)
        self._bodies = Bodies(self._reader.bounds, settings.body_timeout)
        self._signature = encoded(signature(model))
        openapi = describe(model)
        fixed = {
            "/healthz": (b"ok\n", "text/plain; charset=utf-8"),
            "/openapi.json": (encoded(openapi), formats.JSON),
            "/docs": (page.reference(openapi), _HTML),
        }
        self._page = page.front(model)
        routes = [
            Route("/", self._root, methods=["GET", "POST"]),
            Route("/metrics", self._metrics, methods=["GET"]),
            *(Route(path, _answering(*content), methods=["GET"]) for path, content in fixed.items()),
        ]
        self._app = Starlette(routes=routes, exception_handlers={HTTPException: _refused, Problem: _failed})
        self._app.router.redirect_slashes = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        path, head = scope["path"], scope["method"] == "HEAD"

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                if path not in _UNCOUNTED:
                    self.metrics.requests.labels(str(message["status"])).inc()
                if self.engine.stopping and not any(name == b"connection" for name, _ in message["headers"]):
                    # So that the client does not send its next request here.
                    message["headers"] = [*message["headers"], (b"connection", b"close")]
            elif head:
                message = {**message, "body": b""}
            await send(message)

        await self._app(scope, receive, watched)
        if path == "/" and scope["method"] == "POST":
            self.metrics.request_seconds.observe(time.perf_counter() - began)

    async def _root(self, request: Request) -> Response:
        if request.method == "POST":
            return await self._run(request)
        if best(request.headers.get("accept"), [formats.JSON, _HTML]) == _HTML:
            return _page_response(self._page, {"Vary": "Accept"})
        return Response(self._signature, media_type=formats.JSON, headers={"Vary": "Accept"})

    async def _metrics(self, request: Request) -> Response:
        return Response(self.metrics.text(), headers={"Content-Type": CONTENT_TYPE})

    async def _run(self, request: Request) -> Response:
        try:
            return await self._answered(request)
        except (Problem, HTTPException, asyncio.CancelledError):
            raise
        except Exception:
            _log.exception("a request failed in the server itself")
            return _problem_response(Problem(500, "the server failed; its log says more"))

    async def _answered(self, request: Request) -> Response:
        if self.engine.abandoned:
            raise shutting_down()
        headers = request.headers
        if headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
            raise Problem(415, "compressed bodies are not taken: send it without Content-Encoding")
        header = headers.get("content-type")
        kind = formats.body_type(header)
        answer = formats.answer_type(headers.get("accept"), kind, self._model.results)
        self.engine.check_room()  # before the body is taken in; the place itself is not held by a slow client
        async with self._bodies.read(request, kind) as data:
            made = await self.engine.answer(
                lambda: self._reader.read(kind, header, data),
                lambda arrays: formats.write(answer, self._model.results, arrays),
            )
        return Response(made, headers={"Content-Type": answer, "Vary": "Accept"})


def _answering(content: bytes, media_type: str) -> Callable[[Request], Response]:
    """An endpoint that always answers the same."""
    if media_type == _HTML:
        return lambda request: _page_response(content, {})
    return lambda request: Response(content, headers={"Content-Type": media_type})


def _page_response(content: bytes, headers: dict[str, str]) -> Response:
    safe = {
        "Content-Security-Policy": page.POLICY,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
    }
    return Response(content, headers={"Content-Type": "text/html; charset=utf-8", **safe, **headers})


def _refused(request: Request, error: Exception) -> Response:
    """Returns the answer to what the router raises: 404 and 405."""
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    if error.status_code == 405:
        headers["Allow"] = ", ".join(sorted(headers["Allow"].split(", ")))
        return _problem_response(
            Problem(405, f"{request.url.path} takes {headers['Allow']}, not {request.method}", headers=headers)
        )
    message = f"there is nothing at {request.url.path}" if error.status_code == 404 else str(error.detail)
    return _problem_response(Problem(error.status_code, message, headers=headers))


def _failed(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return _problem_response(error)


def _problem_response(problem: Problem) -> Response:
    return Response(encoded(problem.content()), problem.status, {"Content-Type": formats.JSON, **problem.headers})
