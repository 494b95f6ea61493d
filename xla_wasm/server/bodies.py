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
_DRAIN_PAUSE = 0.1
"""Seconds without a byte after which nothing more is expected."""
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
        stream = request.stream()
        try:
            try:
                async with asyncio.timeout(self._timeout):
                    fits = await self._collect(request, stream, self._bounds[kind], chunks)
            except TimeoutError:
                message = f"the body did not arrive within {self._timeout:g} seconds"
                raise Problem(408, message, headers={"Connection": "close"}) from None
            except ClientDisconnect:
                raise Problem(400, "the connection ended before the body did") from None
            if not fits:
                if "100-continue" not in request.headers.get("expect", "").lower():
                    await _drain(stream)
                message = f"the body is larger than the {self._bounds[kind]} bytes that the inputs can need as {kind}"
                raise Problem(413, message, headers={"Connection": "close"})
            yield b"".join(chunks)
        finally:
            self._held -= sum(map(len, chunks))

    async def _collect(self, request: Request, stream: AsyncIterator[bytes], bound: int, chunks: list[bytes]) -> bool:
        """Reads the body; False if it is too large."""
        stated, size = request.headers.get("content-length", ""), 0
        if stated.isdecimal() and int(stated) > bound:
            return False
        async for chunk in stream:
            size += len(chunk)
            if size > bound:
                return False
            if self._held + len(chunk) > self._most:
                raise Problem(429, "too many large bodies at once: try again later", headers={"Retry-After": "1"})
            self._held += len(chunk)
            chunks.append(chunk)
        return True


async def _drain(stream: AsyncIterator[bytes]) -> None:
    """Reads on for a while: a connection that is closed with bytes unread takes the answer with it."""
    left = _DRAINED
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            while left > 0:
                left -= len(await asyncio.wait_for(anext(stream), _DRAIN_PAUSE))
    except (TimeoutError, StopAsyncIteration, ClientDisconnect):
        return
