"""Workers for tests: what serves a folder under workerd, and what asks it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

import xla_wasm
from benchmarks import worker
from tests.support.bodies import JSON, NPY, npy
from tests.support.http_answers import Answer, request
from tests.support.node_host import node_for
from tests.support.paths import ROOT
from tests.support.processes import output
from xla_wasm import javascript

TOOLS = worker.TOOLS
EXAMPLES = worker.EXAMPLES
FREE_PLAN = 3 << 20
"""Bytes of code that the least plan of the platform allows, compressed."""

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
    return quiet | {"PATH": os.pathsep.join(path), "PYTHONPATH": str(ROOT)}


def bundle(folder: Path, into: Path) -> str:
    """Runs the build command that a worker's configuration names, and writes the upload of `wrangler deploy` into a
    folder. Returns the output of the command."""
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
    return output(wrangler, folder, _environment(folder))


@contextmanager
def serving(folder: Path, modules: Path | None = None) -> Iterator[str]:
    """Serves the worker of a folder, or what a bundler made of it in `modules`; the address."""
    need("miniflare")
    with worker.serving(folder, modules, node_for("relaxed-simd")) as served:
        yield served.url


def ask(url: str, body: bytes | None = None, method: str | None = None, **headers: str) -> Answer:
    """One request; underscores in the names of headers stand for hyphens. It is a POST if it has a body."""
    parts = urlsplit(url)
    verb = method or ("GET" if body is None else "POST")
    return request(parts.hostname or "", parts.port or 80, verb, parts.path or "/", body, headers)


def post(url: str, value: Any, type: str = JSON, **headers: str) -> Answer:
    """Sends bytes as they are, arrays as .npy and anything else as JSON."""
    if isinstance(value, np.ndarray):
        value, type = npy(value), NPY
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return ask(url, body, Content_Type=type, **headers)


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
