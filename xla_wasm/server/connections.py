"""Connections whose clients must send the head of a request in time and of a moderate size: uvicorn itself would wait
for ever."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .problems import Problem, encoded

LONGEST_HEAD = 1 << 16
"""Bytes of a request before its body."""
HEAD_SECONDS = 30.0
"""Seconds in which they must arrive."""


class Connection(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *args: Any, **known: Any) -> None:
        super().__init__(*args, **known)
        self._head_bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._begin_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._timer is not None:
            # The first piece of the body may be among them: it is smaller than what one read gives.
            self._head_bytes += len(data)
        super().data_received(data)
        if self._timer is not None and self._head_bytes > LONGEST_HEAD:
            self._refuse(
                431, "Request Header Fields Too Large", f"the head of the request is longer than {LONGEST_HEAD} bytes"
            )

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._begin_head()

    def on_headers_complete(self) -> None:
        self._end_head()
        super().on_headers_complete()

    def _begin_head(self) -> None:
        if self._timer is None:
            self._head_bytes = 0
            self._timer = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def _end_head(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self._refuse(408, "Request Timeout", f"the head of the request did not arrive within {HEAD_SECONDS:g} seconds")

    def send_400_response(self, msg: str) -> None:
        """As every error is answered: uvicorn would send plain text, and into the middle of the answer to an earlier
        request."""
        cycle = self.cycle
        its_body = cycle is not None and cycle.more_body and not cycle.response_started
        if self.pipeline or not (cycle is None or cycle.response_complete or its_body):
            cycle.keep_alive = False  # the connection ends behind the answers that are under way
            return
        self._say(400, "Bad Request", "this is no HTTP request that can be read")

    def _refuse(self, status: int, phrase: str, message: str) -> None:
        self._end_head()
        if self.transport.is_closing() or (self.cycle is not None and not self.cycle.response_complete):
            return  # an answer to an earlier request is under way
        self._say(status, phrase, message)

    def _say(self, status: int, phrase: str, message: str) -> None:
        """Answers with an error and closes."""
        body = encoded(Problem(status, message).content())
        head = (
            f"HTTP/1.1 {status} {phrase}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
            f"connection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()
