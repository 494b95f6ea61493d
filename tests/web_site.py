"""A small web server for tests of the loader: files, wrong types, pages in place of files, broken and slow connections."""

from __future__ import annotations

import contextlib
import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".wasm": "application/wasm",
    ".json": "application/json",
    ".css": "text/css",
}


@dataclass
class Answer:
    """What the server says: `cut` ends the connection after so many bytes, `stall` leaves it open instead."""

    body: bytes
    type: str | None = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None
    stall: bool = False
    compressed: bool = False


@dataclass
class Site:
    """Answers by path, and folders by the path they appear under; `headers` go with everything. A list of answers is given one by one."""

    answers: dict[str, Answer | list[Answer]] = field(default_factory=dict)
    folders: dict[str, Path] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    url: str = ""
    stopped: threading.Event = field(default_factory=threading.Event)

    def find(self, path: str) -> Answer:
        if path == "/asked":
            return Answer(json.dumps(self.asked).encode())
        answer = self.answers.get(path)
        if isinstance(answer, list):
            return answer.pop(0) if len(answer) > 1 else answer[0]
        if answer:
            return answer
        for prefix, folder in self.folders.items():
            file = folder / path.removeprefix(prefix).lstrip("/")
            if path.startswith(prefix) and file.is_file():
                return Answer(file.read_bytes())
        return Answer(b"<!doctype html><title>404</title><h1>Not found</h1>", TYPES[".html"], 404)

    @contextmanager
    def serving(self) -> Iterator[Site]:
        with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self)) as server:
            server.daemon_threads = True
            self.url = f"http://127.0.0.1:{server.server_address[1]}"
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield self
            self.stopped.set()
            server.shutdown()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # it would hold every answer back for 40 ms

    def __init__(self, site: Site, *args: object) -> None:
        self.site = site
        super().__init__(*args)  # type: ignore[arg-type]

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.site.asked.append(path)
        answer = self.site.find(path)
        body = gzip.compress(answer.body, 1) if answer.compressed else answer.body
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.type or TYPES.get(Path(path).suffix, "application/octet-stream"))
        self.send_header("Content-Length", str(len(body)))
        if answer.compressed:
            self.send_header("Content-Encoding", "gzip")
        for name, value in (self.site.headers | answer.headers).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        self.wfile.write(body[: answer.cut])
        if answer.cut is not None:
            self.wfile.flush()
            if answer.stall:
                self.site.stopped.wait(30)
            self.close_connection = True

    def handle(self) -> None:
        # Clients go away in the middle, on purpose.
        with contextlib.suppress(ConnectionError):
            super().handle()

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing for each request."""
