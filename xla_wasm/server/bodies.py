"""Bodies of requests as they arrive: not too large, not too slowly, and not too many bytes of them at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from starlette.requests import ClientDisconnect, Request

from .problems import Problem

_DRAINED = 1 << 20
"""Bytes of a body that is too large which are read and thrown away, so that its sender gets to see the answer."""
_DRAIN_SECONDS = 1.0
_ALL = 1 << 28
"""Bytes of all bodies that are held at once, or one of the largest where that is more."""


class Bodies:
    """Takes bodies in."""

    def __init__(self, bounds: Mapping[str, int], timeout: float) -> None:
        """`bounds` are the bytes of the largest body of each form; `timeout` is in seconds."""
        self._bounds = bounds
        self._timeout = timeout
        self._most = max(_ALL, *bounds.values())
        self._held = 0

    @asynccontextmanager
    async def read(self, request: Request, kind: str) -> AsyncIterator[bytes]:
        """The body, which counts as held until the context is left. Problem: 400, 408, 413 or 429."""
        chunks: list[bytes] = []
        try:
            async with asyncio.timeout(self._timeout):
                await self._collect(request, kind, chunks)
        except TimeoutError:
            self._held -= sum(map(len, chunks))
            raise Problem(408, f"the body did not arrive within {self._timeout:g} seconds", headers={"Connection": "close"}) from None
        except BaseException:
            self._held -= sum(map(len, chunks))
            raise
        try:
            yield b"".join(chunks)
        finally:
            self._held -= sum(map(len, chunks))

    async def _collect(self, request: Request, kind: str, chunks: list[bytes]) -> None:
        bound, size = self._bounds[kind], 0
        stated = request.headers.get("content-length", "")
        stream = request.stream()
        try:
            if stated.isdecimal() and int(stated) > bound:
                raise await self._too_large(request, stream, kind)
            async for chunk in stream:
                size += len(chunk)
                if size > bound:
                    raise await self._too_large(request, stream, kind)
                if self._held + len(chunk) > self._most:
                    raise Problem(429, "too many large bodies at once: try again later", headers={"Retry-After": "1"})
                self._held += len(chunk)
                chunks.append(chunk)
        except ClientDisconnect:
            raise Problem(400, "the connection ended before the body did") from None

    async def _too_large(self, request: Request, stream: AsyncIterator[bytes], kind: str) -> Problem:
        message = f"the body is larger than the {self._bounds[kind]} bytes that the inputs can need as {kind}"
        if "100-continue" not in request.headers.get("expect", "").lower():
            await _drain(stream)
        return Problem(413, message, headers={"Connection": "close"})


async def _drain(stream: AsyncIterator[bytes]) -> None:
    """Reads on for a while: a connection that is closed with bytes unread takes the answer with it."""
    left = _DRAINED
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for chunk in stream:
                left -= len(chunk)
                if left < 0:
                    return
    except (TimeoutError, ClientDisconnect):
        return
