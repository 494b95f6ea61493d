"""Loads a served model with a fixed number of requests a second, however long the answers take, and prints how long
they took.

    python -m benchmarks.serve_load                      # starts `xla-wasm serve-model` with the digits: 500 requests a
    second for 60 s python -m benchmarks.serve_load --seconds 20 --kill  # ends it with SIGTERM in the middle python -m
    benchmarks.serve_load --url ADDRESS        # another server of the same model and interface

A request's time begins when it is due, not when a connection is free for it, so a server that stalls is not spared the
requests that would have come meanwhile. Each answer is compared with JAX's. The exit code is 1 if one is wrong or
missing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from xla_wasm.command import report

DIGITS = Path(__file__).parents[1] / "examples" / "digits"
MODEL = DIGITS / "digits.hlo.pb"
_TOLERANCE = 1e-3
_PATIENCE = 30.0
"""Seconds after which an answer is missing."""


@dataclass
class Load:
    """The requests of a load and their outcomes. Times are those of the event loop, in seconds."""

    address: tuple[str, int]
    bodies: list[bytes]
    expected: np.ndarray
    seconds: list[float] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    """Requests that were sent in full before the server was told to end, and not answered."""
    sent: int = 0
    """All requests that were sent in full before that."""
    ended_at: float = float("inf")
    """The time at which the server was told to end."""
    idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = field(default_factory=list)
    connections: int = 0

    async def request(self, number: int, due: float) -> None:
        """Sends one request at its time and waits for the answer."""
        which = number % len(self.bodies)
        clock = asyncio.get_running_loop().time
        sent = float("inf")
        try:
            async with asyncio.timeout(_PATIENCE):
                reader, writer = await self._connection()
                writer.write(self.bodies[which])
                sent = clock()
                self.sent += sent <= self.ended_at
                status, body, keep = await _answer(reader)
        except ConnectionRefusedError:
            self._missing("refused", sent)
        except TimeoutError:
            self._missing("no answer", sent)
        except (OSError, asyncio.IncompleteReadError):
            self._missing("connection closed", sent)
        else:
            self.seconds.append(clock() - due)
            right = status == 200 and np.allclose(json.loads(body)["result"], self.expected[which], atol=_TOLERANCE)
            self.outcomes["right" if right else f"status {status}" if status != 200 else "wrong result"] += 1
            if keep:
                self.idle.append((reader, writer))
            else:
                writer.close()

    async def _connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """An idle connection that the server has not closed, or a new one."""
        while self.idle:
            reader, writer = self.idle.pop()
            if not reader.at_eof():
                return reader, writer
            writer.close()
        self.connections += 1
        return await asyncio.open_connection(*self.address)

    def _missing(self, what: str, sent: float) -> None:
        after = sent > self.ended_at
        self.outcomes[f"{what}, after the signal" if after else what] += 1
        self.lost += not after


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes, bool]:
    """Status and body of an answer, and whether the connection stays open."""
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").rstrip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers["content-length"]))
    return int(first.split()[1]), body, headers.get("connection", "").lower() != "close"


async def run(load: Load, rate: float, seconds: float, end_server: int | None = None) -> None:
    """Sends `rate` requests a second; with `end_server`, a process, that one gets SIGTERM at half time."""
    loop = asyncio.get_running_loop()
    tasks = set()
    begin = loop.time() + 0.1
    count = round(rate * seconds)
    for number in range(count):
        due = begin + number / rate
        await asyncio.sleep(max(due - loop.time(), 0))
        if end_server is not None and number == count // 2:
            load.ended_at = loop.time()
            os.kill(end_server, signal.SIGTERM)
        task = loop.create_task(load.request(number, due))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    for _, writer in load.idle:
        writer.close()


def digits(url: str) -> Load:
    """The requests: the held-out images as JSON, and JAX's answers."""
    images = np.load(DIGITS / "images.npy").astype(np.float32)[:, :, :, None] / 16
    parts = urlsplit(url)
    address = (parts.hostname or "127.0.0.1", parts.port or 80)
    head = (
        f"POST {parts.path or '/'} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n"
        f"Content-Length: "
    )
    bodies = [json.dumps({"image": [image.tolist()]}).encode() for image in images]
    requests = [f"{head}{len(body)}\r\n\r\n".encode() + body for body in bodies]
    return Load(address, requests, np.load(DIGITS / "logits.npy")[:, None, :])


def start(options: Sequence[str]) -> tuple[subprocess.Popen[str], str]:
    """The server as a process of its own, and its address."""
    command = [sys.executable, "-m", "xla_wasm", "serve-model", str(MODEL), "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line.startswith("http"):
        raise SystemExit(f"the server did not start: {line or 'see above'}")
    return process, line.split()[0]


def main(arguments: Sequence[str] | None = None) -> int:
    """Parses the command line, loads the server, and prints; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serve_load", description=__doc__)
    parser.add_argument("--rate", type=float, default=500.0, help="requests a second (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=60.0, help="for how long (default %(default)s)")
    parser.add_argument(
        "--url", help="a server that runs already; else one is started, with the options that follow --"
    )
    parser.add_argument(
        "--kill", action="store_true", help="end the server that was started with SIGTERM, in the middle"
    )
    parser.add_argument("options", nargs="*", help="options of xla-wasm serve-model, after --")
    chosen = parser.parse_args(arguments)
    if chosen.kill and chosen.url:
        parser.error("--kill ends only a server that this command has started")
    process, url = (None, chosen.url) if chosen.url else start(chosen.options)
    code: int | None = None
    try:
        load = digits(url)
        asyncio.run(run(load, chosen.rate, chosen.seconds, process.pid if process and chosen.kill else None))
    finally:
        if process is not None:
            process.terminate()
            began = time.monotonic()
            code = process.wait(60)
            ended = time.monotonic() - began
    _print(load, chosen.rate)
    if process is not None:
        print(f"the server ended with code {code}" + ("" if chosen.kill else f" {ended:.2f} s after SIGTERM"))
        used = (resource.getrusage(who) for who in (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF))
        server, client = (report.duration((u.ru_utime + u.ru_stime) / sum(load.outcomes.values())) for u in used)
        print(f"processor time a request: server {server} (its start included), client {client}")
    unexpected = sum(
        count for what, count in load.outcomes.items() if what != "right" and not what.endswith("after the signal")
    )
    return 1 if unexpected or load.lost or code not in (None, 0) else 0


def _print(load: Load, rate: float) -> None:
    console = report.console()
    table = report.table("outcome", ">requests")
    for what, count in load.outcomes.most_common():
        table.add_row(what, f"{count:,}")
    console.print(table)
    if load.seconds:
        times = np.sort(load.seconds)
        quantiles = {"p50": 0.5, "p99": 0.99, "max": 1.0}
        shown = ", ".join(f"{name} {report.duration(float(np.quantile(times, q)))}" for name, q in quantiles.items())
        console.print(
            f"{rate:g} requests a second: {shown}; {load.connections} connections opened, {load.lost} requests lost"
        )


if __name__ == "__main__":
    sys.exit(main())
