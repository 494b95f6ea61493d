"""The web server behind `xla-wasm serve`: the pages, and their models compiled when a page first asks for them."""

from __future__ import annotations

import functools
import io
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import BinaryIO

from .errors import XlaWasmError
from .pages import made, pyodide, site


def make_server(host: str, port: int, folder: Path | None = None, isolated: bool = True) -> ThreadingHTTPServer:
    """A server of the pages at `host` and `port` (0: a free one), not yet serving.

    Given a folder, it serves that instead; not `isolated`, it is like a host that cannot be told to send headers.
    """
    handler = functools.partial(_Handler if isolated else _StaticHandler, directory=str(folder or site()))
    return ThreadingHTTPServer((host, port), handler)


class _StaticHandler(SimpleHTTPRequestHandler):
    """Static files with the types that WebAssembly wants."""

    extensions_map = SimpleHTTPRequestHandler.extensions_map | {
        ".html": "text/html; charset=utf-8",
        ".css": "text/css; charset=utf-8",
        ".js": "text/javascript",
        ".mjs": "text/javascript",
        ".wasm": "application/wasm",
        ".bin": "application/octet-stream",
    }

    def list_directory(self, path: str) -> None:  # type: ignore[override]
        self.send_error(HTTPStatus.NOT_FOUND, "File not found")

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing for each request."""


class _Handler(_StaticHandler):
    """The pages with the headers of cross-origin isolation, and the models."""

    def end_headers(self) -> None:
        # Cross-origin isolation is what gives a page threads and exact timers.
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def send_head(self) -> BinaryIO | None:
        path = self.path.partition("?")[0]
        if path == "/":
            self.send_response(HTTPStatus.FOUND)
            self.send_header("Location", "/demo/")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return None
        try:
            data = made(path)
        except XlaWasmError as error:
            return self._send(str(error).encode(), "text/plain; charset=utf-8", HTTPStatus.NOT_FOUND)
        return super().send_head() if data is None else self._send(data, self.guess_type(path))

    def _send(self, data: bytes, kind: str, status: HTTPStatus = HTTPStatus.OK) -> BinaryIO:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        return io.BytesIO(data)

    def translate_path(self, path: str) -> str:
        if path.startswith("/pyodide/"):
            inside = super().translate_path(path[len("/pyodide") :])
            return str(pyodide() / Path(inside).relative_to(self.directory))
        return super().translate_path(path)
