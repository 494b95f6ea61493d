"""Node and Chromium as hosts that are fuzzed: one process or page tries artifacts one after another, and says what came
of each."""

from __future__ import annotations

import atexit
import json
import os
import queue
import resource
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.chromium import ARGUMENTS, find
from tests.support.js_calls import LOADER, NEWEST_NODE, SCRIPTS, isolated_site
from tests.support.web_server import Answer
from xla_wasm import XlaWasmError

HANGS = 1.0
"""Seconds after which a module that runs in the loader's own thread, where nobody can end it, counts as one without
end."""
_START = 60.0
_PAGE = b"""<!doctype html><title>Fuzz</title><script type="module">
import * as api from '/web/xla_wasm.js';
import { tryAll } from '/js/fuzzed.mjs';
tryAll(api, location.origin);
</script>"""
Command = Callable[[str, Path], Sequence[str | os.PathLike[str]]]
"""Returns the words of the command to start, given the address of a site and a folder for its own use."""


class Refused(XlaWasmError):
    """An error of the loader's own; `where` tells outcomes apart."""

    def __init__(self, message: str, where: str) -> None:
        super().__init__(message)
        self.where = where


class Fault(Exception):
    """Anything else that the loader does."""

    def __init__(self, message: str, where: str) -> None:
        super().__init__(message)
        self.where = where


class Engine:
    """A Node or a Chromium that asks for inputs. It is started when the first one is there, and again after it has been
    ended."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._inputs: queue.Queue[tuple[str, bytes]] = queue.Queue()
        self._outcomes: queue.Queue[dict[str, Any]] = queue.Queue()
        self._lifetime: ExitStack | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, mode: str, data: bytes) -> None:
        """Tries one artifact in a mode of fuzzed.mjs: Refused or Fault if it does not go well."""
        if self._process is None:
            self._start()
        self._inputs.put((mode, data))
        try:
            outcome = self._outcome(HANGS if mode == "here" else _START)
        except TimeoutError:
            self.stop()
            if mode == "here":
                raise Refused("the module goes on for ever where nobody can end it", "for ever") from None
            raise
        except BaseException:
            self.stop()
            raise
        if outcome["fault"]:
            raise Fault(outcome["message"], outcome["where"])
        if outcome["where"] != "ok":
            raise Refused(outcome["message"], outcome["where"])

    def _outcome(self, seconds: float) -> dict[str, Any]:
        assert self._process is not None
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with suppress(queue.Empty):
                return self._outcomes.get(timeout=0.1)
            if self._process.poll() is not None:
                raise Fault(f"the engine ended with {self._process.returncode}", "ended")
        raise TimeoutError("the engine does not answer")

    def _start(self) -> None:
        # That an engine starts is no part of the time that an input takes.
        left, _ = signal.setitimer(signal.ITIMER_REAL, 0)
        self._inputs, self._outcomes, self._lifetime = queue.Queue(), queue.Queue(), ExitStack()
        site = isolated_site({"/": Answer(_PAGE, "text/html")})
        site.post = _hand_out(self._inputs, self._outcomes)
        self._lifetime.enter_context(site.serving())
        folder = Path(self._lifetime.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        command = self._command(site.url, folder)
        quiet: Any = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with _unlimited():
            self._process = subprocess.Popen(command, start_new_session=True, **quiet)
        self._inputs.put(("here", b""))
        try:
            self._outcome(_START)
        except BaseException:
            self.stop()
            raise
        signal.setitimer(signal.ITIMER_REAL, left)

    def stop(self) -> None:
        """Ends it, with whatever it is doing."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if self._lifetime is not None:
            self._inputs.put(("", b""))  # for the request that waits
            self._lifetime.close()


def _hand_out(
    inputs: queue.Queue[tuple[str, bytes]], outcomes: queue.Queue[dict[str, Any]]
) -> Callable[[str, bytes], Answer]:
    """Takes the outcome of an input, and answers with the next one."""

    def post(path: str, body: bytes) -> Answer:
        outcome = json.loads(body)
        if outcome is not None:
            outcomes.put(outcome)
        mode, data = inputs.get()
        return Answer(data, headers={"X-Mode": mode})

    return post


@contextmanager
def _unlimited() -> Iterator[None]:
    """Engines reserve more memory than the fuzzer allows itself."""
    least, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (least, most))


def _node(url: str, folder: Path) -> Sequence[str | os.PathLike[str]]:
    return [NEWEST_NODE, SCRIPTS / "call_node.mjs", LOADER, url, "fuzzed.mjs", "tryAll", "null"]


def _chromium(url: str, folder: Path) -> Sequence[str | os.PathLike[str]]:
    return [find(shell=True), *ARGUMENTS, f"--user-data-dir={folder / 'profile'}", "--remote-debugging-port=0", url]


@cache
def engine(name: str) -> Engine:
    """The engine of this process of that name."""
    made = Engine({"node": _node, "chromium": _chromium}[name])
    atexit.register(made.stop)
    return made


def stop_all() -> None:
    """Ends the engines of this process."""
    for name in ("node", "chromium"):
        engine(name).stop()
