"""The web server behind `xla-wasm serve`: the pages, and their models compiled when a page first asks for them."""

from __future__ import annotations

import functools
import hashlib
import io
import ipaddress
import re
import socket
import sys
import threading
from collections.abc import Callable, Iterable
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote_to_bytes

from ..errors import XlaWasmError
from .pages import documents, made, peers, pyodide, site

POLICY = (
    "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; img-src 'self' data:; worker-src 'self' blob:; "
    "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
"""The content that pages may load and run: what is here, and WebAssembly."""
DOCUMENTS_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'self'"
)
"""The policy of rendered documents, which have scripts and styles in them."""
MOST_AT_ONCE = 64
"""Requests at once; more are hung up on. A browser has at most six connections to a server."""
PATIENCE = 10.0
"""Seconds for which a connection may be silent, also before its request is there."""


def make_server(
    host: str, port: int, folder: Path | None = None, isolated: bool = True, names: Iterable[str] = ()
) -> ThreadingHTTPServer:
    """A server of the pages at `host` and `port` (0: a free one), not yet serving.

    It answers requests that name it by a number, as localhost, as `host`, or by one of `names`. Given a folder, it
    serves that instead; not `isolated`, it is like a host that cannot be told to send headers.
    """
    handler = functools.partial(_Handler if isolated else _StaticHandler, directory=str(folder or site()))
    return _Server((host, port), handler, {"localhost", host.lower(), *(name.lower() for name in names)})


class _Server(ThreadingHTTPServer):
    """A server with a bounded number of threads, which knows its names."""

    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: Callable[..., Any], names: set[str]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._names = names
        self._free = threading.BoundedSemaphore(MOST_AT_ONCE)
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing of clients that go away in the middle."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def is_here(self, given: str | None) -> bool:
        """Returns True if a Host header names this server.

        Another site's name may lead to this address while its page is open (DNS rebinding); what is at a number is no
        other site. A client that sends no header is no browser.
        """
        if given is None:
            return True
        name = re.sub(r":\d{1,5}\Z", "", given.strip()).lower()
        try:
            ipaddress.ip_address(name[1:-1] if name[:1] + name[-1:] == "[]" else name)
        except ValueError:
            return name in self._names
        return True


class _StaticHandler(SimpleHTTPRequestHandler):
    """Static files with the types that WebAssembly wants."""

    server: _Server
    timeout = PATIENCE
    extensions_map = SimpleHTTPRequestHandler.extensions_map | {
        ".html": "text/html; charset=utf-8",
        ".css": "text/css; charset=utf-8",
        ".js": "text/javascript",
        ".mjs": "text/javascript",
        ".md": "text/plain; charset=utf-8",
        ".wasm": "application/wasm",
        ".webp": "image/webp",
        ".bin": "application/octet-stream",
    }

    def send_head(self) -> BinaryIO | None:
        if not self.server.is_here(self.headers.get("Host")):
            self.send_error(
                HTTPStatus.MISDIRECTED_REQUEST, explain="This server goes by other names: see --allow-host."
            )
            return None
        name = unquote_to_bytes(self.path.partition("?")[0])
        if b"\0" in name or "\ufffd" in name.decode(errors="replace"):  # such names are not those of files
            self.send_error(HTTPStatus.BAD_REQUEST)
            return None
        return self.found()

    def found(self) -> BinaryIO | None:
        """The answer to a request that is one: its headers are sent, its body is what this gives."""
        return super().send_head()

    def list_directory(self, path: str) -> None:  # type: ignore[override]
        self.send_error(HTTPStatus.NOT_FOUND, "File not found")

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing for each request."""


_ELSEWHERE = {"/": "/demo/", "/docs/": "/docs/index.html"}


class _Handler(_StaticHandler):
    """The pages with the headers of cross-origin isolation, and the models."""

    def end_headers(self) -> None:
        # Cross-origin isolation is what gives a page threads and exact timers.
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("X-Content-Type-Options", "nosniff")
        policy = DOCUMENTS_POLICY if self.path.startswith("/docs/") else POLICY
        self.send_header("Content-Security-Policy", policy)
        super().end_headers()

    def found(self) -> BinaryIO | None:
        path = self.path.partition("?")[0]
        if path in _ELSEWHERE:
            self.send_response(HTTPStatus.FOUND)
            self.send_header("Location", _ELSEWHERE[path])
            self.send_header("Content-Length", "0")
            self.end_headers()
            return None
        try:
            data = made(path)
        except XlaWasmError as error:
            return self._send(str(error).encode(), "text/plain; charset=utf-8", HTTPStatus.NOT_FOUND)
        if data is not None:
            return self._send(data, self.guess_type(path))
        packed = Path(f"{self.translate_path(path)}.gz")
        if path.endswith(".mjs") and packed.is_file() and "gzip" in self.headers.get("Accept-Encoding", ""):
            return self._send(packed.read_bytes(), self.guess_type(path), encoding="gzip")
        return super().found()

    def _send(self, data: bytes, kind: str, status: HTTPStatus = HTTPStatus.OK, encoding: str = "") -> BinaryIO:
        # Browsers ask each time whether what they have is still the same.
        tag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
        if status == HTTPStatus.OK and self.headers.get("If-None-Match") == tag:
            status, data = HTTPStatus.NOT_MODIFIED, b""
        self.send_response(status)
        self.send_header("ETag", tag)
        self.send_header("Content-Type", kind)
        if encoding:
            self.send_header("Content-Encoding", encoding)
            self.send_header("Vary", "Accept-Encoding")
        if status != HTTPStatus.NOT_MODIFIED:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        return io.BytesIO(data)

    def translate_path(self, path: str) -> str:
        for start, folder in (("/pyodide/", pyodide), ("/docs/", documents), ("/peers/", peers)):
            if path.startswith(start):
                inside = super().translate_path(path[len(start) - 1 :])
                return str(folder() / Path(inside).relative_to(self.directory))
        return super().translate_path(path)
