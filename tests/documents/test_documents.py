"""Blocks of code in documents run as they are written, where no test beside the code that they are about runs them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect
from typer.main import get_command

import xla_wasm
from tests.support.document_blocks import Block, block, blocks, written
from tests.support.node_host import node_for
from tests.support.paths import ROOT
from tests.support.processes import output
from tests.support.wasi_servers import wasmtime
from xla_wasm import HloModule, Options, javascript
from xla_wasm.command import cli

DIGITS = ROOT / "examples" / "digits" / "digits.hlo.pb"
SCALED = (
    "ENTRY e { x = f32[5] parameter(0)  s = f32[] parameter(1)  b = f32[5] broadcast(s), dimensions={}  ROOT r = "
    "f32[5] multiply(x, b) }"
)
DOUBLED = "ENTRY e { x = f32[5] parameter(0)  ROOT r = f32[5] add(x, x) }"
SUMMED = (
    "HloModule m, replica_count=4\nadd { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }\n"
    "ENTRY e { x = f32[2] parameter(0)  ROOT r = f32[2] all-reduce(x), replica_groups={{0,1,2,3}}, to_apply=add }"
)
MULTIPLIED = (
    "ENTRY e { x = f32[64,64] parameter(0)  w = f32[64,64] parameter(1)\n"
    "  ROOT r = f32[64,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"
)


def compiled(text: str, names: str = "", **options: Any) -> xla_wasm.Artifact:
    """HLO text, compiled; `names` are those of its parameters and results, as the attributes of a module have them."""
    module = HloModule.from_text(text if text.startswith("HloModule") else f"HloModule m{names}\n{text}")
    return xla_wasm.compile(module, Options(**options))


def named(parameters: str, results: str) -> str:
    """The attributes that name them."""
    quoted = (", ".join(f'\\"{name}\\"' for name in names.split()) for names in (parameters, results))
    return ', frontend_attributes={{xla_wasm.parameter_names="[{}]",xla_wasm.result_names="[{}]"}}'.format(*quoted)


# --- JavaScript
# ---------------------------------------------------------------------------------------------------------------


def digits(folder: Path) -> None:
    artifact = xla_wasm.compile(HloModule.from_proto(DIGITS.read_bytes()))
    javascript.save(artifact, folder / "model.wasm", "xla-wasm")
    (folder / "dist").mkdir()
    artifact.save(folder / "dist" / "digits.wasm")
    (folder / "web").symlink_to(ROOT / "web")


def doubled(folder: Path) -> None:
    compiled(DOUBLED, named("x", "result")).save(folder / "model.wasm")


def summed(folder: Path) -> None:
    compiled(SUMMED).save(folder / "model.wasm")


def scaled(folder: Path) -> None:
    javascript.save(compiled(SCALED, named("x scale", "result"), weights=("scale",)), folder / "model.wasm", "xla-wasm")


def a_command(folder: Path) -> None:
    compiled(DOUBLED, named("x", "result"), kind="command").save(folder / "model.wasm")
    np.save(folder / "x.npy", np.float32([1, 2, 3, 4, 5]))


def for_threads(folder: Path) -> None:
    compiled(MULTIPLIED, threads=True).save(folder / "model.wasm")


def for_devices(folder: Path) -> None:
    names: dict[str, Any] = {}
    exec(block("docs/replicas.md", "python").code, names)
    xla_wasm.compile(names["module"]).save(folder / "model.wasm")


def losses(folder: Path) -> None:
    from xla_wasm.jax import lower

    def step(tok: Any, params: dict[str, Any]) -> dict[str, Any]:
        return {"loss": (tok * params["w"] + params["b"][0]).sum(), "cache": [tok]}

    three = np.zeros(3, np.float32)
    module = lower(step, three, {"w": three, "b": [three]})
    xla_wasm.compile(module).save(folder / "model.wasm")
    xla_wasm.compile(module, Options(weights=["params.*"])).save(folder / "weighted.wasm")


LOAD = "import { load } from 'xla-wasm';\n"
EXAMPLES: dict[str, tuple[Callable[[Path], None], str, str, str]] = {
    "README.md js 0": (digits, "", "console.log(logits.length);", "10"),
    "web/README.md js 0": (digits, "", "console.log(logits.length);", "10"),
    "web/README.md js 1": (
        digits,
        "",
        "import * as self from './example.mjs';\n"
        "setTimeout(async () => console.log((await (await self.default.fetch(new "
        "Request('http://host/'))).json()).name));",
        "jit_digits",
    ),
    "docs/web.md js 1": (
        losses,
        LOAD + "const [exe, weighted] = [await load('model.wasm'), await load('weighted.wasm')];\n"
        "const [tok, w, b0] = [new Float32Array(3).fill(2), new Float32Array(3).fill(1), new Float32Array(3)];\n"
        "const params = { w, b: [b0] };\n",
        "console.log(named['loss'][0], loss[0], cache[0].join(), weighted.call(tok).loss[0]);",
        "6 6 2,2,2 6",
    ),
    "docs/web.md js 2": (
        doubled,
        LOAD + "const exe = await load('model.wasm');\n",
        "console.log(y.join());",
        "2,4,6,8,10",
    ),
    "docs/web.md js 3": (
        summed,
        LOAD + "const [x0, x1, x2, x3] = [1, 2, 3, 4].map((x) => Float32Array.of(x, 1));\n",
        "console.log(sum.join());\ngroup.dispose();",
        "10,4",
    ),
    "docs/web.md js 5": (
        scaled,
        "import { handler } from 'xla-wasm/http.js';\nimport { load as loadModel } from './model.js';\n"
        "const load = ({ assets, ...options }) => loadModel(options);\n",
        "const asked = { method: 'POST', body: '[1, 2, 3, 4, 5]', headers: { 'Content-Type': 'application/json' } };\n"
        "console.log((await (await answer(new Request('http://host/', asked), { ASSETS: undefined "
        "})).json()).result.join());",
        "2,4,6,8,10",
    ),
    "docs/command.md js 0": (a_command, "", "", '{"result":[2.0,4.0,6.0,8.0,10.0]}'),
    "docs/security.md js 0": (
        lambda folder: compiled(DOUBLED).save(folder / "stranger.wasm") and None,
        LOAD,
        "console.log((await exe.run(Float32Array.of(1, 2, 3, 4, 5)))[0].join());\nexe.dispose();",
        "2,4,6,8,10",
    ),
    "docs/threads.md js 0": (
        for_threads,
        LOAD + "const x = new Float32Array(64 * 64).fill(1), w = x;\n",
        "console.log(y.every((value) => value === 64));\nexe.dispose();",
        "true",
    ),
    "docs/replicas.md js 0": (
        for_devices,
        "const [w, x, y] = [new Float32Array(3), new Float32Array(24).fill(1), new Float32Array(8).fill(1)];\n"
        "const [x0, x1, x2, x3] = [0, 6, 12, 18].map((at) => x.slice(at, at + 6));\n"
        "const [y0, y1, y2, y3] = [0, 2, 4, 6].map((at) => y.slice(at, at + 2));\n",
        "console.log(loss[0], lists.length);",
        "shared\n1 4",
    ),
}
"""Block of JavaScript -> the function that makes its files, the code before it, the code after it, and the output."""


@pytest.mark.parametrize("place", EXAMPLES)
def test_javascript(place: str, tmp_path: Path) -> None:
    page, language, number = place.split()
    make, before, after, printed = EXAMPLES[place]
    make(tmp_path)
    assert in_node(tmp_path, f"{before}{block(page, language, int(number)).code}{after}\n") == printed


def in_node(folder: Path, script: str) -> str:
    """Returns the output of a module of JavaScript, in a folder where the loader is installed as a package."""
    (folder / "node_modules").mkdir()
    (folder / "node_modules" / "xla-wasm").symlink_to(ROOT / "web")
    (folder / "example.mjs").write_text(script)
    return output([node_for("simd128"), "--no-warnings", "example.mjs"], folder).strip()


# --- Python
# -------------------------------------------------------------------------------------------------------------------


PYTHON = ["docs/security.md python 0"]


@pytest.mark.parametrize("place", PYTHON)
def test_python(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page, language, number = place.split()
    compiled(DOUBLED).save(tmp_path / "stranger.wasm")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"xla_wasm": xla_wasm}
    exec(block(page, language, int(number)).code, names)
    assert names["exe"].run(np.float32([1, 2, 3, 4, 5]))[0].tolist() == [2, 4, 6, 8, 10]


def test_a_cache_of_keys_and_values() -> None:
    """docs/faq.md: what is in the cache is what a step sees, and a new text begins with nothing."""
    names: dict[str, Any] = {}
    exec(block("docs/faq.md", "python", 0).code, names)
    exe, step = names["exe"], names["step"]
    assert exe.get("position") == 0
    expected = {"cache": np.zeros((64, 8), np.float32), "position": np.int32(0)}
    for i in range(70):  # where the cache is full, the last row is written again
        x = np.float32(np.sin(np.arange(8) + i))
        expected = step(expected["cache"], expected["position"], x)
        if i == 0:
            exe.set("cache", np.zeros((64, 8), np.float32))
        np.testing.assert_allclose(exe.run(x)[0], expected["y"], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(exe.get("cache"), expected["cache"])


def test_weights_states_and_loops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/state.md from its first block to its last, and what it says beside them."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for found in blocks("docs/state.md"):
        if found.language == "python":
            exec(found.code, names)
    fresh = xla_wasm.load(names["artifact"])
    with pytest.raises(xla_wasm.ArgumentError, match=r"params\.bias"):
        fresh.run(names["x"])
    fresh = xla_wasm.load(names["counting"])
    fresh.run(np.float32(4))
    assert (fresh.get("mean"), fresh.get("count")) == (4, 1), "states begin as zeros"
    other = fresh.clone()
    other.run(np.float32(8))
    assert (fresh.get("mean"), other.get("mean")) == (4, 8), "those of a clone are its own, and begin anew"
    assert (
        in_node(tmp_path, f"{block('docs/state.md', 'js').code}console.log([...y].map((v) => v.toFixed(3)).join());\n")
        == "0.999,0.999"
    )


# --- the command
# --------------------------------------------------------------------------------------------------------------


def lines(block: Block) -> list[str]:
    """The commands of a block, without what they print."""
    marked = re.findall(r"^\$ (.*)$", block.code, re.MULTILINE)
    return marked if block.language == "console" else block.code.splitlines()


COMMANDS = [
    "README.md console 1",
    "docs/command.md console 0",
    "docs/web.md console 1",
    "docs/embedding.md console 0",
    "docs/replicas.md sh 0",
]


@pytest.mark.parametrize("place", COMMANDS)
def test_commands(place: str, xla_wasm: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    """In a folder with the files that they name."""
    page, language, number = place.split()
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "dist").mkdir()
    shutil.copy(DIGITS, tmp_path / "model.hlo.pb")
    doubled(tmp_path)
    (tmp_path / "M").write_text(SUMMED)
    np.save(tmp_path / "x.npy", np.zeros((1, 8, 8, 1), np.float32))
    for d in range(4):
        np.save(tmp_path / f"x.{d}.npy", np.float32([d, 1]))
    for line in lines(block(page, language, int(number))):
        words = shlex.split(line, comments=True)
        program = words.pop(0)
        if program == "wasmtime":
            done = subprocess.run([wasmtime(), *words], cwd=tmp_path, capture_output=True, text=True, timeout=60)
            assert (done.returncode, done.stderr) == (0, ""), line
            continue
        assert program == "xla-wasm", line
        target = words[words.index(">") + 1] if ">" in words else None
        if words[0] == "serve-model":
            command = [sys.executable, "-m", "xla_wasm", *words, "--port", "0"]
            with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as server:
                assert server.stdout and server.stdout.readline().startswith("http://127.0.0.1:"), line
                server.terminate()
            continue
        code, out, err = xla_wasm(*(words[: words.index(">")] if target else words))
        assert (code, err) == (0, ""), (line, err)
        if target:
            (tmp_path / target).write_text(out)


@pytest.mark.parametrize("page", written())
def test_pages_name_commands_that_there_are(page: str) -> None:
    """Also in their sentences, which nothing runs."""
    named = re.findall(r"(?:`|\$ )xla-wasm ([a-z][\w-]*)", (ROOT / page).read_text(encoding="utf-8"))
    assert {*named} <= {*get_command(cli.app).commands}  # type: ignore[attr-defined]


# --- contributing
# -------------------------------------------------------------------------------------------------------------

ROW = re.compile(r"^\| (`[^/].*?) \| (.*) \|$", re.MULTILINE)
PLACES = ("", "xla_wasm/", "web/", "examples/embedding/")


def files_of(names: list[str]) -> list[Path]:
    """The files of these names: paths from the top, from the package, or from the file before them."""
    found: list[Path] = []
    for name in names:
        pattern = re.sub(r"<\w+>", "*", name)
        beside = [f"{found[-1].parent.relative_to(ROOT)}/"] if found else []
        there = next((paths for place in (*beside, *PLACES) if (paths := [*ROOT.glob(place + pattern)])), [])
        assert there, f"docs/contributing.md names {name}, which is not there"
        found += there
    return found


def test_contributing_names_what_there_is() -> None:
    """Files of the tasks, tables in them, and tests."""
    text = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
    rows = ROW.findall(text)
    assert len(rows) > 25
    tables = 0
    for files, what in rows:
        names = [*re.findall(r"`([^`]+)`", files), *re.findall(r"`([\w/]+\.(?:py|js|c|h|go|rs))`", what)]
        sources = [path.read_text(encoding="utf-8") for path in files_of(names)]
        for table in re.findall(r"`(_?[A-Z][A-Za-z_]+)`", what):
            tables += 1
            assert any(re.search(rf"\b{table}\b", source) for source in sources), f"{table} is not in {files}"
    assert tables > 20
    for name in {*re.findall(r"\btests/[\w/]+\.py", text), *re.findall(r"`benchmarks/\w+\.py", text)}:
        assert (ROOT / name.strip("`")).is_file(), name
    for name in re.findall(r"`(test_\w+)`", text):
        assert any(
            f"def {name}(" in path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")
        ), name


# --- the tutorial
# -------------------------------------------------------------------------------------------------------------

SERVER = re.compile(r"http\.server|serve-model")


class Terminal:
    """Runs the commands of a page one after another. Servers go on until the end, at ports of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.servers: list[subprocess.Popen[bytes]] = []
        self.ports: dict[str, str] = {}
        binaries = folder / "bin"
        binaries.mkdir()
        (binaries / "node").symlink_to(node_for("simd128"))
        for name, module in {"python": "", "xla-wasm": " -m xla_wasm"}.items():
            (binaries / name).write_text(f'#!/bin/sh\nexec "{sys.executable}"{module} "$@"\n')
            (binaries / name).chmod(0o755)
        paths = {
            "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": f"{folder / 'work'}{os.pathsep}{ROOT}",
        }
        self.environment = {**os.environ, **paths, "LC_ALL": "C"}
        self.folder = folder / "work"
        self.folder.mkdir()

    def own_port(self, found: re.Match[str]) -> str:
        if found[0] not in self.ports:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.ports[found[0]] = str(free.getsockname()[1])
        return self.ports[found[0]]

    def run(self, line: str) -> str:
        """Runs a command and returns its output; that of a server is empty, and the server accepts connections then."""
        command = re.sub(r"\b80\d\d\b", self.own_port, line)
        place: dict[str, Any] = {"cwd": self.folder, "env": self.environment}
        if not SERVER.search(command):
            done = subprocess.run(["bash", "-c", command], **place, capture_output=True, text=True, timeout=300)
            assert done.returncode == 0, (line, done.stderr)
            return done.stdout
        quiet = subprocess.DEVNULL
        self.servers.append(subprocess.Popen(["bash", "-c", f"exec {command}"], **place, stdout=quiet, stderr=quiet))
        expires = time.monotonic() + 120
        port = int([*self.ports.values()][-1])
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return ""
            except OSError:
                assert self.servers[-1].poll() is None and time.monotonic() < expires, line
                time.sleep(0.1)


@contextmanager
def terminal(folder: Path) -> Iterator[Terminal]:
    with ExitStack() as stack:
        opened = Terminal(folder)
        stack.callback(lambda: [(server.terminate(), server.wait()) for server in opened.servers])
        yield opened


def test_the_tutorial(tmp_path: Path, page: Page) -> None:
    """Every step but the installation, which tests/package/test_package.py does: files, commands with what they
    print, the page, the server."""
    with terminal(tmp_path) as shell:
        for found in blocks("docs/tutorial.md")[1:]:
            if found.title:
                (shell.folder / found.title).parent.mkdir(exist_ok=True)
                (shell.folder / found.title).write_text(found.code)
                continue
            assert found.language == "console", found
            printed = "".join(shell.run(line) for line in lines(found))
            shown = "".join(f"{line}\n" for line in found.code.splitlines() if not line.startswith("$ "))
            assert not shown or printed == shown, found.place
        assert len(shell.servers) == 2
        missing: list[str] = []
        page.on("response", lambda response: response.ok or missing.append(response.url))
        page.goto(f"http://127.0.0.1:{shell.ports['8000']}/")
        for colour, text in (("#ffff00", "rgb(0, 0, 0)"), ("#000080", "rgb(255, 255, 255)")):
            page.locator("#colour").fill(colour)
            expect(page.locator("#text")).to_have_css("color", text)
        page.goto(f"http://127.0.0.1:{shell.ports['8001']}/")
        expect(page.locator("form")).to_be_visible()
        assert "openapi" in page.request.get(f"http://127.0.0.1:{shell.ports['8001']}/docs").text().lower()
        assert missing == []
