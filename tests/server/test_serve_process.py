"""`xla-wasm serve-model` as a process: its start, its mistakes, its workers, and its end in the middle of load."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import uvicorn
from uvicorn.server import ServerState

from benchmarks import serve_load
from tests.support.interrupts import ENDLESS
from tests.support.paths import ROOT
from tests.support.processes import output
from tests.support.served_models import command, compiled, server
from tests.support.small_modules import counting
from tests.support.toy_artifact import BIAS, SIDECAR, safetensors, toy
from xla_wasm.server import connections

DIGITS = ROOT / "examples" / "digits" / "digits.hlo.pb"
IMAGE = {"image": np.zeros((1, 8, 8, 1)).tolist()}
SLOW = counting("slow", "ROOT r = s32[] copy(i)")
"""Counts to what it is given."""


def refused(*arguments: object) -> str:
    """Returns the error output of the command, which must not serve but end with exit code 2."""
    wide = os.environ | {"COLUMNS": "1000"}  # so that no path is broken into lines
    done = subprocess.run(command(*arguments), cwd=ROOT, capture_output=True, text=True, timeout=120, env=wide)
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    return done.stderr


def test_it_serves_hlo_and_artifacts(tmp_path: Path) -> None:
    artifact = compiled("HloModule twice\nENTRY e { x = f32[2] parameter(0)\n ROOT r = f32[2] add(x, x) }").save(
        tmp_path / "twice.wasm"
    )
    for path, body in ((DIGITS, IMAGE), (artifact, [1, 2])):
        with server(path) as (_, url):
            assert httpx.post(url, json=body).status_code == 200
            assert httpx.get(url + "healthz").text == "ok\n"


def test_weights_and_states_come_from_files(tmp_path: Path) -> None:
    toy().save(tmp_path / "toy.wasm")
    w = np.full((2, 3), 3, np.float32)
    (tmp_path / "w.safetensors").write_bytes(safetensors(w=w, other=w))
    np.savez(tmp_path / "w.npz", w=w)
    np.save(tmp_path / "w.npy", w)
    np.save(tmp_path / "count.npy", np.int32(5))
    body = {"x": [[1] * 3] * 2, "k": 4}
    for given in (
        ["--weights", tmp_path / "w.safetensors"],
        ["--weights", tmp_path / "w.npz"],
        ["--set", f"w={tmp_path}/w.npy"],
    ):
        with server(tmp_path / "toy.wasm", *given, "--set", f"count={tmp_path}/count.npy") as (_, url):
            np.testing.assert_array_equal(httpx.post(url, json=body).json()["y"], 2 + 3 + BIAS + SIDECAR)
    message = refused(tmp_path / "toy.wasm")
    assert "'w'" in message and "--weights" in message
    assert "--set nothing=w.npy" in refused(tmp_path / "toy.wasm", "--set", "nothing=w.npy")
    np.savez(tmp_path / "v.npz", v=w)
    assert "no array of the file has the name" in refused(tmp_path / "toy.wasm", "--weights", tmp_path / "v.npz")
    (tmp_path / "broken.npz").write_bytes(b"PK\3\4")
    assert "broken.npz" in refused(tmp_path / "toy.wasm", "--weights", tmp_path / "broken.npz")


def test_parameters_of_hlo_that_a_file_gives_are_weights(tmp_path: Path) -> None:
    body = "x = f32[2] parameter(0)\n w = bf16[2] parameter(1)\n v = f32[2] convert(w)\n ROOT r = f32[2] multiply(x, v)"
    (tmp_path / "m.hlo").write_text(f"HloModule m\nENTRY e {{\n{body}\n}}\n")
    (tmp_path / "w.safetensors").write_bytes(safetensors(w=np.array([2, 0.5], np.float32)))
    with server(tmp_path / "m.hlo", "--weights", tmp_path / "w.safetensors") as (_, url):
        assert [x["name"] for x in httpx.get(url).json()["inputs"]] == ["x"]
        assert httpx.post(url, json=[3, 4]).json() == {"result": [6.0, 2.0]}


def test_weights_in_8_bits(tmp_path: Path) -> None:
    """Of f32 they are numbers and scales; a weight of 8 bits itself is what the file has."""
    body = (
        "x = f32[2] parameter(0)\n w = f32[2] parameter(1)\n v = s8[2] parameter(2)\n f = f32[2] convert(v)\n y = "
        "f32[2] multiply(x, w)"
    )
    (tmp_path / "m.hlo").write_text(f"HloModule m\nENTRY e {{\n{body}\n ROOT r = f32[2] add(y, f)\n}}\n")
    numbers, scale = np.array([2, -4], np.int8), np.array([0.5, 2], np.float32)
    given = {"w.scale": scale, "v.scale": scale, "w": numbers, "v": numbers}
    (tmp_path / "w.safetensors").write_bytes(safetensors(**given))
    with server(tmp_path / "m.hlo", "--weights", tmp_path / "w.safetensors") as (_, url):
        assert httpx.post(url, json=[3, 4]).json() == {"result": [3 * 1 + 2, 4 * -8 - 4]}
    (tmp_path / "w.safetensors").write_bytes(safetensors(w=numbers, v=numbers))
    assert "'w.scale' has to be f32 of as many dimensions: it is missing" in refused(
        tmp_path / "m.hlo", "--weights", tmp_path / "w.safetensors"
    )


def test_mistakes_end_in_one_line(tmp_path: Path) -> None:
    assert "missing.wasm" in refused(tmp_path / "missing.wasm")
    (tmp_path / "text.hlo").write_text("this is no HLO")
    assert "text.hlo" in refused(tmp_path / "text.hlo")
    body = "t = token[] after-all()\n i = (f32[2], token[]) infeed(t)\n ROOT x = f32[2] get-tuple-element(i), index=0"
    (tmp_path / "fed.hlo").write_text(f"HloModule fed\nENTRY e {{\n{body}\n}}\n")
    assert "infeed" in refused(tmp_path / "fed.hlo")
    assert "--batch-deadline" in refused(DIGITS, "--batch-deadline", 5)
    assert "--run-timeout must be above zero" in refused(DIGITS, "--run-timeout", 0)
    assert "cannot listen on" in refused(DIGITS, "--host", "nowhere.invalid")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_port_in_use_is_named(workers: int) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        message = refused(DIGITS, "--port", port, "--workers", workers)
        assert f"port {port}" in message and "--port" in message


def test_without_the_extra_it_says_what_to_install() -> None:
    script = "import sys; sys.modules['starlette'] = None; from xla_wasm.command.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, "serve-model", str(DIGITS)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 2
    assert "starlette" in done.stderr and "pip install starlette\n" in done.stderr and "Traceback" not in done.stderr


def test_the_rest_of_the_command_does_without_the_extra() -> None:
    script = "import sys, xla_wasm.command.cli, xla_wasm.command.serving, xla_wasm.command.running; print(*sys.modules)"
    loaded = output([sys.executable, "-c", script], ROOT).split()
    assert not {"starlette", "uvicorn", "prometheus_client", "python_multipart"} & set(loaded)


@pytest.mark.parametrize("workers", [1, 2])
def test_sigterm_in_the_middle_of_load_loses_no_request(workers: int) -> None:
    """Requests that were sent before the signal are answered, and answered right; later ones are refused, or
    answered."""
    with server(DIGITS, "--workers", workers) as (process, url):
        load = serve_load.digits(url)
        asyncio.run(serve_load.run(load, rate=150, seconds=4, end_server=process.pid))
        # How many were sent by then is a matter of how busy the machine is.
        assert load.lost == 0 and load.outcomes["right"] >= load.sent > 0, load.outcomes
        assert {what for what in load.outcomes if not what.endswith("after the signal")} == {"right"}, load.outcomes
        assert sum(load.outcomes.values()) == 600


@pytest.mark.parametrize("workers", [1, 2])
def test_requests_that_nobody_has_looked_at_when_it_is_told_to_end_are_answered(workers: int) -> None:
    """Some have come over connections that wait to be accepted, far more than an event loop takes at once."""
    body = json.dumps(IMAGE).encode()
    request = (
        b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
        b"\r\n" % len(body)
    )
    with server(DIGITS, "--workers", workers, "--queue", 1000) as (process, url):
        address = (httpx.URL(url).host, httpx.URL(url).port or 80)
        processes = [process.pid, *_workers(process.pid)]
        for pid in processes:
            os.kill(pid, signal.SIGSTOP)
        connections = [socket.create_connection(address, 60) for _ in range(600)]
        for connection in connections:
            connection.sendall(request + body)
        process.terminate()
        for pid in processes:
            os.kill(pid, signal.SIGCONT)
        answers = Counter()
        for connection in connections:
            with connection, suppress(ConnectionResetError):
                answers[connection.recv(65536).split(b"\r\n")[0]] += 1
        assert answers == {b"HTTP/1.1 200 OK": 600}


async def _begun(url: str, count: int) -> None:
    """Waits until that many requests are under way, and the first of them has begun to run."""
    async with httpx.AsyncClient() as client, asyncio.timeout(60):
        while True:
            metrics = (await client.get(url + "metrics")).text
            if f"in_progress {count}.0" in metrics and "memory_bytes 0.0" not in metrics:
                return
            await asyncio.sleep(0.02)


def _line(process: subprocess.Popen[str]) -> str:
    """The next line of its error output."""
    assert process.stderr is not None
    return process.stderr.readline()


def test_a_run_that_has_begun_is_finished(tmp_path: Path) -> None:
    (tmp_path / "slow.hlo").write_text(SLOW)
    count = 100_000_000

    async def work(process: subprocess.Popen[str], url: str) -> httpx.Response:
        async with httpx.AsyncClient(timeout=120) as client:
            running = asyncio.create_task(client.post(url, json=count))
            await _begun(url, 1)
            process.terminate()
            return await running

    with server(tmp_path / "slow.hlo", "--grace", 120) as (process, url):
        assert list(asyncio.run(work(process, url)).json().values()) == [count]
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert process.stderr.read() == "waiting up to 120 s for 1 run; Ctrl-C ends it now\n"


ENDLESS_TOY = {"x": [[-2] * 3] * 2, "k": 1}


@pytest.mark.parametrize(
    ("first", "case"),
    [
        (signal.SIGTERM, "grace"),
        (signal.SIGINT, "grace"),
        (signal.SIGTERM, "grace, no word to stop it by"),
        (signal.SIGINT, "grace, workers"),
        (signal.SIGINT, "Ctrl-C"),
        (signal.SIGTERM, "Ctrl-C, workers"),
    ],
)
def test_what_does_not_end_in_time_is_given_up(tmp_path: Path, first: signal.Signals, case: str) -> None:
    """At the end of the grace, or on Ctrl-C before. One request runs and one waits."""
    hurry, stoppable, workers = "Ctrl-C" in case, "no word" not in case, 1 + ("workers" in case)
    grace = 600 if hurry else 0.5
    options: list[object] = ["--max-concurrency", 1, "--grace", grace, "--workers", workers]
    body: object
    if stoppable:
        model, body = tmp_path / "endless.hlo", 1
        model.write_text(ENDLESS)
    else:
        model, body = toy(state=False).save(tmp_path / "toy.wasm"), ENDLESS_TOY
        np.save(tmp_path / "w.npy", np.zeros((2, 3), np.float32))
        options += ["--set", f"w={tmp_path}/w.npy"]

    async def work(process: subprocess.Popen[str], url: str) -> list[httpx.Response]:
        async with httpx.AsyncClient(timeout=120) as client:
            running = [asyncio.create_task(client.post(url, json=body)) for _ in range(2)]
            await _begun(url, 2)
            process.send_signal(first)
            line = await asyncio.to_thread(_line, process)
            again = " again" if workers == 1 and first == signal.SIGINT else ""
            assert line == f"waiting up to {grace:g} s for 1 run; Ctrl-C{again} ends it now\n"
            if hurry:
                process.send_signal(signal.SIGINT)
            return await asyncio.gather(*running)

    with server(model, *options, code=1) as (process, url):
        for response in asyncio.run(work(process, url)):
            assert response.status_code == 503 and response.json()["error"]["status"] == 503
        assert process.wait(60) == 1
        assert process.stderr is not None
        why = "by Ctrl-C" if hurry else "not done 0.5 s after the signal to end"
        assert f"1 run cut off: {why}\n" in process.stderr.read()


@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_ends_it_as_shells_expect(workers: int) -> None:
    with server(DIGITS, "--workers", workers, code=130) as (process, url):
        assert httpx.post(url, json=IMAGE).status_code == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr is not None and process.stderr.read() == "", "no run was under way"


@pytest.mark.parametrize("workers", [1, 2])
def test_signals_while_it_ends_change_nothing(workers: int) -> None:
    """To the last moment, in which Python takes itself down."""
    for _ in range(3):
        with server(DIGITS, "--workers", workers) as (process, _url):
            while process.poll() is None:
                process.terminate()
                time.sleep(0.0005)


def test_a_signal_that_comes_when_it_is_ignored_from_then_on() -> None:
    """Says nothing: Python prints a traceback if it finds a signal that had a handler when it came."""
    program = """
import signal, sys
from xla_wasm.server.process import _ignore
_ignore(signal.SIGTERM)
print("begun", flush=True)
for _ in range(20000):
    signal.signal(signal.SIGTERM, lambda *_: None)
    _ignore(signal.SIGTERM)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == "begun\n"
        while process.poll() is None:
            process.send_signal(signal.SIGTERM)
        assert process.returncode == 0 and process.stderr.read() == ""


def _workers(pid: int) -> list[int]:
    """The worker processes of a server: its children that are no helpers of Python's."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


def _posted(url: str) -> Any:
    """One request over a connection of its own, that it may come to any worker."""
    return httpx.post(url, json=IMAGE, headers={"Connection": "close"})


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks for processes in /proc")
def test_a_worker_that_dies_is_replaced_and_all_count_together() -> None:
    with server(DIGITS, "--workers", 2, code=None) as (process, url):
        for _ in range(20):
            assert _posted(url).status_code == 200
        counts = re.findall(r"run_seconds_count (\d+)", httpx.get(url + "metrics").text)
        assert counts == ["20"]
        before = _workers(process.pid)
        assert len(before) == 2
        os.kill(before[0], signal.SIGKILL)
        end = time.monotonic() + 60
        while len(set(_workers(process.pid)) - {before[0]}) != 2:
            assert time.monotonic() < end
            time.sleep(0.05)
        after = _workers(process.pid)
        for _ in range(5):
            assert _posted(url).status_code == 200
        # Workers do not outlive their parent, however that ends.
        process.kill()
        process.wait()
        while any(Path(f"/proc/{pid}").exists() for pid in after):
            assert time.monotonic() < end
            time.sleep(0.05)


def _raw(url: str, data: bytes) -> bytes:
    """Sends bytes on a connection, and returns those that come back until the server closes it."""
    parts = httpx.URL(url)
    with socket.create_connection((parts.host, parts.port), 60) as connection:
        connection.sendall(data)
        received = b""
        while chunk := connection.recv(65536):
            received += chunk
    return received


def test_what_is_no_good_http_does_not_harm_it() -> None:
    with server(DIGITS, "--body-timeout", 0.5, "--max-body", 5000) as (_, url):
        post = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        assert b" 413 " in _raw(url, post + b"Content-Length: 6000\r\n\r\n" + b" " * 6000).splitlines()[0]
        assert (
            b" 413 "
            in _raw(
                url, post + b"Transfer-Encoding: chunked\r\n\r\n" + (b"7d0\r\n" + b" " * 2000 + b"\r\n") * 9
            ).splitlines()[0]
        )
        assert b" 413 " in _raw(url, post + b"Expect: 100-continue\r\nContent-Length: 6000\r\n\r\n").splitlines()[0]
        assert b" 408 " in _raw(url, post + b"Content-Length: 100\r\n\r\n[1,").splitlines()[0]
        assert b" 431 " in _raw(url, b"GET / HTTP/1.1\r\nX: " + b"x" * 70_000).splitlines()[0]
        head, _, body = _raw(url, b"\x16\x03\x01 what is this\r\n\r\n").partition(b"\r\n\r\n")
        assert b" 400 " in head.splitlines()[0] and json.loads(body)["error"]["status"] == 400
        both = _raw(url, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nwhat is this\r\n\r\n")
        assert both.startswith(b"HTTP/1.1 200 ") and both.endswith(b"ok\n"), (
            "the answer that is under way is given whole, and then it ends"
        )
        assert httpx.post(url, json=IMAGE).status_code == 200


async def _slow_heads(pieces: list[bytes]) -> bytes:
    """Returns the bytes that come back on a connection where pieces of a request come one after another, and then
    nothing."""

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    config = uvicorn.Config(application)
    config.load()
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(lambda: connections.Connection(config, ServerState(), {}), "127.0.0.1", 0)
    async with listening, asyncio.timeout(60):
        reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname())
        for piece in pieces:
            writer.write(piece)
            await asyncio.sleep(0.02)
        received = await reader.read()
        writer.close()
    return received


@pytest.mark.parametrize("pieces", [[], [b"GET / HTTP/1.1\r\n"], [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"GET / H"]])
def test_a_head_that_does_not_come_is_not_waited_for(pieces: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.3)
    received = asyncio.run(_slow_heads(pieces))
    assert received.count(b" 204 ") == max(0, len(pieces) - 1)
    assert b"HTTP/1.1 408 Request Timeout" in received and b'"status":408' in received
