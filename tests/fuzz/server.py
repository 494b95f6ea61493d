"""`xla-wasm serve-model` as a target: bytes as connections bring them, to the same protocol and application, without a
socket."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from tests.support.served_models import ROWS, compiled
from xla_wasm import XlaWasmError
from xla_wasm.server.app import Application
from xla_wasm.server.connections import Connection
from xla_wasm.server.engine import Engine
from xla_wasm.server.metrics import Metrics
from xla_wasm.server.model import Model, Source
from xla_wasm.server.settings import Settings

_SECONDS = 1.0
"""For the answer to a request that came whole; bodies that do not come are given up sooner."""
_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) [^\r]*\r\n((?:[^\r]+\r\n)*)\r\n")
PAIR = """HloModule pair

ENTRY e {
  x = f32[2,3] parameter(0)
  y = s32[<=4] parameter(1)
  ROOT r = (f32[2,3], s32[<=4]) tuple(x, y)
}
"""


class Refused(XlaWasmError):
    """The server has answered with an error; `where` tells outcomes apart."""

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self.where = where


class _Transport(asyncio.Transport):
    """Keeps what the server writes."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.written = bytearray()
        self.closed = False

    def write(self, data: Any) -> None:
        if not self.closed:
            self.written += data

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        """All there is has been read."""

    resume_reading = pause_reading
    set_protocol = pause_reading  # type: ignore[assignment]


class _Log(logging.Handler):
    """A handler that keeps the errors of the server itself."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.errors: list[BaseException | str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.errors.append((record.exc_info and record.exc_info[1]) or record.getMessage())


class Served:
    """A served model, and an event loop for it."""

    def __init__(self, text: str) -> None:
        settings = Settings(concurrency=1, body_timeout=0.02, run_timeout=_SECONDS)
        model = Model(Source(compiled(text), {}), settings)
        metrics = Metrics(model.manifest.memory_bytes)
        self.engine = Engine(model, settings, metrics)
        self.app = Application(model, settings, self.engine, metrics)
        self._config = uvicorn.Config(
            self.app, http=Connection, lifespan="off", ws="none", log_config=None, access_log=False
        )
        self._config.load()
        self._loop = asyncio.new_event_loop()

    def answers(self, data: bytes) -> bytes:
        """Returns the bytes that the server writes on a connection that brings the data, and then ends."""
        return self._loop.run_until_complete(self._connection(data))

    async def _connection(self, data: bytes) -> bytes:
        state, transport = ServerState(), _Transport()
        made = Connection(config=self._config, server_state=state, app_state={}, _loop=self._loop)
        made.connection_made(transport)
        try:
            made.data_received(data)
            while state.tasks:
                await asyncio.wait_for(asyncio.gather(*state.tasks), _SECONDS)
                await asyncio.sleep(0)  # a request that followed on the same connection
        finally:
            made.connection_lost(None)
            for task in list(state.tasks):
                task.cancel()
        return bytes(transport.written)


@cache
def _served() -> tuple[Served, ...]:
    return Served(ROWS), Served(PAIR)


@contextmanager
def _listening() -> Iterator[_Log]:
    log = _Log()
    loggers = [logging.getLogger(name) for name in ("uvicorn.error", "xla_wasm", "asyncio")]
    for logger in loggers:
        logger.addHandler(log)
        logger.propagate = False
    try:
        yield log
    finally:
        for logger in loggers:
            logger.removeHandler(log)
            logger.propagate = True


def ask(data: bytes) -> None:
    """One connection to each of the models. Refused, unless all answers are results."""
    found = []
    for served in _served():
        with _listening() as log:
            answers = served.answers(data)
        for error in log.errors:
            raise error if isinstance(error, BaseException) else AssertionError(error)
        assert not served.app._bodies._held and not served.engine._taken, (
            "something is held that nobody asks for any more"
        )
        found.append(_checked(answers))
    if any(kind != "200" for kinds in found for kind in kinds):
        raise Refused(" | ".join(" ".join(kinds) for kinds in found))


def _checked(answers: bytes) -> list[str]:
    """Returns the kinds of the answers on a connection: the status of each, with the words of an error's message. Each
    answer must be complete, and an error of the form that all errors have and not a 500."""
    found = []
    while answers and (head := _STATUS.match(answers)):
        status, rest = int(head[1]), answers[head.end() :]
        if status == 100:
            answers = rest
            continue
        length = re.search(rb"(?mi)^content-length: (\d+)\r$", head[2])
        assert length, head[0]
        # HEAD is answered without a body.
        size = 0 if not rest or rest.startswith(b"HTTP/1.1 ") else int(length[1])
        body, answers = rest[:size], rest[size:]
        kind = str(status)
        if status >= 400 and body:
            error = json.loads(body)["error"]
            assert error["status"] == status and error["message"], body
            assert status != 500, error["message"]
            kind = " ".join([kind, *re.sub(r"'[^']*'|\[[^]]*\]|[\d.]+|\w+/\S+", "_", error["message"]).split()[:6]])
        found.append(kind)
    assert not answers, answers[:200]
    return found
