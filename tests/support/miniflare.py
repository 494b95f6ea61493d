"""Workers for tests: what serves a folder under workerd, and what asks it."""

from __future__ import annotations

import http.client
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

import xla_wasm
from benchmarks import worker
from tests.support.node_host import node_for
from tests.support.paths import ROOT
from xla_wasm import javascript

TOOLS = worker.TOOLS
EXAMPLES = worker.EXAMPLES
FREE_PLAN = 3 << 20
"""What the least plan of the platform allows for the code, compressed."""
JSON, NPY, NPZ, RAW = "application/json", "application/x-npy", "application/x-npz", "application/octet-stream"

WORKER = """
import { handler } from './xla-wasm/http/handler.js';
IMPORTS
const handlers = { HANDLERS };

export default {
  fetch(request, env, context) {
    const url = new URL(request.url);
    const [, name, ...rest] = url.pathname.split('/');
    url.pathname = '/' + rest.join('/');
    return handlers[name](new Request(url, request), env, context);
  },
};
"""
CONFIG = {"name": "all", "main": "worker.js", "compatibility_date": "2026-07-01"}


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        assert self.headers["content-type"] == JSON, self
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """What an error says; its body has the status too."""
        error: dict[str, Any] = self.json["error"]
        assert error["status"] == self.status >= 400 and error["message"], error
        return error


def need(tool: str) -> Path:
    """The folder with a tool of workers, or the test fails."""
    folder = TOOLS / "node_modules" / tool
    if not folder.is_dir():
        pytest.fail(f"no {tool}: ./build.sh test installs it")
    return folder


def _environment(folder: Path) -> dict[str, str]:
    """For wrangler: this Python and its commands first, nothing said to anyone, and its own notes in the folder."""
    path = [str(Path(sys.executable).parent), str(node_for("relaxed-simd").parent), os.environ["PATH"]]
    quiet = {
        "CI": "1",
        "WRANGLER_SEND_METRICS": "false",
        "WRANGLER_HIDE_BANNER": "true",
        "XDG_CONFIG_HOME": str(folder / ".config"),
    }
    return os.environ | quiet | {"PATH": os.pathsep.join(path), "PYTHONPATH": str(ROOT)}


def bundle(folder: Path, into: Path) -> str:
    """What `wrangler deploy` would upload of a worker, after the build command that its configuration names."""
    if not (folder / "node_modules").exists():
        (folder / "node_modules").symlink_to(TOOLS / "node_modules")
    wrangler = [
        node_for("relaxed-simd"),
        need("wrangler") / "bin" / "wrangler.js",
        "deploy",
        "--dry-run",
        "--outdir",
        into,
    ]
    command = list(map(str, wrangler))
    done = subprocess.run(command, cwd=folder, env=_environment(folder), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@contextmanager
def serving(folder: Path, modules: Path | None = None) -> Iterator[str]:
    """Serves the worker of a folder, or what a bundler made of it in `modules`; the address."""
    need("miniflare")
    with worker.serving(folder, modules, node_for("relaxed-simd")) as served:
        yield served.url


def ask(url: str, body: bytes | None = None, method: str | None = None, **headers: str) -> Answer:
    """One request; underscores in the names of headers stand for hyphens. It is a POST if it has a body."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=120)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method or ("GET" if body is None else "POST"), parts.path or "/", body, named)
        response = connection.getresponse()
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())
    finally:
        connection.close()


def post(url: str, value: Any, type: str = JSON, **headers: str) -> Answer:
    """Sends bytes as they are, arrays as .npy and anything else as JSON."""
    if isinstance(value, np.ndarray):
        value, type = npy(value), NPY
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return ask(url, body, Content_Type=type, **headers)


def npy(array: np.ndarray[Any, Any]) -> bytes:
    """An array as numpy.save writes it."""
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npz(compressed: bool = False, *arrays: np.ndarray[Any, Any], **named: np.ndarray[Any, Any]) -> bytes:
    """Arrays as numpy.savez writes them."""
    file = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(file, *arrays, **named)
    return file.getvalue()


def load_npy(data: bytes) -> np.ndarray[Any, Any]:
    """The array of an .npy file."""
    array: np.ndarray[Any, Any] = np.load(io.BytesIO(data))
    return array


def load_npz(data: bytes) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of an .npz file."""
    return dict(np.load(io.BytesIO(data)))


def multipart(parts: list[tuple[str, str, str, bytes]]) -> tuple[bytes, str]:
    """A form of (name, file name, type, content), and its Content-Type."""
    boundary = "----WebKitFormBoundary7MA4YWxkTrZu0gW"
    body = b""
    for name, filename, type_, content in parts:
        name = name.replace('"', "%22")
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"' + (
            f'; filename="{filename}"' if filename else ""
        )
        body += (head + (f"\r\nContent-Type: {type_}" if type_ else "") + "\r\n\r\n").encode() + content + b"\r\n"
    return body + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


def identity(types: dict[str, str], shape: str) -> xla_wasm.HloModule:
    """A module that takes arrays of this shape, {name: element type}, and gives them back."""
    layout = "{" + ",".join(map(str, reversed(range(shape.count(",") + 1)))) + "}" if shape else ""
    shapes = [f"{type_}[{shape}]{layout}" for type_ in types.values()]
    lines = [
        f"  p{i} = {s} parameter({i}), metadata={{op_name={json.dumps(name)}}}"
        for i, (name, s) in enumerate(zip(types, shapes))
    ]
    copies = [f"  c{i} = {s} copy(p{i})" for i, s in enumerate(shapes)]
    root = f"  ROOT r = ({', '.join(shapes)}) tuple({', '.join(f'c{i}' for i in range(len(types)))})"
    if len(types) == 1:
        copies, root = [], f"  ROOT r = {shapes[0]} copy(p0)"
    return xla_wasm.HloModule.from_text(
        "HloModule copies\n\nENTRY e {\n" + "\n".join([*lines, *copies, root]) + "\n}\n"
    )


def write_worker(folder: Path, models: Mapping[str, xla_wasm.HloModule | xla_wasm.Artifact]) -> None:
    """A worker with each model at an address of its own."""
    for i, (name, module) in enumerate(models.items()):
        artifact = module if isinstance(module, xla_wasm.Artifact) else xla_wasm.compile(module)
        javascript.save(artifact, folder / f"{name}.wasm", javascript.BESIDE if i else None, "worker")
    imports = "\n".join(f"import {{ load as load{i} }} from './{name}.js';" for i, name in enumerate(models))
    handlers = ", ".join(f"'{name}': handler(() => load{i}())" for i, name in enumerate(models))
    (folder / "worker.js").write_text(WORKER.replace("IMPORTS", imports).replace("HANDLERS", handlers))
    (folder / "wrangler.jsonc").write_text(json.dumps(CONFIG))
