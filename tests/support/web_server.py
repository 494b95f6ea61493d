"""A small web server for tests of the loader: files, wrong types, pages in place of files, broken and slow
connections."""

from __future__ import annotations

import contextlib
import gzip
import json
import threading
from collections.abc import Callable, Iterator
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
    """An answer of the server: `cut` ends the connection after so many bytes, `stall` leaves it open instead.

    With `ranges` a request for the rest of the body gets that. An `endless` one has no length, and zeros follow it for
    ever.
    """

    body: bytes
    type: str | None = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None
    stall: bool = False
    compressed: bool = False
    ranges: bool = False
    endless: bool = False


@dataclass
class Site:
    """Answers by path, and folders by the path they appear under; `headers` go with everything. A list of answers is
    given one by one."""

    answers: dict[str, Answer | list[Answer]] = field(default_factory=dict)
    folders: dict[str, Path] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    ranges: dict[str, list[str | None]] = field(default_factory=dict)
    """The ranges that requests asked for, by path; None: for the whole."""
    gone: list[str] = field(default_factory=list)
    """The paths of endless answers whose clients went away."""
    url: str = ""
    stopped: threading.Event = field(default_factory=threading.Event)
    post: Callable[[str, bytes], Answer] = lambda path, body: Answer(b"", status=405)
    """Answers what is posted to a path."""

    def find(self, path: str) -> Answer:
        if path == "/asked":
            return Answer(json.dumps(self.asked).encode())
        if path == "/ranges":
            return Answer(json.dumps(self.ranges).encode())
        if path == "/gone":
            return Answer(json.dumps(self.gone).encode())
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
        wanted = self.headers.get("Range")
        self.site.ranges.setdefault(path, []).append(wanted)
        answer = self.site.find(path)
        body = gzip.compress(answer.body, 1) if answer.compressed else answer.body
        status, given = answer.status, dict(answer.headers)
        if wanted and answer.ranges:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            given.setdefault("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
            status, body = 206, body[start:]
        self.send_response(status)
        self.send_header("Content-Type", answer.type or TYPES.get(Path(path).suffix, "application/octet-stream"))
        self.send_header(*(("Connection", "close") if answer.endless else ("Content-Length", str(len(body)))))
        if answer.compressed:
            self.send_header("Content-Encoding", "gzip")
        for name, value in (self.site.headers | given).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        self.wfile.write(body[: answer.cut])
        if answer.endless:
            self.go_on(path)
        if answer.cut is not None:
            self.wfile.flush()
            # A browser that hears of the end at once may drop what came before it.
            self.site.stopped.wait(30 if answer.stall else 0.1)
            self.close_connection = True

    def do_POST(self) -> None:
        answer = self.site.post(self.path, self.rfile.read(int(self.headers.get("Content-Length", 0))))
        self.send_response(answer.status)
        for name, value in {"Content-Length": str(len(answer.body)), **self.site.headers, **answer.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.body)

    def go_on(self, path: str) -> None:
        self.close_connection = True
        try:
            while not self.site.stopped.wait(0.01):
                self.wfile.write(bytes(10))
        except ConnectionError:
            self.site.gone.append(path)

    def handle(self) -> None:
        # Clients go away in the middle, on purpose.
        with contextlib.suppress(ConnectionError):
            super().handle()

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing for each request."""
