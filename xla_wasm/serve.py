"""The web server behind `xla-wasm serve`: the demo page, and its model compiled when the page first asks for it."""

from __future__ import annotations

import functools
import io
import threading
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import BinaryIO

from .compiler import compile
from .hlo.ir import Module
from .options import Options

_PACKAGE = Path(__file__).parent
_CHECKOUT = _PACKAGE.parent
_MODEL = "digits.hlo.pb"
_TARGETS = {"digits.wasm": "simd128", "digits.relaxed.wasm": "relaxed-simd"}
"""Names under which the page finds the model, in any folder."""


def site() -> Path:
    """The folder of the pages: `web` inside an installed package, or in a checkout."""
    installed = _PACKAGE / "web"
    return installed if installed.is_dir() else _CHECKOUT / "web"


def model() -> Path:
    """The HLO module that the demo page runs."""
    installed = _PACKAGE / "web" / _MODEL
    return installed if installed.is_file() else _CHECKOUT / "examples" / "digits" / _MODEL


def make_server(host: str, port: int) -> ThreadingHTTPServer:
    """A server of the pages at `host` and `port` (0: a free one), not yet serving."""
    return ThreadingHTTPServer((host, port), functools.partial(_Handler, directory=str(site())))


_compiling = threading.Lock()


@functools.cache
def _compiled(target: str) -> bytes:
    return compile(Module.from_proto(model().read_bytes()), Options(target=target)).wasm


class _Handler(SimpleHTTPRequestHandler):
    """Static files with the types and headers that WebAssembly wants, and the model."""

    extensions_map = SimpleHTTPRequestHandler.extensions_map | {
        ".html": "text/html; charset=utf-8",
        ".js": "text/javascript",
        ".mjs": "text/javascript",
        ".wasm": "application/wasm",
    }

    def end_headers(self) -> None:
        # Cross-origin isolation is what gives a page threads and exact timers.
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def send_head(self) -> BinaryIO | None:
        path = self.path.partition("?")[0]
        target = _TARGETS.get(path.rpartition("/")[2])
        if target:
            with _compiling:
                data = _compiled(target)
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", "application/wasm")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            return io.BytesIO(data)
        if path == "/":
            self.send_response(HTTPStatus.FOUND)
            self.send_header("Location", "/demo/")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return None
        return super().send_head()

    def list_directory(self, path: str) -> None:  # type: ignore[override]
        self.send_error(HTTPStatus.NOT_FOUND, "File not found")

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing for each request."""
